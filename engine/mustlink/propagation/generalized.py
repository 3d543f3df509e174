"""Generalised label propagation, GLP (AB09 §3.1), for any energy fᵀMf.

    min fᵀMf + Σ_i w_i (f_i − y_i)²    subject to f_i = y_i on clamped nodes, f ⟂ Δ

Label propagation, semi-supervised graph cuts and semi-supervised embeddings are this problem. They
differ in M, in the nodes whose labels are held (ε = 0) or weighted, and in Δ. All classes are
solved at once, one column each, in memory. Where M is a graph's Laplacian, `problem` solves it in
every home.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from mustlink.core import dense_algebra
from mustlink.core.check import (
    as_csr,
    as_integer,
    as_labels,
    check_answer,
    check_choice,
    check_tolerance,
    class_labels,
    named,
    numeric_array,
    positive,
    symmetric,
)
from mustlink.core.observe import Observer, Recorder, recorded
from mustlink.core.result import TIME_LIMIT, Convergence, Report
from mustlink.core.state import BaseEstimator, check_is_fitted, fits
from mustlink.errors import InputError
from mustlink.kernels.spmm import spmm
from mustlink.kernels.threads import threads
from mustlink.linear.cg import Map, cg_by_columns
from mustlink.linear.multigrid.hierarchy import Product, galerkin_cycle
from mustlink.operators.laplacian import Block
from mustlink.propagation.answers import confidence, onto_simplex, typical, warn_unreached
from mustlink.propagation.prior import Prior, check_prior
from mustlink.propagation.problem import SOLVERS, Solving, direct
from mustlink.space import LocalSpace

if TYPE_CHECKING:
    from sklearn.utils import Tags

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_SINGULAR = 2e-16  # reciprocal condition number from which LAPACK's result has no right digit
_SHARE = 1e-13  # share of the largest response to Δ below which another is rounding
_DEPENDENT = 1e-12  # singular value of columns of length 1 below which they are dependent
_NEGATIVE = 1e-9  # share of the largest entry below which a negative diagonal is rounding

# --- energies


class System(NamedTuple):
    """(M + diag(w))_ff by its product with a block, and an approximate inverse."""

    apply: Map
    precondition: Map


class Energy(Protocol):
    """A symmetric positive semidefinite form fᵀMf on m nodes."""

    @property
    def size(self) -> int:
        """Number of nodes m."""

    def apply(self, X: Block) -> Block:
        """MX for a block (m, b)."""

    def system(self, free: Ints, weight: Floats) -> System:
        """M + diag(weight) on the rows `free`, `weight` (len(free),) >= 0."""


def restricted(energy: Energy, free: Ints, weight: Floats) -> Map:
    """X -> ((M + diag(weight)) X) on the rows `free`."""
    m, extra = energy.size, weight[:, None]

    def inner(X: Block) -> Block:
        whole = np.zeros((m, X.shape[1]))
        whole[free] = X
        return energy.apply(whole)[free] + extra * X

    return inner


def fit_system(
    apply: Map,
    single: Product,
    galerkin: Callable[[sp.csr_matrix], sp.csr_matrix],
    diagonal: Floats,
    pattern: sp.csr_matrix,
    weight: Floats,
) -> System:
    """M + diag(weight) with a multigrid of its own, aggregated along `pattern`.

    M by products in double and single precision, PᵀMP and diag(M), on the free nodes alone.
    """
    rows = np.flatnonzero(weight)
    extra = weight[rows, None]
    extra32 = extra.astype(np.float32)

    def whole(X: Block) -> Block:
        Y = apply(X)
        Y[rows] += extra * X[rows]
        return Y

    def whole32(X: NDArray[np.float32]) -> NDArray[np.float32]:
        Y = single(X)
        Y[rows] += extra32 * X[rows]
        return Y

    def coarse(P: sp.csr_matrix) -> sp.csr_matrix:
        inner = P[rows]
        return sp.csr_matrix(galerkin(P) + inner.T @ sp.diags_array(weight[rows]) @ inner)

    return System(whole, galerkin_cycle(whole32, diagonal + weight, coarse, pattern))


def in_single(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Values in single precision, indices shared."""
    data: NDArray[np.float32] = matrix.data.astype(np.float32)
    return sp.csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape)


@dataclass(frozen=True, eq=False)
class MatrixEnergy:
    """M (m, m) CSR, symmetric positive semidefinite; nodes with an entry in common are near."""

    matrix: sp.csr_matrix

    @property
    def size(self) -> int:
        """Number of nodes m."""
        return int(self.matrix.shape[0])

    def apply(self, X: Block) -> Block:
        """MX for a block (m, b)."""
        return spmm(self.matrix, np.ascontiguousarray(X))

    def system(self, free: Ints, weight: Floats) -> System:
        """M + diag(weight) on the rows `free`, with a multigrid that carries constants down."""
        A = sp.csr_matrix(self.matrix[free][:, free])
        A.sort_indices()
        single = in_single(A)
        return fit_system(
            lambda X: spmm(A, np.ascontiguousarray(X)),
            lambda X: spmm(single, np.ascontiguousarray(X)),
            lambda P: sp.csr_matrix(P.T.tocsr() @ (A @ P)),
            np.maximum(A.diagonal().astype(np.float64), 0.0),
            A,
            weight,
        )


# --- the problem


def minimised(
    energy: Energy,
    Y: Block,
    held: Ints,
    weight: Floats,
    delta: Block | None,
    recorder: Recorder,
    solving: Solving,
) -> tuple[Block, Convergence]:
    """Minimiser (m, K) of the problem above for targets Y (m, K), Δ = `delta` (m, r), if any.

    Stationarity on the free rows is (M + diag(w))f = wy + Δμ − M_fc y_c, with μ such that f ⟂ Δ
    (AB09 eq. 11, 38, 40). Nodes `held` keep their y. Where the labels do not determine all values
    (points on a plane with fewer labels than coordinates, for example), there is a warning, and the
    values are those of the conjugate gradients. Cost: about 15 multigrid cycles, or some hundred
    products where the weights are large everywhere.
    """
    free = np.setdiff1d(np.arange(energy.size), held)
    recorder.budget.ask(2 * Y.nbytes, f"equations for {Y.shape[1]} classes on {energy.size} nodes")
    F = np.zeros_like(Y)
    F[held] = Y[held]
    B = weight[free, None] * Y[free]
    for first in range(0, Y.shape[1] if held.size else 0, solving.together):
        part = slice(first, first + solving.together)
        B[:, part] -= energy.apply(F[:, part])[free]
    side = None if delta is None else (delta[free], delta.T @ F)
    if free.size == 0 or solving.is_dense(energy.size):
        with recorder.stage("propagating"):
            found = _direct(restricted(energy, free, weight[free]), B, side, solving, energy.size)
        if found is not None:
            F[free], convergence = found
            return F, convergence
        recorder.warn(
            "the labels do not determine all values (M is singular on the other nodes, or not "
            "positive semidefinite); those of the conjugate gradients are taken"
        )
    with recorder.stage("multigrid set-up"):
        system = energy.system(free, weight[free])
    F[free], convergence = _iterated(
        system, B, side, solving.tolerance(energy.size), recorder, solving
    )
    return F, convergence


def _direct(
    A: Map, B: Block, side: tuple[Block, Block] | None, solving: Solving, size: int
) -> tuple[Block, Convergence] | None:
    """A⁻¹(B + Δμ) by LAPACK, μ such that ΔᵀX = −s, `side` Δ and s; None where A is singular."""
    k = B.shape[1]
    whole = B if side is None else np.column_stack([B, side[0]])
    found = direct(A, whole, solving.tolerance(size), _SINGULAR)
    if found is None or side is None:
        return found
    (X, convergence), (delta, excess) = found, side
    X, response = X[:, :k], X[:, k:]
    across = delta.T @ response
    values, V = dense_algebra.eigh((across + across.T) / 2)
    there = values > _SHARE * max(float(values.max(initial=0.0)), 0.0)
    V = V[:, there]  # without rounding, and columns of Δ that depend on others
    return X - response @ (V @ ((V.T @ (delta.T @ X + excess)) / values[there, None])), convergence


def _iterated(
    system: System,
    B: Block,
    side: tuple[Block, Block] | None,
    tol: float,
    recorder: Recorder,
    solving: Solving,
) -> tuple[Block, Convergence]:
    """The same by conjugate gradients that stay on ΔᵀX = −s.

    X = X₀ + G, X₀ the least with ΔᵀX₀ = −s, G ⟂ Δ. The response of M to Δ would give μ as well, but
    may take many times as many steps: it lies along the small eigenvalues of M.
    """
    A: Map = system.apply
    project: Map | None = None
    start: Any = 0.0
    if side is not None:
        U, sizes, V = np.linalg.svd(side[0], full_matrices=False)
        there = sizes > _DEPENDENT * sizes.max(initial=0.0)
        U, sizes, V = U[:, there], sizes[there], V[there]
        start = U @ ((V @ -side[1]) / sizes[:, None])
        B = B - A(start)

        def within(X: Block) -> Block:
            return X - U @ (U.T @ X)

        project = within
        A = lambda X: within(system.apply(X))  # noqa: E731

    with recorder.stage("propagating") as advance:
        Z, convergence = cg_by_columns(
            A,
            B,
            tol=tol,
            max_iter=solving.max_iter,
            advance=advance,
            deadline=solving.deadline,
            together=solving.together,
            precondition=system.precondition,
            project=project,
        )
    return start + Z, convergence


# --- the estimator


@dataclass(eq=False, repr=False)
class GLP(BaseEstimator):
    """min fᵀMf + Σ_i u_i (f_i − y_i)², f ⟂ Δ, for any positive semidefinite M (AB09 eq. 6).

    M is symmetric. Classes are solved at once, one-hot labels a column each, y = 0 without a label.
    Every method that AB09 unifies is a choice of M, u and Δ; docs/methods.md lists them.

    * `solver`: "dense" (LAPACK), "cg" (conjugate gradients with a multigrid), "auto" (dense up to
      1,000 nodes); `tol` the relative residual, None takes 1e-10 up to 20,000 nodes and 1e-6 above;
      `max_iter` the most steps.

    After `fit`: `classes_` (K,), `labels_` = `transduction_` (n,), `label_distributions_` (n, K),
    rows sum to 1, `confidence_` (n,) from 0 (tie) to 1, `report_`, and F by `decision_function`.
    Cost: some tens of products with M.
    """

    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 1000
    n_jobs: int | None = None
    time_limit: float | str | None = None

    @fits
    def fit(
        self,
        M: Any,
        y: Any,
        weights: Any = np.inf,
        orthogonal_to: Any = None,
        observer: Observer | Recorder | None = None,
        prior: Any = None,
        belief: Any = None,
    ) -> Self:
        """Label nodes from `y` (n,), -1 for unknown, by the energy M (n, n).

        M: a scipy sparse or a dense matrix. `weights` u: a number for all labelled nodes, or
        (n,) >= 0 one for every node, with or without a label; infinite ones hold the label (AB09's
        ε = 0), the usual. `orthogonal_to` Δ: (n,) or (n, r) columns. Raises InputError.

        `prior` (n, K), distributions over the classes in their order, and `belief` b, (n,) or a
        number >= 0, 1 if left out: Σ_i b_i ‖f_i − p_i‖² over nodes without a label is added. Nodes
        in a part of M that no label or belief reaches get -1.
        """
        check_choice(self.solver, SOLVERS, "solver")
        check_tolerance(self.tol)
        as_integer(self.max_iter, "max_iter", 1)
        recorder = recorded(observer)
        labels, names = class_labels(y)
        labels = as_labels(labels, labels.size, "y")
        with threads(self.n_jobs), recorder.limited(self.time_limit):
            matrix = checked_matrix(M, labels.size)
            weight, held = _as_weights(weights, labels)
            delta = _as_columns(orthogonal_to, labels.size)
            check_prior("GLP", True, prior, belief)
            classes = np.unique(labels[labels >= 0])
            checked = None
            if prior is not None:
                checked = Prior.of_rows(prior, belief, labels.size, classes.size)
                checked = checked.without(labels >= 0)
            self._run(matrix, labels, weight, held, delta, checked, recorder)
        if names is not None:
            self.labels_: Any = named(names, self.labels_)
            self.classes_: Any = names[self.classes_]
        return self

    def decision_function(self) -> Block:
        """F (n, K) as it minimises; of two classes (n,), the second's less the first's.

        That is AB09's f for labels −1 and 1.
        """
        check_is_fitted(self)
        F: Block = self._scores
        return F if F.shape[1] > 2 else F[:, 1] - F[:, 0]

    @property
    def transduction_(self) -> Any:
        """`labels_` under scikit-learn's name."""
        return self.labels_

    @property
    def n_iter_(self) -> int:
        """Steps of the iteration, 1 where it was solved directly."""
        check_is_fitted(self)
        return max(1, self._steps)

    def __sklearn_tags__(self) -> Tags:
        """Rows and columns of M are split together."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.sparse = True
        return tags

    def _run(
        self,
        matrix: sp.csr_matrix,
        labels: Ints,
        weight: Floats,
        held: NDArray[np.bool_],
        delta: Block | None,
        prior: Prior | None,
        recorder: Recorder,
    ) -> None:
        """Solve where labels reach, and set the results."""
        self.classes_ = np.unique(labels[labels >= 0])
        Y = (labels[:, None] == self.classes_) * 1.0
        weighed = Y * ((weight > 0) | held)[:, None]
        if prior is not None:
            weighed = weighed + prior.belief[:, None] * prior.values
            Y, weight = prior.joined(Y, weight, None)
        n_parts, part = connected_components(matrix, directed=False)
        in_parts = np.zeros((n_parts, self.classes_.size), dtype=bool)
        rows, codes = np.nonzero(weighed)
        in_parts[part[rows], codes] = True
        possible = in_parts[part]  # classes of a label or belief in the node's part of M
        inside = possible.any(axis=1)
        nodes = np.flatnonzero(inside)
        if nodes.size < labels.size:
            matrix = sp.csr_matrix(matrix[nodes][:, nodes])
        solving = Solving(self.solver, self.tol, int(self.max_iter), recorder.deadline)
        within = None if delta is None else delta[nodes]
        clamped = np.flatnonzero(held[nodes])
        F, convergence = minimised(
            MatrixEnergy(matrix), Y[nodes], clamped, weight[nodes], within, recorder, solving
        )
        check_answer(F, "label propagation")
        if convergence.reason == TIME_LIMIT:
            recorder.skip_for_time(convergence.status)
        elif not convergence.converged.all():
            recorder.warn(convergence.status)
        self._steps = int(convergence.iterations)
        self._scores: Block = np.zeros_like(Y)
        self._scores[nodes] = F
        V = F / typical(LocalSpace(nodes.size), F, np.ones(nodes.size)) if nodes.size else F
        P = np.zeros_like(Y)
        P[nodes] = onto_simplex(np.where(possible[nodes], V, -np.inf))
        self.label_distributions_ = P
        self.labels_ = np.where(inside, self.classes_[P.argmax(axis=1)], -1)
        self.confidence_ = confidence(P)
        known = labels >= 0
        warn_unreached(labels.size - nodes.size, "", recorder)
        self.report_ = Report(
            method="GLP",
            n_nodes=labels.size,
            n_clusters=self.classes_.size,
            choices={"solver": convergence.solver},
            convergence=convergence,
            satisfaction=None,
            **recorder.report_parts(),
            extra={
                "n_labels": int(known.sum()),
                "n_held": int(held.sum()),
                "labels_kept": float(np.mean(self.labels_[known] == labels[known])),
                "unanswered": int(labels.size - nodes.size),
            },
        )


def checked_matrix(M: Any, n: int) -> sp.csr_matrix:
    """M (n, n) in double precision, symmetric to 1e-6, no diagonal entry below 0; or InputError."""
    matrix = as_csr(M, "M").astype(np.float64, copy=False)
    if matrix.shape != (n, n):
        raise InputError(f"M: shape {matrix.shape} for {n} labels; give one row per node")
    matrix = symmetric(positive(matrix, "M", signed=True), "M", "pass (M + M.T) / 2")
    least = float(matrix.diagonal().min(initial=0.0))
    if least < -_NEGATIVE * float(np.abs(matrix.data).max(initial=0.0)):
        raise InputError(
            f"M: diagonal entry {least:.2g} is negative, fᵀMf has no minimum; give a positive "
            "semidefinite M, such as D − W for affinities W"
        )
    return matrix


def _as_weights(weights: Any, labels: Ints) -> tuple[Floats, NDArray[np.bool_]]:
    """Finite weights (n,), 0 where the label is held, and where it is; raises InputError."""
    u = np.asarray(numeric_array(weights, "weights"), dtype=np.float64)
    if u.ndim == 0:
        u = np.where(labels >= 0, u, 0.0)
    if u.shape != labels.shape:
        raise InputError(
            f"weights: shape {u.shape} for {labels.size} nodes; give a number, or one a node"
        )
    if not (u >= 0).all():
        raise InputError("weights: they must be 0 or more, infinite where the label is held")
    if not (u[labels >= 0] > 0).any():
        raise InputError("weights: 0 on all nodes with a label; give these more")
    held = np.isinf(u)
    if (held & (labels < 0)).any():
        node = int(np.argmax(held & (labels < 0)))
        raise InputError(f"weights: infinite on node {node}, which has no label to be held at")
    return np.where(held, 0.0, u), held


def _as_columns(vectors: Any, n: int) -> Block | None:
    """Columns (n, r) of length 1; raises InputError."""
    if vectors is None:
        return None
    D = np.asarray(numeric_array(vectors, "orthogonal_to"), dtype=np.float64)
    D = D[:, None] if D.ndim == 1 else D
    if D.ndim != 2 or D.shape[0] != n or not np.isfinite(D).all():
        raise InputError(
            f"orthogonal_to: shape {D.shape} for {n} nodes; give finite columns (n,) or (n, r)"
        )
    length = np.linalg.norm(D, axis=0)
    if not length.all():
        raise InputError("orthogonal_to: a column is zero; leave it out")
    return D / length
