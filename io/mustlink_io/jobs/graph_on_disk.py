"""A graph of points that memory does not hold, written to its file by blocks of rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mustlink.cost.neighbour_plan import knn_plan
from mustlink.graph import StoredGraph
from mustlink.observe import Recorder
from mustlink_io import formats
from mustlink_io.hdf5.graph_rows import stored_graph
from mustlink_io.hdf5.graph_writer import write_rows
from mustlink_io.hdf5.plain_json import to_json
from mustlink_io.jobs.diagnostics import health_of

_USUAL = 15


def is_too_large(data: formats.Data, memory: int | None, params: Mapping[str, Any]) -> bool:
    """Whether the graph of points would take more than the memory."""
    if memory is None or data.kind != "points" or data.kept is not None:
        return False
    n, d = data.value.shape
    k = min(int(params.get("n_neighbors", _USUAL)), n - 1)
    return knn_plan(n, d, k, None, by_rows=True).least > memory


def write_graph(
    data: formats.Data, target: Path, params: Mapping[str, Any], recorder: Recorder, **search: Any
) -> dict[str, Any]:
    """Write the graph of points, its nodes in the order of cells; returns its health.

    `/graph/rows` tells the node of every point. Equal rows are nodes of their own; `search` is for
    `stored_knn_graph`. Raises InputError; then there is no file.
    """
    from mustlink.graph.stored import survey
    from mustlink.neighbours.stored_knn import stored_knn_graph
    from mustlink.space.disk import DiskSpace

    folder = target.parent

    def about() -> dict[str, Any]:
        return {} if data.fitted is None else {"preparation": to_json(data.fitted.to_dict())}

    def write(n: int, blocks: Any, info: Mapping[str, Any], rows: Any) -> StoredGraph:
        names = None if data.names is None else data.names.texts
        plain = json.loads(to_json(info))
        write_rows(str(target), n, blocks, plain, names, rows, about)
        return stored_graph(target, "/graph", folder, info=info)

    options = {"random_state": 0, **params, **search, "scratch": folder, "write": write}
    graph = stored_knn_graph(data.value, observer=recorder, **options).graph
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
