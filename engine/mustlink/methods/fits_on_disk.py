"""What a clusterer that is told something says of graphs that memory does not hold."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from mustlink.constraints import Constraints
from mustlink.cost.method_cost import Cost, StoredCost
from mustlink.graph.stored import StoredGraph
from mustlink.neighbours.stored_knn import graph_where_short
from mustlink.observe import Recorder


class FitsOnDisk:
    """Of a method that `_runs_at_scale`: what it takes and sets there. Others refuse nothing."""

    _runs_at_scale: ClassVar[bool] = False  # where nodes are on disk or on ranks

    def _graph_or(
        self,
        X: Any,
        recorder: Recorder,
        cost: Cost,
        others: dict[str, Any],
        classes: int | None,
        seed: int,
    ) -> Any:
        """X, or the graph on disk of points that are too many; raises InputError.

        `others` is what else was given, by name, `classes` those that labels name.
        """
        if not self._runs_at_scale:
            return X
        on_disk = partial(self._cost_on_disk, others, classes)
        return graph_where_short(self, X, recorder, cost, on_disk, seed)

    def _stays_on_disk(self, stored: StoredGraph) -> bool:
        """Whether it is too large for the memory, and the method runs on disk."""
        return False

    def _cost_on_disk(
        self, others: dict[str, Any], classes: int | None, n: int, nnz: int
    ) -> StoredCost:
        """What a fit takes of n nodes and nnz weights there, at least; see `_graph_or`.

        Raises InputError for what does not run there.
        """
        raise NotImplementedError

    def _fit_on_disk(
        self,
        graph: StoredGraph,
        known: Constraints,
        recorder: Recorder,
        others: dict[str, Any],
        seed: int,
    ) -> None:
        """Set what `fit` sets, of a graph that is read by blocks of rows; InputError."""
        raise NotImplementedError

    def _refit_on_disk(self, known: Constraints, recorder: Recorder) -> None:
        """Set it anew where the graph of the fit is on disk; raises InputError."""
        raise NotImplementedError
