"""Pictures: they are written whole, show what they should, and leave matplotlib alone."""

import subprocess
import sys

import numpy as np
import pytest

from mustlink.errors import InputError
from mustlink_io import pictures
from mustlink_io.pictures.charts import spread_in_plane

Image = pytest.importorskip("PIL.Image")


def test_a_column_that_is_constant_up_to_rounding_makes_no_map():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 400)
    rows = rng.normal(size=(5, 4))[labels] + 0.1 * rng.normal(size=(400, 4))
    for dtype in (np.float64, np.float32):
        constant = (0.01 * (1 + 10 * np.finfo(dtype).eps * rng.normal(size=400))).astype(dtype)
        wide = np.column_stack([constant, rows.astype(dtype)])
        found, twin = spread_in_plane(wide, labels), spread_in_plane(rows.astype(dtype), labels)
        assert np.abs(np.abs(found) - np.abs(twin)).max() < 1e-3  # the ridge is a mean of columns


def halves(height=30, width=40):
    labels = np.zeros((height, width), dtype=int)
    labels[:, width // 2 :] = 1
    return labels


def pixels(path):
    return np.asarray(Image.open(path).convert("RGB")).astype(int)


def has_colour(picture, colour):
    return (np.abs(picture - 255 * np.asarray(colour)).sum(axis=2) < 12).sum() > 20


def test_overlay_marks_boundaries_and_unassigned():
    labels = halves()
    labels[0, 0] = -1
    tinted = pictures.overlay(np.zeros(labels.shape), labels)
    assert (tinted[:, 19] == 1).all()
    assert not (tinted[:, 25] == 1).any()
    assert len(np.unique(tinted[5:, :].reshape(-1, 3), axis=0)) == 3


def test_forty_clusters_have_nearly_as_many_colours():
    found = pictures.colours(np.arange(-1, 40))
    assert len(np.unique(found.round(3), axis=0)) >= 38  # black has no darker shades
    assert ((found >= 0) & (found <= 1)).all()
    assert pictures.colours(halves()).shape == (30, 40, 3)


def test_shapes_and_endings_are_checked(tmp_path):
    image = np.zeros((30, 40, 3))
    with pytest.raises(InputError, match="image of shape"):
        pictures.overlay(np.zeros((30, 40, 2)), halves())
    with pytest.raises(InputError, match="labels of shape"):
        pictures.overlay(image, halves(3, 4))
    with pytest.raises(InputError, match=r"written as \.png or \.svg"):
        pictures.save(pictures.spectrum(np.zeros(4)), tmp_path / "a.pdf")
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_every_picture_can_be_written_as_png_and_the_same_svg_twice(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 12, 300)
    points = rng.normal(size=(300, 3))
    pairs, belief = np.array([[0, 1], [2, 3]]), np.array([1.0, -1.0])
    kind = {"n": 10, "kept": 8, "weight": 5.0, "weight_kept": 4.5}
    makers = {
        "embedding": lambda: pictures.embedding(points, labels, pairs, belief, labels),
        "one": lambda: pictures.embedding(points[:, :1], labels),
        "spectrum": lambda: pictures.spectrum(np.linspace(0, 1, 12), 4),
        "signed": lambda: pictures.spectrum(np.linspace(-1, 1, 5)),
        "zeros": lambda: pictures.spectrum(np.zeros(4), 3),
        "kept": lambda: pictures.constraints_kept({"must": kind, "cannot": kind}),
        "histogram": lambda: pictures.histogram([0, 1, 2, 9, 99], [1, 4, 2, 1], "t", "x"),
        "map": lambda: pictures.side_by_side((pictures.colours(halves()),), ("",)),
    }
    for name, make in makers.items():
        pictures.save(make(), tmp_path / f"{name}.png", dpi=50)
        assert pixels(tmp_path / f"{name}.png").std() > 3, name
        svg = pictures.as_svg(make())
        assert svg.startswith(b"<?xml"), name
        assert pictures.as_svg(make()) == svg, name


def test_kept_links_are_dark_and_broken_ones_red(tmp_path):
    points = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]])
    labels = np.array([0, 1, 0, 1])
    pairs = np.array([[0, 1], [2, 3]])
    red = np.array([200, 16, 46]) / 255
    for belief, broken in (([1.0, 1.0], True), ([-1.0, -1.0], False)):
        figure = pictures.embedding(points, labels, pairs, np.array(belief))
        pictures.save(figure, tmp_path / "e.png", dpi=150)
        assert has_colour(pixels(tmp_path / "e.png"), red) == broken


def test_columns_that_tell_clusters_apart_are_chosen():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 100)
    noise = rng.normal(size=(300, 6))
    noise[:, 0] = 0.0573  # the constant vector
    noise[:, 2] += 12.0 * (labels == 1)
    noise[:, 5] += 12.0 * (labels == 2)
    noise[7, 1] = 1e6  # a spike
    assert pictures.informative_columns(noise, labels) == (2, 5)
    assert pictures.informative_columns(noise[:, :3:2], labels) == (1,)
    assert pictures.informative_columns(noise[:, :1], labels) == (0,)
    assert len(pictures.informative_columns(noise, np.zeros(300, dtype=int))) == 2
    assert pictures.informative_columns(noise, np.full(300, -1)) == (0,)


@pytest.mark.thorough
def test_pyplot_is_never_imported(tmp_path):
    code = f"""
import sys
from mustlink_io import pictures
pictures.save(pictures.spectrum([0, 1, 2], 1), r"{tmp_path}/s.png")
assert "matplotlib.pyplot" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
