"""F (m, m) in the forms that solvers find it: written out, of low rank, or near its sources."""

from __future__ import annotations

from collections.abc import Callable
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
    entries_above,
    mirror,
    pattern_entries,
    strongest_entries,
)
from mustlink.kernels.sampled_product import sampled_product
from mustlink.lyapunov.new_edges import NewEdges, best_of, none, once
from mustlink.lyapunov.work_pieces import Span, each_of, spans_of
from mustlink.operators.edges import Edges
from mustlink.operators.laplacian import Block

FLOOR = 0.1  # of the bound: F above it makes an edge; errors were measured to be 1/15 of the bound
_CELLS = 1 << 24  # entries of F written out at once
_MISSED = 1 / 16  # products below this share of that are left out of the search for edges
_NEARLY = 0.9  # of it: what is found there may be above it with those products

Floats = NDArray[np.float64]
Term = tuple[Block, Floats]
Pairs = tuple[NDArray[np.int32], NDArray[np.int32]]


class Field(Protocol):
    """F (m, m), symmetric, in whatever form its solver found it."""

    def dot(self, X: Block) -> Block:
        """FX for a block (m, b)."""
        ...

    def on_pattern(self, pattern: Edges) -> NDArray[np.float64]:
        """F_ij for every stored (i, j) of a pattern, in its order, (nnz,)."""
        ...

    def scaled(self, by: Floats) -> Self:
        """diag(by)·F·diag(by), `by` (m,)."""
        ...


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

    @property
    def rank(self) -> int:
        """Number of columns in all; the rank of F is at most this."""
        return sum(theta.size for _, theta in self.terms)

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

    @property
    def accuracy(self) -> float:
        """The bound on |ΔF_ij| as a share of the largest |Y_ij|."""
        return self.bound / self.unit

    def scaled(self, by: Floats) -> LocalField:
        """diag(by)·F·diag(by)."""
        values = (self.values * by[self.rows, None]).astype(self.values.dtype)
        return replace(self, values=values, bound=self.bound * float(by.max()) ** 2)

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
        limits = (self.bound * FLOOR * _NEARLY, self.bound * FLOOR * _MISSED)

        def part(span: Span) -> Pairs:
            return strongest_entries(pattern, span, *self._searched, count, limits)

        first, second = self._of_rows(part)
        return once(first, second, np.zeros(first.size), self.size).pattern(self.size)

    def may_be_above(
        self, pattern: Edges, floors: Floats, parts: NDArray[np.integer[Any]]
    ) -> Pairs:
        """Where F_ij outside the pattern can be above floors_i (m,), of rows of several `parts`.

        This is F of a part of the constraints; `parts` (m,) are how many know of a node.
        """
        if self.rows.size == 0 or parts.max(initial=0) < 2:
            return np.empty(0, np.int32), np.empty(0, np.int32)
        skip = self.bound * FLOOR * _MISSED

        def part(span: Span) -> Pairs:
            return entries_above(pattern, span, *self._searched, floors, parts, skip)

        return self._of_rows(part)

    @cached_property
    def _searched(self) -> tuple[Listing, Factor, Any, Floats, tuple[Floats, Floats]]:
        """The factors as a search sees them."""
        least, some = np.zeros(self.ends.size - 1), np.diff(self.ends) > 0
        least[some] = np.minimum.reduceat(self.values.min(axis=1), self.ends[:-1][some])
        bounds = np.abs(self.values).sum(axis=1, dtype=np.float64), least
        return self._listing, (self.ends, self.rows, self.values), self.C, self.weights, bounds

    def _of_rows(self, part: Callable[[Span], Pairs]) -> Pairs:
        """What is found in all rows."""
        parts = each_of(part, spans_of(self.size, self._listing[0]))
        first, second = (np.concatenate([p[side] for p in parts]) for side in (0, 1))
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
