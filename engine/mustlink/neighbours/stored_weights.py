"""From neighbour lists on disk to the rows of W, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.graph.row_buckets import RECORD, RowBuckets, buckets_of
from mustlink.graph.stored import RowBlock
from mustlink.graph.weights import edge_weights, raw_scales, settled_scales, weigh
from mustlink.kernels import stored_lists as kernels
from mustlink.kernels.union_find import flatten
from mustlink.neighbours.bridges import bridging_edges
from mustlink.neighbours.cell_search import StoredLists

_RANGE = 1 << 20  # nodes looked at at once

Advance = Callable[[float], None]


class StoredAffinity:
    """W = (A + Aᵀ)/2 of neighbour lists on disk, made `rows` nodes at a time.

    Entries between nodes of a block are put together where the block is, those that cross blocks
    go by way of a temporary file. In memory are 10 bytes a node beside a block.
    """

    def __init__(self, found: StoredLists, rows: int, folder: Any = None) -> None:
        self.found, self.folder = found, folder
        n, _ = found.lists.shape
        bounds = np.append(np.arange(0, n, rows, dtype=np.int64), n)
        self.bounds, self.bucket = bounds, buckets_of(bounds)

    def survey(self, weights: str, sigma: float | None, advance: Advance) -> None:
        """Look at all lists: scales, components, how many entries cross blocks, copies."""
        n, _ = self.found.lists.shape
        parent = np.arange(n, dtype=np.int32)
        local = weights == "local"
        scales = np.empty(n if local else 0, dtype=np.float32)
        self.crossing = np.zeros(self.bounds.size - 1, dtype=np.int64)
        self.copies = self.entries = 0
        total = 0.0
        for own, rows in enumerate(self._rows()):
            indices, distances = self._lengths(rows)
            if local:
                scales[rows] = raw_scales(distances)
            total += float(distances.sum(dtype=np.float64))
            self.copies += int(np.count_nonzero(~distances.any(axis=1)))
            self.entries += int(kernels.count_outside(indices, self.bucket, own, self.crossing))
            kernels.join_lists(parent, rows.start, indices)
            advance(rows.stop / n)
        mean = total / max(self.entries, 1)
        self.scale: NDArray[np.float32] | float = 1.0
        if local:
            self.scale = settled_scales(scales)
        elif weights == "gaussian":
            self.scale = sigma if sigma is not None else (mean if mean > 0 else 1.0)
        self.weights = weights
        flatten(parent)
        self.labels, self.components = _numbered(parent)

    @property
    def locality(self) -> float:
        """Share of neighbours that lie in the block of the node."""
        return 1.0 - float(self.crossing.sum()) / max(self.entries, 1)

    def blocks(self, connect: bool, rng: np.random.Generator, advance: Advance) -> int:
        """Weigh all lists, on disk, and deal out what crosses blocks; how many bridges join."""
        n = self.found.lists.shape[0]
        pairs, lengths = np.empty((0, 2), np.int64), np.empty(0)
        if connect and self.components > 1:
            pairs, lengths = bridging_edges(self.found.points, self.labels, rng)
        del self.labels
        bridged = np.bincount(self.bucket[pairs.ravel()], minlength=self.crossing.size)
        room = self.crossing + bridged
        self.buckets = RowBuckets.of(self.bounds, room, self.bucket, self.folder)
        least = np.inf
        for rows in self._rows():
            indices, half = self._lengths(rows)
            weigh(indices, half, self.weights, self.scale, half, rows.start)
            half *= np.float32(0.5)
            least = min(least, float(half.min()))
            self.found.lists.revalue(rows.start, half)
            size = indices.size
            named, naming = np.empty(size, np.int32), np.empty(size, np.int32)
            w = np.empty(size, np.float32)
            left = kernels.entries_outside(indices, half, rows.start, named, naming, w)
            self.buckets.add(named[:left], naming[:left], w[:left])
            advance(rows.stop / n)
        if pairs.size:
            i, j = pairs.T
            values = np.maximum(edge_weights(lengths, i, j, self.weights, self.scale), least)
            both = np.tile(values.astype(np.float32), 2)
            self.buckets.add(np.concatenate([i, j]), np.concatenate([j, i]), both)
        return int(pairs.shape[0])

    def row_blocks(self, advance: Advance) -> Iterator[RowBlock]:
        """Rows of W in order, columns rising."""
        n = self.found.lists.shape[0]

        def beside(rows: slice, dealt: NDArray[Any]) -> NDArray[Any]:
            indices, values = self.found.lists.read(rows)
            records = np.empty(dealt.size + 2 * indices.size, dtype=RECORD)
            records[: dealt.size] = dealt
            done = kernels.entries_inside(indices, values, rows.start, records, dealt.size)
            return records[:done]

        for block in self.buckets.rows(beside=beside):
            yield block
            advance(block.rows.stop / n)

    def _rows(self) -> list[slice]:
        return [slice(a, b) for a, b in pairwise(self.bounds.tolist())]

    def _lengths(self, rows: slice) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Lists of some nodes: numbers, and distances."""
        indices, values = self.found.lists.read(rows)
        np.sqrt(values, out=values)
        if self.found.unit != 1:
            values /= np.float32(self.found.unit)
        return indices, values


def _numbered(parent: NDArray[np.int32]) -> tuple[NDArray[np.int32], int]:
    """Components of nodes that point to their roots, numbered, in place; and how many."""
    n = parent.size
    ranges = [slice(a, min(a + _RANGE, n)) for a in range(0, n, _RANGE)]
    roots = np.concatenate(
        [r.start + np.flatnonzero(parent[r] == np.arange(r.start, r.stop)) for r in ranges]
    )
    for r in ranges:
        parent[r] = np.searchsorted(roots, parent[r])
    return parent, int(roots.size)
