"""Constraints: what is known about pairs of nodes, as Q = sparse + low rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints.closure import Contradiction, close, find_contradictions
from mustlink.constraints.graphs import as_symmetric, split_entries, upper_entries
from mustlink.constraints.label_groups import (
    Core,
    check_labels,
    labels_factor,
    merge_labels,
    split_labels,
)
from mustlink.constraints.pairs import (
    Floats,
    Ints,
    check_n_nodes,
    check_nodes,
    check_pairs,
    merge_pairs,
    pairs_matrix,
    split_pairs,
)
from mustlink.errors import InputError

if TYPE_CHECKING:
    from mustlink.constraints.on_nodes import Copies

DENSE_LIMIT = 20_000


@dataclass(frozen=True, eq=False, repr=False)
class Constraints:
    """Side information on n nodes as a symmetric matrix Q (WD14 §4.1), never written out.

    Q_ij > 0 says that i and j belong together, Q_ij < 0 that they do not; the magnitude is the
    degree of belief. Q = matrix + factor @ core @ factor.T with

    * `matrix` (n, n) CSR float64, symmetric: pairs, a second graph, a given matrix;
    * `factor` (n, r) CSR and `core` (r, r), or None: labels and closures, which would be cliques.

    Make one by `from_pairs`, `from_labels`, `from_graph` or `from_matrix`, and add them with `+`.
    `kind` is "pairs", "labels", "graph", "matrix", "mixed" or "none". What was given is kept:
    `pairs` (m, 2) int64 and `belief` (m,) with repetitions, `labels` (n,) int64 with -1 for
    unknown and their `classes`, `soft` the given graph or matrix. `hard` is the belief from which
    `closure` took a pair as certain, None if this is no closure. Where nodes stand for several
    rows, `copies` are the constraints of the rows, which Q counts. Arrays are copies; nothing
    changes after construction.
    """

    n_nodes: int
    kind: str
    matrix: sp.csr_matrix
    factor: sp.csr_matrix | None
    core: Core | None
    pairs: Ints
    belief: Floats
    labels: Ints | None
    classes: Ints
    soft: sp.csr_matrix | None
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
        return _build(n_nodes, pairs=array, belief=values)

    @classmethod
    def from_labels(cls, y: Any) -> Constraints:
        """Labels (n,) of some nodes, -1 for unknown: +1 within a class, -1 between classes.

        Q_ii = 1 on labelled nodes. Class numbers may have gaps; classes may have names, "" for
        unknown, and are numbered in their order. Raises InputError for NaN among numbers,
        fractions and numbers below -1. Cost O(n), whatever the number of labels.
        """
        labels = check_labels(y)
        return _build(labels.size, labels=labels)

    @classmethod
    def from_graph(cls, affinity: Any) -> Constraints:
        """Soft must-links from a second graph on the same nodes: transfer (WD14 §6.3).

        `affinity` (n, n) dense, sparse or a Graph; symmetric, non-negative, its diagonal kept.
        Raises InputError otherwise. Cost O(nnz).
        """
        soft = as_symmetric(affinity, signed=False)
        return _build(soft.shape[0], soft=soft, soft_kind="graph")

    @classmethod
    def from_matrix(cls, matrix: Any) -> Constraints:
        """Degrees of belief Q (n, n), dense or sparse, symmetric, of any sign (WD14 §4.1).

        Raises InputError for a matrix that is not square, finite and symmetric. Cost O(nnz).
        """
        soft = as_symmetric(matrix, signed=True)
        return _build(soft.shape[0], soft=soft)

    @classmethod
    def none(cls, n_nodes: int) -> Constraints:
        """No side information about n nodes."""
        return _build(check_n_nodes(n_nodes))

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
        own = {"pairs": self.pairs, "belief": self.belief, "labels": self.labels, "soft": self.soft}
        kind = {"soft_kind": "graph" if self.kind == "graph" else "matrix"}
        return self._like(own | kind | parts)

    @cached_property
    def merged(self) -> tuple[Ints, Floats]:
        """Distinct unordered pairs (k, 2), i < j, and their mean beliefs (k,)."""
        return merge_pairs(self.pairs, self.belief, self.n_nodes)[:2]

    @cached_property
    def nodes(self) -> Ints:
        """Sorted numbers of the nodes about which something was given."""
        if self.copies is not None:
            return np.unique(self.copies.rows[self.copies.told.nodes]).astype(np.int64)
        parts = [self.pairs.ravel()]
        if self.labels is not None:
            parts.append(np.flatnonzero(self.labels >= 0))
        if self.soft is not None:
            parts.append(np.flatnonzero(np.diff(self.soft.indptr)))
        return np.unique(np.concatenate(parts)).astype(np.int64)

    @property
    def n_constraints(self) -> int:
        """Distinct pairs, plus ℓ(ℓ-1)/2 for ℓ labels, plus stored entries above the diagonal."""
        counts = self.counts()
        return counts["must"] + counts["cannot"] + counts["undecided"]

    def counts(self) -> dict[str, int]:
        """Numbers of must-links, cannot-links, undecided pairs (mean belief 0), nodes, labels."""
        mean = self.merged[1]
        must, cannot = int((mean > 0).sum()), int((mean < 0).sum())
        undecided, labelled = mean.size - must - cannot, 0
        if self.labels is not None:
            sizes = np.unique(self.labels[self.labels >= 0], return_counts=True)[1]
            labelled = int(sizes.sum())
            within = int((sizes * (sizes - 1) // 2).sum())
            must, cannot = must + within, cannot + labelled * (labelled - 1) // 2 - within
        if self.soft is not None:
            values = upper_entries(self.soft)[2]
            must, cannot = must + int((values > 0).sum()), cannot + int((values < 0).sum())
        return {
            "must": must,
            "cannot": cannot,
            "undecided": undecided,
            "nodes": self.nodes.size,
            "labelled": labelled,
        }

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

    def contradictions(self) -> tuple[Contradiction, ...]:
        """Statements that cannot all hold, by sign; repeated pairs are none. Cost O(m log m)."""
        distinct, mean, row_of = merge_pairs(self.pairs, self.belief, self.n_nodes)
        return find_contradictions(self.pairs, self.belief, row_of, distinct, mean, self.labels)

    def check(self, *, strict: bool = False) -> tuple[Contradiction, ...]:
        """Return the contradictions; with `strict` raise InputError naming up to five pairs."""
        found = self.contradictions()
        if strict and found:
            named = "; ".join(str(one) for one in found[:5])
            more = f"; and {len(found) - 5} more" if len(found) > 5 else ""
            noun = "contradiction" if len(found) == 1 else "contradictions"
            raise InputError(
                f"constraints: {len(found)} {noun}: {named}{more}; correct the pairs, or use "
                "strict=False to keep them as soft"
            )
        return found

    def closure(self, *, strict: bool = False, hard: float = 1.0) -> Constraints:
        """Everything that follows from certain pairs (|mean belief| >= hard) and from labels.

        Must-linked nodes become one group and two groups with a cannot-link between them are
        wholly apart: Q gets +1 within and -1 between, as factor (n, r) and sparse core, never as
        cliques. Softer pairs, graphs and matrices stay as they are. Contradictory pairs stay
        soft, or raise InputError if `strict`. The pairs as given are kept for scoring. Labels
        alone are their own closure. Cost O(n + m log m).
        """
        if strict:
            self.check(strict=True)
        if self.pairs.size == 0 or self.hard == hard:
            return self
        rest, factor, core = close(*self.merged, self.labels, self.n_nodes, hard)
        matrix = rest if self.soft is None else (rest + self.soft).tocsr()
        low_rank = (factor, core) if core.nnz else (None, None)
        return replace(self, matrix=matrix, factor=low_rank[0], core=low_rank[1], hard=hard)

    def split(
        self, fraction: float, rng: np.random.Generator | int | None = None
    ) -> tuple[Constraints, Constraints]:
        """Keep most and hold out about a `fraction` for validation: (kept, held_out).

        Pairs: a random subset of distinct pairs, repetitions together. Labels: of the labelled
        nodes of each class, which keeps at least one. Graph or matrix: of the entries above the
        diagonal. Both parts have n nodes; the parts of a closure are closed separately.
        """
        if not 0 < fraction < 1:
            raise InputError(f"constraints: fraction is {fraction}; give a share between 0 and 1")
        rng = np.random.default_rng(rng)
        if self.copies is not None:
            one, other = self.copies.told.split(fraction, rng)
            return self.copies.folded(one), self.copies.folded(other)
        kept: dict[str, Any] = {}
        held: dict[str, Any] = {}
        if self.pairs.size:
            out = split_pairs(self.pairs, self.belief, self.n_nodes, fraction, rng)
            kept.update(pairs=self.pairs[~out], belief=self.belief[~out])
            held.update(pairs=self.pairs[out], belief=self.belief[out])
        if self.labels is not None:
            out = split_labels(self.labels, fraction, rng)
            kept["labels"] = np.where(out, -1, self.labels)
            held["labels"] = np.where(out, self.labels, -1)
        if self.soft is not None:
            kept["soft"], held["soft"] = split_entries(self.soft, fraction, rng)
            kept["soft_kind"] = held["soft_kind"] = "graph" if self.kind == "graph" else "matrix"
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
        chosen, place = check_nodes(nodes, self.n_nodes)
        ends = place[self.pairs]
        inside = (ends >= 0).all(axis=1)
        made = _build(
            chosen.size,
            pairs=ends[inside],
            belief=self.belief[inside],
            labels=None if self.labels is None else self.labels[chosen],
            soft=None if self.soft is None else self.soft[chosen][:, chosen].tocsr(),
            soft_kind="graph" if self.kind == "graph" else "matrix",
        )
        return made if self.hard is None else made.closure(hard=self.hard)

    def __add__(self, other: object) -> Constraints:
        """Both together: pairs and labels are merged, matrices are added."""
        if not isinstance(other, Constraints):
            return NotImplemented
        other.require_nodes(self.n_nodes)
        if self.copies is not None and other.copies is not None:
            return self.copies.folded(self.copies.told + other.copies.told)
        labels, soft = self.labels, self.soft
        if other.labels is not None:
            labels = other.labels if labels is None else merge_labels(labels, other.labels)
        if other.soft is not None:
            soft = other.soft if soft is None else (soft + other.soft).tocsr()
        graphs = all(c.kind == "graph" or c.soft is None for c in (self, other))
        parts: dict[str, Any] = {
            "pairs": np.concatenate([self.pairs, other.pairs]),
            "belief": np.concatenate([self.belief, other.belief]),
            "labels": labels,
            "soft": soft,
            "soft_kind": "graph" if graphs else "matrix",
        }
        hard = self.hard if self.hard is not None else other.hard
        made = _build(self.n_nodes, **parts)
        return made if hard is None else made.closure(hard=hard)

    def __repr__(self) -> str:
        """Kind, numbers and nodes on one line."""
        c = self.counts()
        return (
            f"Constraints({self.kind}: {c['must']} must-links, {c['cannot']} cannot-links on "
            f"{c['nodes']} of {self.n_nodes} nodes{'' if self.hard is None else ', closed'})"
        )

    def _like(self, parts: dict[str, Any]) -> Constraints:
        """Constraints on the same nodes, closed if these are."""
        made = _build(self.n_nodes, **parts)
        return made if self.hard is None else made.closure(hard=self.hard)


def _build(
    n_nodes: int,
    *,
    pairs: Ints | None = None,
    belief: Floats | None = None,
    labels: Ints | None = None,
    soft: sp.csr_matrix | None = None,
    soft_kind: str = "matrix",
) -> Constraints:
    """Constraints from checked parts; the kind follows from which parts say anything."""
    if pairs is None or belief is None:
        pairs, belief = np.empty((0, 2), dtype=np.int64), np.empty(0)
    if labels is not None and not (labels >= 0).any():
        labels = None
    if soft is not None and soft.nnz == 0:
        soft = None
    given = [
        ("pairs", pairs.size > 0),
        ("labels", labels is not None),
        (soft_kind, soft is not None),
    ]
    kinds = [name for name, present in given if present]
    distinct, mean, _ = merge_pairs(pairs, belief, n_nodes)
    matrix = pairs_matrix(distinct, mean, n_nodes)
    if soft is not None:
        matrix = (matrix + soft).tocsr() if pairs.size else soft
    factor, core, classes = None, None, np.empty(0, dtype=np.int64)
    if labels is not None:
        factor, core, classes = labels_factor(labels)
    kind = "none" if not kinds else kinds[0] if len(kinds) == 1 else "mixed"
    return Constraints(n_nodes, kind, matrix, factor, core, pairs, belief, labels, classes, soft)
