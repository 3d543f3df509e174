"""A hierarchy of the clusters of a fit: cut at any number of clusters, without another fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.check import as_integer
from mustlink.constraints import Constraints
from mustlink.eigen.solver import laplacian_of, smoothest
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.rounding.assign import kmeans
from mustlink.rounding.merge_tree import cut_tree, merge_tree
from mustlink.workspace import Workspace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_LEAVES, _EACH = (16, 64), 4  # leaves in all, and for a cluster
_FEWEST = 5  # nodes of a leaf, about
_STARTS, _SAMPLE = 3, 10_000  # of k-means in a cluster: parts are merged again


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Linkage (L − 1, 4), the leaf of every row (n,), -1 for none, and the cluster of a leaf (L,).

    `labels` are those that it is of.
    """

    linkage: Floats
    leaves: Ints
    groups: Ints
    labels: Ints


def grown_tree(work: Workspace, labels: Ints, known: Constraints, seed: int) -> Hierarchy:
    """The hierarchy of clusters (rows,), with what is known of the rows; see `hierarchy_`."""
    graph = work.graph
    leaves, groups = _leaves(work, labels[graph.first_rows], seed)
    links = _links(graph, leaves, groups.size)
    beliefs = _beliefs(known, graph.spread(leaves), groups.size)
    linkage = merge_tree(links, groups, beliefs)
    return Hierarchy(linkage, graph.spread(leaves), groups, labels)


def cut_into(tree: Hierarchy, k: int, first_new: int) -> Ints:
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
        rows = laplacian.leave(U).astype(np.float64, copy=False)
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


def _links(graph: Graph, leaves: Ints, count: int) -> Floats:
    """Σ w_ij by leaves of i and j, (L, L)."""
    there = np.flatnonzero(leaves >= 0)
    P = sp.csr_matrix((np.ones(there.size), (there, leaves[there])), shape=(leaves.size, count))
    return (P.T @ (graph.affinity @ P)).toarray()


def _beliefs(known: Constraints, leaves: Ints, count: int) -> Floats:
    """Σ Q_ij by leaves of i and j, (L, L): above 0 where more says together than apart."""
    if known.is_empty:
        return np.zeros((count, count))
    there = known.nodes[leaves[known.nodes] >= 0]
    P = sp.csr_matrix((np.ones(there.size), (there, leaves[there])), shape=(leaves.size, count))
    found: Floats = (P.T @ (known.matrix @ P)).toarray()
    if known.factor is not None:
        core: Any = known.core
        B = (known.factor.T @ P).toarray()
        found = found + B.T @ (core @ B)
    return found
