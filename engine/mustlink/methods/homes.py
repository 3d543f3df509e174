"""Where a clusterer runs: in memory, on disk or on ranks; what it takes there, what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mustlink.cost.method_cost import Given, StoredCost, home_for
from mustlink.cost.process_memory import size_text
from mustlink.eigen.disk_work import StoredWork
from mustlink.eigen.nested_iteration import guard
from mustlink.eigen.work import DISK, MEMORY
from mustlink.errors import AtHomeOnlyError, InputError
from mustlink.graph.stored import StoredGraph
from mustlink.observe import Recorder

COUNTS = 'n_clusters: "auto" counts on a graph in memory; give a number, or labels of classes'


def stays_on_disk(estimator: Any, stored: StoredGraph) -> bool:
    """Whether a graph on disk is too large for the memory of an estimator that runs there."""
    given = Given(stored.n_nodes, stored.n_entries)
    home = home_for(estimator._budget, estimator.cost(), given)
    return DISK in estimator.homes and home.name != MEMORY


def check_home(estimator: Any, home: str, others: Mapping[str, Any] | None = None) -> None:
    """Raise InputError for a method, an option of it or other input that does not run in a home.

    `others` is what else was given to `fit`, by name. AtHomeOnlyError names a parameter.
    """
    where = f"on {home}"
    more = ", or give more memory" if home == DISK else ""
    if home not in estimator.homes:
        raise InputError(f"{type(estimator).__name__}: does not run {where}; choose another method")
    for name, value in (others or {}).items():
        if value is not None:
            raise InputError(f"{name}: does not run {where}; leave it out{more}")
    estimator._check()
    for name in (name for name, alone in estimator._in_memory_only().items() if alone):
        value = getattr(estimator, name)
        why = ": no preconditioner of graph and constraints in one is made there"
        words = f"{name}: {value!r} does not run {where}{why if value == 'exact' else ''}"
        raise AtHomeOnlyError(f"{words}; leave it out{more}", name)


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
    k, budget, keeper = estimator._named_clusters(n_classes), estimator._budget, estimator._keeper
    if isinstance(k, str):
        raise InputError(COUNTS)
    recorder.keep_within(budget)
    if budget is not None:
        cost_on_disk(estimator, k, graph.n_nodes, graph.n_entries).check(budget)
        recorder.note(f"memory: graph and vectors stay on disk to stay within {size_text(budget)}")
    folder = None if keeper is None else keeper.scratch
    return StoredWork(graph, estimator._columns(k), recorder, folder, keeper)


def words_of(home: str) -> str:
    """What a report adds to a method's name."""
    return "" if home == MEMORY else f", on {home}"


def fit_at(estimator: Any, work: Any, known: Any = None) -> Any:
    """Fit a clusterer on a home that is there already, to what is known of its nodes, if anything.

    Sets what `fit` sets; on ranks `embedding_` is on rank 0 alone, and all else everywhere.
    Raises InputError for what does not run there.
    """
    check_home(estimator, work.home)
    estimator._used_seed = seed = estimator._seed()
    if known is None:
        estimator._run(work)
    else:
        estimator._given = known
        estimator._run(work, known, seed)
    return estimator
