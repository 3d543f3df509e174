"""What to do to columns of different units before distances are taken: by labels, else by scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.advice.agreement import Comparison
from mustlink.advice.observations import Coordinates
from mustlink.advice.points_look import are_counts
from mustlink.advice.sample import Floats
from mustlink.errors import InputError
from mustlink.preparation.fitted import Fitted
from mustlink.preparation.prepared_rows import prepared
from mustlink.preparation.request import Preparation, column_title, listed
from mustlink.preparation.survey import spans_orders, without

_UNLIKE = 10.0  # times the median of the other columns: standard deviation, and range
_ENOUGH = 30  # labelled nodes or pairs
_BETTER = 0.05  # agreement that columns of one scale must gain to be changed
_CODES_BETTER = 0.02
_FEW_VALUES = 100  # of a column that may be codes
_FEW_CODES = 10
_SMOOTH = 3.0  # times the largest frequency: all steps between frequencies of neighbouring counts
_MOST_TRIALS = 20
NOT_CHANGED: tuple[Preparation, Fitted | None, tuple[str, ...]] = (Preparation(), None, ())
_OF_ONE_KIND = 0.95  # rank correlation of falling deviations, as principal components have them


def choose_columns(
    points: Any,
    X: Floats,
    c: Coordinates,
    comparison: Comparison,
    names: Sequence[str] = (),
    numbers: Sequence[int] = (),
) -> tuple[Preparation, Fitted | None, tuple[str, ...]]:
    """Steps for the columns, fitted to the sample X (m, d), and the reasons; nothing if d = 1.

    Where labels or pairs are known the nearest of them decides (`Comparison`), with a prior for
    columns that are alike to stay and for others to be standardised; else the scales alone.
    `names` of the columns are for the reasons; the columns `numbers` only number the rows and are
    left out in any case.
    """
    nothing = Preparation(drop=tuple(numbers))
    why = _number_reason(numbers, names)
    left_alone = NOT_CHANGED if not numbers else (nothing, prepared(X, nothing).fitted, tuple(why))
    if X.shape[1] - len(numbers) < 2 or are_counts(c, X.shape[1]):
        return left_alone
    X = without(X, numbers)
    unlike = has_unlike_columns(X)
    trial = _Trial(X, comparison.rows(points), comparison)
    plain = trial.agreement(nothing)
    standard = replace(nothing, standardize="standard")
    if plain is None or comparison.size < _ENOUGH:
        if not unlike:
            return left_alone
        logged = tuple(int(at) for at in spans_orders(X))
        steps = replace(standard, log=logged)
        reasons = [*why, _scale_reason(c, names), *_log_reason(steps, names)]
        return steps, prepared(X, steps).fitted, tuple(reasons)
    noise = np.sqrt(max(plain * (1 - plain), 0.01) / comparison.size)
    margin = -2 * noise if unlike else max(_BETTER, 3 * noise)
    logged = tuple(int(at) for at in spans_orders(X))
    candidates = [replace(standard, log=logged), standard] if logged else [standard]
    told = [trial.agreement(one) for one in candidates]
    changes = max(told) >= plain + margin
    first = int(np.argmax(told))  # of equals that with logarithms
    steps, best = (candidates[first], told[first]) if changes else (nothing, plain)
    steps, best = _with_codes(trial, X, steps, best, noise)
    if steps == nothing:
        return left_alone
    what = "labels" if comparison.by_labels else "pairs"
    nearest = f"the nearest of {comparison.size} {what} compared agrees in {best:.0%} so"
    reasons = [*why, *([_scale_reason(c, names)] if unlike and changes else [])]
    if best >= plain:
        reasons.append(f"{nearest}, in {plain:.0%} with the columns as they are")
    else:
        reasons.append(
            f"{nearest} and in {plain:.0%} with the columns as they are, which so few labels do "
            "not tell apart: units decide"
        )
    reasons += [*_log_reason(steps, names), *_code_reason(steps, names)]
    return steps, prepared(X, steps).fitted, tuple(reasons)


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


class _Trial:
    """Agreement of what is known with distances after some steps, fitted to the sample."""

    def __init__(self, X: Floats, known: Floats | None, comparison: Comparison) -> None:
        self._X, self._known, self._comparison = X, known, comparison

    def agreement(self, steps: Preparation) -> Any:
        """None where too little is known."""
        if self._known is None:
            return None
        rows = self._known
        if not steps.is_nothing:
            try:
                rows = prepared(self._X, steps).fitted.transform(rows)
            except InputError:  # a value below 0 outside the sample: these steps are none
                return -1.0
        return self._comparison.of_rows(rows, "euclidean")


def _with_codes(
    trial: _Trial, X: Floats, steps: Preparation, best: float, noise: float
) -> tuple[Preparation, float]:
    """One-hot columns of those whole numbers that, one after another, raise the agreement."""
    for at in _codes(X)[:_MOST_TRIALS]:
        if at in steps.log:
            continue
        more = replace(steps, one_hot=(*steps.one_hot, at))
        told = trial.agreement(more)
        if told is not None and told >= best + max(_CODES_BETTER, noise):
            steps, best = more, told
    return steps, best


def _codes(X: Floats) -> list[int]:
    """Columns of 3 to 100 whole numbers, each 20 times on average or more, that are no counts."""
    found = []
    for at in range(X.shape[1]):
        values, times = np.unique(X[:, at], return_counts=True)
        few = 3 <= values.size <= min(_FEW_VALUES, X.shape[0] // 20)
        if few and bool(np.all(values == np.rint(values))) and not _is_ordered(times):
            found.append(at)
    return found


def _is_ordered(times: NDArray[np.int64]) -> bool:
    """Whether values from the least to the largest are as frequent as counts are.

    Their frequencies rise to a peak and fall, so that all steps together are twice the peak; of
    codes, numbered as it happened, they jump. Of few values that cannot be told.
    """
    steps = np.abs(np.diff(times, prepend=0, append=0)).sum()
    return bool(times.size > _FEW_CODES and steps <= _SMOOTH * times.max())


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


def _number_reason(numbers: Sequence[int], names: Sequence[str]) -> list[str]:
    if not numbers:
        return []
    what = "only numbers the rows and is" if len(numbers) == 1 else "only number the rows and are"
    return [f"{_columns(tuple(numbers), names)}: {what} left out"]


def _scale_reason(c: Coordinates, names: Sequence[str]) -> str:
    return (
        f"{column_title(c.largest, names)} makes up {c.dominance:.0%} of all variance, its "
        f"standard deviation is {c.spread:,.0f} times the median one: columns are divided by their "
        "standard deviations"
    )


def _log_reason(steps: Preparation, names: Sequence[str]) -> list[str]:
    if not steps.log:
        return []
    return [f"{_columns(steps.log, names)}: values over orders of magnitude, log(1 + x)"]


def _columns(numbers: tuple[Any, ...], names: Sequence[str]) -> str:
    if len(numbers) == 1:
        return column_title(numbers[0], names)
    return f"columns {listed(numbers, names)}"


def _code_reason(steps: Preparation, names: Sequence[str]) -> list[str]:
    if not steps.one_hot:
        return []
    told = _columns(steps.one_hot, names)
    return [f"{told}: codes as it seems, a column of 0 and 1 for every value agrees better"]
