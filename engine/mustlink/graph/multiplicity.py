"""Nodes that stand for several: the graph of all of them, folded into one node for each kind.

Let P (n, m) say which node every one of n copies is, and C = PᵀP count them. The repeated graph
PWPᵀ, restricted to vectors Pg that are equal on copies of one node, is the graph

    W' = CWC,   w'_ij the sum of the weights between all copies of i and all copies of j.

Its degrees, volume, cuts and normalised cut are those of the repeated graph; with v = PC^-½u the
form vᵀL̄v is uᵀL̄'u, and the rows D^-½V are D'^-½U. Counts need not be whole numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.check import numeric_array
from mustlink.errors import InputError

Floats = NDArray[np.float64]
_ROWS = 1 << 17  # of a matrix at once
_FAR = 2.0**20


def multiplicity(counts: NDArray[np.int64]) -> Floats:
    """How much a node counts that stands for so many equal rows, (m,): as many times."""
    return counts.astype(np.float64)


def fold(affinity: sp.csr_matrix, by: Floats) -> sp.csr_matrix:
    """CWC with C = diag(by), in W's precision; nodes that count nothing lose their edges.

    A matrix of its own: `affinity` is not changed. Cost O(nnz), in blocks of rows.
    """
    W = affinity
    data = np.empty_like(W.data)
    for first in range(0, W.shape[0], _ROWS):
        last = min(first + _ROWS, W.shape[0])
        part = slice(W.indptr[first], W.indptr[last])
        rows = np.repeat(by[first:last], np.diff(W.indptr[first : last + 1]))
        # The product of the two first: it is the same for (i, j) and (j, i).
        data[part] = W.data[part] * (by[W.indices[part]] * rows)
    found = sp.csr_matrix((data, W.indices, W.indptr), shape=W.shape)
    if not by.all():
        found = found.copy()  # the pattern is W's
        found.eliminate_zeros()
    return found


def as_sample_weight(sample_weight: Any, n: int) -> Floats | None:
    """Weights (n,) of rows, finite and >= 0; None where they are all 1. Raises InputError.

    Clusters do not depend on their unit: where the largest is beyond 2²⁰ or below 2⁻²⁰ all are
    multiplied by a power of two, so that no product of two leaves the range of a graph's weights.
    """
    if sample_weight is None:
        return None
    where = "sample_weight"
    found = np.asarray(numeric_array(sample_weight, where), dtype=np.float64)
    if found.ndim == 0:
        found = np.full(n, float(found))
    if found.shape != (n,):
        raise InputError(f"{where}: shape {found.shape} for {n} rows; give one weight per row")
    bad = np.flatnonzero(~np.isfinite(found) | (found < 0))
    if bad.size:
        row = int(bad[0])
        raise InputError(
            f"{where}: row {row} has weight {found[row]:g}; weights are finite and not negative"
        )
    if not found.any():
        raise InputError(f"{where}: all {n} weights are zero; nothing to cluster")
    largest = float(found.max())
    if not 1 / _FAR <= largest <= _FAR:
        scaled = np.ldexp(found, -int(np.floor(np.log2(largest))))
        # One that becomes 0 would be no node; so its edges are lost, which is told.
        found = np.where(found > 0, np.maximum(scaled, np.finfo(np.float64).tiny), 0.0)
    return None if (found == 1.0).all() else found
