"""F by diffusion: every source spreads over the few nodes around it, and only there F is not 0."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.diffusion import diffused_columns, workspace
from mustlink.kernels.pairwise import (
    mirror,
    pattern_entries,
    sort_by_size,
    strongest_entries,
)
from mustlink.lyapunov.edges import NewEdges, none, once
from mustlink.lyapunov.filters import Filter, filter_of
from mustlink.lyapunov.problem import Problem, Sources
from mustlink.operators.laplacian import Block

_QUADRATURE = 0.1  # share of the tolerance for writing F as exponentials
_TAIL = 0.1  # share of the bound for powers of S left out, at most
_STEPS, _LAST = 0.7, 0.3  # shares of the error bound for what is dropped on the way, and at the end
_SINGLE = 1e-6  # tolerances from here on are far above the rounding of float32
FLOOR = 0.1  # of the bound: F above it makes an edge; errors were measured to be 1/15 of the bound
_MISSED = 1 / 16  # products below this share of that are left out of the search for edges
_PREVIEW = 12  # steps after which the largest influence hardly falls
_TASKS = 64  # pieces of work, whatever the number of threads

Floats = NDArray[np.float64]
Advance = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class LocalField:
    """F = Σ_q ω_q G_qCG_qᵀ with sparse G_q (m, c): `ends` (c+1,), `rows`, `values` (nnz, Q).

    Every entry of F is within `bound` of what the filter's separable terms give exactly, and those
    are within `quadrature`·‖F‖ of the solution in the Frobenius norm. `unit` is the largest
    |Y_ij|, `steps` the highest power of S.
    """

    ends: NDArray[np.int64]
    rows: NDArray[np.int32]
    values: NDArray[Any]
    weights: Floats
    C: sp.csr_matrix
    size: int
    bound: float
    quadrature: float
    steps: int
    unit: float

    @property
    def accuracy(self) -> float:
        """The bound on |ΔF_ij| as a share of the largest |Y_ij|."""
        return self.bound / self.unit

    @property
    def reach(self) -> float:
        """Mean number of nodes that a source reaches."""
        return self.rows.size / max(1, self.ends.size - 1)

    def dot(self, X: Block) -> Block:
        """FX for a block (m, b)."""
        found = np.zeros((self.size, X.shape[1]))
        for q, weight in enumerate(self.weights):
            parts = (self.values[:, q].astype(np.float64), self.rows, self.ends)
            G = sp.csc_matrix(parts, shape=(self.size, self.ends.size - 1))
            found += weight * (G @ (self.C @ (G.T @ X)))
        return found

    @cached_property
    def _listing(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
        """For every node the sources that reach it and where their values are."""
        places = np.arange(self.rows.size, dtype=np.int64)
        shape = (self.size, self.ends.size - 1)
        T = sp.csc_matrix((places, self.rows, self.ends), shape=shape).tocsr()
        return T.indptr.astype(np.int64), T.indices.astype(np.int32), np.asarray(T.data)

    def on_pattern(self, pattern: sp.csr_matrix) -> Floats:
        """F_ij for every stored (i, j) of a symmetric pattern with sorted rows."""
        out = np.zeros(pattern.nnz)
        byrow = self.values[self._listing[2]]
        factor = (self.ends, self.rows, self.values)

        def part(span: tuple[int, int]) -> None:
            pattern_entries(pattern, span, self._listing, factor, byrow, self.C, self.weights, out)

        _all(part, _spans(self.size, self._listing[0]))
        mirror(pattern, out)
        return out

    def strongest(self, pattern: sp.csr_matrix, count: int) -> NewEdges:
        """The `count` largest F_ij of every row outside the pattern that exceed 1/10 of the bound.

        Candidates are found without the products that are below 1/160 of the bound, which makes
        the search as local as F itself; their F is then computed in full.
        """
        if count == 0 or self.rows.size == 0:
            return none()
        count = min(count, self.size)
        factor = (self.ends, self.rows, self.values)
        limits = (self.bound * FLOOR, self.bound * FLOOR * _MISSED)

        def part(span: tuple[int, int]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
            return strongest_entries(
                pattern, span, self._listing, factor, self.C, self.weights, count, limits
            )

        parts = _all(part, _spans(self.size, self._listing[0]))
        first, second = (np.concatenate([p[side] for p in parts]) for side in (0, 1))
        pairs = once(first, second, np.zeros(first.size), self.size)
        candidates = pairs.pattern(self.size)
        F = self.on_pattern(candidates)
        rows = np.repeat(np.arange(self.size), np.diff(candidates.indptr))
        upper = (rows < candidates.indices) & (self.bound * FLOOR < F)
        return NewEdges(
            rows[upper].astype(np.int64), candidates.indices[upper].astype(np.int64), F[upper]
        )


def solve_diffusion(
    problem: Problem, *, tol: float = 1e-4, advance: Advance = lambda _: None
) -> LocalField:
    """F by sums of separable terms whose factors are cut off where they no longer matter.

    With h = D^-½x the powers of S are averages over neighbours: what is dropped from h never grows
    in the largest norm. An error of at most δ_q in the sources' factors changes F_ij by at most

        Σ_q ω_q δ_q (r_i v_q(j) + r_j v_q(i)),   r = D^½,  v_q = p_q(S)|B||C|s,

    s_a = max |B_ia|/r_i (see `Filter`). v is bounded beforehand and the thresholds of every step
    follow from it, so that no F_ij is off by more than tol times the largest |Y_ij|, and F by no
    more than tol/10 in the Frobenius norm otherwise. Raises InputError where nothing is local.
    Cost: the edges around every source, whatever the size of the graph; a dozen products with S.
    """
    return Diffusion.prepare(problem, tol).spread(problem.sources, advance)


@dataclass(frozen=True, eq=False)
class Diffusion:
    """A problem with its filter and thresholds: sources can be spread all at once or in parts."""

    problem: Problem
    filter: Filter
    plan: _Plan
    dtype: Any

    @classmethod
    def prepare(cls, problem: Problem, tol: float) -> Diffusion:
        """Choose filter and thresholds for all sources of a problem, see `solve_diffusion`."""
        sought = filter_of(problem, _QUADRATURE * tol)
        allowed = tol * largest_entry(problem.sources)
        importance = _importance(problem, sought)
        lost = float(sought.left_out @ importance)
        if lost > _TAIL * allowed:  # degrees differ widely: more powers are needed
            beyond = 0.01 * _TAIL * allowed / lost
            sought = filter_of(problem, _QUADRATURE * tol, beyond)
            importance = _importance(problem, sought)
        dtype = np.float32 if tol >= _SINGLE else np.float64
        return cls(problem, sought, _plan(sought, importance, allowed), dtype)

    def spread(self, Y: Sources, advance: Advance = lambda _: None) -> LocalField:
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
        spans = _spans(Y.count, ends)
        _all(lambda span: sort_by_size((ends, rows, values), span), spans)
        return LocalField(
            ends,
            rows,
            values,
            self.filter.weights,
            Y.C,
            self.problem.size,
            self.plan.bound,
            self.filter.error,
            self.filter.degree,
            largest_entry(self.problem.sources),
        )

    def bytes_per_source(self, sample: int = 32) -> float:
        """About what a source costs `spread` and the evaluation of F, from an even sample."""
        Y = self.problem.sources
        chosen = np.unique(np.linspace(0, Y.count - 1, min(sample, Y.count)).astype(np.int64))
        few = Sources(sp.csc_matrix(Y.B[:, chosen]), sp.csr_matrix((chosen.size, chosen.size)))
        reached = sum(p[1].size for p in self._columns(few, lambda _: None))
        entry = 3 * self.filter.weights.size * np.dtype(self.dtype).itemsize + 24
        return reached / chosen.size * entry

    def _columns(self, Y: Sources, advance: Advance) -> list[Any]:
        laplacian = self.problem.laplacian
        spaces = threading.local()

        def part(span: tuple[int, int]) -> Any:
            if not hasattr(spaces, "own"):
                spaces.own = workspace(self.problem.size, self.filter.weights.size)
            return diffused_columns(
                laplacian.S,
                laplacian.root_degree,
                Y.B,
                span,
                self.filter.coefficients,
                self.plan.thresholds,
                self.plan.final,
                self.dtype,
                spaces.own,
            )

        return _all(part, _spans(Y.count, np.arange(Y.count + 1), 4 * _TASKS), advance)


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


def _importance(problem: Problem, sought: Filter) -> Floats:
    """What an error of 1 in h does to F through term q at most, (Q,)."""
    largest = problem.laplacian.root_degree.max(initial=0.0)
    return np.asarray(2.0 * largest * sought.weights * _influence(problem, sought))


def _influence(problem: Problem, sought: Filter) -> Floats:
    """max_i v_q(i) at most, (Q,), v_q = p_q(S)|B||C|s: how much error meets at one node.

    The first steps are taken; of the others it counts that the largest |x_i|/r_i never grows.
    """
    Y, laplacian = problem.sources, problem.laplacian
    root = laplacian.root_degree
    B = abs(Y.B)
    inverse = sp.diags(1.0 / root, format="csr")
    size = np.asarray(sp.csc_matrix(inverse @ B).max(axis=0).todense()).ravel()
    x = np.asarray(B @ (abs(Y.C) @ size)).ravel()
    v = np.zeros((x.size, sought.weights.size))
    steps = min(sought.degree, _PREVIEW)
    for k in range(steps + 1):
        v += x[:, None] * sought.coefficients[k]
        if k < steps:
            x = laplacian.S @ x
    rest = sought.tails[0] - sought.coefficients[: steps + 1].sum(axis=0)
    return np.asarray(v.max(axis=0) + rest * (x / root).max() * root.max())


def largest_entry(Y: Sources) -> float:
    """Largest |Y_ij|, at most: exact where sources do not overlap."""
    size = np.asarray(abs(Y.B).max(axis=0).todense()).ravel()
    C = Y.C.tocoo()
    return float((np.abs(C.data) * size[C.row] * size[C.col]).max(initial=0.0))


def _spans(count: int, work: NDArray[Any], pieces: int = _TASKS) -> list[tuple[int, int]]:
    """Consecutive ranges of 0 … count−1 with about equal shares of `work` (count+1,), cumulated."""
    if count == 0:
        return []
    even = np.linspace(0, float(work[-1]) + count, pieces + 1)[1:-1]
    cuts = np.searchsorted(np.asarray(work[1:]) + np.arange(1, count + 1), even)
    edges = np.unique(np.concatenate([[0], cuts, [count]]))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def _all(
    task: Callable[[tuple[int, int]], Any],
    spans: list[tuple[int, int]],
    advance: Advance = lambda _: None,
) -> list[Any]:
    """The results of all spans, in order, in as many threads as the fit may use."""
    import numba

    with ThreadPoolExecutor(max(1, int(numba.get_num_threads()))) as pool:
        found = []
        for done, result in enumerate(_ordered(pool, task, spans), 1):
            found.append(result)
            advance(done / len(spans))
        return found


def _ordered(pool: ThreadPoolExecutor, task: Any, spans: list[tuple[int, int]]) -> Iterator[Any]:
    jobs = [pool.submit(task, span) for span in spans]
    try:
        for job in jobs:
            yield job.result()
    finally:  # on Ctrl-C the pieces not yet begun are given up
        for job in jobs:
            job.cancel()
