"""The null space of a Laplacian, one vector per component, never dense."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.space import Block, GroupSums, LocalSpace, Small, Space, Vector


@dataclass(frozen=True, eq=False)
class NullSpace:
    """Z (m, c): orthonormal null vectors D^½1_c/√vol_c of L̄, `component` (m,) and `weight` (m,).

    Row i has its one entry `weight[i]` in column `component[i]`. `place` is the space of its
    blocks, None for nodes in memory.
    """

    component: Vector
    weight: Vector
    n_components: int
    place: Space | None = None

    @classmethod
    def empty(cls, size: int, place: Space | None = None) -> NullSpace:
        """That of a positive definite matrix."""
        return cls(np.zeros(size, dtype=np.int32), np.zeros(size), 0, place)

    @classmethod
    def of_components(
        cls, component: NDArray[np.integer[Any]], root: NDArray[np.float64], count: int
    ) -> NullSpace:
        """D^½1_c/√vol_c of `count` components (m,) of nodes in memory, `root` (m,) being D^½1."""
        volumes = np.bincount(component, weights=root**2, minlength=count)
        return cls(component, root / np.sqrt(volumes[component]), count)

    @cached_property
    def space(self) -> Space:
        """Where its blocks live."""
        return LocalSpace(self.weight.size) if self.place is None else self.place

    def coefficients(self, X: Block) -> Small:
        """ZᵀX, (c, b)."""
        if self.n_components == 0:
            return np.zeros((0, X.shape[1]))
        if self.n_components == 1:
            return self.space.gram(self.space.column(self.weight), X)
        return self.space.sums(GroupSums(X, self.component, self.n_components, self.weight))[0]

    def expand(self, A: Small, dtype: Any = np.float64) -> Block:
        """ZA, (m, b), for A (c, b)."""
        if self.n_components == 0:
            return self.space.zeros(A.shape[1], dtype)
        return self.space.spread(A, self.component, self.weight, dtype)

    def project(self, X: Block) -> Block:
        """X − ZZᵀX: the part of a block that is orthogonal to the null space."""
        if self.n_components == 0:
            return X
        A = self.coefficients(X)
        if self.n_components == 1:
            return self.space.without(X, self.weight, A[0])
        result = self.expand(-A, X.dtype)
        self.space.blend(result, 1.0, (X, 1.0))
        return result

    def columns(self, which: NDArray[np.integer[Any]]) -> Block:
        """Selected null vectors as a dense block (m, len(which))."""
        chosen = np.zeros((self.n_components, len(which)))
        chosen[which, np.arange(len(which))] = 1.0
        return self.expand(chosen)

    def rows(self, nodes: NDArray[np.integer[Any]]) -> sp.csr_matrix:
        """Z on a few nodes, (len(nodes), c) CSR."""
        if self.n_components == 0:
            return sp.csr_matrix((len(nodes), 0))
        component = self.space.take(self.space.column(self.component), nodes)[:, 0]
        weight = self.space.take(self.space.column(self.weight), nodes)[:, 0]
        ends = np.arange(len(nodes) + 1)
        return sp.csr_matrix((weight, component, ends), shape=(len(nodes), self.n_components))

    @cached_property
    def matrix(self) -> sp.csr_matrix:
        """Z as CSR, one entry a row; of nodes in memory only."""
        m = self.component.size
        if self.n_components == 0:
            return sp.csr_matrix((m, 0))
        return sp.csr_matrix(
            (self.weight, self.component, np.arange(m + 1)), shape=(m, self.n_components)
        )
