"""Columns of different units, found by their values, and the steps that make them comparable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler

from mustlink.advice.observations import Coordinates, Floats, are_counts
from mustlink.preprocessing.fitted import without
from mustlink.preprocessing.request import Preparation, column_title, listed

_UNLIKE = 10.0  # times the median of the other columns: standard deviation, and range
_OF_ONE_KIND = 0.95  # rank correlation of falling deviations, as principal components have them


def choose_columns(
    X: Floats, c: Coordinates, names: Sequence[str] = (), numbers: Sequence[int] = ()
) -> tuple[Preparation, tuple[str, ...]]:
    """Steps for the columns of a sample X (m, d), and the reasons.

    Columns of different units are standardised. The columns `numbers` hold row numbers and are left
    out. `names` of the columns are for the reasons.
    """
    steps, reasons = Preparation(drop=tuple(numbers)), list[str]()
    if numbers:
        titles, verb = column_title(numbers[0], names), "only numbers the rows and is"
        if len(numbers) > 1:
            titles, verb = f"columns {listed(numbers, names)}", "only number the rows and are"
        reasons.append(f"{titles}: {verb} left out")
    if not are_counts(c, X.shape[1]) and has_unlike_columns(without(X, numbers)):
        steps = Preparation(drop=steps.drop, standardize="standard")
        reasons.append(
            f"{column_title(c.largest, names)} makes up {c.dominance:.0%} of all variance, its "
            f"standard deviation is {c.spread:,.0f} times the median one: columns are divided by "
            "their standard deviations"
        )
    return steps, tuple(reasons)


def has_unlike_columns(X: Floats) -> bool:
    """Whether few columns are nearly all of the distances by their unit alone.

    The largest standard deviation and range are 10 times the median ones of the other columns, and
    the variance is in at most half of the columns, (Σv)²/Σv² ≤ d/2. Not so of principal components
    (uncorrelated, falling), nor of shares of a whole.
    """
    spread, extent = X.std(axis=0, dtype=np.float64), np.ptp(X, axis=0).astype(np.float64)
    varies = spread > 0
    s, e = spread[varies], extent[varies]
    if s.size < 2:
        return False
    far = all(np.max(x) >= _UNLIKE * np.median(np.sort(x)[:-1]) for x in (s, e))
    v = s**2
    few = v.sum() ** 2 <= np.square(v).sum() * max(s.size / 2, 1.0001)
    total = X.sum(axis=1, dtype=np.float64)
    are_shares = X.min() >= 0 and total.min() > 0 and np.ptp(total) <= 1e-3 * total.mean()
    return bool(far and few and not _are_components(X[:, varies], s) and not are_shares)


def _are_components(X: Floats, spread: NDArray[np.float64]) -> bool:
    d = spread.size
    if d < 5:
        return False
    ranks = np.empty(d)
    ranks[np.argsort(-spread)] = np.arange(d)
    falls = np.corrcoef(ranks, np.arange(d))[0, 1] >= _OF_ONE_KIND
    apart = np.abs(np.corrcoef(X, rowvar=False, dtype=np.float64) - np.eye(d)).mean() < 0.1
    return bool(falls and apart)


def code_of(step: Any) -> str:
    """Python code of a transformer."""
    if isinstance(step, ColumnTransformer):  # whose repr shortens lists
        return f'ColumnTransformer({step.transformers!r}, remainder="passthrough")'
    return repr(step)


def transformers(steps: Preparation) -> list[Any]:
    """scikit-learn's transformers for the steps, in order."""
    found: list[Any] = []
    if steps.impute:
        found.append(SimpleImputer(strategy=steps.impute))
    if steps.drop:
        dropped = [("drop", "drop", list(steps.drop))]
        found.append(ColumnTransformer(dropped, remainder="passthrough"))
    if steps.standardize:
        found.append(StandardScaler())
    return found
