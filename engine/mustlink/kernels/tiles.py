"""Products of tall, narrow blocks in vector registers: inner products and linear combinations.

Both are sums of outer products: of the rows of two blocks, or of a block's columns and rows of
coefficients. 8 × 2 vectors of such a sum stay in registers while it is made, of operands that
were brought side by side, in one precision, a few rows at a time: these stay in the cache. BLAS
reached a tenth of its speed on such shapes, and its callers waited for each other in Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from mustlink.kernels.threads import inlined, loop

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

    def pointer(data: Any, place: Any, right: int) -> Any:
        return _vector(builder, data, builder.add(place, ir.Constant(_WORD, right * lanes)), vector)

    def times(step: Any, t: int) -> Any:
        return builder.mul(step, ir.Constant(_WORD, t))

    def term(k: Any) -> Iterator[tuple[Any, list[Any]]]:
        row = builder.add(b_at, builder.mul(k, b_down))
        wide = [_loaded(builder, pointer(b, row, right)) for right in (0, 1)]
        first = builder.add(at, builder.mul(k, down))
        for t in range(_HIGH):
            yield builder.load(builder.gep(a, [builder.add(first, times(across, t))])), wide

    targets = [
        pointer(out, builder.add(out_at, times(out_down, t)), right)
        for t in range(_HIGH)
        for right in (0, 1)
    ]
    sums = _summed(builder, count, [_loaded(builder, target) for target in targets], term)
    for value, target in zip(sums, targets, strict=True):
        builder.store(value, target, align=_bytes(vector))
    return context.get_dummy_value()


def _summed(builder: Any, count: Any, begin: list[Any], term: Any) -> list[Any]:
    """Vectors `begin` plus the sum over k < count of number × vector, each of two, by `term(k)`."""
    start, vector = builder.block, begin[0].type
    body, done = (builder.append_basic_block(name) for name in ("sums", "summed"))
    builder.cbranch(builder.icmp_signed(">", count, ir.Constant(_WORD, 0)), body, done)
    builder.position_at_end(body)
    k, held = builder.phi(_WORD), [builder.phi(vector) for _ in begin]
    found: list[Any] = []
    for number, both in term(k):
        one = _everywhere(builder, number, vector)
        for x in both:
            product = builder.fmul(one, x, flags=["contract"])
            found.append(builder.fadd(held[len(found)], product, flags=["contract"]))
    following = builder.add(k, ir.Constant(_WORD, 1))
    builder.cbranch(builder.icmp_signed("<", following, count), body, done)
    k.add_incoming(ir.Constant(_WORD, 0), start)
    k.add_incoming(following, body)
    builder.position_at_end(done)
    sums = [builder.phi(vector) for _ in begin]
    for node in (held, sums):
        for one, old, new in zip(node, begin, found, strict=True):
            one.add_incoming(old, start)
            one.add_incoming(new, body)
    return sums


def _everywhere(builder: Any, number: Any, vector: Any) -> Any:
    """A number in all lanes of a vector."""
    nowhere = ir.Constant(vector, ir.Undefined)
    lanes = ir.Constant(ir.VectorType(_LANE, vector.count), [0] * vector.count)
    one = builder.insert_element(nowhere, number, ir.Constant(_LANE, 0))
    return builder.shuffle_vector(one, nowhere, lanes)


def _vector(builder: Any, data: Any, place: Any, vector: Any) -> Any:
    """Where the vector of numbers from a place on is."""
    return builder.bitcast(builder.gep(data, [place]), vector.as_pointer())


def _loaded(builder: Any, pointer: Any) -> Any:
    return builder.load(pointer, align=_bytes(pointer.type.pointee))


def _bytes(vector: Any) -> int:
    """Of a number of it, to which vectors are aligned."""
    return 8 if isinstance(vector.element, ir.DoubleType) else 4


def _typed_copy(
    typing: Any, X: Any, first: Any, c: Any, Y: Any, j: Any, d: Any, count: Any, width: Any,
    size: Any,
) -> Any:  # fmt: skip
    word = types.int64
    return types.void(X, word, word, Y, word, word, word, word, word), _emit_copy


def _emit_copy(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    X, Y = (context.make_array(signature.args[k])(context, builder, arguments[k]) for k in (0, 3))
    held, size, module = signature.args[0].dtype, arguments[-1], builder.module
    x_width, y_width = (builder.extract_value(block.shape, 1) for block in (X, Y))

    def copy(number: Any) -> None:
        source = context.get_data_type(number).as_pointer()
        name = f"mustlink.copy.{number}.{signature.args[3].dtype}"
        function = module.globals.get(name)
        if function is None:
            function = _copy_function(module, name, source, Y.data.type)
        blocks = builder.bitcast(X.data, source), Y.data, builder.udiv(x_width, size), y_width
        builder.call(function, [*blocks, *arguments[1:3], *arguments[4:-1]])

    if held != types.uint8:
        copy(held)
        return context.get_dummy_value()
    is_single = builder.icmp_signed("==", size, ir.Constant(_WORD, 4))
    with builder.if_else(is_single) as (single, double):
        with single:
            copy(types.float32)
        with double:
            copy(types.float64)
    return context.get_dummy_value()


def _copy_function(module: Any, name: str, source: Any, target: Any) -> Any:
    """A function of its own: written into its six callers it would be compiled six times."""
    kind = ir.FunctionType(ir.VoidType(), [source, target, *[_WORD] * 8])
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    X, Y, x_width, y_width, first, c, j, d, count, width = function.args

    def constant(number: int) -> Any:
        return ir.Constant(_WORD, number)

    def copy(i: Any, k: Any, lanes: int) -> None:
        from_row = builder.mul(builder.add(first, i), x_width)
        to_row = builder.mul(builder.add(j, i), y_width)
        old, new = (ir.VectorType(pointer.pointee, lanes) for pointer in (source, target))
        from_place = builder.add(from_row, builder.add(c, k))
        x = _loaded(builder, _vector(builder, X, from_place, old))
        x = x if old == new else builder.fpext(x, new)
        to_place = builder.add(to_row, builder.add(d, k))
        builder.store(x, _vector(builder, Y, to_place, new), align=_bytes(new))

    with cgutils.for_range(builder, count) as rows:
        i = rows.index
        narrow = builder.icmp_signed("<", width, constant(8))
        with builder.if_else(narrow) as (few, many):
            with few, cgutils.for_range(builder, width) as columns:
                copy(i, columns.index, 1)
            with many:
                with cgutils.for_range(builder, builder.udiv(width, constant(8))) as columns:
                    copy(i, builder.mul(columns.index, constant(8)), 8)
                copy(i, builder.sub(width, constant(8)), 8)
    builder.ret_void()
    return function


_tile: Any = intrinsic(_typed_tile)
# _copy(X, first, c, Y, j, d, count, width, size) is Y[j : j + count, d : d + width] =
# X[first : first + count, c : c + width], in the precision of Y. `size` is 1; X may be the bytes of
# numbers of that size, so that one kernel does for both precisions.
_copy: Any = intrinsic(_typed_copy)


@inlined()
def _beside(blocks: Any, first: Any, count: Any, to: Any, size: Any) -> None:
    """Rows of three blocks side by side."""
    at = 0
    for b in range(len(blocks)):
        block = blocks[b]
        width = block.shape[1] // size
        _copy(block, first, 0, to, 0, at, count, width, size)
        at += width


@loop()
def _gram(
    lo: int, hi: int,
    V: Any, U: Any, size: Any, rows: Any, some_left: Any, some_right: Any, partial: Any,
) -> None:  # fmt: skip
    n, high, wide = V[0].shape[0], partial.shape[1], partial.shape[2]
    for part in range(lo, hi):
        left, right, total = some_left[part], some_right[part], partial[part]
        for first in range(part * rows, min((part + 1) * rows, n), _TOGETHER):
            count = min(_TOGETHER, n - first)
            _beside(V, first, count, left, size)
            _beside(U, first, count, right, size)
            for r in range(0, high, 8):
                for c in range(0, wide, 16):
                    at = r * wide + c
                    _tile(left, r, high, 1, right, c, wide, count, total, at, wide)


@loop()
def _combined(
    lo: int, hi: int, V: Any, C: Any, rows: Any, lanes: Any, some_left: Any, some_made: Any,
    out: Any, beside: Any,
) -> None:  # fmt: skip
    n, (high, wide) = out.shape[0], C.shape
    a, b = out.shape[1], beside.shape[1]
    for part in range(lo, hi):
        left, made = some_left[part], some_made[part]
        for first in range(part * rows, min((part + 1) * rows, n), _TOGETHER):
            count = min(_TOGETHER, n - first)
            _beside(V, first, count, left, 1)
            for r in range(_TOGETHER):
                for c in range(wide):
                    made[r, c] = 0
            for r in range(0, count, 8):
                for c in range(0, wide, 2 * lanes):
                    _tile(left, r * high, 1, high, C, c, wide, high, made, r * wide + c, wide)
            _copy(made, 0, 0, out, first, 0, count, a, 1)
            _copy(made, 0, a, beside, first, 0, count, b, 1)


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
    parts, high, wide = partial.shape
    # Made here: arrays made in a kernel are slow to compile.
    room = np.zeros((parts, _TOGETHER, high)), np.zeros((parts, _TOGETHER, wide))
    sides = (tuple(X.view(np.uint8) for X in _three(side)) for side in (V, U))
    _gram(parts, n * a * b, *sides, V[0].itemsize, _ROWS, *room, partial)
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
    count = -(-len(out) // _ROWS)
    room = (np.zeros((count, _TOGETHER, width), dtype=dtype) for width in padded.shape)
    _combined(count, len(out) * a * b, _three(V), padded, _ROWS, lanes, *room, out, beside)


# --- Eight points against 32 others: products in vector registers, of which only a bit is written
#
# A product by BLAS writes all numbers to memory, where near pairs are looked for: that
# takes longer than the product. Here sums stay in registers until they are compared with bounds.


TALL, WIDE = 8, 32  # queries and points of a tile


def _shape() -> tuple[int, int]:
    """Numbers of a vector, and queries whose sums fit the registers with those of two vectors."""
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return 16, 8
    return (8, 4) if features.get("avx") else (4, 4)


def _typed_near(
    typing: Any, queries: Any, g: Any, panels: Any, at: Any, d: Any, own: Any, radii: Any,
    lower: Any, upper: Any, p: Any, masks: Any, place: Any,
) -> Any:  # fmt: skip
    word = types.int64
    signature = types.void(
        queries, word, panels, word, word, own, radii, lower, upper, word, masks, word
    )
    return signature, _emit_near


def _emit_near(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    def pointer(k: int, offset: Any) -> Any:
        data = context.make_array(signature.args[k])(context, builder, arguments[k]).data
        return builder.gep(data, [offset])

    def constant(number: int) -> Any:
        return ir.Constant(_WORD, number)

    g, at, d, p, place = (arguments[k] for k in (1, 3, 4, 9, 11))
    first, right = builder.mul(g, constant(TALL)), builder.mul(p, constant(WIDE))
    queries, panels = pointer(0, builder.mul(first, d)), pointer(2, at)
    own, radii, lower, upper = (
        pointer(5, first),
        pointer(6, first),
        pointer(7, right),
        pointer(8, right),
    )
    masks = pointer(10, place)
    lanes, rows = _shape()
    vector = ir.VectorType(ir.FloatType(), lanes)
    zero = ir.Constant(vector, [0.0] * lanes)

    def number(data: Any, row: int) -> Any:
        return builder.load(builder.gep(data, [constant(row)]))

    def both(data: Any, column: int) -> list[Any]:
        places = (constant(column), constant(column + lanes))
        return [_loaded(builder, _vector(builder, data, one, vector)) for one in places]

    found: list[list[Any]] = [[] for _ in range(TALL)]
    for column in range(0, WIDE, 2 * lanes):
        for row in range(0, TALL, rows):
            some = range(row, row + rows)

            def term(c: Any, column: int = column, some: range = some) -> Any:
                points = both(builder.gep(panels, [builder.mul(c, constant(WIDE))]), column)
                query = builder.gep(queries, [c])
                for r in some:
                    yield builder.load(builder.gep(query, [builder.mul(d, constant(r))])), points

            begin = [
                builder.fsub(zero, _everywhere(builder, number(own, r), vector))
                for r in some
                for _ in range(2)
            ]
            sums = iter(_summed(builder, d, begin, term))
            for r in some:  # product - own >= min(lower - radii, upper)
                far = _everywhere(builder, number(radii, r), vector)
                for low, there in zip(both(lower, column), both(upper, column), strict=True):
                    here = builder.fsub(low, far)
                    bound = builder.select(builder.fcmp_ordered("<", here, there), here, there)
                    found[r].append(builder.fcmp_ordered(">=", next(sums), bound))
    for pair in range(TALL // 2):
        word = _packed(builder, found[2 * pair] + found[2 * pair + 1], lanes)
        builder.store(word, builder.gep(masks, [constant(pair)]))
    return context.get_dummy_value()


def _packed(builder: Any, bits: list[Any], lanes: int) -> Any:
    """One word of the bits of vectors."""
    word = ir.Constant(_WORD, 0)
    for n, some in enumerate(bits):
        part = builder.zext(builder.bitcast(some, ir.IntType(lanes)), _WORD)
        word = builder.or_(word, builder.shl(part, ir.Constant(_WORD, n * lanes)))
    return word


# near_tile(queries, g, panels, at, d, own, radii, lower, upper, p, masks, place): eight queries
# from row 8g on, (q, d), with the panel (d, 32) that begins at panels[at]. They are near where
# q·p >= own + min(lower - radii, upper), `own` and `radii` of the queries, `lower` and `upper` of
# the points 32p to 32p + 31. Each word of masks[place : place + 4] has the bits of two rows.
near_tile: Any = intrinsic(_typed_near)


def _lowest_typed(typing: Any, word: Any) -> Any:
    return types.int64(types.uint64), _emit_lowest


def _emit_lowest(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))


lowest_bit: Any = intrinsic(_lowest_typed)
