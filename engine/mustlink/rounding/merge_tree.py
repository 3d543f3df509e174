"""Clusters merged one pair after the other by normalised cut, what is known kept as far as it can.

Two clusters a and b, with edges of weight l_ab between them, are apart as their union is cut
between them at little cost:

    1 − Ncut(a, b)/2,   Ncut(a, b) = l_ab/(l_aa + l_ab) + l_ab/(l_bb + l_ab)

(Shi & Malik 2000, on the nodes of both alone): 1 where no edge joins them, and the less the more of
their edges do. The pair that is least apart is merged.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_TINY = np.finfo(np.float64).tiny


def merge_tree(links: Floats, groups: Ints, beliefs: Floats) -> Floats:
    """Linkage (L − 1, 4) of L leaves as scipy has it, from the weights between them (L, L).

    Leaves of one group (L,) are merged before groups are; among those that may be, pairs with a
    positive belief (L, L) first, with a negative one last, and of equals those least apart. A
    height is how far they are apart, or that of the merge before where it is higher. Cost O(L³), L
    some hundred.
    """
    L = groups.size
    l, Q, group = links.astype(np.float64), beliefs.astype(np.float64), groups.copy()
    number, leaves, alive = np.arange(L), np.ones(L), np.ones(L, dtype=bool)
    found, height = np.zeros((max(L - 1, 0), 4)), 0.0
    for step in range(L - 1):
        a, b, apart = _next(l, Q, group, alive)
        height = max(height, apart)
        low, high = sorted((number[a], number[b]))
        found[step] = low, high, height, leaves[a] + leaves[b]
        for M in (l, Q):
            M[a] += M[b]
            M[:, a] += M[:, b]
        leaves[a] += leaves[b]
        number[a], alive[b] = L + step, False
    return found


def _next(l: Floats, Q: Floats, group: Ints, alive: NDArray[np.bool_]) -> tuple[int, int, float]:
    """The pair to be merged, and how far apart it is."""
    left = np.flatnonzero(alive)
    i, j = np.triu_indices(left.size, 1)
    a, b = left[i], left[j]
    own, across = np.diag(l), l[a, b]
    one, other = (across / np.maximum(own[side] + across, _TINY) for side in (a, b))
    apart = 1.0 - (one + other) / 2.0
    order = np.lexsort((apart, -np.sign(Q[a, b]), group[a] != group[b]))
    best = order[0]
    return int(a[best]), int(b[best]), float(apart[best])


def cut_tree(linkage: Floats, k: int, groups: Ints, sizes: Floats, first_new: int) -> Ints:
    """Number of each of L leaves where the tree is cut into k clusters.

    At as many as there are groups (L,) these are the clusters, with their numbers. Of fewer each
    has the number of its largest group by the leaves' `sizes` (L,); where a group is cut, its
    larger part keeps its number, and the other gets the next one from `first_new` on: numbers are
    the same at every k.
    """
    L = groups.size
    members: dict[int, Ints] = {leaf: np.array([leaf]) for leaf in range(L)}
    parts = {step + L: (int(row[0]), int(row[1])) for step, row in enumerate(linkage)}
    for step in sorted(parts):
        a, b = parts[step]
        members[step] = np.concatenate([members[a], members[b]])
    size = {node: float(sizes[some].sum()) for node, some in members.items()}
    n_groups = np.unique(groups).size
    top = 2 * L - 2
    numbers, new = {top: _largest(members[top], groups, sizes)}, first_new
    for step in range(L - 2, L - 1 - k, -1):  # from one cluster to k
        node = L + step
        a, b = parts[node]
        own = numbers.pop(node)
        if L - step <= n_groups:  # whole groups on both sides
            for child in (a, b):
                numbers[child] = _largest(members[child], groups, sizes)
        else:
            large, small = (a, b) if size[a] >= size[b] else (b, a)
            numbers[large], numbers[small] = own, new
            new += 1
    found = np.empty(L, dtype=np.int64)
    for node, number in numbers.items():
        found[members[node]] = number
    return found


def _largest(leaves: Ints, groups: Ints, sizes: Floats) -> int:
    """The group that has most of some leaves, of equals the smallest number."""
    names, place = np.unique(groups[leaves], return_inverse=True)
    return int(names[np.bincount(place, sizes[leaves]).argmax()])
