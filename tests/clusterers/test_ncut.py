"""NCut against dense eigenvectors, over components, isolated nodes and variants."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
import oracles
from cases import blobs, planted_graph, random_graph
from mustlink.core.observe import Recorder
from mustlink.discretize.cuts import information
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


@pytest.mark.parametrize("variant", ["auto", "luxburg", "ng", "heat", "shi-malik"])
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


# --- the least that any cut can have


def every_partition(n, k):
    """Labels (p, n) of all partitions into k clusters at most, node 0 in the first."""
    codes = np.arange(k ** (n - 1))
    return np.column_stack([0 * codes, *(codes // k**at % k for at in range(n - 1))])


def least_of_all(W, k, tau=0.0, copies=None):
    """The least Σ cut/volume over partitions into k clusters of nodes with an edge, by definition.

    A node that stands for several is in one cluster with its copies.
    """
    copies = np.ones(len(W)) if copies is None else copies
    linked = (W.sum(axis=1) > 0) & (copies > 0)
    W, copies = (copies[:, None] * W * copies)[linked][:, linked], copies[linked]
    labels = every_partition(len(W), k)
    ground = tau * W.sum() / copies.sum() * copies
    total, filled = 0.0, True
    for c in range(k):
        own = (labels == c).astype(float)
        volume = own @ (W.sum(axis=1) + ground)
        filled = filled & (volume > 0)
        total = total + 1 - np.einsum("pi,pi->p", own @ W, own) / np.where(volume > 0, volume, 1)
    return max(0.0, total[filled].min())


@pytest.mark.thorough(but=12)
@pytest.mark.parametrize("seed", range(100))
def test_no_cut_is_below_the_bound(seed):
    """With components, isolated nodes, weights of rows, regularised degrees."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 5))
    n = int(rng.integers(k + 3, {2: 13, 3: 12, 4: 10}[k]))
    isolated = int(rng.integers(2))
    parts = min(int(rng.integers(1, 4)), (n - isolated) // 2)
    W = random_graph(rng, n, parts, isolated=isolated, density=rng.uniform(0.1, 0.7)).toarray()
    tau = float(rng.choice([0.0, 0.0, 0.1, 1.0]))
    weight = rng.integers(1, 4, n).astype(float) if seed % 3 == 0 else None
    est = ncut(k, regularization=tau).fit(sp.csr_matrix(W), sample_weight=weight)
    told = est.report_.extra["ncut"]
    best = least_of_all(W, k, tau, weight)
    assert told["clusters"] == k
    assert told["added"] == tau
    assert 0 <= told["least"] <= best
    assert told["found"] >= best - 1e-12
    np.testing.assert_allclose(max(est.eigenvalues_.sum(), 0), told["least"], atol=1e-8)
    if not tau and weight is None:
        assert told["found"] == pytest.approx(oracles.mncut_dense(W, est.labels_))


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-4])
def test_the_bound_gives_way_by_the_residuals(tol):
    """Blunt vectors have a lower bound, never one above the true sum of eigenvalues."""
    W = random_graph(np.random.default_rng(4), 300, density=0.03)
    values, *_ = textbook(W, 4)
    est = ncut(4, solver="lobpcg", tol=tol, regularization=0).fit(W)
    told, reached = est.report_.extra["ncut"], est.report_.convergence.residuals
    assert told["least"] <= values.sum()
    expected = est.eigenvalues_.sum() - reached.sum()
    np.testing.assert_allclose(told["least"], max(0, expected), atol=1e-12)


def test_vectors_that_did_not_converge_bound_nothing():
    W = random_graph(np.random.default_rng(4), 300, density=0.03)
    est = ncut(4, solver="lobpcg", tol=1e-9, max_iter=1, regularization=0).fit(W)
    assert est.report_.extra["ncut"]["least"] is None
    assert "none into" not in repr(est.report_)


def test_a_report_tells_the_cut_and_the_least():
    W, _ = planted_graph(np.random.default_rng(5), 60, 2)
    lines = repr(ncut(2).fit(W).report_)
    told = ncut(2).fit(W).report_.extra["ncut"]
    assert f"normalised cut    {told['found']:.4g}; none into 2 clusters is below" in lines
    apart = ncut(2).fit(sp.block_diag([np.ones((5, 5)), np.ones((5, 5))]).tocsr())
    assert "none into" not in repr(apart.report_)  # that no cut is below 0 is no news


# --- how vectors become clusters, by evidence


def overlapping(seed=0, far=17):
    """Two blobs that overlap, and a clump of few points far away; the blobs are 0 and 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600 + far, 3))
    X[:300, 0] += 4.5
    X[600:] = 30 + 0.1 * X[600:]
    return X, np.repeat([0, 1, 2], [300, 300, far])


def test_heat_is_its_definition():
    """Rows of exp(−L̄/λ_{K+1})Z at length 1, of K + max(3, K/5) vectors, and k-means on them."""
    W, _ = planted_graph(np.random.default_rng(1), 150, 4, inside=0.3, across=0.05)
    est = ncut(4, variant="heat").fit(W)
    L, root, nodes = oracles.laplacian(W.toarray())
    values, Z = np.linalg.eigh(L)
    rows = Z[:, :7] * np.exp(-values[:7] / values[4])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    textbook_labels = KMeans(4, n_init=10, random_state=0).fit_predict(rows)
    assert adjusted_rand_score(est.labels_[nodes], textbook_labels) == 1.0
    np.testing.assert_allclose(est.eigenvalues_, values[:4], atol=1e-10)
    assert oracles.angle(Z[:, :4], root[:, None] * est.embedding_[nodes]) < 1e-5
    assert est.report_.extra["next_eigenvalue"] == pytest.approx(values[4])


def test_auto_is_the_way_that_tells_most():
    W, _ = planted_graph(np.random.default_rng(3), 200, 5, inside=0.2, across=0.05)
    est = ncut(5, regularization=0).fit(W)
    (taken, why), tried = est.report_.choices["variant"], est.report_.extra["variants_tried"]
    assert list(tried) == ["heat", "luxburg", "ng"]
    for way, nats in tried.items():
        alone = ncut(5, variant=way, regularization=0).fit(W)
        if way == taken:
            np.testing.assert_array_equal(alone.labels_, est.labels_)
            assert est.report_.method == alone.report_.method == f"NCut ({way})"
        H = np.eye(5)[alone.labels_]
        edges = np.mean([information(H.T @ part @ H) for part in (W, W != 0)])
        assert nats == pytest.approx(edges)
        assert f"{nats:.3f} by {way}" in why
    best = max(tried, key=tried.get)
    assert taken == (best if tried[best] > 1.01 * tried["heat"] else "heat")


@pytest.mark.parametrize("seed", range(3))
def test_points_are_not_cut_into_crumbs(seed):
    X, y = overlapping(seed)
    blobs_alone = y < 2
    form = ml.NCut(2, variant="luxburg", regularization=0, random_state=0).fit(X)
    assert np.bincount(form.labels_).min() < 20
    est = ml.NCut(2, random_state=0).fit(X)
    assert adjusted_rand_score(y[blobs_alone], est.labels_[blobs_alone]) > 0.85


def test_heat_of_more_components_than_clusters_is_their_vectors():
    W = random_graph(np.random.default_rng(7), 200, 12, density=0.2)
    for k in (2, 3, 11):
        found, other = (ncut(k, variant=way, regularization=0).fit(W) for way in ("heat", "ng"))
        np.testing.assert_array_equal(found.labels_, other.labels_)


def test_what_leaves_no_choice():
    parts = random_graph(np.random.default_rng(7), 140, 3, density=0.08)
    whole, _ = planted_graph(np.random.default_rng(1), 150, 3)
    y = np.arange(150) % 3
    for est in (
        ncut(2).fit(parts),
        ncut(1).fit(whole),
        ncut(3, regularization=0.3).fit(whole),
        ncut(3, variant="ng").fit(whole),
        ncut(3, init="labels").fit(whole, y),
    ):
        assert "variant" not in est.report_.choices
        assert est.report_.extra["variants_tried"] == {}
    again = ncut(3, init="labels", variant="luxburg").fit(whole, y)
    np.testing.assert_array_equal(again.labels_, est.labels_)


def test_a_refit_chooses_again():
    W, _ = planted_graph(np.random.default_rng(3), 200, 5, inside=0.2, across=0.05)
    est = ncut(5).fit(W)
    other = ncut(4).fit(W)
    est.set_params(n_clusters=4).refit()
    assert adjusted_rand_score(est.labels_, other.labels_) == 1.0
    assert est.report_.choices["variant"][0] == other.report_.choices["variant"][0]


@pytest.mark.parametrize("variant", ["luxburg", "heat"])
def test_pairs_apart_have_no_direction_by_chance(variant):
    W, _ = planted_graph(np.random.default_rng(5), 1500, 3, 0.03, 0.002)
    pairs = sp.block_diag([np.array([[0.0, 1.0], [1.0, 0.0]])] * 4)
    W = sp.csr_matrix(sp.block_diag([W, pairs]))
    for tol in (1e-2, 1e-4, 1e-9):
        how = {"regularization": 0.3, "variant": variant, "tol": tol, "solver": "chebyshev"}
        found = ncut(3, **how).fit(W)
        assert np.unique(found.labels_[-8:]).size == 1  # where they are is not in three vectors
        lengths = np.linalg.norm(found.embedding_, axis=1)
        assert np.allclose(lengths[:-8], 1)
        assert (lengths[-8:] == 0).all()
