"""What was seen in data and side information: the figures behind rules and doubts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from mustlink.preparation.request import Preparation


@dataclass(frozen=True)
class Coordinates:
    """Points as numbers, by a sample of rows.

    `zeros` is the share of values that are 0, `whole` whether all are whole numbers, `negative`
    whether some are below 0, `largest` the column of largest variance and `dominance` its share of
    all variance, `spread` its standard deviation over the median one of the columns that vary,
    `constant` the number of columns that do not, `duplicates` the share of rows that equal another.
    """

    zeros: float
    whole: bool
    negative: bool
    largest: int
    dominance: float
    spread: float
    constant: int
    duplicates: float


@dataclass(frozen=True)
class Links:
    """A graph: the one given, or that of the nearest neighbours among a sample of points.

    `parts` counts components of 1 % of the nodes or more, `crumbs` the share of nodes in smaller
    ones that still have an edge, `isolated` the nodes without an edge; `low_degree` is the degree
    that 1 % of the nodes with an edge stay below.
    """

    nodes: int
    edges: int
    parts: int
    crumbs: float
    isolated: int
    low_degree: float
    median_degree: float
    largest_degree: int


@dataclass(frozen=True)
class Known:
    """Side information.

    `least` and `most` are the numbers of labels of the class with fewest and most, `nodes` those
    about which something is said, `per_node` distinct pairs by all n nodes, `soft` whether a second
    graph or matrix is among it. `contradiction` is the first of the contradictions. `agreement` is
    how far side information and data tell the same: by labels, the share of labelled nodes whose
    nearest labelled node has their class, and by pairs the chance that a must-link is nearer than a
    cannot-link, half of it meaning nothing; None where too little can be compared. `compared` nodes
    or pairs were looked at for it. `repeated` are columns of the points that have one value a class
    on all of these labelled nodes, and so may be the labels themselves.
    """

    labelled: int = 0
    classes: int = 0
    least: int = 0
    most: int = 0
    must: int = 0
    cannot: int = 0
    nodes: int = 0
    per_node: float = 0.0
    soft: bool = False
    contradictions: int = 0
    contradiction: str = ""
    agreement: float | None = None
    compared: int = 0
    repeated: tuple[int, ...] = ()

    @property
    def pairs(self) -> int:
        """Distinct pairs that were given."""
        return self.must + self.cannot

    @property
    def kind(self) -> str:
        """What was given: none, labels, pairs, graph, or mixed."""
        given = [
            name
            for name, there in (
                ("labels", self.labelled > 0),
                ("pairs", self.pairs > 0),
                ("graph", self.soft),
            )
            if there
        ]
        return "none" if not given else given[0] if len(given) == 1 else "mixed"


@dataclass(frozen=True)
class Count:
    """The number of clusters, its source, and how clear it is.

    `source` is given, labels, gap (of the spectrum), network (three counts), default, or later: in
    the fit, `k` is then but what memory is estimated with. For the two that are counted, on a
    sample's graph, `gap` is the widest (λ_{K+1} − λ_K)/(λ_{K+1} + 0.02), at most 1, `reason` the
    counts in words, and `doubt` why it may be another number.
    """

    k: int
    source: str
    gap: float | None = None
    reason: str = ""
    doubt: str | None = None


@dataclass(frozen=True)
class Seen:
    """All of it.

    `kind` is points, or of a given graph: pixels (of a picture), network (relations, with degrees
    that differ) or graph (all others, of nearest neighbours as a rule). d is 0 for graphs. Links,
    agreement and count are of points after `preparation`, coordinates of them as they are.
    `columns` are the names of these, if they have some.
    """

    kind: str
    n: int
    d: int
    sampled: int
    metric: str
    metric_reason: str
    coordinates: Coordinates | None
    links: Links
    known: Known
    count: Count
    memory: int | None = None
    preparation: Preparation = field(default_factory=Preparation)
    columns: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        told = {**asdict(self), "columns": list(self.columns)}
        told["known"]["repeated"] = list(self.known.repeated)
        return {**told, "preparation": self.preparation.to_dict()}
