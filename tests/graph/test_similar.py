"""Edges between pixels that look alike, against all pairs compared."""

import numpy as np
import pytest

import mustlink as ml
import oracles
from mustlink.errors import InputError
from mustlink.graph import image as image_module
from mustlink.graph.image import pixel_features, similar_pixels


def picture(seed=0, shape=(9, 11, 3)):
    return np.random.default_rng(seed).random(shape)


@pytest.mark.parametrize("few", [0, 30_000])
@pytest.mark.parametrize("k", [1, 4, 8])
def test_equals_all_pairs_compared(k, few, monkeypatch):
    monkeypatch.setattr(image_module, "_FEW", few)
    colours = picture(k)
    features = pixel_features(colours, 0.25)
    indices, lengths = oracles.knn_lists(features, k)
    dense = oracles.knn_affinity(indices, lengths, "local")
    found = similar_pixels(colours, k).toarray()
    # distances of the oracle are sums in another order
    np.testing.assert_allclose(found, dense, rtol=1e-9, atol=1e-12)


def test_a_volume_of_one_page_and_axes_in_another_order():
    colours, spacing = picture(1, (4, 5, 6, 2)), (2.0, 1.0, 1.0)
    page = similar_pixels(colours[:1], 4, 0.25, spacing)
    flat = similar_pixels(colours[0], 4, 0.25, spacing[1:])
    np.testing.assert_allclose(page.toarray(), flat.toarray(), rtol=1e-9)
    features = pixel_features(colours, 0.25, spacing)
    assert features.shape == (120, 2 * 2 + 1 + 3)
    z, y, x = np.indices((4, 5, 6)).reshape(3, -1)
    np.testing.assert_allclose(features[:, -3:], np.column_stack([x, y, 2 * z]) * 0.25 / 6)
    turned = pixel_features(colours.transpose(1, 0, 2, 3), 0.25, (1.0, 2.0, 1.0))
    turned = turned.reshape(5, 4, 6, -1).transpose(1, 0, 2, 3).reshape(120, -1)
    np.testing.assert_allclose(turned[:, :-2], features[:, :-2])


def test_flat_image_has_edges_and_no_loops():
    W = similar_pixels(np.zeros((6, 6, 3)), 4)
    assert W.diagonal().max() == 0
    assert (W.getnnz(axis=1) >= 1).all()
    assert abs(W - W.T).max() == 0


def test_image_graph_joins_far_pixels_that_look_alike():
    image = np.zeros((20, 30), dtype=np.uint8)
    image[:, 10:20] = 255
    near = ml.image_graph(image, radius=1.5, n_similar=0)
    far = ml.image_graph(image, radius=1.5, n_similar=5, position=0.01)
    rows, columns = far.affinity.nonzero()
    step = np.abs(rows % 30 - columns % 30)
    assert near.affinity.nnz < far.affinity.nnz
    assert step.max() > 2
    assert far.info["n_similar"] == 5
    assert ml.image_graph(image).info["n_similar"] == 8


def test_bad_number_is_told():
    with pytest.raises(InputError, match="n_similar"):
        ml.image_graph(np.zeros((4, 4)), n_similar=-1)
