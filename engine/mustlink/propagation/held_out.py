"""What labels held out of a fit tell: which way to spread them, what their answers are worth.

Of a few ways to spread labels over a network the one is taken that predicts labels held out. The
chance that an answer is right follows from its margin,

    chance = 1/(1 + exp(−a − b·margin)),   margin: largest share less the second

a and b ≥ 0 are those that make likeliest what fits without a part of the labels answered of it
(Platt 1999). Labels are often drawn by class, and nodes are not: a label held out counts as much as
the nodes that were given its answer,

    w_i = (share of the nodes answered c_i)/(share of the labels held out answered c_i).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from mustlink.core.check import check_answer
from mustlink.core.observe import Recorder
from mustlink.core.result import Convergence
from mustlink.core.stopping import TIME_LIMIT
from mustlink.discretize.reliability import Reliability
from mustlink.kernels.blocks import row_slices
from mustlink.propagation.answers import TOO_FAR, answers, distributions, refined
from mustlink.propagation.prior import LabelSet
from mustlink.propagation.problem import PropagationProblem, ReachedPart, Solution, Solving
from mustlink.space import Block

Way = TypeVar("Way")
Array = NDArray[Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_ROUGH = Solving("cg", 1e-3)  # which class is the largest is known long before the values
FOLDS = 5  # of labels, to choose how others spread
_FEW, _LEAST = 3, 15  # labels of a class in the mean, and in all, that can spare some
_ERRORS = 2.0  # standard errors by which another way must be better than the usual one
_STIFF = 0.05  # of the penalty on a and log b, for margins of deviation 1: far less than a label
_MOST = 5.0  # that a label counts: a class of a single label would decide alone
_TIE = 1e-9  # by which the answer is ahead where its chance is that of a guess

# --- which way


class Best(NamedTuple, Generic[Way]):
    """The way taken, why, and which of the labels held out it answers right; None: not tried."""

    way: Way
    why: str
    right: NDArray[np.bool_] | None = None


def is_auto(value: Any) -> bool:
    """Whether a parameter, which may be an array, is left to be decided."""
    return isinstance(value, str) and value == "auto"


def best_way(
    ways: Sequence[Way],
    right: Callable[[Ints], Sequence[NDArray[np.bool_]]],
    nodes: Ints,
    seed: int,
    recorder: Recorder,
) -> Best[Way]:
    """The way that answers most held-out labels right, and why; the first is the usual one.

    `nodes` (n,) have classes or -1. `right(fold)` tells for every way which labelled nodes of the
    fold are answered right without their labels. Another way than the usual one must be better by
    two standard errors of the difference: a handful of labels says little.
    """
    folds = folds_of_labels(nodes, seed)
    if len(ways) == 1:
        return Best(ways[0], "")
    if not folds:
        return Best(ways[0], "by rule: no class has two labels")
    found = []
    with recorder.stage("choosing by held-out labels") as advance:
        for number, fold in enumerate(folds):
            if recorder.deadline.is_over:
                recorder.skip_for_time("other ways to spread the labels were not tried")
                return Best(ways[0], "by rule: no time to try others")
            found.append(np.array(right(fold), dtype=np.float64))
            advance((number + 1) / len(folds))
    scores = np.concatenate(found, axis=1)  # (ways, labels)
    gains = scores - scores[0]
    error = gains.std(axis=1) / np.sqrt(scores.shape[1])
    mean = np.where(gains.mean(axis=1) > _ERRORS * error, scores.mean(axis=1), -1.0)
    mean[0] = scores[0].mean()
    best = int(mean.argmax())
    usual = "" if best == 0 else f", the usual way {mean[0]:.1%}"
    why = f"{mean[best]:.1%} of {scores.shape[1]} held-out labels are right{usual}"
    return Best(ways[best], why, scores[best] > 0)


def enough_labels(nodes: Ints) -> bool:
    """Whether labels (n,), -1 unknown, can spare a fold to judge what the others answer."""
    known = nodes[nodes >= 0]
    return bool(known.size >= max(_FEW * np.unique(known).size, _LEAST))


def folds_of_labels(nodes: Ints, seed: int) -> list[Ints]:
    """Labelled nodes in five parts, each class spread over them; one label alone is kept."""
    rng = np.random.default_rng(seed)
    part = np.full(nodes.size, -1)
    for c in np.unique(nodes[nodes >= 0]):
        own = rng.permutation(np.flatnonzero(nodes == c))
        if own.size > 1:
            part[own] = (np.arange(own.size) + rng.integers(FOLDS)) % FOLDS
    folds = [np.flatnonzero(part == number) for number in range(FOLDS)]
    return [fold for fold in folds if fold.size]


# --- labels spread by the best way


@dataclass(frozen=True, eq=False)
class PropagationResult:
    """What the best way to spread labels found: distributions (n, K) in working order.

    `advice` is what to say of nodes that no label reaches.
    """

    problem: PropagationProblem
    solution: Solution
    best: Best[Any]
    distributions: Block
    advice: str


def spread(
    estimator: Any,
    work: Any,
    told: LabelSet,
    seed: int,
    *,
    network: bool,
    together: int,
) -> PropagationResult:
    """Spread labels of nodes by the best way that a method has; raises InputError.

    `work` is a `Work`, in memory the part of a graph that is reached.
    """
    at_home, recorder, classes = isinstance(work, ReachedPart), work.recorder, told.classes
    if is_auto(estimator.refine) and not at_home:
        if network:
            recorder.note("refine: False, as only one process with all edges can do it")
        estimator = copy(estimator)
        estimator.refine = False
    until = recorder.deadline
    solver = estimator.solver if at_home else "cg"
    solving = Solving(solver, estimator.tol, int(estimator.max_iter), until, together)

    problem = PropagationProblem.of(work, told, classes, solving, seed)

    def right(fold: Array) -> list[NDArray[np.bool_]]:
        """Which labels of a fold every way answers right without them."""
        quiet = Recorder(deadline=until)
        quiet.budget = recorder.budget
        some = told.without(fold)
        rough = replace(_ROUGH, together=together)
        if at_home:
            there = ReachedPart.of(replace(work.view, recorder=quiet), some)
        else:
            vars(there := copy(work))["recorder"] = quiet  # with all that is made
        part = PropagationProblem.of(there, some, classes, rough, seed)
        solved: dict[str, Solution] = {}
        found = []
        at = there.positions(fold)
        for way in ways:
            name = repr({**way.get_params(), "refine": None})
            if name not in solved:
                solved[name] = way._solve(part) if part.size else Solution(part.Y, None)
            P = part.space.take(answered(way, part, solved[name]), np.maximum(at, 0))
            best = np.where(at >= 0, answers(P), -1)
            found.append(best == np.searchsorted(classes, told.nodes[fold]))
        return found

    ways = estimator._ways(network=network)
    best = best_way(ways, right, told.nodes, seed, recorder)
    solve = partial(_solved, best.way, problem)
    if at_home:  # what an earlier run found, or now is
        depends = type(best.way).__name__, best.way._depends(), seed, work.view.memory, *told.all
        solution = work.kept("propagation", depends, solve, (Solution, Convergence))
    else:
        solution = solve()
    best = best.way._with_values(best, problem, solution)
    space = problem.space
    wrong = space.rowwise(_wrong, solution.scores)
    check_answer(np.where(space.dots(wrong, wrong) > 0, np.nan, 0.0), "label propagation")
    P = answered(best.way, problem, solution)
    far = space.rowwise(_silent, P, problem.inside)
    too_far = solution.noise > 0 and space.dots(far, far)[0] > 0
    return PropagationResult(problem, solution, best, P, TOO_FAR if too_far else "")


def _solved(way: Any, problem: PropagationProblem) -> Solution:
    """A way's solution, and a word where the time was up before it was found."""
    if not problem.size:
        return Solution(problem.Y, None)
    found: Solution = way._solve(problem)
    if found.convergence is not None and found.convergence.reason == TIME_LIMIT:
        problem.recorder.skip_for_time(found.convergence.status)
    return found


def _wrong(F: Array) -> Array:
    found: Array = np.asarray(~np.isfinite(F).all(axis=1, keepdims=True), dtype=np.float64)
    return found


def _silent(P: Array, inside: Array) -> Array:
    return (inside & ~P.any(axis=1))[:, None] * 1.0


def answered(way: Any, problem: PropagationProblem, solution: Solution) -> Block:
    """Distributions (n, K) in working order."""
    how: Any = {"masses": way._are_masses(), "floor": solution.noise}
    P = distributions(problem, solution.scores, way._shares(problem), **how)
    return refined(problem, P) if way.refine else P


# --- chances of answers


@dataclass(frozen=True)
class AnswerCalibration:
    """a and b of the chance, of how many labels held out, and how reliable that was of them.

    The table has every label by the a and b that the other folds gave. Where nothing was held out
    a and b are None, and shares are as the method gave them.
    """

    intercept: float | None = None
    slope: float | None = None
    n_labels: int = 0
    reliability: Reliability | None = None

    def chance(self, margin: NDArray[Any]) -> Floats:
        """Chances (m,) of answers by their margins, which are told apart by b alone."""
        assert self.intercept is not None
        assert self.slope is not None
        found: Floats = expit(self.intercept + self.slope * np.asarray(margin, dtype=np.float64))
        return found

    def moved(self, P: Any, margin: NDArray[Any]) -> Any:
        """Distributions (n, K) whose largest entry is the answer's chance; rows of 0 stay.

        A row is moved towards its answer alone, or towards 1/K, until its largest entry is the
        chance, or hardly above 1/K.
        """
        if self.intercept is None:
            return P
        out = np.zeros(P.shape)
        for rows in row_slices(*P.shape):
            out[rows] = _moved(np.asarray(P[rows]), self.chance(margin[rows]))
        return out


@dataclass(frozen=True, eq=False)
class HeldOutAnswers:
    """What a fit without some labels answered of them: margins (l,), answers (l,), if right."""

    margin: Floats
    answer: Ints
    right: NDArray[np.bool_]


def calibrated_answers(folds: list[HeldOutAnswers], answers: NDArray[Any]) -> AnswerCalibration:
    """How margins become chances, by what fits without a fold of the labels said of it.

    `answers` (n,) are those of the fit with all labels, -1 for none.
    """
    margin, answer, right = (
        np.concatenate([getattr(fold, name) for fold in folds])
        for name in ("margin", "answer", "right")
    )
    if not margin.size:
        return AnswerCalibration()
    weight = _weights(answer, answers)
    part = np.repeat(np.arange(len(folds)), [fold.margin.size for fold in folds])
    chance = np.empty(margin.size)
    for number in range(len(folds)):
        held, others = part == number, part != number
        if held.any() and others.any():
            a, b = _likeliest(margin[others], right[others], weight[others])
        else:
            a, b = _likeliest(margin, right, weight)
        chance[held] = expit(a + b * margin[held])
    table = Reliability.of(chance, right, weight)
    return AnswerCalibration(*_likeliest(margin, right, weight), margin.size, table)


def _likeliest(margin: Floats, right: NDArray[np.bool_], weight: Floats) -> tuple[float, float]:
    unit = float(margin.std()) or 1.0
    sign = np.where(right, 1.0, -1.0)

    def loss(given: Floats) -> float:
        z = given[0] + np.exp(given[1]) * margin / unit
        return float(-weight @ log_expit(sign * z) + _STIFF * given @ given)

    a, log_b = minimize(loss, np.zeros(2), method="Nelder-Mead").x
    return float(a), float(np.exp(log_b) / unit)


def _weights(answer: Ints, answers: NDArray[Any]) -> Floats:
    """What every label held out counts, 1 in the mean."""
    classes, at = np.unique(answer, return_inverse=True)
    nodes = np.array([np.count_nonzero(answers == c) for c in classes], dtype=np.float64)
    ratio = nodes / np.bincount(at)
    found = ratio[at] / max(float(ratio[at].mean()), 1e-300)
    found = np.minimum(found, _MOST)
    return np.asarray(found / found.mean()) if found.any() else np.ones(answer.size)


def _moved(P: Floats, chance: Floats) -> Floats:
    k, place = P.shape[1], np.arange(len(P))
    own = P.argmax(axis=1)
    share, chance = P[place, own], np.maximum(chance, 1.0 / k + _TIE)
    up = chance >= share
    way = np.where(up, 1.0 - share, share - 1.0 / k)
    step = np.abs(chance - share) / np.where(way > 0, way, 1.0)
    out = (1.0 - step)[:, None] * P + np.where(up, 0.0, step / k)[:, None]
    out[place, own] = chance
    out[~P.any(axis=1)] = 0.0
    return np.asarray(out)
