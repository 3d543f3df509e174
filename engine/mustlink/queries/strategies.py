"""Which nodes to ask: strategies, each a class that scores all nodes, one answer after the other.

`Coverage`, unseen regions first: the node that is farthest from all that are known (k-centres).

Gonzalez's farthest-first traversal, within twice the best radius (Theoret. Comp. Sci. 1985; for
labels Sener & Savarese, ICLR 2018), in the prior's geometry on the smooth vectors:
‖x_i − x_k‖² = Var(f_i − f_k) with x_i = √c·u_i.

`Doubt`, the least sure first: entropy, or the lead of the likeliest class (Settles 2009, §3.1).

Nodes near each other are unsure for one reason: a node's doubt counts as much as its variance is
left, so that a batch does not ask it twice. Doubt alone looks at the borders between classes that
are known and never where nothing is: it is here to be compared with.

`VOptimality` and `SigmaOptimality`, the answer that leaves least uncertain, whatever it will be.

V-optimality, of the sum of variances (Ji & Han, AISTATS 2012), and Σ-optimality, of the variance of
the sum (Ma, Garnett & Schneider, NIPS 2013), in the model of p smooth vectors: with orthonormal U

    V(k) = ‖Cu_k‖²/(γ + u_kᵀCu_k),    Σ(k) = (1ᵀUCu_k)²/(γ + u_kᵀCu_k),

all m of them in O(mp), and in O(mp) again after each answer.

`ModelChange` and `VarianceInDoubt`, the answer that would change the model most (Miller & Bertozzi,
arXiv:2110.07739).

An answer c on node k moves the model by (c − f_k) Cu_k/(γ + u_kᵀCu_k). How far c will be from f_k
is what the fit is in doubt about:

    MC(k) = d_k ‖Cu_k‖/(γ + u_kᵀCu_k),    MCV(k) = d_k V(k),    d_k = 1 − (p₁ − p₂),

MCV, the authors' MC-VOPT, weighs the variance that goes by the doubt: it covers what is unseen
first, as all is doubtful there, and goes on to borders where answers still change something.

`ExpectedError`, the answer after which fewest nodes will be wrong, as far as the fit can tell.

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

from mustlink.kernels.blocks import combine
from mustlink.queries.situation import GaussianModel, Situation, doubts, prior

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
