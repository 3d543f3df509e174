"""A propagation where rows are on disk or on ranks: what `Task` is at home, by verbs of a space.

Nodes that no label reaches, and labelled ones that are held, keep their rows, which are 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.work import Work
from mustlink.linear.by_columns import done
from mustlink.linear.cg import block_cg
from mustlink.observe import Recorder
from mustlink.operators.protocol import Laplacian
from mustlink.propagate.energies import JACOBI
from mustlink.propagate.glp import Solving
from mustlink.propagate.prior import Prior
from mustlink.propagate.solution import over
from mustlink.result import Convergence
from mustlink.space import Block, GroupSums, Small, Space, Vector

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class RowPrior:
    """Distributions (n, K) over the classes, and how much each is believed, (n,), 0 on labels."""

    values: Block
    belief: Vector


@dataclass(frozen=True)
class RowEnergy:
    """γ·fᵀ(D − W)f, or γ·fᵀL̄f, see `glp.LaplacianEnergy`."""

    normalized: bool = False
    factor: float = 1.0


@dataclass(frozen=True, eq=False)
class RowTask:
    """What a method is given: the class of every node, −1 unknown, in `codes` (n,).

    `labels_held` (n,) are how many copies of a node have its label. Nodes without an edge have no
    label here. See `Task`.
    """

    work: Work
    codes: Vector
    labels_held: Vector
    n_classes: int
    solving: Solving
    info: Mapping[str, Any]
    recorder: Recorder
    prior: RowPrior | None = None

    @property
    def laplacian(self) -> Laplacian:
        """L̄ of the whole graph."""
        return self.work.laplacian

    @property
    def space(self) -> Space:
        """Where blocks live."""
        return self.work.laplacian.space

    @cached_property
    def copies(self) -> Vector:
        """How many every node stands for, (n,); 1 without an edge."""
        weights, root = self.work.space.weights, self.laplacian.root_degree
        if weights is None:
            return self.space.rowwise(np.ones_like, root)
        return self.space.rowwise(lambda held: np.where(held > 0, held, 1.0), weights)

    @cached_property
    def Y(self) -> Block:
        """One-hot labels (n, K), zero rows where none is known."""
        classes = np.arange(self.n_classes)
        return self.space.rowwise(lambda code: (code[:, None] == classes) * 1.0, self.codes)

    @cached_property
    def labelled(self) -> Vector:
        """Which nodes have a label, (n,)."""
        return self.space.rowwise(lambda code: code >= 0, self.codes)

    @cached_property
    def without_label(self) -> Vector:
        """How many copies of reached nodes have no label, (n,)."""

        def rows(inside: Array, copies: Array, held: Array) -> Array:
            return np.where(inside, np.maximum(copies - held, 0.0), 0.0)

        return self.space.rowwise(rows, self.inside, self.copies, self.labels_held)

    # --- sums over nodes

    def by_parts(self, X: Block) -> Small:
        """Sums over components of rows of nodes with an edge, (c, b)."""
        null = self.laplacian.null
        return self.space.sums(GroupSums(X, null.component, null.n_components))[0]

    @cached_property
    def labels_in_parts(self) -> Small:
        """Labels of every class in every component, (c, K)."""
        return self.by_parts(self.space.scaled(self.Y, self.labels_held))

    @cached_property
    def possible(self) -> NDArray[np.bool_]:
        """Which classes are known of in which component, (c, K)."""
        found: NDArray[np.bool_] = np.greater(self.labels_in_parts, 0)
        if self.prior is None:
            return found
        return found | (self.by_parts(self.space.scaled(self.prior.values, self.prior.belief)) > 0)

    @cached_property
    def inside(self) -> Vector:
        """Which nodes are reached by a label, (n,)."""
        reached = np.asarray(self.possible.any(axis=1))
        how = self.laplacian.null.component, self.laplacian.root_degree
        return self.space.rowwise(lambda part, root: reached[part] & (root > 0), *how)

    @cached_property
    def _counts(self) -> Small:
        """Nodes and copies of every component, (c, 2)."""

        def rows(copies: Array, root: Array) -> Array:
            return np.column_stack([root > 0, np.where(root > 0, copies, 0.0)]).astype(np.float64)

        return self.by_parts(self.space.rowwise(rows, self.copies, self.laplacian.root_degree))

    @property
    def size(self) -> int:
        """Number of nodes that are reached."""
        return round(float(self._counts[self.possible.any(axis=1), 0].sum()))

    @property
    def n_copies(self) -> float:
        """How many they stand for."""
        return float(self._counts[self.possible.any(axis=1), 1].sum())

    @property
    def class_counts(self) -> Small:
        """Labels of every class, (K,)."""
        return self.labels_in_parts.sum(axis=0)

    # --- what methods ask for

    def by_root(self, X: Block) -> Block:
        """D^-½X."""
        return self.space.rowwise(over, X, self.laplacian.root_degree)

    def centred(self, F: Block) -> Block:
        """F less its mean over the copies of every component."""
        space, counts = self.space, np.maximum(self._counts[:, 1:], 1e-300)
        mean = self.by_parts(space.scaled(F, self.copies)) / counts
        found = space.spread(-mean, self.laplacian.null.component)
        space.blend(found, 1.0, (F, 1.0))
        return space.rowwise(where, found, self.inside)

    def energy(self, *, normalized: bool = False, factor: float = 1.0) -> RowEnergy:
        """γ(D − W) or γL̄."""
        return RowEnergy(normalized, factor)

    def minimise(
        self,
        energy: RowEnergy,
        Y: Block | None = None,
        *,
        clamped: Vector | None = None,
        weight: Vector | None = None,
        balance: Vector | None = None,
        scale: Vector | None = None,
    ) -> tuple[Block, Convergence]:
        """See `Task.minimise` and `glp.propagate`; with T, the system is `Laplacian.grounded`."""
        space, root, gamma = self.space, self.laplacian.root_degree, energy.factor
        Y, weight = self._believed(self.Y if Y is None else Y, weight, scale)
        kept = self.inside
        if clamped is not None:
            kept = space.rowwise(lambda inside, held: inside & ~held, kept, clamped)
        power = 1 if energy.normalized else 0  # of D^½ in what f is scaled by

        def ground(w: Array, root: Array) -> Array:
            return np.asarray(w / gamma * root ** (2 * power))

        def scaling(root: Array, total: Array) -> Array:
            ones = np.sqrt(gamma) * total
            return np.divide(root**power, ones, out=np.zeros_like(root), where=total > 0)

        A = self.work.grounded(space.rowwise(ground, weight, root), kept)
        E = space.rowwise(scaling, root, A.root_degree)
        B = space.scaled(Y, weight)
        if clamped is not None:
            held = space.rowwise(where, Y, clamped)
            V = held if energy.normalized else space.scaled(held, root)
            pull = self.laplacian.apply(V)
            space.blend(B, 1.0, (pull if energy.normalized else space.scaled(pull, root), -gamma))
        B = space.scaled(B, E)
        if balance is not None:
            delta = space.column(space.rowwise(where, balance, kept))
            B = space.stack([B, space.scaled(delta, E)])
        least = 1.0 - space.peaks(space.column(space.rowwise(_far_from_one, weight, E, kept)))[0]
        F, convergence = self._solved(A, B, easy=least >= JACOBI)
        F = space.scaled(F, E)
        if balance is not None:
            response = space.columns(F, slice(self.n_classes, None))
            F = space.columns(F, slice(0, self.n_classes))
            excess, across = space.gram(delta, F), space.gram(delta, response)
            space.subtract(F, response, excess / np.maximum(across, 1e-300))
        if clamped is not None:
            space.blend(F, 1.0, (held, 1.0))
        return F, convergence

    def potential(self, B: Block) -> tuple[Block, Convergence]:
        """L̄⁺B of charges B (n, K)."""
        return self._solved(self.laplacian, B, project=self.laplacian.null.project)

    def _believed(
        self, Y: Block, weight: Vector | None, scale: Vector | None
    ) -> tuple[Block, Vector]:
        """Targets and weights with the prior among them; see `Prior.joined`."""
        space, ones = self.space, self.copies
        w = space.rowwise(np.zeros_like, ones) if weight is None else weight
        if self.prior is None:
            return Y, w
        s = space.rowwise(np.ones_like, ones) if scale is None else scale
        values, belief = self.prior.values, self.prior.belief

        def targets(Y: Array, w: Array, s: Array, values: Array, belief: Array) -> Array:
            return Prior(values, belief).joined(Y, w, s)[0]

        total = space.rowwise(lambda w, s, u: w + u / s**2, w, s, belief)
        return space.rowwise(targets, Y, w, s, values, belief), total

    def _solved(
        self, A: Any, B: Block, *, easy: bool = False, project: Any = None
    ) -> tuple[Block, Convergence]:
        """A⁻¹B by conjugate gradients, preconditioned by multigrid unless that is `easy`."""
        tol, cycle = self.solving.tolerance(self.size), None
        if not easy:
            A, cycle = self.work.with_cycle(A)
        with self.recorder.stage("propagating") as advance:
            return block_cg(
                A.apply,
                B,
                tol=tol,
                max_iter=self.solving.max_iter,
                precondition=cycle,
                project=project,
                on_step=lambda worst: advance(done(worst, tol)),
                space=self.space,
                deadline=self.solving.deadline,
            )


def where(X: Array, kept: Array) -> Array:
    """Rows where `kept` (n,) is above 0, others 0."""
    return np.where((kept if X.ndim == 1 else kept[:, None]) > 0, X, 0.0)


def _far_from_one(w: Array, E: Array, kept: Array) -> Array:
    return np.where(kept, 1.0 - w * E**2, 0.0)
