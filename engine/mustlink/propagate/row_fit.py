"""A propagator's fit where rows are on disk or on ranks: the steps of `Propagator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.check import check_answer
from mustlink.eigen.work import Work
from mustlink.errors import InputError
from mustlink.graph.graph import is_network
from mustlink.observe import Recorder
from mustlink.propagate.doubts import TOO_FAR
from mustlink.propagate.glp import Solving
from mustlink.propagate.held_out_labels import Best, best_way, is_auto
from mustlink.propagate.reporting import answers
from mustlink.propagate.row_answers import row_distributions
from mustlink.propagate.row_task import RowPrior, RowTask, where
from mustlink.propagate.solution import Solution
from mustlink.propagate.told import Told
from mustlink.propagate.trials import ROUGH
from mustlink.space import Block
from mustlink.stopping import TIME_LIMIT

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Spread:
    """What a way to spread labels found: distributions (n, K) in working order."""

    task: RowTask
    solution: Solution
    best: Best[Any]
    distributions: Block

    @property
    def advice(self) -> str:
        """What to say of nodes that no label reaches, see `doubts.warn_unreached`."""
        task, null = self.task, self.task.laplacian.null
        told: Array = np.asarray(task.labels_in_parts.any(axis=1))

        def far(P: Array, part: Array, root: Array) -> Array:
            return ((root > 0) & told[part] & ~P.any(axis=1))[:, None] * 1.0

        if not self.solution.noise or not task.size:
            return ""
        found = task.space.rowwise(
            far, self.distributions, null.component, task.laplacian.root_degree
        )
        return TOO_FAR if task.space.dots(found, found)[0] else ""


def check_rows(estimator: Any, home: str, given: Mapping[str, Any]) -> None:
    """Raise InputError for what does not run on disk, or on ranks, as `home` has it.

    `given` is what else the fit was told, by name.
    """
    name = type(estimator).__name__
    if not estimator._by_rows:
        raise InputError(f"{name}: does not run {home}; take Poisson, LLGC, GFHF or TikReg")
    told = [key for key, value in given.items() if value is not None]
    told += ["refine"] if estimator.refine is True else []
    told += ["solver='dense'"] if estimator.solver == "dense" else []
    if told:
        raise InputError(f"{told[0]}: does not run {home}; leave it out")


def spread(
    estimator: Any, work: Work, told: Told, info: Mapping[str, Any], n_entries: int, seed: int
) -> Spread:
    """Spread labels of nodes by the best way that the method has; raises InputError.

    What "auto" stands for is decided as at home, but that no answer is refined by a block model.
    """
    network = is_network(info, work.n_nodes, n_entries) and told.prior is None
    if is_auto(estimator.refine):
        if network:
            work.recorder.note("refine: False, as only one process with all edges can do it")
        estimator = copy(estimator)
        estimator.refine = False
    until = work.recorder.deadline
    solving = Solving("cg", estimator.tol, int(estimator.max_iter), until)
    task = _task(work, told, info, solving, work.recorder)

    def right(fold: Array) -> Sequence[NDArray[np.bool_]]:
        unheard = Recorder(deadline=until)
        some = _task(work, told.without(fold), info, ROUGH, unheard)
        return [_right(way, some, told, fold) for way in ways]

    ways = estimator._ways(network=network)
    best = best_way(ways, right, told.nodes, seed, work.recorder)
    solution = _solved(best.way, task)
    best = best.way._with_values(best, task, solution)
    return Spread(task, solution, best, _distributions(best.way, task, solution))


def _task(
    work: Work, told: Told, info: Mapping[str, Any], solving: Solving, recorder: Recorder
) -> RowTask:
    """The labels of nodes with an edge in working order."""
    space, root, classes = work.laplacian.space, work.laplacian.root_degree, told.classes

    def linked(values: Array, root: Array) -> Array:
        return np.where(root > 0, values, -1)

    known = told.nodes >= 0
    found = np.where(known, np.searchsorted(classes, told.nodes), -1).astype(np.int32)
    codes = space.rowwise(linked, work.enter(found), root)
    counts = known * 1.0 if told.counts is None else np.where(known, told.counts, 0.0)
    held = space.rowwise(where, work.enter(counts), root)
    prior = None
    if told.prior is not None:
        belief = work.enter(np.where(known, 0.0, told.prior.belief))
        prior = RowPrior(work.enter(told.prior.values), space.rowwise(where, belief, root))
    return RowTask(work, codes, held, classes.size, solving, info, recorder, prior)


def _solved(way: Any, task: RowTask) -> Solution:
    """The values, which are numbers."""
    if not task.size:
        return Solution(task.Y, None)
    found: Solution = way._solve(task)
    if found.convergence is not None and found.convergence.reason == TIME_LIMIT:
        task.recorder.leave_out(found.convergence.status)
    check_answer(task.space.dots(found.scores, found.scores), "label propagation")
    return found


def _distributions(way: Any, task: RowTask, solution: Solution) -> Block:
    """Distributions (n, K) in working order."""
    how = {"masses": way._are_masses(), "floor": solution.noise}
    return row_distributions(task, solution.scores, way._shares(task), **how)


def _right(way: Any, task: RowTask, told: Told, fold: Array) -> NDArray[np.bool_]:
    """Which nodes of a fold are answered right without their labels."""
    P = _distributions(way, task, _solved(way, task))
    found = answers(task.space.take(P, task.work.positions(fold)))
    return np.asarray(found == np.searchsorted(told.classes, told.nodes[fold]))
