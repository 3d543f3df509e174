"""The answer that most doubtful nodes which no answer reaches yet would hear of, by short walks.

P = D⁻¹W, h_j = Σ_known (Pᵗ)_jk is what node j has heard, s how much a node hears of itself, d_j the
fit's doubt about it, 1 − (p₁ − p₂), or 1 as long as fewer are known than there are clusters:

    value(k) = Σ_j d_j exp(−h_j/s) (Pᵗ)_jk.

That is coverage with a soft radius (Yehuda et al., *Active learning through a covering lens*,
NeurIPS 2022, with walks in the place of balls) weighed by doubt (explore, then exploit: Miller &
Calder, SIAM J. Math. Data Sci. 2023, whose decay also comes from a graph). Doubt alone asks about
outliers between two classes, which tell nothing of others; here these count by who hears of them.
It takes no eigenvectors, 2t products with W for each question, and finds small groups that smooth
vectors do not show. A region is asked about again while doubt stays, as after a wrong answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.queries.situation import Situation, doubts

Floats = NDArray[np.float64]
STEPS = 8
_SAMPLE = 16  # nodes by which s is told


@dataclass(eq=False)
class Walks:
    """`doubt` (m,), each node as often as it counts; `heard` h (m,), in units of s `own`."""

    laplacian: NormalizedLaplacian
    doubt: Floats
    heard: Floats
    own: float

    @classmethod
    def of(cls, situation: Situation) -> Self:
        """By what is known, and the fit's doubts once there are answers for all clusters."""
        laplacian, m = situation.laplacian, situation.m
        few = np.count_nonzero(situation.told) < int(situation.estimator.report_.n_clusters)
        doubt = np.ones(m) if few else doubts(situation)[0]
        sample = np.unique(np.linspace(0, m - 1, min(_SAMPLE, m)).astype(np.int64))
        marks = np.zeros((m, sample.size))
        marks[sample, np.arange(sample.size)] = 1.0
        found = cls(laplacian, doubt * laplacian.copies, np.zeros(m), 1.0)
        own = found.hears(marks)[sample, np.arange(sample.size)]
        found.own = max(float(np.median(own)), np.finfo(np.float64).tiny)
        if situation.told.any():
            found.heard = found.hears(situation.told[:, None].astype(np.float64))[:, 0] / found.own
        return found

    def scores(self) -> Floats:
        """Values (m,): t products with W."""
        root = self.laplacian.root_degree[:, None]
        X = (self.doubt * np.exp(-self.heard))[:, None] / root
        for _ in range(STEPS):
            X = self.laplacian.neighbours(X)
        found: Floats = (root * X)[:, 0]
        return found

    def answered(self, node: int) -> None:
        """The node is asked."""
        mark = np.zeros((self.heard.size, 1))
        mark[node] = 1.0
        self.heard = self.heard + self.hears(mark)[:, 0] / self.own

    def hears(self, X: Floats) -> Floats:
        """PᵗX for (m, b)."""
        root = self.laplacian.root_degree[:, None]
        X = X * root
        for _ in range(STEPS):
            X = self.laplacian.neighbours(X)
        found: Floats = X / root
        return found
