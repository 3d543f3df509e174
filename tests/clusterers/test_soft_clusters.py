"""Soft memberships and confidence: rows sum to 1, the own cluster leads, held-out labels count."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import mustlink as ml
from mustlink.discretize.memberships import (
    Calibration,
    Evidence,
    MembershipExponents,
    Outcomes,
    calibrated,
)
from mustlink.graph import Graph
from mustlink.graph.graph import Key
from oracles.memberships import memberships


def random_case(seed, weighted=False):
    """A graph with loops and isolated nodes, clusters with -1 and an empty one, an embedding."""
    rng = np.random.default_rng(seed)
    n, k, r = 60, 4, 3
    A = sp.random(n, n, 0.1, random_state=seed).toarray()
    A = A + A.T
    A[:3], A[:, :3] = 0.0, 0.0
    labels = rng.integers(-1, k - 1, n)  # nobody in the last
    X = rng.normal(size=(n, r)) * 10.0 ** rng.integers(-6, 6)
    if weighted:
        C = rng.integers(1, 4, n).astype(float)
        graph = Graph(sp.csr_matrix(A * np.outer(C, C)), weights=C)
    else:
        graph = Graph(sp.csr_matrix(A))
    return graph, labels, X, k


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("weighted", [False, True])
def test_memberships_are_those_of_the_slow_twin(seed, weighted):
    graph, labels, X, k = random_case(seed, weighted)
    trust = MembershipExponents(*np.random.default_rng(seed).uniform(0, 3, 2))
    P = Evidence.of(graph, labels, X, k).all_memberships(trust)
    np.testing.assert_allclose(P, memberships(graph, labels, X, k, *trust), atol=1e-8)
    assert (P[labels >= 0].argmax(axis=1) == labels[labels >= 0]).all()
    np.testing.assert_allclose(P.sum(axis=1), labels >= 0, atol=1e-12)
    own = P[np.arange(labels.size), np.maximum(labels, 0)]
    np.testing.assert_array_equal(Evidence.of(graph, labels, X, k).confidence(trust), own)


def test_repeated_nodes_and_nodes_that_count_several_times_are_the_same():
    graph, labels, X, k = random_case(5, weighted=True)
    C = graph.weights.astype(int)
    rows = np.repeat(np.arange(C.size), C)
    between = graph.affinity.toarray() / np.outer(C, C)
    repeated = Graph(sp.csr_matrix(between[rows][:, rows]))
    trust = MembershipExponents(0.7, 1.2)
    folded = Evidence.of(graph, labels, X, k).all_memberships(trust)
    whole = Evidence.of(repeated, labels[rows], X[rows], k).all_memberships(trust)
    np.testing.assert_allclose(folded[rows], whole, atol=1e-9)


def test_numbers_of_nodes_and_clusters_and_units_do_not_matter():
    graph, labels, X, k = random_case(2)
    rng, trust = np.random.default_rng(0), MembershipExponents(0.7, 1.2)
    P = Evidence.of(graph, labels, X, k).all_memberships(trust)
    order, number = rng.permutation(labels.size), rng.permutation(k)
    moved = Graph((7.0 * graph.affinity)[order][:, order].tocsr())
    named = np.where(labels < 0, -1, number[labels])[order]
    Q = Evidence.of(moved, named, 1e5 * X[order] + 3.0, k).all_memberships(trust)
    np.testing.assert_allclose(Q[:, number], P[order], atol=1e-9)


def test_more_edges_into_the_own_cluster_and_a_nearer_row_are_surer():
    W = np.zeros((12, 12))
    labels = np.repeat([0, 1], 6)
    for count in range(6):  # of node 0 to cluster 1, all others to its own
        W[count, 1:6], W[count, 6 : 6 + count] = 1.0, 1.0
    graph = Graph(sp.csr_matrix(np.maximum(W, W.T)))
    X = np.linspace(0, 1, 12)[:, None]
    found = Evidence.of(graph, labels, 0 * X, 2).confidence(MembershipExponents(1.0, 0.0))
    assert (np.diff(found[:6]) < 0).all()
    near = Evidence.of(graph, labels, X, 2).confidence(MembershipExponents(0.0, 1.0))
    assert (np.diff(near[3:6]) < 0).all()
    assert (np.diff(near[6:9]) > 0).all()


def blobs(seed=0, n=240, k=3, far=3.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    X = rng.normal(size=(n, 5))
    X[:, :k] += far * np.eye(k)[y]
    return X, y


def some_labels(y, seed=0, share=0.3):
    return np.where(np.random.default_rng(seed).random(y.size) < share, y, -1)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "method",
    [
        "CSP",
        "SSSC",
        "SpectralLearning",
        "ConstrainedAP",
        "FastGE",
        "SSKK",
        "SRCP",
        "E2CP",
        "CSCGFHF",
    ],
)
def test_every_method_with_labels_is_calibrated_by_those_held_out(method):
    X, y = blobs()
    X[7], X[9] = X[8], X[8]  # equal rows are one node
    y[7], y[9] = y[8], y[8]
    est = getattr(ml, method)(3, random_state=0).fit(X, some_labels(y))
    P, labels = est.membership_, est.labels_
    assert P.shape == (240, 3)
    np.testing.assert_allclose(P.sum(axis=1), labels >= 0, atol=1e-12)
    assert (P.argmax(axis=1) == labels)[labels >= 0].all()
    np.testing.assert_array_equal(est.confidence_, P.max(axis=1))
    assert est.calibration_.n_labels > 30
    assert est.confidence_[7] == est.confidence_[9]


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["CSP", "SSSC"])
def test_the_next_refit_finds_the_vectors_of_the_last(method):
    X, y = blobs(n=2500)  # so many that vectors are iterated
    est = getattr(ml, method)(3, random_state=np.random.default_rng(0)).fit(
        X, some_labels(y, share=0.03)
    )
    before = {type(key): value for key, value in est.graph_.derived.of(Key)}
    assert est.calibration_.n_labels > 30
    after = {type(key): value for key, value in est.graph_.derived.of(Key)}
    assert before
    assert all(after[kind] is value for kind, value in before.items())


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("assign", ["sign", "split", "kmeans"])
def test_two_clusters_of_one_vector(assign):
    X, y = blobs(k=2)
    est = ml.CSP(2, assign=assign, random_state=0).fit(X, some_labels(y))
    np.testing.assert_array_equal(est.membership_.argmax(axis=1), est.labels_)


@pytest.mark.thorough
def test_pairs_calibrate_refits_are_followed_and_threads_do_not_matter():
    X, y = blobs()
    rng = np.random.default_rng(1)
    pairs = rng.integers(y.size, size=(200, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)
    known = ml.Constraints.from_pairs(pairs, belief, n_nodes=y.size)
    est = ml.CSP(3, random_state=0).fit(X, constraints=known)
    assert est.calibration_.n_pairs > 100
    assert sum(est.calibration_.reliability.count) == est.calibration_.n_pairs
    one = ml.CSP(3, random_state=0, n_jobs=1).fit(X, constraints=known)
    np.testing.assert_array_equal(one.membership_, est.membership_)
    est.refit(some_labels(y))
    assert est.calibration_.n_pairs == 0
    assert est.calibration_.n_labels > 30
    assert sum(est.calibration_.reliability.count) == est.calibration_.n_labels
    np.testing.assert_array_equal(est.membership_.argmax(axis=1), est.labels_)
    few = ml.CSP(3, random_state=0).fit(X, np.where(np.arange(y.size) < 8, y, -1))
    assert few.calibration_.n_labels == 0  # too few to spare any


def test_hard_cases():
    X = blobs()[0]
    one = ml.NCut(1).fit(X)
    np.testing.assert_array_equal(one.membership_, np.ones((240, 1)))
    W = ml.NCut(3, random_state=0).fit(X).graph_.affinity.tolil()
    W[:4], W[:, :4] = 0.0, 0.0
    W = sp.csr_matrix(W)
    dropped = ml.NCut(3, affinity="precomputed", random_state=0).fit(W)
    assert (dropped.confidence_[:4] == 0).all()
    assert not dropped.membership_[:4].any()
    kept = ml.NCut(3, affinity="precomputed", isolated="assign", random_state=0).fit(W)
    sizes = np.bincount(kept.labels_) / 240
    np.testing.assert_array_equal(kept.membership_[:4].argmax(axis=1), kept.labels_[:4])
    assert np.abs(kept.membership_[:4].sum(axis=1) - 1).max() < 1e-12
    assert sizes.min() > 0
    parts = sp.block_diag([np.ones((4, 4)) - np.eye(4)] * 6).tocsr()  # more components than K
    est = ml.NCut(3, affinity="precomputed", random_state=0).fit(parts)
    np.testing.assert_array_equal(est.membership_.argmax(axis=1), est.labels_)
    with pytest.raises(AttributeError):
        ml.NCut(3).membership_  # noqa: B018


def test_directed_graphs_are_judged_by_the_embedding_alone():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 30)
    A = (rng.random((90, 90)) < np.where((y[:, None] + 1) % 3 == y, 0.4, 0.02)).astype(float)
    np.fill_diagonal(A, 0)
    est = ml.DISIM(3, random_state=0).fit(A)
    assert est.calibration_.trust.edges == 0
    assert est.confidence_.mean() > 0.8
    np.testing.assert_array_equal(est.membership_.argmax(axis=1), est.labels_)


def test_labels_held_out_teach_how_sure_to_be():
    """Of answers that are right as often as said the likelihood is greatest at θ as it was."""
    rng = np.random.default_rng(0)
    shares, nearness = np.log(rng.dirichlet(np.ones(3), 3000)), np.zeros((3000, 3))
    labels = shares.argmax(axis=1)
    true = MembershipExponents(2.0, 0.0)
    from mustlink.discretize.memberships import own_share, softened

    right = rng.random(3000) < own_share(softened(shares, nearness, labels, true), labels)
    nobody = np.empty(0, dtype=np.int64)
    part = Outcomes(shares, nearness, labels, right, nobody, nobody, np.empty(0))
    found = calibrated(Calibration(MembershipExponents(0.6, 0.0)), [part])
    assert found.trust.edges == pytest.approx(2.0, rel=0.1)
    assert found.trust.embedding == 0
    wrong = Outcomes(shares, nearness, labels, ~right | right, nobody, nobody, np.empty(0))
    assert (
        calibrated(Calibration(MembershipExponents(0.6, 0.0)), [wrong]).trust.edges
        > found.trust.edges
    )
    assert calibrated(Calibration(true), []) == Calibration(true)
