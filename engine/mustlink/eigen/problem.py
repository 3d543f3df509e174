"""A constrained eigenproblem: solved for a value of its parameter, on all nodes or projected.

The smooth subspace is not another problem: `restricted` gives the same one with small dense
matrices in the place of operators on nodes, and what solves the one solves the other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.context.workspace import Workspace
from mustlink.core.observe import NEVER, Deadline
from mustlink.core.result import Convergence
from mustlink.eigen.smooth_subspace import SmoothBasis
from mustlink.space import Block

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EigenOptions:
    """How eigenproblems are solved: as the parameters of the estimators are named, until when."""

    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 300
    seed: int = 0
    deadline: Deadline = NEVER


@dataclass(frozen=True, eq=False)
class FeasibleCuts:
    """All feasible cuts that are known, ‖v‖² = vol, rising in cost: r of them, `used` first.

    `cost` vᵀL̄v (r,), `alpha` vᵀQ̄v (r,) and `values` λ (r,), with α = β + cost/λ > β (Lemma 1);
    `beta` is WD14's, a multiple of vol. `complete`: no others are feasible. `plain` (q, 2) are
    pairs (cost, α) of L̄'s own vectors but its null space, ‖v‖² = vol, where these are known.
    """

    cost: Floats
    alpha: Floats
    values: Floats
    used: int
    beta: float
    volume: float
    complete: bool
    plain: Floats


@dataclass(frozen=True, eq=False)
class EigenSolution:
    """Vectors (m, r) in working order with their eigenvalues (r,) and costs vᵀL̄v (r,).

    `parameter` is the value solved for, `unit` what it is a fraction of (1 if of nothing), `p` the
    dimension of the subspace, None if the full problem was solved; `wanted` the number of vectors
    asked for, of which r are feasible; `cuts` are all that are, if a method knows several.
    """

    vectors: Block
    values: Floats
    cost: Floats
    parameter: float
    unit: float
    convergence: Convergence
    note: str = ""
    p: int | None = None
    wanted: int | None = None
    cuts: FeasibleCuts | None = None


@dataclass(frozen=True, eq=False)
class Problem(ABC):
    """The eigenproblem of one method on one graph, with one set of constraints.

    `laplacian` is L̄, of the graph or inside a smooth basis.
    """

    laplacian: Any

    @property
    @abstractmethod
    def acts(self) -> bool:
        """Whether any constraint touches a node that can be clustered."""

    @abstractmethod
    def restricted(self, basis: SmoothBasis) -> Self:
        """The same problem projected on the span of a smooth basis."""

    @abstractmethod
    def solve(
        self,
        value: float,
        how: EigenOptions,
        work: Workspace | None = None,
        start: Block | None = None,
    ) -> EigenSolution:
        """Solve for one value of the parameter; `start` are vectors for a nearby one.

        `work` is the graph's, None for a restricted problem. Raises InfeasibleError.
        """

    def trial(self, value: float) -> EigenSolution:
        """A restricted problem's solution, as near as it gets where `value` is infeasible."""
        return self.solve(value, DENSE)

    def inside(self, basis: SmoothBasis, value: float) -> EigenSolution:
        """The solution in the span of a basis, as vectors on the nodes."""
        result = self.restricted(basis).solve(value, DENSE)
        V = basis.combine(result.vectors)
        basis.space.blend(V, basis.space.signs(V))
        had = basis.residuals
        sharp = Convergence("smooth subspace", "direct", 0, had, float(had.max(initial=0)))
        return replace(result, vectors=V, convergence=sharp, p=basis.p)


DENSE = EigenOptions("dense")


@contextmanager
def stage(work: Workspace | None, name: str) -> Iterator[None]:
    """A stage of the fit, if the problem is one of a fit and not a small one inside it."""
    if work is None:
        yield
    else:
        with work.recorder.stage(name):
            yield
