"""`mustlink demo`: the main job on made points, and a photograph cut along strokes."""

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
from mustlink_io.formats.photographs import load_image, load_strokes
from mustlink_io.jobs import demo as jobs

BLUE, ORANGE = (0, 114, 178), (230, 159, 0)


def demo(folder, capsys, *more):
    assert run(["demo", "-o", str(folder), "--json", "--quiet", *more]) == 0
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
    assert len(shown) == 3
    for line in shown:
        assert run([*shlex.split(line)[2:], "--quiet", "--json"]) == 0


@pytest.mark.thorough
def test_a_photograph_is_cut_along_its_strokes_and_then_along_those_painted_more(tmp_path, capsys):
    told = demo(tmp_path, capsys, "--photograph")
    image = load_image(tmp_path / "china.jpg", "photograph")
    strokes, colours = load_strokes(tmp_path / "strokes.png", "strokes")
    assert image.shape == (427, 640, 3)
    np.testing.assert_array_equal(colours, [BLUE, ORANGE])
    labels = np.asarray(Image.open(told["output"]))
    known = strokes >= 0
    np.testing.assert_array_equal(labels[known], strokes[known])
    assert (labels[150:300, 360:540] == 1).all()  # the lake and trees beside the pagoda
    assert (labels[140:330, 120:300] == 0).mean() > 0.98
    with Image.open(told["picture"]) as picture:
        drawn = np.asarray(picture.convert("RGB"))
    first, second, third = np.array_split(drawn, 3, axis=1)
    for colour in (BLUE, ORANGE):
        assert (first == colour).all(axis=2).sum() > 1000
    assert second.mean() < 0.6 * first.mean()  # what is round the pagoda is dimmed
    assert 0.6 < (third == 255).all(axis=2).mean() < 0.9  # or cut off

    with Image.open(tmp_path / "strokes.png") as opened:
        more = np.array(opened)
    more[395:425, 300:310] = (*ORANGE, 255)
    Image.fromarray(more).save(tmp_path / "strokes.png")
    again = demo(tmp_path, capsys, "--photograph")
    assert again["classes"][1]["strokes"] > told["classes"][1]["strokes"]
    assert (np.asarray(Image.open(again["output"]))[395:425, 300:310] == 1).all()


@pytest.mark.thorough
def test_demo_tells_what_it_did_and_how_to_do_it_again(tmp_path, capsys):
    folder = tmp_path / "a folder"
    assert run(["demo", "--photograph", "-o", str(folder)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "273,280 pixels" in out
    assert "in 2 colours" in out
    assert f"mustlink cut '{folder}" in out


def test_a_folder_that_cannot_be_made_is_told(tmp_path, capsys):
    (tmp_path / "file").write_text("no folder")
    assert run(["demo", "-o", str(tmp_path / "file")]) == 2
    assert "cannot be made a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "module"),
    [([], "matplotlib.figure"), (["--photograph"], "PIL"), (["--photograph"], "matplotlib.figure")],
)
def test_demo_without_the_extra_names_it(tmp_path, capsys, monkeypatch, kind, module):
    importlib.import_module("matplotlib.figure")  # else the failed import leaves half of it behind
    monkeypatch.setitem(sys.modules, module, None)
    assert run(["demo", *kind, "-o", str(tmp_path / "out"), "--quiet"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "pip install 'mustlink[plot]'" in error
