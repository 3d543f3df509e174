"""How many clusters points and pairs show: long clusters, none at all, and what people mean."""

from __future__ import annotations

import numpy as np
import pytest

import mustlink as ml
import oracles
from cases import blobs
from mustlink.context.stage_cache import Workspace
from mustlink.selection.cluster_count import chosen_count, count_clusters, f_measure, last_step


def counted(X, **options):
    return count_clusters(Workspace(ml.knn_graph(X, 15, random_state=0)), 0, **options)


def strands(rng, n, k, far=0.25):
    """Points along k parallel lines."""
    return np.c_[rng.random(n), far * (np.arange(n) % k) + 0.01 * rng.normal(size=n)]


def rings(rng, n, k):
    angle, radius = rng.uniform(0, 2 * np.pi, n), 1.0 + np.arange(n) % k
    return radius[:, None] * np.c_[np.cos(angle), np.sin(angle)] + 0.05 * rng.normal(size=(n, 2))


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("make", [strands, rings])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_long_clusters_are_counted_by_the_step(make, k, seed):
    X = make(np.random.default_rng(seed), 900, k)
    found = counted(X)
    graph = ml.knn_graph(X, 15, random_state=0)
    values = np.sort(np.linalg.eigvalsh(oracles.laplacian(graph.affinity.toarray())[0]))
    steps = (values[2:21] - values[1:20]) / (values[2:21] + 1e-5)
    assert found.k == k == np.flatnonzero(steps >= 0.8)[-1] + 2
    assert found.gap < 0.6  # by which they would not be found
    assert "last step" in found.reason


@pytest.mark.thorough(but=4)
@pytest.mark.parametrize(
    "make",
    [
        lambda rng: rng.random((800, 1)),
        lambda rng: rng.random((800, 2)),
        lambda rng: rng.random((800, 2)) * [5, 1],
        lambda rng: rng.random((800, 4)),
        lambda rng: rng.normal(size=(800, 2)),
        lambda rng: rng.normal(size=(800, 6)),
        lambda rng: rng.normal(size=(800, 3)) * [8, 1, 1],
        lambda rng: rings(rng, 800, 1),
    ],
    ids=["line", "square", "rectangle", "cube", "cloud", "cloud in 6", "long cloud", "ring"],
)
@pytest.mark.parametrize("seed", range(3))
def test_one_piece_has_no_clear_number(make, seed):
    found = counted(make(np.random.default_rng(seed)))
    assert found.doubt.startswith("no clear number of clusters")


@pytest.mark.parametrize(
    ("steps", "k"),
    [
        ([0.1, 0.75, 0.3], None),  # a ring
        ([0.9, 0.2, 0.75], 2),  # two strands
        ([0.9, 0.2, 0.95, 0.3], 4),  # two of two each
        ([0.75, 0.2, 0.1, 0.72, 0.1], 5),
        ([], None),
    ],
)
def test_small_steps_count_where_there_are_no_high_ones(steps, k):
    assert last_step(np.array(steps)) == k


def test_sheets_are_counted():
    rng = np.random.default_rng(0)
    X = np.c_[rng.random((3000, 2)), 0.2 * (np.arange(3000) % 5) + 0.01 * rng.normal(size=3000)]
    found = counted(X)
    assert (found.k, found.doubt) == (5, None)
    assert "last step" in found.reason


def test_clear_clusters_leave_no_doubt():
    X, _ = blobs(np.random.default_rng(0), 400, 5, d=5, separation=9.0)
    found = counted(X)
    assert (found.k, found.doubt) == (5, None)
    assert "others" not in found.reason


# ---------------------------------------------------------------- pairs


@pytest.mark.parametrize("seed", range(5))
def test_f_is_that_of_a_loop(seed):
    rng = np.random.default_rng(seed)
    same, often = (rng.random((4, 40)) < 0.4).astype(float), rng.integers(3, size=(40, 2))
    belief = rng.uniform(-1, 1, 40)
    found = f_measure(same, belief, often.astype(float))
    for q in range(4):
        for d in range(2):
            both = sum(often[i, d] * belief[i] * same[q, i] for i in range(40) if belief[i] > 0)
            said = sum(often[i, d] * belief[i] for i in range(40) if belief[i] > 0)
            there = sum(often[i, d] * abs(belief[i]) * same[q, i] for i in range(40))
            assert found[q, d] == pytest.approx(2 * both / (said + there))


def test_the_smallest_number_within_an_error_is_taken():
    rng = np.random.default_rng(0)
    belief = np.where(rng.random(400) < 0.3, 1.0, -1.0)
    right = (belief > 0).astype(float)
    nearly = np.where(np.arange(400) < 2, 1 - right, right)
    same = np.array([rng.random(400) < 0.5, nearly, right, nearly]).astype(float)
    found = chosen_count(np.array([2, 3, 4, 5]), same, belief, 0)
    assert found.best == 4
    assert found.k == found.low in (3, 4)
    alone = chosen_count(np.array([2, 3, 4]), np.array([1 - right, right, 1 - right]), belief, 0)
    assert (alone.low, alone.best, alone.high) == (3, 3, 3)
    assert alone.score == 1.0


def pairs_of(y, m, seed=0):
    i = np.random.default_rng(seed).integers(y.size, size=(m, 2))
    i = i[i[:, 0] != i[:, 1]]
    belief = np.where(y[i[:, 0]] == y[i[:, 1]], 1.0, -1.0)
    return ml.Constraints.from_pairs(i, belief, n_nodes=y.size)


@pytest.fixture(scope="module")
def nested():
    """Three clouds of two each: 3 clusters and 6 are both there to be found."""
    rng = np.random.default_rng(0)
    y = np.arange(540) % 6
    centers = 14.0 * np.eye(6)[y // 2] + 4.5 * np.eye(6)[3 + (y % 2)]
    return centers + rng.normal(size=(540, 6)), y


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["CSP", "SSSC", "SpectralLearning", "SRCP", "SSKK"])
@pytest.mark.parametrize("meant", [3, 6])
def test_pairs_tell_which_number_is_meant(nested, method, meant):
    X, y = nested
    known = pairs_of(y if meant == 6 else y // 2, 200)
    est = getattr(ml, method)("auto", random_state=0).fit(X, constraints=known)
    k, reason = est.report_.choices["n_clusters"]
    assert k == est.report_.n_clusters == meant
    assert "pairs clusters of the graph keep most" in reason


def test_suggest_leaves_the_count_to_the_pairs(nested):
    X, y = nested
    told = ml.suggest(X, constraints=pairs_of(y, 200))
    assert told.estimator().n_clusters == "auto"
    assert any("asks the pairs in the fit" in doubt for doubt in told.warnings)


def test_few_pairs_or_of_one_kind_say_nothing(nested):
    X, y = nested
    graph = ml.knn_graph(X, 15, random_state=0)
    by_graph = count_clusters(Workspace(graph), 0)
    must = pairs_of(np.zeros_like(y), 200)
    for known in (pairs_of(y, 20), must, ml.Constraints.none(540)):
        assert count_clusters(Workspace(graph), 0, known) == by_graph


@pytest.mark.thorough
def test_networks_are_counted_by_pairs_too():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 8
    share = np.where(y[:, None] == y, 0.35, np.where(y[:, None] // 2 == y // 2, 0.1, 0.005))
    upper = np.triu(rng.random((400, 400)) < share, 1)
    W = (upper | upper.T).astype(float)
    for meant in (4, 8):
        known = pairs_of(y if meant == 8 else y // 2, 400)
        est = ml.CSP("auto", affinity="precomputed", random_state=0).fit(W, constraints=known)
        assert est.report_.n_clusters == meant


@pytest.mark.thorough
def test_isolated_nodes_and_repeated_rows(nested):
    X, y = nested
    X = X.copy()
    X[1::30], y2 = X[0], y.copy()
    y2[1::30] = y[0]
    est = ml.CSP("auto", random_state=0).fit(X, constraints=pairs_of(y2, 200))
    assert est.report_.n_clusters == 6
    one = ml.CSP("auto", random_state=0, n_jobs=1).fit(X, constraints=pairs_of(y2, 200))
    np.testing.assert_array_equal(one.labels_, est.labels_)
