"""Rows of a result as a person knows them: the cells of their table, their texts, coordinates.

A result names its data with their SHA-256. What it names is read again only where it is that file,
and a regular one: a result may come from anywhere.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.formats import tables, texts
from mustlink_io.formats.points import is_own
from mustlink_io.hdf5.result import Input

_WIDE = 64  # columns of a matrix above which single ones mean nothing
_LARGEST = 1 << 30  # bytes of a file that is read again for this
_LETTERS = 300  # of a text in a cell


@dataclass(frozen=True, eq=False)
class RowSource:
    """Columns of the rows by their titles: numbers (n,), NaN missing, or text (n,).

    `text` is the column whose words were clustered; `why` says why there are no columns.
    """

    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    text: str | None = None
    why: str = ""

    @classmethod
    def of(cls, inputs: Sequence[Input], command: str | None, n: int, beside: Path) -> Self:
        """Of the n rows of a result in the folder `beside`, made by a command; never raises."""
        data = next((one for one in inputs if one.role == "data"), None)
        if data is None:
            return cls(why="the result does not say what its data are")
        try:
            return cls._read(data, shlex.split(command or ""), n, beside)
        except (InputError, OSError, ValueError) as error:
            return cls(why=str(error))

    @classmethod
    def _read(cls, data: Input, words: Sequence[str], n: int, beside: Path) -> Self:
        place = formats.parse(data.name)
        path = place.path if place.path.exists() else beside / place.path
        text = _option(words, "--text")
        if not path.is_file():
            return cls(why=f"{data.name} is {'a folder' if path.is_dir() else 'not there'}")
        if path.stat().st_size > _LARGEST:
            return cls(why=f"{data.name} is larger than 1 GB")
        if data.bytes not in (None, path.stat().st_size) or formats.sha256(path) != data.sha256:
            return cls(why=f"{data.name} has changed since")
        if place.suffix in texts.LINES and text is not None:
            found, _ = texts.read(formats.Place(path, None), text)
            return cls({text: np.array(found, dtype=object)} if len(found) == n else {}, text)
        if place.suffix not in texts.TABLES:
            return cls(_of_matrix(str(place).replace(str(place.path), str(path), 1), n))
        table = tables.read_table(path)
        if table.n_rows != n or not table.header:
            return cls(why=f"{data.name} is no table with a row for each of {n:,}")
        table = tables.with_ids(table, _option(words, "--id"), str(path), (text or "",))
        labels = _option(words, "--labels")
        out = ""
        if labels is not None and is_own(labels, data.name):
            out = (formats.parse(labels).part or "").strip("/").lower()
        rest = [at for at in tables.split_names(table)[1] if table.header[at].lower() != out]
        columns = {table.header[at]: table.text(at) for at in rest}
        key = next((one for one in columns if one.lower() == (text or "").lower()), None)
        return cls(columns, key)

    @property
    def titles(self) -> list[str]:
        """Of the columns, in their order."""
        return list(self.columns)

    def cells(self, row: int) -> list[str]:
        """A row as text, long texts by their beginning."""
        return [cell(values[row]) for values in self.columns.values()]


def cell(value: Any) -> str:
    """A number or text as a cell; nothing for a number that is missing."""
    if isinstance(value, str):
        return value if len(value) <= _LETTERS else f"{value[:_LETTERS]} …"
    return "" if value != value else f"{float(value):.6g}"  # noqa: PLR0124  NaN


def _of_matrix(text: str, n: int) -> dict[str, NDArray[Any]]:
    """Columns of points that are few enough to be looked at one by one."""
    data = formats.load(text, gaps=True)
    if data.kind != "points" or data.value.shape[0] != n or data.value.shape[1] > _WIDE:
        return {}
    names = data.columns or tuple(f"x{at}" for at in range(data.value.shape[1]))
    return {name: np.asarray(data.value[:, at]) for at, name in enumerate(names)}


def _option(words: Sequence[str], name: str) -> str | None:
    """The value of an option in a command: the next word, or what stands behind "="."""
    for at, word in enumerate(words):
        option, assigned, value = word.partition("=")
        if option == name:
            return value if assigned else next(iter(words[at + 1 :]), None)
    return None
