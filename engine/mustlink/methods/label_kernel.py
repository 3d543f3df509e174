"""The kernel of propagated labels and its stationary labelings (WD12 Alg. 4 lines 4 to 15)."""

from __future__ import annotations

from dataclasses import dataclass

from mustlink.eigen.low_rank_pencil import (
    Inverse,
    LowRankSolution,
    dense_inverse,
    low_rank_pencil,
    rough_inverse,
    solve_low_rank,
)
from mustlink.eigen.solver import default_tolerance, grids_of, is_small, laplacian_of
from mustlink.graph import Graph
from mustlink.linear.multigrid.smoothed_aggregation import build_grids
from mustlink.observe import Recorder
from mustlink.operators.gaussian_kernel import gaussian_factor, normalized_factor
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.propagate.glp import done

LARGE = 20_000  # nodes above which solves and kernel are as sharp as labels need, no sharper
_ROUGH = 10.0  # propagated values so much less sharp than the vectors give the same clusters
_FEW, _MANY = 5, 25  # steps of conjugate gradients in a round
_DROPPED = 100.0  # eigenvalues of Q̄ below this many kernel tolerances are left out


@dataclass(frozen=True)
class LabelCut:
    """Vectors to cluster and how the kernel was resolved: rank, and shares as `FactoredKernel`."""

    solution: LowRankSolution
    solver: str
    rank: int
    error: float
    spread: float


@dataclass(frozen=True)
class LabelKernel:
    """Q_ij = exp(−‖y_i − y_j‖²/2σ²), and how sharply it is factored and its pencil solved.

    None stands for the defaults: kernel 1e-8 and residuals 1e-8, from 20,000 nodes on 1e-3 and
    1e-4, from 200,000 on 1e-3.
    """

    sigma: float
    kernel_tol: float | None
    max_rank: int
    solver: str
    tol: float | None
    max_iter: int

    def propagation_tolerance(self, n: int) -> float | None:
        """Relative residual of the propagated values; None leaves it to the propagator."""
        return self.tol if self.tol is not None or n <= LARGE else _ROUGH * default_tolerance(n)

    def cut(
        self, graph: Graph, part: NormalizedLaplacian, points: Block, k: int, recorder: Recorder
    ) -> LabelCut:
        """The k − 1 unit vectors of L̄f = λQ̄f with the largest fᵀQ̄f.

        `points` (m, C) are the propagated values on `part`, the whole graph or some components.
        """
        m = part.size
        sharpness = self.kernel_tol if self.kernel_tol is not None else _kernel_default(m)
        with recorder.stage("kernel of the labels"):
            kernel = gaussian_factor(
                points, self.sigma, tol=sharpness, least=k + 1, max_rank=self.max_rank
            )
            pencil = low_rank_pencil(
                part,
                normalized_factor(kernel.factor),
                least=k - 1,
                tol=min(0.1, _DROPPED * sharpness),
            )
        rank, error, spread = int(kernel.pivots.size), kernel.error, kernel.spread
        del kernel  # n·r numbers
        tol = default_tolerance(m) if self.tol is None else self.tol
        steps = min(_FEW if tol >= 1e-5 else _MANY, self.max_iter)
        inverse, solver = self._inverse(graph, part, steps, recorder)
        with recorder.stage("stationary labelings") as advance:
            solution = solve_low_rank(
                pencil,
                k - 1,
                inverse,
                tol=tol,
                max_rounds=max(1, self.max_iter // steps),
                on_round=lambda worst: advance(done(worst, tol)),
            )
        return LabelCut(solution, solver, rank, error, spread)

    def _inverse(
        self, graph: Graph, part: NormalizedLaplacian, steps: int, recorder: Recorder
    ) -> tuple[Inverse, str]:
        """L̄⁺ on the part, and by what."""
        if self.solver == "dense" or (self.solver == "auto" and is_small(part)):
            return dense_inverse(part), "LAPACK"
        if part is laplacian_of(graph, recorder):
            grids = grids_of(graph, recorder)
        else:
            with recorder.stage("multigrid set-up"):
                grids = build_grids(part)
        return rough_inverse(part, grids, steps), "block CG"


def _kernel_default(m: int) -> float:
    return 1e-8 if m <= LARGE else 1e-3
