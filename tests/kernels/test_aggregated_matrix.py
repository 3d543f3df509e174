"""PᵀMP on aggregates is the dense product, by one thread and by many."""

import numpy as np
import pytest
import scipy.sparse as sp

from cases import random_graph
from mustlink.kernels import threads
from mustlink.kernels.aggregated_matrix import aggregated
from mustlink.linear.multigrid.hierarchy import aggregate


def check(M, P, complement):
    found = aggregated(M, P, complement=complement)
    dense = P.toarray().T @ M.toarray().astype(float) @ P.toarray()
    expected = (P.T @ P).toarray() - dense if complement else dense
    # One sum of up to 160,000 terms, in another order.
    assert np.allclose(found.toarray(), expected, rtol=1e-12, atol=1e-13)
    found.check_format(full_check=True)
    assert found.has_sorted_indices
    assert found.dtype == np.float64
    assert (np.diff(found.indices) > 0).sum() >= found.nnz - found.shape[0]  # none twice
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("complement", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_aggregates_along_links(complement, dtype, monkeypatch):
    rng = np.random.default_rng(2)
    M = random_graph(rng, 400).astype(dtype)
    P, _ = aggregate(M, 1.0 + rng.random(400))
    found = check(M, P, complement)
    monkeypatch.setattr(threads, "SMALL", 0)
    assert np.array_equal(aggregated(M, P, complement=complement).data, found.data)


@pytest.mark.parametrize("complement", [False, True])
@pytest.mark.parametrize("k", [1, 3, 50])
def test_aggregates_of_any_nodes(complement, k):
    """Nodes of none, aggregates without an edge, one aggregate of all."""
    rng = np.random.default_rng(k)
    M = sp.random_array((60, 60), density=0.1, format="csr", random_state=rng)
    M = sp.csr_matrix(M + M.T)
    group = rng.integers(-1 if k > 1 else 0, k, 60)
    held = np.flatnonzero(group >= 0)
    P = sp.csr_matrix((rng.random(held.size), (held, group[held])), shape=(60, k))
    check(M, P, complement)


@pytest.mark.thorough
@pytest.mark.parametrize("complement", [False, True])
def test_few_links_far_apart_and_many_near(complement):
    """Columns of a row are put in order by sorting, or by their bits."""
    rng = np.random.default_rng(5)
    M = sp.lil_matrix((2000, 2000))
    M[:200, 900:1100] = rng.random((200, 200))
    for i, j in ((3, 1999), (64, 1800), (640, 63), (1999, 0)):
        M[i, j] = rng.random()
    M = sp.csr_matrix(M + M.T)
    P = sp.csr_matrix((1.0 + rng.random(2000), (np.arange(2000), np.arange(2000))))
    check(M, P, complement)
