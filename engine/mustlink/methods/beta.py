"""How much satisfaction CSP demands: β as a fraction of an eigenvalue of Q̄, by rules of papers."""

from __future__ import annotations

import numpy as np

from mustlink.constraints import Constraints
from mustlink.errors import InfeasibleError
from mustlink.operators.constraint_operator import ConstraintOperator

_TIE = 1e-6
_NEARLY = 0.99
_STEPS = 100  # values tried by a search (WHC11 §4.1)
_WIDER = 100.0
WIDER = ("wide", "wide-printed")
SEARCHED = ("search", *WIDER)
NAMED = ("paper", "paper-max", "tight", *SEARCHED)


def check_beta(b: float, kth: float, largest: float, rank: int) -> None:
    """Raise InfeasibleError unless β = b·unit < λ_{K−1}(Q̄) (WD14 Alg. 1 and 2, line 4)."""
    if kth > 0 and b >= 1:
        raise InfeasibleError(
            f"beta: {b:g} leaves no feasible vector; give a fraction below 1 of "
            f"λ_{rank}(Q̄) = {kth:.4g}, for example 0.5, or a negative one"
        )
    if kth <= 0 and b >= 0:
        raise InfeasibleError(
            f"beta: {b:g} leaves fewer than {rank} feasible vectors, λ_{rank}(Q̄) being "
            f"{kth:.4g}; give a negative fraction (of λ_max(Q̄) = {largest:.4g}), or constraints "
            "on more clusters"
        )


def tight_fraction(kth: float, following: float, unit: float) -> float:
    """β between two eigenvalues as a fraction of the unit: 0.99, or halfway if the next is nearer.

    Just below the larger if they tie.
    """
    if unit <= 0:
        return 0.5
    halfway = (kth + following) / 2.0 / unit
    return min(max(halfway, _NEARLY), 1.0 - _TIE) if kth > 0 else min(halfway, -_TIE)


def named_betas(
    name: str, Q: ConstraintOperator, unit: float, volume: float, known: Constraints
) -> tuple[float, ...]:
    """The values behind a name of β, as fractions of the unit λ_{K−1}(Q̄).

    WHC11's larger range [−100 max|λ| vol, λ_max] has an end without vol, next to nothing. "wide"
    goes to λ_max·vol and leaves out both ends, as "search" does: where |λ_min| <= λ_max a step is
    λ_max, so that 0 is the strongest value. That is what reproduces WHC11's Tables 1 and 3: with
    the ends 0 is stepped over. "wide-printed" has both ends as printed.
    """
    largest = Q.kth_largest(1)
    if name in ("paper", "paper-max"):
        # WD14 eq. 19, with Q's entries counted: both (i, j) and (j, i).
        share = 2.0 * known.n_constraints / float(known.n_nodes) ** 2
        fraction = 0.5 + 0.4 * min(share, 1.0)
        return (fraction * largest / unit if name == "paper-max" and unit > 0 else fraction,)
    if unit <= 0 or name == "tight":
        return (0.5,)
    least = largest - Q.spread
    low = least if name == "search" else -_WIDER * max(abs(least), abs(largest))
    if name == "wide-printed":
        tried = np.linspace(low, largest / volume, _STEPS)
    else:
        tried = np.linspace(low, largest, _STEPS + 2)[1:-1]
    return tuple(float(value) for value in tried / unit)
