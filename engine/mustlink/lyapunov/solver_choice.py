"""Which solver finds F."""

from __future__ import annotations

from mustlink.cost.method_cost import SPREAD_DENSE_BELOW
from mustlink.errors import InputError
from mustlink.lyapunov.equation import LyapunovProblem, Problem

SOLVERS = ("auto", "dense", "diffusion", "krylov")
_LOCAL_MU = 0.02  # for smaller μ sources reach most nodes of most graphs
_ALL_BELOW = 5_000  # nodes up to which every pair may become an edge


def choose(problem: Problem, solver: str, *, everywhere: bool = False) -> str:
    """The solver that "auto" stands for, LAPACK where F is wanted everywhere; raises InputError."""
    if everywhere:
        if solver not in ("auto", "dense"):
            raise InputError(
                f'new_edges: "all" takes every F, which is for "dense", not "{solver}"'
            )
        if problem.size > _ALL_BELOW:
            raise InputError(
                f'new_edges: "all" makes a graph of all pairs of {problem.size:,} nodes; at most '
                f"{_ALL_BELOW:,} will do, give a number such as 20"
            )
        return "dense"
    if solver == "auto" and problem.size <= SPREAD_DENSE_BELOW:
        return "dense"
    return choose_large(problem, solver)


def choose_large(problem: Problem, solver: str) -> str:
    """The same where LAPACK is out of the question."""
    if solver == "krylov" and not isinstance(problem, LyapunovProblem):
        raise InputError('solver: "krylov" is for SRCP; use "diffusion" or "dense" for E2CP')
    if solver != "auto":
        return solver
    far = isinstance(problem, LyapunovProblem) and problem.mu < _LOCAL_MU
    return "krylov" if far else "diffusion"
