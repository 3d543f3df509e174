"""Constraints: side information about pairs of nodes as Q = sparse + low rank."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints.closure import ConstraintData, close
from mustlink.constraints.label_groups import (
    Core,
    SoftLabels,
    check_labels,
    labels_factor,
    merge_labels,
    split_labels,
)
from mustlink.constraints.pairs import (
    Floats,
    Ints,
    as_symmetric,
    check_n_nodes,
    check_nodes,
    check_pairs,
    pairs_matrix,
    split_entries,
    split_pairs,
)
from mustlink.core.check import EQUAL_ROWS, REPRESENTATIVES, check_number, labels_of_nodes
from mustlink.errors import InputError

DENSE_LIMIT = 20_000


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Constraints(ConstraintData):
    """Side information on n nodes as a symmetric matrix Q (WD14 §4.1), never written out.

    Q_ij > 0: i and j belong together, Q_ij < 0: they do not; the magnitude is the degree of
    belief. Q = matrix + factor @ core @ factor.T with

    * `matrix` (n, n) CSR float64, symmetric: pairs, a second graph, a given matrix;
    * `factor` (n, r) CSR and `core` (r, r), or None: labels and closures, which would be cliques.

    Make one by `from_pairs`, `from_labels`, `from_soft_labels`, `from_graph` or `from_matrix`, and
    add them with `+`. `kind` is "pairs", "labels", "soft labels", "graph", "matrix", "mixed" or
    "none". The input stays available: `pairs` (m, 2) int64 and `belief` (m,) with repetitions,
    `labels` (n,) int64 with -1 for unknown and their `classes`, `soft_labels`, `soft` the graph or
    matrix, a `soft_kind`.
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
        class, 0 for equal shares. Rows of NaN and of belief 0 do not count; rows of one class and
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
        """Whether there is no side information."""
        return self.kind == "none"

    @property
    def as_given(self) -> Constraints:
        """The input, of rows: these constraints where every row is a node."""
        return self if self.copies is None else self.copies.given

    def having(self, **parts: Any) -> Constraints:
        """The same with other `pairs`, `belief`, `labels`, `soft` and `soft_kind`, all checked."""
        return self._like(replace(self.statements, **parts))

    @cached_property
    def nodes(self) -> Ints:
        """Sorted numbers of the nodes in a pair, with a label, or with an entry of `soft`."""
        if self.copies is None:
            return super().nodes
        return np.unique(self.copies.rows[self.copies.used.nodes]).astype(np.int64)

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
        cliques. Softer pairs, graphs and matrices stay as they are. Contradictory pairs stay soft,
        or raise InputError if `strict`: also a must-link that is the only one between two parts of
        three nodes or more, where a cannot-link separates them (see `closure.outvoted`). The pairs
        of the input are kept for scoring. Labels alone are their own closure. Cost O(n + m log m).
        """
        if strict:
            self.check(strict=True)
        if self.pairs.size == 0 or self.hard == hard:
            return self
        if self.soft_labels is not None:
            raise InputError(
                "constraints: a closure takes all as certain, which soft labels are not; close "
                "what is certain alone"
            )
        if self.label_weights != (1.0, 1.0):
            raise InputError(
                "constraints: labels are weighed, and a closure takes them as certain; close "
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
        divide by numbers of pairs, not by beliefs: only ratios of weights act. Where a belief is at
        most 1 (SL, SRCP, E2CP), more counts as 1. Raises InputError for a weight below 0, and for
        a closure. Cost O(n + size of the input).
        """
        weights = {"must": must, "cannot": cannot, "labels": labels, "graph": graph}
        for name, weight in weights.items():
            weights[name] = number = check_number(weight, f"constraints: {name}", "at least 0")
            if number < 0:
                raise InputError(f"constraints: {name} has weight {number:g}; give at least 0")
        if self.hard is not None:
            raise InputError("constraints: a closure takes all as certain; weigh without closing")
        if self.copies is not None:
            return self.copies.folded(self.copies.used.weighted(**weights))
        must, cannot, labels, graph = weights.values()
        factor = np.where(self.belief > 0, must, cannot)
        soft = self.soft
        if soft is not None:
            soft = soft.copy()
            soft.data *= graph * np.where(soft.data > 0, must, cannot)
            soft.eliminate_zeros()
        within, between = self.label_weights
        return self.having(
            pairs=self.pairs[factor > 0],
            belief=(self.belief * factor)[factor > 0],
            soft=soft,
            label_weights=(within * labels * must, between * labels * cannot),
        )

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
            one, other = self.copies.used.split(fraction, rng)
            return self.copies.folded(one), self.copies.folded(other)
        if not 0 < fraction < 1:
            raise InputError(f"constraints: fraction is {fraction}; give a share between 0 and 1")
        kept: dict[str, Any] = {}
        held: dict[str, Any] = {
            name: getattr(self, name) for name in ("n_nodes", "soft_kind", "label_weights")
        }
        if self.pairs.size:
            out = split_pairs(self.pairs, self.belief, self.n_nodes, fraction, rng)
            kept.update(pairs=self.pairs[~out], belief=self.belief[~out])
            held.update(pairs=self.pairs[out], belief=self.belief[out])
        if self.labels is not None:
            out = split_labels(self.labels, fraction, rng)
            kept["labels"] = np.where(out, -1, self.labels)
            held["labels"] = np.where(out, self.labels, -1)
        if self.soft_labels is not None:
            known = np.flatnonzero(self.soft_labels.known)
            out = np.zeros(self.n_nodes, dtype=bool)
            out[rng.permutation(known)[: max(1, round(fraction * known.size))]] = True
            kept["soft_labels"] = self.soft_labels.only(~out)
            held["soft_labels"] = self.soft_labels.only(out)
        if self.soft is not None:
            kept["soft"], held["soft"] = split_entries(self.soft, fraction, rng)
        return self.having(**kept), self._like(ConstraintData(**held))

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of Q: scikit-learn takes what has a row for every sample apart with the data."""
        return (self.n_nodes, self.n_nodes)

    def __getitem__(self, nodes: Any) -> Constraints:
        """The constraints among some of the nodes (m,), numbered anew.

        `nodes` are numbers, none twice, or a mask (n,); pairs with an end elsewhere are left out.
        An index like NumPy's `[nodes, ...]`, which scikit-learn uses, means the same. Raises
        InputError. Cost O(n + size of the input).
        """
        if isinstance(nodes, tuple) and len(nodes) == 2 and nodes[1] is Ellipsis:
            nodes = nodes[0]
        chosen, place = check_nodes(nodes, self.n_nodes)
        ends = place[self.pairs]
        inside = (ends >= 0).all(axis=1)
        return self.having(
            n_nodes=chosen.size,
            pairs=ends[inside],
            belief=self.belief[inside],
            labels=None if self.labels is None else self.labels[chosen],
            soft=None if self.soft is None else self.soft[chosen][:, chosen].tocsr(),
            soft_labels=None if self.soft_labels is None else self.soft_labels.at(chosen),
        )

    def __add__(self, other: object) -> Constraints:
        """Both together: pairs and labels are merged, matrices are added."""
        if not isinstance(other, Constraints):
            return NotImplemented
        other.require_nodes(self.n_nodes)
        if self.copies is not None and other.copies is not None:
            return self.copies.folded(self.copies.used + other.copies.used)
        labels, soft, weights = self.labels, self.soft, self.label_weights
        soft_labels = self.soft_labels
        if other.labels is not None or other.soft_labels is not None:
            has_labels = labels is not None or soft_labels is not None
            if has_labels and weights != other.label_weights:
                raise InputError(
                    f"constraints: labels of weights {weights} and {other.label_weights}; add "
                    "them, then weigh"
                )
            weights = other.label_weights
        if other.labels is not None:
            labels = other.labels if labels is None else merge_labels(labels, other.labels)
        if other.soft_labels is not None:
            more = other.soft_labels
            soft_labels = more if soft_labels is None else soft_labels.joined(more)
        if other.soft is not None:
            soft = other.soft if soft is None else (soft + other.soft).tocsr()
        graphs = all(one.soft is None or one.soft_kind == "graph" for one in (self, other))
        both = self._made(
            ConstraintData(
                n_nodes=self.n_nodes,
                pairs=np.concatenate([self.pairs, other.pairs]),
                belief=np.concatenate([self.belief, other.belief]),
                labels=labels,
                soft=soft,
                soft_kind="graph" if graphs else "matrix",
                label_weights=weights,
                soft_labels=soft_labels,
            )
        )
        hard = self.hard if self.hard is not None else other.hard
        return both if hard is None else both.closure(hard=hard)

    def __repr__(self) -> str:
        """Kind, numbers and nodes on one line."""
        c = self.counts()
        return (
            f"Constraints({self.kind}: {c['must']} must-links, {c['cannot']} cannot-links on "
            f"{c['nodes']} of {self.n_nodes} nodes{'' if self.hard is None else ', closed'})"
        )

    def _like(self, given: ConstraintData) -> Constraints:
        """Constraints of other input, closed if these are."""
        made = self._made(given)
        return made if self.hard is None else made.closure(hard=self.hard)

    @staticmethod
    def _made(given: ConstraintData) -> Constraints:
        """Q of checked input."""
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
        parts = {one.name: getattr(given, one.name) for one in fields(ConstraintData)}
        return Constraints(**parts, matrix=matrix, factor=factor, core=core, classes=classes)


# --- rows and nodes
#
# Equal rows are one node. A row of weight w is w copies with the same constraints: with P_w (n, m),
# w_r at the node of row r, Q' = P_wᵀQP_w. The constraints of the rows of a node add up.


@dataclass(frozen=True, eq=False)
class Copies:
    """Constraints of n rows as `given`, and as `used`: without contradictions inside a node.

    `membership` (n, m) CSR has the weight of a row at its node, or at several its shares of it;
    `rows` (n,) are the nodes of the rows, those with the largest share.
    """

    given: Constraints
    used: Constraints
    membership: sp.csr_matrix
    rows: NDArray[np.integer[Any]]

    def folded(self, used: Constraints) -> Constraints:
        """Other constraints on the same rows as constraints on the nodes."""
        return _folded(used, used, self.membership, self.rows)


def among(given: Constraints, nodes: Ints, n_nodes: int) -> Constraints:
    """The same on nodes of a larger set: node i is `nodes[i]` of `n_nodes`, nodes (n,)."""
    labels: Ints | None = None
    soft, soft_labels = given.soft, given.soft_labels
    if given.labels is not None:
        labels = np.full(n_nodes, -1, dtype=np.int64)
        labels[nodes] = given.labels
    if soft_labels is not None:
        place = np.full(n_nodes, -1, dtype=np.int64)
        place[nodes] = np.arange(nodes.size)
        soft_labels = soft_labels.at(place).only(place >= 0)
    if soft is not None:
        coo = soft.tocoo()
        ends = nodes[coo.row], nodes[coo.col]
        soft = sp.csr_matrix((coo.data, ends), shape=(n_nodes, n_nodes))
    changed = {"labels": labels, "soft": soft, "soft_labels": soft_labels, "n_nodes": n_nodes}
    return given.having(pairs=nodes[given.pairs], **changed)


def merge_duplicates(
    given: Constraints,
    rows: NDArray[np.integer[Any]],
    weights: Floats,
    n_nodes: int,
    membership: sp.csr_matrix | None = None,
) -> tuple[Constraints, tuple[str, ...]]:
    """Constraints (n rows) of `n_nodes` nodes, and warnings of contradictions.

    `rows` (n,) are the nodes of the rows, `weights` (n,) those of the rows. Of different labels in
    one node that of most weight counts, none where they tie; a cannot-link inside a node is
    dropped. Where rows are mixtures of nodes, `membership` is diag(w)Z (n, m): `rows` are the nodes
    with the largest share, and Q' = Zᵀdiag(w)Q diag(w)Z. Cost O(n + size of the input).
    """
    warnings = []
    equal = "equal rows" if membership is None else "rows of one representative"
    used, labels, counts = given, given.labels, weights > 0
    if labels is not None:
        kind = EQUAL_ROWS if membership is None else REPRESENTATIVES
        of_nodes, warning = labels_of_nodes(labels, rows, weights, n_nodes, kind)
        if warning:
            warnings.append(warning)
        labels = np.where(counts & (labels == of_nodes[rows]), labels, -1)
    first, second = given.pairs[:, 0], given.pairs[:, 1]
    act = counts[first] & counts[second]
    inside = act & (rows[first] == rows[second]) & (given.belief < 0)
    if inside.any():
        i, j = given.pairs[np.argmax(inside)]
        noun = "cannot-link joins" if inside.sum() == 1 else "cannot-links join"
        warnings.append(f"{inside.sum()} {noun} {equal}, such as {i} and {j}: not used")
    if warnings or not counts.all():
        left = act & ~inside
        soft_labels = None if given.soft_labels is None else given.soft_labels.only(counts)
        pairs = {"pairs": given.pairs[left], "belief": given.belief[left]}
        used = given.having(**pairs, labels=labels, soft_labels=soft_labels)
    if membership is None:
        indptr = np.arange(rows.size + 1)
        membership = sp.csr_matrix((weights, rows, indptr), shape=(rows.size, n_nodes))
    return _folded(given, used, membership, rows), tuple(warnings)


def _folded(
    given: Constraints, used: Constraints, membership: sp.csr_matrix, rows: NDArray[np.integer[Any]]
) -> Constraints:
    """Constraints of the nodes, by which results are scored, with Q' = P_wᵀQP_w as Q."""
    P = membership
    n, m = P.shape
    ends = rows[used.pairs].astype(np.int64)
    apart = ends[:, 0] != ends[:, 1]
    labels: Ints | None = None
    soft = used.soft
    if used.labels is not None:
        labels = np.full(m, -1, dtype=np.int64)
        known = used.labels >= 0
        labels[rows[known]] = used.labels[known]
    if soft is not None:
        plain = sp.csr_matrix((np.ones(n), rows, np.arange(n + 1)), shape=P.shape)
        soft = sp.csr_matrix(plain.T @ soft @ plain)
    folded = Constraints._made(
        ConstraintData(
            n_nodes=m,
            pairs=ends[apart],
            belief=used.belief[apart],
            labels=labels,
            soft=soft,
            soft_kind="graph" if used.kind == "graph" else "matrix",
            label_weights=used.label_weights,
            soft_labels=None if used.soft_labels is None else used.soft_labels.summed(P),
        )
    )
    matrix = sp.csr_matrix(P.T @ used.matrix @ P)
    matrix.sort_indices()
    factor = None if used.factor is None else sp.csr_matrix(P.T @ used.factor)
    return replace(
        folded,
        matrix=matrix,
        factor=factor,
        core=used.core,
        hard=used.hard,
        copies=Copies(given, used, membership, rows),
    )
