"""Jobs by the size of their data: how large and how hard it is, what of them runs on disk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.context.method_cost import DiskCost
from mustlink.context.neighbor_cost import MOST_SYMMETRIC, SYMMETRIC
from mustlink.core.check import as_points
from mustlink.core.resources import Allowed, size_text
from mustlink.eigen.work import DISK, RANKS
from mustlink.errors import AtHomeOnlyError, InputError
from mustlink.graph.graph import has_even_degrees
from mustlink.neighbors.affinities import PRECOMPUTED
from mustlink.neighbors.points_by_rows import count_distinct
from mustlink.preprocessing.request import Preparation
from mustlink_io import formats
from mustlink_io.formats import anndata, matrices, networks, tables
from mustlink_io.formats.matrices import LISTS
from mustlink_io.formats.points import Apart
from mustlink_io.formats.tables import NodeNames
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.file_names import EDGES
from mustlink_io.hdf5.store import FileNames, stored_names
from mustlink_io.jobs.methods import GRAPH_OPTIONS, PROPAGATORS, flag

_NOTHING = Preparation()


@dataclass(frozen=True)
class Shape:
    """Size of the data: n points of d coordinates, or n nodes with `nnz` stored weights (d = 0).

    `entries` are those of sparse rows that are points.
    `even` tells whether the nodes of a graph in HDF5 are known to have about as many edges each.
    """

    n: int
    d: int
    nnz: int
    file_bytes: int
    even: bool = False
    entries: int = 0


def shape_of(
    text: str,
    steps: Preparation = _NOTHING,
    want: formats.Want | None = None,
    apart: tuple[Apart, ...] = (),
) -> Shape:
    """Sizes of a data set as `want` reads it, from its header if that tells; raises InputError.

    Where `steps` leave out rows or columns, or make columns of categories, all rows are read once.
    """
    place = formats.parse(text)
    files = tables.parquet_files(place.path)
    store.check_readable(place.path, folder=bool(files) or isinstance(want, formats.TextColumn))
    size = sum(one.stat().st_size for one in files or [place.path])
    if isinstance(want, formats.TextColumn):
        rows = formats.load(text, want, steps=steps).value
        return Shape(int(rows.shape[0]), int(rows.shape[1]), 0, size, entries=int(rows.nnz))
    counted = replace(steps, standardize=None)
    if steps.one_hot or steps.drop_missing or steps.drop:
        found = formats.load(text, lazy_above=0, steps=counted, apart=apart).value.shape
        return Shape(int(found[0]), int(found[1]), 0, size)
    declared: tuple[int, ...] = ()
    if want in ("bipartite", "directed"):
        pass
    elif place.suffix in formats.METIS and want is None:
        nodes, edges = networks.header(place.path)[:2]
        return Shape(nodes, 0, 2 * edges, size)
    elif place.suffix == ".npy":
        declared = matrices.load_npy(place.path).shape
    elif files:
        declared = tables.ParquetRows(place.path).shape
    elif place.suffix in formats.HDF5:
        with store.open_h5(place.path) as file:
            name, _ = formats.default_part(file, place, None)
            item: Any = store.find(file, name)
            if matrices.is_lists(item):
                n, k = store.dataset(file, f"{name.rstrip('/')}/{LISTS[0]}", values=False).shape
                return Shape(int(n), 0, int(2 * n * k), size)
            if not matrices.is_sparse_group(item):
                declared = store.dataset(file, name, values=False).shape
            else:
                declared = matrices.sparse_shape(file, name)
                if declared[0] == declared[1] and want != "points":
                    stored = np.diff(item["indptr"][()])
                    there = stored[stored > 0]
                    even = there.size > 0 and has_even_degrees(there)
                    return Shape(declared[0], 0, int(stored.sum()), size, even)
                entries = int(store.dataset(file, f"{name}/data", values=False).shape[0])
                return Shape(*declared, 0, size, entries=entries)
    if len(declared) == 2:
        return Shape(int(declared[0]), int(declared[1]), 0, size)
    want = None if want == "graph" else want
    loaded = formats.load(text, want, steps=counted, apart=apart, sparse=True)
    n, d = (int(part) for part in loaded.value.shape)
    stored = int(getattr(loaded.value, "nnz", 0))
    is_graph = loaded.kind == "graph"
    return Shape(n, 0, stored, size) if is_graph else Shape(n, d, 0, size, entries=stored)


def tells_shape(text: str) -> bool:
    """Whether a file tells the shape of its data before these are read."""
    return formats.parse(text).suffix in (".npy", *formats.HDF5)


def shape_named(text: str) -> Shape | None:
    """The size that a text such as `10000000x16` names, for data that are not there yet.

    Raises InputError for what is like one, but neither a size nor a file.
    """
    found = re.fullmatch(r"([1-9]\d{0,11})x([1-9]\d{0,6})", text)
    if found is None:
        if re.fullmatch(r"[\d.,_]+(x[\d.,_]*)?", text) and not Path(text).exists():
            raise InputError(f"{text}: no size and no such file; write points x coordinates as in "
                             "10000000x16")  # fmt: skip
        return None
    n, d = int(found.group(1)), int(found.group(2))
    return Shape(n, d, 0, 4 * n * d)


_PLACES, _ROWS = 100, 20  # places in the file, rows at each of them
_NEIGHBOURS = 15
_STEEP = 8.0  # dimension of the neighbourhoods from which a search is harder than it was measured
_ONE_SIDED = 1.4  # weights for a neighbour from which the same is true: hubs
_EQUAL = 3  # rows equal to another one of the sample: of all rows many more are


@dataclass(frozen=True)
class Probe:
    """What a sample shows.

    `symmetric`: weights stored for each neighbour; `dimension`: that of neighbourhoods; `sooner`:
    why the time counted is not reached, `later`: why it may be exceeded. `distinct` are the rows
    that differ, counted among all where the sample has equal ones.
    """

    symmetric: float = SYMMETRIC
    dimension: float | None = None
    later: str = ""
    sooner: str = ""
    distinct: int | None = None


def probe_of(text: str, steps: Preparation) -> Probe:
    """Look at 2,000 rows of points in a file that has rows to be read alone; 0.1 s or so.

    All rows are read once where many of these are equal: only that tells how many differ. Whatever
    else it is, and less than four times as many rows, is taken to be ordinary.
    """
    place = formats.parse(text)
    if place.suffix not in (*formats.HDF5, ".npy") or not place.path.exists():
        return Probe()
    whole = Preparation(impute=steps.impute, drop_missing=steps.drop_missing, drop=steps.drop)
    loaded = formats.load(text, None, lambda _: None, 0, whole)
    n = int(loaded.value.shape[0])
    if loaded.kind != "points" or n < 4 * _PLACES * _ROWS:
        return Probe()
    starts = np.linspace(0, n - _ROWS, _PLACES).astype(np.int64)
    rows = [np.asarray(loaded.value[int(a) : int(a) + _ROWS], np.float32) for a in starts]
    found = probe(np.concatenate(rows))
    return replace(found, distinct=count_distinct(loaded.value)) if found.sooner else found


def probe(sample: NDArray[Any]) -> Probe:
    """Judge a sample of points (s, d) by all their distances. Cost O(s²d)."""
    from sklearn.neighbors import NearestNeighbors

    X = as_points(sample[np.isfinite(sample).all(axis=1)]).astype(np.float64)
    distinct = np.unique(X, axis=0)
    equal = len(X) - len(distinct)
    share = f"{equal / max(len(X), 1):.1%} of a sample are equal rows, which become one"
    sooner = share if equal >= _EQUAL else ""
    if len(distinct) <= 4 * _NEIGHBOURS:
        return Probe(sooner=sooner)
    search = NearestNeighbors(n_neighbors=_NEIGHBOURS, algorithm="brute").fit(distinct)
    distances, lists = search.kneighbors()
    ratio = np.log(distances[:, -1:] / np.maximum(distances[:, :-1], 1e-12 * distances[:, -1:]))
    dimension = 1.0 / max(float(ratio.mean()), 1e-3)  # Levina & Bickel 2004
    symmetric = _symmetric(lists)
    if dimension < _STEEP and symmetric < _ONE_SIDED:
        return Probe(dimension=dimension, sooner=sooner)
    later = (
        f"neighbourhoods of about {dimension:.0f} dimensions, {symmetric:.2f} weights for a "
        "neighbour: a search may take several times as long as was counted"
    )
    symmetric = min(max(symmetric, SYMMETRIC), MOST_SYMMETRIC)
    return Probe(symmetric, dimension, later, sooner)


def _symmetric(lists: NDArray[np.int64]) -> float:
    """Entries of A + Aᵀ for each of A."""
    s, k = lists.shape
    i, j = np.repeat(np.arange(s), k), lists.ravel()
    pairs = np.unique(np.minimum(i, j) * s + np.maximum(i, j)).size
    return 2.0 * pairs / (s * k)


_SIDES = {"labels", "constraints"}  # files that say something of nodes
_NAME = 250  # bytes of a name that is looked up
_NAMES = 4  # at most such a part of the memory is for names


def is_by_rows(job: Any) -> bool:
    """Whether the data are a graph in CSR form whose nodes each stand for one row."""
    place = formats.parse(job.data)
    if place.suffix not in formats.HDF5 or not place.path.exists():
        return False
    with store.open_h5(place.path) as file:
        name, _ = formats.default_part(file, place, "graph")
        is_sparse = matrices.is_sparse_group(store.find(file, name))
        is_sparse = is_sparse and not anndata.is_distances(name)
        return is_sparse and matrices.is_by_rows(file, name)


def in_memory_only(job: Any, *, is_points: bool) -> str | None:
    """The first of what a job requests that does not run on disk, as it is typed, or None.

    Raises InputError for parameters that make no sense anywhere.
    """
    return next(left_out(job, DISK, is_points=is_points), None)


def left_out(job: Any, home: str, *, is_points: bool = False) -> Iterator[str]:
    """What a job requests that does not run on disk or on ranks, as it is typed.

    Which options of a method run there says the estimator. Raises InputError for parameters that
    make no sense anywhere.
    """
    method = job.methods[job.method]
    if home not in method.kind.homes:
        yield f"-m {job.method}"
        return
    read = {"data", "prior", "belief"} if home == RANKS else {"data"}
    roles = (role.rstrip(" 0123456789") for role in job.inputs)
    yield from (
        f"--{one.replace(' ', '-')}" for one in roles if one not in read | _SIDES & method.takes
    )
    more = ("confidence", "membership", "hierarchy", "stability")
    yield from (f"--{name}" for name in more if getattr(job, name, False))
    yield from ["--drop-missing"] if is_points and job.steps.drop_missing else []
    yield from [] if is_points else job.steps.options()
    yield from ["AnnData as output"] if job.target is not None else []
    if job.read_as is not None and not (is_points and job.read_as == "points"):
        yield f"--as {job.read_as}"
    if getattr(job, "n_clusters", 0) == "auto":
        yield "-k auto"
    for name, value in job.params.items():
        if name in GRAPH_OPTIONS and value not in PRECOMPUTED and (not is_points or value == "rbf"):
            yield f"{flag(name)} {value}"
    try:
        job.estimator()._check_home(home)
    except AtHomeOnlyError as error:
        value = job.params[error.name]
        yield flag(error.name) if value is True else f"{flag(error.name)} {value}"


def cost_on_disk(job: Any, n: int, nnz: int) -> DiskCost:
    """What it takes of a graph of n nodes and nnz weights."""
    if job.methods is PROPAGATORS:
        return DiskCost.of_labels(n, nnz, job.stated_cost().columns)
    found: DiskCost = job.estimator().cost_of_clusters(job.n_clusters, n, nnz)
    return found


def refuse_large_text(job: Any, allowed: Allowed) -> None:
    """Raise InputError for edges in a text file of more bytes than the memory has."""
    place, limit = formats.parse(job.data), allowed.limit if allowed.enforced else None
    if limit is None or place.suffix not in (*EDGES, ".mtx") or not place.path.exists():
        return
    size = place.path.stat().st_size
    if size > limit:
        raise InputError(
            f"{place}: {size_text(size)} of text are read whole, which needs more than "
            f"{size_text(limit)}; first: mustlink convert {place.path.name} graph.h5 --memory "
            f"{size_text(limit).replace(' ', '')}, whose graph may stay on disk"
        )


def load(job: Any, memory: int | None) -> formats.InputData:
    """The graph of a job, to be read by rows in so much memory; raises InputError."""
    from mustlink_io.hdf5 import graphs

    place = formats.parse(job.data)
    with store.open_h5(place.path) as file:
        name, note = formats.default_part(file, place, "graph")
        shape = matrices.sparse_shape(file, name)
        names = stored_names(file, place.path) if name.strip("/") == "graph" else None
    graph = graphs.stored_graph(place.path, name, Path(job.output).resolve().parent, shape)
    notes = [] if note is None else [note]
    if names is not None and len(names) != graph.n_rows:
        raise InputError(f"{place.path}:/names: {len(names)} names of {graph.n_rows} nodes")
    looked_up = None if names is None else _looked_up(job, memory, names, place)
    found = formats.InputData("graph", graph, place, names=looked_up, notes=tuple(notes))
    return replace(found, stored_names=names)


def _looked_up(
    job: Any, memory: int | None, names: FileNames, place: formats.Place
) -> NodeNames | None:
    """The names in memory, where labels or constraints may be of nodes by name; InputError."""
    texts = [text for role, text in job.inputs.items() if role in _SIDES]
    if all(formats.parse(text).suffix == ".npy" for text in texts):
        return None
    needed = _NAME * len(names)
    if memory is not None and needed > memory // _NAMES:
        raise InputError(
            f"{place.path}:/names: {len(names)} names to be looked up take "
            f"{size_text(needed, up=True)}; give labels of all nodes as .npy, or more memory"
        )
    return NodeNames(names[:], f"{place.path}:/names")
