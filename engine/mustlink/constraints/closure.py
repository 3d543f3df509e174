"""Side information as it was given: contradictions, and the transitive closure by union-find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from mustlink.constraints.label_groups import DENSE_CORE, SoftLabels
from mustlink.constraints.pairs import Floats, Ints, merge_pairs, pairs_matrix, upper_entries
from mustlink.errors import InputError

# A path costs a breadth-first search: the first ones are enough for a person to start from.
PATHS = 20


@dataclass(frozen=True)
class Contradiction:
    """Pairs and labels that cannot all hold.

    `reason` is "both signs" (one pair is a must-link and a cannot-link), "within group" (a
    cannot-link between nodes joined by must-links, or of one class) or "between classes" (a
    must-link that would join two classes). `rows` are rows of the input pairs, `path` a shortest
    chain of must-links between the two nodes (for the first 20 records), `n_nodes` the size of
    their group.
    """

    reason: str
    pair: tuple[int, int]
    rows: tuple[int, ...]
    n_nodes: int
    path: tuple[int, ...] = ()

    def __str__(self) -> str:
        """One clause naming the pair and why it cannot hold."""
        return self.text(lambda row: f"row {row}", str)

    def text(self, row: Callable[[int], str], node: Callable[[int], str]) -> str:
        """The same with other words for a row and for a node."""
        named = f"({node(self.pair[0])}, {node(self.pair[1])})"
        lines = [row(one) for one in self.rows]
        if self.reason == "both signs":
            return f"pair {named} is must-link in {lines[0]}, cannot-link in {lines[1]}"
        if self.reason == "between classes":
            return f"must-link {named} of {lines[0]} joins two classes"
        chain = [node(one) for one in self.path]
        if len(chain) > 6:
            chain = [*chain[:3], "…", *chain[-2:]]
        links = f" by {' - '.join(chain)}" if chain else ""
        return (
            f"cannot-link {named} of {lines[0]} parts two of {self.n_nodes} nodes that are "
            f"must-linked{links}"
        )


def close(
    pairs: Ints, belief: Floats, labels: Ints | None, n_nodes: int, hard: float
) -> tuple[sp.csr_matrix, sp.csr_matrix, sp.csr_matrix]:
    """Soft rest, factor F and core C of the closure Q = rest + F C Fᵀ of distinct pairs.

    F (n, r) is the indicator of the groups: must-linked nodes (belief >= hard), classes, and
    single nodes with a cannot-link (belief <= -hard). C has 1 on its diagonal and -1 where a
    cannot-link, or two classes, separate two groups. Softer pairs, cannot-links inside a group,
    must-links between two classes and outvoted ones (see `outvoted`) stay in the rest with their
    beliefs. More than 512 classes are put apart by one more column of F
    instead of K² entries of C. Cost O(n + m log m).
    """
    is_must, is_cannot = (belief >= hard) & (belief > 0), (belief <= -hard) & (belief < 0)
    certain = gather(pairs[is_must], pairs[is_cannot], labels)
    out, open_ = outvoted(certain)
    is_must[np.flatnonzero(is_must)[out[certain.n_chain :]]] = False
    is_cannot[np.flatnonzero(is_cannot)[open_]] = False
    certain = certain.without(out, open_)
    group, refused = certain.grouped
    apart = group[certain.cannot]
    clash = apart[:, 0] == apart[:, 1]
    classed = np.unique(group[certain.seed >= 0])
    apart, many = apart[~clash], classed.size > DENSE_CORE
    if many:
        apart = apart[~np.isin(apart, classed).all(axis=1)]
    else:
        a, b = np.triu_indices(classed.size, 1)
        apart = np.concatenate([apart, np.column_stack([classed[a], classed[b]])])
    wanted = np.bincount(group, minlength=certain.nodes.size) >= 2
    wanted[apart] = True
    wanted[classed] = True
    number = np.cumsum(wanted) - 1
    count = int(wanted.sum())

    member = np.flatnonzero(wanted[group])
    factor = sp.coo_matrix(
        (np.ones(member.size), (certain.nodes[member], number[group[member]])),
        shape=(n_nodes, count),
    ).tocsr()
    split = merge_pairs(number[apart], np.full(len(apart), -1.0), max(count, 1))[0]
    core = sp.identity(count, format="csr") + pairs_matrix(split, np.full(len(split), -1.0), count)
    if many:
        factor, core = _all_apart(factor, core, number[classed])

    rest = ~(is_must | is_cannot)
    rest[np.flatnonzero(is_cannot)[clash]] = True
    rest[np.flatnonzero(is_must)[refused[certain.n_chain :]]] = True
    return pairs_matrix(pairs[rest], belief[rest], n_nodes), factor, core.tocsr()


def find_contradictions(
    pairs: Ints, belief: Floats, row_of: Ints, distinct: Ints, mean: Floats, labels: Ints | None
) -> tuple[Contradiction, ...]:
    """All contradictions among input pairs (m, 2) and labels, by sign alone.

    `distinct`, `mean` and `row_of` come from `merge_pairs`. Repeating a pair is no contradiction.
    Cost O(m log m), and a breadth-first search for each of the first 20 paths.
    """
    first_must = _first_rows(row_of, belief > 0, mean.size)
    first_cannot = _first_rows(row_of, belief < 0, mean.size)
    both = (first_must >= 0) & (first_cannot >= 0)
    must, cannot = np.flatnonzero(~both & (mean > 0)), np.flatnonzero(~both & (mean < 0))
    certain = gather(distinct[must], distinct[cannot], labels)
    group, refused = certain.grouped
    size = np.bincount(group, minlength=certain.nodes.size)
    found = [
        Contradiction(
            "both signs", _pair(distinct[k]), (int(first_must[k]), int(first_cannot[k])), 2
        )
        for k in np.flatnonzero(both)
    ]
    for k in np.flatnonzero(refused[certain.n_chain :]):
        joined = int(
            size[group[certain.left[certain.n_chain + k]]]
            + size[group[certain.right[certain.n_chain + k]]]
        )
        row = (int(first_must[must[k]]),)
        found.append(Contradiction("between classes", _pair(distinct[must[k]]), row, joined))
    inside = np.flatnonzero(group[certain.cannot[:, 0]] == group[certain.cannot[:, 1]])
    paths = _paths(certain, refused, inside[:PATHS])
    for place, k in enumerate(inside):
        pair, row = _pair(distinct[cannot[k]]), (int(first_cannot[cannot[k]]),)
        members = int(size[group[certain.cannot[k, 0]]])
        path = paths[place] if place < PATHS else ()
        found.append(Contradiction("within group", pair, row, members, path))
    return tuple(found)


def _all_apart(
    factor: sp.csr_matrix, core: sp.csr_matrix, classed: Ints
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Put very many class groups apart: one more column, 2 on their diagonal, -1 for the column."""
    chosen = np.zeros(factor.shape[1])
    chosen[classed] = 1.0
    column = sp.csr_matrix((factor @ chosen)[:, None])
    bordered = sp.block_diag([core + sp.diags(chosen), [[-1.0]]], format="csr")
    return sp.hstack([factor, column], format="csr"), sp.csr_matrix(bordered)


def _first_rows(row_of: Ints, where: NDArray[np.bool_], count: int) -> Ints:
    """First input row of each distinct pair among the rows where the mask holds, else -1."""
    first = np.full(count, -1, dtype=np.int64)
    rows = np.flatnonzero(where)[::-1]
    first[row_of[rows]] = rows
    return first


def _paths(certain: PairGroups, refused: NDArray[np.bool_], cannot: Ints) -> list[tuple[int, ...]]:
    """Shortest chains of must-links between the ends of cannot-links."""
    if cannot.size == 0:
        return []
    left, right = certain.left[~refused], certain.right[~refused]
    shape = (certain.nodes.size, certain.nodes.size)
    linked = sp.coo_matrix((np.ones(left.size), (left, right)), shape=shape).tocsr()
    linked = (linked + linked.T).tocsr()
    paths = []
    for start, end in certain.cannot[cannot]:
        _, before = breadth_first_order(linked, start, directed=True, return_predecessors=True)
        path = [int(end)]
        while path[-1] != start:
            path.append(int(before[path[-1]]))
        paths.append(tuple(int(certain.nodes[node]) for node in reversed(path)))
    return paths


def _pair(row: Ints) -> tuple[int, int]:
    """Return a pair as two plain integers."""
    return int(row[0]), int(row[1])


# --- certain pairs and labels, among the few nodes that they are about


Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PairGroups:
    """Certain must-links and cannot-links among compactly numbered nodes.

    `nodes` maps compact to graph numbers; `left`, `right` are must-links, chains through the
    classes first; `seed` is the class of a compact node or -1.
    """

    nodes: Ints
    left: Ints
    right: Ints
    n_chain: int
    cannot: Ints
    seed: Ints

    @cached_property
    def grouped(self) -> tuple[Ints, Bools]:
        """Group of every compact node and the must-links refused between two classes."""
        return union_find(self.nodes.size, self.left, self.right, self.seed)

    def without(self, links: Bools, cannot: Bools | None = None) -> PairGroups:
        """The same without some of the must-links (m,) and cannot-links (c,)."""
        cannot = np.zeros(len(self.cannot), dtype=np.bool_) if cannot is None else cannot
        if not links.any() and not cannot.any():
            return self
        return replace(
            self,
            left=self.left[~links],
            right=self.right[~links],
            n_chain=self.n_chain - int(links[: self.n_chain].sum()),
            cannot=self.cannot[~cannot],
        )


def union_find(n_nodes: int, left: Ints, right: Ints, seed: Ints) -> tuple[Ints, Bools]:
    """Group of every node, named by its smallest member, and which links were refused.

    Links are taken in order. `seed` (n,) gives the class of a node, -1 for none: a link that would
    join two different classes is refused. Roots are smallest members and paths are halved, so
    the cost is O((n + m) log n) at worst and linear in practice.
    """
    refused = np.zeros(left.size, dtype=np.bool_)
    links = sp.coo_matrix((np.ones(left.size), (left, right)), shape=(n_nodes, n_nodes))
    count, group = connected_components(links, directed=False)
    known = np.flatnonzero(seed >= 0)
    class_of = np.full(count, -1, dtype=seed.dtype)
    class_of[group[known]] = seed[known]
    if (class_of[group[known]] == seed[known]).all():  # as nearly always: none is refused
        smallest = np.empty(count, dtype=np.int64)
        smallest[group[::-1]] = np.arange(n_nodes)[::-1]  # the last one written stays
        return smallest[group], refused
    from mustlink.kernels.graph_walk import unite

    parent = np.arange(n_nodes)
    unite(left, right, parent, seed.copy(), refused)
    return parent, refused


def gather(must: Ints, cannot: Ints, labels: Ints | None) -> PairGroups:
    """Groups of pairs (m, 2), (c, 2) and labels; ℓ labels give ℓ - K links, no cliques."""
    chain = np.empty((0, 2), dtype=np.int64)
    labelled = np.empty(0, dtype=np.int64)
    if labels is not None:
        labelled = np.flatnonzero(labels >= 0)
        order = labelled[np.argsort(labels[labelled], kind="stable")]
        same = labels[order[1:]] == labels[order[:-1]]
        chain = np.column_stack([order[:-1][same], order[1:][same]])
    nodes = np.unique(np.concatenate([chain.ravel(), must.ravel(), cannot.ravel(), labelled]))
    links = np.searchsorted(nodes, np.concatenate([chain, must]))
    seed = np.full(nodes.size, -1, dtype=np.int64) if labels is None else labels[nodes]
    return PairGroups(
        nodes.astype(np.int64),
        np.ascontiguousarray(links[:, 0], dtype=np.int64),
        np.ascontiguousarray(links[:, 1], dtype=np.int64),
        chain.shape[0],
        np.searchsorted(nodes, cannot).astype(np.int64),
        np.ascontiguousarray(seed, dtype=np.int64),
    )


# --- Must-links that cannot-links contradict
#
# One wrong must-link joins two groups of any size, and all pairs between them follow from it. Where
# nothing else joins them and a cannot-link separates them, the must-link does not count. Other
# cannot-links inside a group are wrong. With one of 20 answers wrong, 300 pairs asked take CSP to
# ARI .895 on usps and .811 on 10,000 of MNIST, without this rule to .756 and .731 (medians of four
# or five draws; 200 pairs .883, .779 and .840, .739; on optdigits .906 and .848 after 200, but .847
# and .916 after 300).


LARGE = 3  # nodes in both parts from which one answer is not enough: with fewer little follows


@dataclass(frozen=True, eq=False)
class MustTrees:
    """A tree in every group of must-links, its branches named by their lower ends.

    A branch parts its group into the `size` (n,) nodes at it or below and the others. `link` (n,)
    is the must-link that it is, -1 for a root; `order` the nodes from the `root` (n,) of their
    tree down, `above` (n,) the next one up.
    """

    links: Ints
    order: Ints
    above: Ints
    root: Ints
    link: Ints
    depth: Ints
    size: Ints

    @classmethod
    def of(cls, links: Ints, group: Ints) -> Self:
        """Of links (e, 2) among n nodes in groups (n,) that are named by one of their members."""
        from mustlink.kernels.graph_walk import tree_sizes

        n = group.size
        tops = np.unique(group)
        left, right = np.concatenate([links, np.column_stack([np.full(tops.size, n), tops])]).T
        shape = (n + 1, n + 1)
        graph = coo_array((np.ones(left.size), (left, right)), shape=shape).tocsr()
        order, above = (
            found.astype(np.int64) for found in breadth_first_order(graph, n, directed=False)
        )
        order, above = order[1:], np.where(above[:n] == n, -1, above[:n])
        one, other = links.T
        lower = np.where(above[one] == other, one, np.where(above[other] == one, other, -1))
        link = np.full(n, -1, dtype=np.int64)
        tree = np.flatnonzero(lower >= 0)[::-1]
        link[lower[tree]] = tree  # of equal ones the first
        return cls(links, order, above, group, link, *tree_sizes(order, above))

    def passing(self, pairs: Ints) -> Ints:
        """How many pairs (p, 2), each within a group, every branch (n,) parts."""
        from mustlink.kernels.graph_walk import passing

        return passing(self.above, self.depth, pairs)

    @cached_property
    def smaller(self) -> Ints:
        """Nodes of the smaller of the two parts (n,)."""
        return np.minimum(self.size, self.size[self.root] - self.size)

    @cached_property
    def is_bridge(self) -> Bools:
        """Whether a branch (n,) is the only must-link between its two parts."""
        others = np.ones(len(self.links), dtype=np.bool_)
        others[self.link[self.link >= 0]] = False
        return (self.link >= 0) & (self.passing(self.links[others]) == 0)

    def parts(self, branch: int) -> tuple[Ints, Ints]:
        """The nodes of the two parts, in the order of the tree."""
        below = np.zeros(self.above.size, dtype=np.bool_)
        below[branch] = True
        group = self.order[self.root[self.order] == self.root[branch]]
        for node in group[self.depth[group] > self.depth[branch]]:
            below[node] = below[self.above[node]]
        return group[below[group]], group[~below[group]]


def outvoted(certain: PairGroups) -> tuple[Bools, Bools]:
    """The must-links (m,), none of chains of labels, and cannot-links (c,) that do not count.

    For every cannot-link inside a group: the bridge between its ends that most cannot-links
    contradict, of these the one with the larger parts, of these the first. One against one: neither
    counts. This is repeated until no cannot-link inside a group has a bridge of large parts between
    its ends. Cost O(m log m) and the lengths of the paths, a few times; O(m) without
    contradictions.
    """
    from mustlink.kernels.graph_walk import highest

    links = np.column_stack([certain.left, certain.right])
    out, open_ = np.zeros(len(links), dtype=np.bool_), np.zeros(len(certain.cannot), dtype=np.bool_)
    while True:
        left = np.flatnonzero(~out)
        group, refused = certain.without(out).grouped
        ends = group[certain.cannot]
        at, kept = np.flatnonzero((ends[:, 0] == ends[:, 1]) & ~open_), left[~refused]
        if not at.size or not kept.size:
            break
        inside = certain.cannot[at]
        trees = MustTrees.of(links[kept], group)
        against = trees.passing(inside)
        able = np.flatnonzero(trees.is_bridge & (trees.smaller >= LARGE) & (against > 0))
        able = able[kept[trees.link[able]] >= certain.n_chain]
        rank = np.full(group.size, -1, dtype=np.int64)
        worse = np.lexsort((-trees.link[able], trees.smaller[able], against[able]))
        rank[able[worse]] = np.arange(able.size)
        chosen = highest(trees.above, trees.depth, inside, rank)
        if (chosen < 0).all():
            break
        open_[at[(chosen >= 0) & (against[chosen] == 1)]] = True
        out[kept[trees.link[chosen[chosen >= 0]]]] = True
    return out, open_


# --- Side information as it was given, checked: pairs, labels, a graph or a matrix


@dataclass(frozen=True, eq=False, kw_only=True)
class ConstraintData:
    """Side information on n nodes; absent parts are None, or have no rows.

    `pairs` (m, 2) int64 and `belief` (m,) with repetitions, `labels` (n,) int64 with -1 for
    unknown, `soft` (n, n) CSR, symmetric, a second graph or a matrix as `soft_kind` says.
    `label_weights` are the beliefs in two labels that agree and in two that do not.
    `soft_labels` are distributions over classes, of nodes without a label.
    """

    n_nodes: int
    pairs: Ints = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))
    belief: Floats = field(default_factory=lambda: np.empty(0))
    labels: Ints | None = None
    soft: sp.csr_matrix | None = None
    soft_kind: str = "matrix"
    label_weights: tuple[float, float] = (1.0, 1.0)
    soft_labels: SoftLabels | None = None

    def __post_init__(self) -> None:
        """Replace empty parts by None."""
        weigh, labels, soft_labels = any(self.label_weights), self.labels, self.soft_labels
        if labels is None or not (weigh and (labels >= 0).any()):
            object.__setattr__(self, "labels", None)
        if soft_labels is not None and self.labels is not None:
            soft_labels = soft_labels.only(self.labels < 0)
        if soft_labels is not None and not (weigh and soft_labels.known.any()):
            soft_labels = None
        object.__setattr__(self, "soft_labels", soft_labels)
        if self.labels is None and soft_labels is None:
            object.__setattr__(self, "label_weights", (1.0, 1.0))
        if self.soft is not None and self.soft.nnz == 0:
            object.__setattr__(self, "soft", None)

    @property
    def kind(self) -> str:
        """The kind, "pairs", "labels", "soft labels", "graph", "matrix"; "mixed" or "none"."""
        parts = {
            "pairs": self.pairs.size > 0,
            "labels": self.labels is not None,
            "soft labels": self.soft_labels is not None,
            self.soft_kind: self.soft is not None,
        }
        kinds = [name for name, present in parts.items() if present]
        return "none" if not kinds else kinds[0] if len(kinds) == 1 else "mixed"

    @cached_property
    def merged(self) -> tuple[Ints, Floats]:
        """Distinct unordered pairs (k, 2), i < j, and their mean beliefs (k,)."""
        return merge_pairs(self.pairs, self.belief, self.n_nodes)[:2]

    @cached_property
    def shares(self) -> SoftLabels | None:
        """Labels and soft labels as one distribution a node; None without soft ones."""
        return None if self.soft_labels is None else self.soft_labels.with_labels(self.labels)

    @cached_property
    def nodes(self) -> Ints:
        """Sorted numbers of the nodes in a pair, with a label, or with an entry of `soft`."""
        parts = [self.pairs.ravel()]
        if self.labels is not None:
            parts.append(np.flatnonzero(self.labels >= 0))
        if self.soft_labels is not None:
            parts.append(np.flatnonzero(self.soft_labels.known))
        if self.soft is not None:
            parts.append(np.flatnonzero(np.diff(self.soft.indptr)))
        return np.unique(np.concatenate(parts)).astype(np.int64)

    def counts(self) -> dict[str, int]:
        """Numbers of must-links, cannot-links, undecided pairs (mean belief 0), nodes, labels.

        Of soft labels they are expected numbers, rounded.
        """
        mean = self.merged[1]
        must, cannot = int((mean > 0).sum()), int((mean < 0).sum())
        undecided, labelled, within = mean.size - must - cannot, 0, 0
        if self.shares is not None:
            labelled = int(self.shares.known.sum())
            within = round(self.shares.pairs_expected()[0])
        elif self.labels is not None:
            sizes = np.unique(self.labels[self.labels >= 0], return_counts=True)[1]
            labelled, within = int(sizes.sum()), int((sizes * (sizes - 1) // 2).sum())
        must += within if self.label_weights[0] else 0
        cannot += labelled * (labelled - 1) // 2 - within if self.label_weights[1] else 0
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

    def contradictions(self) -> tuple[Contradiction, ...]:
        """Pairs and labels that cannot all hold, by sign; repeated pairs can. Cost O(m log m)."""
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

    @property
    def statements(self) -> ConstraintData:
        """The input alone, without Q."""
        return ConstraintData(
            **{one.name: getattr(self, one.name) for one in fields(ConstraintData)}
        )
