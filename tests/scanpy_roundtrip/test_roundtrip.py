"""From scanpy to mustlink and back; run by `make test-scanpy`, in an environment of its own."""

from __future__ import annotations

import numpy as np
import pytest

# This folder itself can be imported as "scanpy", hence a module of the package.
pytest.importorskip("scanpy.preprocessing", reason="needs scanpy: run make test-scanpy")
import matplotlib

matplotlib.use("Agg")
import anndata
import h5py
import pandas as pd
import scanpy as sc
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
from mustlink_io.commands.cli import run

TYPES = ("B", "CD4 T", "monocyte")


@pytest.fixture(scope="module")
def cells():
    """Three types of 80 cells, as scanpy leaves them before clustering; a third is known."""
    rng = np.random.default_rng(0)
    code = np.repeat(np.arange(3), 80)
    rate = np.tile(rng.lognormal(-1.0, 1.0, 300), (3, 1))
    for number in range(3):
        rate[number, 20 * number : 20 * (number + 1)] += 2.0
    data = anndata.AnnData(sp.csr_matrix(rng.poisson(rate[code]).astype(np.float32)))
    data.obs_names = [f"cell_{number}" for number in range(code.size)]
    data.var_names = [f"gene_{number}" for number in range(300)]
    data.obs["truth"] = pd.Categorical.from_codes(code, TYPES)
    data.obs["known"] = data.obs["truth"].where(np.arange(code.size) % 3 == 0)  # else missing
    data.layers["counts"] = data.X.copy()
    sc.pp.normalize_total(data)
    sc.pp.log1p(data)
    sc.pp.pca(data, n_comps=10)
    sc.pp.neighbors(data, n_neighbors=10, transformer="sklearn")
    return data


@pytest.fixture
def written(cells, tmp_path):
    path = tmp_path / "cells.h5ad"
    cells.write_h5ad(path)
    return str(path)


def stored(path, name):
    """Everything below a group of a file: shapes, types, values."""
    found = {}

    def visit(where, item):
        if isinstance(item, h5py.Dataset):
            found[where] = item[()]

    with h5py.File(path) as file:
        item = file[name]
        if isinstance(item, h5py.Dataset):
            return {"": item[()]}
        item.visititems(visit)
    return found


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


def test_clusters_come_back_as_scanpy_makes_them(cells, written, tmp_path):
    out = str(tmp_path / "out.h5ad")
    labels = f"{written}:/obs/known"
    assert run(["cluster", written, "-k", "3", "--labels", labels, "--quiet", "-o", out]) == 0
    back = sc.read_h5ad(out)
    for part in ("X", "layers/counts", "obs/truth", "obsp/connectivities", "obsm/X_pca", "var"):
        assert same(stored(written, part), stored(out, part)), part
    assert (back.X != cells.X).nnz == 0
    assert back.obs_names.equals(cells.obs_names)
    found = back.obs["mustlink"]
    assert isinstance(found.dtype, pd.CategoricalDtype)
    assert all(isinstance(one, str) for one in found.cat.categories)
    assert adjusted_rand_score(back.obs["truth"], found) > 0.95
    assert back.obsm["X_mustlink"].shape[0] == back.n_obs
    assert back.uns["mustlink"]["params"]["method"] == "auto"


def test_scanpy_draws_and_ranks_by_them(written, tmp_path):
    out = str(tmp_path / "out.h5ad")
    labels = f"{written}:/obs/known"
    assert run(["cluster", written, "-k", "3", "--labels", labels, "--quiet", "-o", out]) == 0
    back = sc.read_h5ad(out)
    color = ["truth", "mustlink"]
    figure = sc.pl.embedding(back, "X_mustlink", color=color, wspace=0.3, return_fig=True)
    figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 5_000
    sc.tl.rank_genes_groups(back, "mustlink", method="t-test")
    names = back.uns["rank_genes_groups"]["names"]
    for cluster in back.obs["mustlink"].cat.categories:
        of_cluster = back.obs["truth"][back.obs["mustlink"] == cluster]
        number = TYPES.index(of_cluster.mode()[0])
        markers = {f"gene_{gene}" for gene in range(20 * number, 20 * (number + 1))}
        assert len(markers & set(names[cluster][:10])) >= 8
    back.write_h5ad(tmp_path / "again.h5ad")  # and scanpy can write what it has read


def test_a_kept_result_goes_into_the_file_later(cells, written, tmp_path):
    out, new = str(tmp_path / "out.h5"), str(tmp_path / "new.h5ad")
    assert run(["cluster", written, "-k", "3", "--quiet", "-o", out]) == 0
    convert = ["convert", out, "--into", written, "--key", "later", "--quiet"]
    assert run([*convert, "-o", new]) == 0
    assert run([*convert, "--in-place"]) == 0
    for path in (new, written):
        back = sc.read_h5ad(path)
        assert (back.X != cells.X).nnz == 0
        assert adjusted_rand_score(back.obs["truth"], back.obs["later"]) > 0.95
        assert back.obsm["X_later"].shape[0] == back.n_obs


def test_scanpys_graph_is_a_graph_here(cells, written, tmp_path):
    out = str(tmp_path / "out.h5ad")
    graph, labels = f"{written}:/obsp/connectivities", f"{written}:/obs/known"
    command = ["cluster", graph, "-k", "3", "--labels", labels, "--seed", "0", "--quiet"]
    assert run([*command, "-o", out]) == 0
    found = sc.read_h5ad(out).obs["mustlink"]
    assert adjusted_rand_score(cells.obs["truth"], found) > 0.95

    est = ml.CSP(n_clusters=3, affinity="precomputed", random_state=0)
    est.fit(cells.obsp["connectivities"], cells.obs["known"])
    assert adjusted_rand_score(found, est.labels_) == 1.0
    assert est.report_.satisfaction["kept"] > 0.95


def test_missing_types_are_filled(cells, written, tmp_path):
    out = str(tmp_path / "out.h5ad")
    labels = f"{written}:/obs/known"
    command = ["propagate", written, "--labels", labels, "--key", "typed", "--quiet", "-o", out]
    assert run(command) == 0
    back = sc.read_h5ad(out)
    assert list(back.obs["typed"].cat.categories) == list(TYPES)
    assert np.mean(back.obs["typed"].astype(str) == back.obs["truth"].astype(str)) > 0.97
    assert back.obs["typed_confidence"].between(0, 1).all()

    est = ml.GFHF(affinity="precomputed").fit(cells.obsp["connectivities"], cells.obs["known"])
    assert list(est.classes_) == list(TYPES)
    known = cells.obs["known"].notna().to_numpy()
    assert np.array_equal(est.labels_[known], cells.obs["known"][known].astype(str))
    assert np.mean(est.labels_ == cells.obs["truth"].astype(str)) > 0.97
