"""Neighbours by cells against comparing all pairs, and memory against what was promised."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import cases
import oracles
from mustlink.context.neighbor_cost import cell_layout, knn_bytes, knn_plan
from mustlink.core.observe import NEVER, Recorder
from mustlink.core.resources import PROGRAM
from mustlink.errors import InputError, MustlinkError
from mustlink.graph.weights import lean_affinity, local_scales, neighbour_affinity, with_edges
from mustlink.kernels import nearest_lists as nearest
from mustlink.neighbors import knn_graph
from mustlink.neighbors import points_by_rows as rows_module
from mustlink.neighbors.bridges import bridging_edges
from mustlink.neighbors.cell_search import cell_lists
from mustlink.neighbors.cells import find_centres
from mustlink.neighbors.exact import exact_neighbours, exact_streamed
from mustlink.neighbors.points_by_rows import is_rows, prepare, scaled_points
from mustlink.space.disk import DiskBlock

seeds = st.integers(0, 10**6)


class Stored:
    """Points of which only blocks of rows can be had; remembers the largest."""

    def __init__(self, X):
        self.X, self.shape, self.largest = X, X.shape, 0

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        block = self.X[rows]
        self.largest = max(self.largest, len(block))
        return block


def lists_of(
    X, k, seed=0, n_jobs=1, source=Stored, room=1 << 28, deadline=NEVER, stored=False, **changes
):
    """Neighbours by cells in small blocks, so that little data takes every path."""
    rows = prepare(source(X), "euclidean")
    small = {"block_bytes": 1 << 14, **changes}
    sized = replace(cell_layout(*rows.shape, k, room), **small)
    if stored:
        sized = replace(sized, block=900, chunk=300, rows=1000)
    rng = np.random.default_rng(seed)
    return cell_lists(rows, k, rng, sized, sample=100, n_jobs=n_jobs, deadline=deadline)


def check_lists(X, indices, lengths):
    """What must hold of lists whatever was found."""
    n = indices.shape[0]
    assert indices.dtype == np.int32
    assert lengths.dtype == np.float32
    assert indices.min() >= 0
    assert indices.max() < n
    assert not np.any(indices == np.arange(n)[:, None])
    assert np.all(np.diff(np.sort(indices, axis=1), axis=1) > 0)
    assert np.all(np.diff(lengths, axis=1) >= 0)
    true = np.linalg.norm(X[indices].astype(float) - X[:, None].astype(float), axis=2)
    # Coordinates less their mean are rounded to single, and so is every step of a sum of d squares.
    d, rounding = X.shape[1], 2.0**-24
    largest = np.abs(X - X.mean(axis=0)).max()
    assert_allclose(
        lengths, true, rtol=(d + 2) * rounding, atol=2 * np.sqrt(d) * rounding * largest
    )


def recall_of(X, lengths):
    k = lengths.shape[1]
    _, true = exact_neighbours(X.astype(np.float32), np.arange(len(X)), k)
    return np.mean(lengths <= true[:, -1:] * (1 + 1e-5) + 1e-12)


# --- rows


@settings(max_examples=40, deadline=None)
@given(
    seeds,
    st.integers(2, 50),
    st.integers(1, 5),
    st.sampled_from([np.float32, np.float64, np.uint8]),
    st.sampled_from(["euclidean", "cosine"]),
)
def test_rows_are_prepared_as_arrays_are(seed, n, d, dtype, metric):
    rng = np.random.default_rng(seed)
    X = (100 * rng.random((n, d)) + 1).astype(dtype)
    whole = X if X.dtype != np.uint8 else X.astype(np.float32)
    old = rows_module.BLOCK_BYTES, rows_module._GAP_BYTES
    rows_module.BLOCK_BYTES, rows_module._GAP_BYTES = 64, 8
    try:
        rows = prepare(Stored(X), metric)
        expected = scaled_points(whole, metric)[0]
        found = np.concatenate([block for _, block in rows.blocks(64)])
        ids = rng.integers(0, n, 2 * n)
        assert_array_equal(found, expected)
        assert_array_equal(rows.gather(ids), found[ids])
        assert_array_equal(rows.gather(np.arange(0, n, 2)), found[::2])
        assert rows.source.largest <= max(1, 64 // (4 * d))
    finally:
        rows_module.BLOCK_BYTES, rows_module._GAP_BYTES = old


def test_what_counts_as_rows(tmp_path):
    import h5py

    assert is_rows(Stored(np.eye(3)))
    assert not any(map(is_rows, (np.eye(3), [[1.0]], sp.eye(3), None)))
    with h5py.File(tmp_path / "p.h5", "w") as file:
        assert is_rows(file.create_dataset("x", data=np.eye(3)))


@pytest.mark.parametrize(
    ("X", "metric", "words"),
    [
        (np.array([[1.0], [np.nan], [2]]), "euclidean", "NaN or Inf in row 1"),
        (np.array([[1.0], [0], [0]]), "cosine", "row 1 is all zeros \\(2 such rows\\)"),
        (np.ones((1, 3)), "euclidean", "at least 2"),
        (np.ones((5, 0)), "euclidean", "is empty"),
        (np.ones((5, 2, 2)), "euclidean", "\\(n points, d features\\)"),
        (np.eye(3) * 1e300, "euclidean", "lost digits in float64"),
        (np.eye(3, dtype=np.float32) * np.float32(1e-35), "euclidean", "lost digits in float32"),
        (np.array([["a"], ["b"]]), "euclidean", "real numbers"),
    ],
)
def test_bad_rows(X, metric, words):
    with pytest.raises(InputError, match=words):
        knn_graph(Stored(X), metric=metric, memory="8GB")


@pytest.mark.parametrize("apart", [1.0, 3e4])  # where rounding of products hides which are near
@pytest.mark.parametrize("k", [5, 298, 299])
def test_exact_neighbours_of_streamed_rows(apart, k):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4)) + 100 + apart * (np.arange(300)[:, None] % 2)
    X = X.astype(np.float32)
    nodes = np.arange(0, 300, 7)
    found = exact_streamed(prepare(Stored(X), "euclidean"), nodes, k, 512)
    assert_array_equal(found, exact_neighbours(X, nodes, k)[0])


# --- scratch


def test_blocks_on_disk_keep_rows_and_leave_no_file(tmp_path):
    X = np.random.default_rng(0).random((200, 3)).astype(np.float32)
    block = DiskBlock(tmp_path, X.shape, np.float32)
    for a, b in ((120, 200), (0, 7), (7, 120)):
        block[a:b] = X[a:b]
    assert os.listdir(tmp_path) == []
    for a, b in ((0, 200), (7, 8), (20, 150)):
        assert_array_equal(block[a:b], X[a:b])
    with pytest.raises(MustlinkError, match="ended early"):
        block.read(199, np.empty((2, 3), dtype=np.float32))


def test_blocks_on_disk_without_room(tmp_path):
    with pytest.raises(MustlinkError, match=r"do not fit in .*; make room or name another folder"):
        DiskBlock(tmp_path, (1 << 55, 1), np.float32)
    assert os.listdir(tmp_path) == []
    with pytest.raises(MustlinkError, match="no temporary file"):
        DiskBlock(tmp_path / "absent", (10, 1), np.float32)


# --- kernels


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 500), st.integers(1, 20), st.booleans())
def test_smallest_are_kept(seed, w, k, ties):
    rng = np.random.default_rng(seed)
    products = rng.standard_normal((5, w)).astype(np.float32)
    norms = rng.random(w).astype(np.float32)
    if ties:
        products, norms = np.round(products), np.round(norms)
    values = np.full((5, k), np.inf, dtype=np.float32)
    places = np.full((5, k), -1, dtype=np.int32)
    half = w // 2
    nearest.keep_smallest(products[:, :half], norms[:half], 0, values, places)
    nearest.keep_smallest(products[:, half:], norms[half:], half, values, places)
    expected, order = oracles.smallest(products, norms, k)
    assert_array_equal(places[:, : order.shape[1]], order)
    assert_array_equal(values[:, : order.shape[1]], expected)
    assert np.all(places[:, order.shape[1] :] == -1)


def test_centres_do_without_the_small_and_the_equal():
    X = np.zeros((200, 2), dtype=np.float32)
    X[:60] = np.random.default_rng(0).random((60, 2)) + 50
    with ThreadPoolExecutor(2) as pool:
        centres = find_centres(X, 20, 5, np.random.default_rng(0), pool)
        owner = centres.nearest(X, 1, pool)[:, 0]
    sizes_found = np.bincount(owner, minlength=centres.norms.size)
    assert 2 <= centres.norms.size <= 14  # equal points need one
    assert set(owner[60:]).isdisjoint(owner[:60])
    assert sizes_found.max() >= 140


# --- lists by cells


@pytest.mark.parametrize("stored", [False, True])
def test_lists_match_all_pairs(stored):
    X, _ = cases.blobs(np.random.default_rng(1), 6000, 8, d=5)
    indices, lengths, info = lists_of(X, 10, stored=stored)
    check_lists(X, indices, lengths)
    measured = recall_of(X, lengths)
    assert measured >= 0.985
    # Told of the 10 neighbours of 100 points: a binomial share of 0.99, of deviation 0.003.
    assert info["recall"] == pytest.approx(measured, abs=0.02)
    assert info["parts"] >= 10


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_lists_for_any_number_of_threads_and_blocks_of_reading(dtype, stored):
    X, _ = cases.blobs(np.random.default_rng(2), 5000, 5, d=20, duplicates=900)
    X = X.astype(dtype)
    first = lists_of(X, 8, seed=3, stored=stored)
    for jobs in (2, 5):
        again = lists_of(X, 8, seed=3, n_jobs=jobs, stored=stored, block_bytes=1 << 20)
        assert_array_equal(first[0], again[0])
        assert_array_equal(first[1], again[1])
        assert first[2] == again[2]
    assert first[2]["parts"] > 2


def awkward(name, rng):
    """Points, and the number of neighbours."""
    if name == "equal":
        return np.ones((3000, 3)), 5
    if name == "mostly equal":
        return cases.blobs(rng, 4000, 3, d=3, duplicates=3000)[0], 6
    if name == "line":
        return rng.random((5000, 1)) ** 8, 7  # far denser at one end
    if name == "wide":
        return rng.random((900, 784)), 10
    if name == "many neighbours":
        return rng.random((3000, 2)), 350
    if name == "few points":
        return rng.random((12, 2)), 10
    if name == "two":
        return rng.random((2, 2)), 1
    if name == "outliers":
        far = 1e4 * rng.standard_normal((9, 4))
        return np.concatenate([rng.random((3000, 4)), far]), 12
    if name == "tight in wide":
        tight = 1e-4 * rng.random((2000, 3))
        return np.concatenate([tight, rng.random((2000, 3))]), 6
    if name == "far off":
        return 1000 + rng.standard_normal((3000, 5)), 8
    if name == "whole numbers":
        return rng.integers(0, 6, (4000, 5)), 8
    return {"huge": 1e17, "tiny": 1e-17}[name] * rng.random((3000, 6)), 5


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "name",
    [
        "equal",
        "mostly equal",
        "line",
        "wide",
        "many neighbours",
        "few points",
        "two",
        "outliers",
        "tight in wide",
        "huge",
        "tiny",
        "far off",
        "whole numbers",
    ],
)
@pytest.mark.parametrize("stored", [False, True])
def test_awkward_points(name, stored):
    X, k = awkward(name, np.random.default_rng(4))
    X = X.astype(np.float32)
    scale = 2.0 ** np.ceil(np.log2(np.abs(X).max()))
    indices, lengths, info = lists_of(X, k, stored=stored)
    check_lists(X / scale, indices, lengths / scale)
    assert recall_of(X / scale, lengths / scale) >= 0.97
    assert 0.97 <= info["recall"] <= 1


@pytest.mark.parametrize("stored", [False, True])
def test_little_room_is_enough_for_a_search(stored):
    X = np.random.default_rng(0).random((6000, 3)).astype(np.float32)
    X[:3500] = 0.5 + 0.05 * X[:3500]
    indices, lengths, info = lists_of(X, 6, room=32 * 3 * 600, stored=stored)
    check_lists(X, indices, lengths)
    assert info["recall"] >= 0.97


@pytest.mark.parametrize("stored", [False, True])
def test_cells_of_equal_points_are_cut(stored):
    X = np.random.default_rng(0).random((6000, 3)).astype(np.float32)
    X[:5000] = X[0]
    indices, lengths, info = lists_of(X, 6, stored=stored)
    check_lists(X, indices, lengths)
    assert info["parts"] >= 5000 / cell_layout(6000, 3, 6).largest
    assert recall_of(X, lengths) >= 0.97


@pytest.mark.parametrize("stored", [False, True])
def test_short_lists_are_completed(monkeypatch, stored):
    def nothing(_search, _some, lists, *_):
        lists[0][:], lists[1][:] = -1, np.inf
        return iter(())

    X = np.random.default_rng(0).random((500, 3)).astype(np.float32)
    monkeypatch.setattr("mustlink.neighbors.cell_blocks.finish", nothing)
    indices, lengths, _ = lists_of(X, 7, stored=stored)
    check_lists(X, indices, lengths)
    assert recall_of(X, lengths) == 1.0


def test_nothing_is_held_of_the_points():
    X = np.random.default_rng(0).random((4000, 8)).astype(np.float32)
    source = Stored(X)
    lists_of(X, 5, source=lambda _: source, stored=True)
    assert source.largest <= rows_module.BLOCK_BYTES // (4 * 8)


# --- weights and bridges


@pytest.mark.thorough
@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(2, 60), st.integers(1, 8), st.booleans())
def test_lean_weights_are_the_weights(seed, n, k, missing):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    k = min(k, n - 1)
    indices, lengths = oracles.knn_lists(X, k)
    indices, lengths = indices.astype(np.int32), lengths.astype(np.float32)
    if missing:
        indices[0, k // 2 :], lengths[0, k // 2 :] = -1, np.inf
    for kind, scale in (("local", local_scales(lengths)), ("gaussian", 0.7), ("connectivity", 1.0)):
        expected = neighbour_affinity(indices, lengths, kind, scale)
        W = lean_affinity(indices, lengths.copy(), kind, scale)
        assert W.dtype == np.float32
        assert_array_equal(W.indptr, expected.indptr)
        assert_array_equal(W.indices, expected.indices)
        assert_allclose(W.data, expected.data, rtol=2e-7)
        assert abs(W - W.T).max() == 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mustlink.graph.weights._FEW", 0)
            compiled = neighbour_affinity(indices, lengths, kind, scale)
        assert compiled.dtype == np.float64
        assert_array_equal(compiled.indptr, expected.indptr)
        assert_array_equal(compiled.indices, expected.indices)
        assert_array_equal(compiled.data, expected.data)


def test_lean_weights_of_a_hub():
    n = 400
    indices = np.zeros((n, 1), dtype=np.int32)
    indices[0] = 7
    W = lean_affinity(indices, np.ones((n, 1), dtype=np.float32), "connectivity", 1.0)
    assert sp.csr_matrix((W.data, W.indices, W.indptr), shape=W.shape).has_canonical_format
    assert W.nnz == 2 * (n - 1)
    assert W[0, 7] == 1.0
    assert W[0, 8] == 0.5


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(4, 40), st.integers(2, 4), st.sampled_from([np.float32, np.float64]))
def test_new_edges_are_a_sum(seed, n, count, dtype):
    rng = np.random.default_rng(seed)
    W = cases.random_graph(rng, max(n, 2 * count), count, 0, dtype=dtype)
    labels = rng.permutation(W.shape[0])  # any pairs that have no edge
    pairs = [(a, b) for a, b in zip(labels[::2], labels[1::2], strict=False) if W[a, b] == 0]
    pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    values = rng.random(len(pairs)).astype(dtype)
    ends = (np.concatenate([pairs[:, 0], pairs[:, 1]]), np.concatenate([pairs[:, 1], pairs[:, 0]]))
    expected = sp.csr_matrix(W + sp.csr_matrix((np.tile(values, 2), ends), shape=W.shape))
    found = with_edges(W, pairs, values)
    assert found.dtype == dtype
    assert_array_equal(found.indptr, expected.indptr)
    assert_array_equal(found.indices, expected.indices)
    assert_array_equal(found.data, expected.data)


@pytest.mark.parametrize("work", [4e9, 1e6])
def test_bridges_of_rows_are_those_of_arrays(monkeypatch, work):
    monkeypatch.setattr("mustlink.neighbors.bridges._WORK", work)
    X, labels = cases.blobs(np.random.default_rng(0), 3000, 7, d=4)
    X = X.astype(np.float32)
    rows = prepare(Stored(X), "euclidean")
    pairs, lengths = bridging_edges(X, labels, np.random.default_rng(1))
    again, same = bridging_edges(rows, labels, np.random.default_rng(1))
    assert_array_equal(pairs, again)
    assert_allclose(lengths, same, rtol=1e-12)


# --- the budget


def scarce(X, more=60e6):
    """A budget for which comparing all pairs is too much."""
    held = X.nbytes if isinstance(X, np.ndarray) else 0
    return int(PROGRAM + held + more)


@pytest.mark.thorough
def test_graph_within_a_budget():
    X, _ = cases.blobs(np.random.default_rng(0), 5000, 4, d=6, separation=60.0)
    X = X.astype(np.float32)
    recorder = Recorder()
    found = knn_graph(X, 10, memory=scarce(X), random_state=0, observer=recorder)
    assert found.info["method"] == "cells"
    assert found.info["recall"] >= 0.97
    assert {"parts", "visited", "shared"} <= set(found.info)
    assert sum("as a memory was named" in note for note in recorder.notes) == 1
    W = found.affinity
    assert W.dtype == np.float32
    assert found.n_components == 1
    assert found.info["n_bridges"] == found.info["components_before"] - 1 >= 3
    assert abs(W - W.T).max() == 0
    assert W.diagonal().max() == 0
    assert np.diff(W.indptr).min() >= 10
    exact = knn_graph(X, 10, random_state=0).affinity
    assert abs(W - exact).sum() <= 0.04 * exact.sum()
    again = knn_graph(Stored(X), 10, memory=scarce(X, 80e6), random_state=0, n_jobs=1).affinity
    assert_array_equal(W.indices, again.indices)
    assert_array_equal(W.data, again.data)
    other = knn_graph(X, 10, memory=scarce(X), random_state=1).affinity
    assert other.nnz != W.nnz or not np.array_equal(other.indices, W.indices)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_ample_memory_changes_nothing(metric):
    X, _ = cases.blobs(np.random.default_rng(0), 400, 2, d=3)
    plain = knn_graph(X, 6, metric=metric).affinity
    for points in (X, Stored(X)):
        found = knn_graph(points, 6, metric=metric, memory="8GB")
        assert found.info["method"] == "brute"
        assert_array_equal(found.affinity.toarray(), plain.toarray())
    assert_array_equal(knn_graph(Stored(X), 6, metric=metric).affinity.data, plain.data)
    assert_array_equal(knn_graph(X, 6, metric=metric, memory="8GB").affinity.data, plain.data)


def test_too_little_memory():
    X = np.zeros((5000, 6), dtype=np.float32)
    with pytest.raises(InputError, match=r"100 MB given; .* need at least [\d.]+ [GM]B") as caught:
        knn_graph(X, memory="100MB")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="is not a size"):
        knn_graph(X, memory="much")


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 10**7), st.integers(1, 2000), st.integers(1, 100), st.floats(0.0, 12.0))
def test_plans_keep_the_budget(n, d, k, over):
    k = min(k, n - 1)
    least = knn_plan(n, d, k, 1 << 62).least
    plan = knn_plan(n, d, k, int(least * (1 + over)), threads=1)
    assert plan.peak_bytes <= least * (1 + over)
    assert set(plan.stages) == {"kNN graph", "weights", "components"}
    assert (plan.method in ("brute", "tree")) != plan.lean
    with pytest.raises(InputError):
        knn_plan(n, d, k, least - 1)
    if plan.layout is not None:
        assert 1 <= plan.layout.parts <= n
        assert plan.layout.parts <= plan.layout.sample <= n
        assert plan.layout == knn_plan(n, d, k, int(least * (1 + over)), threads=64).layout


def test_more_of_anything_takes_more_memory():
    for method in ("brute", "tree", "cells", "lean cells"):
        usual = knn_bytes(method, 10**6, 32, 15)
        for n, k in ((2 * 10**6, 15), (10**6, 30)):
            bigger = knn_bytes(method, n, 32, k)
            assert all(bigger[stage] >= size for stage, size in usual.items())
    held = [knn_bytes("cells", 10**6, 32, itemsize=size)["kNN graph"] for size in (4, 8)]
    assert held[0] < held[1]


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_the_process_stays_within_its_budget():
    code = (
        "import numpy as np, resource\n"
        "from mustlink.neighbors import knn_graph\n"
        "from mustlink.core.resources import peak_bytes\n"
        "table = np.random.default_rng(0).random((600, 96), dtype=np.float32)\n"
        "class Rows:\n"
        "    shape = (40_000, 96)\n"
        "    def __getitem__(self, rows):\n"
        "        at = np.arange(rows.start, rows.stop)\n"
        "        return table[at % 600] + 0.5 * table[at // 67, ::-1]\n"
        "budget = 380_000_000\n"  # 200 MB of it for the program, 90 to compile in a fresh folder
        "g = knn_graph(Rows(), 10, memory=budget, random_state=0, n_jobs=2)\n"
        "assert g.info['method'] != 'brute', g.info\n"
        "assert g.info['recall'] > 0.95, g.info\n"
        "assert peak_bytes() <= budget, peak_bytes()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
