"""Kinds of constraints weighed against one another: the weighted sum of dense kinds, whatever reads
it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mustlink as ml
import oracles
from mustlink.constraints import links
from mustlink.constraints.constraints import merge_duplicates
from mustlink.constraints.label_groups import DENSE_CORE
from mustlink.discretize.assign import kept_profile
from mustlink.discretize.satisfaction import kept_by_kind, satisfaction
from mustlink.errors import InputError

WEIGHTS = st.sampled_from([0.0, 0.25, 1.0, 3.0])


@st.composite
def known(draw):
    """Pairs, labels and a signed matrix on the same nodes, each of which may be missing."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n = int(rng.integers(4, 12))
    found = ml.Constraints.none(n)
    if rng.random() < 0.7:
        pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(8)])
        found = found + ml.Constraints.from_pairs(pairs, rng.normal(size=8), n_nodes=n)
    if rng.random() < 0.7:
        found = found + ml.Constraints.from_labels(rng.integers(-1, 3, n))
    if rng.random() < 0.5:
        Q = rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.3)
        found = found + ml.Constraints.from_matrix(Q + Q.T)
    return found


def dense(c, must, cannot, labels, graph):
    """Every statement times the weights of its sign and its kind, then added up."""

    def signed(Q):
        return np.where(Q > 0, must, cannot) * Q

    by = np.where(c.belief > 0, must, cannot)
    Q = oracles.pairs_dense(c.pairs[by > 0], (c.belief * by)[by > 0], c.n_nodes)
    if c.labels is not None:
        Q = Q + labels * signed(oracles.labels_dense(c.labels))
    if c.soft is not None:
        Q = Q + graph * signed(c.soft.toarray())
    return Q


@pytest.mark.thorough
@given(known(), WEIGHTS, WEIGHTS, WEIGHTS, WEIGHTS)
@settings(max_examples=150)
def test_q_is_the_weighted_sum_of_the_kinds(c, must, cannot, labels, graph):
    by = {"must": must, "cannot": cannot, "labels": labels, "graph": graph}
    before = c.to_dense()
    found = c.weighted(**by)
    np.testing.assert_allclose(found.to_dense(), dense(c, **by), atol=1e-12)
    np.testing.assert_array_equal(c.to_dense(), before)
    plus, minus = links.must_links(found), links.cannot_links(found)
    both = (plus + minus.times(-1.0)).dot(np.eye(c.n_nodes))
    expected = dense(c, **by)
    np.testing.assert_allclose(both, expected - np.diag(np.diag(expected)), atol=1e-12)
    if not found.is_empty:
        parts = found.split(0.5, 0)
        assert {p.label_weights for p in parts if p.labels is not None} <= {found.label_weights}


@given(known(), st.integers(0, 10**6))
def test_scores_weigh_broken_kinds_alike(c, seed):
    by = {"must": 2.0, "cannot": 0.5, "labels": 3.0, "graph": 0.25}
    labels = np.random.default_rng(seed).integers(0, 3, c.n_nodes)
    found, Q = c.weighted(**by), dense(c, **by)
    apart = labels[:, None] != labels
    i, j = np.triu_indices(c.n_nodes, 1)
    if c.pairs.size == 0 or (c.labels is None and c.soft is None):  # else pairs are said twice
        kept = kept_by_kind(labels, found)
        for kind, part, good in (
            ("must", np.maximum(Q, 0), ~apart),
            ("cannot", np.maximum(-Q, 0), apart),
        ):
            if c.labels is None or c.soft is None:
                assert kept[kind]["weight"] == pytest.approx(part[i, j].sum())
                assert kept[kind]["weight_kept"] == pytest.approx((part * good)[i, j].sum())


def test_of_one_everywhere_nothing_changes():
    c = ml.Constraints.from_labels([0, 1, 1, -1]) + ml.Constraints.from_pairs(
        [[0, 3], [1, 2]], [1, -0.3], n_nodes=4
    )
    same = c.weighted()
    back = same.weighted(must=4).weighted(must=0.25)
    np.testing.assert_array_equal(same.to_dense(), c.to_dense())
    np.testing.assert_array_equal(back.to_dense(), c.to_dense())


@pytest.mark.thorough
@pytest.mark.parametrize(("a", "b"), [(2.0, 0.5), (1.0, 0.0), (0.0, 1.0)])
def test_very_many_classes(a, b):
    n = 2 * (DENSE_CORE + 3)
    y = np.arange(n) // 2
    y[-1] = -1
    c = ml.Constraints.from_labels(y).weighted(must=a, cannot=b)
    Q = oracles.labels_dense(y)
    np.testing.assert_allclose(c.to_dense(), np.where(Q > 0, a, b) * Q, atol=1e-12)
    off = Q - np.diag(np.diag(Q))
    for part, expected in (
        (links.must_links(c), a * np.maximum(off, 0)),
        (links.cannot_links(c), b * np.maximum(-off, 0)),
    ):
        np.testing.assert_allclose(part.dot(np.eye(n)), expected, atol=1e-12)


def test_rows_that_are_one_node_are_weighed_like_their_copies():
    y, rows = np.array([0, 0, 1, -1, 1]), np.array([0, 0, 1, 2, 3])
    c = ml.Constraints.from_labels(y)
    folded, _ = merge_duplicates(c, rows, np.ones(5), 4)
    weighed, P = c.weighted(must=3, labels=0.5), np.eye(4)[rows]
    first = merge_duplicates(weighed, rows, np.ones(5), 4)[0]
    np.testing.assert_allclose(first.to_dense(), folded.weighted(must=3, labels=0.5).to_dense())
    np.testing.assert_allclose(first.to_dense(), P.T @ weighed.to_dense() @ P)
    assert first.split(0.5, 0)[0].label_weights == (1.5, 0.5)


def test_where_beliefs_are_at_most_one_weights_above_count_as_one():
    pair = ml.Constraints.from_pairs([[0, 3]], 0.5, n_nodes=4)
    c = ml.Constraints.from_labels([0, 0, 1, -1]) + pair
    for factor in (1.0, 7.0):
        must, cannot = links.capped_links(c.weighted(labels=factor), np.ones(4))
        plus, minus = oracles.links(c)
        np.testing.assert_allclose(must.dot(np.eye(4)), np.minimum(plus, 1))
        np.testing.assert_allclose(cannot.dot(np.eye(4)), np.minimum(minus, 1))


def test_a_balanced_kind_weighs_its_mean_belief():
    c = ml.Constraints.from_labels([0, 0, 1, 1])
    plain, other = links.balanced(c), links.balanced(c.weighted(must=5, cannot=0.2))
    for one, two, by in zip(plain, other, (5, 0.2), strict=True):
        np.testing.assert_allclose(two.dot(np.eye(4)), by * one.dot(np.eye(4)), rtol=1e-14)


def test_a_split_is_judged_by_what_labels_weigh():
    y = np.array([0, 0, 1, 0])
    vector, nodes = np.array([0.0, 1.0, 2.0, 3.0]), np.arange(4)
    for a, b in ((1.0, 1.0), (4.0, 0.5)):
        c = ml.Constraints.from_labels(y).weighted(must=a, cannot=b)
        _, kept = kept_profile(vector, nodes, c)
        expected = []
        for t in range(3):
            side = nodes > t
            Q = c.to_dense()
            expected.append(-sum(Q[i, j] for i in range(4) for j in range(i) if side[i] != side[j]))
        np.testing.assert_allclose(kept, expected)


@pytest.mark.thorough
def test_methods_follow_the_kind_that_weighs_more():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(c, 0.4, (40, 2)) for c in ((0, 0), (3, 0), (0, 3))])
    truth = np.repeat([0, 1, 2], 40)
    few = np.full(120, -1)
    few[::8] = truth[::8]
    wrong = np.column_stack([np.arange(0, 40), np.arange(40, 80)])
    c = ml.Constraints.from_labels(few) + ml.Constraints.from_pairs(wrong, 1, n_nodes=120)
    graph = ml.knn_graph(X, 10, random_state=0)
    for make in (ml.CSP, ml.SSSC, ml.SpectralLearning):
        est = make(3, affinity="precomputed", random_state=0)
        found = est.fit(graph, constraints=c.weighted(must=1e-4, labels=1e4)).labels_
        assert satisfaction(found, ml.Constraints.from_labels(truth))["kept"] > 0.95


def test_errors_are_one_line():
    c = ml.Constraints.from_labels([0, 1, 1]) + ml.Constraints.from_pairs([[0, 1]], -1, n_nodes=3)
    with pytest.raises(InputError, match="must has weight -1; give at least 0"):
        c.weighted(must=-1)
    with pytest.raises(InputError, match="labels"):
        c.weighted(labels=float("nan"))
    with pytest.raises(InputError, match="must: 'two' is not a number"):
        c.weighted(must="two")
    assert (c.weighted(must="2").to_dense() == c.weighted(must=2).to_dense()).all()
    with pytest.raises(InputError, match="closure"):
        c.closure().weighted(must=2)
    with pytest.raises(InputError, match="closure"):
        c.weighted(labels=2).closure()
    with pytest.raises(InputError, match="add them, then weigh"):
        ml.Constraints.from_labels([0, 1, 1]) + c.weighted(labels=2)
    assert c.weighted(must=0, cannot=0).is_empty
