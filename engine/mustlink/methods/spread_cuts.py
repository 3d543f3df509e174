"""Algorithm 1 of FLI11 where the rows of W are on disk or on ranks, as `PropagatedConstraints`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.eigen.work import Work
from mustlink.lyapunov.pairs_by_regions import SpreadPairs, spread_pairs
from mustlink.lyapunov.regions import SpreadRows
from mustlink.lyapunov.sources import Sources, sources_at
from mustlink.methods.candidate_cuts import BestCut
from mustlink.methods.doubts import note_contradictions, warn_of_lost
from mustlink.methods.moved_rows import Moves

Ints = NDArray[np.int64]


class Adjusted(Protocol):
    """The graph moved by F, wherever its rows are."""

    @abstractmethod
    def cuts(self, moves: Moves, variants: Sequence[str]) -> Iterator[tuple[Any, Ints, float]]:
        """A cut of W* by each variant, its clusters of all nodes (n,) and their MNCut in W."""


def spread_on(
    work: Work,
    rows: SpreadRows,
    known: Constraints,
    problem: Any,
    new_edges: int,
    tol: float,
    spread: Callable[..., SpreadPairs] = spread_pairs,
) -> SpreadPairs:
    """Steps 2 and 3: F by `spread` of `problem(laplacian, Y)`. Raises InputError."""
    places = np.asarray(work.places(known.nodes), dtype=np.int64)
    lost = int(np.count_nonzero(places < 0))
    note_contradictions(known, work.recorder)
    warn_of_lost(lost, work.recorder)
    order = np.argsort(places)[lost:]
    Y: Sources = sources_at(known, known.nodes[order])
    return spread(
        rows,
        problem(work.laplacian, Y),
        places[order],
        work.recorder,
        new_edges=new_edges,
        tol=tol,
    )


def best_of_cuts(
    adjusted: Adjusted,
    moves: Moves,
    known: Constraints,
    powers: Sequence[float],
    variants: Sequence[str],
    recorder: Any,
) -> BestCut[Any]:
    """Steps 4 and 5 for several powers of F and variants: the cut that keeps most constraints."""
    cuts: BestCut[Any] = BestCut(known)
    for power in powers:
        if cuts.tried and recorder.deadline.is_over:
            left = len(powers) * len(variants) - len(cuts.tried)
            recorder.leave_out(f"{left} of the graph's cuts were not tried")
            break
        made = adjusted.cuts(replace(moves, power=power), variants)
        for variant, (cut, clusters, cost) in zip(variants, made, strict=True):
            cuts.offer((cut, power, variant), power, variant, clusters, cost)
    return cuts
