"""`mustlink cluster --ranks`: every rank reads its rows of the graph, rank 0 writes the result."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mustlink.constraints import Constraints
from mustlink.cost.process_memory import cores, peak_bytes
from mustlink.errors import InputError
from mustlink.observe import Observer, Recorder
from mustlink.space.division import Division
from mustlink_io import formats
from mustlink_io.formats import stream
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.locks import locked
from mustlink_io.hdf5.result import Result
from mustlink_io.hdf5.result_parts import Input
from mustlink_io.hdf5.row_slices import RowSlices, row_slices
from mustlink_io.jobs import diagnostics
from mustlink_io.jobs.cluster import ClusterJob
from mustlink_io.jobs.job import Job
from mustlink_io.jobs.methods import AT_SCALE, SPREADING, check_where, flag, made
from mustlink_io.jobs.provenance import now
from mustlink_io.jobs.run import result_of
from mustlink_io.jobs.side_information import load_constraints, refuse_contradictions

_LATER = 0.5  # seconds that others wait with their complaint: rank 0's is the same, mostly


def check(job: ClusterJob, ranks: int) -> tuple[RowSlices, Constraints | None]:
    """The graph, and what is told of it; InputError for what does not run on so many ranks."""
    refuse(job)
    graph = graph_of(job, ranks)
    job.check_count(graph.n_nodes)
    return graph, _side_information(job, graph)


def refuse(job: ClusterJob) -> None:
    """Raise InputError for what does not run on ranks, whatever the graph."""
    job.check()
    if job.method not in AT_SCALE:
        raise left_out(f"-m {job.method}", f"or choose -m {', '.join(AT_SCALE)}")
    if job.n_clusters == "auto":
        raise left_out("-k auto", "or give a number")
    asked = {
        "--weights": job.sample_weight,
        "--view": job.views,
        "--as": job.read_as,
        "--memory": job.memory,
        "--time": job.time_limit,
        "--resume": job.resume,
        "--confidence": job.confidence,
        "--membership": job.membership,
        "--hierarchy": job.hierarchy,
        "--key or an output in .h5ad": job.target,
        "--soft-labels": job.soft_labels,
        **{flag(name): name not in AT_SCALE[job.method] for name in job.params},
        **dict.fromkeys(job.steps.options(), True),
    }
    for name, given in asked.items():
        if given:
            raise left_out(name)
    other_solver = job.params.get("solver", "auto") not in ("auto", "lobpcg")
    if other_solver and job.method not in SPREADING:
        raise left_out(f"--solver {job.params['solver']}", "or take lobpcg")
    if job.params.get("variant") == "shi-malik":
        raise left_out("--variant shi-malik", "or take luxburg or ng")
    if job.method != "ncut":
        check_where(job, "ranks")


def graph_of(job: Job, ranks: int) -> RowSlices:
    """The graph of a job by its header, to be divided among so many ranks; raises InputError."""
    place = formats.parse(job.data)
    if place.suffix not in (".h5", ".hdf5"):
        raise InputError(
            f"{job.data}: ranks read rows of a graph in HDF5; make one by: mustlink graph, or "
            "mustlink convert"
        )
    store.check_readable(place.path)
    store.check_output(job.output, [place.path])
    graph = row_slices(place.path, place.part)
    Division(graph.n_nodes, ranks)
    return graph


def left_out(what: str, other: str = "") -> InputError:
    """What does not run on ranks, and what to do."""
    then = f", {other}" if other else ""
    return InputError(f"{what}: does not run on ranks; leave it out{then}, or leave out --ranks")


@contextmanager
def all_or_none(ranks: int) -> Iterator[Any]:
    """The ranks of this job, all of which end where one fails: with one line, exit code 2 or 1.

    Raises InputError where another number than `ranks` was started.
    """
    from mustlink.eigen.rank_work import world

    found = world()
    try:
        if found.count != ranks:
            raise InputError(
                f"--ranks {ranks}: MPI started {found.count}; start as many, by the mpiexec of the "
                "MPI that mpi4py was built with"
            )
        yield found
    except BaseException as error:
        if found.own:
            time.sleep(_LATER + 0.01 * found.own)
        known = isinstance(error, InputError | OSError | MemoryError)
        if known:
            words = " ".join(str(error).split()) or "out of memory"
            sys.stderr.write(f"mustlink: {words}\n")
        elif not isinstance(error, KeyboardInterrupt | SystemExit):
            traceback.print_exc()
        sys.stderr.flush()
        found.communicator.Abort(2 if known else 1)


def run(job: ClusterJob, asked: int, observer: Observer) -> Result | None:
    """The part of this rank; the result on rank 0, None on the others. Does not return on failure.

    The graph is read as it is: what readers do to one that is not fit for use, they do not do here.
    """
    graph, known = check(job, asked)
    fit = partial(_clustered, job, graph, known)
    return together(job, asked, observer, fit)


def together(
    job: Job, asked: int, observer: Observer, fit: Callable[[Any, Observer], Result | None]
) -> Result | None:
    """What `fit` makes of the ranks, on rank 0; all of them end before anybody goes on."""
    with all_or_none(asked) as ranks:
        observer = observer if ranks.own == 0 else _silent()
        from mustlink.kernels.threads import threads

        writing = locked(job.output) if ranks.own == 0 else nullcontext()
        with writing, threads(job.threads or max(1, cores() // ranks.count)):
            found = fit(ranks, observer)
        ranks.told(None)  # nobody ends before the result is written
    return found


def _silent() -> Observer:
    from mustlink.observe import Unheard

    return Unheard()  # what all ranks doubt alike is told by one


def _side_information(job: ClusterJob, graph: RowSlices) -> Constraints | None:
    """What the job tells of nodes, None for a method that takes nothing; raises InputError."""
    if job.method == "ncut":
        return None
    labels = None if job.labels is None else formats.load_labels(job.labels, graph.n_nodes)
    given = job.constraints, graph.n_nodes, None, job.labels, job.beliefs
    known = load_constraints(labels, *given)
    if known is None:
        raise InputError(f"-m {job.method}: give --labels or --constraints, or choose -m ncut")
    if job.strict:
        refuse_contradictions(known, job.constraints or job.labels)
    return known


def _clustered(
    job: ClusterJob, graph: RowSlices, known: Constraints | None, ranks: Any, observer: Observer
) -> Result | None:
    """The part of this rank."""
    from mustlink.eigen.rank_work import RankWork
    from mustlink.methods.homes import fit_at

    info = {"kind": "precomputed", **graph.info}
    work = RankWork.of(graph.read, graph.n_nodes, ranks, observer, info)
    fitted, k = fit_at(made(job), work, known), int(job.n_clusters)
    report = fitted.report_
    extra = {**report.extra, "peak_bytes_of_ranks": work.peaks()}
    fitted.report_ = replace(report, choices={**report.choices, "ranks": ranks.count}, extra=extra)
    if ranks.own:
        return None
    labels = fitted.labels_
    assigned = labels[labels >= 0]
    outcome = {
        "sizes": np.bincount(assigned, minlength=k).tolist(),
        "unassigned": int(labels.size - assigned.size),
        "command": f"{job.command} --ranks {ranks.count}",
    }
    content = {"/labels": labels, "/embedding": fitted.embedding_}
    content |= {"/eigenvalues": fitted.eigenvalues_}
    content |= diagnostics.side_content(known)
    parameters = {"method": job.method, "n_clusters": k, "ranks": ranks.count, **job.params}
    return write(job, graph, work.recorder, fitted, outcome, content, parameters)


def write(
    job: Job,
    graph: RowSlices,
    recorder: Recorder,
    fitted: Any,
    outcome: dict[str, Any],
    content: dict[str, Any],
    parameters: dict[str, Any],
) -> Result:
    """Write the result, on rank 0: `outcome` and `content` of what was `fitted`."""
    path = formats.parse(job.data).path
    with recorder.stage("checksums") as advance:
        digest = stream.sha256(path, advance)
    inputs = [Input(role="data", name=job.data, bytes=path.stat().st_size, sha256=digest)]
    outcome |= {
        "finished": now(),
        "data": {"kind": "graph", "shape": [graph.n_nodes, graph.n_nodes]},
        "notes": [note for note in recorder.notes if note not in recorder.warnings],
        "warnings": list(recorder.warnings),
    }
    result = result_of(fitted, outcome, content, recorder, parameters, inputs)
    with recorder.stage("writing"):
        store.write(job.output, {**content, **result.content()})
    seconds = result.seconds + recorder.stages[-1].seconds
    return result.told(output=job.output, seconds=seconds, peak_bytes=peak_bytes())
