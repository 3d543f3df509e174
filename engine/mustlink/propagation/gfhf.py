"""Gaussian fields and harmonic functions, GF or GFHF (Zhu, Ghahramani & Lafferty 2003; AB09 §3.2).

Labels stay, every other node is the mean of its neighbours: f_u = (D_uu − W_uu)⁻¹W_ul y.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mustlink.context.method_cost import Cost, clamped_propagation
from mustlink.core.result import Convergence
from mustlink.propagation.answers import ADDED
from mustlink.propagation.held_out import Best, is_auto
from mustlink.propagation.problem import PropagationProblem, Solution
from mustlink.propagation.propagator import Propagator
from mustlink.space import Block, Dots, Gram, LocalSpace, Space, Vector

# 17 sets, 6 amounts of labels, accuracy with scaled masses: below .1 .74 for .66, from there to .25
# .80 for .77, above by hardly .005. Where classes of very unequal sizes have equally many labels
# scaling does harm: network connections, explained variance .44, ARI .40 for .86.
# The less they explain the more sizes must be right: on ten of the tables, with 4 or 11 labels a
# class at random or 2 to 19, ARI .49 for .40 with ten labels added whatever is explained.
_EXPLAINED = 0.25
_LEAST = 0.01  # a share counts as this at least


@dataclass(eq=False, repr=False)
class GFHF(Propagator):
    """Harmonic labels: min fᵀ(D − W)f with f = y on labelled nodes (AB09 eq. 8 and 9; WD12 eq. 2).

    Values are probabilities that a random walk from a node meets a label of each class first. With
    few labels on many nodes they are nearly constant and one class takes all: then the masses of
    the classes are scaled. Also the unnormalised cut of AB09 §4.1, relaxed. Cost: about
    15 multigrid cycles. See `Propagator` for the other parameters and what `fit` sets.

    * `class_mass`: "auto" is "equal" on a network, where the input is a graph. For points, where
      the values explain a share r < 1/4 of what could differ between nodes, it is the labels' own
      shares with 10/r labels added to every class; else False, as they are.
    """

    class_mass: Any = "auto"

    def cost(self, n_classes: int | None = None) -> Cost:
        """One equation for each class among the nodes without a label."""
        return clamped_propagation(super().cost(n_classes).columns)

    def _ways(self, *, network: bool) -> list[Self]:
        if network or not is_auto(self.class_mass):
            return super()._ways(network=network)
        return [self._with(network=False, class_mass="auto")]

    def _with_values(
        self, best: Best[Self], problem: PropagationProblem, solution: Solution
    ) -> Best[Self]:
        if not is_auto(self.class_mass):
            return best
        if problem.prior is not None:  # from which the sizes of the classes follow
            return best._replace(way=self._with(network=False, class_mass=False))
        share = explained_variance_ratio(solution.scores, problem.without_label, problem.space)
        why = f"class_mass: the nodes' values explain {share:.2f} of what could differ between them"
        masses: Any = False
        if share < _EXPLAINED:
            counts = problem.class_counts + ADDED / max(round(share, 2), _LEAST)
            masses = (counts / counts.sum()).tolist()
        return best._replace(way=self._with(network=False, class_mass=masses), why=why)

    def _solve(self, problem: PropagationProblem) -> Solution:
        return Solution(*harmonic(problem))


def explained_variance_ratio(F: Block, counts: Vector, space: Space | None = None) -> float:
    """Σ_c var(f_c) / Σ_c f̄_c(1 − f̄_c) of class probabilities (m, K): 0 where all rows are equal.

    1 where every row is sure of its class. `counts` (m,) is how often rows count.
    """
    space = LocalSpace(len(F)) if space is None else space
    weight, ones = space.column(counts), space.column(space.rowwise(np.ones_like, counts))
    squares = Dots(space.scaled(F, counts), F)
    (total,), first, second = space.sums(Dots(weight, ones), Gram(weight, F), squares)
    if total == 0:
        return 1.0
    mean = first[0] / total
    most = float((mean * (1.0 - mean)).sum())
    apart = float((second / total - mean**2).sum())
    return apart / most if most > 0 else 1.0


def harmonic(problem: PropagationProblem) -> tuple[Block, Convergence]:
    """Harmonic values (m, K) of one-hot labels; every row sums to 1."""
    return problem.minimise(clamped=problem.labelled)
