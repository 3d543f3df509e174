"""Rows of W where F is wanted, in memory, on disk or on ranks: what propagation asks of them.

Parts of the constraints are spread each in its region. In memory that is the whole graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.graph.disk_graph import RowBlock
from mustlink.graph.graph import fold
from mustlink.graph.row_buckets import EntryRuns
from mustlink.kernels.spmm import sampled_product
from mustlink.lyapunov.fields import LocalField, LowRankField
from mustlink.operators.laplacian import GroundedLaplacian
from mustlink.operators.protocol import Edges
from mustlink.space import Block
from mustlink.space.disk import PASS_BYTES, ScratchFile

if TYPE_CHECKING:
    from mustlink.operators.stored_laplacians import DiskLaplacian, RankLaplacian

_AT_ONCE = 8  # regions that are looked for together: a pass over the graph each step
_GO = 1 << 22  # entries that are written in one go
_QUANTILES = (0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0)
_FOUND = np.dtype([("part", np.int32), ("row", np.int32), ("column", np.int32), ("F", np.float64)])
_SUMS = np.dtype([("query", np.int64), ("part", np.int64), ("F", np.float64)])

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
PartialSums = tuple[int, Ints, Floats]  # a part's number, places in a list of pairs, F of them


@dataclass(frozen=True, eq=False)
class Region:
    """Some nodes (u,), rising, and L̄ between them: sources that stay there know no other."""

    nodes: Ints
    laplacian: GroundedLaplacian

    @classmethod
    def of(cls, nodes: Ints, rows: sp.csr_matrix, root: Floats) -> Region:
        """From the weights (u, u) between the nodes, used up, and D^½ of the whole graph there."""
        rows.sum_duplicates()
        scale = 1.0 / root
        rows.data *= np.repeat(scale, np.diff(rows.indptr))
        rows.data *= scale[rows.indices]
        return cls(nodes, GroundedLaplacian(rows, root))


class MemoryRows:
    """Rows of W in memory: one region, in which constraints are spread all at once if they can be.

    `room` are the bytes for factors, None for no limit. Of nodes that stand for `copies` (m,) F is
    that of one copy and another, see `solve_pairs`. `beliefs` (nnz,) is F on the edges afterwards.
    Disk and ranks, below, say what is otherwise there.
    """

    in_memory = True
    at_once = 1

    def __init__(self, laplacian: Any, room: int | None = None, copies: Floats | None = None):
        self.laplacian, self.room, self.copies = laplacian, room, copies
        self.beliefs: Any = np.zeros(laplacian.n_entries)

    @property
    def n_entries(self) -> int:
        """Stored weights of W, of all processes."""
        return int(self.laplacian.n_entries)

    def rounds(self, reached: Block | None) -> Iterator[tuple[int, Region | None]]:
        """The column of `reached` (m, p) and its region that this process works on, by rounds."""
        yield 0, Region(np.arange(self.laplacian.size), self.laplacian)

    def of_copies(self, field: Any) -> Any:
        """F between copies."""
        return field if self.copies is None else field.scaled(1.0 / np.sqrt(self.copies))

    # --- F on edges

    def deliver(self, region: Region | None, F: Floats | None) -> None:
        """F on the entries of a region, added to what is known of the edges; once a round."""
        self.beliefs += F

    def add(self, field: Any) -> None:
        """The same of a field of all nodes."""
        self.beliefs += field.on_pattern(self.laplacian.pattern)

    def heaviest(self) -> float:
        """The largest weight of W, between copies where nodes stand for several."""
        W = self.laplacian.graph_weights
        return float((W if self.copies is None else fold(W, 1.0 / self.copies)).data.max(initial=0))

    def of_block(self, first: int, W: sp.csr_matrix) -> Floats:
        """F on the entries of the rows W (r, m) from `first` on, as many as a block has."""
        result: Floats = self.beliefs
        return result

    def _blocks(self) -> Iterator[Floats]:
        """F of this process where it is known, by blocks."""
        yield self.beliefs

    def largest(self) -> float:
        """Largest |F| of all edges."""
        own = max(float(np.abs(F).max(initial=0.0)) for F in self._blocks())
        return float(self.joined(np.array([own])).max())

    def counts(self, floor: float, added: int) -> dict[str, Any]:
        """Edges by what F does to them: |F| <= floor leaves them alone; and quantiles in memory."""
        counts = [((floor < F).sum(), (-floor > F).sum()) for F in self._blocks()]
        up, down = (self.added(np.sum(counts, axis=0)) // 2).tolist()
        left = self.n_entries // 2 - up - down
        changes = {"strengthened": up, "weakened": down, "added": added, "untouched": left}
        if not self.in_memory:
            return changes
        changed = self.beliefs[np.abs(self.beliefs) > floor]
        spread = np.quantile(changed, _QUANTILES) if changed.size else np.zeros(len(_QUANTILES))
        F = {f"{q:g}": float(v) for q, v in zip(_QUANTILES, spread, strict=True)}
        return {**changes, "F": F}

    # --- F of other pairs

    def stored(
        self, field: LocalField, pattern: Edges, again: Callable[[], LocalField] | None
    ) -> Callable[[], tuple[LocalField, Edges]]:
        """A field and the edges of its region until they are needed again.

        `again` spreads anew, where several fields would be too much.
        """
        return (lambda: (field, pattern)) if again is None else (lambda: (again(), pattern))

    def of_pairs(self, field: LowRankField, first: Ints, second: Ints) -> Floats:
        """F of pairs, by rising `first`; on ranks own ones, and `joined` makes all of them."""
        m = self.laplacian.size
        pairs: Any = sp.csr_matrix((np.ones(first.size), (first, second)), shape=(m, m))
        return field.on_pattern(Edges(pairs.indptr, pairs.indices))

    def summed(self, parts: Iterator[PartialSums], count: int) -> Floats:
        """F (count,) of pairs, the sum of what the parts say, in their order."""
        F = np.zeros(count)
        for _, at, values in parts:
            F[at] += values
        return F

    def joined(self, result: NDArray[Any]) -> NDArray[Any]:
        """What all processes found, one after the other."""
        return result

    def added(self, values: NDArray[Any]) -> NDArray[Any]:
        """Σ over processes, entry by entry."""
        return values


class DiskRows(MemoryRows):
    """Rows of W on disk: one process, one region at a time; F by blocks of rows, on disk as well.

    Memory: a region and what is found in it, `room` bytes, and 4 bytes a node.
    """

    in_memory = False
    at_once = _AT_ONCE

    def __init__(self, laplacian: DiskLaplacian, room: int | None, folder: Any = None) -> None:
        self.laplacian, self.room, self.copies = laplacian, room, None
        self._folder = folder
        self.beliefs = EntryRuns(laplacian.graph.bounds, folder)

    @property
    def n_entries(self) -> int:
        return int(self.laplacian.graph.n_entries)

    def rounds(self, reached: Any) -> Iterator[tuple[int, Region | None]]:
        for column in range(reached.shape[1]):
            yield column, self._region(reached, column)

    def _region(self, reached: Any, column: int) -> Region:
        space, root = self.laplacian.space, self.laplacian.root_degree
        nodes, roots = [], []
        for rows in space.ranges(reached.row_bytes + 16):
            here = np.flatnonzero(reached[rows][:, column])
            nodes.append(here + rows.start)
            roots.append(root[rows][here])
        result = np.concatenate(nodes)
        place = np.full(space.size, -1, dtype=np.int32)
        place[result] = np.arange(result.size, dtype=np.int32)
        columns: list[NDArray[np.int32]] = []
        weights: list[NDArray[np.float32]] = []
        lengths: list[Ints] = []
        for block in self.laplacian.graph.blocks():
            part = _among(block, result, place)
            columns.append(part[0])
            weights.append(part[1])
            lengths.append(part[2])
        ends = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        kind = np.int32 if ends[-1] < np.iinfo(np.int32).max else np.int64
        W: Any = sp.csr_matrix((result.size, result.size))
        W.indptr, W.indices = ends.astype(kind), _joined(columns).astype(kind, copy=False)
        W.data = _joined(weights).astype(np.float64)
        return Region.of(result, W, np.concatenate(roots))

    def deliver(self, region: Region | None, F: Floats | None) -> None:
        assert region is not None
        assert F is not None
        pattern, nodes, values = region.laplacian.pattern, region.nodes, F

        def parts() -> Iterator[tuple[Ints, Ints, Floats]]:
            for first in range(0, values.size, _GO):
                nonzero = np.flatnonzero(values[first : first + _GO]) + first
                rows = np.searchsorted(pattern.indptr, nonzero, side="right") - 1
                yield nodes[rows], nodes[pattern.indices[nonzero]], values[nonzero]

        self.beliefs.add(parts())

    def add(self, field: LowRankField) -> None:
        """Some rows of the factors are in memory, with those of neighbours."""
        width = max((theta.size for _, theta in field.terms), default=1)

        def parts() -> Iterator[tuple[Ints, Ints, Floats]]:
            for block in self.laplacian.graph.blocks():
                row = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
                step = max(1, PASS_BYTES // (32 * width))
                for first in range(0, block.nnz, step):
                    ends = row[first : first + step], block.indices[first : first + step]
                    rows = ends[0].astype(np.int64) + block.first
                    yield rows, ends[1], self.of_pairs(field, rows, ends[1])

        self.beliefs.add(parts())

    def of_pairs(self, field: LowRankField, first: Ints, second: Ints) -> Floats:
        """F_ij and F_ji are the same bits."""
        F, space = np.zeros(first.size), self.laplacian.space
        for Z, theta in field.terms:
            scale = np.sqrt(np.abs(theta))
            step = max(1, PASS_BYTES // (32 * theta.size))
            for start in range(0, first.size, step):
                part = slice(start, start + step)
                left, right = (space.take(Z, ends[part]) * scale for ends in (first, second))
                F[part] += np.einsum("ek,ek,k->e", left, right, np.sign(theta))
        return F

    def heaviest(self) -> float:
        return max(float(block.data.max(initial=0.0)) for block in self.laplacian.graph.blocks())

    def of_block(self, first: int, W: sp.csr_matrix) -> Floats:
        number = int(np.searchsorted(self.beliefs.bounds, first))
        return _aligned(W, self.beliefs.block(number))

    def _blocks(self) -> Iterator[Floats]:
        for number in range(self.beliefs.bounds.size - 1):
            yield self.beliefs.block(number).data

    def stored(
        self, field: LocalField, pattern: Edges, again: Callable[[], LocalField] | None
    ) -> Callable[[], tuple[LocalField, Edges]]:
        """The large arrays are in a temporary file meanwhile."""
        large = field.rows, field.values, pattern.indptr, pattern.indices
        file = ScratchFile(self._folder, sum(each.nbytes for each in large))
        shapes, at = [(each.shape, each.dtype) for each in large], 0
        for each in large:
            file.write(at, np.ascontiguousarray(each))
            at += each.nbytes
        small = replace(field, rows=field.rows[:0].copy(), values=field.values[:0].copy())

        def read() -> tuple[LocalField, Edges]:
            result, at = [np.empty(*each) for each in shapes], 0
            for each in result:
                file.read(at, each)
                at += each.nbytes
            rows, values, indptr, indices = result
            return replace(small, rows=rows, values=values), Edges(indptr, indices)

        return read


class RankRows(MemoryRows):
    """Rows of W on ranks: of the parts in turn each rank has one, in a region sent to it.

    `weights` are own rows of W (n_local, m), `beliefs` F on their entries. The same on any number
    of ranks, bit by bit: what parts say of an edge is added in their order. Memory: own rows
    twice, a region and what is found in it; fields of own parts.
    """

    in_memory = False

    def __init__(self, laplacian: RankLaplacian) -> None:
        self.laplacian, self._space = laplacian, laplacian.space
        self.room, self.copies = None, None  # the limits of a rank are those of the scheduler
        ranks, local = self._space.ranks, laplacian.matrix.local
        self._ranks, self._n_entries = ranks, int(ranks.joined(np.array([local.nnz])).sum())
        self.at_once = ranks.count * max(1, _AT_ONCE // ranks.count)
        self.weights = laplacian.graph_weights
        self.beliefs = np.zeros(local.nnz)

    @property
    def n_entries(self) -> int:
        return self._n_entries

    def rounds(self, reached: Any) -> Iterator[tuple[int, Region | None]]:
        count = reached.shape[1]
        for first in range(0, count, self._ranks.count):
            last = min(first + self._ranks.count, count)
            region = self._sent(reached[:, first:last])
            self._part = first + self._ranks.own
            yield self._part, region

    def _sent(self, reached: NDArray[Any]) -> Region | None:
        """The region of own column, of rows that all ranks send."""
        W, ranks = self.weights, self._ranks
        chosen = [np.flatnonzero(reached[:, column]) for column in range(reached.shape[1])]
        chosen += [np.empty(0, np.int64)] * (ranks.count - len(chosen))
        counts = np.array([own.size for own in chosen])
        going = np.concatenate(chosen)
        rows = W[going]
        bounds = np.concatenate([[0], np.cumsum(counts)])
        entries = np.diff(rows.indptr[bounds].astype(np.int64))
        nodes = ranks.sent(going.astype(np.int64) + self._space.first, counts)
        root = ranks.sent(self.laplacian.root_degree[going], counts)
        lengths = ranks.sent(np.diff(rows.indptr).astype(np.int64), counts)
        columns, weights = ranks.sent(rows.indices, entries), ranks.sent(rows.data, entries)
        if ranks.own >= reached.shape[1]:
            return None
        place = np.full(self.laplacian.size, -1, dtype=np.int32)
        place[nodes] = np.arange(nodes.size, dtype=np.int32)
        columns = place[columns]
        row = np.repeat(np.arange(nodes.size), lengths)
        inside = columns >= 0
        ends = np.concatenate([[0], np.cumsum(np.bincount(row[inside], minlength=nodes.size))])
        parts = weights[inside], columns[inside], ends.astype(np.int32)
        among: Any = sp.csr_matrix(parts, shape=(nodes.size, nodes.size))
        return Region.of(nodes, among, root)

    def deliver(self, region: Region | None, F: Floats | None) -> None:
        result = np.empty(0, dtype=_FOUND)
        if region is not None and F is not None:
            nonzero = np.flatnonzero(F)
            pattern, nodes = region.laplacian.pattern, region.nodes
            row = np.searchsorted(pattern.indptr, nonzero, side="right") - 1
            result = np.empty(nonzero.size, dtype=_FOUND)
            result["part"], result["F"] = self._part, F[nonzero]
            result["row"], result["column"] = nodes[row], nodes[pattern.indices[nonzero]]
        counts = np.diff(np.searchsorted(result["row"], self._space.division.bounds))
        came = self._ranks.sent(result, counts)
        ours = _keys(self.weights)
        for part in np.unique(came["part"]):
            own = came[came["part"] == part]
            rows = own["row"].astype(np.int64) - self._space.first
            at = np.searchsorted(ours, rows * self.laplacian.size + own["column"])
            self.beliefs[at] += own["F"]

    def add(self, field: LowRankField) -> None:
        self.beliefs += self._sampled(field, self.laplacian.matrix)

    def of_pairs(self, field: LowRankField, first: Ints, second: Ints) -> Floats:
        space = self._space
        own = (first >= space.first) & (first < space.end)
        ends = first[own] - space.first, second[own]
        ones: Any = sp.csr_matrix((np.ones(ends[0].size), ends), shape=self.weights.shape)
        return self._sampled(field, type(self.laplacian.matrix).of_rows(space, ones))

    def _sampled(self, field: LowRankField, matrix: Any) -> Floats:
        """F on own entries of a matrix: F_ij and F_ji, perhaps of two ranks, are the same bits."""
        F = np.zeros(matrix.local.nnz)
        for Z, theta in field.terms:
            own = Z * np.sqrt(np.abs(theta))
            sampled_product(matrix.local, own, matrix.halo.beside(own), np.sign(theta), F)
        return F

    def heaviest(self) -> float:
        return float(self._ranks.joined(np.array([self.weights.data.max()])).max())

    def stored(
        self, field: LocalField, pattern: Edges, again: Callable[[], LocalField] | None
    ) -> Callable[[], tuple[LocalField, Edges]]:
        return lambda: (field, pattern)

    def summed(self, parts: Iterator[PartialSums], count: int) -> Floats:
        sums = [np.empty(0, dtype=_SUMS)]
        for number, at, values in parts:
            here = np.empty(at.size, dtype=_SUMS)
            here["query"], here["part"], here["F"] = at, number, values
            sums.append(here)
        every = self.joined(np.concatenate(sums))
        every = every[np.lexsort((every["part"], every["query"]))]  # one order of the sums
        F = np.zeros(count)
        np.add.at(F, every["query"], every["F"])
        return F

    def joined(self, result: NDArray[Any]) -> NDArray[Any]:
        return self._ranks.joined(result)

    def added(self, values: NDArray[Any]) -> NDArray[Any]:
        return self._ranks.added(values)


def _keys(W: sp.csr_matrix) -> Ints:
    """A number for every entry, rising where columns rise in every row."""
    rows = np.repeat(np.arange(W.shape[0]) * int(W.shape[1]), np.diff(W.indptr))
    return np.asarray(rows + W.indices, dtype=np.int64)


def _aligned(W: sp.csr_matrix, F: sp.csr_matrix) -> Floats:
    """Entries of F where those of W are, columns rising in both; W has an entry where F has."""
    result = np.zeros(W.nnz)
    if F.nnz:
        result[np.searchsorted(_keys(W), _keys(F))] = F.data
    return result


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """All in one, and the parts are let go."""
    result = np.concatenate(parts)
    parts.clear()
    return result


def _among(
    block: RowBlock, nodes: Ints, place: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.float32], Ints]:
    """Columns by their place, weights and lengths of the rows of `nodes` in a block, among them."""
    first, stop = np.searchsorted(nodes, [block.rows.start, block.rows.stop])
    own = nodes[first:stop] - block.first
    begin, lengths = block.indptr[own], np.diff(block.indptr)[own]
    row = np.repeat(np.arange(own.size), lengths)
    before = np.cumsum(lengths) - lengths
    at = np.arange(row.size) + (begin - before)[row]
    columns, weights = place[block.indices[at]], block.data[at]
    inside = (columns >= 0) & (weights > 0)
    counts = np.bincount(row[inside], minlength=own.size)
    return columns[inside], weights[inside], counts
