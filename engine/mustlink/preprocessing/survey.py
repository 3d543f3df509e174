"""One pass over all rows: missing values, ranges of columns, categories, a sample of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
