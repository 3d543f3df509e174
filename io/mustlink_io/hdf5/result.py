"""The record of a run in its result: one model for the writer, `info`, the page and `--json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

import h5py
import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from mustlink.errors import InputError
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.writing import to_json

LARGEST = 1e100  # no quantity here comes near it, and pictures of more overflow
MOST = 10_000  # entries of a list that are believed

Count = Annotated[int, Field(ge=0, lt=2**63)]
Number = Annotated[StrictInt | StrictFloat, Field(gt=-LARGEST, lt=LARGEST)]
Share = Annotated[float, Field(ge=0, le=1 + 1e-9, allow_inf_nan=False)]  # a sum may round up
Counts = Annotated[list[Count], Field(max_length=MOST)]
Numbers = Annotated[list[Number], Field(max_length=MOST)]
Pair = Field(min_length=2, max_length=2)


class ResultPart(BaseModel):
    """A part of a result; names are those of its JSON."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, defer_build=True)

    def plain(self) -> dict[str, Any]:
        """Plain values for JSON, of the fields that were set alone."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class ResultStage(ResultPart):
    """A stage of the run: wall seconds, largest resident size until it ended."""

    name: str
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    peak_bytes: Count


def merged(stages: Iterable[ResultStage]) -> list[dict[str, Any]]:
    """Several runs of one stage as one row, in order of their first."""
    found: dict[str, dict[str, Any]] = {}
    for one in stages:
        empty = {"name": one.name, "times": 0, "seconds": 0.0, "peak_bytes": 0}
        row = found.setdefault(one.name, empty)
        row["times"] += 1
        row["seconds"] += one.seconds
        row["peak_bytes"] = max(row["peak_bytes"], one.peak_bytes)
    return list(found.values())


class Input(ResultPart):
    """A file that was read: as what, under which name, and its checksum."""

    role: str
    name: str
    bytes: Count | None = None
    sha256: str


class ResultData(ResultPart):
    """What was read."""

    kind: str
    shape: Annotated[list[Count], Pair]


class ResultConvergence(ResultPart):
    """How an iteration ended."""

    status: str | None = None
    reason: str | None = None


class Satisfaction(ResultPart):
    """Shares of the constraints that are kept, by kind, and how many there are.

    `n_unclustered` more are of nodes in no cluster, which can neither keep nor break them.
    `balanced` is the mean of the two, or the one of them that there is.
    """

    must_kept: Number | None = None
    cannot_kept: Number | None = None
    kept: Number | None = None
    n_must: Number = 0
    n_cannot: Number = 0
    n_unclustered: Number = 0

    @model_validator(mode="after")
    def _match(self) -> Self:
        if (self.n_must and self.must_kept is None) or (self.n_cannot and self.cannot_kept is None):
            raise ValueError("constraints without the share that is kept")
        return self

    @property
    def kinds(self) -> list[tuple[str, float, int]]:
        """Name, share kept and number of the pairs, for every kind that there is."""
        kinds = (
            ("must-links", self.must_kept, self.n_must),
            ("cannot-links", self.cannot_kept, self.n_cannot),
        )
        return [(name, share or 0.0, int(count)) for name, share, count in kinds if count]

    @property
    def on_average(self) -> float | None:
        """`balanced`, also where the file lacks it; None without constraints."""
        shares = [share for _, share, _ in self.kinds]
        return sum(shares) / len(shares) if shares else None


class ResultBaseline(ResultPart):
    """Shares of held-out labels answered rightly, by the method ("ours") and without a graph."""

    method: str
    held_out: Count
    sampled: Count
    single: Count = 0
    right: Annotated[dict[str, Share], Field(max_length=20)]
    doubt: str | None = None


class HeldOut(ResultPart):
    """What choosing held out of the fit, and the share of it that the answer has right or kept.

    Of pairs it is their adjusted Rand index; `by_size`: as a share of all rows.
    """

    of: Literal["labels", "constraints", "pairs"]
    share: Number
    n: Count | None = None
    by_size: bool = False


class AutoCandidate(ResultPart):
    """A method that `Auto` considered; `held_out`: labels right, or agreement with pairs."""

    name: str
    held_out: Number | None = None
    chosen: bool = False


class ResultStability(ResultPart):
    """Stability of the clustering and of every cluster, over so many draws without some edges.

    A cluster's is None where no row has its number.
    """

    draws: Count
    share: Share
    mean: Annotated[Number, Field(le=1)]
    clusters: Annotated[list[Share | None], Field(max_length=MOST)]


class Feasible(ResultPart):
    """How many of the vectors wanted meet the constraints as the method demands."""

    found: Count
    wanted: Count


class Bin(ResultPart):
    """Answers held out whose confidence is from `low` on: how sure they were, and how many right.

    `share` is that of their weight among all.
    """

    low: Share
    count: Count
    share: Share
    sure: Share
    right: Share


class ResultCalibration(ResultPart):
    """What confidence is calibrated by, and how reliable it was of what was held out.

    Of clusters `edges` (α) and `embedding` (β) say how much these count, of answers `intercept` and
    `slope` make chances of margins. `reliability` has bins of `width`, its mean distance from being
    right is `error`.
    """

    edges: Number | None = None
    embedding: Number | None = None
    intercept: Number | None = None
    slope: Number | None = None
    n_labels: Count
    n_pairs: Count = 0
    error: Share | None = None
    width: Share | None = None
    reliability: Annotated[list[Bin], Field(max_length=100)] = Field(default_factory=list)


class ColumnLists(ResultPart):
    """A table by columns: lists of one length."""

    @model_validator(mode="after")
    def _match(self) -> Self:
        if len({len(one) for one in vars(self).values() if isinstance(one, list)}) > 1:
            raise ValueError("columns of different length")
        return self


class Places(ColumnLists):
    """Cuts by cost vᵀL̄v and α = vᵀQ̄v, ‖v‖² = vol."""

    cost: Numbers
    alpha: Numbers


class ResultCuts(Places):
    """Feasible cuts, rising in cost; with those of the graph alone."""

    beta: Number
    volume: Annotated[Number, Field(gt=0)]
    eigenvalues: Numbers
    used: Annotated[list[bool], Field(min_length=1, max_length=MOST)]
    complete: bool
    unconstrained: Places

    @model_validator(mode="after")
    def _some_are_used(self) -> Self:
        if not any(self.used):
            raise ValueError("no cut that was used")
        return self


class ResultAdjustment(ResultPart):
    """How many edges were changed by constraints that were spread, and quantiles of F on them."""

    strengthened: Count
    weakened: Count
    added: Count
    untouched: Count
    F: dict[str, float] = {}


class Distribution(ResultPart):
    """Of many values."""

    least: Number
    median: Number
    mean: Number
    most: Number


class Histogram(ResultPart):
    """`counts[i]` values lie from `edges[i]` on and below `edges[i + 1]`."""

    edges: Numbers
    counts: Counts

    @model_validator(mode="after")
    def _match(self) -> Self:
        rising = all(a < b for a, b in zip(self.edges[:-1], self.edges[1:], strict=True))
        if not self.counts or len(self.edges) != len(self.counts) + 1 or not rising:
            raise ValueError("edges and counts do not match")
        return self


class GraphInfo(ResultPart):
    """How the graph was made."""

    kind: str | None = None
    n_neighbors: Count | None = None
    recall: Share | None = None
    recall_sample: Count | None = None
    n_bridges: Count | None = None


class ResultGraph(ResultPart):
    """Health of the graph."""

    n_nodes: Count
    n_rows: Count | None = None
    n_edges: Count
    neighbours: Distribution
    degree: Distribution
    isolated: Count
    n_components: Count
    largest_components: Counts
    histogram: Histogram | None = None
    info: GraphInfo = GraphInfo()


class Spectrum(ResultPart):
    """Smallest eigenvalues of the graph's Laplacian, rising."""

    values: Annotated[Numbers, Field(min_length=1)]


class ResultClusters(ColumnLists):
    """A row a cluster, in columns."""

    names: Annotated[list[int], Field(min_length=1)]
    sizes: list[Count]
    conductance: list[Share]
    volume_share: list[Share]


class Network(ResultPart):
    """Scores of clusters on the edges of a network."""

    modularity: Number
    coverage: Share
    mncut: Number
    worst_conductance: Share | None = None
    worst_cluster: int | None = None


class BoundedCut(ResultPart):
    """A normalised cut into so many clusters, and the least that any has; τ `added` to degrees."""

    found: Number
    least: Number | None = None
    clusters: Count
    added: Number = 0.0


class PairsKept(ResultPart):
    """Pairs of one kind: how many, and Σ|belief|, with the parts that are kept."""

    n: Count
    kept: Count
    weight: Annotated[Number, Field(ge=0)]
    weight_kept: Annotated[Number, Field(ge=0)]

    @model_validator(mode="after")
    def _match(self) -> Self:
        if self.kept > self.n:
            raise ValueError("more kept than there are")
        return self


class Broken(ResultPart):
    """A broken pair, its belief, and where its ends are."""

    nodes: Annotated[list[Count], Pair]
    belief: Number
    clusters: Annotated[list[int], Pair]


class Stray(ResultPart):
    """A labelled node that is not in the cluster of most of its class, which is `home`."""

    node: Count
    given: int = Field(alias="class")
    class_name: str | None = None
    cluster: int
    home: int


class Overruled(ResultPart):
    """A labelled node that was answered with another class."""

    node: Count
    given: int = Field(alias="class")
    class_name: str | None = None
    answer: int


class Believed(ResultPart):
    """Prior knowledge of nodes without a label, and of how many the answer is as it says."""

    n_believed: Count
    mean_belief: Number
    n_as_believed: Count


class ResultConstraints(ResultPart):
    """The constraints of a run, and how the answer keeps them."""

    kind: str
    must: PairsKept | None = None
    cannot: PairsKept | None = None
    worst: Annotated[list[Broken], Field(max_length=MOST)] = Field(default_factory=list)
    n_labels: Count | None = None
    n_strays: Count = 0
    strays: Annotated[list[Stray], Field(max_length=MOST)] = Field(default_factory=list)
    n_overruled: Count = 0
    overruled: Annotated[list[Overruled], Field(max_length=MOST)] = Field(default_factory=list)
    prior: Believed | None = None


_ATTRIBUTES = ("parameters", "versions", "inputs")  # of the root, JSON each
# Parts of a report that are refused in another form; any other part then counts as absent.
_REQUIRED_FORM = ("notes", "warnings", "satisfaction", "labels_kept", "n_labels")


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


class ResultReport(ResultPart):
    """What /report holds: choices and reasons, convergence, notes, health, constraints kept."""

    notes: list[str] = Field(default_factory=list)
    warnings: Annotated[list[str], BeforeValidator(_texts)] = Field(default_factory=list)
    satisfaction: Satisfaction | None = None
    labels_kept: Number | None = None
    n_labels: Number | None = None

    method: str | None = None
    command: str | None = None
    finished: str | None = None
    data: ResultData | None = None
    n_nodes: Count | None = None
    n_clusters: Count | None = None
    seconds: Number | None = None
    peak_bytes: Count | None = None
    planned_peak_bytes: Count | None = None
    stages_from_before: Count | None = None
    work: dict[str, Any] | None = None
    choices: dict[str, Any] | None = None
    convergence: ResultConvergence | None = None
    next_eigenvalue: Number | None = None
    feasible: Feasible | None = None
    cuts: ResultCuts | None = None
    baseline: ResultBaseline | None = None
    held_out: HeldOut | None = None
    auto_candidates: Annotated[list[AutoCandidate], Field(max_length=MOST)] | None = None
    stability: ResultStability | None = None
    adjustment: ResultAdjustment | None = None
    graph: ResultGraph | None = None
    spectrum: Spectrum | None = None
    clusters: ResultClusters | None = None
    network: Network | None = None
    ncut: BoundedCut | None = None
    constraints: ResultConstraints | None = None
    sizes: list[Count] | None = None
    unassigned: Count | None = None
    unanswered: Count | None = None
    mean_confidence: Number | None = None
    calibration: ResultCalibration | None = None

    @field_validator("*", mode="wrap")
    @classmethod
    def _or_none(cls, value: Any, check: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        """The part, or None where its form is wrong; a context that is a list gets its name."""
        try:
            return check(value)
        except ValidationError:
            if info.field_name in _REQUIRED_FORM:
                raise
            if isinstance(info.context, list):
                info.context.append(info.field_name)
            return None

    @model_validator(mode="after")
    def _match(self) -> Self:
        is_set = "labels_kept" in self.model_fields_set
        if is_set and (self.n_labels is None or (self.n_labels and self.labels_kept is None)):
            raise ValueError("a share of labels kept, but not of how many")
        return self

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """The report of a run; a part that is not of its form is left out, with a note."""
        left_out: list[str] = []
        made = cls.model_validate(values, context=left_out)
        return made.noting(*(f"report: its {name} could not be recorded" for name in left_out))

    def noting(self, *notes: str) -> Self:
        """The same with more notes."""
        return self.model_copy(update={"notes": [*self.notes, *notes]}) if notes else self


class Result(ResultPart):
    """The record of a run in its file; `output` and below are of the run alone.

    In the file eigenvalues, classes and their names are datasets of their own.
    """

    report: ResultReport = Field(default_factory=ResultReport)
    stages: list[ResultStage] = Field(default_factory=list)
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

    def finished(self, *notes: str, output: str, **more: Any) -> Self:
        """The same when all is done: where it was written, more notes, and more of its report."""
        report = self.report.noting(*notes).model_copy(update=more)
        return self.model_copy(update={"report": report, "output": output})

    def flat(self) -> dict[str, Any]:
        """What `--json` of a run prints: the report with what stands beside it in the file."""
        values = self.plain()
        return {**values.pop("report"), **values}

    def content(self) -> dict[str, Any]:
        """How the result was made, as entries of its file."""
        values = self.plain()
        return {
            "/stages/name": [stage.name for stage in self.stages],
            "/stages/seconds": np.array([stage.seconds for stage in self.stages], dtype=float),
            "/stages/peak_bytes": np.array([s.peak_bytes for s in self.stages], dtype=np.int64),
            "/report": to_json(values["report"]),
            **{f"/@{name}": to_json(values[name]) for name in _ATTRIBUTES},
        }


def read(file: h5py.File, where: str) -> Result | None:
    """The record of a run in an open file, texts made printable; None where there is none.

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
