"""Constraints: what is known about pairs of nodes, as Q = sparse + low rank."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints.closure import close
from mustlink.constraints.constraint_data import ConstraintData
from mustlink.constraints.label_groups import Core, SoftLabels, check_labels, labels_factor
from mustlink.constraints.pairs import (
    Floats,
    Ints,
    as_symmetric,
    check_n_nodes,
    check_pairs,
    pairs_matrix,
)
from mustlink.core.check import check_number
from mustlink.core.labels import labels_of_nodes
from mustlink.errors import InputError

DENSE_LIMIT = 20_000


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Constraints(ConstraintData):
    """Side information on n nodes as a symmetric matrix Q (WD14 §4.1), never written out.

    Q_ij > 0 says that i and j belong together, Q_ij < 0 that they do not; the magnitude is the
    degree of belief. Q = matrix + factor @ core @ factor.T with

    * `matrix` (n, n) CSR float64, symmetric: pairs, a second graph, a given matrix;
    * `factor` (n, r) CSR and `core` (r, r), or None: labels and closures, which would be cliques.

    Make one by `from_pairs`, `from_labels`, `from_soft_labels`, `from_graph` or `from_matrix`, and
    add them with `+`. `kind` is "pairs", "labels", "soft labels", "graph", "matrix", "mixed" or
    "none". What was given is kept: `pairs` (m, 2) int64 and `belief` (m,) with repetitions,
    `labels` (n,) int64 with -1 for unknown and their `classes`, `soft_labels`, `soft` the given
    graph or matrix, a `soft_kind`.
    `hard` is the belief from which `closure` took a pair as certain, None if this is no closure.
    Where nodes stand for several rows, `copies` are the constraints of the rows, which Q counts.
    Arrays are copies; nothing changes after construction.
    """

    matrix: sp.csr_matrix
    factor: sp.csr_matrix | None
    core: Core | None
    classes: Ints
    hard: float | None = None
    copies: Copies | None = None

    @classmethod
    def from_pairs(cls, pairs: Any, belief: Any = 1.0, *, n_nodes: int) -> Constraints:
        """Must-links (belief > 0) and cannot-links (belief < 0) between pairs (m, 2) of nodes.

        `belief` is one number or (m,). A pair given several times, in any order, counts with its
        mean belief. Raises InputError for a node out of range or paired with itself, and for a
        belief that is zero or not finite. Cost O(m log m + n).
        """
        n_nodes = check_n_nodes(n_nodes)
        array, values = check_pairs(pairs, belief, n_nodes)
        return cls._made(ConstraintData(n_nodes=n_nodes, pairs=array, belief=values))

    @classmethod
    def from_labels(cls, y: Any) -> Constraints:
        """Labels (n,) of some nodes, -1 for unknown: +1 within a class, -1 between classes.

        Q_ii = 1 on labelled nodes. Class numbers may have gaps; classes may have names, "" for
        unknown, and are numbered in their order. Raises InputError for NaN among numbers,
        fractions and numbers below -1. Cost O(n), whatever the number of labels.
        """
        labels = check_labels(y)
        return cls._made(ConstraintData(n_nodes=labels.size, labels=labels))

    @classmethod
    def from_soft_labels(cls, Y: Any, belief: Any = None, *, classes: Any = None) -> Constraints:
        """Distributions Y (n, K) over classes, believed by u (n,) or a number from 0 to 1.

        Q_ij = u_i u_j (2⟨y_i, y_j⟩ − 1): how much likelier than not two nodes are of one class, as
        K + 1 columns, never as pairs. Without `belief` u_i = (K max_c y_ic − 1)/(K − 1): 1 for one
        class, 0 for all alike. Rows of NaN and of belief 0 say nothing; rows of one class and
        belief 1 are labels. `classes` (K,) are the numbers of the columns' classes, 0, 1, … if left
        out. With `from_labels` added a label counts as belief 1. Raises InputError. Cost O(nK).
        """
        labels, rest = SoftLabels.of(Y, belief, classes).apart()
        return cls._made(ConstraintData(n_nodes=labels.size, labels=labels, soft_labels=rest))

    @classmethod
    def from_graph(cls, affinity: Any) -> Constraints:
        """Soft must-links from a second graph on the same nodes: transfer (WD14 §6.3).

        `affinity` (n, n) dense, sparse or a Graph; symmetric, non-negative, its diagonal kept.
        Raises InputError otherwise. Cost O(nnz).
        """
        soft = as_symmetric(affinity, signed=False)
        return cls._made(ConstraintData(n_nodes=soft.shape[0], soft=soft, soft_kind="graph"))

    @classmethod
    def from_matrix(cls, matrix: Any) -> Constraints:
        """Degrees of belief Q (n, n), dense or sparse, symmetric, of any sign (WD14 §4.1).

        Raises InputError for a matrix that is not square, finite and symmetric. Cost O(nnz).
        """
        soft = as_symmetric(matrix, signed=True)
        return cls._made(ConstraintData(n_nodes=soft.shape[0], soft=soft))

    @classmethod
    def none(cls, n_nodes: int) -> Constraints:
        """No side information about n nodes."""
        return cls._made(ConstraintData(n_nodes=check_n_nodes(n_nodes)))

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is known."""
        return self.kind == "none"

    @property
    def as_given(self) -> Constraints:
        """What the caller said, of rows: these constraints where every row is a node."""
        return self if self.copies is None else self.copies.given

    def having(self, **parts: Any) -> Constraints:
        """The same with other `pairs`, `belief`, `labels`, `soft` and `soft_kind`, all checked."""
        return self._like(replace(self.statements, **parts))

    @cached_property
    def nodes(self) -> Ints:
        """Sorted numbers of the nodes about which something was given."""
        if self.copies is None:
            return super().nodes
        return np.unique(self.copies.rows[self.copies.told.nodes]).astype(np.int64)

    @property
    def n_constraints(self) -> int:
        """Distinct pairs, plus ℓ(ℓ-1)/2 for ℓ labels, plus stored entries above the diagonal."""
        counts = self.counts()
        return counts["must"] + counts["cannot"] + counts["undecided"]

    def dot(self, block: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Q @ block for (n,) or (n, b), in O(nnz b)."""
        product = self.matrix @ block
        if self.factor is not None:
            product = product + self.factor @ (self.core @ (self.factor.T @ block))
        return product

    def to_dense(self) -> Floats:
        """Q as (n, n) float64, for small n: raises InputError above 20,000 nodes."""
        if self.n_nodes > DENSE_LIMIT:
            raise InputError(
                f"constraints: {self.n_nodes} nodes are too many for a dense matrix; use dot"
            )
        dense = self.matrix.toarray()
        if self.factor is not None:
            dense += self.factor @ (self.core @ self.factor.T.toarray())
        return dense

    def require_nodes(self, n_nodes: int) -> None:
        """Raise InputError unless the constraints were made for a graph of n nodes."""
        if self.n_nodes != n_nodes:
            raise InputError(
                f"constraints: made for {self.n_nodes} nodes but the graph has {n_nodes}; "
                "make them for the same nodes, in the same order"
            )

    def closure(self, *, strict: bool = False, hard: float = 1.0) -> Constraints:
        """Everything that follows from certain pairs (|mean belief| >= hard) and from labels.

        Must-linked nodes become one group and two groups with a cannot-link between them are
        wholly apart: Q gets +1 within and -1 between, as factor (n, r) and sparse core, never as
        cliques. Softer pairs, graphs and matrices stay as they are. Contradictory pairs stay
        soft, or raise InputError if `strict`: a must-link as well that alone joins two parts of
        three nodes or more, where a cannot-link says that they are apart, and which two outvote.
        The pairs as given are kept for scoring. Labels alone are their own closure. Cost
        O(n + m log m).
        """
        if strict:
            self.check(strict=True)
        if self.pairs.size == 0 or self.hard == hard:
            return self
        if self.soft_labels is not None:
            raise InputError(
                "constraints: a closure holds all for certain, which soft labels are not; close "
                "what is certain alone"
            )
        if self.label_weights != (1.0, 1.0):
            raise InputError(
                "constraints: labels are weighed, and a closure holds them for certain; close "
                "without weights"
            )
        rest, factor, core = close(*self.merged, self.labels, self.n_nodes, hard)
        matrix = rest if self.soft is None else (rest + self.soft).tocsr()
        low_rank = (factor, core) if core.nnz else (None, None)
        return replace(self, matrix=matrix, factor=low_rank[0], core=low_rank[1], hard=hard)

    def weighted(
        self, *, must: float = 1.0, cannot: float = 1.0, labels: float = 1.0, graph: float = 1.0
    ) -> Constraints:
        """The same, every belief times the weights of its sign and of its kind.

        `must` and `cannot` weigh what belongs together and what does not, `labels` the pairs of
        labelled nodes, `graph` those of a second graph or matrix: a must-link between two labels
        has belief `labels`·`must`. 0 leaves a kind out; shares of constraints kept are weighed
        alike. Methods that give either sign the same weight in all (SSSC, `CSP(balanced=True)`)
        divide by numbers of pairs, not by beliefs: ratios of weights act. Where a belief is at
        most 1 (SL, SRCP, E2CP), more counts as 1. Raises InputError for a weight below 0, and for
        a closure. Cost O(n + what is known).
        """
        given = {"must": must, "cannot": cannot, "labels": labels, "graph": graph}
        for name, weight in given.items():
            given[name] = number = check_number(weight, f"constraints: {name}", "at least 0")
            if number < 0:
                raise InputError(f"constraints: {name} has weight {number:g}; give at least 0")
        if self.hard is not None:
            raise InputError("constraints: a closure holds all for certain; weigh without closing")
        if self.copies is not None:
            return self.copies.folded(self.copies.told.weighted(**given))
        return self._made(self.weighed(**given))

    def split(
        self, fraction: float, rng: np.random.Generator | int | None = None
    ) -> tuple[Constraints, Constraints]:
        """Keep most and hold out about a `fraction` for validation: (kept, held_out).

        Pairs: a random subset of distinct pairs, repetitions together. Labels: of the labelled
        nodes of each class, which keeps at least one. Graph or matrix: of the entries above the
        diagonal. Both parts have n nodes; the parts of a closure are closed separately.
        """
        rng = np.random.default_rng(rng)
        if self.copies is not None:
            one, other = self.copies.told.split(fraction, rng)
            return self.copies.folded(one), self.copies.folded(other)
        kept, held = self.divided(fraction, rng)
        return self._like(kept), self._like(held)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of Q: scikit-learn takes what has a row for every sample apart with the data."""
        return (self.n_nodes, self.n_nodes)

    def __getitem__(self, nodes: Any) -> Constraints:
        """What is known about some of the nodes (m,) among themselves, numbered anew.

        `nodes` are numbers, none twice, or a mask (n,); pairs with an end elsewhere are left out.
        An index like NumPy's `[nodes, ...]`, which scikit-learn uses, means the same. Raises
        InputError. Cost O(n + what is known).
        """
        if isinstance(nodes, tuple) and len(nodes) == 2 and nodes[1] is Ellipsis:
            nodes = nodes[0]
        return self._like(self.among(nodes))

    def __add__(self, other: object) -> Constraints:
        """Both together: pairs and labels are merged, matrices are added."""
        if not isinstance(other, Constraints):
            return NotImplemented
        other.require_nodes(self.n_nodes)
        if self.copies is not None and other.copies is not None:
            return self.copies.folded(self.copies.told + other.copies.told)
        made = self._made(self.joined(other))
        hard = self.hard if self.hard is not None else other.hard
        return made if hard is None else made.closure(hard=hard)

    def __repr__(self) -> str:
        """Kind, numbers and nodes on one line."""
        c = self.counts()
        return (
            f"Constraints({self.kind}: {c['must']} must-links, {c['cannot']} cannot-links on "
            f"{c['nodes']} of {self.n_nodes} nodes{'' if self.hard is None else ', closed'})"
        )

    def _like(self, given: ConstraintData) -> Constraints:
        """Constraints that other statements make, closed if these are."""
        made = self._made(given)
        return made if self.hard is None else made.closure(hard=self.hard)

    @staticmethod
    def _made(given: ConstraintData) -> Constraints:
        """Q of checked statements."""
        matrix = pairs_matrix(*given.merged, given.n_nodes)
        if given.soft is not None:
            matrix = (matrix + given.soft).tocsr() if given.pairs.size else given.soft
        factor, classes = None, np.empty(0, dtype=np.int64)
        core: Core | None = None
        if given.shares is not None:
            factor, core = given.shares.factor(*given.label_weights)
            classes = given.shares.classes
        elif given.labels is not None:
            factor, core, classes = labels_factor(given.labels, *given.label_weights)
        said = {one.name: getattr(given, one.name) for one in fields(ConstraintData)}
        return Constraints(**said, matrix=matrix, factor=factor, core=core, classes=classes)


# ---------------------------------------------------------------- rows and nodes

# Equal rows are one node. A row of weight w is w copies, and what is said of it is said of each of
# them: with P_w (n, m), w_r at the node of row r, Q' = P_wᵀQP_w. Everything that is said of a node
# by its rows adds up.


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


def merge_duplicates(
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
