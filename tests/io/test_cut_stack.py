"""`mustlink cut` of stacks: slices and painted ones in, labels and a picture of slices out."""

import json
import re

import numpy as np
import pytest
from PIL import Image

import mustlink as ml
from mustlink_io.formats.photographs import load_stack, load_stack_strokes, pages_in, save_stack
from mustlink_io.pictures.images import slices


def write(path, pages):
    first, *rest = (Image.fromarray(page) for page in pages)
    first.save(path, save_all=True, append_images=rest)


@pytest.fixture
def stack(tmp_path):
    """A light ball in the dark, strokes of two values in the middle slice."""
    rng = np.random.default_rng(0)
    shape = (12, 26, 30)
    z, y, x = np.indices(shape)
    truth = (((2 * z - 12) ** 2 + (y - 13) ** 2 + (x - 15) ** 2) < 8**2) * 1
    grey = np.clip(60 + 120 * truth + rng.normal(0, 8, shape), 0, 255).astype(np.uint8)
    strokes = np.zeros(shape, np.uint8)
    strokes[6, 13, 12:18], strokes[6, 2, 3:27] = 7, 3
    write(tmp_path / "stack.tif", grey)
    write(tmp_path / "strokes.tif", strokes)
    return tmp_path, grey, strokes, truth


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("ending", ["tif", "npy"])
def test_from_stack_and_strokes_to_labels(stack, shell, ending):
    folder, grey, strokes, truth = stack
    output = folder / f"labels.{ending}"
    words = ("cut", folder / "stack.tif", "--strokes", folder / "strokes.tif", "-o", output)
    code, out, err = shell(*words, "--spacing", "2,1,1", "--json")
    assert code == 0, err
    result = json.loads(out)
    ground, ball = result["classes"]
    assert (ground["value"], ground["is_ground"], ground["strokes"]) == (3, True, 24)
    assert (ball["value"], ball["is_ground"], ball["strokes"]) == (7, False, 6)
    labels = np.load(output) if ending == "npy" else load_stack(output, "labels")
    assert labels.dtype == np.uint8
    assert np.mean(labels == np.where(truth, 7, 3)) > 0.99
    assert [one["pixels"] for one in result["classes"]] == [
        (labels == 3).sum(),
        (labels == 7).sum(),
    ]
    painted = np.where(strokes > 0, strokes.astype(int), -1)
    est = ml.StrokeCut(random_state=0).fit(grey, painted, spacing=(2, 1, 1))
    np.testing.assert_array_equal(labels, est.labels_)
    with Image.open(result["outline"]) as opened:
        assert opened.size == (3 * 34 - 4, 3 * 30 - 4)
    assert len(result["slices"]) == 9
    code, out, _ = shell(*words)
    assert code == 0
    assert "cut-out" not in out
    assert "labels-slices.png: to look at" in out


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int32, np.float32, bool])
def test_types_of_pages(tmp_path, kind):
    pages = np.random.default_rng(0).integers(0, 2, (3, 4, 5)).astype(kind)
    if kind is not bool:
        pages = pages * kind(200)
    write(tmp_path / "some.tif", pages)
    found = load_stack(tmp_path / "some.tif", "picture")
    assert found.dtype == kind
    np.testing.assert_array_equal(found, pages)
    np.save(tmp_path / "some.npy", pages)
    np.testing.assert_array_equal(load_stack(tmp_path / "some.npy", "picture"), pages)


@pytest.mark.parametrize(("most", "kind"), [(2, np.uint8), (300, np.uint16), (70_000, np.int32)])
@pytest.mark.parametrize("pages", [1, 4])
def test_labels_come_back(tmp_path, most, kind, pages):
    labels = np.random.default_rng(0).integers(0, most + 1, (pages, 5, 6))
    labels[0, 0, 0] = most
    for name in ("labels.tif", "labels.npy"):
        save_stack(labels, tmp_path / name)
        found = load_stack(tmp_path / name, "labels")
        np.testing.assert_array_equal(found, labels)
        if name == "labels.tif":
            assert found.dtype == kind
            assert pages_in(tmp_path / name) == pages
    assert len(list(tmp_path.iterdir())) == 2


def test_strokes_are_values_above_zero(stack):
    folder, _, strokes, _ = stack
    found = load_stack_strokes(folder / "strokes.tif", "strokes")
    np.testing.assert_array_equal(found, np.where(strokes > 0, strokes.astype(int), -1))
    np.save(folder / "floats.npy", np.where(strokes > 0, strokes, -1.0))
    np.testing.assert_array_equal(load_stack_strokes(folder / "floats.npy", "strokes"), found)


@pytest.mark.parametrize("depth", [1, 2, 4, 9, 40])
def test_slices_are_spread_over_the_stack(depth):
    volume = np.random.default_rng(0).normal(size=(depth, 6, 7))
    labels = np.ones(volume.shape, dtype=np.int64)
    labels[:, 2:4, 2:5] = 0
    colours = np.array([[255, 0, 0], [0, 0, 255]], np.uint8)
    picture, numbers = slices(volume, labels, 1, colours)
    assert len(numbers) == len(set(numbers)) == min(depth, 9)
    assert min(numbers) >= 0
    assert max(numbers) < depth
    assert (picture[2:4, 2:5] == colours[0]).all()  # three voxels wide: all of it is rim
    flat, _ = slices(np.zeros((2, 6, 7)), labels[:1].repeat(2, 0), 1, colours)
    assert flat.shape == (6, 18, 3)


def two_pages(path, first, second):
    Image.fromarray(first).save(path, save_all=True, append_images=[Image.fromarray(second)])


STROKES = {
    "flat": lambda path, s: Image.fromarray(s[6]).save(path.with_suffix(".png")),
    "one page": lambda path, s: write(path, s[6:7]),
    "fewer": lambda path, s: write(path, s[:8]),
    "one value": lambda path, s: write(path, np.minimum(s, 1)),
    "all painted": lambda path, s: write(path, s + 1),
    "between": lambda path, s: write(path, s.astype(np.float32) / 2),
    "from -1": lambda path, s: np.save(path.with_suffix(".npy"), np.maximum(s.astype(int) - 3, -1)),
}
STACKS = {
    "sizes": lambda path, g: two_pages(path, g[0], g[1, :-1]),
    "types": lambda path, g: two_pages(path, g[0], g[1].astype(np.float32)),
    "colours": lambda path, g: write(path, np.stack([g] * 3, axis=-1)),
    "words": lambda path, g: path.write_text("no stack"),
    "half": lambda path, g: (write(path, g), path.write_bytes(path.read_bytes()[:5000])),
    "nan": lambda path, g: write(path, np.full(g.shape, np.nan, np.float32)),
    "imagej": lambda path, g: Image.fromarray(g[0]).save(path, description="ImageJ=1\nimages=12"),
    "array": lambda path, g: np.save(path.with_suffix(".npy"), g[..., None]),
    "objects": lambda path, g: np.save(path.with_suffix(".npy"), np.array([None, {}])),
    "none": lambda path, g: None,
}


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("flat", "other.png is no stack"),
        ("one page", "strokes: 1 slice of 30 x 26 pixels, but .*stack.tif has 12 slices"),
        ("fewer", "strokes: 8 slices of 30 x 26 pixels, but .*stack.tif has 12 slices"),
        ("one value", "one grey value above 0"),
        ("all painted", "no voxel of 0"),
        ("between", "between whole numbers"),
        ("from -1", "values below 0 beside 0, which is where nothing is painted; add 1"),
        ("sizes", "page 2 of .* has 30 x 25 pixels of uint8, the first 30 x 26"),
        ("types", "page 2 of .* of float32, the first .* of uint8"),
        ("colours", "page 1 of .* is in colours .RGB."),
        ("words", "other.tif cannot be read as a TIFF"),
        ("half", "other.tif cannot be read as a TIFF"),
        ("nan", "NaN or Inf at index"),
        ("imagej", "declares 12 slices, but has 1 TIFF pages"),
        ("array", r"has shape .12, 26, 30, 1., uint8; give numbers"),
        ("objects", "Python objects, which are never loaded"),
        ("none", "other.tif: no such file"),
    ],
)
def test_stacks_that_are_refused(stack, shell, kind, words):
    folder, grey, strokes, _ = stack
    path = folder / "other.tif"
    (STROKES | STACKS)[kind](path, strokes if kind in STROKES else grey)
    path = next(folder.glob("other.*"), path)
    given = (folder / "stack.tif", "--strokes", path)
    if kind in STACKS:
        given = (path, "--strokes", folder / "strokes.tif")
    code, out, err = shell("cut", *given, "-o", folder / "labels.tif")
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert re.search(words, err), err
    assert not list(folder.glob("labels*"))


def test_a_stack_needs_strokes(stack, shell):
    folder = stack[0]
    for arguments, words in (
        (("-o", folder / "labels.png"), "has 12 pages; a stack is cut along strokes alone"),
        (("-o", folder / "labels.tif"), "--strokes: none are given, but"),
        (("-o", folder / "labels.png", "--spacing", "3,1,1"), "--spacing: goes with --strokes"),
    ):
        code, _, err = shell("cut", folder / "stack.tif", *arguments)
        assert code == 2
        assert words in err, err
        assert not list(folder.glob("labels*"))


def test_names_and_options_that_are_refused(stack, shell):
    folder = stack[0]
    usual = ("cut", folder / "stack.tif", "--strokes", folder / "strokes.tif", "-o")
    for arguments, words in (
        ((folder / "labels.png",), "has 12 pages; labels of a stack"),
        ((folder / "labels.jpg",), "in .tif or .npy"),
        ((folder / "stack.tif",), "is the input itself"),
        ((folder / "labels.tif", "--spacing", "a,b"), "'a,b' is no list of numbers"),
        ((folder / "labels.tif", "--spacing", "1,1"), "give 3 positive numbers"),
    ):
        code, _, err = shell(*usual, *arguments)
        assert code == 2
        assert words in err, err
        assert not list(folder.glob("labels*"))
