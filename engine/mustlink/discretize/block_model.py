"""Clusters refined by the degree-corrected block model (Karrer & Newman 2011), from a first guess.

Edges between nodes i and j are taken to weigh d_i d_j Ω_rs on average, r and s their blocks: hubs
are no block of their own, and two blocks may be linked more than either is within itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core.observe import Recorder
from mustlink.kernels.block_moves import best_blocks, block_gains, weights_between
from mustlink.operators.laplacian import NormalizedLaplacian

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_SWEEPS = 15
_SHARES = (0.5, 0.25, 0.125, 0.0625)  # of the improving nodes; half of them hardly ever go too far
_NOISE = 1e-9  # of a node's degree: gains below are rounding


@dataclass(frozen=True, eq=False)
class BlockModel:
    """Blocks (m,) of the nodes of W = D^½SD^½, and the rates that fit these best.

    B = HᵀWH + 1, κ = Hᵀd + 1, Ω_rs = B_rs/(κ_rκ_s), weights in units of the mean weight of an edge:
    as if every block had one more node that is linked to all of these by 1. Nodes of block -1 are
    left out.
    """

    edges: sp.csr_matrix
    root: Floats
    blocks: Ints
    k: int

    @classmethod
    def of(cls, laplacian: NormalizedLaplacian, blocks: Ints, k: int) -> Self:
        """Blocks (m,) of working nodes; their edges in units of the mean weight."""
        count = max(int(np.count_nonzero(laplacian.edges.data)), 1)
        unit = np.sqrt(laplacian.volume / count)
        return cls(laplacian.edges, laplacian.root_degree / unit, blocks.astype(np.int64), k)

    @cached_property
    def _sums(self) -> tuple[Floats, Floats]:
        """B (k, k) and κ (k,)."""
        inside = self.blocks >= 0
        size = np.bincount(self.blocks[inside], self.root[inside] ** 2, self.k).astype(np.float64)
        return weights_between(self.edges, self.root, self.blocks, self.k) + 1.0, size + 1.0

    @cached_property
    def _log_rates(self) -> Floats:
        between, size = self._sums
        return np.asarray(np.log(between / np.outer(size, size)))

    @property
    def _expected(self) -> Floats:
        """Σ_s κ_sΩ_rs: what a node of degree 1 in block r should weigh in all, (k,)."""
        between, size = self._sums
        return np.asarray(between.sum(axis=1) / size)

    @cached_property
    def likelihood(self) -> float:
        """½Σ_rs B_rs log Ω_rs: the log-likelihood of the blocks, their best rates put in."""
        return 0.5 * float(np.vdot(self._sums[0], self._log_rates))

    def best(self) -> tuple[Ints, Floats]:
        """The likeliest block of every node (m,), the others as they are, and the gain."""
        return best_blocks(self.edges, self.root, self.blocks, self._log_rates, self._expected)

    def distributions(self, possible: NDArray[np.bool_] | None = None) -> Floats:
        """How likely every block is for every node (m, k), the others as they are.

        Blocks that are not `possible` (m, k), None: all are, have probability 0.
        """
        P = block_gains(self.edges, self.root, self.blocks, self._log_rates, self._expected)
        if possible is not None:
            P[~possible] = -np.inf
        P -= P.max(axis=1, keepdims=True)
        np.exp(P, out=P)
        P /= P.sum(axis=1, keepdims=True)
        return P


def refine(
    start: BlockModel,
    held: NDArray[np.bool_],
    seed: int,
    *,
    possible: NDArray[np.bool_] | None = None,
    recorder: Recorder | None = None,
) -> BlockModel:
    """Likelier blocks: in a sweep half of the nodes that would gain move, those `held` (m,) never.

    A node whose best block is not `possible` (m, k), None: all are, does not move. Nodes that move
    at once may be in each other's way: where the likelihood fell, fewer move, and in the end none,
    so that it never falls. At most 15 sweeps, fewer where the `recorder` has a deadline.
    Cost of each: O(nnz k), mostly less.
    """
    rng, model = np.random.default_rng(seed), start
    for _ in range(_SWEEPS):
        best, gain = model.best()
        movers = np.flatnonzero((gain > _NOISE * model.root**2) & ~held)
        if possible is not None:
            movers = movers[possible[movers, best[movers]]]
        if movers.size == 0:
            break
        if recorder is not None and recorder.deadline.is_over:
            recorder.skip_for_time("block model: nodes that would move to likelier clusters stayed")
            break
        for share in _SHARES:
            chosen = movers[rng.random(movers.size) < share]
            blocks = model.blocks.copy()
            blocks[chosen] = best[chosen]
            trial = replace(model, blocks=blocks)
            if trial.likelihood >= model.likelihood:
                model = trial
                break
        else:
            break
    return model
