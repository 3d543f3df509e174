"""Gaussian random walks with EM, GWEM (Szummer & Jaakkola 2002; AB09 §3.5.2).

A label travels m steps of the random walk P = D⁻¹W. P^m is applied, m products one after the other,
and never formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from mustlink.core.check import as_integer, check_choice
from mustlink.eigen.work import MEMORY
from mustlink.linear.laplacian_solve import usual_preconditioner
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.propagation.generalized import Floats, Ints, System, minimised, restricted
from mustlink.propagation.problem import PropagationProblem, Solution
from mustlink.propagation.propagator import Propagator

VARIANTS = ("em", "fixed-point")
_STALL = 1e-4  # EM ends when no probability moves by more


@dataclass(eq=False, repr=False)
class GWEM(Propagator):
    """Class distributions of all nodes that explain labels m steps of a random walk away.

    * `n_steps` m >= 1: steps of the walk; many forget the graph, few may reach few nodes.
    * `em_steps`: the most steps of EM.
    * `variant`: which solution: "em" the EM algorithm of Szummer & Jaakkola, from uniform
      distributions; "fixed-point" f_u = (D_Z,uu − Z_uu)⁻¹Z_ul y with Zᵀ = P^m, to which AB09
      reduces EM but which holds labelled nodes at their labels: harmonic labels of the m-step walk,
      and with few labels as nearly constant as those of GFHF.

    As Z = DP^mD⁻¹ = D·C with C = P^mD⁻¹ symmetric, the fixed point is GFHF on the graph C. Cost:
    some ten multigrid cycles and as many times m products; EM 2m products a step.
    """

    n_steps: int = 20
    variant: str = "em"
    em_steps: int = 10

    homes: ClassVar[frozenset[str]] = frozenset({MEMORY})

    @property
    def _minimises(self) -> bool:
        return self.variant == "fixed-point"

    def _check_parameters(self) -> None:
        as_integer(self.n_steps, "n_steps", 1)
        as_integer(self.em_steps, "em_steps", 1)
        check_choice(self.variant, VARIANTS, "variant")

    def _solve(self, problem: PropagationProblem) -> Solution:
        laplacian: Any = problem.laplacian
        walk = WalkEnergy(laplacian, int(self.n_steps))
        choices = {"n_steps": walk.n_steps, "variant": self.variant}
        if self.variant == "em":
            P, steps = expectation_maximisation(walk, problem, int(self.em_steps))
            return Solution(P, None, {**choices, "em_steps": steps})
        Y, weight = problem.believed(problem.Y)
        held = np.flatnonzero(problem.labelled)
        how = problem.recorder, problem.solving
        return Solution(*minimised(walk, Y, held, weight, None, *how), choices)


@dataclass(frozen=True, eq=False)
class WalkEnergy:
    """The Laplacian of the graph C = P^mD⁻¹ = D^-½S^mD^-½: M = diag(C1) − C.

    Between copies of nodes that stand for several C is the same matrix of the folded graph.
    """

    laplacian: NormalizedLaplacian
    n_steps: int

    def walk(self, X: Block) -> Block:
        """CX for a block (m, b); cost `n_steps` products."""
        inverse = 1.0 / self.laplacian.root_degree[:, None]
        Y = np.ascontiguousarray(inverse * X)
        for _ in range(self.n_steps):
            Y = self.laplacian.neighbours(Y)
        return inverse * Y

    def walk_over_copies(self, X: Block) -> Block:
        """Sums Σ_j c_j C_ij x_j over all copies of nodes, (m, b)."""
        return self.walk(self.laplacian.copies[:, None] * X)

    @property
    def size(self) -> int:
        """Number of nodes m."""
        return self.laplacian.size

    @cached_property
    def degrees(self) -> Floats:
        """Row sums C1 of the m-step graph."""
        return self.walk_over_copies(np.ones((self.size, 1)))[:, 0]

    def apply(self, X: Block) -> Block:
        """MX for a block (m, b), summed over the copies of every node."""
        copies = self.laplacian.copies[:, None]
        return copies * (self.degrees[:, None] * X - self.walk_over_copies(X))

    def system(self, free: Ints, weight: Floats) -> System:
        """Preconditioned by G/m + 1/C1, G the multigrid of one step.

        An error that one step shrinks by 1 − ε the walk shrinks by (1 − ε)^m, and 1 − (1 − ε)^m is
        min(1, mε) up to a factor of 2.
        """
        copies = self.laplacian.copies
        step = self.laplacian.rescaled(copies / self.laplacian.root_degree).in_double
        kept, ground = np.zeros(self.size, dtype=np.bool_), np.zeros(self.size)
        kept[free], ground[free] = True, weight
        one = step.grounded(ground, kept)
        cycle = usual_preconditioner(one)
        outer = 1.0 / one.root_degree[free, None]
        local = (1.0 / ((copies * self.degrees)[free] + weight))[:, None]

        def precondition(R: Block) -> Block:
            whole = np.zeros((self.size, R.shape[1]))
            whole[free] = outer * R
            return outer * cycle(whole)[free] / self.n_steps + local * R

        return System(restricted(self, free, weight), precondition)


def expectation_maximisation(
    walk: WalkEnergy, problem: PropagationProblem, most: int
) -> tuple[Block, int]:
    """EM for distributions p(c | i) that explain the labels m steps away (Szummer & Jaakkola 2002).

    With P(i | k) = C_ki / (C1)_k: E-step N_k = Σ_i p(y_k | i) P(i | k) for labelled k; M-step
    p(c | i) ∝ p(c | i) Σ_{k of class c} P(i | k)/N_k. The answer at j is Σ_i p(c | i) P(i | j).
    Sums are over all copies of nodes, and over labelled ones. Nodes that no labelled one reaches in
    m steps do not count. Returns the values (m, K) and the steps taken: ten are as good as fifty,
    after which EM is far from converged.
    """
    labelled = np.flatnonzero(problem.labelled)
    at = labelled, problem.codes[labelled]
    spread, held = walk.degrees[labelled], problem.labels_held[labelled]
    sources = np.zeros_like(problem.Y)
    p, moved, step = np.full_like(problem.Y, 1.0 / problem.n_classes), np.inf, 0
    with problem.recorder.stage("EM") as advance:
        while step < most and moved > _STALL and not (step and problem.solving.deadline.is_over):
            explained = walk.walk_over_copies(p)[at] / spread
            sources[at] = held / (spread * np.maximum(explained, 1e-300))
            share = p * walk.walk(sources)
            total = share.sum(axis=1, keepdims=True)
            following = np.divide(share, total, out=np.zeros_like(share), where=total > 0)
            moved = float(np.abs(following - p)[total[:, 0] > 0].max(initial=0.0))
            p, step = following, step + 1
            advance(step / most)
        answer = walk.walk_over_copies(p) / walk.degrees[:, None]
    if step < most and moved > _STALL:
        problem.recorder.skip_for_time(f"EM: {step} of {most} steps taken; give more time")
    return answer, step
