"""Whether "auto" takes representatives or all points where both fit: by labels, pairs, draws."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import mustlink as ml
from every import blobs, some
from mustlink.constraints import Constraints
from mustlink.core.observe import Recorder
from mustlink.estimators import graph_choice
from mustlink.estimators.graph_choice import of_clusters, of_labels

Y = np.arange(300) % 3
NOISE = np.random.default_rng(0).integers(3, size=300)


def fits(*labels):
    return [SimpleNamespace(labels_=np.asarray(one)) for one in labels]


@pytest.mark.parametrize(
    ("whole", "draws", "represented"),
    [
        (NOISE, (Y, Y), True),  # two draws see what all points do not
        (Y, (Y, Y), False),
        (Y, (NOISE, Y), False),
        (NOISE, (Y, NOISE[::-1]), False),
    ],
)
def test_two_draws_that_agree(whole, draws, represented):
    found = of_clusters(fits(whole, *draws), Constraints.none(300), 0)
    assert found.represented == represented
    assert "clusters of two draws of representatives agree by" in found.why


@pytest.mark.parametrize(("whole", "represented"), [(NOISE, True), (Y, False)])
def test_pairs_that_clusters_have_not_seen(whole, represented):
    rng = np.random.default_rng(1)
    pairs = rng.choice(300, (200, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    belief = np.where(Y[pairs[:, 0]] == Y[pairs[:, 1]], 1.0, -1.0)
    known = Constraints.from_pairs(pairs, belief, n_nodes=300)
    found = of_clusters(fits(whole, Y, Y), known, 0)
    assert found.represented == represented
    assert "pairs" in found.why


class Answers:
    """A propagator that answers the same whatever it is given."""

    def __init__(self, labels):
        self.labels_ = labels

    def fit(self, X, y, observer):
        return self

    def refit(self, y, observer):
        return self


@pytest.mark.parametrize(("whole", "represented"), [(NOISE, True), (Y, False)])
def test_labels_held_out(whole, represented):
    folds = [np.arange(10), np.arange(10, 20), np.arange(20, 30)]
    made = [Answers(one) for one in (whole, Y, Y)]
    found = of_labels(made, [None] * 3, Y, folds, Recorder())
    assert found.represented == represented
    few = of_labels(made, [None] * 3, Y, [np.arange(5)], Recorder())
    assert not few.represented  # five labels are no evidence


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(graph_choice, "USUAL", 40)
    monkeypatch.setattr(graph_choice, "A_CLUSTER", 2)


@pytest.mark.parametrize("name", ["NCut", "CSP", "GFHF"])
@pytest.mark.parametrize("represented", [False, True])
def test_auto_is_the_fit_to_the_graph_that_it_takes(name, represented, few, monkeypatch):
    X, y = blobs(1, 240)
    known = some(y, 2, 0.2)
    told = () if name == "NCut" else (known,)
    if represented:
        verdict = graph_choice.Verdict(True, "as the test wants")
        for module in ("clusterers.clusterer", "propagation.propagator"):
            for one in ("of_clusters", "of_labels"):
                tried = getattr(graph_choice, one)
                said = lambda *given, tried=tried: tried(*given) and verdict  # noqa: E731
                monkeypatch.setattr(f"mustlink.{module}.{one}", said, raising=False)
    auto = getattr(ml, name)(representatives="auto", random_state=0).fit(X, *told)
    how = 40 if represented else None
    twin = getattr(ml, name)(representatives=how, random_state=0).fit(X, *told)
    assert np.array_equal(auto.labels_, twin.labels_)
    assert (auto.graph_.affinity != twin.graph_.affinity).nnz == 0
    took = "representatives: 40 stand for" if represented else "representatives: all points: "
    assert any(one.startswith(took) for one in auto.report_.notes)
    assert np.mean(auto.predict(X) == auto.labels_) > 0.95


@pytest.mark.parametrize(("answers", "represented"), [("clusters", True), ("classes", False)])
def test_the_chosen_method_has_the_graph_that_labels_held_out_choose(
    answers, represented, few, monkeypatch
):
    X, y = blobs(1, 240)
    known = some(y, 2, 0.2)
    if represented:
        verdict = graph_choice.Verdict(True, "as the test wants")
        tried = graph_choice.of_labels
        said = lambda *given: tried(*given) and verdict  # noqa: E731
        monkeypatch.setattr("mustlink.propagation.propagator.of_labels", said)
    auto = ml.Auto(representatives="auto", answers=answers, random_state=0).fit(X, known)
    how = 40 if represented else None
    twin = ml.Auto(representatives=how, answers=answers, random_state=0).fit(X, known)
    assert (auto.graph_.affinity != twin.graph_.affinity).nnz == 0
    assert auto.method_ == twin.method_
    assert np.array_equal(auto.labels_, twin.labels_)
    told = "representatives: 40 stand for" if represented else "representatives: all points: "
    assert any(one.startswith(told) for one in auto.report_.notes)
    assert auto.refit(known).graph_ is auto.graph_


def test_auto_of_a_start_by_labels(few):
    X, y = blobs(1, 240)
    est = ml.NCut(3, representatives="auto", init="labels", random_state=0).fit(X, some(y, 2, 0.2))
    assert any(one.startswith("representatives: ") for one in est.report_.notes)


def test_auto_takes_all_points_without_a_look_where_it_cannot_try(few):
    X, _ = blobs(1, 240)
    est = ml.NCut(3, representatives="auto", random_state=0)
    assert any("points are few" in one for one in est.fit(X[:100]).report_.notes)
    est.set_params(time_limit=60)
    assert any("a time limit leaves none" in one for one in est.fit(X).report_.notes)
