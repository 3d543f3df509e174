"""What one method is to the shared machinery: its eigenproblem, for every value of its parameter.

A `Family` is one method on one graph with one set of constraints. It is solved on all nodes
(`exact`) or inside the smooth subspace (`reduce`); choosing, clustering and reporting are the same
for all methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.eigen.smooth_subspace import SmoothBasis
from mustlink.graph import Graph
from mustlink.operators.laplacian import Block
from mustlink.result import Convergence
from mustlink.workspace import Workspace

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Solving:
    """How eigenproblems are solved: as the parameters of the estimators are named."""

    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 300
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Embedded:
    """Vectors (m, r) in working order with their eigenvalues (r,) and costs vᵀL̄v (r,).

    `parameter` is the value solved for, `unit` what it is a fraction of (1 if of nothing), `p` the
    dimension of the subspace, None if the full problem was solved.
    """

    vectors: Block
    values: Floats
    cost: Floats
    parameter: float
    unit: float
    p: int | None
    convergence: Convergence
    note: str = ""


class Reduced(ABC):
    """A family inside one smooth basis: small matrices made once, every p and value cheap."""

    @abstractmethod
    def solve(self, p: int, value: float) -> tuple[Block, Floats]:
        """Coefficients (1 + p, r), costs (r,); as near as it gets where `value` is infeasible."""

    @abstractmethod
    def embed(self, p: int, value: float) -> Embedded:
        """Solve and go back to the nodes; raises InfeasibleError where nothing is feasible."""


@dataclass(frozen=True, eq=False)
class Family(ABC):
    """One method, one graph, one set of constraints.

    `row_scale` (m,) turns vectors into the embedding that is clustered and returned. `free` says
    that the parameter was left open and may give way. `ways` are discretisations in order of
    preference; `values` the parameters to choose from, the last one where nothing can be tried;
    `exact_values` those of the full problem;
    `rivals` those with which the full problem is tried against a subspace that predicts badly.
    """

    graph: Graph
    k: int
    row_scale: Floats
    ways: tuple[str, ...]
    values: tuple[float, ...] = (1.0,)
    exact_values: tuple[float, ...] = (1.0,)
    rivals: tuple[float, ...] = ()
    free: bool = field(default=True, kw_only=True)

    @property
    def neutral(self) -> float:
        """The value with which K − 1 directions are clustered as if nothing was known."""
        return self.values[-1]

    @property
    @abstractmethod
    def acts(self) -> bool:
        """Whether any constraint touches a node that can be clustered."""

    @abstractmethod
    def reduce(self, basis: SmoothBasis) -> Reduced:
        """The same problem inside the span of a smooth basis."""

    @abstractmethod
    def exact(
        self, value: float, solving: Solving, work: Workspace, start: Block | None = None
    ) -> Embedded:
        """Solve the full problem, from the vectors of a nearby value if there are any."""


FamilyOf = Callable[[Constraints], Family]
