"""SSKK against dense kernel k-means written out, its descent, and what goes wrong."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
import oracles
from cases import KINDS, planted_graph, random_constraints, random_graph
from mustlink.clusterers.sskk import SSKK, STARTS, descend, objective
from mustlink.discretize.cuts import mncut
from mustlink.kernels.kernel_kmeans import (
    cluster_links,
    clusters_of,
    fill_empty,
    lloyd_step,
    sweep,
)
from mustlink.operators.constraint_operator import penalized
from mustlink.operators.laplacian import normalized_laplacian

seeds = st.integers(0, 2**31)
VOLUMES = ("links", "graph")


def sskk(k, **options):
    return SSKK(k, **{"affinity": "precomputed", "random_state": 0} | options)


def signed(known):
    """Must-links and cannot-links as dense non-negative matrices, from what was given."""
    given = known.matrix.toarray()
    labels = np.full(known.n_nodes, -1) if known.labels is None else known.labels
    implied = oracles.labels_dense(labels)
    parts = [np.maximum(sign * given, 0) + np.maximum(sign * implied, 0) for sign in (1, -1)]
    for part in parts:
        np.fill_diagonal(part, 0)
    return parts


def case(seed, volume="links", kind=None):
    """A random problem in working order: sparse and dense, with a random start."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(14, 34)), int(rng.integers(2, 6))
    W = random_graph(rng, n, int(rng.integers(1, 4)), int(rng.integers(0, 3)))
    if rng.random() < 0.3:
        W = sp.csr_matrix(W + sp.diags(rng.random(n) * (W.sum(axis=1).A1 > 0)))
    known = random_constraints(rng, n, kind or KINDS[int(rng.integers(len(KINDS)))], k)
    laplacian = normalized_laplacian(ml.Graph.from_affinity(W))
    problem = penalized(laplacian, known, k, "auto", volume)
    at = np.ix_(laplacian.nodes, laplacian.nodes)
    must, cannot = signed(known)
    A, weight, w = oracles.sskk_problem(W.toarray()[at], must[at], cannot[at], k, volume)
    start = rng.integers(0, k, laplacian.size)
    start[:k] = np.arange(k)
    return problem, A, weight, w, k, start


def _near(A):
    """Nodes with an edge or a pair: those that a move wakes."""
    m = A.root.size
    near = sp.csr_matrix((A.data, A.indices, A.indptr), shape=(m, m)).toarray() != 0
    rows = sp.csr_matrix((A.pairs_data, A.pairs_indices, A.pairs_indptr)).toarray() != 0
    for i in np.flatnonzero(A.place >= 0):
        near[i, : rows.shape[1]] |= rows[A.place[i]]
    return near


# --- against the dense twin


@pytest.mark.thorough(but=7)
@pytest.mark.parametrize("volume", VOLUMES)
@pytest.mark.parametrize("seed", range(40))
def test_sparse_and_dense_descents_end_alike(seed, volume):
    problem, A, weight, w, k, start = case(seed, volume)
    assert problem.penalty == pytest.approx(w)
    sigmas = (0.0, problem.bound)
    found = descend(problem.A, start, k, sigmas, 300)
    labels = oracles.kernel_kmeans(A, weight, _near(problem.A), start, k, sigmas)
    expected = oracles.sskk_objective(A, weight, labels)
    assert found.settled
    assert found.objective == pytest.approx(expected, rel=1e-6, abs=1e-9)
    np.testing.assert_array_equal(found.state.labels, labels)


@given(seeds, st.sampled_from(VOLUMES))
@settings(max_examples=40)
def test_totals_links_and_batch_steps_are_the_dense_ones(seed, volume):
    problem, A, weight, _, k, start = case(seed, volume)
    state = clusters_of(problem.A, start, k)
    H = np.eye(k)[start]
    scale = np.abs(A).sum()
    np.testing.assert_allclose(cluster_links(problem.A, state), A @ H, atol=1e-13 * scale)
    np.testing.assert_allclose(state.inside, np.diag(H.T @ A @ H), atol=1e-13 * scale)
    np.testing.assert_allclose(state.weight, weight @ H)
    assert objective(state) == pytest.approx(oracles.sskk_objective(A, weight, start))
    for sigma in (0.0, 0.3, problem.bound):
        expected = oracles.kernel_step(A, weight, start, k, sigma)
        np.testing.assert_array_equal(lloyd_step(problem.A, state, sigma), expected)


@given(seeds, st.sampled_from(VOLUMES))
@settings(max_examples=40)
def test_the_bound_makes_the_kernel_positive_and_steps_descend(seed, volume):
    problem, A, weight, _, k, start = case(seed, volume)
    root = np.sqrt(weight)
    values = np.linalg.eigvalsh(A / np.outer(root, root) + problem.bound * np.eye(len(A)))
    assert values[0] >= -1e-9 * problem.bound
    state = clusters_of(problem.A, start, k)
    for _ in range(5):
        before = objective(state)
        state = clusters_of(problem.A, lloyd_step(problem.A, state, problem.bound), k)
        assert objective(state) <= before + 1e-9 * problem.bound
        assert state.size.min() > 0


@pytest.mark.thorough
@given(seeds, st.sampled_from(VOLUMES))
@settings(max_examples=40)
def test_sweeps_descend_to_where_no_single_move_helps(seed, volume):
    problem, A, weight, _, k, start = case(seed, volume)
    state = clusters_of(problem.A, start, k)
    awake = np.zeros(start.size, dtype=np.uint8)
    values = [objective(state)]
    while sweep(problem.A, state, awake, every=True):
        values.append(objective(state))
        exact = oracles.sskk_objective(A, weight, state.labels)
        assert values[-1] == pytest.approx(exact, rel=1e-9, abs=1e-9)  # totals drift by rounding
    assert (np.diff(values) < 0).all()
    assert state.size.min() > 0
    for i in np.flatnonzero(state.size[state.labels] > 1):
        for c in range(k):
            moved = state.labels.copy()
            moved[i] = c
            after = oracles.sskk_objective(A, weight, moved)
            assert after >= values[-1] - 1e-8 * (1 + abs(values[-1]))


def test_the_diagonal_of_the_constraints_does_not_matter():
    rng = np.random.default_rng(3)
    W = random_graph(rng, 30)
    Q = np.where(rng.random((30, 30)) < 0.1, rng.standard_normal((30, 30)), 0.0)
    Q = Q + Q.T
    fits = [
        sskk(3).fit(W, constraints=ml.Constraints.from_matrix(Q + shift * np.eye(30)))
        for shift in (0.0, 7.0, -7.0)
    ]
    for est in fits[1:]:
        assert est.report_.extra["objective"] == pytest.approx(fits[0].report_.extra["objective"])
        np.testing.assert_array_equal(est.labels_, fits[0].labels_)


def test_labels_and_the_pairs_they_imply_are_one_problem():
    rng = np.random.default_rng(4)
    W, y = planted_graph(rng, 60, 3)
    some = np.sort(rng.permutation(60)[:15])
    known = np.full(60, -1)
    known[some] = y[some]
    pairs = np.array([(i, j) for i in some for j in some if i < j])
    belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)
    spelt = sskk(3).fit(W, constraints=ml.Constraints.from_pairs(pairs, belief, n_nodes=60))
    short = sskk(3).fit(W, y=known)
    for name in ("penalty", "sigma"):
        assert short.report_.choices[name] == pytest.approx(spelt.report_.choices[name])
    assert short.report_.extra["objective"] == pytest.approx(spelt.report_.extra["objective"])
    np.testing.assert_array_equal(short.labels_, spelt.labels_)


def test_a_closure_is_never_spelt_out():
    n = 40_000
    ring = sp.diags([1.0, 1.0], [1, -(n - 1)], shape=(n, n))
    laplacian = normalized_laplacian(ml.Graph.from_affinity(ring + ring.T))
    y = np.arange(n) * 2 // n
    y[::2] = -1
    problem = penalized(laplacian, ml.Constraints.from_labels(y), 2, "auto", "links")
    assert problem.A.pairs_data.size + problem.A.factor_data.size <= n
    state = clusters_of(problem.A, laplacian.to_working_order(np.arange(n) * 2 // n), 2)
    # Two cuts of one edge each; half the nodes are labelled, and all their must-links count.
    volume = n + 2 * problem.penalty * (n // 4) * (n // 4 - 1) / 2
    assert objective(state) == pytest.approx(2 * 2 / volume, rel=1e-6, abs=1e-12)


# --- end to end


def test_planted_clusters_labels_and_pairs():
    rng = np.random.default_rng(0)
    W, y = planted_graph(rng, 150, 3)
    known = np.full(150, -1)
    known[:20] = y[:20]
    pairs = rng.integers(0, 75, (60, 2)) * 2 + [0, 1]
    belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)
    for side in (
        {},
        {"y": known},
        {"constraints": ml.Constraints.from_pairs(pairs, belief, n_nodes=150)},
    ):
        est = sskk(3).fit(W, **side)
        assert adjusted_rand_score(y, est.labels_) == 1.0
        kept = est.report_.satisfaction
        assert kept is None if not side else kept["kept"] == 1.0
        np.testing.assert_allclose(est.embedding_.sum(axis=1), 1.0)
        np.testing.assert_array_equal(est.embedding_.argmax(axis=1), est.labels_)
        assert not hasattr(est, "eigenvalues_")


def test_constraints_pull_where_the_graph_does_not():
    W, y = planted_graph(np.random.default_rng(1), 90, 3)
    side = np.where(y == 2, 0, 1 - y)  # the classes 0 and 2 as one
    known = np.full(90, -1)
    known[::4] = side[::4]
    est = sskk(2).fit(W, y=known)
    assert est.report_.satisfaction["kept"] == 1.0
    assert adjusted_rand_score(side, est.labels_) > 0.95


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("threads", [1, 2])
def test_without_constraints_it_is_the_normalised_cut(threads):
    rng = np.random.default_rng(5)
    n, k = 30_000, 4  # more entries than one thread is given
    i, j = np.repeat(np.arange(n), 6), rng.integers(0, n // k, 6 * n)
    j = (i // (n // k)) * (n // k) + j
    j[::50] = rng.integers(0, n, j[::50].size)
    W = sp.coo_matrix((0.5 + rng.random(i.size), (i, j)), shape=(n, n)).tocsr()
    W = sp.csr_matrix(W + W.T)
    est = sskk(k, n_jobs=threads).fit(W)
    extra = est.report_.extra
    assert extra["objective"] == pytest.approx(mncut(W, est.labels_), rel=1e-9)
    assert extra["objective"] <= extra["objective_start"]
    assert adjusted_rand_score(np.arange(n) // (n // k), est.labels_) > 0.99
    assert est.report_.satisfaction is None


@pytest.mark.thorough
@given(seeds, st.sampled_from(KINDS), st.sampled_from(STARTS))
@settings(max_examples=40)
def test_every_start_descends_keeps_all_clusters_and_repeats(seed, kind, init):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 5))
    W = random_graph(rng, int(rng.integers(12, 60)), int(rng.integers(1, 4)), 2)
    known = random_constraints(rng, W.shape[0], kind, k)
    est = sskk(k, init=init).fit(W, constraints=known)
    again = clone(est).fit(W, constraints=known)
    np.testing.assert_array_equal(est.labels_, again.labels_)
    alone = np.asarray(W.sum(axis=1)).ravel() == 0
    np.testing.assert_array_equal(est.labels_ < 0, alone)
    np.testing.assert_array_equal(np.unique(est.labels_[~alone]), np.arange(k))
    assert est.embedding_.shape == (W.shape[0], k)
    assert not est.embedding_[alone].any()
    report = est.report_.to_dict()
    assert report["objective"] <= report["objective_start"] + 1e-12
    assert report["objective"] == pytest.approx(min(end for _, end in report["starts"].values()))
    assert report["objective"] >= -1e-12  # with must-links in the degrees nothing can pay


def test_given_clusters_are_the_start_and_unknown_nodes_follow_their_neighbours():
    W, y = planted_graph(np.random.default_rng(2), 120, 3)
    given_labels = np.where(np.arange(120) % 4 == 0, y, -1)
    est = sskk(3, init=given_labels).fit(W)
    assert est.report_.choices["init"] == "given"
    np.testing.assert_array_equal(est.labels_, y)
    settled = sskk(3, init=y).fit(W)
    assert settled.report_.extra["moves"] == settled.report_.extra["iterations"] == 0


def test_the_papers_degrees_let_two_outliers_be_a_cluster():
    rng = np.random.default_rng(0)
    W, y = planted_graph(rng, 80, 2)
    W = W.tolil()
    W[0], W[:, 0] = 0, 0
    W[1], W[:, 1] = 0, 0
    W[0, 5] = W[5, 0] = W[1, 6] = W[6, 1] = 1e-6
    pairs = np.vstack([[0, 1], 2 + rng.permutation(78).reshape(-1, 2)])
    belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)
    belief[0] = 1.0
    known = ml.Constraints.from_pairs(pairs, belief, n_nodes=80)
    outliers = (np.arange(80) < 2).astype(int)
    ends = {
        volume: [
            sskk(2, volume=volume, init=init).fit(W, constraints=known).report_.extra["objective"]
            for init in (outliers, y)
        ]
        for volume in VOLUMES
    }
    assert ends["graph"][0] < -1e4  # the reward of one must-link over the degrees of its ends
    assert ends["graph"][1] > -2
    assert 0 < ends["links"][1] < ends["links"][0]


# --- corners


@pytest.mark.thorough
def test_an_empty_cluster_of_the_start_gets_the_best_node():
    problem, A, weight, _, k, _ = case(11)
    start = np.zeros(len(A), dtype=np.int64)
    state = clusters_of(problem.A, start, k)
    assert fill_empty(problem.A, state) == k - 1
    assert state.size.min() > 0
    trials = [np.where(np.arange(len(A)) == i, 1, 0) for i in range(len(A))]
    best = min(oracles.sskk_objective(A, weight, trial) for trial in trials)
    state = clusters_of(problem.A, start, 2)
    fill_empty(problem.A, state)
    assert oracles.sskk_objective(A, weight, state.labels) == pytest.approx(best)


@pytest.mark.parametrize("missing", [0, 1])
def test_nearly_as_many_clusters_as_nodes(missing):
    rng = np.random.default_rng(6)
    W = random_graph(rng, 25, isolated=3)
    known = ml.Constraints.from_pairs([[0, 1], [2, 3]], [1.0, -1.0], n_nodes=25)
    est = sskk(22 - missing).fit(W, constraints=known)
    assert np.unique(est.labels_[est.labels_ >= 0]).size == 22 - missing


def test_too_few_sweeps_are_told():
    W, _ = planted_graph(np.random.default_rng(8), 200, 4, across=0.2)
    est = sskk(4, init=np.arange(200) % 4, max_iter=1).fit(W)
    assert any("raise max_iter" in note for note in est.report_.notes)
