"""Graphs in METIS files, by blocks of lines, and in GraphML, through networkx."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import edges
from mustlink_io.formats.tables import NodeNames
from mustlink_io.formats.text import TextFile, is_number
from mustlink_io.hdf5 import size_checks, store, writing
from mustlink_io.system import needed

LARGEST = 1_000_000  # weight in a file that is written, where weights must be rounded
_LINES = 2**15  # nodes written at once


def header(path: Path) -> tuple[int, int, int, bool, int]:
    """Nodes, edges, numbers before the neighbors of a node, whether edges have weights, lines.

    As they are declared. Raises InputError.
    """
    store.check_readable(path)
    with path.open(encoding="latin-1") as file:
        lines = enumerate((line.split() for line in file), start=1)
        number, words = next(
            ((at, line) for at, line in lines if line and line[0][0] != "%"), (0, [])
        )
    if not words:
        raise InputError(f"{path}: empty; a METIS file begins with a header `n m`")
    form = words[2].zfill(3) if len(words) > 2 else "000"
    numeric = all(word.isascii() and word.isdigit() for word in words)
    if not numeric or not 2 <= len(words) <= 4 or len(form) != 3 or set(form) - {"0", "1"}:
        shown = store.text(" ".join(words))[:60]
        raise InputError(
            f"{path}: the header {shown!r} is not `n m [fmt [ncon]]` as METIS has it, fmt being "
            "three digits 0 or 1"
        )
    n, m = int(words[0]), int(words[1])
    n_weights = int(words[3]) if len(words) > 3 else 1
    before = int(form[0]) + (n_weights if form[1] == "1" else 0)
    size = path.stat().st_size
    if n == 0 or n > size or 2 * m > size or before > size:
        raise InputError(
            f"{path}: the header declares {n} nodes and {m} edges, which its {size} bytes cannot "
            "hold"
        )
    return n, m, before, form[2] == "1", number


def read_metis(path: Path) -> tuple[sp.csr_matrix, str | None]:
    """Read a METIS file as a symmetric affinity; sizes and weights of nodes are left out.

    Also returns a note on what was left out. Raises InputError for a header that lies, a neighbour
    that is no node, weights that are not positive, and adjacency that is not symmetric. Lines
    are read by blocks.
    """
    n, m, before, weighted, lines = header(path)
    size_checks.check_fits(4 * path.stat().st_size, str(path))
    parts, ends = [], []
    for block in TextFile(path, lines, "", None).blocks("%"):
        there, each = _numbers(block, not weighted and not before, path)
        parts.append(there)
        ends.append(each)
    numbers = np.concatenate(parts or [np.empty(0)])
    counts = np.concatenate(ends or [np.empty(0, np.int64)])
    if counts.size < n:
        raise InputError(
            f"{path}: the header declares {n} nodes, but there are {counts.size} lines of them"
        )
    if counts[n:].any():
        raise InputError(f"{path}: more lines of neighbors than the {n} nodes declared")
    counts, width = counts[:n], 2 if weighted else 1
    degrees, rest = np.divmod(counts - before, width)
    wrong = np.flatnonzero((degrees < 0) | (rest != 0))
    if wrong.size:
        raise InputError(
            f"{path}: the line of node {wrong[0] + 1} has {counts[wrong[0]]} numbers, which does "
            "not fit the form that the header declares"
        )
    if before:
        first = np.cumsum(counts) - counts
        numbers = np.delete(numbers, (first[:, None] + np.arange(before)).ravel())
    neighbors, weights = numbers[::width], numbers[1::2] if weighted else np.ones(len(numbers))
    odd = neighbors[(neighbors < 1) | (neighbors > n) | (neighbors != np.rint(neighbors))]
    if odd.size:
        raise InputError(f"{path}: a neighbor {odd[0]:g}, but nodes are numbered from 1 to {n}")
    if not (weights > 0).all() or not (weights < np.inf).all():
        bad = weights[~((weights > 0) & (weights < np.inf))][0]
        raise InputError(f"{path}: an edge of weight {bad:g}; weights are positive")
    if len(neighbors) != 2 * m:
        raise InputError(
            f"{path}: the header declares {m} edges, but the lines hold {len(neighbors)} "
            f"neighbors, those of {len(neighbors) / 2:g} edges"
        )
    index: NDArray[Any] = (neighbors - 1).astype(np.int32 if max(n, 2 * m) < 2**31 else np.int64)
    pointer = np.concatenate([[0], np.cumsum(degrees)]).astype(index.dtype)
    found = _symmetric(sp.csr_matrix((weights.astype(float), index, pointer), shape=(n, n)), path)
    return found, f"{path}: sizes or weights of nodes are left out" if before else None


def _numbers(block: bytes, whole: bool, path: Path) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Numbers (m,) of a block of lines, and how many are on every line; raises InputError.

    Whole numbers alone are read five times faster.
    """
    chars = np.frombuffer(block, dtype=np.uint8)
    solid = chars > ord(" ")
    solid[1:] &= ~solid[:-1]  # where cells begin
    starts = np.flatnonzero(solid)
    values: NDArray[Any] = np.empty(0)
    with warnings.catch_warnings(), contextlib.suppress(ValueError):
        warnings.simplefilter("ignore")  # of a cell that is no number
        if starts.size:  # of blanks alone numpy makes a number
            values = np.fromstring(block, dtype=np.int64 if whole else np.float64, sep=" ")
    if values.size != starts.size:
        lines = block.decode("utf-8", "replace").split("\n")
        good = str.isdecimal if whole else is_number
        wrong = [(cell, line) for line in lines for cell in line.split() if not good(cell)]
        cell, line = map(store.text, wrong[0]) if wrong else ("a cell", "")
        noun = "whole number" if whole else "number"
        raise InputError(
            f"{path}: {cell[:40]!r} is not a {noun}, in the line {line.strip()[:60]!r}"
        )
    ends = np.searchsorted(starts, np.flatnonzero(chars == ord("\n")))
    return values, np.diff(ends, prepend=0)


def _symmetric(matrix: sp.csr_matrix, path: Path) -> sp.csr_matrix:
    """The matrix with sorted rows, if it is a symmetric adjacency without loops."""
    turned = matrix.T.tocsr()  # sorts the columns of every row
    again = turned.T.tocsr()
    if not again.has_canonical_format:
        raise InputError(f"{path}: a node names the same neighbor twice")
    if again.diagonal().any():
        at = int(np.flatnonzero(again.diagonal())[0]) + 1
        raise InputError(f"{path}: node {at} is its own neighbor, which METIS does not allow")
    same = np.array_equal(turned.indptr, again.indptr) and np.array_equal(
        turned.indices, again.indices
    )
    if same and np.array_equal(turned.data, again.data):
        return again
    odd: Any = turned != again
    i, j = (int(part[0]) + 1 for part in odd.nonzero())
    raise InputError(
        f"{path}: the edge between nodes {i} and {j} (from 1) is not the same in both lines; an "
        "undirected graph names it twice, with one weight"
    )


def write_metis(path: str, affinity: sp.csr_matrix) -> list[str]:
    """Write a symmetric affinity; returns notes on what the format cannot hold.

    METIS has whole weights from 1 and no loops: other weights are scaled to the largest being a
    million and rounded. Equal weights of 1 are left out.
    """
    notes = []
    loops = affinity.diagonal()
    if loops.any():
        affinity = affinity - sp.diags(loops)
        affinity.eliminate_zeros()
        count = np.count_nonzero(loops)
        notes.append(f"{path}: {count} edges of a node to itself left out, METIS has none")
    affinity = sp.csr_matrix(affinity)
    weights = affinity.data
    plain = bool((weights == 1).all())
    whole = weights
    if not plain and not ((weights == np.rint(weights)) & (weights < 2**31)).all():
        scale = LARGEST / float(weights.max())
        whole = np.maximum(1, np.rint(weights * scale))
        notes.append(
            f"{path}: weights multiplied by {scale:.6g} and rounded to whole numbers from 1 to "
            f"{LARGEST:,}, as METIS wants"
        )
    n = affinity.shape[0]
    with writing.atomic(path) as temporary, temporary.open("w", encoding="ascii") as file:
        file.write(f"{n} {affinity.nnz // 2}{'' if plain else ' 001'}\n")
        for start in range(0, n, _LINES):
            pointer = affinity.indptr[start : start + _LINES + 1]
            part = slice(int(pointer[0]), int(pointer[-1]))
            words = list(map(str, (affinity.indices[part] + 1).tolist()))
            if not plain:
                heavy = whole[part].astype(np.int64).tolist()
                words = list(map("%s %d".__mod__, zip(words, heavy, strict=True)))
            ends = (pointer - pointer[0]).tolist()
            file.writelines(" ".join(words[a:b]) + "\n" for a, b in itertools.pairwise(ends))
    return notes


MOST = 1_000_000  # edges; networkx takes about 2.5 kB and 30 microseconds for each


def _read(path: Path) -> Any:
    networkx = needed("networkx", path, "networks")
    store.check_file(path)
    with store.refusing(f"{path}: not a GraphML file"):
        return networkx.read_graphml(path)


def read_graphml(path: Path, *, directed: bool = False) -> edges.NamedGraph:
    """Read a simple graph and the names of its nodes; raises InputError.

    A graph whose edges have directions is refused unless `directed`. The edge attribute `weight`
    counts, or every edge as 1 if none has it.
    """
    graph = _read(path)
    if graph.is_directed() and not directed:
        raise InputError(
            f"{path}: a directed graph; cluster it by -m disim, or decide what two directions of "
            'one edge mean and write it with edgedefault="undirected"'
        )
    if graph.is_multigraph():
        raise InputError(f"{path}: several edges between two nodes; join them into one first")
    if not graph.number_of_nodes():
        raise InputError(f"{path}: a graph without nodes")
    row = {name: at for at, name in enumerate(graph)}
    weights = [weight for _, _, weight in graph.edges(data="weight")]
    stored = [weight for weight in weights if weight is not None]
    if stored and len(stored) < len(weights):
        raise InputError(
            f"{path}: {len(weights) - len(stored)} of {len(weights)} edges have no weight; give it "
            "to all or to none"
        )
    ends = np.array([(row[a], row[b]) for a, b in graph.edges()], dtype=np.int64).reshape(-1, 2)
    if not all(isinstance(weight, int | float) for weight in stored):
        raise InputError(f"{path}: the edge attribute `weight` is not a number")
    values = np.array(stored, dtype=np.float64) if stored else np.ones(len(ends))
    texts = np.array([str(name) for name in row], dtype=object)
    return edges.of_names(ends, values, texts, str(path), directed=graph.is_directed())


def write_graphml(path: str, affinity: sp.csr_matrix, names: NodeNames | None) -> None:
    """Write every edge with its weight; nodes are named, or numbered from 0."""
    networkx = needed("networkx", path, "networks")
    if affinity.nnz > 2 * MOST:
        raise InputError(
            f"{path}: {affinity.nnz // 2:,} edges; GraphML is written up to {MOST:,}, take .metis, "
            ".mtx or .h5"
        )
    if names is not None and names.repeated is not None:
        raise InputError(
            f"{path}: two nodes are named {store.text(names.repeated)[:40]!r}, which GraphML does "
            "not allow"
        )
    graph: Any = networkx.Graph()
    known = range(affinity.shape[0]) if names is None else names.texts.tolist()
    graph.add_nodes_from(known)
    i, j, w = edges.edge_columns(affinity)
    real = w != 0
    triples = zip(i[real].tolist(), j[real].tolist(), w[real].tolist(), strict=True)
    graph.add_weighted_edges_from((known[a], known[b], weight) for a, b, weight in triples)
    _write(path, graph)


def _write(path: str, graph: Any) -> None:
    networkx = needed("networkx", path, "networks")
    refusing = store.refusing(f"{path}: cannot be written as GraphML")
    with writing.atomic(path) as temporary, refusing:
        networkx.write_graphml(graph, temporary)


def annotate_graphml(
    source: Path,
    output: str,
    columns: Mapping[str, NDArray[Any]],
    names: NodeNames | None,
    *,
    overwrite: bool = False,
) -> list[str]:
    """Write a copy of a graph, of any kind, with attributes of nodes added; returns notes.

    `columns` (n,) are in the order of `names`, by which nodes are matched, or without them in the
    order of the file. What nodes have under a name already is replaced only with `overwrite`.
    Raises InputError.
    """
    graph = _read(source)
    networkx = needed("networkx", source, "networks")
    nodes = list(graph)
    taken = {name for _, about in graph.nodes(data=True) for name in about} & set(columns)
    if taken and not overwrite:
        raise InputError(
            f"{source}: its nodes have an attribute {min(taken)!r} already; give --overwrite, or "
            "another name as --key"
        )
    n_result = len(next(iter(columns.values())))
    rows: NDArray[np.int64] = np.arange(len(nodes))
    notes = []
    if names is not None:
        there = NodeNames(np.array([str(node) for node in nodes], dtype=object), str(source))
        rows = names.matched(there)
        if len(nodes) != n_result:
            notes.append(f"{source}: has {len(nodes)} of the result's {n_result} nodes")
    elif len(nodes) != n_result:
        raise InputError(f"{source}: {len(nodes)} nodes, but the result has {n_result}")
    for key, column in columns.items():
        values = column[rows].tolist()
        networkx.set_node_attributes(graph, dict(zip(nodes, values, strict=True)), key)
    _write(output, graph)
    return notes
