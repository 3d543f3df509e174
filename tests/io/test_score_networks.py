"""`mustlink score --leiden`: what another clusters the network to, beside what was found."""

import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

from mustlink.discretize.cuts import network_scores
from mustlink.graph import Graph
from mustlink_io.jobs.score import clusters_by_leiden

igraph = pytest.importorskip("igraph")
Y = np.repeat(np.arange(4), 25)


def blocks(weighted=False):
    """Four blocks, and two nodes without an edge."""
    rng = np.random.default_rng(0)
    upper = np.triu(rng.random((100, 100)) < np.where(Y[:, None] == Y, 0.4, 0.02), 1)
    W = upper * (0.5 + rng.random((100, 100))) if weighted else upper.astype(float)
    return sp.block_diag([sp.csr_matrix(W + W.T), sp.csr_matrix((2, 2))], format="csr")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scores")
    sp.save_npz(folder / "net.npz", blocks())
    np.savetxt(folder / "two.txt", np.append(Y // 2, [-1, -1]), fmt="%d")
    np.savetxt(folder / "truth.txt", np.append(Y, [-1, -1]), fmt="%d")
    return folder


@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_come_out_and_nothing_else_changes(weighted):
    graph, before = Graph.from_affinity(blocks(weighted)), random.getstate()
    found = clusters_by_leiden(graph)
    assert adjusted_rand_score(Y, found[:100]) == 1.0
    assert found[100:].tolist() == [-1, -1]
    np.testing.assert_array_equal(found, clusters_by_leiden(graph))
    assert random.getstate() == before


def test_scores_stand_beside_each_other(mustlink):
    line = "score two.txt --graph net.npz --truth truth.txt --leiden"
    code, said, _ = mustlink(f"{line} --json")
    told = json.loads(said)
    graph = Graph.from_affinity(blocks())
    other = network_scores(graph, clusters_by_leiden(graph))
    assert code == 0
    for name in ("modularity", "coverage", "worst_conductance"):
        assert told["leiden"][name] == other[name]
    assert told["leiden"]["n_clusters"] == 4
    assert told["leiden"]["truth"]["ari"] == 1.0 > told["truth"]["ari"]
    assert len(told["conductance"]) == 2
    said = mustlink(line)[1]
    assert "4 clusters, modularity" in said


def test_nodes_without_a_cluster_are_told_apart(mustlink, data):
    part = np.append(np.where(np.arange(100) % 5, Y, -1), [-1, -1])
    np.savetxt(data / "part.txt", part, fmt="%d")
    truth = json.loads(mustlink("score part.txt --truth truth.txt --json")[1])["truth"]
    assert truth["ari_clustered"] == 1.0 > truth["ari"]
    assert "without label -1" in mustlink("score part.txt --truth truth.txt")[1]
    truth = json.loads(mustlink("score two.txt --truth truth.txt --json")[1])["truth"]
    assert "ari_clustered" not in truth


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("score two.txt --leiden", "--leiden: clusters a graph; give it with --graph"),
        ("score two.txt truth.txt --graph net.npz --leiden", "one file of labels at a time"),
    ],
)
def test_what_cannot_be_compared(mustlink, line, words):
    code, _, told = mustlink(line)
    assert code == 2
    assert words in told


def test_without_igraph(mustlink, monkeypatch):
    monkeypatch.setitem(sys.modules, "igraph", None)
    code, _, told = mustlink("score two.txt --graph net.npz --leiden")
    assert code == 2
    assert "--leiden: needs igraph; pip install 'mustlink[networks]'" in told


def test_pairs_of_nodes_in_no_cluster_are_told_apart(mustlink):
    Path("pairs.csv").write_text("i,j,belief\n0,1,1\n0,60,-1\n0,101,1\n100,101,-1\n")
    code, said, _ = mustlink("score two.txt --constraints pairs.csv")
    assert code == 0
    assert "100.0% on average: 100.0% of 1 must-links" in " ".join(said.split())
    assert "2 more are of nodes in no cluster" in " ".join(said.split())
    told = json.loads(mustlink("score two.txt --constraints pairs.csv --json")[1])
    assert told["satisfaction"]["n_unclustered"] == 2
