"""The smooth subspace: constrained problems projected on the span of L̄'s smoothest eigenvectors.

With few constraints on many nodes the exact problem's best vectors are spikes on the constrained
nodes and no clustering comes out. Inside the span of the p smoothest eigenvectors V_p a problem
is p by p, every parameter, every prefix p and every new set of constraints costs milliseconds, and
the graph's eigenvectors are computed once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.stage_cache import SolutionKey, Workspace
from mustlink.core import dense_algebra
from mustlink.core.dense_algebra import ROUNDING
from mustlink.core.observe import NEVER, Deadline
from mustlink.core.result import Convergence, EigenResult
from mustlink.eigen.lobpcg import orthonormal, rayleigh_ritz
from mustlink.operators.constraint_operator import ConstraintOperator
from mustlink.operators.protocol import Laplacian
from mustlink.space import Block, GroupSums, LocalSpace, NullSpace, Small, Space

BASIS_STEPS = 200
BASIS_TOL = 1e-2  # a smooth subspace need not be sharper: what is clustered is its whole span
_COUPLING = 1e-3  # how strongly components hold together, as a share of the smallest λ > 0
_NULL_LIMIT = 200  # components carried as directions of their own
_TINY = 1e-3  # share of the nodes below which a component is none


@dataclass(frozen=True, eq=False)
class SmoothBasis:
    """Orthonormal U (m, 1 + p): z = D^½1/√vol first, then p directions in order of smoothness.

    They are the first of the columns of `whole`, which a shorter basis shares with the longer one.
    `values` (p,) are their Rayleigh quotients. For a disconnected graph the first of the p are
    indicator directions of the largest components, with a small positive value that stands for
    an infinitely weak tie between components; so do vectors whose λ is rounding.
    """

    laplacian: Any
    whole: Block
    values: NDArray[np.float64]
    residuals: NDArray[np.float64]
    n_ties: int = 0

    @property
    def p(self) -> int:
        """Number of directions beside z."""
        return int(self.values.size)

    @property
    def space(self) -> Space:
        """Where the vectors live."""
        result: Space = self.laplacian.space
        return result

    @cached_property
    def vectors(self) -> Block:
        """U; a copy where `whole` is wider."""
        width = 1 + self.p
        if self.whole.shape[1] == width:
            return self.whole
        return self.space.columns(self.whole, slice(0, width))

    def rows(self, nodes: NDArray[np.int64]) -> Small:
        """U on a few nodes, (len(nodes), 1 + p)."""
        result: Small = self.space.take(self.whole, nodes)[:, : 1 + self.p]
        return result

    def combine(self, C: Small) -> Block:
        """UC, (m, b), for coefficients C (1 + p, b)."""
        rest = np.zeros((self.whole.shape[1] - len(C), C.shape[1]))
        return self.space.combine(self.whole, np.vstack([C, rest]))

    def first(self, p: int) -> SmoothBasis:
        """The p smoothest directions, or all where there are fewer."""
        p = min(p, self.p)
        return SmoothBasis(
            self.laplacian,
            self.whole,
            self.values[:p],
            self.residuals[:p],
            min(self.n_ties, p),
        )

    def laplacian_inside(self, *, tied: bool) -> ProjectedLaplacian:
        """UᵀL̄U, with the ties that make it definite beside z, or as it is."""
        values = np.concatenate([[0.0], self.values])
        if not tied:
            values[: self.n_ties + 1] = 0.0
        return ProjectedLaplacian(values, self.laplacian.volume)

    def inside(self, operator: ConstraintOperator) -> ConstraintOperator:
        """UᵀQ̄U as the same kind of operator, on 1 + p coefficients; 0 where constraints cancel."""
        return dense_operator(operator.within(self.whole, 1 + self.p))

    def on_nodes(self, found: EigenSolution) -> EigenSolution:
        """A restricted problem's solution as vectors on the nodes."""
        V = self.combine(found.vectors)
        self.space.blend(V, self.space.signs(V))
        had = self.residuals
        sharp = Convergence("smooth subspace", "direct", 0, had, float(had.max(initial=0)))
        return replace(found, vectors=V, convergence=sharp, p=self.p)


@dataclass(frozen=True, eq=False)
class ProjectedLaplacian:
    """L̄ on coefficients (1 + p, b) of a smooth basis: diagonal, z the first unit vector."""

    values: NDArray[np.float64]
    volume: float

    @property
    def size(self) -> int:
        """Number 1 + p of coefficients."""
        return int(self.values.size)

    @cached_property
    def space(self) -> Space:
        """Coefficients are in memory."""
        return LocalSpace(self.size)

    @cached_property
    def null(self) -> NullSpace:
        """The first unit vector, z."""
        return NullSpace(np.zeros(self.size, dtype=np.int32), np.eye(self.size)[0], 1)

    @property
    def root_degree(self) -> NDArray[np.float64]:
        """√vol·z, as D^½1 is on the nodes."""
        return np.sqrt(self.volume) * self.null.weight

    def apply(self, X: Block) -> Block:
        """ΛX."""
        return self.values[:, None] * X

    def to_dense(self) -> Block:
        """Λ."""
        return np.diag(self.values)


def dense_operator(T: Block) -> ConstraintOperator:
    """A small symmetric matrix T (b, b) as an operator on b coefficients."""
    size = len(T)
    return ConstraintOperator(sp.csr_matrix(T), None, None, np.arange(size), LocalSpace(size))


@dataclass(frozen=True)
class BasisKey(SolutionKey[SmoothBasis]):
    """Smoothest directions, see `smoothest`: all with the same steps allowed."""

    def _steps_suit(self, wanted: BasisKey, value: SmoothBasis) -> bool:
        sharp = self.limit == math.inf or bool((value.residuals <= self.tol).all())
        return sharp or wanted.limit <= self.limit


@dataclass(frozen=True)
class CarriedKey(BasisKey):
    """The span of the smoothest vectors of L̄_τ: of just so many, as L̄ sorts them anew."""

    def serves(self, wanted: CarriedKey, value: SmoothBasis) -> bool:
        """As all solutions, but a longer basis does not begin with the shorter one."""
        return self.count == wanted.count and super().serves(wanted, value)


def smooth_basis(
    laplacian: Laplacian,
    values: NDArray[np.float64],
    vectors: Block,
    residuals: NDArray[np.float64],
) -> SmoothBasis:
    """Basis from the smallest pairs beyond the null space; components become directions too.

    But not tiny ones: a hundred pairs of nodes beside a large component would fill the subspace.
    """
    space, null, dtype = laplacian.space, laplacian.null, vectors.dtype
    size = np.sqrt(laplacian.volume)
    z = space.column(space.rowwise(lambda root: root / size, laplacian.root_degree))
    faint = int((values <= ROUNDING).sum())  # parts that hang together by rounding only
    tie = tie_of(values[faint:])
    frame = _component_frame(null, z)
    parts = [] if frame.shape[1] == 0 else [null.expand(frame, dtype)]
    return SmoothBasis(
        laplacian,
        space.stack([space.copy(z, dtype), *parts, vectors]),
        np.concatenate([np.full(frame.shape[1] + faint, tie), values[faint:]]),
        np.concatenate([np.zeros(frame.shape[1]), residuals]),
        frame.shape[1] + faint,
    )


def tie_of(values: NDArray[np.float64]) -> float:
    """What stands for an infinitely weak tie between components, from the values λ > 0."""
    return _COUPLING * (float(values[0]) if values.size else 1.0)


def _component_frame(null: NullSpace, z: Block) -> Small:
    """F (c, h): ZF are orthonormal directions of the large components, all orthogonal to z.

    Z is orthonormal and z = Zζ, so the part of a few columns of Z beside z is one of F beside ζ.
    """
    count, space = null.n_components, null.space
    if count == 1:
        return np.zeros((1, 0))
    ones = space.rowwise(np.ones_like, z)
    (sizes,) = space.sums(GroupSums(ones, null.component, count))
    large = np.flatnonzero(sizes[:, 0] / space.size >= _TINY)
    held = (large if large.size else np.arange(count))[:_NULL_LIMIT]
    share = null.coefficients(z)
    chosen = np.zeros((count, held.size))
    chosen[held, np.arange(held.size)] = 1.0
    if held.size == count:
        return dense_algebra.orthogonal(np.hstack([share, chosen]))[:, 1:count]
    return dense_algebra.orthogonal(chosen - share @ share[held].T)


# --- The smooth subspace of regularised degrees, as a basis in which L̄ itself is the cost
#
# Inside the span of the smoothest vectors of a sparse network constraints can only move its crumbs:
# these are the smoothest there is. Those of L̄_τ show its clusters. What is minimised stays the cut
# of the graph as it is, so that all that is solved inside a smooth basis is solved in this one.


def carried_basis(plain: Laplacian, regular: Laplacian, result: EigenResult) -> SmoothBasis:
    """Basis of the span of z = D^½1/√vol and D^½T^-½V, V (m, p) the smoothest vectors of L̄_τ.

    V lives where u = T^-½v is a function on the nodes; D^½u is the same function where L̄ lives.
    Directions are the Ritz vectors of L̄ beside z, at most p: what z spans already is dropped.
    Cost: a product with L̄ and some products of blocks (m, p). Memory: 3 blocks beside V.
    """
    space, root = plain.space, plain.root_degree

    def ratio(r: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.divide(r, other, out=np.zeros_like(r), where=other > 0)

    z = space.column(space.rowwise(lambda r: r / np.sqrt(plain.volume), root))
    U = space.scaled(result.vectors, space.rowwise(ratio, root, regular.root_degree))
    for _ in range(2):
        U = orthonormal(space, U)
        space.subtract(U, z, space.gram(z, U))
    U = orthonormal(space, U)
    values, C = rayleigh_ritz(space, U, plain.apply(U))
    faint = int((values <= ROUNDING).sum())
    residuals = result.convergence.residuals[: values.size]
    return SmoothBasis(
        plain,
        space.stack([space.copy(z, U.dtype), space.combine(U, C)]),
        np.concatenate([np.full(faint, tie_of(values[faint:])), values[faint:]]),
        residuals,
        faint,
    )


# --- A constrained eigenproblem: solved for a value of its parameter, on all nodes or projected
#
# The smooth subspace is not another problem: `restricted` gives the same one with small dense
# matrices in the place of operators on nodes, and what solves the one solves the other.


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EigenOptions:
    """How eigenproblems are solved: as the parameters of the estimators are named, until when."""

    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 300
    seed: int = 0
    deadline: Deadline = NEVER


@dataclass(frozen=True, eq=False)
class FeasibleCuts:
    """All feasible cuts that are known, ‖v‖² = vol, rising in cost: r of them, `used` first.

    `cost` vᵀL̄v (r,), `alpha` vᵀQ̄v (r,) and `values` λ (r,), with α = β + cost/λ > β (Lemma 1);
    `beta` is WD14's, a multiple of vol. `complete`: no others are feasible. `plain` (q, 2) are
    pairs (cost, α) of L̄'s own vectors but its null space, ‖v‖² = vol, where these are known.
    """

    cost: Floats
    alpha: Floats
    values: Floats
    used: int
    beta: float
    volume: float
    complete: bool
    plain: Floats


@dataclass(frozen=True, eq=False)
class EigenSolution:
    """Vectors (m, r) in working order with their eigenvalues (r,) and costs vᵀL̄v (r,).

    `parameter` is the value solved for, `unit` what it is a fraction of (1 if of nothing), `p` the
    dimension of the subspace, None if the full problem was solved; `wanted` the number of vectors
    asked for, of which r are feasible; `cuts` are all that are, if a method knows several.
    """

    vectors: Block
    values: Floats
    cost: Floats
    parameter: float
    unit: float
    convergence: Convergence
    note: str = ""
    p: int | None = None
    wanted: int | None = None
    cuts: FeasibleCuts | None = None


@dataclass(frozen=True, eq=False)
class Problem(ABC):
    """The eigenproblem of one method on one graph, with one set of constraints.

    `laplacian` is L̄, of the graph or inside a smooth basis.
    """

    laplacian: Any

    @property
    @abstractmethod
    def acts(self) -> bool:
        """Whether any constraint touches a node that can be clustered."""

    @abstractmethod
    def restricted(self, basis: SmoothBasis) -> Self:
        """The same problem projected on the span of a smooth basis."""

    @abstractmethod
    def solve(
        self,
        value: float,
        how: EigenOptions,
        work: Workspace | None = None,
        start: Block | None = None,
    ) -> EigenSolution:
        """Solve for one value of the parameter; `start` are vectors for a nearby one.

        `work` is the graph's, None for a restricted problem. Raises InfeasibleError.
        """

    def trial(self, value: float) -> EigenSolution:
        """A restricted problem's solution, as near as it gets where `value` is infeasible."""
        return self.solve(value, DENSE)

    def inside(self, basis: SmoothBasis, value: float) -> EigenSolution:
        """The solution in the span of a basis, as vectors on the nodes."""
        restricted = self.restricted(basis)
        found = basis.on_nodes(restricted.solve(value, DENSE))
        return found if restricted.acts or not self.acts else replace(found, note=CANCELLED)


DENSE = EigenOptions("dense")
CANCELLED = (
    "constraints cancel one another in the smooth subspace: its vectors follow the graph alone"
)


@contextmanager
def stage(work: Workspace | None, name: str) -> Iterator[None]:
    """A stage of the fit, if the problem is one of a fit and not a small one inside it."""
    if work is None:
        yield
    else:
        with work.recorder.stage(name):
            yield
