"""Pairs by neighbourhoods: nodes that are known to be together, and which of these are apart.

Of Xiong, Azimi & Fern (IEEE TKDE 2014): a node worth asking is asked about together with the
neighbourhood that it most likely belongs to, then, after a "no", with the next likely, until it is
in one or is the first of a new one; what follows from other answers is never asked. Nodes are taken
in the order of what a label of them is worth (`walks`), and of a node that was begun with, the next
question comes before any new one. What is likely is told by the rows of the fit's own embedding:
smooth vectors that its graph happens to hold would make questions depend on other fits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from mustlink.queries.situation import Situation, unit_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_MOST = 300  # groups that are looked at
_MATES = 1.0  # what being in one cluster counts beside the cosine of the rows


@dataclass(eq=False)
class Neighbourhoods:
    """Groups of working nodes, a list each with its nodes first to last, and which are apart.

    `apart` and `avoided` hold pairs of groups, and of nodes, that need not be asked.
    """

    situation: Situation
    labels: Ints
    groups: list[list[int]]
    apart: set[tuple[int, int]] = field(default_factory=set)
    avoided: set[tuple[int, int]] = field(default_factory=set)

    @classmethod
    def of(cls, situation: Situation, avoid: Ints) -> Self:
        """From all that is known of nodes with edges; `avoid` (a, 2) working nodes."""
        given = situation.given
        pairs, belief = given.merged
        ends = situation.at(pairs)
        there = (ends >= 0).all(axis=1)
        ends, belief = ends[there], belief[there]
        links = [ends[belief > 0]]
        told = np.empty(0, np.int64)
        classes = np.empty(0, np.int64)
        if given.labels is not None:
            told_rows = np.flatnonzero(given.labels >= 0)
            told, classes = situation.at(told_rows), given.labels[told_rows]
            told, classes = told[told >= 0], classes[told >= 0]
            order = np.argsort(classes, kind="stable")
            told, classes = told[order], classes[order]
            same = classes[1:] == classes[:-1]
            links.append(np.column_stack([told[:-1], told[1:]])[same])
        nodes = np.unique(np.concatenate([ends.ravel(), told]))
        joined = np.concatenate(links)
        place = np.searchsorted(nodes, joined)
        shape = (nodes.size, nodes.size)
        link = coo_array((np.ones(len(place)), (place[:, 0], place[:, 1])), shape=shape)
        _, group = connected_components(link, directed=False) if nodes.size else (0, nodes)
        groups: list[list[int]] = [[] for _ in range(int(group.max(initial=-1)) + 1)]
        for node, g in zip(nodes.tolist(), np.asarray(group).tolist(), strict=True):
            groups[g].append(node)
        found = cls(situation, situation.labels, groups)
        cannot = np.asarray(group)[np.searchsorted(nodes, ends[belief < 0])]
        found.apart = {_pair(*one) for one in cannot.tolist()}
        if told.size:
            of_class = np.asarray(group)[np.searchsorted(nodes, told)]
            heads = np.unique(of_class).tolist()
            found.apart |= {(a, b) for i, a in enumerate(heads) for b in heads[i + 1 :]}
        found.avoided = {_pair(*one) for one in avoid.tolist()}
        return found

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

        The two nodes are as alike as can be: they are the easiest to compare.
        """
        own = self.groups[group][0]
        open_ = [g for g in others if g != group and _pair(g, group) not in self.apart]
        for other in sorted(open_, key=lambda g: (-self._likeness(group, g), g)):
            mates = np.array(self.groups[other])
            mate = int(mates[np.argmax(self._rows(mates) @ self._rows([own])[0])])
            if _pair(own, mate) not in self.avoided:
                return other, own, mate
        return None

    def begin(self, node: int) -> int:
        """A group of its own for a node of which nothing is known."""
        self.groups.append([node])
        return len(self.groups) - 1

    def expect(self, group: int, other: int) -> bool:
        """Take the pair as answered by the labels of the fit; whether the two are one then."""
        together = bool(self.labels[self.groups[group][0]] == self._label(other))
        if together:
            self.groups[other] += self.groups[group]
        else:
            self.apart.add(_pair(group, other))
        return together

    def follows(self, one: int, other: int) -> bool:
        """Whether a pair of nodes is known, by what was answered or refused."""
        g, h = self._group_of.get(one, -1), self._group_of.get(other, -2)
        return g == h or _pair(g, h) in self.apart or _pair(one, other) in self.avoided

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
        return unit_rows(np.asarray(found[rows], dtype=np.float64))


def _pair(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)
