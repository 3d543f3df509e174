"""Labels held out of a fit: they choose how labels spread, and calibrate the results.

Of a few ways to spread labels over a network the one is taken that predicts labels held out. The
chance that a result is right follows from its margin,

    chance = 1/(1 + exp(−a − b·margin)),   margin: largest share less the second

a and b ≥ 0 have the largest likelihood for labels held out of further fits (Platt 1999). Labels
are often drawn by class, and nodes are not: a label held out whose result is class c_i weighs

    w_i = (share of the nodes with result c_i)/(share of the labels held out with result c_i).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

from mustlink.core.check import check_answer, in_order_of_rows
from mustlink.core.observe import Recorder
from mustlink.core.result import TIME_LIMIT, Convergence
from mustlink.discretize.memberships import Reliability
from mustlink.kernels.blocks import row_slices
from mustlink.propagation.answers import TOO_FAR, answers, class_shares, distributions, refined
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
_MOST = 5.0  # weight of a label: a class of a single label would decide alone
_TIE = 1e-9  # by which the result is ahead where its chance is that of a guess

# --- which way


class Best(NamedTuple, Generic[Way]):
    """The way taken, why, and which labels held out it predicts; None: none were held out."""

    way: Way
    why: str
    right: NDArray[np.bool_] | None = None


def is_auto(value: Any) -> bool:
    """Whether a parameter, which may be an array, is "auto"."""
    return isinstance(value, str) and value == "auto"


def best_way(
    ways: Sequence[Way],
    right: Callable[[Ints], Sequence[NDArray[np.bool_]]],
    nodes: Ints,
    seed: int,
    recorder: Recorder,
) -> Best[Way]:
    """The way that predicts most held-out labels, and why; the first is the usual one.

    `nodes` (n,) have classes or -1. `right(fold)` is for every way which labelled nodes of the
    fold it predicts without their labels. Another way than the usual one must be better by two
    standard errors of the difference: a handful of labels is little evidence.
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
    """Whether labels (n,), -1 unknown, are enough to hold out a fold of them."""
    known = nodes[nodes >= 0]
    return bool(known.size >= max(_FEW * np.unique(known).size, _LEAST))


def folds_of_labels(nodes: Ints, seed: int) -> list[Ints]:
    """Labelled nodes in five parts, each class spread over them; in none the only label of one."""
    rng = np.random.default_rng(seed)
    part, codes = np.full(nodes.size, -1), in_order_of_rows(nodes)
    for c in range(int(codes.max(initial=-1)) + 1):
        own = rng.permutation(np.flatnonzero(codes == c))
        if own.size > 1:
            part[own] = (np.arange(own.size) + rng.integers(FOLDS)) % FOLDS
    folds = [np.flatnonzero(part == number) for number in range(FOLDS)]
    return [fold for fold in folds if fold.size]


# --- labels spread by the best way


@dataclass(frozen=True, eq=False)
class PropagationResult:
    """Result of the best way to spread labels: distributions (n, K) in working order.

    `advice` is added to the warning of nodes that no label reaches.
    """

    problem: PropagationProblem
    solution: Solution
    best: Best[Any]
    distributions: Block
    advice: str


def spread(
    estimator: Any, work: Any, known: LabelSet, seed: int, *, network: bool, together: int
) -> PropagationResult:
    """Spread labels of nodes by the best way that a method has; raises InputError.

    `work` is a `Work`, in memory the part of a graph that is reached.
    """
    in_memory, recorder, classes = isinstance(work, ReachedPart), work.recorder, known.classes
    until = recorder.deadline
    solver = estimator.solver if in_memory else "cg"
    solving = Solving(solver, estimator.tol, int(estimator.max_iter), until, together)
    problem = PropagationProblem.of(work, known, classes, solving, seed)

    def right(fold: Array) -> list[NDArray[np.bool_]]:
        """Which labels of a fold every way predicts without them."""
        quiet = Recorder(deadline=until)
        quiet.budget = recorder.budget
        some = known.without(fold)
        rough = replace(_ROUGH, together=together)
        if in_memory:
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
            found.append(best == np.searchsorted(classes, known.nodes[fold]))
        return found

    ways = estimator._ways(network=network)
    best = best_way(ways, right, known.nodes, seed, recorder)

    def solve() -> Solution:
        if not problem.size:
            return Solution(problem.Y, None)
        found: Solution = best.way._solve(problem)
        if found.convergence is not None and found.convergence.reason == TIME_LIMIT:
            recorder.skip_for_time(found.convergence.status)
        return found

    if in_memory:  # from an earlier run, if there was one
        depends = type(best.way).__name__, best.way._depends(), seed, work.view.memory, *known.all
        solution = work.cached("propagation", depends, solve, (Solution, Convergence))
    else:
        solution = solve()
    best = best.way._with_values(best, problem, solution)
    space = problem.space
    wrong = space.rowwise(
        lambda F: ~np.isfinite(F).all(axis=1, keepdims=True) * 1.0, solution.scores
    )
    check_answer(np.where(space.dots(wrong, wrong) > 0, np.nan, 0.0), "label propagation")
    P = answered(best.way, problem, solution)
    far = space.rowwise(lambda P, x: (x & ~P.any(axis=1))[:, None] * 1.0, P, problem.inside)
    too_far = solution.noise > 0 and space.dots(far, far)[0] > 0
    return PropagationResult(problem, solution, best, P, TOO_FAR if too_far else "")


def answered(way: Any, problem: PropagationProblem, solution: Solution) -> Block:
    """Distributions (n, K) in working order."""
    shares = class_shares(way.class_mass, problem.class_counts)
    how: Any = {"masses": way._are_masses, "floor": solution.noise}
    P = distributions(problem, solution.scores, shares, **how)
    return refined(problem, P) if way.refine else P


# --- chances of answers


@dataclass(frozen=True)
class AnswerCalibration:
    """a and b of the chance, the number of labels held out, and the reliability for them.

    The reliability table has every label by the a and b of the other folds. Where nothing was held
    out a and b are None, and distributions stay as they are.
    """

    intercept: float | None = None
    slope: float | None = None
    n_labels: int = 0
    reliability: Reliability | None = None

    def chance(self, margin: NDArray[Any]) -> Floats:
        """Chances (m,) that results are right, by their margins."""
        assert self.intercept is not None
        assert self.slope is not None
        return scipy.special.expit(
            self.intercept + self.slope * np.asarray(margin, dtype=np.float64)
        )

    def moved(self, P: Any, margin: NDArray[Any]) -> Any:
        """Distributions (n, K) whose largest entry is the chance; rows of 0 stay.

        A row is moved towards its largest class, or towards 1/K, until its largest entry is the
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
    """Results of a fit for labels held out: margins (l,), classes (l,), whether they are right."""

    margin: Floats
    answer: Ints
    right: NDArray[np.bool_]


def calibrated_answers(folds: list[HeldOutAnswers], answers: NDArray[Any]) -> AnswerCalibration:
    """Calibration by the results of fits without a fold of the labels, on that fold.

    `answers` (n,) are the classes of the fit with all labels, -1 for none.
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
        others = others if others.any() else held
        a, b = _likeliest(margin[others], right[others], weight[others])
        chance[held] = scipy.special.expit(a + b * margin[held])
    table = Reliability.of(chance, right, weight)
    return AnswerCalibration(*_likeliest(margin, right, weight), margin.size, table)


def _likeliest(margin: Floats, right: NDArray[np.bool_], weight: Floats) -> tuple[float, float]:
    unit = float(margin.std()) or 1.0
    sign = np.where(right, 1.0, -1.0)

    def loss(given: Floats) -> float:
        z = given[0] + np.exp(given[1]) * margin / unit
        return float(-weight @ scipy.special.log_expit(sign * z) + _STIFF * given @ given)

    a, log_b = scipy.optimize.minimize(loss, np.zeros(2), method="Nelder-Mead").x
    return float(a), float(np.exp(log_b) / unit)


def _weights(answer: Ints, answers: NDArray[Any]) -> Floats:
    """Weight of every label held out, 1 in the mean."""
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
