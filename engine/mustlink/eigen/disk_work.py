"""Smallest pairs of L̄ of a graph on disk: what a fit finds out about it, each thing once.

LOBPCG from coarse grids with blocks on disk. Measured on a neighbour graph of 10⁶ nodes, nine pairs
to 1e-3, CPU seconds from the start on: LOBPCG 4.6 with six columns in memory and 7.9 with two,
Chebyshev filters from the same start 9 and 16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.method_cost import (
    BUFFERS,
    RESERVE,
    DiskCost,
    coarse_bytes,
    columns_bytes,
    links_in,
    n_guard_vectors,
)
from mustlink.context.stage_cache import CheckpointStore, StageCache
from mustlink.core.observe import Recorder
from mustlink.core.resources import give_back
from mustlink.core.result import EigenResult
from mustlink.eigen.plain_solve import PairsKey, chebyshev, nested
from mustlink.eigen.work import DISK, RowWork
from mustlink.graph.disk_graph import DiskGraph, GraphSurvey, RowBlock, block_of_rows, survey
from mustlink.graph.graph import SEEN, Derived, GraphLook, is_network
from mustlink.graph.row_buckets import scratch_graph
from mustlink.linear.cg import towards
from mustlink.linear.multigrid.disk_grids import DiskGrids, stored_grids
from mustlink.operators.laplacian import regularized
from mustlink.operators.protocol import Preconditioner
from mustlink.operators.stored_laplacians import DiskLaplacian
from mustlink.space import Block, Small
from mustlink.space.disk import DiskSpace
from mustlink.space.verbs import Ints

Array = NDArray[Any]
Value = TypeVar("Value")
_FILTERS = 30


@dataclass(frozen=True, eq=False)
class DiskWork(RowWork):
    """A graph on disk with the recorder of one fit; temporary files are in `folder`.

    What a `keeper` keeps is there for a later run. `columns` are computed together, at most; how
    many of them are in memory follows from what the recorder's budget has left, which changes no
    number. What does, grids, follows from the limit and from sizes alone. `at_rest` are bytes a
    node that are there all the time.
    """

    graph: DiskGraph
    columns: int
    recorder: Recorder = field(default_factory=Recorder)
    folder: Any = None
    keeper: CheckpointStore | None = None
    at_rest: int = 0
    derived: Derived = field(default_factory=Derived)

    home: ClassVar[str] = DISK
    single: ClassVar[bool] = True

    @property
    def info(self) -> Mapping[str, Any]:
        return self.graph.info

    @property
    def n_components(self) -> int:
        return self.seen.n_components + self.seen.isolated

    @cached_property
    def seen(self) -> GraphSurvey:
        """Degrees and components, from a pass over the graph."""
        with self.recorder.stage("looking at the graph") as advance:
            return survey(self.graph, DiskSpace(self.graph.n_nodes, self.folder), advance)

    @cached_property
    def space(self) -> DiskSpace:
        """Where vectors live; nodes without an edge do not count, others as often as they stand."""
        seen, copies = self.seen, self.graph.copies
        if copies is not None:
            weights = seen.space.rowwise(lambda c, d: c * (d > 0), copies, seen.degrees)
        elif seen.isolated:
            weights = seen.space.rowwise(lambda d: (d > 0).astype(np.float64), seen.degrees)
        else:
            return seen.space
        return DiskSpace(self.graph.n_nodes, self.folder, weights)

    @property
    def n_entries(self) -> int:
        return self.graph.n_entries

    @property
    def isolated(self) -> int:
        return self.seen.isolated

    @cached_property
    def laplacian(self) -> DiskLaplacian:
        return self._laplacian_of(0.0)

    def regularized(self, tau: float) -> DiskLaplacian:
        return self._laplacian_of(tau) if tau else self.laplacian

    @cached_property
    def look(self) -> GraphLook:
        graph, space, n = self.graph, self.space, self.n_nodes
        step = max(1, n // SEEN)

        def seen() -> tuple[Array, Array]:
            ranges = space.ranges(64)
            edges = np.concatenate([graph.lengths(rows)[::step] for rows in ranges])
            degrees = np.concatenate([self._degree_of_one(rows)[::step] for rows in ranges])
            return edges[edges > 0], degrees[degrees > 0]

        network = is_network(graph.info, n, graph.n_entries)
        return GraphLook(graph.info, n - self.isolated, network, seen)

    def _degree_of_one(self, rows: slice) -> Array:
        """Degrees of one copy of some nodes."""
        degrees, copies = self.seen.degrees[rows], self.graph.copies
        if copies is None:
            return np.asarray(degrees)
        often = copies[rows]
        return np.divide(degrees, often, out=np.zeros(degrees.shape), where=often > 0)

    def cluster_sizes(self, clusters: Array, k: int) -> Small:
        sizes, often = np.zeros(k), self.space.weights
        for part in self.space.ranges(32):
            there = clusters[part] >= 0
            counts = None if often is None else often[part][there]
            sizes += np.bincount(clusters[part][there], counts, k)
        return sizes

    def cluster_sums(self, clusters: Array, k: int) -> tuple[Small, Small, Small]:
        """Clusters (n,) come into memory, -1 for nodes without an edge."""
        clusters = np.asarray(clusters[:], dtype=np.int64)
        weights, edges = self.graph.cluster_weights(clusters, k)
        return weights, edges, self.cluster_sizes(clusters, k)

    def _laplacian_of(self, tau: float) -> DiskLaplacian:
        seen = replace(self.seen, space=self.space)
        result = DiskLaplacian.of(self.graph, seen, self._room(0))
        return regularized(result, tau) if tau else result

    def with_recorder(self, recorder: Recorder) -> DiskWork:
        """The same for a later fit, with all that is made."""
        result = replace(self, recorder=recorder)
        made = {name: value for name, value in vars(self).items() if name not in vars(result)}
        vars(result).update(made)
        return result

    def map_rows(
        self, f: Callable[[sp.csr_matrix, int], sp.csr_matrix], depends: Any = None
    ) -> DiskWork:
        """Block by block, into temporary files."""

        def blocks() -> Iterator[RowBlock]:
            for block in self.graph.blocks():
                parts = block.data.astype(np.float64), block.indices, block.indptr
                W: Any = sp.csr_matrix(parts, shape=block.shape)
                W.sum_duplicates()
                rows = f(W, block.first)
                data = rows.data.astype(np.float32)
                yield RowBlock(block.first, rows.indptr, rows.indices, data, block.n_nodes)

        made = scratch_graph(self.n_nodes, blocks(), {"kind": "adjusted"}, folder=self.folder)
        return DiskWork(made, self.columns, self.recorder, self.folder, at_rest=self.at_rest)

    def from_mapped(self, made: DiskWork, X: Block, fill: float = 0) -> Block:
        """Both have rows for all nodes."""
        return X

    def positions(self, nodes: Ints) -> Ints:
        """Nodes of the graph as they are."""
        return nodes

    def places(self, nodes: Ints) -> Ints:
        if self.graph.rows is not None:
            nodes = self.graph.rows[:][nodes]
        linked = self.space.take(self.seen.degrees, nodes) > 0
        return np.where(linked, nodes, -1)

    def to_embedding(self, X: Block) -> Block:
        return self.space.rowwise(_divided, X, self.laplacian.root_degree)

    def labels_of_rows(self, clusters: Array) -> NDArray[np.int64]:
        return self.graph.labels_of_rows(np.asarray(clusters[:], dtype=np.int64))

    def from_working_order(self, X: Block) -> Block:
        left = self.recorder.budget.left()
        room = self.graph.n_nodes * X.row_bytes if left is None else max(left - RESERVE, 0)
        return block_of_rows(self.graph, X, self.folder, room)

    @cached_property
    def grids(self) -> DiskGrids | None:
        result = self._grids_of(self.laplacian)
        if result is None:
            self.recorder.note("eigenvectors: found by filters, as coarse grids would be too large")
        return result

    def _grids_of(self, laplacian: DiskLaplacian) -> DiskGrids | None:
        with self.recorder.stage("multigrid set-up") as advance:
            made = stored_grids(laplacian, advance, self._most_links)
        if made is not None:
            room = self._beside_grids(made.sizes[1])
            if room is None or room >= RESERVE // 2:
                coarse = coarse_bytes(made.sizes[1], self._width(self.columns))
                return made.within(self._room(coarse))
        return None

    def grounded(self, ground: Block, kept: Block) -> DiskLaplacian:
        return self.laplacian.grounded(ground, kept)

    def with_cycle(self, laplacian: DiskLaplacian) -> tuple[DiskLaplacian, Preconditioner | None]:
        """The Laplacian on as many columns as there is room for, and its multigrid cycle."""
        result = self._grids_of(laplacian)
        if result is None:
            self.recorder.note("equations: solved without a multigrid, whose grids do not fit")
            return laplacian, None
        return result.laplacian, result.cycle()

    def to_working_order(self, values: Array) -> Block:
        return self.space.place(values)

    def cached(
        self, stage: str, depends: Any, compute: Callable[[], Value], types: tuple[type, ...] = ()
    ) -> Value:
        cache, graph = StageCache(self.recorder, self.keeper), self.graph
        made = graph.n_nodes, graph.n_entries, dict(graph.info), self.recorder.budget.limit
        origin = None if "cut_short" in graph.info else cache.source
        return cache.cached(stage, cache.name_of(stage, origin, made, depends), compute, types)

    def _iterated(
        self, grids: DiskGrids | None, key: PairsKey, tau: float, advance: Callable[[float], None]
    ) -> EigenResult:
        k, tol, deadline = key.count, key.tol, self.recorder.deadline
        how: dict[str, Any] = {"tol": tol, "deadline": deadline, "on_step": towards(tol, advance)}
        how["extra"] = key.extra
        if grids is not None:
            how |= {"seed": key.seed, "max_iter": key.max_iter}
            return nested(grids.laplacian, grids, k, **how)
        # What was tried before has taken memory: as many columns as there is room for now, beside
        # blocks of the graph that are read and ranges of rows that are written.
        laplacian = self.regularized(tau)
        laplacian = replace(laplacian, room=self._room(2 * BUFFERS))
        start = laplacian.space.normals(self._width(k), key.seed)
        start = laplacian.space.copy(start, laplacian.dtype)
        result = chebyshev(laplacian, start, k, max_iter=min(key.max_iter, _FILTERS), **how)
        worst, last = float(result.convergence.residuals.max()), result.values[k - 1]
        if not tau and result.convergence.converged.all() and worst > last:
            self.recorder.warn(
                f"eigenvectors: residuals up to {worst:.1e} without coarse grids, for eigenvalues "
                f"up to {last:.1e}: clusters may be blurred; give more memory"
            )
        return result

    @property
    def _most_links(self) -> int | None:
        """Links between aggregates that there is room for."""
        n, nnz = self.graph.n_nodes, self.graph.n_entries
        aggregates = DiskCost(n, nnz, self.columns).aggregates
        room = self._beside_grids(aggregates)
        return None if room is None else links_in(room, aggregates)

    def _beside_grids(self, aggregates: int) -> int | None:
        """Bytes beside a column and coarse grids without their links; None without a limit."""
        n, planned = self.graph.n_nodes, self.recorder.budget.planned
        if planned is None:
            return None
        coarse = coarse_bytes(aggregates, self._width(self.columns))
        return planned - self.at_rest * n - columns_bytes(n, 1) - coarse

    def _width(self, k: int) -> int:
        linked = self.graph.n_nodes - self.seen.isolated
        return min(k + n_guard_vectors(k), linked - self.seen.n_components)

    def _room(self, beside: int) -> int:
        """Bytes for columns in memory; raises OutOfMemoryError where one does not fit."""
        n, width = self.graph.n_nodes, self._width(self.columns)
        give_back()
        left = self.recorder.budget.left()
        if left is None:
            return columns_bytes(n, width)
        self.recorder.budget.ask(
            beside + columns_bytes(n, 1), f"one column of {n} nodes and coarse grids"
        )
        return max(left - beside - RESERVE, columns_bytes(n, 1))


def _divided(X: Array, root: Array) -> Array:
    """Rows of D^-½X in single precision."""
    scale = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    return (X * scale[:, None]).astype(np.float32)
