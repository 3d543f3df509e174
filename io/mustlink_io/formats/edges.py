"""Edge lists: lines `i j [weight]` of numbers or names, read whole or by blocks, and written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import matrices, tables
from mustlink_io.formats.tables import NodeNames
from mustlink_io.formats.text import Kind, TextFile, advice, is_number, joined, open_text
from mustlink_io.hdf5 import store, writing
from mustlink_io.hdf5.file_names import EDGES, Place

Ends = NDArray[np.int64]
Weights = NDArray[np.float64]
Blocks = Iterator[tuple[Ends, Weights]]
NamedGraph = tuple[sp.csr_matrix, NodeNames | None, str | None]  # affinity, names, a note
Forced = Literal["name", "number"]  # twice in a header: what numbers below it are

ENDS = (
    *(("source", "target"), ("from", "to"), ("src", "dst"), ("i", "j")),
    *(("citing", "cited"), ("follower", "followed"), ("sender", "receiver")),
)
_MOST = 2**31 - 1  # number of a node that is read by blocks
_OTHERWISE = " (a header `number number` makes them numbers from 0)"


def of_numbers(
    ends: Ends,
    weights: Weights,
    where: str,
    forced: Forced | None = None,
    edge: Callable[[int], str] = "edge {}".format,
    *,
    directed: bool = False,
) -> NamedGraph:
    """Affinity of edges (m, 2) between numbered nodes, as `read_edges` has it; InputError.

    `edge` is how a message calls an edge, by its number from 0.
    """
    _check_edges(ends, weights, where, edge)
    made = _one_way if directed else affinity_of
    highest = int(ends.max())
    if highest > 8 * ends.size:
        known = np.unique(ends)
    else:
        seen = np.zeros(highest + 1, dtype=bool)
        seen[ends.ravel()] = True
        known = np.flatnonzero(seen)
    named, sparse = names_of(known, forced)
    if named is None:
        matrices.check_not_empty(highest + 1, len(ends), where)  # of numbers that were forced
        return made(ends, weights, highest + 1), None, None
    from_one = named[0] == 1 and named.size == highest
    known, ends = named, ends - 1 if from_one else np.searchsorted(named, ends)
    texts = np.array([str(number) for number in known.tolist()], dtype=object)
    if forced == "name":
        note = f"numbers are names of the {len(known)} nodes with edges, as its header says"
    elif sparse:
        note = (
            f"fewer than half of the numbers up to {highest} occur, so they are taken as names of "
            f"the {len(known)} nodes with edges{_OTHERWISE}"
        )
    else:
        note = (
            f"the smallest number is 1, so numbers from 1 to {highest} are taken as names of the "
            f"nodes{_OTHERWISE}"
        )
    note = f"{where}: {note}; labels and pairs name nodes by them, results have them in /names"
    return made(ends, weights, len(known)), NodeNames(texts, where), note


def names_of(
    known: NDArray[np.int64], forced: Forced | None
) -> tuple[NDArray[np.int64] | None, bool]:
    """The numbers that are names of nodes, rising, None where numbers are rows from 0.

    Also whether fewer than half of the numbers occur; `known` are those that do, rising.
    """
    lowest, highest = int(known[0]), int(known[-1])
    sparse = 2 * known.size < (highest if lowest == 1 else highest + 1)
    if forced == "number" or (forced is None and lowest != 1 and not sparse):
        return None, sparse
    by_name = sparse or forced == "name"
    return (known if by_name else np.arange(1, highest + 1)), sparse


def of_names(
    ends: Ends,
    weights: Weights,
    texts: NDArray[np.object_],
    where: str,
    edge: Callable[[int], str] = "edge {}".format,
    *,
    directed: bool = False,
) -> NamedGraph:
    """Affinity of edges between nodes (n,) with names, by their rows; raises InputError."""
    _check_edges(ends, weights, where, edge, texts=texts)
    made = _one_way if directed else affinity_of
    note = (
        f"{where}: {len(texts)} nodes have names (the first is {store.text(texts[0])[:40]!r}); "
        "results have them in /names"
    )
    return made(ends, weights, len(texts)), NodeNames(texts, where), note


def _check_edges(
    ends: Ends,
    weights: Weights,
    where: str,
    edge: Callable[[int], str],
    low: int = 0,
    high: int | None = None,
    texts: NDArray[np.object_] | None = None,
    before: int = 0,
) -> None:
    """Raise InputError for no edge, and for the first of a wrong weight or to a wrong number.

    There are so many edges `before` these in the file.
    """
    if not len(ends):
        raise InputError(f"{where}: a graph without edges; nothing to cluster")
    most = int(ends.max()) if high is None else high
    if ends.min() >= low and ends.max() <= most and weights.min() >= 0 and weights.max() < np.inf:
        return
    outside = np.asarray(((ends < low) | (ends > most)).any(axis=1))
    at = int((outside | ~((weights >= 0) & (weights < np.inf))).argmax())
    i, j = ends[at] if texts is None else [store.text(texts[end])[:40] for end in ends[at]]
    wrong = f"{where}: {edge(before + at)} ({i}, {j})"
    if outside[at]:
        to = "" if high is None else f" to {high}"
        raise InputError(f"{wrong}: nodes are numbered from {low}{to}")
    raise InputError(f"{wrong} has weight {weights[at]:g}; weights are finite and not negative")


def affinity_of(ends: Ends, weights: Weights, n: int) -> sp.csr_matrix:
    """Symmetric CSR (n, n) of edges (m, 2); the largest weight of an edge counts. O(m)."""
    one_way = _one_way(ends, weights, n)
    found = one_way.maximum(one_way.T.tocsr())
    found.eliminate_zeros()
    return found


def _one_way(ends: Ends, weights: Weights, n: int) -> sp.csr_matrix:
    """CSR (n, n) of edges from their first to their second ends, each with its largest weight.

    SciPy would sum the weights of an edge that is there twice. So each edge becomes a row of its
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


@dataclass(frozen=True)
class EdgeLines:
    """The lines of an edge list or of Matrix Market, and what they mean.

    `width` is the number of columns, `forced` what a header says of numbers. `shift` is the number
    of the first node, None where the numbers decide, and `n` how many nodes there are, likewise.
    With `both` every edge counts in its other direction, too; of equal edges the `largest` weight
    counts, or their sum.
    """

    text: TextFile
    width: int
    forced: Forced | None = None
    shift: int | None = None
    n: int | None = None
    both: bool = True
    largest: bool = True

    @property
    def where(self) -> str:
        """The file, for messages."""
        return str(self.text.path)

    @property
    def is_numbered(self) -> bool:
        """Whether nodes are numbers."""
        return all(map(is_number, self.text.cells[:2]))

    def edge(self, number: int) -> str:
        """How a message calls an edge."""
        return f"{self.text.line_of(number)}: the edge"

    def blocks(self) -> Blocks:
        """Ends (m, 2) as the file has them, and weights (m,), by blocks of lines; InputError."""
        kinds: list[Kind] = [int, int, float]
        columns: Any
        for columns in self.text.columns(kinds[: self.width]):
            ends: Ends = np.stack(columns[:2], axis=1)
            yield ends, columns[2] if self.width == 3 else np.ones(len(ends))

    def checked_blocks(self) -> Blocks:
        """The same, of nodes with 32-bit numbers and weights that are not negative; InputError."""
        low = self.shift or 0
        high = _MOST if self.n is None else low + self.n - 1
        done = 0
        for ends, weights in self.blocks():
            if len(ends):
                _check_edges(ends, weights, self.where, self.edge, low, high, before=done)
            done += len(ends)
            yield ends, weights

    def by_name(self) -> tuple[Ends, Weights, NDArray[np.object_]]:
        """Ends (m, 2), weights (m,) and names, numbered as they first occur; InputError."""
        row: dict[str, int] = {}
        ends, weights = [], []
        kinds: list[Kind] = [str, str, float]
        columns: Any
        for columns in self.text.columns(kinds[: self.width]):
            codes, known = [], None
            for words in columns[:2]:
                if words.categories is not known:
                    known = words.categories
                    names = np.array([row.setdefault(one, len(row)) for one in known], dtype=int)
                codes.append(names[words.codes])
            if "" in row:
                raise InputError(f"{self.where}: an edge has a node without a name")
            ends.append(np.stack(codes, axis=1))
            weights.append(columns[2] if self.width == 3 else np.ones(len(ends[-1])))
        return joined(ends), joined(weights), np.array(list(row), dtype=object)


def open_edges(path: Path) -> EdgeLines:
    """How an edge list begins; raises InputError."""
    text = open_text(path)
    if " {" in text.first and text.first.endswith("}"):  # which may have commas
        raise InputError(
            f"{path}: {{…}} instead of a weight, as networkx writes what edges have; write it by "
            "nx.write_weighted_edgelist, or nx.write_edgelist with data=False"
        )
    words = text.cells
    if len(words) not in (2, 3):
        raise InputError(
            f"{path}: {len(words)} columns; an edge list has i, j and optionally a weight"
        )
    lowered = [word.lower() for word in words]
    forced = forced_by(words)
    usual = tuple(lowered[:2]) in ENDS or {"source", "target", "weight"} & set(lowered)
    if usual or forced or (len(words) == 3 and not is_number(words[2])):
        text = text.below()
    return EdgeLines(text, len(words), forced)


def forced_by(header: Sequence[str]) -> Forced | None:
    """What a header says of the numbers below it, None if nothing."""
    found = {word.strip().lower() for word in header[:2]}
    return next((kind for kind in get_args(Forced) if found == {kind}), None)


def is_edge_table(header: Sequence[str]) -> bool:
    """Whether a header is that of edges: source,target and at most a weight."""
    names = tuple(name.strip().lower() for name in header)
    ends = names[:2] in ENDS or (len(names) > 1 and forced_by(names) is not None)
    return ends and names[2:] in ((), ("weight",))


def read_edges(path: Path, *, directed: bool = False) -> NamedGraph:
    """Read an edge list as a symmetric affinity; also returns names of nodes, and a note on them.

    Nodes are numbered from 0, and there are as many as the largest number plus one. Where the
    smallest number is 1, the numbers are names; so are words. Where fewer than half of the numbers
    up to the largest occur, they are names, too, and the nodes that occur are those of the graph.
    The header `name name [weight]` makes numbers names whatever they are, `number number [weight]`
    makes them numbers from 0. An edge may be listed in one direction or in both; of several weights
    of one edge the largest counts (nothing is summed); `directed` keeps directions apart. Lines
    that begin with # or % are comments; blanks, tabs, commas or semicolons separate columns.

    Time and memory by blocks of the file: 10 million edges take seconds. Raises InputError.
    """
    lines = open_edges(path)
    if lines.is_numbered:
        ends, weights = (joined(list(one)) for one in zip(*lines.blocks(), strict=True))
        made = of_numbers(ends, weights, str(path), lines.forced, lines.edge, directed=directed)
    else:
        made = of_names(*lines.by_name(), str(path), lines.edge, directed=directed)
    notes = [note for note in (made[2], advice(path)) if note is not None]
    return made[0], made[1], "; ".join(notes) or None


def of_table(table: tables.Table, where: str, *, directed: bool = False) -> NamedGraph:
    """Affinity of a table whose first two columns are the ends of edges; raises InputError."""
    cells = [table.text(at) for at in (0, 1)]
    weights = np.ones(table.n_rows)
    if len(table.columns) > 2:
        if table.is_text(2):
            raise InputError(f"{where}: column {table.header[2]!r} is text; weights are numbers")
        weights = table.text(2).astype(np.float64)
    if not table.is_text(0) and not table.is_text(1):
        ends = np.column_stack([tables.to_integers(part, where, "edge") for part in cells])
        return of_numbers(ends, weights, where, forced_by(table.header), directed=directed)
    names = np.concatenate([tables.as_text(part) for part in cells])
    row = {name: at for at, name in enumerate(dict.fromkeys(names))}
    flat = np.fromiter(map(row.__getitem__, names), np.int64, len(names))
    texts = np.array(list(row), dtype=object)
    return of_names(flat.reshape(2, -1).T, weights, texts, where, directed=directed)


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


_LINES = 2**16  # edges written at once


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


def lines_of(place: Place) -> EdgeLines:
    """The lines of a file whose edges are read by blocks; raises InputError for any other file."""
    if place.suffix == ".mtx":
        return _matrix_market(place)
    if place.suffix not in EDGES:
        raise InputError(
            f"{place}: only edge lists and Matrix Market are read by blocks; leave out --memory"
        )
    lines = open_edges(place.path)
    if not lines.is_numbered:
        raise InputError(
            f"{place}: nodes are words; by blocks of lines nodes are numbers only: leave out "
            "--memory, or number them"
        )
    return replace(lines, shift=0) if lines.forced == "number" else lines


def _matrix_market(place: Place) -> EdgeLines:
    head = matrices.mtx_header(place.path)
    if head.form != "coordinate" or head.field not in ("real", "integer", "pattern"):
        raise InputError(f"{place}: a {head.form} {head.field} matrix; a graph is sparse and real")
    if head.symmetry not in ("general", "symmetric"):
        raise InputError(f"{place}: {head.symmetry} matrix; a graph is general or symmetric")
    if head.rows != head.columns or not 0 < head.rows <= _MOST:
        raise InputError(
            f"{place}: shape ({head.rows}, {head.columns}); a graph has as many rows as columns"
        )
    text = replace(open_text(place.path).below(), mark=None)
    width, both = 2 if head.field == "pattern" else 3, head.symmetry == "symmetric"
    return EdgeLines(text, width, None, 1, head.rows, both, largest=False)
