"""New edges: the pairs that propagation believes in most and that the graph does not have."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.lyapunov.equation import Field
from mustlink.operators.laplacian import Block

Ints = NDArray[np.integer]

_CELLS = 1 << 24  # entries of F written out at once


@dataclass(frozen=True, eq=False)
class NewEdges:
    """Pairs i < j outside the graph with their F_ij > 0, each (e,)."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    beliefs: NDArray[np.float64]

    @property
    def count(self) -> int:
        """Number e of pairs."""
        return int(self.first.size)

    def matrix(self, m: int) -> sp.csr_matrix:
        """The beliefs as a symmetric matrix (m, m)."""
        ends = np.concatenate([self.first, self.second]), np.concatenate([self.second, self.first])
        values = np.concatenate([self.beliefs, self.beliefs])
        return sp.csr_matrix((values, ends), shape=(m, m))

    def pattern(self, m: int) -> sp.csr_matrix:
        """The pairs as a symmetric pattern (m, m) of ones with sorted rows."""
        found = replace(self, beliefs=np.ones(self.count)).matrix(m)
        found.sort_indices()
        return found


def none() -> NewEdges:
    """No new edges."""
    return NewEdges(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def once(rows: Ints, columns: Ints, beliefs: NDArray[np.float64], m: int) -> NewEdges:
    """Every pair once, whichever of its ends asked for it; F is the one found from the lower."""
    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    order = np.lexsort((rows, high, low))  # the row of the lower end comes first
    low, high, beliefs = low[order].astype(np.int64), high[order].astype(np.int64), beliefs[order]
    first = np.append(True, (low[1:] != low[:-1]) | (high[1:] != high[:-1]))[: low.size]
    return NewEdges(low[first], high[first], beliefs[first])


def best_of(pattern: sp.csr_matrix, values: Block, count: int, floor: float) -> NewEdges:
    """The `count` largest values > floor of every row of a symmetric pattern, (nnz,)."""
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    order = np.lexsort((-values, rows))
    rank = np.arange(rows.size) - pattern.indptr[:-1][rows]
    taken = order[(rank < count) & (values[order] > floor)]
    return once(rows[taken], pattern.indices[taken], values[taken], pattern.shape[0])


def strongest(field: Field, pattern: sp.csr_matrix, count: int, floor: float) -> NewEdges:
    """The `count` largest F_ij > floor of every row i outside the pattern and off the diagonal.

    Every row of F is written out, in blocks: cost m products' entries, O(m²), for small graphs.
    """
    m = pattern.shape[0]
    step = max(1, _CELLS // max(m, 1))
    found = []
    for start in range(0, m if count else 0, step):
        rows = np.arange(start, min(start + step, m))
        unit = np.zeros((m, rows.size))
        unit[rows, np.arange(rows.size)] = 1.0
        F = np.ascontiguousarray(field.dot(unit).T)
        stored = pattern[rows].tocoo()
        F[stored.row, stored.col] = 0.0
        F[np.arange(rows.size), rows] = 0.0
        best = np.argsort(-F, axis=1, kind="stable")[:, :count]
        values = np.take_along_axis(F, best, axis=1)
        at, place = np.nonzero(values > floor)
        found.append((rows[at], best[at, place], values[at, place]))
    if not found:
        return none()
    rows, columns, beliefs = (np.concatenate(part) for part in zip(*found, strict=True))
    return once(rows, columns, beliefs, m)
