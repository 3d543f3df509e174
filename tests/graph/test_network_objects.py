"""Networks of networkx, igraph and scikit-network go in as they are."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import mustlink as ml
from mustlink.errors import InputError
from mustlink.graph.forms import unwrapped


def edges_of(rng, n=30):
    """Distinct edges, loops among them, and their weights."""
    A = sp.random(n, n, 0.2, random_state=rng).tocoo()
    keep = A.row <= A.col
    return np.column_stack([A.row, A.col])[keep], 0.5 + A.data[keep]


def affinity(edges, weights, n=30):
    W = np.zeros((n, n))
    for (i, j), w in zip(edges, weights, strict=True):
        W[i, j] += w
        if i != j:
            W[j, i] += w
    return W


@pytest.mark.parametrize("weighted", [True, False])
def test_networkx(weighted):
    nx = pytest.importorskip("networkx")
    edges, weights = edges_of(np.random.default_rng(0))
    G = nx.Graph()
    G.add_nodes_from(f"n{i}" for i in range(30))
    for (i, j), w in zip(edges, weights, strict=True):
        G.add_edge(f"n{i}", f"n{j}", **({"weight": w} if weighted else {}))
    found = unwrapped(G).affinity.toarray()
    assert np.allclose(found, affinity(edges, weights if weighted else np.ones(len(edges))))


def test_parallel_edges_of_networkx_add_up():
    nx = pytest.importorskip("networkx")
    G = nx.MultiGraph([(0, 1), (0, 1), (1, 2)])
    assert unwrapped(G).affinity[0, 1] == 2


@pytest.mark.parametrize("weighted", [True, False])
def test_igraph(weighted):
    igraph = pytest.importorskip("igraph")
    edges, weights = edges_of(np.random.default_rng(1))
    both = np.vstack([edges, edges[:3]])  # three parallel ones
    values = np.append(weights, weights[:3])
    G = igraph.Graph(n=30, edges=both.tolist())
    if weighted:
        G.es["weight"] = values
    found = unwrapped(G).affinity.toarray()
    assert np.allclose(found, affinity(both, values if weighted else np.ones(len(both))))


def test_scikit_network():
    data = pytest.importorskip("sknetwork.data")
    karate = data.karate_club(metadata=True)
    found = unwrapped(karate).affinity
    assert (found != karate.adjacency.astype(float)).nnz == 0


def test_every_estimator_takes_them():
    nx = pytest.importorskip("networkx")
    G = nx.karate_club_graph()
    W = nx.to_scipy_sparse_array(G, weight="weight", dtype=float)
    y = np.full(34, -1)
    y[[0, 33]] = [0, 1]
    for make in (ml.NCut, ml.CSP, ml.SSSC, ml.CSCGFHF):
        labels = make(n_clusters=2, random_state=0).fit(G, y).labels_
        same = make(n_clusters=2, affinity="precomputed", random_state=0).fit(W, y).labels_
        assert np.array_equal(labels, same)
    assert np.array_equal(
        ml.LLGC().fit(G, y).transduction_, ml.LLGC(affinity="precomputed").fit(W, y).transduction_
    )
    assert ml.suggest(G, y).parameters == ml.suggest(sp.csr_matrix(W), y).parameters


def test_directed_ones_are_refused_in_one_line():
    nx = pytest.importorskip("networkx")
    with pytest.raises(InputError, match=r"directed networkx graph.*to_undirected"):
        ml.NCut(2).fit(nx.DiGraph([(0, 1), (1, 2)]))


def test_weights_that_are_no_numbers_are_refused():
    nx = pytest.importorskip("networkx")
    G = nx.Graph()
    G.add_edge(0, 1, weight="heavy")
    with pytest.raises(InputError, match="no number"):
        unwrapped(G)
