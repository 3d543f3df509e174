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

It takes no eigenvectors, and finds small groups that smooth vectors do not show. Cost: 2t products
with W once; a question changes values within 2t steps of its node, and no others are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.queries.situation import Situation, doubts

Floats = NDArray[np.float64]
MOST_STEPS = 8
_FEWER, _MANY = 4, 200_000  # steps on so many nodes, where they would cost most of the time
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
    values: Floats

    @classmethod
    def of(cls, situation: Situation) -> Self:
        """By what is known, and the fit's doubts once there are answers for all clusters."""
        laplacian, m = situation.laplacian, situation.m
        k, known = int(situation.estimator.report_.n_clusters), int(situation.told.sum())
        doubt = doubts(situation)[0] if known >= k else np.ones(m)
        doubt = doubt * laplacian.copies
        steps, own = fitting_steps(laplacian, m / (_WITHIN * max(k, known)))
        root, heard = laplacian.root_degree, np.zeros(m)
        if known:
            heard = _walked(laplacian, root * situation.told, steps) / root / own
        values = root * _walked(laplacian, doubt * np.exp(-heard) / root, steps)
        return cls(laplacian, doubt, steps, own, heard, values)

    def scores(self) -> Floats:
        """Values (m,)."""
        return self.values

    def answered(self, node: int) -> None:
        """The node is asked."""
        root = self.laplacian.root_degree
        reached = self._from(np.array([node]), root[[node]])
        at = reached.indices
        before = self.doubt[at] * np.exp(-self.heard[at])
        self.heard[at] += reached.data / root[at] / self.own
        change = self.doubt[at] * np.exp(-self.heard[at]) - before
        back = self._from(at, change / root[at])
        self.values[back.indices] += root[back.indices] * back.data

    def _from(self, nodes: NDArray[np.integer[Any]], weights: Floats) -> sp.csr_matrix:
        """Sᵗx of a sparse x, as a row (1, m)."""
        row = sp.csr_matrix((weights, nodes, [0, nodes.size]), shape=(1, self.heard.size))
        for _ in range(self.steps):
            row = self.laplacian.of_few(row)
        return row


def _walked(laplacian: NormalizedLaplacian, x: Floats, steps: int) -> Floats:
    """Sᵗx of x (m,)."""
    X = x[:, None]
    for _ in range(steps):
        X = laplacian.neighbours(X)
    found: Floats = X[:, 0]
    return found


def fitting_steps(laplacian: NormalizedLaplacian, share: float) -> tuple[int, float]:
    """Most steps t of walks that are spread over `share` nodes or fewer, and (Pᵗ)_ii.

    t <= 8, on more than 200,000 nodes 4. (Sᵃ⁺ᵇ)_ii = ⟨Sᵃe_i, Sᵇe_i⟩, the median of a few nodes. One
    step never comes back, and counts as fitting.
    """
    m = laplacian.size
    sample = np.unique(np.linspace(0, m - 1, min(_SAMPLE, m)).astype(np.int64))
    ones = np.ones(sample.size)
    last = sp.csr_matrix((ones, (np.arange(sample.size), sample)), shape=(sample.size, m))
    steps, back = 1, 1.0
    most = MOST_STEPS if m <= _MANY else _FEWER
    for t in range(2, most + 1):
        if t % 2 == 0:
            last = laplacian.of_few(last)
            both = last.multiply(last)
        else:
            both = last.multiply(laplacian.of_few(last))
        found = float(np.median(np.asarray(both.sum(axis=1))))
        if found * share < 1.0:
            break
        steps, back = t, found
    return steps, back
