"""The cell of every point: its nearest of many centres, though few are compared with it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.neighbour_graph import AROUND
from mustlink.kernels import nearest_cell
from mustlink.neighbours.centres import Centres, find_centres
from mustlink.neighbours.points_by_rows import Prepared
from mustlink.neighbours.refine import Team

_LOOKED_AT = 256  # centres of a group in any case
_GROUPS = 3  # usual groups that the centres of one are as many as
_BLOCK = 64  # centres of a task
_SURE = 0.5  # times the distance of the last centre around: nearer ones are the nearest
_FAR = 0.01  # share of points that are compared with all centres at most
_POINTS = 1 << 12  # of a task
_ROWS = 1 << 21  # bytes of points whose cells are found at once


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
        """Rows whose cells are found at once: the same ones whoever does it."""
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
            rows = order[ends[g - 1] if g else 0 : ends[g]]
            found[rows] = self.centres.among(self.near[g], X[rows])

        def go_on(a: int, b: int) -> None:
            nearest_cell.go_on(X, middle, at, self.around, self.gaps, found, squared, a, b)

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
    """About √C groups of C centres, each after one that is near it, and who is near each.

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
