"""Graphs and tables that break solvers, made small: every solver and estimator meets them all."""

import numpy as np
import scipy.sparse as sp

__all__ = ["GRAPHS", "POINTS", "labels_of", "random_graph"]


def random_graph(n, seed=0, degree=6):
    """A connected random graph with weights in [.1, 1]: a ring and chords."""
    rng = np.random.default_rng(seed)
    i = np.concatenate([np.arange(n), rng.integers(n, size=n * degree // 2)])
    j = np.concatenate([(np.arange(n) + 1) % n, rng.integers(n, size=n * degree // 2)])
    keep = i != j
    W = sp.coo_matrix((rng.uniform(0.1, 1.0, keep.sum()), (i[keep], j[keep])), shape=(n, n)).tocsr()
    return sp.csr_matrix(W + W.T)


def blocks(sizes, faint, seed=0):
    """Random graphs in a row, each joined to the next by one edge of weight `faint`."""
    W = sp.block_diag([random_graph(n, seed + b) for b, n in enumerate(sizes)], format="lil")
    ends = np.cumsum(sizes)
    for e in ends[:-1]:
        W[e - 1, e] = W[e, e - 1] = faint
    return W.tocsr()


def chain(n, ratio):
    """A path whose weights fall by `ratio` from edge to edge."""
    w = ratio ** np.arange(n - 1.0)
    return sp.diags_array([w, w], offsets=[-1, 1], shape=(n, n)).tocsr()


def star(n, arms=3):
    """Hubs with n leaves each, hubs joined in a row; leaves weigh 10⁻⁸ … 1."""
    W = sp.lil_matrix((arms * (n + 1), arms * (n + 1)))
    for a in range(arms):
        hub = a * (n + 1)
        for leaf in range(1, n + 1):
            W[hub, hub + leaf] = 10.0 ** (-8 * leaf / n)
        if a:
            W[hub, hub - n - 1] = 1.0
    return sp.csr_matrix(W + W.T)


def floored(n, seed=0):
    """Most weights at the floor of 5·10⁻⁹ beside 1: tight groups of equal rows, as tables have."""
    rng = np.random.default_rng(seed)
    W = sp.block_diag([np.ones((6, 6)) - np.eye(6)] * (n // 6), format="csr")
    m = W.shape[0]
    i, j = rng.integers(m, size=(2, 4 * m))
    far = sp.coo_matrix((np.full(i.size, 5e-9), (i, j)), shape=(m, m)).tocsr()
    near = W + far + far.T
    near.setdiag(0)
    near.eliminate_zeros()
    return sp.csr_matrix(near)


def heavy(n, weight):
    """One node joined to two others by `weight` in a graph of weights near 10⁻⁸."""
    W = (random_graph(n) * 1e-8).tolil()
    W[0, 1] = W[1, 0] = W[0, 2] = W[2, 0] = weight
    return W.tocsr()


def hanging(n, weight):
    """A random graph with one node that hangs on by `weight`, the last."""
    W = sp.block_diag([random_graph(n - 1), sp.csr_matrix((1, 1))], format="lil")
    W[0, n - 1] = W[n - 1, 0] = weight
    return W.tocsr()


def pairs(count):
    """So many components of two nodes, beside one of 40."""
    return sp.block_diag([random_graph(40)] + [np.array([[0, 1.0], [1, 0]])] * count, format="csr")


GRAPHS = {
    "floor": lambda: floored(180),
    "all equal": lambda: sp.csr_matrix(np.ones((60, 60)) - np.eye(60)),
    "pairs": lambda: pairs(60),
    "components of unlike scale": lambda: sp.block_diag(
        [random_graph(40) * 1e12, random_graph(40, 1) * 1e-12, random_graph(30, 2)], format="csr"
    ),
    "blocks 1e-12": lambda: blocks([40, 50, 30], 1e-12),
    "blocks 1e-30": lambda: blocks([40, 50, 30], 1e-30),
    "hanging 1e-300": lambda: hanging(60, 1e-300),
    "hanging 1e-12": lambda: hanging(60, 1e-12),
    "heavy 1e12": lambda: heavy(80, 1e12),
    "star": lambda: star(30),
    "chain": lambda: chain(60, 0.5),
    "steep chain": lambda: chain(60, 1e-4),
    "huge": lambda: random_graph(80) * 1e307,
    "tiny": lambda: random_graph(80) * 1e-307,
    "single huge": lambda: (random_graph(80) * 1e38).astype(np.float32),
    "single denormal": lambda: (random_graph(80) * 1e-42).astype(np.float32),
    "wide": lambda: spread(random_graph(90), 1e-16),
    "very wide": lambda: spread(random_graph(90), 1e-200),
    "isolated": lambda: sp.block_diag([random_graph(50), sp.csr_matrix((10, 10))], format="csr"),
}


def spread(W, least, seed=0):
    """The graph with weights drawn evenly by their logarithm from `least` to 1."""
    U = sp.triu(W, format="csr")
    rng = np.random.default_rng(seed)
    U.data = least ** rng.uniform(size=U.nnz)
    return sp.csr_matrix(U + U.T)


def labels_of(W, k=2, per_class=3, seed=0):
    """Labels (n,) of a few nodes with edges, -1 elsewhere."""
    n = W.shape[0]
    rng = np.random.default_rng(seed)
    linked = np.flatnonzero(np.diff(sp.csr_matrix(W).indptr))
    chosen = np.sort(rng.choice(linked, k * per_class, replace=False))
    y = np.full(n, -1)
    y[chosen] = np.repeat(np.arange(k), per_class)
    return y


def _repeated(seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((12, 3))[rng.integers(12, size=150)]


def _clouds(scale, seed=0):
    rng = np.random.default_rng(seed)
    return scale * (rng.standard_normal((120, 3)) + 6.0 * (np.arange(120) % 2)[:, None])


POINTS = {
    "repeated": _repeated,
    "one point": lambda: np.ones((80, 2)),
    "one but one": lambda: np.vstack([np.zeros((79, 2)), [[1.0, 0.0]]]),
    "one distance": lambda: np.eye(70),
    "one column": lambda: _clouds(1.0) * np.array([1e9, 1.0, 1e-9]),
    "integer codes": lambda: np.random.default_rng(0).integers(0, 3, (150, 4)).astype(float),
    "huge": lambda: _clouds(1e18),
    "tiny": lambda: _clouds(1e-25),
}
