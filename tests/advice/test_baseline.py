"""A method beside answers that know no graph: who is asked what, and when a doubt is raised."""

import json
from math import comb

import numpy as np
import pytest

import mustlink as ml
from cases import blobs, labelled
from mustlink.advice.baseline import NEAREST, SEEDED, TREES, Ours, _compared, baseline
from mustlink_io.commands import cli

N, K = 400, 3


def some_labels(y, each):
    return labelled(y, each, np.random.default_rng(0))


@pytest.fixture(scope="module")
def round_points():
    return blobs(np.random.default_rng(0), N, K, separation=9.0)


@pytest.fixture(scope="module")
def hidden():
    """Classes that one column tells, beside three columns of large noise."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, N)
    return np.column_stack([y + 0.1 * rng.standard_normal(N), 50 * rng.standard_normal((N, 3))]), y


@pytest.mark.thorough
def test_nothing_is_doubted_where_the_graph_shows_the_classes(round_points):
    X, y = round_points
    found = baseline(X, some_labels(y, 10), ml.CSP(n_clusters=K))
    assert found.held_out == 30
    assert found.right["ours"] == found.right[NEAREST] == 1
    assert found.doubt is None


def test_a_graph_that_hides_the_classes_is_a_doubt(hidden):
    X, y = hidden
    found = baseline(X, some_labels(y, 20), ml.GFHF())
    assert found.better == TREES
    assert found.right[TREES] > found.right["ours"] + 0.3
    assert f"{found.right[TREES]:.0%} of 60 held-out labels right" in found.doubt


@pytest.mark.thorough
def test_a_number_of_clusters_that_is_counted(round_points):
    X, y = round_points
    given = some_labels(y, 10)
    est = ml.CSP(n_clusters="auto", random_state=0)
    assert baseline(X, given, est).right == baseline(X, given, ml.CSP(n_clusters=K)).right
    assert Ours(est.fit(X, given), X, K, 0)._made.n_clusters == est.report_.n_clusters


def test_few_labels_are_shown_and_never_doubted(hidden):
    X, y = hidden
    found = baseline(X, some_labels(y, 2), ml.GFHF())
    assert found.held_out == 6
    assert found.doubt is None


@pytest.mark.parametrize(("more", "less"), [(8, 0), (7, 3), (0, 4), (0, 0), (30, 2)])
def test_chance_is_the_tail_of_a_fair_coin(more, less):
    ours = np.array([False] * more + [True] * less + [True] * 5)
    rival = np.array([True] * more + [False] * less + [True] * 5)
    right = {"ours": ours, NEAREST: rival, SEEDED: np.zeros_like(ours)}
    found = _compared("GFHF", right, 100, np.zeros(3, dtype=int))
    m = more + less
    tail = sum(comb(m, i) for i in range(more, m + 1)) / 2**m
    assert found.chance[NEAREST] == pytest.approx(tail)
    assert (found.better == NEAREST) == (tail < 0.05 / 2)  # of two rivals


@pytest.mark.thorough
def test_a_class_of_one_label_is_not_held_out(round_points):
    X, y = round_points
    known = some_labels(y, 6)
    known[np.flatnonzero(known == 2)[1:]] = -1
    found = baseline(X, known, ml.Poisson())
    assert (found.held_out, found.single) == (12, 1)


def test_nothing_is_said_without_points_or_labels_to_hold_out(round_points):
    X, y = round_points
    assert baseline(ml.knn_graph(X), some_labels(y, 9), ml.GFHF()) is None
    assert baseline(X, some_labels(y, 1), ml.GFHF()) is None
    assert baseline(X, y, ml.GFHF()) is None  # nothing is left to learn from
    assert baseline(X, np.where(y == 0, 0, -1), ml.GFHF()) is None


def test_a_method_that_fits_only_some_parts_is_not_compared(round_points, monkeypatch):
    X, y = round_points
    answer, times = Ours.answer, iter(range(3))
    monkeypatch.setattr(Ours, "answer", lambda *a: answer(*a) if next(times) != 1 else None)
    found = baseline(X, some_labels(y, 10), ml.GFHF())
    assert (set(found.right), found.held_out) == ({NEAREST, SEEDED, TREES}, 30)
    assert found.doubt is None


@pytest.mark.thorough
def test_equal_rows_of_the_sample_are_one_node_as_in_a_fit(round_points):
    X, y = (np.repeat(part, 30, axis=0) for part in round_points)
    few = some_labels(y, 10)
    ours = Ours(ml.Poisson(), X, K, 0)
    assert (ours._graph.n_nodes, ours._graph.n_rows) == (N, 30 * N)
    assert np.array_equal(ours.answer(few, np.arange(y.size)), ml.Poisson().fit(X, few).labels_)
    assert baseline(X, few, ml.SRCP(n_clusters=K)).right["ours"] == 1


@pytest.mark.thorough
def test_an_estimator_is_not_changed_and_the_same_seed_gives_the_same(round_points):
    X, y = round_points
    est = ml.FastGE(n_clusters=K, random_state=0).fit(X, some_labels(y, 8))
    before, params = est.labels_.copy(), est.get_params()
    first, again = (baseline(X, some_labels(y, 8), est, random_state=3) for _ in range(2))
    assert first.to_dict() == again.to_dict()
    assert est.get_params() == params
    assert np.array_equal(est.labels_, before)


@pytest.mark.thorough
def test_it_is_in_a_suggestion_in_a_result_and_on_its_page(hidden, tmp_path, monkeypatch, capsys):
    X, y = hidden
    monkeypatch.chdir(tmp_path)
    np.save("points.npy", X)
    np.savetxt("few.txt", some_labels(y, 20), fmt="%d")

    def told(line):
        assert cli.run(line.split()) == 0
        return capsys.readouterr().out

    suggested = json.loads(told("suggest points.npy --labels few.txt --json --quiet"))
    found = suggested["baseline"]  # of columns as they are suggested, divided by their deviations
    assert found["held_out"] == 60
    assert suggested["warnings"][:1] == [found["doubt"]] * (found["better"] is not None)
    shown = told("suggest points.npy --labels few.txt --quiet")
    assert f"extra trees {found['right']['extra trees']:.0%} of 60 right" in shown
    run = json.loads(told("propagate points.npy --labels few.txt -m gfhf -o o.h5 --json --quiet"))
    assert run["baseline"]["doubt"] in run["warnings"]
    page = json.loads(told("report o.h5 -o o.html --json"))
    assert page["baseline"]["right"] == run["baseline"]["right"]
    assert "Labels held out, answered rightly by whom" in (tmp_path / "o.html").read_text("utf-8")
