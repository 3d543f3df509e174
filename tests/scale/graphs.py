"""Graphs of several kinds, the same in the test and on every rank."""

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from mustlink import CSP, SSSC, ConstrainedAP, FastGE
from mustlink.constraints import Constraints
from mustlink.graph import Graph
from mustlink.lyapunov.sources import sources_at
from mustlink.operators.laplacian import normalized_laplacian


def neighbours(X, k):
    """Gaussian weights between k nearest neighbours, either way."""
    distance, index = cKDTree(X).query(X, k + 1)
    width = distance[:, -1:]
    weight = np.exp(-((distance / width) ** 2))[:, 1:]
    rows = np.repeat(np.arange(len(X)), k)
    W = sp.csr_matrix((weight.ravel(), (rows, index[:, 1:].ravel())), shape=(len(X), len(X)))
    return W.maximum(W.T).tocsr()


def points(rng):
    centres = 4 * rng.standard_normal((5, 3))
    return neighbours(centres[rng.integers(0, 5, 4000)] + rng.standard_normal((4000, 3)), 10)


def picture(rng):
    """A grid with an outline across which weights are 10⁻³."""
    side = 60
    line = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(side, side))
    eye = sp.eye_array(side)
    W = sp.coo_array(sp.kron(line, eye) + sp.kron(eye, line))
    x, y = np.divmod(np.arange(side * side), side)
    group = (x > 22).astype(int) + 2 * (y > 35)
    W.data *= np.where(group[W.coords[0]] == group[W.coords[1]], 1.0, 1e-3)
    return sp.csr_matrix(W)


def network(rng):
    """Preferential attachment between three groups."""
    n = 3000
    popular = 1 / np.sqrt(1 + np.arange(n))
    left = rng.choice(n, 5 * n, p=popular / popular.sum())
    right = rng.choice(n, 5 * n, p=popular / popular.sum())
    kept = (left % 3 == right % 3) | (rng.random(5 * n) < 0.1)
    chain = np.arange(n - 3)
    left, right = np.append(left[kept], chain), np.append(right[kept], chain + 3)
    W = sp.csr_matrix((np.ones(left.size), (left, right)), shape=(n, n))
    return ((W + W.T) > 0).astype(float).tocsr()


def many_parts(rng):
    """Three large components, a hundred triangles and nodes without edges, in random order."""
    large = [neighbours(rng.standard_normal((700, 2)), 6) for _ in range(3)]
    triangle = sp.csr_matrix(np.ones((3, 3)) - np.eye(3))
    W = sp.block_diag([*large, *[triangle] * 100, sp.csr_matrix((17, 17))], format="csr")
    order = rng.permutation(W.shape[0])
    return W[order][:, order]


def wide_weights(rng):
    W = sp.triu(points(rng), 1).tocsr()
    W.data = W.data * 10 ** rng.uniform(-6, 2, W.nnz)
    return (W + W.T).tocsr()


def uneven(rng):
    """Odd sizes: a strip of seven parts, in float32, with loops."""
    X = rng.random((2503, 2)) * [40, 1]
    W, part = sp.coo_array(neighbours(X, 7)), X[:, 0] // (40 / 7)
    W.data[part[W.coords[0]] != part[W.coords[1]]] *= 0.02
    return sp.csr_matrix(W + sp.diags_array(rng.random(2503))).astype(np.float32)


CLUSTERS = {"points": 5, "picture": 4, "network": 3, "many_parts": 6, "wide_weights": 4}
CLUSTERS["uneven"] = 7
SPREAD = {"eigen_tol": 1e-8, "max_iter": 600, "random_state": 3, "solver": "diffusion"}
SPREAD |= {"power": 1.0, "variant": "luxburg"}
FAR = SPREAD | {"solver": "auto", "mu": 0.01}
BETA = {"many_parts": -1.0}  # labels of few components allow no positive one
REGIONS = ("network", "uneven")  # where parts of the constraints meet, and where they do not
CONSTRAINED = ("csp", "sssc", "fast_ge", "ap")


def constrained(method, name):
    """A method with all of its choices made."""
    usual = {"affinity": "precomputed", "subspace": 12, "tol": 1e-10, "regularization": 0}
    usual |= {"random_state": 3}
    return {
        "csp": lambda k: CSP(k, beta=BETA.get(name, 0.3), assign="kmeans", **usual),
        "sssc": lambda k: SSSC(k, gamma=0.2, balanced=True, assign="sphere", **usual),
        "fast_ge": lambda k: FastGE(k, assign="sphere", **usual),
        "ap": lambda k: ConstrainedAP(k, noise=0.3, assign="sphere", **usual),
    }[method](CLUSTERS[name])


def graphs():
    for name in CLUSTERS:
        W = globals()[name](np.random.default_rng(1))
        W.sort_indices()
        yield name, W


def told(W, name, group):
    """Pairs of nodes, or labels of some, as the clusters `group` (n,) have it."""
    n, rng = W.shape[0], np.random.default_rng(6)
    if name < "o":
        return Constraints.from_labels(np.where(rng.random(n) < 0.03, group, -1))
    pairs = rng.permutation(n)[:400].reshape(200, 2)
    belief = np.where(group[pairs[:, 0]] == group[pairs[:, 1]], 1.0, -0.5)
    return Constraints.from_pairs(pairs, belief, n_nodes=n)


def hardly_anything(W):
    """Nothing, one label, and pairs of which one contradicts others, a node has no edge."""
    n, lone = W.shape[0], int(np.argmin(np.diff(W.indptr)))
    pairs = np.array([[0, 1], [2, 3], [2, 4], [3, 4], [(lone + 9) % n, lone]])
    both = Constraints.from_pairs(pairs, [1.0, 1.0, 1.0, -1.0, 1.0], n_nodes=n)
    return (
        Constraints.none(n),
        Constraints.from_labels(np.where(np.arange(n) == 7, 1, -1)),
        both,
    )


def sources(W):
    """Four pairs to be spread over the graph, in working order."""
    n, rng = W.shape[0], np.random.default_rng(5)
    known = Constraints.from_pairs(rng.permutation(n)[:8].reshape(4, 2), [1, -1, 1, 1], n_nodes=n)
    return sources_at(known, normalized_laplacian(Graph.from_affinity(W)).nodes)
