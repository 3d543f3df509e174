"""Clusterers that take labels and constraints; those that put them into an eigenproblem."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from mustlink.clusterers.clusterer import GraphClusterer
from mustlink.clusterers.ncut import NCut, NormalizedCut, network_of
from mustlink.constraints import Constraints
from mustlink.constraints.constraints import merge_duplicates
from mustlink.context.method_cost import Cost, eigenvectors, full_problem
from mustlink.core.check import (
    as_integer,
    check_answer,
    check_choice,
    check_flag,
    check_regularization,
    check_tolerance,
    class_texts,
    n_classes_in,
    numbered_after,
)
from mustlink.core.observe import Observer, Recorder, recorded
from mustlink.core.result import Convergence, held_out_satisfaction, tell_unconverged
from mustlink.core.state import before, fits, fits_again
from mustlink.discretize.satisfaction import (
    moved_by_pairs,
    note_contradictions,
    warn_if_broken,
    warn_of_lost,
)
from mustlink.eigen.memory_work import MemoryWork
from mustlink.eigen.plain_solve import SOLVERS
from mustlink.eigen.smooth_subspace import BASIS_TOL, EigenOptions, EigenSolution, FeasibleCuts
from mustlink.eigen.work import DISK, MEMORY, RANKS, Work
from mustlink.errors import InputError
from mustlink.estimators.fit_input import bytes_of, graphs_of_views, side_information, with_added
from mustlink.propagation.prior import note_repeated, statements_of_rows
from mustlink.selection.constrained_fit import USUAL, FitSpec, Formulation, Placed, cluster
from mustlink.selection.held_out import NONE, SelectedModel
from mustlink.selection.resolve import resolve

_SOFT = 28  # bytes a node and column of soft labels: shares, those with labels, and in CSR
INITS = ("auto", "labels", "k-means++")
KEPT = (SelectedModel, EigenSolution, Convergence, FeasibleCuts)  # what a kept embedding is made of


@dataclass(eq=False, repr=False)
class InformedClusterer(GraphClusterer):
    """Base of the clusterers that take labels and constraints."""

    _most_folds = None  # type: int | None  # splits that choose a parameter, see `FitSpec`
    _pull = 0.0  # of pairs on single nodes at the end of a fit in memory, see `moved_by_pairs`

    @abstractmethod
    def _check(self) -> None:
        """Raise InputError for parameters that make no sense."""

    @abstractmethod
    def _run(self, work: Any, known: Constraints, seed: int) -> None:
        """Cluster the graph of a home with what is known of its nodes, and set the results."""

    @fits
    def fit(
        self,
        X: Any,
        y: Any = None,
        constraints: Constraints | None = None,
        observer: Observer | Recorder | None = None,
        sample_weight: Any = None,
        graphs: Any = None,
        prior: Any = None,
        belief: Any = None,
        views: Any = None,
    ) -> Self:
        """Cluster points (n, d), an affinity (n, n) or a Graph with what is known.

        `y` (n,) are labels of some nodes, numbers with -1 for unknown or text with "": all their
        pairs are constraints, and text names clusters (`cluster_names_`); `labels_` are numbers in
        any case. `constraints` are anything else, or more. `sample_weight` (n,) >= 0 is
        how often every row counts, with its labels and pairs, as if it were repeated; rows of
        weight 0 are in no cluster. `graphs` are other graphs of the same nodes, weighed by
        `graph_weights`; X may then be None.

        `views` are several kinds of columns of the same rows by name, {"text": A, "numbers": B}:
        arrays, sparse rows, tables, each with a graph of its own, made as that of X, or a Graph.
        They are weighed as `graphs` are, which `graph_weights` may do by name; X, which may be
        None, is called "X". New rows are compared by X alone, and not at all without it.

        `prior` (n, K) is what something else says of the nodes, distributions over the classes of
        `y` (without these any K), `belief` (n,) or a number from 0 to 1 how sure it is, see
        `Constraints.from_soft_labels`; of a node with a label the label counts.
        """
        self._check()
        recorder = recorded(observer)
        others: dict[str, Any] = {"sample_weight": sample_weight}

        def known(graph: Any, recorder: Recorder | None = None) -> Constraints:
            return side_information(graph, y, constraints, recorder, prior=prior, belief=belief)

        with self._running(recorder):
            X = self._prepared(X, recorder)
            others["graphs"] = graphs_of_views(self, X, graphs, views, recorder, sample_weight)
            classes = self._classes_named(y, constraints, prior)
            beside = bytes_of(prior, belief) + _bytes_of_soft(prior, constraints)
            work = self._home_of(X, recorder, known, others, classes, beside)
            if work.home == DISK:
                self._home = work  # for refits
            given, self._class_names = known(work.graph, recorder), class_texts(y)
            self._run(work, self._of_nodes(given, work), self._used_seed)
        return self._scored(recorder)

    @fits_again
    def refit(
        self,
        y: Any = None,
        constraints: Constraints | None = None,
        observer: Observer | Recorder | None = None,
    ) -> Self:
        """Cluster the same graph again with other labels `y` (n,) or constraints.

        They are all that is then known, not additions to `constraints_`; `refit(constraints)` does
        as well. The graph and what is derived from it stay, of methods in a smooth subspace
        also the choices made before, until half or twice as much is known as when they were made,
        or a parameter is set anew: these take seconds. Parameters of the graph are those of `fit`;
        K may be another. Clusters keep their numbers and names as far as they can, and new ones get
        new numbers; the report's `changed` is the share of nodes that moved, `clusters_changed`
        tells the numbers that are new and gone.
        """
        self._check()
        if isinstance(y, Constraints):
            y, constraints = constraints, y
        recorder, labels = recorded(observer), before(self).labels_
        with self._running(recorder):
            work = self._home_again(recorder)
            given = side_information(self.graph_, y, constraints, recorder)
            self._class_names = class_texts(y)
            self._run_again(work, self._of_nodes(given, work))
        return self._numbered_as(labels, recorder)._scored(recorder)

    @fits_again
    def add(
        self,
        X: Any,
        y: Any = None,
        constraints: Constraints | None = None,
        observer: Observer | Recorder | None = None,
    ) -> Self:
        """Join new points (m, d) to the fitted ones, or nodes by their edges (m, n + m), sparse.

        The rows are n + m then, the new ones last; `y` (m,) are labels of these, `constraints` are
        more of all. What was known before holds. New points are joined to the graph by edges to
        their nearest, smooth vectors are extended and sharpened where that is needed, clusters keep
        their numbers and names. The graph is not searched again: after many additions a fit finds
        better neighbours. Raises InputError, and then nothing has changed.
        """
        self._check()
        recorder, labels = recorded(observer), before(self).labels_
        if y is not None and self._given is not None and self._given.labels is not None:
            y, self._class_names = numbered_after(y, self._class_names)
        elif y is not None:
            self._class_names = class_texts(y)
        with self._running(recorder):
            work = MemoryWork(self._grown(X, recorder))
            given = with_added(self._given, work.graph.n_rows, y, constraints)
            self._run_again(work, self._of_nodes(given, work))
            return self._numbered_as(labels, recorder, "add")._scored(recorder)

    def _run_again(self, work: Any, known: Constraints) -> None:
        """`_run` with what is to be kept of the fit before."""
        self._run(work, known, self._used_seed)

    def _classes_named(
        self, y: Any, constraints: Constraints | None, prior: Any = None
    ) -> int | None:
        """Number of named classes, where K follows it; labels are checked later."""
        if not self._follows_labels:
            return None
        if prior is not None and np.ndim(prior) == 2:
            return int(np.shape(prior)[1])
        if isinstance(constraints, Constraints) and constraints.classes.size:
            return constraints.classes.size
        return None if isinstance(y, Constraints) else n_classes_in(y)

    def _fitted_again(self, given: Constraints, recorder: Recorder) -> Self:
        work = MemoryWork(self._view(self.graph_, recorder, row_weights=self._row_weights))
        twin = self._twin()
        twin._row_weights, twin._used_seed = self._row_weights, self._used_seed
        twin._run(work, twin._of_nodes(given, work), self._used_seed, **self._choices())
        return twin

    def _choices(self) -> dict[str, Any]:
        """What of this fit is not chosen again, as `_run` takes it."""
        return {}

    def _tried_on_graphs(self) -> type[GraphClusterer]:
        return NCut

    def _twin(self) -> Self:
        twin = super()._twin()
        twin._pull = self._pull
        return twin

    def _pulled(self, work: Any, clusters: Any, known: Constraints, k: int) -> Any:
        """Clusters of working nodes, single ones moved to where their pairs want them; a note."""
        if not (self._pull and work.home == MEMORY):
            return clusters
        nodes = work.laplacian.nodes
        of_nodes = np.full(work.graph.n_nodes, -1, dtype=np.int64)
        of_nodes[nodes] = clusters
        found, moved = moved_by_pairs(work.graph, of_nodes, known, self._pull, k)
        if moved:
            work.recorder.note(f"pairs: {moved:,} nodes moved to where pairs and neighbours are")
        return found[nodes]

    def _of_nodes(self, given: Constraints, work: Any) -> Constraints:
        """What is known of rows, of the nodes that they are; warns of contradictions.

        On disk nodes are rows.
        """
        graph, self._given = work.graph, given
        if work.home != MEMORY or (graph.rows is None and graph.weights is None):
            return given
        if given.is_empty:
            return Constraints.none(graph.n_nodes)
        rows = np.arange(graph.n_nodes) if graph.rows is None else graph.rows
        counts = work.view.weight_of_rows
        mixed = None if graph.shares is None else graph.shares.matrix(counts, given.nodes)
        known, doubts = merge_duplicates(given, rows, counts, graph.n_nodes, mixed)
        for doubt in doubts:
            work.recorder.warn(doubt)
        return known


def _statements(work: Any, known: Constraints) -> Constraints:
    """What is known of nodes without labels that repeat their neighbours'; a note."""
    copies = known.copies
    rows = known if copies is None else copies.used
    if rows.labels is None:
        return known
    node_of = None if work.home == RANKS else work.graph.rows
    labels = statements_of_rows(work, rows.labels, node_of if copies is None else copies.rows)
    if labels is rows.labels:
        return known
    note_repeated(rows.labels, labels, work.recorder, "clusters are made without them")
    found = rows.having(labels=labels)
    return found if copies is None else copies.folded(found)


def _bytes_of_soft(prior: Any, constraints: Any) -> int:
    """Bytes of what soft labels become: shares, and columns of them."""
    given = constraints.soft_labels if isinstance(constraints, Constraints) else None
    shape = np.shape(prior) if given is None else given.values.shape
    return _SOFT * shape[0] * (shape[1] + 1) if len(shape) == 2 else 0


@dataclass(eq=False, repr=False)
class ConstrainedSpectral(InformedClusterer):
    """Base of methods that put constraints into an eigenproblem; a subclass says into which.

    * `subspace`: in which span the problem is solved: "exact" is the paper's full problem; an
      integer p the span of the graph's p smoothest eigenvectors, which few constraints on many
      nodes need and which makes new constraints a matter of seconds (`refit`); "auto" chooses p by
      constraints held out of the fit, or the full problem where that predicts better.
    * `assign`: how vectors become clusters: "kmeans", "sphere" (rows of length 1), "auto".
    * `init`: where k-means on the rows starts: "labels", at the means of the classes, more clusters
      by k-means++; "k-means++", at random; "auto" takes the means where every cluster has labels,
      else, of twelve random starts, the one that ends with most constraints kept.
    * `solver`: of the eigenproblem: auto, dense, lobpcg; `tol`: the residuals to reach;
      `max_iter`: the most steps.
    * `regularization` t > 0 adds t times the mean degree to every degree where the subspace is
      computed (`NCut`); costs and constraints stay those of the graph as it is. "auto" tries 0.1
      beside 0 on networks that are given, and decides by the constraints held out.
    * `every_label`: True takes every label, as the papers do. Else the labels that repeat what
      their neighbours say, of a class with far more of them than others (`Propagator`), make no
      constraints: 200 neighbours that somebody drew round would outweigh all others.
    """

    subspace: int | str = "auto"
    assign: str = "auto"
    init: str = "auto"
    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 300
    regularization: float | str = "auto"
    every_label: bool = False

    homes: ClassVar[frozenset[str]] = frozenset({MEMORY, DISK, RANKS})
    _places_known: ClassVar[bool] = True
    _parameter: ClassVar[str | None] = None
    _assignments: ClassVar[tuple[str, ...]] = ("auto", "kmeans", "sphere")

    @abstractmethod
    def _formulation(self, graph: Any, laplacian: Any, known: Constraints, k: int) -> Formulation:
        """The method on one graph with one set of constraints.

        `KnownGraph` and `PlacedLaplacian` do for methods that run on disk and on ranks, others ask
        for a `Graph` and its `NormalizedLaplacian`.
        """

    def cost(self, n_classes: int | None = None) -> Cost:
        """As many smooth vectors as `subspace` says; "auto" needs K and mostly takes 4K.

        See `context.method_cost.full_problem`.
        """
        k = self._k_or(n_classes)
        if self.subspace == "exact":
            return full_problem(k)
        auto = isinstance(self.subspace, str)
        vectors = eigenvectors(USUAL * k, least=k) if auto else eigenvectors(int(self.subspace))
        rough = self.tol is None or self.tol >= BASIS_TOL
        kept = (1.0 + rough) * (self.regularization == "auto")  # in double precision all the same
        return replace(vectors, on_networks=kept, rough=rough)

    def _check_parameter(self) -> None:
        """Raise InputError for a parameter of the method that makes no sense."""

    @property
    def _by_criterion(self) -> bool:
        """Whether the parameter is chosen by WHC11's criterion E, as its value says."""
        return False

    def _run_again(self, work: Any, known: Constraints) -> None:
        """With the last choice, while half to twice as much is known as when it was made."""
        similar = 0.5 <= (known.n_constraints + 1) / (self._amount + 1) <= 2
        same = self._asked == self._parameters()
        last = None
        if similar and same and self._acted and not known.is_empty:
            last = self._choice, before(self).report_.n_clusters
        self._run(work, known, self._used_seed, last)

    def fit_as_chosen(self, graph: Any, y: Any, choice: Any, recorder: Recorder) -> Self:
        """`fit` as a step of another method that has the `choice` of an earlier fit: in memory."""
        work, self._used_seed = MemoryWork(self._view(graph, recorder)), self._seed()
        known = self._of_nodes(side_information(graph, y, None, recorder), work)
        self._run(work, known, self._used_seed, (choice, self._k_or(None)))
        return self

    def _rivals(self, classes: int | None) -> tuple[Cost, ...]:
        """The full problem, which is tried where labels are held out of a smooth one in vain."""
        return (full_problem(self._k_or(classes)),) if classes and self.subspace == "auto" else ()

    def _columns(self, k: int) -> int:
        return USUAL * k if isinstance(self.subspace, str) else int(self.subspace)

    def _in_memory_only(self) -> dict[str, bool]:
        return {
            **super()._in_memory_only(),
            "subspace": self.subspace == "exact",
            "assign": self.assign == "split",
            "init": self.init == "labels",
            "solver": self.solver not in ("auto", "lobpcg"),
        }

    def _choices(self) -> dict[str, Any]:
        return {"last": (self._choice, self.report_.n_clusters)}

    def _parameters(self) -> dict[str, str]:
        return {name: repr(value) for name, value in self.get_params().items()}

    def _check(self) -> None:
        check_choice(self.assign, self._assignments, "assign")
        check_choice(self.init, INITS, "init")
        check_choice(self.solver, SOLVERS, "solver")
        if isinstance(self.subspace, str):
            check_choice(self.subspace, ("auto", "exact"), "subspace")
        else:
            as_integer(self.subspace, "subspace", 1)
        as_integer(self.max_iter, "max_iter", 1)
        check_regularization(self.regularization)
        if self.subspace == "exact" and self.regularization not in ("auto", 0):
            why = "is of a subspace, and the full problem has none"
            raise InputError(f"regularization: {self.regularization} {why}; give another subspace")
        check_tolerance(self.tol)
        check_flag(self.every_label, "every_label")
        self._check_parameter()

    def _run(
        self,
        work: Any,
        known: Constraints,
        seed: int,
        last: tuple[SelectedModel | None, int] | None = None,
    ) -> None:
        """`last` is the choice of an earlier run, and the K that it was made for."""
        recorder = work.recorder
        k = self._clusters(work, known.as_given.classes.size, seed, known)
        if self.assign in ("sign", "split") and k != 2:
            raise InputError(f'assign: "{self.assign}" makes 2 clusters, not {k}; use "kmeans"')
        if k == 1:
            self._in_one(work, known)
            self._choice, self._amount = None, known.n_constraints
            self._acted, self._asked = False, {}
            return
        said = known if self.every_label else _statements(work, known)
        request = self._request(work, said, k, seed)
        fixed = last[0] if last is not None and last[1] == k else None
        depends = type(self).__name__, self._depends(), seed, fixed, said

        def embedding() -> tuple[SelectedModel, EigenSolution]:
            # Together: which eigenvectors the second step uses depends on what the first needed.
            choice = resolve(request) if fixed is None else fixed
            return choice, request.solved(choice)

        def clustered() -> Any:
            with recorder.stage("clusters"):
                return cluster(request, choice, solution, rows)

        choice, solution = work.cached("embedding", depends, embedding, KEPT)
        rows = request.rows(solution)
        clusters = work.cached("clusters", depends, clustered)
        clusters = self._pulled(work, clusters, known, k)
        self.labels_ = self._labels(work, clusters, k)
        with recorder.stage("labels"):
            check_answer(work.space.dots(rows, rows), "embedding")
            self.embedding_ = work.from_working_order(rows)
        self.graph_ = work.graph
        self.eigenvalues_, self.costs_ = solution.values, solution.cost
        self._choice, self._asked = choice, self._parameters()
        self._acted = request.formulation.problem.acts and not known.is_empty
        if fixed is None:  # of the choice, not of the last refit: by small steps it would never age
            self._amount = known.n_constraints
        if solution.note:
            recorder.note(solution.note)
        warn_of_missing_vectors(solution, recorder)
        tell_unconverged(recorder, solution.convergence, single=request.stated[0])
        smooth = request.in_memory and choice.p is not None
        other = 'subspace="exact" or another method' if smooth else "another method"
        shares = warn_if_broken(self.labels_, known, recorder, other)
        found: dict[str, Any] = {}
        if not request.in_memory:
            cut = NormalizedCut(clusters, rows, solution.values, solution.convergence, None)
            self._cut_on_disk, found = network_of(work, cut, k)
        if choice.score is not None:
            found["held_out"] = held_out_satisfaction(choice.score)
        choices = report_of_choices(self._parameter, choice, solution)
        if weighing := request.formulation.weighing:
            choices["weighing"] = weighing
        self._report(
            work,
            k,
            choices,
            solution.convergence,
            shares,
            **found,
            **report_of_cuts(solution),
            candidates=[list(row) for row in choice.scores],
        )

    def _request(self, work: Work, known: Constraints, k: int, seed: int) -> FitSpec:
        """The problem and what is left open; warns of constraints, and raises InputError."""
        recorder, placed = work.recorder, Placed.of(work, known)
        note_contradictions(known, recorder)
        where = placed.laplacian.positions[placed.known.nodes]
        warn_of_lost(int(np.count_nonzero(where < 0)), recorder)
        if self.init == "labels" and not 2 <= known.classes.size <= k:
            raise InputError(
                f"init: labels of {known.classes.size} classes for {k} clusters; give labels of at "
                f"least two classes and at most {k}"
            )

        def formulation(part: Constraints) -> Formulation:
            return self._formulation(placed.graph, placed.laplacian, part, k)

        whole = formulation(placed.known)
        ways, left = whole.roundings if self.assign == "auto" else (self.assign,), []
        if work.home != MEMORY and "split" in ways:
            ways = tuple(way for way in ways if way != "split")
            left = ["cuts of one vector where most constraints are kept"]
        subspace = self.subspace if isinstance(self.subspace, str) else int(self.subspace)
        how = EigenOptions(self.solver, self.tol, self.max_iter, seed, recorder.deadline)
        options = self._by_criterion, self.init, self.regularization, left, self._most_folds
        return FitSpec(work, k, placed, whole, formulation, subspace, ways, how, *options)


# --- What a report tells of feasible cuts and choices


def report_of_cuts(solution: EigenSolution) -> dict[str, Any]:
    """Entries of the report: how many vectors of those wanted there are, and every feasible cut.

    Nothing for a method that has as many as it wants.
    """
    if solution.wanted is None:
        return {}
    found = {"found": int(solution.values.size), "wanted": solution.wanted}
    cuts = solution.cuts
    if cuts is None:
        return {"feasible": found}
    columns = {
        "beta": cuts.beta,
        "volume": cuts.volume,
        "cost": cuts.cost,
        "alpha": cuts.alpha,
        "eigenvalues": cuts.values,
        "used": [at < cuts.used for at in range(cuts.cost.size)],
        "complete": cuts.complete,
        "unconstrained": {"cost": cuts.plain[:, 0], "alpha": cuts.plain[:, 1]},
    }
    return {"feasible": found, "cuts": columns}


def warn_of_missing_vectors(solution: EigenSolution, recorder: Recorder) -> None:
    """Tell of vectors that are missing; half of them or more make K clusters doubtful."""
    found, wanted = solution.values.size, solution.wanted or 0
    if found >= wanted:
        return
    if 2 * found > wanted:
        recorder.note(f"only {found} of {wanted} vectors feasible; a smaller beta gives more")
    else:
        recorder.warn(
            f"only {found} of {wanted} vectors feasible, too few to tell all clusters apart; a "
            "smaller beta, or a larger subspace, gives more"
        )


def report_of_choices(
    parameter: str | None, choice: SelectedModel, solution: EigenSolution
) -> dict[str, Any]:
    """What was chosen, for a report; `parameter` is the name of the method's own."""
    own = {} if parameter is None else {parameter: solution.parameter}
    return {
        "subspace": "exact" if choice.p is None or choice.reason == NONE else choice.p,
        **own,
        "unit": solution.unit,
        "regularization": [choice.tau, choice.about_tau],
        "assign": choice.way,
        "why": choice.reason,
        "solver": solution.convergence.solver,
    }
