"""Labels held out tell of an answer that is there: planned, and left out before it is lost."""

import json

import numpy as np
import pytest

import mustlink as ml
from cases import blobs
from mustlink.context.fit_plan import HELD_OUT
from mustlink.context.method_cost import sample_bytes
from mustlink.context.rates import SPREAD_DENSE_BELOW, spreading_seconds
from mustlink.core.observe import Deadline, Recorder
from mustlink_io import formats
from mustlink_io.jobs import run

K = 3


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    X, y = blobs(np.random.default_rng(0), 300, K)
    few = np.where(np.arange(y.size) % 10 == 0, y, -1)
    path = tmp_path_factory.mktemp("held") / "points.npy"
    np.save(path, X)
    return formats.load(str(path)), few, ml.CSP(n_clusters=K, random_state=0).fit(X, few)


def look(fitted, recorder):
    data, few, est = fitted
    return run.look(few, est, data, recorder)


def test_what_there_is_room_and_time_for_is_told(fitted):
    recorder = Recorder()
    recorder.keep_within(10**12)
    assert look(fitted, recorder)["held_out"] == 30
    assert [stage.name for stage in recorder.stages] == [HELD_OUT]


def test_without_memory_it_is_left_out_with_a_note(fitted):
    recorder = Recorder()
    recorder.keep_within(1)
    assert look(fitted, recorder) is None
    assert recorder.stages == []
    (note,) = recorder.notes
    assert note.startswith("labels held out: none, as memory: ")


def test_without_time_it_is_left_out_with_a_note(fitted):
    recorder = Recorder(deadline=Deadline.after(0.0))
    assert look(fitted, recorder) is None
    assert recorder.notes == ["labels held out: none, as the time is up"]


@pytest.mark.thorough
def test_a_plan_has_it_where_labels_are_given_and_it_fits(fitted, tmp_path, monkeypatch, capsys):
    from mustlink_io.commands import cli

    monkeypatch.chdir(tmp_path)

    def stages(words):
        assert cli.run(["plan", *words.split(), "--json"]) == 0
        return {one["name"]: one for one in json.loads(capsys.readouterr().out)["stages"]}

    there = stages("6000x5 -k 6 -m srcp --labels few.csv")
    assert there[HELD_OUT]["seconds"] > there["constraint propagation"]["seconds"]
    assert HELD_OUT not in stages("6000x5 -k 6 -m ncut")
    assert HELD_OUT not in stages("100000x8000 -k 200 -m csp --labels few.csv --memory 1.8GB")


def test_dense_matrices_of_the_sample_are_counted():
    cost = ml.SRCP(n_clusters=K).cost()
    assert SPREAD_DENSE_BELOW > 1500
    squares = sample_bytes(6000, 5, K, cost) - sample_bytes(6000, 5, K, ml.CSP(n_clusters=K).cost())
    assert squares >= 4 * 8 * 1500**2
    assert spreading_seconds(1999) > spreading_seconds(3000)
