"""`mustlink graph`: points become a graph file, and the health of a graph in numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from mustlink.errors import InputError
from mustlink.memory import peak_bytes
from mustlink.observe import Observer, Recorder
from mustlink_io import formats, matrices, store
from mustlink_io.locks import locked
from mustlink_io.methods import flag
from mustlink_io.planning import LAZY
from mustlink_io.records import stage_rows, thread_limit, to_json
from mustlink_io.work import remove_leftovers


def run_graph(
    data: str,
    output: str,
    params: Mapping[str, Any],
    observer: Observer,
    *,
    threads: int | None = None,
    memory: int | None = None,
) -> dict[str, Any]:
    """Make the neighbour graph of points, or check a graph, and write it; returns its health.

    Raises InputError.
    """
    path = formats.parse(data).path
    store.check_readable(path)
    target = store.check_output(output, [path])
    with locked(output):
        remove_leftovers(target)
        found = _run(data, target, params, Recorder(observer, memory=memory), threads)
    return {**found, "output": output}


def _run(
    data: str, target: Path, params: Mapping[str, Any], recorder: Recorder, threads: int | None
) -> dict[str, Any]:
    """The part of `run_graph` that needs the lock."""
    from mustlink.graph import Graph, knn_graph

    memory = recorder.memory
    with recorder.stage("reading") as advance:
        lazy_above = None if memory is None else memory // LAZY
        loaded = formats.load(data, None, advance, lazy_above)
    with thread_limit(threads):
        if loaded.kind == "graph":
            for name in sorted(set(params) - {"random_state"}):
                raise InputError(f"{loaded.place}: is a graph already; it takes no {flag(name)}")
            graph = Graph.from_affinity(loaded.value)
        else:
            options = {"random_state": 0, "memory": memory, "scratch": target.parent, **params}
            graph = knn_graph(loaded.value, n_jobs=threads, observer=recorder, **options)
    result = graph_health(graph)
    with recorder.stage("writing"):
        store.write(target, matrices.graph_content(graph.affinity, json.loads(to_json(graph.info))))
    return {
        **result,
        "stages": stage_rows(recorder),
        "seconds": sum(stage.seconds for stage in recorder.stages),
        "peak_bytes": peak_bytes(),
        "notes": list(recorder.notes),
    }


def graph_health(graph: Any) -> dict[str, Any]:
    """Degrees, components and recall of an engine graph, as plain values."""
    affinity: sp.csr_matrix = graph.affinity
    neighbours = np.diff(affinity.indptr)
    sizes = np.bincount(graph.components)
    return {
        "n_nodes": graph.n_nodes,
        "n_edges": graph.n_edges,
        "neighbours": _spread(neighbours),
        "degree": _spread(graph.degrees),
        "isolated": int(np.count_nonzero(neighbours == 0)),
        "n_components": graph.n_components,
        "largest_components": sizes[:5].tolist(),
        "info": json.loads(to_json(dict(graph.info))),
    }


def _spread(values: Any) -> dict[str, float]:
    return {
        "least": float(values.min()),
        "median": float(np.median(values)),
        "mean": float(values.mean()),
        "most": float(values.max()),
    }
