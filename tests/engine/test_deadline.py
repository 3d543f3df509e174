"""A time limit: an answer all the same, what was left out is told, nothing cut short is kept."""

import ast
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import mustlink as ml
from mustlink.context.method_cost import FitInput
from mustlink.context.stage_cache import StageCache
from mustlink.core.observe import NEVER, Deadline, Recorder, Unheard, duration_text, parse_duration
from mustlink.errors import InputError
from mustlink.graph.disk_graph import RowBlock
from mustlink.neighbors import knn_graph
from mustlink_io.hdf5.work_folder import WorkFolder

ROOT = Path(__file__).resolve().parents[2]


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


@pytest.mark.parametrize(
    "text", ["", "soon", "-1", 0, "0s", "5 parsecs", True, float("inf"), 10**400]
)
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
    ml.NCut(4, solver="shift-invert", random_state=0),
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


@pytest.mark.thorough(but=1)
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


@pytest.mark.thorough
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
    cache = StageCache(recorder, drawer)
    assert cache.cached("one", cache.name_of("one", "here"), lambda: 1) == 1
    assert len(drawer.kept) == 1

    def cut():
        recorder.skip_for_time("half of it")
        return 2

    assert cache.cached("two", cache.name_of("two", "here"), cut) == 2
    assert cache.name_of("three", "here") is None
    assert cache.cached("one", "one", lambda: 3) == 3  # nor recalled: it may be of something else
    assert len(drawer.kept) == 1


class Cutting(Recorder):
    """A recorder to whom a time limit makes the stage `cut` leave something out."""

    def __init__(self, cut=None):
        super().__init__(Unheard(), Deadline(1e6, 0.0, Clock()))
        self.cut = cut

    @contextmanager
    def stage(self, name, since=None):
        with super().stage(name, since) as advance:
            yield advance
        if name == self.cut:
            self.skip_for_time("half of it")


class Watched(WorkFolder):
    """A work folder that tells the stages it was given, and which after something was left out."""

    def __init__(self, folder, recorder):
        super().__init__(folder, "data")
        self.recorder, self.stages, self.late = recorder, set(), set()

    def _see(self, stage):
        self.stages.add(stage)
        if self.recorder.left_out:
            self.late.add(stage)

    def keep(self, stage, key, value, seconds):
        self._see(stage)
        super().keep(stage, key, value, seconds)

    def keep_graph(self, stage, key, *rest):
        self._see(stage)
        return super().keep_graph(stage, key, *rest)


KEPT = [  # what is fitted, whether its graph stays on disk, and stages that are kept
    (ml.NCut("auto"), False, {"neighbours", "graph", "number of clusters", "eigenvectors"}),
    (ml.CSP(4), False, {"order", "embedding", "clusters"}),
    (ml.SSKK(4), False, {"start (relaxed)", "kernel k-means (relaxed)"}),
    (ml.SRCP(4, mu=0.01), False, {"constraint propagation", "clusters"}),
    (ml.CSCGFHF(4), False, {"stationary labelings", "clusters"}),
    (ml.GFHF(), False, {"propagation"}),
    (ml.NCut(4), True, {"graph on disk", "eigenvectors on disk"}),
    (ml.SSSC(4), True, {"graph on disk"}),
    (ml.SRCP(4), True, {"graph on disk"}),
    (ml.LLGC(), True, {"graph on disk"}),
]


def fit_watched(method, points, y, folder, recorder):
    """The method fitted with a work folder, and that."""
    watched = Watched(folder, recorder)
    fitted = clone(method).set_params(random_state=0).keep_in(watched)
    fitted.fit(points, y, observer=recorder)
    watched.settle()
    assert not watched.troubles
    return fitted, watched


@pytest.fixture
def little(monkeypatch):
    """No graph fits into memory."""
    monkeypatch.setattr(FitInput, "at_home", lambda *_: 10**15)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "stays", "stages"),
    KEPT,
    ids=[f"{method!r}-{'disk' if stays else 'memory'}" for method, stays, _ in KEPT],
)
def test_no_stage_is_kept_after_one_that_was_cut_short(
    blobs, tmp_path, request, method, stays, stages
):
    points, _, _, few = blobs
    y = few
    if stays:
        request.getfixturevalue("little")
        method = clone(method).set_params(memory="3GB")
    elif method.get_params().get("n_clusters") == "auto":
        y = None
    whole, folder = fit_watched(method, points, y, tmp_path / "whole", Cutting())
    assert stages <= folder.stages
    names = [one.name for one in whole.report_.stages if not one.name.startswith("keeping")]
    for number, name in enumerate(dict.fromkeys(names)):
        recorder = Cutting(name)
        _, folder = fit_watched(method, points, y, tmp_path / str(number), recorder)
        assert recorder.left_out
        assert not folder.late, (name, folder.late)


@pytest.mark.parametrize("stays", [False, True])
def test_a_graph_cut_short_has_not_the_name_of_the_whole_one(blobs, tmp_path, request, stays):
    points = blobs[0]
    method = ml.NCut(4)
    if stays:
        request.getfixturevalue("little")
        method = ml.NCut(4, memory="3GB")
    cut, folder = fit_watched(method, points, None, tmp_path, Cutting("kNN graph"))
    assert not folder.stages
    again = clone(method).set_params(random_state=0).keep_in(folder)
    again.fit(cut.graph_)  # where nothing is left out
    folder.settle()
    assert not folder.stages


def test_a_graph_that_was_cut_short_while_it_was_written_is_not_recalled(tmp_path):
    def block(recorder):
        yield RowBlock(0, np.array([0, 1, 2]), np.array([1, 0]), np.ones(2), 2)
        if recorder.cut:
            recorder.skip_for_time("its end")

    def recalled(cut):
        recorder, folder = Cutting(cut), WorkFolder(tmp_path / "work", "data")
        cache = StageCache(recorder, folder)

        def make(write):
            recorder.warn("what is said")
            return write(2, block(recorder), {"kind": "knn"}, np.arange(2, dtype=np.int32))

        found = cache.cached_graph("graph on disk", cache.name_of("graph", "data"), make)
        assert found.n_entries == 2
        assert "what is said" in recorder.warnings
        return folder.recalled

    assert [recalled(cut) for cut in ("yes", None, None)] == [0, 0, 1]


def test_a_descent_that_the_time_ended_is_not_kept(blobs, tmp_path):
    points, _, _, few = blobs

    class Ending(Recorder):
        @contextmanager
        def stage(self, name, since=None):
            with super().stage(name, since) as advance:
                if name.startswith("kernel k-means"):
                    self.deadline = Deadline(1.0, -2.0, Clock())
                yield advance

    _, folder = fit_watched(ml.SSKK(4), points, few, tmp_path, Ending(Unheard()))
    assert "start (relaxed)" in folder.stages
    assert "kernel k-means (relaxed)" not in folder.stages


@pytest.mark.filterwarnings("ignore::mustlink.errors.DoubtfulResultWarning")
def test_what_memory_holds_of_a_fit_cut_short_is_told_and_not_kept(blobs):
    graph = ml.Graph.from_affinity(blobs[1].affinity)
    graph.derived.origin = "known by this name"
    drawer = Drawer()
    for number in range(2):
        recorder = over()
        ml.NCut(4, random_state=0).keep_in(drawer).fit(graph, observer=recorder)
        assert recorder.left_out, number
    assert not any(isinstance(value[0], np.ndarray) for value in drawer.kept.values())


@pytest.mark.thorough
def test_only_the_stage_cache_asks_a_store():
    """It alone knows what was left out for time."""
    verbs = {"keep", "keep_graph", "recall", "recall_graph"}
    asked = set()
    for path in [*(ROOT / "engine").rglob("*.py"), *(ROOT / "io").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in verbs:
                asked.add(path.name)
    assert asked == {"stage_cache.py"}


@pytest.mark.filterwarnings("ignore::mustlink.errors.DoubtfulResultWarning")
def test_neighbours_that_cannot_wait_are_searched_less_far(monkeypatch):
    monkeypatch.setattr("mustlink.context.neighbor_cost.compares_all", lambda *_, **__: False)
    rng = np.random.default_rng(0)
    points = rng.normal(size=(4000, 6)).astype(np.float32)
    recorder = over()
    graph = knn_graph(points, 8, random_state=0, observer=recorder)
    assert graph.info["method"] == "cells"
    assert 0.5 < graph.info["recall"] <= 1.0
    assert sp.issparse(graph.affinity)
    assert "neighbours are searched less far" in recorder.left_out[0]
