"""The main job: strokes in, picture and labels out."""

import json
import sys

import h5py
import numpy as np
import pytest

from mustlink.errors import InputError
from mustlink_io.commands.cli import run
from mustlink_io.jobs import demo

STROKES = """
# a comment
class,width,points
left,3,2 5 8 5
right,1,15 0 15 9
"""


def test_strokes_become_labels():
    labels, names = demo.rasterise(demo.read_strokes(STROKES), (10, 20))
    assert names == ["left", "right"]
    assert set(np.unique(labels)) == {-1, 0, 1}
    for y in range(10):
        for x in range(20):
            near_left = np.hypot(x - np.clip(x, 2, 8), y - 5) <= 1.5
            near_right = np.hypot(x - 15, y - np.clip(y, 0, 9)) <= 0.5
            assert labels[y, x] == (1 if near_right else 0 if near_left else -1)


def test_bad_strokes_are_told():
    with pytest.raises(InputError, match="row 1"):
        demo.read_strokes("class,width,points\na,3,1 2 3\n")


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_demo_obeys_the_strokes(tmp_path, capsys, monkeypatch, step):
    """At full size, which `make run` does too, and with every third pixel either way."""
    image, strokes, names = demo.photograph()
    assert image.shape == (427, 640, 3)
    image, strokes = np.ascontiguousarray(image[::step, ::step]), strokes[::step, ::step]
    monkeypatch.setattr(demo, "photograph", lambda: (image, strokes, names))
    assert run(["demo", "-o", str(tmp_path / "out"), "--json", "--quiet"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["n_nodes"] == strokes.size
    assert result["obeyed"] > 0.9 > result["obeyed_without"]
    with h5py.File(tmp_path / "out" / "china.h5") as file:
        labels = file["labels"][:]
    assert labels.shape == (strokes.size,)
    assert set(np.unique(labels)) == {0, 1, 2}
    assert (tmp_path / "out" / "china.png").stat().st_size > 100_000


@pytest.mark.parametrize("module", ["PIL", "matplotlib.figure"])
def test_demo_without_the_extra_names_it(tmp_path, capsys, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    assert run(["demo", "-o", str(tmp_path / "out"), "--quiet"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "pip install 'mustlink[plot]'" in error
