"""What a method states: its eigenproblem, the rows that are clustered, roundings and parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.eigen.problem import Problem


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
    row_scale: NDArray[np.float64]
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
