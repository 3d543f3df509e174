"""Questions in a table that a person fills in: written, and read again with the answers."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mustlink.errors import InputError
from mustlink_io.hdf5 import store

ANSWER, ROW, PAIR = "answer", "row", ("first", "second")
UNKNOWN = frozenset({"", "?", "don't know", "don’t know"})
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
    """Answers on n rows by the columns `row`, or `first` and `second`, and `answer`; InputError.

    Other columns, empty lines and how titles are written do not matter: spreadsheets change these.
    What is said twice counts once, and is an error where it is not the same.
    """
    store.check_readable(path)
    if path.stat().st_size > _LARGEST:
        raise InputError(f"{path}: more than 64 MB, no table that a person filled in")
    try:
        table = _reader(_text(path))
        titles = tuple(table.fieldnames or ())
        names = PAIR if PAIR[0] in titles else (ROW,)
        missing = [name for name in (*names, ANSWER) if name not in titles]
        if missing and titles:
            raise InputError(
                f"{path}: has no column {missing[0]}, but {', '.join(titles)[:60]}; give "
                f"{', '.join(names)} and {ANSWER}, as mustlink ask writes them"
            )
        found = _answers(table, names, n, path)
    except csv.Error as error:
        raise InputError(f"{path}: is no table of text: {error}") from None
    if not found:
        raise InputError(f"{path}: has no line with an answer; mustlink ask writes questions")
    return found


def _answers(
    table: csv.DictReader[str], names: tuple[str, ...], n: int, path: Path
) -> list[Answered]:
    found: dict[tuple[int, ...], Answered] = {}
    for cells in table:
        line, answer = table.line_num, (cells[ANSWER] or "").strip()
        given = [(cells[name] or "").strip() for name in names]
        if not any(given) and not answer:
            continue
        nodes = tuple(_row(word, n, path, line) for word in given)
        if len(set(nodes)) < len(nodes):
            raise InputError(f"{path}: line {line} asks about row {nodes[0]} twice; give two rows")
        one = Answered(nodes, "" if answer.lower() in UNKNOWN else answer, line)
        before = found.setdefault(tuple(sorted(nodes)), one)
        if before.answer != one.answer:
            told = " and ".join(map(str, nodes))
            raise InputError(
                f"{path}: lines {before.line} and {line} answer row {told} as "
                f"{before.answer or '?'!r} and {one.answer or '?'!r}; leave one of them"
            )
    return list(found.values())


def together(answer: str, path: Path, line: int) -> bool:
    """Whether two rows are together, from a word; raises InputError."""
    word = answer.lower()
    if word not in TOGETHER | APART:
        raise InputError(
            f"{path}: line {line} is answered {answer!r}; give yes or no, ? for don't know"
        )
    return word in TOGETHER


def _text(path: Path) -> str:
    """The text of a file in UTF-8, or in UTF-16 with its mark; raises InputError."""
    raw = path.read_bytes()
    coding = "utf-16" if raw[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    try:
        return raw.decode(coding)
    except UnicodeDecodeError:
        kind = "a workbook" if raw[:2] == b"PK" else "no text in UTF-8"
        raise InputError(f"{path}: is {kind}; save it as CSV in UTF-8") from None


def _reader(text: str) -> csv.DictReader[str]:
    """With the mark between cells that the first line has: spreadsheets write semicolons, too."""
    first = text.split("\n", 1)[0]
    mark = max(",;\t", key=first.count)
    table = csv.DictReader(io.StringIO(text), delimiter=mark, strict=True)
    table.fieldnames = [title.strip().lower() for title in table.fieldnames or ()]
    return table


def _row(word: str, n: int, path: Path, line: int) -> int:
    word = word.removesuffix(".0")  # where a table of numbers has gaps
    if not (word.isascii() and word.isdigit() and len(word) < 16 and int(word) < n):
        raise InputError(f"{path}: line {line} has row {word[:40]!r}; rows are 0 to {n - 1}")
    return int(word)
