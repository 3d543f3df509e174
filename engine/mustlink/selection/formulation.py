"""What a method states: its eigenproblem, the rows that are clustered, roundings and parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.eigen.memory_work import MemoryWork
from mustlink.eigen.problem import Problem
from mustlink.eigen.work import Work
from mustlink.operators.protocol import PlacedLaplacian
from mustlink.space import Space, Vector

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


@dataclass(frozen=True, eq=False)
class Placed:
    """What is known, of nodes as a formulation sees them: those of `graph` and of `laplacian`.

    In memory these are all nodes. Elsewhere they are those that something is known of, numbered by
    themselves: few, so that matrices of constraints are small, and known to all ranks.
    """

    graph: KnownGraph
    laplacian: PlacedLaplacian
    known: Constraints

    @classmethod
    def of(cls, work: Work, known: Constraints) -> Placed:
        """Of a home, and what is known of the nodes of its graph."""
        if isinstance(work, MemoryWork):
            return cls(work.graph, work.laplacian, known)
        nodes = known.nodes if known.nodes.size else np.zeros(1, dtype=np.int64)
        laplacian = PlacedNodes(work, np.asarray(work.places(nodes), dtype=np.int64))
        return cls(KnownNodes(laplacian), laplacian, known[nodes])


@dataclass(frozen=True, eq=False)
class PlacedNodes:
    """L̄ of a work with the places of s nodes in its order, see `PlacedLaplacian`."""

    work: Work
    positions: NDArray[np.int64]

    @property
    def space(self) -> Space:
        """Where blocks live."""
        return self.work.space

    @property
    def size(self) -> int:
        """Rows of blocks."""
        return self.work.space.size

    @property
    def weights(self) -> Vector | None:
        """How often a row counts, 0 for isolated nodes that have one."""
        return self.work.space.weights

    @property
    def n_entries(self) -> int:
        """Stored weights of the graph."""
        return self.work.n_entries

    @property
    def root_degree(self) -> Vector:
        """D^½1."""
        return self.work.laplacian.root_degree

    @property
    def volume(self) -> float:
        """Sum of the degrees."""
        return self.work.laplacian.volume

    @property
    def nodes(self) -> NDArray[np.int64]:
        """Those of the s nodes that have an edge."""
        return np.flatnonzero(self.positions >= 0)

    @property
    def mean_degree(self) -> float:
        """Of the nodes with an edge."""
        return self.volume / self.work.look.n_linked

    def enter(self, X: NDArray[Any]) -> NDArray[Any]:
        """Rows of all nodes, which are nowhere together."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class KnownNodes:
    """The graph of a work, of which the degrees of s nodes are seen, see `KnownGraph`."""

    laplacian: PlacedNodes

    weights = None

    @property
    def count(self) -> float:
        """Nodes of the graph."""
        return float(self.laplacian.work.n_nodes)

    @cached_property
    def degrees(self) -> Floats:
        """Of the s nodes."""
        where, space = self.laplacian.positions, self.laplacian.space
        root = space.take(space.column(self.laplacian.root_degree), np.maximum(where, 0))[:, 0]
        return np.where(where >= 0, root**2, 0.0)

    @cached_property
    def degree_range(self) -> tuple[float, float]:
        """The least degree > 0 of the graph and the largest."""
        space, root = self.laplacian.space, self.laplacian.root_degree
        inverse, most = (space.peaks(space.column(v))[0] for v in (per_root(self.laplacian), root))
        return float(inverse) ** -2, float(most) ** 2


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
