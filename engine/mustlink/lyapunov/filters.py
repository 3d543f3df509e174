"""F as a sum of separable terms p(S) Y p(S) with non-negative coefficients of S."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.kernels.factored_entries import sort_by_size
from mustlink.linear.cg import Advance, silent
from mustlink.lyapunov.fields import (
    PIECES,
    ExhaustiveProblem,
    LocalField,
    Problem,
    each_of,
    spans_of,
)
from mustlink.lyapunov.sources import Sources
from mustlink.space import Block

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


# --- F by diffusion: every source spreads over the few nodes around it, and only there F is not 0

_QUADRATURE = 0.1  # share of the tolerance for writing F as exponentials
_TAIL = 0.1  # share of the bound for powers of S left out, at most
_STEPS, _LAST = 0.7, 0.3  # shares of the rest for what is dropped on the way, and at the end
_SINGLE = 1e-6  # tolerances from here on are far above the rounding of float32
_PREVIEW = 12  # steps after which the largest influence hardly falls
_SLACK = 1.0 - 1e-3  # of a threshold: products may be in single precision

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Diffusion:
    """F by sums of separable terms whose factors are cut off where they no longer matter.

    With h = D^-½x the powers of S are averages over neighbours: what is dropped from h never grows
    in the largest norm. An error of at most δ_q in the sources' factors changes F_ij by at most

        Σ_q ω_q δ_q (r_i v_q(j) + r_j v_q(i)),   r = D^½,  v_q = p_q(S)|B||C|s,

    s_a = max |B_ia|/r_i (see `Filter`). v is bounded beforehand and the thresholds of every step
    follow from it, so that no F_ij is off by more than tol times the largest |Y_ij|, and F by no
    more than tol/10 in the Frobenius norm otherwise. Sources can be spread all at once or in parts.
    Cost: the edges around every source, whatever the size of the graph; a dozen products with S.
    """

    problem: Problem
    filter: Filter
    plan: _Plan
    dtype: Any

    @classmethod
    def prepare(cls, problem: Problem, tol: float, places: Ints | None = None) -> Diffusion:
        """Choose filter and thresholds for all sources of a problem.

        Raises InputError where nothing is local.
        By the verbs of the Laplacian's space: it may be on disk, or on ranks. `places` (t,) are the
        nodes that the rows of the sources' B (t, c) are, None: all of them.
        """
        sought = filter_of(problem, _QUADRATURE * tol)
        allowed = tol * problem.sources.largest
        importance = _importance(problem, sought, places)
        lost = float(sought.left_out @ importance)
        if lost > _TAIL * allowed:  # degrees differ widely: more powers are needed
            beyond = 0.01 * _TAIL * allowed / lost
            sought = filter_of(problem, _QUADRATURE * tol, beyond)
            importance = _importance(problem, sought, places)
        dtype = np.float32 if tol >= _SINGLE else np.float64
        return cls(problem, sought, _plan(sought, importance, allowed), dtype)

    def spread(self, Y: Sources, advance: Advance = silent) -> LocalField:
        """F for some of the sources; the fields of all parts add up to F within the bound."""
        parts = self._columns(Y, advance)
        width = self.filter.weights.size
        counts = [np.diff(p[0]) for p in parts]
        ends = np.concatenate([[0], np.cumsum(np.concatenate([[], *counts]))]).astype(np.int64)
        rows = np.concatenate([np.empty(0, np.int32), *(p[1] for p in parts)])
        values = np.empty((rows.size, width), self.dtype)
        at = 0
        while parts:  # one part after the other is let go
            _, _, own = parts.pop(0)
            values[at : at + len(own)] = own
            at += len(own)
        spans = spans_of(Y.count, ends)
        each_of(lambda span: sort_by_size((ends, rows, values), span), spans)
        return LocalField(
            ends,
            rows,
            values,
            self.filter.weights,
            Y.C,
            self.problem.size,
            self.plan.bound,
            self.filter.error,
            self.problem.sources.largest,
        )

    def bytes_per_source(self) -> float:
        """About what a source costs `spread` and the evaluation of F, from an even sample."""
        Y = self.problem.sources
        chosen = np.unique(np.linspace(0, Y.count - 1, min(32, Y.count)).astype(np.int64))
        few = Sources(sp.csc_matrix(Y.B[:, chosen]), sp.csr_matrix((chosen.size, chosen.size)))
        reached = sum(p[1].size for p in self._columns(few, silent))
        entry = 3 * self.filter.weights.size * np.dtype(self.dtype).itemsize + 24
        return reached / chosen.size * entry

    def _columns(self, Y: Sources, advance: Advance) -> list[Any]:
        columns = self.problem.laplacian.local_diffusion(
            Y.B, self.filter.coefficients, self.plan.thresholds, self.plan.final, self.dtype
        )
        return each_of(columns, spans_of(Y.count, np.arange(Y.count + 1), 4 * PIECES), advance)


@dataclass(frozen=True)
class _Plan:
    """Thresholds (K+1,) of the steps, what is dropped at the end, the bound on |ΔF_ij|."""

    thresholds: Floats
    final: tuple[Floats, float]
    bound: float


def _plan(sought: Filter, importance: Floats, allowed: float) -> _Plan:
    worth = sought.tails[1:] @ importance  # what an error of 1 in step k = 1 … does to F at most
    lost = float(sought.left_out @ importance)
    rest = max(allowed - lost, 0.5 * allowed)
    thresholds = _STEPS * rest / (max(1, worth.size) * np.maximum(worth, 1e-300))
    last = _LAST * rest / importance.size  # for each of the Q terms
    return _Plan(np.append(0.0, thresholds), (importance, last), max(allowed, lost + rest))


def _importance(problem: Problem, sought: Filter, places: Ints | None) -> Floats:
    """What an error of 1 in h does to F through term q at most, (Q,)."""
    space = problem.laplacian.space
    largest = float(space.peaks(space.column(problem.laplacian.root_degree))[0])
    return np.asarray(2.0 * largest * sought.weights * _influence(problem, sought, places))


def _influence(problem: Problem, sought: Filter, places: Ints | None) -> Floats:
    """max_i v_q(i) at most, (Q,), v_q = p_q(S)|B||C|s: how much error meets at one node.

    The first steps are taken; of the others it counts that the largest |x_i|/r_i never grows.
    """
    Y, laplacian = problem.sources, problem.laplacian
    space, root = laplacian.space, laplacian.root_degree
    at = np.arange(laplacian.size) if places is None else places
    B = abs(Y.B)
    start = B @ (abs(Y.C) @ sizes_of(Y, space.take(space.column(root), at)[:, 0]))
    x = space.zeros(1, laplacian.dtype)
    space.add_rows(x, at, np.asarray(start, dtype=x.dtype)[:, None])
    steps = min(sought.degree, _PREVIEW)
    powers = [x]
    for _ in range(steps):
        powers.append(laplacian.recurrence(powers[-1], [(1.0, 0.0, 0.0)]))
    v = space.peaks(space.combine(powers, sought.coefficients[: steps + 1]))
    rest = sought.tails[0] - sought.coefficients[: steps + 1].sum(axis=0)
    largest = float(space.peaks(space.column(root))[0])
    per_root = space.rowwise(_per_root, powers[-1], root)
    return np.asarray(v + rest * space.peaks(per_root) * largest)


def _per_root(x: Any, root: Floats) -> Any:
    return np.divide(x, root[:, None], out=np.zeros(x.shape), where=root[:, None] > 0)


def sizes_of(Y: Sources, root: Floats) -> Floats:
    """s_a = max_i |B_ia|/r_i of every source, (c,); `root` (t,) is r at the rows of B."""
    inverse = sp.diags(1.0 / root, format="csr")
    return np.asarray(sp.csc_matrix(inverse @ abs(Y.B)).max(axis=0).todense()).ravel()


def starts_of(parts: list[Sources], root: Floats) -> Floats:
    """Σ_a |b_a|/s_a over the sources of every part, (t, p); `root` (t,) is D^½ at their rows."""
    result = [np.asarray(abs(Y.B) @ (1.0 / np.maximum(sizes_of(Y, root), 1e-300))) for Y in parts]
    return np.column_stack(result)


def reached(diffusion: Diffusion, places: Ints, starts: Floats) -> Block:
    """1 where a source of a part can be above the thresholds, else 0, (m, p) in single precision.

    S has no negative entry: what is spread from the sum of the |b_a|, each of size 1, is at every
    node and after every step at least as large as from any of them, and so is what a threshold
    leaves of it. The regions are those of the sources and hardly more, where these lie apart.
    Cost: a product with S of p columns for every step that anything is left after.
    """
    laplacian = diffusion.problem.laplacian
    space, root = laplacian.space, laplacian.root_degree
    x = space.zeros(starts.shape[1], laplacian.dtype)
    space.add_rows(x, places, starts.astype(x.dtype))
    seen = space.rowwise(lambda x: (x > 0).astype(np.float32), x)
    for threshold in diffusion.plan.thresholds[1:] * _SLACK:

        def above(x: Any, r: Floats, least: float = float(threshold)) -> Any:
            return np.where(x >= least * r[:, None], x, 0.0).astype(x.dtype)

        x = space.rowwise(above, laplacian.recurrence(x, [(1.0, 0.0, 0.0)]), root)
        if not space.peaks(x).any():
            break
        seen = space.rowwise(lambda old, x: np.where(x > 0, np.float32(1.0), old), seen, x)
    return seen
