"""AB09 and WD12 with dense inverses: one-hot labels Y (n, K), zero rows unknown."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.sparse.csgraph import connected_components


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
    """(ℓγL + I_k)⁻¹(ŷ + μ1), ℓ labels (AB09 eq. 11)."""
    known = np.diag(Y.any(axis=1).astype(float))
    A = np.trace(known) * gamma * laplacians_dense(W)[0] + known
    return balanced_dense(A, Y, np.ones(len(W)))


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


def cluster_kernel_dense(W, Y, p, rows, strength):
    """Class probabilities (n, K) of a logistic regression on p smoothest eigenvectors (§3.5.1)."""
    d = W.sum(axis=1)
    V = np.linalg.eigh(laplacians_dense(W)[1])[1][:, :p]
    if rows == "sphere":
        X = V / np.linalg.norm(V, axis=1)[:, None]
    else:
        X = V / np.sqrt(d)[:, None]
        X = X / np.sqrt((X**2).mean(axis=0))
    known = Y.any(axis=1)
    return logistic_dense(X[known], Y[known], strength, X)


def logistic_dense(X, Y, strength, new):
    """Newton's method on ½‖w‖² + C·Σ loss, intercepts free, from 0; the probabilities at `new`.

    Two classes have one vector w (the sigmoid's), more have one each (softmax).
    """
    A = np.column_stack([X, np.ones(len(X))])
    G = Y[:, 1:] if Y.shape[1] == 2 else Y  # columns with a vector of their own
    q, c = A.shape[1], G.shape[1]
    ridge = np.kron(np.diag(np.append(np.ones(q - 1), 0.0)), np.eye(c))

    def shares(B, w):
        Z = B @ w.reshape(q, c)
        Z = np.column_stack([np.zeros(len(B)), Z]) if c == 1 else Z
        E = np.exp(Z - Z.max(axis=1, keepdims=True))
        return E / E.sum(axis=1, keepdims=True)

    def cost(w):
        return 0.5 * w @ ridge @ w - strength * np.log(shares(A, w)[Y > 0]).sum()

    w = np.zeros(q * c)
    for _ in range(200):
        P = shares(A, w)[:, -c:]
        gradient = ridge @ w + strength * (A.T @ (P - G)).ravel()
        hessian = ridge.copy()
        for a, row in zip(A, P, strict=True):
            curve = np.diag(row) - np.outer(row, row)
            hessian += strength * np.kron(np.outer(a, a), curve)
        step = np.linalg.lstsq(hessian, -gradient, rcond=1e-14)[0]
        t = 1.0
        while cost(w + t * step) > cost(w) + 1e-4 * t * (gradient @ step) and t > 1e-10:
            t /= 2
        w = w + t * step
        if np.abs(t * step).max() < 1e-12 * (1 + np.abs(w).max()):
            break
    return shares(np.column_stack([new, np.ones(len(new))]), w)


def green_dense(W, Y, normalized):
    """L⁺y (AB09 §3.6)."""
    return np.linalg.pinv(laplacians_dense(W)[int(normalized)], rcond=1e-10) @ Y


def poisson_dense(W, Y, center="degrees", *, equal=False):
    """Lf = Σ(y_j − ȳ)δ_j with Σ d_i f_i = 0, on a connected graph (Calder et al. 2020).

    Or with Σ f_i = 0, `center` being "rows"; f_c over Kȳ_c where classes are `equal`.
    """
    known = Y.any(axis=1)
    mean = Y[known].mean(axis=0)
    charge = np.where(known[:, None], Y - mean, 0.0)
    F = np.linalg.pinv(laplacians_dense(W)[0], rcond=1e-10) @ charge
    d = W.sum(axis=1) if center == "degrees" else np.ones(len(W))
    F -= (d @ F) / d.sum()
    return F / (mean.size * mean) if equal else F


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


def class_mass_dense(F, Y, added=1):
    """Class-mass normalisation with smoothed label shares, rows summing to 1 (Zhu et al. 2003)."""
    q = Y.sum(axis=0) + added
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


def statements_dense(W, labels):
    """Labels (n,) without those that repeat their neighbours', node by node, `prior.statements`."""
    degree, part = W.sum(axis=1), connected_components(W)[1]
    company, found = np.zeros(len(W)), labels.copy()
    for i in np.flatnonzero(labels >= 0):
        same = [j for j in range(len(W)) if j != i and labels[j] == labels[i]]
        company[i] = round(sum(W[i, j] for j in same) / max(degree[i], 1e-300), 3)
    own = {c: np.flatnonzero((labels == c) & (degree > 0)) for c in np.unique(labels[labels >= 0])}
    mean = {c: company[rows].mean() if rows.size else 0.0 for c, rows in own.items()}
    rng = np.random.default_rng(0)
    for c, members in own.items():
        others = [own[o].size for o in own if mean[o] < mean[c] / 2]
        if mean[c] < 0.5 or not others or members.size <= 2 * np.ceil(np.median(others)):
            continue
        if members.size >= len(W) / 4:
            continue
        rows = rng.permutation(members)
        order = sorted(rows, key=lambda i: -9.0 if company[i] < 0.02 else -company[i])
        kept = order[: int(np.ceil(np.median(others)))]
        for i in order:
            if i not in kept and any(part[i] == part[j] for j in order[: order.index(i)]):
                found[i] = -1
    return found
