"""Clusters refined by the degree-corrected block model (Karrer & Newman 2011), from a first guess.

Edges between nodes i and j are taken to weigh d_i d_j Ω_rs on average, r and s their blocks: hubs
are no block of their own, and two blocks may be linked more than either is within itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.core.observe import Recorder
from mustlink.kernels.blocks import normals
from mustlink.operators.protocol import Laplacian
from mustlink.space import Block, Dots, Gram, Vector

Floats = NDArray[np.float64]
Array = NDArray[Any]
_SWEEPS = 15
_SHARES = (0.5, 0.25, 0.125, 0.0625)  # of the improving nodes; half of them hardly ever go too far
_NOISE = 1e-9  # of a node's degree: gains below are rounding


@dataclass(frozen=True, eq=False)
class BlockModel:
    """Blocks (m,) of the nodes of W = D^½SD^½, and the rates that fit these best; in any home.

    B = HᵀWH + 1, κ = Hᵀd + 1, Ω_rs = B_rs/(κ_rκ_s), weights in units of `unit`, the mean weight of
    an edge: as if every block had one more node that is linked to all of these by 1. Nodes of
    block -1 are left out. Cost of a model: a product with W of k columns.
    """

    laplacian: Laplacian
    blocks: Vector
    k: int
    unit: float

    @cached_property
    def _linked(self) -> tuple[Block, Floats, Floats]:
        """SD^½H (m, k), B (k, k) and κ (k,)."""
        space, root, classes = self.laplacian.space, self.laplacian.root_degree, np.arange(self.k)
        scale = self.unit**-0.5

        def rows(own: Array, root: Floats) -> Floats:
            return np.where(own[:, None] == classes, scale * root[:, None], 0.0)

        X = space.rowwise(rows, self.blocks, root)
        SX = self.laplacian.recurrence(X, [(1.0, 0.0, 0.0)])
        between, size = space.sums(Gram(X, SX), Dots(X, X))
        return SX, between + 1.0, size + 1.0

    @cached_property
    def _log_rates(self) -> Floats:
        _, between, size = self._linked
        return np.asarray(np.log(between / np.outer(size, size)))

    @property
    def likelihood(self) -> float:
        """½Σ_rs B_rs log Ω_rs: the log-likelihood of the blocks, their best rates put in."""
        return 0.5 * float(np.vdot(self._linked[1], self._log_rates))

    def _by_gains(self, function: Callable[..., Any], *data: Any) -> Any:
        """What a function makes of rows of gains, blocks, D^½ and data.

        Gains of a node, divided by d_i^½, are those of every block r, all others staying:
        Σ_{j≠i} W_ij log Ω_{r,b_j} + ½W_ii log Ω_rr − d_i Σ_s κ_sΩ_rs.
        """
        laplacian, log_rates = self.laplacian, self._log_rates
        links, between, size = self._linked
        expected, own_rates = between.sum(axis=1) / size, np.diag(log_rates)

        def rows(gain: Floats, own: Array, root: Floats, diagonal: Floats, *data: Array) -> Any:
            root = root * self.unit**-0.5
            gain = gain - root[:, None] * expected
            at = np.flatnonzero(diagonal != 1.0)
            if at.size:  # a node's edge to itself goes along with it
                loops = (root * (1.0 - diagonal))[at, None]
                gain[at] += 0.5 * loops * own_rates
                gain[at] -= np.where(own[at, None] >= 0, loops, 0.0) * log_rates[own[at]]
            return function(gain, own, root, *data)

        gain = laplacian.space.combine(links, log_rates)
        about = self.blocks, laplacian.root_degree, laplacian.diagonal
        return laplacian.space.rowwise(rows, gain, *about, *data)

    def gains(self) -> Block:
        """The gain of every block for every node (m, k), all others staying."""
        return self._by_gains(lambda gain, _, root: root[:, None] * gain)

    def moves(self, held: Vector, possible: NDArray[np.bool_]) -> Vector:
        """The block that a node gains most in, -1 where it stays (m,); `held` (m,) nodes do.

        So do those whose best block is not `possible` (c, k) in their component.
        """

        def rows(gain: Floats, own: Array, root: Floats, held: Array, part: Array) -> Array:
            place, best = np.arange(own.size), gain.argmax(axis=1)
            more = gain[place, best] - gain[place, own] > _NOISE * root
            return np.where((own >= 0) & ~held & more & possible[part, best], best, -1)

        return self._by_gains(rows, held, self.laplacian.null.component)

    def distributions(self, possible: NDArray[np.bool_]) -> Block:
        """How likely every block is for every node (m, k), the others as they are.

        Blocks that are not `possible` (c, k) in a node's component have probability 0.
        """

        def rows(gain: Floats, _: Array, root: Floats, part: Array) -> Floats:
            there = possible[part]
            there = there | ~there.any(axis=1, keepdims=True)
            P = np.where(there, root[:, None] * gain, -np.inf)
            P = np.exp(P - P.max(axis=1, keepdims=True))
            return np.asarray(P / P.sum(axis=1, keepdims=True))

        return self._by_gains(rows, self.laplacian.null.component)


def refine(
    start: BlockModel,
    held: Vector,
    numbers: Vector,
    seed: int,
    *,
    possible: NDArray[np.bool_] | None = None,
    recorder: Recorder | None = None,
) -> BlockModel:
    """Likelier blocks: in a sweep half of the nodes that would gain move, those `held` (m,) never.

    `numbers` (m,) of nodes decide with the seed which half, the same in every home. A node whose
    best block is not `possible` (c, k) in its component, None: all are, does not move. Nodes that
    move at once may be in each other's way: where the likelihood fell, fewer move, and in the end
    none, so that it never falls. At most 15 sweeps, fewer where the `recorder` has a deadline.
    Cost of each: a product of k columns or a few.
    """
    rng, model, space = np.random.default_rng(seed), start, start.laplacian.space
    if possible is None:
        possible = np.ones((start.laplacian.null.n_components, start.k), dtype=np.bool_)
    for _ in range(_SWEEPS):
        to = model.moves(held, possible)
        movers = space.column(space.rowwise(lambda to: (to >= 0) * 1.0, to))
        if space.dots(movers, movers)[0] == 0:
            break
        if recorder is not None and recorder.deadline.is_over:
            recorder.skip_for_time("block model: nodes that would move to likelier clusters stayed")
            break
        for share in _SHARES:
            limit, key = NormalDist().inv_cdf(share), int(rng.integers(2**62))

            def rows(
                own: Array, to: Array, number: Array, limit: float = limit, key: int = key
            ) -> Array:
                return np.where((to >= 0) & (normals(number, 1, key)[:, 0] < limit), to, own)

            trial = replace(model, blocks=space.rowwise(rows, model.blocks, to, numbers))
            if trial.likelihood >= model.likelihood:
                model = trial
                break
        else:
            break
    return model
