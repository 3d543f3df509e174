"""Cuts by trying all labelings, and grids and cells pixel by pixel."""

from __future__ import annotations

import itertools

import numpy as np


def boundary_cost(W, odds, f):
    """Σ_{i<j} w_ij |f_i − f_j| − Σ_i l_i f_i."""
    return np.triu(W * np.abs(f[:, None] - f[None])).sum() - odds @ f


def least_cut(W, odds, given, free):
    """The least of `boundary_cost` over all f in {0, 1} that are `given` where not free."""
    inside = np.flatnonzero(free)
    least, f = np.inf, given.astype(float)
    for values in itertools.product((0.0, 1.0), repeat=inside.size):
        f[inside] = values
        least = min(least, boundary_cost(W, odds, f))
    return least


def cell_means(picture, units):
    """Mean of every cell, pixels outside being those at the edge."""
    *shape, channels = picture.shape
    cells = [-(-size // unit) for size, unit in zip(shape, units, strict=True)]
    found = np.zeros((*cells, channels))
    for cell in np.ndindex(*cells):
        for part in np.ndindex(*units):
            at = [c * unit + p for c, unit, p in zip(cell, units, part, strict=True)]
            found[cell] += picture[tuple(min(i, n - 1) for i, n in zip(at, shape, strict=True))]
    return found / np.prod(units)


def cell_codes(codes, k, units):
    """Most frequent code of every cell, the lowest of equals, -1 where none has one."""
    cells = [-(-size // unit) for size, unit in zip(codes.shape, units, strict=True)]
    found = np.full(cells, -1)
    for cell in np.ndindex(*cells):
        part = codes[tuple(slice(c * u, (c + 1) * u) for c, u in zip(cell, units, strict=True))]
        counts = [int((part == c).sum()) for c in range(k)]
        if any(counts):
            found[cell] = int(np.argmax(counts))
    return found


def pieces_of(mask):
    """Connected pieces of a mask, over corners too, as lists of pixels."""
    left = set(map(tuple, np.argwhere(mask)))
    found = []
    while left:
        front = [left.pop()]
        piece = list(front)
        while front:
            place = front.pop()
            for step in itertools.product((-1, 0, 1), repeat=mask.ndim):
                near = tuple(int(i) + d for i, d in zip(place, step, strict=True))
                if near in left:
                    left.remove(near)
                    front.append(near)
                    piece.append(near)
        found.append(piece)
    return found


def walk_shares(W, painted, k):
    """Harmonic values (n, K) by a dense solve, over the roots of their means, as log-shares."""
    known = painted >= 0
    L = np.diag(W.sum(axis=1)) - W
    F = (painted[:, None] == np.arange(k)) * 1.0
    F[~known] = np.linalg.solve(L[np.ix_(~known, ~known)], W[np.ix_(~known, known)] @ F[known])
    F = F / np.sqrt(F.mean(axis=0))
    F = np.maximum(F / F.sum(axis=1, keepdims=True), 1e-3)
    return np.log(F / F.max(axis=1, keepdims=True))


def path_shares(W, painted, k):
    """−log(1 + shortest way) to every label's strokes; all edges relaxed n times."""
    lengths = np.full(W.shape, np.inf)
    lengths[W > 0] = np.sqrt(np.maximum(-2 * np.log(W[W > 0]), 1e-12))
    D = np.where(painted[:, None] == np.arange(k), 0.0, np.inf)
    for _ in range(len(W)):
        D = np.minimum(D, (lengths[:, :, None] + D[None]).min(axis=1))
    return np.log1p(D.min(axis=1, keepdims=True)) - np.log1p(D)
