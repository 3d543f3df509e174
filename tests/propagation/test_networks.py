"""Labels spread over networks: equal masses, the block model, ways chosen by labels held out."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import mustlink as ml
from cases import blobs, labelled, random_graph
from mustlink.core.observe import Deadline, Recorder, Unheard
from mustlink.discretize.cuts import BlockModel, refine
from mustlink.errors import DoubtfulResultWarning, InputError
from mustlink.operators.laplacian import normalized_laplacian
from mustlink.propagation.answers import warn_of_held_out
from mustlink.propagation.gfhf import explained_variance_ratio
from mustlink.propagation.held_out import best_way

GIVEN = {"affinity": "precomputed", "random_state": 0}


def network(rng, n=400, k=4, inside=0.06, across=0.01):
    """A block model with hubs: (CSR, classes)."""
    y = rng.integers(0, k, n)
    size = 0.3 + rng.pareto(2.5, n)
    rate = np.where(y[:, None] == y, inside, across) * np.outer(size, size)
    A = np.triu(rng.random((n, n)) < rate, 1)
    return sp.csr_matrix((A + A.T).astype(float)), y


@pytest.mark.parametrize(
    ("method", "of_points"), [(ml.GFHF, False), (lambda **p: ml.LLGC(alpha=0.9, **p), False)]
)
def test_classes_have_equal_masses_on_networks_only(method, of_points):
    rng = np.random.default_rng(0)
    W, y = network(rng)
    known = labelled(y, 3, rng)
    usual = method(**GIVEN).fit(W, known)
    equal = method(class_mass="equal", **GIVEN).fit(W, known)
    assert (usual.label_distributions_ == equal.label_distributions_).all()
    X, y = blobs(rng, 100, 3)
    known = labelled(y, 3, rng)
    usual, plain = method().fit(X, known), method(class_mass=of_points).fit(X, known)
    assert (usual.label_distributions_ == plain.label_distributions_).all()
    kernel = ml.rbf_graph(X).affinity.toarray()
    usual, plain = (method(class_mass=c, **GIVEN).fit(kernel, known) for c in ("auto", of_points))
    assert (usual.label_distributions_ == plain.label_distributions_).all()


@pytest.mark.parametrize("per_class", [[1, 2, 1], [40, 40, 40]])
def test_masses_of_points_are_scaled_where_values_hardly_differ(per_class):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(300, 8)), np.repeat(np.arange(3), 100)
    X[y > 0, 0] += np.where(y[y > 0] == 1, 1, -1) * (2.0 + per_class[0] / 10)
    known = labelled(y, per_class, rng)
    found = ml.GFHF().fit(X, known)
    F = ml.GFHF(class_mass=False).fit(X, known).label_distributions_[known < 0]
    between = ((F - F.mean(axis=0)) ** 2).sum() / (F.mean(axis=0) * (1 - F.mean(axis=0))).sum()
    assert explained_variance_ratio(F, np.ones(len(F))) == pytest.approx(between / len(F))
    assert (between < len(F) / 4) == (per_class[0] == 1)
    shares = np.add(per_class, 10 / round(between / len(F), 2))
    shares = shares / shares.sum() if between < len(F) / 4 else False
    assert np.allclose(found.report_.choices["class_mass"], shares, atol=1e-6)
    same = ml.GFHF(class_mass=shares).fit(X, known)
    np.testing.assert_allclose(found.label_distributions_, same.label_distributions_, atol=1e-12)


@given(st.integers(1, 6), st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_rows_that_count_twice_tell_apart_as_if_repeated(m, k, seed):
    rng = np.random.default_rng(seed)
    F, counts = rng.dirichlet(np.ones(k), m), rng.integers(1, 4, m)
    repeated = np.repeat(F, counts, axis=0)
    once = explained_variance_ratio(repeated, np.ones(len(repeated)))
    assert explained_variance_ratio(F, counts.astype(float)) == pytest.approx(once, abs=1e-12)
    assert -1e-12 <= once <= 1 + 1e-12
    assert explained_variance_ratio(np.eye(k), np.ones(k)) == pytest.approx(1)
    assert explained_variance_ratio(F[[0, 0]], np.ones(2)) == pytest.approx(0, abs=1e-12)


def test_labels_travel_less_far_where_they_are_many():
    rng = np.random.default_rng(4)
    X, y = blobs(rng, 1000, 3)
    for share, alpha in ((0.5, 0.9), (0.01, 0.95), (0.002, 0.99)):
        known = np.full(1000, -1)
        some = np.concatenate([np.flatnonzero(y == c)[:1] for c in range(3)])
        some = np.union1d(some, rng.choice(1000, max(0, round(1000 * share) - 3), replace=False))
        known[some] = y[some]
        found = ml.LLGC().fit(X, known)
        expected = 1 - min(max(5 * some.size / 1000, 0.01), 0.1)
        assert found.report_.choices["alpha"] == pytest.approx(expected)
        assert expected == pytest.approx(alpha, abs=0.01)


def test_refined_answers_are_those_of_the_block_model():
    rng = np.random.default_rng(1)
    W, y = network(rng)
    known = labelled(y, 5, rng)
    graph = ml.Graph.from_affinity(W)
    first = ml.GFHF(**GIVEN).fit(graph, known)
    second = ml.GFHF(refine=True, **GIVEN).fit(graph, known)
    laplacian = normalized_laplacian(graph)
    start = np.where(known >= 0, known, first.labels_)[laplacian.nodes]
    reached = laplacian.reached_from(known[laplacian.nodes] >= 0)
    start = np.where(known >= 0, known, first.labels_)[reached.nodes]
    held = known[reached.nodes] >= 0
    unit = W.data.mean()
    model = refine(BlockModel(reached, start, 4, unit), held, reached.nodes, second._seed())
    possible = np.ones((reached.null.n_components, 4), dtype=bool)
    P = np.where(held[:, None], np.eye(4)[start], model.distributions(possible))
    np.testing.assert_allclose(second.label_distributions_[reached.nodes], P, atol=1e-12)
    right = [np.mean((one.labels_ == y)[known < 0]) for one in (first, second)]
    assert right[1] > right[0]


@pytest.mark.thorough(but=5)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", [ml.GFHF, ml.LLGC, ml.Poisson, ml.TikReg, ml.GreenFunction])
def test_refined_answers_on_hard_graphs(method, seed):
    """Several parts, lone nodes, parts without a label, classes of one label."""
    rng = np.random.default_rng(seed)
    W = random_graph(rng, 60, 3, isolated=5, weighted=seed % 2 == 0)
    known = np.where(rng.random(60) < 0.2, rng.integers(0, 3, 60), -1)
    known[:2] = [0, 1]
    est = method(refine=True, **GIVEN).fit(W, known)
    P = est.label_distributions_
    answered = P.any(axis=1)
    np.testing.assert_allclose(P.sum(axis=1)[answered], 1.0)
    assert (est.labels_ == np.where(answered, est.classes_[P.argmax(axis=1)], -1)).all()
    assert (est.labels_[known >= 0] == known[known >= 0]).all()
    parts = ml.Graph.from_affinity(W).components
    for part in np.unique(parts):
        there = np.unique(known[(parts == part) & (known >= 0)])
        assert np.isin(est.labels_[parts == part], there if there.size else -1).all()


def test_what_is_chosen_is_what_was_named():
    rng = np.random.default_rng(2)
    W, y = network(rng)
    known = labelled(y, 20, rng)
    chosen = ml.LLGC(**GIVEN).fit(W, known)
    choices = chosen.report_.choices
    named = ml.LLGC(alpha=choices["alpha"], refine=choices["refine"], **GIVEN)
    if choices["class_mass"] is False:
        named.set_params(class_mass=False)
    assert (named.fit(W, known).label_distributions_ == chosen.label_distributions_).all()
    assert "held-out labels" in choices["why"]
    again = clone(chosen).set_params(n_jobs=2).fit(W, known)
    assert (again.label_distributions_ == chosen.label_distributions_).all()
    assert chosen.alpha == "auto"


def test_labels_that_decide_against_the_usual_way_are_heard():
    """Classes that are no blocks: a ring, where only what is near says anything."""
    rng = np.random.default_rng(3)
    n = 600
    A = np.zeros((n, n))
    for step in (1, 2, 3):
        A[np.arange(n), (np.arange(n) + step) % n] = 1.0
    y = (np.arange(n) // 20) % 2
    known = np.where(rng.random(n) < 0.4, y, -1)
    est = ml.LLGC(**GIVEN).fit(sp.csr_matrix(A + A.T), known)
    far = ml.LLGC(alpha=0.99, **GIVEN).fit(sp.csr_matrix(A + A.T), known)
    assert est.report_.choices["alpha"] < 0.99
    assert np.mean(est.labels_ == y) > np.mean(far.labels_ == y)


def test_one_label_a_class_leaves_nothing_to_hold_out():
    rng = np.random.default_rng(4)
    W, y = network(rng)
    est = ml.LLGC(**GIVEN).fit(W, labelled(y, 1, rng))
    assert est.report_.choices["why"] == "by rule: no class has two labels"
    assert est.report_.choices["alpha"] == 0.99
    assert est.report_.choices["refine"] is True


def test_why_labels_of_points_travel_as_far_as_they_do():
    rng = np.random.default_rng(5)
    y = np.where(np.arange(80) < 4, np.arange(80) % 2, -1)
    choices = ml.LLGC().fit(rng.normal(size=(80, 2)), y).report_.choices
    assert choices["alpha"] == pytest.approx(0.9)
    assert choices["why"].startswith("alpha by rule: 5.00% of the nodes have a label")
    assert "why" not in ml.LLGC(alpha=0.9).fit(rng.normal(size=(80, 2)), y).report_.choices
    with pytest.raises(InputError, match=r'alpha: .aut. given; .* 0 and 1, or "auto"'):
        ml.LLGC(alpha="aut").fit(rng.normal(size=(80, 2)), y)


def test_labels_held_out_that_are_answered_wrong_are_a_doubt():
    """Classes that the edges know nothing of, beside those that they know."""
    rng = np.random.default_rng(5)
    W, y = network(rng)
    known = labelled(y, 12, rng)
    mixed = np.where(known < 0, -1, rng.permuted(y))
    with pytest.warns(DoubtfulResultWarning, match="the edges say little"):
        ml.LLGC(**GIVEN).fit(W, mixed)
    est = ml.LLGC(**GIVEN).fit(W, known)
    assert not any("held out" in doubt for doubt in est.report_.warnings)


@pytest.mark.parametrize(
    ("share", "sure", "words"),
    [(0.2, 0.1, "by the largest class"), (0.45, 0.9, "not to be believed"), (0.45, 0.3, None)],
)
def test_what_is_poor(share, sure, words):
    labels, recorder = np.arange(400) % 4, Recorder(Unheard())
    right = np.arange(100) < 100 * share
    warn_of_held_out(right, labels, sure, recorder)
    assert [words in doubt for doubt in recorder.warnings] == ([] if words is None else [True])
    warn_of_held_out(right[:19], labels, sure, few := Recorder(Unheard()))
    warn_of_held_out(None, labels, sure, few)
    assert not few.warnings


def verdicts(shares):
    """`right` of ways that are right about these shares of 100 labels."""
    rng = np.random.default_rng(0)
    order = rng.permutation(100)
    return lambda fold: [order[fold] < 100 * share for share in shares]


@pytest.mark.parametrize(
    ("shares", "best"), [((0.5, 0.7), 1), ((0.5, 0.52), 0), ((0.5, 0.4), 0), ((0.5, 0.7, 0.9), 2)]
)
def test_another_way_must_be_clearly_better(shares, best):
    nodes = np.arange(100) % 4
    ways = [f"way {i}" for i in range(len(shares))]
    way, why, _ = best_way(ways, verdicts(shares), nodes, 0, Recorder())
    assert way == ways[best]
    assert f"{shares[best]:.1%} of 100" in why


def test_without_time_the_usual_way_is_taken():
    recorder = Recorder(deadline=Deadline.after(-1.0))
    with pytest.warns(DoubtfulResultWarning, match="other ways"):
        way, *_ = best_way(
            ["usual", "other"], verdicts((0.1, 0.9)), np.zeros(100, int), 0, recorder
        )
    assert way == "usual"


def test_refine_is_yes_no_or_auto():
    with pytest.raises(InputError, match="refine: 'maybe' given"):
        ml.LLGC(refine="maybe").fit(np.eye(4), [0, 1, -1, -1])
