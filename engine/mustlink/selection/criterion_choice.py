"""Choices by WHC11's criterion E: of a parameter, and of everything where constraints are few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mustlink.errors import InfeasibleError
from mustlink.selection.constrained_fit import Request
from mustlink.selection.held_out_choice import Choice

_HALF_WEIGHT = 20.0  # constrained nodes a cluster at which they weigh half in E
Candidate = tuple[int | None, float, str]  # dimension, None: the full problem; value; form
_FEW = 4  # times K: the largest subspace for constraints too few to hold some out


def by_few(request: Request, sizes: tuple[int, ...], tau: float) -> Choice:
    """Too few constraints to hold some out: the largest E over small subspaces and all values.

    The subspaces are those of degrees with τ added.

    K − 1 directions, where the graph decides alone, are among them: a handful of constraints was
    measured to spoil a clear graph otherwise (20 pairs on small sets: +0.10 ARI on average). What
    they keep weighs t / (t + 20) for t constrained nodes a cluster, as few are easily obeyed by
    chance (ARI of CSP, nine kinds of data with 10 or 33 pairs, 1 or 2 labels a class: 0.810 to
    0.824; on a sparse network, 10 pairs, 0.63 to 0.88).
    """
    k, grid, forms = request.k, request.formulation.grid, request.formulation.forms
    first, ps = forms[0], [p for p in sizes if p <= _FEW * k]
    candidates: list[Candidate] = []
    if isinstance(request.subspace, int):
        ps = [sizes[0]]
    else:
        candidates = [(k - 1, grid.as_if_unknown, first)]
    candidates += [(p, value, form) for form in forms for p in ps for value in grid.smooth]
    if request.subspace == "auto" and not tau and request.is_small:
        if request.in_memory:
            candidates += [(None, value, first) for value in grid.exact]
        else:
            request.left.append("the full problem")
    request.basis(max(ps), tau)  # at once: shorter ones, which are tried first, are its beginning
    t = request.known.nodes.size / k
    return _best_by_criterion(request, candidates, tau, t / (t + _HALF_WEIGHT))


def by_criterion(
    request: Request, p: int | None, values: tuple[float, ...], tau: float = 0.0
) -> Choice:
    """The value of largest E, in the full problem for p = None, else among p directions."""
    given = request
    if p is None and not request.is_small:
        given = replace(request, solving=request.rough)
    form = request.formulation.form
    return _best_by_criterion(given, [(p, value, form) for value in values], tau)


def _best_by_criterion(
    request: Request,
    candidates: Sequence[Candidate],
    tau: float,
    weight: float = 1.0,
) -> Choice:
    """The candidate of largest E (WHC11 eq. 17); one alone needs no trial.

    `weight` is that of the constraints in E. Every full problem starts from the vectors of
    the one before.
    """
    if len(candidates) == 1:
        p, value, form = candidates[0]
        return Choice(p, value, request.roundings[0], "given", tau=tau, form=form)
    # A vector cut at 0 may leave one side empty; the paper's way is tried first all the same.
    ways = request.roundings if request.k == 2 else request.roundings[:1]
    found: list[tuple[tuple[bool, float], Choice]] = []
    start = None
    for number, (p, value, form) in enumerate(candidates):
        if found and request.recorder.deadline.is_over:
            left = len(candidates) - number
            request.recorder.leave_out(f"{left} of {len(candidates)} candidates were not tried")
            break
        try:
            trial = Choice(p, value, ways[0], "", tau=tau, form=form)
            solution = request.solved(trial, start)
        except InfeasibleError:
            continue
        start = solution.vectors if p is None else None
        for way in ways:
            trial = replace(trial, way=way)
            # One giant cluster keeps all must-links and cuts nothing, but is no answer.
            found.append((request.criterion(trial, solution, weight), trial))
    if not found:
        none = "no value tried leaves a feasible vector"
        return Choice(candidates[0][0], -0.1, ways[0], none, tau=tau)
    (_, score), best = max(found, key=lambda one: one[0])
    lighter = "" if weight == 1.0 else f" with constraints weighing {weight:.0%}"
    reason = f"criterion E{lighter} is {score:.3f}, the best of {len(found)} candidates"
    request.recorder.note(f"{best.where}, parameter {best.value:.4g}, {best.way}: {reason}")
    table = tuple((trial.p or 0, trial.value, trial.way, rank[1], tau) for rank, trial in found)
    return replace(best, reason=reason, scores=table)
