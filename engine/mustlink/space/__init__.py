"""The verbs on data of nodes, and the space of nodes in memory."""

from mustlink.space.verbs import (
    Block,
    Dots,
    Gram,
    GroupSums,
    LocalSpace,
    NullSpace,
    Series,
    Small,
    Space,
    Vector,
)

__all__ = [
    "Block",
    "Dots",
    "Gram",
    "GroupSums",
    "LocalSpace",
    "NullSpace",
    "Series",
    "Small",
    "Space",
    "Vector",
]
