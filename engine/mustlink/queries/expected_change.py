"""Pairs: the answer that is hardest to foresee, or that would turn the smooth vectors most.

Active spectral clustering (Wang & Davidson, ICDM 2010) asks the pair whose expected error is
largest. With q_ij = ⟨z_i, z_j⟩ from rows of length 1 of the embedding, of which (1 + q)/2 is the
chance that the two are together, the expected squared error of the pair is

    E(i, j) = (1 + q)/2·(1 − q)² + (1 − q)/2·(1 + q)² = 1 − q².

An answer also turns the span of the K smoothest vectors a ≤ K < b, to first order in the weight of
the entry u_i u_jᵀ + u_j u_iᵀ that it adds to the p × p problem, by

    T(i, j)² = Σ_a Σ_b (u_ia u_jb + u_ja u_ib)²/(λ_b − λ_a)².

All pairs are too many: those of nodes that are worth asking, each with every other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.blocks import row_slices
from mustlink.queries.situation import Situation, unit_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def expected_error(situation: Situation, pairs: Ints) -> Floats:
    """E (b,) of pairs (b, 2) of working nodes, by the K − 1 smoothest vectors beside z."""
    k = max(2, int(situation.estimator.report_.n_clusters))
    Z = situation.U[:, : min(k, situation.U.shape[1])]
    first, second = (unit_rows(Z[pairs[:, side]].astype(np.float64)) for side in (0, 1))
    q = np.einsum("ij,ij->i", first, second)
    return np.clip(1.0 - q**2, 0.0, 1.0)


def turning(situation: Situation, pairs: Ints) -> Floats:
    """T (b,) of pairs (b, 2): by how much the span of the K smoothest vectors turns. O(bKp)."""
    U, values = situation.U, situation.values
    k = min(max(2, int(situation.estimator.report_.n_clusters)), values.size - 1)
    found = np.zeros(len(pairs))
    if k < 1:
        return found
    gap = np.maximum(values[None, k:] - values[:k, None], 1e-3 * max(float(values[-1]), 1e-300))
    for block in row_slices(len(pairs), 3 * gap.size):
        first, second = (U[pairs[block, side]].astype(np.float64) for side in (0, 1))
        moved = first[:, :k, None] * second[:, None, k:] + second[:, :k, None] * first[:, None, k:]
        found[block] = np.sqrt(((moved / gap) ** 2).sum(axis=(1, 2)))
    return found
