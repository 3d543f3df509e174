"""Soft labels with beliefs: the matrix pair by pair, whatever reads it, in every clusterer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

import mustlink as ml
import oracles
from cases import random_graph
from mustlink.constraints import Constraints
from mustlink.constraints.constraints import merge_duplicates
from mustlink.constraints.links import balanced, cannot_links, must_links, n_links
from mustlink.discretize.assign import kept_profile
from mustlink.discretize.satisfaction import kept_by_kind, satisfaction
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.operators import constraint_operator as constraint_module
from mustlink.operators.constraint_operator import constraint_operator
from mustlink.operators.laplacian import normalized_laplacian

seeds = st.integers(0, 2**31)


def told(rng, n, k):
    """Distributions of which some are certain, some say nothing, and some are not believed."""
    Y = rng.dirichlet(np.ones(k), n)
    sure = rng.random(n) < 0.3
    Y[sure] = np.eye(k)[rng.integers(k, size=sure.sum())]
    u = np.where(sure & (rng.random(n) < 0.5), 1.0, rng.random(n))
    u[rng.random(n) < 0.2] = 0.0
    Y[rng.random(n) < 0.1] = np.nan
    return Y, u


def dense_of(Y, u, *weights):
    silent = np.isnan(Y).all(axis=1)
    return oracles.soft_labels_dense(np.nan_to_num(Y), np.where(silent, 0, u), *weights)


def as_dense(M):
    return M.dot(np.eye(M.matrix.shape[0]))


@pytest.mark.thorough
@given(seeds)
@settings(max_examples=100, deadline=None)
def test_the_matrix_and_its_links_pair_by_pair(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(3, 14)), int(rng.integers(2, 5))
    Y, u = told(rng, n, k)
    c = Constraints.from_soft_labels(Y, u)
    must, cannot, Q = dense_of(Y, u)
    np.testing.assert_allclose(c.to_dense(), Q, atol=1e-14)
    np.testing.assert_allclose(c.dot(np.eye(n)), Q, atol=1e-14)
    assert c.factor is None or c.factor.shape[1] <= k + 1
    np.testing.assert_allclose(as_dense(must_links(c)), must, atol=1e-14)
    np.testing.assert_allclose(as_dense(cannot_links(c)), cannot, atol=1e-14)
    a, b = rng.choice([0.0, 0.5, 3.0], 2)
    weighed = c.weighted(must=a, cannot=b)
    must, cannot, Q = dense_of(Y, u, a, b)
    np.testing.assert_allclose(weighed.to_dense(), Q, atol=1e-13)
    np.testing.assert_allclose(as_dense(must_links(weighed)), must, atol=1e-13)
    np.testing.assert_allclose(as_dense(cannot_links(weighed)), cannot, atol=1e-13)
    some = rng.permutation(n)[: n // 2 + 1]
    np.testing.assert_allclose(c[some].to_dense(), c.to_dense()[np.ix_(some, some)], atol=1e-14)


@pytest.mark.thorough
@given(seeds)
@settings(max_examples=100, deadline=None)
def test_as_the_operator_on_a_graph(seed):
    """D^-½QD^-½ by products, its form and its eigenvalues, against the dense matrix."""
    rng = np.random.default_rng(seed)
    W = random_graph(rng, 14)
    Y, u = told(rng, 14, 3)
    graph = Graph.from_affinity(W)
    L = normalized_laplacian(graph)
    op = constraint_operator(Constraints.from_soft_labels(Y, u), L)
    scale = 1 / L.root_degree
    wanted = scale[:, None] * dense_of(Y, u)[2][np.ix_(L.nodes, L.nodes)] * scale
    X = rng.normal(size=(L.size, 3))
    np.testing.assert_allclose(op.apply(X), wanted @ X, atol=1e-12)
    np.testing.assert_allclose(op.within(X), X.T @ wanted @ X, atol=1e-12)
    values = np.linalg.eigvalsh(wanted)
    assert op.kth_largest(1) == pytest.approx(max(values.max(), 0), abs=1e-10)


@pytest.mark.thorough
@given(seeds)
@settings(max_examples=60, deadline=None)
def test_what_clusters_keep_of_them(seed):
    """Expected links of either kind, kept or broken, counted pair by pair."""
    rng = np.random.default_rng(seed)
    n, k = 12, 3
    Y, u = told(rng, n, k)
    c, found = Constraints.from_soft_labels(Y, u), rng.integers(-1, 3, n)
    if c.is_empty:
        return
    there = np.triu((found >= 0)[:, None] & (found >= 0)[None], 1)
    same = found[:, None] == found[None]
    must, cannot, _ = dense_of(Y, u)
    kinds = kept_by_kind(found, c)
    for name, P, kept in (("must", must, same), ("cannot", cannot, ~same)):
        assert kinds[name]["weight"] == pytest.approx((P * there).sum())
        assert kinds[name]["weight_kept"] == pytest.approx((P * there * kept).sum(), abs=1e-12)
    told_of = np.zeros(n)
    told_of[c.nodes] = 1
    certain_must, certain_cannot, _ = dense_of(np.nan_to_num(Y), told_of)
    shares = satisfaction(found, c)
    about = np.triu(np.outer(told_of, told_of), 1)
    out = (found < 0)[:, None] | (found < 0)[None]
    assert shares["n_unclustered"] == (about * out).sum()
    for name, P, kept in (("must", certain_must, same), ("cannot", certain_cannot, ~same)):
        if (P * there).sum() > 1e-9:
            wanted = (P * there * kept).sum() / (P * there).sum()
            assert shares[f"{name}_kept"] == pytest.approx(wanted)
    counts = c.counts()
    assert counts["must"] == round(np.triu(certain_must, 1).sum())
    assert counts["nodes"] == counts["labelled"] == told_of.sum()
    for links, counted, (P, U) in zip(
        balanced(c),
        (must_links, cannot_links),
        ((must, certain_must), (cannot, certain_cannot)),
        strict=True,
    ):  # of either kind the mean belief, WHC11 eq. 11
        if U.sum() > 1e-9:
            assert n_links(links) == pytest.approx(P.sum() / U.sum())
            assert n_links(counted(c)) == pytest.approx(P.sum() / 2)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_the_cut_of_one_vector_that_keeps_most(seed):
    rng = np.random.default_rng(seed)
    Y, u = told(rng, 10, 3)
    c = Constraints.from_soft_labels(Y, u)
    nodes = c.nodes
    if nodes.size < 2:
        return
    vector = rng.normal(size=nodes.size)
    _, kept = kept_profile(vector, nodes, c)
    must, cannot, _ = dense_of(Y, u)
    order = nodes[np.argsort(vector)]
    for t in range(nodes.size - 1):
        split = np.ix_(order[: t + 1], order[t + 1 :])
        assert kept[t] == pytest.approx((cannot - must)[split].sum(), abs=1e-12)


@pytest.mark.thorough
@given(seeds)
@settings(max_examples=40, deadline=None)
def test_equal_rows_are_one_node(seed):
    """Q' = PᵀQP and the links between copies, as of the repeated problem."""
    rng = np.random.default_rng(seed)
    n, m = 10, 6
    Y, u = told(rng, n, 3)
    rows = np.concatenate([np.arange(m), rng.integers(m, size=n - m)])
    u = np.minimum(u, 0.9)  # labels of one node that differ are another matter
    c = Constraints.from_soft_labels(Y, u)
    folded, _ = merge_duplicates(c, rows, np.ones(n), m)
    P = np.zeros((n, m))
    P[np.arange(n), rows] = 1
    np.testing.assert_allclose(folded.to_dense(), P.T @ c.to_dense() @ P, atol=1e-12)
    whole = (must_links(c), cannot_links(c), *balanced(c))
    parts = (must_links(folded), cannot_links(folded), *balanced(folded))
    for one, other in zip(parts, whole, strict=True):
        np.testing.assert_allclose(as_dense(one), P.T @ as_dense(other) @ P, atol=1e-12)


def test_certain_rows_are_labels():
    """One class with belief 1 is a label: the same constraints as from_labels, to the last bit."""
    y = np.array([0, 2, -1, 1, 1, -1])
    Y = np.where(y[:, None] >= 0, np.eye(3)[y], np.nan)
    for belief in (1.0, None, np.ones(6)):
        c, plain = Constraints.from_soft_labels(Y, belief), Constraints.from_labels(y)
        assert c.kind == "labels"
        np.testing.assert_array_equal(c.labels, y)
        np.testing.assert_array_equal(c.to_dense(), plain.to_dense())
    half = Constraints.from_soft_labels(Y, 0.5)
    assert half.kind == "soft labels"
    np.testing.assert_allclose(half.to_dense(), plain.to_dense() / 4)


def test_beliefs_by_themselves():
    """Without belief: 1 for one class, 0 for all alike."""
    Y = [[1, 0, 0], [1 / 3, 1 / 3, 1 / 3], [0.6, 0.4, 0.0]]
    c = Constraints.from_soft_labels(Y)
    np.testing.assert_array_equal(c.labels, [0, -1, -1])
    np.testing.assert_allclose(c.soft_labels.belief, [0, 0, 0.4])
    assert c.nodes.tolist() == [0, 2]


def test_labels_and_soft_labels_together():
    rng = np.random.default_rng(0)
    Y, u = rng.dirichlet(np.ones(3), 8), np.full(8, 0.4)
    y = np.array([0, 2, -1, -1, 1, -1, -1, -1])
    both = Constraints.from_soft_labels(Y, u) + Constraints.from_labels(y)
    Y[y >= 0], u[y >= 0] = np.eye(3)[y[y >= 0]], 1.0
    np.testing.assert_allclose(both.to_dense(), dense_of(Y, u)[2], atol=1e-14)
    other = Constraints.from_labels(y) + Constraints.from_soft_labels(Y, u)
    np.testing.assert_array_equal(other.to_dense(), both.to_dense())
    assert both.classes.tolist() == [0, 1, 2]
    named = Constraints.from_labels(2 * y + (y < 0)) + Constraints.from_soft_labels(
        Y, np.where(y < 0, u, 0), classes=[0, 2, 4]
    )
    np.testing.assert_allclose(named.to_dense(), both.to_dense())
    kept, held = both.split(0.5, 0)
    assert np.intersect1d(kept.nodes, held.nodes).size == 0
    np.testing.assert_array_equal((kept + held).to_dense(), both.to_dense())
    pairs = Constraints.from_pairs([(0, 5), (2, 3)], [1.0, -1.0], n_nodes=8)
    np.testing.assert_allclose((both + pairs).to_dense(), both.to_dense() + pairs.to_dense())
    with pytest.raises(InputError, match="which soft labels are not"):
        (both + pairs).closure()


Y3 = np.full((4, 2), 0.5)
WRONG = {
    "one class": (lambda: Constraints.from_soft_labels(np.ones((4, 1))), "two classes or more"),
    "no shares": (lambda: Constraints.from_soft_labels(Y3 * 1.1), "row 0 is no distribution"),
    "belief": (lambda: Constraints.from_soft_labels(Y3, 2.0), "between 0 .* and 1"),
    "beliefs": (lambda: Constraints.from_soft_labels(Y3, [1, 1]), r"shape \(2,\) for 4 nodes"),
    "class": (
        lambda: Constraints.from_soft_labels(Y3, 0.5) + Constraints.from_labels([3, -1, -1, -1]),
        "node 0 is labelled 3, for which soft labels have no column",
    ),
    "twice": (
        lambda: Constraints.from_soft_labels(Y3, 0.5) + Constraints.from_soft_labels(Y3, 0.2),
        "node 0 has two soft labels",
    ),
    "classes": (lambda: Constraints.from_soft_labels(Y3, classes=[1, 0]), "columns' classes"),
    "in nothing": (
        lambda: ml.CSP(2).fit(np.random.default_rng(0).normal(size=(20, 2)), belief=1),
        "belief: no prior",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told(name):
    call, words = WRONG[name]
    with pytest.raises(InputError, match=words):
        call()


METHODS = {
    "csp": ml.CSP,
    "balanced csp": lambda k: ml.CSP(k, balanced=True),
    "exact csp": lambda k: ml.CSP(k, subspace="exact"),
    "srcp": ml.SRCP,
    "e2cp": ml.E2CP,
    "sssc": ml.SSSC,
    "sl": ml.SpectralLearning,
    "sskk": ml.SSKK,
    "ap": ml.ConstrainedAP,
    "ap on affinities": lambda k: ml.ConstrainedAP(k, prior="affinity"),
    "fast-ge": ml.FastGE,
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", METHODS)
def test_every_clusterer_takes_them(name):
    """Overlapping groups: distributions that are mostly right bring clusters nearer to them.

    A prior beside labels is the same as the constraints; a certain one is the same as labels.
    """
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1, 2], 60)
    X = rng.normal(size=(180, 5))
    X[:, :3] += 1.6 * np.eye(3)[y]
    P = 0.75 * np.eye(3)[np.where(rng.random(180) < 0.85, y, rng.integers(3, size=180))] + 0.25 / 3
    made = METHODS[name]

    def fitted(**given):
        est = made(3).set_params(random_state=0)
        return est.fit(X, **given)

    def right(est):
        from mustlink_io.jobs.score import agreement

        return agreement(est.labels_, y)["accuracy"]

    few = np.where(np.arange(180) % 30 == 0, y, -1)
    soft, plain = fitted(y=few, prior=P, belief=0.5), fitted(y=few)
    if name != "ap on affinities":  # to be on another side than many is made for two clusters
        assert right(soft) > right(plain)
    c = Constraints.from_labels(few) + Constraints.from_soft_labels(P, 0.5)
    np.testing.assert_array_equal(fitted(constraints=c).labels_, soft.labels_)
    hard = np.where(few[:, None] >= 0, np.eye(3)[few], np.nan)
    np.testing.assert_array_equal(fitted(prior=hard).labels_, plain.labels_)
    assert soft.report_.satisfaction["balanced"] > 0.5
    alone = made(None).set_params(random_state=0).fit(X, prior=P)
    assert alone.report_.n_clusters == 3


@pytest.mark.parametrize("made", [ml.CSP, ml.E2CP, ml.SRCP])
def test_the_same_problem_as_of_the_dense_matrix(made):
    rng = np.random.default_rng(3)
    W = random_graph(rng, 40)
    Y, u = told(rng, 40, 3)
    c = Constraints.from_soft_labels(Y, u)
    exact = {"beta": 0.2, "subspace": "exact"} if made is ml.CSP else {}
    how = {"affinity": "precomputed", "random_state": 0, **exact}
    one = made(3, **how).fit(W, constraints=c)
    other = made(3, **how).fit(W, constraints=Constraints.from_matrix(c.to_dense()))
    np.testing.assert_allclose(one.eigenvalues_, other.eigenvalues_, atol=1e-7)


def test_labels_spread_with_a_prior_before_the_kernel():
    """CSC+GFHF: the harmonic values are those of GFHF with the same prior."""
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1], 40)
    X = rng.normal(size=(80, 3)) + 2.5 * y[:, None]
    few, P = np.where(np.arange(80) % 20 == 0, y, -1), rng.dirichlet([1, 1], 80)
    est = ml.CSCGFHF(2, random_state=0).fit(X, few, prior=P, belief=0.3)
    wanted = ml.GFHF(class_mass=True).fit(X, few, prior=P, belief=0.3).label_distributions_
    np.testing.assert_allclose(est.propagated_, wanted, atol=1e-8)
    with pytest.raises(InputError, match="belief: no prior"):
        ml.CSCGFHF(2).fit(X, few, belief=0.3)


@pytest.mark.thorough
@pytest.mark.parametrize("made", [ml.SSSC, ml.FastGE, ml.ConstrainedAP, ml.SSKK])
def test_wrong_ones_do_less_harm_than_wrong_labels(made):
    """Outputs of a weak classifier on three columns of wines, as they are and as labels."""
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    gains = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        order = rng.permutation(y.size)
        few = np.full(y.size, -1)
        for c in range(3):
            few[order[y[order] == c][:3]] = c
        seen, columns = order[: y.size // 5], rng.permutation(X.shape[1])[:2]
        weak = GaussianNB().fit(X[seen][:, columns], y[seen])
        P = weak.predict_proba(X[:, columns])
        hard = np.where(few >= 0, few, P.argmax(axis=1))
        soft, firm = (
            made(3).set_params(random_state=0).fit(X, **given).labels_
            for given in ({"y": few, "prior": P}, {"y": hard})
        )
        out = few < 0
        gains.append(
            adjusted_rand_score(y[out], soft[out]) - adjusted_rand_score(y[out], firm[out])
        )
    assert np.mean(gains) > 0, gains


def test_ends_of_the_spectrum_of_many_nodes(monkeypatch):
    """Where not all eigenvalues can be had the two ends are enough, and are the dense ones."""
    rng = np.random.default_rng(5)
    W = random_graph(rng, 60)
    Y, u = told(rng, 60, 3)
    c = Constraints.from_soft_labels(Y, u) + Constraints.from_pairs([(0, 1)], n_nodes=60)
    L = normalized_laplacian(Graph.from_affinity(W))
    whole = constraint_operator(c, L).spread
    monkeypatch.setattr(constraint_module, "_DENSE_SUPPORT", 10)
    assert constraint_operator(c, L).spread == pytest.approx(whole, rel=1e-5)
