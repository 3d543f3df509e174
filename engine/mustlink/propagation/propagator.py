"""What all propagators share: labels in, the method's values to a distribution, a report."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.context.method_cost import TOGETHER, Cost, DiskCost, Size, propagation
from mustlink.context.stage_cache import Workspace
from mustlink.core.check import (
    EQUAL_ROWS,
    REPRESENTATIVES,
    as_integer,
    as_labels,
    as_points,
    check_choice,
    check_flag,
    check_tolerance,
    class_labels,
    encoded,
    labels_of_nodes,
    named,
)
from mustlink.core.observe import Observer, Recorder, Unheard, recorded
from mustlink.core.state import ClassifierMixin, before, check_is_fitted, fits, fits_again
from mustlink.eigen.work import DISK, MEMORY, RANKS
from mustlink.errors import InputError
from mustlink.estimators.fit_input import (
    bytes_of,
    graphs_of_views,
    input_of,
    labels_of_all,
    refuse_blind_scoring,
)
from mustlink.estimators.graph_choice import candidates, graph_by_evidence, of_labels
from mustlink.estimators.graph_estimator import GraphEstimator
from mustlink.graph import Graph
from mustlink.graph.disk_graph import DiskGraph
from mustlink.graph.forms import on_both_sides
from mustlink.graph.several import several
from mustlink.neighbors.disk_knn import graph_where_short
from mustlink.operators.laplacian import Block
from mustlink.propagation.answers import conclude
from mustlink.propagation.held_out import (
    AnswerCalibration,
    Best,
    HeldOutAnswers,
    calibrated_answers,
    enough_labels,
    folds_of_labels,
    is_auto,
    spread,
)
from mustlink.propagation.prior import GivenPrior, LabelSet, check_prior
from mustlink.propagation.problem import SOLVERS, PropagationProblem, ReachedPart, Solution

Ints = NDArray[np.int64]
_USUAL_CLASSES = 10  # for a plan, where nobody says how many


@dataclass(eq=False, repr=False)
class Propagator(ClassifierMixin, GraphEstimator):
    """Base of the methods that spread labels of a few nodes over a graph.

    * `class_mass`: True scales every class so that its mass Σ_i f_ic over unlabelled nodes is its
      share of the labels (Zhu, Ghahramani & Lafferty 2003, §4); "equal" makes the
      masses equal, "smoothed" adds ten labels to every class first, numbers (K,) are the shares
      themselves. With few labels plain harmonic values are nearly constant and give most nodes to
      one class; then the shares decide: True is right only where labels were drawn at random and
      not too few.
    * `refine`: goes on to the classes that a degree-corrected block model of the graph finds
      likelier (`discretize.cuts`), labels held; for networks, not for graphs of points.
    * `every_label`: True spreads every label, as the papers do. Else those that repeat what their
      neighbours say, of a class with far more labels than others (`prior.statements`), are answered
      as they are and not spread: 200 neighbours that somebody drew round are one statement, and
      would take the nodes of classes with three labels.
    * `solver`: of the linear systems: "dense" (LAPACK), "cg", "auto" (dense up to 1,000 nodes);
      `tol`: the relative residual to reach; `max_iter`: the most steps.

    After `fit`: `classes_` (K,), `labels_` = `transduction_` (n,) class of every node,
    `label_distributions_` (n, K), rows sum to 1, `confidence_` (n,) from 0 (tie) to 1, `graph_`,
    `report_`. A component of the graph without any label is answered with -1, zero distribution
    and a note; in others only classes that have a label there are answered.
    """

    class_mass: Any = False
    refine: bool | str = False
    every_label: bool = False
    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 1000

    homes: ClassVar[frozenset[str]] = frozenset({MEMORY, DISK, RANKS})  # where it runs
    _needs_points: ClassVar[bool] = False
    _counts_labels: ClassVar[bool] = False  # whether sizes of classes follow their labels' shares
    _halved: ClassVar[str] = "the graph is held"
    # without annotations, they are no parameters
    _calibrated = cast("tuple[Any, AnswerCalibration] | None", None)  # with the labels it is of
    _given_prior = cast("GivenPrior | None", None)

    @abstractmethod
    def _solve(self, problem: PropagationProblem) -> Solution:
        """The method."""

    @property
    def _are_masses(self) -> bool:
        """Whether the values are >= 0 and may be rescaled class by class."""
        return True

    @property
    def _scales_classes(self) -> bool:
        """Whether `class_mass` makes sense."""
        return self._are_masses

    @property
    def _minimises(self) -> bool:
        """Whether the values minimise an energy, to which a prior can be added."""
        return True

    def _check_parameters(self) -> None:
        """Raise InputError for parameters of the method that make no sense."""

    def _ways(self, *, network: bool) -> list[Self]:
        """The method with all that "auto" may stand for, the usual first."""
        return [self._with(network=network)]

    def _with_values(
        self, best: Best[Self], problem: PropagationProblem, solution: Solution
    ) -> Best[Self]:
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
        views: Any = None,
    ) -> Self:
        """Label points (n, d), an affinity (n, n) or a Graph from `y` (n,), -1 for unknown.

        `graph` is a neighbour graph of the points X that was made before. `sample_weight` (n,) >= 0
        tells how often every row counts, with its label, as if it were repeated; rows of weight 0
        are not answered. `graphs` are other graphs of the same nodes, weighed by `graph_weights`,
        `views` other columns of the same rows (`CSP.fit`); X may then be None.

        `prior` (n, K), distributions over `classes_`, is what something else says of the nodes, and
        `belief` u, (n,) or a number >= 0, how much that counts, in units of edge weights (1 if left
        out): Σ_i u_i ‖f_i − p_i‖² over nodes without a label is added to what the method minimises,
        and "auto" stands for what it does on points. Raises InputError.
        """
        self._check()
        check_prior(type(self).__name__, self._minimises, prior, belief)
        recorder = recorded(observer)
        with self._running(recorder):
            X = self._prepared(X, recorder)
            graphs = graphs_of_views(self, X, graphs, views, recorder, sample_weight)
            seed = self._seed()
            refuse_blind_scoring(y)
            labels, names = class_labels(y)
            cost = self._cost(classes := np.unique(labels[labels >= 0]).size, prior)
            others = {"graph": graph, "sample_weight": sample_weight, "graphs": graphs}

            def on_disk(n: int, nnz: int) -> DiskCost:
                self._check_home(DISK, others)
                return DiskCost.of_labels(n, nnz, classes)

            beside = bytes_of(prior, belief)
            self._allow(X if graph is None else graph, cost, on_disk, others=graphs, beside=beside)
            if DISK in self.homes and graph is None and not isinstance(X, Graph | DiskGraph):
                X = graph_where_short(self, X, recorder, cost, on_disk, seed)
            if isinstance(X, DiskGraph) and self._stays_on_disk(X, cost):
                self._check_home(DISK, others)
                self._used_seed, self._row_weights = seed, None
                self._fit_on_disk(X, labels, recorder, prior, belief)
            else:
                informed: Any = lambda one: Constraints.from_labels(on_both_sides(labels, one))  # noqa: E731
                X = X if graphs is None else several(X, graphs, informed)
                if graph is None and prior is None and sample_weight is None and graphs is None:
                    graph = self._graph_by_evidence(X, recorder, seed, labels)
                how: Any = {"sample_weight": sample_weight, "cost": cost}
                how |= {"needs_points": self._needs_points, "beside": beside}
                points, work = self._points_and_view(X, graph, recorder, seed, **how)
                self._used_seed, self._row_weights = seed, work.row_weights
                self._fit_in_memory(work, points, labels, seed, prior, belief)
        self._known_as(labels, names, prior, belief)
        return self

    def _graph_by_evidence(
        self, X: Any, recorder: Recorder, seed: int, labels: Ints
    ) -> Graph | None:
        """The graph that held-out labels choose for points with `representatives="auto"`."""
        is_graph = isinstance(X, Graph | DiskGraph)
        if self.representatives != "auto" or is_graph or not enough_labels(labels):
            return None

        def verdict(p: int, quiet: Recorder) -> Any:
            made = candidates(self, type(self), p, seed)
            folds = folds_of_labels(labels, seed)
            return made, of_labels(made, [X] * len(made), labels, folds, quiet)

        given = input_of(X, None, self.affinity, self.n_neighbors, self.metric)
        k = int(np.unique(labels[labels >= 0]).size)
        return graph_by_evidence(self, X, given and given[0], recorder, k, verdict)

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
        check_prior(type(self).__name__, self._minimises, prior, belief)
        recorder = recorded(observer)
        points = as_points(self._points) if self._needs_points else None
        with self._running(recorder):
            if isinstance(self.graph_, DiskGraph):
                self._check_home(DISK)
                self._fit_on_disk(self.graph_, labels, recorder, prior, belief)
            else:
                cost = self._cost(np.unique(labels[labels >= 0]).size, prior)
                held = bytes_of(points)
                work = self._view(self.graph_, recorder, held, self._row_weights, cost)
                self._fit_in_memory(work, points, labels, self._used_seed, prior, belief)
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
        self._fit_in_memory(work, None, class_labels(y)[0], seed, prior, belief, last=False)
        return self

    def _fit_in_memory(
        self,
        work: Workspace,
        points: Any,
        labels: Ints,
        seed: int,
        prior: Any,
        belief: Any,
        *,
        last: bool = True,
    ) -> None:
        """Set what `fit` sets, of a graph in memory and `points` (n, d), None if there are none."""
        graph = work.graph
        labels = as_labels(on_both_sides(labels, graph), graph.n_rows, "y")
        merged = graph.rows is not None or graph.weights is not None
        weights = work.weight_of_rows if merged else None
        kind = EQUAL_ROWS if graph.shares is None else REPRESENTATIVES
        known = LabelSet.of(
            labels, graph.n_nodes, graph.rows, weights, work.recorder, prior, belief, kind
        )
        part = ReachedPart.of(work, known, points if self._needs_points else None)
        cost, W = self._cost(known.classes.size, known.prior), graph.affinity
        size = Size(graph.n_nodes, W.nnz, W.dtype.itemsize)
        together = cost.within(size, work.room, single=work.single).together or TOGETHER
        if together < min(TOGETHER, cost.columns):  # for the same answer
            work.recorder.note(f"memory: {together} classes are solved at a time")
        how: Any = {"edges_given": points is None, "together": together, "last": last}
        self._fit_at(part, known, seed, **how)

    def _fit_on_disk(
        self, graph: DiskGraph, labels: Ints, recorder: Recorder, prior: Any, belief: Any
    ) -> None:
        """Set what `fit` sets, of a graph that is read by blocks of rows; InputError.

        `label_distributions_` has its rows on disk: slices of it are arrays.
        """
        labels, n = as_labels(labels, graph.n_rows, "y"), graph.n_nodes
        rows, weights = None, None
        if graph.rows is not None:
            rows = graph.rows[: graph.n_rows]
        elif graph.copies is not None:
            weights = np.asarray(graph.copies[:n])
        known = LabelSet.of(labels, n, rows, weights, recorder, prior, belief)
        k = known.classes.size
        cost = DiskCost.of_labels(n, graph.n_entries, k)
        self._fit_at(self._disk_work(graph, k, cost, recorder), known, self._used_seed)

    def _fit_at(
        self,
        work: Any,
        known: LabelSet,
        seed: int,
        *,
        edges_given: bool = True,
        together: int = TOGETHER,
        last: bool = True,
    ) -> bool:
        """Set what `fit` sets, of a `Work`, in memory of the part that is reached.

        False on ranks that do not have the result.
        """
        network = edges_given and known.prior is None and work.look.is_network
        said = known if self.every_label else known.statements(work)
        found = spread(self, work, said, seed, network=network, together=together)
        P, graph = work.from_working_order(found.distributions), work.graph
        if P is None:
            return False
        self.classes_: Any = known.classes
        self._scores: Any = None
        if work.home == MEMORY:
            self._scores = found.solution.scores, graph.spread(work.laplacian.positions)
        if work.home != RANKS:
            self.graph_: Any = graph
        conclude(self, found, P, known, said, last=last)
        return True

    def _in_memory_only(self) -> dict[str, bool]:
        return {"solver": self.solver == "dense"}

    def cost(self, n_classes: int | None = None) -> Cost:
        """One equation for each class, all at a time; see `GraphEstimator.cost`."""
        return propagation(_USUAL_CLASSES if n_classes is None else n_classes)

    def _cost(self, n_classes: int, prior: Any) -> Cost:
        return self.cost(n_classes) if prior is None else self.cost(n_classes).with_prior()

    def _check(self) -> None:
        check_choice(self.solver, SOLVERS, "solver")
        check_tolerance(self.tol)
        as_integer(self.max_iter, "max_iter", 1)
        check_flag(self.every_label, "every_label")
        if not self._scales_classes and self.class_mass is not False:
            raise InputError(
                f"class_mass: the values of {type(self).__name__} have either sign, they are no "
                "masses; leave it out"
            )
        if not isinstance(self.refine, bool) and not is_auto(self.refine):
            raise InputError(f'refine: {self.refine!r} given; give True, False or "auto"')
        self._check_parameters()

    def _remedy(self) -> str:
        """What to try where results are doubtful, in Python and in the shell; not what was done."""
        found = []
        if self._scales_classes and isinstance(self.class_mass, bool):
            found.append('class_mass="equal" (--class-shares equal)')
        if type(self).__name__ != "GFHF" or self.class_mass is False:
            found.append("GFHF(class_mass=True) (-m gfhf --class-mass)")
        return f"try {' or '.join(found)}" if found else "label more nodes of the rare classes"

    # --- predictions and new points

    def predict(self, X: Any) -> NDArray[Any]:
        """Class of new points (q, d): the largest entry of `predict_proba`, as in `labels_`."""
        new = self._new_points(X)
        best = np.empty(new.new.shape[0], dtype=np.int64)
        for part, mean in new.means(self.label_distributions_):  # (q, K) may be large
            P = _shares(mean)
            best[part] = np.where(P.any(axis=1), P.argmax(axis=1), -1)
        return named(self.classes_, best)

    def predict_proba(self, X: Any) -> Block:
        """Distributions (q, K) of new points: the mean of their neighbours', as harmonic values.

        p(x) = Σ_j w_j p_j / Σ_j w_j over the `n_neighbors` nearest fitted points, w_j =
        exp(−d_j²/s²), s the distance of the 7th; a fitted point keeps its own. Neighbours without
        a class do not count; where there is no other, p is 0. Cost O(q n d).
        """
        check_is_fitted(self)
        return _shares(self._new_points(X, self.classes_.size).mean(self.label_distributions_))

    def decision_function(self, X: Any = None) -> Block:
        """Scores F before they are shares: of fitted rows (n, K), or of new points X (q, K).

        They are what the method's equation gives for one-hot labels, of either sign where it has a
        balance, before `class_mass` and `refine`: where neither acts, `labels_` is the largest of a
        row, among the classes with a label in the node's component. Of two classes the second's
        less the first's, (n,) or (q,): AB09's f for labels −1 and 1. New points get the mean of
        their neighbours' as by `predict_proba`. 0 where nothing was spread to.
        """
        check_is_fitted(self)
        scores, place = self._scores  # of nodes (m, K), and the node of every row, or -1
        F = np.zeros((place.size, self.classes_.size))
        there = place >= 0
        F[there] = scores[place[there]]
        if X is not None:
            F = self._new_points(X, self.classes_.size).mean(F)
        return F if self.classes_.size > 2 else F[:, 1] - F[:, 0]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the points X (q, d) whose class is as in `y` (q,); unknown ones do not count."""
        codes, _ = encoded(y, "y")
        known = np.asarray(codes) != -1
        if not known.any():
            raise InputError("y: all labels are -1; give some points their class")
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        right = self.predict(X)[known] == np.asarray(y)[known]
        return float(np.average(right, weights=weight))

    @fits_again
    def add(self, X: Any, y: Any = None, observer: Any = None) -> Self:
        """Join new points (m, d) to the fitted ones, or nodes by their edges (m, n + m), sparse.

        The rows are n + m then, the new ones last, `y` (m,) their labels, unknown if left out. The
        graph is not searched again, labels are spread anew. Raises InputError, and then nothing has
        changed.
        """
        recorder, had = recorded(observer), before(self)
        with self._running(recorder):
            n = self._grown(X, recorder).graph.n_rows
        return self.refit(
            labels_of_all(had.given_labels_, y, n - len(had.labels_)), observer=recorder
        )

    def _known_as(
        self,
        given: NDArray[np.int64],
        names: NDArray[Any] | None,
        prior: Any = None,
        belief: Any = None,
    ) -> None:
        """Store the input: labels (n,) as numbers, the names of their classes, the prior."""
        classes = np.unique(given[given >= 0])
        classes = classes if names is None else names[classes]
        self._given_prior = GivenPrior.of(prior, belief, classes)
        self.given_labels_: Any = on_both_sides(given, self.graph_)
        if names is not None:
            self.given_labels_ = named(names, self.given_labels_)
            self.labels_: Any = named(names, self.labels_)
            self.classes_ = names[self.classes_]

    @property
    def transduction_(self) -> Any:
        """`labels_` under scikit-learn's name."""
        return self.labels_

    # --- calibration

    @property
    def membership_(self) -> Any:
        """Calibrated probability of every class for every node (n, K).

        `label_distributions_` moved by `calibration_`: rows sum to 1, `labels_` is the largest,
        rows are 0 where `labels_` is -1. Where no labels could be held out they are unchanged.
        """
        return self.calibration_.moved(self.label_distributions_, self.confidence_)

    @property
    def calibration_(self) -> AnswerCalibration:
        """How margins (`confidence_`) become probabilities: by labels held out of five fits.

        From 15 labels and 3 a class on. Computed once for a fit, at the first access. Fits on
        disk are not calibrated: `n_labels` is 0.
        """
        check_is_fitted(self)
        made = self._calibrated
        if made is None or made[0] is not self.labels_:
            return self.calibrate()
        return made[1]

    def calibrate(
        self, observer: Any = None, known: AnswerCalibration | None = None
    ) -> AnswerCalibration:
        """Compute `calibration_` now, with progress to an observer.

        Or take the calibration `known` of a fit with a few labels less: without further fits.
        """
        check_is_fitted(self)
        if known is None:
            folds = self._held_out(recorded(Unheard() if observer is None else observer))
            known = calibrated_answers(folds, self.labels_) if folds else AnswerCalibration()
        self._calibrated = self.labels_, known
        return known

    def _held_out(self, recorder: Recorder) -> list[HeldOutAnswers]:
        """Results of fits without a fold of the labels, on that fold; none where labels are few."""
        graph = self.graph_
        if not isinstance(graph, Graph):
            return []
        codes, names = encoded(self.given_labels_, "y")
        labels = as_labels(codes, graph.n_rows)
        rows = np.arange(graph.n_nodes) if graph.rows is None else graph.rows
        nodes = labels_of_nodes(labels, rows, np.ones(labels.size), graph.n_nodes)[0]
        if not enough_labels(nodes):
            return []
        prior = self._given_prior
        if prior is not None and names is not None:  # the twins' classes are numbers
            code = {name: at for at, name in enumerate(names.tolist())}
            prior = replace(prior, classes=np.array([code[one] for one in prior.classes.tolist()]))
        from sklearn.base import clone

        found: list[HeldOutAnswers] = []
        folds = folds_of_labels(nodes, 0)
        with recorder.stage("confidence by held-out labels") as advance:
            for number, fold in enumerate(folds):
                if recorder.deadline.is_over:
                    recorder.skip_for_time(
                        f"confidence is by {number} fits instead of {len(folds)}"
                    )
                    break
                hidden = np.zeros(graph.n_nodes, dtype=np.bool_)
                hidden[fold] = True
                twin: Any = clone(self)  # on the same graph
                for name in ("graph_", "_points", "_row_weights", "_used_seed"):
                    if name in vars(self):
                        setattr(twin, name, getattr(self, name))
                twin._given_prior = prior
                with suppress(InputError):  # a class may be left without a label
                    quiet = Recorder(Unheard(), recorder.deadline)
                    twin.refit(np.where(hidden[rows], -1, labels), observer=quiet)
                    found.append(_held(twin, graph.first_rows[fold], nodes[fold], names))
                advance((number + 1) / len(folds))
        return found


def fit_at(
    estimator: Any, work: Any, y: NDArray[np.integer[Any]], prior: Any = None, belief: Any = None
) -> Any:
    """Fit a propagator on ranks, a `RankWork`, to labels `y` (n,), -1 unknown; InputError.

    Sets what its `fit` sets on rank 0, and returns it there, None on others. The same on any number
    of ranks, bit by bit.
    """
    estimator._check_home(RANKS)
    labels = as_labels(y, work.n_nodes, "y")
    known = LabelSet.of(labels, work.n_nodes, None, None, work.recorder, prior, belief)
    return estimator if estimator._fit_at(work, known, estimator._seed()) else None


def _shares(mean: Block) -> Block:
    return mean / np.maximum(mean.sum(axis=1, keepdims=True), 1e-300)


def _held(twin: Any, rows: Ints, known: Ints, names: NDArray[Any] | None) -> HeldOutAnswers:
    """Results for rows whose class is `known`, without those of class -1."""
    there = twin.labels_[rows] >= 0
    answer = twin.labels_[rows[there]]
    return HeldOutAnswers(
        twin.confidence_[rows[there]],
        answer if names is None else names[answer],
        answer == known[there],
    )


def call_classes(estimator: Any, names: Mapping[int, str]) -> None:
    """Give the classes of a fitted propagator, which are numbers, the names that labels had."""
    called = np.array([names.get(at, "") for at in range(int(estimator.classes_.max()) + 1)])
    made, prior = estimator._calibrated, estimator._given_prior
    estimator._known_as(estimator.given_labels_, called)
    if prior is not None:
        estimator._given_prior = replace(prior, classes=called[prior.classes])
    if made is not None:
        estimator._calibrated = estimator.labels_, made[1]
