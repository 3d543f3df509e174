"""Edge lists: lines `i j [weight]` of numbers or of names, in either direction or both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io import outputs, store
from mustlink_io.formats import tables, tokens
from mustlink_io.formats.names import NodeNames

Found = tuple[sp.csr_matrix, NodeNames | None, str | None]  # affinity, names, what was decided

_LINES = 2**16  # edges written at once


def read_edges(path: Path) -> Found:
    """Read an edge list as a symmetric affinity; also returns names of nodes, and a note on them.

    Nodes are numbered from 0, and there are as many as the largest number plus one. Where the
    smallest number is 1, or most numbers have no edge, the numbers are names and the nodes that
    occur are those of the graph; so are words. An edge may be given in one direction or in both;
    of weights given several times for one edge the largest counts (nothing is summed). Lines that
    begin with # or % are comments; columns are separated by blanks, tabs, commas or semicolons.

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
    if header:
        number, line = _second_line(path, number)
        words = [word.strip().strip('"') for word in line.split(mark)]
    if all(map(tables.is_number, words[:2])):
        ends, weights = _numbered(path, skip, mark, len(words))
        return of_numbers(ends, weights, str(path))
    return _named(path, skip, mark, len(words))


def _is_header(words: list[str]) -> bool:
    """Whether a first line names the columns: usual names, or words above a weight."""
    lowered = tuple(word.lower() for word in words)
    usual = lowered[:2] in tables.ENDS or not {"source", "target", "weight"}.isdisjoint(lowered)
    return usual or (len(words) == 3 and not tables.is_number(words[2]))


def _second_line(path: Path, first: int) -> tuple[int, str]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file):
            if number > first and line.strip() and line.strip()[0] not in "#%":
                return number, line.strip()
    raise InputError(f"{path}: a header, but no values below it")


def _numbered(
    path: Path, skip: int, mark: str | None, width: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Ends (m, 2) and weights (m,) of lines of numbers."""
    ends: list[NDArray[np.int64]] = []
    weights: list[NDArray[np.float64]] = []
    table = bytes.maketrans(b",;", b"  ") if mark in (",", ";") else None
    done = 0
    for block in tokens.line_blocks(path, skip, "#%"):
        clean = block.translate(table) if table else block
        values, counts = tokens.numbers(clean, float, str(path))
        counts = counts[counts > 0]
        wrong = np.flatnonzero(counts != width).tolist()
        if wrong:
            raise InputError(
                f"{path}: edge {done + wrong[0]} has {counts[wrong[0]]} columns, but the first "
                f"has {width}"
            )
        found = values.reshape(-1, width)
        ends.append(_whole(found[:, :2], str(path), done))
        weights.append(found[:, 2].copy() if width == 3 else np.ones(len(found)))
        done += len(found)
    return np.concatenate(ends), np.concatenate(weights)


def _whole(values: NDArray[np.float64], where: str, before: int) -> NDArray[np.int64]:
    """Cast ends of edges, the first of which is edge `before` of the file."""
    with np.errstate(invalid="ignore"):
        whole = (values == np.rint(values)) & (np.abs(values) < 2.0**53)
    if not whole.all():
        i, j = np.argwhere(~whole)[0]
        raise InputError(f"{where}: edge {before + i} is {values[i, j]}, not a whole number")
    return values.astype(np.int64)


def of_numbers(ends: NDArray[np.int64], weights: NDArray[np.float64], where: str) -> Found:
    """Affinity of edges between numbered nodes; see `read_edges`. Raises InputError."""
    _check_edges(ends, weights, where)
    lowest, highest = int(ends.min()), int(ends.max())
    sparse = highest + 1 > 100 * len(ends) + 1000  # rows would be mostly empty
    if lowest != 1 and not sparse:
        return affinity_of(ends, weights, highest + 1), None, None
    if sparse:
        known, flat = np.unique(ends, return_inverse=True)
        ends = flat.reshape(ends.shape).astype(np.int64)
        why = f"numbers reach {highest}, so they are taken as names of the {len(known)} nodes with"
    else:
        known, ends = np.arange(1, highest + 1), ends - 1
        why = f"the smallest number is 1, so numbers from 1 to {highest} are taken as names of"
    texts = np.array([str(number) for number in known.tolist()], dtype=object)
    note = f"{where}: {why} edges" if sparse else f"{where}: {why} the nodes"
    note += "; labels and pairs name nodes by them, results have them in /names"
    return affinity_of(ends, weights, len(known)), NodeNames(texts, where), note


def _check_edges(ends: NDArray[np.int64], weights: NDArray[np.float64], where: str) -> None:
    wrong = ~((weights >= 0) & (weights < np.inf)) | (ends.min(axis=1) < 0)
    if wrong.any():
        at = int(wrong.argmax())
        i, j = ends[at]
        raise InputError(
            f"{where}: edge {at} is ({i}, {j}) with weight {weights[at]:g}; nodes are "
            "numbered from 0, weights are finite and not negative"
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


def _named(path: Path, skip: int, mark: str | None, width: int) -> Found:
    """Edges between nodes that are words, numbered as they first occur."""
    row: dict[bytes, int] = {}
    ends, weights = [], []
    separator = (mark or " ").encode()
    for block in tokens.line_blocks(path, skip, "#%"):
        lines = [line for line in block.split(b"\n") if line.strip()]
        if mark is None:
            cells = b" ".join(lines).split()
            clean = set(map(len, map(bytes.split, lines))) <= {width}
        else:
            cells = separator.join(lines).split(separator)
            if any(mark in block for mark in b' "\r'):
                cells = [cell.strip().strip(b'"') for cell in cells]
            clean = set(line.count(separator) for line in lines) <= {width - 1}
        if not clean:
            raise InputError(f"{path}: not every line has {width} columns as its first")
        here = [cells[0::width], cells[1::width]]
        for cell in dict.fromkeys(here[0] + here[1]):
            row.setdefault(cell, len(row))
        ends.append(
            np.column_stack([np.fromiter(map(row.__getitem__, c), np.int64, len(c)) for c in here])
        )
        weights.append(_weights(cells[2::width], str(path)) if width == 3 else np.ones(len(lines)))
    if not row:
        raise InputError(f"{path}: a header, but no values below it")
    if b"" in row:
        raise InputError(f"{path}: an edge has a node without a name")
    try:
        texts = np.array([cell.decode() for cell in row], dtype=object)
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file in UTF-8") from None
    return of_names(np.concatenate(ends), np.concatenate(weights), texts, str(path))


def of_names(
    ends: NDArray[np.int64], weights: NDArray[np.float64], texts: NDArray[np.object_], where: str
) -> Found:
    """Affinity of edges between named nodes, given by their rows."""
    _check_edges(ends, weights, where)
    note = (
        f"{where}: {len(texts)} nodes have names (the first is {store.text(texts[0])[:40]!r}); "
        "results have them in /names"
    )
    return affinity_of(ends, weights, len(texts)), NodeNames(texts, where), note


def _weights(cells: list[bytes], where: str) -> NDArray[np.float64]:
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError as error:
        raise InputError(f"{where}: a weight is not a number ({store.text(str(error))})") from error


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
        return of_numbers(ends, weights, where)
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
    return names[:2] in tables.ENDS and names[2:] in ((), ("weight",))


def edge_columns(affinity: sp.csr_matrix, *, all_nodes: bool) -> tuple[NDArray[Any], ...]:
    """Every edge once: ends i <= j in rising order of i, and weights.

    A node without edges gets one to itself of weight 0, which a reader forgets: with `all_nodes`
    every such node, else the first and the last, so that the number of nodes can be told.
    """
    coo = sp.triu(affinity, format="coo")
    alone = np.flatnonzero(np.diff(affinity.indptr) == 0)
    if not all_nodes:
        alone = alone[(alone == 0) | (alone == affinity.shape[0] - 1)]
    return (
        np.concatenate([coo.row, alone]),
        np.concatenate([coo.col, alone]),
        np.concatenate([coo.data, np.zeros(len(alone))]),
    )


def write_edges(path: str, affinity: sp.csr_matrix, names: NodeNames | None) -> None:
    """Write lines `i<tab>j<tab>weight`, every edge once; names in place of numbers if there are.

    Weights are left out where all are 1. Raises InputError for a name with a tab or newline in it.
    """
    i, j, w = edge_columns(affinity, all_nodes=names is not None)
    plain = bool((w == 1).all())
    texts = None
    if names is not None:
        wrong = next((t for t in names.texts if not t.strip() or set(t) & set("\t\n\r")), None)
        if wrong is not None or names.texts[0][:1] in "#%":
            raise InputError(f"{path}: a node named {store.text(wrong)!r} fits into no edge list")
        texts = names.texts
    with outputs.atomic(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        if texts is not None:
            file.write("source\ttarget\n" if plain else "source\ttarget\tweight\n")
        for start in range(0, len(w), _LINES):
            part = slice(start, start + _LINES)
            a, b = (i[part], j[part]) if texts is None else (texts[i[part]], texts[j[part]])
            columns = [a.tolist(), b.tolist()]
            if not plain:
                columns.append(list(map(repr, w[part].tolist())))
            form = "\t".join(["%s"] * len(columns)) + "\n"
            file.write("".join(map(form.__mod__, zip(*columns, strict=True))))
