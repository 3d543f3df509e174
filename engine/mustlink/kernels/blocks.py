"""Products of tall blocks (n, b), b small: fixed row blocks, sums free of threads.

Blocks may be held in single precision, which halves their memory; sums are double all the same.
Few columns of many rows are work for `tiles`; wide blocks, and few rows, for BLAS. There a task
takes some thousand rows at a time: what is made of them stays in the cache.

BLAS itself runs on one thread during a fit: its threads were measured to wait for each other 10 to
50 times longer than they work when another process keeps a core busy.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels import tiles
from mustlink.kernels.spmm import row_sums
from mustlink.kernels.threads import FEW, in_threads, inlined, kernel, loop, workers

Block = NDArray[np.float64]

_ROWS = 1 << 16  # rows per task, fewer where they are wide
_NUMBERS = 1 << 20  # in the rows of a task: what each thread makes of them takes some megabytes
_LEAST = 1 << 10
_NARROW = 384  # columns on a side, up to which `tiles` keep what they need in the cache
_CACHED = 1 << 11  # rows at a time: 40 numbers of each are half a megabyte


@dataclass(frozen=True)
class Pieces:
    """Where blocks are a part of taller ones: rows of the whole, and slices of what is here.

    BLAS rounds a row by how many there are beside it: it gets a slice at a time, so that rows come
    out the same wherever the whole is divided.
    """

    whole: int
    slices: tuple[slice, ...]


def row_slices(n: int, width: int) -> list[slice]:
    """Blocks of rows as they are worked on: by size alone, so that sums come out the same."""
    rows = _ROWS
    while rows > _LEAST and rows * width > _NUMBERS:
        rows //= 2
    return [slice(start, min(start + rows, n)) for start in range(0, n, rows)]


def gram(X: Block, Y: Block) -> Block:
    """Inner products XᵀY of (n, a) and (n, b)."""
    return gram_of([X], [Y])


def gram_of(V: list[Block], U: list[Block], within: Pieces | None = None) -> Block:
    """[V₁ V₂ …]ᵀ[U₁ U₂ …] without joining the blocks: the only sum over nodes."""
    if _fit_tiles(V, U, within):
        return tiles.gram(V, U)
    if len(V) == len(U) == V[0].shape[1] == 1 and U[0].flags.c_contiguous:
        return along(V[0][:, 0], U[0])[None]

    def part(rows: slice) -> Block:
        return sum((_inner(V, U, some) for some in _cached(rows)), start=np.zeros(()))

    parts = row_slices(V[0].shape[0], sum(X.shape[1] for X in (*V, *U)))
    if len(parts) < 2:
        return part(slice(0, V[0].shape[0]))
    with ThreadPoolExecutor(workers()) as pool:
        sums = pool.map(part, parts)
        total = next(sums)
        for one in sums:  # in order, whatever finished first
            total += one
    return total


def _fit_tiles(V: list[Block], U: list[Block], within: Pieces | None) -> bool:
    """Whether `tiles` know what to do with these, and are faster."""
    n, dtype = V[0].shape[0] if within is None else within.whole, V[0].dtype
    return (
        n > _ROWS
        and dtype.kind == "f"
        and all(len(side) <= 3 and sum(X.shape[1] for X in side) <= _NARROW for side in (V, U))
        and all(X.dtype == dtype and X.flags.c_contiguous and X.flags.writeable for X in (*V, *U))
    )


def _inner(V: list[Block], U: list[Block], rows: slice) -> Block:
    right = _double(U, rows)
    if U is V:
        return right.T @ right
    if len(U) == 1:  # joining the others would cost more than it gains
        return np.concatenate([_double([v], rows).T @ right for v in V])
    return _double(V, rows).T @ right


def _cached(rows: slice) -> list[slice]:
    """Rows of a task a few at a time; at least one slice, if of no rows."""
    starts = range(rows.start, max(rows.stop, rows.start + 1), _CACHED)
    return [slice(start, min(start + _CACHED, rows.stop)) for start in starts]


def _double(blocks: list[Block], rows: slice) -> Block:
    """Rows of the blocks side by side, in double precision."""
    if len(blocks) == 1:
        return blocks[0][rows].astype(np.float64, copy=False)
    return np.concatenate([block[rows] for block in blocks], axis=1, dtype=np.float64)


def combine(V: Block, C: Block) -> Block:
    """Linear combinations VC of the columns of V (n, a), C (a, b)."""
    return combination([V], C)


def combination(V: list[Block], C: Block, within: Pieces | None = None) -> Block:
    """[V₁ V₂ …]C without joining the blocks, in their precision."""
    out = np.empty((V[0].shape[0], C.shape[1]), V[0].dtype)
    if _fit_tiles(V, [out], within):
        tiles.combine(V, C, out, out[:, :0].copy())
        return out
    width = out.shape[1] + V[0].shape[1]
    _over_rows(lambda rows: _combined(V, rows, C, out[rows]), out.shape[0], width, within)
    return out


def recombine(
    V: list[Block], C: Block, C2: Block, within: Pieces | None = None
) -> tuple[Block, Block]:
    """[V₁ V₂ …]C and [V₁ V₂ …]C₂; the first in place of V₁, which is changed, if it is as wide.

    One block less is held at a time than with two calls of `combination`.
    """
    n, dtype = V[0].shape[0], V[0].dtype
    first = V[0] if C.shape[1] == V[0].shape[1] else np.empty((n, C.shape[1]), dtype)
    second = np.empty((n, C2.shape[1]), dtype)
    if _fit_tiles(V, [first, second], within):
        tiles.combine(V, np.concatenate([C, C2], axis=1), first, second)
        return first, second

    def fill(rows: slice) -> None:
        found = np.empty((V[0][rows].shape[0], C.shape[1]), dtype=dtype)
        _combined(V, rows, C, found)
        _combined(V, rows, C2, second[rows])
        first[rows] = found

    _over_rows(fill, n, first.shape[1] + 2 * second.shape[1], within)
    return first, second


def subtract(X: Block, V: Block, C: Block, within: Pieces | None = None) -> None:
    """X − VC in place of X (n, b)."""
    C = C.astype(X.dtype, copy=False)

    def fill(rows: slice) -> None:
        X[rows] -= V[rows].astype(X.dtype, copy=False) @ C

    _over_rows(fill, X.shape[0], V.shape[1] + X.shape[1], within)


def _combined(V: list[Block], rows: slice, C: Block, out: Block) -> None:
    """Write rows of [V₁ V₂ …]C to `out`, which is none of them."""
    ends = np.cumsum([0, *(v.shape[1] for v in V)])
    terms = [
        (v, C[a:b].astype(v.dtype, copy=False)) for v, (a, b) in zip(V, pairwise(ends), strict=True)
    ]
    np.matmul(V[0][rows], terms[0][1], out=out)
    for v, part in terms[1:]:
        if len(part):
            out += v[rows] @ part


def _over_rows(
    task: Callable[[slice], None], n: int, width: int, within: Pieces | None = None
) -> None:
    def each(rows: slice) -> None:
        for some in _cached(rows):
            task(some)

    parts = row_slices(n, width) if within is None else within.slices
    if len(parts) < 2 or (within is not None and n <= _ROWS):
        for rows in parts:
            each(rows)
        return
    in_threads(each, parts)


def by_rows(function: Callable[..., Any], *data: NDArray[Any]) -> NDArray[Any]:
    """`function` of rows of arrays (n, …), by rows: NumPy's own work, which is done in threads.

    It knows no row but those that it is given.
    """
    n, width = len(data[0]), sum(X.shape[1] if X.ndim > 1 else 1 for X in data)
    if len(row_slices(n, width)) < 2:
        found: NDArray[Any] = function(*data)
        return found
    shape = function(*(X[:1] for X in data))
    out = np.empty((n, *shape.shape[1:]), dtype=shape.dtype)

    def fill(rows: slice) -> None:
        out[rows] = function(*(X[rows] for X in data))

    _over_rows(fill, n, width)
    return out


# --- Vector work of block iterations, column by column and in one pass: every column has its sc
#
# Sums do not depend on the number of threads, and are double for single precision, too.


Scalars = NDArray[np.float64]
_STEP_ROWS = 1 << 14  # rows per partial sum: fixed, so that sums come out the same for any threads


# What is done row by row is rounded one way, by NumPy on few rows and by these on many: rows come
# out the same wherever a block is divided. So these multiply and add without fusing the two.


@loop()
def _one(lo: int, hi: int, out: Any, b: Any, U: Any, u: Any, columns: Any) -> None:
    width = u.size
    for i in range(lo, hi):
        for c in range(width):
            at = columns[c]
            out[i, at] = b[c] * out[i, at] + u[c] * U[i, c]


@loop()
def _two(lo: int, hi: int, out: Any, b: Any, U: Any, u: Any, V: Any, v: Any, columns: Any) -> None:
    width = u.size
    for i in range(lo, hi):
        for c in range(width):
            at = columns[c]
            out[i, at] = b[c] * out[i, at] + (u[c] * U[i, c] + v[c] * V[i, c])


def _summed(task: Callable[[slice], Scalars], X: Block) -> Scalars:
    """Sum (b,) of task(rows), a few rows of X at a time."""
    partial = np.zeros((max(1, -(-len(X) // _STEP_ROWS)), X.shape[1]))

    def add(part: int) -> None:
        first = part * _STEP_ROWS
        for rows in _cached(slice(first, min(first + _STEP_ROWS, len(X)))):
            partial[part] += task(rows)

    in_threads(add, range(len(partial)))
    return np.asarray(partial.sum(axis=0), dtype=np.float64)


@kernel()
def _add_dots(X: Any, Y: Any, total: Any) -> None:
    for i in range(X.shape[0]):
        for c in range(X.shape[1]):
            total[c] += X[i, c] * Y[i, c]


def _dots(X: Block, Y: Block, compiled: bool) -> Scalars:
    """Inner products column by column of some rows: NumPy begins anew with every row."""
    if not compiled or X.dtype != np.float64 or Y.dtype != np.float64:
        return np.asarray(np.einsum("ij,ij->j", X, Y, dtype=np.float64))
    total = np.zeros(X.shape[1])
    _add_dots(X, Y, total)
    return total


def dots(X: Block, Y: Block) -> Scalars:
    """Inner products column by column of two blocks (n, b)."""
    return _summed(lambda rows: _dots(X[rows], Y[rows], X.size >= FEW), X)


def blend(
    out: Block, keep: Scalars, terms: list[tuple[Block, Scalars]], columns: NDArray[np.int64]
) -> None:
    """In place out[:, columns] = out[:, columns]·diag(keep) + Σ V·diag(a), one or two terms."""
    if out.size < FEW:
        more = sum(V * a for V, a in terms)
        out[:, columns] = out[:, columns] * keep + more
        return
    work = (1 + len(terms)) * out.shape[0] * keep.size
    kernel = _one if len(terms) == 1 else _two
    kernel(len(out), work, out, keep, *(part for term in terms for part in term), columns)


def lessen(X: Block, V: Block, a: Scalars, out: Block) -> Scalars:
    """Write out = X − V·diag(a), where `out` may be X; returns the squared lengths of columns."""

    def some(rows: slice) -> Scalars:
        found = V[rows] * a
        np.subtract(X[rows], found, out=found)
        out[rows] = found
        return _dots(found, found, X.size >= FEW)

    return _summed(some, X)


def along(v: Scalars, X: Block) -> Scalars:
    """vᵀX (b,) for one vector v (n,)."""
    return _summed(lambda rows: v[rows] @ X[rows].astype(np.float64, copy=False), X)


def without(X: Block, v: Scalars, a: Scalars) -> Block:
    """X − vaᵀ for one vector v (n,) and a (b,), in X's precision."""

    def some(X: Block, v: Scalars) -> Block:
        found = np.multiply.outer(v, a)
        return np.asarray(np.subtract(X, found, out=found), dtype=X.dtype)

    return by_rows(some, X, v)


def peaks(X: Block) -> Scalars:
    """The entry of largest magnitude of every column, (b,); of equal ones the first."""
    parts = row_slices(*X.shape)
    partial = np.zeros((max(1, len(parts)), X.shape[1]))

    def fill(at: int) -> None:
        for rows in _cached(parts[at]):
            _keep_larger(_peaks(X[rows]), partial[at])

    in_threads(fill, range(len(parts)))
    for one in partial[1:]:
        _keep_larger(one, partial[0])
    return np.asarray(partial[0], dtype=np.float64)


def _peaks(X: Block) -> Scalars:
    high, low = _folded(np.fmax, X), _folded(np.fmin, X)
    found = np.where(high >= -low, high, low)
    for c in np.flatnonzero(high == -low):  # both signs are as large
        found[c] = X[np.abs(X[:, c]).argmax(), c]
    return found


def _folded(function: Any, X: Block) -> Block:
    """Columns reduced by halves: along ten columns NumPy begins anew with every row."""
    while len(X) > 1:
        half = len(X) // 2
        folded = function(X[:half], X[half : 2 * half])
        X = np.concatenate([folded, X[-1:]]) if len(X) % 2 else folded
    return X[0]


def _keep_larger(some: Scalars, peaks: Scalars) -> None:
    larger = np.abs(some) > np.abs(peaks)
    peaks[larger] = some[larger]


# --- Sums of rows by group, and their transpose: rows handed out by group


@kernel()
def _add(X: Any, groups: Any, scale: Any, out: Any) -> None:
    for i in range(X.shape[0]):
        g = groups[i]
        v = scale[i]
        for c in range(X.shape[1]):
            out[g, c] += v * X[i, c]


def group_sums(
    X: NDArray[Any], groups: NDArray[Any], count: int, scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Row g: the sum of scale_i·X_i over the rows i with groups_i = g, (count, b), double.

    One thread: sums come in the order of the rows.
    """
    if X.size < FEW:
        each = sp.csc_matrix((scale, groups, np.arange(len(X) + 1)), shape=(count, len(X)))
        return np.asarray(each @ X, dtype=np.float64)
    out = np.zeros((count, X.shape[1]))
    _add(X, _numbers(groups, count), scale, out)
    return out


def hand_out(
    C: NDArray[np.float64], groups: NDArray[Any], scale: NDArray[np.float64], dtype: Any
) -> NDArray[Any]:
    """Row i: scale_i·C[groups_i], (n, b)."""
    C = np.asarray(C, dtype=np.float64)

    def some(groups: NDArray[Any], scale: NDArray[np.float64]) -> NDArray[Any]:
        found = C.take(groups, axis=0)
        found *= scale[:, None]
        return found.astype(dtype, copy=False)

    return by_rows(some, groups, scale)


def _numbers(groups: NDArray[Any], count: int) -> NDArray[Any]:
    """Numbers of so many groups in the type that kernels are compiled for."""
    return groups.astype(np.int32 if count < 2**31 else np.int64, copy=False)


# --- The nearest of some centres for every row


_MANY = 400  # numbers in the centres from which products pay
_PIECE = 1 << 17  # products held by a thread: a megabyte


@inlined()
def _squared_gap(X: Any, i: int, centers: Any, g: int, width: int) -> float:
    """|x_i − c_g|², written into its callers: as a call it is 7 to 20 % slower."""
    total = 0.0
    for c in range(width):
        gap = X[i, c] - centers[g, c]
        total += gap * gap
    return total


@loop()
def _nearest(lo: int, hi: int, X: Any, centers: Any, labels: Any) -> None:
    k, width = centers.shape
    for i in range(lo, hi):
        best, at = np.inf, 0
        for g in range(k):
            total = _squared_gap(X, i, centers, g, width)
            if total < best:
                best, at = total, g
        labels[i] = at


@kernel()
def _nearest_of(
    X: Any, centers: Any, products: Any, squares: Any, rounding: Any, labels: Any
) -> None:
    k, width = centers.shape
    largest = 0.0
    for g in range(k):
        largest = max(largest, squares[g])
    for i in range(X.shape[0]):
        size = 0.0
        for c in range(width):
            size += X[i, c] * X[i, c]
        least = np.inf
        for g in range(k):
            least = min(least, squares[g] - 2.0 * products[i, g])
        least += rounding * (size + largest)
        best, at = np.inf, 0
        for g in range(k):
            if squares[g] - 2.0 * products[i, g] <= least:
                total = _squared_gap(X, i, centers, g, width)
                if total < best:
                    best, at = total, g
        labels[i] = at


def nearest_centre(X: NDArray[Any], centers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Number (n,) of the centre (k, r) nearest to every row (n, r), of equally near ones the first.

    Distances by differences: no digits are lost far from 0. Of many centres, only for those that
    ‖c‖² − 2xᵀc and its rounding leave in question, with the same answer. Cost: n·k·r operations.
    """
    labels = np.empty(X.shape[0], dtype=np.int64)
    centers, X = np.ascontiguousarray(centers, dtype=np.float64), np.ascontiguousarray(X)
    k, width = centers.shape
    if X.size * k < FEW:
        labels[:] = ((X[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        return labels
    if centers.size < _MANY:
        _nearest(len(X), X.size * k, X, centers, labels)
        return labels
    squares = (centers**2).sum(axis=1)
    rounding = 16.0 * (width + 2) * float(np.finfo(np.float64).eps)

    def piece(first: int) -> None:
        rows = X[first : first + step].astype(np.float64, copy=False)
        products = rows @ centers.T
        _nearest_of(rows, centers, products, squares, rounding, labels[first : first + step])

    step = max(64, _PIECE // k)
    in_threads(piece, range(0, X.shape[0], step))
    return labels


# --- Standard normal numbers by counting: one for every seed, node and column, in any order
#
# x = (−2 ln u)^½ cos 2πv (Box & Muller 1958), u and v from a hash of (seed, node, column) by the
# finaliser of splitmix64 (Steele, Lea & Flood 2014). A node's numbers need no other node.


_STEP = np.uint64(0x9E3779B97F4A7C15)
_COLUMN = np.uint64(0xD1B54A32D192ED03)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_FAR, _NEAR, _LAST = np.uint64(30), np.uint64(27), np.uint64(31)
_UNIT = 2.0**-53


@inlined()
def mixed_bits(z: Any) -> Any:
    """64 bits of a hash of 64 bits."""
    z = (z ^ (z >> _FAR)) * _FIRST
    z = (z ^ (z >> _NEAR)) * _SECOND
    return z ^ (z >> _LAST)


def normals(nodes: NDArray[np.int64], width: int, seed: int) -> NDArray[np.float64]:
    """Block (n, width): row i belongs to node number `nodes[i]`, column c to c whatever `width`.

    `seed` is any integer, taken modulo 2⁶⁴. Cost: some twenty operations a number.
    """
    mixed = mixed_bits.py_func  # NumPy is as fast here, and its code is there already
    out = np.empty((nodes.size, width))
    columns = np.arange(1, width + 1, dtype=np.uint64) * _COLUMN
    origin = mixed(np.array([seed % (1 << 64)], dtype=np.uint64) + _STEP)

    def fill(rows: slice) -> None:
        row = mixed(origin + nodes[rows].astype(np.uint64) * _STEP)
        first = mixed(row[:, None] + columns)
        second = mixed(first + _STEP)
        u = ((first >> np.uint64(11)).astype(np.float64) + 0.5) * _UNIT
        v = (second >> np.uint64(11)).astype(np.float64) * _UNIT
        out[rows] = np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * v)

    _over_rows(fill, nodes.size, width)
    return out


# --- Three-term recurrences of a Laplacian on blocks, and many linear combinations of their terms
#
# Blocks are (n, b). Everything that touches a block does so in one pass: products with sparse
# matrices of graphs are so cheap that the vector work around them decides.


_TERM_ROWS = 1 << 12  # rows per partial sum: fixed, so that sums come out the same for any threads


@loop(fastmath=True)
def _term(
    lo: int, hi: int,
    indptr: Any, indices: Any, data: Any, V: Any, old: Any, weights: Any, rows: Any, out: Any,
    partial: Any,
) -> None:  # fmt: skip
    a, b, c = weights[0], weights[1], weights[2]
    n, width = out.shape
    width = nb.uint64(width)
    for part in range(lo, hi):
        for i in range(nb.uint64(part * rows), nb.uint64(min((part + 1) * rows, n))):
            row_sums(indices, data, indptr[i], indptr[i + 1], V, out, i)
            inner, square = 0.0, 0.0
            for k in range(width):
                w = a * out[i, k] + b * V[i, k] + c * old[i, k]
                out[i, k] = w
                inner += w * V[i, k]
                square += w * w
            partial[part, 0] += inner
            partial[part, 1] += square


@loop(fastmath=True)
def _mix(lo: int, hi: int, terms: Any, which: Any, C: Any, out: Any) -> None:
    width = nb.uint64(out.shape[2])
    for i in range(lo, hi):
        for q in range(out.shape[0]):
            for t in range(which.size):
                w = C[t, q]
                at = which[t]
                for k in range(width):
                    out[q, i, k] += w * terms[at, i, k]


def next_term(
    S: Any, V: Block, old: Block, weights: tuple[float, float, float], out: Block
) -> tuple[float, float]:
    """Write out = a·SV + b·V + c·old, `weights` (a, b, c); return ⟨out, V⟩ and ‖out‖² (Frobenius).

    S CSR (n, m), V (m, b), of which the first n rows are those of the result; `out` neither V nor
    old. Cost: one product and nothing else.
    """
    partial = np.zeros((max(1, -(-out.shape[0] // _TERM_ROWS)), 2))
    arrays = S.indptr, S.indices, S.data, V, old, np.array(weights)
    _term(len(partial), S.nnz * V.shape[1], *arrays, _TERM_ROWS, out, partial)
    inner, square = partial.sum(axis=0)
    return float(inner), float(square)


def mix(
    terms: NDArray[np.float64], which: NDArray[np.int64], C: Block, out: NDArray[np.float64]
) -> None:
    """Add Σ_t C_tq·terms[which_t] to out[q]: `terms` (…, n, b), C (t, p), `out` (p, n, b)."""
    _mix(out.shape[1], C.size * terms[0].size, terms, which, C, out)
