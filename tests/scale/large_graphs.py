"""Eight graphs of 10⁵ to 10⁶ nodes with the clusters that are in them."""

import numpy as np
import scipy.sparse as sp
from graphs import neighbours


def blobs(rng, n, dimension, k):
    """Points about k centres that are far apart, and whose they are."""
    centres = 12.0 * np.column_stack(np.unravel_index(np.arange(k), (2,) * dimension))
    group = rng.integers(0, k, n)
    return centres[group] + rng.standard_normal((n, dimension)), group


def bridged(W, group):
    """One weak edge between the first nodes of every group and the next: all in one component."""
    first = np.array([np.flatnonzero(group == c)[:40] for c in range(group.max() + 1)])
    rows, columns = first[:-1].ravel(), first[1:].ravel()
    B = sp.csr_matrix((np.full(rows.size, 0.1), (rows, columns)), shape=W.shape)
    return W + B + B.T, group


def points(rng):
    X, group = blobs(rng, 100_000, 3, 6)
    return bridged(neighbours(X, 10), group)


def points_of_six(rng):
    X, group = blobs(rng, 100_000, 6, 8)
    return bridged(neighbours(X, 10), group)


def picture(rng):
    """150,000 pixels with two outlines across which weights are 10⁻⁴."""
    height, width = 300, 512

    def line(n):
        return sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(n, n))

    W = sp.coo_array(
        sp.kron(line(height), sp.eye_array(width)) + sp.kron(sp.eye_array(height), line(width))
    )
    y, x = np.divmod(np.arange(height * width), width)
    group = (x > 190).astype(int) + 2 * (y > 130)
    W.data = rng.uniform(0.5, 1.0, W.nnz)
    W.data *= np.where(group[W.coords[0]] == group[W.coords[1]], 1.0, 1e-4)
    W = sp.csr_matrix(W)
    return W + W.T, group


def planted(rng, n, k, inside, between):
    """Edges of weight 1, so many of a node inside its group and between groups."""
    group = np.sort(rng.integers(0, k, n))
    bounds = np.searchsorted(group, np.arange(k + 1))
    left = rng.integers(0, n, n * inside // 2)
    at = group[left]
    right = bounds[at] + (rng.random(left.size) * (bounds[at + 1] - bounds[at])).astype(np.int64)
    far = rng.integers(0, n, (n * between // 2, 2))
    rows, columns = np.append(left, far[:, 0]), np.append(right, far[:, 1])
    W = sp.csr_matrix((np.ones(rows.size), (rows, columns)), shape=(n, n))
    W = W + W.T + sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1])
    W = sp.csr_matrix(W)
    W.data[:] = 1.0
    return W, group


def partition(rng):
    """Ten groups, of which one is two: the subspace of ten vectors ends at a gap, too."""
    W, group = planted(rng, 100_000, 11, 16, 4)
    last, rest = np.flatnonzero(group == 10), np.flatnonzero(group == 9)
    ends = rng.choice(last, 30_000), rng.choice(rest, 30_000)
    between = sp.csr_matrix((np.ones(30_000), ends), shape=W.shape)
    return W + between + between.T, np.minimum(group, 9)


def many_parts(rng):
    """A network of 1,000 components: three large ones, the others of a dozen nodes."""
    large = [planted(rng, n, 1, 10, 0)[0] for n in (60_000, 40_000, 25_000)]
    ring = sp.diags_array([1.0, 1.0, 1.0, 1.0], offsets=[-1, 1, -11, 11], shape=(12, 12))
    small = sp.kron(sp.eye_array(997), ring)
    W = sp.csr_matrix(sp.block_diag([*large, small]))
    group = np.repeat([0, 1, 2, 3], [60_000, 40_000, 25_000, 997 * 12])
    return mixed(rng, W, group)


def wide_weights(rng):
    """Weights of eight powers of ten, each node's links alike: dense and thin regions."""
    X, group = blobs(rng, 100_000, 3, 4)
    W = neighbours(X, 10)
    size = 10.0 ** (4 * np.cos(X[:, 0] / 2) * np.cos(X[:, 1] / 2))
    W = sp.csr_matrix(sp.diags_array(np.sqrt(size)) @ W @ sp.diags_array(np.sqrt(size)))
    B, _ = bridged(sp.csr_matrix(W.shape), group)
    return W + 1e-3 * B, group


def strip(rng):
    """A million points of a strip of seven parts, in single precision, with loops."""
    n = 1_000_000
    X = rng.random((n, 2)) * [40, 1]
    W, part = sp.coo_array(neighbours(X, 7)), (X[:, 0] // (40 / 7)).astype(int)
    W.data[part[W.coords[0]] != part[W.coords[1]]] *= 1e-4
    return sp.csr_matrix(W + sp.diags_array(rng.random(n))).astype(np.float32), part


def lonely(rng):
    """A tenth of the nodes without an edge, in random order."""
    X, group = blobs(rng, 100_000, 3, 5)
    W, _ = bridged(neighbours(X, 8), group)
    W = sp.csr_matrix(sp.block_diag([W, sp.csr_matrix((10_000, 10_000))]))
    return mixed(rng, W, np.append(group, np.full(10_000, -1)))


def mixed(rng, W, group):
    order = rng.permutation(W.shape[0])
    return sp.csr_matrix(W)[order][:, order], group[order]


CLUSTERS = {
    "points": 6,
    "points_of_six": 8,
    "picture": 4,
    "many_parts": 4,
    "wide_weights": 4,
    "strip": 7,
    "partition": 10,
    "lonely": 5,
}


def made(name):
    """W in CSR form, and the group of every node, -1 for those without an edge."""
    W, group = globals()[name](np.random.default_rng(2))
    W = sp.csr_matrix(W)
    W.sort_indices()
    return W, group
