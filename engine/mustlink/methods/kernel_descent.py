"""Step 3 of SSKK: down from a start, by batch steps and by moves of single nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mustlink.deadline import NEVER, Deadline
from mustlink.kernels.kernel_kmeans import (
    Clusters,
    Penalized,
    clusters_of,
    fill_empty,
    lloyd_step,
    sweep,
)
from mustlink.methods.clusterer import Ints


@dataclass(frozen=True, eq=False)
class Descent:
    """A clustering and how it was reached: objective at the start, work done, whether at rest."""

    state: Clusters
    start: float
    steps: int = 0
    moves: int = 0
    sweeps: int = 0
    settled: bool = False

    @property
    def objective(self) -> float:
        """J of the clustering."""
        return objective(self.state)


def objective(state: Clusters) -> float:
    """J = K − Σ_c a_c/s_c with a_c = Σ_{i,j∈c} A'_ij: the penalised normalised cut."""
    return float(state.weight.size - (state.inside / state.weight).sum())


def descend(
    A: Penalized,
    labels: Ints,
    k: int,
    sigmas: Sequence[float],
    max_iter: int,
    deadline: Deadline = NEVER,
) -> Descent:
    """From a start (m,) down to a clustering that no batch step and no single move improves.

    A cluster that is empty in the start first gets the one node that J gains most by. J falls in
    every step, so that what is there at the `deadline` is the best.
    """
    state = clusters_of(A, labels, k)
    if fill_empty(A, state):
        state = clusters_of(A, state.labels, k)
    found = Descent(state, objective(state))
    for sigma in sigmas:
        found = lloyd(A, found, sigma, max_iter, deadline)
    return local_search(A, found, max_iter, deadline)


def lloyd(
    A: Penalized, found: Descent, sigma: float, max_iter: int, deadline: Deadline = NEVER
) -> Descent:
    """Batch steps with one shift (Kulis et al. 2005, SS-Kernel-KMeans) while J falls.

    With a shift that makes the kernel positive semidefinite no step can raise J.
    """
    while found.steps < max_iter and not deadline.is_over:
        nearest = lloyd_step(A, found.state, sigma)
        if np.array_equal(nearest, found.state.labels):
            break
        state = clusters_of(A, nearest, found.state.weight.size)
        if not objective(state) < found.objective:
            break
        found = replace(found, state=state, steps=found.steps + 1)
    return found


def local_search(
    A: Penalized, found: Descent, max_iter: int, deadline: Deadline = NEVER
) -> Descent:
    """Single moves until none helps (Dhillon, Guan & Kulis 2007, local search, chains of one).

    Nodes are looked at again when a neighbour has moved; all of them, with totals computed anew,
    before the end is declared.
    """
    k = found.state.weight.size
    moves, sweeps, settled = found.moves, 0, False
    state = clusters_of(A, found.state.labels, k)
    awake = np.zeros(state.labels.size, dtype=np.uint8)
    while sweeps < max_iter and not settled and not deadline.is_over:
        moved = sweep(A, state, awake, every=True)
        moves, sweeps, settled = moves + moved, sweeps + 1, moved == 0
        while moved and sweeps < max_iter and not deadline.is_over:
            moved = sweep(A, state, awake, every=False)
            moves, sweeps = moves + moved, sweeps + 1
        state = clusters_of(A, state.labels, k)
    return replace(found, state=state, moves=moves, sweeps=sweeps, settled=settled)
