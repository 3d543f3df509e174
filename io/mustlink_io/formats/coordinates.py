"""The columns of a table that are coordinates of points, and those that hardly are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import tables
from mustlink_io.hdf5 import store

_NUMBERS_OF_ROWS = ("id", "node", "name", "index", "", "unnamed: 0")  # also whatever ends in _id
_CLASSES = (*tables.LABEL, "classes", "target", "y")


def points_of(
    table: tables.Table, where: str
) -> tuple[NDArray[np.float64], NDArray[np.object_] | None]:
    """Return the columns of numbers as points (n, d), and names of their rows if it has some.

    Raises InputError for any other column of text.
    """
    names, rest = tables.split_names(table)
    for at in rest:
        column = table.columns[at]
        if isinstance(column, tables.Words) or column.dtype.kind == "O":
            raise text_column(where, table.header[at] if table.header else str(at))
    columns = [np.asarray(table.columns[at], dtype=np.float64) for at in rest]
    return np.column_stack(columns), names


def text_column(where: str, name: str) -> InputError:
    """The error of a column of text among coordinates."""
    return InputError(
        f"{where}: column {store.text(name)[:40]!r} is text, where coordinates are numbers; leave "
        "it out, or call it `node` and put it first if it names the points"
    )


def doubtful(table: tables.Table, where: str) -> tuple[str, ...]:
    """Return a warning for every coordinate whose header says that it numbers or labels the rows.

    A column `y` beside a column `x` is a coordinate.
    """
    _, rest = tables.split_names(table)
    names = [name.strip().lower() for name in table.header]
    found = []
    for at in rest if names else ():
        what = None
        if names[at] in _CLASSES and not (names[at] == "y" and "x" in names):
            what = "a class is given by --labels: leave it out of the points"
        elif names[at] in _NUMBERS_OF_ROWS or names[at].endswith("_id"):
            column = np.asarray(table.columns[at], dtype=np.float64)
            if (column == np.rint(column)).all() and len(np.unique(column)) == len(column):
                what = "if it names the points call it `node` and put it first, else leave it out"
        if what is not None:
            shown = store.text(table.header[at])[:40]
            found.append(f"{where}: its column {shown!r} is taken as a coordinate; {what}")
    return tuple(found)
