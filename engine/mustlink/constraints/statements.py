"""What is taken as certain of pairs and labels, among the few nodes that it is about."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints.pairs import Ints

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Statements:
    """What is taken as certain: must-links and cannot-links among compactly numbered nodes.

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
        from mustlink.kernels.union_find import union_find

        group, refused = union_find(self.nodes.size, self.left, self.right, self.seed)
        return group, refused

    def without(self, links: Bools, cannot: Bools | None = None) -> Statements:
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


def gather(must: Ints, cannot: Ints, labels: Ints | None) -> Statements:
    """Statements from pairs (m, 2), (c, 2) and labels; ℓ labels give ℓ - K links, no cliques."""
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
    return Statements(
        nodes.astype(np.int64),
        np.ascontiguousarray(links[:, 0], dtype=np.int64),
        np.ascontiguousarray(links[:, 1], dtype=np.int64),
        chain.shape[0],
        np.searchsorted(nodes, cannot).astype(np.int64),
        np.ascontiguousarray(seed, dtype=np.int64),
    )
