"""Neighbours that files have: scikit-learn's distances, scanpy's, lists in HDF5, in the shell."""

import json

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from sklearn.neighbors import KNeighborsTransformer, NearestNeighbors

import mustlink as ml

K = 10
CLASSES = np.repeat([0, 1, 2], 40)


@pytest.fixture
def data(tmp_path):
    points = np.random.default_rng(0).normal(size=(120, 4)) + 5 * np.eye(4)[CLASSES]
    D = KNeighborsTransformer(n_neighbors=K, mode="distance").fit_transform(points)
    sp.save_npz(tmp_path / "D.npz", D)
    scipy.io.mmwrite(tmp_path / "D.mtx", D)
    np.save(tmp_path / "points.npy", points)
    distances, indices = NearestNeighbors(n_neighbors=K + 1).fit(points).kneighbors(points)
    with h5py.File(tmp_path / "lists.h5", "w") as file:
        for folder, own in (("", indices), ("faiss/", indices), ("short/", indices[:, :3])):
            file[f"{folder}indices"], file[f"{folder}distances"] = own, distances
        file["distances_alone/distances"] = distances
    return tmp_path, D


NEIGHBORS = "--affinity precomputed_nearest_neighbors"
FORMS = [f"D.npz {NEIGHBORS}", f"D.mtx {NEIGHBORS}", "lists.h5", "lists.h5:/faiss"]


@pytest.mark.parametrize("form", FORMS)
def test_the_clusters_are_those_of_the_distances(shell, data, form):
    folder, D = data
    run = f"cluster {folder}/{form} -k 3 -m ncut --quiet --json -o {folder}/o.h5"
    code, said, err = shell(run)
    assert code == 0, err
    est = ml.NCut(3, affinity="precomputed_nearest_neighbors", random_state=0).fit(D)
    np.testing.assert_allclose(json.loads(said)["eigenvalues"], est.eigenvalues_, atol=1e-8)
    with h5py.File(folder / "o.h5") as file:
        np.testing.assert_array_equal(file["labels"][:], est.labels_)
    assert any("as those of points, by local scaling" in note for note in json.loads(said)["notes"])
    code, said, err = shell(f"plan {folder}/{form} -k 3 --json")
    assert code == 0, err


def test_scanpy_s_distances(shell, data):
    anndata = pytest.importorskip("anndata")
    folder, D = data
    cells = anndata.AnnData(np.load(folder / "points.npy"))
    cells.obsp["distances"] = D
    cells.write_h5ad(folder / "c.h5ad")
    found = [
        json.loads(shell(f"cluster {folder}/{form} -k 3 -m ncut --json -o {folder}/o.h5")[1])
        for form in ("c.h5ad:/obsp/distances", f"c.h5ad {NEIGHBORS}", "lists.h5")
    ]
    assert found[0]["eigenvalues"] == found[1]["eigenvalues"]
    np.testing.assert_allclose(found[0]["eigenvalues"], found[2]["eigenvalues"], atol=1e-6)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("lists.h5:/short", "lists.h5:/short: distances: shape (120, 11), but indices have"),
        ("lists.h5:/distances_alone", "a group, where a dataset is wanted"),
        (f"points.npy {NEIGHBORS}", "points.npy: precomputed_nearest_neighbors wants a sparse"),
        (f"D.npz {NEIGHBORS} --neighbors 5", "is a graph; leave out --neighbors 5"),
        (f"D.npz {NEIGHBORS} --as points", f"--as points: {NEIGHBORS} says"),
    ],
)
def test_slips_are_one_line(shell, data, form, message):
    folder, _ = data
    code, _, err = shell(f"cluster {folder}/{form} -k 3 --quiet -o {folder}/o.h5")
    assert code == 2
    assert message in err.splitlines()[-1]
    assert not (folder / "o.h5").exists()
