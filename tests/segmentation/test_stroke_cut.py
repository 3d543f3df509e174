"""Pictures cut along strokes: colours, texture, many labels, sizes, changed strokes, bad input."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import mustlink as ml
from mustlink.errors import InputError

COLOURS = np.array([[190, 60, 50], [50, 90, 180], [70, 160, 70]])


def picture(rng, shape, k=2, noise=18.0):
    """A disc (1) on a ground (0), and a band below (2), in noisy colours; their strokes."""
    h, w = shape
    y, x = np.mgrid[:h, :w]
    truth = (((y - 0.4 * h) ** 2 + (x - 0.5 * w) ** 2) < (0.25 * min(h, w)) ** 2) * 1
    if k == 3:
        truth[y > 0.8 * h] = 2
    image = COLOURS[truth] + rng.normal(0, noise, (*shape, 3))
    strokes = np.full(shape, -1)
    r, c = int(0.4 * h), int(0.5 * w)
    strokes[r - 2 : r + 2, c - w // 10 : c + w // 10] = 1
    strokes[3:6, w // 5 : w - w // 5] = 0
    if k == 3:
        strokes[-5:-2, w // 3 : w // 2] = 2
    return np.clip(image, 0, 255).astype(np.uint8), strokes, truth


def right(labels, truth):
    return float(np.mean(labels == truth))


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("shape", [(60, 80), (300, 260)])
def test_noisy_colours(shape, k):
    image, strokes, truth = picture(np.random.default_rng(0), shape, k)
    est = ml.StrokeCut(random_state=0).fit(image, strokes)
    assert est.labels_.shape == shape
    assert right(est.labels_, truth) > 0.995
    known = strokes >= 0
    np.testing.assert_array_equal(est.labels_[known], strokes[known])
    P = est.label_distributions_
    assert P.shape == (*shape, k)
    assert (P >= 0).all()
    np.testing.assert_allclose(P.sum(axis=2), 1.0)
    np.testing.assert_array_equal(est.classes_[P.argmax(axis=2)], est.labels_)
    assert est.report_.extra["n_labels"] == known.sum()
    assert "frame" in est.report_.choices["ground"]


def test_pixels_are_better_than_cells():
    image, strokes, truth = picture(np.random.default_rng(1), (320, 300), noise=8.0)
    est = ml.StrokeCut(random_state=0).fit(image, strokes)
    assert est.report_.choices["cells"] == "2 x 2 pixels"
    cells = est.labels_[::2, ::2].repeat(2, 0).repeat(2, 1)
    assert right(est.labels_, truth) > right(cells, truth)
    assert right(est.labels_, truth) > 0.9995


def test_texture_where_colours_are_the_same():
    """Two grey levels in fine checks and in broad ones."""
    y, x = np.mgrid[:90, :120]
    truth = (x > 60) * 1
    size = np.where(truth == 1, 12, 1)
    rng = np.random.default_rng(0)
    light = np.where((y // size + x // size) % 2, 150, 100) + rng.normal(0, 4, truth.shape)
    strokes = np.full(truth.shape, -1)
    strokes[20:70, 15:18], strokes[20:70, 95:98] = 0, 1
    est = ml.StrokeCut(random_state=0).fit(light.astype(np.uint8), strokes)
    assert right(est.labels_, truth) > 0.95


def test_a_twin_without_a_stroke_is_not_taken_along():
    image, strokes, truth = picture(np.random.default_rng(2), (100, 160))
    image[75:90, 10:30] = COLOURS[1]
    est = ml.StrokeCut(random_state=0).fit(image, strokes)
    assert (est.labels_[75:90, 10:30] == 0).all()
    assert right(est.labels_, truth) > 0.99
    strokes[80:84, 15:25] = 1
    both = est.refit(strokes)
    assert (both.labels_[77:88, 12:28] == 1).all()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("channels", ["grey", "one", "alpha", "float", "six"])
def test_kinds_of_pictures(channels):
    image, strokes, truth = picture(np.random.default_rng(3), (60, 70), noise=5.0)
    grey = image[..., 0]
    given = {
        "grey": grey,
        "one": grey[..., None],
        "alpha": np.dstack([image, np.full(truth.shape, 255, np.uint8)]),
        "float": image / 255.0,
        "six": np.dstack([image, image]),
    }[channels]
    assert right(ml.StrokeCut(random_state=0).fit_predict(given, strokes), truth) > 0.99


def test_names_and_numbers_of_classes():
    image, strokes, truth = picture(np.random.default_rng(4), (50, 60))
    numbers = np.where(strokes < 0, -1, 10 * strokes + 3)
    est = ml.StrokeCut(random_state=0).fit(image, numbers)
    assert list(est.classes_) == [3, 13]
    names = np.where(strokes < 0, "", np.where(strokes == 1, "disc", "sea"))
    other = ml.StrokeCut(random_state=0).fit(image, names)
    assert list(other.classes_) == ["disc", "sea"]
    np.testing.assert_array_equal(other.labels_ == "disc", est.labels_ == 13)
    assert right(other.labels_ == "disc", truth == 1) > 0.99


def test_same_seed_same_labels_and_nothing_is_changed():
    image, strokes, _ = picture(np.random.default_rng(5), (80, 90), k=3, noise=40.0)
    before = image.copy(), strokes.copy()
    est = ml.StrokeCut(random_state=7).fit(image, strokes)
    again = clone(est).set_params(n_jobs=1).fit(image, strokes)
    np.testing.assert_array_equal(est.labels_, again.labels_)
    np.testing.assert_array_equal(est.label_distributions_, again.label_distributions_)
    np.testing.assert_array_equal(image, before[0])
    np.testing.assert_array_equal(strokes, before[1])


@pytest.mark.thorough
def test_changed_strokes_are_cut_as_by_fit():
    image, strokes, truth = picture(np.random.default_rng(6), (100, 120), k=3, noise=30.0)
    more, fewer = strokes.copy(), np.where(strokes == 2, -1, strokes)
    more[40:44, 3:8] = 0
    est = ml.StrokeCut(random_state=0).fit(image, strokes)
    for changed in (more, fewer, strokes):  # fewer: a class less, and then again all
        est.refit(changed)
        fresh = clone(est).fit(image, changed)
        np.testing.assert_array_equal(est.classes_, fresh.classes_)
        assert right(est.labels_, fresh.labels_) > 0.995
        np.testing.assert_array_equal(est.labels_[changed >= 0], changed[changed >= 0])
    assert right(est.labels_, truth) > 0.99


def test_flat_and_tiny_pictures():
    flat = np.full((20, 30), 7, np.uint8)
    strokes = np.full(flat.shape, -1)
    strokes[:, 0], strokes[:, -1] = 0, 1
    labels = ml.StrokeCut(random_state=0).fit_predict(flat, strokes)
    np.testing.assert_array_equal(labels[:, 0], 0)
    np.testing.assert_array_equal(labels[:, -1], 1)
    two = ml.StrokeCut(random_state=0).fit_predict(np.array([[0, 255]], np.uint8), [[0, 1]])
    np.testing.assert_array_equal(two, [[0, 1]])


def ball(rng, shape, spacing=(1, 1, 1), k=2, noise=0.05):
    """A bright ball in a dark volume, with a shading along the columns; strokes in one slice."""
    places = np.indices(shape) * np.reshape(spacing, (3, 1, 1, 1))
    size = np.multiply(shape, spacing)
    centre = np.reshape(size / 2, (3, 1, 1, 1))
    truth = (((places - centre) ** 2).sum(axis=0) < (0.3 * size.min()) ** 2) * 1
    if k == 3:
        truth[:, : shape[1] // 6] = 2
    values = np.array([0.2, 0.6, 0.95])[truth] + 0.1 * places[2] / size[2]
    strokes = np.full(shape, -1)
    middle = shape[0] // 2
    strokes[middle, shape[1] // 2, shape[2] // 2 - 2 : shape[2] // 2 + 2] = 1
    strokes[middle, -3, 2:-2] = 0
    if k == 3:
        strokes[middle, 1, 2:-2] = 2
    return values + rng.normal(0, noise, shape), strokes, truth


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("shape", [(20, 24, 28), (70, 80, 75)])
def test_volumes(shape, k):
    volume, strokes, truth = ball(np.random.default_rng(0), shape, k=k)
    est = ml.StrokeCut(random_state=0).fit(volume, strokes)
    assert est.labels_.shape == shape
    assert right(est.labels_, truth) > 0.99
    known = strokes >= 0
    np.testing.assert_array_equal(est.labels_[known], strokes[known])
    P = est.label_distributions_
    assert P.shape == (*shape, k)
    np.testing.assert_allclose(P.sum(axis=-1), 1.0)
    np.testing.assert_array_equal(est.classes_[P.argmax(axis=-1)], est.labels_)
    cells = "1 x 1 x 1 voxels" if shape[0] == 20 else "4 x 4 x 4 voxels"
    assert est.report_.choices["cells"] == cells
    again = est.refit(strokes).labels_
    assert right(again, truth) > 0.99


@pytest.mark.thorough
def test_pieces_without_a_stroke_stay_in_volumes_unless_they_are_not_wanted():
    volume, strokes, _ = ball(np.random.default_rng(4), (24, 30, 60))
    volume[10:16, 12:18, 50:56] = 0.65
    twin = np.s_[11:15, 13:17, 51:55]
    assert (ml.StrokeCut(random_state=0).fit_predict(volume, strokes)[twin] == 1).all()
    est = ml.StrokeCut(random_state=0, islands=False).fit(volume, strokes)
    assert (est.labels_[twin] == 0).all()
    assert "ground alone" in est.report_.choices["islands"]
    image, painted, _ = picture(np.random.default_rng(2), (100, 160))
    image[75:90, 10:30] = COLOURS[1]
    est = ml.StrokeCut(random_state=0, islands=True).fit(image, painted)
    assert (est.labels_[77:88, 12:28] == 1).all()


@pytest.mark.thorough
def test_slices_that_are_far_apart():
    shape, spacing = (30, 110, 112), (4, 1, 1)
    volume, strokes, truth = ball(np.random.default_rng(1), shape, spacing)
    est = ml.StrokeCut(random_state=0).fit(volume, strokes, spacing=spacing)
    assert est.report_.choices["cells"] == "1 x 4 x 4 voxels"
    assert right(est.labels_, truth) > 0.995
    halved = ml.StrokeCut(random_state=0).fit(volume, strokes, spacing=(2.0, 0.5, 0.5))
    np.testing.assert_array_equal(est.labels_, halved.labels_)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_volume_of_one_page_is_a_picture(axis):
    image, strokes, _ = picture(np.random.default_rng(3), (60, 70), 3)
    flat = ml.StrokeCut(random_state=0).fit(image, strokes)
    page = np.expand_dims(image, axis), np.expand_dims(strokes, axis)
    est = ml.StrokeCut(random_state=0).fit(*page)
    np.testing.assert_array_equal(est.labels_, np.expand_dims(flat.labels_, axis))
    np.testing.assert_array_equal(
        est.label_distributions_, np.expand_dims(flat.label_distributions_, axis)
    )


@pytest.mark.thorough
def test_channels_of_a_volume():
    volume, strokes, truth = ball(np.random.default_rng(2), (20, 24, 28))
    for channels in (1, 3, 4):
        several = np.stack([volume] * channels, axis=-1)
        several[..., :-1] = 0.5  # what tells them apart is in the last, which is no alpha
        labels = ml.StrokeCut(random_state=0).fit_predict(several, strokes)
        assert right(labels, truth) > 0.99


def test_hard_volumes():
    flat, strokes = np.full((6, 7, 8), 3.0), np.full((6, 7, 8), -1)
    strokes[0, 0, 0], strokes[-1, -1, -1] = 0, 1
    labels = ml.StrokeCut(random_state=0).fit_predict(flat, strokes)
    assert labels[0, 0, 0] == 0
    assert labels[-1, -1, -1] == 1
    line = np.array([0.0, 0.1, 0.9, 1.0]).reshape(4, 1, 1)
    ends = np.array([0, -1, -1, 1]).reshape(4, 1, 1)
    labels = ml.StrokeCut(random_state=0).fit_predict(line, ends)
    assert labels.shape == (4, 1, 1)
    assert (labels[0, 0, 0], labels[-1, 0, 0]) == (0, 1)


@pytest.mark.parametrize(
    ("image", "strokes", "words"),
    [
        (np.zeros((4, 5)), np.zeros((5, 4), int), r"strokes: shape \(5, 4\), .* 4 rows of 5"),
        (np.zeros((4, 5)), np.full((4, 5), -1), "strokes: "),
        (np.zeros((4, 5)), np.full((4, 5), 2), "strokes: "),
        (np.zeros(5), np.zeros(5, int), r"image: shape \(5,\)"),
        (np.zeros((5, 3)), np.zeros(5, int), r"image: shape \(5, 3\)"),
        (np.zeros((4, 5, 6)), np.zeros((4, 6, 5), int), r"the volume has shape \(4, 5, 6\)"),
        (np.zeros((4, 5, 6)), np.zeros((5, 6), int), r"the picture has 4 rows of 5"),
        (np.zeros((4, 5, 6, 2)), np.zeros((4, 5), int), r"the volume has shape"),
        (np.full((2, 2), np.nan), np.array([[0, 1], [-1, -1]]), "image: NaN"),
        (np.zeros((4, 5)), np.full((4, 5), 0.5), "strokes: "),
    ],
)
def test_errors(image, strokes, words):
    with pytest.raises(InputError, match=words):
        ml.StrokeCut().fit(image, strokes)


def test_parameters_and_order_of_calls():
    image, strokes = np.array([[0.0, 1.0]]), np.array([[0, 1]])
    with pytest.raises(NotFittedError):
        ml.StrokeCut().refit(strokes)
    for given, words in (
        ({"n_components": 0}, "n_components"),
        ({"smoothness": -1}, "smoothness"),
        ({"islands": "few"}, "islands"),
    ):
        with pytest.raises(InputError, match=words):
            ml.StrokeCut(**given).fit(image, strokes)


def test_a_stroke_that_is_lost_among_cells_is_told():
    image = np.zeros((400, 400), np.uint8)
    strokes = np.full(image.shape, -1)
    strokes[10:20], strokes[14, 15] = 0, 1
    with pytest.raises(InputError, match=r"class 1 .pixels: 1. is hidden by others"):
        ml.StrokeCut().fit(image, strokes)
