"""F (m, m) in the forms that solvers find it: written out, of low rank, or near its sources."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.blocks import combine, gram
from mustlink.kernels.factored_entries import (
    Factor,
    Listing,
    large_entries,
    mirror,
    pattern_entries,
)
from mustlink.kernels.spmm import sampled_product
from mustlink.kernels.threads import workers
from mustlink.linear.cg import Advance, silent
from mustlink.lyapunov.sources import Sources
from mustlink.operators.laplacian import Block, GroundedLaplacian
from mustlink.operators.protocol import Edges

FLOOR = 0.1  # of the bound: F above it makes an edge; errors were measured to be 1/15 of the bound
_CELLS = 1 << 24  # entries of F written out at once
_MISSED = 1 / 16  # products below this share of that are left out of the search for edges
_NEARLY = 0.9  # of it: what is found there may be above it with those products

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]
PIECES = 64
Span = tuple[int, int]
Term = tuple[Block, Floats]
Pairs = tuple[NDArray[np.int32], NDArray[np.int32]]


class Field(Protocol):
    """F (m, m), symmetric, in whatever form its solver found it."""

    def dot(self, X: Block) -> Block:
        """FX for a block (m, b)."""

    def on_pattern(self, pattern: Edges) -> NDArray[np.float64]:
        """F_ij for every stored (i, j) of a pattern, in its order, (nnz,)."""

    def scaled(self, by: Floats) -> Self:
        """diag(by)·F·diag(by), `by` (m,)."""


@dataclass(frozen=True, eq=False)
class DenseField:
    """F (m, m) written out."""

    matrix: Block

    def dot(self, X: Block) -> Block:
        """FX for a block (m, b)."""
        return self.matrix @ X

    def on_pattern(self, pattern: Edges) -> NDArray[np.float64]:
        """F_ij for every stored (i, j) of the pattern."""
        return np.asarray(self.matrix[pattern.rows, pattern.indices])

    def scaled(self, by: Floats) -> DenseField:
        """diag(by)·F·diag(by)."""
        return DenseField(by[:, None] * self.matrix * by)


@dataclass(frozen=True, eq=False)
class LowRankField:
    """F = Σ_t Z_t·diag(θ_t)·Z_tᵀ on m nodes: dense bases Z (m, k) and weights θ (k,) of any sign.

    The columns of Z are neither orthogonal nor of unit length.
    """

    terms: tuple[Term, ...]
    size: int

    def dot(self, X: Block) -> Block:
        """FX for a block (m, b). Cost 4mkb."""
        found = np.zeros((self.size, X.shape[1]))
        for Z, theta in self.terms:
            found += combine(Z, theta[:, None] * gram(Z, X))
        return found

    def on_pattern(self, pattern: Edges) -> NDArray[np.float64]:
        """F_ij for every stored (i, j) of the pattern. Cost 2·nnz·k."""
        found = np.zeros(pattern.nnz)
        for Z, theta in self.terms:
            sampled_product(pattern, Z, Z, theta, found)
        return found

    def scaled(self, by: Floats) -> LowRankField:
        """diag(by)·F·diag(by)."""
        return replace(self, terms=tuple((by[:, None] * Z, theta) for Z, theta in self.terms))


@dataclass(frozen=True, eq=False)
class LocalField:
    """F = Σ_q ω_q G_qCG_qᵀ with sparse G_q (m, c): `ends` (c+1,), `rows`, `values` (nnz, Q).

    Every entry of F is within `bound` of what the filter's separable terms give exactly, and those
    are within `quadrature`·‖F‖ of the solution in the Frobenius norm. `unit` is the largest
    |Y_ij|.
    """

    ends: NDArray[np.int64]
    rows: NDArray[np.int32]
    values: NDArray[Any]
    weights: Floats
    C: sp.csr_matrix
    size: int
    bound: float
    quadrature: float
    unit: float

    def scaled(self, by: Floats) -> LocalField:
        """diag(by)·F·diag(by)."""
        values = (self.values * by[self.rows, None]).astype(self.values.dtype)
        return replace(self, values=values, bound=self.bound * float(by.max()) ** 2)

    @property
    def source_support(self) -> float:
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
        """For every node the sources that source_support it and where their values are."""
        places = np.arange(self.rows.size, dtype=np.int64)
        shape = (self.size, self.ends.size - 1)
        T = sp.csc_matrix((places, self.rows, self.ends), shape=shape).tocsr()
        return T.indptr.astype(np.int64), T.indices.astype(np.int32), np.asarray(T.data)

    def on_pattern(self, pattern: Edges) -> Floats:
        """F_ij for every stored (i, j) of a symmetric pattern with sorted rows."""
        out = np.zeros(pattern.nnz)
        byrow = self.values[self._listing[2]]
        factor = (self.ends, self.rows, self.values)

        def part(span: Span) -> None:
            pattern_entries(pattern, span, self._listing, factor, byrow, self.C, self.weights, out)

        each_of(part, spans_of(self.size, self._listing[0]))
        mirror(pattern, out)
        return out

    def strongest(self, pattern: Edges, count: int) -> NewEdges:
        """The `count` largest F_ij of every row outside the pattern, if above 1/10 of the bound."""
        found = self.candidates(pattern, count)
        return best_of(found, self.on_pattern(found), count, FLOOR * self.bound)

    def candidates(self, pattern: Edges, count: int) -> Edges:
        """Where the largest F_ij outside the pattern are, `count` a row or more.

        Products that are below 1/160 of the bound are left out of the search, which makes it as
        local as F itself. It finds a quarter more than `count`, and some just below the bound, as
        these products may change which are the largest.
        """
        count = min(count and count + count // 4 + 1, self.size)
        if count == 0 or self.rows.size == 0:
            return none().pattern(self.size)
        floors = np.full(self.size, FLOOR * self.bound * _NEARLY)
        first, second = self._large(pattern, count, floors, np.ones(self.size, np.int16))
        return once(first, second, np.zeros(first.size), self.size).pattern(self.size)

    def may_be_above(
        self, pattern: Edges, floors: Floats, parts: NDArray[np.integer[Any]]
    ) -> Pairs:
        """Where F_ij outside the pattern can be above floors_i (m,), of rows of several `parts`.

        This is F of a part of the constraints; `parts` (m,) are how many know of a node.
        """
        if self.rows.size == 0 or parts.max(initial=0) < 2:
            return np.empty(0, np.int32), np.empty(0, np.int32)
        return self._large(pattern, 0, floors, parts)

    @cached_property
    def _searched(self) -> tuple[Listing, Factor, Any, Floats, tuple[Floats, Floats]]:
        """The factors as a search sees them."""
        least, some = np.zeros(self.ends.size - 1), np.diff(self.ends) > 0
        least[some] = np.minimum.reduceat(self.values.min(axis=1), self.ends[:-1][some])
        bounds = np.abs(self.values).sum(axis=1, dtype=np.float64), least
        return self._listing, (self.ends, self.rows, self.values), self.C, self.weights, bounds

    def _large(self, pattern: Edges, wanted: int, floors: Floats, parts: Ints) -> Pairs:
        """What is found in all rows, see `large_entries`."""
        skip = FLOOR * self.bound * _MISSED

        def some(span: Span) -> Pairs:
            return large_entries(pattern, span, *self._searched, wanted, floors, parts, skip)

        found = each_of(some, spans_of(self.size, self._listing[0]))
        first, second = (np.concatenate([p[side] for p in found]) for side in (0, 1))
        return first, second


def strongest(field: Field, pattern: Edges, count: int, floor: float) -> NewEdges:
    """The `count` largest F_ij > floor of every row i outside the pattern and off the diagonal.

    Every row of F is written out, in blocks: cost m products' entries, O(m²), for small graphs.
    """
    m = pattern.size
    step = max(1, _CELLS // max(m, 1))
    found = []
    for start in range(0, m if count else 0, step):
        rows = np.arange(start, min(start + step, m))
        unit = np.zeros((m, rows.size))
        unit[rows, np.arange(rows.size)] = 1.0
        F = np.ascontiguousarray(field.dot(unit).T)
        F[pattern.beside(rows)] = 0.0
        F[np.arange(rows.size), rows] = 0.0
        best = np.argsort(-F, axis=1, kind="stable")[:, :count]
        values = np.take_along_axis(F, best, axis=1)
        at, place = np.nonzero(values > floor)
        found.append((rows[at], best[at, place], values[at, place]))
    if not found:
        return none()
    rows, columns, beliefs = (np.concatenate(part) for part in zip(*found, strict=True))
    return once(rows, columns, beliefs, m)


@dataclass(frozen=True, eq=False)
class NewEdges:
    """Pairs i < j outside the graph with their F_ij > 0, each (e,)."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    beliefs: NDArray[np.float64]

    @property
    def count(self) -> int:
        """Number e of pairs."""
        return int(self.first.size)

    def matrix(self, m: int) -> sp.csr_matrix:
        """The beliefs as a symmetric matrix (m, m)."""
        upper = sp.csr_matrix((self.beliefs, (self.first, self.second)), shape=(m, m))
        return sp.csr_matrix(upper.T + upper)

    def rows(self, first: int, shape: tuple[int, int]) -> sp.csr_matrix:
        """Rows (r, m) of that matrix from `first` on."""
        if shape[0] == shape[1]:
            return self.matrix(shape[0])
        rows, columns = np.append(self.first, self.second), np.append(self.second, self.first)
        own = (first <= rows) & (rows < first + shape[0])
        values = np.append(self.beliefs, self.beliefs)[own]
        found: Any = sp.csr_matrix((values, (rows[own] - first, columns[own])), shape=shape)
        found.sort_indices()
        return found

    def pattern(self, m: int) -> Edges:
        """The pairs as a pattern of m nodes."""
        return Edges.of_matrix(replace(self, beliefs=np.ones(self.count)).matrix(m))


def none() -> NewEdges:
    """No new edges."""
    return NewEdges(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def once(rows: Ints, columns: Ints, beliefs: NDArray[np.float64], m: int) -> NewEdges:
    """Every pair once, whichever of its ends named it; F is that of the lower end."""
    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    pair = low.astype(np.int64) * m + high
    order = np.argsort(2 * pair + (rows != low), kind="stable")  # the row of the lower end first
    pair = pair[order]
    order = order[np.append(True, pair[1:] != pair[:-1])[: pair.size]]
    return NewEdges(low[order].astype(np.int64), high[order].astype(np.int64), beliefs[order])


def best_of(pattern: Edges, values: Block, count: int, floor: float) -> NewEdges:
    """The `count` largest values > floor of every row of a symmetric pattern, (nnz,)."""
    held = np.flatnonzero(values > floor)
    rows = pattern.rows[held]
    many = np.bincount(rows, minlength=pattern.size)[rows] > count
    few, held, rows = held[~many], held[many], rows[many]
    order = np.lexsort((-values[held], rows))
    rank = np.arange(rows.size) - np.searchsorted(rows, rows)
    taken = np.concatenate([few, held[order[rank < count]]])
    return once(pattern.rows[taken], pattern.indices[taken], values[taken], pattern.size)


def best_of_pairs(pairs: NewEdges, count: int, floor: float) -> NewEdges:
    """The `count` largest F > floor of every node in `pairs`, of which F may have any sign."""
    nodes, compact = np.unique(np.append(pairs.first, pairs.second), return_inverse=True)
    first, second = np.split(compact.astype(np.int64), 2)
    near = NewEdges(first, second, pairs.beliefs).matrix(nodes.size)
    chosen = best_of(Edges.of_matrix(near), near.data, count, floor)
    return NewEdges(nodes[chosen.first], nodes[chosen.second], chosen.beliefs)


def spans_of(count: int, work: NDArray[Any], pieces: int = PIECES) -> list[Span]:
    """Consecutive ranges of 0 … count−1 with about equal shares of `work` (count+1,), cumulated."""
    if count == 0:
        return []
    even = np.linspace(0, float(work[-1]) + count, pieces + 1)[1:-1]
    cuts = np.searchsorted(np.asarray(work[1:]) + np.arange(1, count + 1), even)
    edges = np.unique(np.concatenate([[0], cuts, [count]]))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def each_of(task: Callable[[Span], Any], spans: list[Span], advance: Advance = silent) -> list[Any]:
    """The results of all spans, in order, in as many threads as the fit may use."""
    with ThreadPoolExecutor(workers()) as pool:  # on Ctrl-C the pieces not yet begun are given up
        found = []
        for done, result in enumerate(pool.map(task, spans), 1):
            found.append(result)
            advance(done / len(spans))
        return found


# --- What is solved: the Lyapunov equation of FLI11 (eq. 5), and E2CP's, which spreads twice

_COLUMNS = 256  # unit vectors or probes treated at once
_EXACT_BELOW = 2000  # nodes: the residual is summed over all unit vectors


@dataclass(frozen=True, eq=False)
class LyapunovProblem:
    """MF + FM = 2μY with M = μI + L̄ on m nodes, spectrum of M in [μ, μ + 2] (FLI11 eq. 5).

    F minimises μ‖F − Y‖² + ½tr(FᵀL̄F + FL̄Fᵀ) (eq. 3). It exists and is unique for μ > 0, and is
    symmetric as Y is. With α = 1/(1 + μ) it is the limit of eq. 7's spreading.
    """

    laplacian: GroundedLaplacian
    mu: float
    sources: Sources

    @property
    def size(self) -> int:
        """Number m of nodes."""
        return self.laplacian.size

    def apply(self, X: Block) -> Block:
        """MX for a block (m, b), one product with S."""
        return self.laplacian.apply(X) + self.mu * X

    @property
    def weight(self) -> float:
        """What multiplies Y: 2μ."""
        return 2.0 * self.mu

    def symbol(self, a: Block, b: Block) -> Block:
        """φ with F = Σ φ(λ_i, λ_j) q_iq_iᵀYq_jq_jᵀ for the pairs (λ, q) of L̄."""
        return 2.0 * self.mu / (a + b + 2.0 * self.mu)

    def defect(self, F: Field, X: Block) -> Block:
        """(MF + FM − 2μY)X for a block (m, b)."""
        both = F.dot(np.hstack([X, self.apply(X)]))
        left = self.apply(both[:, : X.shape[1]]) + both[:, X.shape[1] :]
        return left - self.weight * self.sources.dot(X)


@dataclass(frozen=True, eq=False)
class ExhaustiveProblem:
    """(I − αS)F(I − αS) = (1 − α)²Y on m nodes, 0 < α < 1: E2CP (Lu & Ip 2010).

    Rows are spread first, as by `LLGC`, then columns; F is unique, and symmetric as Y is.
    """

    laplacian: GroundedLaplacian
    alpha: float
    sources: Sources

    @property
    def size(self) -> int:
        """Number m of nodes."""
        return self.laplacian.size

    @property
    def weight(self) -> float:
        """What multiplies Y: (1 − α)²."""
        return (1.0 - self.alpha) ** 2

    def symbol(self, a: Block, b: Block) -> Block:
        """φ with F = Σ φ(λ_i, λ_j) q_iq_iᵀYq_jq_jᵀ for the pairs (λ, q) of L̄."""
        scale = 1.0 - self.alpha
        return (scale / (scale + self.alpha * a)) * (scale / (scale + self.alpha * b))

    def apply(self, X: Block) -> Block:
        """(I − αS)X for a block (m, b), one product with S."""
        return self.alpha * self.laplacian.apply(X) + (1.0 - self.alpha) * X

    def defect(self, F: Field, X: Block) -> Block:
        """What is missing for equality, times a block (m, b)."""
        return self.apply(F.dot(self.apply(X))) - self.weight * self.sources.dot(X)


Problem = LyapunovProblem | ExhaustiveProblem


def residual(problem: Problem, field: Field, *, probes: int = 64, seed: int = 0) -> float:
    """‖left − right side‖/‖right side‖ in the Frobenius norm, from nothing but products with F.

    Up to 2,000 nodes the residual matrix R is applied to all unit vectors. Beyond, ‖R‖² is the
    mean of ‖Rz‖² over random signs z (Hutchinson 1989); its standard error is at most
    ‖R‖²·(2/probes)^½, 9 % of ‖R‖ with 64 probes. Cost: 2 products with F and M per vector.
    """
    m = problem.size
    size = problem.weight * problem.sources.norm
    exact = m <= _EXACT_BELOW
    rng = np.random.default_rng(seed)
    count = m if exact else probes
    total = 0.0
    for start in range(0, count, _COLUMNS):
        width = min(_COLUMNS, count - start)
        if exact:
            X = np.zeros((m, width))
            X[np.arange(start, start + width), np.arange(width)] = 1.0
        else:
            X = rng.choice([-1.0, 1.0], size=(m, width))
        R = problem.defect(field, X)
        total += float(np.vdot(R, R))
    if not exact:
        total /= count
    return float(np.sqrt(total)) / (size if size > 0 else 1.0)


def solve_dense(problem: Problem) -> DenseField:
    """F = Q(φ(λ_i, λ_j) ∘ QᵀYQ)Qᵀ with L̄ = QΛQᵀ, to rounding.

    For the Lyapunov equation this is Bartels & Stewart (1972): L̄ is symmetric, so that its Schur
    form is diagonal and the triangular solve a division. Cost 9m³ + 6m³ operations, five matrices.
    """
    values, Q = problem.laplacian.dense_pairs
    Y = Q.T @ problem.sources.dot(Q)
    F = Q @ (Y * problem.symbol(values[:, None], values)) @ Q.T
    return DenseField(0.5 * (F + F.T))
