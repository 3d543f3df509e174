"""L̄ on ranks, each of which multiplies its own rows, and L̄ of a graph that stays in its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from mustlink.graph.disk_graph import DiskGraph, GraphSurvey, RowBlock
from mustlink.graph.graph import component_labels
from mustlink.kernels.disk_rows import advance
from mustlink.kernels.spmm import scaled
from mustlink.operators.laplacian import GroundedLaplacian, grounded_degrees
from mustlink.operators.protocol import RankMatrix
from mustlink.space import Dots, GroupSums, NullSpace, Small, Vector
from mustlink.space.disk import DiskBlock, DiskSpace
from mustlink.space.ranks import Halo, RankSpace

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class RankLaplacian(GroundedLaplacian):
    """L̄ = I − S, S = D^-½WD^-½ divided among ranks, without isolated nodes; see `Laplacian`.

    S (n_local, n_local + h) are own rows, see `RankMatrix`; vectors are of own nodes. `volume`
    is the sum of all degrees.
    """

    halo: Halo
    volume: float
    null: NullSpace = field(repr=False)

    @classmethod
    def of_weights(
        cls, space: RankSpace, rows: sp.csr_matrix, numbers: NDArray[np.integer[Any]]
    ) -> RankLaplacian:
        """From own rows (n_local, n) of W, each with an entry, columns rising; rows are used up.

        `numbers` (n,) are those of all working nodes in the graph.
        Cost: two exchanges of halos, and the links between parts of ranks on all of them.
        """
        W = RankMatrix.of_rows(space, rows)
        degrees = np.add.reduceat(W.local.data, W.local.indptr[:-1], dtype=np.float64)
        root = np.sqrt(degrees)
        scale = 1.0 / W.beside(root)
        W.local.data = W.local.data.astype(np.float64, copy=False)
        W.local.data = scaled(W.local, scale)
        component, count = components(W, numbers)
        (volumes,) = space.sums(GroupSums(degrees[:, None], component, count))
        null = NullSpace(component, root / np.sqrt(volumes[component, 0]), count, space)
        return cls(W.local, root, W.halo, float(volumes.sum()), null)

    @property
    def space(self) -> RankSpace:
        return self.halo.space

    @property
    def size(self) -> int:
        return self.space.size

    @property
    def graph_weights(self) -> sp.csr_matrix:
        """Own rows (n_local, m) of W = D^½SD^½, with global columns; arrays of its own."""
        S, root = self.S, self.root_degree
        data = S.data * self.beside(root)[S.indices]
        data *= np.repeat(root, np.diff(S.indptr))
        columns = self.matrix.numbers.astype(np.int32)[S.indices]
        return sp.csr_matrix((data, columns, S.indptr), shape=(S.shape[0], self.size))

    def beside(self, X: Any) -> Any:
        return self.halo.beside(X)

    @cached_property
    def matrix(self) -> RankMatrix:
        return RankMatrix(self.S, self.halo)

    def three_terms(
        self, V: Array, old: Array, weights: tuple[float, float, float], out: Array
    ) -> tuple[float, float]:
        """See `Laplacian`; the sums are the same on any number of ranks."""
        super().three_terms(V, old, weights, out)
        inner, square = self.space.sums(Dots(out, V), Dots(out, out))
        return float(inner.sum()), float(square.sum())

    def grounded(self, ground: Array, kept: Array) -> Self:
        null = NullSpace.empty(self.space.held, self.space)
        return replace(super().grounded(ground, kept), null=null)


def components(
    matrix: RankMatrix, numbers: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.int32], int]:
    """Component of own nodes (n_local,), as in memory 0 the largest, and how many there are.

    Of equally large ones the graph's order decides, in which nodes have these `numbers` (n,).
    Every rank finds those among its own rows; what the links to others join is found by all, in a
    graph of one node a part and one edge a pair of parts that touch.
    """
    space, local, halo = matrix.space, matrix.local, matrix.halo
    own = component_labels(_among_own(local, space.held))
    counts = space.ranks.joined(np.array([int(own.max()) + 1]))
    offset, total = int(counts[: space.ranks.own].sum()), int(counts.sum())
    part = own.astype(np.int64) + offset
    there = halo.fetched(part)
    crossing = np.flatnonzero(local.indices >= space.held)
    rows = np.searchsorted(local.indptr, crossing, side="right") - 1
    pairs = part[rows] * total + there[local.indices[crossing] - space.held]
    ends = np.divmod(space.ranks.joined(np.unique(pairs)), total)
    links = sp.csr_matrix((np.ones(ends[0].size), ends), shape=(total, total))
    count, joined = connected_components(links, directed=False)
    sizes = space.ranks.added(np.bincount(joined[part], minlength=count))
    firsts = np.full(count, int(numbers.max()) + 1)
    np.minimum.at(firsts, joined[part], numbers[space.first : space.end])
    first = space.ranks.joined(firsts[None]).min(axis=0)
    number = np.empty(count, dtype=np.int32)
    number[np.lexsort((first, -sizes))] = np.arange(count, dtype=np.int32)
    return number[joined[part]], count


def _among_own(local: sp.csr_matrix, held: int) -> sp.csr_matrix:
    """The pattern between own nodes; links to others stay as loops, which join nothing."""
    loops = np.repeat(np.arange(held, dtype=np.int32), np.diff(local.indptr))
    columns = np.where(local.indices < held, local.indices, loops)
    ones = np.broadcast_to(np.float64(1.0), columns.shape)
    return sp.csr_matrix((ones, columns, local.indptr), shape=(held, held))


# --- L̄ of a graph on disk: columns of a block in memory, as many as there is room for, rows read
#
# Inside an iteration vectors are x = T^-½v, so that a step is one with P = T⁻¹W, whose rows are
# those of W divided by a number: the weights are used as they lie on disk, and T is read with them.


Columns = NDArray[Any]  # in memory, in single or double precision
Steps = Sequence[tuple[float, float, float]]

_HELD = 2  # blocks in memory of a recurrence


@dataclass(frozen=True, eq=False)
class DiskLaplacian:
    """L̄ = I − T^-½WT^-½ of all n nodes of a graph on disk, isolated ones being 0 in every block.

    `inverse` (n,) is T⁻¹ and 0 for isolated nodes, `root_degree` T^½; T are the degrees. `room` are
    the bytes that columns in memory may take; with one column of 8 bytes a node it works all the
    same. `ground` (n,) is by how much T exceeds the degrees of a `grounded` one.
    """

    graph: DiskGraph
    space: DiskSpace
    inverse: DiskBlock
    root_degree: DiskBlock
    null: NullSpace = field(repr=False)
    volume: float
    room: int
    loops: DiskBlock | None = None
    ground: DiskBlock | None = None

    dtype = np.dtype(np.float32)

    @classmethod
    def of(cls, graph: DiskGraph, seen: GraphSurvey, room: int) -> DiskLaplacian:
        """From a survey of the graph."""
        space = seen.space
        root = space.rowwise(np.sqrt, seen.degrees)
        inverse = space.rowwise(_inverse, seen.degrees)
        null = _null(seen, root)
        return cls(graph, space, inverse, root, null, seen.volume, room, seen.loops)

    def grounded(self, ground: Vector, kept: Vector) -> DiskLaplacian:
        """I − T^-½WT^-½, T = D + diag(ground), on nodes `kept` (n,), see `grounded_degrees`."""
        root, total, _ = grounded_degrees(self, ground, kept)
        inverse = self.space.rowwise(lambda r: _inverse(r**2), root)
        null = NullSpace.empty(self.size, self.space)
        return replace(self, inverse=inverse, root_degree=root, null=null, ground=total)

    @property
    def size(self) -> int:
        return self.graph.n_nodes

    @cached_property
    def diagonal(self) -> Vector:
        if self.loops is None:
            return self.space.rowwise(np.ones_like, self.inverse)
        return self.space.rowwise(lambda own, by: 1.0 - own * by, self.loops, self.inverse)

    def apply(self, X: Any) -> DiskBlock:
        """L̄X for a block (n, b), in its precision; a pass over the graph for some columns."""
        return self.recurrence(X, [(-1.0, 1.0, 0.0)])

    def smooth(self, X: Any, times: int) -> DiskBlock:
        return self.recurrence(X, [(0.5, 0.5, 0.0)] * times)

    def three_terms(
        self, V: Any, old: Any, weights: tuple[float, float, float], out: Any
    ) -> tuple[float, float]:
        a, b, c = weights
        result = self.recurrence(V, [(a, b, 0.0)])
        self.space.blend(result, 1.0, (old, c))
        self.space.blend(out, 0.0, (result, 1.0))
        inner, square = (s.sum() for s in (self.space.dots(out, V), self.space.dots(out, out)))
        return float(inner), float(square)

    def recurrence(self, X: Any, steps: Steps) -> DiskBlock:
        """The last term of X_{t+1} = a_t SX_t + b_t X_t + c_t X_{t−1}, X_0 = X, by steps (a, b, c).

        Blocks on disk are read and written once, whatever the number of steps.
        """

        def run(V: Columns) -> Columns:
            old = np.zeros_like(V)
            for weights in steps:
                self._advance(V, weights, old)
                V, old = old, V
            return V

        return self.in_memory(X, run, _HELD, X.dtype)

    def in_memory(
        self, X: Any, run: Callable[[Columns], Columns], held: int, dtype: Any = np.float32
    ) -> DiskBlock:
        """What `run` makes of columns of T^-½X in memory, times T^½; it holds `held` blocks.

        Columns are in `dtype`, the result is in the precision of X.
        """
        out, dtype = self.space.zeros(X.shape[1], X.dtype), np.dtype(dtype)
        for columns in self._groups(X.shape[1], held * dtype.itemsize):
            result = run(self._entered(X, columns, dtype))
            whole = result.shape[1] == X.shape[1]
            for rows in self.space.ranges(3 * out.row_bytes):
                part = result[rows] * self.root_degree[rows].astype(dtype)[:, None]
                if not whole:
                    part, made = out[rows], part
                    part[:, columns] = made
                out[rows] = part
            del result  # before the next group is made
        return out

    def _advance(self, V: Columns, weights: tuple[float, float, float], out: Columns) -> None:
        """In place out = a·PV + b·V + c·out, one pass over the graph."""
        scalars = np.array(weights, dtype=V.dtype)
        for block, inverse, sums in self.rows(V.shape[1], V.dtype):
            advance(block, V, inverse, scalars, sums, out)

    def rows(
        self, width: int, dtype: Any = np.float32
    ) -> Iterator[tuple[RowBlock, Columns, Columns]]:
        """Blocks of rows with T⁻¹ of them, and room (m, width) for their sums."""
        sums = np.empty((0, width), dtype=dtype)
        for block in self.graph.blocks():
            inverse = self.inverse[block.rows].astype(dtype)
            if len(sums) < inverse.size:
                sums = np.empty((inverse.size, width), dtype=dtype)
            yield block, inverse, sums[: inverse.size]

    def _groups(self, width: int, bytes_each: int) -> Iterator[slice]:
        """Columns that are in memory together, of so many bytes a node: as even as may be."""
        most = max(1, self.room // (bytes_each * self.size))
        count = -(-width // most)
        ends = [width * k // max(count, 1) for k in range(count + 1)]
        for a, b in pairwise(ends):
            yield slice(a, b)

    def _entered(self, X: Any, columns: slice, dtype: np.dtype[Any]) -> Columns:
        """Columns of T^-½X."""
        result = np.empty((self.size, columns.stop - columns.start), dtype=dtype)
        for rows in self.space.ranges(2 * X.row_bytes + 16):
            scale = np.sqrt(self.inverse[rows])[:, None]
            np.multiply(X[rows][:, columns], scale, out=result[rows], casting="same_kind")
        return result


def _inverse(degree: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)


def _null(seen: GraphSurvey, root: DiskBlock) -> NullSpace:
    """Null vectors D^½1_c/√vol_c of the components."""
    space, component = seen.space, seen.component
    if component is None:
        by = float(np.sqrt(seen.volume))
        weight = space.rowwise(lambda r: r / by, root)
        return NullSpace(space.new((), np.int32), weight, 1, space)
    volumes: Small = np.zeros(seen.n_components)
    for rows in space.ranges(64):
        volumes += np.bincount(component[rows], seen.degrees[rows], seen.n_components)
    sizes = np.sqrt(volumes)
    weight = space.rowwise(lambda r, c: r / sizes[c], root, component)
    return NullSpace(component, weight, seen.n_components, space)
