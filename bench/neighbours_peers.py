"""Searches for the 15 nearest neighbours of all points, each a function with a setting.

    python bench/neighbours_peers.py NAME SETTING THREADS FOLDER

A process of its own, which needs nothing but numpy and the library: the points are an array in the
folder, the result a line of JSON. A small search before the clock runs takes the start-up, which is
told apart: imports, compilation, threads.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

K = 15
Lists = Any  # numbers (n, K) of the neighbours, or (n, K + 1) with the point itself


def mustlink(X: Any, _setting: int, threads: int) -> Lists:
    """The lists that `knn_graph` makes its weights of."""
    from mustlink.context.neighbor_cost import knn_plan
    from mustlink.core.observe import Recorder
    from mustlink.neighbors.search import neighbour_lists

    n, d = X.shape
    plan = knn_plan(n, d, K, None)
    return neighbour_lists(X, K, plan, 0, Recorder(), n_jobs=threads)[0]


def pynndescent(X: Any, length: int, threads: int) -> Lists:
    """Lists of `length`, of which the first are used."""
    from pynndescent import NNDescent

    found = NNDescent(X, n_neighbors=length, n_jobs=threads, random_state=0)
    return found.neighbor_graph[0][:, : K + 1]


def hnswlib(X: Any, ef: int, threads: int) -> Lists:
    """M = 16, efConstruction = 100."""
    from hnswlib import Index

    index = Index("l2", X.shape[1])
    index.init_index(len(X), ef_construction=100, M=16, random_seed=0)
    index.set_num_threads(threads)
    index.add_items(X)
    index.set_ef(ef)
    return index.knn_query(X, K + 1)[0]


def faiss_ivf(X: Any, probes: int, threads: int) -> Lists:
    """√n cells."""
    import faiss

    faiss.omp_set_num_threads(threads)
    quantizer = faiss.IndexFlatL2(X.shape[1])
    index = faiss.IndexIVFFlat(quantizer, X.shape[1], int(np.sqrt(len(X))))
    index.train(X)
    index.add(X)
    index.nprobe = probes
    return index.search(X, K + 1)[1]


def faiss_hnsw(X: Any, ef: int, threads: int) -> Lists:
    """M = 16, efConstruction = 100."""
    import faiss

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexHNSWFlat(X.shape[1], 16)
    index.hnsw.efConstruction = 100
    index.hnsw.efSearch = ef
    index.add(X)
    return index.search(X, K + 1)[1]


def faiss_nndescent(X: Any, length: int, threads: int) -> Lists:
    """The graph alone, without a search in it."""
    import faiss

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexNNDescentFlat(X.shape[1], length)
    index.add(X)
    graph = faiss.vector_to_array(index.nndescent.final_graph)
    return graph.reshape(len(X), -1)[:, : K + 1]


def usearch(X: Any, expansion: int, threads: int) -> Lists:
    """Connectivity 16."""
    from usearch.index import Index

    index = Index(ndim=X.shape[1], metric="l2sq", dtype="f32", expansion_search=expansion)
    index.add(np.arange(len(X)), X, threads=threads)
    return index.search(X, K + 1, threads=threads).keys.astype(np.int64)


def sklearn(X: Any, _setting: int, threads: int) -> Lists:
    """Exact, by the way that it chooses."""
    from sklearn.neighbors import NearestNeighbors

    found = NearestNeighbors(n_neighbors=K, n_jobs=threads).fit(X)
    return found.kneighbors(return_distance=False)


def annoy(X: Any, trees: int, threads: int) -> Lists:
    """Its searches hold the interpreter's lock: more threads only build."""
    from annoy import AnnoyIndex

    index = AnnoyIndex(X.shape[1], "euclidean")
    index.set_seed(0)
    for i, x in enumerate(X):
        index.add_item(i, x)
    index.build(trees, n_jobs=threads)
    found = [index.get_nns_by_item(i, K + 1) for i in range(len(X))]
    return np.array([row + [-1] * (K + 1 - len(row)) for row in found])


def ckdtree(X: Any, _setting: int, threads: int) -> Lists:
    """Exact."""
    from scipy.spatial import cKDTree

    return cKDTree(X).query(X, K + 1, workers=threads)[1]


SEARCHES = {
    "mustlink": (mustlink, (0,)),
    "pynndescent": (pynndescent, (16, 32)),
    "hnswlib": (hnswlib, (30, 100)),
    "faiss IVF": (faiss_ivf, (4, 16, 64)),
    "faiss HNSW": (faiss_hnsw, (30, 100)),
    "faiss NNDescent": (faiss_nndescent, (32, 64)),
    "usearch": (usearch, (40, 120)),
    "annoy": (annoy, (20, 60)),
    "scikit-learn": (sklearn, (0,)),
    "cKDTree": (ckdtree, (0,)),
}


def recall(X: Any, nodes: Any, reach: Any, found: Any) -> float:
    """Share of the K neighbours found of some nodes that are within the true K-th distance."""
    hits = 0
    for i, far in zip(nodes, reach, strict=True):
        mine = found[i][(found[i] >= 0) & (found[i] != i)][:K].astype(np.int64)
        gaps = np.linalg.norm(X[mine].astype(np.float64) - X[i], axis=1)
        hits += int((gaps <= far * (1 + 1e-5) + 1e-12).sum())
    return hits / (K * len(nodes))


def cpu_seconds() -> float:
    """Of this process and its children."""
    own, past = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + past.ru_utime + past.ru_stime


def main() -> None:
    name, setting, threads, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    X = np.load(Path(folder) / "points.npy")
    search = SEARCHES[name][0]
    before = cpu_seconds()
    # Enough of them that mustlink takes the way it takes for many.
    small = np.random.default_rng(0).standard_normal((3000, X.shape[1])).astype(np.float32)
    started = time.perf_counter()
    if name == "mustlink":
        from mustlink.context import neighbor_cost as ways

        usual, ways.compares_all = ways.compares_all, lambda *_, **__: False
        search(small, setting, threads)
        ways.compares_all = usual
    else:
        search(small, setting, threads)
    start, start_cpu = time.perf_counter() - started, cpu_seconds() - before
    before, started = cpu_seconds(), time.perf_counter()
    found = np.asarray(search(X, setting, threads))
    seconds, cpu = time.perf_counter() - started, cpu_seconds() - before
    truth = np.load(Path(folder) / "truth.npz")
    result = {
        "start": start,
        "start_cpu": start_cpu,
        "seconds": seconds,
        "cpu": cpu,
        "recall": recall(X, truth["nodes"], truth["reach"], found),
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }
    print("\n" + json.dumps(result))


if __name__ == "__main__":
    main()
