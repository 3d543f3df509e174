"""Cluster kernels, CK (Chapelle, Weston & Schölkopf 2002; AB09 §3.5.1): embed, then classify."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mustlink.context.method_cost import Cost, eigenvectors
from mustlink.core.check import as_integer, check_choice
from mustlink.eigen.memory_work import laplacian_of, smoothest
from mustlink.eigen.work import MEMORY
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.operators.laplacian import Block
from mustlink.propagation.problem import PropagationProblem, Solution
from mustlink.propagation.propagator import Propagator

_ROWS = 1 << 17  # rows classified at a time
_SOFT = 100.0  # inverse strength of the logistic regression's penalty


@dataclass(eq=False, repr=False)
class ClusterKernel(Propagator):
    """A linear classifier on the rows of the graph's smoothest eigenvectors V, L̄V = VΛ.

    * `n_components` p: number of eigenvectors, the trivial one included; None takes K − 1
      beside one for each component.
    * `rows`: how rows are scaled: "sphere" (rows of V of length 1) or "plain" (columns of D^-½V of
      unit mean square).
    * `classifier`: any scikit-learn classifier with `predict_proba`; None is a logistic regression.

    Cost: p eigenvectors of the graph, kept with the `Graph` for the next fit; then next to nothing.
    """

    n_components: int | None = None
    rows: str = "sphere"
    classifier: Any = None

    homes: ClassVar[frozenset[str]] = frozenset({MEMORY})
    _minimises = False

    def cost(self, n_classes: int | None = None) -> Cost:
        """Smooth vectors of the graph, which keeps them."""
        wanted = super().cost(n_classes).columns if self.n_components is None else self.n_components
        return eigenvectors(int(wanted))

    def _check_parameters(self) -> None:
        if self.n_components is not None:
            as_integer(self.n_components, "n_components", 2)
        check_choice(self.rows, ("sphere", "plain"), "rows")

    def _solve(self, problem: PropagationProblem) -> Solution:
        from sklearn.base import clone
        from sklearn.linear_model import LogisticRegression
        from sklearn.utils.validation import has_fit_parameter

        parts = problem.laplacian.null.n_components
        p = problem.n_classes + parts - 1 if self.n_components is None else int(self.n_components)
        rows = self._embedding(problem, p)
        model = LogisticRegression(C=_SOFT, max_iter=1000)
        if self.classifier is not None:
            model = clone(self.classifier)
        with problem.recorder.stage("classifier"):
            held = np.flatnonzero(problem.labelled)
            weights = problem.labels_held[held]
            options: dict[str, Any] = {}
            if (weights != 1.0).any():
                options["sample_weight"] = weights
                if not has_fit_parameter(model, "sample_weight"):
                    raise InputError(
                        f"classifier: {type(model).__name__} takes no sample_weight, the number of "
                        "rows of a node; use LogisticRegression"
                    )
            model.fit(rows[held], problem.codes[held], **options)
            P = np.concatenate(
                [model.predict_proba(rows[i : i + _ROWS]) for i in range(0, rows.shape[0], _ROWS)]
            )
        self.classifier_ = model
        return Solution(P, None, {"n_components": rows.shape[1], "rows": self.rows})

    def _embedding(self, problem: PropagationProblem, p: int) -> Block:
        """Rows (m, p) in working order, of the whole graph if labels reach all of it."""
        part, laplacian = problem.work, problem.work.laplacian
        own, graph = np.arange(laplacian.size), part.view.graph
        if part.is_whole:
            basis = smoothest(part.view, p - 1, seed=problem.seed)
        else:
            nodes = laplacian.nodes
            view = part.view.on(Graph(graph.affinity[nodes][:, nodes].tocsr()))
            basis = smoothest(view, p - 1, seed=problem.seed)
            own = laplacian_of(view).positions
        V = basis.vectors[own, :p]
        if self.rows == "sphere":
            return V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-300)
        U = V / problem.laplacian.root_degree[:, None]
        square = np.average(U**2, 0, problem.work.laplacian.weights)
        return U / np.maximum(np.sqrt(square), 1e-300)
