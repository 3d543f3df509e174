"""Edges in a file become a graph in HDF5 without ever being in memory together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.process_memory import PROGRAM, size_text
from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.formats.triplets import Triplets, triplets
from mustlink_io.hdf5.graph_writer import write_rows

_NODE = 40  # bytes a node: how many edges each has, where its rows begin, which number it is
_LINES = 200 * 10**6  # bytes of a block of lines that is read


def convert_rows(place: formats.Place, output: str, memory: int) -> tuple[int, int, list[str]]:
    """Write `/graph` of edges in text or a sparse .npz within `memory`; nodes, entries, notes.

    The file is read twice: edges are counted, and dealt out to rows by way of a temporary file in
    the folder of the output, 24 bytes an edge. Raises InputError.
    """
    from mustlink.graph.row_buckets import RowBuckets

    found = triplets(place)
    _check(memory, found.n or 0)  # before a long file is read
    counts = _counted(found, memory)
    _check(memory, max(counts.size, found.n or 0))
    known, notes = _names(found, counts, place)
    if known is None:
        first = found.shift or 0
        number = np.arange(-first, counts.size - first, dtype=np.int32)
        counts = counts[first:]
        n = counts.size if found.n is None else found.n
        counts = np.concatenate([counts, np.zeros(n - counts.size, dtype=np.int64)])
    else:
        number = np.full(counts.size, -1, dtype=np.int32)
        number[known] = np.arange(known.size, dtype=np.int32)
        counts = counts[known]
    buckets = RowBuckets(counts, Path(output).resolve().parent)
    for ends, weights in found.blocks():
        i, j = number[ends[:, 0]], number[ends[:, 1]]
        values = weights.astype(np.float32)
        buckets.add(i, j, values)
        if found.both:
            turn = i != j
            buckets.add(j[turn], i[turn], values[turn])
    info = {"kind": "precomputed"}
    done = write_rows(output, counts.size, buckets.rows(largest=found.largest), info, known)
    return counts.size, done, notes


def _check(memory: int, nodes: int) -> None:
    """Raise InputError where blocks of lines and edges of so many nodes do not fit."""
    from mustlink.graph.row_buckets import MEMORY

    least = PROGRAM + MEMORY + _LINES + _NODE * nodes
    if least > memory:
        what = f"edges of {nodes} nodes need" if nodes else "edges by blocks need"
        raise InputError(
            f"--memory: {size_text(memory)} given, but {what} at least "
            f"{size_text(least, up=True)}; a small file is read whole without --memory"
        )


def _counted(found: Triplets, memory: int) -> NDArray[np.int64]:
    """Entries of every number from 0 on; raises InputError where there are too many numbers."""
    counts = np.zeros(1, dtype=np.int64)
    for ends, _ in found.blocks():
        if not len(ends):
            continue
        highest = int(ends.max())
        if highest * _NODE > memory:
            raise InputError(
                f"{found.where}: a node numbered {highest}; up to that number nodes "
                f"need {size_text(PROGRAM + highest * _NODE, up=True)}, but --memory is "
                f"{size_text(memory)}"
            )
        if highest >= counts.size:
            counts = np.concatenate([counts, np.zeros(highest + 1 - counts.size, dtype=np.int64)])
        counts += np.bincount(ends[:, 0], minlength=counts.size)
        if found.both:
            turn = ends[:, 0] != ends[:, 1]
            counts += np.bincount(ends[turn, 1], minlength=counts.size)
    if not counts.any():
        raise InputError(f"{found.where}: no edge in it; nothing to cluster")
    return counts


def _names(
    found: Triplets, counts: NDArray[np.int64], place: formats.Place
) -> tuple[NDArray[np.int64] | None, list[str]]:
    """Numbers of the nodes where these are names, as `adjacency.of_numbers` decides; and a note."""
    if found.shift is not None:
        return None, []
    lowest, highest = int(np.flatnonzero(counts)[0]), counts.size - 1
    total = highest if lowest == 1 else highest + 1
    sparse = 2 * int(np.count_nonzero(counts)) < total
    if not sparse and not found.by_name and lowest != 1:
        return None, []
    by_name = sparse or found.by_name
    known = np.flatnonzero(counts) if by_name else np.arange(1, highest + 1)
    return known, [f"{place}: numbers are names of its {known.size} nodes; they are in /names"]
