"""The order of Cuthill & McKee is scipy's, and every node comes once."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

import cases
from mustlink.graph import graph as structure
from mustlink.kernels.graph_walk import level_order


def graphs():
    rng = np.random.default_rng(0)
    yield "connected", cases.random_graph(rng, 300)
    yield "components and isolated nodes", cases.random_graph(rng, 200, 7, 5)
    yield "loops", sp.csr_matrix(cases.random_graph(rng, 100) + sp.eye(100))
    yield "a path", sp.diags([1.0, 1.0], [-1, 1], shape=(50, 50), format="csr")
    yield (
        "a star",
        sp.csr_matrix(sp.coo_matrix((np.ones(40), (np.zeros(40, int), range(1, 41))), (41, 41))),
    )
    yield "no edge", sp.csr_matrix((4, 4))


GRAPHS = {name: sp.csr_matrix(A + A.T) for name, A in graphs()}


@pytest.mark.parametrize("name", GRAPHS)
def test_equals_scipy(name, monkeypatch):
    A = GRAPHS[name]
    found = level_order(A.indptr, A.indices)[::-1]
    assert np.array_equal(np.sort(found), np.arange(A.shape[0]))

    assert np.array_equal(found, reverse_cuthill_mckee(A, symmetric_mode=True))
    few = structure.cuthill_mckee(A)
    monkeypatch.setattr(structure, "_FEW_ORDERED", 0)
    assert np.array_equal(structure.cuthill_mckee(A), few)
    assert few.dtype == np.int64
