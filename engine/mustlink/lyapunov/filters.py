"""F as a sum of separable terms p(S) Y p(S) with non-negative coefficients of S."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.lyapunov.equation import ExhaustiveProblem, Problem

_DEGREE = 4_000  # beyond it nothing is local any more
_TERMS = 24
_REWEIGHTINGS = 12  # Lawson steps from the least-squares to the nearly minimax fit
_PER_TERM = 40  # points per term at which the fit is made
_RANGE = 60.0  # of logarithms
_IDLE = 1e-3  # of the tolerance: terms below it are dropped
_CHECKS = 10  # times as many points at which it is checked
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
    result = exponential_sum(2.0 * mu, 2.0 * mu + 4.0, tol)
    weights = 2.0 * mu * result.weights
    degree = _poisson_degree(float(result.times.max()), mu, beyond * tol / weights.sum())
    c = _poisson(result.times, mu, degree)
    left = np.maximum(np.exp(-mu * result.times) - c.sum(axis=0), 0.0)
    return Filter(c, weights, left, result.error)


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


@dataclass(frozen=True)
class ExponentialSum:
    """1/x ≈ Σ w_q exp(−t_q x) for x in [low, high]; `error` is the largest relative one there."""

    times: Floats
    weights: Floats
    error: float


def exponential_sum(low: float, high: float, tol: float) -> ExponentialSum:
    """The shortest sum with relative error <= tol on [low, high], 0 < low < high.

    Terms are added one by one; times and weights, all positive, are fitted by weighted least
    squares in their logarithms, from the previous sum stretched by one term and from Gauss and
    Laguerre's quadrature of ∫ e^(−tx)dt, and reweighted towards the smallest largest error (Lawson
    1961). About log(1/tol)·log(high/low)/10 terms: for μ = 0.2 they are 4, 5, 6 for 3e-4, 3e-5,
    3e-6. The error is checked on a finer grid. Raises InputError where rounding ends before the
    tolerance, below about 1e-9. Cost: 0.1 s for the usual, seconds where high/low is in the
    thousands and tol next to 1e-9.
    """
    ratio = max(high / low, 1.0 + 1e-6)
    logs: Floats | None = None
    best = np.inf
    for terms in range(1, _TERMS + 1):
        starts = [_laguerre(terms, ratio)] + ([] if logs is None else [_stretched(logs)])
        logs = min((_fitted(one, ratio) for one in starts), key=lambda one: _error(one, ratio))
        error = _error(logs, ratio)
        if error <= (1.0 - _TERMS * _IDLE) * tol:
            t, w = _pair(logs)
            order = np.argsort(t)
            order = order[w[order] * np.exp(-t[order]) > _IDLE * tol]  # a term may have run away
            error = _error(np.log(np.concatenate([t[order], w[order]])), ratio)
            return ExponentialSum(t[order] / low, w[order] / low, error)
        best = min(best, error)
    raise InputError(
        f"tol: 1/x cannot be written as exponentials to {tol:.1e} ({best:.1e} reached), which is a "
        'tenth of the tolerance; ask for less, or use solver="krylov"'
    )


def _pair(logs: Floats) -> tuple[Floats, Floats]:
    """Times and weights; a step of the fit may leave the range of exp."""
    both = np.exp(np.minimum(np.maximum(logs, -_RANGE), _RANGE))
    return both[: logs.size // 2], both[logs.size // 2 :]


def _error(logs: Floats, ratio: float) -> float:
    x = _grid(ratio, _CHECKS * _PER_TERM * logs.size // 2)
    return float(np.abs(_misfit(logs, x)).max())


def _laguerre(terms: int, ratio: float) -> Floats:
    """1/x = ∫ e^(−tx) dt by Gauss-Laguerre quadrature, exact at the middle of the interval."""
    s, w = np.polynomial.laguerre.laggauss(terms)
    middle = np.log(ratio) / 2.0
    return np.concatenate([np.log(s) - middle, np.log(w) + s - middle])


def _grid(ratio: float, count: int) -> Floats:
    return np.asarray(np.exp(np.linspace(0.0, np.log(ratio), count)))


def _misfit(logs: Floats, x: Floats) -> Floats:
    """x·Σ w exp(−tx) − 1 for logarithms (log t, log w)."""
    t, w = _pair(logs)
    return np.asarray((x[:, None] * np.exp(-x[:, None] * t)) @ w - 1.0)


def _fitted(logs: Floats, ratio: float) -> Floats:
    """Lawson's reweighted least squares on [1, ratio]; the best of all steps."""
    x = _grid(ratio, _PER_TERM * logs.size // 2)
    weight = np.ones(x.size)
    best, least = logs, np.inf
    for _ in range(_REWEIGHTINGS):
        logs = _least_squares(logs, x, np.sqrt(weight / weight.sum()))
        size = np.abs(_misfit(logs, x))
        if size.max() < least:
            best, least = logs, float(size.max())
        weight = weight * size
        weight = weight / weight.max() + 1e-12
    return best


def _least_squares(logs: Floats, x: Floats, s: Floats) -> Floats:
    """The minimum of ‖s·misfit‖ from a start, by Levenberg and Marquardt's method.

    Called hundreds of times: by MINPACK's own name, which is twice as fast as `least_squares`.
    """

    def misfit(p: Floats) -> Floats:
        return s * _misfit(p, x)

    def slope(p: Floats) -> Floats:
        t, w = _pair(p)
        terms = x[:, None] * np.exp(-x[:, None] * t) * w
        return s[:, None] * np.hstack([-x[:, None] * t * terms, terms])

    how: Any = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15, "maxfev": 60, "full_output": True}
    return np.asarray(scipy.optimize.leastsq(misfit, logs, Dfun=slope, **how)[0])


def _stretched(logs: Floats) -> Floats:
    """A start with one term more: both curves read off at one more place."""
    t, w = np.split(logs, 2)
    if t.size == 1:
        return np.concatenate([t - 1.0, t + 1.0, w - 1.0, w])
    order = np.argsort(t)
    old, new = np.linspace(0.0, 1.0, t.size), np.linspace(0.0, 1.0, t.size + 1)
    return np.concatenate([np.interp(new, old, t[order]), np.interp(new, old, w[order])])
