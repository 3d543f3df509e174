"""What is said about rows, told of the nodes that they are: equal rows are one node.

A row of weight w is w copies, and what is said of it is said of each of them: with P_w (n, m), w_r
at the node of row r, Q' = P_wᵀQP_w. Everything that is said of a node by its rows adds up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints.constraints import Constraints
from mustlink.constraints.pairs import Floats, Ints
from mustlink.labels import labels_of_nodes


@dataclass(frozen=True, eq=False)
class Copies:
    """Constraints of n rows as `given`, `told` without what contradicts itself inside a node.

    `membership` (n, m) CSR has one entry a row: its weight, at its node.
    """

    given: Constraints
    told: Constraints
    membership: sp.csr_matrix

    @property
    def rows(self) -> NDArray[np.integer[Any]]:
        """Node of every row, (n,)."""
        found: NDArray[np.integer[Any]] = self.membership.indices
        return found

    def folded(self, told: Constraints) -> Constraints:
        """Other constraints on the same rows, of the nodes."""
        return _folded(told, told, self.membership)


def among(given: Constraints, nodes: Ints, n_nodes: int) -> Constraints:
    """The same said of nodes of a larger set: node i is `nodes[i]` of `n_nodes`, nodes (n,)."""
    parts: dict[str, Any] = {"pairs": nodes[given.pairs], "belief": given.belief}
    if given.labels is not None:
        parts["labels"] = np.full(n_nodes, -1, dtype=np.int64)
        parts["labels"][nodes] = given.labels
    if given.soft_labels is not None:
        place = np.full(n_nodes, -1, dtype=np.int64)
        place[nodes] = np.arange(nodes.size)
        parts["soft_labels"] = given.soft_labels.at(place).only(place >= 0)
    parts["label_weights"] = given.label_weights
    if given.soft is not None:
        soft = given.soft.tocoo()
        ends = nodes[soft.row], nodes[soft.col]
        parts["soft"] = sp.csr_matrix((soft.data, ends), shape=(n_nodes, n_nodes))
        parts["soft_kind"] = given.soft_kind
    found = Constraints.none(n_nodes).having(**parts)
    return found if given.hard is None else found.closure(hard=given.hard)


def on_nodes(
    given: Constraints, rows: NDArray[np.integer[Any]], weights: Floats, n_nodes: int
) -> tuple[Constraints, tuple[str, ...]]:
    """Constraints (n rows) of `n_nodes` nodes, and what was contradictory, in words.

    `rows` (n,) are the nodes of the rows, `weights` (n,) what a row counts. Rows of one node that
    have different labels are told by most of their weight, or by none; a cannot-link inside a node
    is dropped. Cost O(n + what is known).
    """
    doubts = []
    told, labels, counts = given, given.labels, weights > 0
    if labels is not None:
        of_nodes, doubt = labels_of_nodes(labels, rows, weights, n_nodes)
        if doubt:
            doubts.append(doubt)
        labels = np.where(counts & (labels == of_nodes[rows]), labels, -1)
    first, second = given.pairs[:, 0], given.pairs[:, 1]
    act = counts[first] & counts[second]
    inside = act & (rows[first] == rows[second]) & (given.belief < 0)
    if inside.any():
        i, j = given.pairs[np.argmax(inside)]
        noun = "cannot-link joins" if inside.sum() == 1 else "cannot-links join"
        doubts.append(f"{inside.sum()} {noun} equal rows, such as {i} and {j}: not used")
    if doubts or not counts.all():
        left = act & ~inside
        believed = None if given.soft_labels is None else given.soft_labels.only(counts)
        told = given.having(
            pairs=given.pairs[left],
            belief=given.belief[left],
            labels=labels,
            soft_labels=believed,
        )
    indptr = np.arange(rows.size + 1)
    membership = sp.csr_matrix((weights, rows, indptr), shape=(rows.size, n_nodes))
    return _folded(given, told, membership), tuple(doubts)


def _folded(given: Constraints, told: Constraints, membership: sp.csr_matrix) -> Constraints:
    """Constraints of the nodes, by which they are scored, with Q' = P_wᵀQP_w in Q's place."""
    P, rows = membership, membership.indices
    n, m = P.shape
    ends = rows[told.pairs].astype(np.int64)
    apart = ends[:, 0] != ends[:, 1]
    labels: Ints | None = None
    if told.labels is not None:
        labels = np.full(m, -1, dtype=np.int64)
        known = told.labels >= 0
        labels[rows[known]] = told.labels[known]
    soft = None
    if told.soft is not None:
        plain = sp.csr_matrix((np.ones(n), rows, P.indptr), shape=P.shape)
        soft = sp.csr_matrix(plain.T @ told.soft @ plain)
    believed = None if told.soft_labels is None else told.soft_labels.summed(P)
    found = Constraints.none(m).having(
        pairs=ends[apart],
        belief=told.belief[apart],
        labels=labels,
        soft=soft,
        soft_kind="graph" if told.kind == "graph" else "matrix",
        label_weights=told.label_weights,
        soft_labels=believed,
    )
    matrix = sp.csr_matrix(P.T @ told.matrix @ P)
    matrix.sort_indices()
    factor = None if told.factor is None else sp.csr_matrix(P.T @ told.factor)
    return replace(
        found,
        matrix=matrix,
        factor=factor,
        core=told.core,
        hard=told.hard,
        copies=Copies(given, told, membership),
    )
