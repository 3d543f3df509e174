"""Global Lanczos: blocks V_k = p_k(M)V_1, orthonormal in the Frobenius product, and T."""

from __future__ import annotations

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray

from mustlink.kernels.lanczos_steps import mix, next_term, shift_scale
from mustlink.lyapunov.equation import LyapunovProblem
from mustlink.lyapunov.source_batches import Part
from mustlink.operators.laplacian import Block

_SAFE = 0.5  # share of ‖W‖² that is left of it without V
_BREAKDOWN = 1e-14  # β_k that is rounding: M has norm 2 or so, V_k norm 1


class GlobalLanczos:
    """The blocks V_1 … V_{K+1} of a part in a ring of the last few, and T."""

    def __init__(self, problem: LyapunovProblem, part: Part, ring: int) -> None:
        self.S, self.mu = problem.laplacian.S, problem.mu
        self.part = part
        self.blocks = np.empty((ring, problem.size, part.values.size))
        self.alpha: list[float] = []
        self.beta: list[float] = []
        self._start()

    def _start(self) -> None:
        size = np.abs(self.part.values)
        self.blocks[0] = 0.0
        self.blocks[0][self.part.nodes] = self.part.vectors * np.sqrt(size / size.sum())

    def slot(self, k: int) -> Block:
        """Place of block k."""
        return np.asarray(self.blocks[k % len(self.blocks)])

    @property
    def steps(self) -> int:
        """K."""
        return len(self.alpha)

    def _raw(self, k: int, a: float, scale: float) -> tuple[float, float]:
        """Block k + 1 = scale·((M − a)V_k − β_kV_{k-1}) into its place."""
        V = self.slot(k)
        back = self.beta[k - 1] if k else 0.0
        weights = (-scale, scale * (1.0 + self.mu - a), -scale * back)
        return next_term(self.S, V, self.slot(k - 1) if k else V, weights, self.slot(k + 1))

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
            shift_scale(W, V, a, 1.0 / b)
        else:
            shift_scale(W, V, a, 1.0)
            b = float(np.linalg.norm(W))
            b = b if b > _BREAKDOWN else 0.0  # an invariant subspace
            W *= 1.0 / b if b else 0.0
        a += centre
        self.alpha.append(a)
        self.beta.append(b)

    def _ritz(self) -> tuple[NDArray[np.float64], Block]:
        values, vectors = la.eigh_tridiagonal(self.alpha, self.beta[:-1])
        return np.asarray(values, np.float64), np.asarray(vectors, np.float64)

    def estimate(self) -> float:
        """√2·β‖h e_K‖: the relative residual if the columns of Y had one and the same spectrum."""
        values, Q = self._ritz()
        last = Q[0] * ((Q[-1] * Q[0]) @ (1.0 / (values[:, None] + values)))  # Qᵀh e_K
        return float(np.sqrt(2.0) * self.beta[-1] * np.linalg.norm(last))

    def solution(self) -> tuple[NDArray[np.float64], Block]:
        """Eigenvalues, ascending, and eigenvectors of h with Th + hT = e_1e_1ᵀ."""
        values, Q = self._ritz()
        h = Q @ (np.outer(Q[0], Q[0]) / (values[:, None] + values)) @ Q.T
        weights, w = la.eigh(h)
        return np.asarray(weights, np.float64), np.asarray(w, np.float64)

    def combined(self, C: Block) -> NDArray[np.float64]:
        """Σ_k C_kq V_k, (m, q, r): from the ring while it holds all blocks, else by a second pass.

        V_K and V_{K+1} are in their places afterwards.
        """
        K, ring = self.steps, len(self.blocks)
        out = np.zeros((self.blocks.shape[1], C.shape[1], self.blocks.shape[2]))
        if ring > K:
            mix(self.blocks, np.arange(K), C, out.transpose(1, 0, 2))
            return out
        self._start()
        done = 0
        for k in range(K):
            if k - done == ring - 2 or k == K - 1:
                new = np.arange(done, k + 1)
                mix(self.blocks, new % ring, C[new], out.transpose(1, 0, 2))
                done = k + 1
            self._raw(k, self.alpha[k], 1.0 / self.beta[k] if self.beta[k] else 0.0)
        return out
