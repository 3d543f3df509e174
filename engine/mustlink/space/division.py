"""Rows in pieces, pieces on ranks: sums that come out the same however many ranks there are.

The pieces follow from the number of rows alone. Sums over nodes are made a piece at a time, and
added up along one binary tree of the pieces: a rank adds what lies within its run of them, and
the rest is added by everyone, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError

_PIECES = 24  # divided evenly among 2, 3, 4, 6, 8 or 12 ranks
_LARGEST = 1 << 16  # rows of a piece, where there are more than 24 pieces
_GRAIN = 1 << 11  # rows that kernels take at a time: pieces begin where these do

Sums = NDArray[np.float64]


@dataclass(frozen=True)
class Division:
    """`size` rows in pieces, of which each of `ranks` has a run.

    `given` is the number of pieces where another division says it; some may then be empty.
    """

    size: int
    ranks: int = 1
    given: int | None = None

    def __post_init__(self) -> None:
        """Raise InputError where there are more ranks than pieces."""
        if self.ranks > self.n_pieces:
            raise InputError(
                f"{self.ranks} ranks: {self.size:,} nodes are divided into {self.n_pieces} pieces, "
                f"one a rank at least; ask for at most {self.n_pieces} ranks"
            )

    @property
    def n_pieces(self) -> int:
        """Number of pieces."""
        if self.given is not None:
            return self.given
        return max(1, min(self.size, max(_PIECES, self.size // _LARGEST)))

    @cached_property
    def pieces(self) -> NDArray[np.int64]:
        """First row of every piece, and the end of the last, (n_pieces + 1,)."""
        even = np.arange(self.n_pieces + 1) * self.size // self.n_pieces
        if self.size >= _GRAIN * self.n_pieces:
            even[:-1] -= even[:-1] % _GRAIN
        return even

    @cached_property
    def runs(self) -> NDArray[np.int64]:
        """First piece of every rank, and the end of the last, (ranks + 1,)."""
        return np.arange(self.ranks + 1) * self.n_pieces // self.ranks

    @cached_property
    def bounds(self) -> NDArray[np.int64]:
        """First row of every rank, and the end of the last, (ranks + 1,)."""
        return self.pieces[self.runs]

    def coarser(self, size: int) -> Division:
        """That of a coarser grid: as many pieces of `size` rows, a run of them a rank."""
        return Division(size, self.ranks, self.n_pieces)

    def owner(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        """Rank that has each of these rows."""
        return np.searchsorted(self.bounds, rows, side="right") - 1

    @cached_property
    def _width(self) -> int:
        """Leaves of the tree: the pieces, filled up to a power of two."""
        return 1 << (self.n_pieces - 1).bit_length()

    @cached_property
    def nodes(self) -> list[tuple[int, int]]:
        """Nodes of the tree, (first, end), that one rank knows: the largest within every run."""
        found: list[tuple[int, int]] = []
        for first, end in zip(self.runs[:-1], self.runs[1:], strict=True):
            _largest_within(int(first), int(end), (0, self._width), self.n_pieces, found)
        return found

    def own_nodes(self, rank: int) -> list[int]:
        """Which of `nodes` a rank knows."""
        first, end = self.runs[rank : rank + 2]
        return [at for at, (lo, hi) in enumerate(self.nodes) if first <= lo and hi <= end]

    def below(self, at: int, of_piece: Callable[[int], Sums]) -> Sums:
        """The sum of one of `nodes`, from those of its pieces."""
        return _added(self.nodes[at], self._split, lambda node: _leaf(node, of_piece))

    def total(self, of_nodes: Sums) -> Sums:
        """The sum over all pieces, from those of `nodes`, (len(nodes), …)."""
        known = {node: of_nodes[at] for at, node in enumerate(self.nodes)}
        return _added((0, self.n_pieces), self._split, known.get)

    def _split(self, node: tuple[int, int]) -> int:
        """Where the tree divides a node."""
        lo, hi = 0, self._width
        while True:
            middle = (lo + hi) // 2
            if node[1] <= middle:
                hi = middle
            elif node[0] >= middle:
                lo = middle
            else:
                return middle


def _largest_within(
    first: int, end: int, node: tuple[int, int], n_pieces: int, found: list[tuple[int, int]]
) -> None:
    lo, hi = node[0], min(node[1], n_pieces)
    if hi <= first or lo >= min(end, hi):
        return
    if first <= lo and hi <= end:
        found.append((lo, hi))
        return
    middle = (node[0] + node[1]) // 2
    _largest_within(first, end, (node[0], middle), n_pieces, found)
    _largest_within(first, end, (middle, node[1]), n_pieces, found)


def _added(
    node: tuple[int, int],
    split: Callable[[tuple[int, int]], int],
    known: Callable[[tuple[int, int]], Sums | None],
) -> Sums:
    found = known(node)
    if found is not None:
        return found
    middle = split(node)
    left = _added((node[0], middle), split, known)
    return left + _added((middle, node[1]), split, known)


def _leaf(node: tuple[int, int], of_piece: Callable[[int], Sums]) -> Sums | None:
    return of_piece(node[0]) if node[1] - node[0] == 1 else None
