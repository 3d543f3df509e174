"""What one pass over a graph on disk tells: degrees, components, and whether it is a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mustlink.errors import InputError
from mustlink.graph.stored import RowBlock, StoredGraph
from mustlink.space.disk import DiskSpace

_SKEW = 1e-7  # of ‖W‖_F: what weights that are equal to the digits of float32 leave


@dataclass(frozen=True, eq=False)
class Survey:
    """Of a graph of n nodes, all on disk: `degrees` and `loops` (n,), None where there are none.

    `component` (n,) numbers those of nodes with an edge by falling size, 0 for nodes without;
    None where they are one. `isolated` nodes have no edge, `volume` is the sum of the degrees.
    """

    space: DiskSpace
    degrees: Any
    loops: Any
    component: Any
    n_components: int
    isolated: int
    volume: float


def survey(
    graph: StoredGraph, space: DiskSpace, advance: Callable[[float], None] = lambda _: None
) -> Survey:
    """Look at every entry once; raises InputError for what is no symmetric affinity.

    Memory: a block of rows, and 4 bytes a node for the components. Symmetry is tested by a random
    form xᵀWy − yᵀWx, which is 0 for symmetric W alone.
    """
    from mustlink.kernels.stored_rows import look
    from mustlink.kernels.union_find import flatten

    n = graph.n_nodes
    parent = np.arange(n, dtype=np.int32)
    degrees, loops = space.new((), np.float64), space.new((), np.float64)
    told, any_loop, isolated, volume = np.zeros(2), False, 0, 0.0
    for block in graph.blocks():
        size = block.indptr.size - 1
        here, own = np.zeros(size), np.zeros(size)
        wrong = look(block, parent, here, own, told)
        if wrong >= 0:
            raise _no_weight(graph, block, wrong)
        degrees[block.rows] = here
        if own.any():
            loops[block.rows] = own
            any_loop = True
        isolated += int(np.count_nonzero(here == 0))
        volume += float(here.sum())
        advance(block.rows.stop / n)
    if volume == 0.0:
        raise InputError(f"{graph.ends.where}: {n} nodes but no edge; nothing to cluster")
    if abs(told[0]) > _SKEW * np.sqrt(told[1]):
        raise InputError(
            f"{graph.ends.where}: is not symmetric; give every edge in both directions with one "
            "weight"
        )
    flatten(parent)
    component, count = _components(parent, degrees, space)
    return Survey(space, degrees, loops if any_loop else None, component, count, isolated, volume)


def _no_weight(graph: StoredGraph, block: RowBlock, at: int) -> InputError:
    row = block.first + int(np.searchsorted(block.indptr, at, side="right")) - 1
    value = float(block.data[at])
    what = "negative" if value < 0 else "too large" if value >= 1e30 else "not finite"
    return InputError(
        f"{graph.ends.where}: entry ({row}, {int(block.indices[at])}) is {value:g}, {what}; "
        "affinities are >= 0 and finite"
    )


def _components(parent: Any, degrees: Any, space: DiskSpace) -> tuple[Any, int]:
    """Component of every node on disk, None where linked nodes are one; and how many there are."""
    ranges = space.ranges(32)
    roots = np.concatenate(
        [
            rows.start
            + np.flatnonzero(
                (parent[rows] == np.arange(rows.start, rows.stop)) & (degrees[rows] > 0)
            )
            for rows in ranges
        ]
    )
    if roots.size == 1:
        return None, 1
    sizes = np.zeros(roots.size, dtype=np.int64)
    for rows in ranges:
        own = np.searchsorted(roots, parent[rows][degrees[rows] > 0])
        sizes += np.bincount(own, minlength=roots.size)
    rank = np.empty(roots.size, dtype=np.int32)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(roots.size, dtype=np.int32)
    component = space.new((), np.int32)
    for rows in ranges:
        own = np.minimum(np.searchsorted(roots, parent[rows]), roots.size - 1)
        component[rows] = np.where(degrees[rows] > 0, rank[own], 0).astype(np.int32)
    return component, int(roots.size)
