"""Constrained spectral clustering, CSP (WD14 Algorithms 1 and 2), and WHC11's variants of it, FCSC.

min vᵀL̄v subject to vᵀQ̄v >= α, ‖v‖² = vol. WD14's two algorithms are one; for K = 2 the (K − 1)th
eigenvalue is the largest and line 11 may cut at 0.

     1  D, vol                                         `NormalizedLaplacian`, built once a graph
     2  L̄ = I − D^-½AD^-½,  Q̄ = D^-½QD^-½                `CSP._formulation`
     3  λ_{K−1}, the (K − 1)th largest eigenvalue of Q̄   `ConstrainedCut.kth`
     4  if β >= λ_{K−1}·vol: no solution                `check_beta`
     8  solve L̄v = λ(Q̄ − β/vol·I)v  (eq. 13)            `eigen.pencil.feasible_pairs`: by LAPACK in
        `dense_pencil`, by iteration in `leading_pencil`, by shift-invert
     9  keep λ > 0, ‖v‖² = vol                          the same
    10  V: the K − 1 of them with least vᵀL̄v            `PencilSolution.cheapest` (WHC11: K)
    11  k-means on the rows of D^-½V, or its sign         `selection.constrained_fit`

In a smooth subspace L̄ and Q̄ are projected, and the lines are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from mustlink.clusterers.informed_clusterer import ConstrainedSpectral
from mustlink.constraints import Constraints
from mustlink.constraints.links import balanced
from mustlink.constraints.pairs import NodeMatrix
from mustlink.context.stage_cache import Workspace
from mustlink.core.check import as_integer, check_choice, check_flag, check_number
from mustlink.core.result import Convergence
from mustlink.discretize.assign import ASSIGNMENTS
from mustlink.eigen.memory_work import is_small
from mustlink.eigen.pencil import Pencil, feasible_cuts, feasible_pairs, unconstrained
from mustlink.eigen.smooth_subspace import (
    CANCELLED,
    DENSE,
    EigenOptions,
    EigenSolution,
    Problem,
    SmoothBasis,
)
from mustlink.errors import InfeasibleError
from mustlink.operators.constraint_operator import ConstraintOperator, local_operator
from mustlink.operators.protocol import PlacedLaplacian
from mustlink.selection.constrained_fit import Formulation, KnownGraph, ParameterValues, per_root
from mustlink.space import Block

_BETAS = ParameterValues(smooth=(0.5, 0.1), exact=(0.5, 0.1, 0.01), rivals=(0.01,), neutral=-10.0)
# Pairs of most nodes of a small graph may say more than its edges: 2n pairs, three two-class sets,
# mean ARI .93 with the second rival, .64 without (Hepatitis, Ionosphere, Glass).
_PAIR_BETAS = replace(_BETAS, rivals=(0.01, 0.99))
_MOST = 0.75  # of the nodes; pairs among a few foretell each other, and nothing of the others


@dataclass(frozen=True, eq=False)
class ConstrainedCut(Problem):
    """WD14 Algorithms 1 and 2, lines 3 to 10; β is a fraction b of λ_rank(Q̄), rank = K − 1 mostly.

    `columns` vectors are wanted, K − 1 mostly.
    `open_`: β was not given and may turn negative; `yields`: it is made smaller where it leaves
    nothing; `tight`: it lies between λ_rank and the next one, whatever b is. `whole` is Q̄ on the
    nodes, where Q is a projection.
    """

    Q: ConstraintOperator
    columns: int
    rank: int
    open_: bool = False
    yields: bool = False
    tight: bool = False
    whole: ConstraintOperator | None = None

    @property
    def acts(self) -> bool:
        """Whether Q̄ has an entry."""
        return not self.Q.is_zero

    def restricted(self, basis: SmoothBasis) -> Self:
        """UᵀL̄U and UᵀQ̄U in the place of L̄ and Q̄."""
        inside = basis.laplacian_inside(tied=True)
        return replace(self, laplacian=inside, Q=basis.inside(self.Q), whole=self.Q)

    def solve(
        self,
        value: float,
        how: EigenOptions,
        work: Workspace | None = None,
        start: Block | None = None,
    ) -> EigenSolution:
        """V for b, or for the first smaller one that leaves any where it `yields`."""
        if work is not None and not self.acts:
            return unconstrained(self.columns + 1, how, work)
        smaller = (0.1 * value, -0.1, -1.0, -10.0) if self.yields else ()
        for b in (value, *smaller):
            try:
                found = self._solve(b, how, work, start)
            except InfeasibleError:
                if b == (value, *smaller)[-1]:
                    raise
                continue
            if b != value:
                note = f"beta {value:g} leaves no feasible vector: {b:g} was taken"
                found = replace(found, note="; ".join(t for t in (note, found.note) if t))
            return found
        raise AssertionError

    def _solve(
        self, b: float, how: EigenOptions, work: Workspace | None, start: Block | None
    ) -> EigenSolution:
        # 3: what β is a fraction of
        unit, kth, largest = self.unit, self.kth(self.rank), self.kth(1)
        b = self._tightened(b)
        if self.open_ and kth <= 0:
            b = -abs(b)
        # 4
        check_beta(b, kth, largest, self.rank)
        # 8, 9
        pencil = self._pencil(b)
        feasible, convergence = feasible_pairs(pencil, self.columns + 1, how, work, start)
        if self.whole is not None and self.open_ and b > 0 and feasible.lam.size == 0:
            b, pencil = -b, self._pencil(-b)  # the trivial vector took all that was feasible
            feasible, convergence = feasible_pairs(pencil, self.columns + 1, how, work, start)
        if feasible.lam.size == 0:
            raise InfeasibleError(
                f"beta: {b:g} leaves no feasible vector with λ > 0; give a smaller fraction, for "
                f"example {-0.1 if b >= 0 else 10 * b:g}, or constraints between clusters"
            )
        # 10
        best = feasible.cheapest(self.columns)
        residuals = pencil.residuals(best.vectors, best.lam)
        reached = replace(convergence, residuals=residuals)
        note = feasible.remark(self.columns)
        found = (best.vectors, best.lam, best.cost, b, unit, reached, note)
        cuts = feasible_cuts(pencil, feasible, self.columns)
        return EigenSolution(*found, wanted=self.columns, cuts=cuts)

    def trial(self, value: float) -> EigenSolution:
        """As `solve` inside a subspace; empty where nothing is feasible."""
        b, unit = self._tightened(value), self.unit
        if unit <= 0 or unit > self.kth(1):
            b = -abs(b)
        feasible, convergence = feasible_pairs(self._pencil(b), self.columns + 1)
        best = feasible.cheapest(self.columns)
        return EigenSolution(best.vectors, best.lam, best.cost, b, unit, convergence)

    def inside(self, basis: SmoothBasis, value: float) -> EigenSolution:
        """As ever; where nothing is demanded, or it cancels, the smoothest directions beside z."""
        restricted = self.restricted(basis)
        if restricted.acts:
            return basis.on_nodes(restricted.solve(value, DENSE))
        count, space, volume = min(self.columns, basis.p), basis.space, basis.laplacian.volume
        V = space.columns(basis.whole, slice(1, 1 + count))
        space.blend(V, space.signs(V) * np.sqrt(volume))
        values, had = basis.values[:count], basis.residuals[:count]
        sharp = Convergence("smooth subspace", "direct", 0, had, float(had.max(initial=0.0)))
        note = CANCELLED if self.acts else ""
        return EigenSolution(V, values, values * volume, 0.0, 0.0, sharp, note, basis.p)

    def kth(self, k: int) -> float:
        """λ_k(Q̄), the last one if there are fewer."""
        return self.Q.kth_largest(min(k, self.Q.size))

    @property
    def unit(self) -> float:
        """λ_rank(Q̄), or λ_max where that is not positive; of Q̄ on the nodes if Q vanishes."""
        kth, largest = self.kth(self.rank), self.kth(1)
        unit = kth if kth > 0 else largest
        whole = self.whole
        # Compared with an entry first: Q̄'s own spectrum may take minutes.
        if whole is not None and self.yields and abs(unit) <= 1e-12 * whole.largest_entry:
            return abs(replace(self, Q=whole, whole=None).unit)
        return unit

    def _tightened(self, b: float) -> float:
        if not self.tight or self.Q.size <= self.rank:
            return b
        return tight_fraction(self.kth(self.rank), self.kth(self.rank + 1), self.unit)

    def _pencil(self, b: float) -> Pencil:
        return Pencil(self.laplacian, self.Q, b * self.unit)


@dataclass(eq=False, repr=False)
class CSP(ConstrainedSpectral):
    """K clusters that cut little of the graph and keep the constraints (WD14).

    * `beta`: a fraction b < 1 of λ_{K−1}(Q̄), so that WD14's β is b·λ_{K−1}·vol; the larger, the
      more the constraints weigh; b < 0 is allowed. "auto" decides on evidence; "paper" takes the
      fraction of WD14 eq. 19, of λ_{K−1} so that there are K − 1 feasible vectors (Alg. 2), and
      "paper-max" of λ_max as printed, which for K > 2 is often infeasible; "tight" leaves just
      K − 1 feasible vectors (WD14 §7.3): 0.99, or more if λ_K is near.
      WHC11 §4.1: "search" takes the best of 100 values in (λ_min, λ_max) by criterion E (FCSC-θ),
      "wide" of 100 values from −100 max|λ| to λ_max (FCSC-θ2; "wide-printed": to λ_max/vol),
      as fractions of λ_max, with as many vectors as are feasible.
    * `balanced`: must-links count 1/|ML| and cannot-links 1/|CL| (WHC11 Alg. 1 step 3).
    * `n_vectors`: how many feasible vectors are clustered, and their last eigenvalue of Q̄ is what
      β is a fraction of: None is K − 1 (WD14), WHC11's FCSC takes K for K > 2.
    * `assign`: how vectors become clusters: "kmeans" (Alg. 2), "sign" (K = 2), "split" (K = 2, at
      the value that keeps most constraints), "sign-kmeans" (eq. 15), "cost-weighted" (eq. 16),
      "sphere" (rows of length 1, FCSC-SP), "auto".
    * `solver`: of the pencil and of L̄: auto, dense, lobpcg, shift-invert;
      `subspace`, `init`, `tol`, `max_iter`, `regularization`: as in `ConstrainedSpectral`.

    A second graph as `Constraints.from_graph` is transfer learning (WD14 §6.3): its largest
    eigenvector is a trivial cut, so that β left open is a fraction of λ_K instead (eq. 18).

    After `fit`: `labels_` (n,), `embedding_` D^-½V (n, K − 1) with vᵀv = vol in order of cost,
    `eigenvalues_` λ (K−1,), `costs_` vᵀL̄v, `graph_`, `report_`, whose `extra["cuts"]` has cost and
    α = vᵀQ̄v of all feasible vectors. Fewer columns if fewer vectors are feasible; the report says
    so. Raises InfeasibleError where none is.
    """

    beta: float | str = "auto"
    balanced: bool = False
    n_vectors: int | None = None

    _parameter: ClassVar[str | None] = "beta"
    _assignments: ClassVar[tuple[str, ...]] = ASSIGNMENTS

    def _formulation(
        self, graph: KnownGraph, laplacian: PlacedLaplacian, known: Constraints, k: int
    ) -> Formulation:
        Q = NodeMatrix(known.matrix, known.factor, known.core)
        if self.balanced:
            must, cannot = balanced(known, laplacian.nodes)
            Q = must + cannot.times(-1.0)
        columns = k - 1 if self.n_vectors is None else int(self.n_vectors)
        is_open = isinstance(self.beta, str) and self.beta != "paper-max"
        transfer = is_open and known.kind == "graph"
        cut = ConstrainedCut(
            laplacian,
            local_operator(Q, laplacian, known.nodes, scaled=True),
            columns,
            # WHC11's larger range takes as many as there are: 0 is its strongest value.
            rank=1 if self.beta in WIDER else min(columns + transfer, max(laplacian.size - 1, 1)),
            open_=is_open,
            yields=self.beta == "auto",
            tight=self.beta == "tight",
        )
        if not isinstance(self.beta, str) and self.beta >= 1 and cut.acts:  # 4
            check_beta(self.beta, cut.kth(cut.rank), cut.kth(1), cut.rank)
        roundings = ("sign", "split", "kmeans") if k == 2 else ("sphere", "kmeans")
        return Formulation(cut, per_root(laplacian), roundings, self._grid(cut, known))

    def _grid(self, cut: ConstrainedCut, known: Constraints) -> ParameterValues:
        """The fractions to choose from; one if the caller gave it."""
        if self.beta == "auto":
            labels = known.labels is not None or known.soft_labels is not None
            many = not labels and known.nodes.size >= _MOST * cut.laplacian.size
            return _PAIR_BETAS if many and is_small(cut.laplacian) else _BETAS
        if isinstance(self.beta, str):
            betas = named_betas(self.beta, cut.Q, cut.unit, cut.laplacian.volume, known)
            if self._by_criterion and cut.kth(cut.rank) <= 0:
                # Others leave too few vectors; without constraints nothing is demanded.
                betas = tuple(b for b in betas if b < 0) or (-1.0,)
            return ParameterValues.of(*betas, neutral=-10.0)
        return ParameterValues.of(float(self.beta))

    def _check_parameter(self) -> None:
        if self.n_vectors is not None:
            as_integer(self.n_vectors, "n_vectors", 1)
        check_flag(self.balanced, "balanced")
        if isinstance(self.beta, str):
            check_choice(self.beta, ("auto", *NAMED), "beta")
        else:
            check_number(self.beta, "beta", "a fraction below 1")

    def _in_memory_only(self) -> dict[str, bool]:
        by_name = isinstance(self.beta, str) and self.beta not in ("auto", "tight")
        return {**super()._in_memory_only(), "beta": by_name}

    @property
    def _by_criterion(self) -> bool:
        return self.beta in SEARCHED


# --- How much satisfaction CSP demands: β as a fraction of an eigenvalue of Q̄, by papers' rules


_TIE = 1e-6
_NEARLY = 0.99
_STEPS = 100  # values tried by a search (WHC11 §4.1)
_WIDER = 100.0
WIDER = ("wide", "wide-printed")
SEARCHED = ("search", *WIDER)
NAMED = ("paper", "paper-max", "tight", *SEARCHED)


def check_beta(b: float, kth: float, largest: float, rank: int) -> None:
    """Raise InfeasibleError unless β = b·unit < λ_{K−1}(Q̄) (WD14 Alg. 1 and 2, line 4)."""
    if kth > 0 and b >= 1:
        raise InfeasibleError(
            f"beta: {b:g} leaves no feasible vector; give a fraction below 1 of "
            f"λ_{rank}(Q̄) = {kth:.4g}, for example 0.5, or a negative one"
        )
    if kth <= 0 and b >= 0:
        raise InfeasibleError(
            f"beta: {b:g} leaves fewer than {rank} feasible vectors, λ_{rank}(Q̄) being "
            f"{kth:.4g}; give a negative fraction (of λ_max(Q̄) = {largest:.4g}), or constraints "
            "on more clusters"
        )


def tight_fraction(kth: float, following: float, unit: float) -> float:
    """β between two eigenvalues as a fraction of the unit: 0.99, or halfway if the next is nearer.

    Just below the larger if they tie.
    """
    if unit <= 0:
        return 0.5
    halfway = (kth + following) / 2.0 / unit
    return min(max(halfway, _NEARLY), 1.0 - _TIE) if kth > 0 else min(halfway, -_TIE)


def named_betas(
    name: str, Q: ConstraintOperator, unit: float, volume: float, known: Constraints
) -> tuple[float, ...]:
    """The values behind a name of β, as fractions of the unit λ_{K−1}(Q̄).

    WHC11's larger range [−100 max|λ| vol, λ_max] has an end without vol, next to nothing. "wide"
    goes to λ_max·vol and leaves out both ends, as "search" does: where |λ_min| <= λ_max a step is
    λ_max, so that 0 is the strongest value. That is what reproduces WHC11's Tables 1 and 3: with
    the ends 0 is stepped over. "wide-printed" has both ends as printed.
    """
    largest = Q.kth_largest(1)
    if name in ("paper", "paper-max"):
        # WD14 eq. 19, with Q's entries counted: both (i, j) and (j, i).
        share = 2.0 * known.n_constraints / float(known.n_nodes) ** 2
        fraction = 0.5 + 0.4 * min(share, 1.0)
        return (fraction * largest / unit if name == "paper-max" and unit > 0 else fraction,)
    if unit <= 0 or name == "tight":
        return (0.5,)
    least = largest - Q.spread
    low = least if name == "search" else -_WIDER * max(abs(least), abs(largest))
    if name == "wide-printed":
        tried = np.linspace(low, largest / volume, _STEPS)
    else:
        tried = np.linspace(low, largest, _STEPS + 2)[1:-1]
    return tuple(float(value) for value in tried / unit)
