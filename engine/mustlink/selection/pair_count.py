"""How many clusters pairs ask for: those of the graph alone, for every K, that agree with them.

A pair takes no part in any of these clusterings, so all of them are held out. They are scored by
the F measure of pairs that are together, in clusters and by what was said,

    F(K) = 2 Σ b⁺s / (Σ b⁺ + Σ |b| s),   s = 1 where clusters have both ends in one

which counts neither what is apart in both nor rewards one giant cluster; K is the smallest whose F
is within a standard error of the largest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.eigen.solver import laplacian_of, smallest_pairs
from mustlink.rounding.assign import kmeans, transform
from mustlink.selection.held_out import sampled_rows
from mustlink.selection.network_counts import ROUGH
from mustlink.space import LocalSpace
from mustlink.workspace import Workspace

Floats = NDArray[np.float64]
_LEAST, _LEAST_MUST = 30, 5  # pairs, and must-links among them, that can tell one K from another
_DRAWS = 200  # of the pairs, for the standard error
_RESTARTS = 3


@dataclass(frozen=True)
class PairCount:
    """K by pairs, the K of largest F, from `low` to `high` of about the same; F and pairs."""

    k: int
    best: int
    low: int
    high: int
    score: float
    n_pairs: int

    @property
    def in_words(self) -> str:
        """What was found."""
        told = f"of {self.n_pairs:,} pairs clusters of the graph keep most at {self.best} "
        told += f"(F measure {self.score:.2f})"
        if self.low < self.high:
            told += f", about as many from {self.low} to {self.high}"
        return told


def can_count_by_pairs(known: Constraints) -> bool:
    """Whether there are pairs enough, of both kinds."""
    belief = known.merged[1]
    return enough_pairs(int((belief > 0).sum()), int((belief < 0).sum()))


def enough_pairs(must: int, cannot: int) -> bool:
    """Whether so many pairs can tell one K from another."""
    return bool(must + cannot >= _LEAST and must >= _LEAST_MUST and cannot > 0)


def count_by_pairs(work: Workspace, known: Constraints, most: int, seed: int) -> PairCount | None:
    """K from 2 to `most` by what pairs say of clusters of the graph; None where they say nothing.

    Cost: `most` eigenvectors, and k-means of a sample for every K.
    """
    laplacian = laplacian_of(work)
    found = smallest_pairs(work, most, tol=ROUGH, seed=seed)
    parts = min(most, laplacian.null.n_components)
    Z = np.column_stack([laplacian.null.columns(np.arange(parts)), found.vectors])[:, :most]
    if parts == 0:  # regularised degrees: as NCut sees their vectors
        Z = Z * (1.0 - found.values[:most])
    pairs, belief = known.merged
    sample = sampled_rows(laplacian, np.unique(pairs), seed)
    place = np.full(known.n_nodes, -1, dtype=np.int64)
    place[sample.nodes] = np.arange(sample.rows.size - sample.nodes.size, sample.rows.size)
    ends = place[pairs]
    good = (ends >= 0).all(axis=1) & (ends[:, 0] != ends[:, 1]) & (belief != 0)
    ends, belief = ends[good], belief[good]
    if ends.shape[0] < _LEAST or not (belief > 0).any() or (belief > 0).all():
        return None
    rows = laplacian.space.take(Z, sample.rows)
    numbers = range(2, min(Z.shape[1], most) + 1)
    space = LocalSpace(len(rows), sample.counts)
    same = np.empty((len(numbers), len(ends)))
    with work.recorder.stage("numbers of clusters by pairs"):
        for at, k in enumerate(numbers):
            directions = transform(np.ascontiguousarray(rows[:, :k], dtype=np.float64), "sphere")
            labels = kmeans(directions, k, seed, restarts=_RESTARTS, space=space).labels
            same[at] = labels[ends[:, 0]] == labels[ends[:, 1]]
    return chosen_count(np.array(numbers), same, belief, seed)


def chosen_count(numbers: NDArray[np.int64], same: Floats, belief: Floats, seed: int) -> PairCount:
    """The smallest of `numbers` (q,) within a standard error of the largest F.

    `same` (q, m) is 1 where clusters have the ends of a pair, of `belief` (m,), together. The error
    is that of the difference, over draws of the pairs with replacement.
    """
    score = f_measure(same, belief, np.ones((belief.size, 1)))[:, 0]
    best = int(score.argmax())
    often = np.random.default_rng(seed).poisson(1.0, (belief.size, _DRAWS)).astype(np.float64)
    drawn = f_measure(same, belief, often)
    error = (drawn[best] - drawn).std(axis=1)
    alike = numbers[score[best] - score <= error]
    low, high = int(alike.min()), int(alike.max())
    return PairCount(low, int(numbers[best]), low, high, float(score[best]), belief.size)


def f_measure(same: Floats, belief: Floats, often: Floats) -> Floats:
    """F (q, d) of q clusterings; `often` (m, d) is how often a draw has each pair."""
    must, told = np.maximum(belief, 0.0), np.abs(belief)
    together = same @ (must[:, None] * often)
    either = must @ often + same @ (told[:, None] * often)
    return np.asarray(2.0 * together / np.maximum(either, np.finfo(np.float64).tiny))
