"""A method for data in files: what the engine suggests, its command, how long it will take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mustlink.advice import Suggestion
from mustlink.advice.suggestion import SHELL
from mustlink.errors import InputError
from mustlink.observe import Observer, Recorder
from mustlink.preparation.request import Preparation
from mustlink.preparation.survey import MissingValuesError
from mustlink_io import formats
from mustlink_io.formats import stream
from mustlink_io.jobs.cluster import ClusterJob
from mustlink_io.jobs.data_shape import Shape
from mustlink_io.jobs.planning import plan_job
from mustlink_io.jobs.propagate import PropagateJob
from mustlink_io.jobs.rates import measured_speed
from mustlink_io.jobs.side_information import load_constraints

LAZY_ABOVE = 1 << 29  # bytes of points from which a sample is read, not all of them
_ASIDE = ("n_clusters", "memory", "affinity", "class_mass")  # not options of that name


def suggest_for(
    data: str,
    observer: Observer,
    *,
    n_clusters: int | None = None,
    labels: str | None = None,
    constraints: str | None = None,
    memory: int | None = None,
) -> dict[str, Any]:
    """What `Suggestion.to_dict` tells, with the command, seconds and peak memory of the run.

    Points of more than half a gigabyte in HDF5 are checked block by block and a sample is kept.
    Raises InputError.
    """
    from mustlink import suggest

    recorder = Recorder(observer)
    with recorder.stage("reading") as advance:
        loaded, missing = _load(data, advance)
        if missing:
            recorder.note(missing)
        for doubt in loaded.doubts:
            recorder.warn(doubt)
        n_nodes = int(loaded.value.shape[0])
        given = None
        if labels is not None:
            pixels = None if loaded.image is None else loaded.image.shape[:2]
            read = formats.load_classes(labels, n_nodes, loaded.names, pixels)
            given = read.codes
            for note in read.notes:
                recorder.note(note)
        known = load_constraints(given, constraints, n_nodes, loaded.names)
    found = suggest(
        loaded.value,
        constraints=known,
        n_clusters=n_clusters,
        memory=memory,
        observer=recorder,
    )
    if missing:
        steps = replace(found.preparation, impute="mean")
        found = replace(
            found,
            seen=replace(found.seen, preparation=steps),
            reasons=(*found.reasons, "cells without a value are filled with means: --impute"),
        )
    size = loaded.place.path.stat().st_size
    return {
        "data": data,
        **found.to_dict(),
        **_plan(found, data, labels, constraints, size),
        "command": found.command(data, labels=labels, constraints=constraints),
        "notes": recorder.remarks,
        "warnings": list(recorder.warnings),
    }


def _load(data: str, advance: stream.Advance) -> tuple[formats.Data, str]:
    """The data, and what is told of missing values, which means stand for here."""
    try:
        return formats.load(data, advance=advance, lazy_above=LAZY_ABOVE), ""
    except MissingValuesError as error:
        filled = Preparation(impute="mean")
        return formats.load(data, None, advance, LAZY_ABOVE, filled), str(error)


def _plan(
    found: Suggestion, data: str, labels: str | None, constraints: str | None, size: int
) -> dict[str, Any]:
    """Seconds and peak memory of the run; nothing where its memory does not suffice."""
    command, name = SHELL[found.method]
    asked: dict[str, Any] = {
        "data": data,
        "output": "",
        "method": name,
        "params": {key: value for key, value in found.parameters.items() if key not in _ASIDE},
        "memory": found.seen.memory,
        "steps": found.preparation,
        "labels": None if name == "ncut" else labels,
    }
    job: ClusterJob | PropagateJob
    if command == "propagate":
        job = PropagateJob(**asked)
    else:
        pairs = None if name == "ncut" else constraints
        job = ClusterJob(n_clusters=found.seen.count.k, constraints=pairs, **asked)
    edges = 0 if found.seen.kind == "points" else 2 * found.seen.links.edges
    shape = Shape(found.seen.n, found.seen.d, edges, size)
    try:
        plan = plan_job(job, shape=shape, speed=measured_speed())
    except InputError:  # too little memory, which is among the doubts
        return {"seconds": None}
    told = plan.to_dict()
    return {name: told[name] for name in ("seconds", "seconds_are", "why", "peak_bytes")}
