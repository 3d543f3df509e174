"""Constrained spectral clustering, CSP (WD14 Algorithms 1 and 2).

min vᵀL̄v subject to vᵀQ̄v >= α, ‖v‖² = vol leads to the pencil L̄v = λ(Q̄ − β/vol·I)v (eq. 13);
of its vectors with λ > 0 the K − 1 of least cost vᵀL̄v are clustered. β says how much
satisfaction of the constraints is demanded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mustlink.check import check_choice
from mustlink.cluster.assign import ASSIGNMENTS
from mustlink.cluster.base import GraphClusterer, Ints, as_recorder, check_tolerance, threads
from mustlink.cluster.choose import Choice
from mustlink.cluster.embed import check_beta
from mustlink.cluster.plan import Request, embed, labels_from, resolve
from mustlink.cluster.relabel import aligned
from mustlink.cluster.scores import satisfaction
from mustlink.constraints import Constraints
from mustlink.eigen.solver import SOLVERS, laplacian_of
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.observe import Observer, Recorder
from mustlink.operators.constraint import constraint_operator
from mustlink.result import Report


@dataclass(eq=False, repr=False)
class CSP(GraphClusterer):
    """K clusters that cut little of the graph and keep the constraints (WD14).

    * `beta`: a fraction b < 1 of λ_{K−1}(Q̄), so that WD14's β is b·λ_{K−1}·vol; the larger, the
      more the constraints weigh; b < 0 is allowed. "paper" takes WD14 eq. 19, "auto" decides on
      evidence.
    * `subspace`: "exact" solves the paper's full problem; an integer p solves it in the span of
      the graph's p smoothest eigenvectors, which few constraints on many nodes need and which
      makes new constraints a matter of seconds (`refit`); "auto" chooses p by constraints held out
      of the fit, or the exact problem where labels are better predicted by it.
    * `assign`: "kmeans" (Alg. 2), "sign" (K = 2), "sign-kmeans" (eq. 15), "cost-weighted"
      (eq. 16), "sphere" (rows of length 1), "auto".
    * `solver`: auto, dense, lobpcg, shift-invert (of the pencil and of L̄).

    After `fit`: `labels_` (n,), `embedding_` D^-½V (n, K−1) with vᵀv = vol in order of cost,
    `eigenvalues_` λ (K−1,), `costs_` vᵀL̄v, `graph_`, `report_`. Fewer columns if fewer vectors
    are feasible; the report says so. Raises InfeasibleError where none is.
    """

    beta: float | str = "auto"
    subspace: int | str = "auto"
    assign: str = "auto"
    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 300

    def fit(
        self,
        X: Any,
        y: Any = None,
        constraints: Constraints | None = None,
        observer: Observer | Recorder | None = None,
    ) -> CSP:
        """Cluster points (n, d), an affinity (n, n) or a Graph with what is known.

        `y` (n,) are labels of some nodes, -1 for unknown; `constraints` anything else, or more.
        """
        self._check()
        recorder = as_recorder(observer)
        with threads(self.n_jobs):
            seed = self._seed()
            graph = self._graph(X, recorder, seed)
            k = self._check_clusters(graph)
            if self.assign == "sign" and k != 2:
                raise InputError(f'assign: "sign" makes 2 clusters, not {k}; use "kmeans"')
            known = self._side_information(graph.n_nodes, y, constraints)
            self._run(graph, k, known, seed, recorder, None)
        return self

    def refit(
        self,
        constraints: Constraints | None = None,
        y: Any = None,
        observer: Observer | Recorder | None = None,
    ) -> CSP:
        """Cluster the same graph again with other constraints (all of them, not only new ones).

        Graph, eigenvectors and, while the amount of side information is of the same order, the
        choices of the first fit are kept, so that this takes seconds. Clusters keep their numbers
        as far as they can, and the report's `changed` is the share of nodes that moved.
        """
        if not hasattr(self, "labels_"):
            raise InputError("refit: nothing has been fitted yet; call fit first")
        recorder = as_recorder(observer)
        before, choice = self.labels_, self._choice
        with threads(self.n_jobs):
            known = self._side_information(self.graph_.n_nodes, y, constraints)
            amount = known.n_constraints
            similar = 0.5 <= (amount + 1) / (self._amount + 1) <= 2
            fixed = choice if similar else None
            self._run(self.graph_, self.n_clusters, known, self._used_seed, recorder, fixed, before)
        return self

    def _check(self) -> None:
        check_choice(self.assign, ASSIGNMENTS, "assign")
        check_choice(self.solver, SOLVERS, "solver")
        if self.solver == "lanczos" and self.subspace == "exact":
            raise InputError(
                'solver: "lanczos" has no form for the exact pencil; use "shift-invert"'
            )
        if isinstance(self.subspace, str):
            check_choice(self.subspace, ("auto", "exact"), "subspace")
        elif int(self.subspace) < 1:
            raise InputError(f"subspace: {self.subspace} is no dimension; give 1 or more")
        if isinstance(self.beta, str):
            check_choice(self.beta, ("auto", "paper"), "beta")
        elif not np.isfinite(self.beta):
            raise InputError(f"beta: {self.beta} is not a number; give a fraction below 1")
        check_tolerance(self.tol)

    def _run(
        self,
        graph: Graph,
        k: int,
        known: Constraints,
        seed: int,
        recorder: Recorder,
        fixed: Choice | None,
        before: Ints | None = None,
    ) -> None:
        laplacian = laplacian_of(graph, recorder)
        Q = constraint_operator(known, laplacian)
        if Q.lost:
            recorder.note(f"{Q.lost} constrained nodes have no edge: their constraints cannot act")
        if not isinstance(self.beta, str) and self.beta >= 1 and not known.is_empty:
            check_beta(self.beta, Q.kth_largest(k - 1), Q.kth_largest(1), k)  # before any work
        request = Request(
            graph,
            k,
            known,
            Q,
            self.beta,
            self.subspace if isinstance(self.subspace, str) else int(self.subspace),
            self.assign,
            self.solver,
            self.tol,
            self.max_iter,
            seed,
        )
        choice = fixed if fixed is not None else resolve(request, recorder)
        embedded = embed(request, choice, recorder)
        with recorder.stage("clusters"):
            rows = embedded.vectors / laplacian.root_degree[:, None]
            found = labels_from(request, choice, rows, embedded.cost)
            labels = self._labels(laplacian, found, recorder)
            changed = None
            if before is not None:
                labels, changed = aligned(before, labels, k)
            self.embedding_ = laplacian.leave(rows)
        if embedded.note:
            recorder.note(embedded.note)
        if not embedded.convergence.converged.all():
            recorder.note(embedded.convergence.status)
        if changed is not None:
            recorder.note(f"refit: {changed:.2%} of the nodes changed their cluster")
        self.graph_, self.labels_ = graph, labels
        self.eigenvalues_, self.costs_ = embedded.lam, embedded.cost
        self._choice, self._amount, self._used_seed = choice, known.n_constraints, seed
        self.report_ = Report(
            method="CSP",
            n_nodes=graph.n_nodes,
            n_clusters=k,
            stages=tuple(recorder.stages),
            choices={
                "subspace": "exact" if choice.p is None else choice.p,
                "beta": choice.beta,
                "unit": embedded.unit,
                "assign": choice.way,
                "why": choice.reason,
                "solver": embedded.convergence.solver,
                "graph": dict(graph.info),
            },
            convergence=embedded.convergence,
            satisfaction=None if known.is_empty else satisfaction(labels, known),
            notes=tuple(recorder.notes),
            extra={
                "n_components": graph.n_components,
                **({} if changed is None else {"changed": changed}),
                "candidates": [list(row) for row in choice.scores],
            },
        )
