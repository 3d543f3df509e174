"""Local joins of neighbour lists: the neighbours of a point are compared with each other.

Dong, Moses & Li 2011 (NN-descent). An entry of a list that was not joined since it came in is new;
two old entries of one list have met before, so only pairs with a new one are compared.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from mustlink.kernels.nearest_lists import insert, squared_gap

UNJOINED, UNTOLD = np.uint8(1), np.uint8(2)  # not met by its list's others; not told to its target
_FAST = {"reassoc", "contract", "nsz"}  # sums in any order
_FEW = 48  # coordinates up to which sums for several nodes are taken at a time


@nb.njit(cache=True, nogil=True)
def insert_fresh(lengths: Any, nodes: Any, fresh: Any, i: int, length: Any, node: int) -> bool:
    """`insert` into list i, of entries with flags: what goes in is new; whether it did."""
    place, k = insert(lengths, nodes, i, length, node), fresh.shape[1]
    for c in range(k - 1, place - 1, -1):
        fresh[i, c] = fresh[i, c - 1] if c > place else UNJOINED | UNTOLD
    return place < k


@nb.njit(cache=True, nogil=True)
def tell_targets(indices: Any, fresh: Any, first: int, stop: int, reverse: Any, count: Any) -> None:
    """Collect who names the nodes first:stop since they were told last, `reverse` (n, r).

    Up to r for each, by number of the one who names it, those in its own list left out; `count`
    (n,) is how many. Who finds no room is told in a later sweep.
    """
    n, k = indices.shape
    r = reverse.shape[1]
    count[first:stop] = 0
    for i in range(n):
        for a in range(k):
            j = indices[i, a]
            if j < first or j >= stop or not fresh[i, a] & UNTOLD:
                continue
            if count[j] == r:
                continue
            fresh[i, a] &= UNJOINED
            known = False
            for c in range(k):
                known |= indices[j, c] == i
            if not known:
                reverse[j, count[j]] = i
                count[j] += 1


@nb.njit(cache=True, nogil=True)
def members(
    indices: Any,
    fresh: Any,
    wide: int,
    reverse: Any,
    count: Any,
    first: int,
    ids: Any,
    sizes: Any,
) -> None:
    """List who meets at each of the nodes first:first + g: `ids` (g, wide + r), new ones first.

    These are the `wide` nearest of its list and those who told that they name it. `sizes` (g, 2)
    are the numbers of new ones and of all, 0 and 0 where none is new. They are old from now on.
    """
    k = wide
    for o in range(ids.shape[0]):
        m = first + o
        new = count[m]
        for a in range(new):
            ids[o, a] = reverse[m, a]
        for a in range(k):
            if indices[m, a] >= 0 and fresh[m, a] & UNJOINED:
                ids[o, new] = indices[m, a]
                new += 1
        total = new
        if new > 0:
            for a in range(k):
                if indices[m, a] >= 0 and not fresh[m, a] & UNJOINED:
                    ids[o, total] = indices[m, a]
                    total += 1
        for a in range(k):
            fresh[m, a] &= UNTOLD
        sizes[o, 0], sizes[o, 1] = new, total


@nb.njit(cache=True, nogil=True)
def reorder(rows: Any, order: Any, done: Any) -> None:
    """Move row i of `rows` (n, k) to row order[i], in place; `done` (n,) comes False."""
    k = rows.shape[1]
    held = np.empty(k, dtype=rows.dtype)
    for start in range(rows.shape[0]):
        if done[start]:
            continue
        done[start] = True
        at = order[start]
        for c in range(k):  # assigned as a whole, rows take seconds to compile
            held[c] = rows[start, c]
        while at != start:
            for c in range(k):
                held[c], rows[at, c] = rows[at, c], held[c]
            done[at] = True
            at = order[at]
        for c in range(k):
            rows[start, c] = held[c]


@nb.njit(cache=True, nogil=True)
def order_ties(indices: Any, lengths: Any) -> None:
    """Order entries of equal length by number, in ascending lists (n, k)."""
    n, k = indices.shape
    for i in range(n):
        for c in range(1, k):
            node, at = indices[i, c], c
            while at > 0 and lengths[i, at - 1] == lengths[i, c] and indices[i, at - 1] > node:
                indices[i, at] = indices[i, at - 1]
                at -= 1
            indices[i, at] = node


@nb.njit(cache=True, nogil=True, fastmath=_FAST)
def join(
    points: Any, ids: Any, sizes: Any, lengths: Any, pairs: Any, squared: Any
) -> tuple[int, int]:
    """Compare who meets: pairs (u, 2) near enough for one of the two lists, and their `squared`.

    Of points (n, d). `lengths` (n, k) are the lists as they were before the group. Returns the
    number of pairs kept, and of all compared.
    """
    g, wide = ids.shape
    d = points.shape[1]
    k = lengths.shape[1]
    few = d <= _FEW
    near = np.empty((d if few else 0, wide), dtype=np.float32)  # transposed: many sums at a time
    total = np.empty(wide, dtype=np.float32)
    bounds = np.empty(wide, dtype=np.float32)
    kept, compared = 0, 0
    for o in range(g):
        new, size = sizes[o, 0], sizes[o, 1]
        for a in range(size):
            at = ids[o, a]
            for c in range(near.shape[0]):
                near[c, a] = points[at, c]
            bounds[a] = lengths[ids[o, a], k - 1]
        for a in range(new):
            # Views from 0 on: only loops over these become vector instructions.
            sums = total[a + 1 : size]
            sums[:] = 0.0
            for c in range(near.shape[0]):
                own = near[c, a]
                row = near[c, a + 1 : size]
                for b in range(row.shape[0]):
                    gap = own - row[b]
                    sums[b] += gap * gap
            if not few:
                for b in range(sums.shape[0]):
                    sums[b] = squared_gap(points, ids[o, a], points, ids[o, a + 1 + b])
            compared += sums.shape[0]
            bound, others = bounds[a], bounds[a + 1 : size]
            for b in range(sums.shape[0]):
                if sums[b] < max(bound, others[b]) and ids[o, a] != ids[o, a + 1 + b]:
                    pairs[kept, 0] = ids[o, a]
                    pairs[kept, 1] = ids[o, a + 1 + b]
                    squared[kept] = sums[b]
                    kept += 1
    return kept, compared


@nb.njit(cache=True, nogil=True)
def take_up(
    pairs: Any, squared: Any, share: int, shares: int, indices: Any, lengths: Any, fresh: Any
) -> int:
    """Put both nodes of each pair (u, 2) into each other's list; how many went in.

    Only the lists of every `shares`-th run of 64 nodes are looked at, from run `share` on: several
    threads with a share each leave the same lists as one.
    """
    changed = 0
    for e in range(pairs.shape[0]):
        for side in range(2):
            i, j = pairs[e, side], pairs[e, 1 - side]
            if (i >> 6) % shares == share:
                changed += insert_fresh(lengths, indices, fresh, i, squared[e], j)
    return changed
