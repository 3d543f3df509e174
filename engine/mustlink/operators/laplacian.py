"""The normalised Laplacian as an operator on blocks, in an order that is kind to the cache.

Everything below the estimators works in *working order*: isolated nodes left out, the rest
renumbered by reverse Cuthill-McKee. `enter` and `leave` are the only border.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core import dense_algebra
from mustlink.graph.graph import Graph, component_labels, cuthill_mckee, renumber_by_size
from mustlink.kernels.blocks import by_rows, next_term
from mustlink.kernels.diffused_columns import diffused_columns, workspace
from mustlink.kernels.spmm import scaled, scaled_permutation, spmm_axpby
from mustlink.operators.protocol import Edges, Laplacian, SparseOperator
from mustlink.space import LocalSpace, NullSpace, Vector

Block = NDArray[np.float64]


# --- I − S with T >= the degrees: a Laplacian with a diagonal added, or with nodes taken out
#
# (M + diag(w))_ff of M = D − W or L̄ is, scaled to a diagonal of ones, I − T^-½WT^-½ on the nodes f
# that are kept, T their degrees and a ground: w, and w times the degree. Nodes that are taken out
# keep their place, with T^½ = 0: rows of blocks are 0 there. So it is wherever the rows are.


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Own = TypeVar("Own", bound=Laplacian)  # that of a home


@dataclass(frozen=True, eq=False)
class GroundedLaplacian:
    """I − S with S = T^-½WT^-½, `root_degree` T^½, T >= the degrees of W, on m nodes.

    Positive definite where T exceeds the degree somewhere in every component: by a diagonal added
    to the Laplacian, or by edges to nodes that were taken out (a Dirichlet problem). `ground` (m,)
    is by how much, in the weights of W, and known without a difference; None where it is 0.

    The m rows are all in memory, or those of a rank: products go by `beside`.
    """

    S: sp.csr_matrix
    root_degree: NDArray[np.float64]
    ground: NDArray[np.float64] | None = field(default=None, kw_only=True, repr=False)

    @property
    def size(self) -> int:
        return int(self.S.shape[0])

    @cached_property
    def space(self) -> LocalSpace:
        return LocalSpace(self.size)

    def beside(self, X: Any) -> Any:
        """The rows of a block, or of a vector, that the columns of S are: all, in memory."""
        return X

    @cached_property
    def matrix(self) -> SparseOperator:
        return SparseOperator(self.S)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of S, in which blocks of vectors are held."""
        return self.S.dtype

    @property
    def grounding(self) -> NDArray[np.float64]:
        """By how much T exceeds the degrees, (m,)."""
        return np.zeros(self.size) if self.ground is None else self.ground

    @property
    def diagonal(self) -> NDArray[np.float64]:
        return np.asarray(1.0 - self.S.diagonal(), dtype=np.float64)

    @property
    def n_entries(self) -> int:
        """Stored entries of S: two an edge."""
        return int(self.S.nnz)

    @property
    def edges(self) -> sp.csr_matrix:
        """S by rows, for work that walks along the edges of nodes in memory; not to be changed."""
        return self.S

    @property
    def pattern(self) -> Edges:
        """Where there are edges."""
        return Edges(self.S.indptr, self.S.indices)

    @property
    def in_single(self) -> Self:
        """The same with S in single precision, which shares its indices with S."""
        single = self.matrix.in_single.local
        return self if single is self.S else replace(self, S=single)

    def apply(self, X: Block) -> Block:
        X = np.ascontiguousarray(X)
        return spmm_axpby(self.S, self.beside(X), X, -1.0, 1.0)

    def neighbours(self, X: Block) -> Block:
        """SX for a block (m, b): sums over neighbours."""
        return self.matrix.apply(X)

    def of_few(self, rows: sp.csr_matrix) -> sp.csr_matrix:
        """XS for sparse rows X (b, m): costs what their neighbours are."""
        return rows @ self.S

    def from_few(self, nodes: Ints, x: Floats) -> tuple[Ints, Floats]:
        """Sx of an x that is 0 but at some nodes: where it is not 0, and its values there.

        Sums are dense: SciPy's sparse product of one row takes twice the time.
        """
        found = self.S[nodes].T @ x
        nodes = np.flatnonzero(found)
        return nodes, found[nodes]

    def smooth(self, X: Block, times: int) -> Block:
        Y, spare, S = np.array(X, dtype=np.float32, order="C"), None, self.matrix.in_single.local
        for _ in range(times):
            Y, spare = spmm_axpby(S, self.beside(Y), Y, 0.5, 0.5, spare), Y
        return Y.astype(self.S.dtype, copy=False)

    def three_terms(
        self, V: Block, old: Block, weights: tuple[float, float, float], out: Block
    ) -> tuple[float, float]:
        """Write out = a·SV + b·V + c·old, `weights` (a, b, c); ⟨out, V⟩ and ‖out‖² (Frobenius).

        `out` is neither V nor old. Cost: one product and nothing else.
        """
        return next_term(self.S, self.beside(V), old, weights, out)

    def recurrence(self, X: Block, steps: Sequence[tuple[float, float, float]]) -> Block:
        """The last term of X_{t+1} = a_t SX_t + b_t X_t + c_t X_{t−1}, X_0 = X, by steps (a, b, c).

        The first step has c = 0. X is not changed. Memory: three blocks.
        """
        old, new, spare = X, X, None
        for weights in steps:
            out = np.empty_like(X) if spare is None else spare
            next_term(self.S, self.beside(new), old, weights, out)
            old, new, spare = new, out, None if old is X else old
        return new

    def grounded(self, ground: Vector, kept: Vector) -> Self:
        """I − T^-½WT^-½, T = D + diag(ground), on the nodes `kept` (m,), `ground` (m,) >= 0.

        Rows of blocks are 0 on the others. Its indices are those of S where all nodes are kept.
        """
        root, total, ratio = grounded_degrees(self, ground, kept)
        values = scaled(self.S, self.beside(ratio))
        rows, fewer = (self.S.indices, self.S.indptr), not values.all()
        if fewer:
            rows = rows[0].copy(), rows[1].copy()
        inner = sp.csr_matrix((values, *rows), shape=self.S.shape)
        if fewer:
            inner.eliminate_zeros()
        return replace(self, S=inner, root_degree=root, ground=total)

    def local_diffusion(
        self,
        B: sp.csc_matrix,
        coefficients: Floats,
        thresholds: Floats,
        final: tuple[Floats, float],
        dtype: Any,
    ) -> Callable[[tuple[int, int]], Any]:
        """A function of (first, last): Σ_k c_kq S^k b for these columns b of B (m, c), truncated.

        `coefficients` c (K+1, Q); thresholds, what is dropped at the end and the result, sparse
        columns, are those of `kernels.diffused_columns`. Any number of threads may call it.
        """
        own, how = threading.local(), (coefficients, thresholds, final, dtype)

        def columns(span: tuple[int, int]) -> Any:
            if not hasattr(own, "space"):
                own.space = workspace(self.size, self.S.nnz, coefficients.shape[1])
            return diffused_columns(self.S, self.root_degree, B, span, *how, own.space)

        return columns

    def to_dense(self) -> Block:
        """I − S as a dense matrix; for small graphs."""
        return np.eye(self.size) - self.S.toarray()

    @cached_property
    def dense_pairs(self) -> tuple[Floats, Block]:
        """All eigenvalues (m,) and vectors (m, m), by LAPACK; for small graphs. 9m³ operations."""
        return dense_algebra.eigh(self.to_dense())


def grounded_degrees(laplacian: Any, ground: Vector, kept: Vector) -> tuple[Vector, Vector, Vector]:
    """T^½ (n,), 0 on nodes that are not `kept` (n,) or have no edge, the ground of all, (D/T)^½.

    T = D + diag(ground). The ground of a kept node is its own, and the weights to those that are
    taken out: by how much T exceeds the degrees among kept nodes, known without a difference. Cost:
    a product, where nodes are taken out.
    """
    space, root = laplacian.space, laplacian.root_degree

    def ratio(k: NDArray[Any], r: Floats, g: Floats) -> Floats:
        degree, there = r**2, k & (r > 0)
        return np.sqrt(np.divide(degree, degree + g, out=np.zeros_like(degree), where=there))

    def total(k: NDArray[Any], g: Floats, r: Floats, to: Floats) -> Floats:
        return np.where(k, g + np.maximum(-r * to[:, 0], 0.0), 0.0)

    inside = space.rowwise(
        lambda k, r, g: np.where(k & (r > 0), np.sqrt(r**2 + g), 0.0), kept, root, ground
    )
    by = space.rowwise(ratio, kept, root, ground)
    outside = space.column(space.rowwise(lambda k, r: np.where(k, 0.0, r), kept, root))
    if not space.dots(outside, outside)[0]:
        return inside, space.rowwise(lambda k, g: np.where(k, g, 0.0), kept, ground), by
    away = laplacian.apply(outside)  # less the weights to them, over D^½
    return inside, space.rowwise(total, kept, ground, root, away), by


def regularized(laplacian: Own, tau: float) -> Own:
    """L̄_τ = I − T^-½WT^-½, T = D + τd̄I, τ > 0.

    d̄ is the mean degree of the nodes with an edge, each counted as often as it stands for rows. A
    set A of nodes costs (cut(A) + τd̄|A|)/(vol(A) + τd̄|A|): small ones cost nearly 1 however few
    edges they hang by, large ones hardly notice. Isolated nodes stay out. Source: Amini, Chen,
    Bickel & Levina 2013; Qin & Rohe 2013; Zhang & Rohe 2018.
    """
    space, root = laplacian.space, laplacian.root_degree
    linked = space.rowwise(lambda r: (r > 0).astype(np.float64), root)
    copies = linked if space.weights is None else space.weights
    count = space.dots(space.column(linked), space.column(copies))[0]
    mean = tau * laplacian.volume / count
    every = space.rowwise(lambda r: np.ones(r.shape, dtype=np.bool_), root)
    return laplacian.grounded(space.rowwise(lambda c: c * mean, copies), every)


# --- The Laplacian of a graph


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
