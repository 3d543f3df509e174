"""Gaussian fields and harmonic functions, GF or GFHF (Zhu, Ghahramani & Lafferty 2003; AB09 §3.2).

Labels stay as given, every other node is the mean of its neighbours: f_u = (D_uu − W_uu)⁻¹W_ul y.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mustlink.cost.method_cost import Cost, clamped_propagation
from mustlink.operators.laplacian import Block
from mustlink.propagate.glp import LaplacianEnergy
from mustlink.propagate.propagator import Propagator
from mustlink.propagate.task import Solution, Task
from mustlink.result import Convergence


@dataclass(eq=False, repr=False)
class GFHF(Propagator):
    """Harmonic labels: min fᵀ(D − W)f with f = y on labelled nodes (AB09 eq. 8 and 9; WD12 eq. 2).

    Values are probabilities that a random walk from a node meets a label of each class first. With
    few labels on many nodes they are nearly constant and one class takes all: use
    `class_mass="equal"`, or `Poisson`. Also the unnormalised cut of AB09 §4.1, relaxed. Cost: about
    15 multigrid cycles. See `Propagator` for the other parameters and what `fit` sets.

    * `class_mass`: "auto" is "equal" on a network, a graph that was given; False for points.
    """

    class_mass: Any = "auto"

    def cost(self, n_classes: int | None = None) -> Cost:
        """One equation for each class among the nodes without a label."""
        return clamped_propagation(super().cost(n_classes).columns)

    def _solve(self, task: Task) -> Solution:
        return Solution(*harmonic(task))


def harmonic(task: Task) -> tuple[Block, Convergence]:
    """Harmonic values (m, K) of one-hot labels; every row sums to 1."""
    return task.minimise(LaplacianEnergy(task.laplacian), clamped=task.labelled)
