"""Every estimator of points with representatives: fit, refit, new points, a file, other weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
from every import OF_GRAPHS, OF_POINTS, UNTOLD, blobs, some
from mustlink.errors import InputError

EVERY = [*OF_GRAPHS, *OF_POINTS, "Auto"]
ROUGH = {"LNP", "ConstrainedAP"}  # which are no better on the graph of all points
P = 60


def made(name, **more):
    how = {**OF_GRAPHS.get(name, {}), "random_state": 0, "representatives": P}
    return getattr(ml, name)(**how, **more)


def told(name, y):
    return () if name in UNTOLD else (y,)


def same(one, other):
    """Whether labels say the same, but for a point between two clusters."""
    return adjusted_rand_score(one, other) > 0.95


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize("name", EVERY)
def test_fits_refits_and_answers(name, tmp_path):
    X, y = blobs(1, 240)
    known = some(y, 2, 0.1)
    est = made(name).fit(X, *told(name, known))
    assert est.graph_.n_nodes <= P < est.graph_.n_rows
    if not hasattr(est, "labels_"):  # an embedding
        assert est.embedding_.shape[0] == len(X)
        return
    assert est.labels_.shape == (240,)
    assert name in ROUGH or same(est.labels_, y)
    assert np.mean(est.predict(X) == est.labels_) > 0.95
    shares = est.membership_
    assert np.allclose(shares.sum(axis=1), 1)
    assert ((est.confidence_ >= 0) & (est.confidence_ <= 1 + 1e-12)).all()
    assert np.array_equal(shares.argmax(axis=1), np.unique(est.labels_, return_inverse=True)[1])
    again = made(name).fit(X, *told(name, known))
    assert np.array_equal(again.labels_, est.labels_)
    est.save(tmp_path / "model.h5")
    loaded = ml.load(tmp_path / "model.h5")
    assert np.array_equal(loaded.predict(X), est.predict(X))
    again.refit(*told(name, some(y, 3, 0.1)))
    assert name in ROUGH or same(again.labels_, y)
    more, truth = blobs(4, 30)
    if hasattr(loaded, "add"):
        loaded.add(more)
        assert loaded.labels_.shape == (270,)
        assert name in ROUGH or same(loaded.labels_, np.append(y, truth))


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize("name", [*OF_GRAPHS, "Auto"])
def test_rows_count_as_often_as_their_weight(name):
    X, y = blobs(1, 240)
    known = some(y, 2, 0.1)
    w = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    w[known >= 0] = 1
    est = made(name).fit(
        X, *told(name, known), **({} if name in OF_POINTS else {"sample_weight": w})
    )
    if name in OF_POINTS:
        return
    assert (est.labels_[w == 0] == -1).all()
    assert name in ROUGH or same(est.labels_[w > 0], y[w > 0])


def test_labelled_points_keep_their_label_where_the_method_says_so():
    X, y = blobs(1, 240)
    known = some(y, 2, 0.2)
    wrong = np.flatnonzero(known >= 0)[:5]
    known[wrong] = (known[wrong] + 1) % 3
    est = ml.GFHF(representatives=20, random_state=0).fit(X, known)
    assert np.array_equal(est.labels_[known >= 0], known[known >= 0])
    est = ml.LLGC(alpha=0.99, representatives=20, random_state=0).fit(X, known)
    assert (est.labels_[wrong] == y[wrong]).any()


def test_pairs_of_points_are_kept_through_their_representatives():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2)).astype(np.float32)  # one cloud: only the pairs have two halves
    y = (X[:, 0] > 0).astype(int)
    far = np.flatnonzero(np.abs(X[:, 0]) > 0.5)
    pairs = rng.choice(far, (200, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)
    known = ml.Constraints.from_pairs(pairs, belief, n_nodes=2000)
    est = ml.CSP(2, representatives=200, random_state=0).fit(X, constraints=known)
    assert est.report_.satisfaction["must_kept"] > 0.9
    agree = np.mean(est.labels_ == y)
    assert max(agree, 1 - agree) > 0.9
    assert est.constraints_.n_constraints == known.n_constraints


@pytest.mark.thorough
def test_auto_chooses_by_pairs_on_representatives():
    X, y = blobs(1, 240)
    rng = np.random.default_rng(0)
    pairs = np.array([rng.choice(240, 2, replace=False) for _ in range(60)])
    known = ml.Constraints.from_pairs(
        pairs, np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0), n_nodes=240
    )
    est = ml.Auto(3, representatives=P, random_state=0).fit(X, constraints=known)
    assert same(est.labels_, y)
    assert est.graph_.n_nodes <= P


def test_nothing_changes_where_a_fit_fails():
    X, y = blobs(1, 240)
    est = ml.NCut(3, representatives=P, random_state=0).fit(X)
    before = est.labels_.copy()
    with pytest.raises(InputError, match="representatives: 500 for 240 points"):
        est.set_params(representatives=500).fit(X)
    assert np.array_equal(est.labels_, before)
    assert same(est.labels_, y)


HOLD = ("GFHF", "LLGC", "TikReg", "GWEM", "NCutPropagation", "Poisson", "GreenFunction")


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize("name", HOLD)
def test_labels_are_held_as_on_the_graph_of_all_points(name):
    X, y = blobs(1, 240)
    known = some(y, 2, 0.2)
    wrong = np.flatnonzero(known >= 0)[:5]
    known[wrong] = (known[wrong] + 1) % 3

    def holds(p):
        est = getattr(ml, name)(representatives=p, random_state=0).fit(X, known)
        return np.array_equal(est.labels_[wrong], known[wrong])

    assert not holds(40) or holds(None)
    if name == "GFHF":
        assert holds(40)


@pytest.mark.parametrize("name", ["GFHF", "LLGC"])
def test_soft_labels_are_carried_down(name):
    X, y = blobs(1, 240)
    rng = np.random.default_rng(0)
    soft = 0.4 * np.eye(3)[y] + 0.6 * rng.dirichlet(np.ones(3), 240)
    known = np.full(240, -1)
    known[[np.flatnonzero(y == c)[0] for c in range(3)]] = range(3)
    belief = rng.random(240)
    est = getattr(ml, name)(representatives=40, random_state=0)
    with_all = est.fit(X, known, prior=soft, belief=belief)
    assert np.mean(with_all.labels_ == y) > 0.95
    if name != "GFHF":  # which weighs no node by its rows
        return
    graph, free = with_all.graph_, known < 0
    # the twin, on nodes alone: beliefs of the rows of a node added, and the mean of what they say
    u = belief * free  # a row with a label needs no other
    total = np.bincount(graph.rows, u, graph.n_nodes)
    sums = [np.bincount(graph.rows, u * column, graph.n_nodes) for column in soft.T]
    mean = np.full((graph.n_nodes, 3), 1 / 3)
    mean[total > 0] = (np.stack(sums) / np.maximum(total, 1e-300)).T[total > 0]
    nodes = np.full(graph.n_nodes, -1)
    nodes[graph.rows[~free]] = known[~free]
    few = replace(graph, shares=None, rows=None, weights=None)
    twin = getattr(ml, name)(affinity="precomputed", random_state=0)
    twin.fit(few, nodes, prior=mean, belief=total)
    rows = graph.shares.matrix() @ twin.label_distributions_
    assert np.allclose(with_all.label_distributions_[free], rows[free], atol=1e-8)
