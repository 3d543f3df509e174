"""Sparse rows and other distances: lists as by scipy's distances, and what is refused."""

from __future__ import annotations

import itertools

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import haversine_distances

import mustlink as ml
from mustlink.core.metrics import METRICS
from mustlink.core.observe import Deadline, Recorder
from mustlink.errors import InputError
from mustlink.neighbors import distances
from mustlink.neighbors.knn import any_rows

N, K = 150, 8
RNG = np.random.default_rng(5)
DENSE = RNG.random((N, 5)).astype(np.float32)
WORDS = RNG.poisson(0.12, (N, 60)).astype(float)
WORDS[WORDS.sum(axis=1) == 0, 0] = 1
PLACES = np.column_stack([RNG.uniform(-90, 90, N), RNG.uniform(-180, 180, N)])


@numba.njit
def compiled(x, y):
    total = 0.0
    for i in range(x.size):
        total += abs(x[i] - y[i])
    return total


def of_python(x, y):
    return float(sum(abs(x - y)))  # numba knows no sum of an array


def shares(X):
    return np.sqrt(X / X.sum(axis=1, keepdims=True))


def hellinger(X):
    return np.sqrt(np.maximum(1 - shares(X) @ shares(X).T, 0))


def scipys(name, **how):
    return lambda X: cdist(X, X, name, **how)


def chords(name):
    return lambda X: np.sqrt(2 * np.maximum(cdist(X, X, name), 0))


TABLE = {
    "manhattan": scipys("cityblock"),
    "l1": scipys("cityblock"),
    "chebyshev": scipys("chebyshev"),
    "canberra": scipys("canberra"),
    "braycurtis": scipys("braycurtis"),
    "minkowski:3": scipys("minkowski", p=3),
    "hellinger": hellinger,
    "correlation": chords("correlation"),
    "cosine": chords("cosine"),
    compiled: scipys("cityblock"),
    of_python: scipys("cityblock"),
}


def graph_of(D, k=K):
    """The graph of all distances (n, n), by the other way in."""
    D = D.copy()
    np.fill_diagonal(D, np.inf)
    lists = np.argsort(D, axis=1, kind="stable")[:, :k]
    return ml.graph_from_neighbors(lists, np.take_along_axis(D, lists, 1)).affinity


@pytest.mark.parametrize("metric", TABLE, ids=lambda one: getattr(one, "__name__", one))
def test_dense_rows_as_scipy(metric):
    graph = ml.knn_graph(DENSE, K, metric=metric, connect=False)
    assert abs(graph.affinity - graph_of(TABLE[metric](DENSE.astype(float)))).max() < 1e-4
    assert graph.info["recall"] == 1


def test_places_are_in_km():
    D = 6371.0088 * haversine_distances(np.deg2rad(PLACES))
    graph = ml.knn_graph(PLACES, K, metric="haversine", weights="gaussian", connect=False)
    assert abs(graph.affinity - _gaussian(D, graph.info["sigma"])).max() < 1e-5
    one_town = [48.2, 16.3] + np.random.default_rng(1).normal(size=(N, 2)) * 1e-4
    near = ml.knn_graph(one_town, K, metric="haversine", connect=False)
    D = 6371.0088 * haversine_distances(np.deg2rad(one_town))
    assert abs(near.affinity - graph_of(D)).max() < 1e-3  # some metres: a millimetre is seen


def _gaussian(D, sigma):
    D = D.copy()
    np.fill_diagonal(D, np.inf)
    lists = np.argsort(D, axis=1)[:, :K]
    lengths = np.take_along_axis(D, lists, 1)
    return ml.graph_from_neighbors(lists, lengths, weights="gaussian", sigma=sigma).affinity


OF_SETS = {
    "euclidean": scipys("euclidean"),
    "cosine": chords("cosine"),
    "hellinger": hellinger,
    "jaccard": lambda X: cdist(X > 0, X > 0, "jaccard"),
}


@pytest.mark.parametrize("metric", OF_SETS)
@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csc_array, sp.coo_matrix, sp.lil_matrix])
def test_sparse_rows_as_scipy(metric, form):
    """Lengths are those of all pairs; of equal ones any may be listed, of none in common none."""
    X = any_rows(form(WORDS), metric)
    indices, lengths, info = X.lists(K, 0, Recorder(None), 10)
    D = OF_SETS[metric](WORDS)
    np.fill_diagonal(D, np.inf)
    expected = np.sort(D, axis=1)[:, :K]
    common = (WORDS @ WORDS.T) > 0
    np.fill_diagonal(common, False)
    if metric != "euclidean":
        few = common.sum(axis=1)[:, None] <= np.arange(K)
        expected = np.where(few, np.inf, expected)
    there = np.isfinite(expected)
    np.testing.assert_allclose(lengths[there], expected[there], atol=1e-3)
    assert (np.isfinite(lengths) == there).all()
    assert ((indices >= 0) == there).all()
    measured = D[np.arange(N)[:, None], indices]
    np.testing.assert_allclose(measured[there], lengths[there], atol=1e-3)
    assert info["recall"] == 1


def test_rare_columns_first(monkeypatch):
    """With little work allowed lists are measured by all columns, and their recall is told."""
    monkeypatch.setattr("mustlink.neighbors.sparse_points.MET", 4.0)
    monkeypatch.setattr("mustlink.neighbors.sparse_points.MORE", 8.0)
    X = any_rows(sp.csr_matrix(WORDS), "cosine")
    assert X.method(K) == "rare columns"
    indices, lengths, info = X.lists(K, 0, Recorder(None), N)
    D = chords("cosine")(WORDS)
    there = indices >= 0
    measured = D[np.arange(N)[:, None], np.maximum(indices, 0)]
    np.testing.assert_allclose(measured[there], lengths[there], atol=1e-3)
    assert 0.3 < info["recall"] < 1
    assert (indices != np.arange(N)[:, None]).all()


@pytest.mark.parametrize("ends_at", [2, 12])
def test_a_time_limit_of_sparse_rows(ends_at, monkeypatch):
    """From the limit on rows are searched by the rarest columns alone; recall says so."""
    monkeypatch.setattr("mustlink.neighbors.sparse_points.MET", 60.0)
    X = any_rows(sp.csr_matrix(WORDS), "cosine")
    monkeypatch.setattr(type(X), "method", lambda *_: "rare columns")
    usual = X.lists(K, 0, Recorder(None), N)[2]["recall"]
    clock = itertools.count()
    recorder = Recorder(None, Deadline(2.5 * ends_at, 0, lambda: next(clock)))
    found = X.lists(K, 0, recorder, N)[2]["recall"]
    assert 0 < found < usual
    assert "neighbours are searched less far than usual" in recorder.left_out


@pytest.mark.parametrize("metric", OF_SETS)
@pytest.mark.parametrize("share", [0.002, 0.02, 0.1])
def test_blocks_change_nothing(metric, share, monkeypatch):
    """Rows met by few products and by many, in blocks of 64 and of all; some meet none."""
    X = sp.random(500, 300, share, "lil", random_state=1)
    X[X.getnnz(1) == 0, 7] = 1
    X = X.tocsr()
    X.data -= 0.3 * (metric == "cosine")
    X = any_rows(X, metric)
    D = X.between(X)
    np.fill_diagonal(D, np.inf)
    if metric != "euclidean":
        D[(abs(X.matrix) @ abs(X.matrix).T).toarray() == 0] = np.inf
    found = []
    for block in (64, 1 << 15):
        monkeypatch.setattr("mustlink.kernels.sparse_lists.BLOCK", block)
        found.append(X.nearest(X, K, np.arange(500)))
    assert (found[0][0] == found[1][0]).all()
    assert (found[0][1] == found[1][1]).all()
    np.testing.assert_allclose(found[0][1], np.sort(D, axis=1)[:, :K], atol=1e-3)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_threads_change_nothing(n_jobs):
    one = ml.knn_graph(sp.csr_matrix(WORDS), K, n_jobs=1).affinity
    assert (one != ml.knn_graph(sp.csr_matrix(WORDS), K, n_jobs=n_jobs).affinity).nnz == 0


def test_sparse_rows_default_to_cosine():
    for X, usual in ((sp.csr_matrix(WORDS), "cosine"), (DENSE, "euclidean")):
        graph = ml.knn_graph(X, K)
        assert graph.info["metric"] == usual
        assert (graph.affinity != ml.knn_graph(X, K, metric=usual).affinity).nnz == 0


@pytest.mark.parametrize(
    ("X", "metric"), [(sp.csr_matrix(WORDS), "cosine"), (DENSE, "manhattan"), (PLACES, "haversine")]
)
def test_equal_rows_are_one_node_that_counts_them(X, metric):
    stack = sp.vstack if sp.issparse(X) else np.concatenate
    twice = stack([X, X])
    graph = ml.knn_graph(twice, K, metric=metric, duplicates="merge")
    distinct = ml.knn_graph(X, K, metric=metric, duplicates="merge")
    assert graph.n_nodes == distinct.n_nodes
    assert (graph.rows[:N] == graph.rows[N:]).all()
    assert graph.weights.sum() == 2 * N
    assert (graph.affinity != 4 * distinct.affinity).nnz == 0  # between all copies of both


def two_topics(n=60, width=40, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    p = np.where(y[:, None] == (np.arange(width) < width // 2), 0.02, 0.5)
    return sp.csr_matrix((rng.random((n, width)) < p) * rng.integers(1, 4, (n, width))), y


@pytest.mark.parametrize("name", ["NCut", "CSP", "LLGC", "GFHF", "SRCP"])
def test_estimators_take_sparse_rows(name):
    X, y = two_topics()
    told = np.where(np.arange(60) < 6, y, -1)
    few = {"random_state": 0, "n_neighbors": 8}
    if name == "NCut":
        est = ml.NCut(2, **few).fit(X)
        found = est.labels_ == est.labels_[0]
    else:
        est = getattr(ml, name)(**few).fit(X, told)
        found = est.labels_ == est.labels_[0]
    assert (found == (y == y[0])).all()
    new, classes = two_topics(20, seed=3)
    answers = est.predict(new)
    assert ((answers == answers[0]) == (classes == classes[0])).all()
    with pytest.raises(InputError, match="add: no points can be joined to a graph of sparse rows"):
        est.add(new)


def test_models_keep_sparse_rows(tmp_path):
    X, _ = two_topics()
    est = ml.NCut(2, random_state=0, n_neighbors=8).fit(X)
    est.save(tmp_path / "model.h5")
    again = ml.load(tmp_path / "model.h5")
    assert (again.predict(X) == est.predict(X)).all()


def test_square_sparse_matrices_are_asked_about():
    X, y = two_topics(40, 40)
    with pytest.raises(InputError, match=r'affinity="precomputed".*affinity="knn"'):
        ml.NCut(2).fit(X)
    labels = ml.NCut(2, affinity="knn", random_state=0, n_neighbors=8).fit(X).labels_
    assert ((labels == labels[0]) == (y == y[0])).all()


def test_rows_of_weight_zero_are_no_neighbours():
    X, _ = two_topics()
    empty = sp.vstack([X, sp.csr_matrix((1, X.shape[1]))]).tocsr()
    weights = np.append(np.ones(60), 0)
    est = ml.NCut(2, random_state=0, n_neighbors=8).fit(empty, sample_weight=weights)
    alone = ml.NCut(2, random_state=0, n_neighbors=8).fit(X)
    assert (est.labels_[:60] == alone.labels_).all()


def negative(X):
    found = X.copy()
    found[7, 3] = -1
    return found


def gone(X):
    found = X.copy()
    found[9] = 0
    return found


def no_number(x, y):
    return np.nan


def one_way(x, y):
    return abs(x[0] - y[0]) + x[1]


CSR = sp.csr_matrix(WORDS)


@pytest.mark.parametrize(
    ("X", "metric", "words"),
    [
        (negative(CSR), "hellinger", r"row 7, column \d+ has a negative value"),
        (negative(CSR), "jaccard", r"row 7, column \d+ has a negative value"),
        (negative(DENSE), "hellinger", r"row 7 has a negative value in column \d+,"),
        (sp.csr_matrix(gone(WORDS)), "cosine", r"row 9 is all zeros \(1 such rows\)"),
        (sp.csr_matrix(gone(WORDS)), "hellinger", "row 9 is all zeros"),
        (gone(DENSE), "correlation", "row 9 is constant"),
        (gone(DENSE), "hellinger", "row 9 is all zeros"),
        (CSR, "dot", "row 0 is .* long"),
        (DENSE, "dot", "row 0 is not of length 1"),
        (CSR, "manhattan", "'manhattan' of sparse rows; choose euclidean"),
        (CSR * np.nan, "cosine", r"row 0, column \d+ has NaN or Inf"),
        (DENSE, "nearby", "'nearby' is unknown; choose euclidean"),
        (DENSE, 3, "metric: 3 given"),
        (DENSE, no_number, "no_number of row 0 and another is nan"),
        (DENSE, one_way, "one_way is not symmetric, rows"),
        (DENSE, "haversine", r"shape \(150, 5\); metric='haversine' takes latitude"),
        (PLACES[:, ::-1] * 2, "haversine", "which is no place"),
        (DENSE, "minkowski:x", "the power of minkowski"),
        (sp.csr_matrix((5, 4)), "cosine", "row 0 is all zeros"),
        (sp.csr_matrix((1, 4)), "cosine", "at least 2 rows"),
    ],
)
def test_errors_name_the_row(X, metric, words):
    with pytest.raises(InputError, match=words) as error:
        ml.knn_graph(X, K, metric=metric)
    assert "\n" not in str(error.value)


def test_memory_that_is_too_little_is_refused():
    with pytest.raises(InputError, match="150 rows with 8 neighbours each need at least"):
        ml.knn_graph(CSR, K, memory="1MB")
    with pytest.raises(InputError, match="memory"):
        ml.NCut(2, memory="1MB").fit(CSR)


@pytest.mark.thorough
def test_nn_descent_of_another_distance(monkeypatch):
    """Recall is measured, one seed gives one graph, and time may be short."""
    monkeypatch.setattr("mustlink.context.neighbor_cost.ENOUGH", 0.0)
    X = np.random.default_rng(0).random((2000, 8)).astype(np.float32)
    first, second = (
        ml.knn_graph(X, K, metric="manhattan", random_state=3, n_jobs=n_jobs) for n_jobs in (1, 2)
    )
    assert first.info["method"] == "descent"
    assert first.info["recall"] > 0.9
    assert (first.affinity != second.affinity).nnz == 0


def test_named_distances_are_there_for_few_rows_and_for_many():
    """What scipy alone knows would fail where NN-descent searches."""
    named_distances = pytest.importorskip("pynndescent.distances").named_distances
    assert set(distances._OF_SCIPY) | set(METRICS) - {"minkowski:P"} <= set(named_distances)


def test_a_metric_that_is_spelt_alike_is_named():
    with pytest.raises(InputError, match="'euklid' is unknown; did you mean 'euclidean'"):
        ml.NCut(2, metric="euklid").fit(np.random.default_rng(0).normal(size=(30, 3)))


def test_new_rows_are_numbered_as_they_are_given():
    X = np.random.default_rng(0).random((60, 5)) + 0.1
    X[20:40, 0] += 9
    est = ml.NCut(2, metric="cosine", random_state=0).fit(X)
    new = X[:3].copy()
    new[1] = 0
    with pytest.raises(InputError, match="row 1 is all zeros"):
        est.predict(new)
