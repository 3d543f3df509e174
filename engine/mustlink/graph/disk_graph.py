"""A graph on disk: rows of W in blocks, read one after the other while the last one is worked on.

Nothing of it is held but two blocks of rows. They are read into buffers, not mapped: mapped pages
count as memory of the process, and their number is unknown.

One pass tells degrees, components, and whether it is a graph at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.graph.graph import cuthill_mckee

if TYPE_CHECKING:
    from mustlink.space.disk import DiskBlock, DiskSpace
    from mustlink.space.division import Division
    from mustlink.space.ranks import Ranks

BLOCK_ENTRIES = 1 << 21  # of a block of rows; one row alone may have more
_PART = 1 << 18  # numbers converted in one go
_MOST = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class FileNumbers:
    """`size` numbers in an open file, in pieces of `piece` numbers, each from one of `starts` on.

    `file` has a descriptor, and stays open as long as this lives.
    """

    file: Any
    where: str
    dtype: np.dtype[Any]
    size: int
    piece: int
    starts: NDArray[np.int64]

    @classmethod
    def in_one(cls, file: Any, where: str, dtype: Any, size: int) -> FileNumbers:
        """All numbers one after the other."""
        starts = np.zeros(1, dtype=np.int64)
        return cls(file, where, np.dtype(dtype), size, max(size, 1), starts)

    @property
    def row_bytes(self) -> int:
        """Bytes of a number, as of rows of a block on disk."""
        return self.dtype.itemsize

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, part: slice) -> NDArray[Any]:
        """Numbers a:b; raises InputError."""
        first, stop, _ = part.indices(self.size)
        out = np.empty(max(stop - first, 0), dtype=self.dtype)
        self.read(first, out)
        return out

    def read(self, first: int, out: NDArray[Any]) -> None:
        """Fill contiguous `out`, of whatever type, with the numbers from `first` on; InputError."""
        if out.dtype == self.dtype:
            self._read(first, out)
            return
        for at in range(0, out.size, _PART):
            part = np.empty(min(_PART, out.size - at), dtype=self.dtype)
            self._read(first + at, part)
            if out.dtype == np.int32 and self.dtype.kind in "iu":  # no number becomes another one
                part[part > _MOST] = _MOST
            with np.errstate(over="ignore", invalid="ignore"):  # looked at afterwards
                out[at : at + part.size] = part

    def _read(self, first: int, out: NDArray[Any]) -> None:
        from mustlink.space.disk import read_into  # its package loads the compiler

        done = 0
        while done < out.size:
            number, inside = divmod(first + done, self.piece)
            some = out[done : done + self.piece - inside]
            start = int(self.starts[number]) + inside * self.dtype.itemsize
            try:
                whole = read_into(self.file.fileno(), start, some)
            except OSError as error:
                raise InputError(f"{self.where}: cannot be read ({error.strerror})") from None
            if not whole:
                raise InputError(f"{self.where}: the file ends early; write it anew")
            done += some.size


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Rows `first`, `first` + 1, … of W in CSR form, their columns numbered as in the whole."""

    first: int
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]
    data: NDArray[np.float32]
    n_nodes: int

    @property
    def rows(self) -> slice:
        """Which rows they are."""
        return slice(self.first, self.first + self.indptr.size - 1)

    @property
    def nnz(self) -> int:
        """Stored weights."""
        return int(self.indices.size)

    @property
    def shape(self) -> tuple[int, int]:
        """(rows of the block, n)."""
        return self.indptr.size - 1, self.n_nodes


@dataclass(frozen=True, eq=False)
class DiskGraph:
    """A symmetric affinity W (n, n) of which blocks of rows are read, never all.

    `ends` are CSR's indptr (n + 1,), `columns` and `weights` (nnz,) of any type that fits int32 and
    float32. `bounds` (blocks + 1,) are the first rows of blocks. Whether W is symmetric and its
    weights are valid is checked by the first pass, `survey`.

    `copies` (n,) tell how many a node stands for, W then being folded, and `rows` (rows of the
    caller,) which node a row of the caller is, as `Graph` has them: equal rows are one node, and
    nodes may be numbered in another order. Slices of both are read; None: 1 each, and
    row i is node i.
    """

    n_nodes: int
    ends: FileNumbers
    columns: FileNumbers
    weights: FileNumbers
    bounds: NDArray[np.int64]
    info: Mapping[str, Any] = field(default_factory=dict)
    copies: FileNumbers | NDArray[Any] | None = None
    rows: FileNumbers | NDArray[Any] | None = None

    @classmethod
    def of(
        cls,
        ends: FileNumbers,
        columns: FileNumbers,
        weights: FileNumbers,
        info: Mapping[str, Any] | None = None,
        entries: int = BLOCK_ENTRIES,
    ) -> DiskGraph:
        """Divide the rows into blocks of about so many `entries`; raises InputError."""
        n = ends.size - 1
        if n < 1 or columns.size == 0:
            raise InputError(f"{ends.where}: {max(n, 0)} nodes but no edge; nothing to cluster")
        if n >= _MOST:
            raise InputError(f"{ends.where}: {n} nodes; a graph has less than 2^31")
        if columns.size != weights.size:
            raise InputError(
                f"{ends.where}: {weights.size} weights, but {columns.size} columns; write it anew"
            )
        bounds = _bounds(ends, columns.size, entries)
        return cls(n, ends, columns, weights, bounds, info or {"kind": "precomputed"})

    @property
    def n_entries(self) -> int:
        """Stored weights: two an edge."""
        return self.columns.size

    @property
    def n_rows(self) -> int:
        """Rows of the caller: nodes, unless `rows` say which node each is."""
        return self.n_nodes if self.rows is None else len(self.rows)

    def labels_of_rows(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Labels (n,) of nodes for every row of the caller."""
        if self.rows is None:
            return labels
        out = np.empty(self.n_rows, dtype=labels.dtype)
        for first in range(0, out.size, _PART):
            some = self.rows[first : first + _PART]
            out[first : first + some.size] = labels[some]
        return out

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return self.n_nodes, self.n_nodes

    @property
    def nnz(self) -> int:
        """Stored weights, as a sparse matrix names them."""
        return self.n_entries

    def lengths(self, rows: slice) -> NDArray[np.int64]:
        """Entries of some rows."""
        ends = np.empty(rows.stop - rows.start + 1, dtype=np.int64)
        self.ends.read(rows.start, ends)
        return np.diff(ends)

    def blocks(self) -> Iterator[RowBlock]:
        """All rows, block by block; each is valid until the next one is read. InputError.

        While a block is worked on, a thread reads the next one.
        """
        most = self._most_entries()
        buffers = [
            (np.empty(most, dtype=np.int32), np.empty(most, dtype=np.float32)) for _ in range(2)
        ]
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(self._read, 0, *buffers[0])
            for number in range(1, self.bounds.size):
                block = coming.result()
                if number + 1 < self.bounds.size:
                    coming = pool.submit(self._read, number, *buffers[number % 2])
                yield block

    def cluster_weights(self, clusters: NDArray[np.int64], k: int) -> NDArray[np.float64]:
        """See `Graph.cluster_weights`; a pass over the graph."""
        from mustlink.kernels.block_moves import cluster_links

        found = np.zeros((2, k, k))
        for block in self.blocks():
            cluster_links(block, clusters, found, block.first)
        return found

    def whole(self) -> sp.csr_matrix:
        """W in memory, weights as they are stored; raises InputError."""
        precision = np.float32 if self.weights.dtype.itemsize <= 4 else np.float64
        data: NDArray[Any] = np.empty(self.n_entries, dtype=precision)
        columns = np.empty(self.n_entries, dtype=np.int32)
        kind = np.int32 if self.n_entries < _MOST else np.int64
        ends: NDArray[Any] = np.empty(self.n_nodes + 1, dtype=kind)
        parts: tuple[NDArray[Any], ...] = data, columns, ends
        for numbers, out in zip((self.weights, self.columns, self.ends), parts, strict=True):
            numbers.read(0, out)
        return sp.csr_matrix(parts, shape=self.shape)

    def _most_entries(self) -> int:
        ends = np.empty(1, dtype=np.int64)
        most = before = 0
        for row in self.bounds[1:]:
            self.ends.read(int(row), ends)
            most, before = max(most, int(ends[0]) - before), int(ends[0])
        return most

    def _read(self, number: int, indices: NDArray[np.int32], data: NDArray[np.float32]) -> RowBlock:
        first, stop = (int(row) for row in self.bounds[number : number + 2])
        ends = np.empty(stop - first + 1, dtype=np.int64)
        self.ends.read(first, ends)
        start, size = int(ends[0]), int(ends[-1] - ends[0])
        ends -= start
        sound = 0 <= size <= indices.size and ends[0] == 0 and bool((np.diff(ends) >= 0).all())
        if sound:
            indices, data = indices[:size], data[:size]
            self.columns.read(start, indices)
            self.weights.read(start, data)
            sound = size == 0 or int(indices.view(np.uint32).max()) < self.n_nodes
        if not sound:  # looked at whenever it is read: products do not
            raise InputError(
                f"{self.ends.where}: damaged, or changed while it was read, in rows {first} to "
                f"{stop - 1}; write it anew"
            )
        return RowBlock(first, ends.astype(np.int32), indices, data, self.n_nodes)


def _bounds(ends: FileNumbers, total: int, entries: int) -> NDArray[np.int64]:
    """First rows of blocks that have at most so many entries, or one row; InputError."""
    n = ends.size - 1
    bounds, begun, before = [0], 0, 0
    for row in range(0, n + 1, _PART):
        some = np.empty(min(_PART, n + 1 - row), dtype=np.int64)
        ends.read(row, some)
        falls = int(some[0]) < before or bool((np.diff(some) < 0).any())
        if falls or (row == 0 and some[0] != 0) or int(some[-1]) > total:
            raise InputError(
                f"{ends.where}: ends of rows must begin with 0, never fall and end with {total}"
            )
        while int(some[-1]) - begun > entries:
            at = row + int(np.searchsorted(some, begun + entries, side="right")) - 1
            at = max(at, bounds[-1] + 1)
            # the row before this part may be the last that fits
            begun = before if at < row else int(some[at - row])
            bounds.append(at)
        before = int(some[-1])
    if before != total:
        raise InputError(f"{ends.where}: the last row ends at {before}, with {total} weights")
    if bounds[-1] < n:
        bounds.append(n)
    return np.array(bounds, dtype=np.int64)


_SKEW = 1e-7  # of ‖W‖_F: what weights that are equal to the digits of float32 leave


@dataclass(frozen=True, eq=False)
class GraphSurvey:
    """Of a graph of n nodes, all on disk: `degrees` and `loops` (n,), None where there are none.

    `component` (n,) numbers those of nodes with an edge by falling size, 0 for nodes without;
    None where they are one. `isolated` nodes have no edge, `volume` is the sum of the degrees.
    """

    space: DiskSpace
    degrees: Any
    loops: Any
    component: Any
    n_components: int
    isolated: int
    volume: float


def survey(
    graph: DiskGraph, space: DiskSpace, advance: Callable[[float], None] = lambda _: None
) -> GraphSurvey:
    """Look at every entry once; raises InputError for what is no symmetric affinity.

    Memory: a block of rows, and 4 bytes a node for the components. Symmetry is tested by a random
    form xᵀWy − yᵀWx, which is 0 for symmetric W alone.
    """
    from mustlink.kernels.disk_rows import look
    from mustlink.kernels.graph_walk import flatten

    n = graph.n_nodes
    parent = np.arange(n, dtype=np.int32)
    degrees, loops = space.new((), np.float64), space.new((), np.float64)
    skew, any_loop, isolated, volume = np.zeros(2), False, 0, 0.0
    for block in graph.blocks():
        size = block.indptr.size - 1
        here, own = np.zeros(size), np.zeros(size)
        wrong = look(block, parent, here, own, skew)
        if wrong >= 0:
            raise _no_weight(graph, block, wrong)
        degrees[block.rows] = here
        if own.any():
            loops[block.rows] = own
            any_loop = True
        isolated += int(np.count_nonzero(here == 0))
        volume += float(here.sum())
        advance(block.rows.stop / n)
    if volume == 0.0:
        raise InputError(f"{graph.ends.where}: {n} nodes but no edge; nothing to cluster")
    if abs(skew[0]) > _SKEW * np.sqrt(skew[1]):
        raise InputError(
            f"{graph.ends.where}: is not symmetric; give every edge in both directions with one "
            "weight"
        )
    flatten(parent)
    component, count = _components(parent, degrees, space)
    return GraphSurvey(
        space, degrees, loops if any_loop else None, component, count, isolated, volume
    )


def _no_weight(graph: DiskGraph, block: RowBlock, at: int) -> InputError:
    row = block.first + int(np.searchsorted(block.indptr, at, side="right")) - 1
    value = float(block.data[at])
    what = "negative" if value < 0 else "too large" if value >= 1e30 else "not finite"
    return InputError(
        f"{graph.ends.where}: entry ({row}, {int(block.indices[at])}) is {value:g}, {what}; "
        "affinities are >= 0 and finite"
    )


def _components(parent: Any, degrees: Any, space: DiskSpace) -> tuple[Any, int]:
    """Component of every node on disk, None where linked nodes are one; and how many there are."""
    ranges = space.ranges(32)
    roots = np.concatenate(
        [
            rows.start
            + np.flatnonzero(
                (parent[rows] == np.arange(rows.start, rows.stop)) & (degrees[rows] > 0)
            )
            for rows in ranges
        ]
    )
    if roots.size == 1:
        return None, 1
    sizes = np.zeros(roots.size, dtype=np.int64)
    for rows in ranges:
        own = np.searchsorted(roots, parent[rows][degrees[rows] > 0])
        sizes += np.bincount(own, minlength=roots.size)
    rank = np.empty(roots.size, dtype=np.int32)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(roots.size, dtype=np.int32)
    component = space.new((), np.int32)
    for rows in ranges:
        own = np.minimum(np.searchsorted(roots, parent[rows]), roots.size - 1)
        component[rows] = np.where(degrees[rows] > 0, rank[own], 0).astype(np.int32)
    return component, int(roots.size)


def block_of_rows(graph: DiskGraph, X: DiskBlock, folder: Any, room: int) -> DiskBlock:
    """Rows (n, b) of nodes for every row of the caller, on disk.

    Nodes may come in any order, and a file is not read in any: columns that fit into `room` bytes
    are held, at least one. X itself where row i is node i.
    """
    from mustlink.space.disk import DiskSpace

    rows, (n, width) = graph.rows, X.shape
    if rows is None:
        return X
    nodes, callers = DiskSpace(n), DiskSpace(graph.n_rows, folder)
    out = callers.zeros(width, X.dtype)
    most = max(1, room // (X.dtype.itemsize * n))
    for first in range(0, width, most):
        columns = slice(first, min(first + most, width))
        held = np.empty((n, columns.stop - first), dtype=X.dtype)
        for part in nodes.ranges(2 * X.row_bytes):
            held[part] = X[part][:, columns]
        for part in callers.ranges(3 * X.row_bytes):
            found = out[part]
            found[:, columns] = held[rows[part]]
            out[part] = found
    return out


# --- Rows of a stored graph on ranks: each reads its share, the rows then go where the order wants
#
# A solver needs few rows of other ranks only where neighbours have near numbers. Therefore nodes
# are renumbered by reverse Cuthill-McKee, as in one process: by one rank, from the pattern alone.

_FAR = 1e30  # and its inverse: weights beyond are scaled in one process only
_SAME = 1e-6  # share by which sums over a symmetric W may differ: it may be in single precision
Rows = Callable[[int, int], sp.csr_matrix]  # first, end -> these rows (end − first, n) of W


@dataclass(eq=False)
class RankGraph:
    """Own rows of W among the m nodes with edges, in working order, and what they are called.

    `nodes` (m,) are their numbers in the graph, of `n_nodes`; the same on all ranks. The rows are
    handed over once, by `take`, so that scaling them needs no second copy.
    """

    ranks: Ranks
    division: Division
    nodes: NDArray[np.int64]
    n_nodes: int
    rows: sp.csr_matrix | None

    def take(self) -> sp.csr_matrix:
        """The rows (n_local, m); they are not held here any more."""
        found, self.rows = self.rows, None
        assert found is not None
        return found


def divided_rows(read: Rows, n_nodes: int, ranks: Ranks) -> RankGraph:
    """Read, check and deal out the rows of a symmetric non-negative W (n, n); InputError.

    Cost: one reading of the file by all together, one of its pattern by one of them, which holds
    4 bytes an entry meanwhile, and one exchange of rows.
    """
    from mustlink.space.division import Division

    share = Division(n_nodes, ranks.count)
    first, end = share.bounds[ranks.own : ranks.own + 2]
    W = read(int(first), int(end))
    W.sum_duplicates()
    W.eliminate_zeros()
    _check(W, int(first), ranks)
    order = _order(W, n_nodes, ranks)
    filled = ranks.joined(np.diff(W.indptr) > 0)
    nodes = order[filled[order]]
    if nodes.size < 2:
        raise InputError("graph: no edges; there is nothing to cluster")
    place = np.full(n_nodes, -1, dtype=np.int32)
    place[nodes] = np.arange(nodes.size, dtype=np.int32)
    division = Division(int(nodes.size), ranks.count)
    held = [W]
    del W  # it goes as soon as its rows are on their way
    rows = _dealt(held.pop(), place[first:end], place, division, ranks)
    return RankGraph(ranks, division, nodes, n_nodes, rows)


def redivided(W: sp.csr_matrix, filled: NDArray[np.bool_], had: RankGraph) -> RankGraph:
    """Other weights W (n_local, m) of the nodes of `had`: those that are `filled` (m,), dealt anew.

    The others have no entry.
    """
    from mustlink.space.division import Division

    ranks, kept = had.ranks, np.flatnonzero(filled)
    place = np.full(filled.size, -1, dtype=np.int32)
    place[kept] = np.arange(kept.size, dtype=np.int32)
    division = Division(int(kept.size), ranks.count)
    first, end = had.division.bounds[ranks.own : ranks.own + 2]
    rows = _dealt(W, place[first:end], place, division, ranks)
    return RankGraph(ranks, division, had.nodes[kept], had.n_nodes, rows)


def _check(W: sp.csr_matrix, first: int, ranks: Ranks) -> None:
    """Raise InputError on all ranks where one has weights that are none, or W is not symmetric."""
    least, most = float(W.data.min(initial=1.0)), float(W.data.max(initial=1.0))
    bad = not (np.isfinite(least) and np.isfinite(most)) or least < 0
    far = not bad and (least < 1 / _FAR or most > _FAR)
    # ⟨x, Wy⟩ = ⟨y, Wx⟩ for two vectors of whole numbers: an asymmetric W fails nearly always.
    x, y = (((np.arange(W.shape[1]) * odd) >> 7) % 1009 / 1009.0 for odd in (2654435761, 40503))
    with np.errstate(all="ignore"):
        products = [float(a[first : first + W.shape[0]] @ (W @ b)) for a, b in ((x, y), (y, x))]
    total = ranks.added(np.array([bad, far, *products], dtype=np.float64))
    if total[0]:
        raise InputError("graph: has weights that are negative, NaN or infinite; remove them")
    if total[1]:
        raise InputError("graph: has weights beyond 1e-30 and 1e30; scale them, or leave out ranks")
    if abs(total[2] - total[3]) > _SAME * abs(total[2]):
        raise InputError("graph: is not symmetric; give W + Wᵀ")


def _order(W: sp.csr_matrix, n_nodes: int, ranks: Ranks) -> NDArray[np.int64]:
    """Reverse Cuthill-McKee, of the pattern that rank 0 is sent."""
    lengths = ranks.gathered(np.diff(W.indptr).astype(np.int32))
    indices = ranks.gathered(W.indices.astype(np.int32, copy=False))
    order = None
    if ranks.own == 0:
        assert lengths is not None
        assert indices is not None
        ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        ones = np.broadcast_to(np.int8(1), indices.shape)
        pattern = sp.csr_matrix((ones, indices, ends), shape=(n_nodes, n_nodes))
        order = cuthill_mckee(pattern).astype(np.int32)
    return np.asarray(ranks.broadcast_array(order, n_nodes), dtype=np.int64)


def _dealt(
    W: sp.csr_matrix,
    own: NDArray[np.int32],
    place: NDArray[np.int32],
    division: Division,
    ranks: Ranks,
) -> sp.csr_matrix:
    """Rows with their new numbers at the ranks that have them, columns rising."""
    going = np.flatnonzero(own >= 0)
    going = going[np.argsort(own[going], kind="stable")]
    moved = W[going]
    counts = np.bincount(division.owner(own[going]), minlength=ranks.count)
    lengths = np.diff(moved.indptr).astype(np.int64)
    bounds = np.concatenate([[0], np.cumsum(counts)])
    entries = np.diff(moved.indptr[bounds].astype(np.int64))
    columns, weights = moved.indices, moved.data
    del W, moved
    numbers = ranks.sent(own[going], counts)
    lengths = ranks.sent(lengths, counts)
    columns = ranks.sent(place[columns], entries)
    weights = ranks.sent(weights, entries)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    came = sp.csr_matrix((weights, columns, starts), shape=(numbers.size, division.size))
    del columns, weights
    found = came[np.argsort(numbers)]
    found.sort_indices()
    return found
