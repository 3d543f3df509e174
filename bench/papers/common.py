"""What the reproductions share: draws of side information, figures of many draws.

A reproduction is a module with `DRAWS`, how many random draws it makes (`PAPER_DRAWS` where the
paper made more), `tasks(draws)`, and `report(draws, found)` of what the tasks found.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from .methods import Score

# ---------------------------------------------------------------- side information


def known_labels(y: Any, percent: float, order: Any) -> Any:
    """Labels (n,), -1 except for the first `percent` % of the nodes in `order`.

    A larger share of the same order contains the smaller, as WHC11 §4.3 enlarges its sets.
    """
    import numpy as np

    given = np.full(len(y), -1, dtype=np.int64)
    chosen = order[: round(percent * len(y) / 100)]
    given[chosen] = y[chosen]
    return given


def all_pairs(labels: Any) -> Any:
    """Constraints: every pair of labelled nodes, as pairs (so that Q_ii = 0, as in the papers)."""
    import numpy as np

    import mustlink as ml

    nodes = np.flatnonzero(labels >= 0)
    if nodes.size < 2:
        return None
    first, second = np.triu_indices(nodes.size, 1)
    pairs = np.column_stack([nodes[first], nodes[second]])
    belief = np.where(labels[pairs[:, 0]] == labels[pairs[:, 1]], 1.0, -1.0)
    return ml.Constraints.from_pairs(pairs, belief=belief, n_nodes=labels.size)


def distinct_pairs(n: int, m: int, rng: Any, wanted: Any = None) -> Any:
    """Return m random unordered pairs (m, 2) of distinct nodes; fewer if there are no more.

    `wanted`, of pairs (m, 2), says which ones may be drawn.
    """
    import numpy as np

    found = np.empty((0, 2), dtype=np.int64)
    for _ in range(10_000):
        ends = np.sort(rng.integers(n, size=(2 * m, 2)), axis=1)
        ends = ends[ends[:, 0] != ends[:, 1]]
        if wanted is not None:
            ends = ends[wanted(ends)]
        both = np.concatenate([found, ends])
        _, first = np.unique(both, axis=0, return_index=True)
        found = both[np.sort(first)]
        if len(found) >= m:
            break
    return found[:m]


def truth_pairs(y: Any, pairs: Any) -> Any:
    """Constraints: the given pairs (m, 2) with their relation by the classes y."""
    import numpy as np

    import mustlink as ml

    belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)
    return ml.Constraints.from_pairs(pairs, belief=belief, n_nodes=len(y))


def entailed_pairs(y: Any, pairs: Any) -> Any:
    """Constraints: pairs (m, 2) of two classes, and all that follows from them.

    In two classes that is every pair of nodes between which some of the pairs lead.
    """
    import numpy as np
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    n = len(y)
    linked = coo_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    _, group = connected_components(linked, directed=False)
    first, second = np.triu_indices(n, 1)
    known = group[first] == group[second]
    return truth_pairs(y, np.column_stack([first[known], second[known]]))


# ---------------------------------------------------------------- figures of many draws


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of the values that are there, None without any."""
    there = [v for v in values if v is not None]
    return statistics.fmean(there) if there else None


def spread(values: Iterable[float | None]) -> str | None:
    """Mean (least-most); the number alone if all are the same."""
    there = [v for v in values if v is not None]
    if not there:
        return None
    if max(there) - min(there) < 5e-4:
        return f"{there[0]:.3f}"
    return f"{statistics.fmean(there):.3f} ({min(there):.3f}-{max(there):.3f})"


def column(scores: Iterable[Score], name: str) -> list[float]:
    """One score of many fits, without the fits that ended with an error."""
    return [s[name] for s in scores if name in s]


def compared(paper: float | None, ours: float | None, digits: int = 3) -> str:
    """Paper / ours / difference in one cell; a dash for what is not there."""

    def told(value: float | None, form: str) -> str:
        return "–" if value is None else f"{value:{form}}"

    difference = None if paper is None or ours is None else ours - paper
    shown = told(difference, f"+.{digits}f")
    return f"{told(paper, f'.{digits}f')} / {told(ours, f'.{digits}f')} / {shown}"


def error_lines(scores: Iterable[tuple[str, Score]]) -> list[str]:
    """How many fits of a method ended with an error, and the first reason."""
    reasons: dict[str, list[str]] = {}
    for name, found in scores:
        if "error" in found:
            reasons.setdefault(name, []).append(found["error"])
    lines = [f"No result, {name}: {len(all_)} fits, such as “{all_[0]}”." for name, all_ in
             reasons.items()]  # fmt: skip
    return lines
