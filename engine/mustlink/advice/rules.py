"""The rules: which method for which data. The first row that applies is taken.

Every row names its measurement; figures of `bench/suggest.py` are mean regrets, the
adjusted Rand index lost against the best method of each data set, over its four sets of points of
two classes (K = 2) or seven of more, MNIST and letters not among them. To change the advice, change
or move a row, then run `python bench/suggest.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mustlink.advice.observations import DataProfile

_SURE = 0.75  # share of labels that agree with the nearest other label; below, some may be wrong
_SOME_LABELS = 10  # a class
_FLOOD = 1.0  # pairs a node that change a network all the same
_MANY_PAIRS, _FEW_PAIRS = 0.4, 0.08  # a node
_WITHOUT_CLUSTERS = ("GFHF", "LLGC")


def class_mass(seen: DataProfile) -> dict[str, Any]:
    """Classes of one size for equally many labels each, else as large as their labels say."""
    return {"class_mass": "equal" if seen.known.least == seen.known.most else True}


@dataclass(frozen=True)
class Rule:
    """One row.

    `why` is a format of `s` (the profile) and `k` (its side information); `otherwise` are
    alternatives, each a method and when to take it.
    """

    name: str
    applies: Callable[[DataProfile], bool]
    method: str
    why: str
    measured: str
    otherwise: tuple[tuple[str, str], ...]
    parameters: Callable[[DataProfile], dict[str, Any]] = lambda seen: {}

    def reason(self, seen: DataProfile) -> str:
        """The reason with its figures."""
        return self.why.format(s=seen, k=seen.known)


def by_labels(seen: DataProfile) -> bool:
    """Whether there are labels alone, of two classes or more, and K is their number."""
    k = seen.known
    return k.kind == "labels" and 2 <= k.classes == seen.count.k


def by_pairs(seen: DataProfile) -> bool:
    """Whether there are pairs alone."""
    return seen.known.kind == "pairs"


def disagree(seen: DataProfile) -> bool:
    """Whether labels so often differ from that of the nearest labelled point that some are wrong.

    With 20 labels a class the share that agrees was 0.76 or more on nine sets of points, and 0.57
    to 0.76 with 15 % wrong ones. In sparse graphs common neighbours are too rare to tell.
    """
    agreement = seen.known.agreement
    return seen.kind == "points" and agreement is not None and agreement < _SURE


_ROBUST = ("CSP", "some labels may be wrong: it was the least hurt by 15 % wrong ones")
_EVERY = ("Poisson", "classes of all nodes with a confidence, from very few labels")
_CONFIDENT = ("GFHF", "a confidence for every node, or new points (predict)")
_CUT = ("NCut", "to see what the data say by themselves")

RULES: tuple[Rule, ...] = (
    Rule(
        "nothing known",
        lambda s: s.known.kind == "none",
        "NCut",
        "nothing is known beside the {s.n:,} nodes: the graph alone decides, by its normalised cut",
        "docs/measured.md, a million points; bench/papers/RESULTS.md, columns NCut",
        (("CSP", "as soon as a few labels or pairs are known"),),
    ),
    Rule(
        "strokes on a picture",
        lambda s: s.kind == "pixels" and by_labels(s),
        "GFHF",
        "the nodes are pixels, {k.labelled:,} of them labelled: strokes are held, and spread until "
        "they meet along the edges of the picture; StrokeCut on the picture itself (mustlink cut) "
        "also knows their colours",
        "mean IoU of five GrabCut photographs as in docs/measured.md: 0.643; LLGC 0.570, FastGE in "
        "full 0.473, CSP 0.406; of all twelve at a third of the resolution 0.663; LLGC 0.674, CSP "
        "0.573, FastGE 0.529",
        (
            ("LLGC", "strokes are not drawn with care: it may overrule them"),
            ("CSP", "many sets of strokes are tried on one picture (refit)"),
        ),
    ),
    Rule(
        "one label a class, two classes",
        lambda s: by_labels(s) and s.count.k == 2 and s.known.most == 1,
        "CSP",
        "one label of each of two classes says little: the graph decides, the labels guide it",
        "bench/suggest.py, 1 label, K = 2: 0.04, no method is much better",
        (("NCut", "the graph shows two clusters by itself"), _EVERY),
    ),
    Rule(
        "labels on a network",
        lambda s: s.kind == "network" and by_labels(s),
        "LLGC",
        "labels of {k.nodes:,} nodes of a network, whose degrees differ much "
        "({s.links.low_degree:.0f} to {s.links.largest_degree:,}, median "
        "{s.links.median_degree:.0f}): they spread with equal class masses, and a block model of "
        "the network refines the answer where labels held out speak for it",
        "bench/networks.py, polblogs and email, 5 and 20 labels: better than CSP and SSSC on both",
        (
            ("CSP", "some labels may be wrong, or clusters need not be the classes of the labels"),
            ("Poisson", "labels are as unequally many as the classes are: class_mass=False"),
        ),
    ),
    Rule(
        "pairs on a network",
        lambda s: (
            s.kind == "network"
            and by_pairs(s)
            and not s.known.contradictions
            and s.known.per_node < _FLOOD
        ),
        "SSSC",
        "something is known about {k.nodes:,} nodes of a network, whose degrees differ much "
        "({s.links.low_degree:.0f} to {s.links.largest_degree:,}, median "
        "{s.links.median_degree:.0f}): a penalty holds where spreading runs along hubs",
        "bench/suggest.py, blocks, polblogs, email: FastGE, GFHF and SRCP each fail on one or two",
        (("CSP", "pairs may be wrong"), ("SRCP", "a pair a node and more")),
    ),
    Rule(
        "labels that disagree",
        lambda s: by_labels(s) and s.known.least >= _SOME_LABELS and disagree(s),
        "CSP",
        "{k.labelled:,} labels, but the nearest other label is of the same class for "
        "{k.agreement:.0%} of them only: some may be wrong, and smooth vectors outvote these",
        "bench/suggest.py, 15 % wrong labels: 0.01 for K > 2, FastGE 0.04, GFHF 0.05",
        (("FastGE", "the labels are certain"), _EVERY),
    ),
    Rule(
        "many labels",
        lambda s: by_labels(s) and s.known.least >= _SOME_LABELS,
        "FastGE",
        "{k.least} labels or more in each of {k.classes} classes, which can be taken as certain",
        "bench/suggest.py, 20 labels: 0.00 for K > 2, 0.02 for K = 2; "
        "docs/methods.md, MNIST: 0.913",
        (_ROBUST, _CONFIDENT),
    ),
    Rule(
        "few labels, two classes",
        lambda s: by_labels(s) and s.count.k == 2 and s.known.least == s.known.most,
        "FastGE",
        "{k.least} labels of each of two classes",
        "bench/suggest.py, 5 labels, K = 2: 0.00, CSP 0.08, GFHF 0.07",
        (_ROBUST, _CONFIDENT),
    ),
    Rule(
        "few labels",
        by_labels,
        "GFHF",
        "{k.labelled:,} labels of {k.classes} classes, {k.least} to {k.most} each: too few for "
        "eigenvectors to follow, so that labels spread over the graph, classes held to their size",
        "bench/suggest.py, K > 2, 1 and 5 labels, 3 % labelled: 0.03, 0.01, 0.02; CSP 0.07, 0.07, "
        "0.03; docs/methods.md, MNIST, label propagation",
        (
            ("CSP", "clusters need not be the classes of the labels, or labels may change (refit)"),
            ("Poisson", "classes may be of any size"),
            ("CSCGFHF", "one label a class, and classes that the graph shows"),
        ),
        class_mass,
    ),
    Rule(
        "pairs, two clusters",
        lambda s: by_pairs(s) and s.count.k == 2,
        "ConstrainedAP",
        "{k.pairs:,} pairs and two clusters, where pairs are spread as a Gaussian process: wrong "
        "ones are expected",
        "bench/suggest.py, K = 2, n/20 to 2n pairs: 0.03 to 0.01, also with 10 % wrong; "
        "bench/papers/RESULTS.md, PCCC's sets: 0.914, second of seven",
        (("SRCP", "pairs are certain, and groups must be split or merged"), _CUT),
    ),
    Rule(
        "contradictory pairs",
        lambda s: by_pairs(s) and s.known.contradictions > 0,
        "CSP",
        "{k.contradictions:,} contradictions among {k.pairs:,} pairs: some are wrong, and smooth "
        "vectors outvote these",
        "bench/suggest.py, K > 2, n/2 pairs, 10 % wrong: 0.00; SSSC 0.06, SRCP 0.10",
        (("ConstrainedAP", "the share of wrong pairs is known (noise)"), _CUT),
    ),
    Rule(
        "many pairs",
        lambda s: by_pairs(s) and s.known.per_node >= _MANY_PAIRS,
        "SRCP",
        "{k.pairs:,} pairs, {k.per_node:.2g} a node: enough to change the graph itself",
        "bench/suggest.py, K > 2, n/2 and 2n pairs: 0.01, 0.00; docs/methods.md, random pairs",
        (
            ("CSP", "quicker, and pairs may be wrong"),
            ("E2CP", "as good, slower, sometimes a little better"),
        ),
    ),
    Rule(
        "some pairs",
        lambda s: by_pairs(s) and s.known.per_node >= _FEW_PAIRS,
        "SSSC",
        "{k.pairs:,} pairs, {k.per_node:.2g} a node: enough to weigh against the cut, too few "
        "to change the graph itself",
        "bench/suggest.py, K > 2, n/5 pairs: 0.02, CSP 0.03; docs/methods.md, random pairs",
        (("CSP", "pairs may be wrong"), ("SRCP", "more pairs, or groups to be split or merged")),
    ),
    Rule(
        "few pairs",
        by_pairs,
        "ConstrainedAP",
        "{k.pairs:,} pairs for {s.n:,} nodes, {k.per_node:.2g} a node: few, so that the graph must "
        "carry them far, as a Gaussian process does",
        "bench/suggest.py, K > 2, n/20 pairs: 0.05, FastGE 0.04, SSSC 0.09, CSP 0.11; "
        "docs/methods.md, MNIST, 300 pairs: 0.844, FastGE 0.728",
        (("SSSC", "thousands of pairs"), ("CSP", "pairs may be wrong"), _CUT),
    ),
    Rule(
        "anything else",
        lambda s: True,
        "CSP",
        "labels, pairs or a second graph, about {k.nodes:,} nodes and {s.count.k} clusters: one "
        "problem takes all of them",
        "docs/methods.md; bench/papers/RESULTS.md, WD14",
        (("SSSC", "a weight for what is known (gamma) is to be set by hand"), _CUT),
    ),
)


def applied(seen: DataProfile) -> tuple[Rule, dict[str, Any]]:
    """The first rule that applies, and the parameters of its method."""
    rule = next(one for one in RULES if one.applies(seen))
    parameters = rule.parameters(seen)
    if rule.method not in _WITHOUT_CLUSTERS:
        count = seen.count
        parameters = {"n_clusters": "auto" if count.source == "later" else count.k, **parameters}
    return rule, parameters
