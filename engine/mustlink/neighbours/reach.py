"""How far the lists of a graph's nodes go, kept by the search: new points are held against that."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.graph.graph import Graph, Key

_NEIGHBOUR = 7  # whose distance is a node's scale
_TINY = np.finfo(np.float32).tiny


@dataclass(frozen=True, eq=False)
class Reach:
    """Distances (n,) to the 7th neighbour, and to the k-th, of every node; NaN: not known.

    In units of points that were multiplied by `unit`.
    """

    scale: NDArray[np.float32]
    last: NDArray[np.float32]
    unit: float

    @classmethod
    def of(cls, distances: NDArray[np.floating], unit: float) -> Self:
        """Of lists (n, k), ascending; what is 0 or misses some is left to the edges."""
        columns = distances[:, min(_NEIGHBOUR, distances.shape[1]) - 1], distances[:, -1]
        found = [np.array(one, dtype=np.float32) for one in columns]
        for one in found:
            one[~np.isfinite(one) | (one <= 0)] = np.nan
        return cls(found[0], found[1], float(unit))

    def within(self, unit: float) -> Self:
        """The same in another unit, to be written into."""
        ratio = np.float32(unit / self.unit)
        return type(self)(self.scale * ratio, self.last * ratio, unit)

    def look(
        self, nodes: NDArray[np.int64], W: sp.csr_matrix, X: NDArray[np.float32], k: int
    ) -> None:
        """Fill in what is not known of `nodes`, from their edges in W between points X (n, d)."""
        from mustlink.kernels import graph_walk
        from mustlink.kernels.blocks import workers

        asked = nodes[np.isnan(self.scale[nodes]) | np.isnan(self.last[nodes])]
        scale, last = np.empty(asked.size, np.float32), np.empty(asked.size, np.float32)

        def some(a: int, b: int) -> None:
            part = slice(a, b)
            graph_walk.reaches(
                X, W.indptr, W.indices, asked[part], _NEIGHBOUR, k, scale[part], last[part]
            )

        with ThreadPoolExecutor(workers()) as pool:
            cuts = np.linspace(0, asked.size, 8 * workers() + 1).astype(int).tolist()
            list(pool.map(some, cuts[:-1], cuts[1:]))
        self.scale[asked] = np.sqrt(np.maximum(scale, _TINY))
        self.last[asked] = np.sqrt(last)

    def grown(self, m: int, nearer: NDArray[np.int64]) -> Self:
        """With m more nodes; they, and those that something new is `nearer` to, are not known."""
        new = np.full(m, np.nan, np.float32)
        found = type(self)(np.append(self.scale, new), np.append(self.last, new), self.unit)
        found.scale[nearer] = found.last[nearer] = np.nan
        return found


@dataclass(frozen=True)
class ReachKey(Key[Reach]):
    """How far lists go."""


def reach_of(graph: Graph, unit: float) -> Reach:
    """What is kept with a graph, in this unit; else nothing is known of any node."""
    kept: Any = graph.derived.find(ReachKey(None))
    if kept is None:
        unknown = np.full(graph.n_nodes, np.nan, np.float32)
        return Reach(unknown, unknown.copy(), unit)
    return kept.within(unit)
