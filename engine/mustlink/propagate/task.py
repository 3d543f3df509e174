"""What a propagation method is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.method_cost import TOGETHER, Cost, Size
from mustlink.eigen.deflation import kept_inverse, smooth_vectors
from mustlink.eigen.solver import laplacian_of
from mustlink.graph import Graph
from mustlink.kernels.blocks import by_rows
from mustlink.linear.deflated_polynomial import DeflatedPolynomial, solve_deflated
from mustlink.linear.direct_inverse import usual_preconditioner
from mustlink.linear.laplacian_solve import solve_laplacian
from mustlink.linear.pseudo_inverse import dense_inverse
from mustlink.observe import Recorder
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.propagate.energies import Energy, Floats, Ints, LaplacianEnergy
from mustlink.propagate.glp import Solving, propagate
from mustlink.propagate.prior import Prior
from mustlink.propagate.told import Told
from mustlink.result import Convergence
from mustlink.space import GroupSums, LocalSpace, reused
from mustlink.workspace import Workspace


@dataclass(frozen=True, eq=False)
class Task:
    """What a method is given: nodes in working order, components without a label left out.

    `labelled` (l,) are the nodes with a label and `codes` (l,) their classes from 0; `points`
    (m, d) the coordinates, None where only a graph is known.

    A node may stand for several copies, and `label_counts` (l,) of them have the label (None: 1
    each). A method is the one on all copies, restricted to values that are equal on copies: sums
    over nodes count copies, sums over labels labelled copies. `prior` is what is believed of nodes
    without a label.
    """

    work: Workspace = field(repr=False)
    laplacian: NormalizedLaplacian
    points: NDArray[np.floating] | None
    labelled: Ints
    codes: Ints
    n_classes: int
    seed: int
    solving: Solving
    label_counts: Floats | None = None
    prior: Prior | None = None

    @classmethod
    def of(
        cls,
        work: Workspace,
        points: NDArray[np.floating] | None,
        told: Told,
        classes: Ints,
        seed: int,
        solving: Solving,
    ) -> Task:
        """The part of a graph that labels reach; `points` (n, d) of all rows, `classes` (K,)."""
        part, graph = laplacian_of(work), work.graph
        known = told.nodes >= 0
        if told.prior is not None:
            known = known | (told.prior.belief > 0)
        part = part.reached_from(part.enter(known))
        inside = part.enter(told.nodes)
        labelled = np.flatnonzero(inside >= 0)
        return cls(
            work,
            part,
            None if points is None else points[graph.first_rows[part.nodes]],
            labelled,
            np.searchsorted(classes, inside[labelled]),
            classes.size,
            seed,
            solving,
            None if told.counts is None else part.enter(told.counts)[labelled],
            None if told.prior is None else told.prior.within(part, inside < 0),
        )

    @property
    def graph(self) -> Graph:
        """The whole graph."""
        return self.work.graph

    @property
    def recorder(self) -> Recorder:
        """Who hears of stages and notes."""
        return self.work.recorder

    @property
    def size(self) -> int:
        """Number of nodes m."""
        return self.laplacian.size

    @property
    def coordinates(self) -> NDArray[np.floating]:
        """The points, for methods that cannot do without."""
        assert self.points is not None
        return self.points

    @property
    def space(self) -> LocalSpace:
        """Where its blocks live."""
        return self.laplacian.space

    @property
    def info(self) -> Mapping[str, Any]:
        """What is known of the graph."""
        return self.graph.info

    @cached_property
    def Y(self) -> Block:
        """One-hot labels (m, K), zero rows where none is known.

        Every method is linear in y up to a shift common to all classes, so that for two classes
        the sign of AB09's ±1 coding and the larger of two columns are the same.
        """
        found = np.zeros((self.size, self.n_classes))
        found[self.labelled, self.codes] = 1.0
        return found

    @cached_property
    def is_labelled(self) -> Floats:
        """The diagonal of AB09's I_k: 1 on labelled nodes, (m,)."""
        found = np.zeros(self.size)
        found[self.labelled] = 1.0
        return found

    @property
    def copies(self) -> Floats:
        """How many every node stands for, the diagonal of C, (m,)."""
        return self.laplacian.copies

    @cached_property
    def labels_held(self) -> Floats:
        """How many copies of every node have a label, (m,): I_k, counted."""
        found = np.zeros(self.size)
        found[self.labelled] = 1.0 if self.label_counts is None else self.label_counts
        return found

    @property
    def n_copies(self) -> float:
        """How many all nodes stand for."""
        return float(self.copies.sum())

    @cached_property
    def class_counts(self) -> Floats:
        """Labels of every class, (K,)."""
        held = self.labels_held[self.labelled]
        return np.bincount(self.codes, held, self.n_classes).astype(np.float64)

    @cached_property
    def labels_in_parts(self) -> Floats:
        """Labels of every class in every component, (c, K)."""
        null, held = self.laplacian.null, self.labels_held[self.labelled]
        at = null.component[self.labelled] * self.n_classes + self.codes
        found = np.bincount(at, held, null.n_components * self.n_classes)
        return np.asarray(found.reshape(-1, self.n_classes))

    @property
    def without_label(self) -> Floats:
        """How many copies of every node have no label, (m,)."""
        return self.unlabelled.astype(np.float64)

    @property
    def unlabelled(self) -> NDArray[Any]:
        """Nodes without a label, a mask (m,); where they stand for several, how many copies."""
        if self.laplacian.weights is None:
            return self.is_labelled == 0
        return np.maximum(self.copies - self.labels_held, 0.0)

    def energy(self, *, normalized: bool = False, factor: float = 1.0) -> LaplacianEnergy:
        """γ(D − W), or γL̄."""
        if self.laplacian is not laplacian_of(self.work):
            return LaplacianEnergy(self.laplacian, normalized, factor)
        smooth = partial(smooth_vectors, self.work, self.seed)
        return LaplacianEnergy(self.laplacian, normalized, factor, smooth)

    def by_root(self, X: Block) -> Block:
        """D^-½X."""
        return by_rows(lambda X, root: X / root[:, None], X, self.laplacian.root_degree)

    def centred(self, F: Block) -> Block:
        """F less its mean over the copies of every component."""
        return F - self.mean_over_components(self.space.weighted(F))

    def minimise(
        self,
        energy: Energy,
        Y: Block | None = None,
        *,
        clamped: Ints | None = None,
        weight: Floats | None = None,
        balance: Floats | None = None,
        scale: Floats | None = None,
    ) -> tuple[Block, Convergence]:
        """`glp.propagate` for targets Y, the labels if left out, solved as the caller asked.

        `scale` (m,) tells what the unknowns are times f, where they are not f.
        """
        Y, weight = self.believed(self.Y if Y is None else Y, weight, scale)
        return propagate(
            energy,
            Y,
            self.recorder,
            self.solving,
            clamped=clamped,
            weight=weight,
            balance=balance,
        )

    def believed(
        self, Y: Block, weight: Floats | None = None, scale: Floats | None = None
    ) -> tuple[Block, Floats | None]:
        """Targets and weights with the prior among them; see `minimise`."""
        return (Y, weight) if self.prior is None else self.prior.joined(Y, weight, scale)

    def potential(self, B: Block) -> tuple[Block, Convergence]:
        """L̄⁺B for a block (m, b), of charges B: LAPACK, or conjugate gradients with multigrid."""
        laplacian, tol = self.laplacian, self.solving.tolerance(self.size)
        if self.solving.is_dense(self.size):
            with self.recorder.stage("propagating"):
                X = dense_inverse(laplacian)(B)
            return X, Convergence("LAPACK", "direct", 0, np.zeros(B.shape[1]), tol)
        whole = laplacian is laplacian_of(self.work)
        inverse = kept_inverse(self.work, self.seed) if whole else usual_preconditioner(laplacian)
        with self.recorder.stage("propagating") as advance, reused():
            how: Any = {
                "max_iter": self.solving.max_iter,
                "project": laplacian.null.project,
                "advance": advance,
                "deadline": self.solving.deadline,
                "budget": self.recorder.budget,
                "together": self.solving.together,
            }
            if isinstance(inverse, DeflatedPolynomial):
                tol = inverse.tolerance(tol) if self.solving.tol is None else tol
                return solve_deflated(inverse, B, tol=tol, **how)
            return solve_laplacian(laplacian, B, tol=tol, precondition=inverse, **how)

    @property
    def possible_classes(self) -> NDArray[np.bool_] | None:
        """Where a class has a label in the node's component (m, K); None for one component."""
        null = self.laplacian.null
        if null.n_components <= 1:
            return None
        found = np.zeros((null.n_components, self.n_classes), dtype=bool)
        found[null.component[self.labelled], self.codes] = True
        if self.prior is not None:
            nodes, classes = np.nonzero(self.prior.values * self.prior.belief[:, None])
            found[null.component[nodes], classes] = True
        return found[null.component]

    def mean_over_components(self, X: Block) -> Block:
        """Every node's component's sum of X (m, b) over its number of copies."""
        null, space = self.laplacian.null, self.space
        (total,) = space.sums(GroupSums(X, null.component, null.n_components))
        each = total / np.bincount(null.component, self.copies)[:, None]
        return space.spread(each, null.component)


def columns_at_once(work: Workspace, cost: Cost) -> int:
    """Columns that are solved at a time: fewer where memory is short, for the same answer."""
    W = work.graph.affinity
    size = Size(work.graph.n_nodes, W.nnz, W.dtype.itemsize)
    found = cost.within(size, work.room, single=work.single).together or TOGETHER
    if found < min(TOGETHER, cost.columns):
        work.recorder.note(f"memory: {found} classes are solved at a time")
    return found
