"""Edge lists: lines `i j [weight]` of numbers or names, read whole, or any edges by blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import matrices, tables
from mustlink_io.formats.tables import NodeNames
from mustlink_io.formats.text import TextFile, Words, advice, is_number, joined, open_text
from mustlink_io.hdf5 import store, writing
from mustlink_io.hdf5.file_names import EDGES, Place

Ends = NDArray[np.int64]
Weights = NDArray[np.float64]
Blocks = Iterator[tuple[Ends, Weights]]
NamedGraph = tuple[sp.csr_matrix, NodeNames | None, str | None]  # affinity, names, a note
Forced = Literal["name", "number"]  # twice in a header: what numbers below it are

ENDS = (("source", "target"), ("from", "to"), ("src", "dst"), ("i", "j"))
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


def _ranked(ends: Ends, highest: int) -> tuple[Ends, Ends]:
    """The numbers that occur, rising, and which of them every end (m, 2) is."""
    if highest > 8 * ends.size:
        known, flat = np.unique(ends, return_inverse=True)
        return known, flat.reshape(ends.shape).astype(np.int64)
    seen = _seen(ends, highest)
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[ends]


def _count(ends: Ends, highest: int) -> int:
    """How many numbers occur, at least: 0 stands for fewer than half of those up to the highest."""
    if highest + 1 > 2 * ends.size:
        return 0
    return int(np.count_nonzero(_seen(ends, highest)))


def _seen(ends: Ends, highest: int) -> NDArray[np.bool_]:
    seen = np.zeros(highest + 1, dtype=bool)
    for at in range(2):
        seen[ends[:, at]] = True
    return seen


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
) -> None:
    """Raise InputError for no edge, and for the first of a wrong weight or to a wrong number."""
    if not len(ends):
        raise InputError(f"{where}: a graph without edges; nothing to cluster")
    most = int(ends.max()) if high is None else high
    if ends.min() >= low and ends.max() <= most and weights.min() >= 0 and weights.max() < np.inf:
        return
    outside = ((ends < low) | (ends > most)).any(axis=1)
    at = int((outside | ~((weights >= 0) & (weights < np.inf))).argmax())
    i, j = ends[at] if texts is None else [store.text(texts[end])[:40] for end in ends[at]]
    if outside[at]:
        to = "" if high is None else f" to {high}"
        raise InputError(f"{where}: {edge(at)} ({i}, {j}): nodes are numbered from {low}{to}")
    raise InputError(
        f"{where}: {edge(at)} ({i}, {j}) has weight {weights[at]:g}; weights are finite and not "
        "negative"
    )


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
    """The lines of an edge list, their number of columns, and what a header says of numbers."""

    text: TextFile
    width: int
    forced: Forced | None = None

    @property
    def is_numbered(self) -> bool:
        """Whether nodes are numbers."""
        return all(map(is_number, self.text.cells[:2]))

    def edge(self, number: int) -> str:
        """How a message calls an edge."""
        return f"{self.text.line_of(number)}: the edge"

    def blocks(self) -> Blocks:
        """Ends (m, 2) and weights (m,) of numbered nodes, by blocks of lines; InputError."""
        for i, j, *weights in self.text.columns([int, int, float][: self.width]):  # type: ignore[misc]
            ends: Ends = np.stack([i, j], axis=1)
            yield ends, weights[0] if weights else np.ones(len(ends))  # type: ignore[misc]

    def by_name(self) -> tuple[Ends, Weights, NDArray[np.object_]]:
        """Ends (m, 2), weights (m,) and names, numbered as they first occur; InputError."""
        row: dict[str, int] = {}
        ends, weights = [], []
        for *both, last in self.text.columns([str, str, float][: self.width]):
            if self.width == 2:
                both.append(last)
            codes = []
            for words in both:
                assert isinstance(words, Words)
                if "" in words.categories:
                    raise InputError(f"{self.text.path}: an edge has a node without a name")
                names = [row.setdefault(name, len(row)) for name in words.categories]
                codes.append(np.array(names, dtype=np.int64)[words.codes])
            ends.append(np.stack(codes, axis=1))
            weights.append(np.ones(len(ends[-1])) if self.width == 2 else last)
        return joined(ends), joined(weights), np.array(list(row), dtype=object)  # type: ignore[arg-type]


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


_MOST = 2**31 - 1
_PART = 1 << 20  # entries of an .npz read at once


@dataclass(frozen=True)
class Triplets:
    """Edges of numbered nodes in a file, which is read anew for every pass.

    `shift` is the number of the first node, None where the numbers decide, and `n` how many there
    are, likewise; `by_name`: numbers are names. With `both` every edge is to be added in its other
    direction, too; of equal entries the `largest` counts, or their sum. `parts` reads them, `edge`
    is how a message calls one.
    """

    where: str
    shift: int | None
    n: int | None
    both: bool
    largest: bool
    parts: Callable[[], Blocks]
    edge: Callable[[int], str]
    by_name: bool = False

    def blocks(self) -> Blocks:
        """Ends (m, 2) as the file has them, and weights (m,); raises InputError."""
        low = self.shift or 0
        high = _MOST if self.n is None else low + self.n - 1
        done = 0
        for ends, weights in self.parts():
            before = done
            if len(ends):
                called = lambda at, before=before: self.edge(before + at)  # noqa: E731
                _check_edges(ends, weights, self.where, called, low, high)
            done += len(weights)
            yield ends, weights


def triplets(place: Place) -> Triplets:
    """How edges are to be read from a file; raises InputError where that is not by blocks."""
    if place.suffix == ".mtx":
        n, both, lines = _matrix_market(place)
        return Triplets(str(place), 1, n, both, False, lines.blocks, lines.edge)
    if place.suffix == ".npz":
        n = _npz_nodes(place)
        return Triplets(
            str(place), 0, n, False, False, partial(_of_npz, place, n), "entry {}".format
        )
    if place.suffix not in EDGES:
        raise InputError(
            f"{place}: only edge lists, Matrix Market and .npz are read by blocks; leave out "
            "--memory"
        )
    lines = open_edges(place.path)
    if not lines.is_numbered:
        raise InputError(
            f"{place}: nodes are words; by blocks of lines nodes are numbers only: leave out "
            "--memory, or number them"
        )
    shift = 0 if lines.forced == "number" else None
    forced = lines.forced == "name"
    return Triplets(str(place), shift, None, True, True, lines.blocks, lines.edge, forced)


def _matrix_market(place: Place) -> tuple[int, bool, EdgeLines]:
    """Nodes, whether entries stand for both directions, and lines of entries; raises InputError."""
    head = matrices.mtx_header(place.path)
    if head.form != "coordinate" or head.field not in ("real", "integer", "pattern"):
        raise InputError(f"{place}: a {head.form} {head.field} matrix; a graph is sparse and real")
    if head.symmetry not in ("general", "symmetric"):
        raise InputError(f"{place}: {head.symmetry} matrix; a graph is general or symmetric")
    if head.rows != head.columns or not 0 < head.rows <= _MOST:
        raise InputError(
            f"{place}: shape ({head.rows}, {head.columns}); a graph has as many rows as columns"
        )
    lines = EdgeLines(open_text(place.path).below(), 2 if head.field == "pattern" else 3)
    return head.rows, head.symmetry == "symmetric", lines


def _npz_nodes(place: Place) -> int:
    """Rows of a square sparse matrix in an .npz; raises InputError."""
    with matrices.open_npz(place.path) as archive:
        if place.part or not matrices.is_sparse_npz(archive):
            raise InputError(f"{place}: no sparse matrix in it, which alone is read by blocks")
        shape = np.atleast_1d(archive["shape"])
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape[0] != shape[1]:
        raise InputError(f"{place}: shape {shape.tolist()}; a graph has as many rows as columns")
    return int(shape[0])


def _of_npz(place: Place, n: int) -> Blocks:
    """Entries of a sparse matrix in an .npz of scipy, a part at a time; raises InputError."""
    wrong = InputError(f"{place}: as many numbers in data as columns are wanted")
    done = 0
    with matrices.open_npz(place.path) as archive:
        ends = _pairs_of(archive, n, str(place))
        for pairs, data in zip(ends, archive.parts("data", _PART), strict=False):
            if len(pairs) != len(data) or data.dtype.kind not in "fiub":
                raise wrong
            done += len(data)
            yield pairs, data.astype(np.float64)
        if (done,) != archive.declares("data")[0]:
            raise wrong


def _pairs_of(archive: matrices.Archive, n: int, where: str) -> Iterator[Ends]:
    """Rows and columns (m, 2) of the entries, part by part, in the order of the file."""
    if "row" in archive:
        for i, j in zip(archive.parts("row", _PART), archive.parts("col", _PART), strict=True):
            yield _integers(np.stack([i, j], axis=1), where)
        return
    ends = _integers(archive["indptr"], where)
    size = archive.declares("indices")[0]
    if ends.size != n + 1 or ends[0] != 0 or (np.diff(ends) < 0).any() or (ends[-1],) != size:
        raise InputError(f"{where}: indptr must begin with 0, never fall and end with {size[0]}")
    done = 0
    for columns in archive.parts("indices", _PART):
        entries = np.arange(done, done + len(columns))
        rows = np.searchsorted(ends, entries, side="right") - 1
        done += len(columns)
        yield np.stack([rows, _integers(columns, where)], axis=1)


def _integers(values: NDArray[np.generic], where: str) -> NDArray[np.int64]:
    if values.dtype.kind not in "iu":
        raise InputError(f"{where}: rows and columns must be integers, not {values.dtype}")
    return values.astype(np.int64)
