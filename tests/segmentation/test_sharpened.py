"""The steps of a cut along strokes against slow twins: boundary, grid, cells, pieces."""

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

import mustlink as ml
import oracles
from cases import random_graph
from mustlink.graph.image import (
    around,
    auto_color,
    boundary,
    cells_of,
    means,
    most_frequent,
    picture_colours,
    spread,
)
from mustlink.segmentation.levels import grid_among, log_density
from mustlink.segmentation.stroke_cut import (
    ground_of,
    paths,
    rooted,
    sharpened,
    walks,
)


@pytest.mark.thorough
def test_the_boundary_costs_hardly_more_than_the_least():
    """Against all labelings: differences of 0.02 count as none, so that some cuts are not least."""
    gaps = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n = 12
        W = random_graph(rng, n)
        odds = rng.normal(0.0, W.sum() / n, n)
        free = np.ones(n, dtype=bool)
        free[rng.choice(n, 3, replace=False)] = False
        given = rng.integers(0, 2, n) * 1.0
        f, steps = sharpened(W, odds, given, free, np.full(n, 0.5))
        assert ((f >= 0) & (f <= 1)).all()
        assert steps > 0
        np.testing.assert_array_equal(f[~free], given[~free])
        cut = np.where(free, f > 0.5, given) * 1.0
        least = oracles.least_cut(W.toarray(), odds, given, free)
        cost = oracles.boundary_cost(W.toarray(), odds, cut)
        assert cost >= least - 1e-9
        gaps.append((cost - least) / W.sum())
    assert np.mean(np.array(gaps) < 1e-9) > 0.8
    assert max(gaps) < 0.02


def test_what_outweighs_all_edges_is_kept():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        W = random_graph(rng, 30)
        odds = np.sign(rng.normal(size=30)) * (np.asarray(W.sum(axis=1)).ravel() + 1.0)
        f, _ = sharpened(W, odds, np.zeros(30), np.ones(30, dtype=bool), np.full(30, 0.5))
        np.testing.assert_array_equal(f > 0.5, odds > 0)


def test_it_starts_where_it_is_told_and_ends_at_once():
    rng = np.random.default_rng(0)
    W, odds = random_graph(rng, 300), rng.normal(0.0, 1.0, 300)
    free = rng.random(300) > 0.1
    given = (odds > 0) * 1.0
    f, steps = sharpened(W, odds, given, free, np.full(300, 0.5))
    again, fewer = sharpened(W, odds, given, free, (f > 0.5) * 1.0)
    assert fewer < steps
    assert np.mean((again > 0.5) == (f > 0.5)) > 0.98


def test_nothing_free_is_what_is_given():
    W = random_graph(np.random.default_rng(0), 10)
    given = np.arange(10) % 2 * 1.0
    f, steps = sharpened(W, np.ones(10), given, np.zeros(10, dtype=bool), np.zeros(10))
    np.testing.assert_array_equal(f, given)
    assert steps == 0


@pytest.mark.parametrize("k", [2, 3])
def test_walks_are_harmonic(k):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        W = random_graph(rng, 40)
        painted = np.full((5, 8), -1)
        painted.ravel()[rng.choice(40, 9, replace=False)] = np.arange(9) % k
        true = 1.5 * oracles.walk_shares(W.toarray(), painted.ravel(), k)
        found = walks(W, painted, k)
        assert found.shape == (5, 8, k)
        close = np.abs(found.reshape(-1, k) - true)[painted.ravel() < 0]
        assert np.median(close) < 0.02  # harmonic values are solved to three digits
        np.testing.assert_allclose(found.reshape(-1, k).max(axis=1), 0.0)
        known = painted >= 0
        np.testing.assert_array_equal(found.argmax(axis=2)[known], painted[known])


@pytest.mark.parametrize("shape", [(1, 7), (7, 1), (5, 6), (9, 4), (3, 4, 5), (1, 3, 6), (5, 1, 1)])
def test_grid_is_that_of_image_graph(shape):
    rng = np.random.default_rng(1)
    image = rng.integers(0, 256, (*shape, 3), dtype=np.uint8)
    colours, _ = picture_colours(image, "lab", -1)
    apart = (2.5, 1.0, 1.5)[: len(shape)]
    whole = ml.image_graph(image, 1.5, n_similar=0, channel_axis=-1, spacing=apart)
    whole = whole.affinity.toarray()
    sigma = auto_color(colours)
    found = grid_among(colours, np.ones(shape, dtype=bool), sigma, apart)
    np.testing.assert_allclose(found.toarray(), whole, rtol=1e-12)
    inside = rng.random(shape) < 0.6
    part = np.flatnonzero(inside)
    found = grid_among(colours, inside, sigma, apart)
    np.testing.assert_allclose(found.toarray(), whole[np.ix_(part, part)], rtol=1e-12)


@pytest.mark.parametrize("shape", [(6, 7), (3, 4, 3), (1, 9)])
def test_paths_are_shortest(shape):
    """On grids of random colours, with equal neighbours too; all edges relaxed n times."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        k = 2 + seed % 2
        colours = rng.integers(0, 3, (*shape, 2)) / 2.0
        grid = grid_among(colours, np.ones(shape, dtype=bool), 0.3, (1.0,) * len(shape))
        painted = np.full(shape, -1)
        painted.ravel()[rng.choice(painted.size, 6, replace=False)] = np.arange(6) % k
        true = oracles.path_shares(grid.toarray(), painted.ravel(), k)
        found = paths(grid, painted, k)
        np.testing.assert_allclose(found, true.reshape(*shape, k), atol=1e-10)
        known = painted >= 0
        np.testing.assert_array_equal(found.argmax(axis=-1)[known], painted[known])


@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 3), (4, 2), (5, 6)])
def test_density_of_mixtures(n, d):
    """As scikit-learn has it, also where nothing is near."""
    rng = np.random.default_rng(n + d)
    model = GaussianMixture(n, reg_covar=1.0, random_state=0).fit(rng.normal(size=(200, d)) * 9)
    X = np.concatenate([rng.normal(size=(50, d)), np.full((1, d), 1e4)])
    np.testing.assert_allclose(log_density(model, X), model.score_samples(X), rtol=1e-9)


@pytest.mark.parametrize("units", [(1, 1), (2, 2), (5, 3), (1, 1, 1), (3, 3, 3), (1, 2, 3)])
def test_cells(units):
    rng = np.random.default_rng(units[0])
    shape = (7, 11, 5)[: len(units)]
    picture, codes = rng.random((*shape, 3)), rng.integers(-1, 3, shape)
    codes[:4, :4] = -1
    cells = means(picture, units)
    np.testing.assert_allclose(cells, oracles.cell_means(picture, units))
    np.testing.assert_array_equal(
        most_frequent(codes, 3, units), oracles.cell_codes(codes, 3, units)
    )
    back = spread(cells, units, shape)
    assert back.shape == picture.shape
    for place in np.ndindex(shape):
        cell = tuple(np.floor_divide(place, units))
        np.testing.assert_array_equal(back[place], cells[cell])
        assert cells_of(place, units) == cell


@pytest.mark.parametrize("shape", [(9, 8), (4, 3, 4)])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_boundary_and_around(width, shape):
    labels = np.random.default_rng(width).integers(0, 2, shape).repeat(2, 0).repeat(2, 1)
    places = np.indices(labels.shape)
    found, wide = boundary(labels, width), around(labels == 1, width)
    for place in np.ndindex(labels.shape):
        far = np.abs(places - np.reshape(place, (-1, *(1,) * labels.ndim))).max(axis=0)
        assert found[place] == (labels != labels[place])[far <= width].any()
        assert wide[place] == (labels == 1)[far <= width].any()


@pytest.mark.thorough
@pytest.mark.parametrize(("shape", "k"), [((10, 12), 3), ((4, 5, 6), 15)])
def test_every_piece_but_of_the_ground_has_a_stroke(shape, k):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, k, shape)
        strokes = np.full(labels.shape, -1)
        for code in np.unique(labels):
            strokes[tuple(np.argwhere(labels == code)[0])] = code
        ground = ground_of(labels)
        before = labels.copy()
        found = rooted(labels, strokes, ground, (1.0,) * len(shape))
        np.testing.assert_array_equal(labels, before)
        np.testing.assert_array_equal(found[strokes >= 0], strokes[strokes >= 0])
        for code in range(k):
            for piece in oracles.pieces_of(before == code):
                kept = code == ground or any(strokes[p] == code for p in piece)
                if kept and code >= ground:  # later labels may give their pieces to earlier ones
                    assert all(found[p] == code for p in piece)
        assert (found != before).any()


def test_the_ground_has_most_of_the_frame():
    labels = np.ones((5, 6), dtype=np.int64)
    labels[2, 2] = 0
    assert ground_of(labels) == 1
    labels[:, 0], labels[0], labels[-1] = 2, 2, 2
    assert ground_of(labels) == 2
    volume = np.ones((4, 5, 6), dtype=np.int64)
    volume[0], volume[:, :, 0] = 0, 2
    assert ground_of(volume) == 1
    volume[:, 0] = 2
    assert ground_of(volume) == 2


def test_lost_pieces_join_what_is_nearest_where_slices_are_far_apart():
    labels = np.array([[0, 0, 0], [1, 2, 1], [0, 0, 0]])
    strokes = np.where(labels == 1, 1, -1)
    assert rooted(labels, strokes, 0, (1.0, 3.0))[1, 1] == 0
    assert rooted(labels, strokes, 0, (3.0, 1.0))[1, 1] == 1
