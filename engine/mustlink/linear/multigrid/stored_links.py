"""The graph of the aggregates of a graph on disk: weights between them, the heaviest where many.

Of neighbours in many dimensions an aggregate is linked with hundreds of others, most of them
lightly. What is left out goes to the diagonal: degrees stay, so the constant vector does, and a
preconditioner, or the start of an iteration, hardly knows the difference as long as nothing comes
apart. Measured on 10⁶ points in 32 dimensions, nine pairs to 1e-3: 13 M links, 2.9 CPU seconds; the
24 heaviest of each, 1.8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from mustlink.graph.row_buckets import RowBuckets
from mustlink.graph.stored import RowBlock, StoredGraph
from mustlink.kernels.heaviest_links import heaviest_links
from mustlink.space.disk import DiskSpace

FEWEST = 4  # links of an aggregate, below which a graph of them says little
Advance = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Links:
    """Links between `count` aggregates, `group` (n,) telling those of the nodes; `most` at most."""

    graph: StoredGraph
    group: NDArray[np.int32]
    count: int
    most: int

    def weights(self, space: DiskSpace, advance: Advance) -> sp.csr_matrix | None:
        """Sums of weights, (count, count), in double precision; None where links are too many.

        Where all are more than `most` the heaviest of each aggregate, and those without which it
        would fall apart.
        """
        buckets = self._dealt(space, lambda part: advance(0.5 * part))
        kept, parts, links, totals = self.count, [], 0, np.zeros(self.count)
        for part in buckets.rows():
            totals[part.rows] = _sums(part)
            parts.append((part.first, *heaviest_links(part.indptr, part.indices, part.data,
                                                      part.first, kept)))  # fmt: skip
            links += parts[-1][2].size
            if links > self.most and kept == self.count:
                kept = min(self.most // (2 * self.count), self.count - 1)
                if kept < FEWEST:
                    return None
                parts = [(one[0], *heaviest_links(*one[1:], one[0], kept)) for one in parts]
            advance(0.5 + 0.5 * part.rows.stop / self.count)
        lengths, columns, values = (
            np.concatenate(each)
            for each in zip(*((np.diff(one[1]), *one[2:]) for one in parts), strict=True)
        )
        del parts
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        given = values.astype(np.float64), columns, ends
        W = sp.csr_matrix(given, shape=(self.count, self.count))
        if kept < self.count:
            W.sort_indices()
            joined = self._joined(sp.csr_matrix(W.maximum(W.T)), buckets)  # both ends agree
            if joined is None:
                return None
            W = joined
        loops = np.maximum(totals - np.asarray(W.sum(axis=1)).ravel(), 0.0)
        return sp.csr_matrix(W + sp.diags(loops))

    def _joined(self, W: sp.csr_matrix, buckets: RowBuckets) -> sp.csr_matrix | None:
        """The same with all links between parts that came apart; None where they are too many."""
        parts, label = connected_components(W, directed=False)
        if parts == 1:
            return W
        bridges, links = [], W.nnz
        for part in buckets.rows():
            row = part.first + np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
            across = label[row] != label[part.indices]
            links += int(np.count_nonzero(across))
            if links > 2 * self.most:
                return None
            bridges.append((part.data[across], row[across], part.indices[across]))
        data, rows, columns = (np.concatenate(each) for each in zip(*bridges, strict=True))
        return W + sp.csr_matrix((data.astype(np.float64), (rows, columns)), shape=W.shape)

    def _dealt(self, space: DiskSpace, advance: Advance) -> RowBuckets:
        """Entries by the aggregate of their row."""
        graph, group = self.graph, self.group
        entries = np.zeros(self.count, dtype=np.int64)
        for rows in space.ranges(32):
            held = np.bincount(np.maximum(group[rows], 0), graph.lengths(rows), self.count)
            entries += held.astype(np.int64)
        buckets = RowBuckets(entries, space.folder)
        for block in graph.blocks():
            mine = np.repeat(group[block.rows], np.diff(block.indptr))
            there, data = group[block.indices], block.data
            inside = (mine >= 0) & (there >= 0)  # others are in no aggregate
            if not inside.all():
                mine, there, data = mine[inside], there[inside], data[inside]
            buckets.add(mine, there, data)
            advance(block.rows.stop / graph.n_nodes)
        return buckets


def _sums(part: RowBlock) -> NDArray[np.float64]:
    """Sum of every row of a block."""
    rows = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
    return np.bincount(rows, part.data, part.shape[0]).astype(np.float64)
