"""What the caller of a constrained fit left open is decided: by held-out constraints if it can be.

Too few of them, or a search over the parameter, are decided by criterion E.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mustlink.cost.method_cost import full_problem
from mustlink.cost.process_memory import size_text
from mustlink.cost.rates import search_seconds, smooth_seconds, step_seconds
from mustlink.deadline import duration_text
from mustlink.eigen.plain_solve import DENSE_BELOW
from mustlink.eigen.problem import Solving
from mustlink.errors import InfeasibleError, OutOfMemoryError
from mustlink.rounding.assign import transform
from mustlink.selection.constrained_fit import Request
from mustlink.selection.held_out import (
    NONE,
    WAY_MARGIN,
    Candidates,
    Choice,
    can_hold_out,
    choose_smooth,
    folds_of,
    held_out_score,
    sampled_rows,
    subspace_sizes,
)
from mustlink.selection.regularization import SMOOTH, reason_for_none
from mustlink.stopping import TIME_LIMIT

TRUSTED = 0.95  # held-out score from which the smooth subspace is not questioned
# A cluster, that closed pairs are about: up to so many criterion E chooses as well as pairs held
# out in a third of the time (CSP, five sets, six runs each of 15 refits to 300 asked pairs: mean
# ARI of all refits .772 and .775, of the last .824 and .799).
_FEW_NODES = 50
_RIVAL_FOLDS = 2
_FLOOR = 30.0  # nominal seconds that the full problem may always take as a rival
_LEAST_STEPS = 15  # of an eigensolver, with fewer of which a trial says nothing
_GROSS, _GROSS_FLOOR = 2.0, 60.0  # times the clock's seconds before, beyond which it is dropped


def resolve(request: Request) -> Choice:
    """Decide subspace, parameter and discretisation where the caller left them open."""
    choice = _resolved(request)
    if choice.reason != NONE and request.left:
        left = "; ".join(dict.fromkeys(request.left))
        where = f"on {request.work.home}"
        request.recorder.note(f"not tried {where}, as in memory: {left}")
    return choice if choice.about_tau else replace(choice, about_tau=_why_one(request))


def _resolved(request: Request) -> Choice:
    grid, k, recorder = request.formulation.grid, request.k, request.recorder
    if request.known.is_empty or not request.formulation.problem.acts:
        recorder.note("no constraints act: the smoothest vectors of the graph alone are clustered")
        if request.regularization not in ("auto", 0):
            recorder.note("regularization: not used without constraints; NCut takes it")
        way = "kmeans" if request.roundings[0] == "sign" and k > 2 else request.roundings[0]
        return Choice(request.unconstrained, grid.smooth[-1], way, NONE)
    if request.solves_exactly:
        return by_criterion(request, None, grid.exact)
    if isinstance(request.subspace, str):
        labelled = request.known.counts()["labelled"]
        sizes = request.within(subspace_sizes(k, request.most_directions(), labelled))
    else:
        sizes = (min(int(request.subspace), request.directions),)
    taus = _regularizations(request)
    values = grid.smooth if not request.by_criterion else grid.smooth[-1:]
    if _spares_none(request, taus) and not request.by_criterion:
        return by_few(request, sizes, taus[0])
    forms = request.formulation.forms[:1] if request.by_criterion else request.formulation.forms
    candidates = Candidates(sizes, values, request.roundings, taus, forms)
    # The eigenvectors are their own stage; choosing among them is timed by itself.
    request.basis(max((p for p in sizes if p <= 4 * k), default=sizes[0]), taus[0])
    choice = choose_smooth(
        request.known, k, candidates, request.basis, request.formulation_of, request.seed, recorder
    )
    if request.by_criterion:
        found = by_criterion(request, choice.p, grid.smooth, choice.tau)
        return replace(found, about_tau=choice.about_tau)
    open_ = request.subspace == "auto" and request.regularization in ("auto", 0)
    if open_ and choice.score is not None and choice.score < TRUSTED:
        if not request.in_memory:
            request.left.append("the full problem")
        elif recorder.deadline.is_over:
            recorder.leave_out("the full problem was not tried beside the smooth subspace")
        else:
            choice = _rival(request, choice)
    recorder.note(f"{choice.where}, parameter {choice.value:g}, {choice.way}: {choice.reason}")
    return choice


def _spares_none(request: Request, taus: tuple[float, ...]) -> bool:
    """Whether nothing is held out: too little is known, or closed pairs of few nodes are.

    To leave out a quarter of what follows from each other takes more than a quarter of what is
    known. What networks have added to their degrees is told by nothing else, though.
    """
    known, k = request.known, request.k
    closed = known.hard is not None and known.labels is None
    few = closed and known.nodes.size < _FEW_NODES * k and len(taus) == 1
    return few or not can_hold_out(known, k)


def _regularizations(request: Request) -> tuple[float, ...]:
    """What may be added to the degrees, first what the rest must beat."""
    if request.regularization != "auto":
        return (float(request.regularization),)
    return (0.0,) if reason_for_none(request.look) else (0.0, SMOOTH)


def _why_one(request: Request) -> str:
    """Why no regularisation was tried beside the one that was taken."""
    if request.regularization != "auto":
        return "given"
    if request.solves_exactly:
        return "the full problem has no smooth subspace"
    return reason_for_none(request.look) or "no constraints, or too few to hold some out"


def _fits_whole(request: Request) -> bool:
    """Whether the full problem fits into the memory; a note where it does not."""
    work: Any = request.work
    room = work.view.room
    if room is None or request.is_small:
        return True
    single, size = request.stated
    needed = full_problem(request.k).peak(size, single=single)
    if needed <= room:
        return True
    request.recorder.note(
        f"memory: the full problem needs {size_text(needed, up=True)} and is not tried"
    )
    return False


def _rival(request: Request, choice: Choice) -> Choice:
    """The full problem where the smooth subspace predicts badly, if it predicts better.

    That is so for local graphs (pixels) with few labels, whose clusters no smooth vector shows.
    Only for labels, whose problems are solved in seconds, and for small graphs. It may take as much
    work as all before it, counted and not timed (`cost.rates`), so that the same seed makes the
    same choice; the clock has a say only where it takes twice as long as all before it.
    """
    known, k, seed, recorder = request.known, request.k, request.seed, request.recorder
    only_labels = known.kind == "labels"
    work: Any = request.work
    laplacian, small = work.laplacian, request.is_small
    if not (only_labels or small) or not _fits_whole(request):
        return choice
    best, table = choice, list(choice.scores)
    folds = folds_of(known, seed)
    few = laplacian.size <= DENSE_BELOW
    folds = folds if few else folds[:_RIVAL_FOLDS]
    trial = request.rough if small else _within_share(request, choice, len(folds))
    if trial is None:
        return choice
    for value in request.formulation.grid.rivals:
        scores: dict[str, list[float]] = {way: [] for way in request.roundings}
        for fold in folds:
            formulation = request.formulation_of(fold.kept).of(choice.form)
            try:
                solution = formulation.problem.solve(value, trial, work.view)
            except InfeasibleError:
                break
            except OutOfMemoryError as error:
                request.recorder.note(f"{error}; the full problem is left out")
                break
            if solution.convergence.reason == TIME_LIMIT:
                left = "the full problem was dropped as a rival: it takes too long"
                over = recorder.deadline.is_over
                (recorder.leave_out if over else recorder.note)(left)
                return replace(best, scores=tuple(table), about_tau=choice.about_tau)
            sample = sampled_rows(laplacian, fold.nodes, seed)
            U = solution.vectors[sample.rows] * formulation.row_scale[sample.rows, None]
            for way, found in scores.items():
                E = transform(U, way, solution.cost)
                found.append(held_out_score(E, sample, fold, k, way, seed))
        else:
            for way, found in scores.items():
                score = float(np.mean(found))
                table.append((0, value, way, score, 0.0))
                margin = 0.0 if best.p is not None else WAY_MARGIN
                if best.score is None or score > best.score + margin:
                    reason = (
                        f"keeps {score:.1%} of held-out constraints, the best smooth subspace "
                        f"{choice.score:.1%}"
                    )
                    best = Choice(None, value, way, reason, score, form=choice.form)
    return replace(best, scores=tuple(table), about_tau=choice.about_tau)


def _within_share(request: Request, choice: Choice, n_folds: int) -> Solving | None:
    """How the rival's trials are solved, or None and a note where its share is too small for any.

    The share is what finding neighbours and the largest subspace took, half a minute at least.
    """
    info, recorder, size = request.work.info, request.recorder, request.stated[1]
    tried = max((p for p, *_ in choice.scores), default=request.k)
    before = smooth_seconds(size, tried)
    if info.get("kind") == "knn":
        before += search_seconds(size.n, int(info["n_neighbors"]))
    solves = n_folds * max(1, len(request.formulation.grid.rivals))
    step = step_seconds(size, request.k, pencil=True)
    steps = int(max(before, _FLOOR) / (solves * step))
    rough = request.rough
    if steps < _LEAST_STEPS:
        recorder.note(
            f"the full problem was not tried beside the smooth subspace: {solves} solves would "
            f"take about {duration_text(round(solves * step * rough.max_iter))}, all before them "
            f'about {duration_text(round(before))}; subspace="exact" solves it'
        )
        return None
    most = min(rough.max_iter, steps)
    recorder.note(
        f"the smooth subspace keeps only {choice.score:.0%} of held-out constraints: the full "
        f"problem is tried, too, for at most about {duration_text(round(solves * step * most))}, "
        "and solved once more where it keeps more of them"
    )
    elapsed = sum(stage.seconds for stage in recorder.stages)
    until = recorder.deadline.sooner(max(_GROSS * elapsed, _GROSS_FLOOR))
    return replace(rough, max_iter=most, deadline=until)


# --- Choices by WHC11's criterion E: of a parameter, and of everything where constraints are few


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
