"""Labels spread on ranks: the propagators that are written by the verbs of a space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.check import as_random_state
from mustlink.eigen.rank_work import RankWork
from mustlink.labels import as_labels
from mustlink.propagate.prior import Prior
from mustlink.propagate.reporting import conclude
from mustlink.propagate.row_fit import check_rows, spread
from mustlink.propagate.told import Told

RANKS = "on ranks"


def check(estimator: Any) -> None:
    """Raise InputError for a method, or a parameter, that does not run on ranks."""
    estimator._check()
    check_rows(estimator, RANKS, {})


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
    labels = as_labels(y, work.n_nodes, "y")
    told = Told(labels, labels, None)
    if believed is not None:
        prior = Prior.of_rows(*believed, work.n_nodes, told.classes.size)
        told = replace(told, prior=prior)
    seed = int(as_random_state(estimator.random_state).integers(2**31))
    found = spread(estimator, work, told, info, n_entries, seed)
    P, peaks, advice = work.leave(found.distributions), work.peaks(), found.advice
    if P is None:
        return None
    estimator.classes_ = told.classes
    known = np.flatnonzero(labels >= 0)
    alone = known[work.places(known) < 0]  # labelled, without an edge: they keep their own class
    P[alone, np.searchsorted(told.classes, labels[alone])] = 1.0
    parts = work.laplacian.null.n_components + work.isolated
    name = f"{type(estimator).__name__}, {RANKS}"
    how = found.task, found.solution, found.best, P, told, name, parts
    conclude(estimator, *how, advice=advice)
    report = estimator.report_
    choices = {**report.choices, "ranks": work.ranks.count}
    extra = {**report.extra, "peak_bytes_of_ranks": peaks}
    estimator.report_ = replace(report, choices=choices, extra=extra)
    return estimator
