"""How much clusters say about who is linked with whom: the degree-corrected block model."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


def edge_information(affinity: Any, labels: NDArray[np.integer[Any]]) -> float:
    """I(l) = Σ_rs p_rs log(p_rs / (p_r p_s)) >= 0, in nats; p_rs the share of weight from r to s.

    p_r = Σ_s p_rs. It is what the cluster at one end of an edge tells of the cluster at the other,
    and, times the number of edge ends, the log-likelihood that the degree-corrected block model
    gains over the same degrees without blocks. A giant with crumbs tells next to nothing, whatever
    it costs to cut. `affinity` is W (n, n), sparse, `labels` (n,) from 0. Cost O(nnz).

    Source: Karrer & Newman 2011, §III.
    """
    n = labels.size
    H = sp.csr_matrix((np.ones(n), labels, np.arange(n + 1)))
    return information(H.T @ (affinity @ H))


def information(links: Any) -> float:
    """The same from the weights between clusters, (K, K), sparse or dense."""
    blocks = sp.coo_matrix(links)
    volume = np.asarray(blocks.sum(axis=1), dtype=np.float64).ravel()
    total = float(volume.sum())
    weight = np.asarray(blocks.data, dtype=np.float64)
    there = weight > 0
    r, s, weight = blocks.row[there], blocks.col[there], weight[there]
    # Ratios first: products of volumes of tiny weights would be 0.
    gain = np.log(weight / volume[r]) - np.log(volume[s] / total)
    return max(0.0, float((weight / total) @ gain)) if total > 0 else 0.0
