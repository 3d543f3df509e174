"""`RegionCut`: pictures without strokes."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import ndimage

import mustlink as ml
from mustlink.errors import DoubtfulResultWarning, InputError
from mustlink.kernels.region_merging import merged
from mustlink.segmentation.region_cut import _WEIGHTS

Y, X = np.mgrid[:90, :120]
DISC = (Y - 45) ** 2 + (X - 60) ** 2 < 30**2


def picture(seed=0, noise=10.0):
    """A disc before a ground of two halves."""
    rng = np.random.default_rng(seed)
    kinds = np.where(DISC, 2, X > 60)
    plain = np.array([[60, 90, 160], [80, 160, 70], [200, 120, 60]])[kinds]
    return np.clip(plain + rng.normal(0, noise, plain.shape), 0, 255).astype(np.uint8), kinds


@pytest.mark.parametrize("noise", [0.0, 10.0, 25.0])
def test_parts_are_found_and_counted(noise):
    image, kinds = picture(noise=noise)
    before = image.copy()
    est = ml.RegionCut(random_state=0).fit(image)
    np.testing.assert_array_equal(image, before)
    assert est.n_clusters_ == est.report_.n_clusters == 3
    for kind in range(3):
        own = np.bincount(est.labels_[kinds == kind]).argmax()
        inside, true = est.labels_ == own, kinds == kind
        assert (inside & true).sum() / (inside | true).sum() > 0.97
    assert "likelier different" in est.report_.choices["n_clusters"][1]


@pytest.mark.thorough
def test_parts_are_connected_numbered_and_no_specks():
    rng = np.random.default_rng(1)
    coarse = ndimage.gaussian_filter(rng.random((150, 200, 3)), (6, 6, 0))
    image = (coarse - coarse.min()) / np.ptp(coarse)
    for k in ("auto", 2, 7, 30):
        est = ml.RegionCut(k, random_state=0).fit(image)
        assert k in ("auto", est.n_clusters_)
        sizes = np.bincount(est.labels_.ravel())
        assert sizes.size == est.n_clusters_
        assert all(ndimage.label(est.labels_ == c)[1] == 1 for c in range(sizes.size))
        assert sizes.min() > image[..., 0].size / 2000
        _, first = np.unique(est.labels_, return_index=True)
        assert first[0] == 0


def test_more_parts_are_parts_of_fewer():
    image, _ = picture(2, noise=40.0)
    cuts = [ml.RegionCut(k, random_state=0).fit_predict(image) for k in range(1, 8)]
    for few, many in pairwise(cuts):
        assert len(np.unique(np.stack([few, many]).reshape(2, -1), axis=1).T) == many.max() + 1


def test_of_neighbours_alike_those_with_the_longest_border_are_joined_first():
    words, lengths = np.full((3, 4), 100.0), np.array([[0, 10, 20], [10, 0, 10], [20, 10, 0.0]])
    pairs, _ = merged(words, words.copy(), lengths, 0.3 * lengths, np.array(_WEIGHTS))
    assert pairs[0].tolist() == [0, 2]


def test_same_seed_same_labels_for_any_threads():
    image, _ = picture(3)
    cuts = [ml.RegionCut(random_state=5, n_jobs=jobs).fit_predict(image) for jobs in (1, 2, None)]
    np.testing.assert_array_equal(cuts[0], cuts[1])
    np.testing.assert_array_equal(cuts[0], cuts[2])


@pytest.mark.parametrize("unit", [2, 3, 5])
def test_large_pictures_are_cut_in_cells_first(monkeypatch, unit):
    image, kinds = picture()
    monkeypatch.setattr("mustlink.segmentation.region_cut._CELLS", image[..., 0].size // unit**2)
    est = ml.RegionCut(3, random_state=0).fit(image)
    assert est.report_.choices["cells"] == f"{unit} x {unit} pixels"
    assert est.labels_.shape == kinds.shape
    assert all(ndimage.label(est.labels_ == c)[1] == 1 for c in range(3))
    wrong = sum(
        (est.labels_[kinds == c] != np.bincount(est.labels_[kinds == c]).argmax()).sum()
        for c in range(3)
    )
    assert wrong < 0.02 * kinds.size


@pytest.mark.parametrize(
    "image",
    [
        np.full((30, 40, 3), 90, np.uint8),
        np.zeros((1, 1, 3)),
        np.random.default_rng(0).integers(0, 256, (90, 120), dtype=np.uint8),
        (120 + np.random.default_rng(0).normal(0, 5, (90, 120, 3))).astype(np.uint8),
    ],
    ids=["constant", "one pixel", "noise", "weak noise"],
)
def test_where_there_is_nothing_there_is_one_part(image):
    with pytest.warns(DoubtfulResultWarning, match="one part"):
        est = ml.RegionCut(random_state=0).fit(image)
    assert est.n_clusters_ == 1
    np.testing.assert_array_equal(est.labels_, np.zeros(image.shape[:2]))


@pytest.mark.parametrize("turn", [False, True])
def test_a_row_of_pixels(turn):
    row = np.repeat([20, 220], 100).astype(np.uint8)[None]
    image = row.T if turn else row
    labels = ml.RegionCut(random_state=0).fit_predict(image)
    np.testing.assert_array_equal(labels, image > 100)


def test_grey_alpha_floats_and_five_channels():
    image, kinds = picture()
    alone = ml.RegionCut(random_state=0).fit_predict(image)
    opaque = np.dstack([image, np.full(kinds.shape, 255, np.uint8)])
    np.testing.assert_array_equal(ml.RegionCut(random_state=0).fit_predict(opaque), alone)
    np.testing.assert_array_equal(ml.RegionCut(random_state=0).fit_predict(image / 255.0), alone)
    grey = ml.RegionCut(2, random_state=0).fit_predict(np.where(DISC, 200, 50).astype(np.uint8))
    assert np.mean(grey == DISC) > 0.99
    five = np.dstack([np.where(DISC, 0.2 * c, 0.5) for c in range(5)])
    found = ml.RegionCut(2, random_state=0).fit_predict(five)
    assert np.mean(found == DISC) > 0.99


def test_fewer_regions_than_asked_for():
    image, _ = picture(noise=0.0)
    with pytest.warns(DoubtfulResultWarning, match="50 parts asked for, but only"):
        est = ml.RegionCut(50, random_state=0).fit(image)
    assert est.n_clusters_ == est.labels_.max() + 1 < 50


@pytest.mark.parametrize(
    ("n_clusters", "image", "words"),
    [
        (0, np.zeros((5, 5)), "n_clusters: 0 given"),
        (2.5, np.zeros((5, 5)), "n_clusters: 2.5 is not a whole number"),
        ("many", np.zeros((5, 5)), "n_clusters: 'many' is not a whole number"),
        (2, np.zeros(5), "image: shape"),
        (2, np.full((5, 5), np.nan), "image: NaN"),
    ],
)
def test_bad_input(n_clusters, image, words):
    with pytest.raises(InputError, match=words):
        ml.RegionCut(n_clusters).fit(image)
