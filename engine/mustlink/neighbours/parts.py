"""Overlapping parts of the points: their centres, and the parts that every point belongs to."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.cost.neighbour_graph import Layout
from mustlink.kernels import nearest_lists
from mustlink.neighbours.exact import exact_streamed
from mustlink.neighbours.points_by_rows import Prepared
from mustlink.neighbours.scratch import Scratch

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


# Share of true neighbours that are to share a part, local joins find the others: what is wanted
# while a point is compared with no more than so many in its parts, and what is needed.
_WANTED, _CHEAP, _NEEDED = 0.75, 10_000, 0.55
_PIECES = 4  # of the sample


@dataclass(frozen=True)
class Parts:
    """Members of all parts, part by part.

    Nodes are numbered as they lie in the parts of their nearest centres: `order` (n,) is the row
    of the points that each is. `members` (n p,) are nodes, `starts` the parts' bounds among them,
    `home` (n,) is the place of every node in its first part, ascending.
    """

    order: NDArray[np.int32]
    members: NDArray[np.int32]
    starts: NDArray[np.int64]
    home: NDArray[np.int64]

    def numbers(self) -> NDArray[np.int32]:
        """Node (n,) that every row of the points is."""
        found = np.empty(self.order.size, dtype=np.int32)
        found[self.order] = np.arange(self.order.size, dtype=np.int32)
        return found


def centres_of(
    rows: Prepared, k: int, rng: np.random.Generator, layout: Layout, pool: Executor
) -> Centres:
    """Find centres from a random sample; none is to have fewer than about 2k points."""
    n = rows.shape[0]
    chosen = np.sort(rng.choice(n, size=layout.sample, replace=False))
    least = int(np.ceil(2 * (k + 1) * layout.sample / n))
    return find_centres(rows.gather(chosen), layout.parts, least, rng, pool)


@dataclass(frozen=True)
class Sample:
    """Some nodes (m,) with their true neighbours: coordinates (m, d), and (u, d) of u others.

    `neighbours` (m, k) are rows of the others; `reach` (m,) is the distance of the farthest.
    """

    nodes: NDArray[np.int64]
    points: NDArray[np.float32]
    others: NDArray[np.float32]
    neighbours: NDArray[np.intp]
    reach: NDArray[np.float64]


def known_neighbours(
    rows: Prepared,
    k: int,
    count: int,
    rng: np.random.Generator,
    layout: Layout,
    pool: Executor,
    pieces: int | None = None,
) -> Sample:
    """Compare `count` random nodes, or as many as there is room for, with all points.

    In several `pieces` where these may look at the points at the same time: those in memory.
    """
    n, d = rows.shape
    count = max(1, min(n, count, max(50, layout.room // (16 * d * k))))
    nodes = np.sort(rng.choice(n, size=count, replace=False))
    # The pieces do not depend on the number of threads.
    pieces = min(count, pieces or (_PIECES if rows.held else 1))
    each = [
        pool.submit(exact_streamed, rows, some, k, layout.block_bytes // pieces)
        for some in np.array_split(nodes, pieces)
    ]
    found = np.concatenate([one.result()[0] for one in each])
    ids, where = np.unique(found, return_inverse=True)
    where = where.reshape(found.shape)
    points, others = rows.gather(nodes), rows.gather(ids)
    reach = np.empty(count)
    for i in range(count):  # products have found them; only differences keep all digits
        gap = others[where[i]].astype(np.float64) - points[i]
        reach[i] = np.sqrt(np.einsum("ij,ij->i", gap, gap).max())
    return Sample(nodes, points, others, where, reach)


def least_overlap(
    centres: Centres, known: Sample, layout: Layout, pool: Executor
) -> tuple[int, float]:
    """Find the least p for which enough known neighbours share one of p parts with their node.

    At least 2, at most C and what the parts' sizes allow. Returns p and the share.
    """
    most = min(layout.most_overlap, centres.norms.size)
    if most == 1:
        return 1, 1.0
    of_nodes = centres.nearest(known.points, most, pool)
    of_neighbours = centres.nearest(known.others, most, pool)[known.neighbours]
    for p in range(2, most + 1):
        mine = of_nodes[:, None, :p, None]
        met = (mine == of_neighbours[:, :, None, :p]).any(axis=(2, 3))
        share = float(met.mean())
        cheap = (p + 1) ** 2 * layout.mean <= _CHEAP
        if share >= (_WANTED if cheap else _NEEDED) or p == most:
            break
    return p, share


def assign(
    rows: Prepared, centres: Centres, overlap: int, layout: Layout, pool: Executor
) -> NDArray[np.int32]:
    """Nearest `overlap` centres of every point, (n, p), nearest first."""
    assigned = np.empty((rows.shape[0], overlap), dtype=np.int32)
    for start, block in rows.blocks(layout.block_bytes):
        assigned[start : start + block.shape[0]] = centres.nearest(block, overlap, pool)
    return assigned


def lay_out(
    assigned: NDArray[np.int32], count: int, layout: Layout
) -> tuple[Parts, NDArray[np.int64]]:
    """Parts from the centres (n, p) near every point; and where its p copies lie, (n, p)."""
    n, p = assigned.shape
    sizes = np.bincount(assigned.ravel(), minlength=count)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    members = np.empty(n * p, dtype=np.int32)
    places = np.empty((n, p), dtype=np.int64)
    nearest_lists.order_members(assigned, starts, members, places)
    starts = _split(assigned, starts, members, places, layout.largest_part(p))
    home = np.sort(places[:, 0])
    parts = Parts(members[home], members, starts, home)
    members[:] = parts.numbers()[members]
    return parts, places


def write_parts(
    rows: Prepared, places: NDArray[np.int64], layout: Layout, scratch: Scratch
) -> None:
    """Write every point to the scratch file once for each of its parts, to `places` (n, p)."""
    p = places.shape[1]
    for start, block in rows.blocks(layout.block_bytes):
        wanted = places[start : start + block.shape[0]].ravel()
        order = np.argsort(wanted)
        for a in range(0, order.size, block.shape[0]):  # one copy of the block at a time
            some = order[a : a + block.shape[0]]
            scratch.write_many(wanted[some], block[some // p])


def in_order(rows: Prepared, parts: Parts, layout: Layout) -> NDArray[np.float32]:
    """All points (n, d), in the order of the parts."""
    numbers = parts.numbers()
    points = np.empty(rows.shape, dtype=np.float32)
    for start, block in rows.blocks(layout.block_bytes):
        points[numbers[start : start + block.shape[0]]] = block
    return points


def _split(
    assigned: NDArray[np.int32],
    starts: NDArray[np.int64],
    members: NDArray[np.int32],
    places: NDArray[np.int64],
    most: int,
) -> NDArray[np.int64]:
    """Cut parts of more than `most` rows into equal pieces; new bounds, no part empty.

    A part's members are first ordered by the other centre near them, which side they lie on;
    `members` and `places` are brought up to date.
    """
    bounds: list[int] = []
    for part in np.flatnonzero(np.diff(starts)):
        first, stop = int(starts[part]), int(starts[part + 1])
        bounds.append(first)
        if stop - first <= most:
            continue
        own = members[first:stop]
        near = assigned[own]
        level = np.argmax(near == part, axis=1)
        other = near[np.arange(own.size), np.where(level == 0, min(1, near.shape[1] - 1), 0)]
        order = np.lexsort((own, other))
        members[first:stop] = own[order]
        places[members[first:stop], level[order]] = np.arange(first, stop)
        pieces = -(-(stop - first) // most)
        bounds += [first + (stop - first) * piece // pieces for piece in range(1, pieces)]
    return np.array([*bounds, members.size], dtype=np.int64)
