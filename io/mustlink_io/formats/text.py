"""Text files of cells: lines become blocks, and blocks columns of numbers and of words.

The one reader of tables, edge lists and entries of Matrix Market. Large files go through pyarrow
where it is installed (extra `frames`), others through `numpy.loadtxt`. A block that these refuse is
read cell by cell, which finds the first wrong cell and its line.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.hdf5 import store

BLOCK_BYTES = 2**24
LARGE = 2**22  # bytes; a smaller file is read by numpy before pyarrow is imported (0.2 s)
COMMENTS = "#%"
_FIRST_BYTES = 2**16  # of a table, whose first block shows which columns are words
_ARROW_BYTES = 2**20  # that a thread of pyarrow reads at once
_LONGEST = 2**27  # bytes up to which an open quote is that of a cell, and no slip
_UTF8 = "not a text file in UTF-8; save it anew as UTF-8 (Excel: CSV UTF-8)"
_BLANKS = re.compile(rb"[ \t\r]+")

Kind = type[int] | type[float] | type[str]


@dataclass(frozen=True)
class Words:
    """A column of text with categories of its own; `codes` (rows,) count them, -1 is none."""

    codes: NDArray[np.int64]
    categories: tuple[str, ...]

    def texts(self) -> NDArray[np.object_]:
        """The text of every row."""
        return np.array([*self.categories, ""], dtype=object)[self.codes]


Column = NDArray[Any] | Words


class CellError(InputError):
    """Cells that are not of the kind of their columns; `columns` are the places of these."""

    def __init__(self, words: str, columns: Sequence[int]) -> None:
        super().__init__(words)
        self.columns = columns


class _RefusedError(Exception):
    """A block that a fast reader does not take: it has a wrong cell, or one in an unusual form."""


def is_number(word: str) -> bool:
    """Whether a word is that of a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def advice(path: Path) -> str | None:
    """What to do for a large file to be read fast, None where nothing is."""
    if path.stat().st_size < LARGE or _arrow() is not None:
        return None
    return (
        f"{path}: read slowly, as pyarrow is not installed; it is up to five times faster after: "
        "pip install 'mustlink[frames]'"
    )


def _arrow() -> Any | None:
    """The reader of CSV in pyarrow, if that is installed."""
    try:
        from pyarrow import csv as reader
    except ImportError:
        return None
    return reader


@dataclass(frozen=True)
class TextFile:
    """Lines of cells from line `start` on, counted from 0, whose text is `first`.

    `mark` separates cells, None stands for blanks and tabs. Lines that begin with # or % are
    comments, empty lines do not count.
    """

    path: Path
    start: int
    first: str
    mark: str | None

    @property
    def cells(self) -> list[str]:
        """The cells of the first line, without quotes."""
        (row,) = self._split([self.first], self.mark)
        return [cell.strip().strip('"') for cell in row]

    def below(self) -> TextFile:
        """The lines below the first one, which is a header; raises InputError if none is left."""
        found = _first_line(self.path, self.start + 1)
        if found is None:
            raise InputError(
                f"{self.path}: {store.text(self.first)[:60]!r} is taken as a header, but no values "
                "below it"
            )
        return TextFile(self.path, *found, self.mark)

    def line_of(self, row: int) -> str:
        """Number, from 1, and text of the line that a row is on; the file is read until there."""
        number, words = -1, ""
        with self.path.open(encoding="utf-8-sig", errors="replace") as file:
            for number, line in enumerate(file):
                words = line.strip()
                if number < self.start or not words or words[0] in COMMENTS:
                    continue
                if row == 0:
                    break
                row -= 1
        return f"line {number + 1}, {store.text(words)[:60]!r}"

    def blocks(self, comments: str = COMMENTS, first: int | None = None) -> Iterator[bytes]:
        """Yield blocks of whole lines, each ending with a newline, without comments.

        The `first` block may have another size in bytes. A cell in quotes may be of several lines.
        """
        words = rb"(?m)^[ \t]*[" + re.escape(comments.encode()) + rb"][^\n]*\n"
        comment, quoted = re.compile(words), re.compile(words + rb'|("[^"]*")')

        def plain(block: bytes) -> bytes:
            if self.mark is None or b'"' not in block:
                return comment.sub(b"", block)
            return quoted.sub(lambda found: found[1] or b"", block)

        with self.path.open("rb") as file:
            if file.read(3) != b"\xef\xbb\xbf":
                file.seek(0)
            for _ in range(self.start):
                file.readline()
            rest, size = b"", min(first or BLOCK_BYTES, BLOCK_BYTES)
            while read := file.read(size):
                cut = read.rfind(b"\n") + 1
                block, rest = (rest + read[:cut], read[cut:]) if cut else (b"", rest + read)
                size = BLOCK_BYTES
                ended = self.mark is None or block.count(b'"') % 2 == 0
                if not ended and len(block) < _LONGEST:  # it ends within a cell of several lines
                    rest = block + rest
                    continue
                if any(mark in block for mark in comments.encode()):
                    block = plain(block)
                if block:
                    yield block
            if rest:
                yield plain(rest + b"\n")

    def columns(self, kinds: Sequence[Kind], first: int | None = None) -> Iterator[list[Column]]:
        """Yield columns of a block of lines: int64, float64 (NaN for an empty cell) or `Words`.

        Raises InputError that names the first line with other columns, CellError for cells that are
        not of the kind of their column.
        """
        reader = _arrow() if self.path.stat().st_size >= LARGE else None
        done = 0
        for block in self.blocks(first=first):
            try:
                if reader is not None:
                    found = _by_arrow(reader, block, self.mark, kinds)
                else:
                    found = _by_numpy(block, self.mark, kinds)
            except _RefusedError:
                found = self._by_cells(block, kinds, done)
            done += len(found[0].codes if isinstance(found[0], Words) else found[0])
            yield found

    def read(self, kinds: Sequence[Kind]) -> list[NDArray[Any]]:
        """All columns: int64, float64 or text, an object array; raises as `columns` does."""
        parts: list[list[NDArray[Any]]] = [[] for _ in kinds]
        for block in self.columns(kinds, _FIRST_BYTES):
            for part, column in zip(parts, block, strict=True):
                part.append(column.texts() if isinstance(column, Words) else column)
        return [joined(part) for part in parts]

    def _by_cells(self, block: bytes, kinds: Sequence[Kind], done: int) -> list[Column]:
        """Columns of a block whose first row is row `done` of the file, by Python alone."""
        try:
            lines = list(io.StringIO(block.decode()))
        except UnicodeDecodeError:
            raise InputError(f"{self.path}: {_UTF8}") from None
        rows = self._split(lines, self.mark)
        if self.mark == "\t" and any(len(row) != len(kinds) for row in rows):
            rows = self._split(lines, None)  # lines with blanks in place of tabs
        for at, row in enumerate(rows):
            if len(row) != len(kinds):
                raise InputError(
                    f"{self.path}: {self.line_of(done + at)}: has {len(row)} columns, but the "
                    f"first line has {len(kinds)}"
                )
        found: list[Column] = []
        wrong: dict[int, tuple[int, str]] = {}
        for at, kind in enumerate(kinds):
            try:
                found.append(_converted([row[at].strip().strip('"') for row in rows], kind))
            except _WrongCellError as error:
                wrong[at] = error.row, str(error)
        if wrong:
            first, what = min(wrong.values(), key=lambda cell: cell[0])  # the first on its line
            line = self.line_of(done + first)
            raise CellError(f"{self.path}: {line}: {what}", list(wrong))
        return found

    def _split(self, lines: Sequence[str], mark: str | None) -> list[list[str]]:
        if mark is None:
            return [cells for cells in map(str.split, lines) if cells]
        try:
            rows = list(csv.reader(lines, delimiter=mark, strict=True))
        except csv.Error as error:
            raise InputError(f"{self.path}: cannot be read as a table ({error})") from None
        return [cells for cells in rows if len(cells) > 1 or (cells and cells[0].strip())]


def open_text(path: Path) -> TextFile:
    """A text file from its first line with values on, and what separates cells on that line.

    Raises InputError.
    """
    store.check_readable(path)
    found = _first_line(path)
    if found is None:
        raise InputError(f"{path}: empty, no values in it")
    mark = next((mark for mark in (",", ";", "\t") if mark in found[1]), None)
    text = TextFile(path, *found, mark)
    if mark == "," and ";" in found[1]:  # of decimal numbers, as in 1,5;2,5?
        other = TextFile(path, *found, ";")
        second = _first_line(path, found[0] + 1) or found
        if len(other.cells) > 1 and len(TextFile(path, *second, ";").cells) == len(other.cells):
            return other
    return text


def _first_line(path: Path, start: int = 0) -> tuple[int, str] | None:
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file):
                if number >= start and line.strip() and line.strip()[0] not in COMMENTS:
                    return number, line.strip()
    except UnicodeDecodeError:
        raise InputError(f"{path}: {_UTF8}") from None
    return None


class _WrongCellError(Exception):
    def __init__(self, row: int, what: str) -> None:
        super().__init__(what)
        self.row = row


def _converted(cells: Sequence[str], kind: Kind) -> Column:
    if kind is str:
        code = {cell: at for at, cell in enumerate(dict.fromkeys(cells))}
        return Words(np.fromiter(map(code.__getitem__, cells), np.int64, len(cells)), tuple(code))
    convert = _whole if kind is int else _real
    found = np.empty(len(cells), dtype=np.int64 if kind is int else np.float64)
    for row, cell in enumerate(cells):
        try:
            found[row] = convert(cell)
        except (ValueError, OverflowError) as error:
            why = "is not a number" if not is_number(cell) else str(error)
            raise _WrongCellError(row, f"{store.text(cell)[:40]!r} {why}") from None
    return found


def _real(cell: str) -> float:
    return float(cell) if cell else np.nan


def _whole(cell: str) -> int:
    """A whole number of 64 bits, also where it is written as 2.0 or 2e0; raises ValueError."""
    try:
        number = int(cell)
    except ValueError:
        real = float(cell)
        if not real.is_integer():
            raise ValueError("is not a whole number") from None
        if abs(real) >= 2.0**53:  # where not every whole number is one in double precision
            raise ValueError("is too large, or not written as digits") from None
        number = int(real)
    if not -(2**63) <= number < 2**63:
        raise ValueError("is too large")
    return number


def _by_numpy(block: bytes, mark: str | None, kinds: Sequence[Kind]) -> list[Column]:
    if str in kinds:
        raise _RefusedError
    types = ["i8" if kind is int else "f8" for kind in kinds]
    alike = len(set(types)) == 1  # which is faster by a tenth than columns of their own types
    dtype = np.dtype(types[0] if alike else [(str(at), one) for at, one in enumerate(types)])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of whole numbers with a point, of a block of blanks
            how: Any = {"delimiter": mark, "comments": None, "ndmin": 2 if alike else 1}
            table = np.loadtxt(io.BytesIO(block), dtype, **how)
    except (ValueError, Warning):
        raise _RefusedError from None
    if not alike:
        return [table[name].copy() for name in table.dtype.names or ()]
    if table.shape[1] != len(kinds):
        raise _RefusedError
    return list(np.ascontiguousarray(table.T))


def _by_arrow(reader: Any, block: bytes, mark: str | None, kinds: Sequence[Kind]) -> list[Column]:
    import pyarrow

    types = {int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.large_string()}
    names = [str(at) for at in range(len(kinds))]

    def read(text: bytes) -> Any:
        return reader.read_csv(
            pyarrow.BufferReader(text),
            reader.ReadOptions(column_names=names, block_size=_ARROW_BYTES),
            reader.ParseOptions(
                delimiter=mark or " ",
                quote_char='"' if mark else False,
                newlines_in_values=mark is not None and b'"' in text,
            ),
            reader.ConvertOptions(
                column_types=dict(zip(names, (types[kind] for kind in kinds), strict=True)),
                null_values=[""],
            ),
        )

    try:
        # a blank at an end of a line would make an empty cell
        ends_blank = block[:1] == b" " or any(one in block for one in (b"\t", b"\n ", b" \n"))
        if mark is None and ends_blank:
            table = read(_tidied(block))
        else:
            try:
                table = read(block)
            except pyarrow.ArrowInvalid:
                if mark is not None:
                    raise
                table = read(_tidied(block))
    except pyarrow.ArrowInvalid:
        raise _RefusedError from None
    texts = [column for column, kind in zip(table.columns, kinds, strict=True) if kind is str]
    words = iter(_words_of_arrow(pyarrow, texts) if texts else ())
    return [
        next(words) if kind is str else _numbers_of_arrow(column, kind)
        for column, kind in zip(table.columns, kinds, strict=True)
    ]


def _tidied(block: bytes) -> bytes:
    """A block of lines with one blank between cells, and none around them."""
    return _BLANKS.sub(b" ", block).replace(b" \n", b"\n").replace(b"\n ", b"\n").lstrip(b" ")


def _words_of_arrow(pyarrow: Any, columns: Sequence[Any]) -> list[Words]:
    """Columns of text of pyarrow, with categories that they share."""
    from pyarrow import compute

    clean = [compute.ascii_trim(compute.ascii_trim_whitespace(one), '"') for one in columns]
    pieces = [piece for column in clean for piece in column.chunks]
    if not pieces:
        return [Words(np.empty(0, dtype=np.int64), ()) for _ in columns]
    coded = pyarrow.concat_arrays(pieces).dictionary_encode()
    known = tuple(coded.dictionary.to_pylist())
    codes = np.from_dlpack(coded.indices).astype(np.int64)  # `to_numpy` imports pandas
    return [Words(part, known) for part in codes.reshape(len(columns), -1)]


def _numbers_of_arrow(column: Any, kind: Kind) -> NDArray[Any]:
    """A column of numbers of pyarrow; raises _RefusedError for an empty cell among integers."""
    if column.null_count:
        if kind is int:
            raise _RefusedError
        column = column.fill_null(np.nan)
    parts = [np.from_dlpack(chunk) for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.empty(0, dtype=str(column.type))


def joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Parts, which are taken out of their list, one after the other in one array."""
    found = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), dtype=parts[0].dtype)
    end = len(found)
    while parts:  # each is freed once it is copied
        part = parts.pop()
        found[end - len(part) : end] = part
        end -= len(part)
    return found
