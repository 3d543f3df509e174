"""Generalised label propagation with any energy (AB09 §3.1): the paper's own thesis.

    min fᵀMf + Σ_i w_i (f_i − y_i)²    subject to f_i = y_i on clamped nodes, f ⟂ Δ

Label propagation, semi-supervised graph cuts and semi-supervised embeddings are one problem. They
differ in M, in the nodes whose labels are held (ε = 0) or weighted, and in Δ. All classes are
solved at once, one column each. Where M is a graph's Laplacian, `problem` does it wherever nodes
are; here they are in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from mustlink.check import (
    PlainParameters,
    as_csr,
    as_integer,
    check_answer,
    check_choice,
    check_tolerance,
    numeric_array,
)
from mustlink.deadline import Deadline
from mustlink.errors import InputError, NumericalError
from mustlink.kernels.spmm import spmm
from mustlink.kernels.threads import threads
from mustlink.labels import as_labels, class_labels, named
from mustlink.linear.by_columns import by_columns, done
from mustlink.linear.cg import Map, block_cg
from mustlink.linear.multigrid.galerkin import Product, galerkin_cycle
from mustlink.numeric import dense_algebra
from mustlink.observe import Observer, Recorder, recorded
from mustlink.operators.laplacian import Block
from mustlink.propagate.answers import confidence, onto_simplex, typical, warn_unreached
from mustlink.propagate.prior import Prior, check_prior
from mustlink.propagate.problem import SOLVERS, Solving, direct
from mustlink.result import Convergence, Report
from mustlink.space import LocalSpace
from mustlink.state import fits
from mustlink.stopping import TIME_LIMIT

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_SINGULAR = 2e-16  # reciprocal condition number from which LAPACK's answer has no digit
_SHARE = 1e-13  # share of the largest response to Δ below which another is rounding
_DEPENDENT = 1e-12  # singular value of columns of length 1 below which they say the same
_SYMMETRY = 1e-6  # of the largest entry, or of the lengths of a product's factors
_NEGATIVE = 1e-9  # share of the largest entry below which a negative diagonal is rounding

# --- energies


@dataclass(frozen=True, eq=False)
class System:
    """E(M + diag(w))_ff E, E = diag(scale): positive definite, with a diagonal near 1.

    `apply` is its product with a block, `precondition` an approximate inverse or None.
    """

    apply: Map
    scale: Floats
    precondition: Map | None = None


class Energy(Protocol):
    """A symmetric positive semidefinite form fᵀMf on m nodes."""

    @property
    def size(self) -> int:
        """Number of nodes m."""

    def apply(self, X: Block) -> Block:
        """MX for a block (m, b)."""

    def system(self, free: Ints, weight: Floats) -> System:
        """M + diag(weight) on the rows `free`, `weight` (len(free),) >= 0."""


def scaled_system(
    energy: Energy, diagonal: Floats, free: Ints, weight: Floats, precondition: Map | None = None
) -> System:
    """The system of an energy known by its product only.

    `diagonal` (m,) > 0 is comparable with M's; `precondition` ≈ the unscaled inverse.
    """
    scale = 1.0 / np.sqrt(diagonal[free] + weight)
    outer = scale[:, None]
    A = restricted(energy, free, weight)
    inner = None if precondition is None else (lambda V: precondition(V / outer) / outer)
    return System(lambda V: outer * A(outer * V), scale, inner)


def restricted(energy: Energy, free: Ints, weight: Floats) -> Map:
    """X -> ((M + diag(weight)) X) on the rows `free`."""
    m, extra = energy.size, weight[:, None]
    if free.size == m:
        return lambda X: energy.apply(X) + extra * X

    def inner(X: Block) -> Block:
        whole = np.zeros((m, X.shape[1]))
        whole[free] = X
        found: Block = energy.apply(whole)[free] + extra * X
        return found

    return inner


@dataclass(frozen=True, eq=False)
class Fit:
    """A form M on some of the nodes: products in double and single precision, PᵀMP, diag(M)."""

    apply: Map
    single: Product
    galerkin: Callable[[sp.csr_matrix], sp.csr_matrix]
    diagonal: Floats

    def system(self, pattern: sp.csr_matrix, weight: Floats) -> System:
        """M + diag(weight) with a multigrid of its own, aggregated along `pattern`."""
        rows = np.flatnonzero(weight)
        extra = weight[rows, None]
        extra32 = extra.astype(np.float32)

        def apply(X: Block) -> Block:
            Y = self.apply(X)
            Y[rows] += extra * X[rows]
            return Y

        def single(X: NDArray[np.float32]) -> NDArray[np.float32]:
            Y = self.single(X)
            Y[rows] += extra32 * X[rows]
            return Y

        def coarse(P: sp.csr_matrix) -> sp.csr_matrix:
            inner = P[rows]
            return sp.csr_matrix(self.galerkin(P) + inner.T @ sp.diags_array(weight[rows]) @ inner)

        cycle = galerkin_cycle(single, self.diagonal + weight, coarse, pattern)
        return System(apply, np.ones(weight.size), cycle)


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
        single = sp.csr_matrix((A.data.astype(np.float32), A.indices, A.indptr), shape=A.shape)
        fit = Fit(
            lambda X: spmm(A, np.ascontiguousarray(X)),
            lambda X: spmm(single, np.ascontiguousarray(X)),
            lambda P: sp.csr_matrix(P.T.tocsr() @ (A @ P)),
            np.maximum(A.diagonal().astype(np.float64), 0.0),
        )
        return fit.system(A, weight)


@dataclass(frozen=True, eq=False)
class OperatorEnergy:
    """M by its product alone: no entry is known, and nothing preconditions it."""

    product: Map
    size: int

    def apply(self, X: Block) -> Block:
        """MX for a block (m, b)."""
        found = np.asarray(self.product(X))
        if found.shape != X.shape or found.dtype.kind not in "fiu":
            raise InputError(
                f"M: a block {X.shape} became {found.dtype} of shape {found.shape}; a product "
                "keeps the shape and is real"
            )
        return found.astype(np.float64, copy=False)

    def system(self, free: Ints, weight: Floats) -> System:
        """Scaled by the weights alone."""
        return scaled_system(self, np.ones(self.size), free, weight)


def as_energy(M: Any, n: int) -> Energy:
    """A sparse or dense matrix (n, n), a LinearOperator or a callable; raises InputError.

    Symmetric to 1e-6, and no diagonal entry is negative; of an operator one product is looked at.
    """
    if isinstance(M, LinearOperator) or (callable(M) and not hasattr(M, "shape")):
        if isinstance(M, LinearOperator) and M.shape != (n, n):
            raise InputError(f"M: shape {M.shape} for {n} labels; give one row per node")
        energy = OperatorEnergy(M.matmat if isinstance(M, LinearOperator) else M, n)
        _look(energy)
        return energy
    matrix = as_csr(M, "M").astype(np.float64, copy=False)
    if matrix.shape != (n, n):
        raise InputError(f"M: shape {matrix.shape} for {n} labels; give one row per node")
    largest = float(np.abs(matrix.data).max(initial=0.0))
    if not np.isfinite(largest):
        raise InputError("M: entries that are not finite; remove NaN and Inf")
    gap = abs(matrix - matrix.T).max() if matrix.nnz else 0.0
    if gap > _SYMMETRY * largest:
        raise InputError(
            f"M: not symmetric, M and its transpose differ by {gap:.2g}; pass (M + M.T) / 2"
        )
    least = float(matrix.diagonal().min(initial=0.0))
    if least < -_NEGATIVE * largest:
        raise InputError(
            f"M: diagonal entry {least:.2g} is negative, fᵀMf has no minimum; give a positive "
            "semidefinite M, such as D − W for affinities W"
        )
    return MatrixEnergy(matrix)


def _look(energy: OperatorEnergy) -> None:
    """Raise InputError where one product is not that of a symmetric positive semidefinite M."""
    X = np.random.default_rng(0).standard_normal((energy.size, 2))
    MX = energy.apply(X)
    if not np.isfinite(MX).all():
        raise InputError("M: its product with random vectors is not finite; look at the operator")
    products, size = X.T @ MX, float(np.linalg.norm(X) * np.linalg.norm(MX))
    if abs(products[0, 1] - products[1, 0]) > _SYMMETRY * size:
        raise InputError("M: not symmetric, ⟨x, My⟩ is not ⟨Mx, y⟩; pass (M + Mᵀ) / 2")
    if products.diagonal().min() < -_NEGATIVE * size:
        raise InputError(
            "M: xᵀMx is negative for a random x, fᵀMf has no minimum; give a positive "
            "semidefinite M"
        )


# --- the problem


def propagate(
    energy: Energy,
    Y: Block,
    recorder: Recorder,
    solving: Solving,
    *,
    clamped: Ints | None = None,
    weight: Floats | None = None,
    balance: Floats | None = None,
) -> tuple[Block, Convergence]:
    """Minimiser F (m, K) of the problem above for targets Y (m, K), column by column.

    Stationarity on the free rows is (M + diag(w))f = wy + μΔ − M_fc y_c, with μ such that f ⟂ Δ
    (AB09 eq. 11, 38, 40; the right-hand side Δ is one more column of the same block solve).
    `clamped`, `weight` and Δ = `balance`, (m,) or columns, default to nothing. The free system must
    be definite: some label in every component. Cost: about 15 multigrid cycles, or some hundred
    products where the weights are large everywhere.
    """
    m = Y.shape[0]
    held = np.empty(0, dtype=np.int64) if clamped is None else clamped
    is_free = np.ones(m, dtype=bool)
    is_free[held] = False
    free = np.flatnonzero(is_free)
    w = np.zeros(m) if weight is None else weight
    recorder.budget.ask(2 * Y.nbytes, f"equations for {Y.shape[1]} classes on {m} nodes")
    B = w[:, None] * Y
    if held.size:
        for first in range(0, Y.shape[1], solving.together):
            part = slice(first, first + solving.together)
            B[:, part] -= energy.apply(np.where(is_free[:, None], 0.0, Y[:, part]))
    if balance is not None:
        B = np.column_stack([B, balance])
    B = B[free]
    X, convergence = solve(energy, B, free, w[free], recorder, solving)
    del B
    if balance is not None:
        response, X = X[:, Y.shape[1] :], X[:, : Y.shape[1]]
        delta = balance.reshape(m, -1)
        excess = delta[free].T @ X + delta[held].T @ Y[held]
        X = X - response @ _multipliers(delta[free].T @ response, excess)
    F = np.array(Y, dtype=np.float64)
    F[free] = X
    return F, convergence


def _multipliers(across: Floats, excess: Block) -> Block:
    """ΔᵀA⁻¹Δ's inverse times `excess`, without what is rounding or said by another column of Δ."""
    values, V = dense_algebra.eigh((across + across.T) / 2)
    there = values > _SHARE * max(float(values.max(initial=0.0)), 0.0)
    V = V[:, there]
    found: Block = V @ ((V.T @ excess) / values[there, None])
    return found


def solve(
    energy: Energy,
    B: Block,
    free: Ints,
    weight: Floats,
    recorder: Recorder,
    solving: Solving,
) -> tuple[Block, Convergence]:
    """Solve (M + diag(weight)) X = B on the rows `free`, (f, b)."""
    tol = solving.tolerance(energy.size)
    if free.size == 0 or solving.is_dense(energy.size):
        with recorder.stage("propagating"):
            found = direct(restricted(energy, free, weight), B, tol, _SINGULAR)
            if found is None:
                raise NumericalError("graph: a linear system of all nodes is singular to rounding")
            return found
    with recorder.stage("multigrid set-up"):
        system = energy.system(free, weight)
    scale = system.scale[:, None]
    X, convergence = _by_gradients(system, scale * B, tol, recorder, solving)
    X *= scale
    return X, convergence


def _by_gradients(
    system: System,
    B: Block,
    tol: float,
    recorder: Recorder,
    solving: Solving,
    project: Map | None = None,
) -> tuple[Block, Convergence]:
    """AX = B (m, b), or PAX = PB for X = PX, P the projection `project` that is never left."""

    def part(
        C: Block, advance: Callable[[float], None], until: Deadline
    ) -> tuple[Block, Convergence]:
        return block_cg(
            system.apply if project is None else lambda X: project(system.apply(X)),
            C,
            tol=tol,
            max_iter=solving.max_iter,
            precondition=system.precondition,
            project=project,
            on_step=lambda worst: advance(done(worst, tol)),
            deadline=until,
        )

    with recorder.stage("propagating") as advance:
        return by_columns(part, B, advance, solving.deadline, solving.together)


def propagate_within(
    energy: Energy,
    Y: Block,
    clamped: Ints,
    weight: Floats,
    delta: Block,
    recorder: Recorder,
    solving: Solving,
) -> tuple[Block, Convergence]:
    """`propagate` with ΔᵀF = 0 for columns Δ (m, r), by iterations that never leave them.

    On the free rows F = F₀ + G, F₀ the least with the right products with Δ, G ⟂ Δ. The response
    of M to Δ, from which the multipliers could be had, may take many times as many steps: it lies
    along all that M hardly sees.
    """
    free = np.setdiff1d(np.arange(energy.size), clamped)
    tol = solving.tolerance(energy.size)
    fixed = np.zeros_like(Y)
    fixed[clamped] = Y[clamped]
    with recorder.stage("multigrid set-up"):
        system = energy.system(free, weight[free])
    scale = system.scale[:, None]
    U, sizes, V = np.linalg.svd(scale * delta[free], full_matrices=False)
    there = sizes > _DEPENDENT * sizes.max(initial=0.0)
    U, sizes, V = U[:, there], sizes[there], V[there]

    def project(X: Block) -> Block:
        found: Block = X - U @ (U.T @ X)
        return found

    start = U @ ((V @ (-delta.T @ fixed)) / sizes[:, None])
    B = scale * ((weight[:, None] * Y - energy.apply(fixed))[free]) - system.apply(start)

    Z, convergence = _by_gradients(system, B, tol, recorder, solving, project)
    F = fixed
    F[free] = scale * (start + Z)
    return F, convergence


def minimised(
    energy: Energy,
    Y: Block,
    held: Ints,
    weight: Floats,
    delta: Block | None,
    recorder: Recorder,
    solving: Solving,
) -> tuple[Block, Convergence]:
    """The minimiser (m, K) of the problem above, Δ = `delta` (m, r), as `solving` says.

    Conjugate gradients find one where it is not unique (points on a plane with fewer labels than
    coordinates, for example), and a warning says so.
    """
    if delta is not None and not solving.is_dense(energy.size):
        return propagate_within(energy, Y, held, weight, delta, recorder, solving)
    try:
        how: Any = {"clamped": held, "weight": weight, "balance": delta}
        return propagate(energy, Y, recorder, solving, **how)
    except NumericalError:
        recorder.warn(
            "the labels do not determine all values (M is singular on the other nodes, or not "
            "positive semidefinite); those of the conjugate gradients are given"
        )
        solving = replace(solving, solver="cg")
        if delta is None:
            return propagate(energy, Y, recorder, solving, clamped=held, weight=weight)
        return propagate_within(energy, Y, held, weight, delta, recorder, solving)


# --- the estimator


@dataclass(eq=False, repr=False)
class GLP(PlainParameters, BaseEstimator):
    """min fᵀMf + Σ_i u_i (f_i − y_i)², f ⟂ Δ, for any positive semidefinite M (AB09 eq. 6).

    M is symmetric. All classes are solved at once, one-hot labels a column each, y = 0 where none
    is known. Every method that AB09 unifies is a choice of M, u and Δ; docs/methods.md lists them.

    * `solver`: "dense" (LAPACK), "cg" (conjugate gradients, with a multigrid where M is a matrix),
      "auto" (dense up to 1,000 nodes); `tol` the relative residual, None takes 1e-10 up to 20,000
      nodes and 1e-6 above; `max_iter` the most steps.

    After `fit`: `classes_` (K,), `labels_` = `transduction_` (n,), `label_distributions_` (n, K),
    rows sum to 1, `confidence_` (n,) from 0 (tie) to 1, `report_`, and F by `decision_function`.
    Cost: some tens of products with M, or some hundreds of an operator whose entries are unknown.
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

        M: a scipy sparse or a dense matrix, a scipy LinearOperator, or a callable that gives MX
        for a block (n, b). `weights` u: a number for all labelled nodes, or (n,) >= 0 one for every
        node, with or without a label; infinite ones hold the label (AB09's ε = 0), the usual.
        `orthogonal_to` Δ: (n,) or (n, r) columns. Raises InputError.

        `prior` (n, K), distributions over the classes in their order, and `belief` b, (n,) or a
        number >= 0, 1 if left out: Σ_i b_i ‖f_i − p_i‖² over nodes without a label is added. Where
        M is a matrix, a part of it that no label or belief reaches is answered with -1.
        """
        check_choice(self.solver, SOLVERS, "solver")
        check_tolerance(self.tol)
        as_integer(self.max_iter, "max_iter", 1)
        recorder = recorded(observer)
        labels, names = class_labels(y)
        labels = as_labels(labels, labels.size, "y")
        with threads(self.n_jobs), recorder.limited(self.time_limit):
            energy = as_energy(M, labels.size)
            weight, held = _as_weights(weights, labels)
            delta = _as_columns(orthogonal_to, labels.size)
            check_prior("GLP", True, prior, belief)
            classes = np.unique(labels[labels >= 0])
            said = None
            if prior is not None:
                said = Prior.of_rows(prior, belief, labels.size, classes.size)
                said = said.without(labels >= 0)
            self._run(energy, labels, weight, held, delta, said, recorder)
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
        energy: Energy,
        labels: Ints,
        weight: Floats,
        held: NDArray[np.bool_],
        delta: Block | None,
        said: Prior | None,
        recorder: Recorder,
    ) -> None:
        """Solve where labels reach, and set what was found."""
        self.classes_ = np.unique(labels[labels >= 0])
        Y = (labels[:, None] == self.classes_) * 1.0
        told = Y * ((weight > 0) | held)[:, None]
        if said is not None:
            told = told + said.belief[:, None] * said.values
            Y, weight = said.joined(Y, weight, None)
        possible = _possible(energy, told)
        inside = np.ones(labels.size, dtype=bool) if possible is None else possible.any(axis=1)
        part, nodes = energy, np.flatnonzero(inside)
        if isinstance(energy, MatrixEnergy) and nodes.size < labels.size:
            part = MatrixEnergy(sp.csr_matrix(energy.matrix[nodes][:, nodes]))
        solving = Solving(self.solver, self.tol, int(self.max_iter), recorder.deadline)
        within = None if delta is None else delta[nodes]
        clamped = np.flatnonzero(held[nodes])
        F, convergence = minimised(
            part, Y[nodes], clamped, weight[nodes], within, recorder, solving
        )
        check_answer(F, "label propagation")
        if convergence.reason == TIME_LIMIT:
            recorder.leave_out(convergence.status)
        elif not convergence.converged.all():
            recorder.warn(convergence.status)
        self._steps = int(convergence.iterations)
        self._scores: Block = np.zeros_like(Y)
        self._scores[nodes] = F
        V = F / typical(LocalSpace(nodes.size), F, np.ones(nodes.size)) if nodes.size else F
        P = np.zeros_like(Y)
        P[nodes] = onto_simplex(V if possible is None else np.where(possible[nodes], V, -np.inf))
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
            **recorder.told(),
            extra={
                "n_labels": int(known.sum()),
                "n_held": int(held.sum()),
                "labels_kept": float(np.mean(self.labels_[known] == labels[known])),
                "unanswered": int(labels.size - nodes.size),
            },
        )


def _possible(energy: Energy, told: Block) -> NDArray[np.bool_] | None:
    """Classes that a label of the node's part of M allows (n, K); None for one part or unknown."""
    if not isinstance(energy, MatrixEnergy):
        return None
    count, part = connected_components(energy.matrix, directed=False)
    if count == 1:
        return None
    found = np.zeros((count, told.shape[1]), dtype=bool)
    nodes, codes = np.nonzero(told)
    found[part[nodes], codes] = True
    return found[part]


def _as_weights(weights: Any, labels: Ints) -> tuple[Floats, NDArray[np.bool_]]:
    """Finite weights (n,), 0 where the label is held, and where it is; raises InputError."""
    given = np.asarray(numeric_array(weights, "weights"), dtype=np.float64)
    if given.ndim == 0:
        given = np.where(labels >= 0, given, 0.0)
    if given.shape != labels.shape:
        raise InputError(
            f"weights: shape {given.shape} for {labels.size} nodes; give a number, or one a node"
        )
    if not (given >= 0).all():
        raise InputError("weights: they must be 0 or more, infinite where the label is held")
    if not (given[labels >= 0] > 0).any():
        raise InputError("weights: 0 on all nodes with a label; give these more")
    held = np.isinf(given)
    if (held & (labels < 0)).any():
        node = int(np.argmax(held & (labels < 0)))
        raise InputError(f"weights: infinite on node {node}, which has no label to be held at")
    return np.where(held, 0.0, given), held


def _as_columns(vectors: Any, n: int) -> Block | None:
    """Columns (n, r) of length 1; raises InputError."""
    if vectors is None:
        return None
    given = np.asarray(numeric_array(vectors, "orthogonal_to"), dtype=np.float64)
    given = given[:, None] if given.ndim == 1 else given
    if given.ndim != 2 or given.shape[0] != n or not np.isfinite(given).all():
        raise InputError(
            f"orthogonal_to: shape {given.shape} for {n} nodes; give finite columns (n,) or (n, r)"
        )
    length = np.linalg.norm(given, axis=0)
    if not length.all():
        raise InputError("orthogonal_to: a column is zero; leave it out")
    found: Block = given / length
    return found
