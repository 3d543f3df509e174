"""Cuts of one vector by trying every threshold."""

from __future__ import annotations

import numpy as np

from oracles.scores import ncut_of


def best_split(W, vector):
    """Least NCut over all thresholds between two distinct values of a vector."""
    values = np.unique(vector)
    return min(ncut_of(W, vector > t) for t in (values[1:] + values[:-1]) / 2)


def cut_of_one_sign_rejected(Z, dust):
    """WHC11 §3.4: two sides of the first column that has entries above and below zero.

    Entries up to `dust` times the largest are zero; None where such a column has some, as zeros
    may be on either side, and where no column has both signs.
    """
    for z in Z.T:
        large = [x for x in z if abs(x) > dust * max(abs(z))]
        if any(x > 0 for x in large) and any(x < 0 for x in large):
            return z > 0 if len(large) == len(z) else None
    return None


def block_sums(W, blocks, k):
    """B = HᵀWH + 1 and κ = Hᵀd + 1 (1 the mean weight of an edge); nodes of block -1 in none."""
    W = W / W[W != 0].mean()
    H = (blocks[:, None] == np.arange(k)).astype(float)
    return H.T @ W @ H + 1.0, H.T @ W.sum(axis=1) + 1.0


def block_likelihood(W, blocks, k, rates):
    """½Σ_rs B_rs log Ω_rs − ½Σ_rs κ_rκ_sΩ_rs of blocks for given rates."""
    B, size = block_sums(W, blocks, k)
    return 0.5 * (B * np.log(rates)).sum() - 0.5 * size @ rates @ size


def block_gains(W, blocks, k):
    """What every block gains with every node, (m, k), for the rates of the blocks as they are."""
    B, size = block_sums(W, blocks, k)
    rates = B / np.outer(size, size)
    W = W / W[W != 0].mean()
    gains = np.zeros((blocks.size, k))
    for i in range(blocks.size):
        for r in range(k):
            for j in range(blocks.size):
                if j != i and blocks[j] >= 0:
                    gains[i, r] += W[i, j] * np.log(rates[r, blocks[j]])
            gains[i, r] += 0.5 * W[i, i] * np.log(rates[r, r])
            gains[i, r] -= W[i].sum() * (rates[r] @ size)
    return gains
