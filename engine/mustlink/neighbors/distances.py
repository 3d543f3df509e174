"""Rows that are no Euclidean points: what all such share; dense ones by any distance.

Distances are names of pynndescent, and functions of two rows. All pairs are compared while that
takes no longer than a minute, more are searched by NN-descent (Dong, Moses & Li 2011; McInnes's
pynndescent).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.neighbor_cost import (
    all_by_another,
    compared_bytes,
    descent_bytes,
    sparse_bytes,
)
from mustlink.context.rates import descent_seconds
from mustlink.core.check import as_points, check_positive
from mustlink.core.metrics import METRICS
from mustlink.core.observe import Deadline, Recorder
from mustlink.errors import InputError, spelt_alike
from mustlink.neighbors.exact import drop_own
from mustlink.neighbors.points_by_rows import EqualRows

AUTO = "auto"
POINTS = ("auto", "knn")  # affinities of which X are rows
# Rows are changed, each for itself, so that their Euclidean distance is the one that is meant.
BY_CELLS = ("euclidean", "cosine", "correlation", "hellinger", "dot", "haversine")
_OTHER_NAMES = {
    **{"l2": "euclidean", "l1": "manhattan", "taxicab": "manhattan", "cityblock": "manhattan"},
    **dict.fromkeys(("linf", "linfty", "linfinity"), "chebyshev"),
}

Lists = tuple[NDArray[np.int32], NDArray[np.float32]]
Found = tuple[NDArray[np.int32], NDArray[np.float32], dict[str, Any]]


def resolved_metric(metric: Any, points: Any) -> Any:
    """The metric by its usual name; "auto" is cosine for sparse rows, Euclidean for others.

    Sparse rows of which one has no entry, so that it has no direction, are Euclidean as well.
    """
    if isinstance(metric, str):
        if metric == AUTO:
            is_sparse: bool = sp.issparse(points)
            return "cosine" if is_sparse and np.diff(points.tocsr().indptr).all() else "euclidean"
        return _OTHER_NAMES.get(metric, metric)
    if not callable(metric):
        raise InputError(f"metric: {metric!r} given; give a name, or a function of two rows")
    return metric


def metric_name(metric: Any) -> str:
    """What a metric is called in a graph's info and in messages."""
    return metric if isinstance(metric, str) else str(getattr(metric, "__name__", "a function"))


def as_rows(points: Any, where: str = "points") -> Any:
    """Points as they are fitted: sparse rows as CSR, others as `as_points` makes them; InputError.

    Nothing of a sparse matrix is checked here. Points of a model that are in another file are read.
    """
    points = points.whole() if hasattr(points, "whole") else points
    if not sp.issparse(points):
        return as_points(points, where)
    found: Any = points
    return sp.csr_matrix(found)


def search_bytes(points: Any, metric: Any, k: int) -> int:
    """Bytes of the search among sparse rows, or by a distance that cells do not know; else 0."""
    metric = resolved_metric(metric, points)
    n, d = points.shape
    if sp.issparse(points):
        given: Any = points
        return sparse_bytes(n, int(given.nnz), k)
    return 0 if metric in BY_CELLS else compared_bytes(n, d, k)


def bytes_of_rows(points: Any) -> int:
    """Bytes of points that are in memory."""
    if not sp.issparse(points):
        return points.nbytes if isinstance(points, np.ndarray) else 0
    parts = (getattr(points, name, None) for name in ("data", "indices", "indptr", "row", "col"))
    return sum(int(getattr(part, "nbytes", 0)) for part in parts)


def recall_of(lengths: NDArray[np.floating], true: NDArray[np.floating]) -> float:
    """Share of neighbours (m, k) no farther than the true last one, of those that there are."""
    limit = true[:, -1:] * (1 + 1e-5) + 1e-6
    there = np.maximum(np.isfinite(true).sum(axis=1), 1)
    right = (np.isfinite(lengths) & (lengths <= limit)).sum(axis=1)
    return float(np.mean(np.minimum(right / there, 1.0)))


class AnyRows(ABC):
    """Rows (n, d) that know how far they are from others of their kind."""

    metric: str

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Multiplications that comparing two rows takes, about."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of the rows."""

    @abstractmethod
    def take(self, rows: NDArray[np.integer[Any]] | slice) -> Self:
        """Some of them."""

    @abstractmethod
    def hashes(self) -> NDArray[np.uint64]:
        """Numbers (n, m) that are the same for rows that are equal, and for no others."""

    @abstractmethod
    def method(self, k: int) -> str:
        """How k neighbours are searched: "brute", all pairs, or by a name of another search."""

    @abstractmethod
    def search_bytes(self, k: int) -> int:
        """Bytes of that search beside the rows."""

    def plan(self, k: int) -> tuple[str, int, int]:
        """How k neighbours are searched, its bytes, and those of the rows."""
        return self.method(k), self.search_bytes(k), self.nbytes

    @abstractmethod
    def between(self, other: Self) -> NDArray[np.float64]:
        """Distances (n, m) from a few others."""

    @abstractmethod
    def nearest(
        self, queries: Self, k: int, own: NDArray[np.integer[Any]] | None = None,
        advance: Callable[[float], None] | None = None,
    ) -> Lists:  # fmt: skip
        """The k nearest of other rows: numbers (q, k), -1 for none, and lengths, Inf.

        Ascending, of equals the smaller number first. `own` (q,): rows that are not looked for.
        """

    @abstractmethod
    def by_search(self, k: int, seed: int, recorder: Recorder) -> Lists:
        """The lists of all rows where not all pairs are compared."""

    def lists(self, k: int, seed: int, recorder: Recorder, sample: int) -> Found:
        """The k nearest of every row but itself, and how; the recall on a sample is measured."""
        n = self.shape[0]
        method = self.method(k)
        if method == "brute":
            with recorder.stage("kNN graph") as advance:
                indices, lengths = self.nearest(self, k, np.arange(n), advance)
            return indices, lengths, {"method": method, "recall": 1.0, "recall_sample": n}
        indices, lengths = self.by_search(k, seed, recorder)
        with recorder.stage("kNN recall"):
            size = min(n, max(1, sample))
            some = np.sort(np.random.default_rng(seed).choice(n, size, replace=False))
            _, true = self.nearest(self.take(some), k, some)
            recall = recall_of(lengths[some], true)
        return indices, lengths, {"method": method, "recall": recall, "recall_sample": size}

    def equal(self) -> EqualRows:
        """Which rows are equal; numbered by first appearance."""
        _, first, kind = np.unique(self.hashes(), axis=0, return_index=True, return_inverse=True)
        number = np.argsort(np.argsort(first))
        nodes = number[kind.ravel()]
        return EqualRows(nodes, np.sort(first), np.bincount(nodes, minlength=first.size))


# --- Rows by any distance, compared each with each


# What scipy computes as pynndescent does, which is half a minute of compiling that is not needed.
# Names of pynndescent, by which more rows are searched; what it does not know is no entry.
_OF_SCIPY = {
    "manhattan": "cityblock",
    **{name: name for name in ("chebyshev", "canberra", "braycurtis", "hamming", "minkowski")},
}
_PYTHON = 5e-6  # seconds of a function that is not compiled, for a pair
_LARGEST = 10_000  # rows that such a function compares
_CELLS = 1 << 22  # distances held at once
_LOOKED_AT = 64  # pairs that are compared in both directions
_ONE_WAY = 1e-3  # by which their distances may differ


@dataclass(frozen=True)
class Distance:
    """A distance of two rows: of scipy by its name, or a function, compiled or not."""

    name: str
    of_scipy: str | None = None
    function: Any = None
    compiled: bool = False
    p: float | None = None

    @classmethod
    def of(cls, metric: Any) -> Distance:
        """By a name, "minkowski:1.5" with its power, or of a function; raises InputError."""
        if not isinstance(metric, str):
            return cls._of_function(metric)
        name, _, power = metric.partition(":")
        if name in _OF_SCIPY and (not power or name == "minkowski"):
            p = (
                check_positive(power or 2, "metric: the power of minkowski")
                if (name == "minkowski")
                else None
            )
            return cls(metric, _OF_SCIPY[name], p=p)
        from pynndescent.distances import named_distances

        wanted = ("mahalanobis", "seuclidean", "standardised_euclidean", "sinkhorn")
        if metric not in named_distances or metric in (*wanted, "wminkowski", "weighted_minkowski"):
            near = spelt_alike(metric, ("euclidean", *_OF_SCIPY, *named_distances))
            meant = f"did you mean {near!r}? Else choose" if near else "choose"
            raise InputError(
                f"metric: {metric!r} is unknown; {meant} {' | '.join(METRICS)}, another name of "
                "pynndescent, or a function of two rows"
            )
        return cls(metric, function=named_distances[metric], compiled=True)

    @classmethod
    def _of_function(cls, function: Any) -> Distance:
        """Compiled where numba can."""
        import numba as nb

        own: Any = function
        if not hasattr(own, "py_func"):
            own = nb.njit(function)
        row = np.ones(2, dtype=np.float32)
        try:
            own(row, row)
        except Exception:
            return cls(metric_name(function), function=function)
        return cls(metric_name(function), function=own, compiled=True)

    def seconds(self, d: int) -> float:
        """Of a pair of rows, about."""
        return 1e-9 * (10 + d) if self.of_scipy or self.compiled else _PYTHON

    def between(self, Q: NDArray[Any], P: NDArray[Any]) -> NDArray[np.float64]:
        """Distances (q, p)."""
        if self.compiled:
            from mustlink.kernels.nearest_lists import all_pairs

            return all_pairs(self.function, Q, P)
        from scipy.spatial.distance import cdist

        how: dict[str, Any] = {} if self.p is None else {"p": self.p}
        named: Any = self.of_scipy or self.function
        return np.asarray(cdist(Q, P, named, **how))


@dataclass(frozen=True, eq=False)
class ComparedRows(AnyRows):
    """Rows (n, d) in single precision, and the distance by which they are compared."""

    rows: NDArray[np.float32]
    distance: Distance

    @classmethod
    def of(cls, points: Any, metric: Any, recorder: Recorder | None = None) -> ComparedRows:
        """Checked; raises InputError."""
        from mustlink.neighbors.points_by_rows import is_rows

        source = points[0 : points.shape[0]] if is_rows(points) else points
        X = as_points(source).astype(np.float32, copy=False)
        if len(X) < 2:
            raise InputError(f"points: n_samples = {len(X)} given; a graph needs at least 2")
        if recorder is None:
            return cls(X, Distance.of(metric))
        with recorder.stage("compiling the distance"):
            found = cls(X, Distance.of(metric))
            found._look()
        return found

    @property
    def metric(self) -> str:  # type: ignore[override]
        """The name of the distance."""
        return self.distance.name

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        n, d = self.rows.shape
        return n, d

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return self.rows.nbytes

    @property
    def width(self) -> int:
        """Nanoseconds of comparing two rows, which is about multiplications."""
        return int(1e9 * self.distance.seconds(self.shape[1]))

    def take(self, rows: NDArray[np.integer[Any]] | slice) -> ComparedRows:
        """Some of them."""
        return replace(self, rows=self.rows[rows])

    def hashes(self) -> NDArray[np.uint64]:
        """Of the values of a row."""
        from mustlink.kernels.row_hash import row_hashes

        return row_hashes(self.rows)

    def method(self, k: int) -> str:
        """All pairs while that does not take long, NN-descent for more."""
        n, d = self.shape
        few = all_by_another(n, d, self.distance.seconds(d)) or k >= n // 4
        if not (few or self.distance.of_scipy or self.distance.compiled):
            few = n <= _LARGEST
            if not few:
                raise InputError(
                    f"metric: {self.metric} is a Python function that numba does not compile, "
                    f"which compares {_LARGEST:,} rows at most, {n:,} given; write it for "
                    "@numba.njit"
                )
        return "brute" if few else "descent"

    def search_bytes(self, k: int) -> int:
        """Of the search beside the rows."""
        n, d = self.shape
        return descent_bytes(n, d, k) if self.method(k) == "descent" else compared_bytes(n, d, n)

    def between(self, other: ComparedRows) -> NDArray[np.float64]:
        """Distances (n, m); raises InputError for what is no distance."""
        return self._checked(self.distance.between(self.rows, other.rows), 0, other)

    def nearest(
        self, queries: ComparedRows, k: int, own: NDArray[np.integer[Any]] | None = None,
        advance: Callable[[float], None] | None = None,
    ) -> Lists:  # fmt: skip
        """The k nearest, all pairs compared."""
        n, m = self.shape[0], queries.shape[0]
        # scipy computes in double precision, and would copy the rows for every block
        base = self.rows if self.distance.compiled else self.rows.astype(np.float64)
        indices, lengths = np.empty((m, k), np.int32), np.empty((m, k), np.float32)
        step = max(1, _CELLS // n)
        for a in range(0, m, step):
            part = slice(a, min(a + step, m))
            D = self.distance.between(queries.rows[part].astype(base.dtype, copy=False), base)
            self._checked(D, a, queries)
            if own is not None:
                D[np.arange(len(D)), own[part]] = np.inf
            near = np.argpartition(D, k - 1, axis=1)[:, :k] if k < n else np.argsort(D, axis=1)
            worst = np.take_along_axis(D, near, 1).max(axis=1)
            # of those as far as the last, the first: as if all had been put in order
            tied = np.flatnonzero((worst[:, None] >= D).sum(axis=1) > k)
            for i in tied:
                near[i] = np.argsort(D[i], kind="stable")[:k]
            length = np.take_along_axis(D, near, 1)
            order = np.lexsort((near, length), axis=1)
            found = np.take_along_axis(length, order, 1)
            lengths[part] = found
            indices[part] = np.where(np.isfinite(found), np.take_along_axis(near, order, 1), -1)
            if advance is not None:
                advance(part.stop / m)
        return indices, lengths

    def by_search(self, k: int, seed: int, recorder: Recorder) -> Lists:
        """Lists of NN-descent, on one thread: on several they depend on their number."""
        distance = self.distance
        how: dict[str, Any] = {
            "metric": distance.function
            if distance.function is not None
            else (distance.name.partition(":")[0])
        }
        if distance.p is not None:
            how["metric_kwds"] = {"p": distance.p}
        indices, lengths = descent_lists(self.rows, k, seed, recorder, **how)
        self._checked(lengths, 0, self)
        return indices, lengths

    def _look(self) -> None:
        """Raise InputError for a distance that is not symmetric, on a few pairs."""
        n = self.shape[0]
        some = np.unique(np.linspace(0, n - 1, min(n, _LOOKED_AT)).astype(np.int64))
        rows = self.rows[some]
        D = self._checked(self.distance.between(rows, rows), 0, self, some)
        gap = np.abs(D - D.T)
        if (gap > _ONE_WAY * (1e-30 + np.abs(D).max())).any():
            i, j = np.unravel_index(int(gap.argmax()), gap.shape)
            raise InputError(
                f"metric: {self.metric} is not symmetric, rows {some[i]} and {some[j]} are "
                f"{D[i, j]:g} and {D[j, i]:g} apart; give a distance"
            )

    def _checked(
        self, D: NDArray[Any], first: int, others: Any, names: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Distances, or InputError for NaN and negative ones."""
        if not (D >= 0).all():
            i = int(np.argmax(~(D >= 0).all(axis=1)))
            value = D[i][~(D[i] >= 0)][0]
            row = first + i if names is None else names[i]
            raise InputError(
                f"metric: {self.metric} of row {row} and another is {value:g}; a distance is a "
                "number of at least 0"
            )
        return D


# --- NN-descent (Dong, Moses & Li 2011; McInnes's pynndescent), and the time that a search has

_SHARE = 0.4  # of the time that is left when the search begins, after which it ends


def descent_lists(
    X: NDArray[np.float32], k: int, seed: int, recorder: Recorder, **metric: Any
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Lists of NN-descent, on one thread: on several they depend on their number.

    `metric` and `metric_kwds` are pynndescent's. It cannot be stopped: where time is short it goes
    through the points fewer times.
    """
    from pynndescent import NNDescent

    how: dict[str, Any] = {"random_state": seed, "n_jobs": 1, **metric}
    with recorder.stage("compiling kNN kernels"):
        tiny = np.abs(np.random.default_rng(0).standard_normal((512, X.shape[1])))
        NNDescent(tiny.astype(np.float32), n_neighbors=4, **how)
    n, d = X.shape
    with in_time(recorder) as (until, _):
        share = until.remaining() / descent_seconds(n, d)
        if share < 1:
            how["n_iters"] = max(1, int(share * np.log2(n)))
            recorder.skip_for_time("neighbours are searched in fewer rounds than usual")
        nodes, lengths = NNDescent(X, n_neighbors=k + 1, **how).neighbor_graph
        return drop_own(nodes, lengths, np.arange(n))


@contextmanager
def in_time(recorder: Recorder) -> Iterator[tuple[Deadline, Callable[[float], None]]]:
    """The stage of a search, with its share of the time; a note says when it ended early."""
    until = recorder.deadline.share(_SHARE)
    with recorder.stage("kNN graph") as advance:
        yield until, advance
    if until.is_over:  # what was kept from such a search is less
        recorder.skip_for_time("neighbours are searched less far than usual")
