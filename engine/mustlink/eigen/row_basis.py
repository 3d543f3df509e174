"""The smoothest directions of a graph on disk or on ranks, kept for other constraints."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from mustlink.eigen.carried_basis import carried_basis
from mustlink.eigen.smooth_subspace import SmoothBasis, smooth_basis
from mustlink.eigen.solver import BASIS_STEPS, BASIS_TOL
from mustlink.eigen.work import Work
from mustlink.result import EigenResult


@dataclass(eq=False)
class RowBasis:
    """What `eigen.solver.smoothest` keeps with a graph in memory: the longest basis so far.

    And of regularised degrees the latest, of just so many vectors. `how` is the tolerance and the
    seed that both are of. Vectors are where the work's blocks are.
    """

    how: tuple[float, int] = (BASIS_TOL, 0)
    _held: SmoothBasis | None = field(default=None, repr=False)
    _carried: tuple[float, EigenResult, SmoothBasis] | None = field(default=None, repr=False)

    def smoothest(
        self, work: Work, p: int, *, tau: float, tol: float | None, seed: int
    ) -> SmoothBasis:
        """At least p directions, or all there are, with τ p at most; raises InputError."""
        how = BASIS_TOL if tol is None else tol, seed
        if how != self.how:
            self.how, self._held, self._carried = how, None, None
        room = work.look.n_linked - 1
        if tau:
            return self._with(work, tau, min(p, room + 1))
        self._carried = None  # of vectors that others may soon be as many as
        if self._held is None or self._held.p < min(p, room):
            laplacian = work.laplacian
            count = min(p, room + 1 - laplacian.null.n_components)
            self._held = None  # vectors that are about to be computed anew
            found = self._pairs(work, count, 0.0)
            had = found.convergence.residuals
            self._held = smooth_basis(laplacian, found.values, found.vectors, had)
        return self._held

    def _pairs(self, work: Work, count: int, tau: float) -> EigenResult:
        tol, seed = self.how
        return work.smallest_pairs(count, tol=tol, max_iter=BASIS_STEPS, seed=seed, tau=tau)

    def _with(self, work: Work, tau: float, p: int) -> SmoothBasis:
        """The span of the p smoothest vectors of L̄_τ, see `carried_basis`."""
        held = self._carried
        if held is not None and held[0] == tau and held[2].p == p:
            return held[2]
        if held is not None and held[0] == tau and held[1].values.size >= p:
            found = held[1]
        else:
            self._carried = None
            found = self._pairs(work, p, tau)
        vectors: Any = found.vectors
        if found.values.size > p:
            vectors = work.space.columns(vectors, slice(0, p))
        few = replace(found, values=found.values[:p], vectors=vectors)
        basis = carried_basis(work.laplacian, work.regularized(tau), few)
        self._carried = tau, found, basis
        return basis
