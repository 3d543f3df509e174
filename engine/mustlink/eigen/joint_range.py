"""Every feasible cut by what it costs and what it keeps, in the joint numerical range (WD14 §5.2).

J(L̄, Q̄) = {(vᵀL̄v, vᵀQ̄v) : ‖v‖ = 1} (eq. 14) holds all cuts there are. It is convex (Brickman 1961,
n >= 3), so that the leading eigenvector of cosθ·L̄ + sinθ·Q̄ is the point of its boundary that lies
farthest in the direction θ. That is done with small matrices only: those of a smooth subspace or of
a small graph as they are; of a larger problem those in the span of the cuts that were found, where
the boundary is one of a part of J.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.pencil import Pencil, PencilSolution
from mustlink.numeric import dense_algebra
from mustlink.space import Block, Small

Floats = NDArray[np.float64]

DIRECTIONS = 48
_SMALL = 300  # rows of L̄ up to which it is taken as it is: 0.1 s for all directions
_SPAN = 60  # cuts whose span is taken of a larger one
_DEPENDENT = 1e-10  # share of the largest eigenvalue of a Gram matrix that is rounding


@dataclass(frozen=True, eq=False)
class FeasibleCuts:
    """All feasible cuts that are known, ‖v‖² = vol, rising in cost: r of them, `used` first.

    `cost` vᵀL̄v (r,), `alpha` vᵀQ̄v (r,) and `values` λ (r,), with α = β + cost/λ > β (Lemma 1);
    `beta` is WD14's, a multiple of vol. `complete`: no others are feasible. `boundary` (d, 2) goes
    round J, `plain` (q, 2) are L̄'s own vectors but its null space; both are pairs (cost, α) of
    vectors with ‖v‖² = vol, of the `inside`: "all" of L̄, or "found", the span of the cuts, where
    no plain ones are known.
    """

    cost: Floats
    alpha: Floats
    values: Floats
    used: int
    beta: float
    volume: float
    complete: bool
    boundary: Floats
    plain: Floats
    inside: str


def feasible_cuts(pencil: Pencil, found: PencilSolution, used: int) -> FeasibleCuts:
    """What there is to tell of the cuts of a pencil. Cost: some products with L̄ and Q̄ at most."""
    volume = pencil.laplacian.volume
    found = found.cheapest(found.lam.size)
    size = pencil.laplacian.size
    A, B = _inside(pencil, np.eye(size) if size <= _SMALL else _span(pencil, found.vectors))
    plain = np.zeros((0, 2))
    if size <= _SMALL:
        values, X = dense_algebra.eigh(A)
        plain = np.column_stack([values, _forms(B, X)])[pencil.laplacian.null.n_components :]
    return FeasibleCuts(
        found.cost,
        pencil.Q.forms(found.vectors),
        found.lam,
        min(used, found.lam.size),
        pencil.beta * volume,
        volume,
        found.complete,
        volume * boundary(A, B),
        volume * plain,
        "all" if size <= _SMALL else "found",
    )


def boundary(A: Small, B: Small, directions: int = DIRECTIONS) -> Floats:
    """Points (xᵀAx, xᵀBx), ‖x‖ = 1, (d, 2): the farthest of J(A, B) in directions all round.

    A and B (b, b) are symmetric. The directions are even where both are scaled to one size.
    """
    sizes = [max(float(np.abs(M).max(initial=0.0)), 1e-300) for M in (A, B)]
    last, points = len(A) - 1, []
    for theta in np.linspace(0.0, 2.0 * np.pi, directions, endpoint=False):
        C = np.cos(theta) / sizes[0] * A + np.sin(theta) / sizes[1] * B
        X = dense_algebra.eigh(C, subset=(last, last))[1]
        points.append((_forms(A, X)[0], _forms(B, X)[0]))
    return np.array(points)


def _inside(pencil: Pencil, S: Block) -> tuple[Small, Small]:
    """L̄ and Q̄ in an orthonormal basis of span(S), which is never formed."""
    space = pencil.laplacian.space
    g, turn = dense_algebra.eigh(space.gram(S, S))
    kept = g > _DEPENDENT * g.max(initial=0.0)
    C = turn[:, kept] / np.sqrt(g[kept])
    A = C.T @ space.gram(S, pencil.laplacian.apply(S)) @ C
    return (A + A.T) / 2, C.T @ pencil.Q.within(S) @ C


def _span(pencil: Pencil, V: Block) -> Block:
    """The trivial cut D^½1 and the cheapest ones."""
    space, root = pencil.laplacian.space, pencil.laplacian.root_degree
    trivial = space.column(np.asarray(root, dtype=V.dtype))
    return space.stack([trivial, space.columns(V, slice(0, _SPAN))])


def _forms(M: Small, X: Small) -> Floats:
    """Every xᵀMx."""
    return np.asarray((X * (M @ X)).sum(axis=0), dtype=np.float64)
