"""What questions are chosen by: who is known, how sure the fit is, and smooth vectors.

Everything is in working order (`operators.laplacian`): the m nodes that have an edge. Smooth
vectors are those that the fit left, or few new ones. What answers tell of the other nodes is a
Gaussian model on the smooth vectors of the graph.

A class's indicator is f = Uα with α ~ N(0, diag(c)), an answer on node k is f_k with noise of
variance γ, so that wrong answers are allowed for. Then

    C = (diag(1/c) + Σ_known u_k u_kᵀ/γ)⁻¹,   C⁺ = C − C u_k u_kᵀ C/(γ + u_kᵀ C u_k)

before and after one more: p × p, whatever it will say (Zhu, Ghahramani & Lafferty 2003; cut off at
p vectors: Miller & Bertozzi, arXiv:2110.07739). What is needed of C is kept node by node.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.eigen.smooth_subspace import SmoothBasis
from mustlink.eigen.solver import BasisKey, laplacian_of, smoothest
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.kernels.blocks import combine, row_slices
from mustlink.labels import encoded
from mustlink.numeric import dense_algebra
from mustlink.observe import Recorder, Unheard
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.selection.calibration import usual
from mustlink.workspace import Workspace

Floats = NDArray[np.float64]
_COLUMNS = 60  # on few nodes they take no time; twice as many ask no better
_FEWER, _MANY = 24, 200_000  # on so many nodes
_USUAL = 4  # times K: what every fit that chooses has at hand


def smooth_rows(estimator: Any, work: Workspace, laplacian: NormalizedLaplacian) -> Any:
    """Orthonormal U (m, p) in working order, its first column z, and their values (p,) of L̄.

    Those that the fit was made in, 4K at least where it chose how many; else the span of its
    embedding, and for methods that have neither 60 vectors (24 on very large graphs), which the
    graph keeps. What else the graph holds is of other fits, and counts for nothing: of a wider
    basis the first columns are taken, which are those of the fit as far as either is sharp.
    """
    choice, seed = getattr(estimator, "_choice", None), getattr(estimator, "_used_seed", 0)
    if choice is not None and choice.p is not None:
        open_ = isinstance(estimator.subspace, str) and not choice.tau
        p = max(choice.p, _USUAL * estimator.report_.n_clusters) if open_ else choice.p
        basis = _of_choice(work.regularized(choice.tau), p, seed)
        if np.array_equal(basis.laplacian.nodes, laplacian.nodes):
            return basis.vectors, np.concatenate([[0.0], basis.values])
    if hasattr(estimator, "embedding_"):
        return _of_embedding(estimator, laplacian)
    count = _COLUMNS if laplacian.size <= _MANY else _FEWER
    basis = smoothest(work, count, seed=seed).first(count)
    return basis.vectors, np.concatenate([[0.0], basis.values])


def _of_choice(work: Workspace, p: int, seed: int) -> SmoothBasis:
    """The p smoothest directions, from the basis that the fit left where it is still there."""
    p, kept = min(p, laplacian_of(work).size - 1), work.derived.of(BasisKey)
    same = (basis for key, basis in kept if basis.p >= p and key.seed == seed)
    basis = next(same, None)
    return (smoothest(work, p, seed=seed) if basis is None else basis).first(p)


def _of_embedding(estimator: Any, laplacian: NormalizedLaplacian) -> tuple[Floats, Floats]:
    """Ritz vectors of L̄ in the span of z and the embedding's columns."""
    graph, root = estimator.graph_, laplacian.root_degree[:, None]
    rows = np.asarray(estimator.embedding_)[graph.first_rows][laplacian.nodes]
    z = root / np.sqrt(laplacian.volume)
    rest = root * rows.astype(np.float64)
    rest = rest - z @ (z.T @ rest)
    Q, s, _ = np.linalg.svd(rest, full_matrices=False)
    Q = Q[:, s > 1e-10 * max(s.max(initial=0.0), 1e-300)]
    values, V = np.linalg.eigh(Q.T @ laplacian.apply(Q)) if Q.shape[1] else (np.empty(0), Q.T @ Q)
    return np.hstack([z, Q @ V]), np.concatenate([[0.0], np.maximum(values, 0.0)])


Ints = NDArray[np.int64]
NOISE = 0.1  # variance of an answer, of an indicator whose mean variance is 1
_CUT = 9  # the smooth vector from whose λ on directions are no longer equally likely
_SLACK = 0.1  # of that λ, added to all


@dataclass(eq=False)
class GaussianModel:
    """U (m, p) orthonormal, C (p, p); `strategies` u_iᵀCu_i and `reach` ‖Cu_i‖² (m,)."""

    U: Floats
    C: Floats
    variance: Floats
    reach: Floats
    noise: float = NOISE

    @classmethod
    def of(cls, U: Floats, values: Floats, known: Ints, noise: float = NOISE) -> Self:
        """The model once the nodes `known` are answered; `values` (p,) are those of U's columns.

        Cost O(mp²).
        """
        c = prior(values, len(U))
        rows = U[known].astype(np.float64)
        C = dense_algebra.solve(np.diag(1.0 / c) + rows.T @ rows / noise, np.eye(c.size))
        variance, reach = np.empty(len(U)), np.empty(len(U))
        for some in row_slices(*U.shape):
            part = U[some].astype(np.float64, copy=False)
            A = part @ C
            variance[some] = np.einsum("ij,ij->i", A, part)
            reach[some] = np.einsum("ij,ij->i", A, A)
        return cls(U, C, variance, reach, noise)

    def covariance(self, node: int) -> Floats:
        """Of the node with every one, (m,): U C u_k. Cost O(mp)."""
        found = combine(self.U, (self.C @ self.row(node))[:, None])[:, 0]
        return found.astype(np.float64, copy=False)

    def row(self, node: int) -> Floats:
        """The row u_k (p,), double."""
        return self.U[node].astype(np.float64)

    def answer(self, node: int) -> Floats:
        """Take a node as answered; returns its covariances before. Cost O(mp)."""
        c = self.C @ self.row(node)
        both = combine(self.U, np.column_stack([c, self.C @ c])).astype(np.float64, copy=False)
        t, s = both[:, 0], both[:, 1]
        left = self.noise + self.variance[node]
        self.reach += t * (t * (c @ c) / left**2 - 2.0 * s / left)
        self.variance -= t**2 / left
        np.maximum(self.reach, 0.0, out=self.reach)
        np.maximum(self.variance, 0.0, out=self.variance)
        self.C = self.C - np.outer(c, c) / left
        return t


def prior(values: Floats, m: int) -> Floats:
    """Variances c (p,) ~ 1/(λ + τ), such that m nodes have a mean variance of 1."""
    bend = _SLACK * values[min(_CUT, values.size - 1)]
    c = 1.0 / np.maximum(values + bend, np.finfo(np.float64).tiny ** 0.25)
    found: Floats = c * (m / c.sum())
    return found


@dataclass(frozen=True, eq=False)
class Situation:
    """A fitted estimator, its graph's `laplacian` and `rows` (m,): a row of the caller a node.

    `told` (m,) whether a label is known, `given` the constraints of rows.
    """

    estimator: Any
    work: Workspace
    laplacian: NormalizedLaplacian
    rows: Ints
    told: NDArray[np.bool_]
    given: Constraints

    @classmethod
    def of(cls, estimator: Any) -> Self:
        """Of a fitted estimator; raises InputError where it is none that can be told something."""
        given, graph = given_of(estimator), estimator.graph_
        recorder = Recorder(Unheard())
        work = estimator._view(
            graph, recorder, row_weights=getattr(estimator, "_row_weights", None)
        )
        laplacian = laplacian_of(work)
        told = nodes_of(graph, _labelled(given), laplacian)
        rows = graph.first_rows[laplacian.nodes]
        return cls(estimator, work, laplacian, rows, told, given)

    @property
    def m(self) -> int:
        """Nodes that have an edge."""
        return self.laplacian.size

    @cached_property
    def _basis(self) -> tuple[Floats, Floats]:
        return smooth_rows(self.estimator, self.work, self.laplacian)

    @property
    def U(self) -> Floats:
        """Smooth vectors (m, p), see `situation`."""
        return self._basis[0]

    @property
    def values(self) -> Floats:
        """Those of L̄ (p,) that the columns of U have."""
        return self._basis[1]

    def at(self, rows: Any) -> Ints:
        """Working numbers of rows, -1 for those without an edge."""
        graph, rows = self.estimator.graph_, np.asarray(rows, dtype=np.int64)
        nodes = rows if graph.rows is None else graph.rows[rows]
        found: Ints = self.laplacian.positions[nodes]
        return found

    def alone(self, avoid: Ints) -> Ints:
        """Rows without an edge that have no label and are not to be avoided, one of equal ones."""
        graph = self.estimator.graph_
        shut = np.zeros(graph.n_nodes, dtype=np.bool_)
        shut[self.laplacian.nodes] = True
        rows = np.concatenate([_labelled(self.given), avoid])
        shut[rows if graph.rows is None else graph.rows[rows]] = True
        found: Ints = graph.first_rows[~shut]
        return found

    def model(self) -> GaussianModel:
        """What the labels that are known tell of the others."""
        return GaussianModel.of(self.U, self.values, np.flatnonzero(self.told))

    @property
    def labels(self) -> Ints:
        """Number of every node's cluster or class (m,), -1 for none."""
        codes, _ = encoded(self.estimator.labels_, "labels_")
        found: Ints = np.asarray(codes, dtype=np.int64)[self.rows]
        return found

    def memberships(self, some: Any) -> Floats:
        """Shares (b, K) of the clusters or classes in nodes; rows sum to 1, or are 0."""
        distributions = getattr(self.estimator, "label_distributions_", None)
        if distributions is not None:
            return np.asarray(distributions[self.rows[some]], dtype=np.float64)
        trust = usual(self.estimator.graph_).trust
        found: Floats = self._evidence.memberships(self.laplacian.nodes[some], trust)
        return found

    @property
    def _evidence(self) -> Any:
        return self.estimator._evidence()


def doubts(situation: Situation) -> tuple[Floats, Floats]:
    """1 less the lead of the likeliest class before the next, and the entropy over log K, (m,).

    Both 1 where nothing is known of a node. Cost O(mK), by blocks.
    """
    margin, entropy = np.ones(situation.m), np.ones(situation.m)
    trust, evidence = usual(situation.estimator.graph_).trust, None
    if not hasattr(situation.estimator, "label_distributions_"):
        evidence = situation._evidence
    laplacian = situation.laplacian
    order = laplacian.positions[np.sort(laplacian.nodes)]  # rows of W as they lie in memory
    for block in row_slices(situation.m, 64):
        some = order[block]
        if evidence is None:
            P = situation.memberships(some)
        else:
            P = evidence.memberships(laplacian.nodes[some], trust)
        if P.shape[1] < 2:
            margin[some] = entropy[some] = 1.0 - P.sum(axis=1)
            continue
        first = np.partition(P, P.shape[1] - 2, axis=1)[:, -2:]
        margin[some] = 1.0 - (first[:, 1] - first[:, 0])
        told = P.any(axis=1)
        spread = -(P * np.log(np.maximum(P, 1e-300))).sum(axis=1) / np.log(P.shape[1])
        entropy[some] = np.where(told, spread, 1.0)
    return np.clip(margin, 0.0, 1.0), np.clip(entropy, 0.0, 1.0)


def nodes_of(graph: Graph, rows: Ints, laplacian: NormalizedLaplacian) -> NDArray[np.bool_]:
    """Mark (m,) of the nodes that these rows are."""
    nodes = rows if graph.rows is None else graph.rows[rows]
    marked = np.zeros(graph.n_nodes, dtype=np.bool_)
    marked[nodes] = True
    found: NDArray[np.bool_] = marked[laplacian.nodes]
    return found


def given_of(estimator: Any) -> Constraints:
    """What the last fit was told of rows; labels of a propagator as constraints.

    Raises InputError for what is no fitted estimator that can be told something.
    """
    graph, name = getattr(estimator, "graph_", None), type(estimator).__name__
    told = hasattr(estimator, "given_labels_") or hasattr(estimator, "constraints_")
    if graph is None or not told or not hasattr(estimator, "refit"):
        raise InputError(
            f"{name}: nothing can be asked about it; give a fitted estimator that has refit, such "
            "as CSP or Poisson"
        )
    if not isinstance(graph, Graph):
        raise InputError(f"{name}: its graph is on disk, where nothing is asked; fit in memory")
    if hasattr(estimator, "given_labels_"):
        codes = encoded(estimator.given_labels_, "given_labels_")[0]
        return Constraints.from_labels(codes)
    found: Constraints = estimator.constraints_
    return found


def _labelled(given: Constraints) -> Ints:
    """Rows that have a label."""
    return np.empty(0, np.int64) if given.labels is None else np.flatnonzero(given.labels >= 0)


def unit_rows(Z: Floats) -> Floats:
    """Rows of length 1; zero rows stay."""
    found: Floats = Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-300)
    return found
