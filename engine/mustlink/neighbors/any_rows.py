"""Rows that are not compared as Euclidean points: sparse ones, and any by another distance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.neighbor_cost import compared_bytes, sparse_bytes
from mustlink.core.check import as_points
from mustlink.core.observe import Recorder
from mustlink.errors import InputError
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
