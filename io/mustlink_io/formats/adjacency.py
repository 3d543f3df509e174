"""Edges become a symmetric affinity, between numbers or names; the largest weight counts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import matrices, tokens
from mustlink_io.formats.names import NodeNames
from mustlink_io.hdf5 import store

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
        return tokens.told_line(self.path, self.skip, edge)


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
