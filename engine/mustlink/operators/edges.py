"""Edges of a graph in working order: where they are, not how heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Ints = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Edges:
    """A symmetric pattern of m nodes by rows: `indptr` (m+1,), sorted `indices` (nnz,)."""

    indptr: Ints
    indices: Ints

    @classmethod
    def of_matrix(cls, matrix: sp.csr_matrix) -> Edges:
        """Where a symmetric matrix of the caller's making has entries; its rows are sorted."""
        matrix.sort_indices()
        return cls(matrix.indptr, matrix.indices)

    @property
    def size(self) -> int:
        """Number m of nodes."""
        return int(self.indptr.size) - 1

    @property
    def nnz(self) -> int:
        """Number of ends of edges: every edge counts twice."""
        return int(self.indices.size)

    @property
    def shape(self) -> tuple[int, int]:
        """(m, m)."""
        return self.size, self.size

    @property
    def rows(self) -> Ints:
        """The node that every entry belongs to, (nnz,)."""
        return np.repeat(np.arange(self.size), np.diff(self.indptr))

    def beside(self, nodes: Ints) -> tuple[Ints, Ints]:
        """Neighbours of some nodes: place in `nodes` and neighbour, one entry an edge."""
        counts = np.diff(self.indptr)[nodes]
        place = np.repeat(np.arange(nodes.size), counts)
        first = np.cumsum(counts) - counts
        at = np.arange(place.size) - first[place] + self.indptr[nodes][place]
        return place, self.indices[at]

    def among(self, nodes: Ints) -> sp.csr_matrix:
        """The pattern between some of the nodes, ones in CSR, numbered as they are listed."""
        return self.ones()[nodes][:, nodes].tocsr()

    def ones(self) -> sp.csr_matrix:
        """Ones in CSR."""
        return self.matrix(np.ones(self.nnz))

    def matrix(self, values: NDArray[Any]) -> sp.csr_matrix:
        """Values (nnz,) of edges as a CSR matrix (m, m) that shares the pattern."""
        return sp.csr_matrix((values, self.indices, self.indptr), shape=self.shape)
