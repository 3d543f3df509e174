"""The data of a job: points or a graph, from any file that is read."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.preprocessing.request import Preparation
from mustlink_io.formats import (
    anndata,
    arrays,
    coordinates,
    edges,
    frames,
    matrices,
    networks,
    stream,
    tables,
)
from mustlink_io.formats.data import Apart, Data, PointsSpec, Read, Reopen, Want, points
from mustlink_io.formats.names import NodeNames, names_or_none
from mustlink_io.hdf5 import size_checks, store
from mustlink_io.hdf5.file_names import EDGES, HDF5, METIS, PICTURES, SUFFIXES, Place, parse


def graph_of(found: Read, want: Want | None, place: Place) -> Data:
    """The graph in a matrix; raises InputError."""
    value, sparse = found.value, sp.issparse(found.value)
    if want != "bipartite" and value.shape[0] != value.shape[1]:
        other = "; make a graph of points by mustlink graph"
        if sparse:
            other = "; --as bipartite takes rows and columns as nodes"
        raise InputError(f"{place}: shape {value.shape}, but an affinity matrix is square{other}")
    if not sparse and (value.ndim != 2 or value.dtype.kind not in "fiub"):
        raise InputError(f"{place}: values of type {value.dtype}; weights are real numbers")
    if not sparse:
        size_checks.check_fits(8 * math.prod(value.shape), str(place))
    # an HDF5 dataset or a memory map is read here
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = value if sparse else sp.csr_matrix(np.asarray(value[...], dtype=np.float64))
    if want == "bipartite":
        return _bipartite(sp.csr_matrix(matrix), found, place)
    if want == "directed" or not found.arcs:
        return Data("graph", matrix, place, found.names)
    affinity, notes, doubts = undirected(matrix, str(place))
    return Data("graph", affinity, place, found.names, notes=notes, doubts=doubts)


def _bipartite(matrix: sp.csr_matrix, found: Read, place: Place) -> Data:
    """Rows and columns, or both columns of a list of edges, as nodes."""
    from mustlink.graph import bipartite_graph

    n = None if found.arcs else _rows_first(matrix)
    if n is not None:
        m = matrix.shape[0] - n
        note = f"{place}: joins {n:,} nodes with the {m:,} after them: the rows, and the columns"
        return Data("graph", matrix, place, found.names, notes=(note,), sides=(n, m))
    if found.is_graph and not found.arcs:
        raise InputError(
            f"{place}: is a graph, its nodes of both kinds, if there are two; leave out --as "
            "bipartite, which is for matrices and lists of edges"
        )
    texts: list[NDArray[np.object_]] = []
    if found.arcs:
        matrix, texts = _two_columns(matrix, found.names)
    elif found.names is not None and len(found.columns) == matrix.shape[1]:
        texts = [found.names.texts, np.array(found.columns, dtype=object)]
    try:
        graph = bipartite_graph(matrix)
    except InputError as error:
        raise InputError(f"{place}: {str(error).removeprefix('M: ')}") from None
    n, m = matrix.shape
    sides = "first and {m:,} second ends of edges" if found.arcs else "rows and {m:,} columns"
    note = f"{place}: {n:,} {sides.format(m=m)} are nodes, {matrix.nnz:,} entries their edges"
    names = NodeNames(np.concatenate(texts), str(place)) if texts else None
    if names is not None and names.repeated is not None:
        note += f"; names are on both sides, so number nodes from 0, the second ones from {n}"
    return Data("graph", graph.affinity, place, names, notes=(note,), sides=(n, m))


def _rows_first(W: sp.csr_matrix) -> int | None:
    """N where W is [[0, M], [Mᵀ, 0]] with M (n, m) already, else None. O(nnz)."""
    if W.shape[0] != W.shape[1] or W.nnz == 0:
        return None
    coo = W.tocoo()
    above = coo.row < coo.col
    if not above.any() or coo.row[above].max() >= coo.col[above].min():
        return None
    n = int(coo.row[above].max()) + 1  # nodes between without an edge may be on either side
    mixed = (coo.row < n) == (coo.col < n)
    return None if mixed.any() or abs(W - W.T).nnz else n


def _two_columns(
    arcs: sp.csr_matrix, names: NodeNames | None
) -> tuple[sp.csr_matrix, list[NDArray[np.object_]]]:
    """M of the first ends of edges by the second ones, each numbered apart, and their names."""
    arcs.eliminate_zeros()
    there = np.diff(arcs.indptr) > 0, np.bincount(arcs.indices, minlength=arcs.shape[1]) > 0
    first, second = (np.flatnonzero(one) for one in there)
    if not first.size:
        return arcs, []
    if names is None:
        return arcs[: first[-1] + 1, : second[-1] + 1], []
    return arcs[first][:, second], [names.texts[first], names.texts[second]]


def undirected(
    arcs: sp.csr_matrix, where: str
) -> tuple[sp.csr_matrix, tuple[str, ...], tuple[str, ...]]:
    """The larger weight of both directions, and what to note and to doubt about that."""
    back = arcs.T.tocsr()
    found = arcs.maximum(back)
    found.eliminate_zeros()
    given = arcs.copy()
    given.eliminate_zeros()
    loops = int(np.count_nonzero(given.diagonal()))
    one = int(found.nnz - given.nnz)
    both = (int(given.nnz) - loops - one) // 2
    if not both:
        return found, (), ()
    differ: Any = arcs != back  # those in one direction twice
    unequal = (int(differ.nnz) - 2 * one) // 2
    cure = "where directions matter: mustlink cluster -m disim"
    if unequal:
        doubt = (
            f"{where}: {unequal:,} of {both:,} edges that are given in both directions weigh "
            f"differently, and the larger weight counts; {cure}"
        )
        return found, (), (doubt,)
    if not one:
        return found, (), ()
    note = (
        f"{where}: {both:,} edges are given in both directions, {one:,} in one only, which is "
        f"not told apart; {cure}"
    )
    return found, (note,), ()


def doubt_points(shape: tuple[int, ...], place: Place) -> str:
    """What to say of a rectangular sparse matrix that is read as points without being asked to."""
    return (
        f"{place}: a sparse matrix of {shape[0]:,} x {shape[1]:,} is read as {shape[0]:,} points "
        "with a graph of their neighbours; where its entries join rows with columns: mustlink "
        "cluster --as bipartite (--as points: they are points)"
    )


def arcs(found: edges.Found) -> Read:
    """Edges as a file lists them, each in its direction."""
    return Read(*found, is_graph=True, arcs=True)


def of_csv(place: Place, asked: PointsSpec) -> Read:
    """Edges or points of a table in text; raises InputError."""
    words = tables.words_of(tables.first_line(place.path)[1])
    if edges.is_edge_table(words):
        return arcs(edges.read_edges(place.path, directed=True))
    try:
        names, numbers = tables.read_csv(place.path)
        table = tables.exact(place.path, names, numbers)
        if tables.find_column(names[:1], tables.NODE) is None and not asked.apart:
            doubts = coordinates.doubtful(table, str(place), asked.steps.drop)
            return Read(numbers, doubts=doubts, columns=table.header)
    except tables.WordError as error:
        table = tables.read_table(place.path)
        try:
            return of_table(table, str(place), asked)
        except coordinates.TextColumnsError as found:
            if tables.find_column(words[:1], tables.NODE) is None:
                raise _hinted(error, found, place, words) from error
            raise
    return of_table(table, str(place), asked)


def _hinted(error: InputError, found: InputError, place: Place, header: list[str]) -> InputError:
    """The error of a table whose words may be the ends of edges: with what to do."""
    if all(map(tables.is_number, header)):
        return error  # no header: the place of the word says more
    number, line = tables.first_line(place.path)
    below = edges.second_line(place.path, number, line)[1].split(tables.delimiter(line))
    text = [bool(word.strip()) and not tables.is_number(word.strip(' "')) for word in below]
    if len(header) not in (2, 3) or len(below) != len(header) or not all(text[:2]):
        return found
    columns = ",".join(("source", "target", "weight")[: len(header)])
    return InputError(
        f"{place}: has words where coordinates of points are numbers; if it is a list of edges, "
        f"begin it with the header `{columns}` ({str(error).removeprefix(f'{place}: ')})"
    )


def of_table(table: tables.Table, where: str, asked: PointsSpec) -> Read:
    """Edges or points of a table, as its header says; raises InputError."""
    if edges.is_edge_table(table.header):
        return arcs(edges.of_table(table, where, directed=True))
    table, notes = coordinates.without(table, asked.apart, where)
    values, texts = coordinates.points_of(table, where, asked.steps.one_hot, asked.steps.drop)
    doubts = coordinates.doubtful(table, where, asked.steps.drop)
    columns = coordinates.titles(table)
    if texts is None:
        return Read(values, doubts=doubts, columns=columns, notes=notes)
    names = names_or_none(texts, where)
    note = f"{where}: its column {store.text(table.header[0])[:40]!r} is taken as names of points"
    return Read(values, names, note, doubts=doubts, columns=columns, notes=notes)


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
    asked = PointsSpec(coordinates.still_to_drop(steps, apart), lazy_above, apart, gaps)
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


def _read(place: Place, asked: PointsSpec, *, directed: bool) -> Read:
    path = place.path
    if place.suffix == ".npy":
        return Read(arrays.load_npy(path))
    if place.suffix == ".npz":
        return Read(arrays.pick(place))
    if place.suffix == ".mtx":
        return Read(matrices.read_mtx(path))
    if place.suffix in METIS:
        matrix, note = networks.read_metis(path)
        return Read(matrix, None, note, is_graph=True)
    if place.suffix == ".graphml":
        return Read(*networks.read_graphml(path, directed=directed), is_graph=True)
    if place.suffix in EDGES:
        return arcs(edges.read_edges(path, directed=True))
    if place.suffix == ".parquet":
        return of_table(frames.read_parquet(path), str(path), asked)
    if place.suffix == ".csv":
        return of_csv(place, asked)
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
    asked: PointsSpec,
    reopen: Reopen | None = None,
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
        return graph_of(found, want, place)
    doubts: tuple[str, ...] = ()
    if sparse and want is None and place.suffix != anndata.ENDING:
        doubts = (doubt_points(value.shape, place),)
    if sparse:
        value = matrices.DenseRows(value)
    made, fitted, kept = points(value, asked, found.columns, str(place), advance, reopen)
    return Data(
        "points",
        made,
        place,
        found.names,
        notes=() if fitted is None else fitted.notes,
        doubts=doubts,
        columns=found.columns,
        fitted=fitted,
        kept=kept,
        left_out=0 if kept is None else int(value.shape[0]) - kept.size,
    )


def _load_h5(place: Place, want: Want | None, advance: stream.Advance, asked: PointsSpec) -> Data:
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
    asked: PointsSpec,
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
