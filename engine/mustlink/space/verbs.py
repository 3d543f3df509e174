"""What an iteration may do with data of nodes: a few verbs, and nothing else.

A `Space` knows where the rows of blocks (n, b) are. An iteration holds blocks without looking
inside, reads their `shape` and `dtype`, and does its small algebra on the arrays that sums over
nodes return, which are the same everywhere. Sums that are wanted together are one call, and one
reduction.

    G, squares = space.sums(Gram([X, P], [X, P]), Dots(R, R))

Everything that acts on rows alone goes through `rowwise`; everything that mixes rows is an
operator (`mustlink.operators`), a sum, or `take`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels import blocks
from mustlink.kernels.blocks import group_sums, hand_out, mix, normals

Block = Any  # (n, b) numbers of n nodes; only its space looks inside. Has `shape` and `dtype`.
Vector = Any  # (n,) numbers of n nodes, likewise
Series = Any  # blocks one after the other: series[k] is a block, slices are series again
Small = NDArray[np.float64]  # a small array that everyone has
Scalars = NDArray[np.float64] | float
Ints = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Gram:
    """[V₁ V₂ …]ᵀ[U₁ U₂ …], without joining the blocks."""

    left: Block | list[Block]
    right: Block | list[Block]

    def of(self, part: Callable[[Any], Any]) -> Gram:
        """The same sum of a part of every block, or of every list of blocks."""
        left = part(self.left)
        return Gram(left, left if self.right is self.left else part(self.right))


@dataclass(frozen=True, eq=False)
class Dots:
    """xᵀy column by column of two blocks as wide, (b,)."""

    left: Block
    right: Block

    def of(self, part: Callable[[Any], Any]) -> Dots:
        """The same sum of a part of both blocks."""
        return Dots(part(self.left), part(self.right))


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Row g is the sum of the rows of diag(scale)X with `groups` equal to g, (count, b).

    `groups` (n,) integers; `scale` (n,), None for 1.
    """

    X: Block
    groups: Vector
    count: int
    scale: Vector | None = None

    def of(self, part: Callable[[Any], Any]) -> GroupSums:
        """The same sums of a part of the block and the vectors."""
        scale = None if self.scale is None else part(self.scale)
        return GroupSums(part(self.X), part(self.groups), self.count, scale)


Sum = Gram | Dots | GroupSums


class Space(Protocol):
    """Verbs on blocks (n, b), dtype float64 or float32; sums are double all the same.

    `weights` (n,) are the nodes' multiplicities, None where all are 1: a node may stand for
    several. Sums do not know them; what is counted a node at a time is summed of `weighted(X)`.
    Verbs return new blocks but for `subtract`, `blend`, `lessen`, `mix`, `add_rows` and
    `recombine`, which say what they change.
    """

    size: int
    weights: Vector | None

    # --- sums over nodes

    @abstractmethod
    def sums(self, *wanted: Sum) -> list[Small]:
        """All these sums over nodes in one reduction, in double precision."""

    def gram(self, V: Block | list[Block], U: Block | list[Block]) -> Small:
        """VᵀU, of blocks or of lists of blocks."""
        return self.sums(Gram(V, U))[0]

    def dots(self, X: Block, Y: Block) -> Small:
        """Inner products of columns, (b,)."""
        return self.sums(Dots(X, Y))[0]

    def norms(self, *blocks: Block) -> Any:
        """Lengths of the columns, (b,), of one block; a list of them for several."""
        found = [np.sqrt(s) for s in self.sums(*(Dots(X, X) for X in blocks))]
        return found[0] if len(found) == 1 else found

    @abstractmethod
    def peaks(self, X: Block) -> Small:
        """The entry of largest magnitude of every column, (b,); of equal ones the first node's."""

    @abstractmethod
    def largest(self, v: Block, count: int) -> Ints:
        """Nodes of the `count` largest entries of a block (n, 1), of equal ones the first."""

    def signs(self, X: Block) -> Small:
        """±1 a column, (b,): X·diag(signs) has positive largest entries, the sign convention."""
        return np.where(self.peaks(X) < 0, -1.0, 1.0)

    # --- linear combinations

    @abstractmethod
    def combine(self, V: Block | list[Block], C: Small) -> Block:
        """[V₁ V₂ …]C, without joining the blocks, in their precision."""

    @abstractmethod
    def recombine(self, V: list[Block], C: Small, C2: Small) -> tuple[Block, Block]:
        """VC and VC₂; the first in place of V₁, which is changed, if it is as wide."""

    @abstractmethod
    def subtract(self, X: Block, V: Block, C: Small) -> None:
        """In place X −= VC."""

    @abstractmethod
    def blend(
        self, out: Block, keep: Scalars, *terms: tuple[Block, Scalars], columns: Ints | None = None
    ) -> None:
        """In place out·diag(keep) + V·diag(a) + …, at most two terms (V, a), scalars or (b,).

        With `columns`, (b,) distinct, only those columns of `out` are touched.
        """

    @abstractmethod
    def lessen(self, R: Block, V: Block, a: Small) -> Small:
        """In place R −= V·diag(a), and the squared lengths of R's columns: one reduction."""

    @abstractmethod
    def lessened(self, X: Block, V: Block, a: Small) -> tuple[Block, Small]:
        """X − V·diag(a) as a block of its own, and its columns' squared lengths: one reduction."""

    @abstractmethod
    def without(self, X: Block, v: Vector, a: Small) -> Block:
        """X − vaᵀ for v (n,) and a (b,), in X's precision."""

    @abstractmethod
    def mix(self, out: Series, terms: Series, which: Ints, C: Small) -> None:
        """In place out[q] += Σ_t C_tq·terms[which_t] for every q; both from `series`, C (t, q)."""

    # --- making, choosing, joining

    @abstractmethod
    def zeros(self, width: int, dtype: Any = np.float64) -> Block:
        """A block of zeros, (n, width)."""

    @abstractmethod
    def series(self, count: int, width: int) -> Series:
        """As many blocks of zeros; slices of it are again such a series."""

    @abstractmethod
    def copy(self, X: Block, dtype: Any = None) -> Block:
        """A block of its own, in another precision if `dtype` says so."""

    @abstractmethod
    def normals(self, width: int, seed: int) -> Block:
        """Standard normal numbers keyed by (seed, number of the node, column), (n, width).

        The same for every division of the nodes, and for every width.
        """

    @abstractmethod
    def columns(self, X: Block, which: Ints | NDArray[np.bool_] | slice) -> Block:
        """The columns chosen, as a block of its own."""

    @abstractmethod
    def stack(self, blocks: Sequence[Block]) -> Block:
        """[X₁ X₂ …] as one block."""

    @abstractmethod
    def column(self, v: Vector) -> Block:
        """A vector (n,) as a block (n, 1)."""

    # --- rows

    def by_number(self) -> Ints | None:
        """Rows of the nodes with an edge, by their numbers in the graph; None: all as they are."""
        return None

    def sample(self, most: int, seed: int) -> Ints:
        """Rows of all nodes with an edge, or `most` of them at random: the same in every home.

        In the order of their numbers in the graph, which says what is drawn, too.
        """
        rows = self.by_number()
        chosen = drawn(self.size if rows is None else rows.size, most, seed)
        return chosen if rows is None else rows[chosen]

    @abstractmethod
    def rowwise(self, function: Callable[..., Any], *data: Block | Vector) -> Any:
        """What `function` makes of arrays of rows, row by row: blocks or vectors of as many rows.

        It is called on parts of the rows: sums over nodes are not its business.
        """

    def scaled(self, X: Block, v: Vector) -> Block:
        """diag(v)X in X's precision, v (n,)."""
        return self.rowwise(_scaled, X, v)

    def weighted(self, X: Block) -> Block:
        """diag(weights)X; X itself where all weights are 1."""
        return X if self.weights is None else self.scaled(X, self.weights)

    @abstractmethod
    def spread(
        self, C: Small, groups: Vector, scale: Vector | None = None, dtype: Any = np.float64
    ) -> Block:
        """Row i is scale_i times row `groups[i]` of C (count, b): `GroupSums` transposed."""

    @abstractmethod
    def take(self, X: Block, nodes: Ints) -> Any:
        """The rows of a few nodes, (len(nodes), b), the same for everyone."""

    @abstractmethod
    def place(self, X: Any) -> Any:
        """Rows (n, …) that everyone has, as a block or vector: `take` of all nodes undone."""

    @abstractmethod
    def add_rows(self, X: Block, nodes: Ints, rows: Any) -> None:
        """In place X[nodes] += rows, `nodes` distinct."""


def _scaled(X: NDArray[Any], v: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = np.multiply(X, v[:, None], dtype=X.dtype, casting="same_kind")
    return found


def drawn(n: int, most: int, seed: int) -> Ints:
    """All of n numbers, or `most` of them at random, ascending."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


# --- All nodes in memory: blocks are NumPy arrays, verbs are compiled loops over rows in threads

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
                    listed(V), [U, *listed(U2)], self._within
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
        return blocks.gram_of(listed(V), listed(U), self._within)

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
        return blocks.combination(listed(V), C, self._within)

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
        """By blocks of rows, in threads: what a function makes on its way stays small."""
        if self.held == 0 or any(len(X) != self.held for X in data):
            return function(*data)
        one = function(*(X[:1] for X in data))
        if any(np.may_share_memory(one, X) for X in data):  # the rows as they are
            return function(*data)
        return blocks.by_rows(function, *data)

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


def listed(V: Array | list[Array]) -> list[Array]:
    """The blocks of a list, or the one block."""
    return V if isinstance(V, list) else [V]


def _each(a: Scalars, width: int) -> Small:
    """A scalar for every column; small problems call this too often for `full` and `ndim`."""
    if isinstance(a, np.ndarray) and a.ndim:
        return np.ascontiguousarray(a, dtype=np.float64)
    every = np.empty(width)
    every.fill(a)
    return every


# --- A span that verbs alone apply: one entry a row


@dataclass(frozen=True, eq=False)
class NullSpace:
    """Z (m, c): orthonormal null vectors D^½1_c/√vol_c of L̄, `component` (m,) and `weight` (m,).

    Row i has its one entry `weight[i]` in column `component[i]`. `place` is the space of its
    blocks, None for nodes in memory.
    """

    component: Vector
    weight: Vector
    n_components: int
    place: Space | None = None

    @classmethod
    def empty(cls, size: int, place: Space | None = None) -> NullSpace:
        """That of a positive definite matrix."""
        return cls(np.zeros(size, dtype=np.int32), np.zeros(size), 0, place)

    @classmethod
    def of_components(
        cls, component: NDArray[np.integer[Any]], root: NDArray[np.float64], count: int
    ) -> NullSpace:
        """D^½1_c/√vol_c of `count` components (m,) of nodes in memory, `root` (m,) being D^½1."""
        volumes = np.bincount(component, weights=root**2, minlength=count)
        return cls(component, root / np.sqrt(volumes[component]), count)

    @cached_property
    def space(self) -> Space:
        """Where its blocks live."""
        return LocalSpace(self.weight.size) if self.place is None else self.place

    def coefficients(self, X: Block) -> Small:
        """ZᵀX, (c, b)."""
        if self.n_components == 0:
            return np.zeros((0, X.shape[1]))
        if self.n_components == 1:
            return self.space.gram(self.space.column(self.weight), X)
        return self.space.sums(GroupSums(X, self.component, self.n_components, self.weight))[0]

    def expand(self, A: Small, dtype: Any = np.float64) -> Block:
        """ZA, (m, b), for A (c, b)."""
        if self.n_components == 0:
            return self.space.zeros(A.shape[1], dtype)
        return self.space.spread(A, self.component, self.weight, dtype)

    def project(self, X: Block) -> Block:
        """X − ZZᵀX: the part of a block that is orthogonal to the null space."""
        if self.n_components == 0:
            return X
        A = self.coefficients(X)
        if self.n_components == 1:
            return self.space.without(X, self.weight, A[0])
        result = self.expand(-A, X.dtype)
        self.space.blend(result, 1.0, (X, 1.0))
        return result

    def columns(self, which: NDArray[np.integer[Any]]) -> Block:
        """Selected null vectors as a dense block (m, len(which))."""
        chosen = np.zeros((self.n_components, len(which)))
        chosen[which, np.arange(len(which))] = 1.0
        return self.expand(chosen)

    def rows(self, nodes: NDArray[np.integer[Any]]) -> sp.csr_matrix:
        """Z on a few nodes, (len(nodes), c) CSR."""
        if self.n_components == 0:
            return sp.csr_matrix((len(nodes), 0))
        component = self.space.take(self.space.column(self.component), nodes)[:, 0]
        weight = self.space.take(self.space.column(self.weight), nodes)[:, 0]
        ends = np.arange(len(nodes) + 1)
        return sp.csr_matrix((weight, component, ends), shape=(len(nodes), self.n_components))

    @cached_property
    def matrix(self) -> sp.csr_matrix:
        """Z as CSR, one entry a row; of nodes in memory only."""
        m = self.component.size
        if self.n_components == 0:
            return sp.csr_matrix((m, 0))
        return sp.csr_matrix(
            (self.weight, self.component, np.arange(m + 1)), shape=(m, self.n_components)
        )
