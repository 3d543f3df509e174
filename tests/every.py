"""Every estimator, small data that it can be fitted to, and what it is told of them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import mustlink as ml
from cases import planted_graph

N, K = 60, 3


def blobs(seed, n=N):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % K)
    return (rng.normal(size=(n, 4)) + 5 * np.eye(K, 4)[y]).astype(np.float32), y


def graph(seed):
    W, y = planted_graph(np.random.default_rng(seed), N, K, inside=0.4, across=0.05)
    return ml.Graph.from_affinity(W), y


def directed(seed):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(N) % K)
    arcs = rng.random((N, N)) < np.where((y[:, None] + 1) % K == y, 0.5, 0.05)
    return sp.csr_matrix(arcs * 1.0), y


def picture(seed):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(K), 8)[:, None] * np.ones(16, dtype=int)
    return np.clip(0.4 * y[..., None] + rng.normal(0, 0.05, (*y.shape, 3)), 0, 1), y


def energy(seed):
    W, y = planted_graph(np.random.default_rng(seed), N, K, inside=0.4, across=0.05)
    return sp.csr_matrix(sp.diags(np.asarray(W.sum(axis=0)).ravel()) - W), y


def some(y, seed, share=0.4):
    """Labels of some of the nodes, of every class at least two."""
    rng = np.random.default_rng(seed)
    known = np.where(rng.random(y.shape) < share, y, -1)
    for c in np.unique(y):
        known.flat[np.flatnonzero(y == c)[:2]] = c
    return known


QUICK = {"subspace": 6, "regularization": 0}
OF_GRAPHS = {
    "NCut": {"n_clusters": K, "regularization": 0},
    "CSP": {"n_clusters": K, "beta": 0.3, **QUICK},
    "SSSC": {"n_clusters": K, "gamma": 0.3, "balanced": True, **QUICK},
    "SpectralLearning": {"n_clusters": K, **QUICK},
    "ConstrainedAP": {"n_clusters": K, "noise": 0.3, **QUICK},
    "FastGE": {"n_clusters": K, **QUICK},
    "SSKK": {"n_clusters": K},
    "SRCP": {"n_clusters": K, "power": 1.0, "variant": "ng"},
    "E2CP": {"n_clusters": K, "power": 1.0, "variant": "ng"},
    "CSCGFHF": {"n_clusters": K},
    "GFHF": {},
    "LLGC": {},
    "Poisson": {},
    "TikReg": {},
    "LELP": {},
    "GreenFunction": {},
    "GWEM": {},
    "ClusterKernel": {},
    "NCutPropagation": {},
}
OF_POINTS = {"LLELP": {}, "LNP": {}, "LTSALP": {}, "LLE": {}, "LTSA": {}, "LaplacianEigenmaps": {}}
OTHERS = {
    "Auto": blobs,
    "DISIM": directed,
    "GLP": energy,
    "StrokeCut": picture,
    "RegionCut": picture,
}
ALL = [*OF_GRAPHS, *OF_POINTS, *OTHERS]
UNTOLD = {"NCut", "LLE", "LTSA", "LaplacianEigenmaps", "RegionCut"}


def made(name):
    """The estimator, and what draws its data."""
    if name in OTHERS:
        how = {"n_clusters": K} if name == "DISIM" else {}
        return getattr(ml, name)(**how), OTHERS[name]
    if name in OF_POINTS:
        return getattr(ml, name)(random_state=0), blobs
    how = {"affinity": "precomputed", "random_state": 0, **OF_GRAPHS[name]}
    return getattr(ml, name)(**how), graph


def fit(est, X, y, observer=None):
    return est.fit(X, *([] if type(est).__name__ in UNTOLD else [y]), observer=observer)
