"""Rows on the ranks of an MPI job: each has its own, and all run the same program.

A block is the array (n_local, b) of a rank's own rows. Whatever acts on rows alone is done as at
home; what is summed over nodes is added up by one reduction, in an order that does not depend on
the number of ranks, so that every rank goes the same way. Rows of others are fetched by PETSc's
star forests, as its matrices do.
"""

from __future__ import annotations

import weakref
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.blocks import Pieces, normals
from mustlink.space.division import Division
from mustlink.space.verbs import Ints, LocalSpace, Small, Space, Sum

Array = NDArray[Any]


class Ranks:
    """The ranks of an MPI communicator of mpi4py, and what they send one another."""

    def __init__(self, communicator: Any) -> None:
        self.communicator = communicator
        self.count: int = communicator.Get_size()
        self.own: int = communicator.Get_rank()

    def added(self, values: Array) -> Array:
        """Σ over ranks, entry by entry; the order matters to rounding alone."""
        values = np.ascontiguousarray(values)
        found = np.empty_like(values)
        self.communicator.Allreduce(values, found)
        return found

    def joined(self, rows: Array) -> Array:
        """The rows of all ranks one after the other, the same on all."""
        rows = np.ascontiguousarray(rows)
        counts = np.array(self.communicator.allgather(len(rows)))
        found = np.empty((int(counts.sum()), *rows.shape[1:]), dtype=rows.dtype)
        kind = _row_type(rows)
        self.communicator.Allgatherv(
            [rows, len(rows), kind], [found, counts, _before(counts), kind]
        )
        kind.Free()
        return found

    def sent(self, rows: Array, counts: Ints) -> Array:
        """What others sent here of their `rows`: to rank p the next counts[p] of them."""
        rows, counts = np.ascontiguousarray(rows), np.asarray(counts, dtype=np.int64)
        coming = np.array(self.communicator.alltoall(counts.tolist()), dtype=np.int64)
        found = np.empty((int(coming.sum()), *rows.shape[1:]), dtype=rows.dtype)
        kind = _row_type(rows)
        self.communicator.Alltoallv(
            [rows, counts, _before(counts), kind], [found, coming, _before(coming), kind]
        )
        kind.Free()
        return found

    def gathered(self, rows: Array) -> Array | None:
        """As `joined`, on rank 0 alone; None elsewhere."""
        rows = np.ascontiguousarray(rows)
        counts = np.array(self.communicator.allgather(len(rows)))
        here = self.own == 0
        found = np.empty((int(counts.sum()) if here else 0, *rows.shape[1:]), dtype=rows.dtype)
        kind = _row_type(rows)
        self.communicator.Gatherv(
            [rows, len(rows), kind], [found, counts, _before(counts), kind] if here else None
        )
        kind.Free()
        return found if here else None

    def fetched(self, forest: Any, X: Array, size: int) -> Array:
        """The rows (size, …) of others that one of PETSc's star forests brings here."""
        from mpi4py import MPI

        X = np.ascontiguousarray(X)
        found = np.empty((size, *X.shape[1:]), dtype=X.dtype)
        if 0 in X.shape[1:]:
            return found
        kind = _row_type(X)
        forest.bcastBegin(kind, X, found, MPI.REPLACE)
        forest.bcastEnd(kind, X, found, MPI.REPLACE)
        kind.Free()
        return found

    def broadcast(self, value: Any) -> Any:
        """The value of rank 0, on all; arrays go faster in `broadcast_array`."""
        return self.communicator.bcast(value)

    def broadcast_array(self, values: Array | None, size: int) -> Array:
        """The `size` numbers of four bytes, int32, that rank 0 has, on all."""
        found = np.empty(size, dtype=np.int32) if values is None else values
        self.communicator.Bcast(found)
        return found


def _before(counts: Ints) -> Ints:
    """Where the part of every rank begins."""
    return np.concatenate([[0], np.cumsum(counts)[:-1]])


def _row_type(rows: Array) -> Any:
    """The type of a row: so many bytes."""
    from mpi4py import MPI

    width = int(np.prod(rows.shape[1:], dtype=np.int64)) * rows.itemsize
    return MPI.BYTE.Create_contiguous(width).Commit()


class RankSpace(LocalSpace):
    """The space of nodes in a `division`, as a rank sees it: rows `first` to `end` are here.

    `numbers` are those of all nodes in the graph.
    """

    def __init__(self, ranks: Ranks, division: Division, numbers: Ints | None = None) -> None:
        self.ranks, self.division = ranks, division
        self.first, self.end = (int(at) for at in division.bounds[ranks.own : ranks.own + 2])
        own, following = (int(piece) for piece in division.runs[ranks.own : ranks.own + 2])
        bounds = np.unique(division.pieces[own : following + 1])
        pieces = tuple(slice(int(a), int(b)) for a, b in pairwise(bounds - self.first))
        own_pieces = Pieces(division.size, pieces)
        super().__init__(self.end - self.first, within=own_pieces, numbers=numbers)
        self.size = division.size
        self._home = LocalSpace(self.held, within=self._within)  # of own rows alone
        self._nodes = division.own_nodes(ranks.own)

    gram, dots = Space.gram, Space.dots

    def sums(self, *wanted: Sum) -> list[Small]:
        starts = self.division.pieces - self.first
        shapes: list[tuple[int, ...]] = []

        def of_piece(piece: int) -> Small:
            rows = _Rows(slice(int(starts[piece]), int(starts[piece + 1])))
            found = self._home.sums(*(one.of(rows.of) for one in wanted))
            shapes[:] = [each.shape for each in found]
            return np.concatenate([each.ravel() for each in found])

        own = [self.division.below(at, of_piece) for at in self._nodes]
        every = np.zeros((len(self.division.nodes), own[0].size))
        every[self._nodes] = own
        total = self.division.total(self.ranks.added(every))
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        parts = np.split(total, ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def peaks(self, X: Array) -> Small:
        every = self.ranks.joined(self._home.peaks(X)[None])
        best = np.abs(every).argmax(axis=0)
        return every[best, np.arange(X.shape[1])]

    def largest(self, v: Array, count: int) -> Ints:
        own = self._home.largest(v, min(count, self.held))
        values, nodes = self.ranks.joined(v[own, 0]), self.ranks.joined(own + self.first)
        return nodes[np.lexsort((nodes, -values))][:count]

    def lessen(self, R: Array, V: Array, a: Small) -> Small:
        self._home.lessen(R, V, a)
        return self.dots(R, R)

    def lessened(self, X: Array, V: Array, a: Small) -> tuple[Array, Small]:
        found, _ = self._home.lessened(X, V, a)
        return found, self.dots(found, found)

    def normals(self, width: int, seed: int) -> Array:
        return normals(np.arange(self.first, self.end), width, seed)

    def take(self, X: Array, nodes: Ints) -> Array:
        found = np.zeros((len(nodes), *X.shape[1:]), dtype=X.dtype)
        here = self._here(nodes)
        found[here] = X[np.asarray(nodes)[here] - self.first]
        return self.ranks.added(found)

    def place(self, X: Array) -> Array:
        return np.array(X[self.first : self.end])

    def add_rows(self, X: Array, nodes: Ints, rows: Any) -> None:
        here = self._here(nodes)
        X[np.asarray(nodes)[here] - self.first] += rows[here]

    def _here(self, nodes: Ints) -> NDArray[np.bool_]:
        nodes = np.asarray(nodes)
        return (nodes >= self.first) & (nodes < self.end)


class _Rows:
    """Some rows of blocks: what is one block in several sums stays one."""

    def __init__(self, rows: slice) -> None:
        self.rows = rows
        self._known: dict[int, Any] = {}

    def of(self, V: Any) -> Any:
        """These rows of a block, or of each in a list."""
        if id(V) not in self._known:
            parts = [self.of(X) for X in V] if isinstance(V, list) else V[self.rows]
            self._known[id(V)] = parts
        return self._known[id(V)]


class Halo:
    """Rows of a few nodes beside a rank's own, `nodes` (h,) rising, none of them held here."""

    def __init__(self, space: RankSpace, nodes: NDArray[np.int64]) -> None:
        from petsc4py import PETSc

        self.space, self.nodes = space, nodes
        owners = space.division.owner(nodes)
        remote = np.column_stack([owners, nodes - space.division.bounds[owners]])
        self._forest = PETSc.SF().create(comm=space.ranks.communicator)
        self._forest.setGraph(space.held, None, remote.astype(PETSc.IntType))
        self._forest.setUp()
        # What Python drops PETSc would keep, and have all ranks agree upon at the end: ranks that
        # drop it at other times were seen to wait for each other for ever.
        weakref.finalize(self, self._forest.destroy)

    @property
    def size(self) -> int:
        """Number h of rows that are fetched."""
        return int(self.nodes.size)

    def fetched(self, X: Array) -> Array:
        """The rows (h, …) of the nodes; every rank asks at the same time."""
        return self.space.ranks.fetched(self._forest, X, self.size)

    def beside(self, X: Array) -> Array:
        """Own rows, then those fetched, (n_local + h, …)."""
        return np.concatenate([X, self.fetched(X)])
