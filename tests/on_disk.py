"""Graphs on disk made of matrices in memory, in blocks of few entries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from mustlink.graph.disk_graph import DiskGraph, FileNumbers, survey
from mustlink.operators.laplacian import regularized
from mustlink.operators.stored_laplacians import DiskLaplacian
from mustlink.space.disk import DiskSpace, ScratchFile


def numbers(values, piece=None):
    """Numbers in a file, in pieces that lie in any order, with rubbish between them."""
    file, end = ScratchFile(None, 0), 0
    piece = max(values.size, 1) if piece is None else piece
    pieces = [values[a : a + piece] for a in range(0, max(values.size, 1), piece)]
    starts = np.zeros(len(pieces), dtype=np.int64)
    for at in reversed(range(len(pieces))):
        file.write(end, np.full(5, 255, np.uint8))
        starts[at] = end + 5
        file.write(end + 5, pieces[at])
        end += 5 + pieces[at].nbytes
    return FileNumbers(file, "graph.h5", values.dtype, values.size, piece, starts)


def stored(W, entries=None, piece=None, types=(np.int64, np.int32, np.float32), **how):
    """The matrix as a graph on disk, in blocks of so many entries, else some 12 of 50 or more."""
    W = sp.csr_matrix(W)
    entries = max(50, W.nnz // 12) if entries is None else entries
    parts = (W.indptr, W.indices, W.data)
    files = [numbers(part.astype(t), piece) for part, t in zip(parts, types, strict=True)]
    more = {name: how.pop(name) for name in ("copies", "rows") if name in how}
    return replace(DiskGraph.of(*files, entries=entries, **how), **more)


def laplacian_on_disk(W, columns=2, tau=0.0, **how):
    """L̄ of the matrix on disk, with so many columns of a recurrence in memory."""
    graph = stored(W, **how)
    seen = survey(graph, DiskSpace(graph.n_nodes))
    found = DiskLaplacian.of(graph, seen, room=8 * graph.n_nodes * columns)
    return regularized(found, tau) if tau else found
