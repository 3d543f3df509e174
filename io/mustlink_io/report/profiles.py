"""What clusters are, in the words of the data: columns, typical rows, terms, hubs; and doubts.

A cluster is set apart by a column where

    |m_c − m_r| / s,   m_c and m_r its means in the cluster and in the rest, s its deviation in all

is large; a word of a column of words counts as a column of 0 and 1, so that both have one unit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core.check import class_of_most
from mustlink_io.hdf5 import store
from mustlink_io.jobs.points import RowSource, cell

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST = 30  # clusters that are described
_COLUMNS, _ROWS, _SHOWN, _WORDS, _HUBS, DOUBTS = 5, 3, 8, 8, 5, 10  # named of each
_APART = 0.3  # deviations by which a column sets a cluster apart
_VALUES = 50  # different words above which a column of words is left out
_FEW = 3  # names of nodes that have a word, at least
_ALIEN, _OTHER = 0.25, 0.5  # shares of its neighbours' weight: a label that is perhaps wrong


@dataclass(frozen=True, eq=False)
class Material:
    """What is known of n rows: their clusters `labels` (n,), -1 none, `known` labels of some.

    `shares` (n, K) are memberships in the clusters `groups` (K,), `names` calls rows, `affinity`
    (g, g) is the graph, whose nodes the rows are by `nodes` (n,), None: node i is row i. Rows that
    the page shows, `is_shown`, have more and typical ones in any case.
    """

    labels: Ints
    source: RowSource
    groups: Sequence[int]
    known: Ints | None = None
    shares: Floats | None = None
    names: NDArray[Any] | None = None
    affinity: sp.csr_matrix | None = None
    nodes: Ints | None = None
    is_network: bool = False
    is_shown: bool = False

    def called(self, row: int) -> str | None:
        """The name of a row, if it has one."""
        return None if self.names is None else store.text(self.names[row])


def described(of: Material) -> dict[str, Any]:
    """Facts of a report: `groups`, `doubtful` rows, `suspects` among labels, and `why` not more."""
    groups = of.groups[:MOST]
    units = _Columns(of.source)
    texts = _Texts(of.source)
    hubs = _hubs(of, groups)
    words = _words_of_names(of, groups)
    found = []
    for at, group in enumerate(groups):
        inside = of.labels == group
        columns = units.apart(inside)
        typical = []
        if not of.is_network or of.is_shown:
            typical = units.typical(inside, of, columns, texts)
        found.append(
            {
                "name": int(group),
                "columns": columns,
                "typical": typical,
                "words": words[at] if words else texts.terms(inside),
                "hubs": hubs[at] if hubs else [],
            }
        )
    return {
        "groups": found,
        "doubtful": _doubtful(of),
        "suspects": _suspects(of),
        "why": store.text(of.source.why) if not of.is_network else "",
    }


class _Columns:
    """Columns of numbers, and words as columns of 0 and 1, with what each is called."""

    def __init__(self, source: RowSource) -> None:
        self.titles: list[tuple[str, str | None]] = []
        self.values: list[Floats] = []
        self.source = source
        for title, cells in source.columns.items():
            if title == source.text:
                continue
            if cells.dtype.kind != "O":
                self._take(title, None, np.asarray(cells, dtype=np.float64))
                continue
            counts = Counter(cells.tolist())
            if len(counts) <= _VALUES:
                for word in sorted(word for word in counts if word):
                    self._take(title, word, (cells == word).astype(np.float64))

    def _take(self, title: str, word: str | None, values: Floats) -> None:
        spread = float(np.nanstd(values)) if np.isfinite(values).any() else 0.0
        if spread > 0:
            self.titles.append((title, word))
            self.values.append(values)

    def apart(self, inside: NDArray[np.bool_]) -> list[dict[str, Any]]:
        """The columns that set a cluster apart most, one entry a column, with both values."""
        if not inside.any() or inside.all():
            return []
        found: dict[str, dict[str, Any]] = {}
        for (title, word), values in zip(self.titles, self.values, strict=True):
            here, rest = (values[part] for part in (inside, ~inside))
            if not (np.isfinite(here).any() and np.isfinite(rest).any()):
                continue
            a, b = float(np.nanmean(here)), float(np.nanmean(rest))
            score = abs(a - b) / float(np.nanstd(values))
            known = found.get(title)
            if score >= _APART and (known is None or known["score"] < score):
                found[title] = {
                    "column": store.text(title),
                    "value": None if word is None else store.text(word),
                    "here": a,
                    "rest": b,
                    "score": score,
                    "higher": a > b,
                    "is_share": word is not None or bool(np.isin(values, (0, 1)).all()),
                }
        return sorted(found.values(), key=lambda one: -one["score"])[:_COLUMNS]

    def typical(
        self,
        inside: NDArray[np.bool_],
        of: Material,
        columns: Sequence[Mapping[str, Any]],
        texts: _Texts,
    ) -> list[dict[str, Any]]:
        """Rows nearest to the mean of their cluster, with their values in its columns, in order.

        Nearest in its columns, else by the words of texts.
        """
        rows = np.flatnonzero(inside)
        wanted = {(one["column"], one["value"]) for one in columns}
        distance = np.zeros(rows.size)
        for (title, word), values in zip(self.titles, self.values, strict=True):
            if (store.text(title), None if word is None else store.text(word)) in wanted:
                away = (values[rows] - np.nanmean(values[rows])) / np.nanstd(values)
                distance += np.nan_to_num(away, nan=1.0) ** 2
        if not wanted and texts.there:
            distance = -texts.nearness(inside)
        elif not wanted and of.shares is not None:
            distance = -of.shares[rows].max(axis=1)
        elif not wanted and not of.is_shown:
            return []
        best = rows[np.argsort(distance, kind="stable")[: _SHOWN if of.is_shown else _ROWS]]
        titles = {store.text(title): title for title in self.source.columns}
        shown = [titles[one["column"]] for one in columns]
        if not shown and self.source.text is not None:
            shown = [self.source.text]
        return [
            {
                "row": int(row),
                "name": of.called(int(row)),
                "cells": [store.text(cell(self.source.columns[title][row])) for title in shown],
            }
            for row in best
        ]


class _Texts:
    """Texts as rows of tf-idf of length 1, if there are any."""

    def __init__(self, source: RowSource) -> None:
        self.there = False
        if source.text is None or not source.columns:
            return
        from sklearn.feature_extraction.text import TfidfVectorizer

        made = TfidfVectorizer(
            sublinear_tf=True, strip_accents="unicode", max_df=0.5, stop_words="english"
        )
        with suppress(ValueError):  # no words
            self.rows = made.fit_transform(source.columns[source.text].tolist())
            self.words, self.there = made.get_feature_names_out(), True

    def terms(self, inside: NDArray[np.bool_]) -> list[str]:
        """Words of most tf-idf in a cluster (n,), less that in the rest."""
        if not self.there:
            return []
        here, rest = (
            np.asarray(self.rows[part].sum(axis=0)).ravel() / max(part.sum(), 1)
            for part in (inside, ~inside)
        )
        best = np.argsort(rest - here, kind="stable")[:_WORDS]
        return [str(self.words[at]) for at in best if here[at] > rest[at]]

    def nearness(self, inside: NDArray[np.bool_]) -> Floats:
        """Products of the rows of a cluster (n,) with their mean."""
        rows = self.rows[inside]
        return rows @ np.asarray(rows.mean(axis=0)).ravel()


def _words_of_names(of: Material, groups: Sequence[int]) -> list[list[str]]:
    """Words that names of a cluster's nodes have oftener than others'."""
    if not of.is_network or of.names is None:
        return []
    split = [set(re.findall(r"[^\W\d_]{3,}", str(name).lower())) for name in of.names]
    total = Counter(word for words in split for word in words)
    found = []
    for group in groups:
        rows = np.flatnonzero(of.labels == group)
        here = Counter(word for row in rows for word in split[row])
        share = rows.size / max(of.labels.size, 1)
        often = [
            (count / (1 + total[word] * share), word)
            for word, count in here.items()
            if count >= _FEW and count > 2 * total[word] * share
        ]
        found.append([word for _, word in sorted(often, reverse=True)[:_WORDS]])
    return found


def _hubs(of: Material, groups: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Nodes of a network with most weight of edges inside of their cluster."""
    if not of.is_network or of.affinity is None or of.nodes is not None:
        return []
    W, labels = of.affinity, of.labels
    ends = np.repeat(labels, np.diff(W.indptr))
    weight = np.where(ends == labels[W.indices], W.data, 0.0)
    degree = np.add.reduceat(np.append(weight, 0.0), W.indptr[:-1]) * (np.diff(W.indptr) > 0)
    found = []
    for group in groups:
        rows = np.flatnonzero(labels == group)
        best = rows[np.argsort(-degree[rows], kind="stable")[:_HUBS]]
        found.append(
            [
                {"row": int(row), "name": of.called(int(row)), "weight": float(degree[row])}
                for row in best
            ]
        )
    return found


def _doubtful(of: Material) -> list[dict[str, Any]]:
    """Rows without a label whose largest share leads least, and the two groups between which."""
    P = of.shares
    if P is None or P.shape[1] < 2:
        return []
    two = np.partition(P, P.shape[1] - 2, axis=1)[:, -2:]
    lead = two[:, 1] - two[:, 0]
    out = of.labels < 0
    if of.known is not None:
        out = out | (of.known >= 0)
    rows = np.argsort(np.where(out, np.inf, lead), kind="stable")[:DOUBTS]
    found = []
    for row in rows[~out[rows]].tolist():
        own = int(of.labels[row])
        order = [at for at in np.argsort(-P[row], kind="stable").tolist() if of.groups[at] != own]
        here = list(of.groups).index(own) if own in of.groups else order[0]
        found.append(
            {
                "row": row,
                "name": of.called(row),
                "group": own,
                "share": float(P[row, here]),
                "other": int(of.groups[order[0]]),
                "other_share": float(P[row, order[0]]),
            }
        )
    return found


def _suspects(of: Material) -> list[dict[str, Any]]:
    """Labelled rows whose neighbours are mostly in another group than where their class is."""
    if of.affinity is None or of.known is None or not (of.known >= 0).any():
        return []
    most = class_of_most(of.labels, of.known, 0)
    home = {int(code): at for at, code in reversed(list(enumerate(most.tolist()))) if code >= 0}
    W, n = of.affinity, of.affinity.shape[0]
    labels = of.labels
    if of.nodes is not None:
        labels = np.full(n, -1, dtype=np.int64)
        labels[of.nodes] = of.labels
    found: list[dict[str, Any]] = []
    for row in np.flatnonzero(of.known >= 0).tolist():
        node = row if of.nodes is None else int(of.nodes[row])
        part = slice(W.indptr[node], W.indptr[node + 1])
        near, weight = labels[W.indices[part]], W.data[part]
        there = (near >= 0) & (W.indices[part] != node)
        if not there.any():
            continue
        counted = np.bincount(near[there], weights=weight[there])
        votes = counted / counted.sum()
        other, mine = int(votes.argmax()), home.get(int(of.known[row]), -1)
        own = float(votes[mine]) if 0 <= mine < votes.size else 0.0
        if other != mine and own <= _ALIEN and votes[other] >= _OTHER:
            found.append(
                {
                    "row": row,
                    "name": of.called(row),
                    "given": int(of.known[row]),
                    "other": other,
                    "share": float(votes[other]),
                }
            )
    return sorted(found, key=lambda one: -one["share"])[:DOUBTS]
