"""Clusterers that are told something: how they are fitted, and doubts about what they are told."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from mustlink.blind_scoring import refuse_blind_scoring
from mustlink.check import check_flag
from mustlink.constraints import Constraints
from mustlink.constraints.constraints import on_nodes
from mustlink.cost.method_cost import StoredCost
from mustlink.eigen.memory_work import MemoryWork
from mustlink.eigen.work import DISK, Work
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.graph.bipartite import on_both_sides
from mustlink.graph.several import several
from mustlink.graph.stored import StoredGraph
from mustlink.growing import grown, told_of_all
from mustlink.labels import as_labels, encoded, n_classes_in, refuse_row_numbers
from mustlink.methods import homes
from mustlink.methods.clusterer import GraphClusterer, Ints
from mustlink.neighbours.stored_knn import graph_where_short
from mustlink.observe import Observer, Recorder, recorded
from mustlink.propagate.prior import bytes_of
from mustlink.rounding.block_model import refined_clusters
from mustlink.state import before, fits, fits_again
from mustlink.workspace import Workspace

_SOFT = 28  # bytes a node and column of soft labels: shares, those with labels, and in CSR


@dataclass(eq=False, repr=False)
class InformedClusterer(GraphClusterer):
    """Base of the clusterers that take labels and constraints.

    * `refine`: True goes on to the clusters that a degree-corrected block model of the graph finds
      likelier (`rounding.block_model`), nodes that something is said of held; for networks.
    """

    _: KW_ONLY
    refine: bool = False

    @abstractmethod
    def _check(self) -> None:
        """Raise InputError for parameters that make no sense."""

    @abstractmethod
    def _run(self, work: Any, known: Constraints, seed: int) -> None:
        """Cluster a graph with what is known and set the results.

        `work` is a `Workspace`, or another home where the method runs in one.
        """

    def _in_memory_only(self) -> dict[str, bool]:
        return {**super()._in_memory_only(), "refine": self.refine}

    @fits
    def fit(
        self,
        X: Any,
        y: Any = None,
        constraints: Constraints | None = None,
        observer: Observer | Recorder | None = None,
        sample_weight: Any = None,
        graphs: Any = None,
        prior: Any = None,
        belief: Any = None,
    ) -> Self:
        """Cluster points (n, d), an affinity (n, n) or a Graph with what is known.

        `y` (n,) are labels of some nodes, numbers with -1 for unknown or text with "": all their
        pairs are constraints; `constraints` anything else, or more. `sample_weight` (n,) >= 0 tells
        how often every row counts, with what is said of it, as if it were repeated; rows of weight
        0 are in no cluster. `graphs` are other graphs of the same nodes, weighed by
        `graph_weights`; X may then be None.

        `prior` (n, K) is what something else says of the nodes, distributions over the classes of
        `y` (without these any K), `belief` (n,) or a number from 0 to 1 how sure it is, see
        `Constraints.from_soft_labels`; of a node with a label the label counts.
        """
        self._check()
        check_flag(self.refine, "refine")
        recorder = recorded(observer)
        told: dict[str, Any] = {"prior": prior, "belief": belief}
        with self._running(recorder):
            classes = self._classes_named(y, constraints, prior)
            cost, others = self.cost(classes), {"sample_weight": sample_weight, "graphs": graphs}
            seed = self._seed()
            if DISK in self.homes:
                on_disk = partial(self._cost_on_disk, others, classes)
                X = graph_where_short(self, X, recorder, cost, on_disk, seed)
            if isinstance(X, StoredGraph) and self._stays_on_disk(X):
                known = side_information(X, y, constraints, recorder, **told)
                self._fit_on_disk(X, known, recorder, others, seed)
                return self
            X = several(X, graphs, lambda graph: side_information(graph, y, constraints, **told))
            beside = bytes_of(prior, belief) + _bytes_of_soft(prior, constraints)
            work = self._work(X, recorder, seed, sample_weight, cost, beside)
            self._row_weights = work.row_weights  # of which `refit` is told, too
            given = side_information(work.graph, y, constraints, recorder, **told)
            self._used_seed = seed
            self._run(work, self._of_nodes(given, work), seed)
        return self._scored(recorder)

    def _cost_on_disk(
        self, others: dict[str, Any], classes: int | None, n: int, nnz: int
    ) -> StoredCost:
        """At least what a fit takes of n points with nnz neighbours on disk; InputError."""
        self._check_home(DISK, others)
        if isinstance(self._named_clusters(classes or 0), str):
            raise InputError(homes.COUNTS)
        return homes.cost_on_disk(self, 2, n, nnz)

    def _fit_on_disk(
        self,
        graph: StoredGraph,
        known: Constraints,
        recorder: Recorder,
        others: dict[str, Any],
        seed: int,
    ) -> None:
        """`fit` of a graph that is read by blocks of rows; `embedding_` has its rows on disk."""
        self._check_home(DISK, others)
        self._home = homes.disk_work(self, graph, known.classes.size, recorder)
        self._used_seed, self._given = seed, known
        self._run(self._home, known, seed)

    @fits_again
    def refit(
        self,
        y: Any = None,
        constraints: Constraints | None = None,
        observer: Observer | Recorder | None = None,
    ) -> Self:
        """Cluster the same graph again with other labels `y` (n,) or constraints.

        They are all that is then known, not additions to `constraints_`; `refit(constraints)` does
        as well. The graph and what is derived from it stay, of methods in a smooth subspace
        also the choices made before, until half or twice as much is known as when they were made,
        or a parameter is set anew: these take seconds. Parameters of the graph are those of `fit`;
        K may be another. Clusters keep their numbers and names as far as they can, and new ones get
        new numbers; the report's `changed` is the share of nodes that moved, `clusters_changed`
        tells the numbers that are new and gone.
        """
        self._check()
        if isinstance(y, Constraints):
            y, constraints = constraints, y
        recorder, labels = recorded(observer), before(self).labels_
        with self._running(recorder):
            given = side_information(self.graph_, y, constraints, recorder)
            if isinstance(self.graph_, StoredGraph):
                self._check_home(DISK)
                self._home, self._given = self._home.heard_by(recorder), given
                self._run_again(self._home, given)
                del self._cut_on_disk  # its clusters have other numbers
                return self._numbered_as(labels, recorder)
            work = self._view(self.graph_, recorder, row_weights=self._row_weights)
            self._run_again(work, self._of_nodes(given, work))
        return self._numbered_as(labels, recorder)._scored(recorder)

    @fits_again
    def add(
        self,
        X: Any,
        y: Any = None,
        constraints: Constraints | None = None,
        observer: Observer | Recorder | None = None,
    ) -> Self:
        """Join new points (m, d) to the fitted ones, or nodes by their edges (m, n + m), sparse.

        The rows are n + m then, the new ones last; `y` (m,) are labels of these, `constraints` say
        more of all. What was told before holds. New points are joined to the graph by edges to
        their nearest, smooth vectors are extended and sharpened where that is needed, clusters keep
        their numbers and names. The graph is not searched again: after many additions a fit finds
        better neighbours. Raises InputError, and then nothing has changed.
        """
        self._check()
        recorder, labels = recorded(observer), before(self).labels_
        with self._running(recorder):
            work = grown(self, X, recorder)
            given = told_of_all(self._given, work.graph.n_rows, y, constraints)
            self._run_again(work, self._of_nodes(given, work))
            return self._numbered_as(labels, recorder, "add")._scored(recorder)

    def _run_again(self, work: Any, known: Constraints) -> None:
        """`_run` with what is to be kept of the fit before."""
        self._run(work, known, self._used_seed)

    def _labels_knowing(
        self, work: Work, clusters: Any, k: int, known: Constraints, seed: int
    ) -> Ints:
        """`_labels` of clusters that are refined where that was asked for."""
        if self.refine:
            assert isinstance(work, MemoryWork)
            used = int(clusters.max()) + 1
            place = work.laplacian
            clusters = refined_clusters(work.view, place, clusters, used, known.nodes, seed)
        return self._labels(work, clusters, k)

    def _classes_named(
        self, y: Any, constraints: Constraints | None, prior: Any = None
    ) -> int | None:
        """Classes that labels name, where K is as many; what is wrong is told later."""
        if not self._follows_labels:
            return None
        if prior is not None and np.ndim(prior) == 2:
            return int(np.shape(prior)[1])
        if isinstance(constraints, Constraints) and constraints.classes.size:
            return constraints.classes.size
        return None if isinstance(y, Constraints) else n_classes_in(y)

    def fit_on(self, work: Workspace, known: Constraints, seed: int) -> Self:
        """`fit` as a step of another method, on its view of the graph and what it knows of rows."""
        self._check()
        self._row_weights, self._used_seed = work.row_weights, seed
        self._run(work, self._of_nodes(known, work), seed)
        return self

    def _fitted_again(self, given: Constraints, recorder: Recorder) -> Self:
        work = self._view(self.graph_, recorder, row_weights=self._row_weights)
        return self._twin().fit_on(work, given, self._used_seed)

    def _of_nodes(self, given: Constraints, work: Workspace) -> Constraints:
        """What was said of rows, of the nodes that they are; tells what contradicts itself."""
        graph, self._given = work.graph, given
        if graph.rows is None and graph.weights is None:
            return given
        if given.is_empty:
            return Constraints.none(graph.n_nodes)
        rows = np.arange(graph.n_nodes) if graph.rows is None else graph.rows
        known, doubts = on_nodes(given, rows, work.weight_of_rows, graph.n_nodes)
        for doubt in doubts:
            work.recorder.warn(doubt)
        return known


def side_information(
    graph: Graph | StoredGraph,
    y: Any,
    constraints: Constraints | None,
    recorder: Recorder | None = None,
    *,
    needed: bool = True,
    prior: Any = None,
    belief: Any = None,
) -> Constraints:
    """Labels `y` (n,) and constraints together; raises InputError, warns where they say nothing.

    Of a bipartite graph `y` may be of the rows alone. Unless they are `needed` none may be given;
    without a recorder nothing is told. `prior` (n, K) has a column for each class of the labels, in
    their order, or for class 0, 1 and so on.
    """
    n = graph.n_rows
    found = Constraints.none(n)
    if isinstance(y, Constraints):
        raise InputError("y: Constraints given; pass them as constraints=")
    if y is not None:
        refuse_blind_scoring(y)
        labels = as_labels(encoded(on_both_sides(y, graph), "y")[0], n)
        refuse_row_numbers(labels, "y")
        found = found + Constraints.from_labels(labels)
    if constraints is not None:
        if not isinstance(constraints, Constraints):
            raise InputError(
                f"constraints: {type(constraints).__name__} given; make them by "
                "Constraints.from_pairs, from_labels, from_soft_labels, from_graph or from_matrix"
            )
        constraints.require_nodes(n)
        found = constraints if found.is_empty else found + constraints
    if prior is not None:
        found = found + _believed(prior, belief, found.classes)
    elif belief is not None:
        raise InputError("belief: no prior that it is a belief in; give prior (n, K) as well")
    is_given = y is not None or constraints is not None or prior is not None
    if recorder is not None and (needed or is_given):
        _doubt_content(found, recorder, is_given=is_given)
    return found


def _bytes_of_soft(prior: Any, constraints: Any) -> int:
    """Bytes of what soft labels become: shares, and columns of them."""
    given = constraints.soft_labels if isinstance(constraints, Constraints) else None
    shape = np.shape(prior) if given is None else given.values.shape
    return _SOFT * shape[0] * (shape[1] + 1) if len(shape) == 2 else 0


def _believed(prior: Any, belief: Any, classes: Ints) -> Constraints:
    """Distributions as constraints, their columns the `classes` if they are as many."""
    as_many = np.ndim(prior) == 2 and np.shape(prior)[1] == classes.size
    return Constraints.from_soft_labels(prior, belief, classes=classes if as_many else None)


def _doubt_content(known: Constraints, recorder: Recorder, *, is_given: bool) -> None:
    """Warn where nothing is said, or only what every answer of one cluster keeps."""
    if not is_given:
        recorder.warn(
            "labels, constraints: neither is given; the graph alone was clustered, for which NCut "
            "is made; give some, or take NCut (-m ncut)"
        )
    elif known.is_empty:
        recorder.warn(
            f"labels, constraints: none of the {known.n_nodes} nodes has any, or all weigh 0; the "
            "graph alone was clustered"
        )
    elif known.kind == "labels" and known.labels is not None and known.classes.size == 1:
        count = np.count_nonzero(known.labels >= 0)
        recorder.warn(
            f"labels: all {count} are of class {known.classes[0]}, which one cluster of all nodes "
            "keeps; label nodes of other classes"
        )
