"""Generated networks are what they say, and the score of networks is networkx's."""

import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import networks
from data import Planted, draw, labels_per_class, planted

MODELS = [
    Planted(600, 4, 8, 0.3),
    Planted(900, 7, 5, 0.0, 2.2, size_exponent=1.8, seed=1),
    Planted(800, 3, 6, 1.0, 3.0, seed=2),
    Planted(700, 5, 7, 0.2, hung=0.4, seed=3),
]


@pytest.mark.parametrize("model", MODELS)
def test_a_planted_network_is_simple_and_has_its_degrees(model):
    W, y = planted(model)
    assert W.shape == (model.n, model.n)
    assert y.shape == (model.n,)
    assert set(y) <= set(range(model.k))
    assert (W != W.T).nnz == 0
    assert not W.diagonal().any()
    assert set(W.data) == {1}
    again, same = planted(model)
    assert (again != W).nnz == 0
    assert np.array_equal(y, same)
    core = round(model.n * (1 - model.hung))
    ends = W.nnz - 2 * (model.n - core)  # a hung node brings one edge
    assert 0.7 * model.mean_degree < ends / core <= model.mean_degree + 1


def test_without_mixing_few_edges_leave_a_block():
    model = MODELS[1]
    W, y = planted(model)
    i, j = W.nonzero()
    assert (y[i] != y[j]).sum() / 2 < model.k  # one odd end a block at most


def test_hung_nodes_are_trees_of_the_block_they_hang_on():
    model = Planted(500, 4, 6, 0.0, hung=0.5, seed=5)
    W, y = planted(model)
    graph = nx.from_scipy_sparse_array(W)
    core = nx.k_core(graph, 2)
    assert len(core) <= 250
    outer = graph.edge_subgraph(e for e in graph.edges if not core.has_edge(*e))
    assert sum(y[i] != y[j] for i, j in outer.edges) < model.k
    assert nx.is_forest(outer)


@pytest.mark.parametrize("seed", range(5))
def test_modularity_is_that_of_networkx(seed):
    rng = np.random.default_rng(seed)
    W, _ = planted(Planted(60, 3, 5, 0.3, seed=seed))
    W = W.astype(float)
    W.data += rng.random(W.nnz)
    W = (W + W.T).tocsr()
    labels = rng.integers(-1, 4, size=60)
    sets = [np.flatnonzero(labels == c) for c in range(4)]
    sets += [[v] for v in np.flatnonzero(labels < 0)]
    expected = nx.community.modularity(nx.from_scipy_sparse_array(W), sets)
    assert networks.modularity(W, labels) == pytest.approx(expected)


def test_draws_tell_no_more_than_half_of_a_class_and_nothing_unknown():
    y = np.repeat([-1, 0, 1, 2], [30, 40, 5, 1])
    given = labels_per_class(y, 10, np.random.default_rng(0))
    assert [int((given == c).sum()) for c in range(3)] == [10, 2, 1]
    assert np.array_equal(given[given >= 0], y[given >= 0])
    known = draw(y, "7 pairs", 0)
    assert len(known.pairs) == 7
    assert (y[known.pairs] >= 0).all()
    assert np.array_equal(known.belief > 0, y[known.pairs[:, 0]] == y[known.pairs[:, 1]])
