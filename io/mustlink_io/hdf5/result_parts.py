"""The parts of what a result tells of its run: graph, clusters, convergence, scores.

What else a file holds in a part is carried along unread.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, model_validator

LARGEST = 1e100  # no quantity here comes near it, and pictures of more overflow
MOST = 10_000  # entries of a list that are believed

Count = Annotated[int, Field(ge=0, lt=2**63)]
Number = Annotated[StrictInt | StrictFloat, Field(gt=-LARGEST, lt=LARGEST)]
Share = Annotated[float, Field(ge=0, le=1 + 1e-9, allow_inf_nan=False)]  # a sum may round up
Counts = Annotated[list[Count], Field(max_length=MOST)]
Numbers = Annotated[list[Number], Field(max_length=MOST)]
Pair = Field(min_length=2, max_length=2)


class Part(BaseModel):
    """A part of a result; names are those of its JSON."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)

    def plain(self) -> dict[str, Any]:
        """What was told, nothing of what was not: plain values for JSON."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class Stage(Part):
    """A stage of the run: wall seconds, largest resident size until it ended."""

    name: str
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    peak_bytes: Count


class Input(Part):
    """A file that was read: as what, under which name, and its checksum."""

    role: str
    name: str
    bytes: Count | None = None
    sha256: str


class Data(Part):
    """What was read."""

    kind: str
    shape: Annotated[list[Count], Pair]


class Convergence(Part):
    """How an iteration ended."""

    status: str | None = None
    reason: str | None = None


class Satisfaction(Part):
    """Shares of the constraints that are kept, by kind, and how many there are.

    `n_unclustered` more are of nodes in no cluster, which can neither keep nor break them.
    `balanced` is the mean of the two, or the one of them that was asked for.
    """

    must_kept: Number | None = None
    cannot_kept: Number | None = None
    kept: Number | None = None
    n_must: Number = 0
    n_cannot: Number = 0
    n_unclustered: Number = 0

    @model_validator(mode="after")
    def _match(self) -> Satisfaction:
        if (self.n_must and self.must_kept is None) or (self.n_cannot and self.cannot_kept is None):
            raise ValueError("constraints without the share that is kept")
        return self

    @property
    def asked(self) -> list[tuple[str, float, int]]:
        """Kind, share kept and number of the pairs of every kind that there are."""
        kinds = (
            ("must-links", self.must_kept, self.n_must),
            ("cannot-links", self.cannot_kept, self.n_cannot),
        )
        return [(name, share or 0.0, int(count)) for name, share, count in kinds if count]

    @property
    def on_balance(self) -> float | None:
        """`balanced`, also of a file that does not tell it; None where nothing was asked for."""
        shares = [share for _, share, _ in self.asked]
        return sum(shares) / len(shares) if shares else None


class Baseline(Part):
    """Shares of held-out labels answered rightly, by the method ("ours") and without a graph."""

    method: str
    held_out: Count
    sampled: Count
    single: Count = 0
    right: Annotated[dict[str, Share], Field(max_length=20)]
    doubt: str | None = None


class Feasible(Part):
    """How many of the vectors wanted meet the constraints as the method demands."""

    found: Count
    wanted: Count


class Bin(Part):
    """Answers held out whose confidence is from `low` on: how sure they were, and how many right.

    `share` is that of their weight among all.
    """

    low: Share
    count: Count
    share: Share
    sure: Share
    right: Share


class Calibration(Part):
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


class Places(Part):
    """Cuts by cost vᵀL̄v and α = vᵀQ̄v, ‖v‖² = vol."""

    cost: Numbers
    alpha: Numbers

    @model_validator(mode="after")
    def _match(self) -> Places:
        if len(self.cost) != len(self.alpha):
            raise ValueError("columns of different length")
        return self


class Cuts(Places):
    """Feasible cuts, rising in cost; with those of the graph alone."""

    beta: Number
    volume: Annotated[Number, Field(gt=0)]
    eigenvalues: Numbers
    used: Annotated[list[bool], Field(min_length=1, max_length=MOST)]
    complete: bool
    unconstrained: Places

    @model_validator(mode="after")
    def _match_more(self) -> Cuts:
        if not len(self.used) == len(self.eigenvalues) == len(self.cost) or not any(self.used):
            raise ValueError("columns of different length, or no cut that was used")
        return self


class Adjustment(Part):
    """How many edges were changed by constraints that were spread, and quantiles of F on them."""

    strengthened: Count
    weakened: Count
    added: Count
    untouched: Count
    F: dict[str, float] = {}


class Spread(Part):
    """Of many values."""

    least: Number
    median: Number
    mean: Number
    most: Number


class Histogram(Part):
    """`counts[i]` values lie from `edges[i]` on and below `edges[i + 1]`."""

    edges: Numbers
    counts: Counts

    @model_validator(mode="after")
    def _match(self) -> Histogram:
        rising = all(a < b for a, b in zip(self.edges[:-1], self.edges[1:], strict=True))
        if not self.counts or len(self.edges) != len(self.counts) + 1 or not rising:
            raise ValueError("edges and counts do not match")
        return self


class GraphInfo(Part):
    """How the graph was made."""

    kind: str | None = None
    n_neighbors: Count | None = None
    recall: Share | None = None
    recall_sample: Count | None = None
    n_bridges: Count | None = None


class Graph(Part):
    """Health of the graph."""

    n_nodes: Count
    n_rows: Count | None = None
    n_edges: Count
    neighbours: Spread
    degree: Spread
    isolated: Count
    n_components: Count
    largest_components: Counts
    histogram: Histogram | None = None
    info: GraphInfo = GraphInfo()


class Spectrum(Part):
    """Smallest eigenvalues of the graph's Laplacian, rising."""

    values: Annotated[Numbers, Field(min_length=1)]


class Clusters(Part):
    """A row a cluster, in columns."""

    names: Annotated[list[int], Field(min_length=1)]
    sizes: list[Count]
    conductance: list[Share]
    volume_share: list[Share]

    @model_validator(mode="after")
    def _match(self) -> Clusters:
        columns = (self.sizes, self.conductance, self.volume_share)
        if any(len(column) != len(self.names) for column in columns):
            raise ValueError("columns of different length")
        return self


class Network(Part):
    """Scores of clusters on the edges of a network."""

    modularity: Number
    coverage: Share
    mncut: Number
    worst_conductance: Share | None = None
    worst_cluster: int | None = None
