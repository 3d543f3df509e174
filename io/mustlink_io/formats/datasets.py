"""The data of a job: points or a graph, from any file that is read."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core.observe import Recorder
from mustlink.errors import InputError
from mustlink.preprocessing.fitted import Fitted
from mustlink.preprocessing.mixed import FittedTable
from mustlink.preprocessing.request import Preparation
from mustlink_io.formats import anndata, edges, matrices, networks, points, tables, texts
from mustlink_io.formats.matrices import LISTS
from mustlink_io.formats.points import Advance, Apart, PointsSpec, Reopen, silent
from mustlink_io.formats.tables import NodeNames, names_or_none
from mustlink_io.formats.texts import TextColumn
from mustlink_io.hdf5 import size_checks, store
from mustlink_io.hdf5.file_names import (
    EDGES,
    HDF5,
    METIS,
    PICTURES,
    SUFFIXES,
    SVMLIGHT,
    Place,
    parse,
)
from mustlink_io.hdf5.store import FileNames

Kind = Literal["points", "graph"]
Want = Literal["points", "graph", "distances", "bipartite", "directed"] | TextColumn


@dataclass(frozen=True)
class FileContent:
    """A matrix, dense or sparse, and what a file has beside it.

    `arcs`: the edges of a graph have the directions that they have in the file; `fitted` is how a
    table of words and empty cells was made the points.
    """

    value: Any
    names: NodeNames | None = None
    note: str | None = None
    is_graph: bool = False
    is_points: bool = False
    arcs: bool = False
    warnings: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    fitted: FittedTable | None = None


@dataclass(frozen=True)
class InputData:
    """Points (n, d) float32, or an affinity (n, n) CSR, and what their file has beside them.

    `names` are those of the nodes, `stored_names` where they stay in the file, `columns` those of
    its columns, if any; `notes` are what was decided, `warnings` doubts. `image` (h, w, 3) is
    the picture whose pixels, row by row, are the nodes of a graph. `fitted` is how points were
    prepared, `kept` are the rows left of `n_rows` where rows with missing values are left out;
    names are of all rows. The nodes of a graph may stand for several, `weights` (g,), and be
    several of the `rows` (n,), as `mustlink.graph.Graph` has them; `sides` are the rows and columns
    of a matrix that are its nodes; `was_double` tells that a binary file has points in float64.
    """

    kind: Kind
    value: Any
    place: Place
    names: NodeNames | None = None
    stored_names: FileNames | None = None
    notes: tuple[str, ...] = ()
    image: NDArray[Any] | None = None
    warnings: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    fitted: Fitted | FittedTable | None = None
    kept: NDArray[np.int64] | None = None
    left_out: int = 0
    weights: NDArray[np.float64] | None = None
    rows: NDArray[Any] | None = None
    sides: tuple[int, int] | None = None
    was_double: bool = False

    @property
    def n_fitted(self) -> int:
        """Rows that are fitted: of a graph whose nodes stand for several all of them."""
        return int(self.value.shape[0] if self.rows is None else self.rows.size)

    @property
    def n_rows(self) -> int:
        """Rows of the file, those among them that were left out."""
        return self.n_fitted + self.left_out

    def report(self, recorder: Recorder) -> None:
        """Record notes and warnings."""
        for note in self.notes:
            recorder.note(note)
        for warning in self.warnings:
            recorder.warn(warning)

    def to_fit(self, source: str) -> Any:
        """The value, or the engine's graph of origin `source` where nodes stand for several."""
        if self.weights is None and self.sides is None:
            return self.value
        from mustlink.graph import Graph

        kind = None if self.sides is None else {"kind": "bipartite", "sides": self.sides}
        made = Graph.from_affinity(self.value, kind)
        graph = replace(made, weights=self.weights, rows=self.rows)
        graph.derived.origin = source
        return graph


def graph_of(found: FileContent, want: Want | None, place: Place) -> InputData:
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
        return InputData("graph", matrix, place, found.names)
    affinity, notes, warnings = undirected(matrix, str(place))
    return InputData("graph", affinity, place, found.names, notes=notes, warnings=warnings)


def _bipartite(matrix: sp.csr_matrix, found: FileContent, place: Place) -> InputData:
    """Rows and columns, or both columns of a list of edges, as nodes."""
    from mustlink.graph import bipartite_graph

    n = None if found.arcs else _rows_first(matrix)
    if n is not None:
        m = matrix.shape[0] - n
        note = f"{place}: joins {n:,} nodes with the {m:,} after them: the rows, and the columns"
        return InputData("graph", matrix, place, found.names, notes=(note,), sides=(n, m))
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
    return InputData("graph", graph.affinity, place, names, notes=(note,), sides=(n, m))


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


_TELLING = 50  # edges from which their directions tell something
_MIXED = 0.1  # share of edges to smaller numbers, and to larger ones, above which they point


def undirected(
    arcs: sp.csr_matrix, where: str
) -> tuple[sp.csr_matrix, tuple[str, ...], tuple[str, ...]]:
    """The larger weight of both directions, and what to note and to warn of."""
    back = arcs.T.tocsr()
    found = arcs.maximum(back)
    found.eliminate_zeros()
    stored = arcs.copy()
    stored.eliminate_zeros()
    loops = int(np.count_nonzero(stored.diagonal()))
    one = int(found.nnz - stored.nnz)
    both = (int(stored.nnz) - loops - one) // 2
    cure = "where directions matter: mustlink cluster -m disim"
    if not both:
        rows = np.repeat(np.arange(stored.shape[0]), np.diff(stored.indptr))
        up = np.count_nonzero(rows < stored.indices) / max(one, 1)
        if one < _TELLING or not _MIXED < up < 1 - _MIXED:
            return found, (), ()  # as lists of undirected edges are written
        note = f"{where}: each edge is given in one direction, and directions are dropped; {cure}"
        return found, (note,), ()
    differ: Any = arcs != back  # those in one direction twice
    unequal = (int(differ.nnz) - 2 * one) // 2
    if unequal:
        warning = (
            f"{where}: {unequal:,} of {both:,} edges that are given in both directions weigh "
            f"differently, and the larger weight counts; {cure}"
        )
        return found, (), (warning,)
    if not one:
        return found, (), ()
    note = (
        f"{where}: {both:,} edges are given in both directions, {one:,} in one only, which "
        f"makes no difference; {cure}"
    )
    return found, (note,), ()


def _of_distances(matrix: sp.csr_matrix, place: Place) -> FileContent:
    """The graph of distances to neighbours, sparse, weighted as one of points; InputError."""
    from mustlink.graph.forms import graph_of_distances

    try:
        graph = graph_of_distances(matrix, "local")
    except InputError as error:
        raise InputError(f"{place}: {str(error).removeprefix('affinity: ')}") from None
    note = f"{place}: distances to neighbours are weighted as those of points, by local scaling"
    if anndata.is_distances(place.part):
        note += f"; {anndata.NEAR} has the weights of scanpy"
    return FileContent(graph.affinity, note=note, is_graph=True)


def _of_lists(file: h5py.File, name: str, place: Place) -> FileContent:
    """The graph of `indices` and `distances` (n, k) of neighbours, read by blocks; InputError."""
    from mustlink.graph import graph_from_neighbors

    try:
        graph = graph_from_neighbors(*(store.dataset(file, f"{name}/{one}") for one in LISTS))
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
    k = graph.info["n_neighbors"]
    note = f"{place}: lists of {k} neighbours, weighted as those of points, by local scaling"
    return FileContent(graph.affinity, note=note, is_graph=True)


def arcs(found: edges.NamedGraph) -> FileContent:
    """Edges as a file lists them, each in its direction."""
    return FileContent(*found, is_graph=True, arcs=True)


def of_table(path: Path, spec: PointsSpec) -> FileContent:
    """Edges or points of a table, as its header says; raises InputError."""
    where = str(path)
    if path.suffix.lower() == ".csv" and edges.is_edge_table(tables.column_names(path)):
        return arcs(edges.read_edges(path, directed=True))
    table = tables.read_table(path)
    if edges.is_edge_table(table.header):
        return arcs(edges.of_table(table, where, directed=True))
    if not _edges_hint(table) or spec.ids is not None:
        table = spec.named(table, where)
    return points_in(table, where, spec)


def points_in(table: tables.Table, where: str, spec: PointsSpec) -> FileContent:
    """The points of a table; raises InputError."""
    table, notes = points.without(table, spec.apart, where)
    columns, drop = points.titles(table), spec.steps.drop
    try:
        values, texts, fitted = points.points_of(table, where, spec)
    except InputError as error:
        raise InputError(f"{error}{_texts_hint(table) or _edges_hint(table)}") from None
    warnings = points.doubtful(table, where, drop if fitted is None else (*drop, *fitted.left_out))
    if fitted is not None:
        columns, hint = tuple(one.name for one in fitted.columns), _edges_hint(table)
        warnings += (f"{where}: is read as a table of points{hint}",) if hint else ()
    notes = (*table.notes, *notes)
    if texts is None:
        return FileContent(values, warnings=warnings, columns=columns, notes=notes, fitted=fitted)
    names = names_or_none(texts, where, table.header[0])
    note = f"{where}: its column {store.text(table.header[0])[:40]!r} is taken as names of points"
    if table.named and spec.ids is None:
        note += "; --drop leaves it out"
    about: Any = {"warnings": warnings, "columns": columns, "notes": notes, "fitted": fitted}
    return FileContent(values, names, note, **about)


_LOOKED_AT, _SENTENCE = 100, 4  # cells, and words of one, on average, from which they are texts


def _texts_hint(table: tables.Table) -> str:
    """What to do where a column may be texts; else nothing."""
    for at, title in enumerate(table.header):
        cells = table.text(at)[:_LOOKED_AT] if table.is_text(at) else ()
        if sum(len(str(one).split()) for one in cells) > _SENTENCE * len(cells):
            called = store.text(title)[:40]
            return f"; if {called!r} are texts, give --text {called}"
    return ""


def _edges_hint(table: tables.Table) -> str:
    """What to do where columns of text may be the ends of edges; else nothing."""
    width = len(table.columns)
    if not table.header or width not in (2, 3) or not (table.is_text(0) and table.is_text(1)):
        return ""
    if (width == 3 and table.is_text(2)) or tables.split_names(table)[0] is not None:
        return ""
    columns = ",".join(("source", "target", "weight")[:width])
    return f"; if it is a list of edges, begin it with the header `{columns}`"


_NOTHING = Preparation()


def load(
    text: str,
    want: Want | None = None,
    advance: Advance = silent,
    lazy_above: int | None = None,
    steps: Preparation = _NOTHING,
    apart: tuple[Apart, ...] = (),
    gaps: bool = False,
    sparse: bool = False,
) -> InputData:
    """Load points or a graph; the file's contents decide unless `want` does.

    Square sparse matrices are graphs, dense ones points; `want="graph"` takes a dense square
    matrix as an affinity, "distances" a sparse one as those to neighbours, "points" as points,
    "bipartite" any as edges between its rows and columns, "directed" edges in their directions, a
    `TextColumn` texts as sparse points, whatever else is set. Points in HDF5, in .npy and in a
    folder of Parquet files that need more than `lazy_above` bytes are checked but not read: the
    value is `points.PointRows` or the like, or `PreparedRows` where `steps` prepare their columns.
    The columns `apart` of a table are left out; `gaps` are left as NaN if allowed; rows of `sparse`
    matrices are points in CSR if allowed, else an array.
    Raises InputError.
    """
    place = parse(text)
    is_folder = isinstance(want, TextColumn) or bool(tables.parquet_files(place.path))
    store.check_readable(place.path, folder=is_folder)
    ids = next((one.name for one in apart if one.option == points.ID), None)
    titled = place.suffix in (*HDF5, *texts.TABLES, *texts.LINES) and not place.path.is_dir()
    if ids is not None and not titled:
        raise InputError(
            f"--id {ids}: {place} has no columns with titles; leave it out, or give .csv, .parquet "
            "or a dataset of names in .h5"
        )
    if isinstance(want, TextColumn):
        if not steps.is_nothing:
            raise InputError(f"{place}: --text has no columns to prepare or drop; leave that out")
        read = texts.load(place, want.column, ids)
        return InputData("points", place=place, **vars(read))
    spec = PointsSpec(points.still_to_drop(steps, apart), lazy_above, apart, gaps, sparse)
    if place.suffix in HDF5:
        return _load_h5(place, want, advance, spec)
    if place.part and place.suffix != ".npz":
        raise InputError(
            f"{place}: all columns of a table are coordinates; give {place.path}, and leave some "
            "out by --drop"
        )
    found = _read(place, spec, directed=want == "directed")
    data = _decide(found, want, place, advance, spec, _reopening(found.value))
    one_kind = not (found.arcs and data.sides)  # of nodes, which is what the note says
    notes = (found.note,) if found.note is not None and one_kind else ()
    warnings = (*found.warnings, *data.warnings)
    return replace(data, notes=(*notes, *found.notes, *data.notes), warnings=warnings)


def _reopening(value: Any) -> Reopen | None:
    """How rows of a mapped array, or of a folder, stay in their files; None of other values."""
    if isinstance(value, tables.ParquetRows):
        return lambda raw: value
    if not isinstance(value, np.memmap) or value.ndim != 2 or not value.flags.c_contiguous:
        return None
    return lambda raw: points.ArrayRows(value, raw)


def _read(place: Place, spec: PointsSpec, *, directed: bool) -> FileContent:
    path = place.path
    if path.is_dir():
        rows = tables.ParquetRows(path)
        return FileContent(rows, columns=rows.header, is_points=True)
    if place.suffix in (".npy", ".npz"):
        is_one = place.suffix == ".npy"
        return FileContent(matrices.load_npy(path) if is_one else matrices.pick(place))
    if place.suffix == ".mtx":
        return FileContent(matrices.read_mtx(path))
    if place.suffix in SVMLIGHT:
        return FileContent(*matrices.read_svmlight(path), is_points=True)
    if place.suffix in METIS:
        matrix, note = networks.read_metis(path)
        return FileContent(matrix, None, note, is_graph=True)
    if place.suffix == ".graphml":
        return FileContent(*networks.read_graphml(path, directed=directed), is_graph=True)
    if place.suffix in EDGES:
        return arcs(edges.read_edges(path, directed=True))
    if place.suffix in (".csv", ".parquet"):
        return of_table(path, spec)
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
    found: FileContent,
    want: Want | None,
    place: Place,
    advance: Advance,
    spec: PointsSpec,
    reopen: Reopen | None = None,
) -> InputData:
    """Make a graph or points of a matrix, as wanted or as its form suggests."""
    if want == "distances":
        if found.is_graph:  # of lists, which are distances, too
            return graph_of(found, "graph", place)
        found = _of_distances(found.value, place)
        return replace(graph_of(found, "graph", place), notes=(str(found.note),))
    value, is_graph = found.value, found.is_graph
    sparse = sp.issparse(value)
    square = value.ndim == 2 and value.shape[0] == value.shape[1]
    if want == "points" and is_graph:
        raise InputError(f"{place}: is a graph, where points are wanted")
    if want not in (None, "points") or (want is None and sparse and square and not found.is_points):
        if not spec.steps.is_nothing:
            raise InputError(f"{place}: is a graph, which has no columns to prepare")
        return graph_of(found, want, place)
    warnings: tuple[str, ...] = ()
    if sparse and want is None and not found.is_points and place.suffix != anndata.ENDING:
        n, d = value.shape
        warnings = (
            f"{place}: a sparse matrix of {n:,} x {d:,} is read as {n:,} points with a graph of "
            "their neighbours; where its entries join rows with columns: mustlink cluster --as "
            "bipartite (--as points: they are points)",
        )
    data = InputData("points", value, place, found.names, warnings=warnings, columns=found.columns)
    if sparse and spec.sparse and spec.steps.is_nothing:
        return replace(data, value=sp.csr_matrix(value, dtype=np.float32))
    if found.fitted is not None:
        return replace(data, notes=found.fitted.notes, fitted=found.fitted)
    if sparse:
        value = matrices.DenseRows(value)
    made, fitted, kept = points.load_points(value, spec, found.columns, str(place), advance, reopen)
    return replace(
        data,
        value=made,
        notes=() if fitted is None else fitted.notes,
        fitted=fitted,
        kept=kept,
        left_out=0 if kept is None else int(value.shape[0]) - kept.size,
        was_double=value.dtype == np.float64 and place.suffix in (".npy", ".npz", *HDF5),
    )


def _load_h5(place: Place, want: Want | None, advance: Advance, spec: PointsSpec) -> InputData:
    with store.open_h5(place.path) as file:
        name, note = default_part(file, place, want)
        named = Place(place.path, name)
        if place.suffix == anndata.ENDING and name.strip("/") == "obs" and want in (None, "points"):
            found = points_in(anndata.table(file), str(named), spec)
            data = _decide(found, want, named, advance, spec)
            return replace(data, names=anndata.node_names(file), notes=(*found.notes, *data.notes))
        if matrices.is_lists(store.find(file, name)) and want in (None, "graph", "distances"):
            found = _of_lists(file, name.rstrip("/"), named)
            data = _decide(found, want, named, advance, spec)
        elif matrices.is_sparse_group(store.find(file, name)):
            found = FileContent(matrices.read_sparse(file, name))
            if anndata.is_distances(name) and want in (None, "graph"):
                found = _of_distances(found.value, named)
            data = _decide(found, want, named, advance, spec)
            if data.kind == "graph" and data.sides is None:
                weights, rows = matrices.read_copies(file, name, int(found.value.shape[0]))
                data = replace(data, weights=weights, rows=rows)
        else:
            found = FileContent(store.dataset(file, name))

            def reopen(raw: bool) -> points.PointRows:
                return points.PointRows(place.path, name, raw=raw)

            data = _decide(found, want, named, advance, spec, reopen)
        names = None
        if data.sides is None:
            names = _names(file, place, name, data.n_rows, spec.ids)
        notes = tuple(one for one in (note, found.note) if one is not None)
        of_picture = name.strip("/") == "graph" and data.kind == "graph"
        image = store.image(file, int(data.value.shape[0])) if of_picture else None
        return replace(data, names=names, notes=(*notes, *data.notes), image=image)


def _names(
    file: h5py.File, place: Place, part: str, n_rows: int, ids: str | None
) -> NodeNames | None:
    """Names of nodes in a file of mustlink (`/names`, or `ids`) or AnnData (the index of obs)."""
    if ids is not None:
        if store.find(file, ids) is None:
            raise InputError(f"--id {ids}: no such dataset; {place.path} has {store.listed(file)}")
        named = store.texts(file, ids)
        if len(named) != n_rows or len(set(named)) < n_rows:
            raise InputError(
                f"--id {ids}: {len(named)} names, {len(set(named))} different, of {n_rows} rows of "
                f"{place.path}; name a dataset with another text for each row"
            )
        return NodeNames(named, f"{place.path}:{ids}")
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
    names = ("/graph",) if want in ("graph", "distances") else ("/points", "/X", "/graph")
    if want == "distances" and place.suffix == anndata.ENDING:
        return "/obsp/distances", None
    if place.suffix == anndata.ENDING and want != "bipartite":
        if want == "graph" and store.find(file, anndata.NEAR) is not None:
            return anndata.NEAR, f"{place.path}: {anndata.NEAR} is taken as graph"
        if want != "graph":
            return anndata.default_part(file)  # the graph if there is nothing else
    for name in names:
        if store.find(file, name) is not None:
            return name, None
    if want in (None, "graph", "distances") and matrices.is_lists(file):
        return "/", None
    if store.find(file, "/report") is not None:
        raise InputError(
            f"{place.path}: is a result, not data; give the data that it is of, or see it by "
            "mustlink report, ask, ui, score or convert"
        )
    raise InputError(
        f"{place.path}: none of {', '.join(names)} in it; name one of its datasets as "
        f"{place.path.name}:DATASET (it has {store.listed(file)})"
    )


def sha256(path: str | Path, advance: Advance = silent, block_bytes: int = 2**20) -> str:
    """SHA-256 of a file as hexadecimal, read in blocks; of a folder of files and names."""
    path = Path(path)
    if path.is_dir():
        parts = (f"{sha256(one)} {one.relative_to(path)}\n" for one in texts.files_of(path))
        return hashlib.sha256("".join(parts).encode()).hexdigest()
    size, done = path.stat().st_size, 0
    digest, block = hashlib.sha256(), memoryview(bytearray(block_bytes))
    with path.open("rb", buffering=0) as file:
        while read := file.readinto(block):
            digest.update(block[:read])
            done += read
            advance(min(1.0, done / max(1, size)))
    return digest.hexdigest()
