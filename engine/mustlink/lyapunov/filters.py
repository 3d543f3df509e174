"""F as a sum of separable terms p(S) Y p(S) with non-negative coefficients of S."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.lyapunov.equation import ExhaustiveProblem, Problem
from mustlink.lyapunov.exponentials import exponential_sum

_DEGREE = 4_000  # beyond it nothing is local any more
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Filter:
    """F ≈ Σ_q ω_q p_q(S) Y p_q(S) with p_q(s) = Σ_k c_kq s^k, all c >= 0.

    `coefficients` c (K+1, Q), `weights` ω (Q,). `error` is the relative error of F in the Frobenius
    norm that the terms leave; `left_out` (Q,) is Σ_{k>K} c_kq of the powers left out.
    """

    coefficients: Floats
    weights: Floats
    left_out: Floats
    error: float

    @property
    def degree(self) -> int:
        """Highest power K of S: how many edges away a source is seen at most."""
        return int(self.coefficients.shape[0]) - 1

    @property
    def tails(self) -> Floats:
        """What a change of x_k by one does to Σ_{j>=k} c_jq x_j at most, (K+1, Q)."""
        return np.cumsum(self.coefficients[::-1], axis=0)[::-1] + self.left_out


def filter_of(problem: Problem, tol: float, beyond: float = 0.01) -> Filter:
    """Write the solution of a problem as separable terms, relative error <= tol of F.

    Lyapunov: 1/(a + b) = Σ w e^(−ta)e^(−tb) on the spectrum of M, and e^(−tM) = e^(−t(1+μ)) Σ
    t^k S^k/k!. E2CP is one term, (1 − α)Σ α^k S^k. Powers are left out that weigh less than
    `beyond`·tol. Raises InputError where nothing local is left.
    """
    if isinstance(problem, ExhaustiveProblem):
        return _geometric(problem.alpha, tol, beyond)
    mu = problem.weight / 2.0
    _check_degree(int(0.1 / mu), f"mu: {mu:g}")  # the longest time is about 1/μ or more
    found = exponential_sum(2.0 * mu, 2.0 * mu + 4.0, tol)
    weights = 2.0 * mu * found.weights
    degree = _poisson_degree(float(found.times.max()), mu, beyond * tol / weights.sum())
    c = _poisson(found.times, mu, degree)
    left = np.maximum(np.exp(-mu * found.times) - c.sum(axis=0), 0.0)
    return Filter(c, weights, left, found.error)


def _geometric(alpha: float, tol: float, beyond: float) -> Filter:
    degree = int(np.ceil(np.log(beyond * tol) / np.log(alpha)))
    _check_degree(degree, f"alpha: {alpha:g}")
    c = (1.0 - alpha) * alpha ** np.arange(degree + 1.0)
    left = alpha ** (degree + 1.0)
    return Filter(c[:, None], np.ones(1), np.array([left]), 2.0 * left)


def _poisson(times: Floats, mu: float, degree: int) -> Floats:
    """e^(−t(1+μ)) t^k/k! for k = 0 … degree, (degree + 1, Q)."""
    k = np.arange(1.0, degree + 1.0)
    logs = np.cumsum(np.log(times) - np.log(k)[:, None], axis=0)
    return np.asarray(np.exp(np.vstack([np.zeros_like(times), logs]) - times * (1.0 + mu)))


def _poisson_degree(time: float, mu: float, share: float) -> int:
    """Least degree beyond which the powers weigh less than `share` for the longest time."""
    top = int(time + 12.0 * np.sqrt(time) + 60.0)
    _check_degree(top, f"mu: {mu:g}")
    c = _poisson(np.array([time]), mu, top)[:, 0]
    beyond = np.cumsum(c[::-1])[::-1]
    return int(np.searchsorted(-beyond, -share))


def _check_degree(degree: int, given: str) -> None:
    if degree > _DEGREE:
        raise InputError(
            f"{given} spreads over {degree} steps and more, farther than diffusion is for; use "
            'solver="krylov" (SRCP only) or "dense", or a larger mu, a smaller alpha'
        )
