"""What is in a file: points, a graph, labels or pairs, from `FILE` or `FILE:DATASET`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io import arrays, declared, matrices, store, stream, tables

HDF5 = (".h5", ".hdf5", ".he5", ".h5ad")
EDGES = (".edges", ".txt", ".tsv")
DATA_NAMES = ("/points", "/X", "/graph")
LABEL_NAMES = ("/labels", "/y")
SUFFIXES = "FILE.h5[:DATASET], .h5ad, .npy, .npz, .mtx, .csv, or an edge list .edges, .txt, .tsv"

Kind = Literal["points", "graph"]


@dataclass(frozen=True)
class Place:
    """A file, and the dataset in it if one was named."""

    path: Path
    part: str | None = None

    def __str__(self) -> str:
        return f"{self.path}:{self.part}" if self.part else str(self.path)

    @property
    def suffix(self) -> str:
        """File name ending in small letters."""
        return self.path.suffix.lower()


@dataclass(frozen=True)
class Data:
    """What was loaded: points (n, d) float32, or an affinity (n, n) CSR."""

    kind: Kind
    value: Any
    place: Place


def parse(text: str) -> Place:
    """Split `FILE.h5:DATASET`; a colon counts only after an ending that can have datasets."""
    found = re.fullmatch(r"(.+?\.(?:h5|hdf5|he5|h5ad|npz)):([^:]*)", text, re.IGNORECASE)
    if found is None or Path(text).exists():
        return Place(Path(text))
    return Place(Path(found.group(1)), found.group(2) or None)


def load(
    text: str,
    want: Kind | None = None,
    advance: stream.Advance = stream.silent,
    lazy_above: int | None = None,
) -> Data:
    """Load points or a graph; the file's contents decide unless `want` does.

    Square sparse matrices are graphs, dense ones points; `want="graph"` takes a dense square
    matrix as an affinity, `want="points"` a sparse one as points. Points in HDF5 that need more
    than `lazy_above` bytes are checked but not kept: the value is `stream.PointRows`. Raises
    InputError.
    """
    place = parse(text)
    store.check_readable(place.path)
    value: Any
    if place.suffix in HDF5:
        return _load_h5(place, want, advance, lazy_above)
    if place.suffix == ".npy":
        value = arrays.load_npy(place.path)
    elif place.suffix == ".npz":
        value = _pick_npz(place)
    elif place.suffix == ".mtx":
        value = matrices.read_mtx(place.path)
    elif place.suffix == ".csv":
        value = tables.read_csv(place.path)[1]
    elif place.suffix in EDGES:
        value = tables.read_edges(place.path)
    else:
        raise InputError(f"{place}: unknown ending {place.suffix!r}; readable are {SUFFIXES}")
    return _decide(value, want, place, advance)


def _decide(value: Any, want: Kind | None, place: Place, advance: stream.Advance) -> Data:
    """Make a graph or points of a matrix, as wanted or as its form suggests."""
    sparse = sp.issparse(value)
    square = value.ndim == 2 and value.shape[0] == value.shape[1]
    if want == "graph" and not square:
        raise InputError(f"{place}: shape {value.shape}, but an affinity matrix is square")
    if want == "graph" or (want is None and sparse and square):
        if not sparse and value.dtype.kind not in "fiub":
            raise InputError(f"{place}: values of type {value.dtype}; weights are real numbers")
        if not sparse:
            declared.check_fits(8 * math.prod(value.shape), str(place))
        # an HDF5 dataset or a memory map is read here
        with np.errstate(over="ignore", invalid="ignore"):
            matrix = value if sparse else sp.csr_matrix(np.asarray(value[...], dtype=np.float64))
        matrices.check_weights(matrix, str(place))
        return Data("graph", matrix, place)
    if sparse:
        value = matrices.DenseRows(value)
    declared.check_fits(4 * math.prod(value.shape), str(place))
    return Data("points", stream.read_points(value, str(place), advance), place)


def _load_h5(
    place: Place, want: Kind | None, advance: stream.Advance, lazy_above: int | None
) -> Data:
    with store.open_h5(place.path) as file:
        name = place.part or _default(file, place, want)
        named = Place(place.path, name)
        if matrices.is_csr_group(store.find(file, name)):
            return _decide(matrices.read_csr(file, name), want, named, advance)
        values = store.dataset(file, name)
        if want != "graph" and lazy_above is not None and 4 * values.size > lazy_above:
            stream.check_points(values, str(named), advance)
            return Data("points", stream.PointRows(place.path, name), named)
        return _decide(values, want, named, advance)


def _default(file: h5py.File, place: Place, want: Kind | None) -> str:
    """Return the first of the usual names that the file has."""
    names = ("/graph",) if want == "graph" else DATA_NAMES
    for name in names:
        if store.find(file, name) is not None:
            return name
    raise InputError(
        f"{place.path}: none of {', '.join(names)} in it; name one of its datasets as "
        f"{place.path.name}:DATASET (it has {store.listed(file)})"
    )


def _pick_npz(place: Place) -> Any:
    """Return the named array, the sparse matrix, `points` or `X`, or the only array."""
    with arrays.open_npz(place.path) as archive:
        if place.part:
            return _array(archive, place.part, place)
        if matrices.is_sparse_npz(archive):
            return matrices.sparse_from_npz(archive, str(place))
        names = [name for name in ("points", "X") if name in archive] or list(archive)
        if len(names) == 1 or names[:1] in (["points"], ["X"]):
            return _array(archive, names[0], place)
        raise InputError(
            f"{place}: neither a sparse matrix nor points or X; name one of its arrays as "
            f"{place.path.name}:NAME (it has {_names(archive)})"
        )


def _array(archive: Mapping[str, NDArray[Any]], name: str, place: Place) -> NDArray[Any]:
    name = name.lstrip("/")
    if name not in archive:
        raise InputError(f"{place}: no such array; the file has {_names(archive)}")
    return np.asarray(archive[name])


def _names(archive: Mapping[str, NDArray[Any]]) -> str:
    return ", ".join(store.text(name)[:40] for name in list(archive)[:12]) or "none"


def load_labels(text: str, n_nodes: int | None = None) -> NDArray[np.int64]:
    """Load labels (n,), -1 unknown, from HDF5, .npy, .npz or text; raises InputError.

    With `n_nodes` the length is checked.
    """
    place = parse(text)
    store.check_readable(place.path)
    values: NDArray[Any]
    if place.suffix in HDF5:
        with store.open_h5(place.path) as file:
            names = [n for n in LABEL_NAMES if store.find(file, n) is not None]
            name = place.part or (names or ["/labels"])[0]
            _refuse_text(store.dataset(file, name), f"{place.path}:{name}")
            _check_count(store.dataset(file, name).shape, n_nodes, place)
            values = store.read(file, name, {}, "/labels")
    elif place.suffix == ".npz":
        with arrays.open_npz(place.path) as archive:
            part = place.part or next((n for n in ("labels", "y") if n in archive), "labels")
            values = _array(archive, part, place)
    elif place.suffix == ".npy":
        values = np.asarray(arrays.load_npy(place.path))
    else:
        values = tables.read_labels(place.path, n_nodes)
    _refuse_text(values, str(place))
    if values.ndim != 1 or values.dtype.kind not in "fiub":
        raise InputError(
            f"{place}: shape {values.shape} of type {values.dtype}; labels are whole numbers, "
            "one a node"
        )
    _check_count(values.shape, n_nodes, place)
    declared.check_fits(8 * values.size, str(place))
    labels = tables.to_integers(values, str(place), "label")
    if labels.size and labels.min() < -1:
        at = int(np.flatnonzero(labels < -1)[0])
        raise InputError(f"{place}: label {at} is {labels[at]}; -1 is unknown, classes are from 0")
    return labels


def _check_count(shape: tuple[int, ...], n_nodes: int | None, place: Place) -> None:
    """Raise InputError for another number of labels than nodes, if need be before reading them."""
    if n_nodes is not None and len(shape) == 1 and shape[0] != n_nodes:
        raise InputError(f"{place}: {shape[0]} labels, but the data has {n_nodes} nodes")


def _refuse_text(values: Any, where: str) -> None:
    """Raise InputError for labels, an array or HDF5 dataset, that are words."""
    if values.dtype.kind in "OSU":
        first = values[(0,) * values.ndim] if values.size else ""
        raise tables.text_labels(where, store.text(first))


def has_classes(text: str) -> bool:
    """Whether the labels of a result are classes, as `mustlink propagate` writes them."""
    place = parse(text)
    if place.suffix not in HDF5 or (place.part or "/labels").strip("/") != "labels":
        return False
    with store.open_h5(place.path) as file:
        return store.find(file, "/classes") is not None


def load_pairs(text: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Load pairs (m, 2) and beliefs (m,) from CSV or from an HDF5 group; raises InputError.

    Whether nodes exist and pairs make sense is the engine's to check.
    """
    place = parse(text)
    store.check_readable(place.path)
    if place.suffix not in HDF5:
        return tables.read_pairs(place.path)
    with store.open_h5(place.path) as file:
        group = (place.part or "/constraints").rstrip("/")
        group = group.removesuffix("/pairs")
        dims: dict[str, int] = {}
        pairs = store.read(file, f"{group}/pairs", dims, "/constraints/pairs")
        belief = store.read(file, f"{group}/belief", dims, "/constraints/belief")
    where = f"{place.path}:{group}"
    with np.errstate(over="ignore", invalid="ignore"):  # of long doubles; the engine refuses Inf
        return tables.to_integers(pairs, f"{where}/pairs", "pair"), belief.astype(np.float64)


def load_matrix(text: str) -> sp.csr_matrix | None:
    """Return the sparse matrix that a constraint file holds, None if it holds pairs."""
    place = parse(text)
    store.check_readable(place.path)
    if place.suffix in HDF5:
        with store.open_h5(place.path) as file:
            if place.part is None or not matrices.is_csr_group(store.find(file, place.part)):
                return None
            return matrices.read_csr(file, place.part)
    if place.suffix not in (".npz", ".mtx"):
        return None
    value = matrices.read_mtx(place.path) if place.suffix == ".mtx" else _pick_npz(place)
    return sp.csr_matrix(value)


def declared_shape(text: str) -> tuple[int, ...] | None:
    """Shape of the data without reading it where that is cheap (HDF5, .npy), else None."""
    place = parse(text)
    if place.suffix == ".npy":
        return tuple(arrays.load_npy(place.path).shape)
    if place.suffix not in HDF5:
        return None
    with store.open_h5(place.path) as file:
        name = place.part or _default(file, place, None)
        if matrices.is_csr_group(store.find(file, name)):
            return matrices.csr_shape(file, name)
        return tuple(store.dataset(file, name, values=False).shape)
