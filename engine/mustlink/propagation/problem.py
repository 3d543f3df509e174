"""Label propagation on a graph: one problem for nodes in memory, on disk and on ranks.

    min γfᵀ(D − W)f + Σ_i w_i (f_i − y_i)²    subject to f_i = y_i on clamped nodes, f ⟂ Δ

or with L̄ in place of D − W. Its system is a grounded Laplacian, I − T^-½WT^-½ on the free nodes
(`operators.laplacian`); a home applies and preconditions it. All else is written by the
verbs of a space. Rows of nodes that no label reaches, and of clamped ones, are 0. Other energies
than a Laplacian are in `generalized`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.context.method_cost import TOGETHER
from mustlink.context.stage_cache import Workspace
from mustlink.core import dense_algebra
from mustlink.core.observe import NEVER, Deadline, Recorder
from mustlink.core.result import Convergence
from mustlink.eigen.memory_work import (
    MemoryWork,
    cached_inverse,
    laplacian_of,
    smooth_vectors,
)
from mustlink.eigen.plain_solve import DENSE_BELOW
from mustlink.errors import NumericalError
from mustlink.linear.cg import Map, block_cg, done
from mustlink.linear.laplacian_solve import (
    DeflatedPolynomial,
    dense_inverse,
    solve_deflated,
    solve_laplacian,
    usual_preconditioner,
)
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.operators.protocol import Laplacian, Preconditioner
from mustlink.propagation.prior import LabelSet, Prior
from mustlink.space import Block, GroupSums, Small, Space, Vector

Array = NDArray[Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SOLVERS = ("auto", "dense", "cg")
_BELOW = 1e-2  # times the tolerance: values this small are noise of the solver
_JACOBI = 0.005  # share of the diagonal that is added everywhere, from which no multigrid is needed
_NEAR = 0.0196  # and up to which vectors of the Laplacian are those of the system
_EVEN = 1e-12  # by which equal shares differ
_ILL = 1e-7  # reciprocal condition number from which LAPACK's result may lack the seventh digit


@dataclass(frozen=True)
class Solving:
    """How a system is solved: by LAPACK or conjugate gradients, to which residual, until when.

    In memory conjugate gradients take at most `together` columns at a time.
    """

    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 1000
    deadline: Deadline = NEVER
    together: int = TOGETHER

    def is_dense(self, m: int) -> bool:
        """Whether LAPACK solves it: up to 1,000 nodes by default."""
        return self.solver == "dense" or (self.solver == "auto" and m <= DENSE_BELOW)

    def tolerance(self, m: int) -> float:
        """1e-10 up to 20,000 nodes, 1e-6 above; or `tol`."""
        return self.tol if self.tol is not None else 1e-10 if m <= 20_000 else 1e-6


@dataclass(frozen=True, eq=False)
class Solution:
    """A method's values (m, K), the convergence of its solver, and its choices."""

    scores: Block
    convergence: Convergence | None
    choices: dict[str, Any] = field(default_factory=dict)

    @property
    def noise(self) -> float:
        """Share of the largest values below which others are rounding; 0 of a direct solver."""
        if self.convergence is None or self.convergence.reason == "direct":
            return 0.0
        return _BELOW * self.convergence.tolerance


@dataclass(frozen=True, eq=False)
class PropagationProblem:
    """The input of a method: the class of every node, −1 unknown, in `codes` (n,).

    A node may stand for several copies, of which `labels_held` (n,) have its label. A method is the
    one on all copies, restricted to values that are equal on copies: sums over nodes count copies,
    sums over labels labelled copies. Nodes without an edge have no label here. `prior` is for nodes
    without a label. Every method is linear in y up to a shift common to all classes, so that for
    two classes the sign of AB09's ±1 coding and the larger of two columns are the same.
    """

    work: Any  # a `Work`, in memory a `ReachedPart`
    codes: Vector
    labels_held: Vector
    n_classes: int
    solving: Solving
    seed: int = 0
    prior: Prior | None = None

    @classmethod
    def of(cls, work: Any, labels: LabelSet, classes: Ints, solving: Solving, seed: int) -> Self:
        """The problem of labels of a graph's nodes, in the working order of their home."""
        space, root = work.laplacian.space, work.laplacian.root_degree
        known = labels.nodes >= 0
        codes = np.where(known, np.searchsorted(classes, labels.nodes), -1).astype(np.int32)
        counts = known * 1.0 if labels.counts is None else np.where(known, labels.counts, 0.0)
        prior = None
        if labels.prior is not None:
            belief = work.to_working_order(np.where(known, 0.0, labels.prior.belief))
            values = work.to_working_order(labels.prior.values)
            prior = Prior(values, space.rowwise(where, belief, root))
        codes = space.rowwise(
            lambda c, r: np.where(r > 0, c, -1), work.to_working_order(codes), root
        )
        held = space.rowwise(where, work.to_working_order(counts), root)
        return cls(work, codes, held, classes.size, solving, seed, prior)

    @property
    def recorder(self) -> Recorder:
        """The recorder of the fit."""
        return self.work.recorder

    @property
    def laplacian(self) -> Laplacian:
        """L̄."""
        return self.work.laplacian

    @property
    def space(self) -> Space:
        """Where blocks live."""
        return self.laplacian.space

    @cached_property
    def copies(self) -> Vector:
        """Copies that every node stands for, the diagonal of C, (n,); 1 without an edge."""
        weights = self.space.weights
        if weights is None:
            return self.space.rowwise(np.ones_like, self.laplacian.root_degree)
        return self.space.rowwise(lambda c: np.where(c > 0, c, 1.0), weights)

    @cached_property
    def Y(self) -> Block:
        """One-hot labels (n, K), zero rows where none is known."""
        classes = np.arange(self.n_classes)
        return self.space.rowwise(lambda code: (code[:, None] == classes) * 1.0, self.codes)

    @cached_property
    def labelled(self) -> Vector:
        """Which nodes have a label, (n,): the diagonal of AB09's I_k."""
        return self.space.rowwise(lambda code: code >= 0, self.codes)

    @cached_property
    def without_label(self) -> Vector:
        """How many copies of reached nodes have no label, (n,)."""

        def rows(inside: Array, copies: Array, held: Array) -> Array:
            return np.where(inside, np.maximum(copies - held, 0.0), 0.0)

        return self.space.rowwise(rows, self.inside, self.copies, self.labels_held)

    def share_labelled(self, factor: float = 1.0) -> Vector:
        """Share of a node's copies that have its label, (n,), times a factor."""
        return self.space.rowwise(lambda h, c: factor * h / c, self.labels_held, self.copies)

    # --- sums over nodes

    def by_parts(self, X: Block) -> Small:
        """Sums over components of rows of nodes with an edge, (c, b)."""
        null = self.laplacian.null
        return self.space.sums(GroupSums(X, null.component, null.n_components))[0]

    @cached_property
    def labels_in_parts(self) -> Small:
        """Labels of every class in every component, (c, K)."""
        return self.by_parts(self.space.scaled(self.Y, self.labels_held))

    @cached_property
    def possible(self) -> NDArray[np.bool_]:
        """Classes that have a label or belief in every component, (c, K)."""
        known: NDArray[np.bool_] = np.greater(self.labels_in_parts, 0)
        if self.prior is None:
            return known
        return known | (self.by_parts(self.space.scaled(self.prior.values, self.prior.belief)) > 0)

    @cached_property
    def inside(self) -> Vector:
        """Which nodes are reached by a label, (n,)."""
        reached = np.asarray(self.possible.any(axis=1))
        how = self.laplacian.null.component, self.laplacian.root_degree
        return self.space.rowwise(lambda part, root: reached[part] & (root > 0), *how)

    @cached_property
    def counts(self) -> Vector:
        """Copies that reached nodes stand for, (n,); 0 of others."""
        return self.space.rowwise(where, self.copies, self.inside)

    @cached_property
    def _sizes(self) -> Small:
        """Nodes and copies of every component, (c, 2)."""

        def rows(copies: Array, root: Array) -> Array:
            return np.column_stack([root > 0, np.where(root > 0, copies, 0.0)]).astype(np.float64)

        return self.by_parts(self.space.rowwise(rows, self.copies, self.laplacian.root_degree))

    @property
    def size(self) -> int:
        """Number of nodes that are reached."""
        return round(float(self._sizes[self.possible.any(axis=1), 0].sum()))

    @property
    def n_copies(self) -> float:
        """Copies that these stand for."""
        return float(self._sizes[self.possible.any(axis=1), 1].sum())

    @property
    def class_counts(self) -> Small:
        """Labels of every class, (K,)."""
        return self.labels_in_parts.sum(axis=0)

    # --- steps of methods

    def to_embedding(self, X: Block) -> Block:
        """D^-½X."""
        return self.space.rowwise(over, X, self.laplacian.root_degree)

    def mean_over_parts(self, X: Block) -> Block:
        """Sums of X (n, b) over every node's component, divided by its number of copies."""
        mean = self.by_parts(X) / np.maximum(self._sizes[:, 1:], 1e-300)
        means = self.space.spread(mean, self.laplacian.null.component)
        return self.space.rowwise(where, means, self.inside)

    def centred(self, F: Block) -> Block:
        """F less its mean over the copies of every component."""
        less = self.mean_over_parts(self.space.weighted(F))
        self.space.blend(less, -1.0, (F, 1.0))
        return self.space.rowwise(where, less, self.inside)

    def minimise(
        self,
        Y: Block | None = None,
        *,
        normalized: bool = False,
        factor: float = 1.0,
        clamped: Vector | None = None,
        weight: Vector | None = None,
        balance: Vector | None = None,
        scale: Vector | None = None,
    ) -> tuple[Block, Convergence]:
        """Minimiser F (n, K) of the problem above for targets Y (n, K), by default the labels.

        M is γ(D − W), or γL̄ if `normalized`, γ the `factor`. Stationarity on the free nodes is
        (M + diag(w))f = wy + μΔ − M_fc y_c, with μ such that f ⟂ Δ (AB09 eq. 11, 38, 40; the
        right-hand side Δ is one more column of the same block solve). `clamped`, w = `weight` and
        Δ = `balance` are nothing by default. With a `scale` s the problem is one of sf in place of
        f, and of sy in place of y; the prior is one of f, which is returned. Cost: about 15
        multigrid cycles, or some hundred products where the weights are large everywhere.
        """
        space, root, gamma, power = self.space, self.laplacian.root_degree, factor, int(normalized)
        Y = self.Y if Y is None else Y
        Y, weight = self.believed(Y if scale is None else space.scaled(Y, scale), weight, scale)
        self.recorder.budget.ask(
            2 * Y.nbytes if isinstance(Y, np.ndarray) else 0,
            f"equations for {Y.shape[1]} classes on {self.size} nodes",
        )
        free = self.inside
        if clamped is not None:
            free = space.rowwise(lambda inside, held: inside & ~held, free, clamped)

        def ground(w: Array, root: Array) -> Array:
            return np.asarray(w / gamma * root ** (2 * power))

        def scaling(root: Array, total: Array) -> Array:
            unit = np.sqrt(gamma) * total
            return np.divide(root**power, unit, out=np.zeros_like(root), where=total > 0)

        A = self.work.grounded(space.rowwise(ground, weight, root), free)
        E = space.rowwise(scaling, root, A.root_degree)
        B = space.scaled(Y, weight)
        if clamped is not None:
            self._pull(B, Y, clamped, -gamma, normalized=normalized)
        B = space.scaled(B, E)
        if balance is not None:
            delta = space.column(space.rowwise(where, balance, free))
            B = space.stack([B, space.scaled(delta, E)])
        share = space.rowwise(lambda w, E, free: np.where(free, w * E**2, 0.0), weight, E, free)
        F, convergence = self._solved(A, B, share, free)
        del B
        F = space.scaled(F, E)
        if balance is not None:
            response = space.columns(F, slice(self.n_classes, None))
            F = space.columns(F, slice(0, self.n_classes))
            excess, across = space.gram(delta, F), space.gram(delta, response)
            space.subtract(F, response, excess / np.maximum(across, 1e-300))
        if clamped is not None:
            space.blend(F, 1.0, (space.rowwise(where, Y, clamped), 1.0))
        return F if scale is None else space.rowwise(over, F, scale), convergence

    def _pull(self, B: Block, Y: Block, clamped: Vector, by: float, *, normalized: bool) -> None:
        """In place B += by·M times Y on the clamped nodes, some columns at a time."""
        space, root, width = self.space, self.laplacian.root_degree, Y.shape[1]
        for first in range(0, width, self.solving.together):
            at = np.arange(first, min(first + self.solving.together, width))
            V = space.rowwise(where, Y if at.size == width else space.columns(Y, at), clamped)
            if not normalized:
                V = space.scaled(V, root)
            V = self.laplacian.apply(V)
            space.blend(B, 1.0, (V if normalized else space.scaled(V, root), by), columns=at)

    def believed(
        self, Y: Block, weight: Vector | None = None, scale: Vector | None = None
    ) -> tuple[Block, Vector]:
        """Targets and weights that include the prior, see `Prior.joined`."""
        space, ones = self.space, self.copies
        w = space.rowwise(np.zeros_like, ones) if weight is None else weight
        if self.prior is None:
            return Y, w
        if scale is None:
            s = space.rowwise(np.ones_like, ones)
        else:
            s = space.rowwise(lambda s: np.where(s > 0, s, 1.0), scale)  # isolated nodes have none
        values, belief = self.prior.values, self.prior.belief

        def targets(Y: Array, w: Array, s: Array, values: Array, belief: Array) -> Array:
            return Prior(values, belief).joined(Y, w, s)[0]

        total = space.rowwise(lambda w, s, u: w + u / s**2, w, s, belief)
        return space.rowwise(targets, Y, w, s, values, belief), total

    def potential(self, B: Block) -> tuple[Block, Convergence]:
        """L̄⁺B of charges B (n, b)."""
        if isinstance(self.work, ReachedPart):
            return self.work.potential(B, self)
        L, cycle = self.work.with_cycle(self.laplacian)
        return self._by_gradients(L, cycle, B, null=True)

    def _solved(self, A: Any, B: Block, share: Vector, free: Vector) -> tuple[Block, Convergence]:
        """A⁻¹B of a grounded Laplacian on the `free` nodes; `share` (n,) of its diagonal is w."""
        if isinstance(self.work, ReachedPart):
            return self.work.solved(A, B, share, self)
        space = self.space
        short = space.rowwise(lambda share, free: np.where(free, 1.0 - share, 0.0), share, free)
        easy = 1.0 - float(space.peaks(space.column(short))[0]) >= _JACOBI
        A, cycle = (A, None) if easy else self.work.with_cycle(A)
        return self._by_gradients(A, cycle, B)

    def _by_gradients(
        self, A: Any, cycle: Preconditioner | None, B: Block, *, null: bool = False
    ) -> tuple[Block, Convergence]:
        """A⁻¹B by conjugate gradients; off the null space of L̄, if there is one."""
        tol = self.solving.tolerance(self.size)
        with self.recorder.stage("propagating") as advance:
            return block_cg(
                A.apply,
                B,
                tol=tol,
                max_iter=self.solving.max_iter,
                precondition=cycle,
                project=self.laplacian.null.project if null else None,
                on_step=lambda worst: advance(done(worst, tol)),
                space=self.space,
                deadline=self.solving.deadline,
            )


# --- in memory


@dataclass(frozen=True, eq=False)
class ReachedPart(MemoryWork):
    """In memory: the components of a graph that labels and beliefs reach, as a home of their own.

    `points` (m, d) are those of their nodes, None without points.
    """

    part: NormalizedLaplacian = field(kw_only=True)
    points: NDArray[np.floating] | None = None

    @classmethod
    def of(
        cls, view: Workspace, labels: LabelSet, points: NDArray[np.floating] | None = None
    ) -> Self:
        """The part of a graph that labels and beliefs reach; `points` (n, d) of all rows."""
        known = labels.nodes >= 0
        if labels.prior is not None:
            known = known | (labels.prior.belief > 0)
        whole = laplacian_of(view)
        part = whole.reached_from(whole.to_working_order(known))
        rows = None if points is None else points[view.graph.first_rows[part.nodes]]
        return cls(view, part=part, points=rows)

    @property
    def laplacian(self) -> NormalizedLaplacian:
        """L̄ of the part."""
        return self.part

    @property
    def is_whole(self) -> bool:
        """Whether these are all nodes with an edge."""
        return self.part is laplacian_of(self.view)

    def solved(
        self, A: NormalizedLaplacian, B: Floats, share: Floats, problem: PropagationProblem
    ) -> tuple[Floats, Convergence]:
        """A⁻¹B by LAPACK or conjugate gradients; `share` (m,) of the diagonal was added.

        The preconditioner is multigrid; smooth vectors of the graph, where the shares hardly differ
        and clear clusters make it pay; or none, where the shares are large.
        """
        if problem.solving.is_dense(problem.size):
            with self.recorder.stage("propagating"):
                found = direct(A.apply, B, problem.solving.tolerance(problem.size), _ILL)
            if found is not None:
                return found
        free = A.root_degree > 0
        inverse: Preconditioner | None = self._deflated(A, share[free], problem.seed)
        if inverse is None and share[free].min(initial=1.0) < _JACOBI:
            A, inverse = self.with_cycle(A)
        return self._by_gradients(A, B, inverse, problem)

    def _deflated(
        self, A: NormalizedLaplacian, added: Floats, seed: int
    ) -> DeflatedPolynomial | None:
        """The inverse with smooth vectors of L̄, where it pays.

        They are not those of the system where the shares `added` (f,) differ between nodes, and
        systems with large shares are easy.
        """
        if not (self.is_whole and added.size) or added.max() > _NEAR or np.ptp(added) > _EVEN:
            return None
        known = smooth_vectors(self.view, seed)
        if known is None:
            return None
        smooth, low = known
        ratio = (A.root_degree / self.laplacian.root_degree)[:, None]
        try:  # a ground makes no eigenvalue below 1 smaller
            return DeflatedPolynomial(A, smooth.vectors * ratio, low)
        except NumericalError:
            return None

    def potential(self, B: Floats, problem: PropagationProblem) -> tuple[Floats, Convergence]:
        """L̄⁺B by LAPACK, or by conjugate gradients with a preconditioner that the graph keeps."""
        laplacian, solving, seed = self.laplacian, problem.solving, problem.seed
        if solving.is_dense(problem.size):
            with self.recorder.stage("propagating"):
                X = dense_inverse(laplacian)(B)
            tol = solving.tolerance(problem.size)
            return X, Convergence("LAPACK", "direct", 0, np.zeros(B.shape[1]), tol)
        if self.is_whole:
            inverse = cached_inverse(self.view, seed)
        else:
            inverse = usual_preconditioner(laplacian)
        return self._by_gradients(laplacian, B, inverse, problem, laplacian.null.project)

    def _by_gradients(
        self,
        operator: NormalizedLaplacian,
        B: Floats,
        inverse: Preconditioner | None,
        problem: PropagationProblem,
        project: Map | None = None,
    ) -> tuple[Floats, Convergence]:
        """Conjugate gradients in memory, some columns at a time; see `solve_laplacian`."""
        solving, tol = problem.solving, problem.solving.tolerance(problem.size)
        with self.recorder.stage("propagating") as advance:
            how: Any = {
                "max_iter": solving.max_iter,
                "project": project,
                "advance": advance,
                "deadline": solving.deadline,
                "budget": self.recorder.budget,
                "together": solving.together,
            }
            if isinstance(inverse, DeflatedPolynomial):
                tol = inverse.tolerance(tol) if solving.tol is None else tol
                return solve_deflated(inverse, B, tol=tol, **how)
            return solve_laplacian(operator, B, tol=tol, precondition=inverse, **how)


def direct(A: Map, B: Floats, tol: float, ill: float) -> tuple[Floats, Convergence] | None:
    """A⁻¹B by LAPACK; None where A is too near a singular matrix for that."""
    if B.shape[0] == 0:
        return B, Convergence("LAPACK", "direct", 0, np.zeros(B.shape[1]), tol)
    whole = A(np.eye(B.shape[0]))
    with suppress(NumericalError):
        factored = dense_algebra.Definite(whole)
        if factored.rcond >= ill:
            X = factored.solve(B)
            size = np.maximum(np.linalg.norm(B, axis=0), 1e-300)
            residuals = np.linalg.norm(B - whole @ X, axis=0) / size
            worst = max(tol, float(residuals.max()))  # a direct solver misses no tolerance
            return X, Convergence("LAPACK", "direct", 0, residuals, worst)
    return None


# --- functions of rows


def over(X: Array, root: Array) -> Array:
    """Rows of X (m, b) divided by `root` (m,), 0 where that is 0."""
    by = root[:, None]
    return np.divide(X, by, out=np.zeros(X.shape), where=by > 0)


def where(X: Array, mask: Array) -> Array:
    """Rows where `mask` (n,) is above 0, others 0."""
    return np.where((mask if X.ndim == 1 else mask[:, None]) > 0, X, 0.0)
