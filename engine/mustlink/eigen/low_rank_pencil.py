"""The pencil of CSC+GFHF, L̄f = λΦ̄Φ̄ᵀf with Φ̄ (m, r) (WD12 eq. 12): some solves and a small problem.

Let z be the null vector of L̄ (connected graph) and c = Φ̄ᵀf. For λ ≠ 0 the row zᵀ says
zᵀΦ̄c = 0, so f = λL̄⁺Φ̄c + αz, and Φ̄ᵀ once more gives c = λHc + αΦ̄ᵀz, H = Φ̄ᵀL̄⁺Φ̄. With N an
orthonormal basis of {c : zᵀΦ̄c = 0} and c = Nd, its part along N is NᵀHNd = μd, μ = 1/λ > 0, the
part along Φ̄ᵀz gives α. All pairs with 0 < λ < ∞ are found, r − 1 of them, from the solves L̄⁺Φ̄N.

Several components, Z (m, c): as printed, ZᵀΦ̄c = 0 and f = λL̄⁺Φ̄c + Za. Then all that separates
components has λ = 0 and is thrown away, and with r components nothing is left.
So they are tied: L̄ + τZ(I − ζζᵀ)Zᵀ, ζ = Zᵀz, holds each component's mean to the common one, as
stiffly as the graph holds Φ̄'s vectors inside components: τ = tr(NᵀΦ̄ᵀΦ̄N)/tr(NᵀHN), the parts in
Z left out. Its null space is z alone, the rest is as above. A connected graph has no ties.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mustlink.core import dense_algebra
from mustlink.core.observe import NEVER, Deadline
from mustlink.core.result import STAGNATED, TIME_LIMIT, Convergence
from mustlink.eigen.lobpcg import LIMITS, whitening
from mustlink.linear.laplacian_solve import Inverse
from mustlink.operators.protocol import Laplacian
from mustlink.space import Block, Gram, GroupSums, Small

Floats = NDArray[np.float64]
_SINGULAR = 1e-10  # share of ‖Φ̄‖ below which a singular value of ZᵀΦ̄ is zero
_ROUNDING = 1e-13  # share of the largest eigenvalue below which another is rounding
_STALL = 0.9  # a round that leaves more of the residual is the last


@dataclass(frozen=True, eq=False)
class LowRankPencil:
    """L̄ and Φ̄ turned so that Φ̄Φ̄ᵀ = CCᵀ + BBᵀ: zᵀB = 0, C the `coupled` rest.

    B = Φ̄N (m, s) has orthogonal columns of falling length; C is (m, t). `null_part` is ZᵀC (c, t),
    `share` ζ = Zᵀz (c,), z = D^½1/√vol.
    """

    laplacian: Laplacian
    free: Block
    coupled: Block
    null_part: Small
    share: Floats

    @property
    def is_tied(self) -> bool:
        """Whether there are several components."""
        return self.laplacian.null.n_components > 1

    def tied_part(self, H: Small) -> tuple[Small, float]:
        """ZᵀB/τ (c, s) and τ, from H ≈ BᵀL̄⁺B; τ = 1 where B is constant in every component."""
        Y = self.laplacian.null.coefficients(self.free)
        whole = float(self.laplacian.space.dots(self.free, self.free).sum())
        inside = whole - float(np.einsum("ij,ij->", Y, Y))
        tie = inside / float(np.trace(H)) if inside > _ROUNDING * whole else 1.0
        return Y / tie, tie

    def satisfied(self, F: Block) -> Block:
        """Q̄F = Φ̄Φ̄ᵀF."""
        parts, space = [self.free, self.coupled], self.laplacian.space
        return space.combine(parts, space.gram(parts, F))

    def residuals(self, F: Block, lam: Floats, tie: float) -> Floats:
        """‖L̄f − λQ̄f‖/‖f‖, L̄ with its ties: independent of how f was found."""
        space = self.laplacian.space
        R = self.laplacian.apply(F)
        space.blend(R, 1.0, (self.satisfied(F), -lam))
        if self.is_tied:
            null = self.laplacian.null
            a = null.coefficients(F)
            ties = null.expand(tie * (a - np.outer(self.share, self.share @ a)))
            space.blend(R, 1.0, (ties, 1.0))
        left, size = space.norms(R, F)
        return np.asarray(left / size)


def low_rank_pencil(
    laplacian: Laplacian, factor: Block, *, least: int = 1, tol: float = 0.0
) -> LowRankPencil:
    """Turn Φ̄ = `factor` (m, r); columns of B shorter than tol times the `least`-th go.

    Lengths are eigenvalues of NᵀΦ̄ᵀΦ̄N, so that ‖Q̄‖ changes by less than tol times the
    `least`-th of them. Cost O(m r²).
    """
    null, space, rank = laplacian.null, laplacian.space, factor.shape[1]
    root, count = laplacian.root_degree, null.n_components
    (volumes,) = space.sums(GroupSums(space.column(root), null.component, count, root))
    share = np.sqrt(volumes / volumes.sum())[:, 0]
    G = share[None, :] @ null.coefficients(factor)
    size = float(np.sqrt(max(dense_algebra.eigvalsh(space.gram(factor, factor))[-1], 1e-300)))
    padded = np.vstack([G, np.zeros((max(rank - G.shape[0], 0), rank))])
    _, s, Vt = dense_algebra.svd(padded)
    t = int((s > _SINGULAR * size).sum())
    N = Vt[t:].T
    inside = space.combine(factor, N)
    q, U = dense_algebra.eigh(space.gram(inside, inside))
    q, U = q[::-1], U[:, ::-1]
    wanted = q[min(least, q.size) - 1] if q.size else 0.0
    kept = q > max(tol * wanted, _ROUNDING * q.max(initial=0.0), 1e-3 * _ROUNDING * size**2)
    free, coupled = space.combine(inside, U[:, kept]), space.combine(factor, Vt[:t].T)
    return LowRankPencil(laplacian, free, coupled, null.coefficients(coupled), share)


@dataclass(frozen=True, eq=False)
class LowRankSolution:
    """Pairs of a pencil: λ (k,), unit vectors f (m, k), fᵀQ̄f (k,) falling, and how it was solved.

    `pairs` counts all pairs with 0 < λ < ∞, from as many solves; `tie` is τ, 0 where there is
    nothing to tie. The convergence's residuals are those of `LowRankPencil.residuals`.
    """

    values: Floats
    vectors: Block
    satisfaction: Floats
    pairs: int
    tie: float
    convergence: Convergence


def solve_low_rank(
    pencil: LowRankPencil,
    count: int,
    inverse: Inverse,
    *,
    tol: float = 1e-8,
    max_rounds: int = 50,
    on_round: Callable[[float], None] | None = None,
    deadline: Deadline = NEVER,
) -> LowRankSolution:
    """The `count` pairs with the largest fᵀQ̄f at ‖f‖ = 1 (WD12 Alg. 4 lines 14 and 15), or fewer.

    `inverse` applies roughly L̄⁺ to a block. Every round improves X ≈ L̄⁺B by it and solves the
    pencil inside span(X) + Z, so that errors of X enter λ squared only, until the residuals of
    the wanted pairs are at most tol. Cost of a round: s rough solves, products O(m s²), one s by s
    eigenproblem. `on_round` gets the largest residual. The best round is returned: one that leaves
    nine tenths of the residual is the last, and so is the one at whose end the `deadline` is over.
    """
    B, laplacian = pencil.free, pencil.laplacian
    space = laplacian.space
    X, LX = space.zeros(B.shape[1]), space.zeros(B.shape[1])
    best: LowRankSolution | None = None
    for step in range(1, max_rounds + 1):
        rest = space.copy(B)
        space.blend(rest, 1.0, (LX, -1.0))
        space.blend(X, 1.0, (inverse(rest), 1.0))
        LX = laplacian.apply(X)
        result = _pairs_inside(pencil, X, LX, count, tol, step)
        worst = float(result.convergence.residuals.max(initial=0.0))
        before = np.inf if best is None else float(best.convergence.residuals.max(initial=0.0))
        if best is None or worst < before:
            best = result
        if on_round is not None:
            on_round(worst)
        if worst <= tol:
            break
        reason = STAGNATED if worst > _STALL * before else TIME_LIMIT if deadline.is_over else ""
        if reason:
            return replace(best, convergence=replace(best.convergence, reason=reason))
    assert best is not None
    return best


def _pairs_inside(
    pencil: LowRankPencil, X: Block, LX: Block, count: int, tol: float, step: int
) -> LowRankSolution:
    """The pencil inside span(X) + Z, X (m, s) in the complement of Z, LX = L̄X."""
    B, C, null = pencil.free, pencil.coupled, pencil.laplacian.null
    space = pencil.laplacian.space
    H, J, stiffness, XX = space.sums(Gram(B, X), Gram(C, X), Gram(X, LX), Gram(X, X))
    Y, tie = np.zeros((null.n_components, B.shape[1])), 0.0
    if pencil.is_tied:  # X + ZY instead of X
        Y, tie = pencil.tied_part(H)
        own = tie * (Y.T @ Y)
        H, J, stiffness = H + own, J + pencil.null_part.T @ Y, stiffness + own
    mu, G = _ritz(H, stiffness)
    # Cᵀf = 0 fixes the null part a in the span of z: (zᵀC)ᵀa = −CᵀXg.
    row = (pencil.share @ pencil.null_part)[:, None]
    A = Y @ G - np.outer(pencil.share, dense_algebra.lstsq(row, J @ G, _SINGULAR))
    squares = np.einsum("ij,ij->j", G, XX @ G) + np.einsum("ij,ij->j", A, A)
    satisfaction = ((H @ G) ** 2).sum(axis=0) / np.maximum(squares, 1e-300)
    best = np.argsort(-satisfaction, kind="stable")[:count]
    scale = 1.0 / np.sqrt(np.maximum(squares[best], 1e-300))
    F = space.combine(X, G[:, best] * scale)
    space.blend(F, 1.0, (null.expand(A[:, best] * scale), 1.0))
    space.blend(F, space.signs(F))
    lam = 1.0 / mu[best]
    residuals = pencil.residuals(F, lam, tie)
    reason = "tolerance" if residuals.max(initial=0.0) <= tol else "max_iter"
    convergence = Convergence("low rank", reason, step, residuals, tol)
    return LowRankSolution(lam, F, satisfaction[best], int(mu.size), tie, convergence)


def _ritz(H: Small, stiffness: Small) -> tuple[Floats, Small]:
    """Pairs (μ, g) of HᵀHg = μ·stiffness·g, μ > 0 falling."""
    cut = LIMITS[np.dtype(np.float64)].basis
    T = whitening(stiffness, cut, cut * float(np.diag(stiffness).max(initial=0.0)))
    _, sigma, Vt = dense_algebra.svd(H @ T)
    real = sigma > np.sqrt(_ROUNDING) * sigma.max(initial=0.0)
    return sigma[real] ** 2, T @ Vt[real].T
