"""The candidates of `Auto`, and which of them: by what they predict of what was held out.

What is known decides which candidates there are:

    nothing                              NCut
    labels of all K classes              propagators; on points also with the chances of a
                                         classifier on columns and smooth vectors as prior
    pairs, labels of fewer classes       clusterers with constraints; where all K classes have
                                         labels also these spread, and single nodes moved by pairs

A candidate's score is

    s_c = u_c + m/(m + t) (h_c − u_c)

h_c is the share of m labels or pairs held out that it predicts, of labels each class by the rows
that the candidate gives it: labels may be as many of a small class as of a large one. u_c =
h̄ + (e_c − ē) is what was to be expected of it,

    e_c = a_c + 0.6 (g_c or r_c)

a_c its mean adjusted Rand index on other data with as much side information, and of labels g_c what
its answers by all of them tell about the edges, `ClusterSums.nats`, as a share of what those of the
best candidate tell: a few labels may be predicted by chance, edges are many. Of pairs too few to
hold some out r_c is the mean adjusted Rand index of its clusters by all of them with those of the
others: clusters that one candidate alone finds are seldom there. With nothing held out s_c = e_c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mustlink.clusterers.label_clusters import ALONE, COLUMNS, NAMED
from mustlink.constraints import Constraints
from mustlink.core.observe import Deadline, Recorder
from mustlink.discretize.satisfaction import satisfaction_added

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


NOTHING, LABELS, PAIRS = "nothing", "labels", "pairs"
_WHOLE = 0.6  # of what answers by all that is known say, beside an adjusted Rand index


@dataclass(frozen=True)
class Way:
    """A candidate: an estimator, and what the prior that it is given is the mean of.

    `parts` are "columns" and "columns alone", the chances of a classifier, names of clusterers,
    whose clusters have the shares of their labels, and of propagators. `belief` is in units of a
    node's degree: at 1 it counts as much as all neighbours, at 30 these hardly count. `usual` are
    adjusted Rand indices on the choosing sets, for little, more and much side information; None
    where it is no candidate.
    """

    name: str
    method: str
    usual: tuple[float | None, float | None, float | None]
    parts: tuple[str, ...] = ()
    belief: float = 0.0


NCUT = Way("NCut", "NCut", (0.0, 0.0, 0.0))
# Labels a class, by the median: 1 or 2; up to 5; more.
OF_POINTS = (
    Way("GFHF", "GFHF", (0.47, 0.51, 0.68)),
    Way(
        "GFHF with columns, FastGE and NCut",
        "GFHF",
        (0.51, 0.59, 0.70),
        (COLUMNS, "FastGE", "NCut"),
        0.3,
    ),
    Way("GFHF with columns", "GFHF", (0.28, 0.51, 0.71), (COLUMNS,), 3.0),
    Way("GFHF with columns alone", "GFHF", (0.20, 0.41, 0.65), (ALONE,), 30.0),
    Way(
        "GFHF with columns, FastGE and CSP",
        "GFHF",
        (None, None, 0.72),
        (COLUMNS, ALONE, "FastGE", "CSP"),
        3.0,
    ),
    Way("GFHF with FastGE alone", "GFHF", (None, None, 0.70), ("FastGE",), 30.0),
    Way("NCut named by labels", "GFHF", (0.48, None, None), (NAMED,), 30.0),
)
WITHOUT_COLUMNS = (  # points that are sparse or read by blocks: nothing is learned from columns
    OF_POINTS[0],
    Way("GFHF with FastGE and NCut", "GFHF", (0.50, 0.57, 0.69), ("FastGE", "NCut"), 0.3),
    *OF_POINTS[-2:],
)
OF_NETWORKS = (
    Way("LLGC", "LLGC", (0.48, 0.61, 0.69)),
    Way("GFHF", "GFHF", (0.30, 0.44, 0.56)),
    Way(
        "GFHF with CSCGFHF, NCut and LLGC",
        "GFHF",
        (0.55, 0.67, 0.73),
        ("CSCGFHF", "NCut", "LLGC"),
        0.3,
    ),
    Way("NCut named by labels", "GFHF", (0.66, 0.66, 0.66), (NAMED,), 30.0),
)
# Pairs a node: up to 0.25; up to 1; more. After the moves of `satisfaction.moved_by_pairs`.
OF_PAIRS = (
    Way("FastGE", "FastGE", (0.599, 0.764, 0.900)),
    Way("SRCP", "SRCP", (0.653, 0.783, 0.892)),
    Way("SSKK", "SSKK", (0.611, 0.662, 0.852)),
    Way("SSSC", "SSSC", (0.659, 0.769, 0.864)),
    Way("CSP", "CSP", (0.685, 0.765, 0.905)),
    Way("ConstrainedAP", "ConstrainedAP", (0.672, 0.737, 0.893)),
)
PAIRS_OF_NETWORKS = (
    Way("CSP", "CSP", (0.661, 0.763, 0.987)),
    Way("SSSC", "SSSC", (0.741, 0.790, 0.988)),
    Way("SSKK", "SSKK", (0.538, 0.649, 0.988)),
)
# Beside pairs labels of all classes, which are spread; then nodes move by the pairs.
OF_BOTH = (
    Way(
        "GFHF with columns, FastGE, NCut and pairs",
        "GFHF",
        (0.59, 0.67, 0.77),
        (COLUMNS, "FastGE", "NCut"),
        0.3,
    ),
    Way("GFHF with columns and pairs", "GFHF", (0.58, 0.66, 0.77), (COLUMNS,), 3.0),
)
BOTH_OF_NETWORKS = (
    Way("GFHF with NCut, LLGC and pairs", "GFHF", (0.71, 0.74, 0.94), ("NCut", "LLGC"), 0.3),
)
WAYS = {
    way.name: way
    for way in (
        *OF_POINTS, *WITHOUT_COLUMNS, *OF_NETWORKS, *OF_PAIRS, *PAIRS_OF_NETWORKS, *OF_BOTH,
        *BOTH_OF_NETWORKS, NCUT,
    )
}  # fmt: skip


# ---------------------------------------------------------------- judging


class Trial(NamedTuple):
    """Predictions (m,) of one candidate for one fold, NaN where it could not be fitted.

    `weight` (m,) is how much each of them counts.
    """

    right: Floats
    weight: Floats
    seconds: float
    failure: str = ""


@dataclass
class Candidate:
    """A candidate and how it did: `usual` is a_c, `edges` g_c, `agrees` r_c, `held_out` h_c.

    All but the first are None where they were not tried.
    """

    name: str
    usual: float
    edges: float | None = None
    agrees: float | None = None
    held_out: float | None = None
    seconds: float = 0.0
    score: float = 0.0
    chosen: bool = False
    note: str = ""
    right: list[Floats] = field(default_factory=list, repr=False)
    weight: list[Floats] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        """Where nothing is held out, what is expected decides."""
        self.score = self.expected

    @property
    def expected(self) -> float:
        """e_c."""
        return self.usual + _WHOLE * (self.edges or self.agrees or 0.0)

    def row(self) -> dict[str, Any]:
        """Plain values, as `candidates_` has them."""
        own = ("usual", "edges", "agrees", "held_out", "score", "seconds", "chosen", "note")
        return {name: getattr(self, name) for name in ("name", *own)}


def compare(
    candidates: Sequence[Candidate],
    folds: Sequence[Any],
    trial: Callable[[Candidate, Any], Trial],
    trust: float,
    recorder: Recorder,
    until: Deadline,
    evidence: Callable[[Candidate], Any] | None = None,
) -> int:
    """Try every candidate on every fold, set their scores, and return how many were held out.

    `trust` t: so many held-out labels or pairs count as much as what is expected; `evidence`: what
    the answers of a candidate by all of them tell about the edges, or, of pairs, its clusters (n,).
    Folds that are not done `until` then do not count.
    """
    if len(candidates) < 2:
        return 0
    with recorder.stage("choosing by what was held out") as advance:
        answers = [
            evidence(one) for one in candidates if evidence is not None and not until.is_over
        ]
        if len(answers) == len(candidates):
            of_pairs = np.ndim(answers[0]) > 0
            shares = agreements(answers) if of_pairs else np.array(answers) / max(*answers, 1e-300)
            for one, share in zip(candidates, shares.tolist(), strict=True):
                setattr(one, "agrees" if of_pairs else "edges", share)
                one.score = one.expected
        for number, fold in enumerate(folds):
            found = []
            for one in candidates:
                if until.is_over:
                    recorder.skip_for_time(
                        f"the method is chosen by {number} folds instead of {len(folds)}"
                    )
                    return _scored(candidates, trust)
                found.append(trial(one, fold))
            for one, made in zip(candidates, found, strict=True):
                one.right.append(made.right)
                one.weight.append(made.weight)
                one.seconds += made.seconds
                one.note = one.note or made.failure
            advance((number + 1) / len(folds))
    return _scored(candidates, trust)


def _scored(candidates: Sequence[Candidate], trust: float) -> int:
    if not candidates[0].right:
        return 0
    held = np.array([_mean(one.right, one.weight) for one in candidates])
    m, there = int(sum(part.size for part in candidates[0].right)), np.isfinite(held)
    if not there.any():
        return 0
    expected = np.array([one.expected for one in candidates])
    expected += held[there].mean() - expected[there].mean()
    share = m / (m + trust)
    for one, h, u in zip(candidates, held, expected, strict=True):
        one.held_out = float(h) if np.isfinite(h) else None
        one.score = float(u + share * (h - u)) if np.isfinite(h) else -np.inf
    return m


def agreements(answers: Sequence[Ints]) -> Floats:
    """Mean adjusted Rand index of every one of two or more clusterings (n,) with the others."""
    from sklearn.metrics import adjusted_rand_score

    found = np.array([[adjusted_rand_score(one, other) for other in answers] for one in answers])
    return np.asarray((found.sum(axis=1) - 1) / (len(answers) - 1))


def _mean(right: Sequence[Floats], weight: Sequence[Floats]) -> float:
    w = np.concatenate(weight)
    return float(np.average(np.concatenate(right), weights=w if w.any() else None))


def ranked(candidates: Sequence[Candidate], *, enough: bool = False) -> list[Candidate]:
    """The best first; of equals the first.

    Where `enough` was held out, those that predict all of it come before the others, and the one
    with the fewest parts first: nothing that is known speaks for more of them.
    """
    found = sorted(candidates, key=lambda one: -one.score)
    if enough:
        found.sort(key=lambda one: len(WAYS[one.name].parts) if one.held_out == 1.0 else np.inf)
    return found


def pairs_right(labels: Ints, both: Constraints, given: Constraints) -> float:
    """Agreement of clusters with what `both` says beyond `given`, corrected for chance.

    With a must-links and b cannot-links, of which shares p and q are kept, it is the adjusted Rand
    index of these pairs, 2(ad − bc)/((a + b)(b + d) + (a + c)(c + d)); of one kind alone the share
    kept.
    """
    found = satisfaction_added(labels, both, given)
    must, cannot = float(found["n_must"]), float(found["n_cannot"])
    if must == 0 or cannot == 0:
        return float(found["kept"])
    a, d = must * found["must_kept"], cannot * found["cannot_kept"]
    b, c = must - a, cannot - d
    below = (a + b) * (b + d) + (a + c) * (c + d)
    return 2 * (a * d - b * c) / below if below > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Held:
    """What was held out in all folds: `amount`, and of labels the `rows`, and their `classes`."""

    amount: int = 0
    rows: Ints | None = None
    classes: Ints | None = None

    @property
    def n(self) -> int:
        """How many labels or pairs these are; some are held out twice."""
        return self.amount if self.rows is None else int(np.unique(self.rows).size)

    def of(self, chosen: Candidate, answers: Any, known: Any) -> dict[str, Any] | None:
        """What a candidate had right, for `Report.extra`; of labels as a share of all rows.

        r_c of the labels of class c that were held out are right, and n_c of the `answers` (n,)
        are that of most rows that are `known` (n,) to be of it: Σ n_c r_c / Σ n_c. Labels may be
        as many of every class where rows are not.
        """
        if chosen.held_out is None:
            return None
        if self.classes is None:
            return {"of": PAIRS, "share": chosen.held_out}
        codes = np.unique(answers, return_inverse=True)[1].ravel()
        right, sizes = np.concatenate(chosen.right), np.bincount(codes)
        classes = np.unique(self.classes)
        rates = [float(right[self.classes == c].mean()) for c in classes]
        weights = [int(sizes[np.bincount(codes[known == c]).argmax()]) for c in classes]
        share = float(np.average(rates, weights=weights))
        return {"of": LABELS, "share": share, "n": self.n, "by_size": True}


def reason(chosen: Candidate, tried: Sequence[Candidate], kind: str, held: int) -> str:
    """Why it was chosen, in words."""
    if kind == NOTHING:
        return "nothing is known of the rows"
    if len(tried) == 1:
        return "nothing else runs with what is given"
    if chosen.held_out is None:
        more = "" if chosen.edges is None else " and by what its answers tell about the edges"
        if chosen.agrees is not None:
            more = " and by how far its clusters agree with those of the others"
        return f"usually the best with so little known{more}; too few {kind} to hold some out"
    text = f"{chosen.held_out:.1%} right by {held} held-out labels, each class by its size"
    if kind == PAIRS:
        text = f"agrees with held-out pairs by {chosen.held_out:.2f} (adjusted Rand index)"
    others = [one for one in tried if one is not chosen and one.held_out is not None]
    if others:
        next_ = max(others, key=lambda one: one.score)
        figure = f"{next_.held_out:.1%}" if kind == LABELS else f"{next_.held_out:.2f}"
        text += f"; {next_.name} {figure}"
    return text
