"""Numbers and words of large text files, block by block: nothing is done line by line."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator
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

    def __init__(self, where: str, line: int, what: str, quoted: str) -> None:
        super().__init__(f"{where}: {what}, in the line {quoted!r}")
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


def told_line(path: Path, skip: int, at: int, comments: str = "#%") -> str:
    """Name line `at`, from 0, of those with values after the first `skip` lines, and quote it.

    For messages: the file is read until there.
    """
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            words = line.strip()
            if number <= skip or not words or words[0] in comments:
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
                return WordError(where, at, what, shown[1].strip()[:60])
    return InputError(f"{where}: something in it is not a {noun}")
