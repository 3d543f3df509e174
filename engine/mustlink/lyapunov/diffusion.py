"""F by diffusion: every source spreads over the few nodes around it, and only there F is not 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.factored_entries import sort_by_size
from mustlink.linear.cg import Advance, silent
from mustlink.lyapunov.equation import Problem
from mustlink.lyapunov.fields import PIECES, LocalField, each_of, spans_of
from mustlink.lyapunov.filters import Filter, filter_of
from mustlink.lyapunov.sources import Sources
from mustlink.space import Block

_QUADRATURE = 0.1  # share of the tolerance for writing F as exponentials
_TAIL = 0.1  # share of the bound for powers of S left out, at most
_STEPS, _LAST = 0.7, 0.3  # shares of the rest for what is dropped on the way, and at the end
_SINGLE = 1e-6  # tolerances from here on are far above the rounding of float32
_PREVIEW = 12  # steps after which the largest influence hardly falls
_SLACK = 1.0 - 1e-3  # of a threshold: products may be in single precision

Floats = NDArray[np.float64]
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
            Y.B,
            self.filter.coefficients,
            self.plan.thresholds,
            self.plan.final,
            self.dtype,
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
