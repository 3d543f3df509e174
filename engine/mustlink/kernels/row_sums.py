"""One row of a sparse matrix times a dense block, in vector registers: the inside of all products.

A compiler that sees Y[i, c] += w·X[j, c] writes the sums to memory and reads them again at every
entry, as Y might be part of X, and does the last columns of thirteen one by one. Here two vectors
of L columns stay in registers for a whole row. The second ends where the block ends, so that any
width from L to 2L is two vectors; columns that are in both are the same sums twice. Calls, one a
row, took a fifth of the time: the sums are put into the loops of their callers.
"""

from __future__ import annotations

from typing import Any

import numba as nb
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

_WORD, _LANE = ir.IntType(64), ir.IntType(32)


def _typed(
    typing: Any, lanes: Any, indices: Any, data: Any, first: Any, last: Any, X: Any, a: Any, b: Any,
    Y: Any, i: Any,
) -> Any:  # fmt: skip
    """The sums of columns a, …, a + lanes − 1 and b, …, b + lanes − 1; `lanes` is a literal."""
    blocks_fit = X.layout == Y.layout == "C" and X.dtype == Y.dtype
    if not isinstance(lanes, types.IntegerLiteral) or not blocks_fit:
        return None
    word = types.int64
    signature = types.void(lanes, indices, data, word, word, X, word, word, Y, word)
    return signature, _emit


def _typed_affine(
    typing: Any, lanes: Any, indices: Any, data: Any, first: Any, last: Any, X: Any, a: Any, b: Any,
    Y: Any, i: Any, V: Any, B: Any, of_sums: Any, of_own: Any, of_other: Any,
) -> Any:  # fmt: skip
    """The same, then of_sums·sums + of_own·V[i] + of_other·B[i]."""
    plain, number = _typed(typing, lanes, indices, data, first, last, X, a, b, Y, i), X.dtype
    if plain is None or {(block.layout, block.dtype) for block in (V, B)} != {("C", number)}:
        return None
    return types.void(*plain[0].args, V, B, number, number, number), _emit


def _emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kinds = signature.args
    lanes, number = kinds[0].literal_value, kinds[5].dtype
    indices, data, X, Y = (
        context.make_array(kinds[k])(context, builder, arguments[k]) for k in (1, 2, 5, 8)
    )
    first, last, a, b, i = (arguments[k] for k in (3, 4, 6, 7, 9))
    vector = ir.VectorType(context.get_data_type(number), lanes)
    zero = ir.Constant(vector, [0.0] * lanes)
    nowhere, left = ir.Constant(vector, ir.Undefined), ir.Constant(_LANE, 0)
    everywhere = ir.Constant(ir.VectorType(_LANE, lanes), [0] * lanes)

    def at(block: Any, row: Any, column: Any) -> Any:
        width = builder.extract_value(block.shape, 1)
        place = builder.add(builder.mul(row, width), column)
        return builder.bitcast(builder.gep(block.data, [place]), vector.as_pointer())

    def spread(one: Any) -> Any:
        one = builder.insert_element(nowhere, one, left)
        return builder.shuffle_vector(one, nowhere, everywhere)

    start = builder.block
    body, done = (builder.append_basic_block(name) for name in ("entries", "written"))
    builder.cbranch(builder.icmp_signed("<", first, last), body, done)

    builder.position_at_end(body)
    q, *sums = builder.phi(_WORD), builder.phi(vector), builder.phi(vector)
    j = builder.load(builder.gep(indices.data, [q]))
    j = j if j.type == _WORD else builder.sext(j, _WORD)
    w = context.cast(builder, builder.load(builder.gep(data.data, [q])), kinds[2].dtype, number)
    w = spread(w)
    bytes_each = number.bitwidth // 8  # rows of 13 numbers begin anywhere
    found = []
    for held, column in zip(sums, (a, b), strict=True):
        x = builder.load(at(X, j, column), align=bytes_each)
        term = builder.fmul(w, x, flags=["contract"])
        found.append(builder.fadd(held, term, flags=["contract"]))
    following = builder.add(q, ir.Constant(_WORD, 1))
    builder.cbranch(builder.icmp_signed("<", following, last), body, done)
    for node, before, after in zip(
        (q, *sums), (first, zero, zero), (following, *found), strict=True
    ):
        node.add_incoming(before, start)
        node.add_incoming(after, body)

    builder.position_at_end(done)
    written = [builder.phi(vector) for _ in sums]
    for node, after in zip(written, found, strict=True):
        node.add_incoming(zero, start)
        node.add_incoming(after, body)
    made: list[Any] = written
    if len(arguments) > 10:
        V, B = (context.make_array(kinds[k])(context, builder, arguments[k]) for k in (10, 11))
        p, q, r = (spread(one) for one in arguments[12:])
        made = []
        for node, column in zip(written, (a, b), strict=True):
            total = builder.fmul(p, node)
            for by, block in ((q, V), (r, B)):
                term = builder.fmul(by, builder.load(at(block, i, column), align=bytes_each))
                total = builder.fadd(total, term, flags=["contract"])
            made.append(total)
    for value, column in zip(made, (a, b), strict=True):
        builder.store(value, at(Y, i, column), align=bytes_each)
    return context.get_dummy_value()


_two_vectors: Any = intrinsic(_typed)
_affine_vectors: Any = intrinsic(_typed_affine)


@nb.njit(cache=True, nogil=True, forceinline=True)
def row_sums(indices: Any, data: Any, first: Any, last: Any, X: Any, Y: Any, i: Any) -> None:
    """Write Y[i] = Σ_q data[q]·X[indices[q]] over first <= q < last, X and Y in C order.

    Every column is summed in the order of q, whatever the width.
    """
    width = X.shape[1]
    if width > 16:
        for end in range(16, width + 16, 16):
            at = min(end, width) - 16
            _two_vectors(8, indices, data, first, last, X, at, at + 8, Y, i)
    elif width > 8:
        _two_vectors(8, indices, data, first, last, X, 0, width - 8, Y, i)
    elif width > 4:
        _two_vectors(4, indices, data, first, last, X, 0, width - 4, Y, i)
    elif width > 2:
        _two_vectors(2, indices, data, first, last, X, 0, width - 2, Y, i)
    elif width > 0:
        _two_vectors(1, indices, data, first, last, X, 0, width - 1, Y, i)


@nb.njit(cache=True, nogil=True, forceinline=True)
def affine_row(
    indices: Any,
    data: Any,
    first: Any,
    last: Any,
    X: Any,
    V: Any,
    B: Any,
    by: Any,
    Y: Any,
    i: Any,
) -> None:
    """Write Y[i] = p·(its sums, see `row_sums`) + q·V[i] + r·B[i], `by` (p, q, r); Y is not X."""
    width, (p, q, r) = X.shape[1], by
    if width > 16:
        for end in range(16, width + 16, 16):
            at = min(end, width) - 16
            _affine_vectors(8, indices, data, first, last, X, at, at + 8, Y, i, V, B, p, q, r)
    elif width > 8:
        _affine_vectors(8, indices, data, first, last, X, 0, width - 8, Y, i, V, B, p, q, r)
    elif width > 4:
        _affine_vectors(4, indices, data, first, last, X, 0, width - 4, Y, i, V, B, p, q, r)
    elif width > 2:
        _affine_vectors(2, indices, data, first, last, X, 0, width - 2, Y, i, V, B, p, q, r)
    elif width > 0:
        _affine_vectors(1, indices, data, first, last, X, 0, width - 1, Y, i, V, B, p, q, r)
