"""Tables of numbers, words, yes/no, dates and empty cells become points: every column counts once.

A number is (x − median)/(IQR/1.349), at most 3 away from 0: of normal values the mean of
|z_i − z_j|² is 2. So far apart are two words of a column, which are columns of 0 and 1, and yes
and no. Beside a column with empty cells is one of 0 and 1 that says where, and the cell itself has
the median, of yes/no the more frequent; empty is a word among words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.core.check import as_points
from mustlink.core.observe import Recorder
from mustlink.errors import InputError
from mustlink.preprocessing.cells import RawColumn, read_cells
from mustlink.preprocessing.request import column_title, listed

Floats = NDArray[np.float64]
Columns = Sequence[tuple[str, Any]]  # names and cells of a table's columns, in order

NUMBER, YES_NO, DATE, WORDS, LEFT_OUT = "number", "yes/no", "date", "words", "left out"
KINDS = (NUMBER, YES_NO, DATE, WORDS, LEFT_OUT)
_CALLED = dict(
    zip(KINDS, ("of numbers", "of yes/no", "of dates", "of words", "left out"), strict=True)
)
_FARTHEST = 3.0  # from the median: one cell does not make a point an outlier for good
_NORMAL = 1.349  # distance of a normal distribution's quartiles, in standard deviations
_RARE = 0.005  # share of the rows below which words are rare, and so at most 200 columns
_NUMBERED = 20  # rows from which distinct whole numbers may be row numbers
_COVERED = 1.1  # range of a column of row numbers, in rows


@dataclass(frozen=True)
class TableColumn:
    """How a column becomes columns of points.

    Of numbers z = (x − centre)/scale, `fill` where the cell is empty; of `words` a column each,
    then one for `rare` words where there were some. `gaps`: a last column says which are empty.
    """

    name: str
    kind: str
    centre: float = 0.0
    scale: float = 1.0
    fill: float = 0.0
    words: tuple[str, ...] = ()
    rare: bool = False
    gaps: bool = False

    @property
    def width(self) -> int:
        """Columns that it becomes."""
        if self.kind == LEFT_OUT:
            return 0
        own = len(self.words) + self.rare if self.kind == WORDS else 1
        return own + self.gaps

    def transform(self, cells: Any, where: str) -> Floats:
        """Cells (m,) as columns (m, width); raises InputError naming row and column."""
        found = read_cells(cells, self.name, where, as_words=self.kind == WORDS)
        empty = found.empty
        if self.kind == WORDS:
            code = {word: at for at, word in enumerate(self.words)}
            at = np.array([code.get(word, len(code)) for word in found.values], dtype=np.intp)
            shown = np.eye(len(code) + 1)[at] * ~empty[:, None]  # a new word is as a rare one
            parts = [shown[:, : len(code) + self.rare]]
        else:
            x = found.numbers(self.name, where)
            z = np.clip((x - self.centre) / self.scale, -_FARTHEST, _FARTHEST)
            parts = [np.where(empty, self.fill, z)[:, None]]
        return np.hstack([*parts, empty[:, None]] if self.gaps else parts)


@dataclass(frozen=True)
class FittedTable:
    """A fitted preparation of a table's columns, also for new rows; `notes` tell the choices."""

    columns: tuple[TableColumn, ...]
    notes: tuple[str, ...] = ()

    @property
    def n_features_in(self) -> int:
        """Columns of the table."""
        return len(self.columns)

    @property
    def n_features_out(self) -> int:
        """Columns of the points."""
        return sum(column.width for column in self.columns)

    @property
    def sources(self) -> NDArray[np.intp]:
        """Column (n_features_out,) of the table that every column of the points comes from."""
        return np.repeat(np.arange(len(self.columns)), [column.width for column in self.columns])

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the columns that say nothing."""
        return tuple(column.name for column in self.columns if column.kind == LEFT_OUT)

    def transform(self, rows: Any, where: str = "points") -> NDArray[np.float32]:
        """Rows of a table as points (m, n_features_out).

        `rows` is a data frame or pairs of names and cells, matched by name, or an array with all
        columns in their order; what is left out need not be there. Raises InputError.
        """
        names = [column.name for column in self.columns]
        given = columns_of(rows)
        if given is None:
            X = np.asarray(rows)
            if X.ndim != 2 or X.shape[1] != len(names):
                raise InputError(f"{where}: shape {X.shape}; wanted are {len(names)} columns")
            given = list(zip(names, X.T, strict=True))
        cells = dict(given)
        wanted = [column for column in self.columns if column.width]
        absent = [column.name for column in wanted if column.name not in cells]
        if absent:
            raise InputError(
                f"{where}: {column_title(0, absent)} is not there; wanted are {', '.join(names)}"
            )
        parts = [column.transform(cells[column.name], where) for column in wanted]
        return np.hstack(parts).astype(np.float32)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"table": [asdict(column) for column in self.columns]}


def columns_of(X: Any) -> Columns | None:
    """Names and cells of the columns of a data frame, or such pairs; None for anything else."""
    if isinstance(X, list) and X and all(isinstance(one, tuple) and len(one) == 2 for one in X):
        return X if all(isinstance(name, str) for name, _ in X) else None
    names = getattr(X, "columns", None)
    if names is None or callable(names) or not hasattr(X, "shape") or len(X.shape) != 2:
        return None
    if hasattr(X, "iloc"):  # pandas, where names may occur twice
        return [(str(name), X.iloc[:, at]) for at, name in enumerate(names)]
    return [(str(name), X[name]) for name in names]


def points_of_table(
    X: Any, where: str = "points"
) -> tuple[NDArray[np.float32], FittedTable] | None:
    """Points of a table that has words, dates or empty cells, and how they were made; else None.

    `X` is as for `columns_of`. Raises InputError naming row and column.
    """
    columns = columns_of(X)
    if not columns or not len(columns[0][1]):
        return None
    if all(_is_plain(cells) for _, cells in columns):
        return None
    read = [read_cells(cells, name, where) for name, cells in columns]
    if all(one.is_number and not one.empty.any() for one in read):
        return None
    fitted = fit_table([name for name, _ in columns], read, where)
    return fitted.transform(list(columns), where), fitted


def _is_plain(cells: Any) -> bool:
    """Whether a column is numbers without an empty cell, by its type alone."""
    kind = getattr(getattr(cells, "dtype", None), "kind", "O")
    return kind in "biu" or (kind == "f" and not np.isnan(np.asarray(cells)).any())


def fit_table(names: Sequence[str], read: Sequence[RawColumn], where: str) -> FittedTable:
    """How the columns of a table become points; raises InputError where none says anything."""
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError(f"{where}: two columns are called {twice[0]!r}; rename one of them")
    why: dict[str, str] = {}
    columns = tuple(_fit(name, one, why) for name, one in zip(names, read, strict=True))
    if not any(column.width for column in columns):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in list(why.items())[:5])
        raise InputError(f"{where}: no column says anything of the rows ({reasons}); give others")
    return FittedTable(columns, tuple(_notes(columns, read, why)))


def _fit(name: str, cells: RawColumn, why: dict[str, str]) -> TableColumn:
    """A column as it is prepared; `why` gets the reason where it is left out."""
    empty = cells.empty
    n, gaps = empty.size, bool(empty.any())
    if empty.all():
        why[name] = "empty"
    elif cells.is_words:
        counts = Counter(cells.values[~empty].tolist())
        least = max(2, ceil(_RARE * n))
        words = tuple(sorted(word for word, times in counts.items() if times >= least))
        if words and len(counts) + gaps > 1:
            rare = len(words) < len(counts)
            return TableColumn(name, WORDS, words=words, rare=rare, gaps=gaps)
        why[name] = f"{len(counts):,} different words, none in {least} rows"
        if len(counts) == n - np.count_nonzero(empty):
            why[name] = "text, all different"
        if words:
            why[name] = "constant"
    else:
        x = cells.values[~empty]
        low, high = float(x.min()), float(x.max())
        middle = float(np.median(x))
        if low == high and not gaps:
            why[name] = "constant"
        elif cells.is_number and not gaps and is_row_numbers(x, n):
            why[name] = "numbers the rows"
        elif cells.is_truth or bool(((x == low) | (x == high)).all()):
            scale = (high - low) / sqrt(2) or 1.0
            fill = (float(np.mean(x == high) >= 0.5)) * sqrt(2) if high > low else 0.0
            return TableColumn(name, YES_NO, low, scale, fill, gaps=gaps)
        else:
            spread = float(np.subtract(*np.percentile(x, [75, 25]))) / _NORMAL
            scale = spread or float(x.std())  # more than half of them are equal
            return TableColumn(name, cells.kind, middle, scale, gaps=gaps)
    return TableColumn(name, LEFT_OUT)


def is_row_numbers(x: NDArray[Any], n: int) -> bool:
    """Whether values (m,), a sample of n rows, number the rows.

    Distinct whole numbers that rise or fall throughout or fill nearly all of their range.
    """
    if x.size < _NUMBERED or not np.all(x == np.rint(x)):
        return False
    step = np.diff(x)
    if np.all(step > 0) or np.all(step < 0):
        return True
    return bool(np.ptp(x) < _COVERED * n and np.unique(x).size == x.size)


def _notes(
    columns: Sequence[TableColumn], read: Sequence[RawColumn], why: dict[str, str]
) -> list[str]:
    kinds = Counter(column.kind for column in columns)
    there = ", ".join(f"{kinds[kind]} {what}" for kind, what in _CALLED.items() if kinds[kind])
    found = [
        f"table: {len(columns)} columns ({there}) are prepared so that each counts once: numbers "
        "and dates by median and quartiles, words and yes/no as 0 and 1"
    ]
    if why:
        reasons = [f"{name} ({reason})" for name, reason in why.items()]
        found.append(f"table: left out are {listed(range(len(reasons)), reasons)}")
    rare = [
        f"{column.name} ({len(set(one.values[~one.empty])) - len(column.words):,})"
        for column, one in zip(columns, read, strict=True)
        if column.rare
    ]
    if rare:
        found.append(f"table: rare words count as one in {listed(range(len(rare)), rare)}")
    gapped = [column.name for column in columns if column.gaps]
    if gapped:
        cells = sum(
            int(one.empty.sum()) for column, one in zip(columns, read, strict=True) if column.gaps
        )
        found.append(
            f"table: {cells:,} empty cells in {listed(range(len(gapped)), gapped)}: medians, and a "
            "column of 0 and 1 that says where"
        )
    comma = [column.name for column, one in zip(columns, read, strict=True) if one.comma]
    if comma:
        found.append(f"table: , is the decimal sign in {listed(range(len(comma)), comma)}")
    return found


# --- Transformers of scikit-learn


@dataclass(frozen=True)
class Transformed:
    """A fitted transformer of scikit-learn as a preparation of new rows."""

    transformer: Any
    notes: tuple[str, ...] = ()

    def transform(self, rows: Any) -> NDArray[np.float32]:
        """Rows as points, single precision."""
        return _dense(self.transformer.transform(rows))


def points_by(transformer: Any, X: Any) -> tuple[NDArray[np.float32], Transformed]:
    """Points that a transformer of scikit-learn makes of X, and the fitted one.

    One that is fitted is taken as it is, any other cloned and fitted. Raises InputError.
    """
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if not hasattr(transformer, "transform") or isinstance(transformer, type):
        raise InputError(
            f"preprocessing: {transformer!r} given; give 'auto', None, or a transformer of "
            "scikit-learn such as a ColumnTransformer"
        )
    try:
        check_is_fitted(transformer)
        found = transformer.transform(X)
    except NotFittedError:
        transformer = clone(transformer)
        found = transformer.fit_transform(X)
    return _dense(found), Transformed(transformer)


def _dense(found: Any) -> NDArray[np.float32]:
    values = found.toarray() if hasattr(found, "toarray") else found
    return as_points(values, "preprocessing").astype(np.float32, copy=False)


AUTO = "auto"


def prepared_points(
    X: Any, recorder: Recorder, how: Any = AUTO
) -> tuple[Any, FittedTable | Transformed | None]:
    """X as points, and how they were made, with notes; X itself where it needs none of that.

    `how` is "auto": a table by `points_of_table`; None: words and empty cells of a table are
    refused; or a transformer of scikit-learn. Raises InputError.
    """
    by_hand = how is not None and not (isinstance(how, str) and how == AUTO)
    if how is None:
        if columns_of(X) is not None:
            as_points(X)
        return X, None
    found = points_by(how, X) if by_hand else points_of_table(X)
    if found is None:
        return X, None
    for note in found[1].notes:
        recorder.note(note)
    return found
