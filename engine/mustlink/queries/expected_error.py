"""The answer after which fewest nodes will be wrong, as far as the fit can tell.

Expected error (Zhu, Lafferty & Ghahramani, ICML 2003 workshop): with the classes' shares P of the
fit and answer c on node k the shares become

    P⁺ = P + t (e_c − P_k)ᵀ/(γ + u_kᵀCu_k),   t = UCu_k,

and the error that is expected Σ_c P_kc Σ_i (1 − max_c' P⁺_ic'). It is looked at for the few
candidates of which the variance in doubt is largest, and on a sample of the nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mustlink.queries.model_change import VarianceInDoubt
from mustlink.queries.situation import Situation

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_CANDIDATES, _SAMPLE = 60, 1000
_LIKELY = 3  # classes of a candidate that are tried


@dataclass(eq=False)
class ExpectedError:
    """`shares` (s, K) of the `sample` (s,) of nodes; `first` ranks candidates."""

    situation: Situation
    first: VarianceInDoubt
    sample: Ints
    shares: Floats
    open: NDArray[np.bool_]

    @classmethod
    def of(cls, situation: Situation) -> Self:
        """On the nodes of a grid of as even steps as may be: the same each time."""
        sample = np.unique(np.linspace(0, situation.m - 1, min(_SAMPLE, situation.m)).astype(int))
        shares = situation.memberships(sample)
        first = VarianceInDoubt.of(situation)
        return cls(situation, first, sample, shares, ~situation.told)

    def scores(self) -> Floats:
        """Error that goes (m,); of no candidate less than that of any."""
        found = self.first.scores()
        ranked = np.where(self.open, found, -np.inf)
        count = min(_CANDIDATES, ranked.size)
        best = np.argpartition(-ranked, count - 1)[:count]
        scale = max(float(found.max(initial=0.0)), 1e-300)
        found = found / scale - 1.0
        now = _error(self.shares)
        for node in best.tolist():
            found[node] = now - self.expected(node)
        return found

    def expected(self, node: int) -> float:
        """Error on the sample once the node is answered."""
        model = self.first.model
        t = model.U[self.sample].astype(np.float64) @ (model.C @ model.row(node))
        t /= model.noise + model.variance[node]
        p = self.situation.memberships(np.array([node]))[0]
        likely = np.argsort(-p, kind="stable")[:_LIKELY]
        weight = p[likely] / max(p[likely].sum(), 1e-300)
        total = 0.0
        for c, w in zip(likely, weight, strict=True):
            total += w * _error(self.shares + np.outer(t, np.eye(p.size)[c] - p))
        return total

    def answered(self, node: int) -> None:
        """The node is asked, and taken for what it seems to be."""
        self.open[node] = False
        t = self.first.model.covariance(node)[self.sample]
        t /= self.first.model.noise + self.first.model.variance[node]
        p = self.situation.memberships(np.array([node]))[0]
        self.shares = _simplex(self.shares + np.outer(t, np.eye(p.size)[p.argmax()] - p))
        self.first.answered(node)


def _error(P: Floats) -> float:
    return float((1.0 - _simplex(P).max(axis=1)).sum())


def _simplex(P: Floats) -> Floats:
    """Shares from values that may be out of [0, 1]."""
    P = np.maximum(P, 0.0)
    found: Floats = P / np.maximum(P.sum(axis=1, keepdims=True), 1e-300)
    return found
