"""What a result tells of its run: one model for the writer, `info`, the page and `--json`.

A damaged or foreign file can hold any JSON. What every reader counts on must be of its form, else
the file is refused. Any other part that is not is None: the page says so, and a run that is told of
it by `Report.of` says so in a note.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import h5py
import numpy as np
from pydantic import (
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from mustlink.errors import InputError
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.constraint_parts import Constraints
from mustlink_io.hdf5.plain_json import to_json
from mustlink_io.hdf5.result_parts import (
    Adjustment,
    Baseline,
    Calibration,
    Clusters,
    Convergence,
    Count,
    Cuts,
    Data,
    Feasible,
    Graph,
    Input,
    Network,
    Number,
    Part,
    Satisfaction,
    Spectrum,
    Stage,
)

_ATTRIBUTES = ("parameters", "versions", "inputs")  # of the root, JSON each


def _or_none(value: Any, check: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """The part, or None where it is not of its form; its name goes to who keeps a list of them."""
    try:
        return check(value)
    except ValidationError:
        if isinstance(info.context, list):
            info.context.append(info.field_name)
        return None


def _texts(value: Any) -> list[str]:
    """The texts of a list."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


_Optional = WrapValidator(_or_none)
_Text = Annotated[str | None, _Optional]
_Count = Annotated[Count | None, _Optional]
_Number = Annotated[Number | None, _Optional]


class Report(Part):
    """What /report holds: choices and reasons, convergence, notes, health, constraints kept."""

    notes: list[str] = Field(default_factory=list)
    warnings: Annotated[list[str], BeforeValidator(_texts)] = Field(default_factory=list)
    satisfaction: Satisfaction | None = None
    labels_kept: Number | None = None
    n_labels: Number | None = None

    method: _Text = None
    command: _Text = None
    finished: _Text = None
    data: Annotated[Data | None, _Optional] = None
    n_nodes: _Count = None
    n_clusters: _Count = None
    seconds: _Number = None
    peak_bytes: _Count = None
    planned_peak_bytes: _Count = None
    stages_from_before: _Count = None
    work: Annotated[dict[str, Any] | None, _Optional] = None
    choices: Annotated[dict[str, Any] | None, _Optional] = None
    convergence: Annotated[Convergence | None, _Optional] = None
    next_eigenvalue: _Number = None
    feasible: Annotated[Feasible | None, _Optional] = None
    cuts: Annotated[Cuts | None, _Optional] = None
    baseline: Annotated[Baseline | None, _Optional] = None
    adjustment: Annotated[Adjustment | None, _Optional] = None
    graph: Annotated[Graph | None, _Optional] = None
    spectrum: Annotated[Spectrum | None, _Optional] = None
    clusters: Annotated[Clusters | None, _Optional] = None
    network: Annotated[Network | None, _Optional] = None
    constraints: Annotated[Constraints | None, _Optional] = None
    sizes: Annotated[list[Count] | None, _Optional] = None
    unassigned: _Count = None
    unanswered: _Count = None
    mean_confidence: _Number = None
    calibration: Annotated[Calibration | None, _Optional] = None

    @model_validator(mode="after")
    def _match(self) -> Report:
        told = "labels_kept" in self.model_fields_set
        if told and (self.n_labels is None or (self.n_labels and self.labels_kept is None)):
            raise ValueError("a share of labels kept, but not of how many")
        return self

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Report:
        """The report of a run; a part that is not of its form is left out, with a note."""
        left_out: list[str] = []
        made = cls.model_validate(told, context=left_out)
        return made.noting(*(f"report: its {name} could not be told" for name in left_out))

    def noting(self, *notes: str) -> Report:
        """The same with more notes."""
        return self.model_copy(update={"notes": [*self.notes, *notes]}) if notes else self


class Result(Part):
    """What a file tells of its run; `output` and below are said by the run alone.

    In the file eigenvalues, classes and their names are datasets of their own.
    """

    report: Report = Field(default_factory=Report)
    stages: list[Stage] = Field(default_factory=list)
    parameters: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, Any] = Field(default_factory=dict)
    inputs: list[Input] = Field(default_factory=list)
    output: str | None = None
    eigenvalues: list[float] = Field(default_factory=list)
    classes: list[int | str] = Field(default_factory=list)
    class_names: list[str] = Field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Sum over the stages."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def peak_bytes(self) -> int:
        """Largest of all stages."""
        return max((stage.peak_bytes for stage in self.stages), default=0)

    def told(self, *notes: str, output: str, **more: Any) -> Result:
        """The same when all is done: where it was written, more notes, and more of its report."""
        report = self.report.noting(*notes).model_copy(update=more)
        return self.model_copy(update={"report": report, "output": output})

    def flat(self) -> dict[str, Any]:
        """What `--json` of a run prints: the report with what stands beside it in the file."""
        told = self.plain()
        return {**told.pop("report"), **told}

    def content(self) -> dict[str, Any]:
        """How the result was made, as entries of its file."""
        told = self.plain()
        return {
            "/stages/name": [stage.name for stage in self.stages],
            "/stages/seconds": np.array([stage.seconds for stage in self.stages], dtype=float),
            "/stages/peak_bytes": np.array([s.peak_bytes for s in self.stages], dtype=np.int64),
            "/report": to_json(told["report"]),
            **{f"/@{name}": to_json(told[name]) for name in _ATTRIBUTES},
        }


def read(file: h5py.File, where: str) -> Result | None:
    """What an open file tells of its run, texts made printable; None where it tells nothing.

    Raises InputError for what is no JSON, or not of the form that mustlink writes.
    """
    found: dict[str, Any] = {
        name: _parsed(name, store.decoded(file.attrs[name]), where)
        for name in _ATTRIBUTES
        if name in file.attrs
    }
    if store.find(file, "/report") is not None:
        words = store.decoded(store.read(file, "/report", {}, "/report"))
        found["report"] = _parsed("report", words, where)
    if store.find(file, "/stages/name") is not None:
        found["stages"] = _stages(file)
    try:
        return Result.model_validate(found) if found else None
    except ValidationError as error:
        name = error.errors(include_url=False, include_input=False)[0]["loc"][0]
        raise InputError(f"{where}: damaged: its {name} are not as mustlink writes them") from error


def _parsed(name: str, text: str, where: str) -> Any:
    try:
        return _printable(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: damaged JSON in its {name} ({error})") from error


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return store.text(value)
    if isinstance(value, list):
        return [_printable(part) for part in value]
    if isinstance(value, dict):
        return {store.text(key): _printable(part) for key, part in value.items()}
    return value


def _stages(file: h5py.File) -> list[dict[str, Any]]:
    dims: dict[str, int] = {}
    columns = {
        name: store.read(file, f"/stages/{name}", dims, f"/stages/{name}")
        for name in ("name", "seconds", "peak_bytes")
    }
    seconds, peaks = columns["seconds"], columns["peak_bytes"]
    if not (np.isfinite(seconds).all() and (seconds >= 0).all() and (peaks >= 0).all()):
        raise InputError(f"{file.filename}:/stages: damaged: times and bytes are not negative")
    return [
        {"name": store.text(name), "seconds": float(time), "peak_bytes": int(peak)}
        for name, time, peak in zip(columns["name"], seconds, peaks, strict=True)
    ]
