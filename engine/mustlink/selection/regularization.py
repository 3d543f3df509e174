"""How much to add to the degrees of a network: decided by what the clusters tell about its edges.

The normalised cut of a sparse network is least for sets that hang on it by one edge. With enough
added to every degree they are dear, with too much clusters that are there are missed; what is
enough depends on the network. Candidates are cut at moderate sharpness, and the one is taken whose
clusters, as the vectors give them, tell most about the edges (`discretize.cuts.information`).
Measured on 27 networks with known classes: mean ARI .38 and .72 (real, generated), where modularity
takes .36 and .72, conductance .31 and .49, the best candidate of each .42 and .72.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from mustlink.discretize.cuts import ClusterSums
from mustlink.errors import NumericalError
from mustlink.graph.graph import EVEN
from mustlink.space import Block, Space

CANDIDATES = (1.0, 0.3, 0.1, 0.0)
SMOOTH = 0.1  # of a smooth subspace for constraints, beside 0; 0.3 as well was no better
RESTARTS, SAMPLE = 3, 20_000  # of k-means of a candidate
STAGE = "candidate regularisations"
_GIANT = 0.9  # share of the nodes in one cluster
_PROMISED = 0.95  # of what a candidate's clusters told, by the clusters that come of it
_CLEARLY = 1.05  # times what the cut as it is tells of the edges
_ALIKE = 1.005  # times the information of another: the least that is added of those is taken
_MOST = 60  # clusters to compare candidates by: with 100 to 200 blocks ARI was no lower for it


@dataclass(frozen=True)
class RegularizationTried:
    """A candidate: τ, nats that its clusters tell about an edge, share of its largest cluster."""

    tau: float
    information: float
    largest: float


@dataclass(frozen=True)
class Regularization:
    """τ in units of the mean degree, why, and the candidates that were compared."""

    tau: float
    reason: str
    tried: tuple[RegularizationTried, ...] = ()

    @property
    def table(self) -> list[dict[str, float]]:
        """The candidates for a report."""
        return [asdict(one) for one in self.tried]

    def instead(self, nats: float) -> Regularization | None:
        """The best other candidate, where the final clusters tell less than theirs promised.

        Single runs of k-means may be lucky in a view that others disappoint in.
        """
        promised = [one.information for one in self.tried if one.tau == self.tau]
        others = [one for one in self.tried if one.tau != self.tau and one.information > nats]
        if not promised or nats >= _PROMISED * promised[0] or not others:
            return None
        best = max(others, key=lambda one: one.information).tau
        reason = f"{self.reason}; with {self.tau:g} the final ones tell only {nats:.3f}"
        return replace(self, tau=best, reason=reason)


def decided_cut(cuts: Any, wanted: float | str, k: int) -> tuple[Any, Regularization]:
    """The cut into k clusters with `wanted` added to degrees; "auto": by evidence.

    `cuts` are of one graph, wherever it is: `sharp(τ)` the cut as wanted, `judged(τ)` the same
    with `sums`, `trial(τ, k, start)` the sums of rough clusters, None where rows overflow, and a
    start for the next τ; `work` is the home.

    Graphs that are made from points have no nodes that hang on by one edge. Where all nodes have
    about as many edges and weight, as in graphs of neighbours, the cut as it is need only be no
    giant with crumbs; where only the number of edges is about the same, it is the candidate that
    others must beat. Where the final clusters tell less of the edges than their trial, the best
    other candidate is cut as well.
    """
    if wanted != "auto":
        return cuts.sharp(float(wanted)), Regularization(float(wanted), "given")
    look, recorder = cuts.work.look, cuts.work.recorder
    why = "one cluster" if k == 1 else look.plain_of_points or look.plain_if_small
    if why:
        return cuts.sharp(0.0), Regularization(0.0, why)
    plain = None
    if look.even[0]:
        with suppress(NumericalError):  # degrees that differ by more than numbers hold
            plain = cuts.judged(0.0)
        # no giant with crumbs
        whole = plain is not None and plain.sums.largest <= _GIANT and not plain.sums.crumbs
        if plain is not None and whole and look.even[1]:
            why = f"no giant cluster and no crumbs, and {EVEN}"
            return plain, Regularization(0.0, why)
    regular = _best_of(cuts, min(k, _MOST), None if plain is None else plain.sums)
    cut = plain if plain is not None and not regular.tau else cuts.judged(regular.tau)
    if len(regular.tried) < 2:
        return cut, regular
    instead = regular.instead(cut.sums.nats)
    if instead is None:
        return cut, regular
    if recorder.deadline.is_over:
        recorder.skip_for_time(f"regularization: {instead.tau:g} was not tried")
        return cut, regular
    other = plain if plain is not None and not instead.tau else cuts.judged(instead.tau)
    if other.sums.nats <= cut.sums.nats:
        return cut, regular
    recorder.note(f"regularization: {instead.tau:g} after all; {instead.reason}")
    return other, instead


def _best_of(cuts: Any, k: int, plain: ClusterSums | None) -> Regularization:
    """The τ whose clusters tell most; 0 unless another tells clearly more.

    `plain` are those of 0, where it was cut already. Every candidate starts from the vectors of
    the one before.
    """
    recorder, start = cuts.work.recorder, None
    tried: list[RegularizationTried] = []
    for number, tau in enumerate(CANDIDATES):
        if tried and recorder.deadline.is_over:
            left = len(CANDIDATES) - number
            recorder.skip_for_time(f"{left} of {len(CANDIDATES)} regularisations were not tried")
            break
        if tau or plain is None:
            sums, start = cuts.trial(tau, k, start)
        else:
            sums = plain
        found = (-np.inf, 1.0) if sums is None else (sums.nats, sums.largest)
        tried.append(RegularizationTried(tau, *found))

    def rank(one: RegularizationTried) -> float:
        return one.information * (1.0 if one.tau else _CLEARLY)

    enough = max(rank(one) for one in tried) / _ALIKE
    best = min((one for one in tried if rank(one) >= enough), key=lambda one: one.tau)
    table = ", ".join(f"{one.information:.3f} at {one.tau:g}" for one in tried)
    reason = f"what the clusters tell about an edge, in nats: {table}"
    recorder.note(f"regularization: {best.tau:g} of the mean degree; {reason}")
    return Regularization(best.tau, reason, tuple(tried))


def within_range(space: Space, rows: Block) -> bool:
    """Whether squares of rows (n, r) are finite in single precision, wherever they are."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool((space.dots(rows, rows) < np.finfo(np.float32).max).all())
