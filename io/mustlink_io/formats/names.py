"""Names of nodes: which row of the data a name in a side file means."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats.tables import NODE, Table, find_column, to_integers
from mustlink_io.hdf5 import store

_WHOLE = re.compile(r"[+-]?\d+")
_LISTED = 5  # unknown names in a message
_COMPARED = 20_000  # names that an unknown one is compared with, at most


class NodeNames:
    """The names (n,) that a data file gives to its nodes, as text; `where` is that file."""

    def __init__(self, texts: NDArray[np.object_], where: str) -> None:
        self.texts, self.where = texts, where

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def _row(self) -> Mapping[str, int]:
        return {text: row for row, text in enumerate(self.texts)}

    @property
    def repeated(self) -> str | None:
        """A name that two nodes have, None if every node has its own."""
        if len(self._row) == len(self.texts):
            return None
        return next(t for row, t in enumerate(self.texts) if self._row[t] != row)

    @cached_property
    def are_numbers(self) -> bool:
        """Whether all names are whole numbers: numbers in side files are then names, not rows."""
        return all(map(_WHOLE.fullmatch, self.texts))

    def told(self, row: int) -> str:
        """The name of a row as a message shows it."""
        return store.text(self.texts[row])[:40]

    def unknown(self, cells: Sequence[str]) -> str | None:
        """Tell of the cells that are no name, with names that are like them; None if all are."""
        row = self._row
        found = [cell for cell in dict.fromkeys(cells) if cell not in row]
        if not found:
            return None
        named = []
        for cell in found[:_LISTED]:
            near = [] if len(row) > _COMPARED else difflib.get_close_matches(cell, row, 2)
            like = " or ".join(repr(store.text(one)[:40]) for one in near)
            named.append(repr(store.text(cell)[:40]) + (f" (did you mean {like}?)" if near else ""))
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        return (
            f"no node of {self.where} is named {', '.join(named)}{more} (names are as "
            f"{self.told(0)!r})"
        )

    def missing(self, cells: Sequence[str]) -> str | None:
        """The first of some cells that is no name, None if all are."""
        row = self._row
        return next((cell for cell in cells if cell not in row), None)

    def rows(self, cells: Sequence[str]) -> NDArray[np.int64]:
        """Rows of names that are all known."""
        return np.fromiter(map(self._row.__getitem__, cells), np.int64, len(cells))


def names_or_none(texts: NDArray[np.object_], where: str) -> NodeNames | None:
    """Names, unless they are 0, 1, 2 …: the rows themselves."""
    if all(text == str(row) for row, text in enumerate(texts)):
        return None
    return NodeNames(texts, where)


def node_column(
    table: Table, names: NodeNames | None, header: Sequence[str] | None = None
) -> int | None:
    """Place of the column that names nodes, by its title in the header or as all are names."""
    if len(table.columns) < 2:
        return None
    at = find_column(table.header if header is None else header, NODE)
    if at is None and names is not None:
        first = table.text(0)  # under any title: the names of the data say what it is
        if first.dtype.kind == "O" and names.missing(list(first)) is None:
            return 0
    return at


def rows_of(
    cells: NDArray[Any], names: NodeNames | None, where: str, n_nodes: int
) -> NDArray[np.int64]:
    """The rows of `node_rows`, all of them among so many nodes; raises InputError."""
    rows = node_rows(cells, names, where)
    wrong = np.flatnonzero((rows < 0) | (rows >= n_nodes))
    if wrong.size:
        raise InputError(
            f"{where}: row {wrong[0]} names node {rows[wrong[0]]}, but there are {n_nodes} nodes, "
            "numbered from 0"
        )
    return rows


def node_rows(cells: NDArray[Any], names: NodeNames | None, where: str) -> NDArray[np.int64]:
    """Rows that cells of a side file mean: names where all are known as such, else numbers from 0.

    Where all names are numbers, or names repeat, only the one or only the other. Raises
    InputError naming the cells that mean no node.
    """
    if names is None:
        if cells.dtype.kind == "O":
            wrong = next((cell for cell in cells if not _WHOLE.fullmatch(cell)), None)
            if wrong is not None:
                raise InputError(
                    f"{where}: names a node {store.text(wrong)[:40]!r}, but the data has no names; "
                    "number the nodes from 0"
                )
            return _numbers(list(cells), where)
        return to_integers(cells, where, "node")
    given = _as_text(cells)
    unknown = names.missing(given)
    if unknown is None and names.repeated is None:
        return names.rows(given)
    numeric = all(map(_WHOLE.fullmatch, given))
    if numeric and (names.repeated is not None or not names.are_numbers):
        return _numbers(given, where)
    if names.repeated is not None:
        raise InputError(
            f"{where}: nodes are given by name, but {names.where} has several nodes named "
            f"{store.text(names.repeated)[:40]!r}; number them from 0, in the order of the data"
        )
    raise InputError(f"{where}: {names.unknown(given)}")


def _as_text(cells: NDArray[Any]) -> list[str]:
    """Cells as the text they were; a number that is whole without a point."""
    if cells.dtype.kind == "O":
        return [str(cell) for cell in cells]
    with np.errstate(invalid="ignore"):
        whole = cells.dtype.kind != "f" or bool((cells == np.rint(cells)).all())
    if whole and (cells.dtype.kind != "f" or bool((np.abs(cells) < 2.0**53).all())):
        return [str(int(cell)) for cell in cells.tolist()]
    return [f"{cell:.17g}" for cell in cells.tolist()]


def _numbers(cells: Sequence[str], where: str) -> NDArray[np.int64]:
    try:
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    except (OverflowError, ValueError) as error:
        raise InputError(f"{where}: a node number is too large") from error
