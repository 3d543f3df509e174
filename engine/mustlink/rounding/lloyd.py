"""Lloyd's steps of k-means on rows, wherever they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.nearest_centre import nearest_centre
from mustlink.space import Block, Gram, GroupSums, Small, Space, Vector

_STEPS = 20
_NOTHING = 1e-12  # of the largest weight of a cluster: rounding left by a difference
_TOL = 1e-4  # of the mean variance of the columns: a smaller move of all centres ends it


@dataclass(frozen=True, eq=False)
class Assignment:
    """Clusters (m,) from 0, the centres (k, r) in the transformed embedding, and the inertia."""

    labels: Vector
    centers: Small
    inertia: float


def lloyd(space: Space, rows: Block, centers: Small) -> Assignment:
    """At most 20 of Lloyd's steps from these centres, fewer where they stop moving.

    A cluster that loses all its rows takes over the row farthest from its own centre. A node
    counts as often as its weight says. Cost: n·k·r a step, one reduction.
    Source: Lloyd 1982; empty clusters as scikit-learn does.
    """
    k, ones = len(centers), space.weighted(space.rowwise(_ones, rows))
    weighed = space.weighted(rows)
    tol = _TOL * _variance(space, rows, ones)
    labels = space.rowwise(lambda X: nearest_centre(X, centers), rows)
    for _ in range(_STEPS):
        total, count = space.sums(GroupSums(weighed, labels, k), GroupSums(ones, labels, k))
        filled = not count.all() and _fill(
            space, (rows, ones), _squares(space, rows, labels, centers), labels, total, count
        )
        # A cluster whose only row was taken over stays where it is: nothing has no mean.
        there = count > _NOTHING * count.max()
        before, centers = centers, np.where(there, total / np.where(there, count, 1.0), centers)
        labels = space.rowwise(lambda X, C=centers: nearest_centre(X, C), rows)
        if not filled and float(((centers - before) ** 2).sum()) <= tol:
            break
    inertia = space.gram(ones, _squares(space, rows, labels, centers))
    return Assignment(labels, centers, float(inertia[0, 0]))


def _fill(
    space: Space,
    data: tuple[Block, Block],
    squares: Block,
    labels: Vector,
    total: Small,
    count: Small,
) -> bool:
    """Give every empty cluster the farthest row that is left, by changing sums and counts.

    Returns whether there were such rows.
    """
    rows, ones = data
    empty = np.flatnonzero(count[:, 0] == 0)
    far = space.largest(squares, empty.size)
    taken, weight = space.take(rows, far), space.take(ones, far)
    if not space.take(squares, far).any():  # fewer distinct rows than clusters
        return False
    before = space.take(space.column(labels), far)[:, 0].astype(np.int64)
    for new, old, row, w in zip(empty, before, taken, weight, strict=True):
        total[old] -= w * row
        count[old] -= w
        total[new], count[new] = w * row, w
    return True


def _squares(space: Space, rows: Block, labels: Vector, centers: Small) -> Block:
    """Squared distance of every row from its centre, (n, 1)."""
    return space.rowwise(
        lambda X, own: ((X - centers[own]) ** 2).sum(axis=1, keepdims=True), rows, labels
    )


def _variance(space: Space, rows: Block, ones: Block) -> float:
    """Mean variance of the columns, by differences from the mean."""
    plain = space.rowwise(_ones, rows)
    total, count = space.sums(Gram(ones, rows), Gram(ones, plain))
    mean = total / count
    squares = space.rowwise(lambda X: ((X - mean) ** 2).sum(axis=1, keepdims=True), rows)
    return float(space.gram(ones, squares)[0, 0] / count[0, 0] / rows.shape[1])


def _ones(X: NDArray[Any]) -> NDArray[np.float64]:
    return np.ones((len(X), 1))
