"""Rectangular matrices as graphs: co-clusters are those of singular vectors, labels on any side."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import SpectralCoclustering
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
import oracles
from mustlink.context.stage_cache import Workspace
from mustlink.eigen.memory_work import laplacian_of, smallest_pairs
from mustlink.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::mustlink.errors.DoubtfulResultWarning")


def random_rectangle(seed):
    """Weights in one to three parts, with empty rows and columns."""
    rng = np.random.default_rng(seed)
    n, m = rng.integers(5, 30, 2)
    M = (rng.random((n, m)) < rng.uniform(0.1, 0.6)) * rng.uniform(0.1, 3.0, (n, m))
    parts = int(rng.integers(1, 4))
    M[rng.integers(0, parts, n)[:, None] != rng.integers(0, parts, m)] = 0.0
    M[rng.integers(n)] = 0.0
    M[:, rng.integers(m)] = 0.0
    M[0, :2] = M[1, 1] = 1.0
    return M


def planted(n=150, m=100, k=4, inside=0.3, across=0.04, seed=0):
    """Rows and columns of k kinds; entries mostly between the same."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(0, k, n), rng.integers(0, k, m)
    P = np.where(rows[:, None] == columns, inside, across)
    return sp.csr_matrix((rng.random((n, m)) < P).astype(float)), rows, columns


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_dense_twins(first):
    """λ = 1 − σ and z = (u, v)/√2 of the matrix with scaled rows and columns, τ or none."""
    for seed in range(first, first + 25):
        M = random_rectangle(seed)
        n, m = M.shape
        graph = ml.bipartite_graph(sp.csr_matrix(M))
        assert np.array_equal(
            graph.affinity.toarray(), np.block([[np.zeros((n, n)), M], [M.T, np.zeros((m, m))]])
        )
        tau = (0.0, 0.3, 1.0)[seed % 3]
        view = Workspace(graph, tau=tau)
        laplacian = laplacian_of(view)
        U, sigma, V = oracles.coclusters(M, tau)
        k = min(6, laplacian.size - laplacian.null.n_components)
        found = smallest_pairs(view, k)
        values = np.sort(np.concatenate([1 - sigma, 1 + sigma, np.ones(abs(n - m))]))
        empty = n + m - laplacian.size  # whose values would be 1
        there = np.delete(values, np.flatnonzero(abs(values - 1) < 1e-9)[:empty])
        first_ = laplacian.null.n_components
        np.testing.assert_allclose(found.values, there[first_ : first_ + k], atol=1e-10)
        Z = laplacian.from_working_order(found.vectors)
        for j, value in enumerate(found.values):
            at = np.flatnonzero(abs(1 - sigma - value) < 1e-9)
            if at.size == 1 and abs(np.delete(sigma, at) - sigma[at]).min() > 1e-6 and value < 0.99:
                z = np.concatenate([U[:, at[0]], V[:, at[0]]]) / np.sqrt(2)
                assert abs(abs(z @ Z[:, j]) - 1) < 1e-8


def test_planted_coclusters_as_scikit_learn_finds_them():
    M, rows, columns = planted()
    fit = ml.NCut(4, affinity="precomputed", random_state=0).fit(ml.bipartite_graph(M))
    peer = SpectralCoclustering(4, random_state=0).fit(M)
    for found, truth, theirs in (
        (fit.row_labels_, rows, peer.row_labels_),
        (fit.column_labels_, columns, peer.column_labels_),
    ):
        assert adjusted_rand_score(truth, found) > adjusted_rand_score(truth, theirs) - 0.03
        assert adjusted_rand_score(theirs, found) > 0.8
    assert np.array_equal(np.concatenate([fit.row_labels_, fit.column_labels_]), fit.labels_)


@pytest.mark.parametrize("make", [ml.CSP(4), ml.LLGC(alpha=0.9, class_mass="equal")])
def test_labels_of_columns_tell_rows(make):
    M, rows, columns = planted(inside=0.16, across=0.05)
    known = np.where(np.arange(100) < 40, columns, -1)
    y = np.concatenate([np.full(150, -1), known])
    plain = ml.NCut(4, affinity="precomputed", random_state=0).fit(ml.bipartite_graph(M))
    told = make.set_params(affinity="precomputed", random_state=0).fit(ml.bipartite_graph(M), y)
    before = adjusted_rand_score(rows, plain.row_labels_)
    assert adjusted_rand_score(rows, told.row_labels_) > before


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("make", [ml.CSP, ml.SRCP, ml.SSKK, ml.CSCGFHF, ml.LLGC, ml.NCut])
def test_labels_of_rows_alone_will_do(make):
    M, rows, _ = planted(60, 40, 3)
    graph = ml.bipartite_graph(M)
    y = np.where(np.arange(60) < 20, rows, -1)
    options = {} if make is ml.LLGC else {"n_clusters": 3}
    if make is ml.NCut:
        options["init"] = "labels"
    one, other = (
        make(affinity="precomputed", random_state=0, **options).fit(graph, labels)
        for labels in (y, np.concatenate([y, np.full(40, -1)]))
    )
    assert np.array_equal(one.labels_, other.labels_)
    names = np.array(["", "a", "b", "c"])[y + 1]
    if make in (ml.CSP, ml.LLGC):
        assert make(affinity="precomputed", random_state=0, **options).fit(graph, names)
    with pytest.raises(InputError, match="59 labels for 100 nodes"):
        make(affinity="precomputed", **options).fit(graph, y[:59])


def test_it_is_a_network():
    M, rows, columns = planted(60, 40, 3)
    graph = ml.bipartite_graph(M)
    fit = ml.NCut(3, affinity="precomputed", random_state=0).fit(graph)
    W = graph.affinity.toarray()
    degrees, same = W.sum(axis=1), fit.labels_[:, None] == fit.labels_
    expected = ((W - np.outer(degrees, degrees) / W.sum()) * same).sum() / W.sum()
    assert fit.report_.extra["network"]["modularity"] == pytest.approx(expected)
    y = np.where(np.arange(60) < 12, rows, -1)
    found = ml.LLGC(affinity="precomputed", random_state=0).fit(graph, y)
    assert adjusted_rand_score(columns, found.column_labels_) > 0.8


def test_sides_are_of_bipartite_graphs_only():
    fit = ml.NCut(2, affinity="precomputed").fit(np.ones((4, 4)))
    assert not hasattr(fit, "row_labels_")
    assert not hasattr(ml.NCut(2), "column_labels_")


@pytest.mark.parametrize(
    ("M", "words"),
    [(np.zeros((3, 4)), "no entry"), (-np.ones((3, 4)), "negative"), (np.ones(3), "1-d array")],
)
def test_refusals(M, words):
    with pytest.raises(InputError, match=words):
        ml.bipartite_graph(M)


def test_its_own_arrays():
    M = sp.csr_matrix(np.array([[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]]))
    before = M.copy()
    graph = ml.bipartite_graph(M)
    graph.affinity.data[:] = 7
    assert (before != M).nnz == 0
    assert ml.bipartite_graph(M.toarray() * 1e40).info["scaled"] < 0
