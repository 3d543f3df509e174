"""The V-cycle and its Chebyshev smoother, for grids of any kind; what the smoother asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mustlink.space import Block, Space

_EXTREME = 40  # powers of two of a column's peak, up to which the numbers of a cycle are sound
_TOGETHER = 32  # columns in one cycle, which holds about three blocks as wide at a time
_COLUMNS = 3  # of a power method: one vector may miss what a pair of nodes far from all has


class GridTransfer(Protocol):
    """The way from a grid to the next coarser one, which may live in another space."""

    def down(self, R: Block) -> Block:
        """PᵀR, on the coarser grid, in double precision."""

    def lift(self, X: Block, C: Block) -> None:
        """In place X += PC, from the coarser grid."""


class Grid(Protocol):
    """One grid of a multigrid: a matrix A with a diagonal D, and the `way` to the next coarser one.

    Blocks (n, b) are in `dtype`: single precision on the finest, double on all others. There a step
    C += M(R − AC) would blow the rounding of C up by as much as M does weak links: 10⁷ and more.
    """

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of its blocks."""

    @property
    def space(self) -> Space:
        """Where its blocks live."""

    @property
    def interval(self) -> tuple[float, float]:
        """Eigenvalues of D⁻¹A, (low, high), that the smoother damps: coarser grids miss them."""

    @property
    def way(self) -> GridTransfer | None:
        """The way to the next coarser grid; None on the last one."""

    def first(self, B: Block, new: float) -> Block:
        """new·D⁻¹B."""

    def relax(self, B: Block, X: Block, step: Block | None, old: float, new: float) -> Block:
        """X + step after step = old·step + new·D⁻¹(B − AX); `step` is changed, None for 0."""

    def residual(self, B: Block, X: Block) -> Block:
        """B − AX."""

    def solve(self, B: Block) -> Block | None:
        """A⁻¹B on the last grid, where it is known."""


@dataclass(frozen=True, eq=False)
class Cycle:
    """A multigrid cycle with Chebyshev smoothing: a fixed symmetric positive map B -> ≈A⁻¹B.

    `visits` of a coarse grid are steps C += M(R − AC), M the cycle from there on. With an odd
    number v of them 1 − (1 − t)^v > 0 for every eigenvalue t > 0 of MA: the map stays positive.
    Cost on the fine grid: 2·degree products with a block in single precision.
    """

    grids: tuple[Grid, ...]
    degree: int
    visits: int

    @cached_property
    def space(self) -> Space:
        return self.grids[0].space

    def __call__(self, B: Block, /) -> Block:
        """Apply to a block (m, b), in its precision; columns do not disturb each other."""
        space, own = self.space, self.grids[0].dtype
        _, power = np.frexp(space.peaks(B))
        size, inverse = np.exp2(power), np.exp2(-power)  # powers of two: nothing is rounded
        every = np.arange(B.shape[1])
        if 0 < every.size <= _TOGETHER and B.dtype == own:
            if np.abs(power).max() < _EXTREME:
                return self._descend(0, B)
            unit = space.copy(B)
            space.blend(unit, inverse)
            result = self._descend(0, unit)
            space.blend(result, size)
            return result
        result = space.zeros(B.shape[1], B.dtype)
        for first in range(0, B.shape[1], _TOGETHER):
            part = every[first : first + _TOGETHER]
            unit = space.rowwise(_scaled(part, inverse[part], own), B)
            space.blend(result, 0.0, (self._descend(0, unit), size[part]), columns=part)
        return result

    def _descend(self, index: int, B: Block) -> Block:
        grid = self.grids[index]
        way = grid.way
        if way is None:
            exact = grid.solve(B)
            return chebyshev(grid, B, None, 4 * self.degree) if exact is None else exact
        X = chebyshev(grid, B, None, self.degree)
        R = way.down(grid.residual(B, X))
        C = self._descend(index + 1, R)
        coarser = self.grids[index + 1]
        for _ in range(0 if coarser.way is None else self.visits - 1):  # the last is solved
            coarser.space.blend(C, 1.0, (self._descend(index + 1, coarser.residual(R, C)), 1.0))
        way.lift(X, C)
        return chebyshev(grid, B, X, self.degree)


def chebyshev(grid: Grid, B: Block, X: Block | None, degree: int) -> Block:
    """`degree` steps of Chebyshev iteration for AX = B over the grid's interval, from X or 0.

    Source: Saad 2003, Alg. 12.1.
    """
    low, high = grid.interval
    centre, half = (high + low) / 2, (high - low) / 2
    sigma = centre / half
    rho = 1 / sigma
    if degree == 1:
        new = 1 / centre
        return grid.first(B, new) if X is None else grid.relax(B, X, None, 0.0, new)
    if X is None:
        step = grid.first(B, 1 / centre)
        X = grid.space.copy(step)
    else:
        step = grid.space.zeros(B.shape[1], B.dtype)
        X = grid.relax(B, X, step, 0.0, 1 / centre)
    for _ in range(1, degree):
        following = 1 / (2 * sigma - rho)
        X = grid.relax(B, X, step, following * rho, 2 * following / half)
        rho = following
    return X


def _scaled(part: NDArray[np.int64], by: NDArray[np.float64], dtype: np.dtype[Any]) -> Any:
    """Columns of rows, scaled and in the precision of a grid."""
    chosen = slice(int(part[0]), int(part[-1]) + 1)

    def rows(B: NDArray[Any]) -> NDArray[Any]:
        result = np.empty((len(B), part.size), dtype=dtype)
        np.multiply(B[:, chosen], by, out=result, casting="same_kind")
        return result

    return rows


def largest_eigenvalue(
    apply: Callable[[Block], Block], space: Space, steps: int, *, dtype: Any = np.float64
) -> float:
    """λ_max from below, by so many steps of the power method on three keyed random vectors.

    0 for a map that is 0. Cost: `steps` products with a block (n, 3).
    """
    X = space.copy(space.normals(_COLUMNS, 0), dtype)
    length = space.norms(X)
    for _ in range(steps):
        space.blend(X, 1.0 / np.maximum(length, 1e-30))
        X = apply(X)
        length = space.norms(X)
    return float(length.max())
