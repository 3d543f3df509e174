"""The main job: a photograph and strokes in, labels, cut-outs and a picture out."""

import json
import sys

import numpy as np
import pytest
from PIL import Image

from mustlink_io.commands.cli import run
from mustlink_io.formats.photographs import load_image, load_strokes

BLUE, ORANGE = (0, 114, 178), (230, 159, 0)


def demo(folder, capsys):
    assert run(["demo", "-o", str(folder), "--json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.thorough
def test_demo_cuts_along_its_strokes_and_then_along_those_painted_more(tmp_path, capsys):
    told = demo(tmp_path, capsys)
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
    again = demo(tmp_path, capsys)
    assert again["classes"][1]["strokes"] > told["classes"][1]["strokes"]
    assert (np.asarray(Image.open(again["output"]))[395:425, 300:310] == 1).all()


@pytest.mark.thorough
def test_demo_tells_what_it_did_and_how_to_do_it_again(tmp_path, capsys):
    folder = tmp_path / "a folder"
    assert run(["demo", "-o", str(folder)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "273,280 pixels" in out
    assert "in 2 colours" in out
    assert f"mustlink cut '{folder}" in out


def test_a_folder_that_cannot_be_made_is_told(tmp_path, capsys):
    (tmp_path / "file").write_text("no folder")
    assert run(["demo", "-o", str(tmp_path / "file")]) == 2
    assert "cannot be made a folder" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["PIL", "matplotlib.figure"])
def test_demo_without_the_extra_names_it(tmp_path, capsys, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    assert run(["demo", "-o", str(tmp_path / "out"), "--quiet"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "pip install 'mustlink[plot]'" in error
