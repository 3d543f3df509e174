"""Doubts about what a clusterer is told, before the fit and after it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.observe import Recorder
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.scores import kept_by_kind, satisfaction

Ints = NDArray[np.int64]
# Shares of constraints kept that a person should hear about: on balance, and of one kind.
_LOW, _BROKEN = 0.7, 0.5
_CHANCE = 0.55  # on balance, where 0.5 is what trivial answers keep


def note_doubts(known: Constraints, laplacian: NormalizedLaplacian, recorder: Recorder) -> None:
    """Tell of constraints that contradict each other, and of nodes without an edge."""
    note_contradictions(known, recorder)
    warn_of_lost(int(np.count_nonzero(laplacian.positions[known.nodes] < 0)), recorder)


def note_contradictions(known: Constraints, recorder: Recorder) -> None:
    """Tell of constraints that contradict each other."""
    against = known.as_given.contradictions()
    if against:
        noun = "contradiction" if len(against) == 1 else "contradictions"
        more = f" and {len(against) - 3} more" if len(against) > 3 else ""
        named = "; ".join(str(one) for one in against[:3])
        recorder.warn(
            f"{len(against)} {noun} in the constraints, kept as soft; opposite "
            f"beliefs in one pair cancel: {named}{more}"
        )


def warn_of_lost(lost: int, recorder: Recorder) -> None:
    """Tell of so many constrained nodes without an edge."""
    if lost:
        nodes = "node has" if lost == 1 else "nodes have"
        recorder.warn(f"{lost} constrained {nodes} no edge: their constraints cannot act")


def warn_if_broken(
    labels: Ints, known: Constraints, recorder: Recorder, instead: str = "another method"
) -> dict[str, float] | None:
    """Shares of the constraints that are kept, None without any; a warning where they are few.

    `labels` are of the rows that the constraints were given of.
    """
    if known.is_empty:
        return None
    given = known.as_given
    doubt = doubt_of_kept(labels, given)
    if doubt is not None:
        recorder.warn(
            f"only {doubt}: the graph says otherwise, or they contradict each other; try {instead}"
        )
    return satisfaction(labels, given)


def doubt_of_kept(labels: Ints, known: Constraints) -> str | None:
    """Which shares of the constraints, weighted by belief, are kept, where that says little.

    One of the kinds is mostly broken, both on balance are below 70 %, or a trivial answer keeps
    about as much: of both kinds half on balance, of one kind what clusters of these sizes keep at
    random.
    """
    kinds = kept_by_kind(labels, known)
    kept = {
        f"{kind}-links": row["weight_kept"] / row["weight"]
        for kind, row in kinds.items()
        if row["weight"] > 0
    }
    if not kept:
        return None
    balanced, least = sum(kept.values()) / len(kept), min(kept.values())
    first, *rest = (
        f"{kept[name]:.0%} of the {name}" for name in sorted(kept, key=kept.__getitem__)
    )
    said = f"{first} are kept" + "".join(f", and {other}" for other in rest)
    if len(kept) == 2 and balanced < _CHANCE:
        return f"{said}; one cluster of all nodes, or random ones, keep as much on balance"
    if len(kept) == 1:
        by_chance = _kept_at_random(labels, next(iter(kept)) == "must-links")
        if balanced < 1 and balanced <= by_chance:
            return f"{said}; random clusters of these sizes keep {by_chance:.0%}"
    return said if balanced < _LOW or least < _BROKEN else None


def _kept_at_random(labels: Ints, must: bool) -> float:
    """Expected share of must-links, or cannot-links, that clusters of these sizes keep."""
    clustered = labels[labels >= 0]
    shares = np.bincount(clustered) / max(clustered.size, 1)
    together = float(shares @ shares)
    return together if must else 1.0 - together
