"""A graph on disk: what is read is what was written, and what is no graph is told in a line."""

import os

import numpy as np
import pytest
import scipy.sparse as sp

from cases import random_graph
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.graph import row_buckets as buckets
from mustlink.graph.disk_graph import DiskGraph, survey
from mustlink.graph.row_buckets import RowBuckets, buckets_of
from mustlink.space import disk
from mustlink.space.disk import DiskSpace
from on_disk import numbers, stored


@pytest.fixture(autouse=True)
def _short_passes(monkeypatch):
    monkeypatch.setattr(disk, "PASS_BYTES", 300)
    monkeypatch.setattr(disk, "_LEAST_ROWS", 7)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def read(graph):
    """All blocks of a graph as one matrix."""
    parts = [
        sp.csr_matrix((b.data.copy(), b.indices.copy(), b.indptr), shape=b.shape)
        for b in graph.blocks()
    ]
    return sp.vstack(parts).tocsr()


@pytest.mark.parametrize("entries", [1, 40, 10**6])
@pytest.mark.parametrize("piece", [None, 7])
@pytest.mark.parametrize(
    "types", [(np.int64, np.int32, np.float32), (np.int32, np.int64, np.float64)]
)
def test_blocks_are_the_rows(rng, entries, piece, types):
    W = random_graph(rng, 60, 2, isolated=5)
    graph = stored(W, entries, piece, types)
    assert graph.n_nodes == 60
    assert graph.n_entries == W.nnz
    assert abs(read(graph) - W).max() <= np.finfo(np.float32).eps
    lengths = [b.nnz for b in graph.blocks()]
    pairs = zip(lengths, graph.blocks(), strict=True)
    assert all(size <= entries or b.shape[0] == 1 for size, b in pairs)
    assert np.array_equal(graph.lengths(slice(3, 50)), np.diff(W.indptr)[3:50])
    whole = graph.whole()
    assert whole.dtype == types[2]
    assert abs(whole - W).max() <= np.finfo(types[2]).eps


def test_a_hub_is_a_block_of_its_own():
    W = sp.lil_matrix((50, 50))
    W[20, :] = W[:, 20] = 1.0
    graph = stored(W.tocsr(), entries=10)
    assert 20 in graph.bounds
    assert 21 in graph.bounds
    assert abs(read(graph) - W).max() == 0


@pytest.mark.parametrize(("components", "isolated"), [(1, 0), (1, 4), (5, 0), (4, 9)])
def test_a_survey_tells_what_a_graph_in_memory_does(rng, components, isolated):
    W = random_graph(rng, 70, components, isolated)
    W = sp.csr_matrix(W + sp.diags(np.r_[2.0, np.zeros(69)])) if isolated == 0 else W
    home = Graph.from_affinity(W)
    found = survey(stored(W), DiskSpace(70))
    np.testing.assert_allclose(found.degrees[:], home.degrees, rtol=1e-6)
    assert found.isolated == isolated
    assert found.n_components == components
    assert found.volume == pytest.approx(home.volume)
    linked = home.degrees > 0
    component = np.zeros(70, int) if components == 1 else found.component[:]
    assert np.array_equal(component[linked], home.components[linked])
    assert (found.loops is None) == (isolated > 0)
    if found.loops is not None:
        np.testing.assert_allclose(found.loops[:], W.diagonal())


def spoilt(W, at, value):
    W = W.copy()
    W.data[at] = value
    return W


def test_what_is_no_affinity_is_told(rng):
    W = random_graph(rng, 40)
    for value, what in ((-1.0, "negative"), (np.nan, "not finite"), (1e31, "too large")):
        with pytest.raises(InputError, match=what):
            survey(stored(spoilt(W, 7, value)), DiskSpace(40))
    i = int(np.searchsorted(W.indptr, 7, side="right")) - 1
    with pytest.raises(InputError, match=rf"entry \({i}, {W.indices[7]}\) is -1, negative"):
        survey(stored(spoilt(W, 7, -1.0)), DiskSpace(40))
    for wrong in (spoilt(W, 7, W.data[7] * 1.001), sp.triu(W).tocsr()):
        with pytest.raises(InputError, match="not symmetric"):
            survey(stored(wrong), DiskSpace(40))
    with pytest.raises(InputError, match="no edge"):
        survey(stored(spoilt(W, slice(None), 0.0)), DiskSpace(40))


@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e25])
def test_symmetry_is_seen_at_any_scale(rng, scale):
    W = random_graph(rng, 200)
    W.data *= scale
    W.data = W.data.astype(np.float32).astype(np.float64)
    W = sp.csr_matrix((W + W.T) / 2)
    assert survey(stored(W), DiskSpace(200)).isolated == 0


def damaged(graph, part, at, value):
    numbers = getattr(graph, part)
    place = int(numbers.starts[0]) + at * numbers.dtype.itemsize
    numbers.file.write(place, np.array([value], dtype=numbers.dtype))


@pytest.mark.parametrize(
    ("part", "at", "value"),
    [("columns", 3, 40), ("columns", 3, -1), ("ends", 5, 10**6), ("ends", 5, 0)],
)
@pytest.mark.parametrize("columns", [np.int32, np.int64])
def test_damage_is_told_when_it_is_read(rng, part, at, value, columns):
    graph = stored(random_graph(rng, 40), types=(np.int64, columns, np.float32))
    damaged(graph, part, at, value)
    with pytest.raises(InputError, match="damaged") as caught:
        list(graph.blocks())
    assert "\n" not in str(caught.value)


def test_columns_beyond_32_bits_do_not_wrap(rng):
    graph = stored(random_graph(rng, 40), types=(np.int64, np.int64, np.float32))
    damaged(graph, "columns", 3, 2**32 + 1)
    with pytest.raises(InputError, match="damaged"):
        list(graph.blocks())


def test_a_file_that_ends_early_is_told(rng):
    graph = stored(random_graph(rng, 40))
    os.truncate(graph.weights.file.fileno(), 20)
    with pytest.raises(InputError, match="ends early"):
        list(graph.blocks())


@pytest.mark.parametrize("wrong", [[0, 3, 2, 5], [1, 2, 3, 5], [0, 2, 3, 4], [0, 2, 3, 6]])
def test_ends_that_are_none_are_told(wrong):
    parts = np.array(wrong), np.zeros(5, np.int32), np.ones(5, np.float32)
    with pytest.raises(InputError, match="row"):
        DiskGraph.of(*map(numbers, parts))


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("entries", [30, 10**6])
def test_entries_in_any_order_become_rows(rng, largest, entries, monkeypatch):
    monkeypatch.setattr(buckets, "ENTRIES", entries)
    n, m = 40, 900
    i, j = rng.integers(0, n - 3, (2, m))
    i[:200] = 7
    w = rng.random(m).astype(np.float32)
    made = RowBuckets(np.bincount(i, minlength=n))
    for at in range(0, m, 111):
        part = slice(at, at + 111)
        made.add(i[part], j[part], w[part])
    blocks = list(made.rows(largest=largest))
    assert np.array_equal(np.concatenate([np.arange(n)[b.rows] for b in blocks]), np.arange(n))
    expected = np.zeros((n, n))
    (np.maximum if largest else np.add).at(expected, (i, j), w)
    for b in blocks:
        rows = sp.csr_matrix((b.data, b.indices, b.indptr), shape=(b.shape[0], n))
        assert rows.has_canonical_format
        np.testing.assert_allclose(rows.toarray(), expected[b.rows], rtol=1e-5)


@pytest.mark.thorough
def test_more_entries_in_a_row_than_16_bits_number_and_as_many_buckets():
    n = 1 << 16
    bounds, counts = np.arange(n + 1), np.zeros(n, dtype=np.int64)
    counts[[0, n // 2, n - 1]] = 2, 1, n + 4000
    made = RowBuckets.of(bounds, counts, buckets_of(bounds))
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(n), counts))
    made.add(rows, np.arange(rows.size) % n, np.ones(rows.size, np.float32))
    sums = [block.data.sum() for block in made.rows()]
    np.testing.assert_array_equal(sums, counts)
    with pytest.raises(AssertionError, match="a bucket too many: 65537"):
        buckets_of(np.arange(n + 2))
