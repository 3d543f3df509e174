"""What every job from files to a file does: look, lock, read, fit, write whole, tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.fit_plan import HELD_OUT, Plan
from mustlink.context.method_cost import held_out_seconds, sample_bytes
from mustlink.context.stage_cache import digest
from mustlink.core.observe import Deadline, Observer, Recorder
from mustlink.core.resources import AUTO, Allowed, peak_bytes, size_text
from mustlink.core.state import chosen
from mustlink.errors import InputError, OutOfMemoryError
from mustlink.graph import Graph
from mustlink.neighbors.affinities import PRECOMPUTED
from mustlink.persistence.model import state_of
from mustlink_io import formats
from mustlink_io.formats import anndata, tables
from mustlink_io.formats.points import Advance
from mustlink_io.hdf5 import model_tree, store, writing
from mustlink_io.hdf5.locks import locked
from mustlink_io.hdf5.result import Input, Result, ResultReport
from mustlink_io.hdf5.work_folder import WorkFolder, entries, folder_of, remove, remove_leftovers
from mustlink_io.hdf5.writing import to_json
from mustlink_io.jobs import on_disk
from mustlink_io.jobs.carried import Carried, named_in, note_lost
from mustlink_io.jobs.diagnostics import stages_of, versions
from mustlink_io.jobs.job import Job
from mustlink_io.jobs.methods import GRAPH_OPTIONS, flag, keeps_sparse
from mustlink_io.jobs.planning import beyond, check_room, plan_job, settled_here
from mustlink_io.jobs.points import reference_of
from mustlink_io.jobs.side_information import labels_of, views_of

_TOO_LITTLE = f"{HELD_OUT}: none, as "  # the time is up, or the memory


def look(
    labels: NDArray[np.int64] | None, estimator: Any, data: formats.InputData, recorder: Recorder
) -> dict[str, Any] | None:
    """What is found, for a report; None where there is nothing to compare, or no room or time."""
    from mustlink.advice.baseline import baseline

    sparse = sp.issparse(data.value)  # rivals know dense columns
    if labels is None or data.kind == "graph" or data.image is not None or sparse:
        return None
    (n, d), cost = data.value.shape, estimator.cost()
    classes = int(labels.max(initial=0)) + 1
    if recorder.deadline.remaining() < held_out_seconds(n, classes, cost):
        recorder.note(f"{_TOO_LITTLE}the time is up")
        return None
    try:
        recorder.budget.ask(sample_bytes(n, d, classes, cost), HELD_OUT)
        with recorder.stage(HELD_OUT):
            found = baseline(data.value, labels, estimator)
    except OutOfMemoryError as error:
        recorder.note(f"{_TOO_LITTLE}{error}")
        return None
    if found is None:
        return None
    if found.doubt is not None:
        recorder.warn(found.doubt)
    return found.to_dict()


_WORTH = 10.0  # seconds of computing that are kept for another run in any case
_IN_JSON = ("/eigenvalues", "/classes", "/class_names")  # of the answer, in words and JSON, too


def run(job: Job, observer: Observer, executor: Executor | None = None) -> Result:
    """From a file to a file; returns what the summary and `--json` show.

    Workers of an `executor` search neighbours of points.

    The output is checked before anything is read and written only when all is done; what stages
    found is kept in a folder beside it, from which a run that was killed goes on. Raises
    InputError, also where another run writes the same output.
    """
    deadline = Deadline.of(job.time_limit, job.began)
    job.check()
    paths = {role: formats.parse(text).path for role, text in job.inputs.items()}
    for role, path in paths.items():
        of_data = role == "data" and (job.text is not None or bool(tables.parquet_files(path)))
        store.check_readable(path, folder=of_data or role.startswith("view "))
    inputs = [path for path in paths.values() if not (job.in_place and path == paths["data"])]
    target = writing.check_output(job.output, inputs)
    if job.target is not None:
        anndata.check(job.target)
    allowed, planned = settled_here(job)  # refuses what cannot fit
    if planned is not None:
        check_room(planned, job.output)
    recorder = Recorder(observer, deadline)
    with locked(job.output):
        remove_leftovers(target)
        remove(folder_of(job.output), ())
        if job.time_limit is not None:
            for sentence in beyond(planned or plan_job(job), job.time_limit):
                recorder.note(sentence)
        return _run(job, allowed, paths, recorder, planned, executor)


def _run(
    job: Job,
    allowed: Allowed | None,
    paths: Mapping[str, Path],
    recorder: Recorder,
    planned: Plan | None,
    executor: Executor | None,
) -> Result:
    with recorder.stage("reading") as advance:
        data, labels = _read(job, advance, planned, executor)
        job = job.settled(is_graph=data.kind == "graph")
        side = job.read(data, labels, recorder)
        if labels is not None and data.kept is not None:
            known = labels.codes >= 0
            note_lost(recorder, "labels", int(known.sum()), int(known[data.kept].sum()))
        weights = None
        if job.sample_weight is not None:
            weights = formats.load_weights(job.sample_weight, data.n_rows, data.names, job.data)
            weights = weights if data.kept is None else weights[data.kept]
    _tell(job, data, labels, recorder)
    inputs = _checksums(job, paths, recorder)
    apart = [f"{one.option} {one.name}" for one in job.apart]
    read = (inputs[0].sha256, data.place.part, data.kind, job.wanted, *job.steps.options(), *apart)
    source = digest(read)
    work = WorkFolder(folder_of(job.output), source, fresh=job.fresh)
    estimator = _estimator(job, allowed, data, side).keep_in(work).search_on(executor)
    more: dict[str, Any] = {"observer": recorder, "sample_weight": weights}
    try:
        value = data.to_fit(digest(("graph of rows", source)))
        if job.views:
            with recorder.stage("reading the other graphs"):
                more |= _views(job, data, inputs, source, recorder)
        job.fit(estimator, value, side, **more)
    except InputError:
        _put_away(job, work, recorder)
        raise
    whole, estimator = estimator, chosen(estimator)
    found = look(job.labels_of(side), estimator, data, recorder)
    more_found = job.more_findings(estimator, recorder)
    with recorder.stage("looking at the result"):
        beside = Carried.of_files(data, labels, job.extras)
        beside.prepare(estimator)
        content, outcome = beside.beside(estimator, *job.answers(estimator, side))
        if data.fitted is not None:
            content["/@preparation"] = to_json(data.fitted.to_dict())
        if data.image is not None and job.target is None:
            content["/image"] = data.image
        work.settle()
    findings = {
        **outcome,
        **more_found,
        "baseline": found,
        "data": {"kind": data.kind, "shape": list(data.value.shape)},
        "notes": [*recorder.remarks, *work.troubles],
        "warnings": list(recorder.warnings),
        "stages_from_before": work.recalled,
        "planned_peak_bytes": None if planned is None else planned.peak_bytes,
    }
    parameters = {**estimator.get_params(), "method": job.method}
    if not job.steps.is_nothing:
        parameters["preparation"] = job.steps.to_dict()
    result = result_of(estimator, findings, content, recorder, parameters, inputs)
    model = _model(job, whole.prepared_by(data.fitted), data, inputs)
    with recorder.stage("writing"):
        notes = _write(job, {**content, **result.content()}, model)
    for note in (*notes, *work.troubles):
        recorder.note(note)
    kept = _put_away(job, work, recorder)
    peak = peak_bytes()
    limit = allowed.limit if allowed is not None and allowed.enforced else None
    if limit is not None and peak > limit:
        notes.append(
            f"memory: {size_text(peak, up=True)} were taken, more than the "
            f"{size_text(limit)} allowed"
        )
        recorder.note(notes[-1])
    seconds = result.seconds + recorder.stages[-1].seconds
    return result.finished(*notes, output=job.output, seconds=seconds, peak_bytes=peak, work=kept)


def _tell(
    job: Job, data: formats.InputData, labels: formats.Labels | None, recorder: Recorder
) -> None:
    """Record notes and warnings on what was read."""
    data.report(recorder)
    for note in job.remarks:
        recorder.note(note)
    if labels is not None:
        labels.report(recorder)


def _views(
    job: Job, data: formats.InputData, inputs: Sequence[Input], source: str, recorder: Recorder
) -> dict[str, Any]:
    """The other columns or graphs of the nodes; graphs with names by which results are kept."""
    found = views_of(job.views, data, recorder, sparse=keeps_sparse(job.params))
    (values,) = found.values()
    values = list(values.values()) if isinstance(values, dict) else values
    for value, text, one in zip(values, job.views, inputs[-len(job.views) :], strict=True):
        if isinstance(value, Graph):
            value.derived.origin = digest(("view", text, one.sha256, source))
    return found


def _read(
    job: Job, advance: Advance, planned: Plan | None, executor: Executor | None
) -> tuple[formats.InputData, formats.Labels | None]:
    if planned is not None and planned.on_disk:
        data = on_disk.load(job, planned.memory)
    else:
        by_blocks = executor is not None or (planned is not None and planned.lazy)
        by_blocks = by_blocks or job.params.get("representatives") is not None
        lazy_above = 0 if by_blocks else None  # workers read the file, too
        how: dict[str, Any] = {"steps": job.steps, "apart": job.apart, "sparse": job.takes_sparse}
        data = formats.load(job.data, job.wanted, advance, lazy_above, **how)
    if executor is not None and data.kind == "graph":
        what = "is a graph, whose neighbours are known"
        raise InputError(f"{data.place}: {what}; leave out --workers and --scheduler")
    if job.labels is None:
        return data, None
    pixels = None if data.image is None else data.image.shape[:2]
    return data, labels_of(job.labels, data, pixels, job.data, strict=job.strict)


def result_of(
    estimator: Any,
    outcome: Mapping[str, Any],
    content: Mapping[str, Any],
    recorder: Recorder,
    parameters: Mapping[str, Any],
    inputs: Sequence[Input],
) -> Result:
    """What the file will tell: of the fit, of what was found out besides, of all stages so far."""
    stages = stages_of(recorder)  # those of the fit among them
    findings = {
        **estimator.report_.to_dict(),
        "seconds": sum(stage.seconds for stage in stages),
        "peak_bytes": max((stage.peak_bytes for stage in stages), default=0),
        **outcome,
    }
    names = dict(enumerate(content.get("/class_names", ())))
    if "/classes" not in content:
        findings["warnings"] = named_in(findings["warnings"], names)
    del findings["stages"]
    return Result(
        report=ResultReport.of(findings),
        stages=stages,
        parameters=dict(parameters),
        versions=versions(),
        inputs=list(inputs),
        **{name[1:]: np.asarray(content[name]).tolist() for name in _IN_JSON if name in content},
    )


def _model(
    job: Job, estimator: Any, data: formats.InputData, inputs: Sequence[Input]
) -> dict[str, Any] | None:
    """By what the estimator can be made again, its points those of their file; None for nothing."""
    if job.no_model or job.target is not None or not isinstance(chosen(estimator).graph_, Graph):
        return None
    if estimator.graph_.shares is not None and estimator.graph_.shares.near is None:
        return None  # as on disk: what grows with the rows is not held
    read = (job.data, inputs[0].sha256, job.wanted, job.steps, job.apart, data.value)
    return state_of(estimator, points=reference_of(*read) if data.kind == "points" else None)


def _write(job: Job, content: Mapping[str, Any], model: Any) -> list[str]:
    """Write the result file, or a copy of the data with the result in it; returns notes."""
    if job.target is None:
        writing.write(job.output, content, None if model is None else model_tree.writer(model))
        return []
    return anndata.annotate(job.target, {**content, "/@mustlink-version": versions()["mustlink"]})


def _estimator(job: Job, allowed: Allowed | None, data: formats.InputData, side: Any) -> Any:
    """The estimator with its parameters; a graph as data leaves no choice of neighbours.

    Where memory was not named, it is told what was decided, if that was done.
    """
    limits: dict[str, Any] = {"n_jobs": job.threads, "time_limit": job.time_limit}
    limits["memory"] = AUTO if allowed is None or allowed.source else allowed.limit
    if data.kind != "graph":
        if sp.issparse(data.value):  # also where it is square: what it is has been decided
            limits["affinity"] = "knn"
        return job.estimator(side, **limits).allow(allowed)
    for name in sorted(GRAPH_OPTIONS & set(job.params)):
        value = job.params[name]
        if name != "affinity" or value not in PRECOMPUTED:
            raise InputError(f"{data.place}: is a graph; leave out {flag(name)} {value}")
    return job.estimator(side, **limits, affinity="precomputed").allow(allowed)


def _put_away(job: Job, work: WorkFolder, recorder: Recorder) -> dict[str, Any] | None:
    """Remove the work folder unless it is wanted or worth it; tells what is left."""
    work.settle()
    found = entries(work.folder)
    others = [one for one in found if one.path not in work.used]
    wanted = job.resume or any(not one.is_stale(work.source) for one in others)
    if not wanted and sum(one.seconds for one in found) < _WORTH:
        remove(work.folder)
        return None
    if not found:
        return None
    total, unused = (sum(one.bytes for one in some) for some in (found, others))
    more = f", {len(others)} of them ({unused / 1e6:.0f} MB) not from this run" if others else ""
    recorder.note(
        f"{len(found)} results of stages ({total / 1e6:.0f} MB{more}) are kept in {work.folder} "
        f"for another run; remove them by: mustlink clean {job.output}"
    )
    return {"folder": str(work.folder), "results": len(found), "bytes": total}


def _checksums(job: Job, paths: Mapping[str, Path], recorder: Recorder) -> list[Input]:
    found = []
    digests: dict[Path, str] = {}  # labels may be in the file of the data
    with recorder.stage("checksums") as advance:
        for role, path in paths.items():
            if path not in digests:
                digests[path] = formats.sha256(path, advance)
            size = sum(one.stat().st_size for one in formats.files_of(path))
            digest = digests[path]
            found.append(Input(role=role, name=job.inputs[role], bytes=size, sha256=digest))
    return found
