"""The feasible vectors of WD14: its pencil, exact or in the smooth subspace, as a family over β."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.arpack import shift_invert_pencil
from mustlink.eigen.lapack import dense_pencil
from mustlink.eigen.pencil import Pencil, PencilSolution
from mustlink.eigen.pencil_lobpcg import leading_pencil
from mustlink.eigen.smooth_subspace import ReducedPencil, SmoothBasis, smooth_basis
from mustlink.eigen.solver import grids_of, is_small, laplacian_of, smallest_pairs
from mustlink.errors import InfeasibleError, InputError
from mustlink.graph import Graph
from mustlink.kernels.blocks import combine
from mustlink.operators.constraint_operator import ConstraintOperator
from mustlink.operators.laplacian import Block
from mustlink.result import Convergence
from mustlink.selection.family import Embedded, Family, Reduced, Solving
from mustlink.workspace import Workspace

_TIE = 1e-6
_NEARLY = 0.99
_MANY = 60  # feasible pairs up to which all of them are computed

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FeasibleFamily(Family):
    """L̄v = λ(Q̄ − βI)v for all β; β is given as a fraction of λ_rank(Q̄), the rank K − 1 as a rule.

    K − 1 vectors with ‖v‖² = vol, in order of cost. `tight` puts β between λ_rank and the next one,
    of Q̄ or of its projection, whatever the value; β that `yields` is made smaller where it leaves
    nothing feasible.
    """

    Q: ConstraintOperator = field(kw_only=True)
    rank: int = field(kw_only=True)
    tight: bool = field(default=False, kw_only=True)
    yields: bool = field(default=False, kw_only=True)

    @property
    def acts(self) -> bool:
        """Whether Q̄ has an entry."""
        return not self.Q.is_zero

    @property
    def neutral(self) -> float:
        """A β so negative that all of Q̄ drowns in it."""
        return -10.0

    @property
    def unit(self) -> float:
        """λ_rank(Q̄), or λ_max where that is not positive."""
        kth, largest = self.Q.kth_largest(self.rank), self.Q.kth_largest(1)
        return kth if kth > 0 else largest

    def check(self, beta: float) -> None:
        """Raise InfeasibleError for a fraction that leaves too few vectors."""
        check_beta(beta, self.Q.kth_largest(self.rank), self.Q.kth_largest(1), self.k)

    def reduce(self, basis: SmoothBasis) -> ReducedFeasible:
        """UᵀQ̄U once, for all p and β."""
        return ReducedFeasible(self, ReducedPencil(basis, self.Q))

    def exact(
        self, value: float, solving: Solving, work: Workspace, start: Block | None = None
    ) -> Embedded:
        """The paper's full problem; all feasible pairs where there are few or the graph is small.

        With thousands of feasible pairs (small or negative β) the leading ones by 1/λ are computed,
        the cheapest chosen among them, and the note says so.
        """
        if not self.acts:
            return _unconstrained(self.graph, self.k, solving, work)
        return self.yielded(lambda beta: self._exact(beta, solving, work, start), value)

    def yielded(self, solve: Callable[[float], Embedded], value: float) -> Embedded:
        """The solution for β; where β may give way, for the first smaller one that has any."""
        others = (0.1 * value, -0.1, -1.0, -10.0) if self.yields else ()
        for beta in (value, *others):
            try:
                found = solve(beta)
            except InfeasibleError:
                if beta == (value, *others)[-1]:
                    raise
                continue
            if beta != value:
                note = f"beta {value:g} leaves no feasible vector: {beta:g} was taken"
                found = replace(found, note="; ".join(t for t in (note, found.note) if t))
            return found
        raise AssertionError

    def _exact(
        self, value: float, solving: Solving, work: Workspace, start: Block | None
    ) -> Embedded:
        if solving.solver == "lanczos":
            raise InputError('solver: "lanczos" has no form for the pencil; use "shift-invert"')
        laplacian = laplacian_of(work)
        unit = self.unit
        if self.tight:
            kth, following = (self.Q.kth_largest(self.rank + i) for i in (0, 1))
            value = tight_fraction(kth, following, unit)
        if self.free and self.Q.kth_largest(self.rank) <= 0:
            value = -abs(value)
        self.check(value)
        pencil = Pencil(laplacian, self.Q, value * unit)
        small = is_small(laplacian)
        if solving.solver == "dense" or (solving.solver == "auto" and small):
            with work.recorder.stage("pencil"):
                solution = dense_pencil(pencil)
                residuals = pencil.residuals(solution.vectors, solution.lam)
            convergence = Convergence("dense", "direct", 0, residuals, 1e-8)
        else:
            solution, convergence = _iterative(pencil, self.graph, self.k, work, solving, start)
        _require(solution.lam.size, value)
        wanted = self.k - 1
        chosen = np.argsort(solution.cost, kind="stable")[:wanted]
        best = solution.cheapest(wanted)
        notes = [_fewer(best.lam.size, self.k)]
        if not solution.complete:
            notes.append(
                f"more feasible vectors than can be computed: the {wanted} cheapest of the leading "
                f"{solution.lam.size} were taken"
            )
        measured = replace(convergence, residuals=convergence.residuals[chosen])
        note = "; ".join(text for text in notes if text)
        return Embedded(best.vectors, best.lam, best.cost, value, unit, None, measured, note)


@dataclass(frozen=True, eq=False)
class ReducedFeasible(Reduced):
    """The pencil in span{z, V_p}; β is a fraction of λ_rank(Q̄) inside it. Cost O(p³ + mpK)."""

    family: FeasibleFamily
    pencil: ReducedPencil

    def solve(self, p: int, value: float) -> tuple[Block, Floats]:
        """Up to K − 1 vectors; negative β where the unit is no bound."""
        spectrum = self.pencil.spectrum(p)
        unit = self._unit(spectrum)
        value = self._tight(spectrum, value)
        if unit > spectrum[0]:
            value = -abs(value)
        _, C, cost = self.pencil.solve(p, admissible(value, unit) * unit)
        return C[:, : self.family.k - 1], cost[: self.family.k - 1]

    def embed(self, p: int, value: float) -> Embedded:
        """V (m, r) in the nodes."""
        return self.family.yielded(lambda beta: self._embed(p, beta), value)

    def _embed(self, p: int, value: float) -> Embedded:
        family, basis, k = self.family, self.pencil.basis, self.family.k
        p = min(p, basis.p)
        spectrum = self.pencil.spectrum(p)
        free, beta = family.free, self._tight(spectrum, value)
        unit = self._unit(spectrum)
        kth = float(spectrum[min(family.rank - 1, spectrum.size - 1)])
        if kth <= 1e-12 * abs(unit):
            kth = min(kth, 0.0)
            beta = -abs(beta) if free else beta
        check_beta(beta, kth, float(spectrum[0]), k)
        lam, C, cost = self.pencil.solve(p, beta * unit)
        if free and lam.size == 0 and beta > 0:  # the trivial vector took all that was feasible
            beta = -beta
            lam, C, cost = self.pencil.solve(p, beta * unit)
        _require(lam.size, beta)
        count = min(k - 1, lam.size)
        vectors = combine(basis.vectors[:, : p + 1], np.ascontiguousarray(C[:, :count]))
        sharp = float(basis.residuals.max(initial=0))
        convergence = Convergence("smooth subspace", "direct", 0, basis.residuals[:p], sharp)
        return Embedded(
            vectors, lam[:count], cost[:count], beta, unit, p, convergence, _fewer(count, k)
        )

    def _unit(self, spectrum: Floats) -> float:
        """What β is a fraction of; of Q̄ itself where Q̄ vanishes in the subspace and β may yield."""
        unit = fraction_unit(spectrum, self.family.rank)
        # Compared with an entry first: Q̄'s own spectrum may take minutes.
        if self.family.yields and abs(unit) <= 1e-12 * self.family.Q.largest_entry:
            return abs(self.family.unit)
        return unit

    def _tight(self, spectrum: Floats, value: float) -> float:
        rank = self.family.rank
        if not self.family.tight or spectrum.size <= rank:
            return value
        kth, following = float(spectrum[rank - 1]), float(spectrum[rank])
        return tight_fraction(kth, following, fraction_unit(spectrum, rank))


def tight_fraction(kth: float, following: float, unit: float) -> float:
    """β between two eigenvalues as a fraction of the unit: 0.99, or halfway if the next is nearer.

    Just below the larger if they tie.
    """
    if unit <= 0:
        return 0.5
    halfway = (kth + following) / 2.0 / unit
    return min(max(halfway, _NEARLY), 1.0 - _TIE) if kth > 0 else min(halfway, -_TIE)


def fraction_unit(descending: Floats, rank: int) -> float:
    """What a fraction β is a fraction of: λ_rank(Q̄), or λ_max where that is not positive.

    `descending` are eigenvalues of Q̄.
    """
    if descending.size == 0:
        return 0.0
    kth = float(descending[min(rank - 1, descending.size - 1)])
    return kth if kth > 1e-12 * abs(float(descending[0])) else float(descending[0])


def admissible(beta: float, unit: float) -> float:
    """Fraction to try where the caller left β open: negative where the unit is no bound."""
    return beta if unit > 0 else -abs(beta)


def check_beta(beta: float, kth: float, largest: float, k: int) -> None:
    """Raise InfeasibleError unless β = beta·unit < λ_{K−1}(Q̄) (WD14 Alg. 1 and 2, line 4)."""
    if kth > 0 and beta >= 1:
        raise InfeasibleError(
            f"beta: {beta:g} leaves no feasible vector; give a fraction below 1 of "
            f"λ_{k - 1}(Q̄) = {kth:.4g}, for example 0.5, or a negative one"
        )
    if kth <= 0 and beta >= 0:
        raise InfeasibleError(
            f"beta: {beta:g} leaves fewer than {k - 1} feasible vectors, λ_{k - 1}(Q̄) being "
            f"{kth:.4g}; give a negative fraction (of λ_max(Q̄) = {largest:.4g}), or constraints "
            "on more clusters"
        )


def pencil_tolerance(n: int) -> float:
    """Residual ‖L̄v − λBv‖/‖L̄v‖ asked for when the caller names none: 1e-8, 1e-3 from 20,000 on."""
    return 1e-8 if n <= 20_000 else 1e-3


def _iterative(
    pencil: Pencil,
    graph: Graph,
    k: int,
    work: Workspace,
    solving: Solving,
    start: Block | None,
) -> tuple[PencilSolution, Convergence]:
    """Leading pairs by LOBPCG or ARPACK."""
    grids = grids_of(work)
    room = pencil.laplacian.size - pencil.laplacian.null.n_components - 1
    feasible = pencil.n_feasible()
    few = feasible is not None and feasible <= max(_MANY, 4 * k)
    wanted = min(max(feasible, 1) if few and feasible is not None else 3 * k + 10, room)
    sharp = pencil_tolerance(pencil.laplacian.size) if solving.tol is None else solving.tol
    steps, seed = solving.max_iter, solving.seed
    with work.recorder.stage("pencil"):
        if solving.solver == "shift-invert":
            return shift_invert_pencil(
                pencil, grids, wanted, tol=sharp, max_iter=10 * steps, seed=seed
            )
        return leading_pencil(
            pencil, grids, wanted, tol=sharp, max_iter=steps, seed=seed, start=start
        )


def _require(found: int, beta: float) -> None:
    if found == 0:
        raise InfeasibleError(
            f"beta: {beta:g} leaves no feasible vector with λ > 0; give a smaller fraction, for "
            f"example {-0.1 if beta >= 0 else 10 * beta:g}, or constraints between clusters"
        )


def _fewer(found: int, k: int) -> str:
    if found >= k - 1:
        return ""
    return f"only {found} of the {k - 1} vectors wanted are feasible; a smaller beta gives more"


def _unconstrained(graph: Graph, k: int, solving: Solving, work: Workspace) -> Embedded:
    """Q = 0: the pencil is L̄v = −λβv with β < 0, that is the K − 1 smoothest vectors beside z.

    Components come first, as vectors of cost 0.
    """
    laplacian = laplacian_of(work)
    found = smallest_pairs(work, k - 1, solver=solving.solver, tol=solving.tol, seed=solving.seed)
    had = found.convergence
    basis = smooth_basis(laplacian, found.values, found.vectors, had.residuals)
    parts = basis.p - found.values.size
    values = np.concatenate([np.zeros(parts), found.values])[: k - 1]
    V = basis.vectors[:, 1 : 1 + values.size] * np.sqrt(laplacian.volume)
    convergence = replace(had, residuals=basis.residuals[: values.size])
    return Embedded(V, values, values * laplacian.volume, 0.0, 0.0, None, convergence)
