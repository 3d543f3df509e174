"""Nearest-neighbour graphs of points, made and left on disk: neither need fit into memory.

Of points that memory does not hold the graph is there for a later run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.method_cost import COUNTED, Cost, DiskCost, FitInput, home_for
from mustlink.context.neighbor_cost import stored_knn_plan
from mustlink.context.stage_cache import StageCache, Write
from mustlink.core.check import as_integer, as_points
from mustlink.core.observe import Observer, Recorder, recorded
from mustlink.core.resources import AUTO, give_back
from mustlink.errors import InputError
from mustlink.graph.disk_graph import DiskGraph, RowBlock
from mustlink.graph.row_buckets import RECORD, RowBuckets, buckets_of, scratch_graph
from mustlink.graph.weights import edge_weights, raw_scales, settled_scales, weigh
from mustlink.kernels import symmetric_lists as kernels
from mustlink.kernels.graph_walk import flatten
from mustlink.neighbors.bridges import bridging_edges
from mustlink.neighbors.cell_search import CellLists, search_cells
from mustlink.neighbors.distances import BY_CELLS, POINTS, in_time, metric_name, resolved_metric
from mustlink.neighbors.knn import GraphSpec, possible, threads_for, warn_of_copies, warn_of_recall
from mustlink.neighbors.points_by_rows import count_distinct, is_rows, prepare

_RANGE = 1 << 20  # nodes looked at at once

Advance = Callable[[float], None]


def stored_knn_graph(
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
    write: Write | None = None,
) -> DiskGraph:
    """The graph of `knn_graph` by blocks: W = (A + Aᵀ)/2, (n, n), in single precision on disk.

    Points (n, d) are an array, or anything with a shape and blocks of rows [a:b]. They are written
    to a temporary file in the order of cells, small and near each other, and compared with those of
    near cells by `search_cells`. Nodes are numbered as they lie there; the graph's `rows` (n,) are
    the nodes of the points. Weights as in `knn_graph`; with `connect`, components are joined by
    their shortest bridging edges, which weigh at least half of what the farthest neighbour does.

    `write(n, blocks, info, rows)` stores the rows and returns the graph: they come in order, in
    blocks with rising columns, and all are to be taken; `rows` (n,) is the node of every point.
    Without it they go to temporary files. `memory` is a budget for the whole process in bytes, or
    as "2GB", without what `write` takes, "auto" what there is, where that may be too
    little; `scratch` the folder of temporary files, of which nothing is left. `info` has, beside
    the entries of `knn_graph`, the `locality`: the share of neighbours that lie within the node's
    own block of rows, and `cut_short` where a time limit ended the search.
    The same `random_state` gives the same graph for any `n_jobs`.

    Raises InputError where the budget or the disk do not suffice, or points cannot be read. Cost
    O(n√n d), 20 bytes a point in memory beside the blocks, and (4d + 8k) a point on disk with 12
    for each neighbour in another block.
    """
    recorder = recorded(observer)
    metric = resolved_metric(metric, points)
    if metric not in BY_CELLS:
        raise InputError(
            f"metric: {metric_name(metric)!r} does not run on disk; choose {' | '.join(BY_CELLS)}, "
            "or give more memory"
        )
    spec = GraphSpec.checked(n_neighbors, metric, weights, sigma, n_jobs)
    with recorder.stage("checking points") as advance:
        rows = prepare(points if is_rows(points) else as_points(points), metric, advance)
    n, d = rows.shape
    k, threads = possible(spec.k, n, recorder), threads_for(spec.n_jobs)
    usual = stored_knn_plan(n, d, k, None, held=rows.held, threads=threads)
    spec = spec.within(memory, lambda _: usual.peak_bytes, lambda _: usual.least, rows.held)
    plan = stored_knn_plan(n, d, k, spec.budget, held=rows.held, threads=threads)
    assert plan.layout is not None
    seed, rng = spec.begin(points, recorder, random_state)  # as in knn_graph: the same cells
    with in_time(recorder) as (until, advance):
        found = search_cells(
            rows,
            k,
            np.random.default_rng(seed),
            plan.layout,
            n_jobs=threads,
            sample=recall_sample,
            folder=scratch,
            deadline=until,
            advance=advance,
        )
    give_back()
    warn_of_recall(found.info, recorder)
    made = DiskAffinity(found, plan.layout.rows, scratch)
    with recorder.stage("components") as advance:
        made.survey(weights, None if spec.sigma is None else spec.sigma * rows.unit, advance)
        warn_of_copies(made.copies, n, recorder)
    scale, parts = made.scale, made.components
    with recorder.stage("weights") as advance:
        bridges = made.blocks(connect, rng, lambda x: advance(0.5 * x))
        info = {
            "method": "stored cells",
            **found.info,
            **spec.info(k, scale, rows.unit, parts, bridges, recorder),
            "locality": made.locality,
            **({"cut_short": True} if recorder.left_out else {}),
        }
        blocks = made.row_blocks(lambda x: advance(0.5 + 0.5 * x))
        keep = partial(scratch_graph, folder=scratch) if write is None else write
        nodes = np.empty(n, dtype=np.int32)
        nodes[found.cells.order] = np.arange(n, dtype=np.int32)
        return keep(n, blocks, info, nodes)


class DiskAffinity:
    """W = (A + Aᵀ)/2 of neighbour lists on disk, made `rows` nodes at a time.

    Entries between nodes of a block are put together where the block is, those that cross blocks
    go by way of a temporary file. In memory are 10 bytes a node beside a block.
    """

    def __init__(self, found: CellLists, rows: int, folder: Any = None) -> None:
        self.found, self.folder = found, folder
        n, _ = found.lists.shape
        bounds = np.append(np.arange(0, n, rows, dtype=np.int64), n)
        self.bounds, self.bucket = bounds, buckets_of(bounds)

    def survey(self, weights: str, sigma: float | None, advance: Advance) -> None:
        """Look at all lists: scales, components, how many entries cross blocks, copies."""
        n, _ = self.found.lists.shape
        parent = np.arange(n, dtype=np.int32)
        local = weights == "local"
        scales = np.empty(n if local else 0, dtype=np.float32)
        self.crossing = np.zeros(self.bounds.size - 1, dtype=np.int64)
        self.copies = self.entries = 0
        total = 0.0
        for own, rows in enumerate(self._rows()):
            indices, distances = self._lengths(rows)
            if local:
                scales[rows] = raw_scales(distances)
            total += float(distances.sum(dtype=np.float64))
            self.copies += int(np.count_nonzero(~distances.any(axis=1)))
            self.entries += int(kernels.count_outside(indices, self.bucket, own, self.crossing))
            kernels.join_lists(parent, rows.start, indices)
            advance(rows.stop / n)
        mean = total / max(self.entries, 1)
        self.scale: NDArray[np.float32] | float = 1.0
        if local:
            self.scale = settled_scales(scales)
        elif weights == "gaussian":
            self.scale = sigma if sigma is not None else (mean if mean > 0 else 1.0)
        self.weights = weights
        flatten(parent)
        self.labels, self.components = _numbered(parent)

    @property
    def locality(self) -> float:
        """Share of neighbours that lie in the block of the node."""
        return 1.0 - float(self.crossing.sum()) / max(self.entries, 1)

    def blocks(self, connect: bool, rng: np.random.Generator, advance: Advance) -> int:
        """Weigh all lists, on disk, and deal out what crosses blocks; how many bridges join."""
        n = self.found.lists.shape[0]
        pairs, lengths = np.empty((0, 2), np.int64), np.empty(0)
        if connect and self.components > 1:
            pairs, lengths = bridging_edges(self.found.points, self.labels, rng)
        del self.labels
        bridged = np.bincount(self.bucket[pairs.ravel()], minlength=self.crossing.size)
        room = self.crossing + bridged
        self.buckets = RowBuckets.of(self.bounds, room, self.bucket, self.folder)
        least = np.inf
        for rows in self._rows():
            indices, half = self._lengths(rows)
            weigh(indices, half, self.weights, self.scale, half, rows.start)
            half *= np.float32(0.5)
            least = min(least, float(half.min()))
            self.found.lists.values[rows] = half
            size = indices.size
            named, naming = np.empty(size, np.int32), np.empty(size, np.int32)
            w = np.empty(size, np.float32)
            left = kernels.entries_outside(indices, half, rows.start, named, naming, w)
            self.buckets.add(named[:left], naming[:left], w[:left])
            advance(rows.stop / n)
        if pairs.size:
            i, j = pairs.T
            values = np.maximum(edge_weights(lengths, i, j, self.weights, self.scale), least)
            both = np.tile(values.astype(np.float32), 2)
            self.buckets.add(np.concatenate([i, j]), np.concatenate([j, i]), both)
        return int(pairs.shape[0])

    def row_blocks(self, advance: Advance) -> Iterator[RowBlock]:
        """Rows of W in order, columns rising."""
        n = self.found.lists.shape[0]

        def beside(rows: slice, dealt: NDArray[Any]) -> NDArray[Any]:
            indices, values = self.found.lists.read(rows)
            records = np.empty(dealt.size + 2 * indices.size, dtype=RECORD)
            records[: dealt.size] = dealt
            done = kernels.entries_inside(indices, values, rows.start, records, dealt.size)
            return records[:done]

        for block in self.buckets.rows(beside=beside):
            yield block
            advance(block.rows.stop / n)

    def _rows(self) -> list[slice]:
        return [slice(a, b) for a, b in pairwise(self.bounds.tolist())]

    def _lengths(self, rows: slice) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Lists of some nodes: numbers, and distances."""
        indices, values = self.found.lists.read(rows)
        np.sqrt(values, out=values)
        if self.found.unit != 1:
            values /= np.float32(self.found.unit)
        return indices, values


def _numbered(parent: NDArray[np.int32]) -> tuple[NDArray[np.int32], int]:
    """Components of nodes that point to their roots, numbered, in place; and how many."""
    n = parent.size
    ranges = [slice(a, min(a + _RANGE, n)) for a in range(0, n, _RANGE)]
    roots = np.concatenate(
        [r.start + np.flatnonzero(parent[r] == np.arange(r.start, r.stop)) for r in ranges]
    )
    for r in ranges:
        parent[r] = np.searchsorted(roots, parent[r])
    return parent, int(roots.size)


_STAGE = "graph on disk"


def graph_where_short(
    estimator: Any,
    X: Any,
    recorder: Recorder,
    cost: Cost,
    on_disk: Callable[[int, int], DiskCost],
    seed: int,
) -> Any:
    """X, or the graph of points (n, d) on disk where the estimator's memory holds none of it.

    `cost` is what the fit takes in memory, `on_disk(n, nnz)` what it takes there; it raises
    InputError for what does not run there; `seed` is that of the whole fit. Raises InputError.
    """
    budget, shape = estimator._budget, tuple(getattr(X, "shape", ()))
    is_points = estimator.affinity in POINTS and len(shape) == 2 and not sp.issparse(X)
    is_points = is_points and resolved_metric(estimator.metric, X) in BY_CELLS
    is_points = is_points and estimator.representatives is None
    if budget is None or not is_points:
        return X
    n, d = shape
    k = min(as_integer(estimator.n_neighbors, "n_neighbors", 1), n - 1)
    given = FitInput(n, 0, d, k, n, in_file=is_rows(X))
    if home_for(budget, cost, given).name == "memory":
        return X
    if COUNTED * n <= budget:  # equal rows are one node
        given = replace(given, n=count_distinct(X))
        if home_for(budget, cost, given).name == "memory":
            return X
    on_disk(n, n * k).check(budget)
    made_by = {name: getattr(estimator, name) for name in ("n_neighbors", "metric", "weights")}
    recorder.keep_to(estimator._allowance, 0 if is_rows(X) else getattr(X, "nbytes", 0))
    search = {"random_state": seed, "n_jobs": estimator.n_jobs, "memory": budget}
    return cached_rows(X, made_by, StageCache(recorder, estimator._kept_in), **search)


def cached_rows(X: Any, made_by: dict[str, Any], cache: StageCache, **search: Any) -> DiskGraph:
    """The graph of points (n, d) by `stored_knn_graph`, or what an earlier run kept of it.

    `made_by` are the parameters of the graph, `search` those of the search. Equal rows are nodes of
    their own. Without a keeper it lies in temporary files. Raises InputError.
    """
    depends = made_by, search["random_state"], search["memory"]
    name = cache.name_of(_STAGE, cache.source, *depends)
    how = {name: made_by[name] for name in ("n_neighbors", "metric", "weights")}
    given = {**how, **search, "observer": cache.recorder, "scratch": cache.scratch}
    return cache.cached_graph(_STAGE, name, lambda write: stored_knn_graph(X, **given, write=write))
