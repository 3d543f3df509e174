"""What the methods on ranks share: L̄ and its grids, and the way from own rows to the caller's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.method_cost import n_guard_vectors
from mustlink.core.observe import Observer, Recorder
from mustlink.core.resources import peak_bytes
from mustlink.core.result import EigenResult
from mustlink.eigen.plain_solve import PairsKey, filtered, two_precisions
from mustlink.eigen.work import RANKS, RowWork
from mustlink.errors import InputError
from mustlink.graph.disk_graph import RankGraph, Rows, divided_rows, redivided
from mustlink.graph.graph import SEEN, Derived, GraphLook, is_network
from mustlink.linear.multigrid.hierarchy import Hierarchy
from mustlink.linear.multigrid.rank_grids import divided_hierarchy
from mustlink.operators.laplacian import regularized
from mustlink.operators.protocol import Preconditioner
from mustlink.operators.stored_laplacians import RankLaplacian
from mustlink.space import GroupSums
from mustlink.space.ranks import Ranks, RankSpace
from mustlink.space.verbs import Ints

Array = NDArray[Any]
Value = TypeVar("Value")
_LEAST = 4  # times the vectors that are wanted: a graph of fewer nodes is for one process


def world() -> Ranks:
    """All ranks of this MPI job; starts MPI and PETSc. Raises InputError where they are not there.

    `PETSC_DIR` must name PETSc's folder, if it is not where petsc4py was built for.
    """
    try:
        from mpi4py import MPI
        from petsc4py import init
    except ImportError as error:
        raise InputError(
            f"ranks: {error}; install mpi4py and petsc4py, see docs/scale.md"
        ) from None
    init([])
    from petsc4py import PETSc

    # PETSc's own communicator lives as long as anything made on it does: this one does for ever.
    PETSc.SF().create(comm=MPI.COMM_WORLD).incRef()
    MPI.COMM_WORLD.Barrier()  # one must not end before all have begun
    return Ranks(MPI.COMM_WORLD)


@dataclass(frozen=True, eq=False)
class RankWork(RowWork):
    """A fit on ranks: the rows that are here, its recorder, and how the graph was made."""

    rows: RankGraph
    recorder: Recorder = field(default_factory=Recorder)
    info: Mapping[str, Any] = field(default_factory=lambda: {"kind": "precomputed"})
    derived: Derived = field(default_factory=Derived)

    home: ClassVar[str] = RANKS

    @classmethod
    def of(
        cls,
        read: Rows,
        n_nodes: int,
        ranks: Ranks,
        observer: Observer | None = None,
        info: Mapping[str, Any] | None = None,
    ) -> RankWork:
        """Read and deal out the rows of W (n, n); `read(first, end)` gives some. InputError.

        `info` is how the graph was made, if known.
        """
        recorder = Recorder(observer)
        with recorder.stage("reading rows"):
            rows = divided_rows(read, n_nodes, ranks)
        return cls(rows, recorder, {"kind": "precomputed"} if info is None else info)

    @property
    def graph(self) -> RankGraph:
        return self.rows

    @property
    def n_components(self) -> int:
        return self.laplacian.null.n_components + self.isolated

    @property
    def ranks(self) -> Ranks:
        """All processes."""
        return self.rows.ranks

    @cached_property
    def n_entries(self) -> int:
        own = self.laplacian.matrix.local.nnz
        return int(self.ranks.added(np.array([own]))[0])

    @property
    def isolated(self) -> int:
        return self.rows.n_nodes - self.rows.nodes.size

    @cached_property
    def space(self) -> RankSpace:
        return RankSpace(self.ranks, self.rows.division, self.rows.nodes)

    @cached_property
    def laplacian(self) -> RankLaplacian:
        with self.recorder.stage("Laplacian"):
            return RankLaplacian.of_weights(self.space, self.rows.take(), self.rows.nodes)

    @cached_property
    def grids(self) -> Hierarchy:
        laplacian = self.laplacian
        with self.recorder.stage("multigrid set-up"):
            result = divided_hierarchy(laplacian)
        if result is None:
            raise InputError("graph: no coarser grid can be made of it; leave out --ranks")
        return result

    def grounded(self, ground: Array, kept: Array) -> RankLaplacian:
        return self.laplacian.grounded(ground, kept)

    def with_cycle(self, laplacian: RankLaplacian) -> tuple[RankLaplacian, Preconditioner | None]:
        """The Laplacian, and its multigrid cycle unless no grid is coarser."""
        with self.recorder.stage("multigrid set-up"):
            result = divided_hierarchy(laplacian)
        return laplacian, None if result is None else result.cycle()

    def to_working_order(self, values: Array) -> Array:
        return np.array(values[self.rows.nodes[self.space.first : self.space.end]])

    @cached_property
    def look(self) -> GraphLook:
        n, space, linked = self.n_nodes, self.space, self.rows.nodes.size

        def seen() -> tuple[Array, Array]:
            some = np.arange(space.first, space.end) % max(1, linked // SEEN) == 0
            own = np.diff(self.laplacian.matrix.local.indptr), self.laplacian.root_degree**2
            edges, degrees = (self.ranks.joined(np.ascontiguousarray(one[some])) for one in own)
            return edges, degrees

        network = is_network(self.info, n, self.n_entries)
        return GraphLook(self.info, linked, network, seen)

    def regularized(self, tau: float) -> RankLaplacian:
        return regularized(self.laplacian, tau) if tau else self.laplacian

    def cluster_sizes(self, clusters: Array, k: int) -> Array:
        sizes: Array = self.space.sums(GroupSums(np.ones((clusters.size, 1)), clusters, k))[0]
        return sizes[:, 0]

    def cluster_sums(self, clusters: Array, k: int) -> tuple[Array, Array, Array]:
        """The same on any number of ranks, bit by bit; -1 is no cluster."""
        matrix, space, root = self.laplacian.matrix, self.space, self.laplacian.root_degree
        there, own = matrix.halo.beside(clusters), np.maximum(clusters, 0)
        ends = np.arange(there.size), np.maximum(there, 0)
        counted, inside = there >= 0, (clusters >= 0) * 1.0
        scale, ones = np.where(counted, matrix.halo.beside(root), 0.0), counted * 1.0
        shape = there.size, k
        S, pattern = matrix.local, matrix.local.copy()
        pattern.data = np.ones_like(pattern.data)
        towards = np.asarray((S @ sp.csr_matrix((scale, ends), shape)).todense())
        edges = np.asarray((pattern @ sp.csr_matrix((ones, ends), shape)).todense())
        sums = (root * inside)[:, None] * towards, inside[:, None] * edges, inside[:, None]
        weights, counts, sizes = space.sums(*(GroupSums(X, own, k) for X in sums))
        return weights, counts, sizes[:, 0]

    def _pairs(self, k: int, tau: float, **how: Any) -> EigenResult:
        laplacian = self.regularized(tau)
        room = laplacian.size - laplacian.null.n_components
        if room < _LEAST * (k + n_guard_vectors(k)):
            raise InputError(
                f"graph: {laplacian.size:,} nodes with edges are too few for {k} eigenvectors on "
                "ranks; leave out --ranks"
            )
        return super()._pairs(k, tau, **how)

    def _iterated(
        self, grids: Hierarchy | None, key: PairsKey, tau: float, advance: Callable[[float], None]
    ) -> EigenResult:
        laplacian, deadline = self.regularized(tau), self.recorder.deadline
        if grids is None:
            return filtered(laplacian, key, advance, deadline)
        return two_precisions(laplacian, grids, key, advance, deadline)

    def cached(
        self, stage: str, depends: Any, compute: Callable[[], Value], types: tuple[type, ...] = ()
    ) -> Value:
        """The result of a stage: on ranks nothing is kept for a later run."""
        return compute()

    def map_rows(
        self, f: Callable[[sp.csr_matrix, int], sp.csr_matrix], depends: Any = None
    ) -> RankWork:
        """Own rows, dealt anew where nodes lose all edges."""
        rows = f(self.laplacian.graph_weights, self.space.first)
        filled = self.ranks.joined(np.diff(rows.indptr) > 0)
        made = redivided(rows, filled, self.rows)
        return RankWork(made, self.recorder, {"kind": "adjusted"})

    def from_mapped(self, made: RankWork, X: Array, fill: float = 0) -> Array:
        """Rows go to the ranks that have the nodes here."""
        space = made.space
        own = self.positions(made.rows.nodes[space.first : space.end])  # rising
        counts = np.diff(np.searchsorted(own, self.space.division.bounds))
        nodes, rows = self.ranks.sent(own, counts), self.ranks.sent(np.ascontiguousarray(X), counts)
        result = np.full((self.space.held, *X.shape[1:]), fill, dtype=X.dtype)
        result[nodes - self.space.first] = rows
        return result

    @cached_property
    def _positions(self) -> NDArray[np.int32]:
        """Working number of every node of the graph, (n,); -1 for isolated nodes."""
        result = np.full(self.n_nodes, -1, dtype=np.int32)
        result[self.rows.nodes] = np.arange(self.rows.nodes.size, dtype=np.int32)
        return result

    def positions(self, nodes: Ints) -> NDArray[np.int64]:
        return self.places(nodes)

    def places(self, nodes: Ints) -> NDArray[np.int64]:
        return self._positions[nodes].astype(np.int64)

    def to_embedding(self, X: Array) -> Array:
        return self.space.rowwise(_divided, X, self.laplacian.root_degree)

    def labels_of_rows(self, clusters: Array) -> NDArray[np.int64]:
        result = np.full(self.n_nodes, -1, dtype=np.int64)
        result[self.rows.nodes] = self.ranks.joined(np.ascontiguousarray(clusters))
        return result

    def peaks(self) -> list[int]:
        """Largest resident size of every rank so far, in bytes."""
        result: list[int] = self.ranks.joined(np.array([peak_bytes()])).tolist()
        return result

    def from_working_order(self, own: Array) -> Array | None:
        every = self.ranks.gathered(own)
        if every is None:
            return None
        result = np.zeros((self.rows.n_nodes, *own.shape[1:]), dtype=own.dtype)
        result[self.rows.nodes] = every
        return result


def _divided(X: Array, root: Array) -> Array:
    return np.asarray(X / root[:, None])
