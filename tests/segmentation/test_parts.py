"""The steps of a cut without strokes against slow twins: basins, borders, merging, edges."""

import numpy as np
import pytest
from scipy import ndimage

import oracles
from mustlink.kernels.region_merging import borders, flood, merged, minima
from mustlink.segmentation.region_cut import (
    Merging,
    colour_words,
    histogram_jump,
    jump,
    small_regions,
    texture_words,
)

SHAPES = [(1, 1), (1, 9), (9, 1), (6, 7), (13, 11)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("levels", [1, 3, 50])
def test_basins(shape, levels):
    for seed in range(10):
        heights = np.random.default_rng(seed).integers(0, levels, shape)
        true, count = oracles.plateau_minima(heights)
        found, n = minima(heights)
        assert n == count
        np.testing.assert_array_equal(found, true)
        before = found.copy()
        basins = flood(heights, found)
        np.testing.assert_array_equal(found, before)
        np.testing.assert_array_equal(basins, oracles.flooded(heights, true))
        for k in range(n):
            assert ndimage.label(basins == k)[1] == 1


def test_flooding_from_some_labels():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        heights = rng.integers(0, 9, (12, 10))
        markers = np.where(rng.random((12, 10)) < 0.1, rng.integers(0, 4, (12, 10)), -1)
        markers[0, 0] = 7
        np.testing.assert_array_equal(flood(heights, markers), oracles.flooded(heights, markers))


def scene(seed, shape=(16, 17), k=9):
    """Connected regions, edges and words at random."""
    rng = np.random.default_rng(seed)
    markers = np.full(shape, -1)
    markers.ravel()[rng.choice(markers.size, k, replace=False)] = np.arange(k)
    labels = flood(rng.integers(0, 20, shape), markers)
    hues, textures = rng.integers(0, 32, shape), rng.integers(0, 24, shape)
    return labels, rng.random(shape), hues // (1 + labels), textures


def test_borders():
    for seed in range(10):
        labels, edges, _, _ = scene(seed)
        lengths, strengths = borders(labels, edges, 9)
        true, sums = np.zeros((9, 9)), np.zeros((9, 9))
        for p in np.ndindex(labels.shape):
            for q in oracles.beside(labels.shape, *p):
                if labels[p] != labels[q]:
                    true[labels[p], labels[q]] += 1
                    sums[labels[p], labels[q]] += max(edges[p], edges[q])
        np.testing.assert_array_equal(lengths, true)
        np.testing.assert_allclose(strengths, sums)


@pytest.mark.thorough
def test_merging_is_that_of_all_odds_again_at_each_step():
    for seed in range(10):
        labels, edges, hues, textures = scene(seed)
        weights = np.random.default_rng(seed).normal(size=7)
        steps = oracles.merging(labels, edges, hues, textures, weights)
        counts = [
            np.stack([np.bincount(words[labels == r], minlength=n) for r in range(9)]) * 1.0
            for words, n in ((hues, 32), (textures, 24))
        ]
        pairs, odds = merged(*counts, *borders(labels, edges, 9), weights)
        np.testing.assert_array_equal(pairs, [step[:2] for step in steps])
        np.testing.assert_allclose(odds, [step[2] for step in steps])


def test_merging_can_be_stopped_anywhere():
    labels, edges, hues, textures = scene(3)
    merging = Merging.of(labels, 9, edges, hues, textures)
    for k in range(1, 10):
        parts = merging.labels(k)
        np.testing.assert_array_equal(np.unique(parts), np.arange(k))
        assert all(ndimage.label(parts[labels] == c)[1] == 1 for c in range(k))
        finer = merging.labels(min(k + 1, 9))
        assert len(np.unique(np.stack([parts, finer]), axis=1).T) == min(k + 1, 9)
    for odds in (-150.0, 0.0, 3.0):
        k = merging.count(odds)
        assert (merging.odds[: 9 - k] <= odds).all()
        assert k == 1 or merging.odds[9 - k] > odds
    assert merging.count(np.inf) == 1
    assert merging.count(-np.inf) == 9


def test_specks_are_joined_first():
    labels = np.zeros((200, 200), dtype=np.int64)
    labels[100:], labels[10:14, 10:14], labels[50:70, 50:70] = 1, 2, 3  # 16 pixels are too few
    edges, words = np.where(labels >= 2, 1.0, 0.0), np.where(labels >= 2, 5, 3)
    merging = Merging.of(labels, 4, edges, words, words)
    np.testing.assert_array_equal(merging.pairs, [(0, 2), (0, 1), (0, 3)])
    assert merging.count() == 2


@pytest.mark.parametrize("width", [1.0, 3.0])
def test_jumps_of_histograms(width):
    words = np.random.default_rng(0).integers(0, 4, (15, 13))
    found = histogram_jump(words, 4, width)

    def blur(plane, sigma):
        return ndimage.gaussian_filter(plane, sigma, mode="nearest", truncate=3.0)

    np.testing.assert_allclose(found, oracles.steepest(words, 4, width, blur), atol=1e-12)
    np.testing.assert_allclose(histogram_jump(words.T, 4, width), found.T, atol=1e-12)
    np.testing.assert_allclose(histogram_jump(3 - words, 4, width), found, atol=1e-12)
    assert not histogram_jump(np.ones((5, 6), dtype=np.int64), 4, width).any()


def test_a_ramp_has_its_slope():
    y, x = np.mgrid[:40, :50]
    ramp = np.stack([0.01 * x, 0.02 * y, 0.01 * x + 0.02 * y], axis=-1)
    true = np.linalg.norm([[0.01, 0.0], [0.0, 0.02], [0.01, 0.02]], 2)
    np.testing.assert_allclose(jump(ramp, 1.0)[10:-10, 10:-10], true, rtol=1e-9)


def test_words_tell_colours_and_textures_apart():
    y, x = np.mgrid[:40, :60]
    left = x < 30
    colours = np.where(left[..., None], [0.5, 0.3, 0.1], [0.5, -0.2, 0.3])
    hues = colour_words(colours, 0)
    assert not set(hues[:, :25].ravel()) & set(hues[:, 35:].ravel())
    light = np.where(left, (x // 2) % 2, (y // 2) % 2) * 0.5
    grains = texture_words(light, 0)
    assert not set(grains[5:-5, 5:22].ravel()) & set(grains[5:-5, 38:-5].ravel())


def test_no_picture_has_too_many_small_regions(monkeypatch):
    monkeypatch.setattr("mustlink.segmentation.region_cut._MOST", 20)
    edges = np.random.default_rng(0).random((80, 90))
    regions, n = small_regions(edges)
    assert n <= 20
    np.testing.assert_array_equal(np.unique(regions), np.arange(n))
