"""Prepared points by blocks of rows, never all in memory unless they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.preparation.fitted import Fitted, fit
from mustlink.preparation.request import Preparation
from mustlink.preparation.survey import look


class PreparedRows:
    """Points (n, d') prepared as they are read: `rows[a:b]` is float32 (b - a, d').

    `kept` are the rows of the source, ascending, where some are left out; `fitted` prepares new
    points the same way.
    """

    dtype = np.dtype(np.float32)
    ndim = 2

    def __init__(self, source: Any, fitted: Fitted, kept: NDArray[np.int64] | None) -> None:
        self.source, self.fitted, self.kept = source, fitted, kept
        n = int(source.shape[0]) if kept is None else int(kept.size)
        self.shape: tuple[int, int] = (n, fitted.n_features_out)
        self.chunks = getattr(source, "chunks", None)

    def __getitem__(self, rows: slice) -> NDArray[np.float32]:
        """Rows a:b, one after the other."""
        a, b, _ = rows.indices(self.shape[0])
        b = max(a, b)
        if self.kept is None or a == b:
            block = self.source[a:b]
        else:
            ids = self.kept[a:b]
            first = int(ids[0])
            block = np.asarray(self.source[first : int(ids[-1]) + 1])[ids - first]
        return np.asarray(self.fitted.transform(block), dtype=np.float32)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All of them, where a method needs them all."""
        found = np.empty(self.shape, dtype=dtype or np.float32)
        step = max(1, (1 << 20) // max(self.shape[1], int(self.source.shape[1])))
        for a in range(0, self.shape[0], step):
            found[a : a + step] = self[a : a + step]
        return found


def prepared(
    points: Any,
    asked: Preparation,
    names: Sequence[str] = (),
    *,
    where: str = "points",
    advance: Callable[[float], None] = lambda share: None,
) -> PreparedRows:
    """Points (n, d), an array or rows a:b of a file, with the steps of `asked` taken.

    `names` are those of the columns. Means, deviations, categories and ranges are exact, medians,
    quartiles and most frequent values those of 100,000 rows by chance (always the same ones; of all
    rows up to that number). Two passes over the rows at most, and a block of memory; every value is
    seen to be finite and to fit single precision. Raises InputError.
    """
    if len(points.shape) != 2 or 0 in points.shape:
        raise InputError(f"{where}: shape {tuple(points.shape)}; points are (n, d)")
    survey = look(points, asked, names, where, lambda share: advance(share / 2))
    fitted = fit(points, asked, survey, names, lambda share: advance((1 + share) / 2))
    kept = survey.kept
    if kept is not None:
        left = int(points.shape[0]) - kept.size
        what = "row with missing values is" if left == 1 else "rows with missing values are"
        note = f"drop_missing: {left:,} {what} left out, label -1"
        fitted = replace(fitted, notes=(note, *fitted.notes))
    rows = PreparedRows(points, fitted, kept)
    _check_range(fitted, survey.low, survey.high, where)
    return rows


def _check_range(
    fitted: Fitted, low: NDArray[np.float64], high: NDArray[np.float64], where: str
) -> None:
    """Steps rise with x, so that the ends of every column tell whether all values fit."""
    ends = np.where(np.isfinite([low, high]), [low, high], 0.0)
    with np.errstate(over="ignore"):
        fits = np.isfinite(fitted.transform(ends).astype(np.float32)).all()
    if not fits:
        raise InputError(f"{where}: values beyond single precision (3e38); add --standardize")
