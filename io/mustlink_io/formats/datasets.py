"""The data of a job: points or a graph, from any file that is read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.preparation.request import Preparation
from mustlink_io.formats import (
    anndata,
    arrays,
    edges,
    frames,
    graph_forms,
    matrices,
    metis,
    networks,
    npz,
    own_columns,
    preparing,
    stream,
    table_data,
)
from mustlink_io.formats.data import Data, Read, Want
from mustlink_io.formats.names import NodeNames, names_or_none
from mustlink_io.formats.preparing import Apart
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.file_names import EDGES, HDF5, METIS, PICTURES, SUFFIXES, Place, parse

DATA_NAMES = ("/points", "/X", "/graph")

_NOTHING = Preparation()


def load(
    text: str,
    want: Want | None = None,
    advance: stream.Advance = stream.silent,
    lazy_above: int | None = None,
    steps: Preparation = _NOTHING,
    apart: tuple[Apart, ...] = (),
    gaps: bool = False,
) -> Data:
    """Load points or a graph; the file's contents decide unless `want` does.

    Square sparse matrices are graphs, dense ones points; `want="graph"` takes a dense square
    matrix as an affinity, `want="points"` a sparse one as points, "bipartite" any as edges between
    its rows and columns, "directed" edges in their directions. Points in HDF5 that need more than
    `lazy_above` bytes are checked but not kept: the value is `stream.PointRows`, or `PreparedRows`
    where `steps` prepare their columns. The columns `apart` of a table are left out; `gaps` are
    kept as NaN if allowed. Raises InputError.
    """
    place = parse(text)
    store.check_readable(place.path)
    asked = preparing.Asked(own_columns.still_to_drop(steps, apart), lazy_above, apart, gaps)
    if place.suffix in HDF5:
        return _load_h5(place, want, advance, asked)
    if place.part and place.suffix != ".npz":
        raise InputError(f"{place}: a table of points has no parts; give {place.path}")
    found = _read(place, asked, directed=want == "directed")
    data = _decide(found, want, place, advance, asked)
    one_kind = not (found.arcs and data.sides)  # of nodes, which is what the note says
    notes = (found.note,) if found.note is not None and one_kind else ()
    doubts = (*found.doubts, *data.doubts)
    return replace(data, notes=(*notes, *found.notes, *data.notes), doubts=doubts)


def _read(place: Place, asked: preparing.Asked, *, directed: bool) -> Read:
    """The matrix in a file that is not HDF5."""
    path = place.path
    if place.suffix == ".npy":
        return Read(arrays.load_npy(path))
    if place.suffix == ".npz":
        return Read(npz.pick(place))
    if place.suffix == ".mtx":
        return Read(matrices.read_mtx(path))
    if place.suffix in METIS:
        matrix, note = metis.read_metis(path)
        return Read(matrix, None, note, is_graph=True)
    if place.suffix == ".graphml":
        return Read(*networks.read_graphml(path, directed=directed), is_graph=True)
    if place.suffix in EDGES:
        return table_data.arcs(edges.read_edges(path, directed=True))
    if place.suffix == ".parquet":
        return table_data.of_table(frames.read_parquet(path), str(path), asked)
    if place.suffix == ".csv":
        return table_data.of_csv(place, asked)
    if place.suffix in PICTURES:
        raise InputError(
            f"{place}: a picture; cut it: mustlink cut {path.name} -o cut.png, or make a graph of "
            f"its pixels, which this command takes: mustlink graph {path.name} -o {path.stem}.h5"
        )
    if place.suffix in (".tif", ".tiff"):
        raise InputError(
            f"{place}: a TIFF; cut it: mustlink cut {path.name} --strokes strokes.tif -o "
            "labels.tif, or save a single page as PNG and make a graph of it"
        )
    raise InputError(f"{place}: unknown ending {place.suffix!r}; readable are {SUFFIXES}")


def _decide(
    found: Read,
    want: Want | None,
    place: Place,
    advance: stream.Advance,
    asked: preparing.Asked,
    reopen: preparing.Reopen | None = None,
) -> Data:
    """Make a graph or points of a matrix, as wanted or as its form suggests."""
    value, is_graph = found.value, found.is_graph
    sparse = sp.issparse(value)
    square = value.ndim == 2 and value.shape[0] == value.shape[1]
    if want == "points" and is_graph:
        raise InputError(f"{place}: is a graph, where points are wanted")
    if want not in (None, "points") or (want is None and sparse and square):
        if not asked.steps.is_nothing:
            raise InputError(f"{place}: is a graph, which has no columns to prepare")
        return graph_forms.graph_of(found, want, place)
    doubts: tuple[str, ...] = ()
    if sparse and want is None and place.suffix != anndata.ENDING:
        doubts = (graph_forms.doubt_points(value.shape, place),)
    if sparse:
        value = matrices.DenseRows(value)
    made = preparing.points(value, asked, found.columns, str(place), advance, reopen)
    left_out = 0 if made.kept is None else int(value.shape[0]) - made.kept.size
    return Data(
        "points",
        made.value,
        place,
        found.names,
        notes=made.notes,
        doubts=doubts,
        columns=found.columns,
        fitted=made.fitted,
        kept=made.kept,
        left_out=left_out,
    )


def _load_h5(
    place: Place, want: Want | None, advance: stream.Advance, asked: preparing.Asked
) -> Data:
    with store.open_h5(place.path) as file:
        name, note = default_part(file, place, want)
        named = Place(place.path, name)
        data = _of_h5(file, named, want, advance, asked)
        names = _names(file, place, name, data.n_rows) if data.sides is None else None
        notes = () if note is None else (note,)
        image = _image(file, data, name)
        return replace(data, names=names, notes=(*notes, *data.notes), image=image)


def _of_h5(
    file: h5py.File,
    named: Place,
    want: Want | None,
    advance: stream.Advance,
    asked: preparing.Asked,
) -> Data:
    name = str(named.part)
    if matrices.is_sparse_group(store.find(file, name)):
        anndata.refuse_distances(file, name)
        found = Read(matrices.read_sparse(file, name))
        data = _decide(found, want, named, advance, asked)
        if data.kind == "points" or data.sides is not None:
            return data
        weights, rows = matrices.read_copies(file, name, int(found.value.shape[0]))
        return replace(data, weights=weights, rows=rows)
    found = Read(store.dataset(file, name))
    return _decide(
        found, want, named, advance, asked, lambda raw: stream.PointRows(named.path, name, raw=raw)
    )


def _image(file: h5py.File, data: Data, part: str) -> NDArray[Any] | None:
    """The picture that a graph is of, None if the file has none."""
    if part.strip("/") != "graph" or data.kind != "graph" or store.find(file, "/image") is None:
        return None
    image: NDArray[Any] = store.read(file, "/image", {}, "/image")
    if image.shape[0] * image.shape[1] != data.value.shape[0] or image.dtype != np.uint8:
        raise InputError(
            f"{file.filename}:/image: shape {image.shape} of type {image.dtype}; wanted are red, "
            f"green and blue as uint8 of the {data.value.shape[0]} nodes"
        )
    return image


def _names(file: h5py.File, place: Place, part: str, n_rows: int) -> NodeNames | None:
    """Names of nodes in a file of mustlink (`/names`) or AnnData (the index of obs)."""
    if place.suffix == anndata.ENDING:
        anndata.check_rows(file, part, n_rows)
        return anndata.node_names(file) if anndata.is_per_node(part) else None
    if store.find(file, "/names") is None or part.strip("/") not in ("points", "X", "graph"):
        return None
    texts = store.texts(file, "/names")
    if len(texts) != n_rows:
        raise InputError(f"{place.path}:/names: {len(texts)} names of {n_rows} nodes")
    return names_or_none(texts, str(place.path))


def default_part(file: h5py.File, place: Place, want: Want | None) -> tuple[str, str | None]:
    """The part that was named, or the first of the usual ones that the file has, and a note."""
    if place.part:
        return place.part, None
    names = ("/graph",) if want == "graph" else DATA_NAMES
    if place.suffix == anndata.ENDING and want != "bipartite":
        if want == "graph" and store.find(file, "/obsp/connectivities") is not None:
            return "/obsp/connectivities", f"{place.path}: /obsp/connectivities is taken as graph"
        if want != "graph":
            choice = anndata.default_part(file)  # the graph if there is nothing else
            return choice.name, choice.note
    for name in names:
        if store.find(file, name) is not None:
            return name, None
    raise InputError(
        f"{place.path}: none of {', '.join(names)} in it; name one of its datasets as "
        f"{place.path.name}:DATASET (it has {store.listed(file)})"
    )


def declared_shape(text: str) -> tuple[int, ...] | None:
    """Shape of the data without reading it where that is cheap (HDF5, .npy), else None."""
    place = parse(text)
    if place.suffix == ".npy":
        return tuple(arrays.load_npy(place.path).shape)
    if place.suffix not in HDF5:
        return None
    with store.open_h5(place.path) as file:
        name, _ = default_part(file, place, None)
        if matrices.is_sparse_group(store.find(file, name)):
            return matrices.sparse_shape(file, name)
        return tuple(store.dataset(file, name, values=False).shape)
