"""Points that come by blocks: several sources as one, and a graph of representatives that grows.

Of a stream nothing is held but p representatives, W = ZᵀZ (p, p) of the rows seen, and the masses
Zᵀ1: a block adds Z_bᵀZ_b and Z_bᵀ1. Where 16 rows of a block or more lie together and far from
all representatives the stream has drifted: they get one, and of more than 2p the lightest goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core.check import as_points
from mustlink.core.observe import Recorder
from mustlink.errors import InputError
from mustlink.graph.graph import Graph
from mustlink.graph.shares import Shares, symmetric
from mustlink.neighbors.points_by_rows import is_rows, prepare
from mustlink.neighbors.representatives import (
    Representatives,
    kept_apart,
    representative_graph,
    shares_of,
)

_MOST = 2  # times the representatives at first


class StackedRows:
    """Blocks of rows (m_i, d) one after the other as points (n, d) that are read by rows a:b.

    A block is an array, a memory map, or anything with a shape and rows a:b, such as an HDF5
    dataset or a dask array; blocks are read again in every pass. Raises InputError.
    """

    ndim = 2

    def __init__(self, blocks: Sequence[Any]) -> None:
        self.blocks = list(blocks)
        if not self.blocks:
            raise InputError("points: no blocks given; give at least one array of rows (m, d)")
        for number, one in enumerate(self.blocks):
            shape = tuple(getattr(one, "shape", ()))
            if len(shape) != 2 or shape[1] != self.blocks[0].shape[1]:
                raise InputError(
                    f"points: block {number} has shape {shape}; all blocks are (m, d) with the "
                    "same columns"
                )
        sizes = [int(one.shape[0]) for one in self.blocks]
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self.shape = int(self.starts[-1]), int(self.blocks[0].shape[1])
        self.dtype = np.result_type(*(one.dtype for one in self.blocks))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        start, stop, _ = rows.indices(self.shape[0])
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        last = int(np.searchsorted(self.starts, stop, side="left"))
        parts = [
            np.asarray(one[max(start - begin, 0) : stop - begin])
            for one, begin in zip(
                self.blocks[first:last], self.starts[first:last].tolist(), strict=True
            )
        ]
        if len(parts) == 1:
            return parts[0].astype(self.dtype, copy=False)
        empty = np.empty((0, self.shape[1]), self.dtype)
        return np.concatenate(parts).astype(self.dtype, copy=False) if parts else empty


def as_stream(X: Any) -> Any:
    """Blocks of rows in a list, a tuple or an iterator as `StackedRows`; a lazy table by its rows.

    Anything else is returned as it is. An iterator is gone through once, so its blocks are held.
    """
    if hasattr(X, "to_dask_array"):  # a dask data frame, whose partitions do not know their sizes
        return X.to_dask_array(lengths=True)
    if hasattr(X, "__next__"):
        X = list(X)
    of_blocks = isinstance(X, list | tuple) and len(X) > 0
    if of_blocks and all(len(getattr(one, "shape", ())) == 2 for one in X):
        return StackedRows(X)
    return X


def with_block(before: Graph | None, X: Any, p: int, *, recorder: Recorder, **how: Any) -> Graph:
    """The graph of a stream with one more block; `before` is None where it is the first."""
    if before is None:
        return begun(X, p, recorder=recorder, **how)
    return continued(before, X, recorder)


def begun(
    X: Any, p: int, *, metric: str, random_state: int, recorder: Recorder | None = None
) -> Graph:
    """The graph of p representatives of the first block (m, d), whose rows are these themselves."""
    graph = representative_graph(X, p, metric=metric, random_state=random_state, recorder=recorder)
    own = graph.shares
    assert own is not None
    info = {**graph.info, "seen": own.n_rows}
    return _of_themselves(graph.affinity, graph.weights, own.finder, info)


def continued(graph: Graph, X: Any, recorder: Recorder | None = None) -> Graph:
    """The graph with another block (m, d): more counts, and representatives where it has drifted.

    Cost O(m p d). Raises InputError.
    """
    recorder = Recorder() if recorder is None else recorder
    assert graph.shares is not None
    source = X if is_rows(X) else as_points(X)
    finder: Representatives = graph.shares.finder
    d = finder.centres.shape[1]
    if source.shape[1] != d:
        raise InputError(f"points: {source.shape[1]} columns, but earlier blocks had {d}")
    prepare(source, finder.metric)  # checks every value
    rows, far = finder.prepared(source), float(graph.info.get("far", np.inf))
    W, mass = graph.affinity, np.asarray(graph.weights)
    found = shares_of(rows, finder, source, lambda _: None, far, held=False, whole=True)
    wider = kept_apart(found, far, finder.nearest, mass)
    if wider is not None:
        p, before = len(mass), len(wider.centres)
        W = sp.csr_matrix((W.data, W.indices, np.append(W.indptr, np.full(before - p, W.nnz))),
                          shape=(before, before))  # fmt: skip
        mass = np.append(mass, np.zeros(before - p))
        found = shares_of(rows, wider, source, lambda _: None, far, held=False, whole=True)
        if before > p:
            recorder.note(
                f"representatives: {before - p} more for points of this block that are far from all"
            )
        finder = wider
    W, mass = symmetric(sp.csr_matrix(W + found.affinity)), mass + found.mass
    most = _MOST * int(graph.info["representatives"])
    if len(mass) > most:
        stay = np.sort(np.argsort(-mass, kind="stable")[:most])
        limits = None if finder.limits is None else finder.limits[stay]
        finder = replace(finder, centres=finder.centres[stay], limits=limits)
        W, mass = W[stay][:, stay], mass[stay]
    info = {**graph.info, "seen": int(graph.info["seen"]) + int(source.shape[0])}
    return _of_themselves(W, mass, finder, info)


def _of_themselves(W: Any, mass: Any, finder: Representatives, info: dict[str, Any]) -> Graph:
    """A graph whose rows are the representatives."""
    near, shares = finder.shares(finder.centres)
    p = len(finder.centres)
    own = Shares(p, np.arange(p), finder, near, shares)
    return Graph(W, info, mass, np.arange(p), own)
