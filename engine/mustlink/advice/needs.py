"""Memory that the method suggested will take, about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mustlink.advice.observations import Seen
from mustlink.cost.method_cost import Given, Size, home_for
from mustlink.cost.neighbour_graph import SYMMETRIC, knn_plan
from mustlink.cost.process_memory import size_text
from mustlink.estimator import GraphEstimator
from mustlink.names import estimator_of


@dataclass(frozen=True)
class Needs:
    """Bytes at the peak of a fit with all the memory it likes, and the least that works."""

    peak: int
    least: int


def needs(seen: Seen, method: str, parameters: dict[str, Any]) -> Needs:
    """Count bytes as `mustlink plan` does, by what the estimator states, see `GraphEstimator.cost`.

    `parameters` are those suggested.
    """
    estimator: GraphEstimator = estimator_of(method)(**parameters)
    n, cost = seen.n, estimator.cost(seen.count.k)
    if seen.kind != "points":
        size = Size(n, 2 * seen.links.edges)
        least = home_for(None, cost, Given(n, size.nnz)).least
        return Needs(cost.of_given().peak(size, single=False, usual=True), least)
    k = min(estimator.n_neighbors, max(n - 1, 1))
    size, given = Size(n, int(SYMMETRIC * n * k)), Given(n, 0, seen.d, k, n)
    free = knn_plan(n, seen.d, k, None, held=given.points)
    solving = given.points + cost.peak(size, single=False, usual=True)
    return Needs(max(free.peak_bytes, solving), home_for(None, cost, given).least)


def doubt_memory(seen: Seen, need: Needs) -> tuple[str, ...]:
    """One sentence where the memory named does not suffice."""
    if seen.memory is None or need.least <= seen.memory:
        return ()
    return (
        f"memory: {size_text(seen.memory)} given, but the method needs at least "
        f"{size_text(need.least, up=True)}",
    )
