"""Points in cells against comparing, one by one, everyone whom a visit brings together."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracles
from mustlink.context.neighbor_cost import cell_layout, knn_plan
from mustlink.context.rates import cells_work
from mustlink.core.observe import Deadline, Recorder
from mustlink.kernels import cells as cell_kernels
from mustlink.kernels import nearest_lists
from mustlink.kernels.cells import Cells
from mustlink.neighbors import knn_graph
from mustlink.neighbors.cell_blocks import CellSearch, finish, schedule
from mustlink.neighbors.cell_rows import CellPoints, CellRows
from mustlink.neighbors.cell_search import cell_lists
from mustlink.neighbors.cells import Borders, Team, find_centres, grouped, near_centres
from mustlink.neighbors.points_by_rows import prepare

seeds = st.integers(0, 10**6)


def in_cells(rng, n, d, count):
    """Whole-numbered points cell by cell, and the same as the search holds them."""
    X = rng.integers(-9, 10, size=(n, d)).astype(np.float32)
    centres = X[rng.choice(n, count, replace=False)]
    centres += rng.integers(1, 64, size=centres.shape).astype(np.float32) / 64
    owner = np.argmin(((X[:, None] - centres) ** 2).sum(axis=2), axis=1)
    order = np.argsort(owner, kind="stable")
    X, owner = X[order], owner[order]
    used, owner = np.unique(owner, return_inverse=True)
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner))])
    cells = Cells(X, centres[used], starts, np.empty(n, np.float32))
    with ThreadPoolExecutor(1) as pool:
        CellPoints.prepare(cells, 0, Team(pool, 1))
    return X, owner, cells


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(5, 80), st.integers(1, 40), st.integers(1, 6))
def test_panels_hold_points_about_their_centres(seed, n, d, count):
    X, owner, cells = in_cells(np.random.default_rng(seed), n, d, min(count, n))
    about = X - cells.centres[owner]
    assert_allclose(cells.sizes, (about**2).sum(axis=1), rtol=1e-5)
    for cell in range(cells.starts.size - 1):
        a, b = cells.starts[cell : cell + 2]
        out = np.full(-(-(b - a) // 32) * 32 * d, np.nan, np.float32)
        cell_kernels.panels_of(X, cells.centres, cell, a, b, out)
        rows = out.reshape(-1, d, 32).transpose(0, 2, 1).reshape(-1, d)
        assert_array_equal(rows[: b - a], about[a:b])
        assert not rows[b - a :].any()


@pytest.mark.thorough
@settings(max_examples=30, deadline=None)
@given(
    seeds,
    st.integers(30, 300),
    st.integers(1, 12),
    st.sampled_from([1, 2, 7, 40]),
    st.integers(1, 25),
    st.floats(0.01, 2.0),
    st.integers(1, 3),
)
def test_whoever_visits_is_compared(seed, n, k, d, count, largest, jobs):
    rng = np.random.default_rng(seed)
    X, owner, cells = in_cells(rng, n, d, count)
    with ThreadPoolExecutor(jobs) as pool:
        team = Team(pool, jobs)
        near, gaps = near_centres(cells.centres, 384, team)
        radii = (largest * rng.random(cells.starts.size - 1)).astype(np.float32)
        search = CellSearch(CellRows(X, cells.starts, cells.centres), k, team)
        search.borders = Borders(near, gaps, radii, 1.0, 0.0)
        everything = slice(0, cells.starts.size - 1)
        (indices, squared), (search.limits, _) = search.within(everything)
        done = list(finish(search, everything, (indices, squared)))
    assert done == sorted(done)
    expected, least = oracles.visited(X, owner, cells.centres, radii, k)
    assume(least > 1e-4)  # single precision decides as the oracle does
    # Ties go to whoever comes first: lengths are the same, and belong to who is named.
    assert_array_equal(squared, expected)
    named = ((X[indices] - X[:, None]) ** 2).sum(axis=2)
    assert_array_equal(squared[indices >= 0], named[indices >= 0])
    assert not np.any(indices == np.arange(n)[:, None])


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(1, 70), st.integers(0, 400))
def test_nobody_meets_two_in_one_round(seed, count, m):
    rng = np.random.default_rng(seed)
    edges = np.unique(np.sort(rng.integers(0, count, size=(m, 2)), axis=1), axis=0)
    edges = edges[edges[:, 0] != edges[:, 1]]
    edges = np.concatenate([edges, rng.integers(0, 9, size=edges.shape)], axis=1).astype(np.int32)
    found, bounds, rounds = schedule(edges, count, 8)
    assert_array_equal(found[np.lexsort(found.T[::-1])], edges[np.lexsort(edges.T[::-1])])
    assert bounds[-1] == len(edges)
    for a, b in pairwise(rounds):
        met = [
            set((found[bounds[g] : bounds[g + 1], :2] // 8).ravel().tolist()) for g in range(a, b)
        ]
        assert sum(map(len, met)) == len(set().union(*met))


@pytest.mark.parametrize("d", [2, 12, 40])
def test_recall_is_what_was_wanted(d):
    X = np.random.default_rng(d).standard_normal((6000, d)).astype(np.float32)
    how = cell_layout(*X.shape, 10)
    found = cell_lists(prepare(X, "euclidean"), 10, np.random.default_rng(0), how, n_jobs=2)
    info = found[2]
    assert info["recall"] >= 0.955
    assert info["visited"] <= 6000
    # Pairs that were to meet did; some were found without it.
    assert info["recall"] >= info["shared"] - 0.01


def test_copies_do_not_hide_the_others():
    X = np.random.default_rng(0).standard_normal((24_000, 8)).astype(np.float32)
    X[:20_000] = X[0]
    how = cell_layout(*X.shape, 10)
    rows = prepare(X, "euclidean")
    info = cell_lists(rows, 10, np.random.default_rng(0), how, sample=2000)[2]
    assert info["recall"] >= 0.955
    assert info["visited"] < 2000


def test_at_the_deadline_lists_are_what_they_are():
    X = np.random.default_rng(0).standard_normal((5000, 12)).astype(np.float32)
    clock = iter(range(1000))
    how = {"deadline": Deadline(3.5, 0.0, lambda: next(clock)), "sample": 100}
    rows, sizes = prepare(X, "euclidean"), cell_layout(*X.shape, 8)
    indices, lengths, info = cell_lists(rows, 8, np.random.default_rng(0), sizes, **how)
    assert info["recall"] < 0.97
    assert np.all(indices >= 0)
    assert np.all(np.diff(lengths, axis=1) >= 0)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_points_of_double_precision_make_the_graph_of_all_pairs(monkeypatch, metric):
    X = 3 + np.random.default_rng(0).standard_normal((1500, 6))
    exact = knn_graph(X, 8, metric=metric, random_state=0)
    monkeypatch.setattr("mustlink.context.neighbor_cost.compares_all", lambda *_, **__: False)
    found = knn_graph(X, 8, metric=metric, random_state=0)
    assert (exact.info["method"], found.info["method"]) == ("brute", "cells")
    assert found.affinity.dtype == np.float64
    gap = abs(found.affinity - exact.affinity)
    assert gap.sum() <= 0.1 * exact.affinity.sum()
    assert np.median(gap.data[gap.data > 0]) < 1e-3 if gap.nnz else True


def test_of_many_centres_the_nearest_is_found():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 6)).astype(np.float32) + 5
    with ThreadPoolExecutor(2) as pool:
        groups = grouped(find_centres(X, 900, 2, rng, pool), X[:500], rng, Team(pool, 2))
        found = groups.cell(X, Team(pool, 2))
        assert_array_equal(groups.cell(X[7:900], Team(pool, 1)), found[7:900])
    at = (groups.centres.at + groups.centres.middle).astype(float)
    gaps = ((X[:500, None].astype(float) - at) ** 2).sum(axis=2)
    assert groups.near.shape[1] < len(at)
    assert np.mean(gaps[np.arange(500), found[:500]] <= gaps.min(axis=1) * (1 + 1e-5)) > 0.98


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(1, 50), st.integers(1, 4))
def test_rows_are_reordered_in_place(seed, n, k):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 99, size=(n, k)).astype(np.int32)
    order = rng.permutation(n).astype(np.int32)
    found = rows.copy()
    nearest_lists.reorder(found, order)
    assert_array_equal(found[order], rows)


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(1, 9), st.integers(1, 7))
def test_ties_are_in_order(seed, n, k):
    rng = np.random.default_rng(seed)
    lengths = np.sort(rng.integers(0, 3, size=(n, k)), axis=1).astype(np.float32)
    nodes = np.array([rng.permutation(k) for _ in range(n)], dtype=np.int32)
    found = nodes.copy()
    nearest_lists.order_ties(found, lengths)
    expected = np.take_along_axis(nodes, np.lexsort((nodes, lengths), axis=1), axis=1)
    assert_array_equal(found, expected)


def test_points_are_held_where_they_fit(tmp_path, monkeypatch):
    n, d, k = 10**7, 60, 15
    least = knn_plan(n, d, k, 1 << 62).least
    tight, ample = knn_plan(n, d, k, least), knn_plan(n, d, k, 12 * 10**9)
    assert (tight.method, ample.method) == ("stored cells", "cells")
    assert tight.peak_bytes <= least
    assert tight.peak_bytes < ample.peak_bytes <= 12 * 10**9
    monkeypatch.setattr("mustlink.context.neighbor_cost.compares_all", lambda *_, **__: False)
    X = np.random.default_rng(0).standard_normal((3000, 20)).astype(np.float32)
    recorder = Recorder()
    # No file is written: the folder for it does not exist.
    found = knn_graph(
        X, 5, memory="8GB", random_state=0, scratch=tmp_path / "no", observer=recorder
    )
    assert found.info["method"] == "cells"
    assert not any("on disk" in note for note in recorder.notes)


def test_work_grows_with_points_coordinates_and_neighbours():
    usual = cells_work(10**6, 20, 15)
    assert usual > 2 * cells_work(5 * 10**5, 20, 15)  # the parts grow as well
    assert cells_work(10**6, 40, 15) > usual
    assert cells_work(10**6, 20, 30) > usual
    assert cells_work(10**6, 2, 15) < usual
    assert cells_work(10**6, 20, 15, 4.0) < usual < cells_work(10**6, 20, 15, 20.0)
