"""Pictures: they are written whole, show what they should, and leave matplotlib alone."""

import subprocess
import sys

import numpy as np
import pytest

from mustlink.errors import InputError
from mustlink_io import plots

Image = pytest.importorskip("PIL.Image")


def halves(height=30, width=40):
    labels = np.zeros((height, width), dtype=int)
    labels[:, width // 2 :] = 1
    return labels


def test_segmentation_shows_both_regions_and_the_strokes(tmp_path):
    labels = halves()
    strokes = np.full(labels.shape, -1)
    strokes[5:8, 5:15] = 0
    strokes[5:8, 25:35] = 1
    image = np.full((*labels.shape, 3), 128, dtype=np.uint8)
    path = tmp_path / "s.png"
    plots.segmentation(path, image, strokes, np.zeros_like(labels), labels)
    picture = np.asarray(Image.open(path).convert("RGB")).astype(int)
    assert picture.shape[1] > 3 * labels.shape[1]
    right = picture[:, 2 * picture.shape[1] // 3 :]
    for colour in plots.colours(np.array([0, 1])) * 255:
        near = np.abs(right - colour).sum(axis=2) < 12  # the strokes themselves
        assert near.sum() > 20
    assert [p.name for p in tmp_path.iterdir()] == ["s.png"]


def test_overlay_marks_boundaries_and_unassigned():
    labels = halves()
    labels[0, 0] = -1
    tinted = plots.overlay(np.zeros(labels.shape), labels)
    assert (tinted[:, 19] == 1).all()
    assert not (tinted[:, 25] == 1).any()
    assert len(np.unique(tinted[5:, :].reshape(-1, 3), axis=0)) == 3
    assert plots.colours(np.array([8]))[0] == pytest.approx(plots.colours(np.array([0]))[0] * 0.7)


def test_shapes_are_checked(tmp_path):
    image = np.zeros((30, 40, 3))
    with pytest.raises(InputError, match="strokes has shape"):
        plots.segmentation(tmp_path / "s.png", image, halves(3, 4), halves(), halves())
    with pytest.raises(InputError, match="image of shape"):
        plots.overlay(np.zeros((30, 40, 2)), halves())
    assert not list(tmp_path.iterdir())


def test_embedding_and_scaling(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 12, 300)
    pairs, belief = np.array([[0, 1], [2, 3]]), np.array([1.0, -1.0])
    plots.embedding(tmp_path / "e.png", rng.normal(size=(300, 3)), labels, pairs, belief)
    plots.embedding(tmp_path / "one.png", rng.normal(size=(300, 1)), labels)
    nodes = [1e4, 1e5, 1e6]
    seconds = {"mustlink": [1, 9, 80], "peer": [4, 60, float("nan")]}
    plots.scaling(tmp_path / "s.png", nodes, seconds, {"mustlink": [1e8, 5e8, 3e9]})
    for path in tmp_path.iterdir():
        assert np.asarray(Image.open(path)).std() > 5, path


def test_pyplot_is_never_imported(tmp_path):
    code = f"""
import sys
import numpy as np
from mustlink_io import plots
plots.scaling(r"{tmp_path}/s.png", [1, 2], {{"a": [1, 2]}})
assert "matplotlib.pyplot" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
