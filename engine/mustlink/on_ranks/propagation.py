"""Labels spread on ranks, by every propagator that runs there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.check import as_random_state
from mustlink.cost.method_cost import TOGETHER
from mustlink.graph.graph import is_network
from mustlink.labels import as_labels
from mustlink.on_ranks.work import RankWork
from mustlink.propagate.answers import conclude
from mustlink.propagate.held_out import spread
from mustlink.propagate.prior import Told

RANKS = "on ranks"


def propagate(
    work: RankWork,
    estimator: Any,
    y: NDArray[np.integer[Any]],
    info: Mapping[str, Any],
    n_entries: int,
    believed: tuple[Any, Any] | None = None,
) -> Any:
    """Fit a propagator to labels `y` (n,), -1 unknown, and on rank 0 set what its `fit` sets.

    `info` and `n_entries` tell what graph it is, `believed` are a prior (n, K) and its belief (n,).
    Returns the estimator on rank 0, None on others. The same on any number of ranks, bit by bit.
    """
    n = work.n_nodes
    labels = as_labels(y, n, "y")
    told = Told.of(labels, n, None, None, work.recorder, *(believed or (None, None)))
    seed = int(as_random_state(estimator.random_state).integers(2**31))
    how: Any = {"network": is_network(info, n, n_entries) and told.prior is None}
    found = spread(estimator, work, told, info, seed, together=TOGETHER, **how)
    P, peaks = work.leave(found.distributions), work.peaks()
    if P is None:
        return None
    estimator.classes_ = told.classes
    parts = work.laplacian.null.n_components + work.isolated
    conclude(estimator, found, P, told, f"{type(estimator).__name__}, {RANKS}", parts)
    report = estimator.report_
    choices = {**report.choices, "ranks": work.ranks.count}
    extra = {**report.extra, "peak_bytes_of_ranks": peaks}
    estimator.report_ = replace(report, choices=choices, extra=extra)
    return estimator
