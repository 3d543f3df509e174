"""Edges in text files by blocks of lines: lists of numbers, and Matrix Market."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats.adjacency import Lines
from mustlink_io.formats.edge_lines import Opening, edge_blocks, opening
from mustlink_io.hdf5.file_names import EDGES, Place

Blocks = Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]

_BANNER = "%%MatrixMarket matrix coordinate"
_MOST = 2**31 - 1


@dataclass(frozen=True)
class Triplets:
    """Edges of numbered nodes in a text file, which is read anew for every pass.

    `shift` is the number of the first node, None where that is for the numbers to say, and `n` how
    many there are, likewise. With `both` every edge is to be given in its other direction, too; of
    equal entries the `largest` counts, or their sum.
    """

    found: Opening
    shift: int | None
    n: int | None
    both: bool
    largest: bool

    def blocks(self) -> Blocks:
        """Ends (m, 2) as the file has them, and weights (m,); raises InputError."""
        where = str(self.found.lines.path)
        done = 0
        for ends, weights in edge_blocks(self.found):
            low = 0 if self.shift is None else self.shift
            high = _MOST if self.n is None else low + self.n - 1
            wrong = ~((weights >= 0) & (weights < np.inf))
            wrong |= (ends < low).any(axis=1) | (ends > high).any(axis=1)
            if wrong.any():
                at = int(wrong.argmax())
                i, j = ends[at].tolist()
                told = f"{where}: {self.found.lines.told(done + at)}: the edge ({i}, {j})"
                if low <= min(i, j) and max(i, j) <= high:
                    raise InputError(
                        f"{told} has weight {weights[at]:g}; weights are finite and not negative"
                    )
                raise InputError(f"{told}: nodes are numbered from {low} to {high}")
            done += len(weights)
            yield ends, weights


def triplets(place: Place) -> Triplets:
    """How edges are to be read from a file; raises InputError where that is not by blocks."""
    if place.suffix == ".mtx":
        return _matrix_market(place)
    if place.suffix not in EDGES:
        raise InputError(
            f"{place}: only edge lists and Matrix Market are read by blocks of lines; leave out "
            "--memory"
        )
    found = opening(place.path)
    if not found.is_numbered:
        raise InputError(
            f"{place}: nodes are words; by blocks of lines nodes are numbers only: leave out "
            "--memory, or number them"
        )
    shift = 0 if found.forced == "number" else None
    return Triplets(found, shift, None, both=True, largest=True)


def _matrix_market(place: Place) -> Triplets:
    with place.path.open(encoding="utf-8", errors="replace") as file:
        words = file.readline().split()
        skip = 1
        line = file.readline()
        while line.startswith("%") or (line and not line.strip()):
            line, skip = file.readline(), skip + 1
    told = " ".join(words[:3]) == _BANNER and len(words) == 5
    if not told or words[3] not in ("real", "integer", "pattern"):
        raise InputError(f"{place}: no sparse real matrix: its first line is no {_BANNER!r} of one")
    if words[4] not in ("general", "symmetric"):
        raise InputError(f"{place}: {words[4][:20]} matrix; a graph is general or symmetric")
    sizes = line.split()
    if len(sizes) != 3 or not all(size.isdecimal() for size in sizes):
        raise InputError(f"{place}: sizes {line.strip()[:60]!r}; wanted are rows, columns, entries")
    rows, columns, _ = map(int, sizes)
    if rows != columns or not 0 < rows <= _MOST:
        raise InputError(f"{place}: shape ({rows}, {columns}); a graph has as many rows as columns")
    width = 2 if words[3] == "pattern" else 3
    lines = Lines(place.path, skip + 1)
    found = Opening(lines, None, ["0"] * width, None)
    return Triplets(found, 1, rows, both=words[4] == "symmetric", largest=False)
