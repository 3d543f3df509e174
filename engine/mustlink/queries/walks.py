"""The answer that most doubtful nodes which no answer reaches yet would hear of, by short walks.

P = D⁻¹W, h_j = Σ_known (Pᵗ)_jk is what node j has heard, s how much a node hears of itself, d_j the
fit's doubt about it, 1 − (p₁ − p₂), or 1 as long as fewer are known than there are clusters:

    value(k) = Σ_j d_j exp(−h_j/s) (Pᵗ)_jk.

That is coverage with a soft radius (Yehuda et al., *Active learning through a covering lens*,
NeurIPS 2022, with walks in the place of balls) weighed by doubt (explore, then exploit: Miller &
Calder, SIAM J. Math. Data Sci. 2023, whose decay also comes from a graph). Doubt alone asks about
outliers between two classes, which tell nothing of others; here these count by who hears of them.

A walk of t steps is spread over about 1/(Pᵗ)_ii nodes, which shall be no more than a quarter of m
over the answers or clusters. The more is known, the shorter are the walks, down to nearly doubt
alone, and in networks, where a few steps reach all, they are short from the beginning.

It takes no eigenvectors, at most 2t products with W for each question, and finds small groups that
smooth vectors do not show.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.queries.situation import Situation, doubts

Floats = NDArray[np.float64]
MOST_STEPS = 8
_WITHIN = 4  # of an answer's share: what hears little of it counts, too
_SAMPLE = 16  # nodes by which 1/(Pᵗ)_ii is told


@dataclass(eq=False)
class Walks:
    """`doubt` (m,), each node as often as it counts; `heard` h (m,), in units of s `own`."""

    laplacian: NormalizedLaplacian
    doubt: Floats
    steps: int
    own: float
    heard: Floats

    @classmethod
    def of(cls, situation: Situation) -> Self:
        """By what is known, and the fit's doubts once there are answers for all clusters."""
        laplacian, m = situation.laplacian, situation.m
        k, known = int(situation.estimator.report_.n_clusters), int(situation.told.sum())
        doubt = doubts(situation)[0] if known >= k else np.ones(m)
        steps, own = fitting_steps(laplacian, m / (_WITHIN * max(k, known)))
        found = cls(laplacian, doubt * laplacian.copies, steps, own, np.zeros(m))
        if known:
            heard = found.hears(situation.told[:, None].astype(np.float64))[:, 0]
            found = replace(found, heard=heard / own)
        return found

    def scores(self) -> Floats:
        """Values (m,): t products with W."""
        root = self.laplacian.root_degree[:, None]
        X = (self.doubt * np.exp(-self.heard))[:, None] / root
        for _ in range(self.steps):
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
        for _ in range(self.steps):
            X = self.laplacian.neighbours(X)
        found: Floats = X / root
        return found


def fitting_steps(laplacian: NormalizedLaplacian, share: float) -> tuple[int, float]:
    """Most steps t <= 8 of walks that are spread over `share` nodes or fewer, and (Pᵗ)_ii.

    The median of a few nodes. One step never comes back, and counts as fitting.
    """
    m = laplacian.size
    sample = np.unique(np.linspace(0, m - 1, min(_SAMPLE, m)).astype(np.int64))
    own = np.arange(sample.size)
    X = np.zeros((m, sample.size), dtype=laplacian.dtype)
    X[sample, own] = 1.0
    steps, back = 1, 1.0
    for t in range(1, MOST_STEPS + 1):
        X = laplacian.neighbours(X)
        found = float(np.median(X[sample, own]))  # that of S is that of P
        if t > 1 and found * share < 1.0:
            break
        steps, back = t, found if t > 1 else back
    return steps, back
