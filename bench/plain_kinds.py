"""Ordinary data of ten kinds, on which the seconds of plans are compared with what runs take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from hard_kinds import Kind, Rng, blobs, kind


def rounds(k: int, d: int, apart: float, tail: float | None = None) -> Callable[[Rng, int], Kind]:
    """k round clusters; with a `tail`, of Student's t with so many degrees of freedom."""

    def make(rng: Rng, n: int) -> Kind:
        X, truth = blobs(rng, n, k, d, apart)
        if tail is not None:
            X = X + rng.standard_t(tail, size=X.shape)
        return kind(X.astype(np.float32), truth, rng)

    return make


def sheets(rng: Rng, n: int) -> Kind:
    """Three long sheets in space."""
    truth = rng.integers(3, size=n)
    s, t = rng.random((2, n))
    X = np.column_stack([4 * s, np.sin(6 * s) + 2 * truth, t]) + 0.02 * rng.normal(size=(n, 3))
    return kind(X.astype(np.float32), truth, rng)


def repeated_rows(rng: Rng, n: int) -> Kind:
    """Every row ten times, more or less."""
    X, truth = blobs(rng, n // 10, 6, 5, 3.0)
    which = rng.integers(len(X), size=n)
    return kind(X[which].astype(np.float32), truth[which], rng)


def picture(rng: Rng, n: int) -> Kind:
    """Pixels beside each other, alike or not: three stripes with noise."""
    side = int(np.sqrt(n))
    truth = np.repeat(3 * np.arange(side) // side, side)
    grey = (0.3 * truth + 0.05 * rng.normal(size=truth.size)).reshape(side, side)
    number = np.arange(side**2).reshape(side, side)
    parts = []
    for dx, dy in ((0, 1), (1, 0), (1, 1)):
        a, b = np.s_[: side - dx, : side - dy], np.s_[dx:, dy:]
        w = np.exp(-((grey[a] - grey[b]) ** 2) / 0.02)
        parts.append(
            sp.coo_matrix((w.ravel(), (number[a].ravel(), number[b].ravel())), [side**2] * 2)
        )
    W: Any = sum(parts[1:], parts[0])
    return kind(sp.csr_matrix(W + W.T), truth, rng)


def network(rng: Rng, n: int) -> Kind:
    """A planted partition: five groups, ten edges a node, eight of them within its group."""
    truth = rng.integers(5, size=n)
    order = np.argsort(truth, kind="stable")
    first = np.searchsorted(truth[order], np.arange(6))
    i = rng.integers(n, size=5 * n)
    size = np.diff(first)[truth[i]]
    inside = order[first[truth[i]] + (rng.random(i.size) * size).astype(np.int64)]
    j = np.where(rng.random(i.size) < 0.8, inside, rng.integers(n, size=i.size))
    keep = i != j
    W = sp.coo_matrix((np.ones(int(keep.sum())), (i[keep], j[keep])), (n, n)).tocsr()
    W = sp.csr_matrix(W + W.T)
    W.data[:] = 1.0
    return kind(W, truth, rng)


def columns_of_all_scales(rng: Rng, n: int) -> Kind:
    """Twenty columns, six orders of magnitude apart: to be standardised."""
    X, truth = blobs(rng, n, 6, 20, 1.5)
    return kind(X * 10.0 ** rng.uniform(-3, 3, 20), truth, rng)


PLAIN: dict[str, Callable[[Rng, int], Kind]] = {
    "sheets": sheets,
    "64 coordinates": rounds(10, 64, 1.0),
    "clear clusters": rounds(10, 16, 6.0),
    "broad clusters": rounds(12, 20, 1.0),
    "ten equal rows each": repeated_rows,
    "long tails": rounds(6, 8, 3.0, 1.5),
    "picture": picture,
    "network of groups": network,
    "100 classes": rounds(100, 2, 30.0),
    "to be standardised": columns_of_all_scales,
}
