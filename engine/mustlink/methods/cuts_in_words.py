"""What the report of a constrained fit tells of feasible cuts."""

from __future__ import annotations

from typing import Any

from mustlink.eigen.joint_range import FeasibleCuts
from mustlink.eigen.problem import Solution
from mustlink.observe import Recorder
from mustlink.selection.held_out_choice import NONE, Choice


def told_cuts(solution: Solution) -> dict[str, Any]:
    """Entries of the report: how many vectors of those wanted there are, and every feasible cut.

    Nothing for a method that has as many as it wants.
    """
    if solution.wanted is None:
        return {}
    found = {"found": int(solution.values.size), "wanted": solution.wanted}
    cuts = solution.cuts
    return {"feasible": found, **({} if cuts is None else {"cuts": _told(cuts)})}


def _told(cuts: FeasibleCuts) -> dict[str, Any]:
    """Columns of numbers."""
    return {
        "beta": cuts.beta,
        "volume": cuts.volume,
        "cost": cuts.cost,
        "alpha": cuts.alpha,
        "eigenvalues": cuts.values,
        "used": [at < cuts.used for at in range(cuts.cost.size)],
        "complete": cuts.complete,
        "unconstrained": {"cost": cuts.plain[:, 0], "alpha": cuts.plain[:, 1]},
        "range": {
            "inside": cuts.inside,
            "cost": cuts.boundary[:, 0],
            "alpha": cuts.boundary[:, 1],
        },
    }


def doubt_feasible(solution: Solution, recorder: Recorder) -> None:
    """Tell of vectors that are missing; half of them or more make K clusters doubtful."""
    found, wanted = solution.values.size, solution.wanted or 0
    if found >= wanted:
        return
    if 2 * found > wanted:
        recorder.note(f"only {found} of {wanted} vectors feasible; a smaller beta gives more")
    else:
        recorder.warn(
            f"only {found} of {wanted} vectors feasible, too few to tell all clusters apart; a "
            "smaller beta, or a larger subspace, gives more"
        )


def told_choices(parameter: str | None, choice: Choice, solution: Solution) -> dict[str, Any]:
    """What was chosen, for a report; `parameter` is the name of the method's own."""
    own = {} if parameter is None else {parameter: solution.parameter}
    return {
        "subspace": "exact" if choice.p is None or choice.reason == NONE else choice.p,
        **own,
        **({"weighing": choice.form} if choice.form else {}),
        "unit": solution.unit,
        "regularization": [choice.tau, choice.about_tau],
        "assign": choice.way,
        "why": choice.reason,
        "solver": solution.convergence.solver,
    }
