"""All nodes in memory: blocks are NumPy arrays, verbs are compiled loops over rows in threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels import blocks
from mustlink.kernels.blocks import group_sums, hand_out, mix, normals
from mustlink.space.verbs import Dots, Gram, GroupSums, Ints, Scalars, Small, Space, Sum

Array = NDArray[Any]


class LocalSpace(Space):
    """The space of `size` nodes on one machine; `weights` (size,) or None are multiplicities.

    `numbers` (size,) are those of the nodes in the graph, None where these are as they are here.
    Results do not depend on the number of threads, nor, `within` a whole, on what is beside a row.
    """

    def __init__(
        self,
        size: int,
        weights: NDArray[np.float64] | None = None,
        within: blocks.Pieces | None = None,
        numbers: Ints | None = None,
    ) -> None:
        self.size = self.held = size  # nodes of the space, and rows that are here
        self.weights = weights
        self._within = within
        self._numbers = numbers

    def sums(self, *wanted: Sum) -> list[Small]:
        match wanted:
            case (Gram(V, U), Gram(V2, U2)) if V is V2 and not isinstance(U, list | tuple):
                together = blocks.gram_of(
                    _listed(V), [U, *_listed(U2)], self._within
                )  # V is read once
                return np.hsplit(together, [U.shape[1]])
        return [self._sum(one) for one in wanted]

    def _sum(self, wanted: Sum) -> Small:
        if isinstance(wanted, Gram):
            return self.gram(wanted.left, wanted.right)
        if isinstance(wanted, Dots):
            return self.dots(wanted.left, wanted.right)
        assert isinstance(wanted, GroupSums)
        X, groups = np.ascontiguousarray(wanted.X), wanted.groups
        scale = np.ones(groups.size) if wanted.scale is None else wanted.scale
        return group_sums(X, groups, wanted.count, scale)

    def gram(self, V: Array | list[Array], U: Array | list[Array]) -> Small:
        """Small problems call this and `dots` too often for a detour."""
        return blocks.gram_of(_listed(V), _listed(U), self._within)

    def dots(self, X: Array, Y: Array) -> Small:
        return blocks.dots(np.ascontiguousarray(X), np.ascontiguousarray(Y))

    def peaks(self, X: Array) -> Small:
        return blocks.peaks(np.ascontiguousarray(X))

    def largest(self, v: Array, count: int) -> Ints:
        left, found = np.array(v[:, 0], dtype=np.float64), np.empty(count, dtype=np.int64)
        for k in range(count):
            found[k] = left.argmax()
            left[found[k]] = -np.inf
        return found

    def combine(self, V: Array | list[Array], C: Small) -> Array:
        return blocks.combination(_listed(V), C, self._within)

    def recombine(self, V: list[Array], C: Small, C2: Small) -> tuple[Array, Array]:
        return blocks.recombine(V, C, C2, self._within)

    def subtract(self, X: Array, V: Array, C: Small) -> None:
        blocks.subtract(X, V, C, self._within)

    def blend(
        self, out: Array, keep: Scalars, *terms: tuple[Array, Scalars], columns: Ints | None = None
    ) -> None:
        where = np.arange(out.shape[1]) if columns is None else np.asarray(columns, np.int64)
        width = where.size
        if not terms:
            scale = np.ones(out.shape[1])
            scale[where] = keep
            out *= scale.astype(out.dtype)
            return
        each = [(np.ascontiguousarray(V), _each(a, width)) for V, a in terms]
        blocks.blend(out, _each(keep, width), each, where)

    def lessen(self, R: Array, V: Array, a: Small) -> Small:
        return blocks.lessen(R, np.ascontiguousarray(V), _each(a, R.shape[1]), R)

    def lessened(self, X: Array, V: Array, a: Small) -> tuple[Array, Small]:
        X, V = np.ascontiguousarray(X), np.ascontiguousarray(V)
        out = np.empty(X.shape, X.dtype)
        return out, blocks.lessen(X, V, _each(a, X.shape[1]), out)

    def without(self, X: Array, v: Array, a: Small) -> Array:
        return blocks.without(np.ascontiguousarray(X), v, a)

    def mix(self, out: Any, terms: Any, which: Ints, C: Small) -> None:
        """Series are arrays (count, n, b)."""
        mix(terms, np.asarray(which, np.int64), C, out)

    def zeros(self, width: int, dtype: Any = np.float64) -> Array:
        return np.zeros((self.held, width), dtype=dtype)

    def series(self, count: int, width: int) -> Array:
        return np.zeros((count, self.held, width))

    def copy(self, X: Array, dtype: Any = None) -> Array:
        out = np.empty(X.shape, X.dtype if dtype is None else dtype)
        out[:] = X
        return out

    def normals(self, width: int, seed: int) -> Array:
        return normals(np.arange(self.size), width, seed)

    def columns(self, X: Array, which: Ints | NDArray[np.bool_] | slice) -> Array:
        return np.take(X, np.arange(X.shape[1])[which], axis=1)

    def stack(self, blocks: Sequence[Array]) -> Array:
        return np.ascontiguousarray(np.hstack(list(blocks)))

    def column(self, v: Array) -> Array:
        return v[:, None]

    @cached_property
    def _by_number(self) -> Ints | None:
        numbers = self._numbers
        if numbers is None or not numbers.size:
            return None
        place = np.full(int(numbers.max()) + 1, -1)
        place[numbers] = np.arange(numbers.size)
        return place[place >= 0]

    def by_number(self) -> Ints | None:
        return self._by_number

    def rowwise(self, function: Callable[..., Any], *data: Array) -> Any:
        """By blocks of rows: what a function makes on its way stays small."""
        width = sum(X.shape[1] if X.ndim > 1 else 1 for X in data)
        parts = blocks.row_slices(self.held, width)
        if len(parts) < 2 or any(len(X) != self.held for X in data):
            return function(*data)
        found = function(*(X[parts[0]] for X in data))
        if any(np.may_share_memory(found, X) for X in data):  # the rows as they are
            return function(*data)
        out = np.empty((self.held, *found.shape[1:]), dtype=found.dtype)
        out[parts[0]] = found
        for rows in parts[1:]:
            out[rows] = function(*(X[rows] for X in data))
        return out

    def spread(
        self, C: Small, groups: Array, scale: Array | None = None, dtype: Any = np.float64
    ) -> Array:
        return hand_out(C, groups, np.ones(groups.size) if scale is None else scale, dtype)

    def take(self, X: Array, nodes: Ints) -> Array:
        return np.take(X, nodes, axis=0)

    def place(self, X: Array) -> Array:
        return X

    def add_rows(self, X: Array, nodes: Ints, rows: Array) -> None:
        X[nodes] += rows


def _listed(V: Array | list[Array]) -> list[Array]:
    return V if isinstance(V, list) else [V]


def _each(a: Scalars, width: int) -> Small:
    """A scalar for every column; small problems call this too often for `full` and `ndim`."""
    if isinstance(a, np.ndarray) and a.ndim:
        return np.ascontiguousarray(a, dtype=np.float64)
    every = np.empty(width)
    every.fill(a)
    return every
