"""Degrees of networks: what is added to them, by evidence; the cuts that come of it."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
import oracles
from cases import blobs, planted_graph, random_graph
from mustlink.discretize.cuts import ClusterSums, information, mncut
from mustlink.errors import InputError
from mustlink.selection.regularization import _ALIKE


def hung(rng, n=1500, k=3, trees=0.4):
    """A sparse planted graph with unlike degrees, and trees that hang on it: (W, y)."""
    y = np.arange(n) % k
    pull = rng.pareto(2.0, n) + 1
    m = 4 * n
    i = rng.choice(n, m, p=pull / pull.sum())
    j = np.empty(m, dtype=int)
    for r in range(k):
        own = np.flatnonzero(y == r)
        inside = y[i] == r
        j[inside] = rng.choice(own, inside.sum(), p=pull[own] / pull[own].sum())
    away = rng.random(m) < 0.15
    j[away] = rng.choice(n, away.sum(), p=pull / pull.sum())
    leaves = int(trees * n)
    on = np.concatenate([rng.integers(0, n, leaves // 2), n + np.arange(leaves - leaves // 2)])
    rows, cols = np.concatenate([i, n + np.arange(leaves)]), np.concatenate([j, on])
    A = sp.coo_matrix((np.ones(rows.size), (rows, cols)), shape=(n + leaves, n + leaves)).tocsr()
    W = ((A + A.T) > 0).astype(float)
    W.setdiag(0)
    W.eliminate_zeros()
    y = np.concatenate([y, np.zeros(leaves, dtype=int)])
    for leaf in range(leaves):
        y[n + leaf] = y[on[leaf]]
    return sp.csr_matrix(W), y


def gaussian(seed, width, n=2310, k=7):
    """Clusters of unlike density with weights exp(−d²/2s²) of ten neighbours, s far too small."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    X = 3 * rng.standard_normal((k, 4))[y]
    X += rng.standard_normal((n, 4)) * rng.gamma(1.5, 0.6, (n, 1))
    near, index = cKDTree(X).query(X, 11)
    weights = np.exp(-(near[:, 1:] ** 2) / (2 * (width * np.median(near[:, 1:])) ** 2))
    rows = np.repeat(np.arange(n), 10)
    W = sp.csr_matrix((weights.ravel(), (rows, index[:, 1:].ravel())), shape=(n, n))
    return sp.csr_matrix(W.maximum(W.T)), y


def edge_information(W, labels):
    H = sp.csr_matrix((np.ones(labels.size), labels, np.arange(labels.size + 1)))
    return information(H.T @ (W @ H))


def ncut(k, **options):
    return ml.NCut(k, affinity="precomputed", random_state=0, **options)


def papers(k):
    return ncut(k, regularization=0, variant="luxburg")


@pytest.mark.parametrize("seed", range(20))
def test_edge_information_against_loops(seed):
    rng = np.random.default_rng(seed)
    W = random_graph(rng, 30, int(rng.integers(1, 4)), isolated=2)
    labels = rng.integers(0, 5, 30)
    found = edge_information(W, labels)
    assert found == pytest.approx(oracles.edge_information(W.toarray(), labels), abs=1e-12)
    assert edge_information(1e-200 * W, labels) == pytest.approx(found, rel=1e-9)
    assert edge_information(W, np.zeros(30, dtype=int)) == 0.0


def test_trees_make_a_giant_that_regularised_degrees_mend():
    W, y = hung(np.random.default_rng(2))
    plain, auto = ncut(3, regularization=0).fit(W), ncut(3).fit(W)
    assert np.unique(plain.labels_, return_counts=True)[1].max() > 0.9 * y.size
    tau, reason = auto.report_.choices["regularization"]
    assert tau > 0
    assert "nats" in reason
    assert any(reason in note for note in auto.report_.notes)
    truth = y[:1500]
    assert adjusted_rand_score(truth, auto.labels_[:1500]) > 0.7
    table = auto.report_.extra["regularizations_tried"]
    assert [row["tau"] for row in table] == [1.0, 0.3, 0.1, 0.0]
    told = {row["tau"]: row["information"] for row in table}
    alike = [one for one in told if one and _ALIKE * told[one] >= max(told.values())]
    assert tau == min(alike)  # that tell as much as the best
    assert told[tau] > 2 * told[0.0]
    same = ncut(3, regularization=tau).fit(W)
    assert (same.labels_ == auto.labels_).all()
    _, part = connected_components(W)
    length = np.linalg.norm(auto.embedding_, axis=1)
    large = np.bincount(part)[part] > 1000  # on a handful of nodes apart the vectors are 0
    np.testing.assert_allclose(length[large], 1.0)
    assert ((length[~large] == 0) | (np.abs(length[~large] - 1) < 1e-9)).all()
    assert (length[~large] == 0).any()


def test_eigenvalues_are_those_of_the_regularised_laplacian():
    W = hung(np.random.default_rng(2), n=300)[0]
    est = ncut(4, regularization=0.3).fit(W)
    L, _, nodes = oracles.regularized_laplacian(W.toarray(), 0.3)
    values, Z = np.linalg.eigh(L)
    np.testing.assert_allclose(est.eigenvalues_, values[:4], atol=1e-9)
    rows = Z[:, :4] * (1 - values[:4])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    E = est.embedding_[nodes]
    np.testing.assert_allclose(E @ E.T, rows @ rows.T, atol=1e-7)


def test_even_graphs_and_graphs_of_points_stay_as_they_are():
    rng = np.random.default_rng(3)
    ring = sp.diags([1.0, 1.0, 1.0, 1.0], [-2, -1, 1, 2], shape=(200, 200)).tocsr()
    X = blobs(rng, 200, 3)[0]
    for est in (ncut(3).fit(ring), ml.NCut(3, random_state=0).fit(X)):
        assert est.report_.choices["regularization"][0] == 0
        assert est.report_.extra["regularizations_tried"] == []
    plain = ml.NCut(3, random_state=0, regularization=0).fit(X)
    assert (plain.labels_ == ml.NCut(3, random_state=0).fit(X).labels_).all()


def test_even_degrees_with_a_giant_and_crumbs_are_looked_at():
    """Two random rings make 600 nodes of 4 edges; rings of 10 nodes hang on them by one edge."""
    rng, n = np.random.default_rng(8), 600
    A = sp.lil_matrix((n + 30, n + 30))
    for order in (rng.permutation(n), rng.permutation(n)):
        A[order, np.roll(order, 1)] = 1.0
    for first in range(n, n + 30, 10):
        own = np.arange(first, first + 10)
        for step in (1, 2):
            A[own, np.roll(own, step)] = 1.0
        A[first, first - n] = 1.0
    W = sp.csr_matrix(((A + A.T) > 0).astype(float))
    plain, auto = papers(4).fit(W), ncut(4, variant="luxburg").fit(W)
    assert np.bincount(plain.labels_).max() == n
    assert len(auto.report_.extra["regularizations_tried"]) == 4


def outlying(seed, n=2100, k=7, crumbs=5):
    """As `gaussian`: clusters, and three nodes each in a few places far from all."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    X = 4 * np.eye(k)[y] + rng.standard_normal((n, k))
    off = np.repeat(22 * np.eye(k)[:crumbs], 3, axis=0)
    X = np.concatenate([X, off + 0.3 * rng.standard_normal(off.shape)])
    near, index = cKDTree(X).query(X, 11)
    weights = np.exp(-(near[:, 1:] ** 2) / (2 * np.median(near[:, 1:]) ** 2))
    rows = np.repeat(np.arange(len(X)), 10)
    W = sp.csr_matrix((weights.ravel(), (rows, index[:, 1:].ravel())), shape=(len(X), len(X)))
    return sp.csr_matrix(W.maximum(W.T)), y


@pytest.mark.parametrize("seed", [1, 3])
def test_weights_of_many_powers_of_ten_are_looked_at(seed):
    """Nodes have about as many edges, some next to no weight: a giant below 90 % and crumbs."""
    W, y = outlying(seed)
    assert W.data.min() < 1e-18
    plain, auto = papers(7).fit(W), ncut(7, variant="luxburg").fit(W)
    sizes = np.sort(np.bincount(plain.labels_, minlength=7))
    assert sizes[:5].tolist() == [3] * 5
    assert 0.5 < sizes[-1] / sizes.sum() < 0.9
    assert auto.report_.choices["regularization"][0] > 0
    assert adjusted_rand_score(y, auto.labels_[: y.size]) > 0.9
    assert adjusted_rand_score(y, plain.labels_[: y.size]) < 0.25


def test_weights_of_many_powers_of_ten_are_left_alone_where_that_tells_most():
    W, y = gaussian(3, 0.35)
    auto = ncut(7).fit(W)
    assert auto.report_.choices["regularization"][0] == 0
    assert adjusted_rand_score(y, auto.labels_) > 0.7
    table = {row["tau"]: row["information"] for row in auto.report_.extra["regularizations_tried"]}
    assert table.keys() == {1.0, 0.3, 0.1, 0.0}


def test_edges_tell_by_weight_and_counted_alike():
    """Of equal weights the two are one; counted alike, a graph of all pairs tells nothing."""
    rng = np.random.default_rng(0)
    W, y = hung(rng, n=300)
    sums = ClusterSums(*ml.Graph(W).cluster_weights(y, 3), np.bincount(y))
    H = np.eye(3)[y]
    np.testing.assert_allclose(sums.weights, H.T @ W @ H)
    assert sums.nats == pytest.approx(edge_information(W, y))
    assert sums.mncut == pytest.approx(mncut(W, y))
    A = sp.csr_matrix(np.where(y[:60, None] == y[:60], 1.0, 1e-3))
    whole = ClusterSums(*ml.Graph(A).cluster_weights(y[:60], 3), np.bincount(y[:60]))
    assert whole.nats == pytest.approx(edge_information(A, y[:60]) / 2)


def test_components_need_no_case_of_their_own():
    W = sp.block_diag([planted_graph(np.random.default_rng(s), 40, 1)[0] for s in range(3)])
    est = ncut(3, regularization=0.3).fit(sp.csr_matrix(W))
    assert adjusted_rand_score(np.repeat([0, 1, 2], 40), est.labels_) == 1.0


def test_weights_count_as_copies_do():
    rng = np.random.default_rng(4)
    W = hung(rng, n=200)[0]
    w = rng.integers(1, 4, W.shape[0])
    copies = np.repeat(np.arange(W.shape[0]), w)
    counted = ncut(3, regularization=0.3).fit(W, sample_weight=w)
    spread = ncut(3, regularization=0.3).fit(W[copies][:, copies])
    np.testing.assert_allclose(counted.eigenvalues_, spread.eigenvalues_, atol=1e-8)


def test_points_of_the_same_graph_decide_alike_for_any_threads():
    W = hung(np.random.default_rng(5))[0]
    one, two = ncut(3, n_jobs=1).fit(W), ncut(3, n_jobs=2).fit(W)
    assert (one.labels_ == two.labels_).all()


@pytest.mark.parametrize("value", ["much", -0.1, np.inf, np.nan, True, None])
def test_what_cannot_be_added(value):
    with pytest.raises(InputError, match="regularization"):
        ncut(2, regularization=value).fit(planted_graph(np.random.default_rng(0), 20, 2)[0])


def test_shi_malik_cuts_the_degrees_as_they_are():
    W = planted_graph(np.random.default_rng(0), 30, 2)[0]
    assert ncut(2, variant="shi-malik").fit(W).report_.choices["regularization"][0] == 0
    with pytest.raises(InputError, match="shi-malik"):
        ncut(2, variant="shi-malik", regularization=0.3).fit(W)
