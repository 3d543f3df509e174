"""One job from files to a file: cluster a data set with what is known about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mustlink.errors import InputError
from mustlink.memory import peak_bytes
from mustlink.observe import Observer, Recorder
from mustlink_io import formats, store, stream
from mustlink_io.methods import COMMON_OPTIONS, METHODS, flag
from mustlink_io.records import stage_rows, to_json, versions
from mustlink_io.sides import load_constraints, tell_contradictions


@dataclass(frozen=True)
class ClusterJob:
    """What `mustlink cluster` was asked to do; `params` holds only what was given."""

    data: str
    output: str
    n_clusters: int
    method: str = "csp"
    labels: str | None = None
    constraints: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False
    threads: int | None = None
    memory: int | None = None

    @property
    def inputs(self) -> dict[str, str]:
        """Role of every file that is read."""
        given = {"data": self.data, "labels": self.labels, "constraints": self.constraints}
        return {role: text for role, text in given.items() if text is not None}

    def check(self) -> None:
        """Raise InputError for what is wrong without looking into a file."""
        method = METHODS[self.method]
        if self.n_clusters < 2:
            raise InputError(f"-k {self.n_clusters}: ask for at least 2 clusters")
        if not method.side_information and (self.labels or self.constraints):
            able = ", ".join(name for name, m in METHODS.items() if m.side_information)
            raise InputError(
                f"-m {self.method}: uses no labels or constraints; choose -m {able}, or leave "
                "them out"
            )
        for name in self.params:
            if name not in COMMON_OPTIONS | method.options:
                able = ", ".join(key for key, m in METHODS.items() if name in m.options)
                raise InputError(
                    f"{flag(name)}: no option of -m {self.method}; it belongs to {able}"
                )


def run_cluster(job: ClusterJob, observer: Observer) -> dict[str, Any]:
    """Cluster a file into a file; returns what the summary and `--json` show.

    The output is checked before anything is read and written only when all is done. Raises
    InputError.
    """
    import mustlink

    job.check()
    paths = {role: formats.parse(text).path for role, text in job.inputs.items()}
    for path in paths.values():
        store.check_readable(path)
    store.check_output(job.output, paths.values())
    _check_budget(job)
    recorder = Recorder(observer)
    wanted: formats.Kind | None = "graph" if job.params.get("affinity") == "precomputed" else None
    with recorder.stage("reading") as advance:
        data = formats.load(job.data, wanted, advance)
        n_nodes = int(data.value.shape[0])
        if job.n_clusters > n_nodes:
            raise InputError(f"-k {job.n_clusters}: more clusters than the {n_nodes} nodes")
        constraints = load_constraints(job.labels, job.constraints, n_nodes)
    if constraints is not None:
        tell_contradictions(constraints, recorder, job.strict)
    inputs = _checksums(job, paths, recorder)

    params = {"random_state": 0, **job.params}
    if data.kind == "graph":
        if params.get("affinity", "precomputed") != "precomputed":
            raise InputError(f"{data.place}: is a graph; leave out --affinity {params['affinity']}")
        params["affinity"] = "precomputed"
    estimator = getattr(mustlink, METHODS[job.method].estimator)(
        n_clusters=job.n_clusters, n_jobs=job.threads, **params
    )
    estimator.fit(data.value, constraints=constraints, observer=recorder)

    result = _summary(job, estimator, recorder, inputs)
    with recorder.stage("writing"):
        store.write(job.output, result_content(estimator, result))
    result["seconds"] += recorder.stages[-1].seconds
    result["peak_bytes"] = peak_bytes()
    if job.memory is not None and result["peak_bytes"] > job.memory:
        note = (
            f"memory: {result['peak_bytes'] / 1e9:.2f} GB were taken, more than the "
            f"{job.memory / 1e9:.2f} GB allowed"
        )
        recorder.note(note)
        result["notes"].append(note)
    return result


def _checksums(
    job: ClusterJob, paths: Mapping[str, Path], recorder: Recorder
) -> list[dict[str, Any]]:
    found = []
    with recorder.stage("checksums") as advance:
        for role, path in paths.items():
            digest = stream.sha256(path, advance)
            size = path.stat().st_size
            found.append({"role": role, "name": job.inputs[role], "bytes": size, "sha256": digest})
    return found


def _check_budget(job: ClusterJob) -> None:
    """Refuse a budget below what the data alone needs: a lower bound, not an estimate."""
    if job.memory is None:
        return
    shape = formats.declared_shape(job.data)
    least = peak_bytes()
    if shape is not None and len(shape) == 2 and shape[0] != shape[1]:
        neighbours = int(job.params.get("n_neighbors", 15))
        least += 4 * shape[0] * shape[1] + 8 * shape[0] * neighbours  # float32; weight and index
    if least > job.memory:
        raise InputError(
            f"--memory: {job.memory / 1e9:.2f} GB given, but program, points and graph alone need "
            f"{least / 1e9:.2f} GB"
        )


def _summary(
    job: ClusterJob, estimator: Any, recorder: Recorder, inputs: list[dict[str, Any]]
) -> dict[str, Any]:
    report = estimator.report_.to_dict()
    labels = np.asarray(estimator.labels_)
    assigned = labels[labels >= 0]
    stages = stage_rows(recorder)  # those of the fit among them
    given = estimator.get_params() if hasattr(estimator, "get_params") else dict(job.params)
    return {
        **report,
        "output": job.output,
        "sizes": np.bincount(assigned, minlength=job.n_clusters).tolist(),
        "unassigned": int(labels.size - assigned.size),
        "eigenvalues": _eigenvalues(estimator).tolist(),
        "parameters": {"method": job.method, **given},
        "versions": versions(),
        "inputs": inputs,
        "stages": stages,
        "seconds": sum(stage["seconds"] for stage in stages),
        "peak_bytes": max(stage["peak_bytes"] for stage in stages),
        "notes": list(recorder.notes),
    }


def _eigenvalues(estimator: Any) -> np.ndarray:
    """Empty for a method that has none."""
    return np.asarray(getattr(estimator, "eigenvalues_", ()), dtype=float)


def result_content(estimator: Any, result: Mapping[str, Any]) -> dict[str, Any]:
    """Entries of the result file."""
    stages = result["stages"]
    apart = ("parameters", "versions", "inputs", "stages", "eigenvalues", "output")
    return {
        "/labels": np.asarray(estimator.labels_),
        "/embedding": np.asarray(estimator.embedding_),
        "/eigenvalues": _eigenvalues(estimator),
        "/stages/name": [stage["name"] for stage in stages],
        "/stages/seconds": np.array([stage["seconds"] for stage in stages], dtype=float),
        "/stages/peak_bytes": np.array([stage["peak_bytes"] for stage in stages], dtype=np.int64),
        "/report": to_json({key: v for key, v in result.items() if key not in apart}),
        **{f"/@{key}": to_json(result[key]) for key in ("parameters", "versions", "inputs")},
    }
