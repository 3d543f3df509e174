"""Edges in files by blocks: lists of numbers and Matrix Market by lines, sparse .npz by parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import arrays, matrices
from mustlink_io.formats.edges import Lines, Opening, edge_blocks, opening
from mustlink_io.hdf5.file_names import EDGES, Place

Blocks = Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]

_BANNER = "%%MatrixMarket matrix coordinate"
_MOST = 2**31 - 1
_PART = 1 << 20  # entries read in one go


@dataclass(frozen=True)
class Triplets:
    """Edges of numbered nodes in a file, which is read anew for every pass.

    `shift` is the number of the first node, None where that is for the numbers to say, and `n` how
    many there are, likewise; `by_name`: numbers are names. With `both` every edge is to be given in
    its other direction, too; of equal entries the `largest` counts, or their sum. `parts` reads
    them, `told` says where an edge is.
    """

    where: str
    shift: int | None
    n: int | None
    both: bool
    largest: bool
    parts: Callable[[], Blocks]
    told: Callable[[int], str]
    by_name: bool = False

    def blocks(self) -> Blocks:
        """Ends (m, 2) as the file has them, and weights (m,); raises InputError."""
        low = self.shift or 0
        high = _MOST if self.n is None else low + self.n - 1
        done = 0
        for ends, weights in self.parts():
            wrong = _first_wrong(ends, weights, low, high)
            if wrong is not None:
                raise InputError(f"{self.where}: {self.told(done + wrong[0])} {wrong[1]}")
            done += len(weights)
            yield ends, weights


def _of_text(found: Opening, shift: int | None, n: int | None, **how: bool) -> Triplets:
    return Triplets(
        str(found.lines.path),
        shift,
        n,
        parts=lambda: edge_blocks(found),
        told=lambda edge: f"{found.lines.told(edge)}: the edge",
        by_name=found.forced == "name",
        **how,
    )


def _of_npz(place: Place, n: int) -> Blocks:
    """Entries of a sparse matrix in an .npz of scipy, of which parts are read; InputError."""
    wrong = InputError(f"{place}: as many numbers in data as columns are wanted")
    done = 0
    with arrays.open_npz(place.path) as archive:
        ends = _pairs_of(archive, n, str(place))
        for pairs, data in zip(ends, archive.parts("data", _PART), strict=False):
            if len(pairs) != len(data) or data.dtype.kind not in "fiub":
                raise wrong
            done += len(data)
            yield pairs, data.astype(np.float64)
        if (done,) != archive.declares("data")[0]:
            raise wrong


def _pairs_of(archive: arrays.Archive, n: int, where: str) -> Iterator[NDArray[np.int64]]:
    """Rows and columns (m, 2) of the entries, part by part, in the order of the file."""
    if "row" in archive:
        for i, j in zip(archive.parts("row", _PART), archive.parts("col", _PART), strict=True):
            yield _integers(np.stack([i, j], axis=1), where)
        return
    ends = _integers(archive["indptr"], where)
    size = archive.declares("indices")[0]
    if ends.size != n + 1 or ends[0] != 0 or (np.diff(ends) < 0).any() or (ends[-1],) != size:
        raise InputError(f"{where}: indptr must begin with 0, never fall and end with {size[0]}")
    done = 0
    for columns in archive.parts("indices", _PART):
        entries = np.arange(done, done + len(columns))
        rows = np.searchsorted(ends, entries, side="right") - 1
        done += len(columns)
        yield np.stack([rows, _integers(columns, where)], axis=1)


def _integers(values: NDArray[np.generic], where: str) -> NDArray[np.int64]:
    if values.dtype.kind not in "iu":
        raise InputError(f"{where}: rows and columns must be integers, not {values.dtype}")
    return values.astype(np.int64)


def _first_wrong(
    ends: NDArray[np.int64], weights: NDArray[np.float64], low: int, high: int
) -> tuple[int, str] | None:
    """The first edge that is none, and why."""
    wrong = ~((weights >= 0) & (weights < np.inf))
    wrong |= (ends < low).any(axis=1) | (ends > high).any(axis=1)
    if not wrong.any():
        return None
    at = int(wrong.argmax())
    i, j = ends[at].tolist()
    if low <= min(i, j) and max(i, j) <= high:
        what = f"has weight {weights[at]:g}; weights are finite and not negative"
        return at, f"({i}, {j}) {what}"
    return at, f"({i}, {j}): nodes are numbered from {low} to {high}"


def triplets(place: Place) -> Triplets:
    """How edges are to be read from a file; raises InputError where that is not by blocks."""
    if place.suffix == ".mtx":
        return _matrix_market(place)
    if place.suffix == ".npz":
        return _npz(place)
    if place.suffix not in EDGES:
        raise InputError(
            f"{place}: only edge lists, Matrix Market and .npz are read by blocks; leave out "
            "--memory"
        )
    found = opening(place.path)
    if not found.is_numbered:
        raise InputError(
            f"{place}: nodes are words; by blocks of lines nodes are numbers only: leave out "
            "--memory, or number them"
        )
    shift = 0 if found.forced == "number" else None
    return _of_text(found, shift, None, both=True, largest=True)


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
    return _of_text(found, 1, rows, both=words[4] == "symmetric", largest=False)


def _npz(place: Place) -> Triplets:
    with arrays.open_npz(place.path) as archive:
        if place.part or not matrices.is_sparse_npz(archive):
            raise InputError(f"{place}: no sparse matrix in it, which alone is read by blocks")
        shape = np.atleast_1d(archive["shape"])
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape[0] != shape[1]:
        raise InputError(f"{place}: shape {shape.tolist()}; a graph has as many rows as columns")
    n = int(shape[0])
    parts = partial(_of_npz, place, n)
    return Triplets(str(place), 0, n, False, False, parts, lambda entry: f"entry {entry}")
