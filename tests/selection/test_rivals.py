"""The full problem beside the smooth subspace: only within its share of the work, and told."""

from types import SimpleNamespace

import numpy as np
import pytest

import mustlink as ml
from mustlink.context.method_cost import Size, smooth_seconds, step_seconds
from mustlink.context.rates import search_seconds
from mustlink.eigen.smooth_subspace import EigenOptions
from mustlink.selection import resolve
from mustlink.selection.constrained_fit import FitSpec, Formulation
from mustlink.selection.held_out import SelectedModel
from mustlink_io.jobs.fits import ClusterJob
from mustlink_io.jobs.on_disk import Shape
from mustlink_io.jobs.planning import plan_job

pytestmark = pytest.mark.filterwarnings("ignore::mustlink.errors.DoubtfulResultWarning")


@pytest.fixture(scope="module")
def picture():
    """Pixels of two halves with a faint border and much noise, a few labels: 1,600 nodes."""
    rng = np.random.default_rng(0)
    halves = (np.arange(40) >= 20)[None, :] * 30.0 + np.zeros((40, 1))
    image = np.clip(halves + rng.normal(100, 25, (40, 40)), 0, 255).astype(np.uint8)
    truth = (np.arange(1600) % 40 >= 20).astype(int)
    few = np.full(1600, -1)
    chosen = rng.choice(1600, 60, replace=False)
    few[chosen] = np.where(rng.random(60) < 0.25, 1 - truth[chosen], truth[chosen])
    return ml.image_graph(image, n_similar=0), few


def tried(picture):
    found = ml.CSP(2, random_state=0).fit(*picture)
    table = found.report_.extra["candidates"]
    notes = [one for one in found.report_.notes if "the full problem was not tried" in one]
    return found, sum(row[0] == 0 for row in table), notes


def test_a_rival_within_its_share_is_tried(picture):
    _, full, notes = tried(picture)
    assert full > 0
    assert not notes


def test_a_rival_beyond_its_share_is_left_out_and_told(picture, monkeypatch):
    monkeypatch.setattr(resolve, "_FLOOR", 0.0)
    monkeypatch.setattr(resolve, "smooth_seconds", lambda size, columns: 1e-9)
    found, full, notes = tried(picture)
    assert full == 0
    assert len(notes) == 1
    assert 'subspace="exact" solves it' in notes[0]
    assert found.report_.choices["subspace"] != "exact"


def test_a_rival_that_takes_far_too_long_by_the_clock_is_dropped(picture, monkeypatch):
    monkeypatch.setattr(resolve, "_GROSS", 0.0)
    monkeypatch.setattr(resolve, "_GROSS_FLOOR", 0.0)
    found = ml.CSP(2, random_state=0).fit(*picture)
    assert "the full problem was dropped as a rival: it takes too long" in found.report_.notes
    assert found.report_.choices["subspace"] != "exact"


def test_work_grows_with_everything_it_is_made_of():
    small, large = Size(1000, 20_000), Size(2000, 40_000)
    assert step_seconds(small, 10) * 2 == pytest.approx(step_seconds(large, 10))
    assert step_seconds(small, 20) > 2 * step_seconds(small, 10)
    assert step_seconds(small, 10, pencil=True) > step_seconds(small, 10)
    assert smooth_seconds(small, 10) > step_seconds(small, 10)
    assert search_seconds(2000, 15) > 2 * search_seconds(1000, 15)
    assert search_seconds(1000, 30) == pytest.approx(2 * search_seconds(1000, 15))


def test_a_rival_that_nobody_asked_for_is_solved_to_three_digits():
    asked = []

    def solve(value, how, work, start):
        asked.append(how.tol)
        return SimpleNamespace(convergence=SimpleNamespace(reason="tolerance"))

    made = Formulation(SimpleNamespace(solve=solve), np.ones(2), ("kmeans",))
    taken = SelectedModel(None, 0.01, "kmeans", "won")
    for subspace, tol in (("auto", None), ("exact", None), ("auto", 1e-6), ("exact", 1e-6)):
        solving = EigenOptions("auto", tol)
        work = SimpleNamespace(view=None)
        request = FitSpec(work, 2, None, made, None, subspace, ("kmeans",), solving)
        request.solved(taken)
    assert asked == [1e-3, None, 1e-6, 1e-6]


def test_a_plan_has_the_rival_where_labels_alone_are_known(tmp_path):
    given = {"data": "x", "output": "", "method": "csp", "n_clusters": 3, "labels": "few.txt"}
    shape = Shape(20_000, 15, 0, 10**6)

    def row(**more):
        stages = plan_job(ClusterJob(**given | more), shape=shape).stages
        return [one.seconds for one in stages if one.name == "full problem"]

    assert len(row()) == 1
    assert row()[0] > 0
    assert row(params={"subspace": 12}) == row(constraints="pairs.csv") == []
    assert row(method="ncut", labels=None) == []


@pytest.mark.thorough
def test_many_pairs_on_few_nodes_are_followed_where_the_graph_shows_nothing():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(150, 12)), rng.integers(0, 2, 150)
    pairs = np.array([rng.choice(150, 2, replace=False) for _ in range(400)])
    belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)
    known = ml.Constraints.from_pairs(pairs, belief=belief, n_nodes=150)
    found = ml.CSP(2, random_state=0).fit(X, constraints=known)
    assert found.report_.choices["subspace"] == "exact"
    assert found.report_.satisfaction["kept"] > 0.9
