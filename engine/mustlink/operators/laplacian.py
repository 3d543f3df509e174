"""The normalised Laplacian as an operator on blocks, in an order that is kind to the cache.

Everything below the estimators works in *working order*: isolated nodes left out, the rest
renumbered by reverse Cuthill-McKee. `enter` and `leave` are the only border.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.graph.graph import Graph
from mustlink.graph.structure import component_labels, cuthill_mckee, renumber_by_size
from mustlink.kernels.blocks import by_rows
from mustlink.kernels.spmm import scaled, scaled_permutation
from mustlink.operators.grounded_laplacian import GroundedLaplacian
from mustlink.operators.null_space import NullSpace
from mustlink.space import LocalSpace, Vector

Block = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NormalizedLaplacian(GroundedLaplacian):
    """L̄ = I − S, S = D^-½WD^-½, for the m non-isolated nodes of a graph in working order.

    `nodes[i]` is the graph's number of working node i; `root_degree` is D^½ as a vector; `weights`
    (m,) count what a node stands for, None: 1 each. `numbers` (m,) are those of the nodes in a
    graph that this one was made of, where the order of nodes decides; None: `nodes`.
    """

    nodes: NDArray[np.int64]
    n_nodes: int
    null: NullSpace = field(repr=False)
    weights: NDArray[np.float64] | None = None
    numbers: NDArray[np.int64] | None = None

    @classmethod
    def of(
        cls,
        S: sp.csr_matrix,
        root_degree: NDArray[np.float64],
        nodes: NDArray[np.int64],
        n_nodes: int,
        weights: NDArray[np.float64] | None = None,
        *,
        connected: bool = False,
        numbers: NDArray[np.int64] | None = None,
    ) -> NormalizedLaplacian:
        """Find the components of S, unless it is known to be `connected`, and so the null space."""
        component = np.zeros(nodes.size, np.int32) if connected else component_labels(S)
        count = int(component.max()) + 1 if nodes.size else 0
        if count > 1:  # of equally large ones the graph's order decides, as in every home
            order = np.argsort(nodes if numbers is None else numbers)
            component[order] = renumber_by_size(component[order])
        null = NullSpace.of_components(component, root_degree, count)
        return cls(S, root_degree, nodes, n_nodes, null, weights, numbers)

    @classmethod
    def of_weights(
        cls,
        W: sp.csr_matrix,
        counts: NDArray[np.float64] | None = None,
        numbers: NDArray[np.int64] | None = None,
    ) -> NormalizedLaplacian:
        """From weights W (m, m), a matrix of the caller's making, without isolated nodes.

        `counts` (m,) count what a node stands for, `numbers` (m,) are as in `of`.
        """
        W.sort_indices()
        root = np.sqrt(np.asarray(W.sum(axis=1, dtype=np.float64)).ravel())
        S = sp.csr_matrix((scaled(W, 1.0 / root), W.indices, W.indptr), shape=W.shape)
        nodes = np.arange(W.shape[0])
        return cls.of(S, root, nodes, nodes.size, counts, numbers=numbers)

    @cached_property
    def space(self) -> LocalSpace:
        """Where its blocks live: all nodes in memory, each counted as often as its weight says."""
        numbers = self.nodes if self.numbers is None else self.numbers
        return LocalSpace(self.size, self.weights, numbers=numbers)

    @cached_property
    def copies(self) -> NDArray[np.float64]:
        """How many every node stands for, (m,)."""
        return np.ones(self.size) if self.weights is None else self.weights

    @property
    def mean_degree(self) -> float:
        """Of one copy of a node."""
        return float(self.volume / self.copies.sum())

    def grounded(self, ground: Vector, kept: Vector) -> Self:
        return replace(super().grounded(ground, kept), null=NullSpace.empty(self.size))

    def reached_from(self, marked: NDArray[np.bool_]) -> NormalizedLaplacian:
        """The components that have a marked working node, `marked` (m,)."""
        component = self.null.component
        reached = np.zeros(self.null.n_components, dtype=np.bool_)
        reached[component[marked]] = True
        return self.restricted(reached[component])

    def rescaled(self, by: NDArray[np.float64]) -> NormalizedLaplacian:
        """L̄ of the graph with weights diag(by)·S·diag(by), on the same nodes."""
        S = self.S
        weights = sp.csr_matrix((scaled(S, by), S.indices, S.indptr), shape=S.shape)
        return NormalizedLaplacian.of_weights(weights, self.weights)

    @cached_property
    def excess(self) -> Block | None:
        """(SD^½1)_i/d_i^½ − 1, (m, 1), where S is in single precision; else None.

        Rounding makes rows too heavy or too light by 1e-8, more than faint edges weigh: I − S
        would have negative eigenvalues. diag(1 + excess) − S is the Laplacian of the rounded
        weights, positive and with the same null space. None with a ground, too: what rounding adds
        makes no eigenvalue negative that is at least ground/T.
        """
        if self.S.dtype == np.float64 or self.ground is not None:
            return None
        root = self.root_degree[:, None]
        result: Block = self.neighbours(root) / root - 1.0
        return result

    @property
    def degrees(self) -> NDArray[np.float64]:
        """Row sums of D^½SD^½ as S is stored, (m,), less the ground."""
        exact: NDArray[np.float64] = self.root_degree**2 - self.grounding
        return exact if self.excess is None else exact * (1.0 + self.excess[:, 0])

    @property
    def in_double(self) -> Self:
        """L̄ of the weights as S in single precision has them; itself if S is in double."""
        if self.S.dtype == np.float64:
            return self
        S, root = self.S, np.sqrt(self.degrees)
        S = sp.csr_matrix((S.data.astype(np.float64), S.indices, S.indptr), shape=S.shape)
        S.data = scaled(S, self.root_degree / root)
        return replace(self, S=S, root_degree=root)

    def apply(self, X: Block) -> Block:
        Y = super().apply(X)
        if self.excess is not None and Y.dtype == np.float64:
            Y += self.excess * X
        return Y

    @property
    def graph_weights(self) -> sp.csr_matrix:
        """W = D^½SD^½ in working order, by rows: values of its own, S's indices."""
        S = self.S
        return sp.csr_matrix((scaled(S, self.root_degree), S.indices, S.indptr), shape=S.shape)

    @property
    def volume(self) -> float:
        return float(self.root_degree @ self.root_degree)

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """Working number of every node of the graph, (n,); -1 for isolated nodes."""
        result = np.full(self.n_nodes, -1, dtype=np.int64)
        result[self.nodes] = np.arange(self.size)
        return result

    def to_working_order(self, X: NDArray[Any]) -> NDArray[Any]:
        """Rows of (n, …) in working order."""
        return X[self.nodes]

    def from_working_order(self, X: Block) -> Block:
        """Rows back in the graph's order, (n, …); zero on isolated nodes."""
        if self.size == self.n_nodes:
            return by_rows(lambda at: X[at], self.positions)
        out = np.zeros((self.n_nodes, *X.shape[1:]), dtype=X.dtype)
        out[self.nodes] = X
        return out

    def restricted(self, keep: NDArray[np.bool_]) -> NormalizedLaplacian:
        """The same for whole components only: working nodes where `keep` (m,) holds."""
        if keep.all():
            return self
        S = self.S[keep][:, keep]
        weights = None if self.weights is None else self.weights[keep]
        root, nodes = self.root_degree[keep], self.nodes[keep]
        return NormalizedLaplacian.of(S, root, nodes, self.n_nodes, weights)


def normalized_laplacian(
    graph: Graph, dtype: type = np.float64, order: NDArray[np.int64] | None = None
) -> NormalizedLaplacian:
    """Build the operator L̄ in working order; `order` (n,) is that of the nodes if it is known.

    `dtype` is that of S: blocks of vectors are held in the same. Cost: one permutation of W, under
    a second for 20 M entries.
    """
    order = cuthill_mckee(graph.affinity) if order is None else order
    nodes = order[graph.degrees[order] > 0].astype(np.int64)
    root = np.sqrt(graph.degrees[nodes])
    S = scaled_permutation(graph.affinity, nodes, root, np.dtype(dtype))
    weights = None if graph.weights is None else graph.weights[nodes]
    joined = graph.n_components == 1
    return NormalizedLaplacian.of(S, root, nodes, graph.n_nodes, weights, connected=joined)
