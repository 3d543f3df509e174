"""Tables in text files, of numbers or of words, by blocks of lines."""

from __future__ import annotations

import contextlib
import csv
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
_BLANKS = re.compile(rb"[ \t\r]+")
_BLANK = 32  # bytes up to this one separate words
_NEWLINE = 10


class WordError(InputError):
    """A word, where a number is wanted: `what` says which, on line `line` of those with values."""

    def __init__(self, words: str, line: int = 0, what: str = "") -> None:
        super().__init__(words)
        self.line, self.what = line, what


def tidied(block: bytes) -> bytes:
    """A block of lines with one blank between words, and none around them."""
    return _BLANKS.sub(b" ", block).replace(b" \n", b"\n").replace(b"\n ", b"\n").lstrip(b" ")


def line_blocks(path: Path, skip: int, comments: str) -> Iterator[bytes]:
    """Yield blocks of whole lines after the first `skip` ones, each ending with a newline.

    Lines that begin with one of `comments` are left out.
    """
    comment = re.compile(rb"(?m)^[ \t]*[" + re.escape(comments.encode()) + rb"][^\n]*\n")
    marks = comments.encode()
    with path.open("rb") as file:
        if file.read(3) != b"\xef\xbb\xbf":
            file.seek(0)
        for _ in range(skip):
            file.readline()
        rest = b""
        while read := file.read(BLOCK_BYTES):
            cut = read.rfind(b"\n") + 1
            block, rest = (rest + read[:cut], read[cut:]) if cut else (b"", rest + read)
            if any(mark in block for mark in marks):
                block = comment.sub(b"", block)
            if block:
                yield block
        if rest:
            yield comment.sub(b"", rest + b"\n")


def told_line(path: Path, skip: int, at: int) -> str:
    """Name line `at`, from 0, of those with values after the first `skip` lines, and quote it.

    For messages: the file is read until there.
    """
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            words = line.strip()
            if number <= skip or not words or words[0] in _COMMENT:
                continue
            if at == 0:
                return f"line {number}, {store.text(words)[:60]!r}"
            at -= 1
    return f"edge {at} from its end"


def numbers(block: bytes, dtype: type, where: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Numbers (m,) of a block of lines, and how many are on every line.

    Raises InputError naming the first word that is no number.
    """
    chars = np.frombuffer(block, dtype=np.uint8)
    solid = chars > _BLANK
    starts = solid.copy()
    starts[1:] &= ~solid[:-1]
    at = np.flatnonzero(starts)
    values: NDArray[Any] = np.empty(0, dtype=dtype)
    with warnings.catch_warnings(), contextlib.suppress(ValueError):
        warnings.simplefilter("ignore")  # of text that is no number; told below
        if len(at):  # of blanks alone numpy makes a number
            values = np.fromstring(block, dtype=dtype, sep=" ")
    if len(values) != len(at):
        raise _wrong(block, dtype, where)
    ends = np.searchsorted(at, np.flatnonzero(chars == _NEWLINE))
    return values, np.diff(ends, prepend=0)


def _wrong(block: bytes, dtype: type, where: str) -> InputError:
    """The error for the first word of a block that is no number."""
    noun = "whole number" if np.issubdtype(dtype, np.integer) else "number"
    kind: type = int if noun == "whole number" else float
    for at, line in enumerate(one for one in block.split(b"\n") if one.strip()):
        for word in line.split():
            try:
                kind(word)
            except ValueError:
                shown = [store.text(one.decode("utf-8", "replace")) for one in (word, line)]
                what = f"{shown[0][:40]!r} is not a {noun}"
                quoted = shown[1].strip()[:60]
                return WordError(f"{where}: {what}, in the line {quoted!r}", at, what)
    return InputError(f"{where}: something in it is not a {noun}")


LARGE = 2**22  # bytes; below, numpy is done before pyarrow is imported (0.2 s)
_CHUNK = 2**20  # bytes that a thread of pyarrow reads at once


class NotPlainError(Exception):
    """A line has other columns than the others, or a cell is not what its column holds.

    Or pyarrow is not there. Another reader then says what is wrong, or takes it as it is.
    """


def advice(path: Path) -> str | None:
    """What to do for a large file to be read fast, None where nothing is."""
    if path.stat().st_size < LARGE or _csv() is not None:
        return None
    return (
        f"{path}: read slowly, as pyarrow is not installed; it is up to five times faster after: "
        "pip install 'mustlink[frames]'"
    )


def reader_of(path: Path) -> Any | None:
    """The reader of CSV of pyarrow, if that is there and a file is large enough for it."""
    return None if path.stat().st_size < LARGE else _csv()


def _csv() -> Any | None:
    try:
        from pyarrow import csv
    except ImportError:
        return None
    return csv


def columns(
    csv: Any | None, block: bytes, mark: str | None, kinds: Sequence[str]
) -> list[NDArray[Any]]:
    """Columns of numbers of these types in a block of lines; raises NotPlainError.

    `csv` is of `reader_of`; `mark` separates columns, None stands for blanks.
    """
    found = []
    for column in _table(csv, block, mark, kinds).columns:  # from_dlpack: to_numpy imports pandas
        parts = [np.from_dlpack(chunk) for chunk in column.chunks]
        found.append(np.concatenate(parts) if parts else np.empty(0, dtype=str(column.type)))
    return found


def words(
    csv: Any | None, block: bytes, mark: str | None, width: int
) -> tuple[list[str], NDArray[np.int64], NDArray[np.float64] | None]:
    """Two columns of words in a block of lines, and a third of numbers; raises NotPlainError.

    Returns every word once, those of the first column before those of the second, which of them
    the cells of the two columns are (2, m), and the numbers (m,). Blanks and quotes around words do
    not count.
    """
    table = _table(csv, block, mark, ["large_string", "large_string", "float64"][:width])
    import pyarrow
    from pyarrow import compute

    pieces = []
    for at in range(2):
        clean = compute.ascii_trim(compute.ascii_trim_whitespace(table.column(at)), '"')
        pieces += clean.chunks
    if not pieces:
        return [], np.empty((2, 0), dtype=np.int64), np.empty(0)
    coded = pyarrow.concat_arrays(pieces).dictionary_encode()
    texts = coded.dictionary.to_pylist()
    if "" in texts:
        raise NotPlainError
    codes = np.from_dlpack(coded.indices).astype(np.int64).reshape(2, -1)
    numbers = [np.from_dlpack(chunk) for column in table.columns[2:] for chunk in column.chunks]
    return texts, codes, np.concatenate(numbers) if numbers else None


def joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Parts, which are taken out of their list, one after the other in one array."""
    found = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), dtype=parts[0].dtype)
    end = len(found)
    while parts:  # each is freed once it is copied
        part = parts.pop()
        found[end - len(part) : end] = part
        end -= len(part)
    return found


def _table(csv: Any | None, block: bytes, mark: str | None, kinds: Sequence[str]) -> Any:
    """A block of lines as a table of pyarrow, blanks made one where they separate columns."""
    if csv is None:
        raise NotPlainError
    import pyarrow

    names = [str(at) for at in range(len(kinds))]
    types = dict(zip(names, map(pyarrow.type_for_alias, kinds), strict=True))

    def read(text: bytes) -> Any:
        try:
            return csv.read_csv(
                pyarrow.BufferReader(text),
                csv.ReadOptions(column_names=names, block_size=_CHUNK),
                csv.ParseOptions(delimiter=mark or " ", quote_char=False),
                csv.ConvertOptions(column_types=types, null_values=[]),
            )
        except pyarrow.ArrowInvalid as error:
            raise NotPlainError from error

    if mark is None and b"\t" in block:
        return read(tidied(block))
    try:
        return read(block)
    except NotPlainError:
        if mark is not None:
            raise
        return read(tidied(block))


_COMMENT = "#%"
NODE = ("node", "name", "index", "", "__index_level_0__")  # headers of a column that names nodes
LABEL = ("label", "labels", "class", "cluster")
ENDS = (("source", "target"), ("from", "to"), ("src", "dst"), ("i", "j"))


@dataclass(frozen=True)
class Words:
    """A column of text with categories of its own; `codes` (rows,) count them, -1 is none."""

    codes: NDArray[np.int64]
    categories: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Columns by position: numbers, text (object arrays of str), or Words.

    `header` is empty where the file has none.
    """

    header: tuple[str, ...]
    columns: tuple[NDArray[Any] | Words, ...]

    @property
    def n_rows(self) -> int:
        """Rows below the header."""
        first = self.columns[0]
        return len(first.codes if isinstance(first, Words) else first)

    def text(self, at: int) -> NDArray[Any]:
        """A column, with text in place of codes."""
        column = self.columns[at]
        if not isinstance(column, Words):
            return column
        return np.array([*column.categories, ""], dtype=object)[column.codes]


def is_number(word: str) -> bool:
    """Whether a word is that of a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def first_line(path: Path) -> tuple[int, str]:
    """Return number (from 0) and text of the first line that is neither blank nor a comment."""
    store.check_readable(path)
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file):
                if line.strip() and line.strip()[0] not in _COMMENT:
                    return number, line.strip()
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file in UTF-8") from None
    raise InputError(f"{path}: empty, no values in it")


def delimiter(line: str) -> str | None:
    """Return the separator that a line uses; None stands for white space."""
    return next((mark for mark in (",", ";", "\t") if mark in line), None)


def words_of(line: str) -> list[str]:
    """The cells of a line, without quotes."""
    return [word.strip().strip('"') for word in line.split(delimiter(line))]


def read_csv(path: Path) -> tuple[list[str], NDArray[np.float64]]:
    """Return the column names ([] without a header line) and the numbers, (rows, columns).

    Lines beginning with # or % are comments. Raises InputError naming the place of the first
    cell that is not a number.
    """
    header, mark, skip, width = _begin(path)
    plain = _by_arrow(path, skip, mark, width)
    if plain is not None:
        return header, plain
    try:
        table = _loaded(path, mark, skip)
    except (ValueError, UnicodeDecodeError) as error:
        words_ = re.sub(r"; use `usecols`.*", "", " ".join(str(error).split()))
        if "number of columns" in words_:  # numpy counts these rows from 1
            words_ = re.sub(r"at row (\d+)", lambda at: f"at row {int(at[1]) - 1}", words_)
        after = f", counted from 0 after line {skip}" if skip else ", counted from 0"
        message = f"{path}: {store.text(words_.rstrip('.'))[:200]}{after}"
        found = re.search(r"could not convert string '(.*)' to float", words_)
        raise (WordError if found or _has_quotes(path) else InputError)(message) from error
    if table.size == 0:
        raise InputError(f"{path}: a header, but no values below it")
    if header and len(header) != table.shape[1]:
        raise InputError(
            f"{path}: {len(header)} names in the header, but {table.shape[1]} columns below it"
        )
    return header, table


def _begin(path: Path) -> tuple[list[str], str | None, int, int]:
    """Names of columns, the mark between them, lines before the first numbers, and columns."""
    number, line = first_line(path)
    words = words_of(line)
    header = [] if all(is_number(word) for word in words) else words
    return header, delimiter(line), number + 1 if header else number, len(words)


def _loaded(path: Path, mark: str | None, skip: int, **how: Any) -> NDArray[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy warns of a table without rows; we raise
        return np.loadtxt(
            path,
            delimiter=mark,
            skiprows=skip,
            comments=list(_COMMENT),
            ndmin=2,
            encoding="utf-8-sig",
            **how,
        )


def _has_quotes(path: Path) -> bool:
    """Whether cells are quoted, so that a mark in one of them separates nothing."""
    with path.open("rb") as file:
        return any(b'"' in line for line in file)


def _by_arrow(path: Path, skip: int, mark: str | None, width: int) -> NDArray[np.float64] | None:
    """The numbers of a large table, None where numpy shall read it or say what is wrong."""
    csv, parts = reader_of(path), []
    try:
        for block in line_blocks(path, skip, _COMMENT) if csv is not None else ():
            parts.append(np.column_stack(columns(csv, block, mark, ["float64"] * width)))
    except NotPlainError:
        return None
    return joined(parts) if parts else None


def to_integers(values: NDArray[Any], where: str, what: str) -> NDArray[np.int64]:
    """Cast whole numbers to int64; raises InputError naming the first value that is not one."""
    if values.dtype.kind in "iub":
        if values.dtype.kind == "u" and values.size and values.max() > np.iinfo(np.int64).max:
            at = np.argwhere(values > np.iinfo(np.int64).max)[0]
            raise InputError(f"{where}: {what} {int(at[0])} is {values[tuple(at)]}, too large")
        return values.astype(np.int64)
    with np.errstate(invalid="ignore"):
        whole = np.isfinite(values) & (values == np.rint(values)) & (np.abs(values) < 2.0**53)
    if not whole.all():
        at = np.argwhere(~whole)[0]
        raise InputError(f"{where}: {what} {int(at[0])} is {values[tuple(at)]}, not a whole number")
    return values.astype(np.int64)


def read_table(path: Path) -> Table:
    """Read a table that may hold words; quoted cells as CSV has them. Raises InputError.

    A column is of numbers if all its cells are numbers or empty (NaN). The first line is a header
    if there is a word on it; of a single column only if that is a usual name of labels, or there
    are only numbers below.
    """
    number, line = first_line(path)
    mark = delimiter(line)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for _ in range(number):
                next(file)
            lines = (one for one in file if one.strip() and one.strip()[0] not in _COMMENT)
            if mark is None:
                rows = [one.split() for one in lines]
            else:
                rows = list(csv.reader(lines, delimiter=mark, strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as a table ({error})") from error
    wrong = next((i for i, row in enumerate(rows) if len(row) != len(rows[0])), None)
    if wrong is not None:
        raise InputError(
            f"{path}: {len(rows[0])} columns on its first line, but {len(rows[wrong])} on line "
            f"{wrong + 1}, comments not counted"
        )
    raw = list(zip(*rows, strict=True))
    below = [_column(cells[1:]) for cells in raw]
    names = [cells[0].strip() for cells in raw]
    if len(raw) > 1:
        has_header = not all(map(is_number, names))
    else:
        has_header = names[0].lower() in LABEL or (below[0].dtype.kind in "fiu" and len(rows) > 1)
    if not has_header:
        return Table((), tuple(_column(cells) for cells in raw))
    if len(rows) == 1:
        raise InputError(f"{path}: a header, but no values below it")
    return Table(tuple(names), tuple(below))


def _column(cells: Sequence[str]) -> NDArray[Any]:
    """Numbers if all cells are, an empty one being NaN, else text without outer blanks.

    Integers where in double precision not all of them exist, as of 64-bit identifiers.
    """
    words = [cell.strip() for cell in cells]
    try:
        found = np.array([float(word) if word else np.nan for word in words], dtype=np.float64)
    except ValueError:
        return np.array(words, dtype=object)
    if _may_be_rounded(found):
        with contextlib.suppress(ValueError):  # as 1e17
            whole = np.array([int(word) for word in words])
            return whole if whole.dtype.kind in "iu" else found
    return found


def _may_be_rounded(column: NDArray[np.float64]) -> bool:
    """Whether numbers are whole, none is missing, and some are so large that whole ones lack."""
    size = float(np.abs(column).max(initial=0.0))
    return 2.0**53 <= size <= 2.0**64 and bool((column == np.rint(column)).all())


def read_columns(path: Path) -> Table:
    """Numbers where all cells are, as a large table is read fast, else with text; InputError."""
    try:
        header, numbers = read_csv(path)
    except WordError:
        return read_table(path)
    return exact(path, header, numbers)


def exact(path: Path, header: Sequence[str], numbers: NDArray[np.float64]) -> Table:
    """What `read_csv` read as a table, whose columns of identifiers are as they were written."""
    columns: list[NDArray[Any]] = list(numbers.T)
    for at, column in enumerate(columns):
        if _may_be_rounded(column):
            _, mark, skip, _ = _begin(path)
            columns[at] = _column(_loaded(path, mark, skip, dtype=str, usecols=at)[:, 0].tolist())
    return Table(tuple(header), tuple(columns))


def find_column(header: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Place of the first of some names in a header, None if it has none of them."""
    names = [name.strip().lower() for name in header]
    return next((names.index(name) for name in wanted if name in names), None)


def value_column(
    table: Table, part: str | None, usual: Sequence[str], node: int | None
) -> int | None:
    """Place of the column `part`, else of a usual one, else of the only one beside `node`."""
    if part is not None:
        return find_column(table.header, (part.strip("/").lower(),))
    found = find_column(table.header, usual)
    rest = [at for at in range(len(table.columns)) if at != node]
    return rest[0] if found is None and len(rest) == 1 else found


def listed(table: Table) -> str:
    """Names of columns for a message."""
    return ", ".join(store.text(name) for name in table.header[:12]) or "no header"


def split_names(table: Table) -> tuple[NDArray[np.object_] | None, list[int]]:
    """Return the column of node names as text, if the header has one, and the other columns."""
    at = find_column(table.header[:1], NODE)
    rest = [column for column in range(len(table.columns)) if column != at]
    if at is None or not rest:
        return None, list(range(len(table.columns)))
    return column_text(table.text(at)), rest


def column_text(cells: NDArray[Any]) -> NDArray[np.object_]:
    """Cells as text, whole numbers without a point."""
    if cells.dtype.kind == "O":
        return cells
    return np.array(
        [str(int(cell)) if float(cell).is_integer() else str(cell) for cell in cells.tolist()],
        dtype=object,
    )
