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


# --- kernel k-means


def sskk_problem(W, must, cannot, k, volume="links", penalty="auto"):
    """A' = W + w(must − cannot), node weights and w; dense, diagonals of constraints ignored."""
    must, cannot = must - np.diag(np.diag(must)), cannot - np.diag(np.diag(cannot))
    total = np.triu(must + cannot).sum()
    w = (W.sum() / (k * total) if penalty == "auto" else penalty) if total else 0.0
    weight = W.sum(axis=1) + (w * must.sum(axis=1) if volume == "links" else 0.0)
    return W + w * (must - cannot), weight, w


def sskk_objective(A, weight, labels):
    """K − Σ_c Σ_{i,j∈c} A_ij / s_c over non-empty clusters."""
    return sum(
        1 - A[np.ix_(labels == c, labels == c)].sum() / weight[labels == c].sum()
        for c in set(labels.tolist())
    )


def kernel_step(A, weight, labels, k, sigma):
    """Nearest cluster of every node by distances in the kernel σM⁻¹ + M⁻¹AM⁻¹, written out."""
    K = np.diag(sigma / weight) + A / np.outer(weight, weight)
    distance = np.empty((len(A), k))
    for c in range(k):
        inside = labels == c
        share = weight[inside] / weight[inside].sum()
        distance[:, c] = (
            np.diag(K) - 2 * K[:, inside] @ share + share @ K[inside][:, inside] @ share
        )
    own = distance[np.arange(len(A)), labels]
    gain = weight * (own - distance.min(axis=1))
    found = np.where(
        gain > 1e-11 * weight * np.abs(distance).max(), distance.argmin(axis=1), labels
    )
    for c in range(k):
        if not (found == c).any():
            members = np.flatnonzero(labels == c)
            found[members[gain[members].argmin()]] = c
    return found


def kernel_kmeans(A, weight, near, labels, k, sigmas):
    """Batch steps while the objective falls, then single moves in order; every J from scratch.

    `near` (n, n) says whom a move wakes: sweeps over all nodes, then over those awake, in turn.
    """
    labels = labels.copy()
    for sigma in sigmas:
        while True:
            found = kernel_step(A, weight, labels, k, sigma)
            before, after = (sskk_objective(A, weight, x) for x in (labels, found))
            if not after < before - 1e-13:
                break
            labels = found
    awake = np.zeros(len(A), dtype=bool)
    while single_moves(A, weight, near, labels, k, awake, range(len(A))):
        while single_moves(A, weight, near, labels, k, awake, None):
            pass
    return labels


def single_moves(A, weight, near, labels, k, awake, which):
    """One sweep over `which` nodes, or those awake: each goes where the objective is least."""
    moves = 0
    for i in range(len(A)) if which is None else which:
        if which is None and not awake[i]:
            continue
        awake[i] = False
        if (labels == labels[i]).sum() == 1:
            continue
        values = np.empty(k)
        for c in range(k):
            trial = labels.copy()
            trial[i] = c
            values[c] = sskk_objective(A, weight, trial)
        if values.min() < values[labels[i]] - 1e-11 * (1 + abs(values.min())):
            labels[i] = values.argmin()
            awake |= near[i]
            awake[i] = False
            moves += 1
    return moves


# --- constrained eigenvector methods


def links(known):
    """P⁺ and P⁻ (n, n), zero on the diagonal, from what was given: labels pair by pair."""
    said = [pairs_dense(known.pairs, known.belief, known.n_nodes)]
    if known.soft is not None:
        said[0] = said[0] + known.soft.toarray()
    if known.labels is not None:
        said.append(labels_dense(known.labels))
    must, cannot = sum(np.maximum(M, 0) for M in said), sum(np.maximum(-M, 0) for M in said)
    np.fill_diagonal(must, 0)
    np.fill_diagonal(cannot, 0)
    return must, cannot


def acting(P, W):
    """The links both ends of which have an edge."""
    linked = W.sum(axis=1) > 0
    return P * np.outer(linked, linked)


def balanced(must, cannot):
    """Links of either kind weighing 1 together: WHC11 Alg. 1 step 3, pair by pair."""
    Q = np.zeros(must.shape)
    for P, sign in ((must, 1.0), (cannot, -1.0)):
        total = sum(P[i, j] for i in range(len(P)) for j in range(i))
        for i, j in np.argwhere(P):
            Q[i, j] += sign * P[i, j] / total
    return Q


def penalised(L, U):
    """All θ, v of (L + U)v = θv, θ ascending."""
    return np.linalg.eigh((L + L.T + U + U.T) / 2)


def sssc(W, must, cannot, gamma):
    """WHC11 Alg. 1 with the penalty's signs corrected: all θ and Z, θ without the shift by λ_min.

    Q̄ = (Q − λ_min I)/(λ_max − λ_min) as printed; the shift moves all θ alike.
    """
    L, _, nodes = laplacian(W)
    Q = -balanced(acting(must, W), acting(cannot, W))[np.ix_(nodes, nodes)]
    low, high = np.linalg.eigvalsh(Q)[[0, -1]]
    if high == low:
        return penalised((1 - gamma) * L, 0 * L)
    theta, Z = penalised((1 - gamma) * L, gamma * (Q - low * np.eye(len(L))) / (high - low))
    return theta + gamma * low / (high - low), Z


def overwritten(W, must, cannot):
    """W' of Kamvar et al. 2003: 1 for must-links, 0 for cannot-links; a belief goes its share."""
    W2, full = W.astype(float), max(1.0, W.max())
    for i, j in np.argwhere(must + cannot):
        m, c = min(must[i, j], 1.0), min(cannot[i, j], 1.0)
        W2[i, j] = m * full + max(1.0 - m - c, 0.0) * W[i, j]
    return W2


def spectral_learning(W, must, cannot):
    """SL as printed: the largest eigenvectors of (W' + d_max I − D')/d_max, turned into θ of D'−W'.

    WHC11 §2.2.2. Nodes without an edge of the graph are left out, with their constraints.
    """
    nodes = np.flatnonzero(W.sum(axis=1) > 0)
    W2 = overwritten(W, acting(must, W), acting(cannot, W))[np.ix_(nodes, nodes)]
    d = W2.sum(axis=1)
    kappa, X = np.linalg.eigh((W2 + d.max() * np.eye(len(d)) - np.diag(d)) / d.max())
    return d.max() * (1 - kappa[::-1]), X[:, ::-1]


def spectral_learning_normalized(W, must, cannot):
    """SL-L̄: the smallest eigenvectors of I − D'^-½W'D'^-½; the eigenvalue 1 without any edge."""
    nodes = np.flatnonzero(W.sum(axis=1) > 0)
    W2 = overwritten(W, acting(must, W), acting(cannot, W))[np.ix_(nodes, nodes)]
    d = W2.sum(axis=1)
    inverse = np.array([1 / x if x > 1e-9 else 0.0 for x in d])
    return np.linalg.eigh(np.eye(len(d)) - W2 * np.sqrt(np.outer(inverse, inverse)))


def observations(W, must, cannot):
    """F: one row √b(e_i ∓ e_j)ᵀD^-½ for every pair that acts."""
    _, root, nodes = laplacian(W)
    rows = []
    for P, sign in ((acting(must, W), -1.0), (acting(cannot, W), 1.0)):
        for i, j in np.argwhere(np.triu(P)):
            row = np.zeros(len(W))
            row[i], row[j] = np.sqrt(P[i, j]), sign * np.sqrt(P[i, j])
            rows.append(row[nodes] / root)
    return np.array(rows).reshape(-1, nodes.size)


def posterior(W, must, cannot, noise, eps):
    """Lu & Carreira-Perpiñán's K' = K − KFᵀ(s²I + FKFᵀ)⁻¹FK: its κ as θ = 1/κ − ε, and vectors.

    K = (L̄ + εI)⁻¹, s² = noise²/mean degree.
    """
    L, _, nodes = laplacian(W)
    F = observations(W, must, cannot)
    K = np.linalg.inv(L + eps * np.eye(len(L)))
    s2 = noise**2 / (W.sum() / nodes.size)
    K = K - K @ F.T @ np.linalg.solve(s2 * np.eye(len(F)) + F @ K @ F.T, F @ K)
    kappa, V = np.linalg.eigh((K + K.T) / 2)
    return 1 / kappa[::-1] - eps, V[:, ::-1]


def two_laplacians(W, must, cannot):
    """L_G and L_H of FAST-GE entry by entry, on the nodes with an edge, and their degrees."""
    nodes = np.flatnonzero(W.sum(axis=1) > 0)
    d, m = W.sum(axis=1)[nodes], nodes.size
    G, H = np.zeros((m, m)), np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            if i != j:
                weight = d[i] * d[j] / (d.min() * d.max())
                G[i, j] = W[nodes[i], nodes[j]] + weight * must[nodes[i], nodes[j]]
                H[i, j] = weight * cannot[nodes[i], nodes[j]] + d[i] * d[j] / d.sum() / len(W)
    return np.diag(G.sum(axis=1)) - G, np.diag(H.sum(axis=1)) - H, d


def fast_ge_quotient(W, must, cannot):
    """min xᵀL_Gx / xᵀL_Hx over dᵀx = 0: all ρ ascending and D^½x."""
    import scipy.linalg as sla

    LG, LH, d = two_laplacians(W, must, cannot)
    N = sla.null_space(d[None, :])
    rho, C = sla.eigh(N.T @ LG @ N, N.T @ LH @ N)
    return rho, np.sqrt(d)[:, None] * (N @ C)


def fast_ge(W, must, cannot, mu):
    """−L_Hx = σ(L_G + μL_H + ZSZᵀ)x, ZSZᵀ = ddᵀ/vol: all σ < 0 ascending and D^½x."""
    import scipy.linalg as sla

    LG, LH, d = two_laplacians(W, must, cannot)
    sigma, X = sla.eigh(-LH, LG + mu * LH + np.outer(d, d) / d.sum())
    return sigma[:-1], np.sqrt(d)[:, None] * X[:, :-1]  # the last is σ = 0, x constant


def galerkin(A, M, U):
    """All θ and v of Av = θMv inside span(U)."""
    import scipy.linalg as sla

    A, M = U.T @ A @ U, U.T @ M @ U
    theta, C = sla.eigh((A + A.T) / 2, (M + M.T) / 2)
    return theta, U @ C


# --- local fits


def listed_nearest(X, lists, k):
    """The k nearest of each node's listed others by one sort per node, -1 where there are fewer."""
    X = np.asarray(X, dtype=np.float64)
    out = np.full((len(X), k), -1)
    for i, others in enumerate(lists):
        order = sorted((float(((X[i] - X[j]) ** 2).sum()), j) for j in set(others) - {i})
        for at, (_, j) in enumerate(order[:k]):
            out[i, at] = j
    return out


def _local_gram(X, i, near, reg):
    Z = np.asarray(X, dtype=np.float64)[near] - np.asarray(X, dtype=np.float64)[i]
    C = Z @ Z.T
    return C + (reg * np.trace(C) if np.trace(C) > 0 else reg) * np.eye(len(near))


def affine_weights(X, neighbors, reg):
    """LLE: min wᵀCw, Σw = 1, from the multiplier's linear system, point by point."""
    out = np.zeros(neighbors.shape)
    for i, row in enumerate(neighbors):
        there = np.flatnonzero(row >= 0)
        m = there.size
        C = _local_gram(X, i, row[there], reg)
        C /= max(np.abs(C).max(initial=0.0), 1e-300)
        K = np.block([[C, np.ones((m, 1))], [np.ones((1, m)), np.zeros((1, 1))]])
        out[i, there] = np.linalg.solve(K, np.append(np.zeros(m), 1.0))[:m] if m else 0.0
    return out


def simplex_weights(X, neighbors, reg):
    """LNP: the same with w >= 0, as non-negative least squares: min ‖Rw‖² + (Σw − 1)², scaled."""
    from scipy.optimize import nnls

    out = np.zeros(neighbors.shape)
    for i, row in enumerate(neighbors):
        there = np.flatnonzero(row >= 0)
        if there.size:
            C = _local_gram(X, i, row[there], reg)
            R = np.linalg.cholesky(C / np.trace(C)).T
            target = np.append(np.zeros(there.size), 1.0)
            w, _ = nnls(np.vstack([R, np.ones(there.size)]), target)
            out[i, there] = w / w.sum()
    return out


def tangent_projectors(X, neighbors, d):
    """LTSA: G_iG_iᵀ (k+1, k+1) of every neighbourhood by a singular value decomposition."""
    X = np.asarray(X, dtype=np.float64)
    n, k = neighbors.shape
    out = np.zeros((n, k + 1, k + 1))
    for i, row in enumerate(neighbors):
        there = np.flatnonzero(row >= 0)
        Z = X[np.append(i, row[there])] - X[i]  # copies differ by exactly nothing
        g, s, _ = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)
        g = g[:, :d][:, s[:d] > 1e-5 * max(s.max(initial=0.0), 1e-300)]
        G = np.column_stack([np.full(len(Z), len(Z) ** -0.5), g])
        out[np.ix_([i], np.append(0, 1 + there), np.append(0, 1 + there))] = G @ G.T
    return out


def listed_matrix(weights, lists):
    """Weights of listed neighbours as a dense matrix."""
    A = np.zeros((len(lists), len(lists)))
    for i, row in enumerate(lists):
        for w, j in zip(weights[i], row, strict=True):
            if j >= 0:
                A[i, j] += w
    return A


def lnp_iterated(U, Y, alpha):
    """AB09 eq. 18 until nothing moves."""
    return (1 - alpha) * np.linalg.inv(np.eye(len(U)) - alpha * U) @ Y


def lnp_minimum(U, Y, alpha):
    """AB09 eq. 17: the Hessian of Σ_ij u_ij (f_i − f_j)² + μΣ(f_i − y_i)², pair by pair."""
    n, mu = len(U), (1 - alpha) / alpha
    H = mu * np.eye(n)
    for i in range(n):
        for j in np.flatnonzero(U[i]):
            e = np.zeros(n)
            e[i] += 1
            e[j] -= 1
            H += U[i, j] * np.outer(e, e)
    return np.linalg.solve(H, mu * Y)


def ltsa_matrix(X, lists, d):
    """AB09 §5.1: M(N, N) += I − GGᵀ over neighbourhoods of the point and its neighbours."""
    M = np.zeros((len(X), len(X)))
    for i, P in enumerate(tangent_projectors(X, lists, d)):
        there = np.append(True, lists[i] >= 0)
        members = np.append(i, lists[i][lists[i] >= 0])
        M[np.ix_(members, members)] += np.eye(len(members)) - P[np.ix_(there, there)]
    return M


def embedded_balanced(M, Y, alpha):
    """min fᵀMf + αΣ_known (f − y)², f ⟂ 1 (AB09 eq. 39), with its multiplier as an unknown."""
    n = len(M)
    A = M + alpha * np.diag(Y.any(axis=1) * 1.0)
    K = np.block([[A, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    return np.linalg.solve(K, np.vstack([alpha * Y, np.zeros((1, Y.shape[1]))]))[:n]


# --- propagate: AB09 and WD12 with dense inverses, one-hot labels Y (n, K), zero rows unknown


def laplacians_dense(W):
    """D − W and I − D^-½WD^-½ (AB09 eq. 1, 4)."""
    d = W.sum(axis=1)
    return np.diag(d) - W, np.eye(len(W)) - W / np.sqrt(np.outer(d, d))


def clamped_dense(M, Y):
    """f_u = −M_uu⁻¹ M_ul y (AB09 eq. 38)."""
    known = Y.any(axis=1)
    F = Y.astype(float)
    F[~known] = -np.linalg.solve(M[np.ix_(~known, ~known)], M[np.ix_(~known, known)] @ Y[known])
    return F


def gfhf_dense(W, Y):
    """(D_uu − W_uu)⁻¹W_ul y (AB09 eq. 8)."""
    return clamped_dense(laplacians_dense(W)[0], Y)


def llgc_dense(W, Y, alpha):
    """(1 − α)(I − αS)⁻¹y (AB09 §3.4)."""
    S = np.eye(len(W)) - laplacians_dense(W)[1]
    return (1 - alpha) * np.linalg.solve(np.eye(len(W)) - alpha * S, Y)


def balanced_dense(A, B, delta):
    """A⁻¹(B + μΔ) with μ such that the result is orthogonal to Δ (AB09 eq. 11, 12, 40, 41)."""
    inverse = np.linalg.inv(A)
    mu = -(delta @ inverse @ B) / (delta @ inverse @ delta)
    return inverse @ (B + np.outer(delta, mu))


def tikreg_dense(W, Y, gamma):
    """(γL + I_k)⁻¹(ŷ + μ1) (AB09 eq. 11)."""
    known = np.diag(Y.any(axis=1).astype(float))
    return balanced_dense(gamma * laplacians_dense(W)[0] + known, Y, np.ones(len(W)))


def ncut_propagation_dense(W, Y, alpha):
    """D^-½g with (L̄ + αI_k)g = αD^½ŷ + μD^½1 (AB09 eq. 30)."""
    root = np.sqrt(W.sum(axis=1))
    known = np.diag(Y.any(axis=1).astype(float))
    A = laplacians_dense(W)[1] + alpha * known
    return balanced_dense(A, alpha * root[:, None] * Y, root) / root[:, None]


def lelpc_dense(W, Y, alpha):
    """(L̄ + αI_k)⁻¹(αŷ + μD^½1) (AB09 eq. 40)."""
    known = np.diag(Y.any(axis=1).astype(float))
    A = laplacians_dense(W)[1] + alpha * known
    return balanced_dense(A, alpha * Y, np.sqrt(W.sum(axis=1)))


def green_dense(W, Y, normalized):
    """L⁺y (AB09 §3.6)."""
    return np.linalg.pinv(laplacians_dense(W)[int(normalized)], rcond=1e-10) @ Y


def poisson_dense(W, Y):
    """Lf = Σ(y_j − ȳ)δ_j with Σ d_i f_i = 0, on a connected graph (Calder et al. 2020)."""
    known = Y.any(axis=1)
    charge = np.where(known[:, None], Y - Y[known].mean(axis=0), 0.0)
    F = np.linalg.pinv(laplacians_dense(W)[0], rcond=1e-10) @ charge
    d = W.sum(axis=1)
    return F - (d @ F) / d.sum()


def gwem_dense(W, Y, steps):
    """f_u = (D_Z,uu − Z_uu)⁻¹Z_ul y with Zᵀ = (D⁻¹W)^m (AB09 §3.5.2)."""
    Z = np.linalg.matrix_power(W / W.sum(axis=1)[:, None], steps).T
    known = Y.any(axis=1)
    F = Y.astype(float)
    A = (np.diag(Z.sum(axis=1)) - Z)[np.ix_(~known, ~known)]
    F[~known] = np.linalg.solve(A, Z[np.ix_(~known, known)] @ Y[known])
    return F


def gwem_em_dense(W, Y, steps, rounds):
    """EM of Szummer & Jaakkola by loops: P(i | k) from row k of Zᵀ = P^m by Bayes' rule."""
    Pm = np.linalg.matrix_power(W / W.sum(axis=1)[:, None], steps)
    n, K = Y.shape
    back = (Pm / Pm.sum(axis=0)).T  # back[k, i] = P(start i | end k), uniform start
    known = np.flatnonzero(Y.any(axis=1))
    p = np.full((n, K), 1.0 / K)
    for _ in range(rounds):
        share = np.zeros((n, K))
        for k in known:
            c = int(Y[k].argmax())
            joint = p[:, c] * back[k]
            share[:, c] += joint / joint.sum()
        total = share.sum(axis=1, keepdims=True)
        p = np.divide(share, total, out=np.zeros_like(share), where=total > 0)
    return back @ p


def class_mass_dense(F, Y):
    """Class-mass normalisation with smoothed label shares, rows summing to 1 (Zhu et al. 2003)."""
    q = Y.sum(axis=0) + 1
    q = q / q.sum()
    G = F * (q / F[~Y.any(axis=1)].sum(axis=0))
    return G / G.sum(axis=1, keepdims=True)


def nearest_distribution_dense(v):
    """Nearest point of the simplex by trying every support."""
    best, found = np.inf, None
    for size in range(1, len(v) + 1):
        for support in itertools.combinations(range(len(v)), size):
            p = np.zeros(len(v))
            at = list(support)
            p[at] = v[at] + (1 - v[at].sum()) / size
            if p.min() >= -1e-12 and np.sum((p - v) ** 2) < best:
                best, found = np.sum((p - v) ** 2), p
    return found


# --- CSC+GFHF


def gaussian_dense(Y, sigma):
    """Q_ij = exp(−‖y_i − y_j‖²/2σ²) entry by entry (WD12 eq. 15)."""
    return np.array([[np.exp(-np.sum((a - b) ** 2) / (2 * sigma**2)) for b in Y] for a in Y])


def by_own_sums(Q):
    """D_Q^-½QD_Q^-½ (WD12 Alg. 4 lines 9 and 10)."""
    sums = Q.sum(axis=1)
    return Q / np.sqrt(np.outer(sums, sums))


def finite_pairs(L, Q, Z):
    """All pairs 0 < λ < ∞ of Lf = λQf, both semidefinite, Z the null space of L: λ, unit f, fᵀQf.

    By the Schur complement of ZᵀQZ on a basis of Z^⟂; λ ascending.
    """
    import scipy.linalg as sla

    inner = np.linalg.pinv(Z.T @ Q @ Z, rcond=1e-10, hermitian=True)
    S = Q - Q @ Z @ inner @ Z.T @ Q
    N = sla.null_space(Z.T)
    mu, W = sla.eigh(N.T @ (S + S.T) @ N / 2, N.T @ (L + L.T) @ N / 2)
    kept = mu > 1e-11 * mu.max(initial=0)
    W = N @ W[:, kept]
    F = W - Z @ (inner @ (Z.T @ Q @ W))
    F /= np.linalg.norm(F, axis=0)
    return 1 / mu[kept][::-1], F[:, ::-1], np.einsum("ij,ij->j", F, Q @ F)[::-1]


def algorithm4(W, y, sigma):
    """WD12 Algorithm 4 line by line: y (n,) is ±1, 0 unknown; the graph is connected. f, λ."""
    d = W.sum(axis=1)
    P = W / d[:, None]
    known, unknown = np.flatnonzero(y), np.flatnonzero(y == 0)
    full = y.astype(float)
    Puu, Pul = P[np.ix_(unknown, unknown)], P[np.ix_(unknown, known)]
    full[unknown] = np.linalg.solve(np.eye(unknown.size) - Puu, Pul @ y[known])
    Q = by_own_sums(gaussian_dense(full[:, None], sigma))
    L = np.eye(len(W)) - W / np.sqrt(np.outer(d, d))
    lam, F, satisfied = finite_pairs(L, Q, np.sqrt(d / d.sum())[:, None])
    best = np.argmax(satisfied)
    return F[:, best], lam[best]


# --- constraint propagation, on the m nodes with an edge in the graph's order


def known_pairs(known, W):
    """Y (m, m) of FLI11 eq. 2: beliefs cut to [-1, 1], zero diagonal, labels as all their pairs."""
    nodes = laplacian(W)[2]
    must, cannot = (acting(np.minimum(P, 1.0), W) for P in links(known))
    return (must - cannot)[np.ix_(nodes, nodes)]


def lyapunov(W, Y, mu):
    """F of FLI11 eq. 5 by Bartels & Stewart's algorithm, which knows nothing of symmetry."""
    import scipy.linalg as sla

    M = mu * np.eye(len(Y)) + laplacian(W)[0]
    return sla.solve_continuous_lyapunov(M, 2 * mu * Y)


def information_spreading(W, Y, alpha):
    """FLI11 eq. 7 until nothing moves: F ← α(SF + FS)/2 + (1 − α)Y."""
    S = np.eye(len(Y)) - laplacian(W)[0]
    F = np.zeros_like(Y)
    while True:
        new = alpha * (S @ F + F @ S) / 2 + (1 - alpha) * Y
        if np.abs(new - F).max() <= 1e-15 * np.abs(Y).max(initial=0):
            return new
        F = new


def exhaustive(W, Y, alpha):
    """E2CP by explicit inverses: (1 − α)²(I − αS)⁻¹Y(I − αS)⁻¹."""
    L = laplacian(W)[0]
    inverse = np.linalg.inv((1 - alpha) * np.eye(len(L)) + alpha * L)
    return (1 - alpha) ** 2 * inverse @ Y @ inverse


def adjusted(W, F):
    """FLI11 eq. 9 entry by entry, F cut to [-1, 1]."""
    out = np.zeros(W.shape)
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            f, w = min(1.0, max(-1.0, F[i, j])), W[i, j]
            out[i, j] = 1 - (1 - f) * (1 - w) if f >= 0 else (1 + f) * w
    return out


def strongest_outside(W, F, count, floor):
    """{(i, j): F_ij}, i < j: pairs without an edge among the `count` largest F > floor of a row."""
    found = {}
    for i in range(len(W)):
        there = [j for j in range(len(W)) if j != i and W[i, j] == 0 and F[i, j] > floor]
        for j in sorted(there, key=lambda j, i=i: (-F[i, j], j))[:count]:
            found[min(i, j), max(i, j)] = F[min(i, j), max(i, j)]
    return found


def propagated_cut(W, F, k, seed):
    """FLI11 Alg. 1 steps 4 and 5: eq. 9 on all pairs, W*, its k smoothest vectors, k-means."""
    from mustlink.rounding.assign import kmeans

    nodes = laplacian(W)[2]
    everywhere = np.zeros(W.shape)
    everywhere[np.ix_(nodes, nodes)] = F - np.diag(np.diag(F))
    moved = adjusted(W, everywhere)
    L, root, nodes = laplacian(moved)
    Z = np.linalg.eigh(L)[1][:, :k]
    labels = np.full(len(W), -1)
    labels[nodes] = kmeans(Z / root[:, None], k, seed).labels
    return moved, labels


# --- neighbours by parts


def smallest(products, norms, k):
    """The k smallest norms_j - 2 products_ij of every row and their columns, ties to the first."""
    D = norms - 2 * products
    order = np.argsort(D, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(D, order, axis=1), order


def refined(X, lists, wide):
    """The k nearest of a node's list and the `wide` first of the lists of its `wide` first."""
    out = []
    for i, near in enumerate(lists):
        seen = {j for j in near if j >= 0}
        for j in near[:wide]:
            seen |= {other for other in lists[j][:wide] if other >= 0} if j >= 0 else set()
        seen.discard(i)
        ranked = sorted((np.linalg.norm(X[i] - X[j]), j) for j in seen)[: len(near)]
        out.append([j for _, j in ranked] + [-1] * (len(near) - len(ranked)))
    return np.array(out)
