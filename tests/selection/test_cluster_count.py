"""How many clusters there are where nobody says: three counts, and what is told of them."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

import mustlink as ml
import oracles
from cases import blobs, planted_graph, random_graph
from mustlink.context.stage_cache import Workspace
from mustlink.core.observe import Deadline, Recorder
from mustlink.core.resources import PROGRAM
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.selection.cluster_count import (
    MOST,
    count_clusters,
    count_of_network,
    eigengaps,
    is_counted_as_network,
)

KINDS = ("NCut", "CSP", "SSSC", "SpectralLearning", "SRCP", "SSKK")


def planted(k, size=60, degree=14.0, mixing=0.25, seed=0, isolated=0):
    """A block model of k equal blocks with unlike degrees and edges of weight 1: (W, y)."""
    rng = np.random.default_rng(seed)
    n = k * size
    y = np.arange(n) % k
    pull = 0.5 + rng.random(n)
    same = y[:, None] == y
    share = degree * ((1 - mixing) / size * same + mixing / (n - size) * ~same)
    upper = np.triu(rng.random((n, n)) < share * pull[:, None] * pull, 1)
    W = sp.csr_matrix((upper | upper.T).astype(float))
    return sp.block_diag([W, sp.csr_matrix((isolated, isolated))], format="csr"), y


def without_blocks(n=600, degree=8.0, seed=0):
    """A random graph."""
    rng = np.random.default_rng(seed)
    upper = sp.triu(sp.random(n, n, degree / n, random_state=rng), 1)
    return sp.csr_matrix(((upper + upper.T) > 0).astype(float))


def ncut(k="auto", **options):
    return ml.NCut(k, affinity="precomputed", random_state=0, **options)


# ---------------------------------------------------------------- the counts


@pytest.mark.thorough(but=14)
@pytest.mark.parametrize("seed", range(42))
def test_the_bethe_hessian_count_against_dense_algebra(seed):
    rng = np.random.default_rng(seed)
    n, parts = int(rng.integers(12, 90)), int(rng.integers(1, 4))
    W = random_graph(rng, n, parts, isolated=int(rng.integers(3)), weighted=False)
    W = W if seed % 2 else sp.block_diag([W, planted(3, 15, 9.0, 0.1, seed)[0]], format="csr")
    graph = Graph.from_affinity(W)
    found = count_of_network(Workspace(graph), 0)
    linked = int(np.count_nonzero(graph.degrees))
    assert found.most == min(MOST, linked - 2)
    values = oracles.bethe_hessian(W.toarray())
    # An eigenvalue may be 0 but for rounding.
    below = [max(np.count_nonzero(values < zero), 1) for zero in (-1e-9, 1e-9)]
    low, high = (min(count, found.most + 1) for count in below)
    assert low <= found.bethe_hessian <= high


@pytest.mark.parametrize("k", [2, 3, 7, 12, 30])
def test_blocks_are_counted_and_the_count_is_clear(k):
    W, _ = planted(k, isolated=3)
    found = count_of_network(Workspace(Graph.from_affinity(W)), 0)
    assert found.k == found.bethe_hessian == found.by_gap == k
    assert found.is_clear
    assert found.by_modularity is None


def test_weights_leave_two_counts():
    W, _ = planted_graph(np.random.default_rng(0), 240, 4, inside=0.3, across=0.01)
    found = count_of_network(Workspace(Graph.from_affinity(W)), 0)
    assert found.bethe_hessian is None
    assert found.k == found.by_gap == found.by_modularity == 4
    assert found.is_clear


@pytest.mark.thorough
def test_more_blocks_than_are_looked_for():
    W, _ = planted(MOST + 16, 12, 8.0, 0.1)
    found = count_of_network(Workspace(Graph.from_affinity(W)), 0)
    assert found.bethe_hessian == found.most + 1
    assert f"more than {MOST}" in found.in_words
    assert not found.is_clear


def test_a_random_graph_has_no_clear_count():
    est = ncut().fit(without_blocks())
    (doubt,) = (one for one in est.report_.warnings if one.startswith("n_clusters"))
    assert "the Bethe-Hessian counts 1," in doubt


def star(n=51):
    W = sp.lil_matrix((n, n))
    W[0, 1:] = W[1:, 0] = 1
    return W.tocsr()


def all_between(a, b):
    first = np.arange(a + b) < a
    return sp.csr_matrix((first[:, None] != first).astype(float))


def complete(n=30):
    return sp.csr_matrix(np.ones((n, n)) - np.eye(n))


@pytest.mark.thorough
@pytest.mark.parametrize("W", [star(), all_between(20, 300), without_blocks(), complete()])
def test_where_nothing_is_clustered_that_is_told(W):
    est = ncut().fit(W)
    (doubt,) = (one for one in est.report_.warnings if one.startswith("n_clusters"))
    assert "perhaps there are no clusters at all" in doubt
    assert any("no clusters at all" in one for one in ml.suggest(W).warnings)


def test_components_are_clusters_whatever_is_in_them():
    est = ncut().fit(sp.block_diag([star(21)] * 3, format="csr"))
    assert est.report_.n_clusters == 3
    assert not any(one.startswith("n_clusters") for one in est.report_.warnings)


def test_words_name_what_was_tried(monkeypatch):
    monkeypatch.setattr("mustlink.selection.cluster_count._WORK", 16)
    found = count_of_network(Workspace(Graph.from_affinity(without_blocks())), 0)
    assert found.tried == 16
    assert "of up to 16 tried (to save time with so many nodes)" in found.in_words
    assert f"with {found.tau:.1f} times the mean degree added: {found.modularity:.3f}" in (
        found.in_words
    )


def test_little_memory_looks_for_fewer():
    graph = Graph.from_affinity(planted(7)[0])
    work = Workspace(graph, memory=PROGRAM + 131_000_000 + 2_000_000)
    assert 2 <= count_of_network(work, 0).most < MOST


@pytest.mark.parametrize("network", [True, False])
def test_what_the_time_limit_cut_short_is_not_clear(network):
    if network:
        graph = Graph.from_affinity(planted(20)[0])
    else:
        X, _ = blobs(np.random.default_rng(0), 1200, 5, d=5, separation=9.0)
        graph = ml.knn_graph(X, 10, random_state=0)
    over = Recorder(deadline=Deadline(1e-9))
    guess = count_clusters(Workspace(graph, over), 0)
    assert "no time for eigenvalues to converge" in guess.doubt
    assert count_clusters(Workspace(graph), 0).doubt is None


def test_gaps_are_shares():
    np.testing.assert_allclose(eigengaps(np.array([0, 0, 0, 0.08, 0.1])), [0, 0.8, 1 / 6])
    assert eigengaps(np.zeros(2)).size == 0


def test_components_of_a_graph_of_points_are_counted():
    X = np.concatenate([np.random.default_rng(i).normal(10 * i, 1, (12, 2)) for i in range(25)])
    graph = ml.knn_graph(X, 8, connect=False, random_state=0)
    assert graph.n_components == 25
    assert not is_counted_as_network(graph)
    found = count_clusters(Workspace(graph), 0)
    assert found.k == 25
    assert found.doubt is None


# ---------------------------------------------------------------- clusterers


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("kind", KINDS)
def test_auto_is_the_count(kind):
    W, _ = planted(4, 30, 12.0, 0.1)
    pairs = ml.Constraints.from_pairs([[0, 4], [1, 5], [0, 1], [2, 3]], [1, 1, -1, -1], n_nodes=120)
    est, asked = (
        getattr(ml, kind)(k, affinity="precomputed", random_state=0).fit(W, constraints=pairs)
        for k in ("auto", 4)
    )
    np.testing.assert_array_equal(est.labels_, asked.labels_)
    k, reason = est.report_.choices["n_clusters"]
    assert k == est.report_.n_clusters == 4
    assert "Bethe-Hessian counts 4" in reason
    assert any("4 counted" in note for note in est.report_.notes)
    assert "n_clusters" not in asked.report_.choices


def test_classes_of_labels_come_first():
    W, y = planted(4, 30, 12.0, 0.1)
    few = np.where(np.arange(120) < 12, y % 3, -1)
    est = ml.CSP("auto", affinity="precomputed", random_state=0).fit(W)
    assert est.report_.n_clusters == 4
    est.refit(few)
    assert est.report_.choices["n_clusters"] == [3, "classes among the labels"]


def test_the_same_seed_gives_the_same_labels():
    W = without_blocks(400)
    first, second = ncut().fit(W), ncut().fit(W)
    np.testing.assert_array_equal(first.labels_, second.labels_)
    assert first.report_.choices == second.report_.choices


def test_points_are_counted_by_the_gap():
    X, _ = blobs(np.random.default_rng(0), 200, 5, d=5, separation=9.0)
    est = ml.NCut("auto", random_state=0).fit(X)
    k, reason = est.report_.choices["n_clusters"]
    assert k == 5 == ml.suggest(X).seen.count.k
    assert "widest gap" in reason


@pytest.mark.parametrize(
    ("make", "X", "words"),
    [
        (ncut, np.ones((3, 3)) - np.eye(3), "nothing to count in 3 nodes"),
        (lambda: ncut("many"), planted(3)[0], "'many' is not a whole number"),
        (lambda: ml.DISIM("auto"), planted(3)[0], "counts in undirected graphs"),
    ],
)
def test_what_cannot_be_counted_is_told(make, X, words):
    with pytest.raises(InputError, match=words):
        make().fit(X)


# ---------------------------------------------------------------- suggest and the shell


def test_suggest_counts_blocks():
    told = ml.suggest(planted(32)[0])
    assert told.seen.count.k == 32
    assert told.seen.count.source == "network"
    assert not any("number of clusters" in doubt for doubt in told.warnings)
    assert any("Bethe-Hessian counts 32" in reason for reason in told.reasons)


def test_suggest_tells_all_counts_where_they_differ():
    W, _ = planted(12, mixing=0.62)
    (doubt,) = (d for d in ml.suggest(W).warnings if "number of clusters" in d)
    assert all(word in doubt for word in ("Bethe-Hessian", "widest gap", "modularity", "differ"))


@pytest.mark.thorough
def test_suggest_and_fits_count_the_same():
    W, _ = planted(12, mixing=0.62)
    told, est = ml.suggest(W), ncut().fit(W)
    assert [told.seen.count.k, told.seen.count.reason] == est.report_.choices["n_clusters"]


def test_suggest_leaves_a_long_count_to_the_fit(monkeypatch):
    monkeypatch.setattr("mustlink.advice.observations.NETWORK_NODES", 100)
    told = ml.suggest(planted(4, 30, 12.0, 0.1)[0])
    assert told.estimator().n_clusters == "auto"
    assert any("counts in the fit" in doubt for doubt in told.warnings)
    assert "n_clusters" not in " ".join(told.reasons)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("count")
    sp.save_npz(folder / "blocks.npz", planted(4, 30, 12.0, 0.1)[0])
    (folder / "jobs.toml").write_text(
        '[[job]]\nname = "one"\ndata = "blocks.npz"\nk = "auto"\noutput = "{name}.h5"\n'
    )
    return folder


def test_the_shell_counts(mustlink, data):
    code, said, _ = mustlink("cluster blocks.npz -k auto --json --quiet -o out.h5")
    told = json.loads(said)
    assert code == 0
    assert told["n_clusters"] == len(told["sizes"]) == 4
    assert told["choices"]["n_clusters"][0] == 4
    assert "-k auto" in told["command"]
    code, said, _ = mustlink("cluster blocks.npz -k auto -o out.h5")
    assert "Bethe-Hessian counts 4" in said


@pytest.mark.thorough
def test_the_shell_plans_and_runs_what_is_counted(mustlink, jobs_here):
    code, said, _ = mustlink("plan blocks.npz -k auto --json")
    assert (code, json.loads(said)["nnz"] > 0) == (0, True)
    assert mustlink("plan 100000x8 -k auto")[0] == 0
    code, _, told = mustlink("batch jobs.toml --quiet")
    assert (code, told) == (0, "")
    code, said, _ = mustlink("score one.h5 --json")
    assert len(json.loads(said)["sizes"]) == 4


@pytest.mark.parametrize("words", ["cluster blocks.npz -o x.h5", "plan blocks.npz"])
def test_neither_a_number_nor_auto(mustlink, words):
    code, _, told = mustlink(f"{words} -k many")
    assert code == 2
    assert "'many' is neither a whole number nor auto" in told
