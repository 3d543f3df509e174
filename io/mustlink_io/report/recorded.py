"""The parts of a result's /report that the page shows, in the form in which runs record them.

A file may be older, damaged or foreign: a part that is absent, or not of this form, is None, and
the page says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

LARGEST = 1e100  # no quantity here comes near it, and pictures of more overflow
_MOST = 10_000  # entries of a list that are believed

Count = Annotated[int, Field(ge=0, lt=2**63)]
Number = Annotated[float, Field(gt=-LARGEST, lt=LARGEST, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Counts = Annotated[list[Count], Field(max_length=_MOST)]
Numbers = Annotated[list[Number], Field(max_length=_MOST)]


class Part(BaseModel):
    """A part of /report; what else is in it does not matter here."""

    model_config = ConfigDict(extra="ignore", frozen=True)


AnyPart = TypeVar("AnyPart", bound=Part)


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


class Data(Part):
    """What was read."""

    kind: str
    shape: Annotated[list[Count], Field(min_length=2, max_length=2)]


class Info(Part):
    """How the graph was made."""

    kind: str | None = None
    n_neighbors: Count | None = None
    recall: Share | None = None
    recall_sample: Count | None = None
    n_bridges: Count | None = None


class Graph(Part):
    """Health of the graph."""

    n_nodes: Count
    n_edges: Count
    neighbours: Spread
    degree: Spread
    isolated: Count
    n_components: Count
    largest_components: Counts
    histogram: Histogram | None = None
    info: Info = Info()


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


class Kept(Part):
    """Pairs of one kind: how many, and Σ|belief|, with the parts that are kept."""

    n: Count
    kept: Count
    weight: Annotated[Number, Field(ge=0)]
    weight_kept: Annotated[Number, Field(ge=0)]

    @model_validator(mode="after")
    def _match(self) -> Kept:
        if self.kept > self.n:
            raise ValueError("more kept than there are")
        return self


class Broken(Part):
    """A broken pair, its belief, and where its ends are."""

    nodes: Annotated[list[Count], Field(min_length=2, max_length=2)]
    belief: Number
    clusters: Annotated[list[int], Field(min_length=2, max_length=2)]


class Stray(Part):
    """A labelled node that is not in the cluster of most of its class, which is `home`."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)

    node: Count
    given: int = Field(alias="class")
    class_name: str | None = None
    cluster: int
    home: int


class Overruled(Part):
    """A labelled node that was answered with another class."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)

    node: Count
    given: int = Field(alias="class")
    class_name: str | None = None
    answer: int


class Constraints(Part):
    """What was asked, and what became of it."""

    kind: str
    must: Kept | None = None
    cannot: Kept | None = None
    worst: Annotated[list[Broken], Field(max_length=_MOST)] = []
    n_labels: Count | None = None
    n_strays: Count = 0
    strays: Annotated[list[Stray], Field(max_length=_MOST)] = []
    n_overruled: Count = 0
    overruled: Annotated[list[Overruled], Field(max_length=_MOST)] = []


def part(kind: type[AnyPart], report: Mapping[str, Any], key: str) -> AnyPart | None:
    """A part of the report, None if it is not there or not of the form."""
    try:
        return kind.model_validate(report.get(key))
    except ValidationError:
        return None


def words(report: Mapping[str, Any], key: str) -> str | None:
    """A text in the report, None if there is none."""
    found = report.get(key)
    return found if isinstance(found, str) else None


def lines(report: Mapping[str, Any], key: str) -> list[str]:
    """The texts of a list in the report."""
    found = report.get(key)
    return [line for line in found if isinstance(line, str)] if isinstance(found, list) else []


def number(report: Mapping[str, Any], key: str) -> float | None:
    """A number in the report, None if there is none."""
    found = report.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(found) if -LARGEST < found < LARGEST else None
