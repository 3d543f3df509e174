"""Lines 4 to 16 of CSC+GFHF: from propagated values to the vectors that are clustered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mustlink.eigen.low_rank_pencil import LowRankSolution, low_rank_pencil, solve_low_rank
from mustlink.eigen.plain_solve import is_small
from mustlink.eigen.sharpness import default_tolerance
from mustlink.eigen.solver import grids_of, laplacian_of
from mustlink.errors import InputError
from mustlink.linear.by_columns import done
from mustlink.linear.multigrid.hierarchy import build_hierarchy
from mustlink.linear.pseudo_inverse import Inverse, dense_inverse, rough_inverse
from mustlink.observe import Recorder
from mustlink.operators.gaussian_kernel import gaussian_factor, normalized_factor
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.stopping import TIME_LIMIT
from mustlink.workspace import Workspace

LARGE = 20_000  # nodes above which solves and kernel are as sharp as labels need, no sharper
_FEW, _MANY = 5, 25  # steps of conjugate gradients in a round
_MISSING = 0.1  # share of the kernel that a person should hear is missing
_DROPPED = 100.0  # eigenvalues of Q̄ below this many kernel tolerances are left out


@dataclass(frozen=True)
class Stationary:
    """Vectors to cluster and how the kernel was resolved: rank, and shares as `FactoredKernel`."""

    solution: LowRankSolution
    solver: str
    rank: int
    error: float
    spread: float


@dataclass(frozen=True)
class LabelKernel:
    """Q_ij = exp(−‖y_i − y_j‖²/2σ²) of width σ, and how sharp it is; see `CSCGFHF`."""

    width: float
    kernel_tol: float | None
    max_rank: int
    solver: str
    tol: float | None
    max_iter: int

    def stationary(
        self, work: Workspace, part: NormalizedLaplacian, points: Block, k: int
    ) -> Stationary:
        """Lines 4 to 16 on a part of the graph: the k − 1 unit vectors with the largest fᵀQ̄f.

        `points` (m, C) are the propagated values there.
        """
        m, sharp, recorder = part.size, self.kernel_tol, work.recorder
        sharp = sharp if sharp is not None else 1e-8 if m <= LARGE else 1e-3
        with recorder.stage("kernel of the labels"):
            Q = gaussian_factor(  # 4-8: Q ≈ ΦΦᵀ
                points,
                self.width,
                tol=sharp,
                least=k + 1,
                max_rank=self.max_rank,
                copies=part.weights,
            )
            pencil = low_rank_pencil(  # 12
                part,
                normalized_factor(Q.factor, part.weights),  # 9-10: Q̄ ≈ Φ̄Φ̄ᵀ
                least=k - 1,
                tol=min(0.1, _DROPPED * sharp),
            )
        rank, error, spread = int(Q.pivots.size), Q.error, Q.spread
        del Q  # n·r numbers
        tol = default_tolerance(m, single=work.single) if self.tol is None else self.tol
        steps = min(_FEW if tol >= 1e-5 else _MANY, self.max_iter)
        inverse, solver = self._inverse(work, part, steps)
        with recorder.stage("stationary labelings") as advance:
            solution = solve_low_rank(  # 12-16
                pencil,
                k - 1,
                inverse,
                tol=tol,
                max_rounds=max(1, self.max_iter // steps),
                on_round=lambda worst: advance(done(worst, tol)),
                deadline=recorder.deadline,
            )
        if solution.convergence.reason == TIME_LIMIT:
            recorder.leave_out(solution.convergence.status)
        return Stationary(solution, solver, rank, error, spread)

    def _inverse(
        self, work: Workspace, part: NormalizedLaplacian, steps: int
    ) -> tuple[Inverse, str]:
        """L̄⁺ on the part, and by what."""
        if self.solver == "dense" or (self.solver == "auto" and is_small(part)):
            return dense_inverse(part), "LAPACK"
        if part is laplacian_of(work):
            grids = grids_of(work)
        else:
            with work.recorder.stage("multigrid set-up"):
                grids = build_hierarchy(part)
        return rough_inverse(part, grids, steps, work.recorder.deadline), "block CG"


def answered(whole: NormalizedLaplacian, P: Block) -> NormalizedLaplacian:
    """The part of the graph that labels reach: its components with a row of P (n, C) not zero."""
    part = whole.reached_from(np.asarray(whole.enter(P).any(axis=1)))
    if np.count_nonzero(part.enter(P).any(axis=0)) < 2:
        raise InputError(
            "y: nodes with an edge carry labels of less than two classes; label others, too"
        )
    return part


def note_of_kernel(cut: Stationary, max_rank: int, recorder: Recorder) -> None:
    """Say what is missing of the kernel or its vectors, and what was done about components."""
    convergence = cut.solution.convergence
    if not convergence.converged.all() and convergence.reason != TIME_LIMIT:
        recorder.warn(convergence.status)
    if cut.rank >= max_rank and cut.error > _MISSING * cut.spread:
        recorder.warn(
            f"{cut.rank} columns leave {cut.error / cut.spread:.0%} of the kernel out; raise "
            "sigma or max_rank"
        )
    if cut.solution.tie:
        recorder.note(
            "the graph falls into components: they are tied to their common mean as stiffly "
            "as they hold together inside, else each would be cut by itself"
        )
