"""Which kind of rows a metric compares: sparse ones, those of another distance, or cells' own."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from mustlink.core.observe import Recorder
from mustlink.neighbors.any_rows import BY_CELLS, AnyRows


def any_rows(points: Any, metric: Any, recorder: Recorder | None = None) -> AnyRows | None:
    """Rows to be compared by a metric; None for dense ones that cells know. Raises InputError."""
    if sp.issparse(points) or metric == "jaccard":
        from mustlink.neighbors.sparse_points import SparseRows

        return SparseRows.of(points, metric)
    if metric in BY_CELLS:
        return None
    from mustlink.neighbors.distances import ComparedRows

    return ComparedRows.of(points, metric, recorder)
