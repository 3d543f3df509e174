"""Neighbours that somebody has already: the graph is the one that `knn_graph` makes of points."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors, kneighbors_graph, sort_graph_by_row_values

import mustlink as ml
from mustlink.errors import InputError

K = 9


def points(n=300):
    return np.random.default_rng(3).normal(size=(n, 4)).astype(np.float32)


def lists(X, k=K):
    return NearestNeighbors(n_neighbors=k).fit(X.astype(float)).kneighbors()[::-1]


@pytest.mark.parametrize("weights", ["local", "gaussian", "connectivity"])
def test_same_graph_as_of_the_points(weights):
    X = points()
    indices, distances = lists(X)
    mine = ml.graph_from_neighbors(indices, distances, weights=weights)
    theirs = ml.knn_graph(X, K, weights=weights, connect=False)
    assert abs(mine.affinity - theirs.affinity).max() < 1e-6  # lengths in single precision
    assert mine.info["kind"] == "kneighbors"


def test_lists_of_any_kind(tmp_path):
    """With the own row, padded, in any order, of scipy, mapped, in HDF5, by columns, unsigned."""
    X = points()
    indices, distances = lists(X)
    whole = ml.graph_from_neighbors(indices, distances).affinity
    d, J = cKDTree(X).query(X, K + 1)
    far, none = np.full((300, 2), np.inf), np.full((300, 2), -1)
    order = np.random.default_rng(0).permutation(K + 3)
    padded = np.hstack([J, none])[:, order], np.hstack([d, far])[:, order]
    scipys = np.hstack([J, none * 0 + 300]), np.hstack([d, far])
    with h5py.File(tmp_path / "lists.h5", "w") as file:
        file["indices"], file["distances"] = J, d
        np.save(tmp_path / "indices.npy", J)
        forms = [
            (J, d),
            padded,
            scipys,
            (J.tolist(), d.tolist()),
            (J.astype(np.uint32), d),
            (np.asfortranarray(J), np.asfortranarray(d)),
            (file["indices"], file["distances"]),
            (np.load(tmp_path / "indices.npy", mmap_mode="r"), d),
        ]
        for J, d in forms:
            got = ml.graph_from_neighbors(J, d).affinity
            assert abs(got - whole).max() < 1e-12


def test_blocks_change_nothing(monkeypatch):
    J, d = lists(points())
    whole = ml.graph_from_neighbors(J, d).affinity
    monkeypatch.setattr("mustlink.graph.forms._BLOCK", 100)
    assert abs(ml.graph_from_neighbors(J, d).affinity - whole).max() == 0


def test_copies_whose_lists_lack_the_own_row():
    """Among 12 copies, 5 of which are listed, a row may miss itself; no list is longer for it."""
    X = np.repeat(points(30), 12, axis=0)
    J, d = NearestNeighbors(n_neighbors=5).fit(X).kneighbors(X)[::-1]
    assert (np.arange(360)[:, None] != J).all(axis=1).any()
    got = ml.graph_from_neighbors(J, d)
    assert got.info["n_neighbors"] == 4
    assert np.isfinite(got.affinity.data).all()


def test_sparse_distances_are_the_same_graph():
    X = points()
    D = kneighbors_graph(X, K, mode="distance")
    mine = ml.graph_from_neighbors(*lists(X)).affinity
    for form in (D, sort_graph_by_row_values(D, warn_when_not_sorted=False), D.tocsc(), D.tocoo()):
        est = ml.NCut(3, affinity="precomputed_nearest_neighbors", random_state=0).fit(form)
        assert abs(est.graph_.affinity - mine).max() < 1e-6


def test_fitted_as_a_graph():
    X = np.vstack([points(60), points(60) + 20])
    graph = ml.graph_from_neighbors(*lists(X))
    assert graph.n_components == 2
    labels = ml.NCut(2, affinity="precomputed", random_state=0).fit(graph).labels_
    assert len(set(labels[:60])) == len(set(labels[60:])) == 1
    assert labels[0] != labels[60]


J, D = np.array([[1, 2], [0, 2], [1, 0]]), np.array([[1.0, 2.0], [1.0, 3.0], [2.0, 2.5]])


def with_entry(array, value, dtype=None):
    found = array.astype(dtype or array.dtype)
    found[1, 1] = value
    return found


@pytest.mark.parametrize(
    ("indices", "distances", "words"),
    [
        (with_entry(J, 3), D, "row 1 lists 3: there are 3 points; number them"),
        (with_entry(J, -2), D, "row 1 lists -2: there are 3 points"),
        (J, with_entry(D, np.nan), "row 1 lists 2: its distance is NaN"),
        (J, with_entry(D, -1), "row 1 lists 2: its distance is below 0"),
        (with_entry(J, 0), D, "row 1 lists 0 twice"),
        (J, -np.sort(-D), "distances: fall along every row"),
        (J[:, :1], D, r"distances: shape \(3, 2\), but indices have \(3, 1\)"),
        (J[0], D[0], r"indices: shape \(2,\)"),
        (J.astype(float), D, "indices: type float64 given; give whole numbers"),
        (J, D.astype(complex), "distances: type complex128"),
        (np.full((3, 2), -1), D, "3 points but no neighbour"),
        (J[:0], D[:0], r"indices: shape \(0, 2\)"),
    ],
)
def test_errors_name_the_row(indices, distances, words):
    with pytest.raises(InputError, match=words) as error:
        ml.graph_from_neighbors(indices, distances)
    assert "\n" not in str(error.value)


def test_no_neighbour_may_have_no_distance():
    got = ml.graph_from_neighbors(with_entry(J, -1), with_entry(D, np.nan))
    assert got.affinity.shape == (3, 3)


def test_other_parameters_are_checked():
    for how in ({"weights": "far"}, {"weights": "gaussian", "sigma": 0}):
        with pytest.raises(InputError):
            ml.graph_from_neighbors(J, D, **how)
    assert sp.issparse(ml.graph_from_neighbors(J, D, weights="gaussian", sigma=2).affinity)
