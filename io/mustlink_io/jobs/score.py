"""How good are labels: against the truth, against constraints, on a graph."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mustlink.discretize.cuts import network_scores
from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.formats import results
from mustlink_io.jobs.side_information import labels_beside, load_constraints
from mustlink_io.system import needed

if TYPE_CHECKING:
    from mustlink.graph import Graph

Labels = NDArray[np.int64]
_STRANGE = 5  # names that are told


def score(
    labels: str,
    truth: str | None = None,
    constraints: str | None = None,
    graph: str | None = None,
    leiden: bool = False,
    strict: bool = False,
) -> dict[str, Any]:
    """Score the labels in a file; returns plain values. Raises InputError.

    Rows of a truth that the result does not have are left out, and told; if `strict` an error.
    Without a graph, a result of a network tells the scores that its run found on that. `leiden`
    sets those of Leiden's clusters of the graph beside them.
    """
    if leiden and graph is None:
        raise InputError("--leiden: clusters a graph; give it with --graph")
    known_names, about = results.node_names(labels), results.about(labels)
    read = formats.load_classes(labels, None, known_names)
    found, pixels = read.codes, read.pixels or about.pixels
    names, sizes = np.unique(found[found >= 0], return_counts=True)
    result: dict[str, Any] = {
        "labels": labels,
        "n_nodes": int(found.size),
        "names": names.tolist(),
        "sizes": sizes.tolist(),
        "unassigned": int(np.count_nonzero(found < 0)),
    }
    if about.class_names:
        result["class_names"] = [about.class_names.get(one, "") for one in names.tolist()]
    real: Labels | None = None
    if truth is not None:
        n, sides = int(found.size), about.sides
        info = labels_beside(truth, n, known_names, sides, pixels, strict=strict)
        real = info.codes
        result["truth"] = agreement(found, real) | {
            "left_out": len(info.strange),
            "strange": list(info.strange[:_STRANGE]),
        }
        classes, named = real, about.class_names
        if about.classes and (named is None) == (info.classes is None):
            # numbers mean classes, not just clusters
            known = real >= 0
            if named is not None and info.classes is not None:
                code = {name: at for at, name in named.items()}
                classes = np.array([*(code.get(name, -2) for name in info.classes), -1])[real]
            result["truth"]["right"] = float(np.mean(found[known] == classes[known]))
    if constraints is not None:
        from mustlink.discretize.satisfaction import satisfaction

        pairs: Any = load_constraints(None, constraints, int(found.size), known_names)
        result["satisfaction"] = satisfaction(found, pairs)
    if graph is None:
        return result | (results.network_scores(labels) or {})
    whole, more = _graph_of(graph, about, found.size)
    scores = network_scores(whole, found[whole.first_rows])
    del scores["clusters"]
    result |= more | scores
    if leiden:
        result["leiden"] = _of_leiden(whole, real)
    return result


def _graph_of(graph: str, about: results.About, n: int) -> tuple[Graph, dict[str, Any]]:
    """The graph to score the n labels of a result on, and what to tell of it; InputError."""
    from mustlink.graph import Graph

    kind: formats.Want = "graph" if about.sides is None else "bipartite"
    loaded = formats.load(graph, "directed" if about.directed else kind)
    info = {}
    if about.directed:
        loaded = replace(loaded, value=loaded.value + loaded.value.T)
        info["graph_is"] = "undirected: the weights of both directions added"
    if loaded.n_rows != n:
        raise InputError(f"{loaded.place}: {loaded.n_rows} nodes, but {n} labels")
    return replace(Graph.from_affinity(loaded.value), rows=loaded.rows), info


def _of_leiden(graph: Graph, real: Labels | None) -> dict[str, Any]:
    theirs = clusters_by_leiden(graph)
    scores = network_scores(graph, theirs)
    return {
        "n_clusters": len(scores["clusters"]),
        **{name: scores[name] for name in ("modularity", "coverage", "worst_conductance")},
        "truth": None if real is None else agreement(graph.spread(theirs), real),
    }


def clusters_by_leiden(graph: Graph) -> Labels:
    """Clusters (n,) of large modularity (Traag, Waltman & van Eck 2019), -1 without an edge.

    As many as it finds, by igraph and always the same. Raises InputError where that is missing.
    """
    import scipy.sparse as sp

    igraph = needed("igraph", "--leiden", "networks")
    half = sp.triu(graph.affinity).tocoo()
    network = igraph.Graph(graph.n_nodes, np.column_stack([half.row, half.col]))
    igraph.set_random_number_generator(random.Random(0))
    try:
        found = network.community_leiden("modularity", weights=half.data, n_iterations=10)
    finally:
        igraph.set_random_number_generator(random)  # as igraph has it
    return np.where(graph.degrees > 0, np.asarray(found.membership, dtype=np.int64), -1)


def agreement(found: Labels, truth: Labels) -> dict[str, Any]:
    """ARI, NMI and accuracy on the nodes whose truth is known (>= 0).

    Accuracy is the share of nodes in the class that their cluster stands for, under the best
    one-to-one matching (Hungarian method). A node without a cluster (-1) counts as wrong there,
    and as member of one more cluster in ARI and NMI; `ari_clustered` is without such nodes, where
    there are any. O(n log n).
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
    from sklearn.metrics.cluster import contingency_matrix

    known = truth >= 0
    if not known.any():
        raise InputError("truth: no node has a known class (all are -1)")
    mine, real = found[known], truth[known]
    table = contingency_matrix(mine, real)
    matched = table[np.unique(mine) >= 0]
    best = linear_sum_assignment(matched, maximize=True)
    there = mine >= 0
    some = there.any() and not there.all()
    apart = {"ari_clustered": float(adjusted_rand_score(real[there], mine[there]))} if some else {}
    return {
        "n_known": int(known.sum()),
        "n_classes": int(table.shape[1]),
        "ari": float(adjusted_rand_score(real, mine)),
        **apart,
        "nmi": float(normalized_mutual_info_score(real, mine)),
        "accuracy": float(matched[best].sum() / known.sum()),
    }
