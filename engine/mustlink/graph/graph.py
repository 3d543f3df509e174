"""The graph: a symmetric non-negative affinity in CSR form, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.check import as_affinity
from mustlink.graph.components import component_labels
from mustlink.graph.derived import Derived


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected weighted graph of n nodes, numbered from 0.

    `affinity` is W, (n, n) CSR, symmetric, W_ij >= 0. `info` tells how it was made (neighbours,
    recall, bridging edges …). A graph never changes; `derived` keeps what was computed from it
    alone (its order, multigrid grids, smoothest eigenvectors), so that a second fit on the same
    graph need not repeat it.
    """

    affinity: sp.csr_matrix
    info: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_affinity(cls, affinity: Any, info: Mapping[str, Any] | None = None) -> Graph:
        """Check a square symmetric non-negative matrix and wrap it; raises InputError."""
        return cls(as_affinity(affinity), dict(info or {"kind": "precomputed"}))

    @property
    def n_nodes(self) -> int:
        """Number of nodes n."""
        return int(self.affinity.shape[0])

    @property
    def n_edges(self) -> int:
        """Number of undirected edges, loops counted once."""
        loops = int(np.count_nonzero(self.affinity.diagonal()))
        return (int(self.affinity.nnz) - loops) // 2 + loops

    @cached_property
    def degrees(self) -> NDArray[np.float64]:
        """Row sums d = W1, (n,), in double precision whatever W is stored in."""
        W, found = self.affinity, np.zeros(self.n_nodes)
        filled = np.diff(W.indptr) > 0
        # Sums in single precision are off by 1e-7, and D^½1 would be no null vector of L̄.
        found[filled] = np.add.reduceat(W.data, W.indptr[:-1][filled], dtype=np.float64)
        return found

    @cached_property
    def volume(self) -> float:
        """Sum of all degrees."""
        return float(self.degrees.sum())

    @cached_property
    def components(self) -> NDArray[np.int32]:
        """Component of every node, (n,), numbered by falling size."""
        return component_labels(self.affinity)

    @cached_property
    def n_components(self) -> int:
        """Number of connected components; an isolated node is one."""
        return int(self.components.max()) + 1 if self.n_nodes else 0

    @cached_property
    def derived(self) -> Derived:
        """What was computed from this graph, by typed keys; see `workspace`."""
        return Derived()
