"""Rows that a rank needs of others: fetched by PETSc's star forests, as its matrices do."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.space.rank_space import RankSpace

Array = NDArray[Any]


class Halo:
    """Rows of a few nodes beside a rank's own, `nodes` (h,) rising, none of them held here."""

    def __init__(self, space: RankSpace, nodes: NDArray[np.int64]) -> None:
        from petsc4py import PETSc

        self.space, self.nodes = space, nodes
        owners = space.division.owner(nodes)
        remote = np.column_stack([owners, nodes - space.division.bounds[owners]])
        self._forest = PETSc.SF().create(comm=space.ranks.communicator)
        self._forest.setGraph(space.held, None, remote.astype(PETSc.IntType))
        self._forest.setUp()
        # What Python drops PETSc would keep, and have all ranks agree upon at the end: ranks that
        # drop it at other times were seen to wait for each other for ever.
        weakref.finalize(self, self._forest.destroy)

    @property
    def size(self) -> int:
        """Number h of rows that are fetched."""
        return int(self.nodes.size)

    def fetched(self, X: Array) -> Array:
        """The rows (h, …) of the nodes; every rank asks at the same time."""
        return self.space.ranks.fetched(self._forest, X, self.size)

    def beside(self, X: Array) -> Array:
        """Own rows, then those fetched, (n_local + h, …)."""
        return np.concatenate([X, self.fetched(X)])
