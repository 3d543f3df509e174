"""The cell of a point against the nearest of all centres, compared one by one."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree

from mustlink.context.neighbor_cost import cell_layout
from mustlink.kernels import cells as nearest_cell
from mustlink.neighbors.cell_search import cell_lists
from mustlink.neighbors.cells import Team, centres_of, grouped, near_centres
from mustlink.neighbors.points_by_rows import prepare

seeds = st.integers(0, 10**6)


def crossing(n, d, lines, seed):
    """Points on lines that all cross in the middle: centres crowd there, and lie apart at ends."""
    rng = np.random.default_rng(seed)
    ways = rng.standard_normal((lines, d))
    along = rng.random((n, 1)) - 0.5
    noise = 0.02 * rng.standard_normal((n, d))
    return (along * ways[rng.integers(lines, size=n)] + noise).astype(np.float32)


def small_cells(X, k, mean):
    """Sizes of a search in far more cells than so many points would have."""
    n, d = X.shape
    return replace(cell_layout(n, d, k), mean=mean, parts=n // mean, sample=n)


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(2, 90), st.integers(1, 9), st.integers(1, 90), st.integers(1, 3))
def test_a_point_goes_on_until_no_centre_around_is_nearer(seed, C, d, most, jobs):
    rng = np.random.default_rng(seed)
    at = rng.integers(-9, 10, size=(C, d)).astype(np.float32)
    middle = rng.integers(-9, 10, size=d).astype(np.float32)
    X = rng.integers(-20, 21, size=(50, d)).astype(np.float32)
    begin = rng.integers(C, size=50).astype(np.int32)
    found, squared = begin.copy(), np.full(50, np.nan, np.float32)
    with ThreadPoolExecutor(jobs) as pool:
        team = Team(pool, jobs)
        around, gaps = near_centres(at, most, team)

        def task(a, b):
            room = np.empty((1, d), np.float32)
            nearest_cell.go_on(X, middle, at, around, gaps, found, squared, a, b, room)

        team.each(task, 50, 7)
    lengths = ((X[:, None] - middle - at) ** 2).sum(axis=2)
    for i, own in enumerate(found):
        assert squared[i] == lengths[i, own] <= lengths[i, begin[i]]
        assert np.all(lengths[i, around[own]] >= squared[i])
        if around.shape[1] == C - 1 or gaps[own, -1] > 2.001 * np.sqrt(squared[i]):
            assert squared[i] == lengths[i].min()


@pytest.mark.thorough
@pytest.mark.parametrize("d", [3, 16])
def test_no_cell_loses_its_members_where_centres_crowd(d):
    X = crossing(30_000, d, 40, d)
    with ThreadPoolExecutor(2) as pool:
        team = Team(pool, 2)
        rng = np.random.default_rng(0)
        centres = centres_of(prepare(X, "euclidean"), 1, rng, small_cells(X, 1, 10), pool)
        groups = grouped(centres, X[:500], rng, team)
        found = groups.cell(X, team)
    at = groups.centres.at.astype(float) + groups.centres.middle
    assert groups.near.shape[1] < len(at) / 8
    gaps, nearest = cKDTree(at).query(X)
    own = np.linalg.norm(X - at[found], axis=1) <= gaps * (1 + 1e-5)
    assert own.mean() > 0.99
    members = np.bincount(nearest, minlength=len(at))
    right = np.bincount(nearest, weights=own, minlength=len(at))
    assert np.all(right[members > 3] >= 0.5 * members[members > 3])


@pytest.mark.thorough
def test_recall_is_high_around_every_point():
    X, k = crossing(40_000, 16, 80, 0), 3
    sizes = small_cells(X, k, 13)
    rows = prepare(X, "euclidean")
    found = cell_lists(rows, k, np.random.default_rng(0), sizes, n_jobs=2)[1]
    true, near = cKDTree(X).query(X, 31)
    recall = (found <= true[:, k : k + 1] * (1 + 1e-4)).mean(axis=1)
    assert recall[near].mean(axis=1).min() > 0.8
