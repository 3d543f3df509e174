"""Progress protocol: stages, notes, and what the report makes of them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mustlink.core.observe import Recorder
from mustlink.core.resources import parse_size, peak_bytes
from mustlink.core.result import Convergence, Report
from mustlink.errors import InputError, MustlinkError


class Spy:
    def __init__(self):
        self.heard = []

    def begin(self, stage):
        self.heard.append(("begin", stage))

    def advance(self, stage, fraction):
        self.heard.append(("advance", stage, fraction))

    def end(self, stage, seconds):
        assert seconds >= 0
        self.heard.append(("end", stage))

    def note(self, message):
        self.heard.append(("note", message))


def test_an_observer_hears_begin_progress_and_end():
    spy = Spy()
    recorder = Recorder(spy)
    with recorder.stage("one") as advance:
        advance(0.5)
    recorder.note("a remark")
    recorder.note("a remark")
    assert spy.heard == [
        ("begin", "one"),
        ("advance", "one", 0.5),
        ("end", "one"),
        ("note", "a remark"),
    ]
    assert [stage.name for stage in recorder.stages] == ["one"]
    assert recorder.notes == ["a remark"]
    assert recorder.stages[0].peak_bytes > 0


@given(st.lists(st.floats(), max_size=30))
def test_progress_never_runs_backwards(fractions):
    spy = Spy()
    recorder = Recorder(spy)
    with recorder.stage("one") as advance:
        for fraction in fractions:
            advance(fraction)
    heard = [words[2] for words in spy.heard if words[0] == "advance"]
    assert heard == sorted(heard)
    assert all(0 <= fraction <= 1 for fraction in heard)


class Worried(Spy):
    def warn(self, message):
        self.heard.append(("warn", message))


@pytest.mark.parametrize(("spy", "how"), [(Spy(), "note"), (Worried(), "warn")])
def test_a_warning_is_told_apart_where_the_observer_can(spy, how):
    recorder = Recorder(spy)
    recorder.warn("doubt it")
    recorder.warn("doubt it")
    recorder.note("doubt it")
    assert spy.heard == [(how, "doubt it")]
    assert recorder.warnings == recorder.notes == ["doubt it"]


def test_a_failing_stage_still_ends_and_is_measured():
    spy = Spy()
    recorder = Recorder(spy)
    with pytest.raises(ValueError, match="broken"), recorder.stage("one"):
        raise ValueError("broken")
    assert spy.heard[-1] == ("end", "one")
    with recorder.stage("two"):
        pass
    assert [stage.name for stage in recorder.stages] == ["one", "two"]


def test_stages_do_not_nest():
    recorder = Recorder()
    with (
        pytest.raises(MustlinkError, match="'inner' opened inside stage 'outer'"),
        recorder.stage("outer"),
        recorder.stage("inner"),
    ):
        pass


def test_the_default_observer_is_silent(capsys):
    recorder = Recorder()
    with recorder.stage("one") as advance:
        advance(1.0)
    recorder.note("unheard")
    assert capsys.readouterr() == ("", "")


def test_convergence_says_what_is_missing_and_what_to_do():
    good = Convergence("lobpcg", "tolerance", 7, np.array([1e-9, 1e-10]), 1e-8)
    assert good.converged.all()
    assert good.status == "lobpcg: residuals below 1e-08 in 7 steps"
    bad = Convergence("lobpcg", "max_iter", 7, np.array([1e-9, 1e-3]), 1e-8)
    assert bad.converged.tolist() == [True, False]
    assert (
        bad.status
        == "lobpcg: residuals 1 (1.0e-03) above 1e-08 after 7 steps; raise max_iter or tol"
    )


def test_a_residual_that_is_not_a_number_has_not_converged():
    assert not Convergence("x", "max_iter", 1, np.array([np.nan]), 1e-8).converged.any()


def test_a_report_becomes_json():
    recorder = Recorder()
    with recorder.stage("one"):
        pass
    report = Report(
        method="CSP",
        n_nodes=3,
        n_clusters=2,
        stages=tuple(recorder.stages),
        choices={"p": np.int64(4), "values": np.arange(2), "deep": {"x": (np.float64(1.5),)}},
        convergence=Convergence("dense", "direct", 0, np.array([1e-12]), 1e-8),
        satisfaction={"kept": np.float64(1.0)},
        extra={"changed": np.float32(0.5)},
    )
    back = json.loads(json.dumps(report.to_dict()))
    assert back["choices"] == {"p": 4, "values": [0, 1], "deep": {"x": [1.5]}}
    assert back["changed"] == 0.5
    assert back["convergence"]["status"].startswith("dense: residuals")
    assert report.seconds == pytest.approx(sum(s.seconds for s in recorder.stages))
    assert report.peak_bytes == recorder.stages[0].peak_bytes


def test_peak_is_that_of_this_process():
    assert 10**7 < peak_bytes() < 10**12


@pytest.mark.parametrize(
    ("text", "size"), [("4GB", 4 * 10**9), ("512MiB", 512 * 2**20), ("4e9", 4 * 10**9), (7, 7)]
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["1e400", "1e400GB", "1e12 TB", float("inf"), 2**63])
def test_what_no_memory_has_is_no_size(text):
    with pytest.raises(InputError, match=r"memory: .* is not a size; write it as 4GB"):
        parse_size(text)


def test_a_size_without_its_unit_is_an_error():
    with pytest.raises(InputError, match="memory: '2' has no unit; write it as 2GB"):
        parse_size("2")
    assert parse_size("2B") == 2
    assert parse_size("2000000") == 2_000_000
