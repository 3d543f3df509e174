"""What can be asked of SRCP and E2CP once they are fitted: the adjusted graph, F of any pair."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from mustlink.eigen.solver import laplacian_of
from mustlink.errors import InputError
from mustlink.graph.stored import StoredGraph
from mustlink.linear.by_columns import silent
from mustlink.lyapunov.all_pairs import AllPairs, all_pairs
from mustlink.lyapunov.equation import Problem
from mustlink.lyapunov.pair_propagation import Asked
from mustlink.lyapunov.sources import Sources
from mustlink.methods.adjusted_graph import adjusted_affinity
from mustlink.methods.informed_clusterer import InformedClusterer
from mustlink.observe import Recorder
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.workspace import Workspace

FACTORS = 2 * 10**9  # bytes for one part of the constraints where no memory was named
_SHARE = 4  # of the memory named: beside it there are graph, multigrid and vectors


def room_for_factors(work: Workspace) -> int:
    """Bytes for the factors of F."""
    return FACTORS if work.memory is None else work.memory // _SHARE


@dataclass(eq=False, repr=False)
class AdjustedAnswers(InformedClusterer):
    """Base of methods that spread pairs, F, and move a graph's weights by them."""

    _parameter: ClassVar[str]

    @abstractmethod
    def _problem(self, laplacian: NormalizedLaplacian, Y: Sources) -> Problem:
        """What F solves."""

    def _spread_from(self, Y: Sources) -> None:
        """Remember what a fit spreads, and how far."""
        self._sources = Y, float(getattr(self, self._parameter))
        self._F: AllPairs | None = None

    @property
    def affinity_matrix_(self) -> sp.csr_matrix:
        """W* (n, n) CSR in the caller's order, made on demand; weights in [0, 1].

        Where equal rows are one node: between one copy of every node of `graph_` and another.
        """
        self._refuse_on_disk("affinity_matrix_")
        work, k = self._view(self.graph_, Recorder()), self.report_.n_clusters
        return adjusted_affinity(laplacian_of(work), self._moved, work.recorder, k)

    @property
    def propagated_constraints_(self) -> AllPairs:
        """F of the last fit, for every pair: `F[i, j]`, `F.row(i)`, `F.top(10)`; FLI11 eq. 5.

        As it solves the equation, neither normalised nor raised to a power. Made when it is first
        asked for, by the estimator's `solver`, `tol` and `memory`: a propagation as in the fit.
        """
        check_is_fitted(self)
        self._refuse_on_disk("propagated_constraints_")
        if self._F is None:
            self._F = self._all_pairs()
        return self._F

    def _refuse_on_disk(self, name: str) -> None:
        """Raise InputError where the graph stayed on disk."""
        if isinstance(self.graph_, StoredGraph):
            raise InputError(
                f"{name}: the graph stayed on disk, where it is not made; fit with more memory"
            )

    def _all_pairs(self) -> AllPairs:
        given: Any = self
        work = self._view(self.graph_, Recorder(), row_weights=self._row_weights)
        laplacian = laplacian_of(work)
        Y, parameter = self._sources
        problem: Any = self._problem(laplacian, Y)
        problem = replace(problem, **{self._parameter: parameter})  # as it was in the fit
        room, tol = room_for_factors(work), float(given.tol)
        asked = Asked(problem, 0, tol, room, work.recorder, silent, laplacian.weights)
        nodes, rows = laplacian.positions, self.graph_.first_rows[laplacian.nodes]
        return all_pairs(asked, given.solver, self.graph_.spread(nodes), rows)
