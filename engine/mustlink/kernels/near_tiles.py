"""Eight points against 32 others: products in vector registers, of which only a bit is written.

A product by BLAS writes all numbers to memory, where those who are near are looked for: that takes
longer than the product. Here sums stay in registers until they are compared with their bounds.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba.core import types
from numba.extending import intrinsic

TALL, WIDE = 8, 32  # queries and points of a tile
_WORD, _LANE, _BIT = ir.IntType(64), ir.IntType(32), ir.IntType(1)
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
    tall, wide = ir.Constant(_WORD, TALL), ir.Constant(_WORD, WIDE)
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
        word = ir.Constant(_WORD, 0)
        for n, bits in enumerate(found[2 * pair] + found[2 * pair + 1]):
            part = builder.zext(builder.bitcast(bits, ir.IntType(lanes)), _WORD)
            word = builder.or_(word, builder.shl(part, ir.Constant(_WORD, n * lanes)))
        builder.store(word, builder.gep(masks, [ir.Constant(_WORD, pair)]))
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
        x = builder.load(builder.gep(data, [ir.Constant(_WORD, place)]))
        nowhere = ir.Constant(self.vector, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(_LANE, self.lanes), [0] * self.lanes)
        x = builder.insert_element(nowhere, x, ir.Constant(_LANE, 0))
        return builder.shuffle_vector(x, nowhere, everywhere)

    def numbers(self, data: Any, v: int) -> Any:
        """One of two vectors of numbers that follow each other."""
        place = ir.Constant(_WORD, self.column + v * self.lanes)
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
        c, sums = builder.phi(_WORD), [builder.phi(self.vector) for _ in begin]
        queries = builder.gep(self.queries, [c])
        panels = builder.gep(self.panels, [builder.mul(c, ir.Constant(_WORD, WIDE))])
        both = [self.numbers(panels, v) for v in range(2)]
        found = []
        for r in range(self.rows):
            row = builder.mul(d, ir.Constant(_WORD, self.row + r))
            q = self.number(builder.gep(queries, [row]), 0)
            for v in range(2):
                term = builder.fmul(q, both[v], flags=["contract"])
                found.append(builder.fadd(sums[2 * r + v], term, flags=["contract"]))
        following = builder.add(c, ir.Constant(_WORD, 1))
        builder.cbranch(builder.icmp_signed("<", following, d), body, done)
        c.add_incoming(ir.Constant(_WORD, 0), before)
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
