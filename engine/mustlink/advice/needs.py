"""Memory that the method suggested will take, about."""

from __future__ import annotations

from dataclasses import dataclass

from mustlink.advice.observations import Seen
from mustlink.cost.neighbour_search import knn_plan
from mustlink.cost.resident import size_text
from mustlink.cost.vectors import RESERVE, eigen_bytes, propagation_bytes, spread_bytes
from mustlink.neighbours.knn import BRUTE_WORK

_NEIGHBORS = {"SRCP": 20, "E2CP": 20}
_USUAL_NEIGHBORS = 15
_SYMMETRIC = 1.25  # stored weights for one neighbour asked for
_SMOOTH = 4  # times K smooth vectors of most constrained methods
_PLAIN = ("NCut", "SRCP", "E2CP", "CSCGFHF", "SSKK")  # K of them
_PROPAGATORS = ("Poisson", "GFHF", "LLGC", "LELP")


@dataclass(frozen=True)
class Needs:
    """Bytes at the peak of a fit with all the memory it likes, and the least that works."""

    peak: int
    least: int


def needs(seen: Seen, method: str) -> Needs:
    """Count bytes as `mustlink plan` does; see `mustlink.cost.vectors`."""
    n, k = seen.n, seen.count.k
    columns = k if method in (*_PLAIN, *_PROPAGATORS) else _SMOOTH * k
    count = eigen_bytes
    if method in _PROPAGATORS:
        count = propagation_bytes
    elif method in ("SRCP", "E2CP"):
        count = spread_bytes
    if seen.kind != "points":
        nnz = 2 * seen.links.edges
        return Needs(
            count(n, nnz, columns, single=False, usual=True),
            count(n, nnz, k, single=True) + RESERVE,
        )
    neighbours = min(_NEIGHBORS.get(method, _USUAL_NEIGHBORS), max(n - 1, 1))
    nnz = int(_SYMMETRIC * n * neighbours)
    held = 4 * n * seen.d
    small = n**2 * (seen.d + 130.0) <= BRUTE_WORK or neighbours >= n // 4
    free = knn_plan(n, seen.d, neighbours, None, held=held, small=small)
    tight = knn_plan(n, seen.d, neighbours, None, by_rows=True)
    solving = held + count(n, nnz, columns, single=False, usual=True)
    least = count(n, nnz, k, single=True) + RESERVE
    return Needs(max(free.peak_bytes, solving), max(least, tight.least))


def doubt_memory(seen: Seen, need: Needs) -> tuple[str, ...]:
    """One sentence where the memory named does not suffice."""
    if seen.memory is None or need.least <= seen.memory:
        return ()
    return (
        f"memory: {size_text(seen.memory)} given, but the method needs at least "
        f"{size_text(need.least, up=True)}",
    )
