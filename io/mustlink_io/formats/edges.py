"""Edge lists: lines `i j [weight]` of numbers or of names, in either direction or both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import matrices, tables
from mustlink_io.formats.names import NodeNames
from mustlink_io.hdf5 import store, writing

Found = tuple[sp.csr_matrix, NodeNames | None, str | None]  # affinity, names, what was decided

Forced = Literal["name", "number"]  # twice in a header: what numbers below it are

_OTHERWISE = " (a header `number number` makes them numbers from 0)"


@dataclass(frozen=True)
class Lines:
    """The lines of a file of edges after the first `skip` ones, for messages."""

    path: Path
    skip: int

    def told(self, edge: int) -> str:
        """The line of an edge, numbered from 0, and what is on it."""
        return tables.told_line(self.path, self.skip, edge)


def of_numbers(
    ends: NDArray[np.int64],
    weights: NDArray[np.float64],
    where: str,
    forced: Forced | None = None,
    lines: Lines | None = None,
    *,
    directed: bool = False,
) -> Found:
    """Affinity of edges between numbered nodes; see `read_edges`. Raises InputError."""
    _check_edges(ends, weights, where, lines)
    made = _one_way if directed else affinity_of
    lowest, highest = int(ends.min()), int(ends.max())
    total = highest if lowest == 1 else highest + 1
    sparse = 2 * _count(ends, highest) < total
    if forced == "number" or (forced is None and lowest != 1 and not sparse):
        matrices.check_not_empty(highest + 1, len(ends), where)  # of numbers that were forced
        return made(ends, weights, highest + 1), None, None
    if sparse or forced == "name":
        known, ends = _ranked(ends, highest)
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
    return made(ends, weights, len(known)), NodeNames(texts, where), note


def _ranked(ends: NDArray[np.int64], highest: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers that occur, rising, and which of them every end (m, 2) is."""
    if highest > 8 * ends.size:
        known, flat = np.unique(ends, return_inverse=True)
        return known, flat.reshape(ends.shape).astype(np.int64)
    seen = _seen(ends, highest)
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[ends]


def _count(ends: NDArray[np.int64], highest: int) -> int:
    """How many numbers occur, at least: 0 stands for fewer than half of those up to the highest."""
    if highest + 1 > 2 * ends.size:
        return 0
    return int(np.count_nonzero(_seen(ends, highest)))


def _seen(ends: NDArray[np.int64], highest: int) -> NDArray[np.bool_]:
    seen = np.zeros(highest + 1, dtype=bool)
    for at in range(2):
        seen[ends[:, at]] = True
    return seen


def of_names(
    ends: NDArray[np.int64],
    weights: NDArray[np.float64],
    texts: NDArray[np.object_],
    where: str,
    lines: Lines | None = None,
    *,
    directed: bool = False,
) -> Found:
    """Affinity of edges between named nodes, given by their rows."""
    _check_edges(ends, weights, where, lines, texts)
    made = _one_way if directed else affinity_of
    note = (
        f"{where}: {len(texts)} nodes have names (the first is {store.text(texts[0])[:40]!r}); "
        "results have them in /names"
    )
    return made(ends, weights, len(texts)), NodeNames(texts, where), note


def _check_edges(
    ends: NDArray[np.int64],
    weights: NDArray[np.float64],
    where: str,
    lines: Lines | None = None,
    texts: NDArray[np.object_] | None = None,
) -> None:
    if not len(ends):
        raise InputError(f"{where}: a graph without edges; nothing to cluster")
    if ends.min() < 0 or not (weights.min() >= 0 and weights.max() < np.inf):
        at = int((~((weights >= 0) & (weights < np.inf)) | (ends.min(axis=1) < 0)).argmax())
        i, j = ends[at] if texts is None else [store.text(texts[end])[:40] for end in ends[at]]
        line = f"{lines.told(at)}: the edge" if lines is not None else f"edge {at}"
        if ends[at].min() < 0:
            raise InputError(f"{where}: {line} ({i}, {j}): nodes are numbered from 0")
        raise InputError(
            f"{where}: {line} ({i}, {j}) has weight {weights[at]:g}; weights are finite and not "
            "negative"
        )


def affinity_of(ends: NDArray[np.int64], weights: NDArray[np.float64], n: int) -> sp.csr_matrix:
    """Symmetric CSR (n, n) of edges (m, 2); the largest weight of an edge counts. O(m)."""
    one_way = _one_way(ends, weights, n)
    found = one_way.maximum(one_way.T.tocsr())
    found.eliminate_zeros()
    return found


def _one_way(ends: NDArray[np.int64], weights: NDArray[np.float64], n: int) -> sp.csr_matrix:
    """CSR (n, n) of edges in the direction that they are given in, each with its largest weight.

    SciPy would sum the weights of an edge that is given twice. So each edge becomes a row of its
    own, with an entry at its first end; to turn these is to order the edges, in O(m + n).
    """
    m = len(weights)
    index = np.dtype(np.int32 if max(m, n) < 2**31 else np.int64)
    i: NDArray[Any] = ends[:, 0].astype(index)
    j: NDArray[Any] = ends[:, 1].astype(index)
    ordered = sp.csr_matrix((weights, i, np.arange(m + 1, dtype=index)), shape=(m, n)).tocsc()
    pointer = ordered.indptr
    found = sp.csr_matrix((ordered.data, j[ordered.indices], pointer), shape=(n, n))
    found.sort_indices()
    first = np.diff(found.indices, prepend=-1) != 0
    first[pointer[:-1][np.diff(pointer) > 0]] = True
    if first.all():
        return found
    data = np.maximum.reduceat(found.data, np.flatnonzero(first))
    before = np.concatenate([[0], np.cumsum(first)])
    return sp.csr_matrix((data, found.indices[first], before[pointer]), shape=(n, n))


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
    csv, kinds = tables.reader_of(lines.path), ["int64", "int64", "float64"][:width]
    done = 0
    for block in tables.line_blocks(lines.path, lines.skip, "#%"):
        try:
            i, j, *weights = tables.columns(csv, block, mark, kinds)
            part = np.stack([i, j], axis=1), weights[0] if weights else np.ones(len(i))
        except tables.NotPlainError:
            part = _block(block, lines, mark, width, done)
        done += len(part[1])
        yield part


def _block(
    block: bytes, lines: Lines, mark: str | None, width: int, done: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Ends and weights in a block of lines, the first of which is edge `done`."""
    clean = block.translate(bytes.maketrans(b",;", b"  ")) if mark in (",", ";") else block
    try:
        values, counts = tables.numbers(clean, float, str(lines.path))
    except tables.WordError as error:
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
        parts = zip(*edge_blocks(found), strict=True)
        ends, weights = (tables.joined(list(one)) for one in parts)
        made = of_numbers(ends, weights, str(path), forced, lines, directed=directed)
    else:
        named = _named(lines, mark, len(words))
        made = of_names(*named, str(path), lines, directed=directed)
    notes = [note for note in (made[2], tables.advice(path)) if note is not None]
    return made[0], made[1], "; ".join(notes) or None


def _named(
    lines: Lines, mark: str | None, width: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.object_]]:
    """Ends (m, 2), weights (m,) and names of nodes that are words, numbered as they first occur."""
    path, csv = lines.path, tables.reader_of(lines.path)
    row: dict[str, int] = {}
    ends, weights, done = [], [], 0
    for block in tables.line_blocks(path, lines.skip, "#%"):
        try:
            texts, codes, values = tables.words(csv, block, mark, width)
        except tables.NotPlainError:
            texts, codes, values = _words(block, lines, mark, width, done)
        number = np.array([row.setdefault(text, len(row)) for text in texts], dtype=np.int64)
        ends.append(number[codes].T)
        weights.append(np.ones(codes.shape[1]) if values is None else values)
        done += codes.shape[1]
    if not row:
        raise InputError(f"{path}: a header, but no values below it")
    return tables.joined(ends), tables.joined(weights), np.array(list(row), dtype=object)


def _words(
    block: bytes, lines: Lines, mark: str | None, width: int, done: int
) -> tuple[list[str], NDArray[np.int64], NDArray[np.float64] | None]:
    """What `tables.words` tells, of a block whose first line is edge `done`; raises InputError."""
    cells, counts = _cells(block, mark)
    if set(counts) - {width}:
        wrong = next(at for at, count in enumerate(counts) if count != width)
        raise uneven(lines, done + wrong, counts[wrong], width)
    here = cells[0::width] + cells[1::width]
    place = {cell: at for at, cell in enumerate(dict.fromkeys(here))}
    if b"" in place:
        raise InputError(f"{lines.path}: an edge has a node without a name")
    try:
        texts = [cell.decode() for cell in place]
    except UnicodeDecodeError:
        raise InputError(f"{lines.path}: not a text file in UTF-8") from None
    codes = np.fromiter(map(place.__getitem__, here), np.int64, len(here)).reshape(2, -1)
    return texts, codes, _weights(cells[2::width], lines, done) if width == 3 else None


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
