"""New points and nodes: joined to the graph as a search would, and clustered as by a new fit."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
from cases import planted_graph
from mustlink.constraints.constraints import among
from mustlink.context.stage_cache import Workspace
from mustlink.eigen import memory_work
from mustlink.eigen.memory_work import extend_vectors, laplacian_of, smallest_pairs, smoothest
from mustlink.eigen.plain_solve import PairsKey
from mustlink.errors import InputError
from mustlink.neighbors import new_points as joining
from mustlink.neighbors.new_points import joined_points


def blobs(n, seed=0, d=3, k=3):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % k
    return (rng.normal(size=(n, d)) + 5 * np.eye(k, d)[truth]).astype(np.float32), truth


def slow_join(X, n, k, W, weights="local"):
    """W of n points with the others joined, by comparing all."""
    N = len(X)
    D = np.sqrt(((X[:, None].astype(float) - X[None]) ** 2).sum(-1))
    np.fill_diagonal(D, np.inf)
    s, reach = np.zeros(N), np.zeros(N)
    A = np.zeros((N, N))
    for i in range(n):
        near = np.sort(D[i, W[[i]].indices])
        s[i], reach[i] = near[6], near[k - 1]
    lists = {}
    for q in range(n, N):
        first = np.argmin(D[q, :n])
        rest = [j for j in np.argsort(D[q], kind="stable") if j != first][: k - 1]
        lists[q] = np.array([first, *rest])
        s[q] = np.sort(D[q, lists[q]])[6]
    for q, near in lists.items():
        for j in near:
            value = max(np.exp(-(D[q, j] ** 2) / (s[q] * s[j])), 1e-8) if weights == "local" else 1
            A[q, j] = value
            if j < n and D[q, j] < reach[j]:
                A[j, q] = value
    whole = np.zeros((N, N))
    whole[:n, :n] = W.toarray()
    return whole + (A + A.T) / 2


@pytest.mark.parametrize("weights", ["local", "connectivity"])
def test_a_joined_graph_is_that_of_its_slow_twin(weights):
    X, _ = blobs(120)
    graph = ml.knn_graph(X[:90], 10, weights=weights, random_state=0)
    found = joined_points(graph, X[:90], X[90:])
    wanted = slow_join(X, 90, 10, graph.affinity, weights)
    np.testing.assert_allclose(found.affinity.toarray(), wanted, atol=1e-5)  # single precision
    assert found.rows is None
    assert found.weights is None
    assert found.info["added"] == 30


def test_units_of_points_do_not_count():
    X, _ = blobs(120)
    graph = ml.knn_graph(X[:90], 10, random_state=0)
    tiny = ml.knn_graph(X[:90] * 2.0**-70, 10, random_state=0)
    found = joined_points(graph, X[:90], X[90:]).affinity
    same = joined_points(tiny, X[:90] * 2.0**-70, X[90:] * 2.0**-70).affinity
    assert abs(found - same).max() == 0


@pytest.mark.thorough
def test_walks_find_most_of_the_nearest(monkeypatch):
    X, _ = blobs(3300, d=6)
    graph = ml.knn_graph(X[:3000], 15, random_state=0)
    exact = joined_points(graph, X[:3000], X[3000:]).affinity
    monkeypatch.setattr(joining, "_ALL", 0)
    found = joined_points(graph, X[:3000], X[3000:]).affinity
    shared = exact[3000:].astype(bool).multiply(found[3000:].astype(bool)).nnz
    assert shared >= 0.9 * exact[3000:].nnz
    assert abs(found - found.T).max() == 0
    for threads in (1, 4):
        est = ml.NCut(3, random_state=0, n_jobs=threads).fit(X[:3000])
        assert abs(est.add(X[3000:]).graph_.affinity - found).max() == 0


def test_equal_rows_are_counted():
    X, _ = blobs(60)
    twice = np.vstack([X, X[:10]])
    graph = ml.knn_graph(twice, 8, duplicates="merge", random_state=0)
    new = np.vstack([X[3:6], X[:2] + 1, X[:1] + 1])
    found = joined_points(graph, twice, new)
    assert found.n_nodes == 62
    assert found.n_rows == 76
    assert list(found.rows[70:]) == [3, 4, 5, 60, 61, 60]
    assert list(found.weights[[3, 4, 11, 60, 61]]) == [3, 3, 1, 2, 1]
    old, now = graph.affinity.toarray(), found.affinity.toarray()[:60, :60]
    ratio = found.weights[:60] / graph.weights
    np.testing.assert_allclose(now, old * ratio[:, None] * ratio, rtol=1e-12)
    plain = ml.knn_graph(X, 8, random_state=0)
    same = joined_points(plain, X, X[:5])  # nothing but copies
    assert same.n_nodes == 60
    assert same.weights.sum() == 65


def pairs_of(graph):
    found = next(pairs for _, pairs in graph.derived.of(PairsKey))
    return found.values, found.vectors


@pytest.mark.thorough
def test_vectors_of_a_grown_graph_are_its_own(monkeypatch):
    monkeypatch.setattr(memory_work, "FEWEST", 0)
    X, _ = blobs(2200, d=5, k=5)
    before = ml.knn_graph(X[:2000], random_state=0)
    old = Workspace(before)
    smallest_pairs(old, 4, solver="lobpcg")
    smoothest(old, 12, solver="lobpcg")
    graph = joined_points(before, X[:2000], X[2000:])
    work = Workspace(graph)
    extend_vectors(before, work)
    laplacian = laplacian_of(work)
    found = next(pairs for _, pairs in graph.derived.of(PairsKey))
    sharp = smallest_pairs(Workspace(ml.Graph(graph.affinity)), 4, solver="lobpcg")
    R = laplacian.apply(found.vectors) - found.vectors * found.values
    np.testing.assert_allclose(np.linalg.norm(R, axis=0), found.convergence.residuals, atol=1e-10)
    assert (found.convergence.residuals <= 1e-2).all()
    np.testing.assert_allclose(found.values, sharp.values, atol=1e-3)  # residual squared over gap
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(4), atol=1e-9)
    lent = memory_work._nystrom(laplacian_of(old), *pairs_of(before), laplacian)
    S, new = laplacian.S.toarray(), laplacian.positions[2000:]
    for i, value in enumerate(pairs_of(before)[0]):  # L̄v = λv in the rows of new nodes, twice over
        v = np.zeros(2200)
        held = laplacian_of(old)
        ratio = laplacian.root_degree[laplacian.positions[held.nodes]] / held.root_degree
        v[laplacian.positions[held.nodes]] = pairs_of(before)[1][:, i] * ratio
        for _ in range(2):
            v[new] = S[new] @ v / (1 - value)
        np.testing.assert_allclose(lent[:, i], v, atol=1e-6)
    basis = smoothest(work, 12, solver="lobpcg")
    assert not [s.name for s in work.recorder.stages if s.name == "eigenvectors"]
    assert (basis.residuals <= 1e-2).all()
    np.testing.assert_allclose(basis.vectors.T @ basis.vectors, np.eye(13), atol=1e-6)


def known(truth, seed, share=0.2):
    return np.where(np.random.default_rng(seed).random(truth.size) < share, truth, -1)


CLUSTERERS = ["NCut", "CSP", "SSSC", "FastGE", "ConstrainedAP", "SpectralLearning", "SRCP", "E2CP",
              "SSKK"]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("name", CLUSTERERS)
def test_new_points_are_clustered_as_by_a_new_fit(name):
    X, truth = blobs(330)
    y = known(truth, 0)
    est, told = getattr(ml, name)(3, random_state=0), {"y": y[300:]}
    est.fit(X[:300], y[:300])
    before = est.labels_.copy()
    est.name_clusters({1: "one"})
    if name == "NCut":
        told = {}
    assert est.add(X[300:], **told) is est
    assert est.labels_.shape == (330,)
    assert est.embedding_.shape[0] == 330
    assert np.mean(est.labels_[:300] == before) > 0.95
    assert est.cluster_names_ == {1: "one"}
    fresh = getattr(ml, name)(3, random_state=0).fit(X, y)
    assert adjusted_rand_score(fresh.labels_, est.labels_) > 0.95
    if name != "NCut":
        assert np.array_equal(est.constraints_.labels, y)
    assert np.array_equal(est.predict(X[300:]), est.labels_[300:])
    again = est.add(blobs(33, seed=7)[0]).labels_
    assert again.shape == (363,)
    assert est.membership_.shape[0] == 363


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("method", [ml.Poisson, ml.LLGC, ml.GFHF, ml.LNP])
def test_propagators_answer_new_points(method, names):
    X, truth = blobs(220)
    y = known(truth, 0)
    if names:
        y = np.array(["a", "b", "c", ""], dtype=object)[y]
    est = method(random_state=0).fit(X[:200], y[:200])
    est.add(X[200:], y=y[200:])
    assert np.array_equal(est.given_labels_, y)
    fresh = method(random_state=0).fit(X, y)
    assert np.mean(est.labels_ == fresh.labels_) > 0.97
    est.add(X[:2] + 9)
    assert est.labels_.shape == (222,)
    assert list(est.given_labels_[-2:]) == (["", ""] if names else [-1, -1])


def test_nodes_of_a_network():
    W, y = planted_graph(np.random.default_rng(0), 330, 3)
    labels = known(y, 0)
    old = W[:300][:, :300].tocsr()
    est = ml.CSP(3, affinity="precomputed", random_state=0).fit(old, labels[:300])
    before = est.labels_.copy()
    est.add(W[300:], y=labels[300:])
    assert (est.graph_.affinity != W).nnz == 0
    assert np.mean(est.labels_[:300] == before) > 0.95
    fresh = ml.CSP(3, affinity="precomputed", random_state=0).fit(W, labels)
    assert adjusted_rand_score(fresh.labels_, est.labels_) > 0.95
    weighed = ml.NCut(3, affinity="precomputed", random_state=0)
    weighed.fit(old, sample_weight=np.arange(300) % 3 + 1.0).add(W[300:])
    c = np.append(np.arange(300) % 3 + 1.0, np.ones(30))
    wanted = W.toarray() * c[:, None] * c
    np.testing.assert_allclose(weighed.graph_.affinity.toarray(), wanted, rtol=1e-12)


def test_what_cannot_be_added_changes_nothing():
    X, truth = blobs(120)
    est = ml.CSP(3, random_state=0).fit(X, known(truth, 0))
    kept = dict(vars(est))
    for wrong, words in (
        ({"X": X[:2, :2]}, "features"),
        ({"X": X[:2] * np.nan}, "NaN"),
        ({"X": X[:2], "y": [1]}, "shape"),
        ({"X": X[:2], "constraints": ml.Constraints.none(5)}, "nodes"),
    ):
        with pytest.raises(ValueError, match=words):
            est.add(**wrong)
        assert vars(est).keys() == kept.keys()
        assert all(vars(est)[name] is value for name, value in kept.items())
    W, y = planted_graph(np.random.default_rng(0), 90, 3)
    net = ml.NCut(3, affinity="precomputed", random_state=0).fit(W)
    one = sp.csr_matrix((1, 91))
    with pytest.raises(InputError, match="has no edge"):
        net.add(one)
    with pytest.raises(InputError, match=r"give a row of edges for each new node, \(1, 91\)"):
        net.add(W[:1])
    lop = sp.csr_matrix(([1.0, 1.0, 1.0], ([0, 0, 1], [0, 91, 0])), shape=(2, 92))
    with pytest.raises(InputError, match="not symmetric"):
        net.add(lop)
    rbf = ml.NCut(3, affinity="rbf", random_state=0).fit(X)
    with pytest.raises(InputError, match="cannot be joined to a graph of kind"):
        rbf.add(X[:1])
    directed = ml.DISIM(3, random_state=0).fit(W)
    with pytest.raises(AttributeError):
        directed.add(W[:1])
    assert y.size == 90


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("all_pairs", [2e8, 0.0])
@pytest.mark.parametrize("name", ["CSP", "Poisson"])
def test_a_copy_of_a_row_that_counts_nothing_is_a_point_of_its_own(name, all_pairs, monkeypatch):
    monkeypatch.setattr(joining, "_ALL", all_pairs)
    X, truth = blobs(200, k=2)
    y, counts = np.where(np.arange(200) < 20, truth, -1), np.ones(200)
    counts[[50, 61]] = 0
    known = {"n_clusters": 2} if name == "CSP" else {}
    est = getattr(ml, name)(**known, random_state=0).fit(X, y, sample_weight=counts)
    wanted = est.predict(X[[50, 61, 70]])
    est.add(X[[50, 61, 70]])
    assert np.array_equal(est.labels_[-3:], wanted)
    assert np.array_equal(est.labels_[[50, 61]], [-1, -1])


def test_the_same_said_of_other_nodes():
    labels = np.array([0, -1, 1, 1])
    known = ml.Constraints.from_labels(labels) + ml.Constraints.from_pairs(
        [[0, 1], [1, 3]], [0.5, -2.0], n_nodes=4
    )
    known = known + ml.Constraints.from_matrix(
        np.diag([1.0, 0.0, -0.5], 1) + np.diag([1.0, 0, -0.5], -1)
    )
    nodes = np.array([6, 1, 3, 2])
    found = among(known, nodes, 8)
    expected = np.zeros((8, 8))
    expected[np.ix_(nodes, nodes)] = known.to_dense()
    np.testing.assert_array_equal(found.to_dense(), expected)
    closed = among(known.closure(), nodes, 8)
    expected[np.ix_(nodes, nodes)] = known.closure().to_dense()
    np.testing.assert_array_equal(closed.to_dense(), expected)
