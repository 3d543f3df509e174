"""Local joins against comparing everyone who meets, one pair after the other."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from test_partition import check_lists

import oracles
from mustlink.cost.neighbour_graph import cell_layout, knn_plan, lists_of
from mustlink.cost.rates import cells_work
from mustlink.deadline import Deadline
from mustlink.kernels import nearest_lists as local_joins
from mustlink.neighbours import cell_search, knn_graph
from mustlink.neighbours.cells import Team
from mustlink.neighbours.exact import exact_neighbours
from mustlink.neighbours.joins import Joins, Lists, Refined, refine
from mustlink.neighbours.points_by_rows import prepare
from mustlink.observe import Recorder

seeds = st.integers(0, 10**6)


def random_lists(rng, X, length):
    """Lists of random others of each point, some of them short."""
    n = len(X)
    lists = Lists.empty(n, length)
    for i in range(n):
        some = rng.choice(np.delete(np.arange(n), i), rng.integers(1, length + 1), replace=False)
        squared = ((X[some] - X[i]) ** 2).sum(axis=1)
        order = np.lexsort((some, squared))
        lists.indices[i, : some.size] = some[order]
        lists.squared[i, : some.size] = squared[order]
    return lists


def copy_of(lists):
    return Lists(lists.indices.copy(), lists.squared.copy(), lists.fresh.copy())


def integers(rng, n, d):
    """Points whose squared distances are whole numbers: no rounding, and many ties."""
    return rng.integers(-20, 20, size=(n, d)).astype(np.float32)


def broad(rng, n, noise, d=20):
    """Points of 12 overlapping round clusters."""
    centres = 1.3 * rng.standard_normal((12, d))
    X = centres[rng.integers(12, size=n)] + noise * rng.standard_normal((n, d))
    return X.astype(np.float32)


def swept(X, lists, k, sweeps, *, jobs=1, again=False, group_bytes=1 << 26):
    """Sweeps over a copy; `again`: every pair that meets is compared in each of them."""
    lists, compared = copy_of(lists), []
    sized = replace(cell_layout(*X.shape, k), group_bytes=group_bytes)
    joins = Joins(lists, k, sized, X)
    with ThreadPoolExecutor(jobs) as pool:
        for _ in range(sweeps):
            if again:
                np.bitwise_or(lists.fresh, local_joins.UNJOINED, out=lists.fresh)
            assert list(joins.sweep(Team(pool, jobs)))[-1] == 1
            compared.append(joins.compared)
    return lists, compared


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(12, 30), st.integers(1, 5), st.sampled_from([1, 2, 3, 60]))
def test_a_sweep_compares_all_who_meet(seed, n, k, d):
    rng = np.random.default_rng(seed)
    X = integers(rng, n, d)
    length, wide, told = lists_of(n, k)
    lists = random_lists(rng, X, length)
    named = np.bincount(lists.indices[lists.indices >= 0], minlength=n)
    if named.max() > told:  # who finds no room is told later: another test
        lists.indices[:, told // 2 :], lists.squared[:, told // 2 :] = -1, np.inf
        named = np.bincount(lists.indices[lists.indices >= 0], minlength=n)
    found, _ = swept(X, lists, k, 1)
    expected = oracles.joined(X, lists.indices, wide)
    squared = ((X[expected] - X[:, None]) ** 2).sum(axis=2)
    squared[expected < 0] = np.inf
    if named.max() <= told:
        assert_array_equal(found.squared, squared)
        decided = squared < squared[:, -1:]  # of those as far as the last any may be listed
        assert_array_equal(found.indices[decided], expected[decided])
    else:
        assert np.all(found.squared >= squared)


@settings(max_examples=15, deadline=None)
@given(seeds, st.integers(60, 300), st.integers(2, 8), st.sampled_from([1 << 15, 1 << 26]))
def test_comparing_only_what_is_new_changes_nothing(seed, n, k, group_bytes):
    rng = np.random.default_rng(seed)
    X = integers(rng, n, 4)
    lists = random_lists(rng, X, lists_of(n, k)[0])
    found, few = swept(X, lists, k, 4, group_bytes=group_bytes)
    all_again, many = swept(X, lists, k, 4, again=True, group_bytes=group_bytes)
    assert_array_equal(found.indices, all_again.indices)
    assert_array_equal(found.squared, all_again.squared)
    assert few[0] == many[0]
    assert sum(few[1:]) < sum(many[1:])


@pytest.mark.parametrize("group_bytes", [1 << 16, 1 << 26])
def test_same_lists_for_any_threads(group_bytes):
    rng = np.random.default_rng(0)
    X = broad(rng, 700, 1.0, d=7)
    lists = random_lists(rng, X, lists_of(700, 9)[0])
    first, compared = swept(X, lists, 9, 3, group_bytes=group_bytes)
    for jobs in (1, 2, 5):
        again, same = swept(X, lists, 9, 3, jobs=jobs, group_bytes=group_bytes)
        assert_array_equal(first.indices, again.indices)
        assert_array_equal(first.squared, again.squared)
        assert compared == same


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(5, 40), st.integers(1, 4), st.integers(1, 6), st.integers(1, 4))
def test_everyone_is_told_once(seed, n, k, room, shares):
    rng = np.random.default_rng(seed)
    lists = random_lists(rng, integers(rng, n, 2), min(k, n - 1))
    near = [set(row) - {-1} for row in lists.indices.tolist()]
    told = [[] for _ in range(n)]
    reverse, told_now = np.empty((n, room), np.int32), np.zeros(n, np.int32)
    bounds = [n * share // shares for share in range(shares + 1)]
    for _ in range(n):
        for a, b in pairwise(bounds):
            local_joins.tell_targets(lists.indices, lists.fresh, a, b, reverse, told_now)
        for j in range(n):
            told[j] += reverse[j, : told_now[j]].tolist()
    for j in range(n):
        assert sorted(told[j]) == [i for i in range(n) if j in near[i] and i not in near[j]]


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(1, 50), st.integers(1, 4))
def test_rows_are_reordered_in_place(seed, n, k):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 99, size=(n, k)).astype(np.float32)
    order = rng.permutation(n).astype(np.int32)
    found = rows.copy()
    local_joins.reorder(found, order, np.zeros(n, dtype=np.bool_))
    assert_array_equal(found[order], rows)


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(1, 9), st.integers(1, 7))
def test_ties_are_in_order(seed, n, k):
    rng = np.random.default_rng(seed)
    lengths = np.sort(rng.integers(0, 3, size=(n, k)), axis=1).astype(np.float32)
    nodes = np.array([rng.permutation(k) for _ in range(n)], dtype=np.int32)
    found = nodes.copy()
    local_joins.order_ties(found, lengths)
    expected = np.take_along_axis(nodes, np.lexsort((nodes, lengths), axis=1), axis=1)
    assert_array_equal(found, expected)


# --- the whole search


class Joining:
    """A search whose visits are said to be dear, so that lists are joined, and a clock that moves
    each time it is looked at, once they are."""

    def __init__(self, monkeypatch):
        self.looks = 0
        self.joins = False
        monkeypatch.setattr("mustlink.neighbours.cells._JOINS", (0.02, 0.0))
        monkeypatch.setattr(cell_search, "refine", self.refine)

    def refine(self, *given):
        self.joins = True
        return refine(*given)

    def __call__(self):
        self.looks += self.joins
        return self.looks

    def lists(self, X, k, **how):
        sized = replace(cell_layout(*X.shape, k), mean=25, parts=len(X) // 25, group_bytes=1 << 20)
        rng = np.random.default_rng(0)
        return cell_search.cell_lists(prepare(X, "euclidean"), k, rng, sized, **how)


@pytest.mark.parametrize("noise", [0.6, 1.6])
def test_broad_clusters_from_a_poor_start(noise, monkeypatch):
    X = broad(np.random.default_rng(1), 5000, noise)
    _, lengths, info = Joining(monkeypatch).lists(X, 15, sample=200)
    nodes = np.arange(0, 5000, 10)
    _, true = exact_neighbours(X, nodes, 15)
    recall = np.mean(lengths[nodes] <= true[:, -1:] * (1 + 1e-5))
    assert info["recall_before"] < 0.8
    assert recall >= 0.95
    assert info["recall"] == pytest.approx(recall, abs=0.02)
    assert info["sweeps"] >= 1


def test_a_deadline_ends_the_sweeps(monkeypatch):
    X = broad(np.random.default_rng(1), 3000, 1.1)
    whole = Joining(monkeypatch).lists(X, 8, sample=50)[2]
    found = []
    for at in (0.5, 4.5):
        clock = Joining(monkeypatch)
        found.append(clock.lists(X, 8, sample=50, deadline=Deadline(at, 0.0, clock)))
    assert whole["sweeps"] >= 1
    assert [info["sweeps"] for _, _, info in found] == [0, 1]
    assert found[0][2]["recall"] < 0.9
    cut = found[1][2]
    assert 0 < cut["compared"] < 0.5 * whole["compared"]
    assert cut["recall_before"] <= cut["recall"] < whole["recall"]
    check_lists(X, *found[1][:2])


def test_sweeps_go_on_while_they_pay():
    assert Refined(100, [0.5]).go_on()
    assert not Refined(100, [0.995]).go_on()
    assert Refined(100, [0.5, 0.7], [100 * 500]).go_on()
    assert not Refined(100, [0.9, 0.902], [100 * 500]).go_on()  # much work, little gain
    assert Refined(100, [0.9, 0.902], [100 * 5]).go_on()  # as little gain, hardly any work
    assert not Refined(100, [0.9, 0.9], [0]).go_on()


def test_points_are_held_where_they_fit(tmp_path, monkeypatch):
    n, d, k = 10**7, 20, 15
    least = knn_plan(n, d, k, 1 << 62).least
    tight, ample = knn_plan(n, d, k, least), knn_plan(n, d, k, 12 * 10**9)
    assert (tight.method, ample.method) == ("stored cells", "cells")
    assert tight.peak_bytes <= least
    assert tight.peak_bytes < ample.peak_bytes <= 12 * 10**9
    monkeypatch.setattr("mustlink.cost.neighbour_graph.compares_all", lambda *_, **__: False)
    X = broad(np.random.default_rng(0), 3000, 1.1)
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
