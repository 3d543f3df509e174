"""F by diffusion: every source spreads over the few nodes around it, and only there F is not 0.

For small μ that is most of the graph: then sources are spread over all nodes, many at a time, as
blocks of vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.deadline import NEVER, Deadline
from mustlink.errors import InputError
from mustlink.kernels.factored_entries import sort_by_size
from mustlink.linear.by_columns import Advance, silent
from mustlink.lyapunov.equation import Problem
from mustlink.lyapunov.fields import PIECES, LocalField, LowRankField, each_of, piece, spans_of
from mustlink.lyapunov.filters import FarFilter, Filter, far_filter, filter_of
from mustlink.lyapunov.sources import Sources, source_parts
from mustlink.numeric import dense_algebra
from mustlink.operators.local_diffusion import local_diffusion
from mustlink.space import Block, Small

_QUADRATURE = 0.1  # share of the tolerance for writing F as exponentials
_TAIL = 0.1  # share of the bound for powers of S left out, at most
_STEPS, _LAST = 0.7, 0.3  # shares of the rest for what is dropped on the way, and at the end
_SINGLE = 1e-6  # tolerances from here on are far above the rounding of float32
_PREVIEW = 12  # steps after which the largest influence hardly falls
_SLACK = 1.0 - 1e-3  # of a threshold: products may be in single precision
_TOGETHER = 256  # sources that are spread over all nodes at once when memory sets no limit
_ZERO = 1e-14  # eigenvalue of C, as a share of the largest, that is rounding

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

    def bytes_per_source(self, sample: int = 32) -> float:
        """About what a source costs `spread` and the evaluation of F, from an even sample."""
        Y = self.problem.sources
        chosen = np.unique(np.linspace(0, Y.count - 1, min(sample, Y.count)).astype(np.int64))
        few = Sources(sp.csc_matrix(Y.B[:, chosen]), sp.csr_matrix((chosen.size, chosen.size)))
        reached = sum(p[1].size for p in self._columns(few, silent))
        entry = 3 * self.filter.weights.size * np.dtype(self.dtype).itemsize + 24
        return reached / chosen.size * entry

    def _columns(self, Y: Sources, advance: Advance) -> list[Any]:
        columns = local_diffusion(
            self.problem.laplacian,
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
    return np.asarray(v + rest * space.peaks(space.rowwise(_by_root, powers[-1], root)) * largest)


def sizes_of(Y: Sources, root: Floats) -> Floats:
    """s_a = max_i |B_ia|/r_i of every source, (c,); `root` (t,) is r at the rows of B."""
    inverse = sp.diags(1.0 / root, format="csr")
    return np.asarray(sp.csc_matrix(inverse @ abs(Y.B)).max(axis=0).todense()).ravel()


def _by_root(x: Any, root: Floats) -> Any:
    return np.divide(x, root[:, None], out=np.zeros(x.shape), where=root[:, None] > 0)


def starts_of(parts: list[Sources], root: Floats) -> Floats:
    """Σ_a |b_a|/s_a over the sources of every part, (t, p); `root` (t,) is D^½ at their rows."""
    found = [np.asarray(abs(Y.B) @ (1.0 / np.maximum(sizes_of(Y, root), 1e-300))) for Y in parts]
    return np.column_stack(found)


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
    seen = space.rowwise(_there, x)
    for threshold in diffusion.plan.thresholds[1:]:
        x = laplacian.recurrence(x, [(1.0, 0.0, 0.0)])
        x = space.rowwise(_above(float(threshold) * _SLACK), x, root)
        if not space.peaks(x).any():
            break
        seen = space.rowwise(_either, seen, x)
    return seen


def _there(x: Any) -> Any:
    return (x > 0).astype(np.float32)


def _either(seen: Any, x: Any) -> Any:
    return np.where(x > 0, np.float32(1.0), seen)


def _above(threshold: float) -> Any:
    def cut(x: Any, root: Floats) -> Any:
        return np.where(x >= threshold * root[:, None], x, 0.0).astype(x.dtype)

    return cut


# --- Sources that reach most nodes


@dataclass(eq=False)
class FarDiffusion:
    """F = Σ_b F_b of the parts of the constraints, each of low rank; only one need be held.

    With C = UΛUᵀ a part is Σ_q ω_q Z_qΛZ_qᵀ, Z_q = p_q(S)BU. F is within `error` of its size in
    the Frobenius norm: a tenth of the tolerance, or more if the `deadline` came first. `memory`
    bounds the bytes of a part, result included. Cost: K products of S with every column and up to
    K·Q sums of two blocks, see `far_filter`; Q + 3 blocks. Raises InputError.
    """

    problem: Problem
    tol: float
    memory: float | None = None
    advance: Advance = silent
    deadline: Deadline = NEVER

    def __post_init__(self) -> None:
        self.filter: FarFilter = far_filter(self.problem, _QUADRATURE * self.tol)
        self.degree = len(self.filter.coefficients) - 1  # or less, at the deadline

    @property
    def error(self) -> float:
        """‖ΔF‖/‖F‖, at most."""
        return float(self.filter.errors[self.degree])

    def fields(self) -> Iterator[LowRankField]:
        """F of one part after the other."""
        Y, m = self.problem.sources, self.problem.size
        columns = self._columns(Y.count)
        parts = [Y] if Y.count <= columns else list(source_parts(Y, columns))
        for done, part in enumerate(parts):
            theta, U = dense_algebra.eigh(part.C.toarray())
            there = np.abs(theta) > _ZERO * np.abs(theta).max(initial=0.0)
            B = sp.csr_matrix(part.B)
            nodes = np.flatnonzero(np.diff(B.indptr))
            Z = self._spread(nodes, B[nodes] @ U[:, there], piece(self.advance, done, len(parts)))
            pairs = zip(Z, self.filter.weights, strict=True)
            yield LowRankField(tuple((z, weight * theta[there]) for z, weight in pairs), m)

    def _columns(self, count: int) -> int:
        """How many sources are spread together."""
        if self.memory is None:
            return _TOGETHER
        each = 8 * self.problem.size * (self.filter.weights.size + 3)
        columns = min(_TOGETHER, int(self.memory / each))
        if columns < min(2, count):
            raise InputError(
                f"memory: {int(self.memory):,} bytes cannot hold one pair on {self.problem.size:,} "
                f"nodes; give at least {2 * each:,}"
            )
        return columns

    def _spread(self, nodes: Ints, rows: Small, advance: Advance) -> list[Block]:
        """p_q(S)X for every q; X is 0 but for its `rows` at `nodes`."""
        laplacian, c = self.problem.laplacian, self.filter.coefficients
        space: Any = laplacian.space
        new = space.zeros(rows.shape[1])
        space.add_rows(new, nodes, rows)
        found = [space.zeros(rows.shape[1]) for _ in range(c.shape[1])]
        old = new
        for k in range(len(c)):
            if k:
                after = laplacian.recurrence(new, [(min(k, 2), 0.0, 0.0)])
                if k > 1:
                    space.blend(after, 1.0, (old, -1.0))
                old, new = new, after
            self.degree = min(self.degree, k) if self.deadline.is_over else self.degree
            last = k >= self.degree
            if k % 2 or last:  # a pass over the results for two terms
                for q in np.flatnonzero(c[max(k - 1, 0)]):
                    before = ((old, c[k - 1, q]),) if k % 2 else ()
                    space.blend(found[q], 1.0, (new, c[k, q]), *before)
            advance(k / len(c))
            if last:
                break
        return found
