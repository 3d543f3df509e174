"""Slow, dense, obvious twins of what the engine computes: one section per package."""

from __future__ import annotations

import itertools

import numpy as np

# --- constraints


def pairs_dense(pairs, belief, n):
    """Q of WD14 §4.1 entry by entry: the mean belief of all rows naming the same two nodes."""
    said = {}
    for (i, j), b in zip(np.asarray(pairs).tolist(), belief, strict=True):
        said.setdefault((min(i, j), max(i, j)), []).append(float(b))
    Q = np.zeros((n, n))
    for (i, j), values in said.items():
        Q[i, j] = Q[j, i] = sum(values) / len(values)
    return Q


def labels_dense(y):
    """+1 within a class, -1 between classes, 0 where a label is missing; the diagonal is kept."""
    n = len(y)
    Q = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if y[i] >= 0 and y[j] >= 0:
                Q[i, j] = 1.0 if y[i] == y[j] else -1.0
    return Q


def closure_dense(Q, hard=1.0):
    """Transitive closure of a dense Q without contradictions: soft entries stay, others are ±1.

    Must-links reach along any path; a cannot-link separates everything reached from its two ends.
    """
    n = len(Q)
    reach = (hard <= Q) & (Q > 0) | np.eye(n, dtype=bool)
    for k in range(n):
        reach |= reach[:, k : k + 1] & reach[k]
    apart = reach @ ((-hard >= Q) & (Q < 0)) @ reach
    stated = np.where(Q > 0, hard <= Q, -hard >= Q) & (Q != 0)
    touched = stated.any(axis=1)
    implied = reach * 1.0 - apart * 1.0
    implied[~touched] = 0
    implied[:, ~touched] = 0
    return np.where(stated, 0, Q) + implied


def satisfaction_dense(found, Q):
    """Shares of must-links, cannot-links, all, and weight kept, over all i < j of a dense Q."""
    must = must_kept = cannot = cannot_kept = 0
    weight = weight_kept = 0.0
    n = len(Q)
    for i in range(n):
        for j in range(i + 1, n):
            same = found[i] == found[j]
            if Q[i, j] > 0:
                must += 1
                kept = same and found[i] >= 0
                must_kept += kept
            elif Q[i, j] < 0:
                cannot += 1
                kept = not same
                cannot_kept += kept
            else:
                continue
            weight += abs(Q[i, j])
            weight_kept += abs(Q[i, j]) * kept

    def share(part, whole):
        return part / whole if whole else 1.0

    return {
        "must_kept": share(must_kept, must),
        "cannot_kept": share(cannot_kept, cannot),
        "kept": share(must_kept + cannot_kept, must + cannot),
        "kept_weighted": share(weight_kept, weight),
        "n_must": must,
        "n_cannot": cannot,
    }


def mncut_dense(W, found):
    """WHC11 eq. 2 by sums over blocks of a dense affinity; unassigned nodes are in no cluster."""
    total = 0.0
    for k in set(found[found >= 0].tolist()):
        inside = found == k
        volume = W[inside].sum()
        if volume > 0:
            total += W[np.ix_(inside, ~inside)].sum() / volume
    return total


# --- graphs


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


def image_affinity(pixels, radius, sigma_color, sigma_space, floor):
    """Affinity of pixels (h, w, c) by two loops over all of them."""
    h, w, _ = pixels.shape
    at = [(y, x) for y in range(h) for x in range(w)]
    W = np.zeros((h * w, h * w))
    for i, (y, x) in enumerate(at):
        for j, (v, u) in enumerate(at):
            space = (y - v) ** 2 + (x - u) ** 2
            if 0 < space <= radius**2:
                colour = ((pixels[y, x] - pixels[v, u]) ** 2).sum()
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


# --- operators, linear, eigen, cluster


def laplacian(W):
    """L̄ (m, m), D^½ (m,) and the numbers of the m nodes that have an edge, from a dense W."""
    d = W.sum(axis=1)
    nodes = np.flatnonzero(d > 0)
    root = np.sqrt(d[nodes])
    return np.eye(nodes.size) - W[np.ix_(nodes, nodes)] / np.outer(root, root), root, nodes


def null_space(W):
    """Z (m, c): D^½1_c/√vol_c for every component of the nodes that have an edge."""
    _, root, nodes = laplacian(W)
    part = components(W[np.ix_(nodes, nodes)])
    Z = np.array([np.where(part == c, root, 0.0) for c in range(part.max() + 1)]).T
    return Z / np.linalg.norm(Z, axis=0)


def normalized_constraints(Q, W):
    """D^-½QD^-½ on the nodes that have an edge."""
    _, root, nodes = laplacian(W)
    return Q[np.ix_(nodes, nodes)] / np.outer(root, root)


def pencil(L, Q, beta, volume):
    """All pairs 0 < λ < ∞ of L̄v = λ(Q̄ − βI)v by QZ, ‖v‖² = vol: λ, v and cost, in order of λ.

    Nothing is assumed about the null space of L̄. Where it has several dimensions QZ returns them
    as λ = 0 up to rounding; vectors without cost are not candidates (WD14 Lemma 1).
    """
    import scipy.linalg as sla

    homogeneous, V = sla.eig(L, Q - beta * np.eye(len(L)), homogeneous_eigvals=True)
    a, b = homogeneous
    real = np.abs(np.imag(a * np.conj(b))) <= 1e-7 * np.abs(a * b)  # QZ rounds like √eps at worst
    finite = np.abs(b) > 1e-11 * np.abs(a)
    lam = np.real(a[real & finite] / b[real & finite])
    V = np.real(V[:, real & finite])
    V = V * np.sqrt(volume) / np.linalg.norm(V, axis=0)
    cost = np.einsum("ij,ij->j", V, L @ V)
    feasible = (lam > 1e-9) & (cost > 1e-9 * volume)
    order = np.argsort(lam[feasible])
    return lam[feasible][order], V[:, feasible][:, order], cost[feasible][order]


def projected_pencil(L, Q, beta, U, volume):
    """The pencil inside span(U), every direction dense: λ > 0 and cost, in order of cost."""
    lam, C, _ = pencil(U.T @ L @ U, U.T @ Q @ U, beta, volume)
    cost = np.einsum("ij,ij->j", U @ C, L @ (U @ C))
    order = np.argsort(cost)
    return lam[order], (U @ C)[:, order], cost[order]


def angle(V, W):
    """Sine of the largest angle between the spans of V and W, which have as many columns."""
    V, W = np.linalg.qr(V)[0], np.linalg.qr(W)[0]
    return np.linalg.norm(W - V @ (V.T @ W), 2)


def groups(values, gap):
    """Slices of sorted values that lie closer together than a relative gap."""
    edges = np.flatnonzero(np.diff(values) > gap * np.abs(values[1:])) + 1
    bounds = [0, *edges.tolist(), len(values)]
    return [slice(i, j) for i, j in itertools.pairwise(bounds) if j > i]


def ncut_of(W, side):
    """NCut of one cut, WHC11 eq. 2 for two clusters."""
    return mncut_dense(W, side.astype(int))


def best_split(W, vector):
    """Least NCut over all thresholds between two distinct values of a vector."""
    values = np.unique(vector)
    return min(ncut_of(W, vector > t) for t in (values[1:] + values[:-1]) / 2)
