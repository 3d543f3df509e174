"""Nearest-neighbour graphs of points: neighbours searched in one of several ways, and weights."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.neighbor_cost import NeighborPlan, knn_plan, other_plan
from mustlink.context.stage_cache import CheckpointStore, StageCache
from mustlink.core.check import (
    as_integer,
    as_points,
    as_random_state,
    check_choice,
    check_n_jobs,
    check_positive,
)
from mustlink.core.observe import Observer, Recorder, recorded
from mustlink.core.resources import AUTO, Allowed, allowed_memory, give_back
from mustlink.errors import InputError
from mustlink.graph.graph import Graph, component_labels, fold
from mustlink.graph.weights import (
    WEIGHTS,
    edge_weights,
    lean_affinity,
    local_scales,
    mean_distance,
    neighbour_affinity,
    with_edges,
)
from mustlink.neighbors.bridges import bridging_edges
from mustlink.neighbors.distances import (
    BY_CELLS,
    AnyRows,
    ComparedRows,
    in_time,
    metric_name,
    resolved_metric,
)
from mustlink.neighbors.exact import exact_neighbours
from mustlink.neighbors.points_by_rows import (
    ROWWISE,
    EqualRows,
    Prepared,
    along_the_ground,
    group_equal_rows,
    is_rows,
    prepare,
    scaled_points,
)
from mustlink.preprocessing.mixed import prepared_points

_LOW_RECALL = 0.9
_ALL_EQUAL = 0.99  # of the points without a neighbour but duplicates: distances tell nothing

Points = NDArray[np.float32] | Prepared | AnyRows
Found = tuple[NDArray[np.int32], NDArray[np.float32], dict[str, Any]]


def any_rows(points: Any, metric: Any, recorder: Recorder | None = None) -> AnyRows | None:
    """Rows to be compared by a metric; None for dense ones that cells know. Raises InputError."""
    if sp.issparse(points) or metric == "jaccard":
        from mustlink.neighbors.sparse_points import SparseRows

        return SparseRows.of(points, metric)
    if metric in BY_CELLS:
        return None
    return ComparedRows.of(points, metric, recorder)


def threads_for(n_jobs: int | None) -> int:
    """Threads for the search by cells."""
    from mustlink.kernels.threads import workers

    return workers() if n_jobs is None else min(n_jobs, workers())


def possible(k: int, n: int, recorder: Recorder) -> int:
    """Return k, or n - 1 with a note."""
    if k > n - 1:
        recorder.note(f"n_neighbors: {k} asked of {n} points, {n - 1} used")
    return min(k, n - 1)


def planned(
    X: Points, k: int, budget: int | None, n_jobs: int | None, *, by_tasks: bool = False
) -> tuple[Points, NeighborPlan]:
    """The points, in memory if they may be, and the plan; raises InputError."""
    n, d = X.shape
    if isinstance(X, AnyRows):
        return X, other_plan(n, k, *X.plan(k), budget)
    if not isinstance(X, Prepared):
        return X, knn_plan(n, d, k, None)
    plan = knn_plan(
        n,
        d,
        k,
        budget,
        held=X.held,
        itemsize=8 if X.shift is not None or X.metric in ROWWISE else 4,
        by_rows=not X.held,
        threads=threads_for(n_jobs),
        by_tasks=by_tasks,
    )
    if plan.lean:
        return X, plan
    if isinstance(X.source, np.ndarray):
        return X[0:n], plan
    found = np.empty((n, d), dtype=np.float32)
    for start, block in X.blocks():
        found[start : start + block.shape[0]] = block
    return found, plan


def neighbour_lists(
    X: Points,
    k: int,
    plan: NeighborPlan,
    seed: int,
    recorder: Recorder,
    *,
    n_jobs: int | None = None,
    sample: int = 500,
    folder: Any = None,
    executor: Executor | None = None,
) -> Found:
    """Indices (n, k), lengths (n, k) of the nearest of every point, itself excluded, and how.

    The search is that of the plan; `sample` random points are compared with exact lists, `folder`
    is for what is written to disk, an `executor` runs the tasks of a plan by tasks.
    """
    if isinstance(X, AnyRows):
        from mustlink.kernels.threads import threads

        with threads(n_jobs):
            return X.lists(k, seed, recorder, sample)
    n = X.shape[0]
    exact = {"method": plan.method, "recall": 1.0, "recall_sample": n}
    if plan.method == "brute":
        with recorder.stage("kNN graph") as advance:
            return *exact_neighbours(np.asarray(X), np.arange(n), k, advance), exact
    if plan.method == "tree":
        from mustlink.kernels.k_d_tree import nearest_in_tree
        from mustlink.kernels.threads import threads

        with recorder.stage("kNN graph"), threads(n_jobs):
            indices, lengths = nearest_in_tree(np.asarray(X, dtype=np.float64), k)
        return indices, lengths.astype(np.float32), exact
    from mustlink.neighbors.cell_search import cell_lists

    assert plan.layout is not None
    with in_time(recorder) as (until, advance):
        indices, distances, info = cell_lists(
            X if isinstance(X, Prepared) else prepare(X, "euclidean"),
            k,
            np.random.default_rng(seed),
            plan.layout,
            n_jobs=threads_for(n_jobs),
            sample=sample,
            deadline=until,
            advance=advance,
            folder=folder,
            executor=executor if plan.method == "tasks" else None,
        )
    give_back()
    if plan.lean:
        where = {"stored cells": " on disk", "tasks": " by tasks"}.get(plan.method, "")
        why = "" if plan.method == "tasks" else ", as a memory was named"
        recorder.note(
            f"kNN graph: found in {info['parts']} parts{where} and weighted in single "
            f"precision{why}; recall {info['recall']:.3f}"
        )
    return indices, distances, {"method": plan.method, **info}


def warn_of_recall(info: dict[str, Any], recorder: Recorder) -> None:
    """Warn of a low recall."""
    if info["recall"] < _LOW_RECALL:
        recorder.warn(
            f"kNN graph: only {info['recall']:.3f} of the true neighbours found (sample of "
            f"{info['recall_sample']}); raise n_neighbors or reduce the dimension"
        )


def warn_of_copies(equal: int, n: int, recorder: Recorder) -> None:
    """Warn where (nearly) all of n points, `equal` of them, have copies for neighbours."""
    if equal >= _ALL_EQUAL * n and n > 1:
        recorder.warn(
            f"kNN graph: {equal} of {n} points are equal to all their neighbours, distances "
            "tell nothing about them; check that the right columns were read"
        )


# --- Graphs of the neighbours that were found


def knn_graph(
    points: Any,
    n_neighbors: int = 15,
    *,
    metric: Any = "auto",
    weights: str = "local",
    sigma: float | None = None,
    connect: bool = True,
    random_state: Any = None,
    n_jobs: int | None = None,
    observer: Observer | Recorder | None = None,
    recall_sample: int = 500,
    memory: int | str | None = AUTO,
    scratch: Any = None,
    keeper: CheckpointStore | None = None,
    duplicates: str = "keep",
    executor: Executor | None = None,
) -> Graph:
    """Symmetric graph that joins every point (n, d) with its nearest neighbours, itself excluded.

    W = (A + Aᵀ)/2 with A_ij = w(d_ij) for the `n_neighbors` nearest j of i, n - 1 when n is
    smaller. `weights`: "local" exp(-d²/(s_i s_j)), s_i the distance to the 7th neighbour
    (Zelnik-Manor & Perona 2004); "gaussian" exp(-d²/(2σ²)), σ the mean neighbour distance
    unless given (WD14, WHC11); "connectivity" 1. w is at least 1e-8. Points whose values are beyond
    10¹⁸ or below 10⁻¹⁸ are multiplied by a power of two, with a note.

    `metric`: "auto" is "euclidean", for sparse rows "cosine". "cosine" and "correlation" are chords
    of rows of length 1, d² = 2(1 - cos), for "correlation" less their mean, as is "dot" of rows
    that have length 1 already; "hellinger" d² = 1 - Σ√(p q) of shares; "haversine" km between rows
    of latitude and longitude in degrees. All are searched as Euclidean distances are. "manhattan",
    "chebyshev", "minkowski:P", "canberra", "braycurtis", "hamming", other names of pynndescent, and
    functions of two rows, compiled by numba or not, are compared for all pairs while that takes
    half a minute (some 30,000 rows), else by its NN-descent on one thread, which is compiled first,
    20 s. A function that numba does not compile takes 10,000 rows.

    Sparse rows (any scipy format) stay sparse: "cosine", "euclidean", "hellinger", "jaccard"
    (also of dense rows) and "dot". All rows that share a column are compared, exact; where columns
    are so common that a row meets more than 30,000 entries, only rows that share a rarer one, as
    rare as .95 of the neighbours of a sample ask for, and up to 960,000 entries; the recall is
    measured. Rows that share no column are no neighbours, but for "euclidean".

    Up to about 19,000 points of 32 coordinates all pairs are compared; of at most 5 coordinates up
    to 6,000, and more by a k-d tree, exact as well. Else points of cells that are near each other
    are compared, as far as a sample of known neighbours asks for: the recall on `recall_sample`
    random points is measured and kept in `info`, usually .95 to .98.
    `memory` is a budget for the whole process in bytes, or as "2GB". Points may then be anything
    with a shape and blocks of rows [a:b], such as an HDF5 dataset, and larger than memory: those
    that do not fit are searched by cells, too, from temporary files in the folder `scratch` or
    where temporary files go; `stored_knn_graph` leaves the graph on disk as well. Weights are then
    in single precision; `info` and a note say so. "auto" does so only where the search could need
    more than there is, see `GraphEstimator`; None sets no limit. A `keeper` keeps the
    neighbours for a later run, and names a folder for those files.

    `duplicates`: "keep" makes every row a node; with "merge" rows that are equal in single
    precision are one node: the graph has `weights` (how many) and `rows`; copies of one node are
    not joined with each other.

    With an `executor` (`concurrent.futures`: processes, or a Dask client's) its workers search by
    cells, where not all pairs are compared, in tasks that read the points' HDF5 file, or a copy,
    and share files in the folder `scratch`, which all must see. Any executor finds the same, and
    what the search on disk finds. Blocks are such that a worker's keep to `memory`, too.

    With `connect`, components are joined by their shortest bridging edges and the number is kept
    and noted. Distances are single precision. The same `random_state` gives the same graph for
    any `n_jobs`.
    A data frame with words, dates or empty cells becomes points as estimators make them.
    Where the `observer` is a recorder with a deadline, the search aims at less than half the time
    left, and ends where it is by then.
    Raises InputError. Cost about O(n√n d), and 0.8 GB for 10⁶ x 32.
    """
    recorder = recorded(observer)
    recorder.estimator = recorder.estimator or "graph"
    points, _ = prepared_points(points, recorder)
    cache = StageCache(recorder, keeper)
    if metric == AUTO and sp.issparse(points) and resolved_metric(metric, points) == "euclidean":
        recorder.note(
            "metric: euclidean, as rows without an entry have no direction; leave these out, and "
            "it is cosine"
        )
    metric = resolved_metric(metric, points)
    spec = GraphSpec.checked(n_neighbors, metric, weights, sigma, n_jobs)
    check_choice(duplicates, ("keep", "merge"), "duplicates")
    X, unit, spec = _prepared(points, spec, recorder, memory, executor)
    equal = _equal(X, recorder) if duplicates == "merge" else None
    if equal is not None:
        X, unit = _distinct(points, X, unit, equal, metric)
    if unit != 1:
        recorder.note(
            f"points: multiplied by 2^{np.log2(unit):.0f}, as their values are far from 1; "
            "neighbours do not depend on it"
        )
    k = possible(spec.k, X.shape[0], recorder)
    X, plan = planned(X, k, spec.budget, spec.n_jobs, by_tasks=executor is not None)
    seed, rng = spec.begin(points, recorder, random_state)
    way = plan.method if plan.layout is None else (plan.method, plan.layout.room)
    depends = metric, k, seed, recall_sample, way, equal is not None
    indices, distances, info = cache.cached(
        "neighbours",
        cache.name_of("neighbours", cache.source, *depends),
        lambda: neighbour_lists(
            X,
            k,
            plan,
            seed,
            recorder,
            n_jobs=spec.n_jobs,
            sample=recall_sample,
            folder=cache.scratch if scratch is None else scratch,
            executor=executor,
        ),
    )
    if metric == "haversine":
        distances = along_the_ground(distances)
    warn_of_recall(info, recorder)
    alike = not distances.any()
    copies = int(np.count_nonzero(~distances.any(axis=1)))
    if equal is not None:
        copies = int(equal.counts[equal.counts > spec.k].sum())
    warn_of_copies(copies, distances.shape[0] if equal is None else equal.nodes.size, recorder)

    with recorder.stage("weights"):
        scale = spec.scale(distances, unit)
        if isinstance(X, Prepared):  # memory is scarce: lists become weights in their place
            cache.settle()
            W = lean_affinity(indices, distances, weights, scale)
        else:
            W = neighbour_affinity(indices, distances, weights, scale)
        del indices, distances
        if isinstance(X, Prepared):
            give_back()
    with recorder.stage("components"):
        labels = component_labels(W)
        parts, bridges = int(labels.max()) + 1, 0
        if connect and parts > 1:
            pairs, lengths = bridging_edges(X, labels, rng)
            lengths = along_the_ground(lengths) if metric == "haversine" else lengths
            value = edge_weights(lengths, pairs[:, 0], pairs[:, 1], weights, scale)
            W = with_edges(W, pairs, np.maximum(value, float(W.data.min(initial=1.0))))
            bridges = int(pairs.shape[0])
    info = info | spec.info(k, scale, unit, parts, bridges, recorder)  # the kept one stays
    if alike and equal is None and duplicates == "merge":  # one kind of row
        info["all_equal"] = True
    if equal is None:
        return Graph(W, info)
    counts = equal.counts.astype(np.float64)
    return Graph(fold(W, counts), info, counts, equal.nodes)


@dataclass(frozen=True)
class GraphSpec:
    """The options that graphs in memory and on disk share."""

    k: int
    metric: Any
    weights: str
    sigma: float | None
    n_jobs: int | None
    allowed: Allowed = Allowed()  # noqa: RUF009  it is frozen

    @property
    def budget(self) -> int | None:
        """The most that the process may take, in bytes."""
        return self.allowed.limit

    @classmethod
    def checked(
        cls, n_neighbors: int, metric: Any, weights: str, sigma: float | None, n_jobs: int | None
    ) -> GraphSpec:
        """Options as a caller gives them, checked; raises InputError."""
        check_choice(weights, WEIGHTS, "weights")
        return cls(
            as_integer(n_neighbors, "n_neighbors", low=1),
            metric,
            weights,
            None if sigma is None else check_positive(sigma, "sigma"),
            check_n_jobs(n_jobs),
        )

    def within(
        self,
        memory: int | str | None,
        unlimited: Callable[[bool], int],
        least: Callable[[int], int],
        held: int,
    ) -> GraphSpec:
        """The same in so much memory, see `allowed_memory`; raises InputError."""
        return replace(self, allowed=allowed_memory(memory, unlimited, least, held))

    def of_search(self, points: Any, memory: int | str | None) -> GraphSpec:
        """The same for a search that may run in memory or on disk; raises InputError."""
        shape = tuple(getattr(points, "shape", ()))
        if len(shape) != 2 or not all(shape):  # lists, or an error that is found later
            return self.within(None if memory == AUTO else memory, lambda _: 0, lambda _: 0, 0)
        n, d = (int(size) for size in shape)
        if isinstance(points, AnyRows):
            plan = other_plan(n, self.k, *points.plan(self.k), None)
            return self.within(memory, lambda _: plan.peak_bytes, lambda _: plan.least, 0)
        held = 0 if is_rows(points) else int(getattr(points, "nbytes", 8 * n * d))
        single = getattr(points, "dtype", None) == np.float32 and self.metric == "euclidean"
        how: Any = {"held": held, "by_rows": not held, "itemsize": 4 if single else 8}

        def unlimited(_: bool) -> int:
            return knn_plan(n, d, self.k, None, **how).peak_bytes

        return self.within(
            memory, unlimited, lambda _: knn_plan(n, d, self.k, None, **how).least, held
        )

    def begin(
        self, points: Any, recorder: Recorder, random_state: Any
    ) -> tuple[int, np.random.Generator]:
        """Hold the process to the budget; the seed of the search, and a generator for the rest."""
        recorder.keep_to(self.allowed, 0 if is_rows(points) else getattr(points, "nbytes", 0))
        rng = as_random_state(random_state)
        return int(rng.integers(2**31 - 1)), rng

    def scale(self, distances: NDArray[np.floating], unit: float) -> NDArray[np.float64] | float:
        """What the weights are relative to; 1 where they are not."""
        if self.weights == "local":
            return local_scales(distances)
        if self.weights == "connectivity":
            return 1.0
        return self.sigma * unit if self.sigma is not None else mean_distance(distances)

    def info(
        self, k: int, scale: Any, unit: float, parts: int, bridges: int, recorder: Recorder
    ) -> dict[str, Any]:
        """The graph's info on weights and components, and a note where these are joined."""
        if bridges:
            recorder.note(
                f"kNN graph: {parts} components joined by {bridges} shortest bridging edges "
                "(connect=False keeps them apart)"
            )
        gaussian = self.weights == "gaussian"
        return {
            "kind": "knn",
            "n_neighbors": k,
            "metric": metric_name(self.metric),
            "weights": self.weights,
            "sigma": scale / unit if gaussian else None,
            "n_bridges": bridges,
            "components_before": parts,
        }


def _prepared(
    points: Any,
    spec: GraphSpec,
    recorder: Recorder,
    memory: int | str | None,
    executor: Executor | None,
) -> tuple[Points, float, GraphSpec]:
    """Points as they are compared, their unit, and the options with what memory may be taken."""
    other = any_rows(points, spec.metric, recorder)
    spec = spec.of_search(points if other is None else other, memory)
    if other is None:
        prepares = spec.budget is not None or executor is not None
        return *_points(points, spec.metric, prepares, recorder), spec
    if executor is not None:
        raise InputError(
            f"metric: workers search distances of {' | '.join(BY_CELLS)} of dense rows; leave the "
            "executor out (--workers, --scheduler)"
        )
    return other, 1.0, spec


def _points(
    points: Any, metric: str, prepares: bool, recorder: Recorder
) -> tuple[NDArray[np.float32] | Prepared, float]:
    """Points as they are compared, in memory or prepared as they are read, and their unit."""
    by_rows = is_rows(points)
    if not prepares:
        source = as_points(points[0 : points.shape[0]] if by_rows else points)
        return scaled_points(source, metric)
    source = points if by_rows else as_points(points)
    with recorder.stage("checking points") as advance:
        prepared = prepare(source, metric, advance)
    return prepared, prepared.unit


def _equal(X: Points, recorder: Recorder) -> EqualRows | None:
    """Rows that are equal, where some are and not all, with a note."""
    with recorder.stage("equal rows") as advance:
        found = X.equal() if isinstance(X, AnyRows) else group_equal_rows(X, advance)
    n, m = found.nodes.size, found.first.size
    if m in (n, 1):  # one kind of row is no graph
        return None
    recorder.note(f"{n:,} rows, {m:,} distinct: equal rows are one node, which counts them")
    return found


def _distinct(
    points: Any, X: Points, unit: float, equal: EqualRows, metric: Any
) -> tuple[Points, float]:
    """The first row of every kind, as they are compared; how many there are moves no point."""
    if isinstance(X, AnyRows):
        return X.take(equal.first), unit
    if isinstance(X, Prepared):
        few = equal.of(X.source)
        found = replace(X, source=few) if X.shift is None else prepare(few, metric)
        return found, found.unit
    if is_rows(points) or metric == "haversine":
        return equal.of(X), unit
    return scaled_points(as_points(points)[equal.first], metric)
