"""Exact elimination of a graph's nodes without a subtraction: weights of any range lose no digit.

Source: Grassmann, Taksar & Heyman 1985, for Markov chains.
"""

from __future__ import annotations

from typing import Any

import numba as nb


@nb.njit(cache=True, nogil=True)
def eliminate(W: Any, ground: Any, F: Any) -> None:
    """Solve (diag(ground) + Laplacian of W)X = F in place, F (m, b); W (m, m) and ground are lost.

    W >= 0 is symmetric, of which the part below the diagonal is read, `ground` (m,) >= 0. Node
    after node, the last first, leaves its share w_ki/Σw_k of ground and F to its neighbours i, and
    these are joined by w_ki·w_kj/Σw_k. A component without ground is held at 0 at its first node.
    Cost: m³/3 operations.
    """
    m, width = F.shape
    for k in range(m - 1, -1, -1):
        total = ground[k]
        for i in range(k):
            total += W[k, i]
        ground[k], own = total, ground[k]
        for i in range(k):
            if W[k, i] > 0.0:
                share = W[k, i] / total
                ground[i] += share * own
                for c in range(width):
                    F[i, c] += share * F[k, c]
                for j in range(i):
                    W[i, j] += share * W[k, j]
    for k in range(m):
        for c in range(width):
            for i in range(k):
                F[k, c] += W[k, i] * F[i, c]
            F[k, c] = F[k, c] / ground[k] if ground[k] > 0.0 else 0.0
