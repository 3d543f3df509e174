"""Cluster numbers that stay the same from one clustering to the next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Ints = NDArray[np.int64]


class Renumbered(NamedTuple):
    """Labels (n,) with the numbers of clusters before, and what became of the clusters.

    `new` are the numbers of clusters that share no node with one before or are more than there
    were, `gone` those no longer there.
    """

    labels: Ints
    new: tuple[int, ...]
    gone: tuple[int, ...]


def renumbered(before: Ints, after: Ints, first_new: int) -> Renumbered:
    """Clusters `after` (n,) with the numbers of those `before` that most nodes stay in.

    Pairs of clusters are those that share most nodes in all (Hungarian method). A cluster that is
    left over gets a number from `first_new` on, which no cluster had: a number never comes to mean
    something else. Unassigned nodes stay -1. Cost O(n + K³).
    """
    (old, row), (now, column) = _coded(before), _coded(after)
    both = (row >= 0) & (column >= 0)
    cells = row[both] * now.size + column[both]
    shared = np.bincount(cells, minlength=old.size * now.size).reshape(old.size, now.size)
    rows, columns = linear_sum_assignment(-shared)
    same = shared[rows, columns] > 0
    number = np.full(now.size, -1, dtype=np.int64)
    number[columns[same]] = old[rows[same]]
    left = np.flatnonzero(number < 0)
    number[left] = np.arange(first_new, first_new + left.size)
    labels = np.append(number, -1)[column]
    gone = np.setdiff1d(old, number)
    return Renumbered(labels, tuple(number[left].tolist()), tuple(gone.tolist()))


def _coded(labels: Ints) -> tuple[Ints, Ints]:
    """The numbers (k,) that there are, rising, and the place of each label (n,) among them, or -1.

    Numbers are not many more than the labels: sorting would take ten times as long.
    """
    there = np.bincount(labels + 1)[1:] > 0
    place = np.append(-1, np.cumsum(there) - 1)
    return np.flatnonzero(there), place[labels + 1]


def aligned(before: Ints, after: Ints, k: int) -> tuple[Ints, float]:
    """`after` with its k clusters renumbered to overlap most with `before`; share that moved.

    Cost O(n + k³). Unassigned nodes stay -1.
    """
    both = (before >= 0) & (after >= 0)
    overlap = np.bincount(before[both] * k + after[both], minlength=k * k).reshape(k, k)
    rows, columns = linear_sum_assignment(-overlap)
    number = np.empty(k, dtype=np.int64)
    number[columns] = rows
    renamed = np.where(after >= 0, number[np.maximum(after, 0)], -1)
    return renamed, float(np.mean(renamed != before)) if before.size else 0.0


def as_classes(clusters: Ints, codes: Ints, k: int, n_classes: int) -> Ints:
    """Clusters (n,) with the numbers of the classes of their labelled nodes, `codes` (n,) or -1.

    Fewer clusters than classes are numbered without gaps; else a labelled node in no cluster
    belongs to its class. Cost O(n + max(k, n_classes)³).
    """
    labels, _ = aligned(codes, clusters, max(k, n_classes))
    if k >= n_classes:
        return np.where((labels < 0) & (codes >= 0), codes, labels)
    there = labels >= 0
    labels[there] = np.unique(labels[there], return_inverse=True)[1]
    return labels
