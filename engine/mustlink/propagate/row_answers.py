"""From a method's values to class distributions where rows are on disk or on ranks.

The steps of `distribution`, whose sums over nodes are sums of a space.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.propagate.distribution import BEYOND, EMPTY, onto_simplex
from mustlink.propagate.row_task import RowTask
from mustlink.space import Block, Small, Vector

Array = NDArray[Any]


def row_distributions(
    task: RowTask, scores: Block, shares: Small | None, *, masses: bool, floor: float
) -> Block:
    """Rows (n, K) that sum to 1, zero rows where nothing is known; see `distributions`."""
    space, possible = task.space, task.possible
    part = task.laplacian.null.component
    if not masses:
        unit = _unit(task, scores)

        def nearest(F: Array, part: Array, inside: Array) -> Array:
            P = np.zeros_like(F)
            P[inside] = onto_simplex(np.where(possible[part], F / unit, -np.inf)[inside])
            return P

        return space.rowwise(nearest, scores, part, task.inside)

    def cut(F: Array, part: Array, inside: Array) -> Array:
        return np.where(possible[part] & inside[:, None], np.maximum(F, 0.0), 0.0)

    P = space.rowwise(cut, scores, part, task.inside)
    least = floor * float(space.peaks(space.rowwise(_row_sums, P))[0])
    factor = np.ones(task.n_classes)
    if shares is not None:
        mass = space.gram(space.column(task.without_label), P)[0]
        factor = shares / np.maximum(mass, max(EMPTY * mass.max(initial=0.0), 1e-300))
        factor /= factor.max()

    def divided(P: Array) -> Array:
        total = P.sum(axis=1, keepdims=True)
        silent = total <= least
        P = P / np.where(silent, 1.0, total) * factor
        P /= np.where(silent, 1.0, P.sum(axis=1, keepdims=True))
        return np.where(silent, 0.0, P)

    return space.rowwise(divided, P)


def _unit(task: RowTask, scores: Block) -> float:
    """Root mean square of the values, or what most rows have; see `distribution`."""
    space = task.space
    largest = float(np.abs(space.peaks(scores)).max())
    if largest == 0.0:
        return 1.0

    def squares(F: Array, copies: Array) -> Array:
        return np.asarray(np.mean((F / largest) ** 2, axis=1) * copies)[:, None]

    total = task.by_parts(space.rowwise(squares, scores, task.copies)).sum()
    size = float(np.sqrt(total / task.n_copies))
    spread = space.rowwise(lambda F: np.ptp(F, axis=1) / largest, scores)
    if 2 * _below(task, spread, size / BEYOND) <= task.size:
        return size * largest
    usual = _median(task, spread)
    return largest * (min(size, BEYOND * usual) if usual > 0 else size)


def _below(task: RowTask, values: Vector, limit: float) -> int:
    """How many reached nodes have values below a limit."""

    def rows(value: Array, inside: Array) -> Array:
        return ((value < limit) & inside).astype(np.float64)[:, None]

    return round(float(task.by_parts(task.space.rowwise(rows, values, task.inside)).sum()))


def _median(task: RowTask, values: Vector) -> float:
    """Median of values >= 0 of reached nodes: the bits of such numbers rise as they do."""
    found = []
    for rank in ((task.size - 1) // 2, task.size // 2):
        low, high = 0, int(np.float64(np.inf).view(np.int64))  # at most `rank` are below low
        while high - low > 1:
            middle = (low + high) // 2
            limit = float(np.int64(middle).view(np.float64))
            low, high = (middle, high) if _below(task, values, limit) <= rank else (low, middle)
        found.append(float(np.int64(low).view(np.float64)))
    return float(np.mean(found))


def _row_sums(P: Array) -> Array:
    return P.sum(axis=1, keepdims=True)
