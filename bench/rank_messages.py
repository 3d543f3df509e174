"""What comes to one rank of an MPI job: messages and bytes of a cycle and a step of LOBPCG.

Counted as the code sends it. Of the sums over nodes every rank gets the sums of all nodes of the
tree of pieces that somebody knows, see `Division`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_SINGLE, _DOUBLE = 4, 8
_PRODUCTS = 4  # of a cycle of degree 2 on every grid: one before, one residual, two after
_LAST = 7  # on a divided grid that no other follows, of a polynomial of degree 8


@dataclass(frozen=True)
class DividedShape:
    """Rows of others that a rank needs, grid by grid, and sizes of what everybody gets.

    `halos` are those for a product, `members` nodes in aggregates owned here, `beyond` aggregates
    of own nodes; `gathered` are the nodes of the first grid on all ranks that others own, `sums`
    the nodes of the tree. `ends` where no grid is on all ranks.
    """

    ranks: int
    halos: tuple[int, ...]
    members: tuple[int, ...]
    beyond: tuple[int, ...]
    gathered: int
    sums: int
    ends: bool = False

    @classmethod
    def of(cls, grids: Any) -> DividedShape:
        """That of the grids of a rank."""
        divided = [grid for grid in grids.levels if not grid.everywhere]
        ways = [grid.way for grid in divided if grid.way is not None]
        last, space, ends = ways[-1].found, divided[0].space, len(divided) == len(grids.levels)
        return cls(
            space.ranks.count,
            tuple(grid.matrix.halo.size for grid in divided),
            tuple(way.found.halo.size for way in ways),
            tuple(way.halo.size for way in ways if way.halo is not None),
            0 if ends else last.count - last.own,
            len(space.division.nodes),
            ends,
        )


def messages_of_cycle(shape: DividedShape, b: int) -> tuple[int, int]:
    """Messages and bytes of a multigrid cycle on b columns, single precision on the finest grid."""
    items = [_SINGLE] + [_DOUBLE] * (len(shape.halos) - 1)
    products = [_PRODUCTS] * len(shape.halos)
    if shape.ends:
        products[-1] = _LAST
    rows = sum(p * h * item for p, h, item in zip(products, shape.halos, items, strict=True))
    rows += sum(h * item for h, item in zip(shape.members, items, strict=False))
    rows += _DOUBLE * (sum(shape.beyond) + shape.gathered)
    peaks = (shape.ranks - 1) * _DOUBLE
    count = 1 + sum(products) + len(shape.members) + len(shape.beyond) + (not shape.ends)
    return count, (rows + peaks) * b


def messages_of_step(shape: DividedShape, b: int) -> tuple[int, int]:
    """Those of a step of LOBPCG on b columns in single precision, of a connected graph.

    A product, a cycle, and four sums over nodes: squared residuals, what is projected out before
    and after the cycle, and two products of all three blocks with the newest.
    """
    count, size = messages_of_cycle(shape, b)
    sums = 3 * b + 2 * 3 * b * b
    product = shape.halos[0] * _SINGLE * b
    return count + 1 + 4, size + product + sums * shape.sums * _DOUBLE
