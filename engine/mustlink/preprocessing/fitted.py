"""A preparation whose figures are known: the same for all points, also for new ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.preprocessing.request import (
    Preparation,
    column_title,
    listed,
)
from mustlink.preprocessing.survey import (
    ColumnSurvey,
    Floats,
    as_doubles,
    blocks,
    look,
    without,
)


@dataclass(frozen=True)
class Fitted:
    """z = (x' − centre)/scale, x' being x filled, some columns one-hot.

    Columns of z: for every column of `categories`, in this order, one a value; then all others in
    theirs (as scikit-learn's ColumnTransformer has them). A value that was not seen is 0 in all
    columns of its own. Columns `dropped` are in none of z. `n_features_in` columns become
    `n_features_out`; `notes` say what was decided. Empty arrays stand for steps that are not taken.
    """

    n_features_in: int
    fill: Floats
    categories: tuple[tuple[int, Floats], ...]
    centre: Floats
    scale: Floats
    notes: tuple[str, ...] = ()
    dropped: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    @property
    def n_features_out(self) -> int:
        """Columns of what `transform` returns."""
        return int(self.sources.size)

    @property
    def sources(self) -> NDArray[np.intp]:
        """Column (n_features_out,) of the points that every column of `transform` comes from."""
        own = [np.full(values.size, at) for at, values in self.categories]
        given = np.arange(self.n_features_in)
        rest = np.delete(given, self._elsewhere)
        return np.concatenate([*own, rest]).astype(np.intp)

    @property
    def _elsewhere(self) -> list[int]:
        """Columns that are not among those that stay what they are."""
        return [*(at for at, _ in self.categories), *self.dropped.tolist()]

    def transform(self, rows: Any) -> Floats:
        """Rows (m, d) prepared, (m, n_features_out); raises InputError for NaN without a fill.

        Columns that are dropped may be left out.
        """
        X, d = as_doubles(rows), self.n_features_in
        kept = np.delete(np.arange(d), self.dropped)
        if X.ndim != 2 or X.shape[1] not in (d, kept.size):
            less = f", or {kept.size} without those that are dropped" if kept.size < d else ""
            raise InputError(f"points: shape {X.shape}; wanted are {d} columns{less}")
        if X.shape[1] < d:
            X, given = np.zeros((len(X), d)), X
            X[:, kept] = given
        X = without(X, self.dropped)
        gap = np.isnan(X)
        if gap.any():
            if not self.fill.size:
                row = int(gap.any(axis=1).argmax())
                raise InputError(f"points: NaN in row {row}; nothing was fitted to fill it")
            X = np.where(gap, self.fill, X)
        if self._elsewhere:
            own = [X[:, [at]] == values for at, values in self.categories]
            rest = np.delete(X, self._elsewhere, axis=1)
            X = np.hstack([*own, rest])
        return (X - self.centre) / self.scale if self.scale.size else X

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "n_features_in": self.n_features_in,
            "fill": self.fill.tolist(),
            "one_hot": [[at, values.tolist()] for at, values in self.categories],
            "centre": self.centre.tolist(),
            "scale": self.scale.tolist(),
            "drop": self.dropped.tolist(),
        }

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Fitted:
        """What `to_dict` told; raises InputError for anything else."""
        try:
            if told.get("log"):
                raise ValueError("an older version took logarithms")
            arrays = [np.array(told[k], dtype=np.float64) for k in ("fill", "centre", "scale")]
            own = tuple((int(at), np.array(v, dtype=np.float64)) for at, v in told["one_hot"])
            dropped = np.array(told.get("drop", ()), dtype=np.intp)
            d, (fill, centre, scale) = int(told["n_features_in"]), arrays
            return cls(d, fill, own, centre, scale, dropped=dropped)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"preparation: damaged ({error}); run it again") from None


def fit(
    points: Any,
    asked: Preparation,
    survey: ColumnSurvey,
    names: Sequence[str],
    advance: Callable[[float], None],
) -> Fitted:
    """Find the figures; `survey` is of the same points. Another pass for means and deviations.

    Medians, quartiles and most frequent values are those of the survey's sample. Raises InputError.
    """
    d = int(points.shape[1])
    found = Fitted(
        d,
        _fill(asked, survey),
        survey.categories,
        np.empty(0),
        np.empty(0),
        notes=tuple(_notes(asked, survey, names)),
        dropped=survey.dropped,
    )
    if asked.standardize is None:
        return found
    from sklearn.preprocessing import RobustScaler, StandardScaler  # a second of every start

    scaler = StandardScaler() if asked.standardize == "standard" else RobustScaler()
    with np.errstate(over="ignore", invalid="ignore"):  # looked at below
        if asked.standardize == "standard":
            for start, read in blocks(points):
                block = without(read, survey.dropped)
                whole = block if survey.kept is None else block[~np.isnan(block).any(axis=1)]
                if len(whole):
                    scaler.partial_fit(found.transform(whole))
                advance((start + len(block)) / points.shape[0])
            centre, spread = scaler.mean_, np.sqrt(scaler.var_)
        else:
            X = found.transform(survey.sample)
            scaler.fit(X)
            centre = scaler.center_
            spread = np.subtract(*np.percentile(X, [75, 25], axis=0))
    if not (np.isfinite(centre).all() and np.isfinite(scaler.scale_).all()):
        at = int(np.argmin(np.isfinite(centre) & np.isfinite(scaler.scale_)))
        raise InputError(
            f"standardize: values of column {at} are too large for double precision; divide them"
        )
    flat = np.flatnonzero(spread == 0)
    notes = found.notes
    if flat.size:
        what = "is constant and says" if flat.size == 1 else "are constant and say"
        said = f"{flat.size} of {spread.size} columns {what} nothing"
        if asked.standardize == "robust":
            said = (
                f"{flat.size} of {spread.size} columns have equal quartiles and keep their unit; "
                "--standardize divides them, too"
            )
        notes = (*notes, f"standardize: {said}")
    return replace(found, centre=centre, scale=scaler.scale_, notes=notes)


def _fill(asked: Preparation, survey: ColumnSurvey) -> Floats:
    """Value for missing cells of every column; of codes the most frequent one."""
    if asked.impute is None:
        return np.empty(0)
    from sklearn.impute import SimpleImputer

    if asked.impute == "mean":
        fill = survey.mean.copy()
    else:
        fill = (
            SimpleImputer(strategy=asked.impute, keep_empty_features=True)
            .fit(survey.sample)
            .statistics_.astype(np.float64)
        )
    codes = [at for at, _ in survey.categories]
    if codes:
        often = SimpleImputer(strategy="most_frequent", keep_empty_features=True)
        fill[codes] = often.fit(survey.sample[:, codes]).statistics_
    return fill


def _notes(asked: Preparation, survey: ColumnSurvey, names: Sequence[str]) -> list[str]:
    found = []
    if survey.dropped.size:
        told = listed(survey.dropped.tolist(), names)
        found.append(f"drop: columns {told} are left out")
    at = np.flatnonzero(survey.missing)
    if asked.impute is not None:
        cells, told = int(survey.missing.sum()), listed(at.tolist(), names)
        where = f" in columns {told}" if at.size else ""
        found.append(f"impute: {cells:,} missing cells{where} are filled ({asked.impute})")
        empty = np.flatnonzero(survey.missing == survey.n)
        if empty.size:
            found.append(f"impute: columns {listed(empty.tolist(), names)} are empty and become 0")
    quantiles = asked.standardize == "robust" or asked.impute in ("median", "most_frequent")
    if quantiles and len(survey.sample) < survey.n:
        found.append(f"preparation: quantiles are those of {len(survey.sample):,} rows by chance")
    for column, values in survey.categories:
        title = column_title(column, names)
        found.append(f"one_hot: {title} becomes {values.size} columns")
    return found


# --- Prepared points by blocks of rows, never all in memory unless they are asked for


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
