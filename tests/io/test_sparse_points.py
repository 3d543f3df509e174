"""Sparse matrices in files as points, and other distances, through the shell."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

import mustlink as ml
from mustlink_io import formats
from printed import run

N = 90
Y = np.arange(N) % 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows of two topics in every format that holds sparse rows, and a few labels."""
    found = tmp_path_factory.mktemp("sparse")
    rng = np.random.default_rng(0)
    p = np.where(Y[:, None] == (np.arange(60) < 30), 0.02, 0.4)
    X = sp.csr_matrix((rng.random((N, 60)) < p) * rng.integers(1, 4, (N, 60)), dtype=np.float64)
    sp.save_npz(found / "words.npz", X)
    scipy.io.mmwrite(found / "words.mtx", X)
    dump_svmlight_file(X, Y, str(found / "words.svmlight"))
    with h5py.File(found / "words.h5", "w") as file:
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0"})
        group.attrs["shape"] = X.shape
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(X, name)
    np.savetxt(found / "few.csv", np.where(np.arange(N) < 8, Y, -1), fmt="%d")
    return found


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["words.npz", "words.mtx", "words.h5", "words.svmlight"])
def test_rows_stay_sparse(folder, name, capsys, tmp_path):
    data = formats.load(str(folder / name), sparse=True)
    assert data.kind == "points"
    assert sp.issparse(data.value)
    assert isinstance(formats.load(str(folder / name)).value, np.ndarray)  # for whoever asks
    out = tmp_path / "out.h5"
    code, _, err = run(
        capsys, "cluster", folder / name, "-k", 2, "--as", "points", "--json", "-o", out
    )
    assert code == 0, err
    est = ml.load(out)
    assert ((est.labels_ == est.labels_[0]) == (Y[0] == Y)).all()
    whole = sp.load_npz(folder / "words.npz")
    direct = ml.NCut(2, random_state=0).fit(whole)
    assert (est.labels_ == direct.labels_).all()
    assert est.graph_.info["metric"] == "cosine"
    assert (est.predict(whole[:9]) == direct.predict(whole[:9])).all()


def test_one_square_is_a_graph_unless_it_is_said(folder, capsys, tmp_path):
    X = sp.load_npz(folder / "words.npz")
    square = sp.hstack([X, sp.csr_matrix((N, N - 60))]).tocsr()
    sp.save_npz(tmp_path / "square.npz", square)
    words = "cluster", tmp_path / "square.npz", "-k", 2, "-o", tmp_path / "out.h5"
    code, _, err = run(capsys, *words)
    assert code == 2
    assert "not symmetric" in err
    code, _, err = run(capsys, *words, "--as", "points")
    assert code == 0, err
    labels = ml.load(tmp_path / "out.h5").labels_
    assert ((labels == labels[0]) == (Y[0] == Y)).all()


@pytest.mark.parametrize("more", [["--metric", "jaccard"], ["--metric", "manhattan"]])
def test_metrics(folder, more, capsys, tmp_path):
    out = tmp_path / "out.h5"
    code, _, err = run(capsys, "cluster", folder / "words.npz", "-k", 2, *more, "--json", "-o", out)
    assert code == 0, err
    est = ml.load(out)
    assert est.graph_.info["metric"] == more[1]
    new = sp.load_npz(folder / "words.npz")[:5]
    assert est.predict(new if more[1] == "jaccard" else new.toarray()).shape == (5,)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("method", ["gfhf", "lnp", "auto"])
def test_labels_spread(folder, method, capsys, tmp_path):
    words = "propagate", folder / "words.npz", "--labels", folder / "few.csv", "-m", method
    code, _, err = run(capsys, *words, "--json", "-o", tmp_path / "out.h5")
    assert code == 0, err
    assert np.mean(ml.load(tmp_path / "out.h5").labels_ == Y) > 0.95


@pytest.mark.parametrize("name", ["words.npz", "words.h5"])
def test_plans_and_memory(folder, name, capsys, tmp_path):
    code, plan, err = run(capsys, "plan", folder / name, "-k", 2, "--json")
    assert code == 0, err
    assert plan["seconds"] > 0
    words = "cluster", folder / name, "-k", 2, "--memory", "10MB", "-o", tmp_path / "out.h5"
    code, _, err = run(capsys, *words)
    assert code == 2
    assert "needs at least" in err
    assert not (tmp_path / "out.h5").exists()


def test_a_graph_is_made(folder, capsys, tmp_path):
    code, _, err = run(capsys, "graph", folder / "words.npz", "-o", tmp_path / "graph.h5")
    assert code == 0, err
    W = formats.load(str(tmp_path / "graph.h5")).value
    assert (
        abs(W - ml.knn_graph(sp.load_npz(folder / "words.npz"), random_state=0).affinity).max()
        < 1e-6
    )


@pytest.mark.parametrize(("metric", "words"), [("far", "is unknown; choose"), ("dot", "long")])
def test_wrong_distances(folder, metric, words, capsys, tmp_path):
    out = tmp_path / "out.h5"
    line = "cluster", folder / "words.npz", "-k", 2, "--metric", metric, "-o", out
    code, _, err = run(capsys, *line)
    assert code == 2
    assert words in err
    assert not out.exists()
