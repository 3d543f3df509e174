"""How sharp eigenvectors are asked for, and what is said where they are not."""

from __future__ import annotations

from mustlink.observe import Recorder
from mustlink.result import Convergence
from mustlink.stopping import STAGNATED, TIME_LIMIT

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


def tell_unconverged(recorder: Recorder, convergence: Convergence, *, single: bool) -> None:
    """Warn of what was missed; a time limit is told of where it ended the iteration.

    Vectors in `single` precision are not made for every tolerance.
    """
    if convergence.converged.all() or convergence.reason == TIME_LIMIT:
        return
    told = convergence.status
    if single and convergence.tolerance < SINGLE_TOL:
        told += (
            f", or give more memory: single precision, all that fits, reaches about "
            f"{SINGLE_TOL:.0e}"
        )
    recorder.warn(told)


def tell_end(recorder: Recorder, convergence: Convergence, *, single: bool = False) -> None:
    """Tell how an iteration ended where more steps would not have helped.

    What a few more steps would have reached is told by who uses the vectors.
    """
    if convergence.reason == TIME_LIMIT:
        recorder.leave_out(convergence.status)
    elif convergence.reason == STAGNATED:
        tell_unconverged(recorder, convergence, single=single)
