"""The matrix between aggregates of nodes that are on ranks: each makes the rows that it owns."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.whole_links import whole_links
from mustlink.linear.multigrid.divided_aggregates import Aggregates
from mustlink.operators.divided_laplacian import DividedMatrix

_UNIT = 2.0**60  # of whole numbers that entries up to 1 are added as


def between(
    matrix: DividedMatrix,
    found: Aggregates,
    weight: NDArray[np.float64],
    vector: NDArray[np.float64],
    ground: NDArray[np.float64] | None = None,
    *,
    factor: float = -1.0,
) -> DividedMatrix:
    """PᵀAP (count, count) with null vector `vector` (own,).

    A is `factor`·matrix off the diagonal, `weight` (n_local,) are P's. With a `ground` (own,) A
    makes that of `vector`². Terms are added as whole numbers, so that no order matters. The
    diagonal follows from the rest: nothing is lost by a difference.
    """
    space = found.beyond.space
    off = DividedMatrix.of_rows(space, _links(matrix, found, weight, -factor))
    local = off.local
    rows = np.repeat(np.arange(space.held), np.diff(local.indptr))
    inside = local.indices == rows
    local.data[inside] = 0.0
    diagonal = off.apply(vector[:, None])[:, 0] / vector
    if ground is not None:
        diagonal += ground / vector**2
    np.negative(local.data, out=local.data)
    local.data[inside] = diagonal
    return off


def _links(
    matrix: DividedMatrix, found: Aggregates, weight: NDArray[np.float64], sign: float
) -> sp.csr_matrix:
    """Own rows (own, count) of what links aggregates, 1/unit on the diagonal; columns rising."""
    groups = matrix.halo.beside(found.group)
    known = np.unique(groups)
    known = known[known >= 0]
    number = np.where(groups < 0, -1, np.searchsorted(known, groups)).astype(np.int32)
    weights = matrix.halo.beside(weight)
    at, links = whole_links(matrix.local, number, weights, sign * _UNIT)
    mine, ends, ranks = known[at], links.indptr, found.space.ranks
    rows = np.searchsorted(mine, found.bounds)  # those of every rank lie together
    lengths, counts, entries = np.diff(ends), np.diff(rows), np.diff(ends[rows])
    columns = known[links.indices].astype(np.int32)
    here = slice(rows[ranks.own], rows[ranks.own + 1])
    part = slice(ends[here.start], ends[here.stop])
    held = np.zeros(found.own + 1, dtype=np.int64)
    held[mine[here] - found.first + 1] = lengths[here]
    shape = (found.own, found.count)
    own = sp.csr_matrix((links.data[part], columns[part], np.cumsum(held)), shape=shape)
    own.sort_indices()
    going, leaving = np.ones(mine.size, dtype=np.bool_), np.ones(columns.size, dtype=np.bool_)
    going[here] = leaving[part] = False
    counts[ranks.own] = entries[ranks.own] = 0
    numbers = np.repeat(
        ranks.sent(mine[going], counts) - found.first, ranks.sent(lengths[going], counts)
    )
    there = ranks.sent(columns[leaving], entries)
    values = ranks.sent(links.data[leaving], entries)
    came = sp.coo_matrix((values, (numbers, there)), shape=shape).tocsr()
    whole = own + came if came.nnz else own
    whole.eliminate_zeros()
    whole.data = whole.data / _UNIT
    return whole
