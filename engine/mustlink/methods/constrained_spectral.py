"""The estimator behind all constrained eigenvector methods: fit, refit, report."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.check import as_integer, check_answer, check_choice, check_tolerance
from mustlink.constraints import Constraints
from mustlink.cost.method_cost import Cost, eigenvectors, full_problem
from mustlink.eigen.memory_work import in_memory
from mustlink.eigen.plain_solve import SOLVERS, tell_unconverged
from mustlink.eigen.problem import FeasibleCuts, Problem, Solution, Solving
from mustlink.eigen.work import DISK, MEMORY, RANKS, Work
from mustlink.errors import InputError
from mustlink.methods.doubts import (
    doubt_feasible,
    note_contradictions,
    told_choices,
    told_cuts,
    warn_if_broken,
    warn_of_lost,
)
from mustlink.methods.homes import words_of
from mustlink.methods.informed_clusterer import InformedClusterer
from mustlink.methods.normalized_cut import Cut, network_of
from mustlink.observe import Recorder
from mustlink.result import Convergence, Report
from mustlink.selection.constrained_fit import USUAL, Request, cluster
from mustlink.selection.formulation import Formulation, Placed
from mustlink.selection.held_out import Choice
from mustlink.selection.regularization import check_regularization
from mustlink.selection.resolve import resolve
from mustlink.state import before
from mustlink.workspace import Workspace

Floats = NDArray[np.float64]
INITS = ("auto", "labels", "k-means++")
KEPT = (Choice, Solution, Convergence, FeasibleCuts)  # what a kept embedding is made of


@dataclass(eq=False, repr=False)
class ConstrainedSpectral(InformedClusterer):
    """Base of methods that put constraints into an eigenproblem; a subclass says into which.

    * `subspace`: "exact" solves the paper's full problem; an integer p solves it in the span of
      the graph's p smoothest eigenvectors, which few constraints on many nodes need and which
      makes new constraints a matter of seconds (`refit`); "auto" chooses p by constraints held out
      of the fit, or the full problem where that predicts better.
    * `assign`: "kmeans", "sphere" (rows of length 1), "auto".
    * `init`: where k-means on the rows starts: "labels", at the means of the classes, more clusters
      by k-means++; "k-means++", at random; "auto" takes the means where every cluster has labels,
      else, of twelve random starts, the one that ends with most constraints kept.
    * `solver`: auto, dense, lobpcg; `tol` bounds the residuals, `max_iter` the steps.
    * `regularization` t > 0 takes the subspace from degrees with t times the mean one added, as in
      `NCut`; costs and constraints stay those of the graph as it is. "auto" tries 0.1
      beside 0 on networks that are given, and decides by the constraints held out.
    """

    subspace: int | str = "auto"
    assign: str = "auto"
    init: str = "auto"
    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 300
    regularization: float | str = "auto"

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

        See `cost.method_cost.full_problem`.
        """
        k = self._k_or(n_classes)
        if self.subspace == "exact":
            return full_problem(k)
        auto = isinstance(self.subspace, str)
        vectors = eigenvectors(USUAL * k, least=k) if auto else eigenvectors(int(self.subspace))
        return replace(vectors, on_networks=float(self.regularization == "auto"))

    def _check_parameter(self) -> None:
        """Raise InputError for a parameter of the method that makes no sense."""

    def _before_work(self, problem: Problem) -> None:
        """Raise InfeasibleError for what can be known before any eigenvector."""

    @property
    def _by_criterion(self) -> bool:
        """Whether the parameter is chosen by WHC11's criterion E because the caller said so."""
        return False

    def _run_again(self, work: Workspace, known: Constraints) -> None:
        """With the choices made before while what is known is of the same order."""
        self._run(work, known, self._used_seed, self._choice_kept(known))

    def _choice_kept(self, known: Constraints) -> tuple[Choice | None, int] | None:
        """The last choice and its K, while half to twice as much is known as when it was made."""
        similar = 0.5 <= (known.n_constraints + 1) / (self._amount + 1) <= 2
        same = self._asked == self._questions()
        kept = similar and same and self._acted and not known.is_empty
        return (self._choice, before(self).report_.n_clusters) if kept else None

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

    def _fitted_again(self, given: Constraints, recorder: Recorder) -> Self:
        """With the choices of this fit: nothing is chosen again."""
        twin, work = self._twin(), self._view(self.graph_, recorder, row_weights=self._row_weights)
        twin._row_weights = work.row_weights
        fixed = self._choice, self.report_.n_clusters
        twin._run(work, twin._of_nodes(given, work), self._used_seed, fixed)
        return twin

    def _questions(self) -> dict[str, Any]:
        """The parameters, as they were asked for."""
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
        self._check_parameter()

    def _run(
        self,
        work: Any,
        known: Constraints,
        seed: int,
        kept: tuple[Choice | None, int] | None = None,
    ) -> None:
        """`kept` is the choice of an earlier run, and the K that it was made for."""
        work = in_memory(work)
        recorder = work.recorder
        k = self._clusters(work, known.as_given.classes.size, seed, known)
        fixed = kept[0] if kept is not None and kept[1] == k else None
        if self.assign in ("sign", "split") and k != 2:
            raise InputError(f'assign: "{self.assign}" makes 2 clusters, not {k}; use "kmeans"')
        if k == 1:
            self._in_one(work, known)
            self._choice, self._amount = None, known.n_constraints
            self._acted, self._asked = False, {}
            return
        request = self._request(work, known, k, seed)
        depends = type(self).__name__, self._depends(), seed, fixed, known

        def embedding() -> tuple[Choice, Solution]:
            # Together: which eigenvectors the second step uses depends on what the first needed.
            chosen = fixed if fixed is not None else resolve(request)
            return chosen, request.solved(chosen)

        def clustered() -> Any:
            with recorder.stage("clusters"):
                return cluster(request, choice, solution, rows)

        choice, solution = work.kept("embedding", depends, embedding, KEPT)
        rows = request.rows(solution)
        found = work.kept("clusters", depends, clustered)
        with recorder.stage("labels"):
            self.labels_ = self._labels_knowing(work, found, k, known, seed)
            check_answer(work.space.dots(rows, rows), "embedding")
            self.embedding_ = work.leave(rows)
        if solution.note:
            recorder.note(solution.note)
        doubt_feasible(solution, recorder)
        tell_unconverged(recorder, solution.convergence, single=request.stated[0])
        self.graph_ = work.graph
        self.eigenvalues_, self.costs_ = solution.values, solution.cost
        self._choice = choice
        if fixed is None:  # of the choice, not of the last refit: by small steps it would never age
            self._amount = known.n_constraints
        self._acted = request.formulation.problem.acts and not known.is_empty
        self._asked = self._questions()
        other = 'subspace="exact" or another method' if request.in_memory else "another method"
        shares = warn_if_broken(self.labels_, known, recorder, other)
        cut = Cut(found, rows, solution.values, solution.convergence, None)
        cut, network = network_of(work, cut, k)
        if not request.in_memory:
            self._cut_on_disk = cut
        self.report_ = self._report(k, shares, choice, solution, work, network)

    def _request(self, work: Work, known: Constraints, k: int, seed: int) -> Request:
        """What is asked for; tells of what is known, and raises InputError."""
        recorder, placed = work.recorder, Placed.of(work, known)
        note_contradictions(known, recorder)
        where = placed.laplacian.positions[placed.known.nodes]
        warn_of_lost(int(np.count_nonzero(where < 0)), recorder)
        if known.classes.size > k:
            recorder.note(f"{known.classes.size} classes among the labels, but {k} clusters asked")
        if self.init == "labels" and not 2 <= known.classes.size <= k:
            raise InputError(
                f"init: labels of {known.classes.size} classes for {k} clusters; give labels of at "
                f"least two classes and at most {k}"
            )

        def formulation(part: Constraints) -> Formulation:
            return self._formulation(placed.graph, placed.laplacian, part, k)

        whole = formulation(placed.known)
        self._before_work(whole.problem)
        ways, left = whole.roundings if self.assign == "auto" else (self.assign,), []
        if work.home != MEMORY and "split" in ways:
            ways = tuple(way for way in ways if way != "split")
            left = ["cuts of one vector where most constraints are kept"]
        return Request(
            work,
            k,
            placed,
            whole,
            formulation,
            self.subspace if isinstance(self.subspace, str) else int(self.subspace),
            ways,
            Solving(self.solver, self.tol, self.max_iter, seed, recorder.deadline),
            self._by_criterion,
            self.init,
            self.regularization,
            left,
        )

    def _report(
        self,
        k: int,
        kept: dict[str, float] | None,
        choice: Choice,
        solution: Solution,
        work: Work,
        network: Mapping[str, Any],
    ) -> Report:
        return Report(
            method=f"{type(self).__name__}{words_of(work.home)}",
            n_nodes=self.labels_.size,
            n_clusters=k,
            choices={
                **told_choices(self._parameter, choice, solution),
                "graph": dict(work.info),
            },
            convergence=solution.convergence,
            satisfaction=kept,
            **work.recorder.told(),
            extra={
                "n_components": work.n_components,
                **network,
                **told_cuts(solution),
                "candidates": [list(row) for row in choice.scores],
            },
        )
