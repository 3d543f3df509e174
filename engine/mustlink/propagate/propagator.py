"""What all propagators share: labels in, the method's values to a distribution, a report."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from mustlink.blind_scoring import refuse_blind_scoring
from mustlink.check import as_integer, as_points, check_answer, check_choice, check_tolerance
from mustlink.cost.method_cost import Cost, propagation
from mustlink.errors import InputError
from mustlink.estimator import GraphEstimator
from mustlink.graph import Graph
from mustlink.graph.multiplicity import as_sample_weight
from mustlink.graph.network_objects import unwrapped
from mustlink.labels import (
    as_labels,
    class_labels,
    encoded,
    named,
)
from mustlink.neighbours.points_by_rows import is_rows
from mustlink.observe import Observer, Recorder, recorded
from mustlink.operators.laplacian import Block
from mustlink.propagate.distribution import class_shares, confidence, distributions
from mustlink.propagate.doubts import doubt_answers, note_shares, warn_unreached
from mustlink.propagate.glp import SOLVERS, Ints, Solving
from mustlink.propagate.task import Solution, Task, Told
from mustlink.result import Convergence, Report
from mustlink.stopping import TIME_LIMIT
from mustlink.workspace import Workspace
from mustlink.workspace.shelf import Shelf

_USUAL_CLASSES = 10  # for a plan, where nobody says how many


@dataclass(eq=False, repr=False)
class Propagator(ClassifierMixin, GraphEstimator):
    """Base of the methods that spread labels of a few nodes over a graph.

    * `class_mass`: True scales every class so that its mass Σ_i f_ic over unlabelled nodes is its
      share of the labels (Zhu, Ghahramani & Lafferty 2003, §4); "equal" makes the
      masses equal, numbers (K,) are the shares themselves. With few labels plain harmonic values
      are nearly constant and give most nodes to one class; then the shares decide: True is right
      only where labels were drawn at random and not too few.
    * `solver`: "dense" (LAPACK), "cg", "auto" (dense up to 1,000 nodes); `tol` the relative
      residual, `max_iter` the most steps.

    After `fit`: `classes_` (K,), `labels_` = `transduction_` (n,) class of every node,
    `label_distributions_` (n, K), rows sum to 1, `confidence_` (n,) from 0 (tie) to 1, `graph_`,
    `report_`. A component of the graph without any label is answered with -1, zero distribution
    and a note; in others only classes that have a label there are answered.
    """

    class_mass: Any = False
    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 1000

    _needs_points: ClassVar[bool] = False
    _counts_labels: ClassVar[bool] = False  # whether sizes of classes follow their labels' shares
    _halved: ClassVar[str] = "the graph is held"

    @abstractmethod
    def _solve(self, task: Task) -> Solution:
        """The method."""

    def _are_masses(self) -> bool:
        """Whether the values are >= 0 and may be rescaled class by class."""
        return True

    def _scales_classes(self) -> bool:
        """Whether `class_mass` makes sense."""
        return self._are_masses()

    def _check_parameters(self) -> None:
        """Raise InputError for parameters of the method that make no sense."""

    def fit(
        self,
        X: Any,
        y: Any,
        graph: Any = None,
        observer: Observer | Recorder | None = None,
        sample_weight: Any = None,
    ) -> Self:
        """Label points (n, d), an affinity (n, n) or a Graph from `y` (n,), -1 for unknown.

        `graph` is a neighbour graph of the points X that was made before. `sample_weight` (n,) >= 0
        tells how often every row counts, with its label, as if it were repeated; rows of weight 0
        are not answered. Raises InputError.
        """
        self._check()
        recorder = recorded(observer)
        with self._running(recorder):
            seed = self._seed()
            refuse_blind_scoring(y)
            labels, names = class_labels(y)
            cost = self.cost(np.unique(labels[labels >= 0]).size)
            points, work = self._input(X, graph, recorder, seed, sample_weight, cost)
            self._run(work, points, labels, seed, last=True)
        if names is not None:
            self._rename(names)
        return self

    def fit_on(self, work: Workspace, y: Any, seed: int) -> Self:
        """`fit` as a step of another method, on its view of the graph; classes are numbers."""
        self._check()
        self._run(work, None, class_labels(y)[0], seed)
        return self

    def _run(
        self, work: Workspace, points: Any, labels: Ints, seed: int, *, last: bool = False
    ) -> None:
        labels = as_labels(labels, work.graph.n_rows, "y")
        told = Told.of(labels, work)
        nodes = told.nodes
        self.classes_ = np.unique(nodes[nodes >= 0])
        solving = Solving(self.solver, self.tol, int(self.max_iter), work.recorder.deadline)
        needed = points if self._needs_points else None
        task = Task.of(work, needed, told, self.classes_, seed, solving)
        depends = type(self).__name__, self._depends(), seed, work.memory, nodes, told.counts
        solution = work.kept(
            "propagation",
            work.name("propagation", *depends),
            lambda: self._solved(task) if task.size else Solution(task.Y, None),
            (Solution, Convergence),
        )
        self._finish(task, solution, told, last)

    def _solved(self, task: Task) -> Solution:
        """The method's solution, and a word where the time was up before it was found."""
        found = self._solve(task)
        if found.convergence is not None and found.convergence.reason == TIME_LIMIT:
            task.recorder.leave_out(found.convergence.status)
        return found

    def predict(self, X: Any) -> NDArray[Any]:
        """Class of new points (q, d): the largest entry of `predict_proba`, as in `labels_`."""
        P = self.predict_proba(X)
        best = np.where(P.any(axis=1), P.argmax(axis=1), -1)
        return named(self.classes_, best)

    def predict_proba(self, X: Any) -> Block:
        """Distributions (q, K) of new points: the mean of their neighbours', as harmonic values.

        p(x) = Σ_j w_j p_j / Σ_j w_j over the `n_neighbors` nearest fitted points, w_j =
        exp(−d_j²/s²), s the distance of the 7th; a fitted point keeps its own. Neighbours without
        an answer do not count; where there is no other, p is 0. Cost O(q n d).
        """
        mean = self._new_points(X).mean(self.label_distributions_)
        return mean / np.maximum(mean.sum(axis=1, keepdims=True), 1e-300)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the points X (q, d) whose class is as in `y` (q,); unknown ones do not count."""
        codes, _ = encoded(y, "y")
        known = np.asarray(codes) != -1
        if not known.any():
            raise InputError("y: all labels are -1; give some points their class")
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        right = self.predict(X)[known] == np.asarray(y)[known]
        return float(np.average(right, weights=weight))

    def cost(self, n_classes: int | None = None) -> Cost:
        """One equation for each class, all at a time; see `GraphEstimator.cost`."""
        return propagation(_USUAL_CLASSES if n_classes is None else n_classes)

    def _check(self) -> None:
        check_choice(self.solver, SOLVERS, "solver")
        check_tolerance(self.tol)
        as_integer(self.max_iter, "max_iter", 1)
        if not self._scales_classes() and self.class_mass is not False:
            raise InputError(
                f"class_mass: the values of {type(self).__name__} have either sign, they are no "
                "masses; leave it out"
            )
        self._check_parameters()

    def _input(
        self, X: Any, graph: Any, recorder: Recorder, seed: int, sample_weight: Any, cost: Cost
    ) -> tuple[Any, Workspace]:
        """Points, where there are any, and the graph; points on disk stay there if they can."""
        X, graph = unwrapped(X), unwrapped(graph)
        is_graph = isinstance(X, Graph) or self.affinity == "precomputed"
        if is_graph and graph is not None:
            raise InputError("graph: X is a graph already; give points as X, or one graph only")
        if is_graph and self._needs_points:
            raise InputError(
                f"{type(self).__name__}: fits neighbourhoods of points, but only a graph was "
                "given; pass the points as X (and the graph as graph=)"
            )
        if graph is None:
            built = self._work(X, recorder, seed, sample_weight, cost)
            if is_graph or (is_rows(X) and not self._needs_points):
                return (None if is_graph else X), built  # read when `predict` asks for them
            return as_points(X), built
        if sp.issparse(graph):
            graph = Graph.from_affinity(graph)
        if not isinstance(graph, Graph):
            raise InputError(f"graph: {type(graph).__name__} given; give a Graph or sparse matrix")
        self._remember(X)
        points = as_points(X)
        if points.shape[0] != graph.n_rows:
            raise InputError(f"graph: {graph.n_rows} nodes, but X has {points.shape[0]} points")
        weights = as_sample_weight(sample_weight, graph.n_rows)
        graph = self._weighing(graph, weights, Shelf(recorder, self._keeper))
        return points, self._view(graph, recorder, points.nbytes, weights, cost)

    def _finish(
        self,
        task: Task,
        solution: Solution,
        told: Told,
        last: bool,
    ) -> None:
        recorder, laplacian, graph = task.recorder, task.laplacian, task.graph
        check_answer(solution.scores, "label propagation")
        convergence = solution.convergence
        cut = convergence is not None and convergence.reason == TIME_LIMIT
        if convergence is not None and not convergence.converged.all() and not cut:
            recorder.warn(convergence.status)
        held = task.labels_held[task.labelled]
        shares = class_shares(self.class_mass, task.codes, task.n_classes, held)
        if self._scales_classes() and (shares is None or self.class_mass is True):
            note_shares(task, always=self._counts_labels)
        found = distributions(
            solution.scores,
            shares,
            task.unlabelled,
            masses=self._are_masses(),
            floor=solution.noise,
            possible=task.possible_classes,
            copies=laplacian.weights,
        )
        P, labels = laplacian.leave(found), told.rows
        # A labelled node without edges keeps its own.
        alone = np.flatnonzero((told.nodes >= 0) & (laplacian.positions < 0))
        P[alone, np.searchsorted(self.classes_, told.nodes[alone])] = 1.0
        P = graph.spread(P)
        given = np.flatnonzero(labels >= 0)
        answered = P.any(axis=1)
        self.labels_ = np.where(answered, self.classes_[P.argmax(axis=1)], -1)
        self.label_distributions_ = P
        self.confidence_ = confidence(P)
        self.graph_ = graph
        far = not found.any(axis=1).all() and solution.noise > 0
        advice = "; some are too far for the solver's residual, lower tol" if far else ""
        warn_unreached(labels.size - int(answered.sum()), advice, recorder)
        if last:  # as a step of another method, classes are not the answer
            doubt_answers(self.classes_, labels, self.labels_, self._remedy(), recorder)
        self.report_ = Report(
            method=type(self).__name__,
            n_nodes=labels.size,
            n_clusters=task.n_classes,
            choices={
                **solution.choices,
                "class_mass": False if shares is None else [round(float(q), 6) for q in shares],
                "solver": "none" if solution.convergence is None else solution.convergence.solver,
                "graph": dict(task.graph.info),
            },
            convergence=solution.convergence,
            satisfaction=None,
            **recorder.told(),
            extra={
                "n_components": task.graph.n_components,
                "n_labels": int(given.size),
                "labels_kept": float(np.mean(self.labels_[given] == labels[given])),
                "unanswered": int(labels.size - answered.sum()),
            },
        )

    def _remedy(self) -> str:
        """What to try where answers are doubtful."""
        scalable = self._scales_classes() and isinstance(self.class_mass, bool)
        equal = 'class_mass="equal" (--class-shares equal) or ' if scalable else ""
        return f"try {equal}GFHF(class_mass=True)"

    def _rename(self, names: NDArray[Any]) -> None:
        """Numbers of classes back to their names."""
        self.labels_ = named(names, self.labels_)
        self.classes_ = names[self.classes_]

    @property
    def transduction_(self) -> Any:
        """`labels_` under scikit-learn's name."""
        return self.labels_
