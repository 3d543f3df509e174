"""Which pairs to ask, by neighbourhoods: groups of nodes known to be together, and known apart.

Of Xiong, Azimi & Fern (IEEE TKDE 2014): a node is asked about with the neighbourhood that it most
likely belongs to, then, after a "no", with the next likely, until it is in one or is the first of a
new one; pairs that follow from other answers are never asked. Nodes are in the order of the value
of their label (`Walks`), and open questions about a node come before those about a new one. The
likelihood is by the rows of the fit's own embedding.

Beyond their method: answers may be wrong, and one wrong "yes" joins two groups with all that
follows. Where a single answer joins two large parts of a group, other nodes of them are asked, and
after a "no" a third pair: until two answers agree (see `constraints.closure.outvoted`).
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.advice.situation import Situation, Walks, constraints_of_fit
from mustlink.constraints.closure import LARGE, MustTrees, PairGroups, gather, outvoted
from mustlink.core.check import as_integer, as_random_state, check_choice, check_share
from mustlink.core.observe import Unheard
from mustlink.core.state import chosen
from mustlink.discretize.satisfaction import satisfaction
from mustlink.errors import InputError
from mustlink.kernels.threads import threads

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


_MOST = 300  # groups
_MATES = 1.0  # weight of one cluster beside the cosine of the rows


@dataclass(eq=False)
class Neighbourhoods:
    """Groups of working nodes, a list each with its nodes first to last, and which are apart.

    They are those of `pairs`, the certain pairs and labels. `apart` are pairs of groups that are
    known to be apart, `asked` and `avoided` pairs of nodes that need no question.
    """

    situation: Situation
    labels: Ints
    groups: list[list[int]]
    pairs: PairGroups
    apart: set[tuple[int, int]] = field(default_factory=set)
    asked: set[tuple[int, int]] = field(default_factory=set)
    avoided: set[tuple[int, int]] = field(default_factory=set)

    @classmethod
    def of(cls, situation: Situation, avoid: Ints) -> Self:
        """From pairs and labels of nodes with edges; `avoid` (a, 2) working nodes."""
        known, labels = situation.known, None
        pairs, belief = known.merged
        ends = situation.at(pairs)
        there = (ends >= 0).all(axis=1)
        ends, belief = ends[there], belief[there]
        if known.labels is not None:
            labels = np.full(situation.m, -1, dtype=np.int64)
            rows = np.flatnonzero(known.labels >= 0)
            at = situation.at(rows)
            labels[at[at >= 0]] = known.labels[rows[at >= 0]]
        certain = gather(ends[belief > 0], ends[belief < 0], labels)
        certain = certain.without(*outvoted(certain))
        group = np.unique(certain.grouped[0], return_inverse=True)[1]
        groups: list[list[int]] = [[] for _ in range(int(group.max(initial=-1)) + 1)]
        for node, g in zip(certain.nodes.tolist(), group.tolist(), strict=True):
            groups[g].append(node)
        apart = {_pair(*one) for one in group[certain.cannot].tolist()}
        heads = np.unique(group[certain.seed >= 0]).tolist()
        apart |= {(a, b) for i, a in enumerate(heads) for b in heads[i + 1 :]}
        asked, avoided = ({_pair(*one) for one in some.tolist()} for some in (ends, avoid))
        return cls(situation, situation.labels, groups, certain, apart, asked, avoided)

    def second_opinions(self) -> list[tuple[int, int]]:
        """Pairs of nodes to confirm the only answer that joins two large parts of a group.

        Of every group the must-link with the largest parts that nothing else joins; the two nodes
        are the most similar of the parts. Groups with the largest parts first.
        """
        group, refused = self.pairs.grouped
        links = np.column_stack([self.pairs.left, self.pairs.right])
        trees = MustTrees.of(links[~refused], group)
        able = trees.is_bridge & (trees.smaller >= LARGE)
        able[able] = np.flatnonzero(~refused)[trees.link[able]] >= self.pairs.n_chain
        branches = np.flatnonzero(able)
        branches = branches[np.argsort(-trees.smaller[branches], kind="stable")]
        branches = branches[np.sort(np.unique(group[branches], return_index=True)[1])]
        asked = (self._most_similar(*trees.parts(one)) for one in branches.tolist())
        return [pair for pair in asked if pair is not None]

    def _most_similar(self, one: Ints, other: Ints) -> tuple[int, int] | None:
        """The nodes of two parts that are most similar, but for pairs that need no question."""
        first, second = self.pairs.nodes[one[:_MOST]], self.pairs.nodes[other[:_MOST]]
        similarity = self._rows(first) @ self._rows(second).T
        for at in np.argsort(-similarity, axis=None, kind="stable").tolist():
            pair = int(first[at // second.size]), int(second[at % second.size])
            if not self._is_done(*pair):
                return pair
        return None

    def sorted_out(self) -> tuple[list[int], list[int]]:
        """Groups known to be apart from each other, and those that may belong to one of them.

        The largest first, of the few hundred largest.
        """
        order = sorted(range(len(self.groups)), key=lambda g: (-len(self.groups[g]), g))
        sure: list[int] = []
        begun: list[int] = []
        for g in order[:_MOST]:
            known = all(_pair(g, other) in self.apart for other in sure)
            (sure if known else begun).append(g)
        return sure, begun

    def question(self, group: int, others: list[int]) -> tuple[int, int, int] | None:
        """The likeliest other group, a node of this one and one of that; None where none is open.

        The two nodes are as similar as possible: they are the easiest to compare.
        """
        own = self.groups[group][0]
        open_ = [g for g in others if g != group and _pair(g, group) not in self.apart]
        for other in sorted(open_, key=lambda g: (-self._likeness(group, g), g)):
            mates = np.array([m for m in self.groups[other] if _pair(own, m) not in self.asked])
            if not mates.size:
                continue
            mate = int(mates[np.argmax(self._rows(mates) @ self._rows([own])[0])])
            if _pair(own, mate) not in self.avoided:
                return other, own, mate
        return None

    def expect(self, group: int, other: int) -> bool:
        """Answer the pair by the labels of the fit; whether the two are one group then."""
        together = bool(self.labels[self.groups[group][0]] == self._label(other))
        if together:
            self.groups[other] += self.groups[group]
        else:
            self.apart.add(_pair(group, other))
        return together

    def follows(self, one: int, other: int) -> bool:
        """Whether the answer to a pair of nodes is known, or it was asked or refused."""
        g, h = self._group_of.get(one, -1), self._group_of.get(other, -2)
        return g == h or _pair(g, h) in self.apart or self._is_done(one, other)

    def _is_done(self, one: int, other: int) -> bool:
        pair = _pair(one, other)
        return pair in self.asked or pair in self.avoided

    @cached_property
    def _group_of(self) -> dict[int, int]:
        return {node: g for g, group in enumerate(self.groups) for node in group}

    def _likeness(self, g: int, h: int) -> float:
        first, second = (self._rows(self.groups[one]).mean(axis=0) for one in (g, h))
        same = self.labels[self.groups[g][0]] == self._label(h)
        return float(first @ second) + _MATES * same

    def _label(self, group: int) -> int:
        """The cluster that most nodes of a group are in, -2 for none."""
        labels = self.labels[self.groups[group]]
        labels = labels[labels >= 0]
        return int(np.bincount(labels).argmax()) if labels.size else -2

    def _rows(self, nodes: Any) -> Floats:
        """Rows of length 1 of nodes (b, r), of the embedding, or shares of classes."""
        estimator, rows = self.situation.estimator, self.situation.rows[nodes]
        shares = getattr(estimator, "label_distributions_", None)
        found = estimator.embedding_ if shares is None else shares
        Z = np.asarray(found[rows], dtype=np.float64)
        return Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-300)


def _pair(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


_LOOKED = 1_000_000  # pairs that are drawn at most


def pairs_to_ask(
    situation: Situation, n: int, strategy: str, avoid: Ints, rng: np.random.Generator
) -> Ints:
    """Pairs (q, 2) of rows, q <= n; none that follows from what is known, none in `avoid`."""
    ends = situation.at(avoid)
    hoods = Neighbourhoods.of(situation, ends[(ends >= 0).all(axis=1)])
    if strategy == "random":
        found = _at_random(situation, hoods, n, rng)
    else:
        found = _by_neighbourhoods(situation, hoods, n)
    return situation.rows[np.array(found, dtype=np.int64).reshape(-1, 2)]


def _by_neighbourhoods(situation: Situation, hoods: Neighbourhoods, n: int) -> list[list[int]]:
    labelled = situation.labelled.copy()
    labelled[[node for group in hoods.groups for node in group]] = True
    situation = replace(situation, labelled=labelled)
    sure, begun = hoods.sorted_out()
    found = [[one, other] for one, other in hoods.second_opinions()[:n]]
    for group in begun:
        asked = hoods.question(group, sure)
        if asked is not None and len(found) < n:
            found.append([asked[1], asked[2]])
    open_, node = ~labelled, -1
    worth = Walks.of(situation) if len(found) < n else None
    while worth is not None and len(found) < n and open_.any():
        if node >= 0:
            worth.answered(node)
        node = int(np.argmax(np.where(open_, worth.values, -np.inf)))
        open_[node] = False
        hoods.groups.append([node])
        group = len(hoods.groups) - 1
        asked = hoods.question(group, sure)
        if asked is None:  # the first of all, or all others are avoided
            sure += [group] if not sure else []
            continue
        found.append([asked[1], asked[2]])
        if not hoods.expect(group, asked[0]):
            sure.append(group)  # the likeliest is not its own, so none is
    return found


def _at_random(
    situation: Situation, hoods: Neighbourhoods, n: int, rng: np.random.Generator
) -> list[list[int]]:
    """Unknown pairs, equally likely; a node again only after all others.

    Of nodes in a random order on a circle: neighbours first, then the next but one, and so on.
    """
    order, m = rng.permutation(situation.m), situation.m
    each = (
        (order[at], order[(at + step) % m])
        for step in range(1, m // 2 + 1)
        for side in (0, 1)
        for at in range(side, m if 2 * step < m else m // 2, 2)
    )
    open_ = ([int(i), int(j)] for i, j in islice(each, _LOOKED + n) if not hoods.follows(i, j))
    return list(islice(open_, n))


# --- The next questions to a person about a fitted estimator, and when more stop to matter


STRATEGIES = {"labels": ("auto", "walks", "random"), "pairs": ("auto", "neighbourhoods", "random")}


def next_queries(
    est: Any,
    n: int = 10,
    kind: str = "labels",
    strategy: str = "auto",
    avoid: Any = None,
    random_state: Any = 0,
) -> Ints:
    """Rows (q,) whose labels would help a fitted estimator most, or pairs (q, 2), best first.

    q = n, or as many as there are. Rows that have a label are never asked, pairs never that follow
    from what is known (but for second opinions of "neighbourhoods"), nor what is in `avoid`, rows
    (a,) or pairs (a, 2): questions that were answered by "don't know". Equal rows are asked about
    once. Rows without an edge, whose label says nothing about others, come last.

    `strategy` for labels: "walks", which "auto" is, asks the label that reaches most uncertain
    nodes (`advice.situation.Walks`); for pairs: "neighbourhoods" (Xiong, Azimi & Fern 2014), which
    "auto" is; "random". A batch asks nothing twice: after every question the node counts as
    answered. Then `est.refit(...)` with the answers.

    Cost: 8 products with W, and little more for each question. `random_state` is of "random" alone.
    Raises InputError.
    """
    n = as_integer(n, "n", 1)
    check_choice(kind, tuple(STRATEGIES), "kind")
    check_choice(strategy, STRATEGIES[kind], "strategy")
    rng = as_random_state(random_state)
    with threads(getattr(est, "n_jobs", None)):
        situation = Situation.of(est)
        left_out = _avoided(situation, avoid, 1 if kind == "labels" else 2)
        if kind == "pairs":
            return pairs_to_ask(situation, n, strategy, left_out, rng)
        return _labels(situation, n, strategy, left_out, rng)


def _labels(
    situation: Situation, n: int, strategy: str, avoid: Ints, rng: np.random.Generator
) -> Ints:
    open_ = ~situation.labelled
    left_out = situation.at(avoid)
    open_[left_out[left_out >= 0]] = False
    count = min(n, int(np.count_nonzero(open_)))
    if strategy == "random":
        found = rng.choice(np.flatnonzero(open_), count, replace=False).tolist()
    else:
        found, worth = [], Walks.of(situation)
        while len(found) < count:  # of equals the first
            node = int(np.argmax(np.where(open_, worth.values, -np.inf)))
            found.append(node)
            open_[node] = False
            if len(found) < count:
                worth.answered(node)
    asked: Ints = situation.rows[np.array(found, dtype=np.int64)]
    return np.concatenate([asked, situation.alone(avoid)[: n - count]])


def _avoided(situation: Situation, avoid: Any, width: int) -> Ints:
    """Rows (a,) or pairs (a, 2), checked; raises InputError."""
    empty = np.empty(0 if width == 1 else (0, 2), np.int64)
    found = empty if avoid is None else np.asarray(avoid)
    if not found.size:
        return empty
    shape = "(a,) rows" if width == 1 else "(a, 2) pairs of rows"
    n = situation.estimator.graph_.n_rows
    sound = found.dtype.kind in "iu" and found.ndim == width and (width == 1 or found.shape[1] == 2)
    if not sound:
        raise InputError(f"avoid: shape {found.shape}; give {shape}, as whole numbers")
    if found.min() < 0 or found.max() >= n:
        raise InputError(f"avoid: rows from {found.min()} to {found.max()}; there are {n} rows")
    return found.astype(np.int64)


# --- When more answers stop to matter: the fit without a part of them


# Asked pairs build on each other: half of them say far less than half. CSP on usps and optdigits
# was never settled by halves, by tenths from 120 to 180 pairs on, where its ARI ceased to rise.
_HELD, _OF_PAIRS = 0.5, 0.1


@dataclass(frozen=True)
class Settled:
    """A fit compared with fits without a share of the answers, `left_out`.

    `moved` is the share of the rows with another result, `agreed` that of the answers left out
    which the fit to the others predicts (of clusterers: of their pairs), both means over `draws`.
    `enough`: no more rows moved than was allowed, see `settled`.
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
        part = "half" if self.left_out == _HELD else "a tenth"
        return (
            f"{word}: without {part} of the answers {self.moved:.1%} of the rows get another "
            f"result, which agrees with {self.agreed:.0%} of the answers left out"
        )


def settled(est: Any, moved: float = 0.02, draws: int = 3, random_state: Any = 0) -> Settled:
    """Whether more answers would change a fitted estimator by more than a share `moved` of rows.

    A share of as many as would change if all results were shuffled, 1 − Σp_c² of the rows by the
    shares p_c of the results, less one row, which is chance: where most rows are of one class few
    others decide.

    It is refitted to a random half of its side information, of pairs alone to nine tenths, `draws`
    times, fewer where these have moved more rows than all may; the estimator itself stays as it is.
    If doubling the answers has changed few rows, doubling them again will change fewer, as what
    helps most was asked first. Wrong answers show as `agreed` well below 1 while little moves.
    Cost: up to `draws` refits. Raises InputError.
    """
    check_share(moved, "moved")
    draws = as_integer(draws, "draws", 1)
    rng = as_random_state(random_state)
    est = chosen(est)
    known = constraints_of_fit(est)
    if known.is_empty:
        return Settled(1.0, 0.0, enough=False, draws=0)
    share = _OF_PAIRS if known.kind == "pairs" else _HELD
    shares = np.unique(est.labels_, return_counts=True)[1] / est.labels_.size
    limit = max(moved * (1.0 - float(shares @ shares)) - 1.0 / est.labels_.size, 0.0)
    found: list[tuple[float, float]] = []
    for _ in range(draws):
        if sum(one for one, _ in found) > draws * limit:
            break  # whatever the others are, their mean is above the limit
        rest, held = known.split(share, rng)
        with suppress(InputError):  # the rest may be too little
            if not held.is_empty:  # as with one label a class
                found.append(_without(est, rest, held))
    if not found:
        return Settled(1.0, 0.0, enough=False, draws=0)
    changed, agreed = (float(np.mean(column)) for column in zip(*found, strict=True))
    return Settled(changed, agreed, changed <= limit, len(found), share)


def _without(est: Any, rest: Any, held: Any) -> tuple[float, float]:
    """Share of the rows with another result without `held`, and of `held` that is predicted."""
    twin = copy(est)
    if hasattr(est, "given_labels_"):
        out = held.labels >= 0
        labels = np.asarray(est.given_labels_)
        nothing = "" if labels.dtype.kind in "OU" else -1
        twin.refit(np.where(out, nothing, labels), observer=Unheard())
        right = float(np.mean(twin.labels_[out] == labels[out]))
    else:
        twin.refit(constraints=rest, observer=Unheard())
        right = satisfaction(twin.labels_, held, given=rest)["kept_weighted"]
    return float(np.mean(twin.labels_ != est.labels_)), right
