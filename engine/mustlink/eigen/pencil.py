"""The pencil of constrained spectral clustering, L̄v = λ(Q̄ − βI)v (WD14 eq. 13).

L̄ is singular and B = Q̄ − βI indefinite. Turned round, Bv = μL̄v with μ = 1/λ, the wanted pairs
(λ > 0, small) are the largest μ > 0. With Z the null space of L̄ and v = w + Za, w ⟂ Z, the rows
ZᵀBv = 0 give a = −(ZᵀBZ)⁺ZᵀBw, and the rest is the symmetric-definite pencil

    S_B w = μ L̄ w on Z^⟂,   S_B = B − BZ(ZᵀBZ)⁺ZᵀB.

Where ZᵀBZ is singular, N its null space (β = 0 with as many must-links as cannot-links), the rows
ZᵀBv = 0 also demand w ⟂ C = BZN: the search is confined to W = {Z, C}^⟂, and the part Nt of a
follows from the rows along C.

β is dimensionless here: WD14's β divided by vol.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from mustlink.context.method_cost import n_guard_vectors
from mustlink.context.stage_cache import Workspace
from mustlink.core import dense_algebra
from mustlink.core.dense_algebra import NOISE, leading_pairs
from mustlink.core.result import Convergence
from mustlink.eigen.arpack import OutOfTimeError, as_operator, inverse, leading, random_start, until
from mustlink.eigen.lobpcg import Lobpcg, lobpcg, promising
from mustlink.eigen.memory_work import grids_of, is_small, laplacian_of, smallest_pairs
from mustlink.eigen.plain_solve import nested_start
from mustlink.eigen.smooth_subspace import (
    DENSE,
    BasisKey,
    EigenOptions,
    EigenSolution,
    FeasibleCuts,
    smooth_basis,
    stage,
)
from mustlink.linear.cg import Map
from mustlink.linear.multigrid.hierarchy import Hierarchy
from mustlink.operators.constraint_operator import ConstraintOperator
from mustlink.space import Block, Dots, Gram

_SINGULAR = 1e-10  # share of ‖B‖ below which an eigenvalue of ZᵀBZ, or BZN, is zero
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pencil:
    """L̄ and Q̄ with one β, on the nodes in working order or inside a smooth basis."""

    laplacian: Any
    Q: ConstraintOperator
    beta: float

    @cached_property
    def touched(self) -> NDArray[np.int64]:
        """Components with a constrained node: in the others Z is B-orthogonal to Z^⟂."""
        return np.unique(self._rows.indices).astype(np.int64)

    @cached_property
    def _rows(self) -> sp.csr_matrix:
        """Z on the support, (s, c)."""
        return self.laplacian.null.rows(self.Q.support)

    @cached_property
    def _QZ(self) -> Block:
        """Q̄Z on the support, (s, c')."""
        return self.Q.inner(self._rows[:, self.touched].toarray())

    @cached_property
    def _null_gram(self) -> Block:
        """ZᵀBZ over the touched components, (c', c')."""
        G = self._rows[:, self.touched].T @ self._QZ - self.beta * np.eye(self.touched.size)
        return np.asarray((G + G.T) / 2, dtype=np.float64)

    @cached_property
    def _null_parts(self) -> tuple[Block, Block]:
        """(ZᵀBZ)⁺ and N, orthonormal, its null space, (c', t)."""
        g, N = dense_algebra.eigh(self._null_gram)
        zero = np.abs(g) <= _SINGULAR * self.norm
        return (N[:, ~zero] / g[~zero]) @ N[:, ~zero].T, N[:, zero]

    @cached_property
    def _coupled(self) -> tuple[Block, Block]:
        """N rotated and cut to columns with BZN ≠ 0, and that C = BZN on Z^⟂, (m, t): CᵀC diagonal.

        Nearly always t = 0; else nodes have to be in memory.
        """
        N, space = self._null_parts[1], self.laplacian.space
        C = space.zeros(N.shape[1])
        if N.shape[1]:
            space.add_rows(C, self.Q.support, self._QZ @ N)
            C = self.laplacian.null.project(C)
            _, s, Vt = dense_algebra.svd(C)
            turn = Vt[s > _SINGULAR * self.norm].T
            N, C = N @ turn, C @ turn
        return N, C

    @cached_property
    def held(self) -> Block:
        """H: orthonormal basis of C's columns, (m, t)."""
        C = self._coupled[1]
        H = self.laplacian.space.copy(C)
        self.laplacian.space.blend(H, 1.0 / self.laplacian.space.norms(C))
        return H

    def project(self, X: Block) -> Block:
        """The part of a block in the space searched, {Z, C}^⟂."""
        X = self.laplacian.null.project(X)
        H = self.held
        if H.shape[1]:
            self.laplacian.space.subtract(X, H, self.laplacian.space.gram(H, X))
        return X

    def metric(self, W: Block) -> Block:
        """L̄W inside the space searched."""
        LW = self.laplacian.apply(W)
        return self.project(LW) if self.held.shape[1] else LW

    def null_part(self, W: Block) -> Block:
        """Coefficients a (c', b) that complete w to v = w + Za, but for the part in N."""
        return -self._null_parts[0] @ (self._QZ.T @ self.laplacian.space.take(W, self.Q.support))

    def schur(self, W: Block) -> Block:
        """S_B W for W in the space searched, projected on it."""
        return self.project(self._eliminated(W))

    def _eliminated(self, W: Block) -> Block:
        """S_B W, not projected."""
        Y = self.Q.apply(W, shift=-self.beta)
        self.laplacian.space.add_rows(Y, self.Q.support, self._QZ @ self.null_part(W))
        return Y

    def complete(self, W: Block, mu: NDArray[np.float64]) -> Block:
        """V = w + Za for every eigenpair (μ, w)."""
        space, a = self.laplacian.space, self.null_part(W)
        N, C = self._coupled
        if C.shape[1]:  # the rows along C: S_B w + Ct = μL̄w
            rest = self._eliminated(W)
            space.blend(rest, -1.0, (self.laplacian.apply(W), mu))
            across, squares = space.sums(Gram(C, rest), Dots(C, C))
            a = a + N @ (across / squares[:, None])
        null = self.laplacian.null
        whole = np.zeros((null.n_components, W.shape[1]))
        whole[self.touched] = a
        V = null.expand(whole, W.dtype)
        space.blend(V, 1.0, (W, 1.0))
        return V

    def n_feasible(self) -> int | None:
        """Number of pairs with λ > 0, by inertia: In(S_B) = In(B) − In(ZᵀBZ); None if unknown.

        Every column of C makes with its null direction one positive and one negative pair of B.
        """
        above = self.Q.count_above(self.beta)
        if above is None:
            return None
        taken = int((dense_algebra.eigvalsh(self._null_gram) > _SINGULAR * self.norm).sum())
        if self.beta < 0:
            taken += self.laplacian.null.n_components - self.touched.size
        return above - taken - self.held.shape[1]

    def residuals(self, V: Block, lam: NDArray[np.float64]) -> NDArray[np.float64]:
        """‖L̄v − λ(Q̄ − βI)v‖ / ‖L̄v‖: independent of how v was found."""
        LV = self.laplacian.apply(V)
        R = self.Q.apply(V, shift=-self.beta)
        self.laplacian.space.blend(R, -lam, (LV, 1.0))
        gap, size = self.laplacian.space.norms(R, LV)
        return np.asarray(gap / np.maximum(size, 1e-300))

    @cached_property
    def norm(self) -> float:
        """An upper estimate of ‖B‖."""
        values = self.Q.eigenvalues
        return float(np.abs(values).max(initial=0.0) + abs(self.beta))


@dataclass(frozen=True, eq=False)
class PencilSolution:
    """Feasible pairs of a pencil: λ > 0 (r,), v (m, r) with ‖v‖² = vol, cost vᵀL̄v (r,).

    `complete` says whether all feasible pairs are here, or the leading ones only.
    """

    lam: NDArray[np.float64]
    vectors: Block
    cost: NDArray[np.float64]
    complete: bool

    def cheapest(self, count: int) -> PencilSolution:
        """The `count` pairs of least cost, in order of cost (WD14 Alg. 1 line 10, Alg. 2)."""
        chosen = np.argsort(self.cost, kind="stable")[:count]
        return PencilSolution(
            self.lam[chosen], self.vectors[:, chosen], self.cost[chosen], self.complete
        )

    def remark(self, wanted: int) -> str:
        """What a person should know where the `wanted` cheapest are not of all pairs."""
        if self.complete:
            return ""
        return (
            f"more feasible vectors than can be computed: the {wanted} cheapest of the leading "
            f"{self.lam.size} were taken"
        )


def finish(pencil: Pencil, mu: NDArray[np.float64], W: Block, complete: bool) -> PencilSolution:
    """Turn pairs (μ, w) into feasible (λ, v): keep μ > 0, add the null part, scale to vol."""
    positive = mu > NOISE * mu.max(initial=0.0)
    laplacian, space = pencil.laplacian, pencil.laplacian.space
    mu, W = mu[positive], space.columns(W, positive)
    V = pencil.complete(W, mu)
    space.blend(V, space.signs(V) * np.sqrt(laplacian.volume) / space.norms(V))
    cost = space.dots(V, laplacian.apply(V))
    # α = vᵀQ̄v/vol exceeds β (WD14 Lemma 1) by μ·cost/vol. Where all μ are zero, rounding makes some
    # of them positive.
    real = mu * cost > _SINGULAR * 1e-2 * pencil.norm * laplacian.volume
    if not real.all():
        mu, V, cost = mu[real], space.columns(V, real), cost[real]
    return PencilSolution(1.0 / mu, V, cost, complete)


def dense_pencil(pencil: Pencil) -> PencilSolution:
    """All feasible pairs of the pencil by LAPACK. Cost O(m³), three m by m matrices."""
    inside = pencil.project(np.eye(pencil.laplacian.size))
    S = pencil.schur(inside)
    # The identity on the rest makes the metric definite; S is zero there.
    metric = pencil.metric(inside) + np.eye(len(inside)) - inside
    mu, W = leading_pairs(S, metric)
    # Beside Q̄ of 10¹² the zeros of what is not searched may come out as 10⁻¹⁰: inertia knows.
    count = pencil.n_feasible()
    mu, W = mu[:count], W[:, :count]
    return finish(pencil, mu, pencil.project(W), complete=True)


# --- The exact pencil at scale: leading pairs of S_B w = μL̄w by LOBPCG, preconditioned by
# AMG(L̄)


def leading_pencil(
    pencil: Pencil,
    grids: Hierarchy,
    k: int,
    how: EigenOptions,
    *,
    tol: float,
    start: Block | None = None,
) -> tuple[PencilSolution, Convergence]:
    """The k pairs of largest μ, the feasible ones among them finished to (λ, v).

    `start` (m, ·) are directions worth beginning with; responses of the graph to the constraints,
    L̄⁺Q̄x, are always added, smooth vectors unless `start` is as wide. Residuals are those of the
    full pencil.
    """
    laplacian, feasible = pencil.laplacian, pencil.n_feasible()
    room = laplacian.space.size - laplacian.null.n_components
    # Where all feasible pairs are wanted the next μ is not near: it is not positive.
    guards = 1 if feasible is not None and feasible <= k else n_guard_vectors(k)
    b = min(k + guards, room)
    X = _start_block(pencil, grids, b, how.seed, start)
    rule = Lobpcg(
        min(k, b),
        tol,
        how.max_iter,
        largest=True,
        norm_A=pencil.norm,
        relative=True,
        deadline=how.deadline,
    )
    result = lobpcg(
        pencil.schur,
        X,
        rule,
        M=pencil.metric,
        precondition=grids.cycle(),
        project=pencil.project,
        space=laplacian.space,
    )
    complete = feasible is not None and feasible <= result.values.size
    solution = finish(pencil, result.values, result.vectors, complete)
    residuals = pencil.residuals(solution.vectors, solution.lam)
    convergence = Convergence(
        "lobpcg", result.convergence.reason, result.convergence.iterations, residuals, tol
    )
    return solution, convergence


def _start_block(pencil: Pencil, grids: Hierarchy, b: int, seed: int, start: Block | None) -> Block:
    """The b most promising directions of the start, smooth ones, responses to Q̄ and random ones."""
    laplacian, space = pencil.laplacian, pencil.laplacian.space
    parts, noise = [] if start is None else [start], space.normals(b, seed + 1)
    rough = []
    if start is None or start.shape[1] < b:
        smooth = nested_start(laplacian, grids, b, seed)
        parts, rough = [*parts, smooth], [grids.cycle()(noise)]
        space.blend(noise, 1.0, (smooth, 1.0))
        del smooth
    parts += [grids.cycle()(laplacian.null.project(pencil.Q.apply(noise))), *rough]
    del noise, rough  # blocks as wide as all vectors: as few at a time as can be
    for i in range(len(parts)):
        parts[i] = pencil.project(parts[i])
    return promising(space, parts, pencil.schur, laplacian.apply, b, largest=True)


def shift_invert_pencil(
    pencil: Pencil, grids: Hierarchy, k: int, how: EigenOptions, *, tol: float
) -> tuple[PencilSolution, Convergence]:
    """The k leading pairs of S_B w = μL̄w by ARPACK with L̄⁺ by AMG-CG, ZᵀBZ not being singular."""
    laplacian = pencil.laplacian
    m = laplacian.size

    def within(apply: Map) -> LinearOperator:
        return as_operator(m, lambda x: pencil.project(apply(pencil.project(x[:, None]))).ravel())

    def outside(x: Floats) -> Floats:
        return x - pencil.project(x[:, None]).ravel()

    A, L = until(how.deadline, within(pencil.schur)), within(pencil.metric)
    solve = inverse(laplacian, grids, min(tol, 1e-8) * 0.1)
    # The identity outside the space searched makes the metric definite; A is zero there.
    M = as_operator(m, lambda x: L @ x + outside(x))
    Minv = as_operator(m, lambda x: solve @ x + outside(x))
    start = random_start(laplacian, how.seed)
    mu, W = leading(A, k, M=M, Minv=Minv, tol=tol, maxiter=10 * how.max_iter, v0=start)
    order = np.argsort(mu)[::-1]
    feasible = pencil.n_feasible()
    complete = feasible is not None and feasible <= k
    solution = finish(pencil, mu[order], pencil.project(W[:, order]), complete)
    residuals = pencil.residuals(solution.vectors, solution.lam)
    reason = "tolerance" if mu.size >= k else "max_iter"
    return solution, Convergence("ARPACK shift-invert", reason, 0, residuals, 10 * tol)


# --- WD14's feasible set: pairs of the pencil with λ > 0, by the solver that suits its size


_LEAST_BLOCKS = 9  # of LOBPCG for a pencil, at least: X, P, W and their products with both sides
_SMOOTH = 2  # times as many smooth vectors to begin with, where they are known
_MANY = 60  # feasible pairs up to which all of them are computed


def feasible_pairs(
    pencil: Pencil,
    k: int,
    how: EigenOptions = DENSE,
    work: Workspace | None = None,
    start: Block | None = None,
) -> tuple[PencilSolution, Convergence]:
    """Pairs with λ > 0 and ‖v‖² = vol (WD14 Alg. 1 lines 8 and 9): all, where few or m is small.

    With thousands of them (small or negative β) the leading 3K + 10 by 1/λ. Without `work`, inside
    a subspace, LAPACK it is. By iteration to ‖L̄v − λBv‖ <= tol·‖L̄v‖; a tol of None is 1e-8, 1e-3
    from 20,000 nodes on.
    """
    if (
        work is None
        or how.solver == "dense"
        or (how.solver == "auto" and is_small(pencil.laplacian))
    ):
        with stage(work, "pencil"):
            solution = dense_pencil(pencil)
            residuals = pencil.residuals(solution.vectors, solution.lam)
        return solution, Convergence("dense", "direct", 0, residuals, 1e-8)
    grids = grids_of(work)
    m = pencil.laplacian.size
    room = m - pencil.laplacian.null.n_components - 1
    feasible = pencil.n_feasible()
    few = feasible is not None and feasible <= max(_MANY, 4 * k)
    wanted = min(max(feasible, 1) if few and feasible is not None else 3 * k + 10, room)
    usual = 1e-8 if m <= 20_000 else 1e-3
    tol = usual if how.tol is None else how.tol
    width = wanted + n_guard_vectors(wanted)
    blocks = _LEAST_BLOCKS * (4 if work.single else 8) * m * width
    work.recorder.budget.ask(blocks, f"{width} vectors of the full problem on {m} nodes")
    known = max((one for _, one in work.derived.of(BasisKey)), key=lambda one: one.p, default=None)
    if start is None and known is not None:  # smooth vectors that a subspace was made of
        start = laplacian_of(work).space.columns(known.whole, slice(1, 1 + _SMOOTH * width))
    with stage(work, "pencil"):
        if how.solver == "shift-invert" and not pencil.held.shape[1]:
            with suppress(OutOfTimeError):  # LOBPCG has its start to give
                return shift_invert_pencil(pencil, grids, wanted, how, tol=tol)
        return leading_pencil(pencil, grids, wanted, how, tol=tol, start=start)


def unconstrained(k: int, how: EigenOptions, work: Workspace) -> EigenSolution:
    """Q = 0: the pencil is L̄v = −λβv with β < 0, that is the K − 1 smoothest vectors beside z.

    Components come first, as vectors of cost 0.
    """
    laplacian = laplacian_of(work)
    result = smallest_pairs(work, k - 1, solver=how.solver, tol=how.tol, seed=how.seed)
    had = result.convergence
    basis = smooth_basis(laplacian, result.values, result.vectors, had.residuals)
    parts = basis.p - result.values.size
    values = np.concatenate([np.zeros(parts), result.values])[: k - 1]
    V = basis.space.columns(basis.vectors, slice(1, 1 + values.size))
    basis.space.blend(V, np.sqrt(laplacian.volume))
    convergence = replace(had, residuals=basis.residuals[: values.size])
    return EigenSolution(V, values, values * laplacian.volume, 0.0, 0.0, convergence)


# --- Every feasible cut by what it costs and what it keeps: points of the joint numerical range
# J(L̄, Q̄) = {(vᵀL̄v, vᵀQ̄v) : ‖v‖ = 1} (WD14 §5.2, eq. 14)


_FEW = 300  # rows of L̄ up to which its own vectors are reported, too


def feasible_cuts(pencil: Pencil, result: PencilSolution, used: int) -> FeasibleCuts:
    """The feasible cuts as points of the joint numerical range.

    Those without constraints are known in a subspace and in a small graph. Cost: a product with Q̄,
    a small eigenproblem.
    """
    laplacian, volume = pencil.laplacian, pencil.laplacian.volume
    result = result.cheapest(result.lam.size)
    plain = np.zeros((0, 2))
    if laplacian.size <= _FEW:
        values, X = dense_algebra.eigh(laplacian.to_dense())
        plain = np.column_stack([values, pencil.Q.forms(X)])[laplacian.null.n_components :]
    return FeasibleCuts(
        result.cost,
        pencil.Q.forms(result.vectors),
        result.lam,
        min(used, result.lam.size),
        pencil.beta * volume,
        volume,
        result.complete,
        volume * plain,
    )
