"""A graph written by blocks of rows to temporary files that have no name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.graph.stored import FileNumbers, RowBlock, StoredGraph
from mustlink.space.scratch_file import ScratchFile


def scratch_graph(
    n_nodes: int,
    blocks: Iterable[RowBlock],
    info: Mapping[str, Any],
    rows: NDArray[np.int32] | None = None,
    folder: Any = None,
) -> StoredGraph:
    """The rows in temporary files in `folder`, None for the usual one, which go with the graph.

    Blocks come in order; `rows` are the nodes of the caller's, as `StoredGraph` has them. Raises
    InputError where they do not fit.
    """
    where = "graph in temporary files"
    columns, weights = ScratchFile(folder, 0), ScratchFile(folder, 0)
    ends, done = ScratchFile(folder, 8 * (n_nodes + 1)), 0
    for block in blocks:
        try:
            columns.write(4 * done, block.indices)
            weights.write(4 * done, block.data)
        except OSError as error:
            raise InputError(
                f"scratch: the graph does not fit ({error.strerror}); make room or name another "
                "folder"
            ) from None
        ends.write(8 * (block.first + 1), done + block.indptr[1:].astype(np.int64))
        done += block.nnz
    graph = StoredGraph.of(
        FileNumbers.in_one(ends, where, np.int64, n_nodes + 1),
        FileNumbers.in_one(columns, where, np.int32, done),
        FileNumbers.in_one(weights, where, np.float32, done),
        info,
    )
    return replace(graph, rows=rows)
