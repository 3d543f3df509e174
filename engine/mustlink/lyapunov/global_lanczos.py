"""Global Lanczos: blocks V_k = p_k(M)V_1, orthonormal in the Frobenius product, and T."""

from __future__ import annotations

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray

from mustlink.lyapunov.equation import LyapunovProblem
from mustlink.lyapunov.source_batches import Part
from mustlink.numeric import dense_algebra
from mustlink.space import Block, Gram, Series, Small

_SAFE = 0.5  # share of ‖W‖² that is left of it without V
_BREAKDOWN = 1e-14  # β_k that is rounding: M has norm 2 or so, V_k norm 1


class GlobalLanczos:
    """The blocks V_1 … V_{K+1} of a part in a ring of the last few, and T."""

    def __init__(self, problem: LyapunovProblem, part: Part, ring: int) -> None:
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
