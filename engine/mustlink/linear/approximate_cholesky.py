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

from mustlink.kernels.elimination import eliminate, grounded_product, substitute
from mustlink.operators.laplacian import Block, GroundedLaplacian
from mustlink.space import LocalSpace

_SEED = 0  # of the random trees: part of the method, like a power method's start


class ApproximateCholesky:
    """Fixed symmetric positive map R -> ≈(I − S)⁺R on blocks (m, b), in double precision.

    (I − S) = D^-½LD^-½ with L the Laplacian of W = D^½SD^½ with the ground, D^½ the operator's
    `root_degree`. Components without ground are held at one of their nodes: project on the range.
    Cost: one pass over some nnz/2 entries for each of two substitutions.
    """

    def __init__(self, laplacian: GroundedLaplacian) -> None:
        self.laplacian = laplacian
        S, root = laplacian.edges, laplacian.root_degree
        # A power of two near the largest: squares of roots stay within range.
        self.unit = 2.0 ** np.round(np.log2(float(root.max(initial=1e-300))))
        self.root = root / self.unit
        rows = np.repeat(self.root, np.diff(S.indptr))
        weights = S.data.astype(np.float64) * (self.root[S.indices] * rows)
        self.ground = laplacian.grounding / self.unit**2
        self.factor: Any = eliminate(S.indptr, S.indices, weights, self.ground, _SEED)

    @cached_property
    def space(self) -> LocalSpace:
        """Where its blocks live: all nodes at home."""
        return LocalSpace(self.root.size)

    def __call__(self, R: Block, /) -> Block:
        """Apply to a block (m, b)."""
        Y = np.zeros((self.root.size + 1, R.shape[1]))
        np.multiply(R, self.root[:, None], out=Y[:-1])
        order, starts, rows, shares, pivots = self.factor
        substitute(order, starts, rows, shares, pivots, Y)
        found = Y[:-1] * self.root[:, None]
        return found if R.dtype == np.float64 else found.astype(R.dtype)

    def product(self, X: Block) -> Block:
        """(I − S)X by differences along edges: exact to a share of itself, however small."""
        S = self.laplacian.edges
        F = np.ascontiguousarray(X / self.root[:, None])
        Y = np.empty_like(F)
        grounded_product(S.indptr, S.indices, S.data, self.root, self.ground, F, Y)
        Y /= self.root[:, None]
        return Y

    def heights(self, X: Block) -> NDArray[np.float64]:
        """Largest |f| a column, (b,), f = D^-½x."""
        return np.abs(X / self.root[:, None]).max(axis=0, initial=0.0)

    @property
    def entries(self) -> int:
        """Numbers in the factor."""
        return int(self.factor[3].size)
