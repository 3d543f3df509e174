"""Node order that keeps neighbours close in memory."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

_FEW = 1 << 22  # entries up to which scipy, half as fast, is done before a kernel is loaded


def cuthill_mckee(affinity: sp.csr_matrix) -> NDArray[np.int64]:
    """Return the reverse Cuthill-McKee order, (n,): node `order[i]` comes i-th.

    `W[order][:, order]` has its entries near the diagonal, which makes block products 3 to 4
    times faster. Cost O(nnz), about 0.4 s for 25 M entries.
    """
    if affinity.nnz < _FEW:
        order = reverse_cuthill_mckee(affinity, symmetric_mode=True)
    else:
        from mustlink.kernels.graph_walk import level_order

        order = level_order(affinity.indptr, affinity.indices)[::-1]
    return np.ascontiguousarray(order, dtype=np.int64)
