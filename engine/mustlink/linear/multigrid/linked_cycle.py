"""Must-links inside the multigrid: the graph with one more node a group, in which they are edges.

A clique of weights h_i h_j is what remains of a star when its hub is eliminated: spokes
a_i = h_i Σ_j h_j give a_i a_j / Σa = h_i h_j. So aL̄ + bU, U a Laplacian of pairs and cliques, is
the Schur complement of a sparse graph with as many more nodes as there are groups, and grids of
that graph precondition it however hard the links are, and however many.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mustlink.linear.multigrid.hierarchy import Hierarchy, build_hierarchy
from mustlink.operators.constraint_operator import ConstraintOperator
from mustlink.operators.laplacian import Block, NormalizedLaplacian


def linked_graph(
    laplacian: NormalizedLaplacian, penalty: ConstraintOperator, a: float, b: float
) -> NormalizedLaplacian:
    """The graph aW + b(links of U) with hubs, (m + r) nodes, hubs last; U normalised as L̄ is.

    U = matrix − factor·diag(c)·factorᵀ, c >= 0, with zero row sums against D^½1: its diagonal
    follows from the links. Cost O(nnz).
    """
    m, root = laplacian.size, laplacian.root_degree
    rows = penalty.support
    scale = sp.diags_array(root)
    links = sp.coo_matrix(penalty.matrix)
    off = (links.row != links.col) & (links.data < 0)
    at = rows[links.row[off]], rows[links.col[off]]
    pairs = sp.csr_matrix((-b * links.data[off], at), shape=(m, m))
    W: Any = scale @ (laplacian.edges * a + pairs) @ scale
    if penalty.factor is not None:
        core: Any = penalty.core
        strength = np.sqrt(np.maximum(-b * np.asarray(core.diagonal()), 0.0))
        h: Any = sp.diags_array(root[rows]) @ penalty.factor @ sp.diags_array(strength)
        used = np.flatnonzero(np.diff(sp.csc_matrix(h != 0).indptr) > 1)  # groups of two or more
        h = sp.csc_matrix(h)[:, used]
        spokes = sp.coo_matrix(h @ sp.diags_array(np.asarray(h.sum(axis=0)).ravel()))
        T = sp.csr_matrix((spokes.data, (rows[spokes.row], spokes.col)), shape=(m, used.size))
        W = sp.bmat([[W, T], [T.T, None]], format="csr")
    return NormalizedLaplacian.of_weights(sp.csr_matrix(W))


class LinkedCycle:
    """Symmetric positive map R -> ≈(aL̄ + bU)⁻¹R on blocks (m, c); identity on what is null."""

    def __init__(
        self, laplacian: NormalizedLaplacian, penalty: ConstraintOperator, a: float, b: float
    ) -> None:
        self.linked = linked_graph(laplacian, penalty, a, b)
        self.grids: Hierarchy = build_hierarchy(self.linked)
        self.ratio = (laplacian.root_degree / self.linked.root_degree[: laplacian.size])[:, None]
        self.size = laplacian.size

    def __call__(self, R: Block) -> Block:
        """Apply to a block (m, c). Cost: one V-cycle of the graph with the links."""
        null = self.linked.null
        X = np.zeros((self.linked.size, R.shape[1]))
        X[: self.size] = self.ratio * R
        smooth = null.project(X)
        Y = null.project(self.grids.cycle()(smooth)) + (X - smooth)
        return self.ratio * Y[: self.size]
