"""Random graphs, points and images shared by the tests; everything is drawn from one `rng`."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp


def few_and_many(count, few):
    """`seeds` below `count`: a few of all cases in the quick tests, the rest in the thorough."""
    step = count // few
    rest = [seed for seed in range(count) if seed % step]
    return pytest.mark.parametrize(
        "seeds",
        [
            pytest.param(range(0, count, step), id="few"),
            pytest.param(rest, id="many", marks=pytest.mark.thorough),
        ],
    )


def solve_krylov(problem, *, tol=1e-6, **options):
    """F and how it ended, all batches joined."""
    from mustlink.lyapunov.fields import LowRankField
    from mustlink.lyapunov.krylov import convergence, solve_batches

    batches = list(solve_batches(problem, tol=tol, **options))
    terms = tuple(term for batch in batches for term in batch.field.terms)
    return LowRankField(terms, problem.size), convergence(problem, batches, tol)


def random_graph(
    rng,
    n,
    components=1,
    isolated=0,
    *,
    density=0.15,
    weighted=True,
    weak=None,
    dtype=np.float64,
):
    """Symmetric (n, n) CSR with exactly `components` connected parts plus `isolated` lone nodes.

    Each part is a random tree plus random edges (`density` of the pairs). `weak` joins
    consecutive parts by one edge of that weight (nearly disconnected; then all are one part).
    Nodes are shuffled, so parts and lone nodes lie anywhere.
    """
    connected = n - isolated
    assert connected >= 2 * components, "every part needs two nodes"
    part = np.concatenate(
        [
            np.repeat(np.arange(components), 2),
            rng.integers(0, components, connected - 2 * components),
        ]
    )
    A = np.zeros((n, n))
    for c in range(components):
        nodes = np.flatnonzero(part == c)
        for at in range(1, nodes.size):  # a random tree keeps the part connected
            other = nodes[rng.integers(0, at)]
            A[nodes[at], other] = _weight(rng, weighted)
        extra = np.triu(rng.random((nodes.size, nodes.size)) < density, 1)
        for i, j in np.argwhere(extra):
            A[nodes[i], nodes[j]] = _weight(rng, weighted)
    A = np.maximum(A, A.T)
    if weak is not None:
        for c in range(1, components):
            i, j = rng.choice(np.flatnonzero(part == c - 1)), rng.choice(np.flatnonzero(part == c))
            A[i, j] = A[j, i] = weak
    order = rng.permutation(n)
    return sp.csr_matrix(A[order][:, order].astype(dtype))


def labelled(y, each, rng=None):
    """Labels (n,) of `each` nodes of every class, -1 of the rest; without `rng` the first of them.

    A sequence `each` names how many, class by class.
    """
    known, classes = np.full(y.size, -1), np.unique(y)
    for c, count in zip(classes, np.broadcast_to(each, classes.size), strict=True):
        nodes = np.flatnonzero(y == c)
        known[nodes[:count] if rng is None else rng.choice(nodes, count, replace=False)] = c
    return known


def _weight(rng, weighted):
    return 0.05 + rng.random() if weighted else 1.0


def planted_graph(rng, n, n_clusters, inside=0.5, across=0.02):
    """Connected weighted graph with planted clusters: (CSR, labels)."""
    y = np.sort(np.arange(n) % n_clusters)
    p = np.where(y[:, None] == y, inside, across)
    A = np.triu(rng.random((n, n)) < p, 1) * (0.5 + rng.random((n, n)))
    path = np.arange(n - 1)
    A[path, path + 1] = np.maximum(A[path, path + 1], 0.1)
    order = rng.permutation(n)
    A = (A + A.T)[order][:, order]
    return sp.csr_matrix(A), y[order]


def blobs(rng, n, n_clusters, d=2, separation=6.0, duplicates=0):
    """Gaussian points in `n_clusters` blobs `separation` apart, last rows duplicates: (X, y)."""
    y = rng.integers(0, n_clusters, n)
    centres = separation * rng.standard_normal((n_clusters, d)) / np.sqrt(d)
    X = centres[y] + 0.3 * rng.standard_normal((n, d))
    if duplicates:
        X[-duplicates:] = X[0]
        y[-duplicates:] = y[0]
    return X, y


def six_nodes():
    """The illustrative example of WD14 §4.4: (A, Q, y), two triangles joined by the edge (2, 3)."""
    A = np.zeros((6, 6))
    for i, j in [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5)]:
        A[i, j] = A[j, i] = 1.0
    y = np.array([0, 0, 0, 0, 1, 1])
    Q = np.where(y[:, None] == y, 1.0, -1.0)
    return sp.csr_matrix(A), Q, y


KINDS = ("pairs", "labels", "soft", "mixed")


def random_constraints(rng, n, kind, k=3):
    """Constraints of one kind on random nodes, with no regard to the graph: many contradict it."""
    from mustlink.constraints import Constraints

    y = rng.integers(0, k, n)
    m = int(rng.integers(k, max(k + 1, n // 2)))
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(m)])
    belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)
    labels = np.full(n, -1)
    known = rng.permutation(n)[: max(2 * k, n // 6)]
    labels[known] = y[known]
    some = rng.permutation(n)[: max(4, n // 3)]
    soft = np.zeros((n, n))
    soft[np.ix_(some, some)] = np.triu(rng.standard_normal((some.size, some.size)))
    if kind == "pairs":
        return Constraints.from_pairs(pairs, belief, n_nodes=n)
    if kind == "labels":
        return Constraints.from_labels(labels)
    if kind == "soft":
        return Constraints.from_matrix(soft + soft.T)
    weights = belief * (0.2 + rng.random(m))
    return Constraints.from_pairs(pairs, weights, n_nodes=n) + Constraints.from_labels(labels)


def odd_constraints(y):
    """By name, constraints that contradict themselves, or say very little, of groups `y` (n,)."""
    from mustlink.constraints import Constraints

    n = y.size
    first, second = np.flatnonzero(y == 0), np.flatnonzero(y == 1)
    apart = np.column_stack([first[:10], second[:10]])
    together = np.column_stack([first[:10], first[1:11]])
    star = np.column_stack([np.zeros(n - 1, dtype=int), np.arange(1, n)])
    pairs = {
        "contradictory triangle": ([[0, 1], [1, 2], [0, 2]], [1, 1, -1]),
        "both signs": ([[0, 1], [1, 0], [2, 3]], [1, -1, 1]),
        "contradicts a path": (np.vstack([together, [first[0], first[10]]]), [1] * 10 + [-1]),
        "all on one node": (star, np.where(y[1:] == y[0], 1, -1)),
        "one node, all cannot": (star, -1),
        "must only": (together, 1),
        "cannot only": (apart, -1),
        "one pair": (apart[:1], -1),
        "odd cycle": ([[0, 1], [1, 2], [2, 3], [3, 4], [0, 4]], -1),
        "huge and tiny belief": (np.vstack([together, apart]), [1e4] * 10 + [-1e-4] * 10),
    }
    found = {name: Constraints.from_pairs(*said, n_nodes=n) for name, said in pairs.items()}
    one = np.where(np.arange(n) == 5, y, -1)
    return found | {"one label": Constraints.from_labels(one)}
