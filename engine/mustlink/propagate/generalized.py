"""Generalised label propagation with any energy (AB09 §3.1): the paper's own thesis.

Label propagation, semi-supervised graph cuts and semi-supervised embeddings are one problem. They
differ in M, in the nodes whose labels are held or weighted, and in what f is orthogonal to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from mustlink.check import (
    PlainParameters,
    as_integer,
    check_answer,
    check_choice,
    check_tolerance,
    numeric_array,
)
from mustlink.errors import InputError, NumericalError
from mustlink.kernels.threads import threads
from mustlink.labels import as_labels, class_labels, named
from mustlink.observe import Observer, Recorder, recorded
from mustlink.operators.laplacian import Block
from mustlink.propagate.any_energy import MatrixEnergy, as_energy
from mustlink.propagate.balanced import propagate_within
from mustlink.propagate.distribution import confidence, distributions
from mustlink.propagate.doubts import warn_unreached
from mustlink.propagate.energies import Energy, Floats, Ints
from mustlink.propagate.glp import SOLVERS, Solving, propagate
from mustlink.propagate.prior import Prior, check_prior
from mustlink.result import Convergence, Report
from mustlink.state import fits
from mustlink.stopping import TIME_LIMIT


@dataclass(eq=False, repr=False)
class GLP(PlainParameters, BaseEstimator):
    """min fᵀMf + Σ_i u_i (f_i − y_i)², f ⟂ Δ, for any positive semidefinite M (AB09 eq. 6).

    M is symmetric. All classes are solved at once, one-hot labels a column each, y = 0 where none
    is known. Every method that AB09 unifies is a choice of M, u and Δ; docs/methods.md lists them.

    * `solver`: "dense" (LAPACK), "cg" (conjugate gradients, with a multigrid where M is a matrix),
      "auto" (dense up to 1,000 nodes); `tol` the relative residual, None takes 1e-10 up to 20,000
      nodes and 1e-6 above; `max_iter` the most steps.

    After `fit`: `classes_` (K,), `labels_` = `transduction_` (n,), `label_distributions_` (n, K),
    rows sum to 1, `confidence_` (n,) from 0 (tie) to 1, `report_`, and F by `decision_function`.
    Cost: some tens of products with M, or some hundreds of an operator whose entries are unknown.
    """

    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 1000
    n_jobs: int | None = None
    time_limit: float | str | None = None

    @fits
    def fit(
        self,
        M: Any,
        y: Any,
        weights: Any = np.inf,
        orthogonal_to: Any = None,
        observer: Observer | Recorder | None = None,
        prior: Any = None,
        belief: Any = None,
    ) -> Self:
        """Label nodes from `y` (n,), -1 for unknown, by the energy M (n, n).

        M: a scipy sparse or a dense matrix, a scipy LinearOperator, or a callable that gives MX
        for a block (n, b). `weights` u: a number for all labelled nodes, or (n,) >= 0 one for every
        node, with or without a label; infinite ones hold the label (AB09's ε = 0), the usual.
        `orthogonal_to` Δ: (n,) or (n, r) columns. Raises InputError.

        `prior` (n, K), distributions over the classes in their order, and `belief` b, (n,) or a
        number >= 0, 1 if left out: Σ_i b_i ‖f_i − p_i‖² over nodes without a label is added. Where
        M is a matrix, a part of it that no label or belief reaches is answered with -1.
        """
        check_choice(self.solver, SOLVERS, "solver")
        check_tolerance(self.tol)
        as_integer(self.max_iter, "max_iter", 1)
        recorder = recorded(observer)
        labels, names = class_labels(y)
        labels = as_labels(labels, labels.size, "y")
        with threads(self.n_jobs), recorder.limited(self.time_limit):
            energy = as_energy(M, labels.size)
            weight, held = _as_weights(weights, labels)
            delta = _as_columns(orthogonal_to, labels.size)
            check_prior("GLP", True, prior, belief)
            classes = np.unique(labels[labels >= 0])
            said = None
            if prior is not None:
                said = Prior.of_rows(prior, belief, labels.size, classes.size)
                said = said.without(labels >= 0)
            self._run(energy, labels, weight, held, delta, said, recorder)
        if names is not None:
            self.labels_: Any = named(names, self.labels_)
            self.classes_: Any = names[self.classes_]
        return self

    def decision_function(self) -> Block:
        """F (n, K) as it minimises; of two classes (n,), the second's less the first's.

        That is AB09's f for labels −1 and 1.
        """
        check_is_fitted(self)
        F: Block = self._scores
        return F if F.shape[1] > 2 else F[:, 1] - F[:, 0]

    @property
    def transduction_(self) -> Any:
        """`labels_` under scikit-learn's name."""
        return self.labels_

    @property
    def n_iter_(self) -> int:
        """Steps of the iteration, 1 where it was solved directly."""
        check_is_fitted(self)
        return max(1, self._steps)

    def __sklearn_tags__(self) -> Tags:
        """Rows and columns of M are split together."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.sparse = True
        return tags

    def _run(
        self,
        energy: Energy,
        labels: Ints,
        weight: Floats,
        held: NDArray[np.bool_],
        delta: Block | None,
        said: Prior | None,
        recorder: Recorder,
    ) -> None:
        """Solve where labels reach, and set what was found."""
        self.classes_ = np.unique(labels[labels >= 0])
        Y = (labels[:, None] == self.classes_) * 1.0
        told = Y * ((weight > 0) | held)[:, None]
        if said is not None:
            told = told + said.belief[:, None] * said.values
            Y, weight = said.joined(Y, weight, None)
        possible = _possible(energy, told)
        inside = np.ones(labels.size, dtype=bool) if possible is None else possible.any(axis=1)
        part, nodes = energy, np.flatnonzero(inside)
        if isinstance(energy, MatrixEnergy) and nodes.size < labels.size:
            part = MatrixEnergy(sp.csr_matrix(energy.matrix[nodes][:, nodes]))
        solving = Solving(self.solver, self.tol, int(self.max_iter), recorder.deadline)
        within = None if delta is None else delta[nodes]
        clamped = np.flatnonzero(held[nodes])
        F, convergence = _solved(part, Y[nodes], clamped, weight[nodes], within, recorder, solving)
        check_answer(F, "label propagation")
        if convergence.reason == TIME_LIMIT:
            recorder.leave_out(convergence.status)
        elif not convergence.converged.all():
            recorder.warn(convergence.status)
        self._steps = int(convergence.iterations)
        self._scores: Block = np.zeros_like(Y)
        self._scores[nodes] = F
        unlabelled = (labels < 0)[nodes]
        mask = None if possible is None else possible[nodes]
        P = np.zeros_like(Y)
        P[nodes] = distributions(F, None, unlabelled, masses=False, possible=mask)
        self.label_distributions_ = P
        self.labels_ = np.where(inside, self.classes_[P.argmax(axis=1)], -1)
        self.confidence_ = confidence(P)
        known = labels >= 0
        warn_unreached(labels.size - nodes.size, "", recorder)
        self.report_ = Report(
            method="GLP",
            n_nodes=labels.size,
            n_clusters=self.classes_.size,
            choices={"solver": convergence.solver},
            convergence=convergence,
            satisfaction=None,
            **recorder.told(),
            extra={
                "n_labels": int(known.sum()),
                "n_held": int(held.sum()),
                "labels_kept": float(np.mean(self.labels_[known] == labels[known])),
                "unanswered": int(labels.size - nodes.size),
            },
        )


def _solved(
    energy: Energy,
    Y: Block,
    held: Ints,
    weight: Floats,
    delta: Block | None,
    recorder: Recorder,
    solving: Solving,
) -> tuple[Block, Convergence]:
    """The minimiser; conjugate gradients find one where it is not unique, and a warning says so."""
    if delta is not None and not solving.is_dense(energy.size):
        return propagate_within(energy, Y, held, weight, delta, recorder, solving)
    try:
        how: Any = {"clamped": held, "weight": weight, "balance": delta}
        return propagate(energy, Y, recorder, solving, **how)
    except NumericalError:
        recorder.warn(
            "the labels do not determine all values (M is singular on the other nodes, or not "
            "positive semidefinite); those of the conjugate gradients are given"
        )
        solving = replace(solving, solver="cg")
        if delta is None:
            return propagate(energy, Y, recorder, solving, clamped=held, weight=weight)
        return propagate_within(energy, Y, held, weight, delta, recorder, solving)


def _possible(energy: Energy, told: Block) -> NDArray[np.bool_] | None:
    """Classes that a label of the node's part of M allows (n, K); None for one part or unknown."""
    if not isinstance(energy, MatrixEnergy):
        return None
    count, part = connected_components(energy.matrix, directed=False)
    if count == 1:
        return None
    found = np.zeros((count, told.shape[1]), dtype=bool)
    nodes, codes = np.nonzero(told)
    found[part[nodes], codes] = True
    return found[part]


def _as_weights(weights: Any, labels: Ints) -> tuple[Floats, NDArray[np.bool_]]:
    """Finite weights (n,), 0 where the label is held, and where it is; raises InputError."""
    given = np.asarray(numeric_array(weights, "weights"), dtype=np.float64)
    if given.ndim == 0:
        given = np.where(labels >= 0, given, 0.0)
    if given.shape != labels.shape:
        raise InputError(
            f"weights: shape {given.shape} for {labels.size} nodes; give a number, or one a node"
        )
    if not (given >= 0).all():
        raise InputError("weights: they must be 0 or more, infinite where the label is held")
    if not (given[labels >= 0] > 0).any():
        raise InputError("weights: 0 on all nodes with a label; give these more")
    held = np.isinf(given)
    if (held & (labels < 0)).any():
        node = int(np.argmax(held & (labels < 0)))
        raise InputError(f"weights: infinite on node {node}, which has no label to be held at")
    return np.where(held, 0.0, given), held


def _as_columns(vectors: Any, n: int) -> Block | None:
    """Columns (n, r) of length 1; raises InputError."""
    if vectors is None:
        return None
    given = np.asarray(numeric_array(vectors, "orthogonal_to"), dtype=np.float64)
    given = given[:, None] if given.ndim == 1 else given
    if given.ndim != 2 or given.shape[0] != n or not np.isfinite(given).all():
        raise InputError(
            f"orthogonal_to: shape {given.shape} for {n} nodes; give finite columns (n,) or (n, r)"
        )
    length = np.linalg.norm(given, axis=0)
    if not length.all():
        raise InputError("orthogonal_to: a column is zero; leave it out")
    found: Block = given / length
    return found
