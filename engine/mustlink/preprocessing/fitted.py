"""A preparation of columns: found in one pass over all rows, the same for new points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.preprocessing.request import (
    Preparation,
    as_option,
    column_numbers,
    column_title,
    listed,
)

Floats = NDArray[np.float64]

BLOCK_BYTES = 1 << 23  # of rows in double precision
SAMPLE = 100_000  # rows for quantiles
_SAMPLE_ENTRIES = 1 << 22  # fewer rows of very many columns
MOST_CATEGORIES = 1000
_FIRST = 100  # values of a column that is empty in the sample


@dataclass(frozen=True)
class ColumnSurvey:
    """Result of one pass over points (n, d), of the rows that are not left out.

    `kept` are the numbers of the rows without missing values if the others are left out, else
    None; `sample` (m, d) are rows by chance, all of them up to 100,000, with the first values of a
    column that is empty in these; `missing` (d,) counts cells without a value, `low`, `high` and
    `mean` (d,) are of the others; `categories` are the values of the columns that become one-hot.
    The columns `dropped` are 0.
    """

    n: int
    kept: NDArray[np.int64] | None
    sample: Floats
    missing: NDArray[np.int64]
    low: Floats
    high: Floats
    mean: Floats
    categories: tuple[tuple[int, Floats], ...]
    dropped: NDArray[np.intp]


def blocks(points: Any, nbytes: int | None = None) -> Iterator[tuple[int, Floats]]:
    """Yield (first row, rows) in double precision, whole storage chunks where there are some."""
    n, d = points.shape
    rows = max(1, (BLOCK_BYTES if nbytes is None else nbytes) // (8 * d))
    chunk = (getattr(points, "chunks", None) or (1,))[0]
    if 1 < chunk <= rows:
        rows -= rows % chunk
    for start in range(0, n, rows):
        yield start, as_doubles(points[start : min(start + rows, n)])


def as_doubles(rows: Any) -> Floats:
    """Rows in double precision; raises InputError for what is not real numbers."""
    X = np.asarray(rows)
    if X.dtype.kind not in "biuf":
        raise InputError(f"points: type {X.dtype} given; convert to real numbers")
    return X.astype(np.float64, copy=False)


def look(
    points: Any,
    steps: Preparation,
    names: Sequence[str],
    where: str,
    advance: Callable[[float], None],
) -> ColumnSurvey:
    """Read all rows once; raises InputError for Inf, and for NaN that no step fills or leaves out.

    Takes the memory of the sample and one block.
    """
    n, d = (int(size) for size in points.shape)
    columns = column_numbers(steps.one_hot, names, d, "one_hot")
    dropped = np.array(column_numbers(steps.drop, names, d, "drop"), dtype=np.intp)
    if dropped.size == d:
        raise InputError(f"drop: all {d} columns are left out; leave some")
    values: dict[int, Floats] = {at: np.empty(0) for at in columns}
    chosen = _sample_rows(n, d)
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    missing, mean, there = np.zeros(d, dtype=np.int64), np.zeros(d), np.zeros(d)
    kept, sample, empty = [], [], np.ones(d, dtype=bool)
    first, held = np.full((_FIRST, d), np.nan), np.zeros(d, dtype=np.intp)
    gapped, first_gap = 0, (-1, -1)  # rows with a missing value, and place of the first of these
    for start, raw in blocks(points):
        read = without(raw, dropped)
        _refuse_infinite(read, start, where, names)
        block, rows = read, np.arange(start, start + len(read))
        if steps.drop_missing:
            there_not = np.isnan(read)
            whole, empty = ~there_not.any(axis=1), empty & there_not.all(axis=0)
            block, rows = (read, rows) if whole.all() else (read[whole], rows[whole])
            kept.append(rows)
        gap = np.isnan(block)
        missing += gap.sum(axis=0)
        wanting = np.flatnonzero(gap.any(axis=1))
        if wanting.size and not gapped:
            first_gap = int(rows[wanting[0]]), int(gap[wanting[0]].argmax())
        gapped += wanting.size
        if len(block):
            low = np.fmin(low, np.fmin.reduce(block, axis=0))
            high = np.fmax(high, np.fmax.reduce(block, axis=0))
            there += (~gap).sum(axis=0)
            mean += np.where(gap, 0.0, block - mean).sum(axis=0) / np.maximum(there, 1)
            _note_first(first, held, block, gap)
            here = chosen[slice(*np.searchsorted(chosen, [rows[0], rows[-1] + 1]))]
            sample.append(block[np.isin(rows, here, assume_unique=True)])
        for at in columns:
            found = np.unique(block[:, at])
            values[at] = np.union1d(values[at], found[~np.isnan(found)])
            _refuse_many(values[at], at, names)
        advance((start + len(read)) / n)
    left = np.concatenate(kept) if kept else None
    if left is not None and left.size == 0:
        cure = _cure(empty, names).removeprefix("; ")
        raise InputError(f"{where}: every row has a missing value; {cure or 'fill them: --impute'}")
    if missing.any() and steps.impute is None:
        columns_of = int(np.count_nonzero(missing))
        raise missing_error(where, gapped, first_gap, columns_of, missing == n, names)
    found_sample = np.concatenate(sample) if sample else np.empty((0, d))
    missed = np.isnan(found_sample).all(axis=0)  # of no rows, too
    if not len(found_sample):
        found_sample = first[: held.max()]
    elif missed.any():
        found_sample[:_FIRST, missed] = first[: len(found_sample), missed]
    return ColumnSurvey(
        n if left is None else int(left.size),
        None if left is None or left.size == n else left,
        found_sample,
        missing,
        low,
        high,
        mean,
        tuple(values.items()),
        dropped,
    )


def _note_first(
    first: Floats, held: NDArray[np.intp], block: Floats, gap: NDArray[np.bool_]
) -> None:
    """Put the first values of every column into `first` (_FIRST, d), of which it has `held`."""
    for at in np.flatnonzero((held < _FIRST) & ~gap.all(axis=0)):
        some = block[~gap[:, at], at][: _FIRST - held[at]]
        first[held[at] : held[at] + some.size, at] = some
        held[at] += some.size


def without(rows: Any, columns: Sequence[int] | NDArray[np.intp]) -> Any:
    """Rows with 0 in some columns."""
    if not len(columns):
        return rows
    rows = rows.copy()
    rows[:, list(columns)] = 0.0
    return rows


class MissingValuesError(InputError):
    """Rows with NaN that no step fills or leaves out."""


def missing_error(
    where: str,
    rows: int,
    first: tuple[int, int],
    columns: int,
    empty: NDArray[np.bool_],
    names: Sequence[str] = (),
) -> MissingValuesError:
    """The error of NaN in points of the shell; columns `empty` (d,) have no other values."""
    has = "row has" if rows == 1 else "rows have"
    of = "1 column" if columns == 1 else f"{columns} columns"
    return MissingValuesError(
        f"{where}: {rows:,} {has} missing values (NaN) in {of}, the first is row {first[0]}, "
        f"{column_title(first[1], names)}; fill them: --impute, or leave these rows out: "
        f"--drop-missing{_cure(empty, names)}"
    )


def _cure(empty: NDArray[np.bool_], names: Sequence[str]) -> str:
    """The end of an error for columns without any value."""
    columns = np.flatnonzero(empty).tolist()
    if not columns:
        return ""
    what = "is empty, leave it out" if len(columns) == 1 else "are empty, leave them out"
    return f"; {listed(columns, names)} {what}: --drop {as_option(columns, names)}"


def _sample_rows(n: int, d: int) -> NDArray[np.int64]:
    """Rows of the sample, ascending; the same whatever the blocks."""
    most = min(SAMPLE, max(1000, _SAMPLE_ENTRIES // d))
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def _refuse_infinite(block: Floats, start: int, where: str, names: Sequence[str]) -> None:
    bad = np.isinf(block)
    if bad.any():
        row = int(bad.any(axis=1).argmax())
        title = column_title(int(bad[row].argmax()), names)
        raise InputError(
            f"{where}: Inf in row {start + row}, {title}; replace it by a number, or by NaN and "
            "--impute"
        )


def _refuse_many(values: Floats, at: int, names: Sequence[str]) -> None:
    if values.size > MOST_CATEGORIES:
        raise InputError(
            f"one_hot: {column_title(at, names)} has more than {MOST_CATEGORIES:,} different "
            "values: a number rather than a category; leave it out"
        )


# --- The same preparation for all points, also for new ones


@dataclass(frozen=True)
class Fitted:
    """z = (x' − centre)/scale, x' is x with filled cells and one-hot columns.

    Columns of z: for every column of `categories`, in this order, one a value; then all others in
    their order (as of scikit-learn's ColumnTransformer). A new value is 0 in all columns of its
    own. Columns `dropped` are left out. `n_features_in` columns become `n_features_out`; `notes`
    tell the choices. Arrays of steps that are not taken are empty.
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
        """Columns that become one-hot or are dropped."""
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
            X = np.hstack([*own, np.delete(X, self._elsewhere, axis=1)])
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
    def of(cls, saved: Mapping[str, Any]) -> Fitted:
        """The inverse of `to_dict`; raises InputError for other values."""
        try:
            fill, centre, scale = (
                np.array(saved[k], dtype=np.float64) for k in ("fill", "centre", "scale")
            )
            own = tuple((int(at), np.array(v, dtype=np.float64)) for at, v in saved["one_hot"])
            dropped = np.array(saved.get("drop", ()), dtype=np.intp)
            return cls(int(saved["n_features_in"]), fill, own, centre, scale, dropped=dropped)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"preparation: damaged ({error}); run it again") from None


def fit(
    points: Any,
    steps: Preparation,
    survey: ColumnSurvey,
    names: Sequence[str],
    advance: Callable[[float], None],
) -> Fitted:
    """Fit the steps; `survey` is of the same points. Another pass for means and deviations.

    Medians, quartiles and most frequent values are those of the survey's sample. Raises InputError.
    """
    none, fill, notes = np.empty(0), _fill(steps, survey), tuple(_notes(steps, survey, names))
    d = int(points.shape[1])
    found = Fitted(d, fill, survey.categories, none, none, notes, survey.dropped)
    if steps.standardize is None:
        return found
    from sklearn.preprocessing import RobustScaler, StandardScaler  # a second of every start

    scaler = StandardScaler() if steps.standardize == "standard" else RobustScaler()
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        if steps.standardize == "standard":
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
    flat = np.count_nonzero(spread == 0)
    if flat:
        what = "is constant and says" if flat == 1 else "are constant and say"
        note = f"{flat} of {spread.size} columns {what} nothing"
        if steps.standardize == "robust":
            note = (
                f"{flat} of {spread.size} columns have equal quartiles and keep their unit; "
                "--standardize divides them, too"
            )
        notes = (*notes, f"standardize: {note}")
    return replace(found, centre=centre, scale=scaler.scale_, notes=notes)


def _fill(steps: Preparation, survey: ColumnSurvey) -> Floats:
    """Value for missing cells of every column; of categories the most frequent one."""
    if steps.impute is None:
        return np.empty(0)
    from sklearn.impute import SimpleImputer

    def statistics(strategy: str, sample: Floats) -> Floats:
        return SimpleImputer(strategy=strategy, keep_empty_features=True).fit(sample).statistics_

    fill = survey.mean.copy()
    if steps.impute != "mean":
        fill = statistics(steps.impute, survey.sample).astype(np.float64)
    codes = [at for at, _ in survey.categories]
    if codes:
        fill[codes] = statistics("most_frequent", survey.sample[:, codes])
    return fill


def _notes(steps: Preparation, survey: ColumnSurvey, names: Sequence[str]) -> list[str]:
    found = []
    if survey.dropped.size:
        found.append(f"drop: columns {listed(survey.dropped.tolist(), names)} are left out")
    at = np.flatnonzero(survey.missing)
    if steps.impute is not None:
        where = f" in columns {listed(at.tolist(), names)}" if at.size else ""
        cells = int(survey.missing.sum())
        found.append(f"impute: {cells:,} missing cells{where} are filled ({steps.impute})")
        empty = np.flatnonzero(survey.missing == survey.n)
        if empty.size:
            found.append(f"impute: columns {listed(empty.tolist(), names)} are empty and become 0")
    quantiles = steps.standardize == "robust" or steps.impute in ("median", "most_frequent")
    if quantiles and len(survey.sample) < survey.n:
        found.append(f"preparation: quantiles are those of {len(survey.sample):,} rows by chance")
    for column, values in survey.categories:
        title = column_title(column, names)
        found.append(f"one_hot: {title} becomes {values.size} columns")
    return found


# --- Prepared points by blocks of rows


class PreparedRows:
    """Points (n, d') prepared as they are read: `rows[a:b]` is float32 (b - a, d').

    `kept` are the rows of the source, ascending, None for all; `fitted` prepares new points the
    same way.
    """

    dtype = np.dtype(np.float32)
    ndim = 2

    def __init__(self, source: Any, fitted: Fitted, kept: NDArray[np.int64] | None) -> None:
        self.source, self.fitted, self.kept = source, fitted, kept
        n = int(source.shape[0]) if kept is None else int(kept.size)
        self.shape: tuple[int, int] = (n, fitted.n_features_out)
        self.chunks = getattr(source, "chunks", None)
        self.opens_itself = kept is None and getattr(source, "opens_itself", False)

    def __getitem__(self, rows: slice) -> NDArray[np.float32]:
        """Rows a:b."""
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
        """All rows."""
        found = np.empty(self.shape, dtype=dtype or np.float32)
        step = max(1, (1 << 20) // max(self.shape[1], int(self.source.shape[1])))
        for a in range(0, self.shape[0], step):
            found[a : a + step] = self[a : a + step]
        return found


def prepared(
    points: Any,
    steps: Preparation,
    names: Sequence[str] = (),
    *,
    where: str = "points",
    advance: Callable[[float], None] = lambda share: None,
) -> PreparedRows:
    """Points (n, d), an array or rows a:b of a file, prepared by some steps.

    `names` are those of the columns. Means, deviations, categories and ranges are exact, medians,
    quartiles and most frequent values those of 100,000 rows by chance (always the same ones; of all
    rows up to that number). Two passes over the rows at most, and a block of memory; every value is
    checked to be finite and to fit single precision. Raises InputError.
    """
    if len(points.shape) != 2 or 0 in points.shape:
        raise InputError(f"{where}: shape {tuple(points.shape)}; points are (n, d)")
    survey = look(points, steps, names, where, lambda share: advance(share / 2))
    fitted = fit(points, steps, survey, names, lambda share: advance((1 + share) / 2))
    kept = survey.kept
    if kept is not None:
        left = int(points.shape[0]) - kept.size
        what = "row with missing values is" if left == 1 else "rows with missing values are"
        note = f"drop_missing: {left:,} {what} left out, label -1"
        fitted = replace(fitted, notes=(note, *fitted.notes))
    # Steps rise with x, so that all values fit if the ends of every column do.
    ends = np.array([survey.low, survey.high])
    with np.errstate(over="ignore"):
        prepared_ends = fitted.transform(np.where(np.isfinite(ends), ends, 0.0))
        if not np.isfinite(prepared_ends.astype(np.float32)).all():
            raise InputError(f"{where}: values beyond single precision (3e38); add --standardize")
    return PreparedRows(points, fitted, kept)
