"""What representatives cost, and when "auto" takes them: by points, memory and time."""

from __future__ import annotations

from mustlink.context.method_cost import Cost, FitInput, home_for
from mustlink.context.neighbor_cost import knn_plan
from mustlink.context.rates import neighbour_seconds
from mustlink.core.process_memory import PROGRAM, size_text

USUAL = 1000  # representatives, as in U-SPEC
A_CLUSTER = 20  # representatives at least
NEAREST = 5  # representatives of a row, as in U-SPEC
HELD_BELOW = 1 << 26  # bytes of shares of points in a file up to which they are held
_FEWEST = 20_000  # points of which a graph is made in seconds
_SHARE = 0.4  # of a time limit, beyond which the neighbours of all are too slow
_EDGES = 60  # of a representative, about
_ROW, _BLOCKS = 12, 2 * 10**8  # bytes a row: labels, nearest; of blocks and products


def representatives_for(
    limit: int | None, seconds: float, cost: Cost, given: FitInput, clusters: int
) -> tuple[int | None, str]:
    """How many representatives "auto" takes of points, None: a graph of all rows; and why.

    `limit` is the memory, `seconds` a time limit, infinite without one.
    """
    n = given.n
    p = max(USUAL, A_CLUSTER * clusters)
    if n <= max(_FEWEST, 2 * p):
        return None, f"{n:,} points: a graph of all is made in seconds"
    if limit is not None and home_for(limit, cost, given).name != "memory":
        return p, f"the graph of {n:,} points does not fit into {size_text(limit)}"
    method = knn_plan(n, given.d, given.k, None).method
    about = neighbour_seconds(method, n, given.d, given.k)
    if about > _SHARE * seconds:
        return p, f"neighbours of {n:,} points take about {about:.0f} s of {seconds:.0f} s"
    return None, f"the graph of {n:,} points fits"


def shares_work(n: int, p: int, d: int) -> float:
    """Multiplications, about, of finding the nearest of p representatives of n points."""
    return float(n) * p * (d + 16)


def choosing_work(n: int, p: int, d: int) -> float:
    """The same of choosing them by k-means on a sample."""
    return 10.0 * shares_work(min(n, 10 * p), p, d)


def represented(given: FitInput, p: int) -> FitInput:
    """A fit to the graph of p representatives, with what is held of the n rows beside it.

    Answers of rows that are not held are labels, which are written by blocks.
    """
    n, held = given.n, not given.in_file or 8 * NEAREST * given.n <= HELD_BELOW
    rows = (_ROW + 8 * NEAREST * held) * n + _BLOCKS
    return FitInput(p, _EDGES * p, rows=n * held, beside=given.beside + rows)


def least_memory(given: FitInput, cost: Cost, p: int) -> int:
    """Bytes that a fit with p representatives takes."""
    few = represented(given, p)
    points = 0 if given.in_file else given.points
    return max(PROGRAM + few.beside, few.at_home(cost.of_given())) + points
