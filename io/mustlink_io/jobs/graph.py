"""`mustlink graph`: points become a graph file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.context.method_cost import LAZY, FitInput, home_for
from mustlink.context.neighbor_cost import knn_plan, stored_knn_plan
from mustlink.core.observe import Deadline, Observer, Recorder
from mustlink.core.resources import AUTO, Allowed, allowed_memory, named_memory, peak_bytes
from mustlink.errors import InputError
from mustlink.graph import DiskGraph
from mustlink.neighbors.distances import bytes_of_rows, search_bytes
from mustlink.preprocessing.request import Preparation
from mustlink_io import formats
from mustlink_io.formats import matrices
from mustlink_io.formats.photographs import load_image
from mustlink_io.formats.points import columns_apart
from mustlink_io.formats.tables import NodeNames
from mustlink_io.hdf5 import store, writing
from mustlink_io.hdf5.file_names import PICTURES
from mustlink_io.hdf5.graphs import stored_graph, write_rows
from mustlink_io.hdf5.locks import locked
from mustlink_io.hdf5.work_folder import remove_leftovers
from mustlink_io.hdf5.writing import to_json
from mustlink_io.jobs.carried import graph_of_all
from mustlink_io.jobs.diagnostics import graph_health, health_of, stages_of
from mustlink_io.jobs.methods import flag, keeps_sparse
from mustlink_io.jobs.on_disk import shape_of, tells_shape

_USUAL = 15  # neighbours


@dataclass(frozen=True, kw_only=True)
class GraphJob:
    """A graph to be made of points or of a picture, or checked, and written.

    `weights` say how often every row counts, for whatever is done with the graph; workers of an
    `executor` search neighbours.
    """

    data: str
    output: str
    params: Mapping[str, Any] = field(default_factory=dict)
    steps: Preparation = field(default_factory=Preparation)
    weights: str | None = None
    ids: str | None = None
    threads: int | None = None
    memory: int | str | None = AUTO
    time_limit: float | None = None
    began: float | None = None
    executor: Executor | None = None

    def run(self, observer: Observer) -> dict[str, Any]:
        """Make and write it; returns its health. Raises InputError."""
        path = formats.parse(self.data).path
        store.check_readable(path)
        target = writing.check_output(self.output, [path])
        deadline = Deadline.of(self.time_limit, self.began)
        with locked(self.output):
            remove_leftovers(target)
            found = _run(self, target, Recorder(observer, deadline))
        return {**found, "output": self.output}


def _run(job: GraphJob, target: Path, recorder: Recorder) -> dict[str, Any]:
    from threadpoolctl import threadpool_limits

    from mustlink.graph import Graph, image_graph
    from mustlink.neighbors import knn_graph

    place, params = formats.parse(job.data), job.params
    loaded = image = None
    plain = job.weights is None and job.executor is None
    with threadpool_limits(job.threads):
        if place.suffix in PICTURES:
            _refuse(job, f"{place}: is a picture, whose pixels have their neighbours")
            with recorder.stage("reading"):
                image = load_image(place.path, str(place))
                weights = _weights(job, image.shape[0] * image.shape[1], None)
            with recorder.stage("pixel graph"):
                graph = image_graph(image)
        else:
            with recorder.stage("reading") as advance:
                memory = _declared(job).limit
                lazy_above = None if memory is None else memory // LAZY
                if job.executor is not None:
                    lazy_above = 0  # workers read the file
                apart = columns_apart(job.data, weights=job.weights, ids=job.ids)
                how: dict[str, Any] = {"apart": apart, "sparse": keeps_sparse(params)}
                loaded = formats.load(job.data, None, advance, lazy_above, job.steps, **how)
                weights = _weights(job, loaded.n_rows, loaded.names)
            loaded.report(recorder)
            image = loaded.image
            if loaded.kind == "graph":
                _refuse(job, f"{loaded.place}: is a graph already")
                graph = replace(
                    Graph.from_affinity(loaded.value), weights=loaded.weights, rows=loaded.rows
                )
            else:
                allowed, by_cells = _allowed_for(job, loaded.value)
                memory = allowed.limit
                recorder.keep_to(allowed, bytes_of_rows(loaded.value))
                if plain and by_cells and _stays_on_disk(loaded, memory, params):
                    more = {"n_jobs": job.threads, "memory": memory}
                    return _outcome(_write_rows(loaded, target, params, recorder, **more), recorder)
                folder = target.parent
                options = {"random_state": 0, "memory": memory, "scratch": folder, **params}
                options["executor"] = job.executor
                graph = knn_graph(
                    loaded.value,
                    n_jobs=job.threads,
                    observer=recorder,
                    duplicates="merge",
                    **options,
                )
    kept = None if loaded is None else loaded.kept
    if weights is not None:
        graph = graph.weighing(weights if kept is None else weights[kept])
    result = graph_health(graph)
    with recorder.stage("writing"):
        affinity = graph.affinity
        if loaded is not None and loaded.kept is not None:
            if graph.rows is None:
                affinity = graph_of_all(affinity, loaded.kept, loaded.n_rows)
            else:  # those left out are one node without edges
                graph = graph.beside(loaded.kept, loaded.n_rows)
                affinity = graph.affinity
        origin = json.loads(to_json(graph.info))
        content = matrices.graph_content(affinity, origin, graph.weights, graph.rows)
        if loaded is not None and loaded.names is not None:
            content["/names"] = loaded.names.texts
        if loaded is not None and loaded.fitted is not None:
            content["/@preparation"] = to_json(loaded.fitted.to_dict())
        if image is not None:
            content["/image"] = image
        writing.write(target, content)
    return _outcome(result, recorder)


def _declared(job: GraphJob) -> Allowed:
    """What may be taken, by the size that the file declares; a text does not."""
    named = named_memory(job.memory)
    if named is not None:
        return named
    if not tells_shape(job.data):
        return Allowed()
    shape = shape_of(job.data, replace(job.steps, one_hot=(), drop_missing=False, drop=()))
    sparse = shape.entries > 0 and keeps_sparse(job.params)  # of which the engine decides
    return _allowed(job, shape.n, shape.d) if shape.d and not sparse else Allowed()


def _allowed_for(job: GraphJob, points: Any) -> tuple[Allowed, bool]:
    """What may be taken for a graph of points, and whether cells know their distance."""
    if search_bytes(points, job.params.get("metric", AUTO), 1):
        return named_memory(job.memory) or Allowed(), False  # else the engine decides
    n, d = points.shape
    return _allowed(job, n, d, in_memory=bytes_of_rows(points) > 0), True


def _allowed(job: GraphJob, n: int, d: int, *, in_memory: bool = False) -> Allowed:
    """What may be taken for the graph of points (n, d); raises InputError."""
    k = max(1, min(int(job.params.get("n_neighbors") or _USUAL), n - 1))
    given, plain = FitInput(n, 0, d, k, n), job.weights is None and job.executor is None
    usual = stored_knn_plan if plain else knn_plan

    def least(limit: int) -> int:
        return min(given.at_home(None), usual(n, d, k, None).least)

    def unlimited(at_most: bool) -> int:
        return given.unlimited(at_most=at_most)

    return allowed_memory(job.memory, unlimited, least, given.points if in_memory else 0)


def _stays_on_disk(data: formats.InputData, memory: int | None, params: Mapping[str, Any]) -> bool:
    """Whether the graph of points would take more than the memory."""
    if data.kind != "points" or data.kept is not None:
        return False
    n, d = data.value.shape
    k = min(int(params.get("n_neighbors", _USUAL)), n - 1)
    return home_for(memory, None, FitInput(n, 0, d, k, n)).name != "memory"


def _outcome(result: Mapping[str, Any], recorder: Recorder) -> dict[str, Any]:
    return {
        **result,
        "stages": [stage.plain() for stage in stages_of(recorder)],
        "seconds": sum(stage.seconds for stage in recorder.stages),
        "peak_bytes": peak_bytes(),
        "notes": recorder.remarks,
        "warnings": list(recorder.warnings),
    }


def _weights(job: GraphJob, n: int, names: NodeNames | None) -> NDArray[np.float64] | None:
    if job.weights is None:
        return None
    return formats.load_weights(job.weights, n, names, job.data)


def _refuse(job: GraphJob, why: str) -> None:
    """Raise InputError for an option that is for points."""
    flags = [flag(name) for name in sorted(set(job.params) - {"random_state"})]
    for word in (*flags, *job.steps.options()):
        raise InputError(f"{why}; it takes no {word}")
    if job.executor is not None:
        raise InputError(f"{why}; leave out --workers and --scheduler")


def _write_rows(
    data: formats.InputData,
    target: Path,
    params: Mapping[str, Any],
    recorder: Recorder,
    **search: Any,
) -> dict[str, Any]:
    """Write the graph of points, its nodes in the order of cells; returns its health.

    `/graph/rows` tells the node of every point. Equal rows are nodes of their own; `search` is for
    `stored_knn_graph`. Raises InputError; then there is no file.
    """
    from mustlink.graph.disk_graph import survey
    from mustlink.neighbors.disk_knn import stored_knn_graph
    from mustlink.space.disk import DiskSpace

    folder = target.parent

    def about() -> dict[str, Any]:
        return {} if data.fitted is None else {"preparation": to_json(data.fitted.to_dict())}

    def write(n: int, blocks: Any, info: Mapping[str, Any], rows: Any) -> DiskGraph:
        names = None if data.names is None else data.names.texts
        plain = json.loads(to_json(info))
        write_rows(str(target), n, blocks, plain, names, rows, about)
        return stored_graph(target, "/graph", folder, info=info)

    options = {"random_state": 0, **params, **search, "scratch": folder, "write": write}
    graph = stored_knn_graph(data.value, observer=recorder, **options)
    recorder.note(
        "the graph was written by blocks of rows: nodes are numbered by where they lie, and "
        "/graph/rows tells the node of every point"
    )
    with recorder.stage("looking at the graph") as advance:
        seen = survey(graph, DiskSpace(graph.n_nodes, folder), advance)
        lengths = graph.lengths(slice(0, graph.n_nodes))
    sizes = [graph.n_nodes] if seen.component is None else np.bincount(seen.component[:]).tolist()
    found = {
        "n_nodes": graph.n_nodes,
        "n_edges": graph.n_entries // 2,
        "n_components": seen.n_components,
        "largest_components": sizes[:5],
    }
    return {**found, **health_of(lengths, seen.degrees[:], graph.info)}
