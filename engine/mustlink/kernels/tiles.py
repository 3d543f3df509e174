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
from llvmlite import ir
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
