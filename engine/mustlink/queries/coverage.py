"""Unseen regions first: the node that is farthest from all that are known (k-centres).

Gonzalez's farthest-first traversal, within twice the best radius (Theoret. Comp. Sci. 1985; for
labels Sener & Savarese, ICLR 2018), in the prior's geometry on the smooth vectors:
‖x_i − x_k‖² = Var(f_i − f_k) with x_i = √c·u_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.blocks import combine
from mustlink.queries.gaussian_model import prior
from mustlink.queries.situation import Situation

Floats = NDArray[np.float64]


@dataclass(eq=False)
class Coverage:
    """Squared distance `gap` (m,) of every node from the nearest that is known."""

    U: Floats
    c: Floats
    norms: Floats
    gap: Floats

    @classmethod
    def of(cls, situation: Situation) -> Self:
        """From the labels that are known; without any from the mean of all nodes. Cost O(mpl)."""
        U = situation.U
        c = prior(situation.values, len(U))
        norms = np.einsum("ij,ij,j->i", U, U, c, dtype=np.float64)
        mean = U.mean(axis=0, dtype=np.float64)
        found = cls(U, c, norms, norms)
        found.gap = found._from(mean)
        for at, node in enumerate(np.flatnonzero(situation.told)):
            gap = found._from(U[node].astype(np.float64))
            found.gap = gap if at == 0 else np.minimum(found.gap, gap)
        return found

    def scores(self) -> Floats:
        """Squared distances (m,)."""
        return self.gap

    def answered(self, node: int) -> None:
        """The node is asked."""
        self.gap = np.minimum(self.gap, self._from(self.U[node].astype(np.float64)))

    def _from(self, row: Floats) -> Floats:
        along = combine(self.U, (self.c * row)[:, None])[:, 0].astype(np.float64, copy=False)
        found: Floats = np.maximum(self.norms - 2.0 * along + row @ (self.c * row), 0.0)
        return found
