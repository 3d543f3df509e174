"""A time limit: an answer all the same, what was left out is told, nothing cut short is kept."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import mustlink as ml
from mustlink.deadline import NEVER, Deadline, duration_text, parse_duration
from mustlink.errors import InputError
from mustlink.neighbours import knn_graph
from mustlink.observe import Recorder
from mustlink.workspace.shelf import Shelf


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def over():
    """A recorder whose time is up before anything began."""
    return Recorder(None, Deadline(1.0, -2.0, Clock()))


@given(st.floats(0.01, 1e6), st.lists(st.floats(0, 1e5), max_size=5), st.floats(0, 1))
def test_what_is_left_falls_and_shares_are_parts_of_it(limit, steps, part):
    clock = Clock()
    deadline = Deadline.after(limit, clock)
    before = deadline.remaining()
    for step in steps:
        clock.now += step
        assert deadline.remaining() <= before
        before = deadline.remaining()
    assert deadline.is_over == (deadline.remaining() <= 0)
    assert deadline.share(part).remaining() == pytest.approx(part * before, abs=1e-6)
    assert deadline.sooner(5.0).remaining() == pytest.approx(min(5.0, before), abs=1e-6)


def test_without_a_limit_no_clock_is_read():
    never = Deadline(clock=pytest.fail)
    assert not never.is_over
    assert never.share(0.5).remaining() == NEVER.remaining() == np.inf


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20s", 20), ("5min", 300), ("1.5h", 5400), ("90", 90), (7, 7), ("2 min", 120), (".5", 0.5)],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds
    assert parse_duration(duration_text(seconds)) == pytest.approx(seconds, rel=0.01)


@pytest.mark.parametrize("text", ["", "soon", "-1", 0, "0s", "5 parsecs", True, float("inf")])
def test_what_is_no_duration(text):
    with pytest.raises(InputError, match=r"^time_limit: .* is no duration; write it as 20s"):
        parse_duration(text)


def test_the_sooner_limit_counts_and_only_while_it_lasts():
    clock = Clock()
    outer = Deadline.after(10.0, clock)
    recorder = Recorder(None, outer)
    with recorder.limited("1h"):
        assert recorder.deadline is outer
    with recorder.limited(4):
        assert recorder.deadline.remaining() == pytest.approx(4, abs=0.1)
    assert recorder.deadline is outer


@pytest.fixture(scope="module")
def blobs():
    """A graph of 2,100 points in four groups, too large to be factored, and labels of 40."""
    rng = np.random.default_rng(0)
    truth = np.arange(2100) % 4
    points = rng.normal(size=(2100, 5)) + 4 * np.eye(5)[truth]
    few = np.full(2100, -1)
    few[:40] = truth[:40]
    return points, knn_graph(points, 10, random_state=0), truth, few


METHODS = [
    ml.NCut(4, random_state=0),
    ml.CSP(4, random_state=0),
    ml.CSP(4, subspace="exact", random_state=0),
    ml.CSP(4, subspace="exact", solver="shift-invert", random_state=0),
    ml.NCut(4, solver="lanczos", random_state=0),
    ml.FastGE(4, random_state=0),
    ml.SSSC(4, random_state=0),
    ml.SSKK(4, random_state=0),
    ml.SRCP(4, mu=0.01, solver="krylov", random_state=0),
    ml.SRCP(4, solver="diffusion", random_state=0),
    ml.CSCGFHF(4, random_state=0),
    ml.GFHF(random_state=0),
    ml.Poisson(random_state=0),
    ml.GWEM(random_state=0),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{type(m).__name__}{m.n_neighbors}")
@pytest.mark.filterwarnings("ignore::mustlink.errors.DoubtfulResultWarning")
def test_an_answer_is_there_even_without_any_time(blobs, method):
    _, graph, _, few = blobs
    graph = ml.Graph.from_affinity(graph.affinity)  # nothing is known of it yet
    recorder = over()
    method.fit(graph, few, observer=recorder)
    assert method.labels_.shape == (2100,)
    assert np.unique(method.labels_[method.labels_ >= 0]).size == 4
    assert recorder.left_out
    told = [f"time limit of 1 s: {one}" for one in recorder.left_out]
    assert set(told) <= set(method.report_.warnings)


def test_with_time_to_spare_the_answer_is_the_same(blobs):
    _, graph, _, few = blobs
    fits = [
        ml.CSP(4, random_state=0, time_limit=limit).fit(ml.Graph.from_affinity(graph.affinity), few)
        for limit in (None, "1h")
    ]
    np.testing.assert_array_equal(fits[0].embedding_, fits[1].embedding_)
    np.testing.assert_array_equal(fits[0].labels_, fits[1].labels_)


@pytest.mark.filterwarnings("ignore::mustlink.errors.DoubtfulResultWarning")
def test_what_was_cut_short_does_not_serve_who_has_the_time(blobs):
    _, graph, _, _ = blobs
    twice, once = (ml.Graph.from_affinity(graph.affinity) for _ in range(2))
    ml.NCut(4, random_state=0).fit(twice, observer=over())
    again = ml.NCut(4, random_state=0).fit(twice)
    fresh = ml.NCut(4, random_state=0).fit(once)
    assert again.report_.convergence.converged.all()
    np.testing.assert_array_equal(again.embedding_, fresh.embedding_)


class Drawer:
    """A keeper in memory."""

    source = "data"

    def __init__(self):
        self.kept = {}

    def recall(self, stage, key, types):
        return self.kept.get(key)

    def keep(self, stage, key, value, seconds):
        self.kept[key] = value


@pytest.mark.filterwarnings("ignore::mustlink.errors.DoubtfulResultWarning")
def test_nothing_is_kept_once_something_was_left_out():
    drawer, recorder = Drawer(), over()
    shelf = Shelf(recorder, drawer)
    assert shelf.kept("one", shelf.name_of("one", "here"), lambda: 1) == 1
    assert len(drawer.kept) == 1

    def cut():
        recorder.leave_out("half of it")
        return 2

    assert shelf.kept("two", shelf.name_of("two", "here"), cut) == 2
    assert shelf.name_of("three", "here") is None
    assert shelf.kept("one", "one", lambda: 3) == 3  # nor recalled: it may be of something else
    assert len(drawer.kept) == 1


@pytest.mark.filterwarnings("ignore::mustlink.errors.DoubtfulResultWarning")
def test_neighbours_that_cannot_wait_are_searched_less_far(monkeypatch):
    for module in ("search", "planned"):
        name = f"mustlink.neighbours.{module}.compares_all"
        monkeypatch.setattr(name, lambda n, d, k: False)
    rng = np.random.default_rng(0)
    points = rng.normal(size=(4000, 6)).astype(np.float32)
    recorder = over()
    graph = knn_graph(points, 8, random_state=0, observer=recorder)
    assert graph.info["method"] == "cells"
    assert 0.5 < graph.info["recall"] <= 1.0
    assert sp.issparse(graph.affinity)
    assert "neighbours are searched less far" in recorder.left_out[0]
