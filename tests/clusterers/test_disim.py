"""DI-SIM against dense singular vectors, and what it is for: blocks that send in a circle."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
import oracles
from mustlink.errors import InputError
from mustlink.graph.forms import arcs_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::mustlink.errors.DoubtfulResultWarning"),
    pytest.mark.usefixtures("few_runs"),
]


def random_directed(seed):
    """Weighted arcs in one to three parts; nodes without in-, out- or any edge; loops."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 40))
    A = (rng.random((n, n)) < rng.uniform(0.05, 0.5)) * rng.uniform(0.1, 3.0, (n, n))
    part = rng.integers(0, rng.integers(1, 4), n)
    A[part[:, None] != part] = 0.0
    A[rng.integers(n)] = 0.0
    A[:, rng.integers(n)] = 0.0
    alone = int(rng.integers(n))
    A[alone] = A[:, alone] = 0.0
    i, j, k = (np.arange(1, 4) + alone) % n
    A[i, j] = A[j, k] = 1.0
    return A


def circle(n=400, inside=0.12, across=0.02, seed=0, k=3):
    """Blocks that send to the next one."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    P = np.where(y[None, :] == (y[:, None] + 1) % k, inside, across)
    return sp.csr_matrix((rng.random((n, n)) < P).astype(float)), y


def apart(values, j):
    """Whether a value's vectors are determined: it is no other's, and not 0."""
    others = np.delete(values, j)
    return values[j] > 1e-6 and abs(others - values[j]).min(initial=1.0) > 1e-6


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("first", range(0, 100, 25))
def test_dense_twins(first):
    for seed in range(first, first + 25):
        A = random_directed(seed)
        linked = A.any(axis=0) | A.any(axis=1)
        k = int(np.random.default_rng(seed).integers(2, min(linked.sum(), 9)))
        t = ("auto", 0.2)[seed % 2]
        fit = ml.DISIM(k, regularization=t, random_state=0).fit(sp.csr_matrix(A))
        U, sigma, V = oracles.disim(A, 1.0 if t == "auto" else t)
        np.testing.assert_allclose(fit.singular_values_, sigma[:k], atol=1e-10)
        ours, whole = np.vstack(np.hsplit(fit.embedding_, 2)), np.vstack([U, V])
        for j in filter(lambda j: apart(sigma, j), range(k)):
            assert abs(abs(ours[:, j] @ whole[:, j]) - 2) < 1e-8
        assert ((fit.labels_ >= 0) == linked).all()
        assert ((fit.sending_labels_ >= 0) == A.any(axis=1)).all()
        assert ((fit.receiving_labels_ >= 0) == A.any(axis=0)).all()


def test_blocks_in_a_circle():
    A, y = circle()
    fit = ml.DISIM(3, random_state=0).fit(A)
    for found in (fit.labels_, fit.sending_labels_, fit.receiving_labels_):
        assert adjusted_rand_score(y, found) > 0.9
    without = ml.NCut(3, affinity="precomputed", random_state=0).fit((A + A.T) / 2)
    assert adjusted_rand_score(y, without.labels_) < 0.1


def test_who_sends_alike_is_not_who_receives_alike():
    rng = np.random.default_rng(0)
    sends, receives = rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    A = (rng.random((300, 300)) < np.where(sends[:, None] == receives, 0.2, 0.05)).astype(float)
    fit = ml.DISIM(2, random_state=0).fit(A)
    assert adjusted_rand_score(sends, fit.sending_labels_) > 0.9
    assert adjusted_rand_score(receives, fit.receiving_labels_) > 0.9
    assert abs(adjusted_rand_score(sends, fit.receiving_labels_)) < 0.1


def sparse_circle(n=400):
    """A circle in which a tenth only sends, a tenth only receives, and one node has no edge."""
    A, y = circle(n)
    A = A.tolil()
    A[:, : n // 10] = 0
    A[n // 10 : n // 5] = 0
    A[n - 1] = 0
    A[:, n - 1] = 0
    return sp.csr_matrix(A), y


@pytest.mark.thorough
def test_what_is_told_of_nodes_without_edges():
    A, y = sparse_circle()
    for labels in (None, np.where(np.arange(400) < 100, y, -1)):
        fit = ml.DISIM(3, random_state=0).fit(A, labels)
        sent, received = A.sum(axis=1).A1 == 0, A.sum(axis=0).A1 == 0
        assert ((fit.sending_labels_ < 0) == sent).all()
        assert ((fit.receiving_labels_ < 0) == received).all()
        (told,) = (note for note in fit.report_.notes if "edge" in note)
        assert f"{sent.sum()} sending to none" in told
        assert f"{received.sum()} receiving from none" in told
        assert f"{(sent & received).sum()} doing neither, labelled -1" in told
        assert not any("neither is given" in note for note in fit.report_.notes)
        np.testing.assert_allclose(fit.eigenvalues_, 1 - fit.singular_values_)


def test_k_means_starts_from_the_labels():
    A, y = circle(inside=0.06)
    labels = np.where(np.arange(400) < 15, y, -1)
    plain = ml.DISIM(3, random_state=0).fit(A)
    told = ml.DISIM(3, random_state=0).fit(A, labels)
    assert adjusted_rand_score(y, told.labels_) > adjusted_rand_score(y, plain.labels_) - 0.05
    assert np.mean(told.labels_ == y) > 0.9  # clusters have the numbers of the classes
    np.testing.assert_array_equal(told.embedding_, plain.embedding_)


def test_a_node_that_counts_twice():
    """As if it were there twice, with the same edges."""
    A, _ = circle(60, 0.4, 0.05)
    counts = np.where(np.arange(60) < 10, 2, 1)
    of = np.repeat(np.arange(60), counts)
    once = ml.DISIM(3, random_state=0).fit(A, sample_weight=counts)
    twice = ml.DISIM(3, random_state=0).fit(A.toarray()[np.ix_(of, of)])
    np.testing.assert_allclose(once.singular_values_, twice.singular_values_, atol=1e-10)
    assert adjusted_rand_score(once.labels_[of], twice.labels_) == 1


def test_network_objects():
    A, _ = circle(60, 0.4, 0.05)
    A = A.multiply(np.arange(1, 61)[:, None]).tocsr()
    nx = pytest.importorskip("networkx")
    G = nx.from_scipy_sparse_array(A, create_using=nx.DiGraph)
    assert (arcs_of(G) != A).nnz == 0
    both = arcs_of(G.to_undirected())
    assert (both != both.T).nnz == 0


def test_igraph():
    igraph = pytest.importorskip("igraph")
    A, _ = circle(60, 0.4, 0.05)
    coo = A.tocoo()
    G = igraph.Graph(60, list(zip(coo.row, coo.col, strict=True)), directed=True)
    assert (arcs_of(G) != A).nnz == 0


@pytest.mark.parametrize(
    ("give", "words"),
    [
        (lambda: ml.DISIM(2).fit(np.ones((3, 4))), r"\(3, 4\) is not square.*bipartite_graph"),
        (lambda: ml.DISIM(2).fit(np.zeros((3, 3))), "no edge"),
        (lambda: ml.DISIM(2).fit(-np.ones((3, 3))), "negative"),
        (lambda: ml.DISIM(2).fit(ml.Graph.from_affinity(np.ones((3, 3)))), "no directions"),
        (lambda: ml.DISIM(2, affinity="knn").fit(np.ones((3, 3))), "NCut"),
        (lambda: ml.DISIM(9).fit(np.ones((3, 3))), "at most 3"),
        (lambda: ml.DISIM(2, regularization=-1).fit(np.ones((3, 3))), "regularization"),
    ],
)
def test_refusals(give, words):
    with pytest.raises(InputError, match=words):
        give()
