"""Cells of a few known types, from scanpy to mustlink and back.

`pip install scanpy`, then `python docs/examples/single_cell.py --out FOLDER`
"""

import argparse
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import anndata
import numpy as np
import pandas as pd
import scanpy as sc
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

from mustlink_io.commands.cli import run as mustlink  # the command, called in this process

TYPES = {"CD4 T": 600, "CD8 T": 400, "B": 250, "monocyte": 500, "dendritic": 80}
GENES, MARKERS, KNOWN = 1000, 20, 6  # KNOWN: cells of every type that an expert has named


def cells(seed=0):
    """Counts of genes, with markers; CD4 and CD8 share most of theirs, and a batch effect."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(list(TYPES), list(TYPES.values()))
    code = np.repeat(np.arange(len(TYPES)), list(TYPES.values()))
    rate = np.tile(rng.lognormal(-1.0, 1.0, GENES), (len(TYPES), 1))
    for number in range(len(TYPES)):
        rate[number, number * MARKERS : (number + 1) * MARKERS] += 0.9 if number < 2 else 2.0
    rate[:2, 200:230] += 2.0  # of both T types
    per_cell = rate[code] * rng.lognormal(0.0, 0.3, (len(code), 1))
    active = rng.random(len(code)) < 0.5  # cells in cycle, whatever their type
    per_cell[np.ix_(active, np.arange(300, 330))] += 1.2
    counts = sp.csr_matrix(rng.poisson(per_cell).astype(np.float32))
    data = anndata.AnnData(counts)
    data.obs["truth"] = pd.Categorical(truth)
    data.obs_names = [f"cell_{i}" for i in range(len(code))]
    return data


def main(out):
    data = cells()
    sc.pp.normalize_total(data, target_sum=1e4)
    sc.pp.log1p(data)
    sc.pp.pca(data, n_comps=20, random_state=0)

    named = pd.Series(None, index=data.obs_names, dtype=object)  # missing is unknown
    for kind in TYPES:
        of_kind = np.flatnonzero(data.obs["truth"] == kind)
        named.iloc[np.random.default_rng(1).choice(of_kind, KNOWN, replace=False)] = kind
    data.obs["expert"] = pd.Categorical(named)
    source, alone, result = (str(out / f"{n}.h5ad") for n in ("cells", "alone", "clustered"))
    data.write_h5ad(source)

    k = str(len(TYPES))
    expert = ["--labels", f"{source}:/obs/expert"]
    # In the shell: mustlink cluster cells.h5ad -k 5 --labels cells.h5ad:/obs/expert -o …
    assert mustlink(["cluster", source, "-k", k, "--quiet", "-o", alone]) == 0
    assert mustlink(["cluster", source, "-k", k, *expert, "--quiet", "-o", result]) == 0

    back = sc.read_h5ad(result)
    figures = {}
    for name, found in (("without", sc.read_h5ad(alone)), ("with", back)):
        figures[name] = adjusted_rand_score(back.obs["truth"], found.obs["mustlink"])
        print(f"ARI {name} the expert's {KNOWN * len(TYPES)} cells: {figures[name]:.3f}")

    sc.tl.rank_genes_groups(back, "mustlink", method="t-test", n_genes=5)
    for cluster in back.obs["mustlink"].cat.categories:
        print(cluster, "by", *back.uns["rank_genes_groups"]["names"][cluster])
    back.obs["without"] = sc.read_h5ad(alone).obs["mustlink"]
    sc.pp.neighbors(back, transformer="sklearn")
    sc.tl.umap(back)
    columns = ["truth", "expert", "without", "mustlink"]
    figure = sc.pl.umap(back, color=columns, ncols=2, wspace=0.3, return_fig=True)
    figure.savefig(out / "single_cell.png", dpi=70, bbox_inches="tight")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=None, help="folder for the picture")
    folder = parser.parse_args().out or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
    print(f"picture: {folder / 'single_cell.png'}")
