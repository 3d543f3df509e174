"""Neighbour graphs made on disk against those made in memory, and against all pairs."""

import errno
import os
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from mustlink.context.neighbor_cost import NeighborPlan, cell_layout, stored_knn_plan
from mustlink.errors import InputError
from mustlink.neighbors import disk_knn, knn_graph
from mustlink.neighbors.cell_search import cell_lists, search_cells
from mustlink.neighbors.disk_knn import stored_knn_graph
from mustlink.neighbors.exact import exact_neighbours
from mustlink.neighbors.points_by_rows import prepare

seeds = st.integers(0, 10**6)


class Rows:
    """Points of which blocks of rows can be read, up to a row where the file ends."""

    def __init__(self, X, ends=None):
        self.X, self.shape, self.ends = X, X.shape, ends

    def __getitem__(self, rows):
        if self.ends is not None and rows.stop > self.ends:
            raise InputError("points: cannot be read (the file ends early)")
        return self.X[rows]


def clouds(rng, n, d, apart=2.0):
    return rng.standard_normal((n, d)) + apart * rng.integers(0, 4, (n, 1))


def on_disk(X, k, block, chunk, jobs=2):
    """Lists in the order of the points."""
    how = replace(cell_layout(*X.shape, k), block=block, chunk=chunk, rows=1000)
    rows = prepare(X, "euclidean")
    found = search_cells(rows, k, np.random.default_rng(1), how, n_jobs=jobs)
    order = found.cells.order
    assert_array_equal(np.sort(order), np.arange(len(X)))
    assert_array_equal(found.points[0 : len(X)], rows[0 : len(X)][order])
    indices, squared = (np.empty_like(part) for part in found.lists.read(slice(0, len(X))))
    numbers, lengths = found.lists.read(slice(0, len(X)))
    indices[order], squared[order] = order[numbers], lengths
    # Ties go to the smaller number, which on disk is the place in the file.
    ties = np.lexsort((indices, squared))
    indices, squared = (np.take_along_axis(part, ties, 1) for part in (indices, squared))
    return indices, np.sqrt(squared), found.info


@pytest.mark.thorough
@settings(max_examples=12, deadline=None)
@example(4487, 763, 70, 4, (10**6, 10**6), 1)  # two points as far as each other
@given(
    seeds,
    st.integers(600, 3000),
    st.sampled_from([2, 9, 70]),
    st.integers(1, 12),
    st.sampled_from([(10**6, 10**6), (900, 400), (1, 1)]),
    st.sampled_from([1, 2, 4]),
)
def test_blocks_find_the_lists_of_the_search_in_memory(seed, n, d, k, sizes, jobs):
    X = clouds(np.random.default_rng(seed), n, d).astype(np.float32)
    how = cell_layout(n, d, k)
    known = cell_lists(prepare(X, "euclidean"), k, np.random.default_rng(1), how)
    indices, lengths, info = on_disk(X, k, *sizes, jobs=jobs)
    assert info["recall"] >= known[2]["shared"] - 0.02
    assert_array_equal(lengths, known[1])
    other = indices != known[0]
    assert np.all(lengths[other] == lengths[other.nonzero()[0], -1])  # as far: left out or not
    assert np.mean(other) < 0.002


@settings(max_examples=10, deadline=None)
@given(seeds, st.integers(20, 900), st.integers(1, 4), st.integers(1, 25))
def test_whole_numbers_and_copies(seed, n, d, k):
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, (n, d)).astype(np.float32)
    k = min(k, n - 1)
    indices, lengths, _ = on_disk(X, k, 300, 100)
    gaps = ((X[indices] - X[:, None]) ** 2).sum(axis=2)
    assert_array_equal(lengths**2, np.sqrt(gaps) ** 2)
    assert all(len(set(row)) == k for row in indices.tolist())
    assert not np.any(indices == np.arange(n)[:, None])
    _, true = exact_neighbours(X, np.arange(n), k)
    assert np.mean(lengths <= true[:, -1:]) >= 0.9


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of so few points that a graph takes many."""

    def plan(n, d, k, budget=None, **how):
        sizes = replace(cell_layout(n, d, k), block=900, chunk=300, rows=700)
        return NeighborPlan("stored cells", sizes, {"kNN graph": 0}, 0)

    monkeypatch.setattr(disk_knn, "stored_knn_plan", plan)
    monkeypatch.setattr("mustlink.context.neighbor_cost.compares_all", lambda *_, **__: False)


def in_rows(found):
    """W of a graph on disk, in the order of the points."""
    W, n = found.whole(), found.n_nodes
    assert (W != W.T).nnz == 0
    assert W.has_sorted_indices
    P = sp.csr_matrix((np.ones(n, np.float32), (np.arange(n), found.rows[:])), shape=(n, n))
    return P @ W @ P.T


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"weights": "gaussian"},
        {"weights": "gaussian", "sigma": 0.5},
        {"weights": "connectivity"},
        {"metric": "cosine"},
        {"connect": False},
    ],
)
def test_weights_are_those_of_the_graph_in_memory(small_blocks, how):
    X = clouds(np.random.default_rng(0), 3000, 6, apart=40.0)
    known = knn_graph(X, 9, random_state=0, memory="8GB", **how)
    found = stored_knn_graph(Rows(X), 9, random_state=0, **how)
    assert (in_rows(found) != known.affinity).nnz == 0
    for name in ("n_bridges", "components_before", "sigma", "recall", "n_neighbors", "metric"):
        assert found.info[name] == known.info[name]
    assert 0 < found.info["locality"] < 1


def test_the_caller_writes_the_rows(small_blocks):
    X = clouds(np.random.default_rng(0), 2500, 3)
    known = stored_knn_graph(X, 5, random_state=0)
    kept = []

    def write(n, blocks, info, rows):
        assert n == 2500
        assert_array_equal(rows, known.rows[:])
        assert info["kind"] == "knn"
        kept.extend(blocks)
        return known

    found = stored_knn_graph(X, 5, random_state=0, n_jobs=1, write=write)
    assert found is known
    assert_array_equal(np.sort(found.rows[:]), np.arange(2500))
    assert [block.first for block in kept] == [0, 700, 1400, 2100]
    W = known.whole()
    assert_array_equal(np.concatenate([block.indices for block in kept]), W.indices)
    assert_array_equal(np.concatenate([block.data for block in kept]), W.data)


def test_fewer_points_than_neighbours_and_one_kind_of_row(small_blocks):
    X = np.random.default_rng(0).standard_normal((12, 2))
    found = stored_knn_graph(X, 30)
    assert found.n_entries == 12 * 11
    assert found.info["n_neighbors"] == 11
    equal = stored_knn_graph(np.ones((2000, 3)), 5)
    W = equal.whole()
    assert np.all(np.isfinite(W.data))
    assert W.data.min() >= 0.5  # at no distance the weight is 1


def test_a_file_that_ends_early_and_a_full_disk_are_one_line(small_blocks, monkeypatch):
    X = np.random.default_rng(0).standard_normal((2000, 3))
    with pytest.raises(InputError, match="ends early"):
        stored_knn_graph(Rows(X, 1500), 5)

    def full(fd, first, size):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InputError, match="make room or name another folder") as raised:
        stored_knn_graph(X, 5)
    assert "\n" not in str(raised.value)


def test_nothing_is_left_of_a_search_that_was_interrupted(small_blocks, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(disk_knn.DiskAffinity, "survey", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stored_knn_graph(np.random.default_rng(0).standard_normal((900, 3)), 5, scratch=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_budget_below_the_least_names_it():
    X = np.random.default_rng(0).standard_normal((2000, 3))
    with pytest.raises(InputError, match=r"memory: 100 MB given; 2000 points of 3 .* at least"):
        stored_knn_graph(X, 5, memory="100MB")


@settings(max_examples=60, deadline=None)
@example(2**31 - 1, 1, 1, 0.0)
@example(30, 710, 1, 1.0)  # few points were thought to visit fewer in 40 dimensions than in 2
@given(st.integers(2, 2**31 - 1), st.integers(1, 1000), st.integers(1, 100), st.floats(0.0, 12.0))
def test_plans_keep_the_budget(n, d, k, over):
    least = stored_knn_plan(n, d, k).least
    budget = int(least * (1 + over))
    plan = stored_knn_plan(n, d, k, budget)
    assert plan.peak_bytes <= budget
    assert set(plan.stages) == {"kNN graph", "weights", "components"}
    assert plan.layout == stored_knn_plan(n, d, k, budget, threads=64).layout
    flat, round_ = (stored_knn_plan(n, d, k, budget, dimension=e) for e in (2.0, 40.0))
    assert flat.layout == plan.layout  # sizes are safe for any points; what is expected is less
    assert flat.peak_bytes <= round_.peak_bytes <= plan.peak_bytes
    for size in (plan.layout.block, plan.layout.chunk, plan.layout.rows):
        assert 1 <= size <= n
    assert n <= plan.layout.rows << 16  # blocks of rows, by number
    with pytest.raises(InputError):
        stored_knn_plan(n, d, k, least - 1)


@pytest.mark.parametrize(("n", "d", "memory"), [(10**7, 20, 3e9), (3 * 10**7, 16, 8e9)])
def test_most_of_a_budget_is_used(n, d, memory):
    plan = stored_knn_plan(n, d, 15, int(memory))
    assert 0.9 * memory <= plan.peak_bytes <= memory


def test_a_graph_in_memory_of_cells_on_disk(monkeypatch, tmp_path):
    X = clouds(np.random.default_rng(0), 4000, 8, apart=30.0).astype(np.float32)
    exact = knn_graph(X, 9, random_state=0)
    sizes = replace(cell_layout(4000, 8, 9), block=900, chunk=300, rows=700)
    plan = NeighborPlan("stored cells", sizes, {"kNN graph": 0}, 0, True)
    monkeypatch.setattr("mustlink.neighbors.knn.knn_plan", lambda *_, **__: plan)
    found = knn_graph(Rows(X), 9, random_state=0, memory="8GB", scratch=tmp_path)
    assert found.info["method"] == "stored cells"
    assert found.info["n_bridges"] > 0
    assert exact.info["method"] == "brute"
    gap = abs(found.affinity - exact.affinity)
    assert gap.sum() <= 0.1 * exact.affinity.sum()


def test_a_small_budget_is_used_too():
    assert stored_knn_plan(10**6, 16, 15, 6 * 10**8).layout.block > 10**5
