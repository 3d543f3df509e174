"""Columns of points made comparable before distances are taken: by what the numbers look like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler

from mustlink.advice.observations import Coordinates, Floats, are_counts
from mustlink.preprocessing.request import Preparation, column_title, listed
from mustlink.preprocessing.survey import without

_UNLIKE = 10.0  # times the median of the other columns: standard deviation, and range
_OF_ONE_KIND = 0.95  # rank correlation of falling deviations, as principal components have them


def choose_columns(
    X: Floats, c: Coordinates, names: Sequence[str] = (), numbers: Sequence[int] = ()
) -> tuple[Preparation, tuple[str, ...]]:
    """Steps for the columns of a sample X (m, d), and the reasons.

    Columns of different units are standardised; the columns `numbers` only number the rows and are
    left out. `names` of the columns are for the reasons.
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
    far = _ratio(s) >= _UNLIKE and _ratio(e) >= _UNLIKE
    v = s**2
    few = v.sum() ** 2 <= np.square(v).sum() * max(s.size / 2, 1.0001)
    return bool(far and few and not _are_components(X[:, varies], s) and not _are_shares(X))


def _ratio(sizes: NDArray[np.float64]) -> float:
    """The largest size by the median of the others."""
    order = np.sort(sizes)
    return float(order[-1] / np.median(order[:-1]))


def _are_components(X: Floats, spread: NDArray[np.float64]) -> bool:
    d = spread.size
    if d < 5:
        return False
    ranks = np.empty(d)
    ranks[np.argsort(-spread)] = np.arange(d)
    falls = np.corrcoef(ranks, np.arange(d))[0, 1] >= _OF_ONE_KIND
    apart = np.abs(np.corrcoef(X, rowvar=False, dtype=np.float64) - np.eye(d)).mean() < 0.1
    return bool(falls and apart)


def _are_shares(X: Floats) -> bool:
    total = X.sum(axis=1, dtype=np.float64)
    return bool(X.min() >= 0 and total.min() > 0 and np.ptp(total) <= 1e-3 * total.mean())


def transformers(steps: Preparation) -> list[tuple[Any, str, str]]:
    """scikit-learn's transformers for the steps, in order, each with its code and its import."""
    found: list[tuple[Any, str, str]] = []
    if steps.impute:
        code = f"SimpleImputer(strategy={steps.impute!r})"
        found.append(
            (SimpleImputer(strategy=steps.impute), code, "sklearn.impute import SimpleImputer")
        )
    if steps.drop:
        columns = list(steps.drop)
        found.append(
            (
                make_column_transformer(("drop", columns), remainder="passthrough"),
                f'make_column_transformer(("drop", {columns}), remainder="passthrough")',
                "sklearn.compose import make_column_transformer",
            )
        )
    if steps.standardize:
        found.append(
            (StandardScaler(), "StandardScaler()", "sklearn.preprocessing import StandardScaler")
        )
    return found
