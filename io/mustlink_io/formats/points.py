"""Points, by blocks of rows, and the columns of a table that are coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.preprocessing.cells import read_cells
from mustlink.preprocessing.fitted import Fitted, missing_error, prepared
from mustlink.preprocessing.mixed import FittedTable, points_of_table
from mustlink.preprocessing.request import Preparation, column_numbers
from mustlink_io.formats import tables
from mustlink_io.hdf5 import size_checks, store
from mustlink_io.hdf5.file_names import parse

BLOCK_BYTES = 32 * 2**20

ID = "--id"
Advance = Callable[[float], None]
Reopen = Callable[[bool], Any]  # whether rows are to be as the file has them
# Points (m, d') as array or rows, how they were prepared, the rows of the file that these are.
PreparedPoints = tuple[Any, Fitted | None, NDArray[np.int64] | None]


def silent(fraction: float) -> None:
    """Ignore progress."""


@dataclass(frozen=True)
class Apart:
    """A column, by its name in small letters, that is none of the points: `option` reads it."""

    option: str
    name: str


@dataclass(frozen=True)
class PointsSpec:
    """How points are prepared, and from how many bytes on they are left on disk.

    `apart` are columns of a table that are none of the points; `gaps` stay NaN where no step fills
    them; `sparse` matrices stay so where no step prepares their columns.
    """

    steps: Preparation
    lazy_above: int | None = None
    apart: tuple[Apart, ...] = ()
    gaps: bool = False
    sparse: bool = False

    @property
    def ids(self) -> str | None:
        """The title of the column that names the rows, where `--id` says it."""
        return next((one.name for one in self.apart if one.option == ID), None)

    def named(self, table: tables.Table, where: str) -> tables.Table:
        """The table with the column that names its rows first, see `tables.with_ids`."""
        words = [str(word) for word in (*self.steps.one_hot, *self.steps.drop)]
        words += [one.name for one in self.apart]
        if self.ids is None and any(map(str.isdecimal, words)):
            return table  # numbers of columns count as if none had names of rows
        return tables.with_ids(table, self.ids, where, [word.strip().lower() for word in words])

    def stays(self, shape: Sequence[int]) -> bool:
        """Whether points of a shape are left on disk."""
        return self.lazy_above is not None and 4 * math.prod(shape) > self.lazy_above


def load_points(
    source: Any,
    spec: PointsSpec,
    columns: Sequence[str],
    where: str,
    advance: Advance,
    reopen: Reopen | None = None,
) -> PreparedPoints:
    """Read points and prepare them; raises InputError.

    `reopen` opens rows that stay readable, where points may be left on disk.
    """
    check_points_shape(source, where)
    steps = spec.steps
    if steps.is_nothing:
        if reopen is not None and spec.stays(source.shape):
            check_points(source, where, advance, columns)
            return reopen(False), None, None
        size_checks.check_fits(4 * math.prod(source.shape), where)
        return read_points(source, where, advance, columns, gaps=spec.gaps), None, None
    # columns of categories become many: whether points stay on disk shows only afterwards
    may_stay = spec.lazy_above is not None and (bool(steps.one_hot) or spec.stays(source.shape))
    if reopen is not None and may_stay:
        source = reopen(True)
    rows = prepared(source, steps, columns, where=where, advance=lambda share: advance(share / 2))
    if reopen is not None and may_stay and spec.stays(rows.shape):
        return rows, rows.fitted, rows.kept
    size_checks.check_fits(4 * math.prod(rows.shape), where)
    found = np.empty(rows.shape, dtype=np.float32)
    n, d = rows.shape
    step = max(1, BLOCK_BYTES // (32 * max(d, int(rows.source.shape[1]))))
    for a in range(0, n, step):
        found[a : a + step] = rows[a : a + step]
        advance(0.5 + 0.5 * min(1.0, (a + step) / n))
    return found, rows.fitted, rows.kept


def row_blocks(source: Any, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield (first row, rows) of a 2-d HDF5 dataset or array, whole storage chunks at a time."""
    n, d = source.shape
    rows = max(1, block_bytes // max(1, d * source.dtype.itemsize))
    chunk = (getattr(source, "chunks", None) or (1,))[0]
    rows = max(chunk, rows - rows % chunk)
    for start in range(0, n, rows):
        yield start, np.asarray(source[start : start + rows])


def check_points_shape(source: Any, where: str) -> None:
    """Raise InputError unless `source` declares a non-empty 2-d array of real numbers."""
    if source.ndim != 2:
        raise InputError(
            f"{where}: {source.ndim} dimensions of shape {source.shape}; points are (n, d), one "
            "row a point"
        )
    if 0 in source.shape:
        raise InputError(f"{where}: shape {source.shape} holds no points")
    if source.dtype.kind not in "fiub":
        raise InputError(f"{where}: values of type {source.dtype}; points are real numbers")


def read_points(
    source: Any,
    where: str,
    advance: Advance = silent,
    columns: Sequence[str] = (),
    *,
    gaps: bool = False,
) -> NDArray[np.float32]:
    """Read (n, d) points as float32, checking every value; `columns` are names, if there are some.

    Raises InputError naming the first rows that hold NaN (unless `gaps` are allowed), Inf or a
    number beyond float32. Needs the result and one block.
    """
    check_points_shape(source, where)
    points = np.empty(source.shape, dtype=np.float32)
    check_points(source, where, advance, columns, points, gaps=gaps)
    return points


def check_points(
    source: Any,
    where: str,
    advance: Advance = silent,
    names: Sequence[str] = (),
    into: NDArray[np.float32] | None = None,
    *,
    gaps: bool = False,
) -> None:
    """Check (n, d) points as `read_points` does, and write them `into` an array, if there is one.

    Needs one block; raises InputError.
    """
    bad: list[int] = []
    n_bad = n_missing = 0
    first, columns = (0, 0), np.zeros(source.shape[1], dtype=bool)
    empty = ~columns
    for start, block in row_blocks(source):
        part = _single(block)
        if into is not None:
            into[start : start + len(block)] = part
        fine = np.isfinite(part) | np.isnan(part) if gaps else np.isfinite(part)
        wrong = np.flatnonzero(~fine.all(axis=1))
        gap = np.isnan(part[wrong])
        missing = wrong[gap.any(axis=1)]
        if missing.size and not n_missing:
            at = int(gap.any(axis=1).argmax())
            first = (start + int(wrong[at]), int(gap[at].argmax()))
        columns |= gap.any(axis=0)
        empty &= gap.all(axis=0) & (wrong.size == len(block))
        n_missing += missing.size
        n_bad += wrong.size
        bad.extend((wrong[: max(0, 5 - len(bad))] + start).tolist())
        advance((start + len(block)) / source.shape[0])
    if n_bad and n_bad == n_missing:
        raise missing_error(where, n_missing, first, int(columns.sum()), empty, names)
    if n_bad:
        rows = ", ".join(str(row) for row in bad) + (" …" if n_bad > len(bad) else "")
        noun = "row" if n_bad == 1 else "rows"
        raise InputError(
            f"{where}: {n_bad} {noun} with NaN, Inf or values beyond float32 ({noun} {rows}, "
            "numbered from 0); remove or fill them"
        )


def _single(block: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore", invalid="ignore"):
        return block.astype(np.float32, copy=False)


class PointRows:
    """Points (n, d) of an HDF5 dataset, read on access: `rows[a:b]` is float32 (b - a, d).

    Checked before by `check_points`. The file stays open as long as this lives. Rows that are
    still to be prepared are read as they are (`raw`).
    """

    dtype = np.dtype(np.float32)
    ndim = 2
    opens_itself = True

    def __init__(self, path: Path, name: str, raw: bool = False) -> None:
        self._arguments = Path(path).absolute(), name, raw
        self._raw = raw
        self._file = h5py.File(path, "r")
        self._data = self._file[name]
        self.shape: tuple[int, int] = self._data.shape
        self.chunks = self._data.chunks  # read in step with them; and a sign of being on disk

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the file for itself."""
        return PointRows, self._arguments

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        return np.asarray(self._data[rows]) if self._raw else _single(self._data[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(dtype or np.float32, copy=False)


class ArrayRows:
    """Points (n, d) of a .npy file, mapped as `array`, read on access as `PointRows` are.

    By reading, not by the map, whose pages would count as memory of the process.
    """

    dtype = np.dtype(np.float32)
    ndim = 2
    chunks = None
    opens_itself = True

    def __init__(self, array: np.memmap[Any, Any], raw: bool = False) -> None:
        self._path, self._offset = str(Path(str(array.filename)).absolute()), array.offset
        self._type, self.shape, self._raw = array.dtype, array.shape, raw

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        start, stop, _ = rows.indices(self.shape[0])
        width = self.shape[1]
        at = self._offset + start * width * self._type.itemsize
        count = max(stop - start, 0) * width
        found = np.fromfile(self._path, self._type, count, offset=at).reshape(-1, width)
        return found if self._raw else _single(found)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(dtype or np.float32, copy=False)


WEIGHT = ("weight", "weights", "count", "counts", "sample_weight")
_TABLES = (".csv", ".tsv", ".parquet")


def columns_apart(
    data: str, labels: str | None = None, weights: str | None = None, ids: str | None = None
) -> tuple[Apart, ...]:
    """Columns of the table `data` that labels or weights are read from, and that of names `ids`."""
    found = [] if ids is None else [Apart(ID, ids)]
    for option, text, usual in (("--labels", labels, tables.LABEL), ("--weights", weights, WEIGHT)):
        if text is None or not is_own(text, data):
            continue
        place = parse(text)
        if place.part is not None:
            found.append(Apart(option, place.part.strip("/").lower()))
        elif place.path.exists():
            header = [word.lower() for word in tables.column_names(place.path)]
            found += [Apart(option, name) for name in usual if name in header][:1]
    return tuple(found)


def is_own(text: str, data: str) -> bool:
    """Whether a file is the table of the data itself."""
    place = parse(text)
    return place.suffix in _TABLES and place.path == parse(data).path


def still_to_drop(steps: Preparation, apart: Sequence[Apart]) -> Preparation:
    """Steps without dropping what is left out anyway."""
    gone = {one.name.strip().lower() for one in apart}
    drop = tuple(word for word in steps.drop if str(word).strip().lower() not in gone)
    return steps if len(drop) == len(steps.drop) else replace(steps, drop=drop)


def without(
    table: tables.Table, apart: Sequence[Apart], where: str
) -> tuple[tables.Table, tuple[str, ...]]:
    """The table without these columns, and a note for each; raises InputError."""
    gone: dict[int, str] = {}
    for one in apart:
        if one.option == ID:
            continue
        at = tables.find_column(table.header, (one.name,))
        if at is None:
            shown, there = store.text(one.name)[:40], tables.listed(table)
            raise InputError(f"{where}:{shown}: no such column; the table has {there}")
        gone[at] = one.option
    rest = [at for at in range(len(table.columns)) if at not in gone]
    if not rest:
        raise InputError(f"{where}: no columns beside that of {' and '.join(gone.values())}")
    notes = tuple(
        f"{where}: its column {store.text(table.header[at])[:40]!r} is that of {option} and no "
        "coordinate"
        for at, option in gone.items()
    )
    header = tuple(table.header[at] for at in rest) if table.header else ()
    return replace(table, header=header, columns=tuple(table.columns[at] for at in rest)), notes


_NUMBERS_OF_ROWS = ("id", "node", "name", "index", "", "unnamed: 0")  # also whatever ends in _id
_CLASSES = (*tables.LABEL, "classes", "target", "y")


def _text_error(where: str, columns: Sequence[str | int]) -> InputError:
    """Of columns of text, by name or number, among coordinates that are prepared by hand."""
    more = f" (so {'is' if len(columns) == 2 else 'are'} {len(columns) - 1} more)"
    return InputError(
        f"{where}: column {columns[0]!r} is text, where coordinates are numbers"
        f"{more if len(columns) > 1 else ''}; leave it out by --drop, make it columns of 0 and "
        "1 by --one-hot, or name it by --id if it names the points"
    )


def points_of(
    table: tables.Table, where: str, spec: PointsSpec
) -> tuple[NDArray[Any], NDArray[np.object_] | None, FittedTable | None]:
    """Return the points (n, d) of a table, names of their rows, and how they were made, if so.

    Where no step but `drop` prepares columns, and some have words or empty cells, all are prepared
    (`mustlink.preprocessing.mixed`). Else text in the columns of `one_hot` (names or numbers)
    becomes 0, 1, … by the alphabet, and an empty cell NaN, as is a word such as NA among numbers;
    of yes and no 1 and 0, of dates days. Those of `drop` are 0, whatever is in them: they are still
    to be left out. Raises InputError for any other text, and for slips among numbers.
    """
    one_hot, drop = spec.steps.one_hot, spec.steps.drop
    names, rest = tables.split_names(table)
    codes, dropped = _numbered(table, one_hot), _numbered(table, drop)
    for option, wanted in (("one_hot", one_hot), ("drop", drop)):
        column_numbers(wanted, titles(table), len(rest), option)
    if not spec.gaps and replace(spec.steps, drop=()).is_nothing:
        called = [*map(store.text, titles(table))] or [str(place) for place in range(len(rest))]
        kept = [place for place in range(len(rest)) if place not in dropped]
        found = points_of_table([(called[at], table.text(rest[at])) for at in kept], where)
        if found is not None:
            return found[0], names, found[1]
    columns, words = [], []
    for place, at in enumerate(rest):
        title = store.text(str(table.header[at] if table.header else place))[:40]
        if place in dropped:
            columns.append(np.zeros(table.n_rows))
            continue
        numbers = numbers_of(table.text(at), title, where, as_codes=place in codes)
        if numbers is None:
            words.append(title)
        else:
            columns.append(numbers)
    if words:
        raise _text_error(where, words)
    return np.column_stack(columns), names, None


def titles(table: tables.Table) -> tuple[str, ...]:
    """What the header calls the coordinates; nothing without a header."""
    return tuple(table.header[at] for at in tables.split_names(table)[1]) if table.header else ()


def numbers_of(
    cells: NDArray[Any], title: str, where: str, *, as_codes: bool = False
) -> NDArray[np.float64] | None:
    """A column as numbers, text as its words are numbered, else None for text."""
    if cells.dtype.kind != "O":
        return np.asarray(cells, dtype=np.float64)
    read = read_cells(cells, title, where, as_words=as_codes)
    if not read.is_words:
        return read.values
    if not as_codes:
        return None
    found = np.full(cells.size, np.nan)
    words = read.values[~read.empty].astype(str)
    found[~read.empty] = np.unique(words, return_inverse=True)[1]
    return found


def _numbered(table: tables.Table, wanted: Sequence[str | int]) -> set[int]:
    """The numbers of coordinates that are named; names of none of them are left out here."""
    names = titles(table)
    texts = [str(word) for word in wanted]
    numbers = {int(text) for text in texts if text.isdecimal() and text not in names}
    return numbers | {names.index(text) for text in texts if text in names}


def _once_too_often(texts: NDArray[Any]) -> str:
    """A text that is in more than one row where nearly all are different; else ""."""
    found, counts = np.unique(texts.astype(str), return_counts=True)
    if not _NEARLY * len(texts) < found.size < len(texts):
        return ""
    return repr(store.text(found[counts.argmax()])[:40])


_NEARLY = 0.95  # of the cells of a column of names


def doubtful(table: tables.Table, where: str, drop: Sequence[str | int] = ()) -> tuple[str, ...]:
    """Return a warning for every coordinate whose header says that it numbers or labels the rows.

    A column `y` beside a column `x` is a coordinate.
    """
    dropped = _numbered(table, drop)
    rest = [at for place, at in enumerate(tables.split_names(table)[1]) if place not in dropped]
    names = [name.strip().lower() for name in table.header]
    found = []
    for at in rest if names else ():
        what = None
        if names[at] in _CLASSES and not (names[at] == "y" and "x" in names):
            what = "classes belong to --labels: leave it out of the points by --drop"
        elif (names[at] in _NUMBERS_OF_ROWS or names[at].endswith("_id")) and not table.is_text(at):
            column = table.text(at)
            if (column == np.rint(column)).all() and len(np.unique(column)) == len(column):
                what = "if it names the points say --id and its title, else leave it out by --drop"
        elif at == 0 and table.is_text(at) and (twice := _once_too_often(table.text(at))):
            what = f"it would name the rows, but {twice} is in it twice: correct it, or --drop it"
        if what is not None:
            shown = store.text(table.header[at])[:40]
            found.append(f"{where}: its column {shown!r} is taken as a coordinate; {what}")
    return tuple(found)
