"""Must-links that cannot-links contradict, against trying every must-link without."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mustlink.constraints import Constraints
from mustlink.constraints.closure import MustTrees, gather, outvoted
from oracles import constraints as oracles

NONE = np.empty((0, 2), dtype=np.int64)


def believed(must, cannot, labels):
    said = gather(must, cannot, labels)
    return said.without(*outvoted(said))


def ends(rng, n, count):
    """Distinct pairs of distinct nodes."""
    pairs = np.sort(rng.integers(0, n, (count, 2)), axis=1)
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)


@pytest.mark.thorough
@given(st.integers(2, 30), st.integers(0, 34), st.integers(0, 12), st.integers(0, 2**31))
@settings(max_examples=300)
def test_as_by_trying_every_link(n, musts, cannots, seed):
    rng = np.random.default_rng(seed)
    must, cannot = ends(rng, n, musts), ends(rng, n, cannots)
    said = gather(must, cannot, None)
    found = outvoted(said)
    wanted = oracles.outvoted(n, must, cannot)
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(have, want)


@given(st.integers(2, 24), st.integers(1, 30), st.integers(0, 2**31))
def test_trees_part_their_groups(n, musts, seed):
    rng = np.random.default_rng(seed)
    must, asked = ends(rng, n, musts), ends(rng, n, 12)
    said = gather(must, NONE, None)
    if not said.nodes.size:
        return
    group, links = said.grouped[0], np.column_stack([said.left, said.right])
    trees = MustTrees.of(links, group)
    known = np.isin(asked, said.nodes).all(axis=1)
    asked = np.searchsorted(said.nodes, asked[known])
    asked = asked[group[asked[:, 0]] == group[asked[:, 1]]]
    passing, joins = trees.passing(asked), trees.passing(links)
    for node in range(group.size):
        if trees.above[node] < 0:
            assert trees.link[node] == -1
            assert node == group[node]
            continue
        below, others = trees.parts(node)
        assert sorted([*below, *others]) == np.flatnonzero(group == group[node]).tolist()
        assert sorted(links[trees.link[node]]) == sorted([node, trees.above[node]])
        assert trees.size[node] == len(below)
        assert trees.smaller[node] == min(len(below), len(others))
        one = np.isin(asked, below)
        assert passing[node] == (one[:, 0] != one[:, 1]).sum()
        assert trees.is_bridge[node] == (joins[node] == 1)


def two_groups(between, apart):
    """Paths 0-1-2-3 and 4-5-6-7 with links between them, and what sets them apart."""
    paths = [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7)]
    pairs = np.array([*paths, *between, *apart])
    belief = np.repeat([1.0, -1.0], [len(paths) + len(between), len(apart)])
    return Constraints.from_pairs(pairs, belief, n_nodes=9).closure().to_dense()


def test_one_word_against_one_leaves_it_open():
    Q = two_groups([(1, 5)], [(2, 6)])
    assert Q[0, 3] == Q[4, 7] == 1
    assert (Q[1, 5], Q[2, 6]) == (1, -1)
    assert Q[0, 7] == Q[3, 4] == 0


def test_two_noes_set_apart_and_two_yeses_join():
    Q = two_groups([(1, 5)], [(2, 6), (3, 7)])
    assert Q[0, 7] == Q[3, 4] == -1
    assert Q[1, 5] == 1 - 1
    Q = two_groups([(1, 5), (3, 7)], [(2, 6)])
    assert Q[0, 7] == Q[3, 4] == 1
    assert Q[2, 6] == 1 - 1


def test_labels_are_not_outvoted():
    labels = np.repeat([0, -1, 1], [6, 6, 6])
    chain = np.column_stack([np.arange(6, 11), np.arange(7, 12)])
    apart = np.array([[0, 5], [1, 4], [0, 11]])
    said = believed(np.vstack([[5, 6], chain]), apart, labels)
    assert said.n_chain == 10
    assert np.column_stack([said.left, said.right])[10:].tolist() == chain.tolist()
    assert said.cannot.tolist() == apart[:2].tolist()
    between = believed(np.array([[1, 13]]), np.array([[0, 14]]), labels)  # refused before
    assert np.unique(between.grouped[0]).tolist() == [0, 6]


def test_a_node_alone_is_believed():
    """Of 0-1-2-3 hangs little on each must-link: the cannot-link is the one that is wrong."""
    pairs = [[0, 1], [1, 2], [2, 3], [0, 3]]
    Q = Constraints.from_pairs(pairs, [1, 1, 1, -1], n_nodes=4).closure().to_dense()
    assert (Q[0, 2], Q[0, 3]) == (1, 0)


def test_nothing_said_and_nothing_contradicted():
    for found in outvoted(gather(NONE, NONE, None)):
        assert found.size == 0
    must, cannot = np.array([[0, 1], [2, 3]]), np.array([[1, 2]])
    for found in outvoted(gather(must, cannot, None)):
        assert not found.any()


@pytest.mark.parametrize("length", [5, 50_000])
def test_long_paths(length):
    chain = np.column_stack([np.arange(length), np.arange(length) + 1])
    out, unsure = outvoted(gather(chain, np.array([[0, length]]), None))
    assert unsure.tolist() == [True]
    assert np.flatnonzero(out).tolist() == [(length - 1) // 2]
