"""What mustlink and its neighbours can do, every cell checked by code in the package it speaks of.

    pip install scanpy leidenalg scikit-network graphlearning active-semi-supervised-clustering
    python bench/features.py > docs/compared.md

A cell is a few words and a check: an expression that must be true in a process with the package.
`has("a.b", "C")` imports, `takes(f, "name")` looks at parameters, `lacks(package, pattern)`
searches the whole source for words without which the feature cannot be there. Exits with 1 if one
fails.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

TOOLS = {
    "mustlink": "mustlink",
    "scikit-learn": "scikit-learn",
    "graphlearning": "graphlearning",
    "scikit-network": "scikit-network",
    "scanpy, leidenalg": "scanpy",
    "active-semi-supervised-clustering": "active-semi-supervised-clustering",
}
NO = "–"
ABOUT = """Made by `python bench/features.py`, which checks every cell: what is there is imported or
run, and for what is not the source of the package holds no word of it. All of them were
installed; how fast they are beside mustlink is in [Measured](measured.md)."""
PAIRS, BUDGET, REPORT = r"must.?link|cannot.?link", r"memory_?(limit|budget)|max_memory", r"to_html"
KEPT, AHEAD, ADVICE = r"constraints?_kept|satisfied", r"estimate_(time|memory)", r"suggest_"
RESUME, STREAM, H5AD = r"\bresume\b|checkpoint", r"h5py", r"h5ad"

# Per row: what it is, then cell and check for every tool in order; a bare check means "–".
ROWS: dict[str, list[tuple[str, str] | str]] = {
    "labels of some nodes guide the clusters": [
        ("yes", "takes(ml.CSP.fit, 'y')"),
        "not takes(sklearn.cluster.SpectralClustering, 'labels')",
        "not takes(graphlearning.clustering.spectral, 'labels')",
        "not takes(sknetwork.clustering.Louvain.fit, 'labels')",
        ("clusters of some held fixed", "takes(leidenalg.Optimiser.optimise_partition, "
         "'is_membership_fixed')"),
        ("yes, k-means", "has('active_semi_clustering.semi_supervised.labeled_data', "
         "'SeededKMeans')"),
    ],
    "pairs that must or must not go together": [
        ("yes", "hasattr(ml.Constraints, 'from_pairs')"),
        "lacks('sklearn/cluster', PAIRS)",
        "lacks('graphlearning', PAIRS)",
        "lacks('sknetwork', PAIRS)",
        "lacks('scanpy', PAIRS) and lacks('leidenalg', PAIRS)",
        ("yes, k-means", "takes(pckmeans.PCKMeans.fit, 'ml')"),
    ],
    "… with a degree of belief each": [
        ("yes", "takes(ml.Constraints.from_pairs, 'belief')"),
        "lacks('sklearn/cluster', PAIRS)",
        "lacks('graphlearning', PAIRS)",
        "lacks('sknetwork', PAIRS)",
        "lacks('scanpy', PAIRS)",
        ("one weight for all", "takes(pckmeans.PCKMeans, 'w') and "
         "lacks('active_semi_clustering', 'belief')"),
    ],
    "a second graph that should agree": [
        ("yes", "hasattr(ml.Constraints, 'from_graph')"),
        "not takes(sklearn.cluster.SpectralClustering.fit, 'other', 'graph')",
        "lacks('graphlearning', 'multiplex|multilayer')",
        "lacks('sknetwork', 'multiplex|multilayer')",
        ("layers of a multiplex", "hasattr(leidenalg, 'find_partition_multiplex')"),
        "not takes(pckmeans.PCKMeans.fit, 'graph', 'affinity', 'adjacency')",
    ],
    "a class for every node from few labels": [
        ("13 methods", "len(ml_propagators()) == 12 and hasattr(ml, 'CSCGFHF')"),
        ("2 methods on graphs", "len(sklearn.semi_supervised.__all__) == 3"),
        ("14 methods", "len(graphlearning.ssl.ssl.__subclasses__()) == 14"),
        ("4 methods", "all(hasattr(sknetwork.classification, n) for n in ('Propagation', "
         "'DiffusionClassifier', 'PageRankClassifier', 'NNClassifier'))"),
        ("mapped from a reference", "hasattr(scanpy.tl, 'ingest')"),
        "lacks('active_semi_clustering', 'predict_proba')",
    ],
    "sparse graph as input": [
        ("yes", "runs_on_graph(ml.NCut(n_clusters=2, affinity='precomputed'))"),
        ("yes", "runs_on_graph(sklearn.cluster.SpectralClustering(2, affinity='precomputed'))"),
        ("yes", "takes(graphlearning.ssl.laplace, 'W')"),
        ("yes", "takes(sknetwork.clustering.Louvain.fit, 'input_matrix')"),
        ("yes", "takes(scanpy.tl.leiden, 'adjacency')"),
        "not runs_on_graph(pckmeans.PCKMeans(n_clusters=2))",
    ],
    "approximate neighbours of points": [
        ("yes, recall measured", "takes(ml.knn_graph, 'recall_sample')"),
        ("exact only", "lacks('sklearn/neighbors', 'nn.?descent|annoy|hnsw')"),
        ("yes (annoy)", "not lacks('graphlearning', 'annoy')"),
        "lacks('sknetwork', 'nn.?descent|annoy|hnsw')",
        ("yes", "not lacks('scanpy', 'nn.?descent')"),
        "lacks('active_semi_clustering', 'neighbors_graph|annoy|hnsw')",
    ],
    "new points get a cluster or class": [
        ("yes", "takes(ml.CSP.predict, 'X') and takes(ml.GFHF.predict, 'X')"),
        ("classes", "hasattr(sklearn.semi_supervised.LabelSpreading, 'predict') and not "
         "hasattr(sklearn.cluster.SpectralClustering, 'predict')"),
        "not takes(graphlearning.ssl.ssl.predict, 'X')",
        "not takes(sknetwork.classification.Propagation.predict, 'X', 'input_matrix')",
        ("by `ingest`", "hasattr(scanpy.tl, 'ingest')"),
        "not hasattr(pckmeans.PCKMeans, 'predict')",
    ],
    "says which constraints were broken": [
        ("yes", "callable(ml.constraint_satisfaction_score)"),
        *[f"lacks('{name}', KEPT)" for name in
          ("sklearn/cluster", "graphlearning", "sknetwork", "scanpy/tools",
           "active_semi_clustering")],
    ],
    "search of parameters by held-out constraints": [
        ("yes", "has('mustlink', 'ConstraintKFold')"),
        *[f"lacks('{name}', 'constraint.?k.?fold|held.?out.?(pair|constraint)')" for name in
          ("sklearn", "graphlearning", "sknetwork", "scanpy", "active_semi_clustering")],
    ],
    "new constraints on a fitted graph (`refit`)": [
        ("yes", "hasattr(ml.CSP, 'refit')"),
        *[f"lacks('{name}', 'def refit')" for name in
          ("sklearn/cluster", "graphlearning", "sknetwork", "scanpy",
           "active_semi_clustering")],
    ],
    "scikit-learn's interface": [
        ("yes, its checks pass", "issubclass(ml.CSP, sklearn.base.BaseEstimator)"),
        ("yes", "issubclass(sklearn.cluster.KMeans, sklearn.base.BaseEstimator)"),
        ("its own", "not issubclass(graphlearning.ssl.ssl, sklearn.base.BaseEstimator)"),
        ("alike", "hasattr(sknetwork.clustering.Louvain, 'get_params') and not "
         "issubclass(sknetwork.clustering.Louvain, sklearn.base.BaseEstimator)"),
        ("functions on AnnData", "takes(scanpy.tl.leiden, 'adata')"),
        ("`fit` alike", "not issubclass(pckmeans.PCKMeans, sklearn.base.BaseEstimator)"),
    ],
    "a limit on memory that is kept": [
        ("yes", "takes(ml.CSP, 'memory')"),
        ("of blocks of distances", "'working_memory' in sklearn.get_config()"),
        *[f"lacks('{name}', BUDGET)" for name in ("graphlearning", "sknetwork")],
        ("a setting, not kept to", "not lacks('scanpy/_settings', 'not well respected')"),
        "lacks('active_semi_clustering', BUDGET)",
    ],
    "points read from HDF5 by blocks": [
        ("yes", "not lacks('mustlink_io', STREAM)"),
        *[f"lacks('{name}', STREAM)" for name in ("sklearn", "graphlearning", "sknetwork")],
        ("backed AnnData, not all steps", "takes(anndata.read_h5ad, 'backed')"),
        "lacks('active_semi_clustering', STREAM)",
    ],
    "goes on after a kill": [
        ("yes", "has('mustlink_io.hdf5.work_folder', 'WorkFolder')"),
        *[f"lacks('{name}', RESUME)" for name in
          ("sklearn/cluster", "graphlearning", "sknetwork/clustering", "scanpy/tools",
           "active_semi_clustering")],
    ],
    "command line": [
        ("yes", "scripts('mustlink') == ['mustlink']"),
        "scripts('scikit-learn') == []",
        "scripts('graphlearning') == []",
        "scripts('scikit-network') == []",
        "scripts('leidenalg') == [] and lacks('scanpy/cli.py', 'leiden')",
        "scripts('active-semi-supervised-clustering') == []",
    ],
    ".h5ad read and written": [
        ("yes", "not lacks('mustlink_io', H5AD)"),
        *[f"lacks('{name}', H5AD)" for name in ("sklearn", "graphlearning", "sknetwork")],
        ("yes", "hasattr(scanpy, 'read_h5ad')"),
        "lacks('active_semi_clustering', H5AD)",
    ],
    "time and memory told before": [
        ("yes", "has('mustlink_io.commands.fits', 'plan')"),
        *[f"lacks('{name}', AHEAD)" for name in
          ("sklearn", "graphlearning", "sknetwork", "scanpy", "active_semi_clustering")],
    ],
    "names a method for the data, and why": [
        ("yes", "callable(ml.suggest)"),
        *[f"lacks('{name}', ADVICE)" for name in
          ("sklearn/cluster", "graphlearning", "sknetwork", "scanpy/tools",
           "active_semi_clustering")],
    ],
    "a page about a run": [
        ("yes", "has('mustlink_io.commands.judge', 'report')"),
        *[f"lacks('{name}', REPORT)" for name in
          ("sklearn/cluster", "graphlearning", "sknetwork/clustering", "scanpy/tools",
           "active_semi_clustering")],
    ],
    "number of clusters found by itself": [
        ('yes, `n_clusters="auto"`', "finds_three(ml.NCut('auto', affinity='precomputed'))"),
        ("other methods, HDBSCAN", "has('sklearn.cluster', 'HDBSCAN')"),
        "takes(graphlearning.clustering.spectral, 'num_clusters')",
        ("yes, by modularity", "has('sknetwork.clustering', 'Louvain')"),
        ("yes, by modularity", "takes(scanpy.tl.leiden, 'resolution')"),
        "takes(pckmeans.PCKMeans, 'n_clusters')",
    ],
    "hierarchies of clusters": [
        ("yes, of any fit", "hasattr(ml.CSP, 'cut_hierarchy') and hasattr(ml.NCut, "
         "'hierarchy_')"),
        ("yes", "has('sklearn.cluster', 'AgglomerativeClustering')"),
        "lacks('graphlearning', 'dendrogram|hierarchical clust')",
        ("yes", "has('sknetwork.hierarchy', 'Paris')"),
        ("of groups", "has('scanpy.tl', 'dendrogram')"),
        "lacks('active_semi_clustering', 'dendrogram|hierarchical')",
    ],
    "directed or bipartite graphs": [
        ("yes, both", "issubclass(ml.DISIM, sklearn.base.BaseEstimator) and "
         "callable(ml.bipartite_graph)"),
        "lacks('sklearn/cluster/_spectral.py', 'bipartite')",
        "lacks('graphlearning', 'bipartite')",
        ("yes", "takes(sknetwork.clustering.Louvain.fit, 'force_bipartite')"),
        ("directed", "takes(scanpy.tl.leiden, 'directed')"),
        "lacks('active_semi_clustering', 'bipartite')",
    ],
    "chooses what to ask a person next": [
        ("yes, labels and pairs", "takes(ml.next_queries, 'kind') and takes(ml.settled, "
         "'draws')"),
        "lacks('sklearn/semi_supervised', 'active learning|acquisition')",
        ("yes", "has('graphlearning', 'active_learning')"),
        "lacks('sknetwork', 'active learning|acquisition')",
        "lacks('scanpy/tools', 'active learning|acquisition')",
        ("yes", "has('active_semi_clustering.active.pairwise_constraints', 'MinMax')"),
    ],
    "runs on a graphics card": [
        "lacks('mustlink', 'cuda')",
        "lacks('sklearn/cluster/_spectral.py', 'cuda')",
        ("some methods", "takes(graphlearning.ssl.poisson, 'use_cuda')"),
        "lacks('sknetwork', 'cuda')",
        "lacks('scanpy/tools/_leiden.py', 'cuda')",
        "lacks('active_semi_clustering', 'cuda')",
    ],
}  # fmt: skip


def has(module: str, name: str) -> bool:
    return hasattr(importlib.import_module(module), name)


def takes(function: Any, *names: str) -> bool:
    """Whether a parameter has one of these names."""
    return bool(set(names) & set(inspect.signature(function).parameters))


@cache
def source(path: str) -> str:
    package, _, inside = path.partition("/")
    home = Path(str(importlib.import_module(package).__file__)).parent / inside
    files = [home] if home.is_file() else [f for f in home.rglob("*.py") if "/tests/" not in str(f)]
    assert files, path
    return "\n".join(file.read_text(errors="replace") for file in files)


def lacks(path: str, pattern: str) -> bool:
    return re.search(pattern, source(path), re.IGNORECASE) is None


def scripts(distribution: str) -> list[str]:
    found = importlib.metadata.distribution(distribution).entry_points
    return [entry.name for entry in found if entry.group == "console_scripts"]


def ml_propagators() -> list[str]:
    import mustlink as ml
    from mustlink.propagation.propagator import Propagator

    named = [(name, getattr(ml, name)) for name in ml.__all__]
    return [n for n, v in named if isinstance(v, type) and issubclass(v, Propagator)]


def runs_on_graph(estimator: Any) -> bool:
    import numpy as np
    import scipy.sparse as sp

    W = sp.block_diag([np.ones((9, 9)), np.ones((9, 9))]).tolil()
    W[0, 10] = W[10, 0] = 0.1
    try:
        labels = estimator.fit(W.tocsr()).labels_
    except (TypeError, ValueError, IndexError):
        return False
    return len(set(labels[:9])) == len(set(labels[9:])) == 1


def finds_three(estimator: Any) -> bool:
    import numpy as np
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(3), 80)
    near = np.where(group[:, None] == group, 0.3, 0.02)
    W = np.triu(rng.random(near.shape) < near, 1)
    return len(set(estimator.fit(sp.csr_matrix(W + W.T, dtype=float)).labels_)) == 3


def names() -> dict[str, Any]:
    """What the checks may speak of."""
    modules = {
        "ml": "mustlink",
        "graphlearning": "graphlearning",
        "scanpy": "scanpy",
        "leidenalg": "leidenalg",
        "anndata": "anndata",
        "pckmeans": "active_semi_clustering.semi_supervised.pairwise_constraints.pckmeans",
    }
    for module in ("cluster", "semi_supervised", "base"):
        importlib.import_module(f"sklearn.{module}")
    for module in ("clustering", "classification"):
        importlib.import_module(f"sknetwork.{module}")
    for module in ("ssl", "clustering"):
        importlib.import_module(f"graphlearning.{module}")
    found = {name: importlib.import_module(module) for name, module in modules.items()}
    return {**globals(), **found, "sklearn": sys.modules["sklearn"],
            "sknetwork": sys.modules["sknetwork"]}  # fmt: skip


def main() -> int:
    known, failed = names(), 0
    versions = [importlib.metadata.version(one) for one in TOOLS.values()]
    versions[4] += ", " + importlib.metadata.version("leidenalg")
    print("# Compared, feature by feature\n")
    print(f"{ABOUT}\n")
    print("| |", " | ".join(f"{n} {v}" for n, v in zip(TOOLS, versions, strict=True)), "|")
    print("|---" * (len(TOOLS) + 1) + "|")
    for what, cells in ROWS.items():
        shown = []
        for tool, cell in zip(TOOLS, cells, strict=True):
            words, check = (NO, cell) if isinstance(cell, str) else cell
            try:
                true = bool(eval(check, known))
            except Exception as error:
                true, check = False, f"{check} raised {error!r}"
            if not true:
                failed += 1
                sys.stderr.write(f"{what}, {tool}: not true: {check}\n")
            shown.append(words)
        print(f"| {what} |", " | ".join(shown), "|")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
