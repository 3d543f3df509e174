"""Linear neighbourhood propagation, LNP (Wang & Zhang 2006; AB09 §3.5.3).

Every point is fitted by a convex combination of its neighbours, x_i ≈ Σ_j u_ij x_j with u_i a
probability distribution, and labels follow the same combinations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from mustlink.check import check_choice, check_positive, check_share
from mustlink.deadline import Deadline
from mustlink.eigen.work import MEMORY
from mustlink.kernels.local_fits import convex_weights
from mustlink.kernels.spmm import spmm_axpby
from mustlink.linear.bicgstab import block_bicgstab
from mustlink.linear.by_columns import by_columns, done
from mustlink.numeric import dense_algebra
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.propagate.neighborhoods import as_matrix, located, neighbourhoods
from mustlink.propagate.problem import PropagationProblem, Solution
from mustlink.propagate.propagator import Propagator
from mustlink.result import Convergence

VARIANTS = ("iteration", "minimizer")


@dataclass(eq=False, repr=False)
class LNP(Propagator):
    """Soft labels along U, the rows of which reconstruct the points from their neighbours.

    * `variant="iteration"`: f = (1 − α)(I − αU)⁻¹y, the limit of f ← αUf + (1 − α)y that is
      published and was measured in AB09 (eq. 18). U is not symmetric: stabilised bi-conjugate
      gradients. A labelled point that is in no other's combination has no say, and two classes
      of different say are not equally large: `class_mass=True` helps (MNIST, 5 labels a class:
      86 % right, with it 94 %, the minimiser 94 % without).
    * `variant="minimizer"`: the exact minimiser of Σ_ij u_ij (f_i − f_j)² + μΣ_i (f_i − y_i)²,
      μ = (1 − α)/α (eq. 17), which the iteration is not: (I + D_c − U − Uᵀ + μI)f = μy, D_c the
      column sums of U. AB09's own closed form, (I − (U + Uᵀ)/2)⁻¹(1 − α)y, leaves out D_c and
      α: its matrix is singular or indefinite, since U + Uᵀ has other row sums than 2.
    * `alpha` in (0, 1): how far labels travel.
    * `reg` > 0: ridge of the local fits, as a share of the squared distances.
    * `n_neighbors`: neighbours in a fit, the nearest of the graph.

    Needs points. Cost: O(n k²(d + k)) for the fits, some 10 to 100 products. See `Propagator`.
    """

    alpha: float = 0.99
    variant: str = "iteration"
    reg: float = 1e-3

    homes: ClassVar[frozenset[str]] = frozenset({MEMORY})
    _needs_points: ClassVar[bool] = True

    def _check_parameters(self) -> None:
        check_share(self.alpha, "alpha")
        check_choice(self.variant, VARIANTS, "variant")
        check_positive(self.reg, "reg")

    def _minimises(self) -> bool:
        return self.variant == "minimizer"

    def _solve(self, problem: PropagationProblem) -> Solution:
        alpha = float(self.alpha)
        with problem.recorder.stage("local fits"):
            points = located(problem.coordinates, self.metric)
            k, recorder = int(self.n_neighbors), problem.recorder
            lists = neighbourhoods(points, problem.work.laplacian, k, recorder)
            U = as_matrix(convex_weights(points, lists, float(self.reg)), lists)
        share = problem.share_labelled()[:, None] * problem.Y
        if self.variant == "iteration":
            found = iterated(problem, U, alpha, share)
        else:
            weight = problem.copies * ((1.0 - alpha) / alpha)
            along = replace(problem.work, part=both_ways(sp.diags_array(problem.copies) @ U))
            found = replace(problem, work=along).minimise(share, weight=weight)
        chosen = {"variant": self.variant, "alpha": alpha, "reg": float(self.reg)}
        return Solution(*found, chosen)


def iterated(
    problem: PropagationProblem, U: sp.csr_matrix, alpha: float, Y: Block
) -> tuple[Block, Convergence]:
    """(1 − α)(I − αU)⁻¹Y for row-stochastic U (m, m)."""
    tol, B = problem.solving.tolerance(problem.size), (1.0 - alpha) * Y
    with problem.recorder.stage("propagating") as advance:
        if problem.solving.is_dense(problem.size):
            F = dense_algebra.solve(np.eye(problem.size) - alpha * U.toarray(), B)
            return F, Convergence("LAPACK", "direct", 0, np.zeros(B.shape[1]), tol)

        def part(
            C: Block, advance: Callable[[float], None], until: Deadline
        ) -> tuple[Block, Convergence]:
            return block_bicgstab(
                lambda X: spmm_axpby(U, X, X, -alpha, 1.0),
                C,
                tol=tol,
                max_iter=problem.solving.max_iter,
                on_step=lambda worst: advance(done(worst, tol)),
                deadline=until,
            )

        return by_columns(part, B, advance, problem.solving.deadline, problem.solving.together)


def both_ways(U: sp.csr_matrix) -> NormalizedLaplacian:
    """The Laplacian of the graph U + Uᵀ, nodes numbered as in U."""
    return NormalizedLaplacian.of_weights(sp.csr_matrix(U + U.T))
