"""Numbers spread along links of own rows, to aggregate nodes about roots that are far apart."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.loops import loop


@loop()
def _highest(
    indptr: Any, indices: Any, data: Any, strongest: Any, share: Any, values: Any, asked: Any,
    found: Any,
) -> None:  # fmt: skip
    for i in nb.prange(found.size):
        if not asked[i]:
            continue
        most = values[i]
        for q in range(indptr[i], indptr[i + 1]):
            j = indices[q]
            if j != i and abs(data[q]) >= share * min(strongest[i], strongest[j]):
                most = max(most, values[j])
        found[i] = most


@loop()
def _nearest(indptr: Any, indices: Any, data: Any, values: Any, found: Any) -> None:
    for i in nb.prange(found.size):
        found[i] = values[i]
        if found[i] == 0:
            most = data.dtype.type(0)
            for q in range(indptr[i], indptr[i + 1]):
                j = indices[q]
                if values[j] > 0 and abs(data[q]) > most:
                    most, found[i] = abs(data[q]), values[j]


def highest_near(
    matrix: sp.csr_matrix,
    links: tuple[NDArray[Any], float],
    values: NDArray[np.int64],
    asked: NDArray[np.bool_],
    found: NDArray[np.int64],
) -> None:
    """Write the largest value of a row's node and those it has a strong link to, where `asked`.

    `links` are (strongest, share): a link is strong from the share of the lesser of both ends'
    strongest on. `strongest` and `values` are of all columns.
    """
    arrays = matrix.indptr, matrix.indices, matrix.data, *links
    _highest(matrix.nnz, *arrays, values, asked, found)


def nearest_value(matrix: sp.csr_matrix, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """A row's value, and where that is 0 the one at the end of its heaviest link to another."""
    found = np.empty(matrix.shape[0], dtype=np.int64)
    _nearest(matrix.nnz, matrix.indptr, matrix.indices, matrix.data, values, found)
    return found


def node_keys(nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positive numbers in random order, one for every node below 2³², (m,).

    The upper bits are a hash of the node, the finaliser of splitmix64; the lower ones the node.
    """
    z = nodes.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = ((z ^ (z >> np.uint64(31))) >> np.uint64(34)) << np.uint64(32)
    return (z | nodes.astype(np.uint64)).astype(np.int64) + 1
