"""The smoothest directions of a graph on disk or on ranks, kept for other constraints."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from mustlink.eigen.carried_basis import carried_basis
from mustlink.eigen.sharpness import default_tolerance
from mustlink.eigen.smooth_subspace import SmoothBasis, smooth_basis
from mustlink.eigen.solver import BASIS_TOL
from mustlink.eigen.work import Work
from mustlink.result import EigenResult

STEPS = 200


@dataclass(eq=False)
class SmoothVectors:
    """What `eigen.solver.smoothest` keeps with a graph at home: the longest basis so far.

    And of regularised degrees the latest, of just so many vectors.

    `tol` bounds the residuals of its vectors. They are where the work's blocks are.
    """

    work: Work
    tol: float
    seed: int
    _held: SmoothBasis | None = field(default=None, repr=False)
    _carried: tuple[float, EigenResult, SmoothBasis] | None = field(default=None, repr=False)

    def of(self, work: Work) -> SmoothVectors:
        """The same for another view of the graph."""
        return replace(self, work=work)

    def sharp(self) -> SmoothVectors:
        """Vectors that are clustered themselves, where nobody asked for a sharpness."""
        if self.tol < BASIS_TOL:
            return self
        single = self.work.laplacian.dtype.itemsize < 8
        tol = default_tolerance(self.work.look.n_linked, single=single)
        return SmoothVectors(self.work, tol, self.seed)

    @property
    def room(self) -> int:
        """Directions that the graph has."""
        return self.work.n_nodes - self.work.isolated - 1

    def at_least(self, p: int, tau: float = 0.0) -> SmoothBasis:
        """At least p directions, or all there are, with τ p at most; raises InputError."""
        if tau:
            return self._with(tau, min(p, self.room + 1))
        self._carried = None  # of vectors that others may soon be as many as
        if self._held is None or self._held.p < min(p, self.room):
            laplacian = self.work.laplacian
            count = min(p, self.room + 1 - laplacian.null.n_components)
            self._held = None  # vectors that are about to be computed anew
            found = self.work.smallest_pairs(count, tol=self.tol, max_iter=STEPS, seed=self.seed)
            had = found.convergence.residuals
            self._held = smooth_basis(laplacian, found.values, found.vectors, had)
        return self._held

    def _with(self, tau: float, p: int) -> SmoothBasis:
        """The span of the p smoothest vectors of L̄_τ, see `carried_basis`."""
        held = self._carried
        if held is not None and held[0] == tau and held[2].p == p:
            return held[2]
        if held is not None and held[0] == tau and held[1].values.size >= p:
            found = held[1]
        else:
            self._carried = None
            how: dict[str, Any] = {"tol": self.tol, "max_iter": STEPS, "seed": self.seed}
            found = self.work.smallest_pairs(p, tau=tau, **how)
        vectors = found.vectors
        if found.values.size > p:
            vectors = self.work.space.columns(vectors, slice(0, p))
        few = replace(found, values=found.values[:p], vectors=vectors)
        basis = carried_basis(self.work.laplacian, self.work.regularized(tau), few)
        self._carried = tau, found, basis
        return basis
