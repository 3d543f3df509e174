"""Questions in a table that a person fills in: written, and read again with the answers."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mustlink.errors import InputError
from mustlink_io.hdf5 import store

ANSWER, ROW, PAIR = "answer", "row", ("first", "second")
UNKNOWN = frozenset({"", "?"})
TOGETHER = frozenset({"1", "yes", "y", "same", "together", "must"})
APART = frozenset({"-1", "no", "n", "different", "apart", "cannot"})
_LARGEST = 1 << 26  # bytes of a table that a person fills in


@dataclass(frozen=True)
class Answered:
    """Rows (1,) or (2,) of one question, what was answered, "" for "don't know", and the line."""

    nodes: tuple[int, ...]
    answer: str
    line: int


def written(header: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """A table as CSV, with an empty column `answer` behind the others."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow([*header, ANSWER])
    table.writerows([*line, ""] for line in lines)
    return out.getvalue()


def load_answers(path: Path, n: int) -> list[Answered]:
    """Answers on n rows by the columns `row`, or `first` and `second`, and `answer`; InputError."""
    store.check_readable(path)
    if path.stat().st_size > _LARGEST:
        raise InputError(f"{path}: more than 64 MB, no table that a person filled in")
    try:
        text = path.read_bytes().decode("utf-8-sig")
        table = list(_reader(text))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: is no table of text: {error}") from None
    names = PAIR if table and PAIR[0] in table[0] else (ROW,)
    found: list[Answered] = []
    for line, cells in enumerate(table, 2):
        missing = [name for name in (*names, ANSWER) if cells.get(name) is None]
        if missing:
            raise InputError(
                f"{path}: line {line} has no {missing[0]}; give columns {', '.join(names)} and "
                f"{ANSWER}, as mustlink ask writes them"
            )
        nodes = tuple(_row(cells[name], n, path, line) for name in names)
        answer = cells[ANSWER].strip()
        if len(set(nodes)) < len(nodes):
            raise InputError(f"{path}: line {line} asks about row {nodes[0]} twice; give two rows")
        found.append(Answered(nodes, "" if answer in UNKNOWN else answer, line))
    if not found:
        raise InputError(f"{path}: has no line with an answer; mustlink ask writes questions")
    return found


def together(answer: str, path: Path, line: int) -> bool:
    """Whether two rows are together, from a word; raises InputError."""
    word = answer.lower()
    if word not in TOGETHER | APART:
        raise InputError(
            f"{path}: line {line} is answered {answer!r}; give yes or no, ? for don't know"
        )
    return word in TOGETHER


def _reader(text: str) -> csv.DictReader[str]:
    """With the mark between cells that the first line has: spreadsheets write semicolons, too."""
    first = text.split("\n", 1)[0]
    mark = max(",;\t", key=first.count)
    return csv.DictReader(io.StringIO(text), delimiter=mark, strict=True)


def _row(cell: str, n: int, path: Path, line: int) -> int:
    word = cell.strip()
    if not (word.isascii() and word.isdigit() and len(word) < 16 and int(word) < n):
        raise InputError(f"{path}: line {line} has row {word[:40]!r}; rows are 0 to {n - 1}")
    return int(word)
