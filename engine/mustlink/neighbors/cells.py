"""Cells of points: centres, the nearest of each point, and how far visits have to go.

The nearest of many centres is found though few are compared with each point.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.neighbor_cost import AROUND, NEAR_CELLS, Layout
from mustlink.kernels import cells as cell_kernels
from mustlink.kernels import nearest_lists
from mustlink.neighbors.exact import exact_streamed
from mustlink.neighbors.points_by_rows import Prepared

_TALL, _WIDE = 512, 512  # rows and centres compared at once: products stay in the cache
_TASK = 8 * _TALL  # rows of a task
_ROUNDS = 8  # of Lloyd's algorithm; cells need not be optimal
_FIRST = 64  # centres that are found at once; more by splitting
_SPLITS = 4  # times that large cells are split
_LOOKED_AT = 256  # centres of a group in any case
_GROUPS = 3  # usual groups that the centres of one are as many as
_BLOCK = 64  # centres of a task
_SURE = 0.5  # times the distance of the last centre around: nearer ones are the nearest
_FAR = 0.01  # share of points that are compared with all centres at most
_POINTS = 1 << 12  # of a task
_ROWS = 1 << 21  # bytes of points whose cells are found at once
_PIECES = 4  # of the sample


@dataclass(frozen=True)
class Team:
    """Threads that work through tasks; what they compute does not depend on their number."""

    pool: ThreadPoolExecutor
    workers: int

    def slices(self, task: Callable[[int, int, int], int], count: int) -> list[int]:
        """Run task(i, a, b) on about equal pieces a:b of `count`, one a thread, in order."""
        bounds = [count * i // self.workers for i in range(self.workers + 1)]
        return list(self.pool.map(task, range(self.workers), bounds[:-1], bounds[1:]))

    def each(self, task: Callable[[int, int], object], count: int, step: int) -> None:
        """Run task(a, b) on pieces a:b of `step` of `count`, in any order."""
        firsts = range(0, count, step)
        list(self.pool.map(lambda a: task(a, min(count, a + step)), firsts))


@dataclass(frozen=True)
class Centres:
    """Centres of cells: coordinates (C, d) about `middle` (d,), and |c|² (C,)."""

    middle: NDArray[np.float32]
    at: NDArray[np.float32]
    norms: NDArray[np.float32]

    def nearest(
        self, X: NDArray[np.float32], count: int, pool: Executor | None = None
    ) -> NDArray[np.int32]:
        """Find the `count` <= C nearest centres of each point (m, d), nearest first, (m, count).

        Blocks of products by BLAS, O(m C d), each on one thread, so that the outcome does not
        depend on the number of threads; without a pool on this one.
        """
        out = np.empty((X.shape[0], count), dtype=np.int32)

        def fill(first: int) -> None:
            products = np.empty(_TALL * _WIDE, dtype=np.float32)  # one for all blocks of a task
            for start in range(first, min(first + _TASK, X.shape[0]), _TALL):
                rows = slice(start, start + _TALL)
                self._nearest(X[rows] - self.middle, out[rows], products)

        list((pool.map if pool else map)(fill, range(0, X.shape[0], _TASK)))
        return out

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
    """Find about `count` centres of a sample (s, d) whose cells are of similar size.

    A few rounds of Lloyd's algorithm for a few centres. Cells of more than twice the mean are split
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
    """Points (C, d) as centres, relative to `middle` (d,)."""
    at = np.ascontiguousarray(points - middle)
    return Centres(middle, at, np.einsum("ij,ij->i", at, at))


def _sums(sample: NDArray[np.float32], owner: NDArray[np.int32], count: int) -> NDArray[np.float32]:
    """Sum of the rows of each owner, (count, d), in the order of the rows."""
    order = np.argsort(owner, kind="stable").astype(np.int32)
    ends = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))])
    ones = np.ones(owner.size, dtype=np.float32)
    members = sp.csr_matrix((ones, order, ends), shape=(count, owner.size))
    return np.asarray(members @ sample)


def centres_of(
    rows: Prepared, k: int, rng: np.random.Generator, layout: Layout, pool: Executor
) -> Centres:
    """Find centres from a random sample; none is to have fewer than about 2k points."""
    n = rows.shape[0]
    chosen = np.sort(rng.choice(n, size=layout.sample, replace=False))
    least = int(np.ceil(2 * (k + 1) * layout.sample / n))
    return find_centres(rows.gather(chosen), layout.parts, least, rng, pool)


@dataclass(frozen=True)
class Groups:
    """Centres (C, d) in an order in which those that follow each other lie near each other.

    A point is compared with some, `near` (G, L), of the nearest of G group centres; from the
    nearest of these it goes on to nearer ones among `around` (C, A), the centres near each with
    their `gaps` (C, A), while there are any. By the triangle inequality that is the nearest of all
    where the last centre around is twice as far from it as the point. A point that is farther than
    `far` times that, 1/2 at least, is compared with all.
    """

    centres: Centres
    heads: Centres
    near: NDArray[np.int32]
    around: NDArray[np.int32]
    gaps: NDArray[np.float32]
    far: float

    @staticmethod
    def bounds(rows: Prepared) -> list[slice]:
        """Rows whose cells are found at once: the same ones in every process."""
        return rows.bounds(_ROWS)

    def cell(self, X: NDArray[np.float32], team: Team) -> NDArray[np.int32]:
        """The cell (m,) of each point (m, d)."""
        found, squared = self._near_one(X, team)
        rows = np.flatnonzero(self._off(found, squared) > self.far)
        if rows.size:
            found[rows] = self.centres.nearest(X[rows], 1, team.pool)[:, 0]
        return found

    def _near_one(
        self, X: NDArray[np.float32], team: Team
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """A centre (m,) than which none around it is nearer, and its squared distance."""
        m, middle, at = X.shape[0], self.centres.middle, self.centres.at
        found, squared = np.empty(m, np.int32), np.empty(m, np.float32)
        head = self.heads.nearest(X, 1, team.pool)[:, 0]
        order = np.argsort(head, kind="stable")
        ends = np.cumsum(np.bincount(head, minlength=self.near.shape[0]))

        def fill(g: int, _: int) -> None:
            rows, near = order[ends[g - 1] if g else 0 : ends[g]], self.near[g]
            few = Centres(middle, at[near], self.centres.norms[near])
            found[rows] = near[few.nearest(X[rows], 1)[:, 0]]

        def go_on(a: int, b: int) -> None:
            room = np.empty((1, X.shape[1]), np.float32)
            cell_kernels.go_on(X, middle, at, self.around, self.gaps, found, squared, a, b, room)

        team.each(fill, ends.size, 1)
        team.each(go_on, m, _POINTS)
        return found, squared

    def _off(self, found: NDArray[np.int32], squared: NDArray[np.float32]) -> NDArray[np.floating]:
        """How far points are from a centre, in distances of the last around it."""
        if self.around.shape[1] == self.centres.norms.size - 1:  # all are
            return np.zeros(found.size)
        return np.sqrt(squared) / np.maximum(self.gaps[found, -1], np.finfo(np.float32).tiny)


def grouped(
    centres: Centres, some: NDArray[np.float32], rng: np.random.Generator, team: Team
) -> Groups:
    """About √C groups of C centres, near ones one after the other, and the centres near each group.

    To a group belong the centres that are its own, however far: those of others crowd round its
    middle where sheets cross, or dense regions lie beside thin ones. From `some` random points
    (m, d) it is found how far those are that are farthest off: of points in all directions, none
    is sure to have its nearest centre, and a few are far from any.
    """
    C = centres.norms.size
    heads = find_centres(centres.at + centres.middle, max(1, int(np.sqrt(C))), 1, rng, team.pool)
    owner = heads.nearest(centres.at + centres.middle, 1, team.pool)[:, 0]
    order = np.argsort(chained(heads.at)[owner], kind="stable")
    centres, owner = Centres(centres.middle, centres.at[order], centres.norms[order]), owner[order]
    G, own = heads.norms.size, int(np.bincount(owner).max())
    few = min(C, max(_LOOKED_AT, -(-_GROUPS * C // G), own))
    gaps = heads.at + (heads.middle - centres.middle)
    gaps = centres.norms - 2 * (gaps @ centres.at.T)
    gaps[owner, np.arange(C)] = -np.inf
    near = np.argsort(gaps, axis=1, kind="stable")[:, :few].astype(np.int32)
    lists = np.sort(near, axis=1), *near_centres(centres.at, AROUND, team)
    groups = Groups(centres, heads, *lists, _SURE)
    off = np.sort(groups._off(*groups._near_one(some, team)))
    return replace(groups, far=max(_SURE, float(off[int((1 - _FAR) * (off.size - 1))])))


def chained(points: NDArray[np.float32]) -> NDArray[np.intp]:
    """Place (m,) of each point (m, d) in a chain that goes on to the nearest of those left."""
    place = np.full(points.shape[0], -1)
    at = 0
    for step in range(place.size):
        place[at] = step
        gap = points - points[at]
        at = int(np.argmin(np.where(place < 0, np.einsum("ij,ij->i", gap, gap), np.inf)))
    return place


def near_centres(
    centres: NDArray[np.float32], most: int, team: Team
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """At most so many others near every centre, and how far they are, nearest first, (C, A)."""
    C = centres.shape[0]
    count = min(C - 1, most)
    near, gaps = np.empty((C, count), np.int32), np.empty((C, count), np.float32)
    squares = np.einsum("ij,ij->i", centres, centres)

    def fill(first: int, stop: int) -> None:
        own = np.arange(first, stop)
        D = squares - 2 * (centres[own] @ centres.T)
        D[own - first, own] = np.inf
        some = np.argpartition(D, count - 1, axis=1)[:, :count] if count else near[own]
        for i in own:
            gap = np.sqrt(((centres[some[i - first]] - centres[i]) ** 2).sum(axis=1))
            order = np.lexsort((some[i - first], gap))
            near[i], gaps[i] = some[i - first][order], gap[order]

    team.each(fill, C, _BLOCK)
    return near, gaps


@dataclass(frozen=True)
class QuerySample:
    """Some nodes (m,) with their true neighbours: coordinates (m, d), and (u, d) of u others.

    `neighbours` (m, k) are rows of the others; `radii` (m,) is the distance of the farthest.
    """

    nodes: NDArray[np.int64]
    points: NDArray[np.float32]
    others: NDArray[np.float32]
    neighbours: NDArray[np.intp]
    radii: NDArray[np.float64]


def known_neighbours(
    rows: Prepared,
    k: int,
    count: int,
    rng: np.random.Generator,
    layout: Layout,
    pool: Executor,
    pieces: int | None = None,
) -> QuerySample:
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
    found = np.concatenate([one.result() for one in each])
    ids, where = np.unique(found, return_inverse=True)
    where = where.reshape(found.shape)
    points, others = rows.gather(nodes), rows.gather(ids)
    radii = np.empty(count)
    for i in range(count):  # products have found them; only differences keep all digits
        gap = others[where[i]].astype(np.float64) - points[i]
        radii[i] = np.sqrt(np.einsum("ij,ij->i", gap, gap).max())
    return QuerySample(nodes, points, others, where, radii)


# Share of known neighbours that are to be compared: what is wanted, and what is taken while a point
# is compared with no more than so many. Nanoseconds that visits of a point may take, and of a
# comparison, and more for each coordinate.
_WANTED, _ALL, _CHEAP = 0.97, 0.995, 1_500
_DEAREST, _COMPARISON = (1.6e5, 800.0), (0.15, 0.0115)
_ROUNDING = 1e-5
_TINY = np.finfo(np.float32).tiny


@dataclass(frozen=True)
class Borders:
    """Cells near every cell, (C, A), nearest first; gaps of their centres, (C, A); `radii` (C,).

    A member visits the cells whose border with its own lies within the radius of its cell. So
    `shared` of the known neighbours are compared, with `pairs` comparisons a point.
    """

    near: NDArray[np.int32]
    gaps: NDArray[np.float32]
    radii: NDArray[np.float32]
    shared: float
    pairs: float


def borders_of(
    centres: NDArray[np.float32],
    counts: NDArray[np.int64],
    mean: NDArray[np.float64],
    known: QuerySample,
    owner: NDArray[np.int32],
    others: NDArray[np.int32],
    team: Team,
) -> Borders:
    """Find how far visits have to go for enough of the known neighbours to be compared.

    The distance is a factor times the radius of the own cell, so that dense and thin regions cost
    alike. Copies have each other in their cells, and visit none. Cells have `centres` (C, d),
    `counts` of members and their `mean` squared distance from the centre, (C,); `owner` (m,) and
    `others` (u,) are the cells of the known nodes and of their neighbours. The number of pairs that
    visits may compare is limited.
    """
    d = centres.shape[1]
    near, gaps = near_centres(centres, NEAR_CELLS, team)
    apart = known.radii > 0
    if near.shape[1] == 0 or not apart.any():
        nowhere = np.zeros(near.shape[0], np.float32)
        return Borders(near[:, :1].copy(), gaps[:, :1].copy(), nowhere, 1.0, 0.0)
    part, owner = float(apart.mean()), owner[apart]
    known = replace(known, points=known.points[apart], neighbours=known.neighbours[apart])
    radius = np.maximum(np.sqrt(mean), _TINY)
    needed = _needed(centres, radius, near, known, owner, others)
    H = _beyond_borders(centres, near, gaps, known.points, owner) / radius[owner, None]
    order = np.argsort(H, axis=None)
    total = part * np.cumsum(counts[near[owner]].ravel()[order]) / owner.size
    far = H.ravel()[order]

    def cost(factor: float) -> float:
        visited = int(np.searchsorted(far, factor, side="right"))
        return float(total[visited - 1]) if visited else 0.0

    def affordable(pairs: float) -> float:
        return float(far[min(far.size - 1, int(np.searchsorted(total, pairs)))])

    factor = max(_share(needed, _WANTED), min(_share(needed, _ALL), affordable(_CHEAP)))
    most = (_DEAREST[0] + _DEAREST[1] * d) / (_COMPARISON[0] + _COMPARISON[1] * d)
    if cost(factor) > most:
        factor = affordable(most)
    if np.isfinite(factor):  # it is that of a known pair, which is in however sums are rounded
        factor += _ROUNDING * abs(factor)
    slots = int(np.flatnonzero((factor >= H).any(axis=0)).max(initial=0)) + 1
    return Borders(
        np.ascontiguousarray(near[:, :slots]),
        np.ascontiguousarray(gaps[:, :slots]),
        (factor * radius).astype(np.float32),
        1 - part + part * float((needed <= factor).mean()),
        cost(factor),
    )


def _needed(
    centres: NDArray[np.float32],
    radius: NDArray[np.float64],
    near: NDArray[np.int32],
    known: QuerySample,
    owner: NDArray[np.int32],
    others: NDArray[np.int32],
) -> NDArray[np.float64]:
    """Factors, ascending, with which each known pair is compared: one of the two visits."""
    i = np.repeat(np.arange(owner.size), known.neighbours.shape[1])
    j = known.neighbours.ravel()
    needed = np.full(i.size, np.inf)
    sides = ((known.points[i], owner[i], others[j]), (known.others[j], others[j], owner[i]))
    for points, own, other in sides:
        way = (centres[other] - centres[own]).astype(np.float64)
        gap = np.maximum(np.linalg.norm(way, axis=1), _TINY)
        beyond = gap / 2 - np.einsum("ij,ij->i", points - centres[own], way) / gap
        beyond /= radius[own]
        beyond[~(near[own] == other[:, None]).any(axis=1)] = np.inf
        beyond[own == other] = -np.inf
        needed = np.minimum(needed, beyond)
    return np.sort(needed)


def _beyond_borders(
    centres: NDArray[np.float32],
    near: NDArray[np.int32],
    gaps: NDArray[np.float32],
    points: NDArray[np.float32],
    owner: NDArray[np.int32],
) -> NDArray[np.float64]:
    """How far points (m, d) are from the borders of their own cell with those near it, (m, A)."""
    found = np.empty((owner.size, near.shape[1]))
    for i, own in enumerate(owner):
        ways = centres[near[own]] - centres[own]
        gap = np.maximum(gaps[own].astype(np.float64), _TINY)
        found[i] = gap / 2 - ways @ (points[i] - centres[own]) / gap
    return found


def _share(ascending: NDArray[np.float64], share: float) -> float:
    """The value that this share does not exceed."""
    return float(ascending[min(ascending.size - 1, int(np.ceil(share * ascending.size)))])
