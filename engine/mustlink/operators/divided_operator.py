"""A symmetric matrix with its rows on ranks as an operator: a coarse grid's, for example."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.operators.divided_laplacian import DividedMatrix
from mustlink.space.rank_space import RankSpace

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class DividedOperator:
    """A (n, n), symmetric, own rows of which are here."""

    matrix: DividedMatrix

    @property
    def space(self) -> RankSpace:
        """Where its blocks live."""
        return self.matrix.space

    @cached_property
    def diagonal(self) -> NDArray[np.float64]:
        """a_ii of own nodes, (n_local,)."""
        return self.matrix.diagonal()

    def apply(self, X: Array) -> Array:
        """Own rows of AX for a block."""
        return self.matrix.apply(np.ascontiguousarray(X))

    def on_all(self) -> sp.csr_matrix:
        """A on every rank."""
        local, ranks = self.matrix.local, self.space.ranks
        columns = self.matrix.numbers[local.indices].astype(np.int32)
        lengths = ranks.joined(np.diff(local.indptr).astype(np.int64))
        ends = np.concatenate([[0], np.cumsum(lengths)])
        parts = ranks.joined(local.data), ranks.joined(columns), ends
        return sp.csr_matrix(parts, shape=(self.space.size, self.space.size))

    def to_dense(self) -> Array:
        """A as a dense matrix, on every rank."""
        found: Array = self.on_all().toarray()
        return found
