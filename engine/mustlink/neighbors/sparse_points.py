"""Sparse rows as points: exact by the lists of their columns, or by the rarer of these first.

What two rows have in common is in their common columns, so that a row meets those that share one
with it, and no pair that has none is looked at: an inverted index, as of a library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.neighbor_cost import sparse_bytes
from mustlink.context.rates import MET, MORE
from mustlink.core.check import as_csr
from mustlink.core.observe import NEVER, Deadline, Recorder
from mustlink.errors import InputError
from mustlink.neighbors.distances import AnyRows, Lists, in_time, metric_name, recall_of

if TYPE_CHECKING:
    from mustlink.kernels.sparse_lists import ByColumns, Csr

SPARSE = ("euclidean", "cosine", "dot", "hellinger", "jaccard")
_PIECES = 64  # of a search, after each of which progress is told
_TRIED, _WANTED = 200, 0.95  # rows of the sample, and their recall
_STEP = 2**0.5  # by which the work is more, until it is enough
_UNIT = 1e-3  # by which lengths of rows for "dot" may be off
_CANDIDATES = 4  # times k: measured again, by all columns
_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


@dataclass(frozen=True, eq=False)
class SparseRows(AnyRows):
    """Rows (n, d) in CSR, single precision, changed so that their products tell distances.

    Of unit length for "cosine", square roots of shares for "hellinger", ones for "jaccard".
    `sizes` (n,) are |x|², of sets the number of their members.
    """

    matrix: sp.csr_matrix
    metric: str
    sizes: NDArray[np.float64]

    @classmethod
    def of(cls, points: Any, metric: Any) -> SparseRows:
        """Checked and changed; raises InputError that names the row."""
        if metric not in SPARSE:
            raise InputError(
                f"metric: {metric_name(metric)!r} of sparse rows; choose {' | '.join(SPARSE)}, or "
                "give a dense array"
            )
        given = as_csr(points, "points")
        n, d = given.shape
        if n < 2 or d == 0:
            raise InputError(f"points: shape ({n}, {d}); a graph needs at least 2 rows, 1 column")
        _check(given, ~np.isfinite(given.data), "NaN or Inf; remove or impute")
        X = sp.csr_matrix((given.data, given.indices, given.indptr), shape=given.shape)
        if not X.data.all():
            X = X.copy()
            X.eliminate_zeros()
        X = sp.csr_matrix(
            (_values(X, metric), X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int64)),
            shape=X.shape,
        )
        X.has_canonical_format = True
        return cls(X, metric, _row_sums(X, np.square(X.data, dtype=np.float64)))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        n, d = self.matrix.shape
        return int(n), int(d)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return 8 * int(self.matrix.nnz) + 16 * self.shape[0]

    @property
    def width(self) -> int:
        """Entries of a row."""
        return 1 + int(self.matrix.nnz) // self.shape[0]

    def take(self, rows: NDArray[np.integer[Any]] | slice) -> SparseRows:
        """Some of them."""
        found = sp.csr_matrix(self.matrix[rows])
        found = sp.csr_matrix(
            (found.data, found.indices, found.indptr.astype(np.int64)), shape=found.shape
        )
        return replace(self, matrix=found, sizes=self.sizes[rows])

    def hashes(self) -> NDArray[np.uint64]:
        """Two sums of 64 bits over the entries of a row, mixed."""
        X = self.matrix
        bits = (X.data + np.float32(0)).view(np.uint32).astype(np.uint64)
        word = (X.indices.astype(np.uint64) << np.uint64(32)) | bits
        found = np.zeros((self.shape[0], 2), dtype=np.uint64)
        for at, odd in enumerate((_FIRST, _SECOND)):
            mixed = (word ^ (word >> np.uint64(31))) * odd
            mixed = (mixed ^ (mixed >> np.uint64(29))) * _SECOND
            found[:, at] = _row_sums(X, mixed ^ (mixed >> np.uint64(32)))
        return found

    @cached_property
    def _frequencies(self) -> NDArray[np.int64]:
        return np.bincount(self.matrix.indices, minlength=self.shape[1])

    def _rare(self, each: float) -> NDArray[np.bool_]:
        """Columns that are looked through where a row may meet so many entries, rare ones first."""
        met = np.sort(self._frequencies).astype(np.float64)
        few = int(np.searchsorted(np.cumsum(met**2), each * self.shape[0], side="right"))
        return np.asarray(self._frequencies <= met[max(few, 1) - 1])

    def method(self, k: int) -> str:
        """All rows that have a column in common, or a rare one."""
        return "brute" if self._rare(MET).all() else "rare columns"

    def search_bytes(self, k: int) -> int:
        """The rows by columns, lists, and what threads hold of every row."""
        return sparse_bytes(self.shape[0], int(self.matrix.nnz), k)

    def between(self, other: SparseRows) -> NDArray[np.float64]:
        """Distances (n, m), by products."""
        products: Any = self.matrix @ other.matrix.T
        found = products.toarray().astype(np.float64)
        own, others = self.sizes[:, None], other.sizes
        if self.metric == "jaccard":
            both = np.maximum(own + others - found, 1.0)
            return np.asarray(1.0 - found / both)
        return np.asarray(np.sqrt(np.maximum(own + others - 2.0 * found, 0.0)))

    def nearest(
        self, queries: SparseRows, k: int, own: NDArray[np.integer[Any]] | None = None,
        advance: Callable[[float], None] | None = None,
    ) -> Lists:  # fmt: skip
        """The k nearest; with all but Euclidean distances those without a column in common."""
        return self._search(self._blocks(), queries, k, own, advance)

    def by_search(self, k: int, seed: int, recorder: Recorder) -> Lists:
        """Of those that have a rare column in common, the nearest by all columns.

        As many columns as a sample of rows asks for, up to 32 times the usual work; from the time
        limit on a 32nd of the usual work.
        """
        n = self.shape[0]
        some = np.sort(np.random.default_rng(seed).choice(n, min(n, _TRIED), replace=False))
        queries = self.take(some)
        with in_time(recorder) as (until, advance):
            blocks = self._blocks()
            _, true = self._search(blocks, queries, k, some)
            often, recall = 1.0, 0.0
            while often <= MORE and recall < _WANTED and not until.is_over:
                rare = self._rare(often * MET)
                found = self._search(blocks, queries, k, some, rare=rare)
                often, recall = _STEP * often, recall_of(found[1], true)
            least = self._rare(MET / MORE)
            return self._search(blocks, self, k, np.arange(n), advance, rare, least, until)

    def _blocks(self) -> list[ByColumns]:
        """The rows by columns; products of unit rows are added up in single precision."""
        from mustlink.kernels.sparse_lists import by_columns

        of_any_size = self.metric in ("euclidean", "jaccard")
        sizes = self.sizes if of_any_size else self.sizes.astype(np.float32)
        return list(by_columns(self.matrix, sizes))

    def _search(
        self, blocks: list[ByColumns], queries: SparseRows, k: int, own: Any, advance: Any = None,
        rare: NDArray[np.bool_] | None = None, least: NDArray[np.bool_] | None = None,
        until: Deadline = NEVER,
    ) -> Lists:  # fmt: skip
        """The nearest by all columns of more that are so by `rare` ones, in the end by `least`."""
        from mustlink.kernels.sparse_lists import measured_again, nearest_by_columns

        m, how = queries.shape[0], {"of_sets": self.metric == "jaccard"}
        alone = np.column_stack([np.full(m, -1.0) if own is None else own, queries.sizes])
        indices, lengths = np.empty((m, k), np.int32), np.empty((m, k), np.float32)
        more, anyway = min(_CANDIDATES * k, self.shape[0]), self.metric == "euclidean"
        step = -(-m // _PIECES)
        for a in range(0, m, step):
            part = slice(a, min(a + step, m))
            Q, me = _csr(queries.matrix, part), alone[part]
            some = least if until.is_over else rare
            few = Q if some is None else _of_columns(Q, some)
            work = float(self._frequencies[few[1]].sum())
            near = nearest_by_columns(few, me, blocks, more, anyway=anyway, work=work, **how)
            keys, nodes = measured_again(
                Q, me, _csr(self.matrix), self.sizes, near, k, wide=self.shape[1], **how
            )
            if self.metric != "jaccard":
                keys = np.sqrt(np.maximum(keys + queries.sizes[part, None], 0.0))
            indices[part], lengths[part] = nodes, keys
            if advance is not None:
                advance(part.stop / m)
        return indices, lengths


def _values(X: sp.csr_matrix, metric: str) -> NDArray[np.float32]:
    """The entries as their products tell the distance; raises InputError."""
    if metric in ("hellinger", "jaccard"):
        _check(X, X.data < 0, f"a negative value, of which metric={metric!r} knows nothing")
    if metric == "jaccard":
        return np.ones(X.data.size, dtype=np.float32)
    if metric == "euclidean":
        return X.data.astype(np.float32)
    counts = np.diff(X.indptr)
    if counts.min() == 0:
        empty = np.flatnonzero(counts == 0)
        raise InputError(
            f"points: row {empty[0]} is all zeros ({empty.size} such rows), it has no direction; "
            "leave these rows out, or use metric='euclidean'"
        )
    of_shares = metric == "hellinger"
    value = X.data.astype(np.float64) if of_shares else np.square(X.data, dtype=np.float64)
    total = _row_sums(X, value)
    if metric == "dot":
        off = np.flatnonzero(np.abs(np.sqrt(total) - 1) > _UNIT)
        if off.size:
            raise InputError(
                f"points: row {off[0]} is {np.sqrt(total[off[0]]):g} long, where metric='dot' takes"
                " rows of length 1; use metric='cosine'"
            )
    value[:] = np.repeat(2.0 * total if of_shares else np.sqrt(total), counts)
    np.divide(X.data, value, out=value)
    return (np.sqrt(value, out=value) if of_shares else value).astype(np.float32)


def _check(X: sp.csr_matrix, bad: NDArray[np.bool_], what: str) -> None:
    """Raise InputError for the first bad entry."""
    if bad.any():
        row = int(np.searchsorted(X.indptr, int(np.argmax(bad)), side="right")) - 1
        column = int(X.indices[int(np.argmax(bad))])
        raise InputError(f"points: row {row}, column {column} has {what}")


def _row_sums(X: sp.csr_matrix, values: NDArray[Any]) -> NDArray[Any]:
    """Sums of a value for every entry over the rows, 0 where there is none."""
    found = np.zeros(X.shape[0], dtype=values.dtype)
    filled = np.diff(X.indptr) > 0
    found[filled] = np.add.reduceat(values, X.indptr[:-1][filled]) if values.size else 0
    return found


def _csr(X: sp.csr_matrix, part: slice | None = None) -> Csr:
    """Arrays of some rows, shared."""
    if part is None:
        return X.indptr, X.indices, X.data
    first, last = int(X.indptr[part.start]), int(X.indptr[part.stop])
    ends = X.indptr[part.start : part.stop + 1] - first
    return ends, X.indices[first:last], X.data[first:last]


def _of_columns(Q: Csr, some: NDArray[np.bool_]) -> Csr:
    """Entries in some columns alone."""
    there = some[Q[1]]
    return np.append(0, np.cumsum(there))[Q[0]], Q[1][there], Q[2][there]
