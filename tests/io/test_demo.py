"""`mustlink demo`: the main job on made points."""

import importlib
import json
import shlex
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import adjusted_rand_score

from mustlink_io.commands.cli import run
from mustlink_io.jobs import demo as jobs

BLUE, ORANGE = (0, 114, 178), (230, 159, 0)


def demo(folder, capsys):
    assert run(["demo", "-o", str(folder), "--json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def few(monkeypatch):
    """A fiftieth of the points; as thin, the letters' lines are as far apart as they are wide."""
    monkeypatch.setattr(jobs, "N", 6_000)


@pytest.mark.thorough
@pytest.mark.usefixtures("few")
def test_words_are_found_by_those_who_know_something(tmp_path, capsys):
    found = demo(tmp_path, capsys)
    alone, labels, pairs = (one["ari"] for one in found["steps"])
    assert alone < 0.5 < 0.9 < min(labels, pairs)
    with h5py.File(found["points"]) as data:
        points, word = data["points"][()], data["word"][()]
    assert points.shape == (6_000, 2 + jobs.EXTRA)
    known = np.loadtxt(tmp_path / "few.csv", int, delimiter=",", skiprows=1)
    assert known.shape == (8 * jobs.LABELS, 2)
    np.testing.assert_array_equal(word[known[:, 0]], known[:, 1])
    i, j, belief = np.loadtxt(tmp_path / "pairs.csv", int, delimiter=",", skiprows=1).T
    assert i.size == jobs.PAIRS
    np.testing.assert_array_equal(belief, np.where(word[i] == word[j], 1, -1))
    for step in found["steps"]:
        assert found["graph"]["output"] in step["command"]
        with h5py.File(step["output"]) as result:
            assert adjusted_rand_score(word, result["labels"][()]) == pytest.approx(step["ari"])
    assert "<html" in Path(found["report"]).read_text()
    with Image.open(found["picture"]) as picture:
        drawn = np.asarray(picture.convert("RGB"))
    assert min((drawn == colour).all(axis=2).sum() for colour in (BLUE, ORANGE)) > 200


@pytest.mark.thorough
@pytest.mark.usefixtures("few")
def test_commands_of_the_demonstration_are_those_that_ran(tmp_path, capsys):
    assert run(["demo", "-o", str(tmp_path / "a folder")]) == 0
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("$ ")]
    assert [line.split()[2] for line in shown] == ["graph", *["cluster"] * 3]
    for line in shown:
        assert run([*shlex.split(line)[2:], "--quiet", "--json"]) == 0


def test_a_folder_that_cannot_be_made_is_told(tmp_path, capsys):
    (tmp_path / "file").write_text("no folder")
    assert run(["demo", "-o", str(tmp_path / "file")]) == 2
    assert "cannot be made a folder" in capsys.readouterr().err


def test_demo_without_the_extra_names_it(tmp_path, capsys, monkeypatch):
    importlib.import_module("matplotlib.figure")  # else the failed import leaves half of it behind
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert run(["demo", "-o", str(tmp_path / "out"), "--quiet"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "pip install 'mustlink[plot]'" in error
