"""Edge lists: lines `i j [weight]` of numbers or of names, in either direction or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import matrices, tables, tokens
from mustlink_io.formats.names import NodeNames
from mustlink_io.hdf5 import store, writing

Found = tuple[sp.csr_matrix, NodeNames | None, str | None]  # affinity, names, what was decided

Forced = Literal["name", "number"]
FORCED: tuple[Forced, ...] = get_args(Forced)  # twice in a header: what numbers below it are

_LINES = 2**16  # edges written at once
_OTHERWISE = " (a header `number number` makes them numbers from 0)"


def read_edges(path: Path) -> Found:
    """Read an edge list as a symmetric affinity; also returns names of nodes, and a note on them.

    Nodes are numbered from 0, and there are as many as the largest number plus one. Where the
    smallest number is 1, the numbers are names; so are words. Where fewer than half of the numbers
    up to the largest occur, they are names, too, and the nodes that occur are those of the graph.
    The header `name name [weight]` makes numbers names whatever they are, `number number [weight]`
    makes them numbers from 0. An edge may be given in one direction or in both; of weights given
    several times for one edge the largest counts (nothing is summed). Lines that begin with # or %
    are comments; columns are separated by blanks, tabs, commas or semicolons.

    Time and memory by blocks of the file: 10 million edges take seconds. Raises InputError.
    """
    number, line = tables.first_line(path)
    mark = tables.delimiter(line)
    words = [word.strip().strip('"') for word in line.split(mark)]
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
        ends, weights = _numbered(lines, mark, len(words))
        return of_numbers(ends, weights, str(path), forced, lines)
    return _named(lines, mark, len(words))


@dataclass(frozen=True)
class Lines:
    """The lines of a file of edges after the first `skip` ones, for messages."""

    path: Path
    skip: int

    def told(self, edge: int) -> str:
        """The line of an edge, numbered from 0, and what is on it."""
        return tokens.told_line(self.path, self.skip, edge)


def _forced(words: Sequence[str]) -> Forced | None:
    """What a header says of the numbers below it, None if nothing."""
    found = {word.strip().lower() for word in words[:2]}
    return next((kind for kind in FORCED if found == {kind}), None)


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
    ends: list[NDArray[np.int64]] = []
    weights: list[NDArray[np.float64]] = []
    table = bytes.maketrans(b",;", b"  ") if mark in (",", ";") else None
    done = 0
    for block in tokens.line_blocks(path, lines.skip, "#%"):
        clean = block.translate(table) if table else block
        values, counts = tokens.numbers(clean, float, str(path))
        counts = counts[counts > 0]
        wrong = np.flatnonzero(counts != width).tolist()
        if wrong:
            raise _uneven(lines, done + wrong[0], counts[wrong[0]], width)
        found = values.reshape(-1, width)
        ends.append(_whole(found[:, :2], lines, done))
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


def _whole(values: NDArray[np.float64], lines: Lines, before: int) -> NDArray[np.int64]:
    """Cast ends of edges, the first of which is edge `before` of the file."""
    with np.errstate(invalid="ignore"):
        whole = (values == np.rint(values)) & (np.abs(values) < 2.0**53)
    if not whole.all():
        i, j = np.argwhere(~whole)[0]
        line = lines.told(int(before + i))
        raise InputError(f"{lines.path}: {line}: node {values[i, j]} is not a whole number")
    return values.astype(np.int64)


def of_numbers(
    ends: NDArray[np.int64],
    weights: NDArray[np.float64],
    where: str,
    forced: Forced | None = None,
    lines: Lines | None = None,
) -> Found:
    """Affinity of edges between numbered nodes; see `read_edges`. Raises InputError."""
    _check_edges(ends, weights, where, lines)
    lowest, highest = int(ends.min()), int(ends.max())
    total = highest if lowest == 1 else highest + 1
    sparse = 2 * _count(ends, highest) < total
    if forced == "number" or (forced is None and lowest != 1 and not sparse):
        matrices.check_not_empty(highest + 1, len(ends), where)  # of numbers that were forced
        return affinity_of(ends, weights, highest + 1), None, None
    if sparse or forced == "name":
        known, flat = np.unique(ends, return_inverse=True)
        ends = flat.reshape(ends.shape).astype(np.int64)
    else:
        known, ends = np.arange(1, highest + 1), ends - 1
    texts = np.array([str(number) for number in known.tolist()], dtype=object)
    if forced == "name":
        note = (
            f"{where}: numbers are names of the {len(known)} nodes with edges, as its header says"
        )
    elif sparse:
        note = (
            f"{where}: fewer than half of the numbers up to {highest} occur, so they are taken as "
            f"names of the {len(known)} nodes with edges{_OTHERWISE}"
        )
    else:
        note = (
            f"{where}: the smallest number is 1, so numbers from 1 to {highest} are taken as names "
            f"of the nodes{_OTHERWISE}"
        )
    note += "; labels and pairs name nodes by them, results have them in /names"
    return affinity_of(ends, weights, len(known)), NodeNames(texts, where), note


def _count(ends: NDArray[np.int64], highest: int) -> int:
    """How many numbers occur, at least: 0 stands for fewer than half of those up to the highest."""
    if highest + 1 > 2 * ends.size:
        return 0
    seen = np.zeros(highest + 1, dtype=bool)
    seen[ends.ravel()] = True
    return int(np.count_nonzero(seen))


def _check_edges(
    ends: NDArray[np.int64],
    weights: NDArray[np.float64],
    where: str,
    lines: Lines | None = None,
    texts: NDArray[np.object_] | None = None,
) -> None:
    wrong = ~((weights >= 0) & (weights < np.inf)) | (ends.min(axis=1) < 0)
    if wrong.any():
        at = int(wrong.argmax())
        i, j = ends[at] if texts is None else [store.text(texts[end])[:40] for end in ends[at]]
        line = f"{lines.told(at)}: the edge" if lines is not None else f"edge {at}"
        if ends[at].min() < 0:
            raise InputError(f"{where}: {line} ({i}, {j}): nodes are numbered from 0")
        raise InputError(
            f"{where}: {line} ({i}, {j}) has weight {weights[at]:g}; weights are finite and not "
            "negative"
        )


def affinity_of(ends: NDArray[np.int64], weights: NDArray[np.float64], n: int) -> sp.csr_matrix:
    """Symmetric CSR (n, n) of edges (m, 2); the largest weight of an edge counts. O(m log m)."""
    key = np.minimum(ends[:, 0], ends[:, 1]) * n
    key += np.maximum(ends[:, 0], ends[:, 1])
    order = np.argsort(key)
    key, weights = key[order], weights[order]
    del order
    first = np.flatnonzero(np.diff(key, prepend=-1))
    weights = np.maximum.reduceat(weights, first) if len(first) < len(key) else weights
    index = np.int32 if n < 2**31 else np.int64
    low, high = (part.astype(index) for part in np.divmod(key[first], n))
    off = low != high
    found = sp.csr_matrix(
        (
            np.concatenate([weights, weights[off]]),
            (np.concatenate([low, high[off]]), np.concatenate([high, low[off]])),
        ),
        shape=(n, n),
    )
    found.eliminate_zeros()
    return found


def _named(lines_: Lines, mark: str | None, width: int) -> Found:
    """Edges between nodes that are words, numbered as they first occur."""
    path = lines_.path
    done = 0
    row: dict[bytes, int] = {}
    ends, weights = [], []
    separator = (mark or " ").encode()
    for block in tokens.line_blocks(path, lines_.skip, "#%"):
        lines = [line for line in block.split(b"\n") if line.strip()]
        if mark is None:
            cells = b" ".join(lines).split()
            counts = list(map(len, map(bytes.split, lines)))
        else:
            cells = separator.join(lines).split(separator)
            if any(mark in block for mark in b' "\r'):
                cells = [cell.strip().strip(b'"') for cell in cells]
            counts = [line.count(separator) + 1 for line in lines]
        if set(counts) - {width}:
            wrong = next(at for at, count in enumerate(counts) if count != width)
            raise _uneven(lines_, done + wrong, counts[wrong], width)
        here = [cells[0::width], cells[1::width]]
        for cell in dict.fromkeys(here[0] + here[1]):
            row.setdefault(cell, len(row))
        ends.append(
            np.column_stack([np.fromiter(map(row.__getitem__, c), np.int64, len(c)) for c in here])
        )
        weights.append(
            _weights(cells[2::width], lines_, done) if width == 3 else np.ones(len(lines))
        )
        done += len(lines)
    if not row:
        raise InputError(f"{path}: a header, but no values below it")
    if b"" in row:
        raise InputError(f"{path}: an edge has a node without a name")
    try:
        texts = np.array([cell.decode() for cell in row], dtype=object)
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file in UTF-8") from None
    return of_names(np.concatenate(ends), np.concatenate(weights), texts, str(path), lines_)


def of_names(
    ends: NDArray[np.int64],
    weights: NDArray[np.float64],
    texts: NDArray[np.object_],
    where: str,
    lines: Lines | None = None,
) -> Found:
    """Affinity of edges between named nodes, given by their rows."""
    _check_edges(ends, weights, where, lines, texts)
    note = (
        f"{where}: {len(texts)} nodes have names (the first is {store.text(texts[0])[:40]!r}); "
        "results have them in /names"
    )
    return affinity_of(ends, weights, len(texts)), NodeNames(texts, where), note


def _weights(cells: list[bytes], lines: Lines, before: int) -> NDArray[np.float64]:
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        words = (cell.decode("utf-8", "replace") for cell in cells)
        at = next(at for at, word in enumerate(words) if not tables.is_number(word))
        raise InputError(
            f"{lines.path}: {lines.told(before + at)}: its weight is not a number"
        ) from None


def of_table(table: tables.Table, where: str) -> Found:
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
        return of_numbers(ends, weights, where, _forced(table.header))
    texts, flat = _numbered_words(np.concatenate([tables.column_text(part) for part in cells]))
    return of_names(flat.reshape(2, -1).T, weights, texts, where)


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


def edge_columns(affinity: sp.csr_matrix) -> tuple[NDArray[Any], ...]:
    """Every edge once: ends i <= j in rising order of i, and weights.

    A node without edges gets one to itself of weight 0, which a reader forgets once it knows that
    there is such a node.
    """
    coo = sp.triu(affinity, format="coo")
    alone = np.flatnonzero(np.diff(affinity.indptr) == 0)
    return (
        np.concatenate([coo.row, alone]),
        np.concatenate([coo.col, alone]),
        np.concatenate([coo.data, np.zeros(len(alone))]),
    )


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
