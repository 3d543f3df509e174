"""Forms fᵀMf on nodes whose least is spread labels, and the systems that they lead to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import NumericalError
from mustlink.linear.cg import Map
from mustlink.linear.deflated_polynomial import DeflatedPolynomial, Smooth
from mustlink.linear.direct_inverse import usual_preconditioner
from mustlink.operators.grounded_laplacian import GroundedLaplacian
from mustlink.operators.laplacian import Block, NormalizedLaplacian

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
JACOBI = 0.005  # share of the diagonal that is added everywhere, from which no multigrid is needed
_NEAR = 0.02  # of it, from which gradients alone take no more


@dataclass(frozen=True, eq=False)
class System:
    """E(M + diag(w))_ff E, E = diag(scale): positive definite, with a diagonal near 1.

    `apply` is its product with a block, `precondition` an approximate inverse or None. `laplacian`
    is the operator itself where it is one of a graph.
    """

    apply: Map
    scale: Floats
    precondition: Map | None = None
    laplacian: GroundedLaplacian | None = None


class Energy(Protocol):
    """A symmetric positive semidefinite form fᵀMf on m nodes."""

    @property
    def size(self) -> int:
        """Number of nodes m."""

    def apply(self, X: Block) -> Block:
        """MX for a block (m, b)."""

    def system(self, free: Ints, weight: Floats) -> System:
        """M + diag(weight) on the rows `free`, `weight` (len(free),) >= 0."""


@dataclass(frozen=True, eq=False)
class LaplacianEnergy:
    """γ·Σ_ij ½W_ij (f_i − f_j)²: M = γ(D − W), or γL̄ = γ(I − D^-½WD^-½) (AB09 eq. 1, 4)."""

    laplacian: NormalizedLaplacian
    normalized: bool = False
    factor: float = 1.0
    smooth: Callable[[], Smooth | None] = lambda: None  # vectors of L̄, None where grids do better
    vectors: Smooth | None = None

    @property
    def size(self) -> int:
        """Number of nodes m."""
        return self.laplacian.size

    def apply(self, X: Block) -> Block:
        """MX for a block (m, b)."""
        if self.normalized:
            return self.factor * self.laplacian.apply(X)
        root = self.laplacian.root_degree[:, None]
        return self.factor * root * self.laplacian.apply(root * X)

    def system(self, free: Ints, weight: Floats) -> System:
        """I − S_T, T the diagonal of both, with a preconditioner unless the weights are large."""
        operator, scale = self.grounded(free, weight)
        if self.vectors is not None:
            Z = self.vectors.vectors[free] / scale[:, None]
            if not self.normalized:
                Z /= self.laplacian.root_degree[free, None]
            with suppress(NumericalError):  # a ground makes no eigenvalue below 1 smaller
                inverse = DeflatedPolynomial(operator, Z, self.vectors.low)
                return System(operator.apply, scale, inverse, operator)
        is_easy = float((weight * scale**2).min(initial=1.0)) >= JACOBI
        cycle = None if is_easy else usual_preconditioner(operator)
        return System(operator.apply, scale, cycle, operator)

    def knowing_vectors(self, weight: Floats) -> LaplacianEnergy:
        """The same with smooth vectors, where its systems with these weights (f,) gain by them.

        They bend where nodes differ in weight, and weights that are large make systems easy.
        """
        near = _NEAR * self.factor if self.normalized else 0.0
        even = weight.size > 0 and bool((weight == weight[0]).all()) and weight[0] <= near
        return replace(self, vectors=self.smooth()) if even else self

    def grounded(self, free: Ints, weight: Floats) -> tuple[GroundedLaplacian, Floats]:
        """E(M + diag(weight))E on the rows `free` and the diagonal of E, with its ground.

        A node's ground is its weight and its edges to nodes that are not free.
        """
        laplacian, root = self.laplacian, self.laplacian.root_degree
        own = self.factor * laplacian.degrees[free] / (root[free] ** 2 if self.normalized else 1.0)
        total = own + weight
        # The smooth vector of M, 1 or D^½1, in the variables of the system.
        smooth = np.sqrt(total) * (root[free] if self.normalized else 1.0)
        ground = weight * root[free] ** 2 if self.normalized else weight.copy()
        if free.size < self.size:
            held = root.copy()
            held[free] = 0.0
            ground += self.factor * (root * laplacian.neighbours(held[:, None])[:, 0])[free]
        ratio = np.sqrt(self.factor / total) * (1.0 if self.normalized else root[free])
        return laplacian.system_on(free, ratio, smooth, ground), 1.0 / np.sqrt(total)


def scaled_system(
    energy: Energy, diagonal: Floats, free: Ints, weight: Floats, precondition: Map | None = None
) -> System:
    """The system of an energy known by its product only.

    `diagonal` (m,) > 0 is comparable with M's; `precondition` ≈ the unscaled inverse.
    """
    scale = 1.0 / np.sqrt(diagonal[free] + weight)
    outer = scale[:, None]
    A = restricted(energy, free, weight)
    inner = None if precondition is None else (lambda V: precondition(V / outer) / outer)
    return System(lambda V: outer * A(outer * V), scale, inner)


def restricted(energy: Energy, free: Ints, weight: Floats) -> Map:
    """X -> ((M + diag(weight)) X) on the rows `free`."""
    m, extra = energy.size, weight[:, None]
    if free.size == m:
        return lambda X: energy.apply(X) + extra * X

    def inner(X: Block) -> Block:
        whole = np.zeros((m, X.shape[1]))
        whole[free] = X
        found: Block = energy.apply(whole)[free] + extra * X
        return found

    return inner
