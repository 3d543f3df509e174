"""MF + FM = 2μY by Krylov subspaces: F = ZΘZᵀ, short recurrences, the true residual.

With Y = XΛXᵀ and V_1 = X|Λ|^½/ρ, ρ² = tr|Λ|, the global Lanczos method makes V_k = p_k(M)V_1,
blocks orthonormal in the Frobenius product, and T (K, K) tridiagonal with

    M[V_1 … V_K] = [V_1 … V_K](T ⊗ I) + β V_{K+1} e_Kᵀ ⊗ I.

Th + hT = e_1e_1ᵀ gives F = 2μρ² Σ_kl h_kl V_k J V_lᵀ, J = sign Λ, whose residual is

    R = 2μρ²β(V_{K+1}JUᵀ + UJV_{K+1}ᵀ),  U = Σ_k h_Kk V_k,

two blocks, whatever the rounding errors in the orthogonality. The eigenvalues of h fall as fast as
those of the best rational approximation: F is kept as q of its eigenvectors, Φ_q = Σ_k w_kq V_k.
Source: Jbilou & Riquet 2006 (global method); Palitta & Simoncini 2018 (two passes).

Compared with block extended or rational Krylov subspaces there are no solves and no
orthogonalisation of all columns against all; cost and memory grow linearly with the rank of Y.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray

from mustlink.core import dense_algebra
from mustlink.core.check import as_integer, check_positive
from mustlink.core.observe import NEVER, Deadline
from mustlink.core.result import MAX_ITER, STAGNATED, TIME_LIMIT, TOLERANCE, Convergence, Stagnation
from mustlink.errors import InputError
from mustlink.lyapunov.fields import LowRankField, LyapunovProblem
from mustlink.lyapunov.sources import SourceFactor, parts
from mustlink.space import Block, Gram, Series, Small

_COLUMNS = 256  # rank of a part when memory sets no limit
_ONE_PASS = 24  # blocks: as many are kept, so that they need not be computed again
_RING = 4  # blocks kept when all of them are computed again; more were measured not to help
_DROPPED = 0.1  # share of the tolerance for eigenvalues of h that are left out
_WINDOW = 30  # looks at an estimate that does not fall, see `Stagnation`
_MARGIN = 0.5  # of the tolerance, by which a first estimate of the residual undercuts it
_SAFE = 0.5  # share of ‖W‖² that is left of it without V
_BREAKDOWN = 1e-14  # β_k that is rounding: M has norm 2 or so, V_k norm 1


@dataclass(frozen=True, eq=False)
class KrylovBatch:
    """F of one part of Y: `residual` and `norm` are ‖MF + FM − 2μY‖ and ‖2μY‖ of that part."""

    field: LowRankField
    residual: float
    norm: float
    steps: int
    reason: str

    @property
    def converged(self) -> bool:
        """Whether the residual is within its share of the tolerance."""
        return self.reason == TOLERANCE


def convergence(problem: LyapunovProblem, batches: list[KrylovBatch], tol: float) -> Convergence:
    """What the batches of `solve_batches` come to; their fields are not looked at."""
    whole = problem.weight * problem.sources.norm
    total = sum(b.norm for b in batches)
    residuals = np.array([b.residual / b.norm * (total / whole) for b in batches])
    missed = {b.reason for b in batches if not b.converged}
    reason = next((one for one in (TIME_LIMIT, MAX_ITER, STAGNATED) if one in missed), TOLERANCE)
    steps = max((b.steps for b in batches), default=0)
    return Convergence("global Krylov", reason, steps, residuals, tol)


def solve_batches(
    problem: LyapunovProblem,
    *,
    tol: float = 1e-6,
    memory: int | None = None,
    max_columns: int | None = None,
    max_iter: int | None = None,
    on_step: Callable[[float], None] | None = None,
    deadline: Deadline = NEVER,
) -> Iterator[KrylovBatch]:
    """F = Σ F_b, one part of Y after the other: only one F_b needs to be held.

    `memory` bounds the bytes of one batch, result included; `max_columns` the rank of a part
    (default 256). A batch that would need more than `max_iter` products with M (default twice
    what its condition number implies) comes back as not converged. `on_step` gets an estimate of
    the relative residual. One whose estimate has not fallen by a tenth for 30 looks at it, and any
    at the `deadline`, comes back as it is. Shares of the tolerance: residuals add up,
    ‖R‖ <= Σ‖R_b‖, hence ‖R_b‖ <= tol·‖2μY‖·‖Y_b‖/Σ‖Y_b‖.

    Cost for rank r and K steps, K ~ ln(1/tol)/(2√μ) at worst: K products of S with r columns,
    twice when more than 24 blocks would have to be kept; (q + 4 … 24)·8mr bytes, q ~ 6 to 15.
    Raises InputError.
    """
    check_positive(problem.mu, "mu")
    tol = check_positive(tol, "tol")
    bound = _steps(problem.mu, tol)
    limit = 2 * bound if max_iter is None else as_integer(max_iter, "max_iter", low=1)
    ring = min(bound, limit) + 2 if min(bound, limit) + 2 <= _ONE_PASS else _RING
    columns = _COLUMNS if max_columns is None else as_integer(max_columns, "max_columns", low=2)
    if memory is not None:
        terms = _terms(problem.mu, tol)
        fit = int(memory / (8 * problem.size))
        if fit // (terms + ring) < min(columns, problem.sources.count):
            ring = _RING
        columns = min(columns, fit // (terms + ring))
        if columns < 2:
            least = 16 * problem.size * (terms + ring)
            raise InputError(
                f"memory: {memory:,} bytes cannot hold one pair on {problem.size:,} nodes; "
                f"give at least {least:,}"
            )
    whole = problem.sources.norm
    cut = list(parts(problem.sources, columns)) if whole > 0 else []
    share = tol * whole / max(sum(part.norm for part in cut), whole) if cut else tol
    for part in cut:
        yield _solve_part(GlobalLanczos(problem, part, ring), share, limit, on_step, deadline)


def _steps(mu: float, tol: float) -> int:
    """Products that reach `tol` for any Y: 1/(x + y) by polynomials on [μ, μ + 2]².

    The rate is that of conjugate gradients for M + μI (Simoncini & Druskin 2009).
    """
    root = np.sqrt((mu + 1.0) / mu)
    return 2 + int(np.ceil(np.log(4.0 * root / tol) / np.log((root + 1.0) / (root - 1.0))))


def _terms(mu: float, tol: float) -> int:
    """Columns of Z per column of Y: rank of 1/(x + y) to `tol` (Zolotarev; Beckermann 2004)."""
    return 1 + int(np.ceil(np.log(4.0 / tol) * np.log(4.0 * (mu + 2.0) / mu) / np.pi**2))


def _solve_part(
    run: GlobalLanczos,
    tol: float,
    limit: int,
    on_step: Callable[[float], None] | None,
    deadline: Deadline,
) -> KrylovBatch:
    """Steps until the estimate is small, then F and its true residual; more steps if that is not.

    The estimate √2·β‖h e_K‖ is exact when the columns of Y have the same spectrum.
    """
    part = run.part
    watch = Stagnation(1, _WINDOW)
    sign, size = np.sign(part.values), float(np.abs(part.values).sum())
    relative = part.norm / size  # ‖Y‖ in units of ρ²
    target = _MARGIN * tol
    while True:
        reason = _advance(run, target, limit, on_step, (watch, deadline))
        weights, w = run.solution()
        kept, dropped = _truncate(run, weights, w, _DROPPED * tol * relative)
        Z = run.combined(w[:, kept])
        result = run.rest(Z, weights[kept] * w[-1, kept], sign) + dropped
        result /= relative
        if result <= tol or reason or run.steps >= limit or run.beta[-1] == 0.0:
            break
        target *= _MARGIN * tol / result
    scale = run.weight * size
    terms = tuple((Z[q], weight * sign * scale) for q, weight in enumerate(weights[kept]))
    field = LowRankField(terms, run.laplacian.size)
    norm = run.weight * part.norm
    reason = TOLERANCE if result <= tol else reason or MAX_ITER
    return KrylovBatch(field, result * norm, norm, run.steps, reason)


def _advance(
    run: GlobalLanczos,
    target: float,
    limit: int,
    on_step: Callable[[float], None] | None,
    ends: tuple[Stagnation, Deadline],
) -> str:
    """Steps until the estimated residual is below `target`; looked at less often as they cost.

    Why it ended before, if it did: as it stagnated, or at the deadline.
    """
    watch, deadline = ends
    check = run.steps + 1
    while run.steps < limit:
        run.step()
        if run.steps < check and run.steps < limit and run.beta[-1] > 0.0:
            continue
        check = run.steps + max(1, run.steps // 20)
        estimate = run.estimate()
        if on_step is not None:
            on_step(estimate)
        if estimate <= target or run.beta[-1] == 0.0:
            return ""
        if watch.update(np.array([estimate])).all():
            return STAGNATED
        if deadline.is_over:
            return TIME_LIMIT
    return ""


def _truncate(
    run: GlobalLanczos, weights: NDArray[np.float64], w: Small, allowed: float
) -> tuple[slice, float]:
    """Eigenvectors of h to keep, and a bound of what the others add to the residual, over 2μρ².

    ‖MΦJΦᵀ‖ <= ‖MΦ‖‖Φ‖ = ‖Tw‖ with T (K + 1, K), as if the blocks were orthonormal to rounding;
    where they no longer are, the bound, at most a tenth of the tolerance, is an estimate.
    """
    T = np.diag(run.alpha) + np.diag(run.beta[:-1], 1) + np.diag(run.beta[:-1], -1)
    product = np.vstack([T @ w, run.beta[-1] * w[-1]])
    bound = np.cumsum(2.0 * np.abs(weights) * np.linalg.norm(product, axis=0))
    first = min(int(np.searchsorted(bound, allowed, side="right")), weights.size - 1)
    return slice(first, None), float(bound[first - 1]) if first else 0.0


class GlobalLanczos:
    """The blocks V_1 … V_{K+1} of a part in a ring of the last few, and T."""

    def __init__(self, problem: LyapunovProblem, part: SourceFactor, ring: int) -> None:
        self.laplacian, self.mu, self.weight = problem.laplacian, problem.mu, problem.weight
        self.space = problem.laplacian.space
        self.part = part
        self.blocks = self.space.series(ring, part.values.size)
        self.alpha: list[float] = []
        self.beta: list[float] = []
        self._start()

    def _start(self) -> None:
        size = np.abs(self.part.values)
        self.space.blend(self.blocks[0], 0.0)
        rows = self.part.vectors * np.sqrt(size / size.sum())
        self.space.add_rows(self.blocks[0], self.part.nodes, rows)

    def slot(self, k: int) -> Block:
        """Place of block k."""
        return self.blocks[k % len(self.blocks)]

    @property
    def steps(self) -> int:
        """K."""
        return len(self.alpha)

    def _raw(self, k: int, a: float, scale: float) -> tuple[float, float]:
        """Block k + 1 = scale·((M − a)V_k − β_kV_{k-1}) into its place."""
        V = self.slot(k)
        back = self.beta[k - 1] if k else 0.0
        weights = (-scale, scale * (1.0 + self.mu - a), -scale * back)
        old = self.slot(k - 1) if k else V
        return self.laplacian.three_terms(V, old, weights, self.slot(k + 1))

    def step(self) -> None:
        """One more row of T.

        ‖W − aV‖² = ‖W‖² − a² saves a pass, but an error of ‖V‖ grows a²/‖W − aV‖² times in a
        step: M is shifted by the last α, which makes a small, and the norm is taken afresh
        where that does not help.
        """
        k = self.steps
        centre = self.alpha[-1] if k else 1.0 + self.mu
        a, square = self._raw(k, centre, 1.0)
        V, W = self.slot(k), self.slot(k + 1)
        rest = square - a * a
        if rest > _SAFE * square:
            b = float(np.sqrt(rest))
            self.space.blend(W, 1.0 / b, (V, -a / b))
        else:
            self.space.blend(W, 1.0, (V, -a))
            b = float(np.sqrt(self.space.dots(W, W).sum()))
            b = b if b > _BREAKDOWN else 0.0  # an invariant subspace
            self.space.blend(W, 1.0 / b if b else 0.0)
        a += centre
        self.alpha.append(a)
        self.beta.append(b)

    def _ritz(self) -> tuple[NDArray[np.float64], Small]:
        values, vectors = la.eigh_tridiagonal(self.alpha, self.beta[:-1])
        return np.asarray(values, np.float64), np.asarray(vectors, np.float64)

    def estimate(self) -> float:
        """√2·β‖h e_K‖: the relative residual if the columns of Y had one and the same spectrum."""
        values, Q = self._ritz()
        last = Q[0] * ((Q[-1] * Q[0]) @ (1.0 / (values[:, None] + values)))  # Qᵀh e_K
        return float(np.sqrt(2.0) * self.beta[-1] * np.linalg.norm(last))

    def solution(self) -> tuple[NDArray[np.float64], Small]:
        """Eigenvalues, ascending, and eigenvectors of h with Th + hT = e_1e_1ᵀ."""
        values, Q = self._ritz()
        h = Q @ (np.outer(Q[0], Q[0]) / (values[:, None] + values)) @ Q.T
        weights, w = dense_algebra.eigh(h)
        return np.asarray(weights, np.float64), np.asarray(w, np.float64)

    def combined(self, C: Small) -> Series:
        """Σ_k C_kq V_k for every q: from the ring while it holds all blocks, else by a second pass.

        V_K and V_{K+1} are in their places afterwards.
        """
        K, ring = self.steps, len(self.blocks)
        out = self.space.series(C.shape[1], self.part.values.size)
        if ring > K:
            self.space.mix(out, self.blocks, np.arange(K), C)
            return out
        self._start()
        done = 0
        for k in range(K):
            if k - done == ring - 2 or k == K - 1:
                new = np.arange(done, k + 1)
                self.space.mix(out, self.blocks, new % ring, C[new])
                done = k + 1
            self._raw(k, self.alpha[k], 1.0 / self.beta[k] if self.beta[k] else 0.0)
        return out

    def rest(self, Z: Series, last: NDArray[np.float64], sign: NDArray[np.float64]) -> float:
        """‖β(V J Uᵀ + U J Vᵀ)‖ with V = V_{K+1} and U = Σ_q last_q Φ_q, from Gram matrices."""
        at = (self.steps + 1) % len(self.blocks)  # the place that the next step would write to
        V, U = self.slot(self.steps), self.blocks[at]
        self.space.blend(U, 0.0)
        self.space.mix(self.blocks[at : at + 1], Z, np.arange(len(Z)), last[:, None])
        VU, VV, UU = self.space.sums(Gram(V, U), Gram(V, V), Gram(U, U))
        inner = VU * sign
        outer = float(np.sum((sign[:, None] * VV * sign) * UU))
        square = 2.0 * outer + 2.0 * float(np.sum(inner * inner.T))
        return self.beta[-1] * float(np.sqrt(max(square, 0.0)))
