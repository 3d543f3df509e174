"""The answer that would change the model most (Miller & Bertozzi, arXiv:2110.07739).

An answer c on node k moves the model by (c − f_k) Cu_k/(γ + u_kᵀCu_k). How far c will be from f_k
is what the fit is in doubt about:

    MC(k) = d_k ‖Cu_k‖/(γ + u_kᵀCu_k),    MCV(k) = d_k V(k),    d_k = 1 − (p₁ − p₂),

MCV, the authors' MC-VOPT, weighs the variance that goes by the doubt: it covers what is unseen
first, as all is doubtful there, and goes on to borders where answers still change something.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mustlink.queries.situation import Situation, doubts
from mustlink.queries.variance import VOptimality

Floats = NDArray[np.float64]


@dataclass(eq=False)
class ModelChange(VOptimality):
    """Expected change; `doubt` (m,) is that of the fit."""

    doubt: Floats

    @classmethod
    def of(cls, situation: Situation) -> Self:
        """By the smooth vectors, what is known, and the fit's memberships."""
        return cls(situation.model(), doubts(situation)[0])

    def scores(self) -> Floats:
        """MC (m,)."""
        model = self.model
        return self.doubt * np.sqrt(model.reach) / (model.noise + model.variance)


@dataclass(eq=False)
class VarianceInDoubt(ModelChange):
    """MCV."""

    def scores(self) -> Floats:
        """MCV (m,)."""
        model = self.model
        return self.doubt * model.reach / (model.noise + model.variance)
