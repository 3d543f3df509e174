"""Must-links and cannot-links as two graphs on the nodes, sparse plus low rank: Q = P⁺ − P⁻.

Methods that weigh the two kinds differently, or make Laplacians of them, take these; cliques of
labelled nodes stay low rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints.constraints import Constraints
from mustlink.constraints.pairs import Floats, NodeMatrix


def must_links(constraints: Constraints) -> NodeMatrix:
    """P⁺ (n, n): positive beliefs, 1 between nodes of one class; zero diagonal. Cost O(nnz).

    Of soft labels the expected ones, u_i u_j ⟨y_i, y_j⟩, and u_i u_j (1 − ⟨y_i, y_j⟩) cannot-links.
    Of nodes with several copies: summed over copies, those inside a node on the diagonal.
    """
    if constraints.copies is not None:
        return folded(must_links(constraints.copies.used), constraints)
    positive = _off_diagonal(constraints.matrix.maximum(0.0))
    if constraints.factor is None:
        return NodeMatrix(positive)
    return _without_own(NodeMatrix(positive, constraints.factor, _groups(constraints)))


def cannot_links(constraints: Constraints) -> NodeMatrix:
    """P⁻ (n, n): negative beliefs as positive numbers, 1 between nodes of two classes."""
    if constraints.copies is not None:
        return folded(cannot_links(constraints.copies.used), constraints)
    negative = _off_diagonal((-constraints.matrix).maximum(0.0))
    if constraints.factor is None:
        return NodeMatrix(negative)
    core: Any = constraints.core
    apart = _groups(constraints) - sp.csr_matrix(core)
    links = NodeMatrix(negative, constraints.factor, sp.csr_matrix(apart))
    return links if constraints.soft_labels is None else _without_own(links)


def folded(links: NodeMatrix, constraints: Constraints) -> NodeMatrix:
    """P_wᵀMP_w: links M between rows as links between their nodes, none of a copy to itself.

    A labelled row of weight w is w copies with w² − w links among themselves, none if w < 1.
    """
    assert constraints.copies is not None
    P = constraints.copies.membership
    matrix = sp.csr_matrix(P.T @ links.matrix @ P)
    if links.factor is None:
        return NodeMatrix(stored(matrix))
    own, w = np.repeat(_own(links), np.diff(P.indptr)), P.data
    more = np.bincount(P.indices, weights=own * (w**2 - np.minimum(w, w**2)), minlength=P.shape[1])
    matrix = sp.csr_matrix(matrix + sp.diags(more, format="csr"))
    return NodeMatrix(stored(matrix), sp.csr_matrix(P.T @ links.factor), links.core)


def between_copies(constraints: Constraints) -> Floats:
    """Σ of beliefs between copies of one node, (n,): 0 where every row is a node."""
    n = constraints.n_nodes
    if constraints.copies is None:
        return np.zeros(n)
    both = must_links(constraints) + cannot_links(constraints).times(-1.0)
    return both.on_pattern(sp.csr_matrix(sp.identity(n, format="csr"))).diagonal()


def capped_links(constraints: Constraints, degrees: Floats) -> tuple[NodeMatrix, NodeMatrix]:
    """P⁺ and P⁻ of pairs whose ends have a degree > 0, where a belief above 1 counts as 1."""
    must, cannot = (acting(part, degrees) for part in _changed(constraints, at_most_one))
    return must, cannot


def _changed(
    constraints: Constraints, change: Callable[[NodeMatrix], NodeMatrix]
) -> Iterator[NodeMatrix]:
    """P⁺ and P⁻ of changed beliefs; of nodes with several copies those of rows are changed."""
    copies = constraints.copies
    for kind in (must_links, cannot_links):
        if copies is None:
            yield change(kind(constraints))
        else:
            yield folded(change(kind(copies.used)), constraints)


def acting(weights: NodeMatrix, degrees: Floats) -> NodeMatrix:
    """The same without pairs that have an end of degree 0 in the graph."""
    return weights.between((degrees > 0).astype(np.float64))


def at_most_one(links: NodeMatrix) -> NodeMatrix:
    """Beliefs above 1, and pairs that follow from labels as well, count as 1."""
    return _less(_of_unit(links, above=1.0), lambda b: np.maximum(b - 1.0, 0.0))


def each_one(links: NodeMatrix) -> NodeMatrix:
    """Every link counts 1, whatever its belief, but for those of soft labels."""
    return _less(_of_unit(links), lambda b: np.where(b > 0, b - 1.0, 0.0))


def _less(links: NodeMatrix, excess: Callable[[Floats], Floats]) -> NodeMatrix:
    """The same without the excess of the beliefs of single pairs."""
    gone = links.on_pattern(links.matrix)
    gone.data = excess(gone.data)
    return NodeMatrix(sp.csr_matrix(links.matrix - gone), links.factor, links.core)


def _without_own(links: NodeMatrix) -> NodeMatrix:
    """The same without the diagonal of the low rank: no node has a link to itself."""
    own = sp.diags(_own(links), format="csr")
    return NodeMatrix(stored(links.matrix - own), links.factor, links.core)


def _of_unit(links: NodeMatrix, above: float = 0.0) -> NodeMatrix:
    """Labels, which all have one belief, with belief 1 instead of one larger than `above`."""
    largest = 0.0 if links.core is None else float(abs(links.core).max())
    if largest <= above or largest == 1.0:
        return links
    gone = diagonal((1.0 - 1.0 / largest) * _own(links)).matrix  # no node has a link to itself
    return NodeMatrix(stored(links.matrix + gone), links.factor, links.core / largest)


def _own(links: NodeMatrix) -> Floats:
    """Diagonal of factor·core·factorᵀ, (n,)."""
    assert links.factor is not None
    left = sp.csr_matrix(links.factor @ sp.csr_matrix(links.core))
    return np.asarray(left.multiply(links.factor).sum(axis=1), dtype=np.float64).ravel()


def difference_form(weights: NodeMatrix) -> NodeMatrix:
    """The Laplacian diag(P1) − P: xᵀLx = Σ_{i<j} P_ij (x_i − x_j)²."""
    return diagonal(weights.sums()) + weights.times(-1.0)


def sum_form(weights: NodeMatrix) -> NodeMatrix:
    """The signless Laplacian diag(P1) + P: xᵀLx = Σ_{i<j} P_ij (x_i + x_j)²."""
    return diagonal(weights.sums()) + weights


def diagonal(values: Floats) -> NodeMatrix:
    """diag(v) for v (n,), without stored zeros."""
    return NodeMatrix(stored(sp.csr_matrix(sp.diags(values, format="csr"))))


def n_links(weights: NodeMatrix) -> float:
    """Sum of the weights over unordered pairs: their number where all are 1."""
    return float(weights.sums().sum()) / 2.0


def balanced(
    constraints: Constraints, nodes: NDArray[np.int64] | None = None
) -> tuple[NodeMatrix, NodeMatrix]:
    """P⁺/|ML| and P⁻/|CL|: links of belief 1 weigh 1 in all, of either kind (WHC11 eq. 11).

    A kind weighs its mean belief, which is the paper's β and α. Pairs with an end outside `nodes`
    do not count.
    """
    inside = _inside(constraints, nodes)
    counted = (acting(part, inside) for part in _changed(_certain(constraints), each_one))
    first, second = (
        part.times(1.0 / max(n_links(one), 1e-300))
        for part, one in zip(unbalanced(constraints, nodes), counted, strict=True)
    )
    return first, second


def _certain(constraints: Constraints) -> Constraints:
    """The same with soft labels of full belief, to count the expected links."""
    if constraints.copies is not None:
        return constraints.copies.folded(_certain(constraints.copies.used))
    believed = constraints.soft_labels
    return constraints if believed is None else constraints.having(soft_labels=believed.certain)


def unbalanced(
    constraints: Constraints, nodes: NDArray[np.int64] | None = None
) -> tuple[NodeMatrix, NodeMatrix]:
    """P⁺ and P⁻ as they are, of pairs whose ends are among `nodes`."""
    inside = _inside(constraints, nodes)
    first, second = (acting(f(constraints), inside) for f in (must_links, cannot_links))
    return first, second


def _inside(constraints: Constraints, nodes: NDArray[np.int64] | None) -> Floats:
    """1 for the nodes, all of them by default, and 0 for others."""
    inside = np.ones(constraints.n_nodes)
    if nodes is not None:
        inside[:] = 0.0
        inside[nodes] = 1.0
    return inside


def _groups(constraints: Constraints) -> sp.csr_matrix:
    """Core of the links within groups: the weight for groups of nodes, 0 for the border column.

    With very many classes a last column holds all labelled nodes; its core entry is negative.
    """
    core: Any = constraints.core
    weights = np.full(core.shape[0], constraints.label_weights[0])
    if core[core.shape[0] - 1, core.shape[0] - 1] < 0:
        weights[-1] = 0.0
    return sp.csr_matrix(sp.diags(weights, format="csr"))


def _off_diagonal(matrix: sp.csr_matrix) -> sp.csr_matrix:
    return stored(matrix - sp.diags(matrix.diagonal(), format="csr"))


def stored(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """The matrix without stored zeros, rows sorted."""
    matrix = sp.csr_matrix(matrix)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix
