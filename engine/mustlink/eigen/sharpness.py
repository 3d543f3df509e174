"""How sharp eigenvectors are asked for, and what is said where they are not."""

from __future__ import annotations

from mustlink.result import Convergence
from mustlink.stopping import TIME_LIMIT
from mustlink.workspace import Workspace

SINGLE_TOL = 1e-6  # a residual that single precision reaches; rounding alone makes some 1e-7


def default_tolerance(n: int, *, single: bool = False) -> float:
    """Residual asked for when the caller names none: 1e-8, 1e-4 from 20,000, 1e-3 from 200,000.

    Measured on well and badly separated graphs: the labels do not change below these. With vectors
    in single precision it is at least 1e-6.
    """
    usual = 1e-8 if n <= 20_000 else 1e-4 if n <= 200_000 else 1e-3
    return max(usual, SINGLE_TOL) if single else usual


def regularized_tolerance(n: int) -> float:
    """Least residual asked for with regularised degrees: 1e-4, 1e-3 from 20,000, 1e-2 from 200,000.

    Networks have no gaps that would want more: clusters of sharper vectors were not better.
    """
    return 1e-4 if n <= 20_000 else 1e-3 if n <= 200_000 else 1e-2


def warn_unconverged(work: Workspace, convergence: Convergence) -> None:
    """Warn of what was missed, unless the time limit was, which has been told where it was."""
    if not convergence.converged.all() and convergence.reason != TIME_LIMIT:
        work.recorder.warn(unconverged(work, convergence))


def unconverged(work: Workspace, convergence: Convergence) -> str:
    """What was missed and what to do, also where the precision is not made for the tolerance."""
    if work.single and convergence.tolerance < SINGLE_TOL:
        return (
            f"{convergence.status}, or give more memory: single precision, all that fits, "
            f"reaches about {SINGLE_TOL:.0e}"
        )
    return convergence.status
