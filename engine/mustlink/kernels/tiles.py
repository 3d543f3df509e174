"""Products of tall, narrow blocks in vector registers: inner products and linear combinations.

Both are sums of outer products: of the rows of two blocks, or of a block's columns and rows of
coefficients. 8 × 2 vectors of such a sum stay in registers while it is made, of operands that
were brought side by side, in one precision, a few rows at a time: these stay in the cache. BLAS
reached a tenth of its speed on such shapes, and its callers waited for each other in Python.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from llvmlite import binding, ir
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

_WORD, _LANE = ir.IntType(64), ir.IntType(32)
_HIGH = 8  # rows of a tile, which is two vectors of 64 bytes wide
_TOGETHER = 64  # rows that are brought side by side at a time
_ROWS = 1 << 14  # rows per partial sum: fixed, so that sums come out the same for any threads


def _lanes(number: Any) -> int:
    return 512 // int(number.bitwidth)


def _typed_tile(
    typing: Any, a: Any, at: Any, down: Any, across: Any, b: Any, b_at: Any, b_down: Any,
    count: Any, out: Any, out_at: Any, out_down: Any,
) -> Any:  # fmt: skip
    """out[t, :] += Σ_k a[at + k·down + t·across]·b[b_at + k·b_down + :] for 8 t and two vectors."""
    word = types.int64
    signature = types.void(a, word, word, word, b, word, word, word, out, word, word)
    return signature, _emit_tile


def _emit_tile(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kinds = signature.args
    a, b, out = (
        context.make_array(kinds[k])(context, builder, arguments[k]).data for k in (0, 4, 8)
    )
    at, down, across, b_at, b_down, count, out_at, out_down = (
        arguments[k] for k in (1, 2, 3, 5, 6, 7, 9, 10)
    )
    lanes = _lanes(kinds[0].dtype)
    vector = ir.VectorType(context.get_data_type(kinds[0].dtype), lanes)
    nowhere, left = ir.Constant(vector, ir.Undefined), ir.Constant(_LANE, 0)
    everywhere = ir.Constant(ir.VectorType(_LANE, lanes), [0] * lanes)
    bytes_each = kinds[0].dtype.bitwidth // 8

    def pointer(data: Any, place: Any, right: int) -> Any:
        place = builder.add(place, ir.Constant(_WORD, right * lanes))
        return builder.bitcast(builder.gep(data, [place]), vector.as_pointer())

    def times(step: Any, t: int) -> Any:
        return builder.mul(step, ir.Constant(_WORD, t))

    targets = [
        pointer(out, builder.add(out_at, times(out_down, t)), right)
        for t in range(_HIGH)
        for right in (0, 1)
    ]
    before = [builder.load(target, align=bytes_each) for target in targets]
    start = builder.block
    body, done = (builder.append_basic_block(name) for name in ("sums", "written"))
    builder.cbranch(builder.icmp_signed(">", count, ir.Constant(_WORD, 0)), body, done)

    builder.position_at_end(body)
    k, held = builder.phi(_WORD), [builder.phi(vector) for _ in targets]
    row = builder.add(b_at, builder.mul(k, b_down))
    wide = [builder.load(pointer(b, row, right), align=bytes_each) for right in (0, 1)]
    first = builder.add(at, builder.mul(k, down))
    found = []
    for t in range(_HIGH):
        one = builder.load(builder.gep(a, [builder.add(first, times(across, t))]))
        one = builder.insert_element(nowhere, one, left)
        one = builder.shuffle_vector(one, nowhere, everywhere)
        for right in (0, 1):
            term = builder.fmul(one, wide[right], flags=["contract"])
            found.append(builder.fadd(held[2 * t + right], term, flags=["contract"]))
    following = builder.add(k, ir.Constant(_WORD, 1))
    builder.cbranch(builder.icmp_signed("<", following, count), body, done)
    k.add_incoming(ir.Constant(_WORD, 0), start)
    k.add_incoming(following, body)
    for node, old, new in zip(held, before, found, strict=True):
        node.add_incoming(old, start)
        node.add_incoming(new, body)

    builder.position_at_end(done)
    written = [builder.phi(vector) for _ in targets]
    for node, old, new in zip(written, before, found, strict=True):
        node.add_incoming(old, start)
        node.add_incoming(new, body)
    for node, target in zip(written, targets, strict=True):
        builder.store(node, target, align=bytes_each)
    return context.get_dummy_value()


def _typed_eight(typing: Any, X: Any, i: Any, c: Any, Y: Any, j: Any, d: Any) -> Any:
    """Y[j, d : d + 8] = X[i, c : c + 8], in the precision of Y."""
    word = types.int64
    return types.void(X, word, word, Y, word, word), _emit_eight


def _emit_eight(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kinds, places = signature.args, []
    for k in (0, 3):
        block = context.make_array(kinds[k])(context, builder, arguments[k])
        row = builder.mul(arguments[k + 1], builder.extract_value(block.shape, 1))
        number = context.get_data_type(kinds[k].dtype)
        place = builder.gep(block.data, [builder.add(row, arguments[k + 2])])
        places.append(builder.bitcast(place, ir.VectorType(number, 8).as_pointer()))
    source, target = places
    x = builder.load(source, align=kinds[0].dtype.bitwidth // 8)
    if source.type != target.type:
        x = builder.fpext(x, target.type.pointee)
    builder.store(x, target, align=kinds[3].dtype.bitwidth // 8)
    return context.get_dummy_value()


_tile: Any = intrinsic(_typed_tile)
_eight: Any = intrinsic(_typed_eight)


@nb.njit(cache=True, nogil=True)
def _rows(X: Any, first: Any, c: Any, Y: Any, j: Any, d: Any, count: Any, width: Any) -> None:
    """Y[j : j + count, d : d + width] = X[first : first + count, c : c + width]."""
    for i in range(count):
        if width < 8:
            for k in range(width):
                Y[j + i, d + k] = X[first + i, c + k]
        else:
            for k in range(0, width - 7, 8):
                _eight(X, first + i, c + k, Y, j + i, d + k)
            _eight(X, first + i, c + width - 8, Y, j + i, d + width - 8)


@nb.njit(cache=True, nogil=True)
def _beside(blocks: Any, first: Any, last: Any, to: Any) -> None:
    """Rows of three blocks side by side."""
    A, B, C = blocks
    a, b = A.shape[1], A.shape[1] + B.shape[1]
    _rows(A, first, 0, to, 0, 0, last - first, a)
    _rows(B, first, 0, to, 0, a, last - first, b - a)
    _rows(C, first, 0, to, 0, b, last - first, C.shape[1])


@nb.njit(cache=True, nogil=True, parallel=True)
def _gram(V: Any, U: Any, rows: Any, partial: Any) -> None:
    n, high, wide = V[0].shape[0], partial.shape[1], partial.shape[2]
    for part in nb.prange(partial.shape[0]):
        total = partial[part]
        left, right = np.zeros((_TOGETHER, high)), np.zeros((_TOGETHER, wide))
        for first in range(part * rows, min((part + 1) * rows, n), _TOGETHER):
            last = min(first + _TOGETHER, n)
            _beside(V, first, last, left)
            _beside(U, first, last, right)
            for r in range(0, high, 8):
                for c in range(0, wide, 16):
                    at = r * wide + c
                    _tile(left, r, high, 1, right, c, wide, last - first, total, at, wide)


@nb.njit(cache=True, nogil=True, parallel=True)
def _combined(V: Any, C: Any, rows: Any, lanes: Any, out: Any, beside: Any) -> None:
    n, (high, wide) = out.shape[0], C.shape
    a, b = out.shape[1], beside.shape[1]
    for part in nb.prange((n + rows - 1) // rows):
        left = np.zeros((_TOGETHER, high), dtype=C.dtype)
        made = np.empty((_TOGETHER, wide), dtype=C.dtype)
        for first in range(part * rows, min((part + 1) * rows, n), _TOGETHER):
            last = min(first + _TOGETHER, n)
            _beside(V, first, last, left)
            made[:] = 0
            for r in range(0, last - first, 8):
                for c in range(0, wide, 2 * lanes):
                    _tile(left, r * high, 1, high, C, c, wide, high, made, r * wide + c, wide)
            _rows(made, 0, 0, out, first, 0, last - first, a)
            _rows(made, 0, a, beside, first, 0, last - first, b)


def _three(blocks: list[NDArray[Any]]) -> tuple[Any, Any, Any]:
    none = np.empty((blocks[0].shape[0], 0), dtype=blocks[0].dtype)
    first, second, third = [*blocks, none, none][:3]
    return first, second, third


def _whole(count: int, unit: int) -> int:
    return -(-count // unit) * unit


def gram(V: list[NDArray[Any]], U: list[NDArray[Any]]) -> NDArray[np.float64]:
    """[V₁ V₂ …]ᵀ[U₁ U₂ …], of at most three blocks (n, ·) each in C order and one precision.

    Sums in double precision. Cost: every block is read once.
    """
    n, a, b = V[0].shape[0], sum(X.shape[1] for X in V), sum(X.shape[1] for X in U)
    partial = np.zeros((max(1, -(-n // _ROWS)), _whole(a, _HIGH), _whole(b, 16)))
    _gram(_three(V), _three(U), _ROWS, partial)
    total: NDArray[np.float64] = partial.sum(axis=0)[:a, :b]
    return total


def combine(
    V: list[NDArray[Any]], C: NDArray[np.float64], out: NDArray[Any], beside: NDArray[Any]
) -> None:
    """Write [V₁ V₂ …]C, of at most three blocks as in `gram`, to the columns of [out beside].

    `out` may be V₁. Cost: every block is read or written once.
    """
    dtype, (a, b) = out.dtype, C.shape
    lanes = 64 // dtype.itemsize
    padded = np.zeros((a, _whole(b, 2 * lanes)), dtype=dtype)
    padded[:, :b] = C
    _combined(_three(V), padded, _ROWS, lanes, out, beside)


# --- Eight points against 32 others: products in vector registers, of which only a bit is writt
#
# A product by BLAS writes all numbers to memory, where those who are near are looked for: that
# takes
# longer than the product. Here sums stay in registers until they are compared with their bounds.


TALL, WIDE = 8, 32  # queries and points of a tile
_NEAR_WORD, _NEAR_LANE, _BIT = ir.IntType(64), ir.IntType(32), ir.IntType(1)
_NUMBER = ir.FloatType()


def _shape() -> tuple[int, int]:
    """Numbers of a vector, and queries whose sums fit the registers with those of two vectors."""
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return 16, 8
    return (8, 4) if features.get("avx") else (4, 4)


def _typed(
    typing: Any, queries: Any, g: Any, panels: Any, at: Any, d: Any, own: Any, reach: Any,
    lower: Any, upper: Any, p: Any, masks: Any, place: Any,
) -> Any:  # fmt: skip
    word = types.int64
    signature = types.void(
        queries, word, panels, word, word, own, reach, lower, upper, word, masks, word
    )
    return signature, _emit


def _emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    def pointer(k: int, *offset: Any) -> Any:
        data = context.make_array(signature.args[k])(context, builder, arguments[k]).data
        for one in offset:
            data = builder.gep(data, [one])
        return data

    g, at, d, p, place = (arguments[k] for k in (1, 3, 4, 9, 11))
    tall, wide = ir.Constant(_NEAR_WORD, TALL), ir.Constant(_NEAR_WORD, WIDE)
    queries = pointer(0, builder.mul(builder.mul(g, tall), d))
    panels = pointer(2, at)
    own, reach = (pointer(k, builder.mul(g, tall)) for k in (5, 6))
    lower, upper = (pointer(k, builder.mul(p, wide)) for k in (7, 8))
    masks = pointer(10, place)
    lanes, rows = _shape()
    found: list[list[Any]] = [[] for _ in range(TALL)]
    for column in range(0, WIDE, 2 * lanes):
        for row in range(0, TALL, rows):
            block = _Block(builder, lanes, rows, queries, panels, row, column)
            for r, hits in enumerate(block.near(d, own, reach, lower, upper)):
                found[row + r] += hits
    for pair in range(TALL // 2):
        word = ir.Constant(_NEAR_WORD, 0)
        for n, bits in enumerate(found[2 * pair] + found[2 * pair + 1]):
            part = builder.zext(builder.bitcast(bits, ir.IntType(lanes)), _NEAR_WORD)
            word = builder.or_(word, builder.shl(part, ir.Constant(_NEAR_WORD, n * lanes)))
        builder.store(word, builder.gep(masks, [ir.Constant(_NEAR_WORD, pair)]))
    return context.get_dummy_value()


class _Block:
    """Some rows of a tile times two vectors of its columns."""

    def __init__(
        self, builder: Any, lanes: int, rows: int, queries: Any, panels: Any, row: int, column: int
    ) -> None:
        self.builder, self.lanes, self.rows = builder, lanes, rows
        self.queries, self.panels, self.row, self.column = queries, panels, row, column
        self.vector = ir.VectorType(_NUMBER, lanes)

    def number(self, data: Any, place: int) -> Any:
        """A number in all lanes."""
        builder = self.builder
        x = builder.load(builder.gep(data, [ir.Constant(_NEAR_WORD, place)]))
        nowhere = ir.Constant(self.vector, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(_NEAR_LANE, self.lanes), [0] * self.lanes)
        x = builder.insert_element(nowhere, x, ir.Constant(_NEAR_LANE, 0))
        return builder.shuffle_vector(x, nowhere, everywhere)

    def numbers(self, data: Any, v: int) -> Any:
        """One of two vectors of numbers that follow each other."""
        place = ir.Constant(_NEAR_WORD, self.column + v * self.lanes)
        data = self.builder.gep(data, [place])
        return self.builder.load(self.builder.bitcast(data, self.vector.as_pointer()), align=4)

    def near(self, d: Any, own: Any, reach: Any, lower: Any, upper: Any) -> Any:
        """Bits of every row, two vectors each: product - own >= min(lower - reach, upper)."""
        builder = self.builder
        zero = ir.Constant(self.vector, [0.0] * self.lanes)
        begin = [builder.fsub(zero, self.number(own, self.row + r)) for r in range(self.rows)]
        sums = self._sums(d, [x for x in begin for _ in range(2)])
        for r in range(self.rows):
            far = self.number(reach, self.row + r)
            hits = []
            for v in range(2):
                here = builder.fsub(self.numbers(lower, v), far)
                there = self.numbers(upper, v)
                bound = builder.select(builder.fcmp_ordered("<", here, there), here, there)
                hits.append(builder.fcmp_ordered(">=", sums[2 * r + v], bound))
            yield hits

    def _sums(self, d: Any, begin: list[Any]) -> list[Any]:
        """Products of the rows with both vectors, added to `begin`."""
        builder, before = self.builder, self.builder.block
        body, done = (builder.append_basic_block(name) for name in ("coordinates", "summed"))
        builder.branch(body)
        builder.position_at_end(body)
        c, sums = builder.phi(_NEAR_WORD), [builder.phi(self.vector) for _ in begin]
        queries = builder.gep(self.queries, [c])
        panels = builder.gep(self.panels, [builder.mul(c, ir.Constant(_NEAR_WORD, WIDE))])
        both = [self.numbers(panels, v) for v in range(2)]
        found = []
        for r in range(self.rows):
            row = builder.mul(d, ir.Constant(_NEAR_WORD, self.row + r))
            q = self.number(builder.gep(queries, [row]), 0)
            for v in range(2):
                term = builder.fmul(q, both[v], flags=["contract"])
                found.append(builder.fadd(sums[2 * r + v], term, flags=["contract"]))
        following = builder.add(c, ir.Constant(_NEAR_WORD, 1))
        builder.cbranch(builder.icmp_signed("<", following, d), body, done)
        c.add_incoming(ir.Constant(_NEAR_WORD, 0), before)
        c.add_incoming(following, body)
        for node, first, after in zip(sums, begin, found, strict=True):
            node.add_incoming(first, before)
            node.add_incoming(after, body)
        builder.position_at_end(done)
        return found


# near_tile(queries, g, panels, at, d, own, reach, lower, upper, p, masks, place): eight queries
# from row 8g on, (q, d), with the panel (d, 32) that begins at panels[at]. They are near where
# q·p >= own + min(lower - reach, upper), `own` and `reach` of the queries, `lower` and `upper` of
# the points 32p to 32p + 31. Each word of masks[place : place + 4] has the bits of two rows.
near_tile: Any = intrinsic(_typed)


def _lowest_typed(typing: Any, word: Any) -> Any:
    return types.int64(types.uint64), _emit_lowest


def _emit_lowest(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.cttz(arguments[0], ir.Constant(_BIT, 0))


lowest_bit: Any = intrinsic(_lowest_typed)
