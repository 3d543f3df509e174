"""Edge lists: lines `i j [weight]` of numbers or of names, in either direction or both.

No library reads them as they are (columns by any blanks, comments anywhere, numbers or names):
`arrow` takes large plain files, what is here the rest, and says what is wrong with a line.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import arrow, tables, tokens
from mustlink_io.formats.adjacency import Found, Lines, edge_columns, of_names, of_numbers
from mustlink_io.formats.edge_lines import forced_by, opening, slow_blocks, uneven
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
    found = opening(path)
    lines, mark, words, forced = found.lines, found.mark, found.words, found.forced
    if found.is_numbered:
        ends = _numbered(lines, mark, len(words))
        made = of_numbers(*ends, str(path), forced, lines, directed=directed)
    else:
        named = _named(lines, mark, len(words))
        made = of_names(*named, str(path), lines, directed=directed)
    notes = [note for note in (made[2], arrow.advice(path)) if note is not None]
    return made[0], made[1], "; ".join(notes) or None


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
    parts = list(slow_blocks(lines, mark, width))
    return tuple(map(np.concatenate, zip(*parts, strict=True)))  # type: ignore[return-value]


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
            raise uneven(lines, done + wrong, counts[wrong], width)
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
        ends = np.column_stack([tables.to_integers(part, where, "edge") for part in cells])
        return of_numbers(ends, weights, where, forced_by(table.header), directed=directed)
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
    ends = names[:2] in tables.ENDS or (len(names) > 1 and forced_by(names) is not None)
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
