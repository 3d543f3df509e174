"""Graphs on which memory, disk and ranks are compared, and what of a fit must not differ."""

import re
from functools import cache

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
from cases import planted_graph
from mustlink.constraints import Constraints


def planted():
    W, y = planted_graph(np.random.default_rng(1), 450, 3, inside=0.1, across=0.01)
    return W, y, 3


def several_parts():
    """Three planted parts, pairs of nodes beside them, and nodes without an edge."""
    rng = np.random.default_rng(2)
    parts = [planted_graph(rng, 120, 1, inside=0.2)[0] for _ in range(3)]
    pairs = [sp.csr_matrix([[0.0, 1.0], [1.0, 0.0]])] * 10
    W = sp.block_diag([*parts, *pairs, sp.csr_matrix((7, 7))], format="csr")
    y = np.concatenate([np.repeat([0, 1, 2], 120), np.zeros(27, dtype=int)])
    order = rng.permutation(y.size)
    return W[order][:, order], y[order], 3


def hung():
    """Three groups with long chains that hang on them by one edge each."""
    rng = np.random.default_rng(3)
    W, y = planted_graph(rng, 360, 3, inside=0.12, across=0.01)
    W = sp.lil_matrix(sp.block_diag([W, sp.csr_matrix((150, 150))]))
    of = np.append(y, np.zeros(150, dtype=int))
    for first in range(360, 510, 30):
        host = rng.integers(360)
        for at in range(first, first + 30):
            W[at, host] = W[host, at] = 1.0
            of[at], host = of[host], at
    return sp.csr_matrix(W), of, 3


def ill_scaled():
    """Gaussian weights of ten neighbours, of 1e-30 to 1."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, 1200)
    X = 5 * rng.standard_normal((4, 4))[y]
    X += rng.standard_normal(X.shape) * rng.gamma(1.5, 0.6, (y.size, 1))
    near, index = cKDTree(X).query(X, 11)
    weights = np.exp(-(near[:, 1:] ** 2) / (2 * (0.5 * np.median(near[:, 1:])) ** 2))
    ends = np.repeat(np.arange(y.size), 10), index[:, 1:].ravel()
    W = sp.csr_matrix((np.maximum(weights, 1e-30).ravel(), ends), shape=(y.size, y.size))
    return sp.csr_matrix(W.maximum(W.T)), y, 4


def many():
    """More groups than candidates are compared by."""
    W, y = planted_graph(np.random.default_rng(5), 1400, 70, inside=0.6, across=0.003)
    return W, y, 70


def halves():
    W, y = planted_graph(np.random.default_rng(6), 500, 2, inside=0.08, across=0.01)
    return W, y, 2


GRAPHS = {each.__name__: each for each in (planted, several_parts, halves, hung, ill_scaled, many)}


@cache
def graph(name):
    W, y, k = GRAPHS[name]()
    W = sp.csr_matrix(W).astype(np.float32)
    W.sort_indices()
    return W, y, k


def choices(report):
    """What was decided, and what was said of it."""
    told = {name: value for name, value in report.choices.items() if name not in ALONE}
    tau, why = told.pop("regularization", (None, ""))
    if isinstance(told.get("variant"), list | tuple):  # with figures
        told["variant"] = told["variant"][0]
    tried = [one["tau"] for one in report.extra.get("regularizations_tried", [])]
    return {
        **told,
        "n_clusters": report.n_clusters,
        "regularization": tau,
        "by evidence": "nats" in why or "held-out" in why,
        "tried": tried,
        "components": report.extra["n_components"],
        "network": "network" in report.extra,
        "notes": sorted(said(report.notes)),
        "warnings": sorted(said(report.warnings)),
    }


def said(lines):
    """What does not depend on figures."""
    return {re.sub(r"\d[\d.,]*%?", "#", line) for line in lines if not line.startswith(NUMBERS)}


def alike(W, one, other, shown=True):
    """ARI of two clusterings on nodes that vectors show: far out on a chain they are rounding."""
    degrees = np.asarray(W.sum(axis=1)).ravel()
    core = (np.diff(W.indptr) > 4) & (degrees > 1e-3 * np.median(degrees)) & shown
    return adjusted_rand_score(one[core], other[core])


def told(y, k, how):
    """Labels of many nodes or of few, pairs, or nothing, as the groups `y` (n,) have it."""
    n, rng = y.size, np.random.default_rng(8)
    if how == "labels":
        return Constraints.from_labels(np.where(rng.random(n) < 0.2, y, -1))
    if how == "few":
        first = np.array([np.flatnonzero(y == c)[3] for c in range(k)])
        return Constraints.from_labels(np.where(np.isin(np.arange(n), first), y, -1))
    if how == "pairs":
        pairs = rng.permutation(n)[: 2 * (n // 5)].reshape(-1, 2)
        belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)
        return Constraints.from_pairs(pairs, belief, n_nodes=n)
    return Constraints.none(n)


def paired(*lists):
    """Few of all combinations: any two entries of two lists meet, where no list is far longer.

    The first two lists are combined in full, and entries of the others take turns.
    """
    first, second, *rest = (list(one) for one in lists)
    return [
        (a, b, *(one[(i + j) % len(one)] for one in rest))
        for i, a in enumerate(first)
        for j, b in enumerate(second)
    ]


ON_RANKS = ("planted", "halves", "hung")
TOLD = ("labels", "few", "pairs", "nothing")
METHODS = {"CSP": ml.CSP, "SSSC": ml.SSSC, "FastGE": ml.FastGE, "ConstrainedAP": ml.ConstrainedAP}
PROPAGATED = {"SRCP": ml.SRCP, "E2CP": ml.E2CP}
SPREADING = {
    "GFHF": ml.GFHF(),
    "GFHF, masses": ml.GFHF(class_mass=True),
    "LLGC": ml.LLGC(),
    "Poisson": ml.Poisson(),
    "TikReg": ml.TikReg(),
}
VARIANTS = ("auto", "ng")
CUT_ON_RANKS = [(name, VARIANTS[i % 2]) for i, name in enumerate(GRAPHS)]
CONSTRAINED_ON_RANKS = paired(ON_RANKS, METHODS, TOLD)
SPREAD_ON_RANKS = [
    (name, method)
    for i, name in enumerate(GRAPHS)
    for j, method in enumerate(SPREADING)
    if name != "ill_scaled" and (i + j) % 2
]
ALONE = {"solver", "graph", "ranks", "why", "unit"}  # of the way there, and figures
ALONE |= {"largest_F", "parts", "propagation", "terms"}
NUMBERS = ("not tried on ", "regularization: ", "memory: ", "subspace of", "the gap after")
NUMBERS += ("eigenvectors: found", "lobpcg: ", "chebyshev: ", "full problem", "only ")
