"""What every job from files to a file does: look, lock, read, fit, write whole, tell.

A kind of job (`clustering`, `propagation`) says what it reads beside the data, how it is fitted and
what it answers; everything else is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.resident import peak_bytes, size_text
from mustlink.errors import InputError
from mustlink.observe import Observer, Recorder
from mustlink.workspace.keeper import digest
from mustlink_io import formats
from mustlink_io.formats import annotate, stream
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.file_names import FORMS
from mustlink_io.hdf5.locks import locked
from mustlink_io.hdf5.plain_json import to_json
from mustlink_io.hdf5.work_folder import WorkFolder, entries, folder_of, remove, remove_leftovers
from mustlink_io.jobs.class_names import names_content, with_class_names
from mustlink_io.jobs.methods import GRAPH_OPTIONS, Method, flag
from mustlink_io.jobs.planning import LAZY, Plan, plan_job
from mustlink_io.jobs.provenance import stage_rows, versions
from mustlink_io.jobs.side_information import class_shares

_WORTH = 10.0  # seconds of computing that are kept for another run without being asked to

# Keys of a result that have a place of their own in the file, outside /report.
_APART = (
    "parameters",
    "versions",
    "inputs",
    "stages",
    "output",
    "eigenvalues",
    "classes",
    "class_names",
)

# Endings of other formats, which HDF5 under their name would be taken for.
_NOT_RESULTS = [ending for ending, form in FORMS.items() if form not in ("h5", "h5ad")]


@dataclass(frozen=True, kw_only=True)
class Job(ABC):
    """An estimator to be fitted to a file; `params` holds only what was given.

    `resume` keeps the results of stages after the run, `fresh` ignores those of earlier runs.
    Where the output is AnnData, the data with the result under `key` added, `in_place` lets it be
    the data file itself, and `overwrite` lets what is there under the key be replaced.
    """

    data: str
    output: str
    method: str
    labels: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None
    memory: int | None = None
    resume: bool = False
    fresh: bool = False
    key: str = annotate.KEY
    in_place: bool = False
    overwrite: bool = False

    methods: ClassVar[Mapping[str, Method]]
    common: ClassVar[frozenset[str]]

    @property
    def inputs(self) -> dict[str, str]:
        """Role of every file that is read."""
        given = {"data": self.data, "labels": self.labels, **self._more_inputs()}
        return {role: text for role, text in given.items() if text is not None}

    def _more_inputs(self) -> dict[str, str | None]:
        return {}

    @property
    def target(self) -> annotate.Target | None:
        """Where the result goes if it goes into a copy of the data, as AnnData has it."""
        if formats.parse(self.output).suffix != annotate.ENDING:
            return None
        return annotate.Target(formats.parse(self.data).path, self.output, self.key, self.overwrite)

    @property
    def output_flags(self) -> dict[str, Any]:
        """What a user types for the output."""
        into = self.target is not None
        return {
            "--key": self.key if into else None,
            "--overwrite": (into and self.overwrite) or None,
            **({"--in-place": True} if self.in_place else {"-o": self.output}),
        }

    @property
    def neighbours(self) -> int:
        """Neighbours of a point in the graph that will be made."""
        import mustlink

        usual = getattr(mustlink, self.methods[self.method].estimator).n_neighbors
        return int(self.params.get("n_neighbors", usual))

    def check(self) -> None:
        """Raise InputError for what is wrong without looking into a file."""
        self._check_output()
        method = self.methods[self.method]
        for name in self.params:
            if name not in self.common | method.options:
                able = ", ".join(key for key, m in self.methods.items() if name in m.options)
                raise InputError(
                    f"{flag(name)}: no option of -m {self.method}; it belongs to {able}"
                )
        if "labels" in method.needs and self.labels is None:
            raise InputError(f"-m {self.method}: needs labels of some nodes; give --labels FILE")

    def _check_output(self) -> None:
        place = formats.parse(self.output)
        if place.suffix in _NOT_RESULTS and self.output not in self.inputs.values():
            name = place.path.name
            into = f"--into {self.data} -o {name}" if place.suffix == ".graphml" else name
            raise InputError(
                f"{self.output}: results are written as .h5, or into .h5ad; write out.h5, then: "
                f"mustlink convert out.h5 {into}"
            )
        data = formats.parse(self.data)
        if self.target is not None and data.suffix != annotate.ENDING:
            raise InputError(
                f"{self.output}: is a copy of AnnData with the result in it, but {self.data} is "
                "not AnnData; write .h5"
            )
        if self.target is None:
            for name, given in (
                ("--in-place", self.in_place),
                ("--overwrite", self.overwrite),
                (f"--key {self.key}", self.key != annotate.KEY),
            ):
                if given:
                    raise InputError(f"{name}: is for an output in .h5ad, not {self.output}")

    @abstractmethod
    def read(self, data: formats.Data, labels: formats.Labels | None, recorder: Recorder) -> Any:
        """Read what else there is, checked against the data; raises InputError."""

    def parameters(self, side: Any) -> dict[str, Any]:
        """Parameters of the estimator, where given; `side` is what `read` returned."""
        return {"random_state": 0, **self.params}

    def with_class_shares(
        self, params: dict[str, Any], labels: NDArray[np.int64]
    ) -> dict[str, Any]:
        """Parameters in which --class-shares are one number a class, called as the engine does."""
        if "class_shares" not in params:
            return params
        shares = class_shares(params["class_shares"], labels)
        rest = {name: value for name, value in params.items() if name != "class_shares"}
        return {**rest, "class_mass": shares}

    @abstractmethod
    def fit(self, estimator: Any, data: Any, side: Any, recorder: Recorder) -> None:
        """Fit to the data with what `read` returned."""

    @abstractmethod
    def outcome(self, estimator: Any, side: Any) -> dict[str, Any]:
        """What the summary and `--json` tell beside the report."""

    @abstractmethod
    def content(self, estimator: Any, side: Any) -> dict[str, Any]:
        """Answers, and what they were asked to obey, as entries of the result file."""


def run(job: Job, observer: Observer) -> dict[str, Any]:
    """From a file to a file; returns what the summary and `--json` show.

    The output is checked before anything is read and written only when all is done; what stages
    found is kept in a folder beside it, from which a run that was killed goes on. Raises
    InputError, also where another run writes the same output.
    """
    job.check()
    paths = {role: formats.parse(text).path for role, text in job.inputs.items()}
    for path in paths.values():
        store.check_readable(path)
    inputs = [path for path in paths.values() if not (job.in_place and path == paths["data"])]
    target = store.check_output(job.output, inputs)
    if job.target is not None:
        annotate.check(job.target)
    planned = None if job.memory is None else plan_job(job)  # refuses what cannot fit
    with locked(job.output):
        remove_leftovers(target)
        return _run(job, paths, Recorder(observer), planned)


def _run(
    job: Job, paths: Mapping[str, Path], recorder: Recorder, planned: Plan | None
) -> dict[str, Any]:
    """The part of `run` that needs the lock."""
    wanted: formats.Kind | None = "graph" if job.params.get("affinity") == "precomputed" else None
    with recorder.stage("reading") as advance:
        lazy_above = None if job.memory is None else job.memory // LAZY
        data = formats.load(job.data, wanted, advance, lazy_above)
        labels = None
        if job.labels is not None:
            pixels = None if data.image is None else data.image.shape[:2]
            n_nodes = int(data.value.shape[0])
            labels = formats.load_classes(job.labels, n_nodes, data.names, pixels)
        side = job.read(data, labels, recorder)
    for note in (*data.notes, *(() if labels is None else labels.notes)):
        recorder.note(note)
    inputs = _checksums(job, paths, recorder)
    source = digest((inputs[0]["sha256"], data.place.part, data.kind))
    work = WorkFolder(folder_of(job.output), source, fresh=job.fresh)
    estimator = _estimator(job, data, side).keep_in(work)
    try:
        job.fit(estimator, data.value, side, recorder)
    except InputError:
        _put_away(job, work, recorder)
        raise
    with recorder.stage("looking at the result"):
        outcome = with_class_names(job.outcome(estimator, side), labels)
        content = {**job.content(estimator, side), **names_content(data, labels, estimator)}
        if data.image is not None and job.target is None:
            content["/image"] = data.image
    stages = stage_rows(recorder)  # those of the fit among them
    result = {
        **estimator.report_.to_dict(),
        "output": job.output,
        "data": {"kind": data.kind, "shape": list(data.value.shape)},
        **outcome,
        **{key[1:]: value for key, value in content.items() if key == "/class_names"},
        "parameters": {"method": job.method, **estimator.get_params()},
        "versions": versions(),
        "inputs": inputs,
        "stages": stages,
        "seconds": sum(stage["seconds"] for stage in stages),
        "peak_bytes": max(stage["peak_bytes"] for stage in stages),
        "notes": list(recorder.notes) + work.troubles,
        "stages_from_before": work.recalled,
        "planned_peak_bytes": None if planned is None else planned.peak_bytes,
    }
    with recorder.stage("writing"):
        notes = _write(job, {**content, **run_content(result)})
    for note in notes:
        recorder.note(note)
        result["notes"].append(note)
    for trouble in work.troubles:
        recorder.note(trouble)
    result["work"] = _put_away(job, work, recorder)
    result["seconds"] += recorder.stages[-1].seconds
    result["peak_bytes"] = peak_bytes()
    if job.memory is not None and result["peak_bytes"] > job.memory:
        note = (
            f"memory: {size_text(result['peak_bytes'], up=True)} were taken, more than the "
            f"{size_text(job.memory)} allowed"
        )
        recorder.note(note)
        result["notes"].append(note)
    return result


def _write(job: Job, content: Mapping[str, Any]) -> list[str]:
    """Write the result file, or a copy of the data with the result in it; returns notes."""
    if job.target is None:
        store.write(job.output, content)
        return []
    return annotate.annotate(job.target, {**content, "/@mustlink-version": versions()["mustlink"]})


def _estimator(job: Job, data: formats.Data, side: Any) -> Any:
    """The estimator with its parameters; a graph as data leaves no choice of neighbours."""
    import mustlink

    params = job.parameters(side)
    if data.kind == "graph":
        for name in sorted(GRAPH_OPTIONS & set(params)):
            if (name, params[name]) != ("affinity", "precomputed"):
                raise InputError(f"{data.place}: is a graph; leave out {flag(name)} {params[name]}")
        params["affinity"] = "precomputed"
    made = getattr(mustlink, job.methods[job.method].estimator, None)
    if made is None:
        raise InputError(f"-m {job.method}: not in this version of mustlink; choose another")
    return made(n_jobs=job.threads, memory=job.memory, **params)


def _put_away(job: Job, work: WorkFolder, recorder: Recorder) -> dict[str, Any] | None:
    """Remove the work folder unless it is wanted or worth it; tells what is left."""
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


def _checksums(job: Job, paths: Mapping[str, Path], recorder: Recorder) -> list[dict[str, Any]]:
    found = []
    digests: dict[Path, str] = {}  # labels may be in the file of the data
    with recorder.stage("checksums") as advance:
        for role, path in paths.items():
            if path not in digests:
                digests[path] = stream.sha256(path, advance)
            size, digest = path.stat().st_size, digests[path]
            found.append({"role": role, "name": job.inputs[role], "bytes": size, "sha256": digest})
    return found


def run_content(result: Mapping[str, Any]) -> dict[str, Any]:
    """How a result was made, as entries of the result file."""
    stages = result["stages"]
    return {
        "/stages/name": [stage["name"] for stage in stages],
        "/stages/seconds": np.array([stage["seconds"] for stage in stages], dtype=float),
        "/stages/peak_bytes": np.array([stage["peak_bytes"] for stage in stages], dtype=np.int64),
        "/report": to_json({key: v for key, v in result.items() if key not in _APART}),
        **{f"/@{key}": to_json(result[key]) for key in ("parameters", "versions", "inputs")},
    }
