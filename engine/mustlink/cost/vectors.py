"""What the stages after the graph take at their peak, and what is changed to stay within a memory.

Counts of the arrays that live at the same time, checked against measured peaks (`bench/memory.py
--plan`).
"""

from __future__ import annotations

from collections.abc import Callable

from mustlink.cost.resident import PROGRAM, size_text
from mustlink.errors import InputError

RESERVE = 130 * 10**6  # bytes that compiling kernels takes at their first use, the first time ever
_BLOCKS = 7.5  # of LOBPCG at its peak: X, P, W, their products, and one that is being made
_USUAL_BLOCKS = 6.5  # where a nested start leaves it a step or two
_PROPAGATED = 10  # the same of conjugate gradients, with the distributions
_FACTORS = 120 * 10**6  # bytes of the propagation at least, however few constraints
_NEW_EDGES = 1.1  # stored weights of a graph after and before new edges; more for many pairs
_PER_NODE = 80  # bytes: order, degrees, components, grids
_GUARD = 1.2  # columns computed for one that is wanted, see `eigen.nested.guard`
_LEAST_GUARD = 3

Needs = Callable[..., int]


def entry_bytes(single: bool) -> int:
    """Bytes of a stored number."""
    return 4 if single else 8


def graph_bytes(n: int, nnz: int, stored: int = 8) -> int:
    """W as CSR with indices of 4 bytes and weights of `stored`."""
    return nnz * (4 + stored) + 4 * n


def operator_bytes(n: int, nnz: int, *, single: bool, stored: int = 8) -> int:
    """W and S, with S in single precision beside it for the grids, and what there is per node."""
    S = nnz * (8 if single else 16)
    return graph_bytes(n, nnz, stored) + S + _PER_NODE * n


def eigen_bytes(
    n: int, nnz: int, columns: int, *, single: bool, stored: int = 8, usual: bool = False
) -> int:
    """Peak of the process while `columns` eigenvectors of L̄ are computed; at most, or as a rule."""
    width = max(columns + _LEAST_GUARD, int(_GUARD * columns))
    blocks = int((_USUAL_BLOCKS if usual else _BLOCKS) * width * n * entry_bytes(single))
    return PROGRAM + operator_bytes(n, nnz, single=single, stored=stored) + blocks


def propagation_bytes(
    n: int, nnz: int, columns: int, *, single: bool, stored: int = 8, usual: bool = False
) -> int:
    """Peak of the process while equations for `columns` classes are solved, in double precision."""
    blocks = _PROPAGATED * columns * n * 8
    return PROGRAM + operator_bytes(n, nnz, single=single, stored=stored) + blocks


def spread_bytes(
    n: int, nnz: int, columns: int, *, single: bool, stored: int = 8, usual: bool = False
) -> int:
    """Peak of the process while a graph adjusted by spread constraints is cut.

    The graph and F on its edges stay beside the adjusted one, which has some edges more.
    """
    more = int(_NEW_EDGES * nnz)
    adjusted = operator_bytes(n, more, single=single, stored=entry_bytes(single))
    cut = eigen_bytes(n, nnz, columns, single=single, stored=stored, usual=usual)
    return cut + 8 * nnz + adjusted + _FACTORS


def wants_single(
    n: int, nnz: int, columns: int, memory: int | None, needs: Needs = eigen_bytes
) -> bool:
    """Whether what is held in double precision would not fit; `needs` counts the bytes."""
    return memory is not None and needs(n, nnz, columns, single=False) + RESERVE > memory


def most_columns(n: int, nnz: int, memory: int, *, single: bool, stored: int = 8) -> int:
    """Eigenvectors that fit; 0 or less where none do."""
    room = memory - RESERVE - PROGRAM - operator_bytes(n, nnz, single=single, stored=stored)
    width = room / (_BLOCKS * n * entry_bytes(single))
    return int(min(width - _LEAST_GUARD, width / _GUARD))


def check_columns(
    n: int,
    nnz: int,
    columns: int,
    memory: int,
    *,
    single: bool,
    stored: int,
    needs: Needs = eigen_bytes,
) -> None:
    """Raise InputError where not even `columns` vectors fit, with the least that does."""
    least = needs(n, nnz, columns, single=single, stored=stored) + RESERVE
    if least > memory:
        raise InputError(
            f"memory: {size_text(memory)} given, but {columns} vectors of {n} nodes with "
            f"{nnz} weights need {size_text(least, up=True)}"
        )
