"""Columns of large text files read by pyarrow, as fast as the disk; small or odd ones are not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink_io.formats import tokens

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


def fill(columns: Sequence[NDArray[Any]], path: Path, skip: int, mark: str | None) -> int:
    """Read columns of numbers below the first `skip` lines into arrays; returns how many rows.

    The arrays have `most_lines` places. `mark` separates columns, None stands for blanks. Lines
    that begin with # or % are left out, as are empty ones. Raises NotPlainError.
    """
    held = 0  # from_dlpack: to_numpy would import pandas
    for table in _tables(path, skip, mark, [column.dtype.name for column in columns]):
        for into, column in zip(columns, table.columns, strict=True):
            at = held
            for chunk in column.chunks:
                into[at : at + len(chunk)] = np.from_dlpack(chunk)
                at += len(chunk)
        held += table.num_rows
    return held


def most_lines(path: Path) -> int:
    """Lines of a file, and one more at most; raises NotPlainError where `fill` would."""
    if path.stat().st_size < LARGE or _csv() is None:
        raise NotPlainError
    with path.open("rb") as file:
        return 1 + sum(block.count(b"\n") for block in iter(lambda: file.read(2**22), b""))


def columns(block: bytes, mark: str | None, width: int) -> list[NDArray[Any]]:
    """Two columns of whole numbers and one of weights, 1 where `width` is 2, of a block of lines.

    Raises NotPlainError.
    """
    csv = _csv()
    if csv is None:
        raise NotPlainError
    table = _of_block(csv, block, mark, ["int64", "int64", "float64"][:width])
    found = [_joined(column) for column in table.columns]
    return [*found, np.ones(len(found[0]))][:3]


def _joined(column: Any) -> NDArray[Any]:
    parts = [np.from_dlpack(chunk) for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.empty(0, dtype=str(column.type))


def words(
    path: Path, skip: int, mark: str | None, width: int
) -> tuple[NDArray[np.object_], list[NDArray[np.int64]], list[NDArray[np.float64]]]:
    """Two columns of words, and numbers in the others of `width`; raises NotPlainError.

    Returns every word once, those of a block's first column before those of its second, which of
    them the cells of the two columns are (m,), and the columns of numbers (m,). Blanks and quotes
    around words do not count.
    """
    if _csv() is None:
        raise NotPlainError
    from pyarrow import compute

    pieces: list[tuple[int, Any]] = []
    rest: list[list[NDArray[Any]]] = [[] for _ in range(2, width)]
    for table in _tables(path, skip, mark, ["large_string", "large_string", "float64"][:width]):
        for at in range(2):
            clean = compute.ascii_trim(compute.ascii_trim_whitespace(table.column(at)), '"')
            pieces += [(at, chunk) for chunk in clean.chunks]
        for parts, column in zip(rest, table.columns[2:], strict=True):
            parts += [np.from_dlpack(chunk) for chunk in column.chunks]
    return (*_encoded(pieces), [np.concatenate(parts) for parts in rest])


def _encoded(
    pieces: list[tuple[int, Any]],
) -> tuple[NDArray[np.object_], list[NDArray[np.int64]]]:
    """Words once each, as they first occur in the pieces of two columns, and both as numbers."""
    import pyarrow

    if not pieces:
        raise NotPlainError
    coded = pyarrow.concat_arrays([piece for _, piece in pieces]).dictionary_encode()
    codes = np.from_dlpack(coded.indices)
    ends: list[list[NDArray[Any]]] = [[], []]
    done = 0
    for at, piece in pieces:
        ends[at].append(codes[done : done + len(piece)])
        done += len(piece)
    known = np.array(coded.dictionary.to_pylist(), dtype=object)
    return known, [np.concatenate(parts).astype(np.int64) for parts in ends]


def _csv() -> Any | None:
    try:
        from pyarrow import csv
    except ImportError:
        return None
    return csv


def _tables(path: Path, skip: int, mark: str | None, kinds: Sequence[str]) -> Iterator[Any]:
    """Tables of pyarrow, a block of the file each."""
    csv = _csv()
    if csv is None or path.stat().st_size < LARGE:
        raise NotPlainError
    for block in tokens.line_blocks(path, skip, "#%"):
        yield _of_block(csv, block, mark, kinds)


def _of_block(csv: Any, block: bytes, mark: str | None, kinds: Sequence[str]) -> Any:
    """The table in a block of lines, blanks made one where they separate columns."""
    if mark is None and b"\t" in block:
        return _table(csv, tokens.tidied(block), " ", kinds)
    try:
        return _table(csv, block, mark or " ", kinds)
    except NotPlainError:
        if mark is not None:
            raise
        return _table(csv, tokens.tidied(block), " ", kinds)


def _table(csv: Any, block: bytes, mark: str, kinds: Sequence[str]) -> Any:
    import pyarrow

    names = [str(at) for at in range(len(kinds))]
    try:
        return csv.read_csv(
            pyarrow.BufferReader(block),
            csv.ReadOptions(column_names=names, block_size=_CHUNK),
            csv.ParseOptions(delimiter=mark, quote_char=False),
            csv.ConvertOptions(
                column_types=dict(zip(names, map(pyarrow.type_for_alias, kinds), strict=True)),
                null_values=[],
            ),
        )
    except pyarrow.ArrowInvalid as error:
        raise NotPlainError from error
