"""What a method states: its eigenproblem, the rows that are clustered, roundings and parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.eigen.problem import Problem
from mustlink.operators.protocol import PlacedLaplacian
from mustlink.space import Vector

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Grid:
    """Values of the parameter to choose from: in a subspace, of the full problem, as its rivals.

    Of `smooth` the last one is taken where nothing can be tried; `rivals` are those with which the
    full problem is tried against a subspace that predicts badly; with `neutral` K − 1 directions
    are clustered as if nothing was known.
    """

    smooth: tuple[float, ...] = (1.0,)
    exact: tuple[float, ...] = (1.0,)
    rivals: tuple[float, ...] = ()
    neutral: float | None = None

    @classmethod
    def of(cls, *values: float, neutral: float | None = None) -> Self:
        """The same values everywhere."""
        return cls(values, values, values, neutral)

    @property
    def as_if_unknown(self) -> float:
        """`neutral`, or the last value."""
        return self.smooth[-1] if self.neutral is None else self.neutral


@dataclass(frozen=True, eq=False)
class Formulation:
    """One method on one graph with one set of constraints.

    `row_scale` (m,) turns vectors into the embedding that is clustered and returned; `roundings`
    are discretisations in order of preference. `rival` is another `form` of the problem, which is
    taken where evidence is for it.
    """

    problem: Problem
    row_scale: Vector
    roundings: tuple[str, ...]
    grid: Grid = Grid()
    form: str = ""
    rival: Formulation | None = None

    @property
    def forms(self) -> tuple[str, ...]:
        """Its own form, and that of its rival."""
        return (self.form,) if self.rival is None else (self.form, self.rival.form)

    def of(self, form: str) -> Formulation:
        """Itself, or its rival where that has the form."""
        return self.rival if self.rival is not None and self.rival.form == form else self


FormulationOf = Callable[[Constraints], Formulation]


class KnownGraph(Protocol):
    """What a formulation asks of a graph: at home `Graph`, elsewhere of the known nodes alone."""

    @property
    def degrees(self) -> Floats:
        """Of the nodes, in the order of the constraints."""
        ...

    @property
    def weights(self) -> Floats | None:
        """How many a node stands for, None: 1 each."""
        ...

    @property
    def count(self) -> float:
        """Nodes of the whole graph, each counted as often as its weight says."""
        ...

    @property
    def degree_range(self) -> tuple[float, float]:
        """The least degree > 0 of one copy of a node of the whole graph, and the largest."""
        ...


def row_scale(graph: KnownGraph) -> Floats:
    """C^-½ (n,) of a graph whose nodes stand for C: v = C^-½u on every copy; 1 otherwise.

    0 for a node that counts nothing.
    """
    if graph.weights is None:
        return np.ones(graph.degrees.size)
    root = np.sqrt(graph.weights)
    return np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)


def of_copies(graph: KnownGraph, laplacian: PlacedLaplacian) -> Vector:
    """The same in working order, (m,)."""
    if graph.weights is None:
        return all_rows(laplacian, 1.0)
    return laplacian.enter(row_scale(graph))


def all_rows(laplacian: PlacedLaplacian, value: float) -> Vector:
    """The value for every row, (m,)."""
    return laplacian.space.rowwise(lambda root: np.full(root.shape, value), laplacian.root_degree)


def per_root(laplacian: PlacedLaplacian) -> Vector:
    """D^-½1, (m,), 0 for rows without an edge."""
    return laplacian.space.rowwise(_inverse, laplacian.root_degree)


def _inverse(root: Floats) -> Floats:
    return np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
