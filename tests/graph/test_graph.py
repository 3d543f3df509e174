"""Graphs against their dense twins, and the awkward inputs."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import cases
import mustlink as ml
import oracles
from mustlink.context import neighbor_cost as sizes
from mustlink.core.observe import Recorder
from mustlink.errors import DoubtfulResultWarning, InputError
from mustlink.graph import Graph, image_graph, rbf_graph
from mustlink.graph.graph import component_labels, cuthill_mckee, has_even_degrees
from mustlink.graph.image import rgb_to_lab
from mustlink.graph.weights import local_scales, neighbour_affinity
from mustlink.neighbors import cell_search, knn_graph
from mustlink.neighbors import exact as exact_module
from mustlink.neighbors.bridges import bridging_edges
from mustlink.neighbors.exact import drop_own, exact_neighbours
from mustlink.operators.laplacian import normalized_laplacian

seeds = st.integers(0, 10**6)


# Of a weight exp(−x) of 1e-8, the least, or more: x = d²/(s_i s_j) <= 18.4, all rounded to single.
ROUNDED = 4 * 18.4 * 2.0**-24


def exact_in_single(X):
    """Points on a grid of 2⁻¹⁰: single precision holds them, less the mean of 64 of them too."""
    assert len(X) == 64
    return np.round(1024 * X) / 1024


def symmetric(W):
    return abs(W - W.T).max() == 0


# --- neighbours and weights


@pytest.mark.parametrize("kind", ["local", "gaussian", "connectivity"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_knn_matches_loops(kind, metric):
    X = exact_in_single(cases.blobs(np.random.default_rng(1), 64, 3, d=4)[0])
    g = knn_graph(X, 9, metric=metric, weights=kind, connect=False)
    P = X / np.linalg.norm(X, axis=1, keepdims=True) if metric == "cosine" else X
    P = P.astype(np.float32).astype(np.float64)  # as points are held
    indices, lengths = oracles.knn_lists(P, 9)
    expected = oracles.knn_affinity(indices, lengths, kind, sigma=lengths.mean())
    assert_allclose(g.affinity.toarray(), expected, rtol=ROUNDED, atol=0)
    assert g.affinity.has_sorted_indices
    assert g.affinity.dtype == np.float64
    assert symmetric(g.affinity)


def test_given_sigma():
    X = exact_in_single(cases.blobs(np.random.default_rng(2), 64, 1)[0])
    g = knn_graph(X, 5, weights="gaussian", sigma=0.7)
    indices, lengths = oracles.knn_lists(X, 5)
    expected = oracles.knn_affinity(indices, lengths, "gaussian", 0.7)
    assert_allclose(g.affinity.toarray(), expected, rtol=ROUNDED, atol=0)
    assert g.info["sigma"] == 0.7


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(2, 60), st.integers(1, 20), st.integers(0, 12), st.booleans())
def test_knn_properties(seed, n, k, duplicates, single):
    rng = np.random.default_rng(seed)
    X, _ = cases.blobs(rng, n, 3, duplicates=min(duplicates, n))
    X = X.astype(np.float32) if single else X
    before = X.copy()
    g = knn_graph(X, k, random_state=seed)
    W = g.affinity
    assert_array_equal(X, before)
    assert symmetric(W)
    assert g.n_components == 1
    assert W.diagonal().max() == 0
    assert W.data.min() > 0
    assert W.data.max() <= 1
    assert np.isfinite(W.data).all()
    assert np.diff(W.indptr).min() >= min(k, n - 1)
    assert g.info["n_bridges"] == g.info["components_before"] - 1


def test_all_points_equal():
    g = knn_graph(np.ones((30, 3)), 5)
    assert g.n_components == 1
    assert set(g.affinity.data) <= {0.5, 1.0}  # one lists the other, or both do
    assert g.affinity.diagonal().max() == 0


def test_fewer_points_than_neighbours():
    recorder = Recorder()
    g = knn_graph(np.arange(5.0)[:, None], 15, observer=recorder)
    assert g.info["n_neighbors"] == 4
    assert g.n_edges == 10
    assert any("5 points" in note for note in recorder.notes)


def test_far_offset_keeps_digits():
    """The mean is taken away in double precision: not a digit of these points is lost."""
    X = exact_in_single(cases.blobs(np.random.default_rng(0), 64, 2)[0])
    near, far = knn_graph(X, 6), knn_graph(X + 5e6, 6)
    assert_array_equal(near.affinity.toarray(), far.affinity.toarray())


def test_points_that_are_all_equal_are_a_warning():
    X = np.tile(np.random.default_rng(0).normal(size=4), (300, 1))
    X[:3] += np.eye(4)[:3]  # all but a few
    with pytest.warns(DoubtfulResultWarning, match="297 of 300 points are equal to all"):
        ml.NCut(2, n_neighbors=5, random_state=0).fit(X)
    X[:60] = np.random.default_rng(1).normal(size=(60, 4))
    est = ml.NCut(2, n_neighbors=5, random_state=0).fit(X)
    assert not any("are equal to all" in told for told in est.report_.warnings)


def test_local_scales_of_duplicates():
    d = np.array([[0.0] * 7 + [0.5], [0.0] * 8, [1.0] * 6 + [2.0, 3.0], [1, 2] + [np.inf] * 6])
    assert_allclose(local_scales(d), [0.5, 2.0, 2.0, 2.0])
    assert_allclose(local_scales(np.zeros((3, 4))), 1.0)


def test_missing_neighbours():
    indices = np.array([[1, -1], [0, 2], [1, -1], [-1, -1]], dtype=np.int32)
    lengths = np.array([[1, np.inf], [1, 2], [2, np.inf], [np.inf, np.inf]], dtype=np.float32)
    W = neighbour_affinity(indices, lengths, "gaussian", 1.0).toarray()
    expected = np.zeros((4, 4))
    expected[0, 1] = expected[1, 0] = np.exp(-0.5)
    expected[1, 2] = expected[2, 1] = np.exp(-2.0)
    assert_allclose(W, expected)


def test_drop_own_anywhere_or_absent():
    indices = np.array([[0, 1, 2], [0, 1, 2], [0, 1, 3], [2, 0, 3]], dtype=np.int32)
    lengths = np.zeros((4, 3), dtype=np.float32)
    assert_array_equal(
        drop_own(indices, lengths, np.arange(4))[0], [[1, 2], [0, 2], [0, 1], [2, 0]]
    )


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(3, 50), st.integers(1, 5))
def test_exact_neighbours_in_small_blocks(seed, n, d):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(np.float32)
    nodes = rng.choice(n, size=n // 2, replace=False)
    k = min(4, n - 1)
    old = exact_module._CELLS, exact_module._WIDE
    exact_module._CELLS, exact_module._WIDE = 20, int(rng.integers(2, n + 1))
    try:
        indices, lengths = exact_neighbours(X, nodes, k)
    finally:
        exact_module._CELLS, exact_module._WIDE = old
    expected, true = oracles.knn_lists(X, k)
    assert_array_equal(indices, expected[nodes])
    assert_allclose(lengths, true[nodes], rtol=2.0**-23)  # handed out in single


@pytest.mark.parametrize("memory", [None, "8GB"])
@pytest.mark.parametrize(
    ("dtype", "exponent"),
    [(np.float64, 900), (np.float64, -900), (np.float32, 125), (np.float32, -90)],
)
def test_the_unit_of_points_is_no_part_of_their_graph(exponent, memory, dtype, monkeypatch):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((300, 4)), rng.integers(1, 3, 300), axis=0).astype(dtype)
    far = np.ldexp(X, exponent)
    for searched in (False, True) if memory else (False,):
        if searched:
            monkeypatch.setattr(sizes, "compares_all", lambda *_, **__: False)
        for asked in ({}, {"weights": "gaussian"}, {"weights": "gaussian", "sigma": 0.5}):
            how = {"random_state": 0, "memory": memory, "duplicates": "merge"}
            one = knn_graph(X, 8, **how, **asked)
            recorder = Recorder()
            scaled = {
                name: 0.5 * 2.0**exponent if name == "sigma" else asked[name] for name in asked
            }
            other = knn_graph(far, 8, **how, **scaled, observer=recorder)
            assert any("points: multiplied by 2^" in note for note in recorder.notes)
            assert_allclose(other.affinity.toarray(), one.affinity.toarray(), rtol=1e-5)
            if asked:
                assert_allclose(other.info["sigma"], np.ldexp(one.info["sigma"], exponent), 1e-6)


def test_points_of_many_columns_are_compared_by_few_rows(monkeypatch):
    X = np.eye(300, dtype=np.float32)
    held, lengths = [], exact_module._lengths
    monkeypatch.setattr(exact_module, "_CELLS", 3000)
    monkeypatch.setattr(
        exact_module, "_lengths", lambda *a: held.append(a[1].shape[0]) or lengths(*a)
    )
    indices, distances = exact_neighbours(X, np.arange(300), 5)
    assert max(held) == 3000 // 300
    assert all(np.unique(row).size == 5 for row in indices)
    assert_allclose(distances, np.sqrt(2), rtol=1e-6)


def test_brute_does_not_import_the_compiler():
    code = (
        "import sys, numpy as np\n"
        "from mustlink.neighbors import knn_graph\n"
        "knn_graph(np.random.default_rng(0).random((300, 3)), 5)\n"
        "assert 'numba' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_many_points_are_the_same_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr("mustlink.context.neighbor_cost.compares_all", lambda *_, **__: False)
    X, _ = cases.blobs(np.random.default_rng(3), 5000, 6, d=10, duplicates=60)
    recorder = Recorder()
    first = knn_graph(X, 10, random_state=5, n_jobs=1, observer=recorder)
    assert [s.name for s in recorder.stages] == ["kNN graph", "weights", "components"]
    assert first.affinity.dtype == np.float64
    assert not any("a memory was named" in note for note in recorder.notes)
    for jobs in (2, None):
        again = knn_graph(X, 10, random_state=5, n_jobs=jobs).affinity
        assert_array_equal(first.affinity.indices, again.indices)
        assert_array_equal(first.affinity.data, again.data)
    assert first.info["method"] == "cells"
    assert first.info["recall"] > 0.95
    assert first.info["recall_sample"] == 500
    assert first.n_components == 1
    assert first.affinity.diagonal().max() == 0
    assert np.diff(first.affinity.indptr).min() >= 10
    blob = first.affinity[-60:][:, -60:]  # duplicates keep each other
    assert set(blob.data) <= {0.5, 1.0}  # one lists the other, or both do


def test_low_recall_is_said(monkeypatch):
    monkeypatch.setattr(cell_search, "_recall", lambda *_: 0.5)
    monkeypatch.setattr("mustlink.context.neighbor_cost.compares_all", lambda *_, **__: False)
    recorder = Recorder()
    g = knn_graph(np.random.default_rng(0).random((4500, 6)), 5, observer=recorder)
    assert g.info["recall"] == 0.5
    assert any("0.500 of the true neighbours" in note for note in recorder.notes)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"points": np.ones((1, 3))}, "at least 2"),
        ({"points": np.array([[1.0, 0.0], [0.0, 0.0]]), "metric": "cosine"}, "row 1 is all zeros"),
        ({"points": np.ones((4, 2)), "metric": "far"}, "choose euclidean | cosine"),
        ({"points": np.ones((4, 2)), "weights": "heat"}, "weights: 'heat' is unknown"),
        ({"points": np.ones((4, 2)), "n_neighbors": 0}, "at least 1"),
        ({"points": np.ones((4, 2)), "n_neighbors": 2.5}, "not a whole number"),
        ({"points": np.ones((4, 2)), "sigma": -1}, "above 0"),
        ({"points": np.eye(4) * 1e300}, "lost digits in float64"),
        (
            {"points": np.array([[1.0], [np.nan], [2.0], [np.inf]])},
            "NaN in 1 row, the first is row 1, column 0",
        ),
    ],
)
def test_bad_knn_input(arguments, words):
    with pytest.raises(InputError, match=words.replace("|", r"\|")) as caught:
        knn_graph(**arguments)
    assert "\n" not in str(caught.value)


# --- components and bridges


@pytest.mark.thorough
@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(1, 4), st.integers(0, 5), st.sampled_from([np.int32, np.int64]))
def test_components_match_flood_filling(seed, count, isolated, index):
    rng = np.random.default_rng(seed)
    A = cases.random_graph(rng, 40 + isolated, count, isolated)
    A.indices, A.indptr = A.indices.astype(index), A.indptr.astype(index)
    expected = oracles.components(A.toarray())
    for few in (0, 1 << 18):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mustlink.graph.graph._FEW_ENTRIES", few)
            labels = component_labels(A)
        assert labels.dtype == np.int32
        assert_array_equal(labels, expected)
    assert labels.max() + 1 == count + isolated
    assert np.all(np.diff(np.bincount(labels)) <= 0)


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(2, 60), st.integers(1, 12))
def test_bridges_are_a_shortest_tree(seed, n, count):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    labels = rng.integers(0, count, n)
    pairs, lengths = bridging_edges(X, labels, rng)
    assert_allclose(np.sort(lengths), oracles.bridge_lengths(X, labels), atol=1e-9)
    assert_allclose(np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1), lengths)


def test_sampled_bridges_join_everything(monkeypatch):
    monkeypatch.setattr("mustlink.neighbors.bridges._WORK", 1e7)
    monkeypatch.setattr("mustlink.neighbors.bridges._QUERIES", 60)
    X, labels = cases.blobs(np.random.default_rng(4), 4000, 12, d=3, separation=20.0)
    pairs, lengths = bridging_edges(X, labels, np.random.default_rng(0))
    assert len(pairs) == 11
    joined = sp.csr_matrix((np.ones(11), (labels[pairs[:, 0]], labels[pairs[:, 1]])), (12, 12))
    assert component_labels(joined + joined.T).max() == 0
    monkeypatch.undo()
    _, exact = bridging_edges(X, labels, np.random.default_rng(0))
    assert lengths.sum() <= 1.3 * exact.sum()


@pytest.mark.thorough
def test_thousands_of_small_components():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.random((3000, 2)), 4, axis=0)
    pairs, _ = bridging_edges(X, np.repeat(np.arange(3000), 4), rng)
    assert len(pairs) == 2999


def test_connect_false_keeps_components():
    X, _ = cases.blobs(np.random.default_rng(0), 90, 3, separation=50.0)
    recorder = Recorder()
    apart = knn_graph(X, 5, connect=False, observer=recorder)
    joined = knn_graph(X, 5, observer=recorder)
    assert apart.n_components == apart.info["components_before"] >= 3
    assert apart.info["n_bridges"] == 0
    assert joined.n_components == 1
    assert joined.affinity.nnz == apart.affinity.nnz + 2 * joined.info["n_bridges"]
    assert joined.affinity.data.min() >= 5e-9
    assert sum("bridging edges" in note for note in recorder.notes) == 1


# --- order


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(1, 3))
def test_order_is_a_permutation_that_narrows_the_band(seed, count):
    A = cases.random_graph(np.random.default_rng(seed), 60, count, 2, density=0.0)
    order = cuthill_mckee(A)
    assert order.dtype == np.int64
    assert_array_equal(np.sort(order), np.arange(60))
    before, after = A.tocoo(), A[order][:, order].tocoo()
    assert abs(after.row - after.col).sum() <= abs(before.row - before.col).sum()
    linked = order[np.asarray(A.sum(axis=1)).ravel()[order] > 0]
    assert_array_equal(normalized_laplacian(Graph.from_affinity(A)).nodes, linked)


# --- images


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(1, 6), st.integers(1, 6), st.sampled_from([1, 1.5, 2, 3]), st.booleans())
def test_image_matches_loops(seed, h, w, radius, automatic):
    rng = np.random.default_rng(seed)
    image = rng.random((h, w, 2))
    if h * w < 2:
        with pytest.raises(InputError, match="at least 2"):
            image_graph(image)
        return
    sigmas = {} if automatic else {"sigma_color": 0.3, "sigma_space": 1.2}
    g = image_graph(image, radius, n_similar=0, **sigmas)
    info = g.info
    expected = oracles.image_affinity(
        image, radius, info["sigma_color"], info["sigma_space"], info["floor"]
    )
    assert_allclose(g.affinity.toarray(), expected, rtol=1e-12)
    assert g.affinity.indices.dtype == np.int32
    assert g.n_components == 1
    g.affinity.has_canonical_format = False  # make scipy look
    assert g.affinity.has_sorted_indices
    assert Graph.from_affinity(g.affinity).n_edges == g.n_edges


@pytest.mark.parametrize("radius", [1, 1.5, 1.8, 2])
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 4, 5), (4, 1, 1), (2, 3, 2, 3)])
def test_volume_matches_loops(shape, radius):
    rng = np.random.default_rng(len(shape))
    volume, spacing = rng.random(shape), (3.0, 1.0, 1.5, 1.0)[: len(shape)]
    whole = image_graph(volume, radius, n_similar=0, channel_axis=None, spacing=spacing)
    expected = oracles.image_affinity(
        volume[..., None], radius, whole.info["sigma_color"], radius, 1e-6, spacing
    )
    assert_allclose(whole.affinity.toarray(), expected, rtol=1e-12)
    whole.affinity.has_canonical_format = False  # make scipy look
    assert whole.affinity.has_sorted_indices
    assert whole.info["shape"] == shape
    several = np.stack([volume, 1 - volume], axis=1)
    first = image_graph(several, radius, n_similar=0, channel_axis=1).affinity
    last = np.moveaxis(several, 1, -1)
    assert_allclose(
        image_graph(last, radius, n_similar=0, channel_axis=-1).affinity.toarray(), first.toarray()
    )


def test_neighbours_of_a_voxel():
    for radius, count in ((1, 6), (1.5, 18), (1.8, 26)):
        W = image_graph(np.zeros((3, 3, 3)), radius, n_similar=0, channel_axis=None).affinity
        assert W[13].nnz == count


def test_image_types_agree():
    rng = np.random.default_rng(0)
    eight = rng.integers(0, 256, (7, 5, 3)).astype(np.uint8)
    reference = image_graph(eight, n_similar=0).affinity
    for other in (eight / 255.0, np.dstack([eight, np.full((7, 5), 255, np.uint8)])):
        assert_allclose(image_graph(other, n_similar=0).affinity.data, reference.data, rtol=1e-9)
    assert image_graph(eight[:, :, 0]).n_nodes == 35
    assert image_graph(eight, color="rgb").info["color"] == "rgb"


def test_flat_image_and_hard_edge_stay_connected():
    flat = image_graph(np.zeros((4, 4)), n_similar=0)
    assert flat.n_components == 1
    edge = np.zeros((6, 6))
    edge[:, 3:] = 1
    edge = image_graph(edge, sigma_color=1e-3, n_similar=0)
    assert edge.n_components == 1
    assert edge.affinity.data.min() == edge.info["floor"]


def test_lab_of_known_colours():
    rgb = np.array([[1.0, 1, 1], [0, 0, 0], [1, 0, 0], [0, 0, 1]])
    red, blue = [53.2408, 80.0925, 67.2032], [32.2970, 79.1875, -107.8602]
    expected = [[100, 0, 0], [0, 0, 0], red, blue]  # tables have four digits
    assert_allclose(rgb_to_lab(rgb), expected, rtol=0, atol=5e-5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"image": np.zeros(5)}, "give \\(height, width\\)"),
        ({"image": np.full((2, 2), np.nan)}, "row 0, column 0"),
        ({"image": np.zeros((3, 3)), "radius": 0.5}, "no neighbour"),
        ({"image": np.zeros((3, 3)), "sigma_color": "some"}, "must be finite and above 0"),
        ({"image": np.zeros((3, 3)), "color": "hsv"}, "choose lab"),
        ({"image": np.array([["a"]])}, "real numbers"),
        ({"image": np.zeros((3, 3, 3, 3))}, "give channel_axis=None for a volume"),
        ({"image": np.zeros((3, 3, 3)), "channel_axis": 3}, "channel_axis: 3, but the image has"),
        ({"image": np.zeros((3, 3, 3)), "channel_axis": -4}, "channel_axis"),
        ({"image": np.zeros((3, 3)), "channel_axis": -1}, "channel_axis: -1"),
        ({"image": np.zeros((3, 3)), "spacing": (1, 0)}, "spacing: .* give 2 positive numbers"),
        ({"image": np.zeros((3, 3)), "spacing": (1, 1, 1)}, "spacing: .* give 2 positive"),
        (
            {"image": np.full((2, 2, 2), np.inf), "channel_axis": None},
            "NaN or Inf at index \\(0, 0, 0\\)",
        ),
    ],
)
def test_bad_image(arguments, words):
    with pytest.raises(InputError, match=words):
        image_graph(**arguments)


# --- full Gaussian


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(2, 30))
def test_rbf_matches_loops(seed, n):
    X = np.random.default_rng(seed).standard_normal((n, 3)) + 10
    g = rbf_graph(X)
    assert g.info["sigma"] == pytest.approx(np.sqrt(X.var(axis=0).mean()))
    assert_allclose(
        g.affinity.toarray(), oracles.rbf_affinity(X, g.info["sigma"]), rtol=1e-9, atol=1e-15
    )
    assert symmetric(g.affinity)


@pytest.mark.parametrize("exponent", [900, -900])
@pytest.mark.parametrize("sigma", [None, 0.7])
def test_the_unit_of_points_is_no_part_of_an_rbf_graph(sigma, exponent):
    X = np.random.default_rng(0).standard_normal((30, 3))
    one = rbf_graph(X, sigma)
    unit = None if sigma is None else np.ldexp(sigma, exponent)
    other = rbf_graph(np.ldexp(X, exponent), unit)
    assert_array_equal(other.affinity.toarray(), one.affinity.toarray())
    assert other.info["sigma"] == np.ldexp(one.info["sigma"], exponent)


def test_rbf_limits():
    with pytest.raises(InputError, match="20001 given, affinity='rbf' takes 2 to 20000"):
        rbf_graph(np.zeros((20001, 1)))
    assert_allclose(rbf_graph(np.zeros((3, 2))).affinity.data, 1.0)


def test_nodes_that_chose_as_many_neighbours_have_even_degrees():
    points = np.random.default_rng(0).normal(size=(400, 3))
    edges = np.diff(ml.knn_graph(points, 10, random_state=0).affinity.indptr)
    assert has_even_degrees(edges)
    assert not has_even_degrees(np.concatenate([edges, np.ones(20, dtype=int)]))
