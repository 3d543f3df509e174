"""The estimator behind all constrained eigenvector methods: fit, refit, report."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.check import as_integer, check_answer, check_choice, check_tolerance
from mustlink.constraints import Constraints
from mustlink.cost.method_cost import Cost, StoredCost, eigenvectors, full_problem
from mustlink.eigen.joint_range import FeasibleCuts
from mustlink.eigen.plain_solve import SOLVERS
from mustlink.eigen.problem import Problem, Solution, Solving
from mustlink.eigen.sharpness import warn_unconverged
from mustlink.eigen.solver import laplacian_of
from mustlink.errors import InputError
from mustlink.graph.stored import StoredGraph
from mustlink.methods.clusterer import Ints
from mustlink.methods.constraint_doubts import note_doubts, warn_if_broken
from mustlink.methods.cuts_in_words import doubt_feasible, told_choices, told_cuts
from mustlink.methods.informed_clusterer import InformedClusterer
from mustlink.methods.stored_constrained import cost_of_points, fit_on_disk, refit_on_disk
from mustlink.methods.stored_fit import stays_on_disk
from mustlink.observe import Recorder
from mustlink.result import Convergence, Report
from mustlink.selection.constrained_fit import Request, cluster, solve
from mustlink.selection.formulation import Formulation
from mustlink.selection.held_out_choice import Choice
from mustlink.selection.regularization import check_regularization
from mustlink.selection.resolve import resolve
from mustlink.state import before
from mustlink.workspace import Workspace

Floats = NDArray[np.float64]
INITS = ("auto", "labels", "k-means++")
KEPT = (Choice, Solution, Convergence, FeasibleCuts)  # what a kept embedding is made of
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_USUAL = 4  # times K: smooth vectors in the subspace that is seldom far from the best


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
        vectors = eigenvectors(_USUAL * k, least=k) if auto else eigenvectors(int(self.subspace))
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

    def _stays_on_disk(self, stored: StoredGraph) -> bool:
        return self._runs_at_scale and stays_on_disk(self, stored)

    def _cost_on_disk(
        self, others: dict[str, Any], classes: int | None, n: int, nnz: int
    ) -> StoredCost:
        return cost_of_points(self, others, classes, n, nnz)

    def _fit_on_disk(
        self,
        graph: StoredGraph,
        known: Constraints,
        recorder: Recorder,
        others: dict[str, Any],
        seed: int,
    ) -> None:
        fit_on_disk(self, graph, known, recorder, others, seed)

    def _refit_on_disk(self, known: Constraints, recorder: Recorder) -> None:
        refit_on_disk(self, known, recorder)

    def _home_alone(self) -> dict[str, bool]:
        """Parameters of the method, and whether their values run at home alone."""
        return {}

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
        work: Workspace,
        known: Constraints,
        seed: int,
        kept: tuple[Choice | None, int] | None = None,
    ) -> None:
        """`kept` is the choice of an earlier run, and the K that it was made for."""
        graph, recorder = work.graph, work.recorder
        k = self._clusters(work, known.as_given.classes.size, seed, known)
        fixed = kept[0] if kept is not None and kept[1] == k else None
        if self.assign in ("sign", "split") and k != 2:
            raise InputError(f'assign: "{self.assign}" makes 2 clusters, not {k}; use "kmeans"')
        if k == 1:
            self._in_one(work, known)
            self._choice, self._amount = None, known.n_constraints
            self._acted, self._asked = False, {}
            return
        laplacian = laplacian_of(work)
        note_doubts(known, laplacian, recorder)
        if known.classes.size > k:
            recorder.note(f"{known.classes.size} classes among the labels, but {k} clusters asked")
        formulation = self._formulation(graph, laplacian, known, k)
        self._before_work(formulation.problem)
        request = Request(
            work,
            k,
            known,
            formulation,
            lambda part: self._formulation(graph, laplacian, part, k),
            self.subspace if isinstance(self.subspace, str) else int(self.subspace),
            formulation.roundings if self.assign == "auto" else (self.assign,),
            Solving(self.solver, self.tol, self.max_iter, seed, recorder.deadline),
            self._by_criterion,
            self.init,
            self.regularization,
        )
        if self.init == "labels" and not 2 <= known.classes.size <= k:
            raise InputError(
                f"init: labels of {known.classes.size} classes for {k} clusters; give labels of at "
                f"least two classes and at most {k}"
            )
        depends = type(self).__name__, self._depends(), seed, work.memory, fixed, known
        asked = work.name("constrained", *depends)

        def embedding() -> tuple[Choice, Solution]:
            # Together: which eigenvectors the second step uses depends on what the first needed.
            chosen = fixed if fixed is not None else resolve(request)
            return chosen, solve(request, chosen)

        def clustered() -> Ints:
            with recorder.stage("clusters"):
                return cluster(request, choice, solution)

        choice, solution = work.kept("embedding", asked, embedding, KEPT)
        found = work.kept("clusters", asked, clustered)
        with recorder.stage("labels"):
            labels = graph.spread(self._labels_knowing(laplacian, found, k, work, known, seed))
            rows = solution.vectors * formulation.row_scale[:, None]
            check_answer(rows, "embedding")
            self.embedding_ = graph.spread(laplacian.leave(rows))
        if solution.note:
            recorder.note(solution.note)
        doubt_feasible(solution, recorder)
        warn_unconverged(work, solution.convergence)
        self.graph_, self.labels_ = graph, labels
        self.eigenvalues_, self.costs_ = solution.values, solution.cost
        self._choice = choice
        if fixed is None:  # of the choice, not of the last refit: by small steps it would never age
            self._amount = known.n_constraints
        self._acted = formulation.problem.acts and not known.is_empty
        self._asked = self._questions()
        shares = warn_if_broken(labels, known, recorder, 'subspace="exact" or another method')
        parts = graph.n_components
        self.report_ = self._report(k, shares, choice, solution, recorder, parts)

    def _report(
        self,
        k: int,
        kept: dict[str, float] | None,
        choice: Choice,
        solution: Solution,
        recorder: Recorder,
        n_components: int,
        more: Mapping[str, Any] = _NOTHING,
    ) -> Report:
        return Report(
            method=type(self).__name__,
            n_nodes=self.graph_.n_rows,
            n_clusters=k,
            choices={
                **told_choices(self._parameter, choice, solution),
                "graph": dict(self.graph_.info),
            },
            convergence=solution.convergence,
            satisfaction=kept,
            **recorder.told(),
            extra={
                "n_components": n_components,
                **more,
                **told_cuts(solution),
                "candidates": [list(row) for row in choice.scores],
            },
        )
