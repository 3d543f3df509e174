"""Representatives: shares, the graph of p nodes beside the dense one of all rows, what is known."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

import mustlink as ml
from every import blobs
from mustlink.constraints.constraints import merge_duplicates
from mustlink.core.observe import Recorder
from mustlink.errors import InputError
from mustlink.graph.shares import mixed, voted
from mustlink.neighbors.representatives import nearest_centres, representative_graph

Rows = type("Rows", (), {"__getitem__": lambda self, rows: self.X[rows]})


def in_file(X):
    """Points that are read by blocks, as an HDF5 dataset is."""
    rows = Rows()
    rows.X, rows.shape, rows.dtype, rows.chunks = X, X.shape, X.dtype, None
    return rows


def dense(graph):
    return graph.shares.matrix().toarray()


def test_shares_are_of_the_nearest_and_sum_to_one():
    X, _ = blobs(0, 300)
    graph = representative_graph(X, 40)
    own = graph.shares
    Z, centres = dense(graph), own.finder.centres
    assert np.allclose(Z.sum(axis=1), 1, atol=1e-12)
    far = np.linalg.norm((X[:, None] - centres[None]).astype(float), axis=2)
    nearest = np.sort(far, axis=1)[:, 4]
    assert (far[Z > 0] <= nearest[np.nonzero(Z)[0]] * (1 + 1e-5)).all()
    assert (np.diff(own.shares, axis=1) <= 0).all()
    d = np.take_along_axis(far, own.near, axis=1)
    twin = np.exp(-(d**2) / (d**2).mean(axis=1, keepdims=True))
    # shares are in single precision
    assert np.allclose(own.shares, twin / twin.sum(axis=1, keepdims=True), atol=1e-5)
    assert np.allclose(Z[graph.first_rows, np.arange(Z.shape[1])], Z.max(axis=0))


def test_the_small_problem_is_that_of_all_rows():
    X, _ = blobs(1, 240)
    graph = representative_graph(X, 30)
    Z = dense(graph)
    mass = Z.sum(axis=0)
    assert np.allclose(graph.weights, mass)
    # bridges, where there are any, are the only edges beyond ZᵀZ
    assert np.allclose(graph.degrees, mass, rtol=1e-3)
    W = Z / mass @ Z.T
    assert np.allclose(W.sum(axis=1), 1)
    few = scipy.linalg.eigvalsh(Z.T @ Z, np.diag(mass))[::-1]
    many = np.linalg.eigvalsh(W)
    assert np.allclose(many[::-1][: few.size], few, atol=1e-10)
    values, vectors = scipy.linalg.eigh(Z.T @ Z, np.diag(mass))
    raised = Z @ vectors[:, -4:]
    assert np.allclose(W @ raised, raised * values[-4:], atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_in_a_file_have_the_same_graph(weighted):
    X, _ = blobs(2, 500)
    here = representative_graph(X, 50, random_state=3)
    there = representative_graph(in_file(X), 50, random_state=3, held=0)
    if weighted:
        w = np.random.default_rng(0).integers(0, 4, len(X)).astype(float)
        here, there = here.weighing(w), there.weighing(w)
        assert np.allclose(here.weights, w @ dense(here))
        assert not dense(here)[w == 0].any()
    assert there.shares.near is None
    assert (here.affinity != there.affinity).nnz == 0
    assert np.array_equal(here.rows, there.rows)
    values = np.random.default_rng(1).random((50, 3))
    rows = there.spread(values)
    assert np.array_equal(here.spread(values), rows)
    assert np.array_equal(here.spread(values)[[7, 3]], rows[[7, 3]])
    assert np.array_equal(here.spread(values).shape, rows.shape)
    whole = values.argmax(axis=1)
    assert np.array_equal(here.spread(whole), there.spread(whole))
    rows.fix(np.array([3, 400]), np.zeros((2, 3)))
    assert np.flatnonzero(~np.asarray(rows).any(axis=1)).tolist() == sorted(
        {3, 400} | set(np.flatnonzero(~here.spread(values).any(axis=1)))
    )


def test_each_point_its_own_representative_is_the_full_graph():
    X, _ = blobs(3, 90)
    twice = np.concatenate([X, X[:30]])
    graph = representative_graph(twice, 90, nearest=1)
    assert np.array_equal(graph.shares.finder.centres[graph.rows], twice)
    twin = ml.knn_graph(twice, 15, duplicates="merge")
    order = twin.rows[graph.first_rows]  # the nodes in the other order
    assert np.array_equal(graph.weights, twin.weights[order])
    assert np.allclose(graph.affinity.toarray(), twin.affinity[order][:, order].toarray())
    ours = ml.NCut(3, affinity="precomputed", random_state=0).fit(graph)
    theirs = ml.NCut(3, random_state=0).fit(twice)
    assert len({*zip(ours.labels_, theirs.labels_, strict=True)}) == 3


@pytest.mark.parametrize("seed", range(100))
def test_beliefs_are_carried_down_as_a_dense_product(seed):
    rng = np.random.default_rng(seed)
    n, p, r, m = 40, 9, 3, int(rng.integers(1, 30))
    Z = np.zeros((n, p))
    near = np.argsort(rng.random((n, p)), axis=1)[:, :r]
    np.put_along_axis(Z, near, rng.dirichlet(np.ones(r), n), axis=1)
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(m)])
    known = ml.Constraints.from_pairs(pairs, rng.normal(size=m) + 0.01, n_nodes=n)
    if seed % 2:
        known = known + ml.Constraints.from_labels(
            np.where(rng.random(n) < 0.3, rng.integers(3, size=n), -1)
        )
    rows, weights = Z.argmax(axis=1), rng.integers(1, 4, n).astype(float)
    wZ = sp.csr_matrix(Z * weights[:, None])
    down, _ = merge_duplicates(known, rows, weights, p, wZ)
    used = down.copies.used.to_dense()  # without contradictions inside of a representative
    assert np.allclose(down.to_dense(), wZ.T @ used @ wZ)


def test_nearest_centres_are_those_of_all_pairs():
    rng = np.random.default_rng(0)
    X, C = (rng.normal(size=(m, 7)).astype(np.float32) for m in (3000, 200))
    near, lengths = nearest_centres(X, C, 4)
    far = np.linalg.norm((X[:, None] - C[None]).astype(float), axis=2)
    assert np.allclose(lengths, np.sort(far, axis=1)[:, :4], rtol=1e-5)
    assert np.allclose(np.take_along_axis(far, near.astype(int), axis=1), lengths, rtol=1e-5)


def test_votes_and_means_of_rows():
    near = np.array([[0, 1, 2], [2, 1, 0], [1, 0, 2]])
    shares = np.array([[0.4, 0.3, 0.3], [0.5, 0.3, 0.2], [0.6, 0.4, 0.0]], dtype=np.float32)
    assert voted((near, shares), np.array([5, 7, 7])).tolist() == [7, 7, 7]
    assert voted((near, shares), np.array([5, -1, 7])).tolist() == [5, 7, 5]
    assert voted((near, shares), np.full(3, -1)).tolist() == [-1] * 3
    found = mixed((near, shares), np.array([[1.0], [2.0], [4.0]]))
    assert np.allclose(found, [[2.2], [2.8], [1.6]], atol=1e-6)  # shares in single precision


@pytest.mark.parametrize(
    ("p", "message"),
    [
        (1, "representatives: 1 given; it must be at least 2"),
        (2.5, "representatives: 2.5 is not a whole number"),
        (61, "representatives: 61 for 60 points; give fewer than there are points"),
        (2, "representatives: 2 for 3 clusters; give at least 30"),
    ],
)
def test_numbers_that_make_no_sense(p, message):
    X, _ = blobs(0)
    with pytest.raises(InputError, match=message):
        ml.NCut(3, representatives=p).fit(X)


def test_graphs_have_no_representatives():
    X, _ = blobs(0)
    with pytest.raises(InputError, match="representatives: they stand for dense points"):
        ml.NCut(3, representatives=5, affinity="precomputed").fit(ml.knn_graph(X))
    with pytest.raises(InputError, match="representatives: several graphs"):
        ml.NCut(3, representatives=5).fit(X, graphs=[ml.knn_graph(X)])


def test_equal_rows_alone_are_few_representatives():
    X = np.repeat(np.eye(4, dtype=np.float32), 30, axis=0)
    found = ml.NCut(2, representatives=20, random_state=0).fit(X)
    assert found.graph_.n_nodes == 4
    assert any("4 instead of 20" in one for one in found.report_.notes)
    with pytest.raises(InputError, match="all 60 rows of a sample of 60 points are equal"):
        ml.NCut(2, representatives=20).fit(np.ones((60, 3)))


def test_labels_do_not_depend_on_threads():
    X, _ = blobs(5, 5000)
    one, two = (
        ml.NCut(3, representatives=100, random_state=0, n_jobs=j).fit(X).labels_ for j in (1, 2)
    )
    assert np.array_equal(one, two)


def test_a_small_cluster_far_from_all_is_named():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2)).astype(np.float32)
    few = [17, 2018, 3999]
    X[few] = rng.normal(size=(3, 2)) + 100
    quiet, loud = Recorder(), Recorder()
    representative_graph(X[np.setdiff1d(np.arange(4000), few)], 20, recorder=quiet)
    assert not quiet.warnings
    for seed in range(50):
        loud = Recorder()
        graph = representative_graph(X, 20, recorder=loud, random_state=seed)
        if np.linalg.norm(graph.shares.finder.centres, axis=1).max() < 50:
            break  # none of the three is in the sample
    with_three = [one for one in loud.warnings if "representatives: 3 of 4,000 points" in one]
    assert len(with_three) == 1


@pytest.mark.parametrize(("size", "seed"), [(16, 0), (40, 1), (200, 2)])
def test_a_small_cluster_far_from_all_is_found(size, seed, tmp_path):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5000, 2)).astype(np.float32)
    X[:2500] += 5
    few = rng.choice(5000, size, replace=False)
    X[few] = rng.normal(size=(size, 2)) * 0.3 + (-60, 20)
    recorder = Recorder()
    graph = representative_graph(X, 40, random_state=seed, recorder=recorder)
    own = np.unique(graph.shares.of(few)[0][graph.shares.of(few)[1] > 1e-6])  # but for e^-16
    others = np.setdiff1d(np.arange(5000), few)
    assert np.isin(graph.rows[few], own).all()
    assert not np.isin(graph.rows[others], own).any()
    assert np.isclose(graph.weights[own].sum(), size, rtol=1e-4)
    across = graph.affinity[own][:, np.setdiff1d(np.arange(graph.n_nodes), own)]
    assert across.sum() < 1e-2
    assert any(f"for {size} points far from all others" in one for one in recorder.remarks)
    assert not recorder.warnings
    known = np.full(5000, -1)
    known[few[0]], known[others[[0, -1]]] = 2, (0, 1)
    est = ml.GFHF(representatives=40, random_state=seed).fit(X, known)
    assert np.array_equal(np.sort(few), np.flatnonzero(est.labels_ == 2))
    est.save(tmp_path / "model.h5")
    assert (ml.load(tmp_path / "model.h5").predict(X[few]) == 2).all()


def test_clusters_that_cannot_be_found_are_named():
    X, _ = blobs(1, 3000)
    recorder = Recorder()
    representative_graph(X, 30, recorder=recorder)
    small = "representatives: a cluster of less than 100 points or so is found only where"
    assert any(small in one for one in recorder.remarks)


def test_one_representative_a_point():
    X, y = blobs(2, 90)
    est = ml.NCut(3, representatives=90, random_state=0).fit(X)
    assert est.graph_.n_nodes == 90
    assert any("90 for 90 points: a graph of all points" in one for one in est.report_.notes)
    assert len({*zip(est.labels_, y, strict=True)}) == 3
