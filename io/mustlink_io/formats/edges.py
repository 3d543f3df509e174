"""Edge lists: lines `i j [weight]` of numbers or of names, in either direction or both.

No library reads them as they are (columns by any blanks, comments anywhere, numbers or names):
`arrow` takes large plain files, what is here the rest, and says what is wrong with a line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import arrow, tables, tokens
from mustlink_io.formats.adjacency import Forced, Found, Lines, edge_columns, of_names, of_numbers
from mustlink_io.formats.names import NodeNames
from mustlink_io.hdf5 import store, writing

_LINES = 2**16  # edges written at once


def read_edges(path: Path, *, directed: bool = False) -> Found:
    """Read an edge list as a symmetric affinity; also returns names of nodes, and a note on them.

    Nodes are numbered from 0, and there are as many as the largest number plus one. Where the
    smallest number is 1, the numbers are names; so are words. Where fewer than half of the numbers
    up to the largest occur, they are names, too, and the nodes that occur are those of the graph.
    The header `name name [weight]` makes numbers names whatever they are, `number number [weight]`
    makes them numbers from 0. An edge may be given in one direction or in both; of weights given
    several times for one edge the largest counts (nothing is summed); `directed` keeps directions
    apart. Lines that begin with # or % are comments; columns are separated by blanks, tabs, commas
    or semicolons.

    Time and memory by blocks of the file: 10 million edges take seconds. Raises InputError.
    """
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
    forced = _forced(words) if header else None
    if header:
        number, line = second_line(path, number, line)
        words = [word.strip().strip('"') for word in line.split(mark)]
    lines = Lines(path, skip)
    if all(map(tables.is_number, words[:2])):
        ends = _numbered(lines, mark, len(words))
        found = of_numbers(*ends, str(path), forced, lines, directed=directed)
    else:
        named = _named(lines, mark, len(words))
        found = of_names(*named, str(path), lines, directed=directed)
    notes = [note for note in (found[2], arrow.advice(path)) if note is not None]
    return found[0], found[1], "; ".join(notes) or None


def _forced(words: Sequence[str]) -> Forced | None:
    """What a header says of the numbers below it, None if nothing."""
    found = {word.strip().lower() for word in words[:2]}
    return next((kind for kind in get_args(Forced) if found == {kind}), None)


def _is_header(words: list[str]) -> bool:
    """Whether a first line names the columns: usual names, or words above a weight."""
    lowered = tuple(word.lower() for word in words)
    usual = (
        lowered[:2] in tables.ENDS
        or _forced(lowered) is not None
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


def _numbered(
    lines: Lines, mark: str | None, width: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Ends (m, 2) and weights (m,) of lines of numbers."""
    path = lines.path
    with contextlib.suppress(arrow.NotPlainError):
        places = arrow.most_lines(path)
        columns, weight = np.empty((2, places), np.int64), np.ones(places)
        m = arrow.fill([*columns, weight][:width], path, lines.skip, mark)
        return columns[:, :m].T, weight[:m]
    ends: list[NDArray[np.int64]] = []
    weights: list[NDArray[np.float64]] = []
    table = bytes.maketrans(b",;", b"  ") if mark in (",", ";") else None
    done = 0
    for block in tokens.line_blocks(path, lines.skip, "#%"):
        clean = block.translate(table) if table else block
        try:
            values, counts = tokens.numbers(clean, float, str(path))
        except tokens.WordError as error:
            raise InputError(f"{path}: {lines.told(done + error.line)}: {error.what}") from None
        counts = counts[counts > 0]
        wrong = np.flatnonzero(counts != width).tolist()
        if wrong:
            raise _uneven(lines, done + wrong[0], counts[wrong[0]], width)
        found = values.reshape(-1, width)
        ends.append(_whole(found[:, :2], clean, lines, done))
        weights.append(found[:, 2].copy() if width == 3 else np.ones(len(found)))
        done += len(found)
    return np.concatenate(ends), np.concatenate(weights)


def _uneven(lines: Lines, edge: int, columns: int, width: int) -> InputError:
    """The error for a line with another number of columns than the first."""
    cure = "give every edge a weight, 1 where it has none" if {columns, width} == {2, 3} else ""
    return InputError(
        f"{lines.path}: {lines.told(edge)}: has {columns} columns, but the first line of edges has "
        f"{width}; {cure or 'an edge list has i, j and optionally a weight'}"
    )


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


def _named(
    lines: Lines, mark: str | None, width: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.object_]]:
    """Ends (m, 2), weights (m,) and names of nodes that are words, numbered as they first occur."""
    path = lines.path
    with contextlib.suppress(arrow.NotPlainError):
        texts, (i, j), rest = arrow.words(path, lines.skip, mark, width)
        if "" not in texts:
            return np.stack([i, j]).T, rest[0] if rest else np.ones(len(i)), texts
    done = 0
    row: dict[bytes, int] = {}
    ends, weights = [], []
    for block in tokens.line_blocks(path, lines.skip, "#%"):
        cells, counts = _cells(block, mark)
        if set(counts) - {width}:
            wrong = next(at for at, count in enumerate(counts) if count != width)
            raise _uneven(lines, done + wrong, counts[wrong], width)
        here = [cells[0::width], cells[1::width]]
        for cell in dict.fromkeys(here[0] + here[1]):
            row.setdefault(cell, len(row))
        ends.append(
            np.column_stack([np.fromiter(map(row.__getitem__, c), np.int64, len(c)) for c in here])
        )
        weights.append(
            _weights(cells[2::width], lines, done) if width == 3 else np.ones(len(counts))
        )
        done += len(counts)
    if not row:
        raise InputError(f"{path}: a header, but no values below it")
    if b"" in row:
        raise InputError(f"{path}: an edge has a node without a name")
    try:
        known = np.array([cell.decode() for cell in row], dtype=object)
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file in UTF-8") from None
    return np.concatenate(ends), np.concatenate(weights), known


def _cells(block: bytes, mark: str | None) -> tuple[list[bytes], list[int]]:
    """The words of a block of lines, and how many are on each that is not empty."""
    lines = [line for line in block.split(b"\n") if line.strip()]
    if mark is None or not lines:
        return b" ".join(lines).split(), list(map(len, map(bytes.split, lines)))
    separator = mark.encode()
    cells = separator.join(lines).split(separator)
    if any(odd in block for odd in b' "\r'):
        cells = [cell.strip().strip(b'"') for cell in cells]
    return cells, [line.count(separator) + 1 for line in lines]


def _weights(cells: list[bytes], lines: Lines, before: int) -> NDArray[np.float64]:
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        words = (cell.decode("utf-8", "replace") for cell in cells)
        at = next(at for at, word in enumerate(words) if not tables.is_number(word))
        raise InputError(
            f"{lines.path}: {lines.told(before + at)}: its weight is not a number"
        ) from None


def of_table(table: tables.Table, where: str, *, directed: bool = False) -> Found:
    """Affinity of a table whose first two columns are the ends of edges; raises InputError."""
    cells = [table.text(at) for at in (0, 1)]
    weights = np.ones(table.n_rows)
    if len(table.columns) > 2:
        weights = np.asarray(table.columns[2])
        if weights.dtype.kind not in "fiub":
            raise InputError(f"{where}: column {table.header[2]!r} is text; weights are numbers")
        weights = weights.astype(np.float64)
    if all(column.dtype.kind != "O" for column in cells):
        ends = tables.to_integers(np.column_stack(cells), where, "edge")
        return of_numbers(ends, weights, where, _forced(table.header), directed=directed)
    texts, flat = _numbered_words(np.concatenate([tables.column_text(part) for part in cells]))
    return of_names(flat.reshape(2, -1).T, weights, texts, where, directed=directed)


def _numbered_words(words: NDArray[np.object_]) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    """Words once each, as they first occur, and which of them every given one is."""
    row = {word: at for at, word in enumerate(dict.fromkeys(words))}
    flat = np.fromiter(map(row.__getitem__, words), np.int64, len(words))
    return np.array(list(row), dtype=object), flat


def is_edge_table(header: Any) -> bool:
    """Whether a header is that of edges: source,target and at most a weight."""
    names = tuple(name.strip().lower() for name in header)
    ends = names[:2] in tables.ENDS or (len(names) > 1 and _forced(names) is not None)
    return ends and names[2:] in ((), ("weight",))


def write_edges(path: str, affinity: sp.csr_matrix, names: NodeNames | None) -> None:
    """Write lines `i<tab>j<tab>weight`, every edge once; names in place of numbers if there are.

    Weights are left out where all are 1. Raises InputError for a name with a tab or newline in it.
    """
    i, j, w = edge_columns(affinity)
    plain = bool((w == 1).all())
    texts = None
    if names is not None:
        wrong = next((t for t in names.texts if not t.strip() or set(t) & set("\t\n\r")), None)
        if wrong is not None or names.texts[0][:1] in "#%":
            raise InputError(f"{path}: a node named {store.text(wrong)!r} fits into no edge list")
        texts = names.texts
    with writing.atomic(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        if texts is not None:
            ends = "name\tname" if names is not None and names.are_numbers else "source\ttarget"
            file.write(f"{ends}\n" if plain else f"{ends}\tweight\n")
        for start in range(0, len(w), _LINES):
            part = slice(start, start + _LINES)
            a, b = (i[part], j[part]) if texts is None else (texts[i[part]], texts[j[part]])
            columns = [a.tolist(), b.tolist()]
            if not plain:
                columns.append(list(map(repr, w[part].tolist())))
            form = "\t".join(["%s"] * len(columns)) + "\n"
            file.write("".join(map(form.__mod__, zip(*columns, strict=True))))
