"""A method for data in files: what the engine suggests, its command, how long it will take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from mustlink.advice.suggest import Suggestion
from mustlink.constraints import Constraints
from mustlink.context.rates import measured_speed
from mustlink.core.observe import Observer, Recorder
from mustlink.core.resources import AUTO
from mustlink.errors import InputError
from mustlink.preprocessing.fitted import MissingValuesError
from mustlink.preprocessing.mixed import FittedTable
from mustlink.preprocessing.request import Preparation
from mustlink_io import formats
from mustlink_io.formats.points import Advance, Apart, columns_apart
from mustlink_io.jobs.fits import ClusterJob, PropagateJob
from mustlink_io.jobs.job import Job
from mustlink_io.jobs.methods import METHODS, PROPAGATORS
from mustlink_io.jobs.on_disk import Shape
from mustlink_io.jobs.planning import plan_job
from mustlink_io.jobs.side_information import labels_of, load_constraints, views_of

_COMPONENTS = 50  # of texts
LAZY_ABOVE = 1 << 29  # bytes of points from which a sample is read, not all of them


def suggest_for(
    data: str,
    observer: Observer,
    *,
    n_clusters: int | None = None,
    labels: str | None = None,
    constraints: str | None = None,
    memory: int | str | None = AUTO,
    sample_weight: str | None = None,
    views: tuple[str, ...] = (),
    read_as: Literal["points", "bipartite"] | None = None,
    text: str | None = None,
    ids: str | None = None,
    drop: tuple[str | int, ...] = (),
) -> dict[str, Any]:
    """What `Suggestion.to_dict` tells, with the command, seconds and peak memory of the run.

    `read_as` is as for `Job`. `sample_weight` is a file that says how often every row counts: it is
    checked, its column is no coordinate, and the command has it; in the look at the data every row
    counts once. `views` are files of other graphs of the nodes: a graph is looked at together with
    them, points alone. Columns `drop` are left out. Points of more than half a gigabyte in HDF5 are
    checked block by block and a sample is kept. Raises InputError.
    """
    from mustlink import suggest

    recorder = Recorder(observer)
    with recorder.stage("reading") as advance:
        apart = columns_apart(data, labels, sample_weight, ids)
        if text is not None and read_as is not None:
            raise InputError(f"--as {read_as}: --text reads texts as points; leave it out")
        want = read_as if text is None else formats.TextColumn(text)
        loaded, before = _load(data, want, advance, apart, drop)
        for note in loaded.notes:
            recorder.note(note)
        n_nodes = int(loaded.value.shape[0]) + loaded.left_out
        codes = None
        if labels is not None:
            pixels = None if loaded.image is None else loaded.image.shape[:2]
            read = labels_of(labels, loaded, pixels, data)
            codes = read.codes
            read.report(recorder)
        known = load_constraints(codes, constraints, n_nodes, loaded.names, labels)
        if sample_weight is not None:
            formats.load_weights(sample_weight, loaded.n_rows, loaded.names, data)
            recorder.note("--weights: in this look at the data every row counts once")
    shape = None
    if text is not None:
        if known is not None and loaded.kept is not None:
            known = known[loaded.kept]
        loaded, shape = _reduced(loaded, recorder)
    value = _with_views(loaded, views, known, recorder) if views else loaded.value
    columns = loaded.columns
    if columns and loaded.fitted is not None:  # those of one word keep the name of all of them
        columns = tuple(columns[at] for at in loaded.fitted.sources)
    found = suggest(
        value,
        constraints=known,
        n_clusters=n_clusters,
        memory=memory,
        feature_names=columns,
        observer=recorder,
        prepared=isinstance(loaded.fitted, FittedTable),
    )
    steps = _in_the_file(found.preparation, before, loaded)
    for warning in loaded.warnings:
        if not any(f": its column {name!r} is taken" in warning for name in steps.drop):
            recorder.warn(warning)
    filled = ("cells without a value are filled with means: --impute",) if before.impute else ()
    reasons = (*found.reasons, *filled)
    found = replace(found, seen=replace(found.seen, preparation=steps), reasons=reasons)
    files: dict[str, Any] = {"labels": labels, "sample_weight": sample_weight, "views": views}
    job = job_of(found, data, constraints, **files, read_as=read_as, text=text, ids=ids)
    return {
        "data": data,
        **found.to_dict(),
        **_plan(found, job, loaded.place.path.stat().st_size, shape),
        "command": job.command,
        "notes": recorder.remarks,
        "warnings": [*found.warnings, *recorder.warnings],
    }


def _with_views(
    loaded: formats.InputData, views: tuple[str, ...], known: Constraints | None, recorder: Recorder
) -> Any:
    """The affinity that a graph and the others of its nodes make together; of points these."""
    from mustlink import NCut
    from mustlink.estimators.fit_input import graphs_of_views
    from mustlink.graph import Graph
    from mustlink.graph.several import one_of, several

    others = views_of(views, loaded, recorder, sparse=True)
    if loaded.kind == "points":
        recorder.note("--view: this look is at the points alone; the command has the other graphs")
        return loaded.value
    first = Graph.from_affinity(loaded.value)
    values = Constraints.none(first.n_nodes) if known is None else known
    estimator = NCut(affinity="precomputed", random_state=0)
    graphs = graphs_of_views(estimator, first, others.get("graphs"), others.get("views"), recorder)
    joined = several(first, graphs, lambda graph: values)
    return one_of(first, joined, "auto", 0, recorder).affinity


def _load(
    data: str,
    want: formats.Want | None,
    advance: Advance,
    apart: tuple[Apart, ...],
    drop: tuple[str | int, ...],
) -> tuple[formats.InputData, Preparation]:
    """The data, and what must be done to all of its columns before they can be looked at."""
    steps = Preparation(drop=drop)
    while True:
        try:
            return formats.load(data, want, advance, LAZY_ABOVE, steps, apart), steps
        except MissingValuesError:
            if steps.impute is not None:
                raise
            steps = replace(steps, impute="mean")


def _in_the_file(steps: Preparation, before: Preparation, loaded: formats.InputData) -> Preparation:
    """Both, with columns called as the file does: by names where these are no lists themselves."""
    sources = None if loaded.fitted is None else loaded.fitted.sources

    def called(at: str | int) -> str | int:
        place = int(at) if sources is None else int(sources[int(at)])
        if not loaded.columns:
            return place
        name = loaded.columns[place]
        plain = loaded.columns.count(name) == 1 and name == name.strip() and "," not in name
        return name if plain and name else place

    drop = (*before.drop, *(called(at) for at in steps.drop))
    return replace(steps, impute=before.impute, drop=drop)


def _reduced(loaded: formats.InputData, recorder: Recorder) -> tuple[formats.InputData, Shape]:
    """Texts as dense rows of length 1, which the look at points needs, and their own shape."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    n, d = loaded.value.shape
    shape = Shape(n, d, 0, loaded.place.path.stat().st_size, entries=int(loaded.value.nnz))
    few = min(_COMPONENTS, n - 1, d - 1)
    if few < 1:
        raise InputError(f"{loaded.place}: a single word in all texts, nothing to look at")
    rows = TruncatedSVD(few, random_state=0).fit_transform(loaded.value)
    recorder.note(f"--text: this look is at {few} components, the command has all words")
    return replace(loaded, value=normalize(rows).astype(np.float32)), shape


def _plan(found: Suggestion, job: Job, size: int, shape: Shape | None) -> dict[str, Any]:
    edges = 0 if found.seen.kind == "points" else 2 * found.seen.links.edges
    shape = shape or Shape(found.seen.n, found.seen.d, edges, size)
    try:
        plan = plan_job(job, shape=shape, speed=measured_speed())
    except InputError:  # too little memory, which is among the warnings
        return {"seconds": None}
    values = plan.to_dict()
    return {name: values[name] for name in ("seconds", "seconds_are", "why", "peak_bytes")}


def method_of(estimator: str) -> tuple[str, str]:
    """Command and `-m` of an estimator of the engine."""
    tables = {"cluster": METHODS, "propagate": PROPAGATORS}
    return next(
        (command, name)
        for command, table in tables.items()
        for name, method in table.items()
        if method.estimator == estimator
    )


def job_of(found: Suggestion, data: str, constraints: str | None = None, **more: Any) -> Job:
    """The suggested fit with files, `more` of which are fields of `Job`."""
    command, name = method_of(found.method)
    params = {key: value for key, value in found.parameters.items() if value is not None}
    params.pop("affinity", None)  # the file says what it is
    memory = found.seen.memory if params.pop("memory", None) else AUTO
    k = params.pop("n_clusters", None)
    if name == "ncut":
        constraints = more["labels"] = None
    fields: dict[str, Any] = {"data": data, "output": "out.h5", "method": name, **more}
    fields |= {"params": params, "memory": memory, "steps": found.preparation}
    if command == "propagate":
        return PropagateJob(**fields)
    return ClusterJob(n_clusters=k, constraints=constraints, **fields)
