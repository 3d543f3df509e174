"""What a result tells of side information: what was asked of which nodes, and what became of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from mustlink_io.hdf5.result_parts import MOST, Count, Number, Pair, Part


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

    nodes: Annotated[list[Count], Pair]
    belief: Number
    clusters: Annotated[list[int], Pair]


class Stray(Part):
    """A labelled node that is not in the cluster of most of its class, which is `home`."""

    node: Count
    given: int = Field(alias="class")
    class_name: str | None = None
    cluster: int
    home: int


class Overruled(Part):
    """A labelled node that was answered with another class."""

    node: Count
    given: int = Field(alias="class")
    class_name: str | None = None
    answer: int


class Believed(Part):
    """Prior knowledge of nodes without a label, and of how many the answer is as it says."""

    n_believed: Count
    mean_belief: Number
    n_as_believed: Count


class Constraints(Part):
    """What was asked, and what became of it."""

    kind: str
    must: Kept | None = None
    cannot: Kept | None = None
    worst: Annotated[list[Broken], Field(max_length=MOST)] = Field(default_factory=list)
    n_labels: Count | None = None
    n_strays: Count = 0
    strays: Annotated[list[Stray], Field(max_length=MOST)] = Field(default_factory=list)
    n_overruled: Count = 0
    overruled: Annotated[list[Overruled], Field(max_length=MOST)] = Field(default_factory=list)
    prior: Believed | None = None
