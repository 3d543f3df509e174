"""Data that a file names and does not hold, read again: points of a model, rows of a result.

Rows are told as a person knows them: the cells of their table, their texts, coordinates. A file is
named with its SHA-256, and read only where it is that file, and a regular one: a model or a result
may come from anywhere.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.stage_cache import digest
from mustlink.errors import InputError
from mustlink.neighbors.distances import as_rows
from mustlink.preprocessing.request import Preparation
from mustlink_io import formats
from mustlink_io.formats import tables, texts
from mustlink_io.formats.points import Apart, is_own
from mustlink_io.hdf5.result import Input

_HOW = ("file", "sha256", "want", "steps", "apart", "shape", "content", "sparse", "text")
_ROWS = 1 << 16  # looked at in one go
_WIDE = 64  # columns of a matrix above which single ones mean nothing
_LARGEST = 1 << 30  # bytes of a file that is read again for this
_LETTERS = 300  # of a text in a cell


class PointsElsewhere:
    """Points (n, d) of a model that are read at their first use, and checked."""

    ndim = 2

    def __init__(self, reference: Mapping[str, Any], model: Path) -> None:
        self.reference = dict(reference)
        self.shape: tuple[int, int] = tuple(reference["shape"])
        self._model = model
        self._found: Any = None
        if "file" in reference:
            self._place()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All of them; raises InputError where they are not there, or others."""
        found: Any = self._all()
        found = found if isinstance(found, np.ndarray) else found.toarray()
        return found if dtype is None else found.astype(dtype, copy=False)

    def whole(self) -> Any:
        """All of them, sparse as they were fitted; raises InputError as `__array__` does."""
        return np.asarray(self) if not self.reference.get("sparse") else self._all()

    def _all(self) -> Any:
        if self._found is None:
            self._found = self._read()
        return self._found

    def _read(self) -> Any:
        if "file" not in self.reference:
            raise InputError(
                f"{self._model}: the points are not in it, only their digest; give them: "
                "mustlink.load(path, data=X)"
            )
        place, text = self._place(), self.reference["file"]
        there = os.path.exists(place.path)
        if not there or formats.sha256(place.path) != self.reference["sha256"]:
            gone = "has changed since" if there else "is not there"
            raise InputError(
                f"{self._model}: its points are those of {text}, which {gone}; give them: "
                "mustlink.load(path, data=X)"
            )
        stored = self.reference["steps"]
        try:
            steps: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()}
            apart = tuple(Apart(str(option), str(name)) for option, name in self.reference["apart"])
            how: dict[str, Any] = {"steps": Preparation(**steps), "apart": apart}
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{self._model}: damaged: how points were read; save anew") from error
        how["want"] = "points" if self.reference["want"] == "points" else None
        if self.reference.get("text") is not None:
            how["want"] = formats.TextColumn(str(self.reference["text"]))
        how["sparse"] = bool(self.reference.get("sparse"))
        return as_rows(formats.load(str(place), **how).value)

    def _place(self) -> formats.Place:
        """Their file, as it was named or beside the model; InputError where it is no file.

        The model may name anything: reading a device or a pipe would never end.
        """
        place = formats.parse(self.reference["file"])
        beside = self._model.parent / place.path
        if not os.path.exists(place.path) and os.path.exists(beside):
            place = replace(place, path=beside)
        of_texts = self.reference.get("text") is not None and place.path.is_dir()
        if os.path.exists(place.path) and not (place.path.is_file() or of_texts):
            raise InputError(
                f"{self._model}: its points are those of {place.path}, which is no regular file; "
                "give them: mustlink.load(path, data=X)"
            )
        return place


def fingerprint(X: Any) -> str:
    """SHA-256 of points (n, d) in single precision, which is how files are read; by rows."""
    if sp.issparse(X):
        matrix: Any = X
        return digest(sp.csr_matrix(matrix, dtype=np.float32))
    found = hashlib.sha256()
    for first in range(0, X.shape[0], _ROWS):
        found.update(np.ascontiguousarray(X[first : first + _ROWS], dtype=np.float32).data)
    return found.hexdigest()


def reference_of(
    text: str, sha256: str, want: Any, steps: Preparation, apart: Any, X: Any
) -> dict[str, Any]:
    """How points are found again: from which file, read as what, prepared how; and which."""
    complete = [(one.option, one.name) for one in apart]
    which = list(X.shape), fingerprint(X), bool(sp.issparse(X))
    column = want.column if isinstance(want, formats.TextColumn) else None
    want = want if column is None else "points"
    how = text, sha256, want, steps.to_dict(), complete, *which, column
    return dict(zip(_HOW, how, strict=True))


def points_of(reference: Mapping[str, Any], model: Path, data: Any) -> Any:
    """The caller's points, if they are those; else those read at their first use; InputError.

    `reference` may come from any file: it names a file to read, and nothing to be done.
    """
    shape: Any = reference.get("shape")
    fine = isinstance(shape, list | tuple) and len(shape) == 2
    complete = "digest" in reference or set(_HOW) == set(reference)
    complete = complete and isinstance(reference.get("file", ""), str)
    if not fine or not complete or not all(isinstance(size, int) and size > 0 for size in shape):
        raise InputError(f"{model}: damaged: the reference to its points; save it anew")
    elsewhere = PointsElsewhere(reference, model)
    if data is None:
        return elsewhere
    X = as_rows(data, "data")
    if X.shape != tuple(shape):
        raise InputError(f"{model}: data of shape {X.shape}; those that were fitted have {shape}")
    if "digest" in reference:
        same = digest(X) == reference["digest"]
    else:  # as files are read
        same = fingerprint(X.astype(np.float32, copy=False)) == reference["content"]
    if not same:
        raise InputError(f"{model}: data are other points than those that were fitted")
    return X


# --- Rows of a result


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
