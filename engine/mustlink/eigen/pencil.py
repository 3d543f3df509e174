"""The pencil of constrained spectral clustering, L̄v = λ(Q̄ − βI)v (WD14 eq. 13).

L̄ is singular and B = Q̄ − βI indefinite. Turned round, Bv = μL̄v with μ = 1/λ, the wanted pairs
(λ > 0, small) are the largest μ > 0. With Z the null space of L̄ and v = w + Za, w ⟂ Z, the rows
ZᵀBv = 0 give a = −(ZᵀBZ)⁺ZᵀBw, and the rest is the symmetric-definite pencil

    S_B w = μ L̄ w on Z^⟂,   S_B = B − BZ(ZᵀBZ)⁺ZᵀB.

β is dimensionless here: WD14's β divided by vol.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mustlink.operators.constraint import ConstraintOperator
from mustlink.operators.laplacian import Block, NormalizedLaplacian


@dataclass(frozen=True, eq=False)
class Pencil:
    """L̄ and Q̄ with one β; everything acts on blocks in working order."""

    laplacian: NormalizedLaplacian
    Q: ConstraintOperator
    beta: float

    @cached_property
    def touched(self) -> NDArray[np.int64]:
        """Components with a constrained node: in the others Z is B-orthogonal to Z^⟂."""
        return np.unique(self.laplacian.null.component[self.Q.support]).astype(np.int64)

    @cached_property
    def _QZ(self) -> Block:
        """Q̄Z on the support, (s, c')."""
        null = self.laplacian.null
        Z = null.matrix[self.Q.support][:, self.touched].toarray()
        return self.Q.inner(Z)

    @cached_property
    def _solve_null(self) -> Block:
        """(ZᵀBZ)⁺ over the touched components, (c', c')."""
        null = self.laplacian.null
        Z = null.matrix[self.Q.support][:, self.touched]
        G = Z.T @ self._QZ - self.beta * np.eye(self.touched.size)
        inverse = np.linalg.pinv((G + G.T) / 2, rcond=1e-13, hermitian=True)
        return np.asarray(inverse, dtype=np.float64)

    def null_part(self, W: Block) -> Block:
        """Coefficients a (c', b) that complete w ⟂ Z to the eigenvector v = w + Za."""
        return -self._solve_null @ (self._QZ.T @ W[self.Q.support])

    def schur(self, W: Block) -> Block:
        """S_B W for W ⟂ Z, projected on Z^⟂."""
        Y = self.Q.apply(W, shift=-self.beta)
        Y[self.Q.support] += self._QZ @ self.null_part(W)
        return self.laplacian.null.project(Y)

    def complete(self, W: Block) -> Block:
        """V = w + Za for every column."""
        V = W.copy()
        a = self.null_part(W)
        null = self.laplacian.null
        if null.n_components == 1:
            return V + null.weight[:, None] * a if a.size else V
        return V + null.matrix[:, self.touched] @ a

    def n_feasible(self) -> int | None:
        """Number of pairs with λ > 0, by inertia: In(S_B) = In(B) − In(ZᵀBZ); None if unknown."""
        above = self.Q.count_above(self.beta)
        if above is None:
            return None
        null = self.laplacian.null
        Z = null.matrix[self.Q.support][:, self.touched]
        G = Z.T @ self._QZ - self.beta * np.eye(self.touched.size)
        taken = int((np.linalg.eigvalsh((G + G.T) / 2) > 0).sum()) if G.size else 0
        if self.beta < 0:
            taken += null.n_components - self.touched.size
        return above - taken

    def residuals(self, V: Block, lam: NDArray[np.float64]) -> NDArray[np.float64]:
        """‖L̄v − λ(Q̄ − βI)v‖ / ‖L̄v‖: independent of how v was found."""
        LV = self.laplacian.apply(V)
        R = LV - self.Q.apply(V, shift=-self.beta) * lam
        return np.linalg.norm(R, axis=0) / np.maximum(np.linalg.norm(LV, axis=0), 1e-300)

    @cached_property
    def norm(self) -> float:
        """An upper estimate of ‖B‖."""
        values = self.Q.eigenvalues
        return float(np.abs(values).max(initial=0.0) + abs(self.beta))


@dataclass(frozen=True, eq=False)
class PencilSolution:
    """Feasible pairs of a pencil: λ > 0 (r,), v (m, r) with ‖v‖² = vol, cost vᵀL̄v (r,).

    `complete` says whether all feasible pairs are here, or the leading ones only.
    """

    lam: NDArray[np.float64]
    vectors: Block
    cost: NDArray[np.float64]
    complete: bool

    def cheapest(self, count: int) -> PencilSolution:
        """The `count` pairs of least cost, in order of cost (WD14 Alg. 1 line 10, Alg. 2)."""
        chosen = np.argsort(self.cost, kind="stable")[:count]
        return PencilSolution(
            self.lam[chosen], self.vectors[:, chosen], self.cost[chosen], self.complete
        )


def finish(pencil: Pencil, mu: NDArray[np.float64], W: Block, complete: bool) -> PencilSolution:
    """Turn pairs (μ, w) into feasible (λ, v): keep μ > 0, add the null part, scale to vol."""
    floor = 1e-11 * np.abs(mu).max(initial=0.0)
    positive = mu > floor
    mu, W = mu[positive], W[:, positive]
    V = pencil.complete(W)
    laplacian = pencil.laplacian
    # The largest entry is positive: an eigenvector's sign is otherwise the solver's whim.
    sign = np.sign(V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])])
    V *= sign * np.sqrt(laplacian.volume) / np.linalg.norm(V, axis=0)
    cost = np.einsum("ij,ij->j", V, laplacian.apply(V))
    return PencilSolution(1.0 / mu, V, cost, complete)
