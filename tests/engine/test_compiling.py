"""How far compiling is: told to observers while a stage waits for it, never to reports."""

import io
import json

import numba as nb
import pytest

from mustlink.context import compilation
from mustlink.context.compilation import Beside, Kernel, Progress, Remaining, decoded, encoded
from mustlink.core import observe
from mustlink.core.observe import Recorder, Silent
from mustlink.core.resources import Room

KERNELS = [Kernel(f"room.k{at}", ["int64"], 1.0 + at) for at in range(5)]


class Bench(Silent):
    def __init__(self):
        self.told, self.notes = [], []

    def compiling(self, *figures):
        self.told.append(figures)


class Plain(Silent):
    def __init__(self):
        self.notes = []

    def note(self, message):
        self.notes.append(message)


@pytest.fixture
def kernels(monkeypatch):
    monkeypatch.setattr(compilation, "_table", lambda: (KERNELS, {"Five": [0, 2, 1, 4, 3]}))


def test_every_type_of_the_table_is_read_and_named_alike():
    rows = json.loads(compilation.TABLE.read_text())["kernels"]
    assert rows
    bodies = compilation.dispatchers()
    for name, types, seconds in rows:
        assert name in bodies
        assert [encoded(decoded(one)) for one in types] == types
        assert seconds >= 0


def test_seconds_left_are_at_the_pace_of_what_is_done():
    left = Remaining(KERNELS)  # of 1, 2, 3, 4 and 5 seconds
    assert left.seconds(0) == 15
    left.took(0, 3.0)  # three times as slow
    assert left.seconds(1) == 3 * 14
    left.took(1, 3.0)
    assert left.seconds(2) == pytest.approx(2 * 12)


def test_a_fit_is_told_where_in_its_kernels_it_is(kernels):
    observer = Bench()
    recorder, progress = Recorder(observer), Progress("Five")
    for name in ("room.k0", "room.k1", "room.other", "room.k3"):  # k2 was compiled before
        progress.start(name, recorder)
        progress.end()
    assert [figures[:2] for figures in observer.told] == [(0, 5), (2, 5), (3, None), (4, 5)]
    assert observer.told[0][2] == 15
    assert observer.told[2][2] is None  # of one that is not in the table
    assert recorder.notes == []


def test_short_waits_are_not_told(monkeypatch):
    monkeypatch.setattr(compilation, "_table", lambda: (KERNELS[:1], {"One": [0]}))
    observer = Bench()
    Progress("One").start("room.k0", Recorder(observer))
    assert observer.told == []


@pytest.mark.parametrize("kind", [Bench, Plain])
def test_what_numba_compiles_in_a_stage_is_told(monkeypatch, kind):
    monkeypatch.setattr(observe, "LONG", 0.0)
    observer = kind()
    recorder = Recorder(observer)
    inner = nb.njit(lambda x: x + 1)
    outer = nb.njit(lambda x: inner(x) * 2)
    with recorder.stage("work"):
        assert outer(3) == 8
        assert outer(4) == 10
    outer(1.5)  # after the stage
    if kind is Bench:
        assert observer.told == [(0, None, None)]  # the inner one is part of the outer
    else:
        assert observer.notes == ["kernels are compiled at their first use; see mustlink warm"]
    assert recorder.notes == []
    assert observe.at_work() == []


def test_compiling_counts_what_no_cache_had(monkeypatch):
    body = nb.njit(lambda x: x)
    monkeypatch.setattr(compilation, "dispatchers", lambda: {"a": body})
    kernels = [Kernel("a", ["int64"], 1.0), Kernel("a", ["float64"], 3.0)]
    observer = Bench()
    assert compilation.compile_kernels(kernels, observer) == 2
    assert compilation.compile_kernels(kernels[:1], Bench()) == 0
    assert [figures[:2] for figures in observer.told] == [(0, 2), (1, 2)]
    assert len(body.signatures) == 2


@pytest.fixture
def room(monkeypatch):
    """A machine of two cores without limits."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr(compilation, "workers", lambda: 2)
    monkeypatch.setattr(compilation, "cache_folder", lambda: "folder")
    monkeypatch.setattr(compilation, "rooms", lambda: iter(()))
    monkeypatch.setattr(compilation.subprocess, "Popen", lambda *_, **__: pytest.fail("begun"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("workers", lambda: 1),
        ("cache_folder", lambda: None),
        ("rooms", lambda: iter([Room(1 << 30, 1 << 30, "as the cgroup says")])),
        ("_WORTH", 100.0),
    ],
)
def test_no_process_compiles_where_it_has_no_room(room, monkeypatch, name, value):
    monkeypatch.setattr(compilation, name, value)
    beside = Beside()
    beside.compile(KERNELS)
    assert not beside.at_work


def test_a_job_of_one_thread_compiles_by_itself(room, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    Beside().compile(KERNELS)


def test_a_fit_with_a_limit_compiles_by_itself(kernels, room):
    recorder = Recorder(Bench())
    recorder.keep_within(1 << 30)
    Progress("Five").start("room.k0", recorder)


def test_another_process_compiles_from_the_last_kernel_on(kernels, monkeypatch):
    begun = []
    monkeypatch.setattr(compilation._BESIDE, "compile", begun.append)
    progress = Progress("Five")
    for name in ("room.k2", "room.other", "room.k4"):
        progress.start(name, Recorder(Bench()))
        progress.end()
    assert [[one.name for one in rest] for rest in begun] == [
        ["room.k1", "room.k4", "room.k3"],
        ["room.k3"],
    ]


@pytest.mark.thorough
def test_the_process_beside_compiles_and_ends(room, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr(compilation, "workers", lambda: 2)
    monkeypatch.setattr(compilation, "_WORTH", 0.0)
    beside = Beside()
    kernels = compilation.kernels_of("RegionCut")[:2]
    beside.compile(kernels)
    assert beside.at_work
    process = beside._process
    beside.compile(kernels)  # one is enough
    assert beside._process is process
    assert process.wait(120) == 0
    assert not beside.at_work
    beside.end()
    beside.compile(kernels)
    beside.end()
    assert not beside.at_work


def test_nothing_is_compiled_for_a_process_that_has_ended(monkeypatch):
    monkeypatch.setattr(compilation, "dispatchers", dict)  # a kernel would not be found
    monkeypatch.setattr(compilation.sys, "stdin", io.StringIO('[["room.k0", ["int64"]]]'))
    compilation.compile_for(-1)
