"""Nearest fitted points of new ones, found along the edges of their graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.nearest_lists import LANES, insert, squared_gap, take_smallest
from mustlink.kernels.threads import helper, inlined, kernel, loop


@helper(makes_arrays=True)
def _within_two_edges(indptr: Any, indices: Any, centre: int, stamp: Any, mark: int) -> Any:
    """A node, its neighbours and theirs, each once."""
    first, last = indptr[centre], indptr[centre + 1]
    most = 1 + last - first
    for e in range(first, last):
        most += indptr[indices[e] + 1] - indptr[indices[e]]
    near = np.empty(most, np.int64)
    near[0], stamp[centre], count = centre, mark, 1
    at, stop = 0, 1
    for _ in range(2):
        while at < stop:
            for e in range(indptr[near[at]], indptr[near[at] + 1]):
                if stamp[indices[e]] != mark:
                    near[count], stamp[indices[e]] = indices[e], mark
                    count += 1
            at += 1
        stop = count
    return near[:count]


@kernel(makes_arrays=True)
def around(
    points: Any, indptr: Any, indices: Any, centre: int, stamp: Any, mark: int,
    queries: Any, nodes: Any, squared: Any,
) -> None:  # fmt: skip
    """Fill lists (q, l) with what is nearest to queries (q, d) within two edges of a node.

    Ascending by squared length, -1 and Inf where there are fewer. `stamp` (n,) holds no `mark`.
    """
    near = _within_two_edges(indptr, indices, centre, stamp, mark)
    count = near.size
    d = points.shape[1]
    P, Q = np.empty((count, d), np.float32), np.empty_like(queries)
    sizes = np.zeros(count, np.float32)
    for a in range(count):
        for c in range(d):
            P[a, c] = points[near[a], c] - points[centre, c]  # about it: products keep digits
            sizes[a] += P[a, c] * P[a, c]
    for i in range(queries.shape[0]):
        for c in range(d):
            Q[i, c] = queries[i, c] - points[centre, c]
    D = np.dot(Q, P.T)
    wide = min(nodes.shape[1], count)
    values = np.full((queries.shape[0], wide), np.inf, np.float32)
    places = np.full((queries.shape[0], wide), -1, np.int32)
    score, some = np.empty(count, np.float32), np.empty(count + 1, np.int32)
    take_smallest(D, sizes, 0, values, places, score, np.empty(LANES, np.float32), some)
    nodes[:, :], squared[:, :] = -1, np.inf
    for i in range(queries.shape[0]):
        for c in range(wide):
            if places[i, c] >= 0:
                node = near[places[i, c]]
                insert(squared, nodes, i, squared_gap(queries, i, points, node), node)


@kernel(makes_arrays=True)
def walk(
    points: Any, indptr: Any, indices: Any, queries: Any, most: int, stamp: Any, mark: int,
    nodes: Any, squared: Any,
) -> int:  # fmt: skip
    """Improve lists (q, l): the neighbours of the nearest `most` nodes of each are compared, too.

    Best first, each once. `stamp` (n,) holds no number from `mark` on; q are used. Returns how
    many.
    """
    q, width = nodes.shape
    left = np.zeros(width, np.bool_)
    for i in range(q):
        left[:] = False
        for c in range(width):
            if nodes[i, c] >= 0:
                stamp[nodes[i, c]] = mark + i
        for _ in range(most):
            at = 0
            while at < width and (left[at] or nodes[i, at] < 0):
                at += 1
            if at == width:
                break
            left[at] = True
            own = nodes[i, at]
            for e in range(indptr[own], indptr[own + 1]):
                node = indices[e]
                if stamp[node] == mark + i:
                    continue
                stamp[node] = mark + i
                gap = squared_gap(queries, i, points, node)
                if gap < squared[i, width - 1]:
                    place = insert(squared, nodes, i, gap, node)
                    for c in range(width - 1, place, -1):
                        left[c] = left[c - 1]
                    if place < width:
                        left[place] = False
    return q


@kernel(makes_arrays=True)
def neighbor_radii(
    points: Any, indptr: Any, indices: Any, nodes: Any, near: int, k: int, scale: Any, radii: Any
) -> None:
    """Squared lengths of the edges of `nodes` (m,): that to the `near`-th neighbour, and the k-th.

    Of fewer edges the longest. Edges of a node are its own k nearest and others that name it.
    """
    for i in range(nodes.size):
        own = nodes[i]
        a, b = indptr[own], indptr[own + 1]
        gaps = np.empty(b - a, np.float32)
        for e in range(a, b):
            gaps[e - a] = squared_gap(points, own, points, indices[e])
        gaps.sort()
        scale[i] = gaps[min(near, b - a) - 1] if b > a else np.inf
        radii[i] = gaps[min(k, b - a) - 1] if b > a else np.inf


@kernel(makes_arrays=True)
def among(points: Any, members: Any, nodes: Any, squared: Any) -> None:
    """Put each of the `members` (c,) of points (m, d) into the lists (m, k) of the others."""
    count, d = members.size, points.shape[1]
    P, sizes = np.empty((count, d), np.float32), np.zeros(count, np.float32)
    for a in range(count):
        for c in range(d):
            P[a, c] = points[members[a], c] - points[members[0], c]  # about it: digits are kept
            sizes[a] += P[a, c] * P[a, c]
    D = np.dot(P, P.T)
    wide = min(nodes.shape[1] + 1, count)
    values = np.full((count, wide), np.inf, np.float32)
    places = np.full((count, wide), -1, np.int32)
    score, near = np.empty(count, np.float32), np.empty(count + 1, np.int32)
    take_smallest(D, sizes, 0, values, places, score, np.empty(LANES, np.float32), near)
    for a in range(count):
        for c in range(wide):
            if places[a, c] >= 0 and places[a, c] != a:
                other = members[places[a, c]]
                gap = squared_gap(points, members[a], points, other)
                insert(squared, nodes, members[a], gap, other)


# --- Groups of linked nodes, and components, by union-find: arrays in, arrays out


_FIRST = 2  # neighbours of every node that are joined before the largest group is set aside


@kernel()
def unite(left: Any, right: Any, parent: Any, owner: Any, refused: Any) -> None:
    """See `constraints.closure.union_find`: roots are smallest members, paths are halved."""
    for link in range(left.size):
        a, b = _root(parent, left[link]), _root(parent, right[link])
        if a == b:
            continue
        if owner[a] >= 0 and owner[b] >= 0 and owner[a] != owner[b]:
            refused[link] = True
            continue
        if a > b:
            a, b = b, a
        parent[b] = a
        if owner[b] >= 0:
            owner[a] = owner[b]
    flatten(parent)


def smallest_members(indptr: Any, indices: Any) -> Any:
    """The smallest node of every node's component, (n,), of a symmetric pattern in CSR form.

    A few neighbours of every node join nearly all of a large component; edges between its members
    say nothing more, and every other edge is met from its other end, too (Sutton, Ben-Nun & Barak
    2018, Afforest). Cost O(n + edges outside the largest group), as good as linear.
    """
    parent = np.arange(indptr.size - 1, dtype=indices.dtype)
    _join_some(indptr, indices, parent, np.arange(parent.size), _FIRST)
    if parent.size:
        apart = np.zeros(parent.size, dtype=np.bool_)
        largest = int(np.bincount(parent).argmax())
        _find_apart(parent.size, indices.size, indptr, indices, parent, largest, apart)
        _join_some(indptr, indices, parent, np.flatnonzero(apart), indices.size)
    return parent


@kernel()
def _join_some(indptr: Any, indices: Any, parent: Any, nodes: Any, most: int) -> None:
    """Join some nodes with their first neighbours, `most` of each."""
    for a in range(nodes.size):
        i = nodes[a]
        for q in range(indptr[i], min(indptr[i] + most, indptr[i + 1])):
            join(parent, i, indices[q])
    flatten(parent)


@loop()
def _find_apart(
    lo: int, hi: int, indptr: Any, indices: Any, parent: Any, largest: int, apart: Any
) -> None:
    """Which nodes outside of the largest group have a neighbour in another one than theirs."""
    for i in range(lo, hi):
        if parent[i] != largest:
            for q in range(indptr[i] + _FIRST, indptr[i + 1]):
                if parent[indices[q]] != parent[i]:
                    apart[i] = True
                    break


@inlined()
def _root(parent: Any, i: int) -> int:
    """Where the path from i ends; it is halved."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@inlined()
def join(parent: Any, i: int, j: int) -> None:
    """Make the groups of two nodes one, named by its smallest member."""
    a, b = _root(parent, i), _root(parent, j)
    if a < b:
        parent[b] = a
    else:
        parent[a] = b


@inlined()
def flatten(parent: Any) -> None:
    """Every node points to its root: one rising pass, for parents are smaller than children."""
    for i in range(parent.size):
        parent[i] = parent[parent[i]]


# --- Paths between nodes of trees: sums and maxima over their branches. Arrays in, arrays out
#
# A branch is named by its lower end. `above` (n,) is the node above, -1 for roots, and `depth` (n,)
# the number of branches up to the root.


Ints = NDArray[np.int64]


def tree_sizes(order: Ints, above: Ints) -> tuple[Ints, Ints]:
    """Depth of every node (n,) and how many nodes are at it or below; `order` is top to bottom."""
    depth, size = np.zeros(above.size, dtype=np.int64), np.ones(above.size, dtype=np.int64)
    _sizes(order, above, depth, size)
    return depth, size


def passing(above: Ints, depth: Ints, ends: Ints) -> Ints:
    """How many of the paths between `ends` (p, 2) pass over every branch (n,)."""
    found = np.zeros(above.size, dtype=np.int64)
    _count(above, depth, ends, found)
    return found


def highest(above: Ints, depth: Ints, ends: Ints, rank: Ints) -> Ints:
    """The branch of the highest rank >= 0 on every path between `ends` (p, 2), -1 for none."""
    found = np.full(len(ends), -1, dtype=np.int64)
    _highest(above, depth, ends, rank, found)
    return found


@kernel()
def _sizes(order: Any, above: Any, depth: Any, size: Any) -> None:
    for node in order:
        if above[node] >= 0:
            depth[node] = depth[above[node]] + 1
    for node in order[::-1]:
        if above[node] >= 0:
            size[above[node]] += size[node]


@kernel()
def _count(above: Any, depth: Any, ends: Any, found: Any) -> None:
    for path in range(len(ends)):
        one, other = ends[path, 0], ends[path, 1]
        while one != other:
            if depth[one] < depth[other]:
                one, other = other, one
            found[one] += 1
            one = above[one]


@kernel()
def _highest(above: Any, depth: Any, ends: Any, rank: Any, found: Any) -> None:
    for path in range(len(ends)):
        one, other = ends[path, 0], ends[path, 1]
        best = -1
        while one != other:
            if depth[one] < depth[other]:
                one, other = other, one
            if rank[one] > best:
                best, found[path] = rank[one], one
            one = above[one]


# --- Nodes by levels of neighbours, each row's new ones by degree: the loop of Cuthill & McKee


@kernel()
def _degrees(indptr: Any, indices: Any, degree: Any) -> None:
    """Entries of every row, one on the diagonal twice."""
    for i in range(degree.size):
        held = indptr[i + 1] - indptr[i]
        for q in range(indptr[i], indptr[i + 1]):
            held += indices[q] == i
        degree[i] = held


@kernel()
def _levels(indptr: Any, indices: Any, degree: Any, starts: Any, met: Any, order: Any) -> None:
    count = 0
    for start in starts:
        if met[start]:
            continue
        met[start], order[count] = True, start
        at, count = count, count + 1
        while at < count:
            i, first = order[at], count
            at += 1
            for q in range(indptr[i], indptr[i + 1]):
                j = indices[q]
                if met[j]:
                    continue
                met[j] = True
                to, size = count, degree[j]
                while to > first and degree[order[to - 1]] > size:
                    order[to] = order[to - 1]
                    to -= 1
                order[to] = j
                count += 1


def level_order(indptr: NDArray[Any], indices: NDArray[Any]) -> NDArray[Any]:
    """Order (n,) in which a breadth-first search meets the nodes of a symmetric CSR pattern.

    Every component from a node of least degree, the neighbours of a node by rising degree, of equal
    ones as they are stored. Cost O(nnz) and the sorting.
    """
    n = indptr.size - 1
    degree = np.empty(n, dtype=indices.dtype)
    _degrees(indptr, indices, degree)
    order = np.empty(n, dtype=indices.dtype)
    _levels(indptr, indices, degree, np.argsort(degree), np.zeros(n, dtype=np.bool_), order)
    return order


# --- Exact elimination of a graph's nodes without a subtraction: weights of any range lose no digit
#
# Source: Grassmann, Taksar & Heyman 1985, for Markov chains.


@kernel()
def eliminate(W: Any, ground: Any, F: Any) -> None:
    """Solve (diag(ground) + Laplacian of W)X = F in place, F (m, b); W (m, m) and ground are lost.

    W >= 0 is symmetric, of which the part below the diagonal is read, `ground` (m,) >= 0. Node
    after node, the last first, leaves its share w_ki/Σw_k of ground and F to its neighbours i, and
    these are joined by w_ki·w_kj/Σw_k. A component without ground is held at 0 at its first node.
    Cost: m³/3 operations.
    """
    m, width = F.shape
    for k in range(m - 1, -1, -1):
        total = ground[k]
        for i in range(k):
            total += W[k, i]
        ground[k], own = total, ground[k]
        for i in range(k):
            if W[k, i] > 0.0:
                share = W[k, i] / total
                ground[i] += share * own
                for c in range(width):
                    F[i, c] += share * F[k, c]
                for j in range(i):
                    W[i, j] += share * W[k, j]
    for k in range(m):
        for c in range(width):
            for i in range(k):
                F[k, c] += W[k, i] * F[i, c]
            F[k, c] = F[k, c] / ground[k] if ground[k] > 0.0 else 0.0
