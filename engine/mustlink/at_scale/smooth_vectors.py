"""The smoothest directions of a graph on disk or on ranks, kept for other constraints."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mustlink.eigen.smooth_subspace import SmoothBasis, smooth_basis
from mustlink.eigen.work import Work

STEPS = 200


@dataclass(eq=False)
class SmoothVectors:
    """What `eigen.solver.smoothest` keeps with a graph at home: the longest basis so far.

    `tol` bounds the residuals of its vectors. They are where the work's blocks are.
    """

    work: Work
    tol: float
    seed: int
    _held: SmoothBasis | None = field(default=None, repr=False)

    def of(self, work: Work) -> SmoothVectors:
        """The same for another view of the graph."""
        return replace(self, work=work)

    @property
    def room(self) -> int:
        """Directions that the graph has."""
        return self.work.n_nodes - self.work.isolated - 1

    def at_least(self, p: int) -> SmoothBasis:
        """At least p directions, or all there are; raises InputError."""
        if self._held is None or self._held.p < min(p, self.room):
            laplacian = self.work.laplacian
            count = min(p, self.room + 1 - laplacian.null.n_components)
            self._held = None  # vectors that are about to be computed anew
            found = self.work.smallest_pairs(count, tol=self.tol, max_iter=STEPS, seed=self.seed)
            had = found.convergence.residuals
            self._held = smooth_basis(laplacian, found.values, found.vectors, had)
        return self._held
