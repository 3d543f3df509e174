"""How stable clusters are: fitted again to a graph that lacks a part of its edges.

Clusters that the data have are found again without some of the evidence; those that a method makes
where there are none are not. Of draws b = 1, …, B of a graph without a share of its edges

    stability of the clustering   mean over b of the adjusted Rand index of labels and labels_b
    stability of cluster c        mean over b of max_c' |c ∩ c'| / |c ∪ c'|,  c' a cluster of b

With half of the edges clusters of overlapping blobs have 0.95 and more at the right K; with one too
many one has 0.45, and uniform points have 0.5 to 0.8.
Source: Hennig 2007, Cluster-wise assessment of cluster stability, with edges for rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core.check import as_integer, as_random_state, check_share
from mustlink.core.observe import Unheard
from mustlink.core.scikit_learn import check_is_fitted
from mustlink.errors import InputError
from mustlink.graph import Graph

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stability:
    """`ari` (B,) of labels and those of every draw, and `clusters` (K,), see the module.

    `clusters` is NaN for a number that no row has.
    """

    ari: Floats
    clusters: Floats

    @property
    def mean(self) -> float:
        """That of the clustering."""
        return float(self.ari.mean())


def stability(
    est: Any, n_draws: int = 5, share: float = 0.5, random_state: Any = 0, observer: Any = None
) -> Stability:
    """How far a fitted clusterer finds the same clusters without a `share` of the edges.

    Every draw leaves out other edges, each with this chance, and fits an estimator with the same
    parameters and K to the rest, with all that is known. `est` does not change. Cost: `n_draws`
    fits, and a copy of the graph. Raises InputError.
    """
    from sklearn.metrics import adjusted_rand_score

    check_is_fitted(est)
    n_draws, share = as_integer(n_draws, "n_draws", 1), check_share(share, "share")
    est = vars(est).get("estimator_", est)  # of Auto the method that answers
    graph = getattr(est, "graph_", None)
    if not isinstance(graph, Graph) or not hasattr(est, "_twin"):
        raise InputError(
            f"stability: {type(est).__name__} has no graph in memory to leave edges out of; fit a "
            "clusterer to a graph that fits into memory"
        )
    rng, labels = as_random_state(random_state), est.labels_
    known = est.constraints_
    ari, overlaps = np.empty(n_draws), []
    for draw in range(n_draws):
        rest = without_edges(graph, share, int(rng.integers(2**31)))
        found = _fitted(est, rest, known, Unheard() if observer is None else observer)
        ari[draw] = adjusted_rand_score(labels, found)
        overlaps.append(_overlaps(labels, found))
    return Stability(ari, np.mean(overlaps, axis=0))


def without_edges(graph: Graph, share: float, seed: int) -> Graph:
    """The graph without a share of its edges, in the expectation; nodes stay, loops as well."""
    W = sp.triu(graph.affinity, 1, format="coo")
    keep = np.random.default_rng(seed).random(W.nnz) >= share
    half = sp.coo_matrix((W.data[keep], (W.row[keep], W.col[keep])), W.shape).tocsr()
    rest = sp.csr_matrix(half + half.T + sp.diags_array(graph.affinity.diagonal()))
    rest.eliminate_zeros()
    return replace(graph, affinity=rest)


def _fitted(est: Any, graph: Graph, known: Any, observer: Any) -> Ints:
    twin = est._twin().set_params(random_state=est._used_seed, time_limit=None)
    takes = signature(twin.fit).parameters
    if known.is_empty or not est._informed:
        twin.fit(graph, observer=observer)
    elif "constraints" in takes:
        twin.fit(graph, constraints=known, observer=observer)
    else:
        twin.fit(graph, known.labels, observer=observer)
    labels: Ints = twin.labels_
    return labels


def _overlaps(labels: Ints, found: Ints) -> Floats:
    """Largest Jaccard index of every cluster (K,) with one of the clusters found."""
    both = (labels >= 0) & (found >= 0)
    k, m = int(labels.max(initial=-1)) + 1, int(found.max(initial=-1)) + 1
    shared = np.zeros((k, m))
    np.add.at(shared, (labels[both], found[both]), 1.0)
    own = np.bincount(labels[labels >= 0], minlength=k)
    theirs = np.bincount(found[found >= 0], minlength=m)
    union = own[:, None] + theirs - shared
    best = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0).max(1, initial=0.0)
    return np.where(own > 0, best, np.nan)
