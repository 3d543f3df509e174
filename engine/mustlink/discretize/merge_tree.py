"""Clusters merged one pair after the other by normalised cut, what is known kept as far as it can.

Two clusters a and b, with edges of weight l_ab between them, are apart as their union is cut
between them at little cost:

    1 − Ncut(a, b)/2,   Ncut(a, b) = l_ab/(l_aa + l_ab) + l_ab/(l_bb + l_ab)

(Shi & Malik 2000, on the nodes of both alone): 1 where no edge joins them, and the less the more of
their edges do. The pair that is least apart is merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.context.stage_cache import Workspace
from mustlink.core.check import as_integer, best_matches
from mustlink.discretize.assign import kmeans
from mustlink.eigen.memory_work import laplacian_of, smoothest
from mustlink.errors import InputError

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


# --- The hierarchy of the clusters of a fit: cut at any number of clusters, without another fit


_LEAVES, _EACH = (16, 64), 4  # leaves in all, and for a cluster
_FEWEST = 5  # nodes of a leaf, about
_STARTS, _SAMPLE = 3, 10_000  # of k-means in a cluster: parts are merged again


@dataclass(frozen=True, eq=False)
class MergeTree:
    """Linkage (L − 1, 4), the leaf of every row (n,), -1 for none, and the cluster of a leaf (L,).

    `labels` are those that it is of.
    """

    linkage: Floats
    leaves: Ints
    groups: Ints
    labels: Ints


def grown_tree(work: Workspace, labels: Ints, known: Constraints, seed: int) -> MergeTree:
    """The hierarchy of clusters (rows,), with what is known of the rows; see `hierarchy_`."""
    graph = work.graph
    leaves, groups = _leaves(work, labels[graph.first_rows], seed)
    P = _members(leaves, groups.size)
    links = (P.T @ (graph.affinity @ P)).toarray()
    beliefs = _beliefs(known, graph.spread(leaves), groups.size)
    linkage = merge_tree(links, groups, beliefs)
    return MergeTree(linkage, graph.spread(leaves), groups, labels)


def cut_into(tree: MergeTree, k: int, first_new: int) -> Ints:
    """Labels (rows,) of k clusters; new ones are numbered from `first_new` on. InputError."""
    k = as_integer(k, "k", 1)
    if k > tree.groups.size:
        raise InputError(f"k: {k} clusters of {tree.groups.size} leaves; fit with n_clusters={k}")
    sizes = np.bincount(tree.leaves[tree.leaves >= 0], minlength=tree.groups.size)
    first_new = max(first_new, int(tree.groups.max(initial=-1)) + 1)
    numbers = cut_tree(tree.linkage, k, tree.groups, sizes.astype(float), first_new)
    return np.append(numbers, -1)[tree.leaves]


def _leaves(work: Workspace, labels: Ints, seed: int) -> tuple[Ints, Ints]:
    """Leaf of every node (n,), -1 for none, and the cluster of each leaf."""
    numbers, sizes = np.unique(labels[labels >= 0], return_counts=True)
    laplacian = laplacian_of(work)
    wanted = int(np.clip(_EACH * numbers.size, *_LEAVES))
    p = min(wanted, laplacian.size - laplacian.null.n_components)
    rows = np.zeros((labels.size, 0))
    if p > 0:
        basis = smoothest(work, p, seed=seed)
        U = basis.vectors[:, 1:] / laplacian.root_degree[:, None]
        rows = laplacian.from_working_order(U).astype(np.float64, copy=False)
    found = np.full(labels.size, -1, dtype=np.int64)
    groups: list[int] = []
    for number, size in zip(numbers.tolist(), sizes.tolist(), strict=True):
        nodes = np.flatnonzero(labels == number)
        parts = min(max(1, round(wanted * size / sizes.sum())), max(1, size // _FEWEST))
        own = np.zeros(size, dtype=np.int64)
        if parts > 1 and p > 0:
            cut = kmeans(rows[nodes], parts, seed, restarts=_STARTS, sample=_SAMPLE).labels
            own = np.unique(cut, return_inverse=True)[1]
        found[nodes] = len(groups) + own
        groups += [number] * (int(own.max()) + 1)
    return found, np.array(groups, dtype=np.int64)


def _members(leaves: Ints, count: int) -> sp.csr_matrix:
    """Which of `count` leaves a node is in, (n, count)."""
    there = np.flatnonzero(leaves >= 0)
    ones = np.ones(there.size)
    return sp.csr_matrix((ones, (there, leaves[there])), shape=(leaves.size, count))


def _beliefs(known: Constraints, leaves: Ints, count: int) -> Floats:
    """Σ Q_ij by leaves of i and j, (L, L): above 0 where must-links outweigh."""
    if known.is_empty:
        return np.zeros((count, count))
    P = _members(leaves, count)
    found: Floats = (P.T @ (known.matrix @ P)).toarray()
    if known.factor is not None:
        core: Any = known.core
        B = (known.factor.T @ P).toarray()
        found = found + B.T @ (core @ B)
    return found


# --- Cluster numbers that stay the same from one clustering to the next


class Renumbered(NamedTuple):
    """Labels (n,) with the numbers of clusters before, and what became of the clusters.

    `new` are the numbers of clusters that share no node with one before or are more than there
    were, `gone` those no longer there.
    """

    labels: Ints
    new: tuple[int, ...]
    gone: tuple[int, ...]


def renumbered(before: Ints, after: Ints, first_new: int) -> Renumbered:
    """Clusters `after` (n,) with the numbers of those `before` that most nodes stay in.

    Pairs of clusters are those that share most nodes in all (Hungarian method). A cluster that is
    left over gets a number from `first_new` on, which no cluster had: a number never comes to mean
    something else. Unassigned nodes stay -1. Cost O(n + K³).
    """
    (old, row), (now, column) = _coded(before), _coded(after)
    both = (row >= 0) & (column >= 0)
    cells = row[both] * now.size + column[both]
    shared = np.bincount(cells, minlength=old.size * now.size).reshape(old.size, now.size)
    rows, columns = best_matches(shared)
    same = shared[rows, columns] > 0
    number = np.full(now.size, -1, dtype=np.int64)
    number[columns[same]] = old[rows[same]]
    left = np.flatnonzero(number < 0)
    number[left] = np.arange(first_new, first_new + left.size)
    labels = np.append(number, -1)[column]
    gone = np.setdiff1d(old, number)
    return Renumbered(labels, tuple(number[left].tolist()), tuple(gone.tolist()))


def _coded(labels: Ints) -> tuple[Ints, Ints]:
    """The numbers (k,) that there are, rising, and the place of each label (n,) among them, or -1.

    Numbers are not many more than the labels: sorting would take ten times as long.
    """
    there = np.bincount(labels + 1)[1:] > 0
    place = np.append(-1, np.cumsum(there) - 1)
    return np.flatnonzero(there), place[labels + 1]


def aligned(before: Ints, after: Ints, k: int) -> Ints:
    """`after` with its k clusters renumbered to overlap most with `before`; O(n + k³).

    Unassigned nodes stay -1.
    """
    both = (before >= 0) & (after >= 0)
    overlap = np.bincount(before[both] * k + after[both], minlength=k * k).reshape(k, k)
    rows, columns = best_matches(overlap)
    number = np.full(k + 1, -1, dtype=np.int64)
    number[columns] = rows
    return number[after]


def as_classes(clusters: Ints, codes: Ints, k: int, n_classes: int) -> Ints:
    """Clusters (n,) with the numbers of the classes of their labelled nodes, `codes` (n,) or -1.

    Fewer clusters than classes are numbered without gaps; else a labelled node in no cluster
    belongs to its class. Cost O(n + max(k, n_classes)³).
    """
    labels = aligned(codes, clusters, max(k, n_classes))
    if k >= n_classes:
        return np.where((labels < 0) & (codes >= 0), codes, labels)
    there = labels >= 0
    labels[there] = np.unique(labels[there], return_inverse=True)[1]
    return labels
