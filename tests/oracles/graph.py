"""Affinities entry by entry, components by flood filling, bridges by Kruskal."""

from __future__ import annotations

import numpy as np


def knn_lists(X, k):
    """Nearest neighbours by one loop per point: indices and lengths (n, k), ties by index."""
    X = np.asarray(X, dtype=np.float64)
    n = len(X)
    indices, lengths = np.zeros((n, k), dtype=int), np.zeros((n, k))
    for i in range(n):
        d = np.sqrt(((X - X[i]) ** 2).sum(axis=1))
        others = sorted((j for j in range(n) if j != i), key=lambda j, d=d: (d[j], j))
        indices[i] = others[:k]
        lengths[i] = d[indices[i]]
    return indices, lengths


def knn_affinity(indices, lengths, kind, sigma=None):
    """(A + Aᵀ)/2 of neighbour lists, entry by entry."""
    n, k = indices.shape
    s = lengths[:, min(7, k) - 1]
    W = np.zeros((n, n))
    for i in range(n):
        for j, d in zip(indices[i], lengths[i], strict=True):
            if kind == "local":
                w = np.exp(-d * d / (s[i] * s[j]))
            elif kind == "gaussian":
                w = np.exp(-d * d / (2 * sigma * sigma))
            else:
                w = 1.0
            w = max(w, 1e-8)
            W[i, j] += w / 2
            W[j, i] += w / 2
    return W


def components(A):
    """Component labels by flood filling, numbered by falling size, ties by smallest node."""
    A = np.asarray(A)
    n = len(A)
    seen, parts = set(), []
    for i in range(n):
        if i in seen:
            continue
        part, todo = set(), [i]
        while todo:
            j = todo.pop()
            if j not in part:
                part.add(j)
                todo += [int(m) for m in np.flatnonzero(A[j])]
        seen |= part
        parts.append(sorted(part))
    parts.sort(key=lambda part: (-len(part), part[0]))
    labels = np.zeros(n, dtype=int)
    for c, part in enumerate(parts):
        labels[part] = c
    return labels


def bridge_lengths(X, labels):
    """Lengths of the shortest edges that join the components (Kruskal on all pairs), sorted."""
    labels = np.array(labels)
    n = len(X)
    pairs = [
        (float(np.linalg.norm(X[i] - X[j])), i, j)
        for i in range(n)
        for j in range(i + 1, n)
        if labels[i] != labels[j]
    ]
    lengths = []
    for d, i, j in sorted(pairs):
        if labels[i] != labels[j]:
            lengths.append(d)
            labels[labels == labels[j]] = labels[i]
    return np.array(lengths)


def image_affinity(pixels, radius, sigma_color, sigma_space, floor, spacing=1.0):
    """Affinity of pixels or voxels (…, c) by two loops over all of them."""
    at = list(np.ndindex(pixels.shape[:-1]))
    W = np.zeros((len(at), len(at)))
    for i, p in enumerate(at):
        for j, q in enumerate(at):
            step = np.subtract(p, q)
            if 0 < (step**2).sum() <= radius**2:
                colour = ((pixels[p] - pixels[q]) ** 2).sum()
                space = ((step * spacing) ** 2).sum()
                value = np.exp(-colour / (2 * sigma_color**2) - space / (2 * sigma_space**2))
                W[i, j] = max(value, floor)
    return W


def rbf_affinity(X, sigma):
    """Full Gaussian affinity without loops (i, i)."""
    n = len(X)
    W = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i != j:
                W[i, j] = max(np.exp(-((X[i] - X[j]) ** 2).sum() / (2 * sigma**2)), 1e-8)
    return W
