"""Discretisation: every way from an embedding to clusters, and the best splitting value."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import oracles
from cases import random_graph
from mustlink.discretize import assign as module
from mustlink.discretize.assign import ASSIGNMENTS, assign, best_split, kmeans, lloyd, transform
from mustlink.discretize.merge_tree import aligned
from mustlink.errors import InputError
from mustlink.kernels.blocks import nearest_centre
from mustlink.space import LocalSpace

seeds = st.integers(0, 2**31)


def indicator_like(rng, n=120, k=4):
    """Rows near k well separated corners of sign patterns."""
    y = rng.integers(0, k, n)
    corners = np.array([[1, 1, 1], [-1, 1, 1], [1, -1, 1], [-1, -1, -1.0]])[:k]
    return corners[y] * (1 + 0.2 * rng.standard_normal((n, 3))), y


@pytest.mark.parametrize("how", ["kmeans", "sign-kmeans", "cost-weighted", "sphere"])
def test_every_way_finds_plain_clusters(how):
    E, y = indicator_like(np.random.default_rng(0))
    before = E.copy()
    found = assign(E, 4, how, 0, cost=np.array([1.0, 1.5, 2.0]))
    assert adjusted_rand_score(found.labels, y) == 1.0
    assert found.labels.dtype == np.int64
    assert found.centers.shape == (4, 3)
    assert np.array_equal(E, before)
    again = assign(E, 4, how, 0, cost=np.array([1.0, 1.5, 2.0]))
    assert np.array_equal(found.labels, again.labels)


def test_transforms_are_the_formulas():
    E = np.array([[3.0, -4.0], [0.0, 0.0], [-1.0, 2.0]])
    cost = np.array([2.0, 4.0])
    assert np.array_equal(transform(E, "kmeans"), E)
    assert np.array_equal(transform(E, "sign-kmeans"), [[1, -1], [0, 0], [-1, 1]])
    np.testing.assert_allclose(
        transform(E, "sphere")[[0, 2]], [[0.6, -0.8], [-(5**-0.5), 2 * 5**-0.5]]
    )
    assert not transform(E, "sphere")[1].any()  # a row without direction stays where it is
    # eq. 16 up to a common factor: columns weigh 1/cost.
    weighted = transform(E, "cost-weighted", cost)
    np.testing.assert_allclose(weighted * cost, cost.min() * np.sign(E))


def test_spikes_are_tamed_by_sign_and_sphere():
    """One huge row takes a cluster for itself from k-means, not from the others."""
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], 50)
    E = np.where(y[:, None] == 0, 1.0, -1.0) + 0.1 * rng.standard_normal((100, 2))
    E[3] *= 1000
    assert np.bincount(assign(E, 2, "kmeans", 0).labels).min() == 1
    for how in ("sign-kmeans", "sphere"):
        assert adjusted_rand_score(assign(E, 2, how, 0).labels, y) == 1.0


def test_sign_cuts_one_vector_at_zero():
    E = np.array([[0.3], [-0.2], [0.0], [5.0]])
    assert assign(E, 2, "sign", 0).labels.tolist() == [1, 0, 0, 1]
    for bad, k in ((E, 3), (np.ones((4, 2)), 2)):
        with pytest.raises(InputError, match="sign makes 2 clusters from 1 vector"):
            assign(bad, k, "sign", 0)


def test_unknown_ways_and_missing_costs_are_named():
    E = np.ones((4, 2))
    with pytest.raises(InputError, match="'magic' is unknown; choose one of auto, sign"):
        assign(E, 2, "magic", 0)
    with pytest.raises(InputError, match="cost-weighted needs the costs"):
        assign(E, 2, "cost-weighted", 0)
    for how in ASSIGNMENTS[1:]:
        one = np.array([[0.1], [-0.2], [0.3], [-5.0]])
        assert transform(one, how, np.ones(1)).shape == (4, 1)


def test_given_centres_are_where_kmeans_starts():
    rng = np.random.default_rng(2)
    E, y = indicator_like(rng)
    centers = np.array([E[y == c].mean(axis=0) for c in (2, 0, 3, 1)])
    found = kmeans(E, 4, 0, centers=centers)
    # Cluster numbers follow the centres.
    assert np.array_equal(np.array([2, 0, 3, 1])[found.labels], y)
    assert np.array_equal(nearest_centre(E, found.centers), found.labels)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("less", [0, 1, 2])
@pytest.mark.parametrize("n", [2, 5, 30, 120])
def test_as_many_clusters_as_asked_for_where_rows_are_distinct(n, less):
    """Also where they differ in digits that |x|² - 2xy + |y|² loses."""
    rng, half = np.random.default_rng(n), n // 2
    k = max(1, n - less)
    near = np.concatenate([1e-9 * np.arange(half), 1e3 + 1e-6 * np.arange(n - half)])
    for rows in (
        rng.standard_normal((n, 3)),
        near[:, None],
        np.column_stack([near, 1e-8 * rng.standard_normal(n)]),
        (2.0 ** -np.arange(n))[:, None],
    ):
        found = kmeans(rows, k, 0)
        assert np.array_equal(np.unique(found.labels), np.arange(k))
        assert np.array_equal(nearest_centre(rows, found.centers), found.labels)
        assert less or found.inertia == 0


@pytest.mark.parametrize("k", [3, 7, 9])
def test_fewer_distinct_rows_than_clusters_are_one_cluster_each(k):
    kinds = np.array([0, 1, 2, 2, 1, 0, 0, 1, 2])
    found = kmeans(np.array([[0.0, 1.0], [5.0, 1.0], [0.0, 9.0]])[kinds], k, 0)
    assert np.unique(found.labels).size == 3
    assert adjusted_rand_score(found.labels, kinds) == 1.0


def test_large_inputs_are_sampled_then_seen_whole():
    E, y = indicator_like(np.random.default_rng(3), n=400)
    found = kmeans(E, 4, 0, sample=40)
    assert found.labels.size == 400
    assert adjusted_rand_score(found.labels, y) == 1.0


@pytest.mark.parametrize("wide", [5, 100])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_best_of_short_starts_is_followed_to_its_end(monkeypatch, wide, weighted):
    monkeypatch.setattr(module, "_LONG", 0)
    monkeypatch.setattr(module, "_WIDE", wide)
    rng = np.random.default_rng(7)
    y = rng.integers(0, 12, 900)
    rows = 4 * np.eye(12)[y] + 0.4 * rng.standard_normal((900, 12))
    space = LocalSpace(900, rng.integers(1, 4, 900).astype(float) if weighted else None)
    found = kmeans(rows, 12, 0, space=space)
    assert adjusted_rand_score(found.labels, y) == 1.0
    more = lloyd(space, rows, found.centers)  # Lloyd's steps end where they began
    assert np.array_equal(more.labels, found.labels)
    np.testing.assert_allclose(more.centers, found.centers, atol=1e-10)


def test_hundreds_of_clusters_start_from_fewer_rows(monkeypatch):
    monkeypatch.setattr(module, "_WORK", 1)
    rng = np.random.default_rng(8)
    y = np.concatenate([np.arange(30), rng.integers(0, 30, 2970)])
    rows = 9 * np.eye(30)[y] + 0.1 * rng.standard_normal((3000, 30))
    assert adjusted_rand_score(kmeans(rows, 30, 0).labels, y) > 0.9


def test_narrow_rows_are_about_as_far_apart():
    rows = np.random.default_rng(9).standard_normal((40, 300))
    far, near = (
        ((R[:, None] - R) ** 2).sum(axis=2)[np.triu_indices(40, 1)]
        for R in (rows, module._narrow(rows, 0))
    )
    assert 0.4 < (near / far).min() < (near / far).max() < 1.8
    assert module._narrow(rows[:, :50], 0).shape == (40, 50)


@pytest.mark.parametrize("lost", [0, 2])
def test_lloyds_steps_are_those_of_scikit_learn(lost):
    """Clusters that lose all their rows take over the farthest ones."""
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((300, 3)) + 5 * rng.integers(0, 3, (300, 1))
    start = rows[:6].copy()
    start[:lost] = 1e3 + np.arange(lost)[:, None]
    found = lloyd(LocalSpace(300), rows, start)
    other = KMeans(6, init=start, n_init=1, max_iter=20).fit(rows)
    assert np.array_equal(found.labels, other.labels_)
    np.testing.assert_allclose(found.centers, other.cluster_centers_, atol=1e-10)
    assert found.inertia == pytest.approx(other.inertia_)


def test_a_node_counts_as_often_as_its_weight():
    rng = np.random.default_rng(5)
    rows, times = rng.standard_normal((120, 2)), rng.integers(1, 4, 120)
    start = rows[:4]
    found = lloyd(LocalSpace(120, times.astype(float)), rows, start)
    repeated = lloyd(LocalSpace(int(times.sum())), np.repeat(rows, times, axis=0), start)
    np.testing.assert_allclose(found.centers, repeated.centers, atol=1e-12)
    assert np.array_equal(np.repeat(found.labels, times), repeated.labels)
    assert found.inertia == pytest.approx(repeated.inertia)


def test_fewer_distinct_rows_than_clusters():
    rows = np.repeat([[0.0], [1.0]], 5, axis=0)
    found = lloyd(LocalSpace(10), rows, np.array([[0.0], [1.0], [9.0]]))
    assert np.array_equal(found.labels, np.repeat([0, 1], 5))
    assert found.inertia == 0.0


@given(st.integers(6, 25), st.integers(1, 2), seeds)
@settings(max_examples=80, deadline=None)
def test_best_split_is_the_best_of_all_thresholds(n, components, seed):
    rng = np.random.default_rng(seed)
    W = random_graph(rng, n, components)
    vector = np.round(rng.standard_normal(n), 1)  # ties: equal values are never separated
    if np.unique(vector).size == 1:
        return
    split, ncut = best_split(W, vector)
    dense = W.toarray()
    assert ncut == pytest.approx(oracles.best_split(dense, vector), abs=1e-12)
    assert oracles.ncut_of(dense, vector > split) == pytest.approx(ncut, abs=1e-12)
    assert not np.isin(split, vector)


def test_best_split_with_loops_and_isolated_nodes():
    W = np.zeros((5, 5))
    W[0, 1] = W[1, 0] = 1.0
    W[2, 3] = W[3, 2] = 2.0
    W[1, 2] = W[2, 1] = 0.1
    W[0, 0] = 0.7
    vector = np.array([-2.0, -1.0, 1.0, 2.0, 0.0])
    split, ncut = best_split(sp.csr_matrix(W), vector)
    assert -1 < split < 1
    left = np.array([1, 1, 0, 0, 0], dtype=bool)
    assert ncut == pytest.approx(oracles.ncut_of(W, left))


def test_a_constant_vector_cannot_be_split():
    W = random_graph(np.random.default_rng(0), 8)
    assert best_split(W, np.ones(8)) == (0.0, 1.0)


@given(st.integers(1, 40), st.integers(2, 6), seeds)
@settings(max_examples=50, deadline=None)
def test_aligned_clusters_are_the_same_clusters(n, k, seed):
    rng = np.random.default_rng(seed)
    before, after = rng.integers(-1, k, (2, n))
    renamed = aligned(before, after, k)
    assert np.array_equal(renamed < 0, after < 0)
    for a in range(k):  # a renaming: one number for one number
        assert np.unique(renamed[after == a]).size <= 1
    shuffled = np.where(before >= 0, rng.permutation(k)[before], -1)
    assert np.array_equal(aligned(before, shuffled, k), before)
