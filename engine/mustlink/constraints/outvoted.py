"""Must-links that cannot-links contradict: what alone joins two parts that are said to be apart.

One wrong must-link joins two groups of any size, and all pairs between them follow from it. Where
nothing else joins them and a cannot-link says that they are apart, the must-link is not believed.
Other cannot-links inside a group are wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order

from mustlink.constraints.pairs import Ints
from mustlink.constraints.statements import Bools, Statements

LARGE = 3  # nodes in both parts from which on one answer is not enough: with fewer little follows


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
        from mustlink.kernels.tree_paths import tree_sizes

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
        from mustlink.kernels.tree_paths import passing

        return passing(self.above, self.depth, pairs)

    @cached_property
    def smaller(self) -> Ints:
        """Nodes of the smaller of the two parts (n,)."""
        found: Ints = np.minimum(self.size, self.size[self.root] - self.size)
        return found

    @cached_property
    def is_bridge(self) -> Bools:
        """Whether a branch (n,) is the only must-link between its two parts."""
        others = np.ones(len(self.links), dtype=np.bool_)
        others[self.link[self.link >= 0]] = False
        found: Bools = (self.link >= 0) & (self.passing(self.links[others]) == 0)
        return found

    def parts(self, branch: int) -> tuple[Ints, Ints]:
        """The nodes of the two parts, in the order of the tree."""
        below = np.zeros(self.above.size, dtype=np.bool_)
        below[branch] = True
        group = self.order[self.root[self.order] == self.root[branch]]
        for node in group[self.depth[group] > self.depth[branch]]:
            below[node] = below[self.above[node]]
        return group[below[group]], group[~below[group]]


def outvoted(said: Statements) -> tuple[Bools, Bools]:
    """The must-links (m,), none of chains of labels, and cannot-links (c,) not to be believed.

    For every cannot-link inside a group: the bridge between its ends that most cannot-links
    contradict, of these the one with the larger parts, of these the first. One word against one:
    neither is believed. This is repeated till no cannot-link inside a group has a bridge of large
    parts between its ends. Cost O(m log m) and the lengths of the paths, a few times; O(m) where
    nothing is contradicted.
    """
    from mustlink.kernels.tree_paths import highest

    links = np.column_stack([said.left, said.right])
    out, open_ = np.zeros(len(links), dtype=np.bool_), np.zeros(len(said.cannot), dtype=np.bool_)
    while True:
        left = np.flatnonzero(~out)
        group, refused = said.without(out).grouped
        ends = group[said.cannot]
        at, kept = np.flatnonzero((ends[:, 0] == ends[:, 1]) & ~open_), left[~refused]
        if not at.size or not kept.size:
            break
        inside = said.cannot[at]
        trees = MustTrees.of(links[kept], group)
        against = trees.passing(inside)
        able = np.flatnonzero(trees.is_bridge & (trees.smaller >= LARGE) & (against > 0))
        able = able[kept[trees.link[able]] >= said.n_chain]
        rank = np.full(group.size, -1, dtype=np.int64)
        worse = np.lexsort((-trees.link[able], trees.smaller[able], against[able]))
        rank[able[worse]] = np.arange(able.size)
        chosen = highest(trees.above, trees.depth, inside, rank)
        if (chosen < 0).all():
            break
        open_[at[(chosen >= 0) & (against[chosen] == 1)]] = True
        out[kept[trees.link[chosen[chosen >= 0]]]] = True
    return out, open_
