"""What all propagators share: labels in, the method's values to a distribution, a report."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.blind_scoring import refuse_blind_scoring
from mustlink.check import as_integer, as_points, check_answer, check_choice, check_tolerance
from mustlink.constraints import Constraints
from mustlink.cost.method_cost import Cost, propagation
from mustlink.errors import InputError
from mustlink.graph.bipartite import on_both_sides
from mustlink.graph.several import several
from mustlink.graph.stored import StoredGraph
from mustlink.labels import class_labels
from mustlink.observe import Observer, Recorder, recorded
from mustlink.operators.laplacian import Block
from mustlink.points_and_view import points_and_view
from mustlink.propagate.answers import Answers
from mustlink.propagate.block_answers import refined
from mustlink.propagate.disk_fit import fit_on_disk, graph_or, stays_on_disk
from mustlink.propagate.distribution import class_shares, distributions
from mustlink.propagate.doubts import TOO_FAR
from mustlink.propagate.glp import SOLVERS, Solving
from mustlink.propagate.held_out_labels import Best, best_way, is_auto
from mustlink.propagate.prior import GivenPrior, bytes_of, check_prior
from mustlink.propagate.reporting import conclude
from mustlink.propagate.soft_answers import SoftAnswers
from mustlink.propagate.solution import AnyTask, Solution
from mustlink.propagate.task import Task, columns_at_once
from mustlink.propagate.told import Told
from mustlink.propagate.trials import Trials
from mustlink.result import Convergence
from mustlink.state import fits, fits_again
from mustlink.stopping import TIME_LIMIT
from mustlink.workspace import Workspace

_USUAL_CLASSES = 10  # for a plan, where nobody says how many


@dataclass(eq=False, repr=False)
class Propagator(SoftAnswers, Answers):
    """Base of the methods that spread labels of a few nodes over a graph.

    * `class_mass`: True scales every class so that its mass Σ_i f_ic over unlabelled nodes is its
      share of the labels (Zhu, Ghahramani & Lafferty 2003, §4); "equal" makes the
      masses equal, "smoothed" adds ten labels to every class first, numbers (K,) are the shares
      themselves. With few labels plain harmonic values are nearly constant and give most nodes to
      one class; then the shares decide: True is right only where labels were drawn at random and
      not too few.
    * `refine`: True goes on to the classes that a degree-corrected block model of the graph finds
      likelier (`rounding.block_model`), labels held; for networks, not for graphs of points.
    * `solver`: "dense" (LAPACK), "cg", "auto" (dense up to 1,000 nodes); `tol` the relative
      residual, `max_iter` the most steps.

    After `fit`: `classes_` (K,), `labels_` = `transduction_` (n,) class of every node,
    `label_distributions_` (n, K), rows sum to 1, `confidence_` (n,) from 0 (tie) to 1, `graph_`,
    `report_`. A component of the graph without any label is answered with -1, zero distribution
    and a note; in others only classes that have a label there are answered.
    """

    class_mass: Any = False
    refine: bool | str = False
    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 1000

    _needs_points: ClassVar[bool] = False
    _counts_labels: ClassVar[bool] = False  # whether sizes of classes follow their labels' shares
    _halved: ClassVar[str] = "the graph is held"
    _by_rows: ClassVar[bool] = False  # whether it runs where rows are on disk or on ranks, too

    @abstractmethod
    def _solve(self, task: Task) -> Solution:
        """The method."""

    def _are_masses(self) -> bool:
        """Whether the values are >= 0 and may be rescaled class by class."""
        return True

    def _scales_classes(self) -> bool:
        """Whether `class_mass` makes sense."""
        return self._are_masses()

    def _minimises(self) -> bool:
        """Whether the values are a least of something that a prior can be added to."""
        return True

    def _check_parameters(self) -> None:
        """Raise InputError for parameters of the method that make no sense."""

    def _ways(self, *, network: bool) -> list[Self]:
        """The method with all that "auto" may stand for, the usual first."""
        return [self._with(network=network)]

    def _with_values(self, best: Best[Self], task: AnyTask, solution: Solution) -> Best[Self]:
        """The best way with all decided that the values must be seen for."""
        return best

    def _with(self, *, network: bool, **given: Any) -> Self:
        """The method with the usual where "auto" stands, and what else is given; or itself."""
        if is_auto(self.class_mass):
            given = {"class_mass": "equal" if network else False} | given
        if is_auto(self.refine):
            given = {"refine": False} | given
        if not given:
            return self
        found = copy(self)
        for name, value in given.items():
            setattr(found, name, value)
        return found

    @fits
    def fit(
        self,
        X: Any,
        y: Any,
        graph: Any = None,
        observer: Observer | Recorder | None = None,
        sample_weight: Any = None,
        graphs: Any = None,
        prior: Any = None,
        belief: Any = None,
    ) -> Self:
        """Label points (n, d), an affinity (n, n) or a Graph from `y` (n,), -1 for unknown.

        `graph` is a neighbour graph of the points X that was made before. `sample_weight` (n,) >= 0
        tells how often every row counts, with its label, as if it were repeated; rows of weight 0
        are not answered. `graphs` are other graphs of the same nodes, weighed by `graph_weights`; X
        may then be None.

        `prior` (n, K), distributions over `classes_`, is what something else says of the nodes, and
        `belief` u, (n,) or a number >= 0, how much that counts, in units of edge weights (1 if left
        out): Σ_i u_i ‖f_i − p_i‖² over nodes without a label is added to what the method minimises,
        and "auto" stands for what it does on points. Raises InputError.
        """
        self._check()
        check_prior(type(self).__name__, self._minimises(), prior, belief)
        recorder = recorded(observer)
        with self._running(recorder):
            seed = self._seed()
            refuse_blind_scoring(y)
            labels, names = class_labels(y)
            cost = self._cost(classes := np.unique(labels[labels >= 0]).size, prior)
            others = {"graph": graph, "sample_weight": sample_weight, "graphs": graphs}
            X = graph_or(self, X, recorder, cost, others, classes, seed)
            if isinstance(X, StoredGraph) and stays_on_disk(X, cost, self._budget):
                fit_on_disk(self, X, labels, recorder, seed, prior, belief, others)
                self._used_seed, self._row_weights = seed, None
            else:
                informed: Any = lambda one: Constraints.from_labels(on_both_sides(labels, one))  # noqa: E731
                X = several(X, graphs, informed)
                how: Any = {"sample_weight": sample_weight, "cost": cost}
                how |= {"needs_points": self._needs_points, "beside": bytes_of(prior, belief)}
                points, work = points_and_view(self, X, graph, recorder, seed, **how)
                self._used_seed, self._row_weights = seed, work.row_weights
                self._run(work, points, Told.of(labels, work, prior, belief), seed, True)
        self._known_as(labels, names, prior, belief)
        return self

    @fits_again
    def refit(
        self,
        y: Any,
        observer: Observer | Recorder | None = None,
        prior: Any = "same",
        belief: Any = None,
    ) -> Self:
        """Label the rows again from other labels `y` (n,): the graph stays, the rest is anew.

        They are all that is then known, not additions to `given_labels_`. The `prior` stays with
        its belief, by its classes, unless another is given; None takes it away.
        """
        self._check()
        refuse_blind_scoring(y)
        labels, names = class_labels(y)
        if isinstance(prior, str) and prior == "same":
            prior, belief = self._same_prior(labels, names, belief)
        check_prior(type(self).__name__, self._minimises(), prior, belief)
        recorder = recorded(observer)
        points = as_points(self._points) if self._needs_points else None
        if isinstance(self.graph_, StoredGraph):
            with self._running(recorder):
                fit_on_disk(self, self.graph_, labels, recorder, self._used_seed, prior, belief)
            self._known_as(labels, names, prior, belief)
            return self
        with self._running(recorder):
            cost = self._cost(np.unique(labels[labels >= 0]).size, prior)
            held = 0 if points is None else points.nbytes
            work = self._view(self.graph_, recorder, held, self._row_weights, cost)
            self._run(work, points, Told.of(labels, work, prior, belief), self._used_seed, True)
        self._known_as(labels, names, prior, belief)
        return self

    def _same_prior(self, labels: NDArray[np.int64], names: Any, belief: Any) -> tuple[Any, Any]:
        """The prior of the fit before over the classes of other labels, and its belief."""
        had: GivenPrior | None = self._given_prior
        if had is None:
            return None, belief
        classes = np.unique(labels[labels >= 0])
        found = had.over(classes if names is None else names[classes], self.graph_.n_rows)
        return found if belief is None else (found[0], belief)

    def fit_on(
        self, work: Workspace, y: Any, seed: int, prior: Any = None, belief: Any = None
    ) -> Self:
        """`fit` as a step of another method, on its view of the graph; classes are numbers."""
        self._check()
        self._run(work, None, Told.of(class_labels(y)[0], work, prior, belief), seed)
        return self

    def _run(self, work: Workspace, points: Any, told: Told, seed: int, last: bool = False) -> None:
        self.classes_ = told.classes
        at_once = columns_at_once(work, self._cost(self.classes_.size, told.prior))
        until = work.recorder.deadline
        solving = Solving(self.solver, self.tol, int(self.max_iter), until, at_once)
        ways = self._ways(network=points is None and work.graph.is_network and told.prior is None)
        trials = Trials(work, told, self.classes_, seed, at_once)
        best = best_way(ways, trials.of(ways), told.nodes, seed, work.recorder)
        way = best.way
        needed = points if self._needs_points else None
        task = Task.of(work, needed, told, self.classes_, seed, solving)
        depends = type(self).__name__, way._depends(), seed, work.memory, *told.all
        solution = work.kept(
            "propagation",
            work.name("propagation", *depends),
            lambda: way._solved(task) if task.size else Solution(task.Y, None),
            (Solution, Convergence),
        )
        self._finish(task, solution, told, last, way._with_values(best, task, solution))

    def _solved(self, task: Task) -> Solution:
        """The method's solution, and a word where the time was up before it was found."""
        found = self._solve(task)
        if found.convergence is not None and found.convergence.reason == TIME_LIMIT:
            task.recorder.leave_out(found.convergence.status)
        return found

    def cost(self, n_classes: int | None = None) -> Cost:
        """One equation for each class, all at a time; see `GraphEstimator.cost`."""
        return propagation(_USUAL_CLASSES if n_classes is None else n_classes)

    def _cost(self, n_classes: int, prior: Any) -> Cost:
        return self.cost(n_classes) if prior is None else self.cost(n_classes).with_prior()

    def _check(self) -> None:
        check_choice(self.solver, SOLVERS, "solver")
        check_tolerance(self.tol)
        as_integer(self.max_iter, "max_iter", 1)
        if not self._scales_classes() and self.class_mass is not False:
            raise InputError(
                f"class_mass: the values of {type(self).__name__} have either sign, they are no "
                "masses; leave it out"
            )
        if not isinstance(self.refine, bool) and not is_auto(self.refine):
            raise InputError(f'refine: {self.refine!r} given; give True, False or "auto"')
        self._check_parameters()

    def _answer(self, task: Task, solution: Solution) -> Block:
        """Distributions (m, K) in working order."""
        P = distributions(
            solution.scores,
            self._shares(task),
            task.unlabelled,
            masses=self._are_masses(),
            floor=solution.noise,
            possible=task.possible_classes,
            copies=task.laplacian.weights,
        )
        return refined(task, P) if self.refine else P

    def _shares(self, task: AnyTask) -> NDArray[np.float64] | None:
        """Shares (K,) that the masses of the classes are scaled to, None: they are not."""
        return class_shares(self.class_mass, task.class_counts)

    def _finish(
        self, task: Task, solution: Solution, told: Told, last: bool, best: Best[Self]
    ) -> None:
        """Set what was found by the best way, the method with all decided."""
        laplacian, graph = task.laplacian, task.graph
        check_answer(solution.scores, "label propagation")
        found = best.way._answer(task, solution)
        P = laplacian.leave(found)
        # A labelled node without edges keeps its own.
        alone = np.flatnonzero((told.nodes >= 0) & (laplacian.positions < 0))
        P[alone, np.searchsorted(self.classes_, told.nodes[alone])] = 1.0
        P = graph.spread(P)
        self._scores, self.graph_ = (solution.scores, graph.spread(laplacian.positions)), graph
        far = not found.any(axis=1).all() and solution.noise > 0
        advice = TOO_FAR if far else ""
        name, parts = type(self).__name__, graph.n_components
        conclude(self, task, solution, best, P, told, name, parts, advice=advice, last=last)

    def _told_masses(self, shares: NDArray[np.float64] | None) -> Any:
        """What the report says of the shares (K,) of the classes."""
        if isinstance(self.class_mass, str):
            return self.class_mass
        return False if shares is None else [round(float(q), 6) for q in shares]

    def _remedy(self) -> str:
        """What to try where answers are doubtful, in Python and in the shell; not what was done."""
        found = []
        if self._scales_classes() and isinstance(self.class_mass, bool):
            found.append('class_mass="equal" (--class-shares equal)')
        if type(self).__name__ != "GFHF" or self.class_mass is False:
            found.append("GFHF(class_mass=True) (-m gfhf --class-mass)")
        return f"try {' or '.join(found)}" if found else "label more nodes of the rare classes"
