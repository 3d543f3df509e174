"""Columns of a table that are coordinates of points, and those that are labels or weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.preprocessing.request import Preparation, column_numbers
from mustlink_io.formats import frames, tables
from mustlink_io.formats.data import Apart
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.file_names import Place, parse

WEIGHT = ("weight", "weights", "count", "counts", "sample_weight")
_TABLES = (".csv", ".tsv", ".parquet")


def columns_apart(
    data: str, labels: str | None = None, weights: str | None = None
) -> tuple[Apart, ...]:
    """Columns of the table `data` that labels or weights are read from."""
    found = []
    for option, text, usual in (("--labels", labels, tables.LABEL), ("--weights", weights, WEIGHT)):
        if text is None or not is_own(text, data):
            continue
        place = parse(text)
        if place.part is not None:
            found.append(Apart(option, place.part.strip("/").lower()))
        elif place.path.exists():
            header = [word.lower() for word in _header(place)]
            found += [Apart(option, name) for name in usual if name in header][:1]
    return tuple(found)


def _header(place: Place) -> Sequence[str]:
    if place.suffix == ".parquet":
        return frames.column_names(place.path)
    return tables.words_of(tables.first_line(place.path)[1])


def is_own(text: str, data: str) -> bool:
    """Whether a file is the table of the data itself."""
    place = parse(text)
    return place.suffix in _TABLES and place.path == parse(data).path


def still_to_drop(steps: Preparation, apart: Sequence[Apart]) -> Preparation:
    """Steps without dropping what is left out anyway."""
    gone = {one.name for one in apart}
    drop = tuple(word for word in steps.drop if str(word).strip().lower() not in gone)
    return steps if len(drop) == len(steps.drop) else replace(steps, drop=drop)


def without(
    table: tables.Table, apart: Sequence[Apart], where: str
) -> tuple[tables.Table, tuple[str, ...]]:
    """The table without these columns, and a note for each; raises InputError."""
    gone: dict[int, str] = {}
    for one in apart:
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
    return tables.Table(header, tuple(table.columns[at] for at in rest)), notes


_NUMBERS_OF_ROWS = ("id", "node", "name", "index", "", "unnamed: 0")  # also whatever ends in _id
_MISSING = frozenset({"", "NA", "N/A", "n/a", "<NA>", "nan", "NaN", "null", "NULL", "None", "?"})
_TRUTH = frozenset({"true", "false"})
_COMMA = re.compile(r"[+-]?\d+(,\d+)+(\.\d+)?")
_MOSTLY = 0.8  # of the cells that are numbers in a column in which words are slips
_CLASSES = (*tables.LABEL, "classes", "target", "y")


class TextColumnsError(InputError):
    """Columns of text among coordinates that nothing was asked to be done to.

    `columns` are all of them: name or number, and how many different words it has.
    """

    def __init__(self, where: str, columns: Sequence[tuple[str | int, int]]) -> None:
        self.columns = tuple(columns)
        shown = store.text(str(columns[0][0]))[:40]
        more = f" (so {'is' if len(columns) == 2 else 'are'} {len(columns) - 1} more)"
        super().__init__(
            f"{where}: column {shown!r} is text, where coordinates are numbers"
            f"{more if len(columns) > 1 else ''}; leave it out by --drop, make it columns of 0 and "
            "1 by --one-hot, or call it `node` and put it first if it names the points"
        )


def points_of(
    table: tables.Table,
    where: str,
    one_hot: Sequence[str | int] = (),
    drop: Sequence[str | int] = (),
) -> tuple[NDArray[np.float64], NDArray[np.object_] | None]:
    """Return the columns of numbers as points (n, d), and names of their rows if it has some.

    Text in the columns of `one_hot` (names or numbers) becomes 0, 1, … by the alphabet, and an
    empty cell NaN, as is a word such as NA among numbers. Columns of true and false are 1 and 0.
    Those of `drop` are 0, whatever is in them: they are still to be left out.
    Raises TextColumnsError for any other text, InputError where most cells are numbers.
    """
    names, rest = tables.split_names(table)
    codes, dropped = places(table, one_hot), places(table, drop)
    for option, wanted in (("one_hot", one_hot), ("drop", drop)):
        column_numbers(wanted, titles(table), len(rest), option)
    columns, words = [], []
    for place, at in enumerate(rest):
        cells = table.text(at)
        numbers = numbers_of(cells, as_codes=place in codes)
        if place in dropped:
            numbers = np.zeros(table.n_rows)
        if numbers is None:
            title = table.header[at] if table.header else place
            _refuse_slip(table, at, title, where)
            words.append((title, len(set(cells.tolist()) - _MISSING)))
        else:
            columns.append(numbers)
    if words:
        raise TextColumnsError(where, words)
    return np.column_stack(columns), names


def titles(table: tables.Table) -> tuple[str, ...]:
    """What the header calls the coordinates; nothing without a header."""
    return tuple(table.header[at] for at in tables.split_names(table)[1]) if table.header else ()


def places(table: tables.Table, wanted: Sequence[str | int]) -> set[int]:
    """Coordinates that are named; what is none of them is told later, when all are known."""
    names = titles(table)
    texts = [str(word) for word in wanted]
    numbers = {int(text) for text in texts if text.isdecimal() and text not in names}
    return numbers | {names.index(text) for text in texts if text in names}


def numbers_of(cells: NDArray[Any], as_codes: bool = False) -> NDArray[np.float64] | None:
    """A column as numbers, text as its words are numbered, else None for text."""
    if cells.dtype.kind != "O":
        return np.asarray(cells, dtype=np.float64)
    missing = np.array([word in _MISSING for word in cells])
    found = np.full(cells.size, np.nan)
    if as_codes:
        found[~missing] = np.unique(cells[~missing].astype(str), return_inverse=True)[1]
        return found
    words = {word.lower() for word in cells[~missing]}
    if words and words <= _TRUTH:
        found[~missing] = [word.lower() == "true" for word in cells[~missing]]
        return found
    try:
        found[~missing] = [float(word) for word in cells[~missing]]
    except ValueError:
        return None
    return found


def _refuse_slip(table: tables.Table, at: int, title: str | int, where: str) -> None:
    """Raise InputError that names the first word of a column of numbers, some with commas."""
    cells = table.text(at)
    given = [(row, str(word)) for row, word in enumerate(cells) if word not in _MISSING]
    wrong = [(row, word) for row, word in given if not tables.is_number(word)]
    commas = sum(bool(_COMMA.fullmatch(word)) for _, word in wrong)
    numbers = len(given) - len(wrong)
    if numbers + commas < _MOSTLY * len(given):
        return
    row, word = wrong[0]
    more = f" (so are {len(wrong) - 1} more)" if wrong[1:] else ""
    cure = "write numbers with a point and no other mark" if commas else "correct or empty it"
    after = " below the header" if table.header else ""
    raise InputError(
        f"{where}: {store.text(word)[:40]!r} in row {row}, counted from 0{after}, column "
        f"{store.text(str(title))[:40]!r} is no number{more}, while {numbers:,} other cells are; "
        f"{cure}, or name the column in --drop or --one-hot"
    )


def doubtful(table: tables.Table, where: str, drop: Sequence[str | int] = ()) -> tuple[str, ...]:
    """Return a warning for every coordinate whose header says that it numbers or labels the rows.

    A column `y` beside a column `x` is a coordinate.
    """
    _, rest = tables.split_names(table)
    dropped = places(table, drop)
    rest = [at for place, at in enumerate(rest) if place not in dropped]
    names = [name.strip().lower() for name in table.header]
    found = []
    for at in rest if names else ():
        what = None
        if names[at] in _CLASSES and not (names[at] == "y" and "x" in names):
            what = "a class is given by --labels: leave it out of the points by --drop"
        elif names[at] in _NUMBERS_OF_ROWS or names[at].endswith("_id"):
            column = table.text(at)
            if column.dtype.kind == "O":
                continue  # one-hot
            if (column == np.rint(column)).all() and len(np.unique(column)) == len(column):
                what = (
                    "if it names the points call it `node` and put it first, else leave it out by "
                    "--drop"
                )
        if what is not None:
            shown = store.text(table.header[at])[:40]
            found.append(f"{where}: its column {shown!r} is taken as a coordinate; {what}")
    return tuple(found)
