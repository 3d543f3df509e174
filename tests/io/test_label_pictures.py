"""Labels of pixels as pictures: strokes as labels of any command, labels written as pictures."""

import json
import re

import h5py
import numpy as np
import pandas as pd
import pytest
from PIL import Image

import mustlink as ml
from mustlink_io import formats
from mustlink_io.commands.cli import run
from mustlink_io.formats.photographs import load_label_picture, save_image, save_label_picture

RED, BLUE = (230, 20, 20, 255), (20, 20, 230, 255)
H, W = 24, 36


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A light square on a dark ground, its graph, painted strokes and what is to be refused."""
    place = tmp_path_factory.mktemp("painted")
    rng = np.random.default_rng(0)
    truth = np.zeros((H, W), dtype=np.uint8)
    truth[6:18, 10:26] = 1
    image = np.array([[60, 70, 120], [200, 150, 60]])[truth] + rng.normal(0, 6, (H, W, 3))
    save_image(np.clip(image, 0, 255).astype(np.uint8), place / "photo.png")
    layer = np.zeros((H, W, 4), np.uint8)
    layer[11, 13:22], layer[2, 4:30] = RED, BLUE
    layer[12, 13:22] = (*RED[:3], 90)  # the soft rim of a brush says nothing
    save_image(layer, place / "strokes.png")
    save_image(layer[:-1], place / "cropped.png")
    save_image(np.where(layer == BLUE, RED, layer).astype(np.uint8), place / "one.png")
    save_image(np.full((H, W, 3), 9, np.uint8), place / "all.png")
    save_image(truth, place / "truth.png")
    codes = np.full((H, W), -1)
    codes[2, 4:30], codes[11, 13:22] = 0, 1
    np.save(place / "strokes.npy", codes)
    np.save(place / "points.npy", rng.normal(size=(H * W, 2)))
    Image.fromarray(layer[..., :3]).save(place / "strokes.jpg")
    np.save(place / "known.npy", np.arange(H * W) % 2)
    words = ["cluster", "points.npy", "-k", "2", "-m", "ncut", "-o", "points_out.h5", "--quiet"]
    assert run([str(place / word) if "." in word else word for word in words]) == 0
    assert run(["graph", str(place / "photo.png"), "-o", str(place / "photo.h5"), "--quiet"]) == 0
    return place


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["propagate photo.h5 -m gfhf", "cluster photo.h5 -k 2 -m csp"])
def test_strokes_are_labels_of_pixels(told, folder, command, tmp_path):
    """Labels are those of the same strokes as an array; the colours are the classes' names."""
    answers = []
    for labels in ("strokes.png", "strokes.npy"):
        code, _, err = told(f"{command} --labels {labels} -o {tmp_path}/out.h5 --quiet")
        assert code == 0, err
        answers.append(formats.load_classes(f"{tmp_path}/out.h5", H * W).codes)
        if labels == "strokes.png":
            told(f"convert {tmp_path}/out.h5 {tmp_path}/out.csv")
            named = pd.read_csv(tmp_path / "out.csv")["class"]
            assert set(named) == {"#e61414", "#1414e6"}
    np.testing.assert_array_equal(*answers)
    truth = np.asarray(Image.open(folder / "truth.png")).ravel()
    assert max(np.mean(answers[0] == truth), np.mean(answers[0] != truth)) > 0.97


@pytest.mark.thorough
def test_harmonic_values_on_pictures_unless_a_method_is_named(told, folder, tmp_path):
    """The graph decides, for a run and its plan, with or without a prior; others choose."""
    with h5py.File(folder / "photo.h5") as file, h5py.File(folder / "net.h5", "w") as other:
        file.copy("graph", other)
        other.attrs.update(file.attrs)
    np.save(folder / "prior.npy", np.full((H * W, 2), 0.5))
    prior = "--prior prior.npy --belief 0"
    for asked, method in (
        ("photo.h5", "gfhf"),
        (f"photo.h5 {prior}", "gfhf"),
        ("photo.h5 -m llgc", "llgc"),
        ("net.h5", "auto"),
        (f"net.h5 {prior}", "auto"),
    ):
        out = f"{tmp_path}/out.h5"
        words = f"{asked} --labels strokes.npy"
        code, said, err = told(f"propagate {words} -o {out} --json")
        assert code == 0, err
        assert f"propagate {asked.split()[0]}" in json.loads(said)["command"]
        assert f"-m {method}" in json.loads(said)["command"]
        assert ("graph is that of a picture" in err) == (method == "gfhf")
        code, said, err = told(f"plan {words} --for propagate --json")
        assert code == 0, err
        assert json.loads(said)["method"] == method


@pytest.mark.thorough
@pytest.mark.parametrize("part", ["", ":/labels"])
def test_answers_of_pixels_come_out_as_a_picture(told, folder, tmp_path, part):
    """Height by width in PNG, TIFF, .npy and .npz, and back as labels; distributions likewise."""
    out = f"{tmp_path}/out.h5"
    assert told(f"propagate photo.h5 -m gfhf --labels strokes.png -o {out} --quiet")[0] == 0
    labels = formats.load_classes(out, H * W).codes.reshape(H, W)
    for ending in ("png", "tif", "npy", "npz"):
        to = f"{tmp_path}/l.{ending}"
        code, said, err = told(f"convert {out}{part} -o {to} --overwrite")
        assert code == 0, err
        assert f"labels, {H} x {W}" in said
        found = formats.load_classes(to, H * W, pixels=(H, W))
        np.testing.assert_array_equal(found.codes, labels.ravel())
        code, said, err = told(f"score {to} --truth truth.png --json")
        assert code == 0, err
    np.testing.assert_array_equal(np.load(tmp_path / "l.npy"), labels)
    assert told(f"convert {out}{part} {tmp_path}/l.csv")[0] == 0
    assert len(pd.read_csv(tmp_path / "l.csv")) == H * W
    for answer, deep in (("label_distributions", (2,)), ("confidence", ())):
        code, said, err = told(f"convert {out}:/{answer} {tmp_path}/a.npy --overwrite")
        assert (code, err) == (0, "")
        assert np.load(tmp_path / "a.npy").shape == (H, W, *deep)
    assert told(f"convert photo.h5 {tmp_path}/g.png")[0] == 2


@pytest.mark.thorough
def test_labels_of_pixels_are_scored(told, tmp_path):
    code, _, err = told(f"propagate photo.h5 --labels strokes.png -o {tmp_path}/out.h5 --quiet")
    assert code == 0, err
    results = []
    for scored, truth in (
        (f"{tmp_path}/out.h5", "truth.png"),
        ("truth.png", f"{tmp_path}/out.h5"),
        (f"{tmp_path}/out.h5", "strokes.png"),
    ):
        code, out, err = told(f"score {scored} --truth {truth} --json")
        assert code == 0, err
        results.append(json.loads(out)["truth"])
    assert results[0]["ari"] == pytest.approx(results[1]["ari"])
    assert results[0]["ari"] > 0.9
    assert results[2]["n_known"] == 26 + 9
    code, out, err = told("suggest photo.h5 --labels strokes.png --json")
    assert code == 0, err
    assert "--labels strokes.png" in json.loads(out)["command"]


REFUSED = {
    "another size": ("propagate photo.h5 --labels cropped.png -o {}", "36 x 23 pixels, but the"),
    "one colour": ("cluster photo.h5 -k 2 --labels one.png -o {}", "one opaque colour in one.png"),
    "a photograph": ("propagate photo.h5 --labels all.png -o {}", "no transparent pixel"),
    "no picture": ("cluster points.npy -k 2 --labels strokes.png -o {}", "the data is no picture"),
    "other pixels": ("score truth.png --truth cropped.png", "has 36 x 24; paint on the picture"),
    "labels of points": ("convert points_out.h5 {}.png", "is no result of a picture; write .csv"),
    "points": ("convert points.npy {}.png", "png cannot hold points"),
    "jpeg": ("suggest photo.h5 --labels strokes.jpg", "JPEG changes colours"),
    "not there": ("suggest photo.h5 --labels gone.png", "gone.png"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_one_line(told, tmp_path, name):
    line, words = REFUSED[name]
    code, _, err = told(line.format(tmp_path / "out.h5"))
    assert code == 2
    assert sum("mustlink:" in one for one in err.splitlines()) == 1, err
    assert words in err.strip().splitlines()[-1]


@pytest.mark.parametrize("ending", [".png", ".tif"])
@pytest.mark.parametrize("classes", [2, 256, 300])
def test_labels_there_and_back(tmp_path, ending, classes):
    labels = np.arange(20 * 20).reshape(20, 20) % classes
    save_label_picture(labels, tmp_path / f"a{ending}")
    found, names = load_label_picture(tmp_path / f"a{ending}")
    assert names is None
    np.testing.assert_array_equal(found, labels)


def test_pixels_without_a_label(tmp_path):
    """They are transparent in PNG, and -1 in TIFF; what PNG cannot hold is refused."""
    labels = np.arange(12).reshape(3, 4) % 3
    labels[1] = -1
    assert "4 pixels without a label are transparent" in save_label_picture(
        labels, tmp_path / "a.png"
    )
    assert Image.open(tmp_path / "a.png").mode == "LA"
    found, names = load_label_picture(tmp_path / "a.png")
    np.testing.assert_array_equal(found, labels)
    assert names == ("#000000", "#010101", "#020202")
    save_label_picture(labels, tmp_path / "a.tif")
    np.testing.assert_array_equal(load_label_picture(tmp_path / "a.tif")[0], labels)
    labels[0, 0] = 300
    with pytest.raises(ml.errors.InputError, match=re.escape("301 classes beside -1; write .npy")):
        save_label_picture(labels, tmp_path / "a.png")


@pytest.mark.thorough
def test_an_array_of_labels_is_a_picture_for_fit(folder):
    """(h, w) is taken row by row for a graph of as many pixels."""
    image = np.asarray(Image.open(folder / "photo.png"))
    graph, codes = ml.image_graph(image), np.load(folder / "strokes.npy")
    flat = ml.GFHF(affinity="precomputed").fit(graph, codes.ravel()).labels_
    np.testing.assert_array_equal(ml.GFHF(affinity="precomputed").fit(graph, codes).labels_, flat)
    est = ml.FastGE(2, affinity="precomputed")
    first = est.fit(graph, codes).labels_
    np.testing.assert_array_equal(est.fit(graph, codes.ravel()).labels_, first)
