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

from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.check import as_integer, as_random_state, check_share
from mustlink.errors import InputError
from mustlink.kernels.blocks import combine
from mustlink.observe import Unheard
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.queries.situation import GaussianModel, Situation, doubts, given_of, prior
from mustlink.selection.held_out import Fold

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


# --- The answer that most doubtful nodes which no answer reaches yet would hear of, by short
# walks
#
# P = D⁻¹W, h_j = Σ_known (Pᵗ)_jk is what node j has heard, s how much a node hears of itself, d_j
# the
# fit's doubt about it, 1 − (p₁ − p₂), or 1 as long as fewer are known than there are clusters:
#
#     value(k) = Σ_j d_j exp(−h_j/s) (Pᵗ)_jk.
#
# That is coverage with a soft radius (Yehuda et al., *Active learning through a covering lens*,
# NeurIPS 2022, with walks in the place of balls) weighed by doubt (explore, then exploit: Miller &
# Calder, SIAM J. Math. Data Sci. 2023, whose decay also comes from a graph). Doubt alone asks about
# outliers between two classes, which tell nothing of others; here these count by who hears of them.
#
# A walk of t steps is spread over about 1/(Pᵗ)_ii nodes, which shall be no more than a quarter of m
# over the answers or clusters. The more is known, the shorter are the walks, down to nearly doubt
# alone, and in networks, where a few steps reach all, they are short from the beginning.
#
# It takes no eigenvectors, and finds small groups that smooth vectors do not show. Cost: 2t
# products
# with W once; a question changes values within 2t steps of its node, and no others are looked at.


MOST_STEPS = 8
_FEWER, _MANY = 4, 200_000  # steps on so many nodes, where they would cost most of the time
_WITHIN = 4  # of an answer's share: what hears little of it counts, too
_WALKS_FROM = 16  # nodes by which 1/(Pᵗ)_ii is told


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
    sample = np.unique(np.linspace(0, m - 1, min(_WALKS_FROM, m)).astype(np.int64))
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


# --- When more answers stop to matter: what the fit would say without a part of them


# Asked pairs build on each other: half of them say far less than half. CSP on usps and optdigits
# was never settled by halves, by tenths from 120 to 180 pairs on, where its ARI ceased to rise.
_HELD, _OF_PAIRS = 0.5, 0.1


@dataclass(frozen=True)
class Settled:
    """What the fit is without a part of the answers, `left_out`: whether more would change much.

    `moved` is the share of the rows that were answered otherwise, `agreed` that of the answers
    left out which the fit to the others foresaw (of clusterers: of what they say of pairs), both
    means over `draws`. `enough`: no more rows moved than was allowed.
    """

    moved: float
    agreed: float
    enough: bool
    draws: int
    left_out: float = _HELD

    def __str__(self) -> str:
        """One sentence."""
        if not self.draws:
            return "too few answers to leave some of them out; go on"
        word = "more answers hardly matter" if self.enough else "more answers matter"
        part, of = ("half", "half") if self.left_out == _HELD else ("a tenth", "tenth")
        return (
            f"{word}: without {part} of them {self.moved:.1%} of the rows are answered otherwise, "
            f"and {self.agreed:.0%} of that {of} is foreseen"
        )


def settled(est: Any, moved: float = 0.02, draws: int = 3, random_state: Any = 0) -> Settled:
    """Whether more answers would change a fitted estimator by more than a share `moved` of rows.

    It is refitted to a random half of what it was told, of pairs alone to nine tenths, `draws`
    times; the estimator itself stays as it is. If doubling the answers has changed few rows,
    doubling them again will change fewer, for what helped most was asked first. Wrong answers show
    as `agreed` well below 1 while little moves. Cost: `draws` refits. Raises InputError.
    """
    check_share(moved, "moved")
    draws = as_integer(draws, "draws", 1)
    rng = as_random_state(random_state)
    given = given_of(est)
    if given.is_empty:
        return Settled(1.0, 0.0, enough=False, draws=0)
    share = _OF_PAIRS if given.kind == "pairs" else _HELD
    found: list[tuple[float, float]] = []
    for _ in range(draws):
        kept, held = given.split(share, rng)
        if held.is_empty:  # one label a class: none is spared
            continue
        with suppress(InputError):  # what is left may be too little
            found.append(_without(est, kept, held))
    if not found:
        return Settled(1.0, 0.0, enough=False, draws=0)
    changed, agreed = (float(np.mean(column)) for column in zip(*found, strict=True))
    return Settled(changed, agreed, changed <= moved, len(found), share)


def _without(est: Any, kept: Any, held: Any) -> tuple[float, float]:
    """Share of the rows that are answered otherwise without `held`, and of it that is foreseen."""
    twin = copy(est)
    if hasattr(est, "given_labels_"):
        out = held.labels >= 0
        given = np.asarray(est.given_labels_)
        nothing = "" if given.dtype.kind in "OU" else -1
        twin.refit(np.where(out, nothing, given), observer=Unheard())
        right = float(np.mean(twin.labels_[out] == given[out]))
    else:
        twin.refit(constraints=kept, observer=Unheard())
        fold = Fold.of(kept, held)
        right = fold.share_kept(twin.labels_[fold.nodes])
    return float(np.mean(twin.labels_ != est.labels_)), right
