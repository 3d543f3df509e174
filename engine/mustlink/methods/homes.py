"""Where a clusterer runs: in memory, on disk or on ranks, and what it takes there."""

from __future__ import annotations

from typing import Any

from mustlink.cost.method_cost import StoredCost
from mustlink.eigen.disk_work import StoredWork
from mustlink.eigen.nested_iteration import guard
from mustlink.eigen.work import MEMORY
from mustlink.errors import InputError
from mustlink.graph.stored import StoredGraph
from mustlink.observe import Recorder

COUNTS = 'n_clusters: "auto" counts on a graph in memory; give a number, or labels of classes'


def cost_on_disk(estimator: Any, k: int, n: int, nnz: int) -> StoredCost:
    """What a fit of k clusters takes of a graph of n nodes and nnz weights on disk."""
    columns = estimator._columns(k)
    return StoredCost(n, nnz, columns + guard(columns), told=estimator._places_known)


def disk_work(estimator: Any, graph: StoredGraph, n_classes: int, recorder: Recorder) -> StoredWork:
    """The home of a graph that stays on disk; raises InputError where not even that fits."""
    if graph.copies is not None and estimator._places_known:
        raise InputError(
            "graph: has nodes that stand for several rows, of which nothing can be said on disk; "
            "give more memory, or take NCut"
        )
    k = estimator._named_clusters(n_classes)
    if isinstance(k, str):
        raise InputError(COUNTS)
    cost = cost_on_disk(estimator, k, graph.n_nodes, graph.n_entries)
    found: StoredWork = estimator._disk_work(graph, estimator._columns(k), cost, recorder)
    return found


def words_of(home: str) -> str:
    """What a report adds to a method's name."""
    return "" if home == MEMORY else f", on {home}"


def fit_at(estimator: Any, work: Any, known: Any = None) -> Any:
    """Fit a clusterer on a home that is there already, to what is known of its nodes, if anything.

    Sets what `fit` sets; on ranks `embedding_` is on rank 0 alone, and all else everywhere.
    Raises InputError for what does not run there.
    """
    estimator._check_home(work.home)
    estimator._used_seed = seed = estimator._seed()
    if known is None:
        estimator._run(work)
    else:
        estimator._given = known
        estimator._run(work, known, seed)
    return estimator
