"""The least sure first: entropy, or the lead of the likeliest class (Settles 2009, §3.1).

Nodes near each other are unsure for one reason: a node's doubt counts as much as its variance is
left, so that a batch does not ask it twice. Doubt alone looks at the borders between classes that
are known and never where nothing is: it is here to be compared with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mustlink.queries.gaussian_model import GaussianModel
from mustlink.queries.situation import Situation, doubts

Floats = NDArray[np.float64]


@dataclass(eq=False)
class Doubt:
    """`doubt` (m,) of the fit; the model tells how much of it answers of the batch take away."""

    doubt: Floats
    model: GaussianModel
    before: Floats

    @classmethod
    def margin(cls, situation: Situation) -> Self:
        """By 1 − (p₁ − p₂), the two likeliest classes."""
        return cls._of(situation, doubts(situation)[0])

    @classmethod
    def entropy(cls, situation: Situation) -> Self:
        """By −Σ p log p / log K."""
        return cls._of(situation, doubts(situation)[1])

    @classmethod
    def _of(cls, situation: Situation, doubt: Floats) -> Self:
        model = situation.model()
        return cls(doubt, model, model.variance.copy())

    def scores(self) -> Floats:
        """What asking of every node is worth, (m,)."""
        left = np.divide(
            self.model.variance, self.before, out=np.ones_like(self.before), where=self.before > 0
        )
        return self.doubt * left

    def answered(self, node: int) -> None:
        """The node is asked."""
        self.model.answer(node)
