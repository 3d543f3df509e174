"""What the caller of a constrained fit left open is decided: by held-out constraints if it can be.

Too few of them, or a search over the parameter, are decided by criterion E.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.context.method_cost import full_problem, smooth_seconds, step_seconds
from mustlink.context.rates import search_seconds
from mustlink.core.observe import duration_text
from mustlink.core.resources import size_text
from mustlink.core.result import TIME_LIMIT
from mustlink.discretize.assign import transform
from mustlink.eigen.plain_solve import DENSE_BELOW
from mustlink.eigen.smooth_subspace import EigenOptions
from mustlink.errors import InfeasibleError, OutOfMemoryError
from mustlink.selection.constrained_fit import FACTORS, USUAL, FitSpec
from mustlink.selection.held_out import (
    NONE,
    Fold,
    SelectedModel,
    can_hold_out,
    folds_of,
    held_out_score,
    sampled_rows,
)
from mustlink.selection.regularization import SMOOTH

# What is held out is the same for every seed of a fit: choices among close candidates would differ.
CHOOSING_SEED = 1826701615  # which random_state=0 draws
TRUSTED = 0.95  # held-out score from which the smooth subspace is not questioned
# A cluster, that closed pairs are about: up to so many criterion E chooses as well as pairs held
# out in a third of the time (CSP, five sets, six runs each of 15 refits to 300 pairs: mean
# ARI of all refits .772 and .775, of the last .824 and .799).
_FEW_NODES = 50
_RIVAL_FOLDS = 2
_FLOOR = 30.0  # nominal seconds that the full problem may always take as a rival
_LEAST_STEPS = 15  # of an eigensolver, with fewer of which a trial is worth nothing
_GROSS, _GROSS_FLOOR = 2.0, 60.0  # times the clock's seconds before, beyond which it is dropped


def resolve(request: FitSpec) -> SelectedModel:
    """Decide subspace, parameter and discretisation where the caller left them open."""
    if request.known.is_empty or not request.formulation.problem.acts:
        choice = _without_constraints(request)
    elif request.subspace == "exact":
        choice = by_criterion(request, None, request.formulation.grid.exact)
    else:
        choice = _smooth(request)
        if request.left:
            left = "; ".join(dict.fromkeys(request.left))
            where = f"on {request.work.home}"
            request.recorder.note(f"not tried {where}, as in memory: {left}")
    return choice if choice.about_tau else replace(choice, about_tau=_why_one(request))


def _without_constraints(request: FitSpec) -> SelectedModel:
    """The smoothest vectors of the graph; on disk and on ranks of a subspace."""
    recorder, way = request.recorder, request.roundings[0]
    p: int | None = None
    recorder.note("no constraints act: the smoothest vectors of the graph alone are clustered")
    if request.regularization not in ("auto", 0):
        recorder.note("regularization: not used without constraints; NCut takes it")
    if not request.in_memory:
        p = request.k if isinstance(request.subspace, str) else request.subspace
        p = min(p, request.directions)
    way = "kmeans" if way == "sign" and request.k > 2 else way
    return SelectedModel(p, request.formulation.grid.smooth[-1], way, NONE)


def _smooth(request: FitSpec) -> SelectedModel:
    """A smooth subspace, or the full problem where that predicts better."""
    grid, k, recorder = request.formulation.grid, request.k, request.recorder
    if isinstance(request.subspace, str):
        labelled = request.known.counts()["labelled"]
        sizes = request.within(subspace_sizes(k, request.most_directions(), labelled))
    else:
        sizes = (min(request.subspace, request.directions),)
    taus: tuple[float, ...] = (0.0, SMOOTH)  # the first is what the other must beat
    if request.regularization != "auto":
        taus = (float(request.regularization),)
    elif request.work.look.plain:
        taus = (0.0,)
    if _spares_none(request, taus) and not request.by_criterion:
        return by_few(request, sizes, taus[0])
    values = grid.smooth[-1:] if request.by_criterion else grid.smooth
    candidates = Candidates(sizes, values, request.roundings, taus)
    # The eigenvectors are their own stage; choosing among them is timed by itself.
    request.basis(max((p for p in sizes if p <= 4 * k), default=sizes[0]), taus[0])
    choice = choose_smooth(request, candidates)
    if request.by_criterion:
        found = by_criterion(request, choice.p, grid.smooth, choice.tau)
        return replace(found, about_tau=choice.about_tau)
    open_ = request.subspace == "auto" and request.regularization in ("auto", 0)
    if open_ and choice.score is not None and choice.score < TRUSTED:
        if not request.in_memory:
            request.left.append("the full problem")
        elif recorder.deadline.is_over:
            recorder.skip_for_time("the full problem was not tried beside the smooth subspace")
        else:
            choice = _rival(request, choice)
    recorder.note(f"{choice.where}, parameter {choice.value:g}, {choice.way}: {choice.reason}")
    return choice


def _spares_none(request: FitSpec, taus: tuple[float, ...]) -> bool:
    """Whether nothing is held out: too little is known, or closed pairs of few nodes are.

    To leave out a quarter of what follows from each other takes more than a quarter of what is
    known. Nothing else decides what networks have added to their degrees, though.
    """
    known, k = request.known, request.k
    closed = known.hard is not None and known.labels is None
    few = closed and known.nodes.size < _FEW_NODES * k and len(taus) == 1
    return few or not can_hold_out(known, k)


def _why_one(request: FitSpec) -> str:
    """Why no regularisation was tried beside the one that was taken."""
    if request.regularization != "auto":
        return "given"
    if request.subspace == "exact":
        return "the full problem has no smooth subspace"
    return request.work.look.plain or "no constraints, or too few to hold some out"


def _fits_whole(request: FitSpec) -> bool:
    work: Any = request.work
    single, size = request.stated
    needed, room = full_problem(request.k).peak(size, single=single), work.view.room
    if room is None or needed <= room:
        return True
    least = size_text(needed, up=True)
    request.recorder.note(f"memory: the full problem needs {least} and is not tried")
    return False


def _rival(request: FitSpec, choice: SelectedModel) -> SelectedModel:
    """The full problem where the smooth subspace predicts badly, if it predicts better.

    That is so for local graphs (pixels) with few labels, whose clusters no smooth vector shows.
    Only for labels, whose problems are solved in seconds, and for small graphs. It may take as much
    work as all before it, counted and not timed (`context.rates`), so that the same seed makes the
    same choice; the clock has a say only where it takes twice as long as all before it.
    """
    known, k, recorder = request.known, request.k, request.recorder
    seed = CHOOSING_SEED
    work: Any = request.work
    laplacian, small = work.laplacian, work.is_small
    if not small and (known.kind != "labels" or not _fits_whole(request)):
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
            formulation = request.formulation_of(fold.kept)
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
                (recorder.skip_for_time if over else recorder.note)(left)
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
                margin = 0.0 if best.p is not None else _WAY_MARGIN
                if best.score is None or score > best.score + margin:
                    reason = (
                        f"keeps {score:.1%} of held-out constraints, the best smooth subspace "
                        f"{choice.score:.1%}"
                    )
                    best = SelectedModel(None, value, way, reason, score)
    return replace(best, scores=tuple(table), about_tau=choice.about_tau)


def _within_share(request: FitSpec, choice: SelectedModel, n_folds: int) -> EigenOptions | None:
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
Candidate = tuple[int | None, float]  # dimension, None: the full problem; value
_FEW = 4  # times K: the largest subspace for constraints too few to hold some out


def by_few(request: FitSpec, sizes: tuple[int, ...], tau: float) -> SelectedModel:
    """Too few constraints to hold some out: the largest E over small subspaces and all values.

    The subspaces are those of degrees with τ added.

    K − 1 directions, where the graph decides alone, are among them: a handful of constraints was
    measured to spoil a clear graph otherwise (20 pairs on small sets: +0.10 ARI on average). What
    they keep weighs t / (t + 20) for t constrained nodes a cluster, as few are easily obeyed by
    chance (ARI of CSP, nine kinds of data with 10 or 33 pairs, 1 or 2 labels a class: 0.810 to
    0.824; on a sparse network, 10 pairs, 0.63 to 0.88).
    """
    k, grid = request.k, request.formulation.grid
    ps = [p for p in sizes if p <= _FEW * k]
    candidates: list[Candidate] = []
    if isinstance(request.subspace, int):
        ps = [sizes[0]]
    else:
        candidates = [(k - 1, grid.as_if_unknown)]
    candidates += [(p, value) for p in ps for value in grid.smooth]
    if request.subspace == "auto" and not tau and request.work.is_small:
        if request.in_memory:
            candidates += [(None, value) for value in grid.exact]
        else:
            request.left.append("the full problem")
    request.basis(max(ps), tau)  # at once: shorter ones, which are tried first, are its beginning
    t = request.known.nodes.size / k
    return _best_by_criterion(request, candidates, tau, t / (t + _HALF_WEIGHT))


def by_criterion(
    request: FitSpec, p: int | None, values: tuple[float, ...], tau: float = 0.0
) -> SelectedModel:
    """The value of largest E, in the full problem for p = None, else among p directions."""
    given = request
    if p is None and not request.work.is_small:
        given = replace(request, solving=request.rough)
    return _best_by_criterion(given, [(p, value) for value in values], tau)


def _best_by_criterion(
    request: FitSpec,
    candidates: Sequence[Candidate],
    tau: float,
    weight: float = 1.0,
) -> SelectedModel:
    """The candidate of largest E (WHC11 eq. 17); one alone needs no trial.

    `weight` is that of the constraints in E. Every full problem starts from the vectors of
    the one before.
    """
    if len(candidates) == 1:
        p, value = candidates[0]
        return SelectedModel(p, value, request.roundings[0], "given", tau=tau)
    # A vector cut at 0 may leave one side empty; the paper's way is tried first all the same.
    ways = request.roundings if request.k == 2 else request.roundings[:1]
    found: list[tuple[tuple[bool, float], SelectedModel]] = []
    start = None
    for number, (p, value) in enumerate(candidates):
        if found and request.recorder.deadline.is_over:
            left = len(candidates) - number
            request.recorder.skip_for_time(f"{left} of {len(candidates)} candidates were not tried")
            break
        try:
            trial = SelectedModel(p, value, ways[0], "", tau=tau)
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
        return SelectedModel(candidates[0][0], -0.1, ways[0], none, tau=tau)
    (_, score), best = max(found, key=lambda one: one[0])
    lighter = "" if weight == 1.0 else f" with constraints weighing {weight:.0%}"
    reason = f"criterion E{lighter} is {score:.3f}, the best of {len(found)} candidates"
    request.recorder.note(f"{best.where}, parameter {best.value:.4g}, {best.way}: {reason}")
    table = tuple((trial.p or 0, trial.value, trial.way, rank[1], tau) for rank, trial in found)
    return replace(best, reason=reason, scores=table)


# --- Choices by constraints held out: which subspace, parameter and discretisation predict them
#
# Some constraints are kept out of the fit; what was fitted on the rest is scored by the share of
# the held-out ones that it keeps, weighted by belief. Everything happens in the smooth subspace and
# on a sample of nodes, so that a choice costs a second or two.


_CLEAR_GAP = 3.0  # times the gaps that follow
_MORE = (24,)
_MANY_LABELS = 300  # per class
_GAIN = 0.95  # a larger subspace is tried while the last step left fewer errors than this share
_ENOUGH = 0.003  # and while there are more errors than this
# Standard errors by which regularised degrees must be better than those of the graph: mean ARI .481
# on 11 networks with 5 and 20 labels a class, with one error .480, without regularisation .407.
_CLEARLY = 2.0
_WAY_MARGIN = 0.01  # what another discretisation must be better by


@dataclass(frozen=True)
class Candidates:
    """What may be chosen from; one entry each where the caller has decided.

    Of the regularisations `taus` the first is the one that the others must beat.
    """

    ps: tuple[int, ...]
    values: tuple[float, ...]
    ways: tuple[str, ...]
    taus: tuple[float, ...] = (0.0,)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.ps) * len(self.values) * len(self.ways) * len(self.taus)


def subspace_sizes(k: int, room: int, labelled: int = 0) -> tuple[int, ...]:
    """K, 2K, 4K, 8K, 12K, as far as the graph has that many directions; at least 2 and 4.

    With hundreds of labels per class (strokes on a picture) 24K too.
    """
    factors = FACTORS + (_MORE if labelled >= _MANY_LABELS * k else ())
    sizes = sorted({min(max(4 if f > 1 else 2, f * k), room) for f in factors})
    return tuple(sizes)


def choose_smooth(request: FitSpec, candidates: Candidates) -> SelectedModel:
    """Choose among the candidates by held-out constraints.

    More than 4K directions are computed only while more helps. Without enough constraints
    `usual_size` decides alone. The first way of discretising is tried everywhere, the
    others for the winner only.
    """
    constraints, k, recorder = request.known, request.k, request.recorder
    way, ps, plain = candidates.ways[0], candidates.ps, candidates.taus[0]
    wanted = ps[0]
    if len(ps) > 1:
        wanted = usual_size(constraints, k, request.basis(min(ps[-1], USUAL * k), plain).values)
    first = max((p for p in ps if p <= wanted), default=ps[0])
    given = SelectedModel(first, candidates.values[-1], way, "given", tau=plain)
    if candidates.count == 1:
        return given
    if not can_hold_out(constraints, k):
        few = "by rule: too few constraints, or of one kind only, to hold some out"
        return replace(given, reason=few)
    trials = _Trials(request, folds_of(constraints, CHOOSING_SEED)[: request.most_folds])
    for tau in candidates.taus:
        trials.grow(ps, tau, candidates.values, way)
    # Another dimension must beat the usual one by more than the noise, other degrees more clearly.
    best = trials.best[plain]
    usual = max((t for t in best if t.p <= first), key=lambda t: t.p, default=best[0])
    chosen = max([usual, *(t for t in best if t.beats(usual))], key=_Trial.mean)
    others = (t for tau in candidates.taus[1:] for t in trials.best.get(tau, ()))
    chosen = max([chosen, *(t for t in others if t.beats(chosen, _CLEARLY))], key=_Trial.mean)
    for other in candidates.ways[1:]:
        if recorder.deadline.is_over:
            recorder.skip_for_time("other ways from vectors to clusters were not tried")
            break
        (one,) = trials.score(chosen.p, chosen.tau, (chosen.value,), other)
        if one.mean() > chosen.mean() + _WAY_MARGIN:
            chosen = one
    tried = trials.tried
    reason = (
        f"keeps {chosen.mean():.1%} of held-out constraints, chosen from {len(tried)} candidates"
    )
    table = tuple((t.p, t.value, t.way, t.mean(), t.tau) for t in tried)
    about = ""
    if len(trials.best) > 1:
        each = {tau: max(one.mean() for one in best) for tau, best in trials.best.items()}
        shares = ", ".join(f"{share:.1%} at {tau:g}" for tau, share in each.items())
        about = f"held-out constraints kept: {shares}"
    found = chosen.p, chosen.value, chosen.way, reason, chosen.mean(), table, chosen.tau, about
    return SelectedModel(*found)


def usual_size(constraints: Constraints, k: int, values: NDArray[np.float64]) -> int:
    """Dimension that must be beaten, and is taken where nothing can be held out.

    K where the eigenvalues of the graph have a clear gap there: it shows K clusters by itself. Else
    4K, never far from the best in measurements, if constraints can be held out or speak about every
    node (a second graph); 2K if they are few, which cannot steer many directions.
    """
    gaps = np.diff(values[: k + 3])
    if gaps.size >= k + 1 and gaps[k - 2] > _CLEAR_GAP * gaps[k - 1 : k + 2].max():
        return k
    if constraints.soft is not None or can_hold_out(constraints, k):
        return USUAL * k
    return 2 * k


@dataclass(frozen=True)
class _Trial:
    """One candidate and its score on every fold."""

    p: int
    value: float
    way: str
    scores: tuple[float, ...]
    tau: float = 0.0

    def mean(self) -> float:
        return float(np.mean(self.scores))

    def beats(self, other: _Trial, errors: float = 1.0) -> bool:
        """Whether it is better by more than so many standard errors of the difference."""
        difference = np.subtract(self.scores, other.scores)
        error = difference.std(ddof=1) / np.sqrt(difference.size) if difference.size > 1 else 0.0
        return bool(difference.mean() > errors * error)


@dataclass
class _Trials:
    """What was tried: every candidate, and of every regularisation the best of each dimension."""

    request: FitSpec
    folds: list[Fold]
    tried: list[_Trial] = field(default_factory=list)
    best: dict[float, list[_Trial]] = field(default_factory=dict)

    def grow(self, ps: tuple[int, ...], tau: float, values: tuple[float, ...], way: str) -> None:
        """Try one dimension after the other while more of them help, memory and time last.

        Vectors up to 4K are computed at once: those of a smaller subspace are among them.
        """
        recorder, k = self.request.recorder, self.request.k
        at_once = max(p for p in ps if p <= max(USUAL * k, ps[0]))
        for p in ps:
            if self.tried and recorder.deadline.is_over:
                regular = f"{tau:g} of the mean degree added, " if tau else ""
                recorder.skip_for_time(
                    f"{regular}subspaces of {p} and more smooth vectors were not tried"
                )
                return
            try:
                self.request.basis(at_once if p == ps[0] else p, tau)
            except OutOfMemoryError as error:
                if not self.tried:
                    raise
                recorder.note(f"{error}; larger subspaces are not tried")
                return
            found = self.best.setdefault(tau, [])
            found.append(max(self.score(p, tau, values, way), key=_Trial.mean))
            errors = [1.0 - trial.mean() for trial in found[-2:]]
            if p > 2 * k and len(errors) == 2 and not _ENOUGH < errors[1] < _GAIN * errors[0]:
                return

    def score(self, p: int, tau: float, values: tuple[float, ...], way: str) -> list[_Trial]:
        """Share of held-out constraints kept on every fold, for every value of the parameter."""
        request, seed = self.request, CHOOSING_SEED
        basis = request.basis(p, tau).first(p)
        laplacian, space = basis.laplacian, basis.space
        scores: dict[float, list[float]] = {value: [] for value in values}
        with request.recorder.stage("choosing by held-out constraints"):
            for fold in self.folds:
                formulation = request.formulation_of(fold.kept)
                inside = formulation.problem.restricted(basis)
                sample = sampled_rows(laplacian, fold.nodes, seed)
                scale = space.take(space.column(formulation.row_scale), sample.rows)
                U = basis.rows(sample.rows) * scale
                for value in values:
                    found = inside.trial(value)
                    E = transform(U @ found.vectors, way, found.cost)
                    kept = held_out_score(E, sample, fold, request.k, way, seed)
                    scores[value].append(kept)
        held = p if tau else basis.p  # what z spans already is dropped from those of L̄_τ
        trials = [_Trial(held, value, way, tuple(kept), tau) for value, kept in scores.items()]
        self.tried += trials
        return trials
