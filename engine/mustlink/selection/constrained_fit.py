"""How a constrained fit is carried out: what the caller left open is decided, then it is solved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.cost.method_cost import Size, eigenvectors
from mustlink.eigen.problem import Solution, Solving
from mustlink.eigen.smooth_subspace import SmoothBasis
from mustlink.eigen.solver import DENSE_BELOW, default_tolerance, is_small, laplacian_of, smoothest
from mustlink.errors import InfeasibleError
from mustlink.graph import Graph
from mustlink.observe import Recorder
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.rounding.assign import assign, kmeans, transform
from mustlink.rounding.split import cut_profile, splitting_value
from mustlink.scores import criterion_e
from mustlink.selection.formulation import Formulation, FormulationOf
from mustlink.selection.held_out import (
    can_hold_out,
    folds_of,
    held_out_score,
    sampled_rows,
    starting_centers,
)
from mustlink.selection.held_out_choice import (
    FACTORS,
    WAY_MARGIN,
    Candidates,
    Choice,
    choose_smooth,
    subspace_sizes,
)
from mustlink.workspace import Workspace

SHARP_BELOW = 20_000  # nodes up to which a given subspace is computed to 1e-8
_TRUSTED = 0.95  # held-out score from which the smooth subspace is not questioned
_RIVAL_FOLDS = 2
_HALF_WEIGHT = 20.0  # constrained nodes a cluster at which they weigh half in E
_FEW = 4  # times K: the largest subspace for constraints too few to hold some out
_ROUGH = 1e-2  # residual of a trial
_ROUGH_STEPS = 60


@dataclass(frozen=True, eq=False)
class Request:
    """What was asked for: graph, K, constraints, the method's formulation, and what is left open.

    `by_criterion` chooses the parameter by WHC11's E instead of constraints held out.
    """

    work: Workspace
    k: int
    known: Constraints
    formulation: Formulation
    formulation_of: FormulationOf
    subspace: int | str
    roundings: tuple[str, ...]
    solving: Solving
    by_criterion: bool = False

    @property
    def graph(self) -> Graph:
        """The graph that is clustered."""
        return self.work.graph

    @property
    def recorder(self) -> Recorder:
        """Who hears of stages and choices."""
        return self.work.recorder

    @property
    def solves_exactly(self) -> bool:
        """Whether the full problem is solved, because the caller wants it."""
        return self.subspace == "exact"

    @property
    def seed(self) -> int:
        """The seed of everything random."""
        return self.solving.seed

    def basis(self, p: int) -> SmoothBasis:
        """At least p smooth directions; sharp ones where p was asked for on a small graph."""
        tol, n = self.solving.tol, self.formulation.row_scale.size
        if tol is None and isinstance(self.subspace, int) and n <= SHARP_BELOW:
            tol = default_tolerance(n)
        solver = self.solving.solver
        return smoothest(self.work, p, solver=solver, tol=tol, seed=self.seed)


def resolve(request: Request) -> Choice:
    """Decide subspace, parameter and discretisation where the caller left them open."""
    grid, k, recorder = request.formulation.grid, request.k, request.recorder
    if request.known.is_empty or not request.formulation.problem.acts:
        recorder.note("no constraints act: the smoothest vectors of the graph alone are clustered")
        way = "kmeans" if request.roundings[0] == "sign" and k > 2 else request.roundings[0]
        return Choice(None, grid.smooth[-1], way, "no constraints")
    if request.solves_exactly:
        return _by_criterion(request, None, grid.exact)
    laplacian = laplacian_of(request.work)
    if isinstance(request.subspace, str):
        labelled = request.known.counts()["labelled"]
        sizes = subspace_sizes(k, _room(request, laplacian), labelled)
    else:
        sizes = (min(int(request.subspace), laplacian.size - 1),)
    values = grid.smooth if not request.by_criterion else grid.smooth[-1:]
    if not can_hold_out(request.known, k) and not request.by_criterion:
        return _by_few(request, sizes)
    candidates = Candidates(sizes, values, request.roundings)
    # The eigenvectors are their own stage; choosing among them is timed by itself.
    request.basis(max((p for p in sizes if p <= 4 * k), default=sizes[0]))

    def basis_of(p: int) -> SmoothBasis:
        return request.basis(p)

    choice = choose_smooth(
        request.known, k, candidates, basis_of, request.formulation_of, request.seed, recorder
    )
    if request.by_criterion:
        return _by_criterion(request, choice.p, grid.smooth)
    if request.subspace == "auto" and choice.score is not None and choice.score < _TRUSTED:
        choice = _rival(request, choice)
    where = "full problem" if choice.p is None else f"subspace of {choice.p} smooth vectors"
    recorder.note(f"{where}, parameter {choice.value:g}, {choice.way}: {choice.reason}")
    return choice


def _room(request: Request, laplacian: NormalizedLaplacian) -> int:
    """Smooth vectors that the graph has and the memory holds."""
    there, k, memory = laplacian.size - 1, request.k, request.work.memory
    if memory is None:
        return there
    single = laplacian.dtype == np.float32
    size = Size(laplacian.size, laplacian.n_entries)
    fit = max(k, eigenvectors(k).most_columns(size, memory, single=single))
    if fit < min(there, FACTORS[-1] * k):
        request.recorder.note(
            f"memory: {fit} smooth vectors fit into {memory / 1e9:.2f} GB, larger "
            "subspaces are not tried"
        )
    return min(there, fit)


def _by_few(request: Request, sizes: tuple[int, ...]) -> Choice:
    """Too few constraints to hold some out: the largest E over small subspaces and all values.

    K − 1 directions, where the graph decides alone, are among them: a handful of constraints was
    measured to spoil a clear graph otherwise (20 pairs on small sets: +0.10 ARI on average). What
    they keep weighs t / (t + 20) for t constrained nodes a cluster, as few are easily obeyed by
    chance (ARI of CSP, nine kinds of data with 10 or 33 pairs, 1 or 2 labels a class: 0.810 to
    0.824; on a sparse network, 10 pairs, 0.63 to 0.88).
    """
    k, grid = request.k, request.formulation.grid
    if isinstance(request.subspace, int):
        candidates: list[tuple[int | None, float]] = [(sizes[0], v) for v in grid.smooth]
    else:
        candidates = [(k - 1, grid.as_if_unknown)]
        candidates += [(p, value) for p in sizes if p <= _FEW * k for value in grid.smooth]
        if is_small(laplacian_of(request.work)):
            candidates += [(None, value) for value in grid.exact]
    t = request.known.nodes.size / k
    return _best_by_criterion(request, candidates, t / (t + _HALF_WEIGHT))


def _rival(request: Request, choice: Choice) -> Choice:
    """The full problem where the smooth subspace predicts badly, if it predicts better.

    That is so for local graphs (pixels) with few labels, whose clusters no smooth vector shows.
    Only for labels, whose problems are solved in seconds, and for small graphs.
    """
    known, k, seed = request.known, request.k, request.seed
    only_labels = known.labels is not None and not known.pairs.size and known.soft is None
    laplacian = laplacian_of(request.work)
    small = is_small(laplacian)
    if not (only_labels or small):
        return choice
    best, table = choice, list(choice.scores)
    rough = replace(request.solving, tol=_ROUGH, max_iter=_ROUGH_STEPS)
    folds = folds_of(known, seed)
    for value in request.formulation.grid.rivals:
        scores: dict[str, list[float]] = {way: [] for way in request.roundings}
        few = laplacian.size <= DENSE_BELOW
        for fold in folds if few else folds[:_RIVAL_FOLDS]:
            formulation = request.formulation_of(fold.kept)
            try:
                solution = formulation.problem.solve(value, rough, request.work)
            except InfeasibleError:
                break
            nodes, rows = sampled_rows(laplacian, fold.nodes, seed)
            U = solution.vectors[rows] * formulation.row_scale[rows, None]
            for way, found in scores.items():
                E = transform(U, way, solution.cost)
                found.append(held_out_score(E, nodes, fold, k, way, seed))
        else:
            for way, found in scores.items():
                score = float(np.mean(found))
                table.append((0, value, way, score))
                margin = 0.0 if best.p is not None else WAY_MARGIN
                if best.score is None or score > best.score + margin:
                    reason = (
                        f"keeps {score:.1%} of held-out constraints, the best smooth subspace "
                        f"{choice.score:.1%}"
                    )
                    best = Choice(None, value, way, reason, score)
    return replace(best, scores=tuple(table))


def _by_criterion(request: Request, p: int | None, values: tuple[float, ...]) -> Choice:
    """The value of largest E, in the full problem for p = None, else among p directions."""
    given = request
    if p is None and not is_small(laplacian_of(request.work)):
        rough = replace(request.solving, tol=_ROUGH, max_iter=_ROUGH_STEPS)
        given = replace(request, solving=rough)  # a trial need not be sharp
    return _best_by_criterion(given, [(p, value) for value in values])


def _best_by_criterion(
    request: Request,
    candidates: Sequence[tuple[int | None, float]],
    weight: float = 1.0,
) -> Choice:
    """The candidate (p, value) of largest E (WHC11 eq. 17); one alone needs no trial.

    `weight` is that of the constraints in E.

    Every full problem starts from the vectors of the one before.
    """
    if len(candidates) == 1:
        return Choice(*candidates[0], request.roundings[0], "given")
    # A vector cut at 0 may leave one side empty; the paper's way is tried first all the same.
    ways = request.roundings if request.k == 2 else request.roundings[:1]
    found: list[tuple[tuple[bool, float], Choice]] = []
    laplacian = laplacian_of(request.work)
    start = None
    for p, value in candidates:
        try:
            solution = solve(request, Choice(p, value, ways[0], ""), start)
        except InfeasibleError:
            continue
        start = solution.vectors if p is None else None
        for way in ways:
            trial = Choice(p, value, way, "")
            labels = np.full(laplacian.n_nodes, -1, dtype=np.int64)
            labels[laplacian.nodes] = own = cluster(request, trial, solution)
            score = criterion_e(request.graph.affinity, labels, request.known, weight=weight)
            # One giant cluster keeps all must-links and cuts nothing, but is no answer.
            found.append(((np.unique(own).size == request.k, score), trial))
    if not found:
        return Choice(candidates[0][0], -0.1, ways[0], "no value tried leaves a feasible vector")
    (_, score), best = max(found, key=lambda one: one[0])
    lighter = "" if weight == 1.0 else f" with constraints weighing {weight:.0%}"
    reason = f"criterion E{lighter} is {score:.3f}, the best of {len(found)} candidates"
    where = "full problem" if best.p is None else f"subspace of {best.p} smooth vectors"
    request.recorder.note(f"{where}, parameter {best.value:.4g}, {best.way}: {reason}")
    table = tuple((trial.p or 0, trial.value, trial.way, rank[1]) for rank, trial in found)
    return replace(best, reason=reason, scores=table)


def solve(request: Request, choice: Choice, start: Block | None = None) -> Solution:
    """The vectors for one choice."""
    problem = request.formulation.problem
    if choice.p is None:
        return problem.solve(choice.value, request.solving, request.work, start)
    basis = request.basis(choice.p).first(choice.p)
    with request.recorder.stage("constrained vectors"):
        return problem.inside(basis, choice.value)


def cluster(request: Request, choice: Choice, solution: Solution) -> NDArray[np.int64]:
    """Clusters (m,) in working order; the constraints choose where k-means starts."""
    k, way, known = request.k, choice.way, request.known
    rows = solution.vectors * request.formulation.row_scale[:, None]
    if way == "sign":
        return assign(rows, k, way, request.seed).labels
    laplacian = laplacian_of(request.work)
    if way == "split":
        return _split(request, rows[:, 0], laplacian)
    seen = transform(rows, way, solution.cost)
    centers = None
    if not known.is_empty:
        nodes, sample = sampled_rows(laplacian, known.nodes, request.seed)
        if nodes.size:
            centers = starting_centers(seen[sample], nodes, known, k, request.seed)
    return kmeans(seen, k, request.seed, centers=centers).labels


def _split(
    request: Request, vector: NDArray[np.float64], laplacian: NormalizedLaplacian
) -> NDArray[np.int64]:
    """Two sides of one vector, cut where most constraints are kept, then where NCut is least."""
    nodes = request.known.nodes
    position = laplacian.positions[nodes]
    nodes, position = nodes[position >= 0], position[position >= 0]
    profile = cut_profile(request.graph.affinity, laplacian.leave(vector))
    value = splitting_value(vector[position], nodes, request.known, profile)
    return (vector > value).astype(np.int64)
