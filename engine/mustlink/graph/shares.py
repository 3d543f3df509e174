"""Rows as mixtures of nodes: what p representatives of n points are to their rows.

Z (n, p) is row-stochastic with r entries a row. Rows whose weights are w make the affinity
Zᵀdiag(w)Z of the nodes, whose degrees are their masses Zᵀw: each node counts so many. Its
normalised Laplacian has the eigenvalues, other than 1, of the graph of all rows W = ZΛ⁻¹Zᵀ,
Λ = diag(Zᵀ1), and Zv for an eigenvector v as that of the rows (Liu, He & Chang 2010; the transfer
cut of Li, Wu & Chang 2012, on which U-SPEC of Huang et al. 2020 rests).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Near = tuple[NDArray[np.integer[Any]], NDArray[np.float32]]
BLOCK = 1 << 16  # rows at a time: the same ones for any home, so that sums are the same


class Finder(Protocol):
    """The representatives, which find the shares of points anew."""

    def of_rows(self, source: Any, rows: Any) -> Near:
        """Nodes and shares (m, r) of some rows, a slice or numbers, of the points."""


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of p nodes in n rows: `near` (n, r) the nodes, `shares` (n, r) float32, rows sum to 1.

    Nodes of a row stand by falling share. Where `near` is None both are found again, by blocks of
    rows of the `points`, by the `finder`: nothing that grows with n is held. `first` (p,) is the
    row with the largest share of a node. Rows that are not `counted` (n,) have shares 0.
    """

    n_rows: int
    first: NDArray[np.int64]
    finder: Any
    near: NDArray[np.integer[Any]] | None = None
    shares: NDArray[np.float32] | None = None
    points: Any = None
    counted: NDArray[np.bool_] | None = None

    @property
    def n_nodes(self) -> int:
        """Number of nodes p."""
        return int(self.first.size)

    def of(self, rows: Any) -> Near:
        """Nodes and shares (m, r) of rows: a slice, or numbers."""
        if self.near is None or self.shares is None:
            near, shares = self.finder.of_rows(self.points, rows)
        else:
            near, shares = self.near[rows], self.shares[rows]
        return near, shares if self.counted is None else shares * self.counted[rows, None]

    def counting(self, weights: Floats) -> Shares:
        """The same where rows (n,) of weight 0 do not count."""
        return replace(self, counted=None if weights.all() else weights > 0)

    def blocks(self) -> Iterator[tuple[slice, Near]]:
        """All rows in order, by blocks that do not depend on where they are."""
        for part in _parts(self.n_rows):
            yield part, self.of(part)

    def matrix(self, weights: Floats | None = None, rows: Any = None) -> sp.csr_matrix:
        """diag(w)Z (n, p), of all rows, or with entries in some `rows` (ascending) alone."""
        some = np.arange(self.n_rows) if rows is None else np.asarray(rows)
        near, shares = self.of(slice(0, self.n_rows) if rows is None else some)
        counts = np.zeros(self.n_rows + 1, dtype=np.int64)
        counts[some + 1] = near.shape[1]
        values = _summing_to_one(shares) * (1.0 if weights is None else weights[some, None])
        shape = (self.n_rows, self.n_nodes)
        return sp.csr_matrix((values.ravel(), near.ravel(), np.cumsum(counts)), shape=shape)

    def gram(self, weights: Floats | None = None) -> tuple[sp.csr_matrix, Floats]:
        """Zᵀdiag(w)Z (p, p), and the masses Zᵀw (p,); one pass over the rows."""
        total, mass = sp.csr_matrix((self.n_nodes, self.n_nodes)), np.zeros(self.n_nodes)
        for part, found in self.blocks():
            product, count = gram_of(
                found, self.n_nodes, None if weights is None else weights[part]
            )
            total, mass = total + product, mass + count
        return symmetric(total), mass

    def mean(self, values: NDArray[Any]) -> Any:
        """Zv (n, …) of values of nodes (p, …): of numbers that are whole the vote, see `vote`.

        Where shares are found again, `MixedRows` that are made when they are read.
        """
        if values.dtype.kind in "iu":
            return self.vote(values)
        if self.near is None:
            return MixedRows(self, values)
        found = np.empty((self.n_rows, *values.shape[1:]), dtype=values.dtype)
        for part, near in self.blocks():
            found[part] = mixed(near, values)
        return found

    def vote(self, labels: NDArray[np.integer[Any]], advance: Any = None) -> NDArray[np.int64]:
        """The label (n,) with the largest share, of labels of nodes (p,); -1 where all are -1."""
        found = np.empty(self.n_rows, dtype=np.int64)
        own = self if self.counted is not None else replace(self, points=None)  # for workers: small
        source = self.points if own.points is None else None
        for part, votes in each_part(source, partial(_votes, own, labels), _parts(self.n_rows)):
            found[part] = votes
            if advance is not None:
                advance(part.stop / self.n_rows)
        return found

    def votes_of_nodes(self, labels: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """The label (p,) that has most of a node, of labels (n,) of rows."""
        numbers, codes = np.unique(labels, return_inverse=True)
        codes, c = codes.ravel(), numbers.size
        total = np.zeros(self.n_nodes * c)
        for part, (near, shares) in self.blocks():
            cells = near.astype(np.int64) * c + codes[part, None]
            total += np.bincount(cells.ravel(), shares.ravel(), total.size)
        found: NDArray[np.int64] = numbers[total.reshape(-1, c).argmax(axis=1)].astype(np.int64)
        return found


class MixedRows:
    """Zv (n, …) of values of nodes (p, …), whose rows are made when they are read; see `fix`."""

    def __init__(self, own: Shares, values: NDArray[Any]) -> None:
        self._own, self._values = own, values
        self.shape: tuple[int, ...] = (own.n_rows, *values.shape[1:])
        self.dtype, self.ndim = values.dtype, values.ndim
        self._fixed: tuple[NDArray[np.int64], NDArray[Any]] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return int(self.dtype.itemsize * np.prod(self.shape[1:]))

    def fix(self, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Let rows (m,), ascending, have these values (m, …) whatever their shares."""
        self._fixed = rows, values

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """Some rows, a slice or numbers."""
        rows = rows if isinstance(rows, slice) else np.asarray(rows, dtype=np.int64)
        found = mixed(self._own.of(rows), self._values)
        if self._fixed is not None:
            fixed, values = self._fixed
            asked = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else rows
            at = np.minimum(np.searchsorted(fixed, asked), max(fixed.size - 1, 0))
            known = fixed[at] == asked if fixed.size else np.zeros(asked.size, dtype=bool)
            found[known] = values[at[known]]
        return found

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        parts = [self[part] for part in _parts(self.shape[0])]
        return np.concatenate(parts).astype(self.dtype if dtype is None else dtype, copy=False)


def each_part(source: Any, task: Any, parts: Iterable[slice]) -> Iterator[tuple[slice, Any]]:
    """Yield every part of the rows of a source with task(source, part), in order.

    A source whose rows workers of an executor read has `each(task, parts)`, which does the same
    there: the task is pickled, and its results come back.
    """
    each = getattr(source, "each", None)
    if each is not None:
        yield from each(task, parts)
        return
    for part in parts:
        yield part, task(source, part)


def _votes(own: Shares, labels: NDArray[np.integer[Any]], source: Any, part: slice) -> Any:
    """The votes of some rows, whose points are read from a source unless shares are held."""
    rows = own if source is None else replace(own, points=source)
    return voted(rows.of(part), labels)


def _parts(n: int) -> Iterator[slice]:
    """Blocks of n rows, the same ones wherever they are."""
    for start in range(0, n, BLOCK):
        yield slice(start, min(start + BLOCK, n))


def _summing_to_one(shares: NDArray[np.float32]) -> Floats:
    """In double precision, where those that were rounded sum to 1; rows of 0 stay."""
    found = shares.astype(np.float64)
    total = found.sum(axis=1, keepdims=True)
    return np.divide(found, total, out=found, where=total > 0)


def gram_of(found: Near, p: int, weights: Floats | None = None) -> tuple[sp.csr_matrix, Floats]:
    """Zᵀdiag(w)Z (p, p) of some rows, and the masses Zᵀw (p,)."""
    near, shares = found
    m, r = near.shape
    values = _summing_to_one(shares)
    indptr = np.arange(0, m * r + 1, r)
    Z = sp.csr_matrix((values.ravel(), near.ravel(), indptr), shape=(m, p))
    counted = values if weights is None else values * weights[:, None]
    wZ = sp.csr_matrix((counted.ravel(), near.ravel(), indptr), shape=(m, p))
    mass: Floats = np.bincount(near.ravel(), counted.ravel(), p).astype(np.float64)
    return sp.csr_matrix(Z.T @ wZ), mass


def symmetric(W: sp.csr_matrix) -> sp.csr_matrix:
    """The mean of a matrix that is symmetric but for rounding and its transpose; no zeros."""
    found = sp.csr_matrix((W + W.T) * 0.5)
    found.eliminate_zeros()
    found.sort_indices()
    return found


def mixed(found: Near, values: NDArray[Any]) -> NDArray[Any]:
    """Zv (m, …) of values of nodes (p, …)."""
    near, shares = found
    weights = _summing_to_one(shares)
    total = np.zeros((near.shape[0], *values.shape[1:]))
    for place in range(near.shape[1]):
        share = weights[:, place].reshape(-1, *[1] * (values.ndim - 1))
        total += share * values[near[:, place]]
    return total.astype(values.dtype, copy=False)


def voted(found: Near, labels: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """The label (m,) with the largest share, of equals the one of the nearer node."""
    near, shares = found
    own = np.asarray(labels)[near]
    weights = np.where(own >= 0, shares, np.float32(0.0))
    votes = np.zeros(weights.shape, dtype=np.float32)
    for place in range(near.shape[1]):
        votes += np.where(own == own[:, [place]], weights[:, [place]], np.float32(0.0))
    best = votes.argmax(axis=1)
    at = np.arange(best.size)
    return np.where(votes[at, best] > 0, own[at, best], -1).astype(np.int64)
