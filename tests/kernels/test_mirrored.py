"""Symmetry told without a transpose: what the transpose tells, at every place of a difference."""

import numpy as np
import pytest
import scipy.sparse as sp

import mustlink as ml
from mustlink.errors import InputError
from mustlink.graph import graph
from mustlink.kernels import symmetric_lists as mirrored


def random_matrix(n, density, seed):
    rng = np.random.default_rng(seed)  # sp.random draws from all n² places
    places = rng.choice(n * n, int(density * n * n), replace=False, shuffle=False)
    A = sp.coo_matrix((rng.random(places.size) + 0.1, divmod(places, n)), (n, n))
    return sp.csr_matrix(A + A.T)


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "density"), [(1, 1.0), (30, 0.0), (30, 0.2), (9000, 0.001)])
def test_symmetric_matrices_are_known(n, density, dtype):
    W = random_matrix(n, density, n).astype(dtype)
    W.sort_indices()
    assert mirrored.is_symmetric(W)
    assert mirrored.is_symmetric(sp.csr_matrix(W + sp.identity(n, dtype)))


def test_one_entry_that_differs_is_seen():
    """In its value, or as it is there once only; on either side."""
    W = random_matrix(30, 0.2, 0)
    rows, columns = W.nonzero()
    for i, j in zip(rows, columns, strict=True):
        if i == j:
            continue
        other = W.copy()
        other[i, j] *= 1 + 1e-15
        assert not mirrored.is_symmetric(other)
        other[i, j] = 0.0
        other.eliminate_zeros()
        assert not mirrored.is_symmetric(other)


def test_entries_that_change_places_are_seen():
    """All values are there as often as before, or at the mirrored place of another."""
    W = random_matrix(30, 0.2, 1)
    rng = np.random.default_rng(0)
    for _ in range(100):
        other = W.copy()
        p, q = rng.choice(W.nnz, 2, replace=False)
        other.data[[p, q]] = other.data[[q, p]]
        assert mirrored.is_symmetric(other) == (abs(other - other.T).nnz == 0)


def test_graphs_that_are_not_symmetric_are_refused(monkeypatch):
    monkeypatch.setattr(graph, "_MANY", 0)
    W = random_matrix(60, 0.1, 1).tolil()
    W[3, 5], W[5, 3] = 2.5, 0.0
    with pytest.raises(InputError, match=r"not symmetric, entry \(3, 5\)"):
        ml.Graph.from_affinity(W)
