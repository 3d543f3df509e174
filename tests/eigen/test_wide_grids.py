"""Which solver spans the smooth vectors: filters where coarse grids are no smaller."""

import numpy as np
import pytest
import scipy.sparse as sp

import oracles
from mustlink.context.stage_cache import Workspace
from mustlink.eigen.memory_work import GridsKey, grids_of, laplacian_of, smoothest
from mustlink.eigen.smooth_subspace import BASIS_TOL, BasisKey
from mustlink.graph import Graph
from mustlink.graph.image import image_graph
from mustlink.persistence.model import _derived_out, _restore_derived


def network(rng, n=2100, k=4):
    """A ring, and chords half of which stay within its k arcs: no node is far from another."""
    i = np.repeat(np.arange(n), 2)
    j = np.where(rng.random(i.size) < 0.5, i // (n // k) * (n // k), 0)
    j = np.where(j > 0, j + rng.integers(0, n // k, i.size), rng.integers(0, n, i.size))
    ring = np.arange(n)
    i, j = np.concatenate([i, ring]), np.concatenate([j, np.roll(ring, 1)])
    W = sp.coo_matrix((np.ones(i.size), (i, j)), (n, n)).tocsr()
    W.setdiag(0)
    W = W + W.T
    W.eliminate_zeros()
    return W


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["network", "picture"])
def test_filters_on_networks_and_grids_on_pictures(kind):
    rng = np.random.default_rng(0)
    graph = (
        Graph(network(rng)) if kind == "network" else image_graph(rng.random((45, 45)), n_similar=0)
    )
    work = Workspace(graph)
    assert grids_of(work).is_wide == (kind == "network")
    basis = smoothest(work, 3)
    solver = {key.solver for key, _ in graph.derived.of(BasisKey)}
    assert solver == {"chebyshev" if kind == "network" else "lobpcg"}
    values, L = basis.values, laplacian_of(work).to_dense()
    U = basis.vectors.astype(float)
    np.testing.assert_allclose(U.T @ U, np.eye(4), atol=1e-5)
    R = L @ U[:, 1:] - U[:, 1:] * values
    assert np.linalg.norm(R, axis=0).max() <= 1.1 * BASIS_TOL
    exact = np.linalg.eigvalsh(oracles.regularized_laplacian(graph.affinity.toarray(), 0.0)[0])
    assert (values >= exact[1:4] - 1e-6).all()  # Ritz values come from above, within a residual
    assert (values <= exact[1:4] + BASIS_TOL).all()


@pytest.mark.thorough
def test_the_solver_of_a_basis_from_a_file_is_known_without_grids():
    """As it was chosen: grids that nothing else asks for take a third of a second."""
    graph = Graph(network(np.random.default_rng(0)))
    basis = smoothest(Workspace(graph), 3)
    again = Graph(graph.affinity)
    _restore_derived(again, _derived_out(graph))
    found = smoothest(Workspace(again), 3)
    assert np.array_equal(found.whole, basis.whole)
    assert not list(again.derived.of(GridsKey))
