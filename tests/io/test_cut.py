"""`mustlink cut`: a photograph and painted strokes in, labels and cut-outs out."""

import json
import re
import warnings

import numpy as np
import pytest
from PIL import Image

import mustlink as ml
from mustlink.errors import InputError
from mustlink_io.formats.photographs import load_image, load_strokes, save_image
from mustlink_io.pictures.images import cut_out, outlined, painted

RED, BLUE, GREEN = (230, 20, 20), (20, 20, 230), (20, 230, 20)


@pytest.fixture
def photo(tmp_path):
    """A light disc on a dark ground, and a painted layer: blue on the ground, red on the disc."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:60, :90]
    truth = ((y - 30) ** 2 + (x - 45) ** 2 < 20**2) * 1
    image = np.array([[60, 70, 120], [200, 150, 60]])[truth] + rng.normal(0, 6, (60, 90, 3))
    image = np.clip(image, 0, 255).astype(np.uint8)
    layer = np.zeros((60, 90, 4), np.uint8)
    layer[28:31, 35:55], layer[4:7, 10:80] = (*RED, 255), (*BLUE, 255)
    layer[31, 35:55] = (*RED, 120)  # the soft rim of a brush says nothing
    save_image(image, tmp_path / "photo.png")
    save_image(layer, tmp_path / "strokes.png")
    return tmp_path, image, layer, truth


@pytest.mark.thorough
def test_from_photograph_and_strokes_to_labels_and_cut_outs(photo, shell):
    folder, image, _, truth = photo
    output = folder / "cut.png"
    code, out, err = shell(
        *("cut", folder / "photo.png", "--strokes", folder / "strokes.png", "-o", output, "--json"),
    )
    assert code == 0, err
    result = json.loads(out)
    ground, disc = result["classes"]
    assert (ground["colour"], ground["is_ground"]) == ("#1414e6", True)
    assert (disc["colour"], disc["is_ground"]) == ("#e61414", False)
    assert disc["strokes"] == 3 * 20
    with Image.open(output) as opened:
        assert opened.mode == "L"
        labels = np.asarray(opened)
    assert np.mean(labels == truth) > 0.995
    assert [one["pixels"] for one in result["classes"]] == np.bincount(labels.ravel()).tolist()
    strokes, _ = load_strokes(folder / "strokes.png", "strokes")
    est = ml.StrokeCut(random_state=0).fit(image, strokes)
    np.testing.assert_array_equal(labels, est.labels_)
    for one in result["classes"]:
        with Image.open(one["cut_out"]) as opened:
            assert opened.mode == "RGBA"
            part = np.asarray(opened)
        np.testing.assert_array_equal(part[..., :3], image)
        assert np.mean((part[..., 3] > 127) == (truth == one["value"])) > 0.995
    outline = load_image(result["outline"], "outline")
    inner = (labels == 1) & (np.abs(outline.astype(int) - RED).sum(axis=2) > 0)
    np.testing.assert_array_equal(outline[inner], image[inner])
    assert (outline[labels == 0].astype(int) <= 0.36 * image[labels == 0] + 0.5).all()
    code, out, _ = shell(
        "cut", folder / "photo.png", "--strokes", folder / "strokes.png", "-o", output
    )
    assert code == 0
    assert "(ground)" in out
    assert "cut-outline.png: to look at" in out


def test_without_strokes_the_parts_that_it_shows(photo, shell):
    folder, image, _, truth = photo
    output = folder / "cut.png"
    code, out, err = shell("cut", folder / "photo.png", "-o", output, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["n_clusters"] == len(result["parts"]) == 2
    with Image.open(output) as opened:
        assert opened.mode == "L"
        labels = np.asarray(opened)
    np.testing.assert_array_equal(labels, ml.RegionCut(random_state=0).fit_predict(image))
    assert np.mean(labels == truth) > 0.99
    assert [one["pixels"] for one in result["parts"]] == np.bincount(labels.ravel()).tolist()
    outline = load_image(result["outline"], "outline")
    for one in result["parts"]:
        colour = [int(one["colour"][i : i + 2], 16) for i in (1, 3, 5)]
        line = (outline == colour).all(axis=2)
        assert line.any()
        assert (labels[line] == one["value"]).all()
    assert np.mean((outline == image).all(axis=2)) > 0.9
    code, out, _ = shell("cut", folder / "photo.png", "-k", 4, "-o", output)
    assert code == 0
    assert "4 parts: given" in out
    assert "cut-outline.png: to look at" in out
    with Image.open(output) as opened:
        np.testing.assert_array_equal(np.unique(np.asarray(opened)), np.arange(4))


def test_what_was_transparent_stays_so_in_cut_outs(photo, shell):
    folder, image, _, _ = photo
    own = np.full((60, 90), 255, np.uint8)
    own[20:40, 60:] = 40  # of the disc and of what is round it
    save_image(np.dstack([image, own]), folder / "clear.png")
    parts = {}
    for name in ("photo", "clear"):
        output = folder / f"{name}-cut.png"
        words = (folder / f"{name}.png", "--strokes", folder / "strokes.png", "-o", output)
        assert shell("cut", *words, "--quiet")[0] == 0
        for part in (0, 1):
            with Image.open(folder / f"{name}-cut-{part}.png") as opened:
                parts[name, part] = np.asarray(opened)
    for part in (0, 1):
        expected = parts["photo", part].copy()
        expected[..., 3] = np.minimum(expected[..., 3], own)
        np.testing.assert_array_equal(parts["clear", part], expected)


def test_quiet_and_what_to_doubt(photo, shell):
    folder, image, _, _ = photo
    save_image(np.full_like(image, 90), folder / "flat.png")
    words = ("cut", folder / "flat.png", "-o", folder / "cut.png")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # told on stderr, once, and no warning of Python's
        code, out, err = shell(*words, "--quiet")
    assert code == 0
    assert "1 part: " in out
    assert len(err.splitlines()) == 1
    assert "looks like one part" in err
    words = ("cut", folder / "photo.png", "--strokes", folder / "strokes.png")
    code, out, err = shell(*words, "-o", folder / "cut.png", "--quiet")
    assert (code, err) == (0, "")
    assert "(ground)" in out


def test_strokes_are_opaque_colours(photo):
    folder = photo[0]
    labels, colours = load_strokes(folder / "strokes.png", "strokes")
    np.testing.assert_array_equal(colours, [BLUE, RED])
    expected = np.full((60, 90), -1)
    expected[4:7, 10:80], expected[28:31, 35:55] = 0, 1
    np.testing.assert_array_equal(labels, expected)


def test_a_photograph_is_read_as_it_is_seen(tmp_path):
    image = np.arange(24, dtype=np.uint8).reshape(4, 6)
    exif = Image.Exif()
    exif[274] = 6  # held upright: to be turned by a quarter
    Image.fromarray(np.dstack([image] * 3)).save(tmp_path / "phone.png", exif=exif)
    np.testing.assert_array_equal(
        load_image(tmp_path / "phone.png", "picture")[..., 0], np.rot90(image, -1)
    )


@pytest.mark.parametrize(
    ("kind", "ending"), [(np.uint16, "png"), (np.uint16, "tif"), (np.int32, "tif"), ("f4", "tif")]
)
def test_grey_of_more_bits_is_not_cut_off(tmp_path, kind, ending):
    grey = np.add.outer(np.arange(40), np.arange(50)) * 40 + 300
    Image.fromarray(grey.astype(kind)).save(tmp_path / f"deep.{ending}")
    found = load_image(tmp_path / f"deep.{ending}", "picture")
    expected = np.rint(255 * (grey - 300) / (grey.max() - 300))
    np.testing.assert_array_equal(found, np.dstack([expected] * 3))


def test_flat_and_empty_deep_grey(tmp_path):
    flat = np.full((4, 5), 3000, np.uint16)
    Image.fromarray(flat).save(tmp_path / "flat.png")
    assert (load_image(tmp_path / "flat.png", "picture") == 0).all()
    Image.fromarray(np.full((4, 5), np.nan, np.float32)).save(tmp_path / "nan.tif")
    with pytest.raises(InputError, match="picture: NaN or Inf among its pixels"):
        load_image(tmp_path / "nan.tif", "picture")


def test_outline_and_cut_out():
    image = np.full((7, 9, 3), 100, np.uint8)
    labels = np.zeros((7, 9), dtype=np.int64)
    labels[2:, 3:7] = 1
    colours = np.array([BLUE, GREEN], np.uint8)
    shown = outlined(image, labels, 0, colours)
    rim = np.zeros((7, 9), dtype=bool)
    rim[2, 3:7] = rim[2:, 3] = rim[2:, 6] = True  # and not along the frame
    assert (shown[rim] == GREEN).all()
    assert (shown[(labels == 1) & ~rim] == 100).all()
    assert (shown[labels == 0] == 35).all()


def test_a_cut_out_is_soft_at_its_edge_alone():
    image = np.full((12, 15, 3), 100, np.uint8)
    inside = np.zeros((12, 15), dtype=bool)
    inside[:, :7] = True
    part = cut_out(image, inside, np.full((12, 15), 0.6))
    assert part.shape == (12, 15, 4)
    expected = np.where(inside, 255, 0)
    expected[:, 5:9] = 153
    np.testing.assert_array_equal(part[..., 3], expected)


def test_painted_strokes_have_a_white_rim():
    image = np.full((9, 12, 3), 100, np.uint8)
    strokes = np.full((9, 12), -1)
    strokes[2:5, 1:6], strokes[6:9, 4:10] = 0, 1
    shown = painted(image, strokes, np.array([BLUE, GREEN], np.uint8))
    assert (shown[strokes < 0] == 100).all()
    assert (shown[3, 2:5] == BLUE).all()
    assert (shown[7:, 5:9] == GREEN).all()  # the frame is no rim
    rim = strokes >= 0
    rim[3, 2:5] = rim[7:, 5:9] = False
    assert (shown[rim] == 255).all()
    assert (image == 100).all()


def layers(kind, layer):
    """Layers that are no strokes."""
    changed = layer.copy()
    if kind == "opaque":
        changed[..., 3] = 255
    elif kind == "empty":
        changed[..., 3] = 0
    elif kind == "one":
        changed[4:7, 10:80] = 0
    elif kind == "small":
        return changed[:50]
    elif kind == "soft":
        changed[40, :80, :3] = np.arange(240).reshape(80, 3)
        changed[40, :80, 3] = 255
    return changed


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("opaque", "has no transparent pixel"),
        ("empty", "no opaque colour"),
        ("one", "one opaque colour"),
        ("small", "--strokes: 90 x 50 pixels, but .*photo.png has 90 x 60"),
        ("soft", "82 opaque colours, each a class; paint with a hard brush"),
    ],
)
def test_layers_that_are_refused(photo, shell, kind, words):
    folder, _, layer, _ = photo
    save_image(layers(kind, layer), folder / "other.png")
    code, out, err = shell(
        *("cut", folder / "photo.png", "--strokes", folder / "other.png"),
        *("-o", folder / "cut.png"),
    )
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert re.search(words, err), err
    assert not list(folder.glob("cut*"))


def test_files_that_are_refused(photo, shell):
    folder, _, _, _ = photo
    (folder / "words.png").write_text("no picture")
    (folder / "half.png").write_bytes((folder / "photo.png").read_bytes()[:2000])
    strokes, picture = folder / "strokes.png", folder / "photo.png"
    for arguments, words in (
        (
            (folder / "none.png", "--strokes", strokes, "-o", folder / "cut.png"),
            "none.png: no such file",
        ),
        ((folder / "words.png", "-o", folder / "cut.png"), "words.png cannot be read"),
        ((folder / "half.png", "-o", folder / "cut.png"), "half.png cannot be read"),
        (
            (picture, "--strokes", folder / "words.png", "-o", folder / "cut.png"),
            "--strokes: " + str(folder / "words.png") + " cannot be read",
        ),
        ((picture, "--strokes", strokes, "-o", folder / "cut.jpg"), "does not end in .png"),
        ((picture, "--strokes", strokes, "-o", picture), "photo.png"),
        ((picture, "-k", 3, "--strokes", strokes, "-o", folder / "cut.png"), "leave -k"),
        ((picture, "-k", 300, "-o", folder / "cut.png"), "300 parts, but grey has 256"),
        ((picture, "-k", "few", "-o", folder / "cut.png"), "few"),
        ((picture, "-k", 0, "-o", folder / "cut.png"), "-k: 0 given"),
        ((picture, "-o", folder / "cut.jpg"), "does not end in .png"),
        ((picture, "-o", folder / "cut.tif"), "does not end in .png"),
        (
            (picture, "--strokes", strokes, "-o", folder / "cut.tif"),
            "cut.tif is for a stack, but " + str(picture) + " is a picture",
        ),
        ((picture, "-o", picture), "photo.png"),
    ):
        code, _, err = shell("cut", *arguments)
        assert code == 2
        assert words in err
        assert len(err.splitlines()) == 1
