"""Chances of answers: by margins of labels held out, with the answer ahead in every row."""

from __future__ import annotations

import numpy as np
import pytest

import mustlink as ml
from mustlink.discretize.memberships import Reliability
from mustlink.propagation.held_out import AnswerCalibration, HeldOutAnswers, calibrated_answers


@pytest.mark.parametrize("seed", range(4))
def test_the_reliability_table_is_that_of_a_loop(seed):
    rng = np.random.default_rng(seed)
    sure, weight = rng.random(200) ** 0.3, rng.uniform(0.1, 3, 200)
    sure[:2] = 0.0, 1.0
    right = rng.random(200) < sure
    table = Reliability.of(sure, right, weight, bins=7)
    error, seen = 0.0, 0
    for b in range(7):
        last = b == 6
        inside = (sure >= b / 7) & ((sure < (b + 1) / 7) | last)
        if not inside.any():
            continue
        row = table.rows()[seen]
        seen += 1
        share = weight[inside].sum() / weight.sum()
        said = np.average(sure[inside], weights=weight[inside])
        was = np.average(right[inside], weights=weight[inside])
        expected = {"low": b / 7, "count": inside.sum(), "share": share, "sure": said, "right": was}
        assert row == pytest.approx(expected)
        error += share * abs(said - was)
    assert seen == len(table.rows())
    assert table.error == pytest.approx(error)


def test_rows_are_moved_until_the_answer_has_its_chance():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(4), 300)
    P[:5], P[5:9], P[9] = 0.0, np.eye(4), 0.25
    margin = np.sort(P, axis=1)[:, -1] - np.sort(P, axis=1)[:, -2]
    how = AnswerCalibration(-2.0, 5.0, 10)
    Q = how.moved(P, margin)
    there = P.any(axis=1)
    own = P.argmax(axis=1)
    expected = np.maximum(how.chance(margin), 0.25)
    np.testing.assert_allclose(Q.max(axis=1)[there], expected[there], atol=1e-8)
    np.testing.assert_array_equal(Q.argmax(axis=1), own)
    np.testing.assert_allclose(Q.sum(axis=1), there, atol=1e-12)
    assert not Q[~there].any()
    assert Q.min() >= 0
    for p, q, c in zip(P[10:], Q[10:], own[10:], strict=True):  # on the way there
        to = np.eye(4)[c] if q[c] >= p[c] else np.full(4, 0.25)
        step = (q[c] - p[c]) / (to[c] - p[c])
        np.testing.assert_allclose(q, p + step * (to - p), atol=1e-9)
    assert AnswerCalibration().moved(P, margin) is P


def test_labels_held_out_teach_the_chance():
    rng = np.random.default_rng(0)
    margin = rng.random(6000)
    right = rng.random(6000) < 1 / (1 + np.exp(1.0 - 4.0 * margin))
    answer = rng.integers(2, size=6000)
    folds = [HeldOutAnswers(*(one[k::3] for one in (margin, answer, right))) for k in range(3)]
    found = calibrated_answers(folds, answer)
    assert found.intercept == pytest.approx(-1.0, abs=0.15)
    assert found.slope == pytest.approx(4.0, rel=0.1)
    assert found.n_labels == 6000
    assert found.reliability.error < 0.03
    wrong = calibrated_answers([HeldOutAnswers(margin, answer, np.zeros(6000, dtype=bool))], answer)
    assert wrong.chance(np.array([0.0, 1.0])).max() < 0.01


def test_a_label_counts_as_much_as_the_nodes_that_have_its_answer():
    """Of class 0 half are right and of class 1 all; nearly all nodes are of class 1."""
    answer, right = np.repeat([0, 1], 200), np.arange(400) % 2 == 0
    right[200:] = True
    margin = np.full(400, 0.5)
    nodes = np.repeat([0, 1], [300, 700])
    found = calibrated_answers([HeldOutAnswers(margin, answer, right)], nodes)
    assert found.chance(margin)[0] == pytest.approx(0.3 * 0.5 + 0.7, abs=0.01)


def blobs():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=240)
    X = rng.normal(size=(240, 5))
    X[:, :3] += 3 * np.eye(3)[y]
    return X, y, np.where(rng.random(240) < 0.3, y, -1)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("method", ["LLGC", "GFHF", "Poisson", "TikReg", "LNP", "NCutPropagation"])
def test_methods_say_how_sure_they_are(method):
    X, y, known = blobs()
    X[7], X[9] = X[8], X[8]  # equal rows are one node
    known[7], known[9] = known[8], known[8]
    est = getattr(ml, method)(random_state=0).fit(X, known)
    P = est.membership_
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(P.argmax(axis=1), est.labels_)
    assert est.calibration_.n_labels > 50
    np.testing.assert_array_equal(P[7], P[9])
    guessed = known < 0
    right = (est.labels_ == y)[guessed].mean()
    assert P.max(axis=1)[guessed].mean() == pytest.approx(right, abs=0.08)  # of 70 labels
    again = getattr(ml, method)(random_state=0, n_jobs=1).fit(X, known)
    np.testing.assert_array_equal(again.membership_, P)


def test_names_of_classes_are_the_same_and_refits_are_followed():
    X, _, known = blobs()
    names = np.array(["", "a", "b", "c"], dtype=object)
    plain = ml.LLGC(random_state=0).fit(X, known)
    named = ml.LLGC(random_state=0).fit(X, names[known + 1])
    assert named.calibration_ == plain.calibration_
    before = plain.calibration_
    plain.refit(np.where(np.arange(240) < 100, known, -1))
    assert 15 <= plain.calibration_.n_labels < before.n_labels


def test_what_cannot_spare_labels_stays_as_it_is():
    X, y, known = blobs()
    few = ml.GFHF(random_state=0).fit(X, np.where(np.arange(240) < 12, y, -1))
    assert few.calibration_ == AnswerCalibration()
    np.testing.assert_array_equal(few.membership_, few.label_distributions_)
    prior = np.full((240, 3), 1 / 3)
    believed = ml.GFHF(random_state=0).fit(X, known, prior=prior)
    assert believed.calibration_.n_labels > 0  # the fits without a fold have the prior, too
    assert believed.refit(known).calibration_.n_labels > 50


def test_a_part_without_labels_has_no_chance():
    X, _, known = blobs()
    W = ml.knn_graph(X, 8, random_state=0).affinity.tolil()
    W[:5], W[:, :5] = 0.0, 0.0
    known[:5] = -1
    est = ml.LLGC(affinity="precomputed", random_state=0).fit(W.tocsr(), known)
    assert (est.labels_[:5] == -1).all()
    assert not est.membership_[:5].any()
    assert est.calibration_.n_labels > 50
    with pytest.raises(AttributeError):
        ml.LLGC().membership_  # noqa: B018
