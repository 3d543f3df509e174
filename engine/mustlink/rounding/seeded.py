"""k-means that starts from labels: one cluster a class, at the mean of its labelled rows.

Source: Basu, Banerjee & Mooney 2002, Seeded-KMeans.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustlink.rounding.assign import kmeans
from mustlink.space import LocalSpace

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Rows = NDArray[np.floating]

_SAMPLE = 20_000  # rows on which starts are compared
_PARTS = 3  # of the labels, held out one after the other


def label_centers(
    rows: Rows, labels: Ints, k: int, seed: int, weights: Floats | None = None
) -> Floats:
    """Centres (k, r): the mean of every class's rows (m, r), in order of the classes.

    `labels` (m,) have -1 for unknown and at most k classes; `weights` (m,) tell how often a row
    counts. Centres beyond the classes are rows drawn with a chance in proportion to the squared
    distance from the nearest centre so far (k-means++, Arthur & Vassilvitskii 2007).
    """
    often = np.ones(len(rows)) if weights is None else weights
    classes = np.unique(labels[labels >= 0])
    own = [labels == c for c in classes]
    centers = [np.average(rows[at], axis=0, weights=often[at]) for at in own]
    if len(centers) == k:
        return np.stack(centers).astype(np.float64)
    rng, far = np.random.default_rng(seed), np.full(len(rows), np.inf)
    for at in range(k - 1):
        far = np.minimum(far, ((rows - centers[at]) ** 2).sum(axis=1))
        if at + 1 == len(centers):
            chance = np.cumsum(far * often)
            drawn = int(np.searchsorted(chance, rng.random() * chance[-1], side="right"))
            centers.append(rows[min(drawn, len(rows) - 1)])
    return np.stack(centers).astype(np.float64)


def seeded_kmeans(
    rows: Rows, labels: Ints, k: int, seed: int, weights: Floats | None = None
) -> Ints:
    """Clusters (m,) by Lloyd's steps from `label_centers`; cluster c is that of the cth class."""
    centers = label_centers(rows, labels, k, seed, weights)
    space = LocalSpace(len(rows), weights)
    found: Ints = kmeans(rows, k, seed, centers=centers, space=space).labels
    return found


def dealt(codes: Ints, rng: np.random.Generator, parts: int = _PARTS) -> Ints:
    """Part (l,) in which a label is held out, classes dealt evenly; -1 for a class's only one."""
    part = np.full(codes.size, -1, dtype=np.int64)
    first = 0
    for c in np.unique(codes):
        own = rng.permutation(np.flatnonzero(codes == c))
        if own.size > 1:
            part[own] = (first + np.arange(own.size)) % parts
            first += own.size
    return part


def held_out_right(
    spaces: tuple[Rows, ...], labels: Ints, k: int, seed: int, weights: Floats | None = None
) -> tuple[int, ...]:
    """How many labels held out seeded k-means answers rightly, on a sample of each space's rows.

    Spaces (m, r) are of the same m nodes, whose `labels` are held out in three parts.
    """
    rng = np.random.default_rng(seed)
    known = np.flatnonzero(labels >= 0)
    rows = np.arange(labels.size)
    if rows.size > _SAMPLE:
        rows = np.union1d(rng.choice(rows.size, _SAMPLE, replace=False), known)
    own = np.unique(labels[known], return_inverse=True)[1]
    codes, part = np.full(rows.size, -1, dtype=np.int64), np.full(rows.size, -1, dtype=np.int64)
    codes[np.searchsorted(rows, known)] = own.ravel()
    part[np.searchsorted(rows, known)] = dealt(own.ravel(), rng)
    right = []
    for space in spaces:
        some, often, count = space[rows], None if weights is None else weights[rows], 0
        for held in range(_PARTS):
            found = seeded_kmeans(some, np.where(part == held, -1, codes), k, seed, often)
            count += int(np.count_nonzero(found[part == held] == codes[part == held]))
        right.append(count)
    return tuple(right)
