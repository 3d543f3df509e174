"""Centres of the parts, and the parts that every point belongs to."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels import nearest_lists

_TALL, _WIDE = 512, 512  # rows and centres compared at once: products stay in the cache
_TASK = 8 * _TALL  # rows of a task
_ROUNDS = 8  # of Lloyd's algorithm; the parts need not be optimal
_FIRST = 64  # centres that are found at once; more by splitting
_SPLITS = 4  # times that large parts are split


@dataclass(frozen=True)
class Centres:
    """Centres of parts: coordinates (C, d) about `middle` (d,), and |c|² (C,)."""

    middle: NDArray[np.float32]
    at: NDArray[np.float32]
    norms: NDArray[np.float32]

    def nearest(self, X: NDArray[np.float32], count: int, pool: Executor) -> NDArray[np.int32]:
        """Find the `count` <= C nearest centres of each point (m, d), nearest first, (m, count).

        Blocks of products by BLAS, O(m C d), each on one thread, so that the outcome does not
        depend on the number of threads.
        """
        out = np.empty((X.shape[0], count), dtype=np.int32)

        def fill(first: int) -> None:
            products = np.empty(_TALL * _WIDE, dtype=np.float32)  # one for all blocks of a task
            for start in range(first, min(first + _TASK, X.shape[0]), _TALL):
                rows = slice(start, start + _TALL)
                self._nearest(X[rows] - self.middle, out[rows], products)

        list(pool.map(fill, range(0, X.shape[0], _TASK)))
        return out

    def among(self, chosen: NDArray[np.int32], X: NDArray[np.float32]) -> NDArray[np.int32]:
        """Find which of some centres (c,) is nearest to each point (m, d), on this thread."""
        few = Centres(self.middle, self.at[chosen], self.norms[chosen])
        out = np.empty((X.shape[0], 1), dtype=np.int32)
        products = np.empty(_TALL * _WIDE, dtype=np.float32)
        for start in range(0, X.shape[0], _TALL):
            rows = slice(start, start + _TALL)
            few._nearest(X[rows] - self.middle, out[rows], products)
        return chosen[out[:, 0]]

    def _nearest(
        self, Q: NDArray[np.float32], places: NDArray[np.int32], products: NDArray[np.float32]
    ) -> None:
        """Fill `places` (m, count) for points about the middle, through a buffer of products."""
        values = np.full(places.shape, np.inf, dtype=np.float32)
        places[:] = -1
        for c in range(0, self.at.shape[0], _WIDE):
            at = self.at[c : c + _WIDE]
            block = products[: Q.shape[0] * at.shape[0]].reshape(Q.shape[0], at.shape[0])
            np.matmul(Q, at.T, out=block)
            nearest_lists.keep_smallest(block, self.norms[c : c + _WIDE], c, values, places)
        size = np.einsum("ij,ij->i", Q, Q)
        first = Q - self.at[places[:, 0]]
        close = np.einsum("ij,ij->i", first, first)
        doubtful = np.flatnonzero((close > 0) & (close < nearest_lists.DOUBTFUL * size))
        if doubtful.size:
            again = np.empty((doubtful.size, places.shape[1]), dtype=np.int32)
            nearest_lists.nearest_directly(Q[doubtful], self.at, again)
            places[doubtful] = again


def find_centres(
    sample: NDArray[np.float32], count: int, least: int, rng: np.random.Generator, pool: Executor
) -> Centres:
    """Find about `count` centres of a sample (s, d) whose parts are of similar size.

    A few rounds of Lloyd's algorithm for a few centres. Parts of more than twice the mean are split
    likewise, until only equal points are left together: that leaves no dense region to few
    centres, and takes little where there are many. Centres that keep fewer than `least` rows of
    the sample are dropped, all but the largest.
    """
    middle = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
    first = min(count, max(_FIRST, int(np.sqrt(count))))
    points = _lloyd(sample, first, least, rng, pool)
    usual = max(1, sample.shape[0] // count)
    for _ in range(_SPLITS):
        owner = centres_about(middle, points).nearest(sample, 1, pool)[:, 0]
        sizes = np.bincount(owner, minlength=points.shape[0])
        large = np.flatnonzero(sizes > 2 * usual)
        if large.size == 0:
            break
        order = np.argsort(owner, kind="stable")
        ends = np.cumsum(sizes)
        pieces = [np.delete(points, large, axis=0)]
        for part in large:
            own = sample[order[ends[part] - sizes[part] : ends[part]]]
            pieces.append(_lloyd(own, int(-(-sizes[part] // usual)), least, rng, pool))
        before, points = points.shape[0], np.concatenate(pieces)
        if points.shape[0] == before:
            break
    return centres_about(middle, points)


def _lloyd(
    sample: NDArray[np.float32], count: int, least: int, rng: np.random.Generator, pool: Executor
) -> NDArray[np.float32]:
    """Up to `count` centres (c, d), from random rows."""
    middle = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
    points = sample[np.sort(rng.choice(sample.shape[0], min(count, sample.shape[0]), False))]
    if points.shape[0] == 1:
        return points
    for _ in range(_ROUNDS):
        owner = centres_about(middle, points).nearest(sample, 1, pool)[:, 0]
        sizes = np.bincount(owner, minlength=points.shape[0])
        # An empty centre is one of several equal points or far off: it goes with the small ones.
        means = _sums(sample - middle, owner, sizes.size) / np.maximum(sizes, 1)[:, None]
        points = (means[sizes >= min(least, int(sizes.max()))] + middle).astype(np.float32)
    return points


def centres_about(middle: NDArray[np.float32], points: NDArray[np.float32]) -> Centres:
    """Points (C, d) as centres, told about `middle` (d,)."""
    at = np.ascontiguousarray(points - middle)
    return Centres(middle, at, np.einsum("ij,ij->i", at, at))


def _sums(sample: NDArray[np.float32], owner: NDArray[np.int32], count: int) -> NDArray[np.float32]:
    """Sum of the rows of each owner, (count, d), in the order of the rows."""
    order = np.argsort(owner, kind="stable").astype(np.int32)
    ends = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))])
    ones = np.ones(owner.size, dtype=np.float32)
    members = sp.csr_matrix((ones, order, ends), shape=(count, owner.size))
    return np.asarray(members @ sample)
