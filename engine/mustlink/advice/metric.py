"""Which distance: by what is known, where it tells, else by what the numbers look like."""

from __future__ import annotations

from typing import Any

import numpy as np

from mustlink.advice.agreement import Comparison
from mustlink.advice.observations import Coordinates
from mustlink.advice.points_look import are_counts
from mustlink.neighbours.points_by_rows import is_rows

_BETTER = 0.03  # agreement by which cosine must win
_ENOUGH = 50  # labelled nodes or pairs
_ROWS = 1 << 15


def choose_metric(
    points: Any, coordinates: Coordinates, comparison: Comparison
) -> tuple[str, str, float | None]:
    """The metric, why if it is not Euclidean, and the agreement of what is known with it."""
    plain = comparison.with_points(points, "euclidean")
    words = are_counts(coordinates, points.shape[1])
    if not (words or (plain is not None and comparison.size >= _ENOUGH)):
        return "euclidean", "", plain
    if _has_empty_rows(points):
        return "euclidean", "", plain
    turned = comparison.with_points(points, "cosine")
    if plain is not None and turned is not None and comparison.size >= _ENOUGH:
        if turned < plain + _BETTER:
            return "euclidean", "", plain
        what = "label" if comparison.by_labels else "pair"
        reason = (
            f"angles between points agree with {turned:.0%} of the {comparison.size} {what}s "
            f'compared, distances with {plain:.0%}: metric="cosine"'
        )
        return "cosine", reason, turned
    reason = (
        f"{coordinates.zeros:.0%} of the values are 0, none is negative, as in counts of words: "
        'angles tell more than distances, metric="cosine"'
    )
    return "cosine", reason, turned


def _has_empty_rows(points: Any) -> bool:
    """Whether a row is all zeros and so has no direction. Reads everything."""
    n = int(points.shape[0])
    blocks = (points[a : a + _ROWS] for a in range(0, n, _ROWS)) if is_rows(points) else (points,)
    return any(not np.asarray(block).any(axis=1).all() for block in blocks)
