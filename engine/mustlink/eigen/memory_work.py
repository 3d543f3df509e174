"""The home in memory: a workspace as the contract of homes asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar, Unpack

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.stage_cache import Workspace
from mustlink.core.observe import Recorder
from mustlink.core.result import EigenResult
from mustlink.eigen.plain_solve import is_small
from mustlink.eigen.smooth_subspace import SmoothBasis
from mustlink.eigen.solver import LaplacianKey, grids_of, laplacian_of, smallest_pairs, smoothest
from mustlink.eigen.work import MEMORY, BasisOptions, PairOptions
from mustlink.graph.graph import Graph, GraphLook, fold
from mustlink.linear.laplacian_solve import usual_preconditioner
from mustlink.linear.multigrid.hierarchy import Hierarchy
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.operators.protocol import Preconditioner
from mustlink.space import LocalSpace
from mustlink.space.verbs import Ints

Array = NDArray[Any]
Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class MemoryWork:
    """A graph whose nodes are all in memory; `view` keeps what is derived from it. See `Work`."""

    view: Workspace

    home: ClassVar[str] = MEMORY

    @property
    def graph(self) -> Graph:
        return self.view.graph

    @property
    def info(self) -> Mapping[str, Any]:
        return self.graph.info

    @property
    def recorder(self) -> Recorder:
        return self.view.recorder

    @property
    def n_nodes(self) -> int:
        return self.graph.n_nodes

    @property
    def isolated(self) -> int:
        return self.n_nodes - self.laplacian.size

    @property
    def n_components(self) -> int:
        return self.graph.n_components

    @property
    def n_entries(self) -> int:
        return self.laplacian.n_entries

    @property
    def space(self) -> LocalSpace:
        return self.laplacian.space

    @property
    def laplacian(self) -> NormalizedLaplacian:
        return laplacian_of(self.view.regularized(0.0))

    def regularized(self, tau: float) -> NormalizedLaplacian:
        return laplacian_of(self.view.regularized(tau))

    @property
    def is_small(self) -> bool:
        return is_small(self.laplacian)

    @property
    def look(self) -> GraphLook:
        return self.graph.look

    @property
    def grids(self) -> Hierarchy:
        return grids_of(self.view)

    def grounded(self, ground: Array, kept: Array) -> Any:
        return self.laplacian.in_double.grounded(ground, kept)

    def with_cycle(self, laplacian: Any) -> tuple[Any, Preconditioner | None]:
        """The Laplacian, and a factor of few nodes or a multigrid cycle of more."""
        with self.recorder.stage("multigrid set-up"):
            return laplacian, usual_preconditioner(laplacian)

    def smallest_pairs(self, k: int, **how: Unpack[PairOptions]) -> EigenResult:
        given: dict[str, Any] = {**how}
        return smallest_pairs(self.view.regularized(given.pop("tau", 0.0)), k, **given)

    def smoothest(self, p: int, **how: Unpack[BasisOptions]) -> SmoothBasis:
        """At least p smooth directions; those of L̄_τ are let go before more of L̄ are computed."""
        given: dict[str, Any] = {**how}
        if not (tau := given.pop("tau", 0.0)):
            self.view.let_go_of_regularized()
        return smoothest(self.view.regularized(tau), p, **given)

    def kept(
        self, stage: str, depends: Any, compute: Callable[[], Value], types: tuple[type, ...] = ()
    ) -> Value:
        name = self.view.name(stage, depends, self.view.memory)
        return self.view.cache.kept(stage, name, compute, types)

    def cluster_sizes(self, clusters: Array, k: int) -> NDArray[np.float64]:
        return np.bincount(clusters, self.space.weights, k).astype(np.float64)

    def cluster_sums(self, clusters: Array, k: int) -> tuple[Array, Array, Array]:
        weights, edges = self.graph.cluster_weights(self._of_nodes(clusters), k)
        return weights, edges, self.cluster_sizes(clusters, k)

    def _of_nodes(self, clusters: Array) -> NDArray[np.int64]:
        """Clusters (m,) of working nodes as those of the graph's nodes, -1 without an edge."""
        labels = np.full(self.n_nodes, -1, dtype=np.int64)
        labels[self.laplacian.nodes] = clusters
        return labels

    def map_rows(
        self, f: Callable[[sp.csr_matrix, int], sp.csr_matrix], depends: Any = None
    ) -> MemoryWork:
        """Nodes are this graph's in working order, and need no other one."""
        laplacian, counts = self.laplacian, self.laplacian.weights
        W = laplacian.graph_weights
        # Of nodes that stand for several, f gets the weights between two copies.
        rows = f(W, 0) if counts is None else fold(f(fold(W, 1.0 / counts), 0), counts)
        made = Graph(rows, {"kind": "adjusted"}, counts)
        if np.diff(made.affinity.indptr).all():
            own = NormalizedLaplacian.of_weights(made.affinity, counts, laplacian.nodes)
            made.derived.put(LaplacianKey(own.dtype == np.float32), own)
        made.derived.origin = self.view.name("adjusted graph", depends)
        return MemoryWork(self.view.on(made))

    def from_mapped(self, made: MemoryWork, X: Array, fill: float = 0) -> Array:
        nodes, m = made.laplacian.nodes, self.laplacian.size
        if nodes.size == m and (nodes[1:] > nodes[:-1]).all():
            return X
        result = np.full((m, *X.shape[1:]), fill, dtype=X.dtype)
        result[nodes] = X
        return result

    def positions(self, nodes: Ints) -> Ints:
        return self.laplacian.positions[nodes]

    def places(self, nodes: Ints) -> Ints:
        rows = self.graph.rows
        return self.positions(nodes if rows is None else rows[nodes])

    def to_working_order(self, values: Array) -> Array:
        return self.laplacian.to_working_order(values)

    def to_embedding(self, X: Array) -> Array:
        root = self.laplacian.root_degree
        return self.space.rowwise(lambda rows, r: rows / r[:, None], X, root)

    def labels_of_rows(self, clusters: Array) -> NDArray[np.int64]:
        of_nodes, own = self._of_nodes(clusters), self.graph.shares
        if own is None:
            found: NDArray[np.int64] = self.graph.spread(of_nodes)
            return found
        with self.recorder.stage("labels of rows") as advance:
            return own.vote(of_nodes, advance)

    def from_working_order(self, X: Array) -> Array:
        return self.graph.spread(self.laplacian.from_working_order(X))

    def with_recorder(self, recorder: Recorder) -> MemoryWork:
        """The same for a later fit."""
        return MemoryWork(replace(self.view, recorder=recorder))
