"""`mustlink propagate --ranks`: every rank reads its rows of a graph, rank 0 writes the result."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import mustlink
from mustlink.eigen.work import RANKS
from mustlink.observe import Observer, Recorder
from mustlink_io import formats
from mustlink_io.hdf5.result import Result
from mustlink_io.hdf5.row_slices import RowSlices
from mustlink_io.jobs.class_names import names_content, with_class_names
from mustlink_io.jobs.methods import GRAPH_OPTIONS, flag, propagators_of
from mustlink_io.jobs.on_ranks import graph_of, left_out, together, write
from mustlink_io.jobs.propagate import PropagateJob, Sides
from mustlink_io.jobs.side_labels import labels_of

Asked = tuple[PropagateJob, RowSlices, formats.Data, formats.Labels, Sides]


def refuse(job: PropagateJob) -> None:
    """Raise InputError for what does not run on ranks, whatever the graph."""
    job.check()
    asked = {
        "--graph": job.graph,
        "--weights": job.sample_weight,
        "--view": job.views,
        "--membership": job.membership,
        "--as": job.read_as,
        "--memory": job.memory,
        "--time": job.time_limit,
        "--resume": job.resume,
        "--refine": job.params.get("refine") is True,
        "--solver dense": job.params.get("solver") == "dense",
        "--key or an output in .h5ad": job.target,
        **{flag(name): name in GRAPH_OPTIONS for name in job.params},
        **dict.fromkeys(job.steps.options(), True),
    }
    for name, given in asked.items():
        if given:
            raise left_out(name)
    if job.method not in (there := propagators_of(RANKS)):
        raise left_out(f"-m {job.method}", f"or choose -m {', '.join(there)}")


def check(job: PropagateJob, ranks: int) -> Asked:
    """The job, its graph and what is told of nodes; InputError for what does not run on ranks."""
    job = job.settled(is_graph=True)
    refuse(job)
    graph = graph_of(job, ranks)
    place, shape = formats.parse(job.data), (graph.n_nodes, graph.n_nodes)
    data = formats.Data("graph", SimpleNamespace(shape=shape), place)
    labels = labels_of(str(job.labels), data, None, job.data)
    side = job.read(data, labels, Recorder())
    _estimator(job, side)._check_home(RANKS)
    return job, graph, data, labels, side


def run(job: PropagateJob, asked: int, observer: Observer) -> Result | None:
    """The part of this rank; the result on rank 0, None on the others; see `on_ranks.run`."""
    return together(job, asked, observer, partial(_propagated, check(job, asked)))


def _estimator(job: PropagateJob, side: Sides) -> Any:
    """The method with its parameters."""
    made: Any = getattr(mustlink, job.methods[job.method].estimator)
    found = made(**job.parameters(side))
    return found


def _propagated(asked: Asked, ranks: Any, observer: Observer) -> Result | None:
    """The part of this rank."""
    from mustlink.eigen.rank_work import RankWork
    from mustlink.propagate.propagator import fit_at

    job, graph, data, labels, side = asked
    work = RankWork.of(graph.read, graph.n_nodes, ranks, observer)
    believed = side.believed or (None, None)
    found = fit_at(_estimator(job, side), work, side.labels, *believed)
    peaks = work.peaks()
    if found is None:
        return None
    report = found.report_
    extra = {**report.extra, "peak_bytes_of_ranks": peaks}
    found.report_ = replace(report, choices={**report.choices, "ranks": ranks.count}, extra=extra)
    outcome = with_class_names(job.outcome(found, side), labels)
    outcome["command"] = f"{job.command} --ranks {ranks.count}"
    content = job.content(found, side) | names_content(data, labels, found)
    parameters = {"method": job.method, "ranks": ranks.count, **job.params}
    return write(job, graph, work.recorder, found, outcome, content, parameters)
