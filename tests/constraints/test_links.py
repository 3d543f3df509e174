"""Must-links and cannot-links apart, their Laplacians, and what they overwrite, pair by pair."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from cases import KINDS, random_constraints, random_graph
from mustlink.clusterers.spectral_learning import overwritten
from mustlink.constraints import Constraints
from mustlink.constraints import label_groups as labels_module
from mustlink.constraints.links import (
    acting,
    balanced,
    cannot_links,
    diagonal,
    difference_form,
    must_links,
    n_links,
    sum_form,
)
from mustlink.constraints.pairs import NodeMatrix
from mustlink.graph import Graph

seeds = st.integers(0, 2**31)
N = 24


def dense(M):
    return M.dot(np.eye(M.matrix.shape[0]))


def drawn(seed, kind):
    return random_constraints(np.random.default_rng(seed), N, kind, k=4)


@pytest.fixture(params=["dense core", "bordered core"])
def core(request, monkeypatch):
    """Very many classes have one more column of the factor; here, three or more."""
    if request.param == "bordered core":
        monkeypatch.setattr(labels_module, "DENSE_CORE", 2)


# --- P⁺ and P⁻


@pytest.mark.thorough(but=2)
@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("kind", KINDS)
def test_links_are_those_given_pair_by_pair(kind):
    for seed in range(40):
        known = drawn(seed, kind)
        must, cannot = must_links(known), cannot_links(known)
        expected = oracles.links(known)
        np.testing.assert_allclose(dense(must), expected[0], atol=1e-14)
        np.testing.assert_allclose(dense(cannot), expected[1], atol=1e-14)
        Q = known.to_dense()
        off = ~np.eye(N, dtype=bool)
        np.testing.assert_allclose((dense(must) - dense(cannot))[off], Q[off], atol=1e-14)
        for P, dense_twin in zip((must, cannot), expected, strict=True):
            assert n_links(P) == pytest.approx(np.triu(dense_twin).sum())


@pytest.mark.usefixtures("core")
@given(seeds)
@settings(max_examples=40, deadline=None)
def test_links_of_a_closure_are_those_implied(seed):
    """Certain pairs and labels that agree, closed: groups as low rank, the rest sparse."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 5, N)
    pairs = np.array([rng.choice(N, 2, replace=False) for _ in range(15)])
    belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0) * rng.choice([1, 0.4], 15)
    label = np.where(rng.random(N) < 0.3, y, -1)
    given = Constraints.from_pairs(pairs, belief, n_nodes=N) + Constraints.from_labels(label)
    closed = given.closure()
    Q = closed.to_dense()
    np.fill_diagonal(Q, 0)
    np.testing.assert_allclose(dense(must_links(closed)), np.maximum(Q, 0), atol=1e-14)
    np.testing.assert_allclose(dense(cannot_links(closed)), np.maximum(-Q, 0), atol=1e-14)


def test_cliques_of_labelled_nodes_stay_low_rank():
    n = 3000
    y = np.arange(n) % 3
    known = Constraints.from_labels(y)
    W = sp.csr_matrix(sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(n, n)))
    must, cannot = must_links(known), cannot_links(known)
    made = [must, cannot, difference_form(must) + sum_form(cannot), *balanced(known)]
    made += [overwritten(Graph.from_affinity(W), known), acting(must, np.ones(n))]
    for M in made:
        assert M.matrix.nnz <= 3 * n
        assert M.factor.nnz <= 2 * n
    assert n_links(must) == 3 * (1000 * 999 // 2)
    assert n_links(cannot) == 3 * 1000 * 1000


def test_nothing_and_one_label_are_no_links():
    for known in (Constraints.none(5), Constraints.from_labels([-1, 3, -1, -1, -1])):
        for P in (must_links(known), cannot_links(known), *balanced(known)):
            assert not dense(P).any()
            assert n_links(P) == 0.0


def test_opposite_beliefs_about_a_pair():
    """Pairs given twice count with their mean; a label and a pair may still disagree."""
    twice = Constraints.from_pairs([[0, 1], [1, 0], [1, 2], [2, 1]], [1, -1, 1, -0.5], n_nodes=4)
    assert not cannot_links(twice).matrix.nnz
    assert dense(must_links(twice))[1, 2] == 0.25
    assert np.count_nonzero(dense(must_links(twice))) == 2
    both = Constraints.from_labels([0, 0, -1, 1]) + Constraints.from_pairs(
        [[0, 1], [0, 3]], [-0.5, 2.0], n_nodes=4
    )
    must, cannot = dense(must_links(both)), dense(cannot_links(both))
    assert (must[0, 1], cannot[0, 1]) == (1.0, 0.5)
    assert (must[0, 3], cannot[0, 3]) == (2.0, 1.0)


# --- arithmetic and forms


@pytest.mark.usefixtures("core")
@given(seeds, st.sampled_from(KINDS), st.sampled_from(KINDS))
@settings(max_examples=40, deadline=None)
def test_arithmetic_is_that_of_dense_matrices(seed, one, other):
    rng = np.random.default_rng(seed)
    A, B = must_links(drawn(seed, one)), cannot_links(drawn(seed + 1, other))
    before = dense(A), dense(B)
    X, s = rng.standard_normal((N, 3)), rng.random(N)
    pattern = sp.csr_matrix(rng.random((N, N)) < 0.2, dtype=np.float64)
    a, b = before
    np.testing.assert_allclose(A.dot(X), a @ X, atol=1e-13)
    np.testing.assert_allclose(A.dot(X[:, 0]), a @ X[:, 0], atol=1e-13)
    np.testing.assert_allclose(A.sums(), a.sum(axis=1), atol=1e-13)
    np.testing.assert_allclose(dense(A.times(-0.3)), -0.3 * a, atol=1e-13)
    np.testing.assert_allclose(dense(A.between(s)), s[:, None] * a * s, atol=1e-13)
    np.testing.assert_allclose(dense(A + B), a + b, atol=1e-13)
    np.testing.assert_allclose(dense(B + A), a + b, atol=1e-13)
    np.testing.assert_allclose(dense(diagonal(s)), np.diag(s))
    kept = (A + B).on_pattern(pattern)
    np.testing.assert_allclose(kept.toarray(), (a + b) * pattern.toarray(), atol=1e-13)
    assert not A.on_pattern(sp.csr_matrix((N, N))).nnz
    np.testing.assert_array_equal(dense(A), before[0])
    np.testing.assert_array_equal(dense(B), before[1])


@pytest.mark.usefixtures("core")
@given(seeds, st.sampled_from(KINDS))
@settings(max_examples=40, deadline=None)
def test_forms_are_sums_over_pairs(seed, kind):
    known = drawn(seed, kind)
    x = np.random.default_rng(seed).standard_normal(N)
    for P, M in zip(oracles.links(known), (must_links(known), cannot_links(known)), strict=True):
        apart = sum(P[i, j] * (x[i] - x[j]) ** 2 for i in range(N) for j in range(i))
        same = sum(P[i, j] * (x[i] + x[j]) ** 2 for i in range(N) for j in range(i))
        size = (P.sum() + 1) * (x @ x)
        assert x @ difference_form(M).dot(x) == pytest.approx(apart, abs=1e-13 * size)
        assert x @ sum_form(M).dot(x) == pytest.approx(same, abs=1e-13 * size)


@given(seeds, st.sampled_from(KINDS))
@settings(max_examples=40, deadline=None)
def test_links_to_nodes_without_an_edge_do_not_act(seed, kind):
    W = random_graph(np.random.default_rng(seed), N, 2, isolated=4).toarray()
    known = drawn(seed, kind)
    for P, M in zip(oracles.links(known), (must_links(known), cannot_links(known)), strict=True):
        found = dense(acting(M, W.sum(axis=1)))
        np.testing.assert_allclose(found, oracles.acting(P, W), atol=1e-14)
        assert not found[W.sum(axis=1) == 0].any()


@given(seeds, st.sampled_from(KINDS))
@settings(max_examples=40, deadline=None)
def test_balanced_kinds_weigh_their_mean_belief(seed, kind):
    known = drawn(seed, kind)
    must, cannot = balanced(known)
    expected = oracles.balanced(*oracles.links(known))
    np.testing.assert_allclose(dense(must) - dense(cannot), expected, atol=1e-14)
    for part, given_ in zip((must, cannot), oracles.links(known), strict=True):
        beliefs = given_[np.triu(given_) > 0]
        assert n_links(part) == pytest.approx(beliefs.mean() if beliefs.size else 0.0)


# --- the overwritten affinity of spectral learning


@given(seeds, st.sampled_from(["pairs", "labels", "soft"]), st.sampled_from([1.0, 3.0]))
@settings(max_examples=60, deadline=None)
def test_overwritten_affinity_is_the_papers(seed, kind, heaviest):
    rng = np.random.default_rng(seed)
    W = random_graph(rng, N, 2, isolated=3).toarray()
    W[0, 0] = 0.7 * W[0].any()  # a loop stays as it is
    W *= heaviest
    known = drawn(seed, kind)
    links = (oracles.acting(P, W) for P in oracles.links(known))
    change = overwritten(Graph.from_affinity(W), known)
    np.testing.assert_allclose(W + dense(change), oracles.overwritten(W, *links), atol=1e-13)


def test_overwritten_affinity_in_numbers():
    W = np.array([[0, 0.5, 0.2, 0.1], [0.5, 0, 0, 0], [0.2, 0, 0, 0.4], [0.1, 0, 0.4, 0]])
    known = Constraints.from_pairs(
        [[0, 1], [1, 2], [0, 3], [2, 3]], [-1.0, 0.6, 0.5, -3.0], n_nodes=4
    )
    W2 = W + dense(overwritten(Graph.from_affinity(W), known))
    expected = np.array([[0, 0, 0.2, 0.55], [0, 0, 0.6, 0], [0.2, 0.6, 0, 0], [0.55, 0, 0, 0]])
    np.testing.assert_allclose(W2, expected, atol=1e-15)


def test_a_must_link_said_twice_is_still_one():
    W = random_graph(np.random.default_rng(0), N).toarray()
    label = np.where(np.arange(N) < 6, 0, -1)
    known = Constraints.from_labels(label) + Constraints.from_pairs([[0, 1]], n_nodes=N)
    W2 = W + dense(overwritten(Graph.from_affinity(W), known))
    assert W2[0, 1] == pytest.approx(max(1.0, W.max()))


def test_node_matrices_know_no_factor_or_have_one():
    M = NodeMatrix(sp.csr_matrix(np.eye(2)))
    F = NodeMatrix(sp.csr_matrix((2, 2)), sp.csr_matrix([[1.0], [2.0]]), np.array([[3.0]]))
    np.testing.assert_array_equal(dense(M + M), 2 * np.eye(2))
    np.testing.assert_array_equal(dense(F), [[3, 6], [6, 12]])
    np.testing.assert_array_equal(dense(M + F), [[4, 6], [6, 13]])
    np.testing.assert_array_equal(dense(F + F), [[6, 12], [12, 24]])
