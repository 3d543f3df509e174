"""NCut against dense eigenvectors, over components, isolated nodes and variants."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
import oracles
from cases import blobs, planted_graph, random_graph
from mustlink.core.observe import Recorder
from mustlink.errors import InputError

seeds = st.integers(0, 2**31)
SOLVERS = ("dense", "lobpcg", "chebyshev", "shift-invert")


def ncut(k, **options):
    return ml.NCut(n_clusters=k, affinity="precomputed", random_state=0, **options)


def textbook(W, k):
    """The k smallest eigenvalues of L̄ and the span of D^-½Z on nodes with an edge."""
    L, root, nodes = oracles.laplacian(W.toarray())
    values, Z = np.linalg.eigh(L)
    return values[:k], Z[:, :k] / root[:, None], nodes, root


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("components", "k"), [(1, 3), (3, 2), (3, 3), (3, 5)])
def test_embedding_spans_the_smoothest_vectors(components, k, solver):
    W = random_graph(np.random.default_rng(7), 140, components, isolated=2, density=0.08)
    est = ncut(k, solver=solver).fit(W)
    values, U, nodes, root = textbook(W, k)
    np.testing.assert_allclose(est.eigenvalues_, values, atol=1e-10)
    E = est.embedding_[nodes]
    assert est.embedding_.shape == (140, k)
    # UᵀDU = I (WHC11 eq. 7): orthonormality is as good as the eigenvectors.
    np.testing.assert_allclose(E.T @ (root[:, None] ** 2 * E), np.eye(k), atol=1e-8)
    if components <= k:
        # Davis-Kahan with residuals of 1e-8.
        assert oracles.angle(root[:, None] * U, root[:, None] * E) < 1e-5
    else:  # the k largest components decide alone
        sizes = [np.unique(row.round(12)).size for row in E.T]
        assert sizes == [2] * k
    alone = np.setdiff1d(np.arange(140), nodes)
    assert (est.labels_[alone] == -1).all()
    assert (est.labels_[nodes] >= 0).all()
    assert not est.embedding_[alone].any()
    assert est.report_.convergence.converged.all()
    assert any("2 nodes have no edge" in note for note in est.report_.notes)


@given(seeds, st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_residuals_and_orthonormality(seed, components):
    rng = np.random.default_rng(seed)
    W = random_graph(rng, int(rng.integers(20, 60)), components)
    k = int(rng.integers(2, 6))
    est = ncut(k).fit(W)
    L, root, _ = oracles.laplacian(W.toarray())
    Z = root[:, None] * est.embedding_
    np.testing.assert_allclose(Z.T @ Z, np.eye(k), atol=1e-11)
    np.testing.assert_allclose(L @ Z, Z * est.eigenvalues_, atol=1e-11)
    assert (np.diff(est.eigenvalues_) >= -1e-12).all()


def test_isolated_nodes_are_dropped_or_assigned():
    W = random_graph(np.random.default_rng(3), 40, 2, isolated=3)
    alone = np.asarray(W.sum(axis=1)).ravel() == 0
    dropped = ncut(2).fit(W).labels_
    assert (dropped[alone] == -1).all()
    kept = ncut(2, isolated="assign").fit(W).labels_
    assert np.array_equal(kept[~alone], dropped[~alone])
    assert (kept[alone] == np.bincount(dropped[~alone]).argmax()).all()


@pytest.mark.parametrize("variant", ["luxburg", "ng", "shi-malik"])
def test_variants_find_planted_clusters(variant):
    W, y = planted_graph(np.random.default_rng(0), 120, 2)
    est = ncut(2, variant=variant).fit(W)
    assert adjusted_rand_score(est.labels_, y) == 1.0
    if variant == "ng":
        np.testing.assert_allclose(np.linalg.norm(est.embedding_, axis=1), 1.0)


def test_shi_malik_takes_the_best_of_all_thresholds():
    W = random_graph(np.random.default_rng(8), 60)
    est = ncut(2, variant="shi-malik").fit(W)
    dense = W.toarray()
    best = oracles.best_split(dense, est.embedding_[:, 1])
    assert oracles.mncut_dense(dense, est.labels_) == pytest.approx(best)
    with pytest.raises(InputError, match="makes 2 clusters, not 3"):
        ncut(3, variant="shi-malik").fit(W)


@pytest.mark.parametrize("affinity", ["knn", "rbf"])
def test_points_become_a_graph(affinity):
    X, y = blobs(np.random.default_rng(2), 150, 3, separation=12.0)
    est = ml.NCut(n_clusters=3, affinity=affinity, random_state=0).fit(X)
    assert adjusted_rand_score(est.labels_, y) == 1.0
    assert np.array_equal(est.fit_predict(X), est.labels_)


def test_report_and_observer():
    W, _ = planted_graph(np.random.default_rng(5), 60, 2)
    known = ml.Constraints.from_pairs([[0, 1]], n_nodes=60)
    recorder = Recorder()
    est = ncut(2).fit(W, constraints=known, observer=recorder)
    assert [s.name for s in recorder.stages][-1] == "clusters"
    assert est.report_.satisfaction["n_must"] == 1
    assert est.report_.to_dict()["choices"]["solver"] == "dense"
