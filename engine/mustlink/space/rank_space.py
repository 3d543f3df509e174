"""Rows on the ranks of an MPI job: each has its own, and all run the same program.

A block is the array (n_local, b) of a rank's own rows. Whatever acts on rows alone is done as at
home; what is summed over nodes is added up by one reduction, in an order that does not depend on
the number of ranks, so that every rank goes the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.blocks import Pieces
from mustlink.kernels.keyed_normals import normals
from mustlink.space.division import Division
from mustlink.space.local import LocalSpace
from mustlink.space.ranks import Ranks
from mustlink.space.verbs import Dots, Gram, GroupSums, Ints, Scalars, Small, Space, Sum

Array = NDArray[Any]


class RankSpace(Space):
    """The space of nodes in a `division`, as a rank sees it: rows `first` to `end` are here."""

    weights = None

    def __init__(self, ranks: Ranks, division: Division) -> None:
        self.ranks, self.division, self.size = ranks, division, division.size
        self.first, self.end = (int(at) for at in division.bounds[ranks.own : ranks.own + 2])
        self.held = self.end - self.first
        own, following = (int(piece) for piece in division.runs[ranks.own : ranks.own + 2])
        bounds = np.unique(division.pieces[own : following + 1])
        pieces = tuple(slice(int(a), int(b)) for a, b in pairwise(bounds - self.first))
        self._home = LocalSpace(self.held, within=Pieces(self.size, pieces))
        self._nodes = division.own_nodes(ranks.own)

    # --- sums over nodes, and what else knows of other ranks

    def sums(self, *wanted: Sum) -> list[Small]:
        """See `Space`."""
        starts = self.division.pieces - self.first
        shapes: list[tuple[int, ...]] = []

        def of_piece(piece: int) -> Small:
            rows = _Rows(slice(int(starts[piece]), int(starts[piece + 1])))
            found = self._home.sums(*(rows.of_sum(one) for one in wanted))
            shapes[:] = [each.shape for each in found]
            return np.concatenate([each.ravel() for each in found])

        own = [self.division.below(at, of_piece) for at in self._nodes]
        every = np.zeros((len(self.division.nodes), own[0].size))
        every[self._nodes] = own
        total = self.division.total(self.ranks.added(every))
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        parts = np.split(total, ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def peaks(self, X: Array) -> Small:
        """See `Space`."""
        every = self.ranks.joined(self._home.peaks(X)[None])
        best = np.abs(every).argmax(axis=0)
        return every[best, np.arange(X.shape[1])]

    def largest(self, v: Array, count: int) -> Ints:
        """See `Space`."""
        own = self._home.largest(v, min(count, self.held))
        values, nodes = self.ranks.joined(v[own, 0]), self.ranks.joined(own + self.first)
        return nodes[np.lexsort((nodes, -values))][:count]

    def lessen(self, R: Array, V: Array, a: Small) -> Small:
        """See `Space`."""
        self._home.lessen(R, V, a)
        return self.dots(R, R)

    def lessened(self, X: Array, V: Array, a: Small) -> tuple[Array, Small]:
        """See `Space`."""
        found, _ = self._home.lessened(X, V, a)
        return found, self.dots(found, found)

    def normals(self, width: int, seed: int) -> Array:
        """See `Space`."""
        return normals(np.arange(self.first, self.end), width, seed)

    def take(self, X: Array, nodes: Ints) -> Array:
        """See `Space`."""
        found = np.zeros((len(nodes), *X.shape[1:]), dtype=X.dtype)
        here = self._here(nodes)
        found[here] = X[np.asarray(nodes)[here] - self.first]
        return self.ranks.added(found)

    def place(self, X: Array) -> Array:
        """See `Space`."""
        return np.array(X[self.first : self.end])

    def add_rows(self, X: Array, nodes: Ints, rows: Any) -> None:
        """See `Space`."""
        here = self._here(nodes)
        X[np.asarray(nodes)[here] - self.first] += rows[here]

    def _here(self, nodes: Ints) -> NDArray[np.bool_]:
        nodes = np.asarray(nodes)
        return (nodes >= self.first) & (nodes < self.end)

    # --- rows by themselves, as at home

    def combine(self, V: Array | list[Array], C: Small) -> Array:
        """See `Space`."""
        return self._home.combine(V, C)

    def recombine(self, V: list[Array], C: Small, C2: Small) -> tuple[Array, Array]:
        """See `Space`."""
        return self._home.recombine(V, C, C2)

    def subtract(self, X: Array, V: Array, C: Small) -> None:
        """See `Space`."""
        self._home.subtract(X, V, C)

    def blend(
        self,
        out: Array,
        keep: Scalars,
        *terms: tuple[Array, Scalars],
        columns: Ints | None = None,
    ) -> None:
        """See `Space`."""
        self._home.blend(out, keep, *terms, columns=columns)

    def without(self, X: Array, v: Array, a: Small) -> Array:
        """See `Space`."""
        return self._home.without(X, v, a)

    def mix(self, out: Any, terms: Any, which: Ints, C: Small) -> None:
        """See `Space`."""
        self._home.mix(out, terms, which, C)

    def zeros(self, width: int, dtype: Any = np.float64) -> Array:
        """See `Space`."""
        return self._home.zeros(width, dtype)

    def series(self, count: int, width: int) -> Array:
        """See `Space`."""
        return self._home.series(count, width)

    def copy(self, X: Array, dtype: Any = None) -> Array:
        """See `Space`."""
        return self._home.copy(X, dtype)

    def columns(self, X: Array, which: Ints | NDArray[np.bool_] | slice) -> Array:
        """See `Space`."""
        return self._home.columns(X, which)

    def stack(self, blocks: Sequence[Array]) -> Array:
        """See `Space`."""
        return self._home.stack(blocks)

    def column(self, v: Array) -> Array:
        """See `Space`."""
        return self._home.column(v)

    def rowwise(self, function: Callable[..., Any], *data: Array) -> Any:
        """See `Space`."""
        return self._home.rowwise(function, *data)

    def spread(
        self, C: Small, groups: Array, scale: Array | None = None, dtype: Any = np.float64
    ) -> Array:
        """See `Space`."""
        return self._home.spread(C, groups, scale, dtype)


class _Rows:
    """Some rows of blocks: what is one block in several sums stays one."""

    def __init__(self, rows: slice) -> None:
        self.rows = rows
        self._known: dict[int, Any] = {}

    def of(self, V: Any) -> Any:
        """These rows of a block, or of each in a list."""
        if id(V) not in self._known:
            parts = [self.of(X) for X in V] if isinstance(V, list) else V[self.rows]
            self._known[id(V)] = parts
        return self._known[id(V)]

    def of_sum(self, wanted: Sum) -> Sum:
        """A sum over these rows."""
        if isinstance(wanted, GroupSums):
            scale = None if wanted.scale is None else wanted.scale[self.rows]
            groups = wanted.groups[self.rows]
            return GroupSums(self.of(wanted.X), groups, wanted.count, scale)
        kind: type[Gram | Dots] = type(wanted)
        return kind(self.of(wanted.left), self.of(wanted.right))
