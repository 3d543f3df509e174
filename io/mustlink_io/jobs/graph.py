"""`mustlink graph`: points become a graph file, and its health is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mustlink.cost.process_memory import peak_bytes
from mustlink.deadline import NEVER, Deadline
from mustlink.errors import InputError
from mustlink.observe import Observer, Recorder
from mustlink_io import formats
from mustlink_io.formats import matrices
from mustlink_io.formats.photographs import load_image
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.file_names import PICTURES
from mustlink_io.hdf5.locks import locked
from mustlink_io.hdf5.plain_json import to_json
from mustlink_io.hdf5.work_folder import remove_leftovers
from mustlink_io.jobs.diagnostics import graph_health
from mustlink_io.jobs.methods import flag
from mustlink_io.jobs.planning import LAZY
from mustlink_io.jobs.provenance import stages_of, thread_limit

N_SIMILAR = 8  # pixels that look most alike, to which every pixel of a picture is joined


def run_graph(
    data: str,
    output: str,
    params: Mapping[str, Any],
    observer: Observer,
    *,
    threads: int | None = None,
    memory: int | None = None,
    time_limit: float | None = None,
) -> dict[str, Any]:
    """Make the graph of points or of a picture, or check one, and write it; returns its health.

    Raises InputError.
    """
    path = formats.parse(data).path
    store.check_readable(path)
    target = store.check_output(output, [path])
    deadline = NEVER if time_limit is None else Deadline.after(time_limit)
    with locked(output):
        remove_leftovers(target)
        found = _run(data, target, params, Recorder(observer, deadline), threads, memory)
    return {**found, "output": output}


def _run(
    data: str,
    target: Path,
    params: Mapping[str, Any],
    recorder: Recorder,
    threads: int | None,
    memory: int | None,
) -> dict[str, Any]:
    """The part of `run_graph` that needs the lock."""
    from mustlink.graph import Graph, image_graph
    from mustlink.neighbours import knn_graph

    place = formats.parse(data)
    names = image = None
    with thread_limit(threads):
        if place.suffix in PICTURES:
            _refuse(params, f"{place}: is a picture, whose pixels have their neighbours")
            with recorder.stage("reading"):
                image = load_image(place.path, str(place))
            with recorder.stage("pixel graph"):
                graph = image_graph(image, n_similar=N_SIMILAR)
        else:
            with recorder.stage("reading") as advance:
                lazy_above = None if memory is None else memory // LAZY
                loaded = formats.load(data, None, advance, lazy_above)
            for note in loaded.notes:
                recorder.note(note)
            for doubt in loaded.doubts:
                recorder.warn(doubt)
            names, image = loaded.names, loaded.image
            if loaded.kind == "graph":
                _refuse(params, f"{loaded.place}: is a graph already")
                graph = Graph.from_affinity(loaded.value)
            else:
                options = {"random_state": 0, "memory": memory, "scratch": target.parent, **params}
                graph = knn_graph(loaded.value, n_jobs=threads, observer=recorder, **options)
    result = graph_health(graph)
    with recorder.stage("writing"):
        content = matrices.graph_content(graph.affinity, json.loads(to_json(graph.info)))
        if names is not None:
            content["/names"] = names.texts
        if image is not None:
            content["/image"] = image
        store.write(target, content)
    return {
        **result,
        "stages": [stage.plain() for stage in stages_of(recorder)],
        "seconds": sum(stage.seconds for stage in recorder.stages),
        "peak_bytes": peak_bytes(),
        "notes": recorder.remarks,
        "warnings": list(recorder.warnings),
    }


def _refuse(params: Mapping[str, Any], why: str) -> None:
    """Raise InputError for an option that is for points."""
    for name in sorted(set(params) - {"random_state"}):
        raise InputError(f"{why}; it takes no {flag(name)}")
