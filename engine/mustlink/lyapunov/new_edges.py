"""New edges: the pairs that propagation believes in most and that the graph does not have."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.disjoint_sum import disjoint_sum
from mustlink.operators.edges import Edges
from mustlink.operators.laplacian import Block

Ints = NDArray[np.integer]


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
        upper = sp.csr_matrix((self.beliefs, (self.first, self.second)), shape=(m, m))
        return disjoint_sum(sp.csr_matrix(upper.T), upper)

    def pattern(self, m: int) -> Edges:
        """The pairs as a pattern of m nodes."""
        return Edges.of_matrix(replace(self, beliefs=np.ones(self.count)).matrix(m))


def none() -> NewEdges:
    """No new edges."""
    return NewEdges(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def once(rows: Ints, columns: Ints, beliefs: NDArray[np.float64], m: int) -> NewEdges:
    """Every pair once, whichever of its ends asked for it; F is the one found from the lower."""
    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    pair = low.astype(np.int64) * m + high
    order = np.argsort(2 * pair + (rows != low), kind="stable")  # the row of the lower end first
    pair = pair[order]
    order = order[np.append(True, pair[1:] != pair[:-1])[: pair.size]]
    return NewEdges(low[order].astype(np.int64), high[order].astype(np.int64), beliefs[order])


def best_of(pattern: Edges, values: Block, count: int, floor: float) -> NewEdges:
    """The `count` largest values > floor of every row of a symmetric pattern, (nnz,)."""
    held = np.flatnonzero(values > floor)
    rows = pattern.rows[held]
    many = np.bincount(rows, minlength=pattern.size)[rows] > count
    few, held, rows = held[~many], held[many], rows[many]
    order = np.lexsort((-values[held], rows))
    rank = np.arange(rows.size) - np.searchsorted(rows, rows)
    taken = np.concatenate([few, held[order[rank < count]]])
    return once(pattern.rows[taken], pattern.indices[taken], values[taken], pattern.size)


def best_of_pairs(pairs: NewEdges, count: int, floor: float) -> NewEdges:
    """The `count` largest F > floor of every node in `pairs`, of which F may have any sign."""
    nodes, compact = np.unique(np.append(pairs.first, pairs.second), return_inverse=True)
    first, second = np.split(compact.astype(np.int64), 2)
    near = NewEdges(first, second, pairs.beliefs).matrix(nodes.size)
    chosen = best_of(Edges.of_matrix(near), near.data, count, floor)
    return NewEdges(nodes[chosen.first], nodes[chosen.second], chosen.beliefs)


def joined(first: Edges, second: Edges) -> Edges:
    """Where any of two patterns has an entry."""
    return Edges.of_matrix(sp.csr_matrix(first.ones() + second.ones()))
