"""The answer that leaves least uncertain, whatever it will be.

V-optimality, of the sum of variances (Ji & Han, AISTATS 2012), and Σ-optimality, of the variance of
the sum (Ma, Garnett & Schneider, NIPS 2013), in the model of p smooth vectors: with orthonormal U

    V(k) = ‖Cu_k‖²/(γ + u_kᵀCu_k),    Σ(k) = (1ᵀUCu_k)²/(γ + u_kᵀCu_k),

all m of them in O(mp), and in O(mp) again after each answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.blocks import combine
from mustlink.queries.gaussian_model import GaussianModel
from mustlink.queries.situation import Situation

Floats = NDArray[np.float64]


@dataclass(eq=False)
class VOptimality:
    """How much less variance all nodes have together."""

    model: GaussianModel

    @classmethod
    def of(cls, situation: Situation) -> Self:
        """By the smooth vectors and what is known."""
        return cls(situation.model())

    def scores(self) -> Floats:
        """V (m,)."""
        return self.model.reach / (self.model.noise + self.model.variance)

    def answered(self, node: int) -> None:
        """The node is asked."""
        self.model.answer(node)


@dataclass(eq=False)
class SigmaOptimality:
    """How much less variance the sum over the nodes has; `sums` are 1ᵀUCu_k (m,)."""

    model: GaussianModel
    sums: Floats

    @classmethod
    def of(cls, situation: Situation) -> Self:
        """By the smooth vectors and what is known."""
        model = situation.model()
        total = model.U.sum(axis=0, dtype=np.float64)
        sums = combine(model.U, (model.C @ total)[:, None])[:, 0].astype(np.float64)
        return cls(model, sums)

    def scores(self) -> Floats:
        """Σ (m,)."""
        return self.sums**2 / (self.model.noise + self.model.variance)

    def answered(self, node: int) -> None:
        """The node is asked."""
        left = self.model.noise + self.model.variance[node]
        t = self.model.answer(node)
        self.sums = self.sums - t * (t.sum() / left)
