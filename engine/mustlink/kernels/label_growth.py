"""Labels spread from a few nodes over a graph, ring by ring."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray


@nb.njit(cache=True, nogil=True)
def _grow(indptr: Any, indices: Any, data: Any, root: Any, labels: Any, k: Any) -> None:
    queued = labels >= 0
    front = np.flatnonzero(queued)
    links = np.empty(k)
    while front.size:
        following = np.empty(labels.size - queued.sum(), dtype=np.int64)
        count = 0
        for i in front:
            for q in range(nb.uint64(indptr[i]), nb.uint64(indptr[i + 1])):
                j = nb.uint64(indices[q])
                if not queued[j]:
                    queued[j] = True
                    following[count] = j
                    count += 1
        front = following[:count].copy()
        chosen = np.empty(count, dtype=np.int64)
        for at in range(count):
            i = front[at]
            links[:] = 0.0
            for q in range(nb.uint64(indptr[i]), nb.uint64(indptr[i + 1])):
                j = nb.uint64(indices[q])
                if labels[j] >= 0:
                    links[labels[j]] += data[q] * root[j]
            chosen[at] = links.argmax()
        labels[front] = chosen


def grow(S: Any, root: NDArray[np.float64], labels: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Labels (m,) spread from the nodes that have one to those with -1, ring by ring.

    W_ij = S_ij r_i r_j for S (m, m) CSR and `root` r (m,). A node takes the cluster it has the
    strongest edges to among the rings before its own. Parts of the graph without any label keep
    -1. Cost O(nnz + m k).
    """
    found = labels.astype(np.int64)
    _grow(S.indptr, S.indices, S.data, root, found, k)
    return found
