"""Lines of an edge list: how they begin, and numbers in them, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import arrow, tables, tokens
from mustlink_io.formats.adjacency import Forced, Lines
from mustlink_io.hdf5 import store


@dataclass(frozen=True)
class Opening:
    """The first words of an edge list, what separates them, and what a header makes of numbers."""

    lines: Lines
    mark: str | None
    words: list[str]
    forced: Forced | None

    @property
    def is_numbered(self) -> bool:
        """Whether nodes are numbers."""
        return all(map(tables.is_number, self.words[:2]))


def opening(path: Path) -> Opening:
    """How an edge list begins; raises InputError."""
    number, line = tables.first_line(path)
    mark = tables.delimiter(line)
    words = tables.words_of(line)
    if " {" in line and line.endswith("}"):  # which may have commas
        raise InputError(
            f"{path}: {{…}} instead of a weight, as networkx writes what edges have; write it by "
            "nx.write_weighted_edgelist, or nx.write_edgelist with data=False"
        )
    if len(words) not in (2, 3):
        raise InputError(
            f"{path}: {len(words)} columns; an edge list has i, j and optionally a weight"
        )
    header = _is_header(words)
    skip = number + header
    forced = forced_by(words) if header else None
    if header:
        number, line = second_line(path, number, line)
        words = [word.strip().strip('"') for word in line.split(mark)]
    return Opening(Lines(path, skip), mark, words, forced)


def forced_by(words: Sequence[str]) -> Forced | None:
    """What a header says of the numbers below it, None if nothing."""
    found = {word.strip().lower() for word in words[:2]}
    return next((kind for kind in get_args(Forced) if found == {kind}), None)


def _is_header(words: list[str]) -> bool:
    """Whether a first line names the columns: usual names, or words above a weight."""
    lowered = tuple(word.lower() for word in words)
    usual = (
        lowered[:2] in tables.ENDS
        or forced_by(lowered) is not None
        or not {"source", "target", "weight"}.isdisjoint(lowered)
    )
    return usual or (len(words) == 3 and not tables.is_number(words[2]))


def second_line(path: Path, first: int, header: str) -> tuple[int, str]:
    """Number and text of the first line with values below line `first`; raises InputError."""
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file):
            if number > first and line.strip() and line.strip()[0] not in "#%":
                return number, line.strip()
    shown = store.text(header)[:60]
    raise InputError(f"{path}: {shown!r} is taken as a header, but no values below it")


def edge_blocks(found: Opening) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Ends (m, 2) and weights (m,) of a list of numbers, by blocks of its lines; InputError."""
    lines, mark, width = found.lines, found.mark, len(found.words)
    done = 0
    for block in tokens.line_blocks(lines.path, lines.skip, "#%"):
        try:
            *ends, weights = arrow.columns(block, mark, width)
            part = np.stack(ends, axis=1), weights
        except arrow.NotPlainError:
            part = _block(block, lines, mark, width, done)
        done += len(part[1])
        yield part


def slow_blocks(
    lines: Lines, mark: str | None, width: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """The blocks of a list by a reader that takes lines as they are, and says what is wrong."""
    done = 0
    for block in tokens.line_blocks(lines.path, lines.skip, "#%"):
        part = _block(block, lines, mark, width, done)
        done += len(part[1])
        yield part


def _block(
    block: bytes, lines: Lines, mark: str | None, width: int, done: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Ends and weights in a block of lines, the first of which is edge `done`."""
    clean = block.translate(bytes.maketrans(b",;", b"  ")) if mark in (",", ";") else block
    try:
        values, counts = tokens.numbers(clean, float, str(lines.path))
    except tokens.WordError as error:
        told = lines.told(done + error.line)
        raise InputError(f"{lines.path}: {told}: {error.what}") from None
    counts = counts[counts > 0]
    wrong = np.flatnonzero(counts != width).tolist()
    if wrong:
        raise uneven(lines, done + wrong[0], counts[wrong[0]], width)
    found = values.reshape(-1, width)
    weights = found[:, 2].copy() if width == 3 else np.ones(len(found))
    return _whole(found[:, :2], clean, lines, done), weights


def _whole(
    values: NDArray[np.float64], block: bytes, lines: Lines, before: int
) -> NDArray[np.int64]:
    """Ends (m, 2) of the edges in a block of lines, the first of which is edge `before`."""
    odd = (values != np.rint(values)) | (np.abs(values) > 2.0**63)
    if odd.any():
        i, j = np.argwhere(odd)[0]
        line = lines.told(int(before + i))
        why = "is too large" if abs(values[i, j]) > 2.0**63 else "is not a whole number"
        raise InputError(f"{lines.path}: {line}: node {values[i, j]} {why}")
    if (np.abs(values) < 2.0**53).all():
        return values.astype(np.int64)
    cells = np.array(block.split(), dtype=object).reshape(len(values), -1)[:, :2]
    try:  # beyond 2^53, the numbers in double precision are not all of them
        return cells.astype(np.int64)
    except (ValueError, OverflowError):
        raise InputError(
            f"{lines.path}: a node from 2^53 on is too large, or not written as digits"
        ) from None


def uneven(lines: Lines, edge: int, columns: int, width: int) -> InputError:
    """The error for a line with another number of columns than the first."""
    cure = "give every edge a weight, 1 where it has none" if {columns, width} == {2, 3} else ""
    return InputError(
        f"{lines.path}: {lines.told(edge)}: has {columns} columns, but the first line of edges has "
        f"{width}; {cure or 'an edge list has i, j and optionally a weight'}"
    )
