"""A preconditioner for weights of any range: approximate elimination of the graph's nodes.

Multigrid with aggregates and single precision loses what hangs together by weights 10⁻⁹ times as
large as others: its steps are then counted in hundreds, if they converge at all. The factors of
an elimination that adds positive numbers only lose nothing, and conjugate gradients take 20 to 30
steps to 1e-9 whatever the weights. They cost several times a multigrid to make, and no threads
share the work, so that they come second.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.method_cost import factor_bytes
from mustlink.kernels.elimination import eliminate, grounded_product, substitute
from mustlink.operators.grounded_laplacian import Block, GroundedLaplacian
from mustlink.operators.null_space import NullSpace
from mustlink.space import LocalSpace

_SEED = 0  # of the random trees: part of the method, like a power method's start


def elimination_bytes(laplacian: GroundedLaplacian, columns: int) -> float:
    """What making it and so many columns take at their peak: 70 bytes an edge, 100 a node."""
    return factor_bytes(laplacian.size, laplacian.n_entries, columns)


class ApproximateCholesky:
    """Fixed symmetric positive map R -> ≈A⁺R on blocks (m, b), A = T⁻¹LT⁻¹, in double precision.

    L is the Laplacian of W = D^½SD^½ with the ground, D^½ the operator's `root_degree`, and T is
    D^½ rounded to powers of two: A is I − S up to factors between 1/2 and 2, and what is constant
    on the nodes stays so to the last digit. `enter` and `leave` lead from I − S to A and back.
    Components without ground are held at one of their nodes: project on the range. Cost: one pass
    over some nnz/2 entries for each of two substitutions.
    """

    def __init__(self, laplacian: GroundedLaplacian) -> None:
        S, root = laplacian.edges, laplacian.root_degree
        there = np.where(root > 0, root, 1.0)  # nodes that were taken out have no edge
        self.unit = np.ldexp(1.0, np.round(np.log2(there)).astype(np.int64))
        self.ratio = root / self.unit
        self.matrix = S
        rows = np.repeat(root, np.diff(S.indptr))
        weights = S.data.astype(np.float64) * (root[S.indices] * rows)
        self.root, self.ground = root, laplacian.grounding
        self.factor: Any = eliminate(S.indptr, S.indices, weights, self.ground, _SEED)

    @cached_property
    def space(self) -> LocalSpace:
        """Where its blocks live: all nodes at home."""
        return LocalSpace(self.root.size)

    def __call__(self, R: Block, /) -> Block:
        """Apply to a block (m, b)."""
        Y = np.zeros((self.unit.size + 1, R.shape[1]))
        np.multiply(R, self.unit[:, None], out=Y[:-1])
        order, starts, rows, shares, pivots = self.factor
        substitute(order, starts, rows, shares, pivots, Y)
        return Y[:-1] * self.unit[:, None]

    def product(self, X: Block) -> Block:
        """AX by differences along edges: exact to a share of itself, however small."""
        S = self.matrix
        F = np.ascontiguousarray(X / self.unit[:, None])
        Y = np.empty_like(F)
        grounded_product(S.indptr, S.indices, S.data, self.root, self.ground, F, Y)
        Y /= self.unit[:, None]
        return Y

    def enter(self, B: Block) -> Block:
        """The right side of AY = … for that of (I − S)X = B."""
        return B * self.ratio[:, None]

    def leave(self, Y: Block) -> Block:
        """The solution X of a solution Y."""
        return Y * self.ratio[:, None]

    def null(self, component: NDArray[np.integer[Any]], count: int) -> NullSpace:
        """The null space of A without ground, T1 on every component."""
        return NullSpace.of_components(component, self.unit, count)

    def heights(self, X: Block) -> NDArray[np.float64]:
        """Largest |f| a column, (b,), f = T⁻¹x."""
        found: NDArray[np.float64] = np.abs(X / self.unit[:, None]).max(axis=0, initial=0.0)
        return found

    @property
    def entries(self) -> int:
        """Numbers in the factor."""
        return int(self.factor[3].size)
