"""Rows on disk that belong to nodes, for the rows of who gave the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from mustlink.graph.stored import StoredGraph
from mustlink.space.disk import DiskSpace
from mustlink.space.disk_block import DiskBlock


def block_of_rows(graph: StoredGraph, X: DiskBlock, folder: Any, room: int) -> DiskBlock:
    """Rows (n, b) of nodes for every row of the caller, on disk.

    Nodes may come in any order, and a file is not read in any: columns that fit into `room` bytes
    are held, at least one. X itself where row i is node i.
    """
    rows, (n, width) = graph.rows, X.shape
    if rows is None:
        return X
    nodes, callers = DiskSpace(n), DiskSpace(graph.n_rows, folder)
    out = callers.zeros(width, X.dtype)
    most = max(1, room // (X.dtype.itemsize * n))
    for first in range(0, width, most):
        columns = slice(first, min(first + most, width))
        held = np.empty((n, columns.stop - first), dtype=X.dtype)
        for part in nodes.ranges(2 * X.row_bytes):
            held[part] = X[part][:, columns]
        for part in callers.ranges(3 * X.row_bytes):
            found = out[part]
            found[:, columns] = held[rows[part]]
            out[part] = found
    return out
