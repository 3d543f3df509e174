"""Labels spread over networks: equal masses, the block model, ways chosen by labels held out."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import mustlink as ml
from cases import blobs, labelled, random_graph
from mustlink.deadline import Deadline
from mustlink.errors import DoubtfulResultWarning, InputError
from mustlink.observe import Recorder, Unheard
from mustlink.operators.laplacian import normalized_laplacian
from mustlink.propagate.doubts import doubt_held_out
from mustlink.propagate.held_out_labels import best_way
from mustlink.rounding.block_model import BlockModel, refine

GIVEN = {"affinity": "precomputed", "random_state": 0}


def network(rng, n=400, k=4, inside=0.06, across=0.01):
    """A block model with hubs: (CSR, classes)."""
    y = rng.integers(0, k, n)
    size = 0.3 + rng.pareto(2.5, n)
    rate = np.where(y[:, None] == y, inside, across) * np.outer(size, size)
    A = np.triu(rng.random((n, n)) < rate, 1)
    return sp.csr_matrix((A + A.T).astype(float)), y


@pytest.mark.parametrize("method", [ml.GFHF, lambda **p: ml.LLGC(alpha=0.9, **p)])
def test_classes_have_equal_masses_on_networks_only(method):
    rng = np.random.default_rng(0)
    W, y = network(rng)
    known = labelled(y, 3, rng)
    usual = method(**GIVEN).fit(W, known)
    equal = method(class_mass="equal", **GIVEN).fit(W, known)
    assert (usual.label_distributions_ == equal.label_distributions_).all()
    X, y = blobs(rng, 100, 3)
    known = labelled(y, 3, rng)
    usual, plain = method().fit(X, known), method(class_mass=False).fit(X, known)
    assert (usual.label_distributions_ == plain.label_distributions_).all()
    kernel = ml.rbf_graph(X).affinity.toarray()
    usual, plain = (method(class_mass=c, **GIVEN).fit(kernel, known) for c in ("auto", False))
    assert (usual.label_distributions_ == plain.label_distributions_).all()


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
    model = refine(BlockModel.of(reached, start, 4), held, second._seed())
    P = np.where(held[:, None], np.eye(4)[start], model.distributions())
    np.testing.assert_allclose(second.label_distributions_[reached.nodes], P, atol=1e-12)
    right = [np.mean((one.labels_ == y)[known < 0]) for one in (first, second)]
    assert right[1] > right[0]


@pytest.mark.parametrize("seed", range(10))
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
    doubt_held_out(right, labels, sure, recorder)
    assert [words in doubt for doubt in recorder.warnings] == ([] if words is None else [True])
    doubt_held_out(right[:19], labels, sure, few := Recorder(Unheard()))
    doubt_held_out(None, labels, sure, few)
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
