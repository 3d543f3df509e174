"""Normalised cut: spectral clustering without side information (WHC11 §2.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mustlink.check import as_points, check_choice, check_flag, check_tolerance
from mustlink.constraints import Constraints
from mustlink.cost.method_cost import Cost, StoredCost, eigenvectors
from mustlink.eigen.memory_work import MemoryWork
from mustlink.eigen.plain_solve import PLAIN_SOLVERS
from mustlink.eigen.work import DISK, MEMORY, RANKS, Work
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.graph.bipartite import on_both_sides
from mustlink.graph.several import several
from mustlink.graph.stored import StoredGraph
from mustlink.growing import grown
from mustlink.labels import as_labels, class_labels
from mustlink.methods import homes
from mustlink.methods.clusterer import GraphClusterer, Ints
from mustlink.methods.doubts import warn_of_gap
from mustlink.methods.informed_clusterer import side_information
from mustlink.methods.normalized_cut import (
    Cut,
    Cuts,
    network_of,
    refined_cut,
    tell_of_cut,
)
from mustlink.neighbours.points_by_rows import is_rows
from mustlink.neighbours.stored_knn import graph_where_short
from mustlink.observe import Observer, Recorder, recorded
from mustlink.result import Report
from mustlink.rounding.assign import held_out_right, seeded_kmeans
from mustlink.scores import satisfaction
from mustlink.selection.regularization import (
    Regularization,
    check_regularization,
    decided_cut,
)
from mustlink.state import before, fits, fits_again

VARIANTS = ("luxburg", "ng", "shi-malik")
INITS = ("k-means++", "labels")
_POINTS = 8  # times the bytes of the points that must be free for k-means on them


@dataclass(eq=False, repr=False)
class NCut(GraphClusterer):
    """K clusters of a graph that minimise the (multiple) normalised cut, relaxed.

    min Σ_k z_kᵀL̄z_k, z_kᵀz_k = 1 (WHC11 eq. 7): the K smoothest eigenvectors of
    L̄ = I − D^-½WD^-½, exact null vectors of the components included, then

    * variant="luxburg": k-means on the rows of U = D^-½Z (von Luxburg 2007)
    * variant="ng": k-means on the rows of Z scaled to length 1 (Ng, Jordan & Weiss 2001)
    * variant="shi-malik": K = 2, the second vector cut at the value of least NCut

    `regularization` t > 0 adds t times the mean degree to every degree, T = D + t·d̄·I, in the place
    of D: on sparse networks the cut is least for sets that hang on the rest by one edge, a giant
    with crumbs, and that makes them dear (Qin & Rohe 2013). There is no null space then, and rows
    of Z(I − Λ) are scaled to length 1, whatever the variant. "auto" tries 0, 0.1, 0.3 and 1 on
    graphs that are given and takes the one whose clusters tell most about the edges, in graphs made
    from points 0, and the report says why.

    `refine` moves nodes, after k-means, to the clusters that a degree-corrected block model finds
    likeliest from their edges, 15 sweeps at most: for networks (mean ARI of 12 real ones .388 to
    .393, of 15 planted ones .73 to .74; never for graphs made from points).
    `init` is where k-means starts: "k-means++" in ten ways at random, "labels" at the means of the
    classes of `y`, one cluster a class in their order, more by k-means++ (Basu, Banerjee & Mooney
    2002): in the embedding, or in the points themselves, where that answers more of the labels held
    out, as round clusters want. `tol` bounds ‖L̄z − λz‖; None takes 1e-8, and 1e-4 / 1e-3 from
    20,000 / 200,000 nodes on.
    `solver` is auto, dense, lobpcg, chebyshev, shift-invert or lanczos. After `fit`:
    `labels_` (n,), `embedding_` (n, K), `eigenvalues_` (K,), `graph_`, `report_`. Cost: a few tens
    of products with a block of K + 3 columns; about 5 s for 10⁶ nodes and K = 10 once the graph is
    there.
    """

    variant: str = "luxburg"
    init: str = "k-means++"
    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 200
    regularization: float | str = "auto"
    refine: bool = False

    homes: ClassVar[frozenset[str]] = frozenset({MEMORY, DISK, RANKS})

    def cost(self, n_classes: int | None = None) -> Cost:
        """K − 1 eigenvectors: the constant one is known."""
        return eigenvectors(max(1, self._k_or(n_classes) - 1))

    @fits
    def fit(
        self,
        X: Any,
        y: Any = None,
        constraints: Constraints | None = None,
        observer: Observer | Recorder | None = None,
        sample_weight: Any = None,
        graphs: Any = None,
    ) -> NCut:
        """Cluster points (n, d), an affinity (n, n), a Graph or a StoredGraph.

        The last is read into memory where it fits into `memory`, and else stays on disk, its
        vectors, too: `embedding_` then has its rows there, and slices of it are arrays. So does the
        graph of points for which `memory` is too little.

        `sample_weight` (n,) >= 0 tells how often every row counts; those of 0 are in no cluster.
        `graphs` are other graphs of the same nodes, weighed by `graph_weights`, with constraints as
        these tell; X may then be None.
        `y` is ignored (scikit-learn's convention) but for init="labels", -1 for unknown, where its
        classes are as many as the clusters if `n_clusters` says nothing; `constraints` are not
        used, only how many of them the result happens to keep is reported.
        """
        self._check()
        recorder = recorded(observer)
        others = {"y": y if self.init == "labels" else None, "constraints": constraints}
        others |= {"sample_weight": sample_weight, "graphs": graphs}
        with self._running(recorder):
            self._used_seed = seed = self._seed()
            on_disk = partial(self._cost_on_disk, others)
            X = graph_where_short(self, X, recorder, self.cost(), on_disk, seed)
            if isinstance(X, StoredGraph) and homes.stays_on_disk(self, X):
                homes.check_home(self, DISK, others)
                self._run(homes.disk_work(self, X, 0, recorder))
                return self
            X = several(X, graphs, lambda graph: side_information(graph, None, constraints))
            work = MemoryWork(self._work(X, recorder, seed, sample_weight))
            self._run(work, y, constraints)
        return self._scored(recorder)

    def _cost_on_disk(self, others: dict[str, Any], n: int, nnz: int) -> StoredCost:
        """At least what a fit takes of n points with nnz neighbours on disk; InputError."""
        homes.check_home(self, DISK, others)
        return homes.cost_on_disk(self, 2, n, nnz)

    @fits_again
    def refit(
        self,
        y: Any = None,
        constraints: Constraints | None = None,
        observer: Observer | Recorder | None = None,
    ) -> NCut:
        """Cluster the same graph again, into another number of clusters or with another option.

        `y` and `constraints` are as in `fit`. Clusters keep their numbers and names as far as they
        can, and new ones get new numbers; the report's `changed` is the share of nodes that moved.
        """
        self._check()
        recorder, labels = recorded(observer), before(self).labels_
        if isinstance(self.graph_, StoredGraph):
            raise InputError("refit: the graph is on disk, where nothing is kept; fit again")
        with self._running(recorder):
            self._run(MemoryWork(self._view(self.graph_, recorder)), y, constraints)
        return self._numbered_as(labels, recorder)._scored(recorder)

    @fits_again
    def add(self, X: Any, observer: Observer | Recorder | None = None) -> NCut:
        """Join new points (m, d) to the fitted ones, or nodes by their edges (m, n + m), sparse.

        See `CSP.add`; with init="labels" fit again.
        """
        self._check()
        recorder, labels = recorded(observer), before(self).labels_
        with self._running(recorder):
            self._run(MemoryWork(grown(self, X, recorder)))
            return self._numbered_as(labels, recorder, "add")._scored(recorder)

    def _run(self, work: Work, y: Any = None, constraints: Constraints | None = None) -> None:
        """Cluster a graph and set the results; the same steps in every home."""
        recorder, seed = work.recorder, self._used_seed
        labels, n_classes = self._starting_labels(y, work)
        k = self._clusters(work, n_classes, seed)
        if n_classes > k:
            raise InputError(
                f"init: labels of {n_classes} classes for {k} clusters; ask for as many"
            )
        cut, regular = self._decided(work, k, seed)
        start = {}
        if isinstance(work, MemoryWork):
            if labels is not None:
                cut, start["init"] = self._from_labels(work, cut, labels, k, seed)
            if self.refine:
                cut, start["refine"] = refined_cut(work, cut, k, seed)
        self.labels_ = self._labels(work, cut.clusters, k)
        warn_of_gap(cut, recorder)
        cut, network = network_of(work, cut, k)
        self.graph_ = work.graph
        if work.home != MEMORY:
            self._cut_on_disk = cut
        self.embedding_, self.eigenvalues_ = work.leave(cut.embedding), cut.values
        kept = None if constraints is None else satisfaction(self.labels_, constraints)
        self.report_ = Report(
            method=f"NCut ({self.variant}){homes.words_of(work.home)}",
            n_nodes=self.labels_.size,
            n_clusters=k,
            choices={
                **start,
                "regularization": [regular.tau, regular.reason],
                "solver": cut.convergence.solver,
                "graph": dict(work.info),
            },
            convergence=cut.convergence,
            satisfaction=kept,
            **recorder.told(),
            extra={
                "n_components": work.n_components,
                "next_eigenvalue": cut.beyond,
                "regularizations_tried": regular.table,
                **network,
            },
        )

    def _in_memory_only(self) -> dict[str, bool]:
        return {
            **super()._in_memory_only(),
            "variant": self.variant == "shi-malik",
            "init": self.init != "k-means++",
            "refine": self.refine,
            "solver": self.solver not in ("auto", "lobpcg"),
        }

    def _check(self) -> None:
        check_choice(self.variant, VARIANTS, "variant")
        check_choice(self.init, INITS, "init")
        check_choice(self.solver, PLAIN_SOLVERS, "solver")
        check_tolerance(self.tol)
        check_regularization(self.regularization)
        check_flag(self.refine, "refine")

    def _decided(self, work: Work, k: int, seed: int) -> tuple[Cut, Regularization]:
        """The cut of the graph, and what was added to degrees; raises InputError."""
        cuts = Cuts(work, k, self.variant, self.solver, self.tol, self.max_iter, seed)
        if self.variant != "shi-malik":
            cut, regular = decided_cut(cuts, self.regularization, k)
        elif self.regularization in ("auto", 0):
            cut, regular = cuts.sharp(0.0), Regularization(0.0, "shi-malik")
        else:
            raise InputError(
                'regularization: "shi-malik" cuts at the least NCut of the degrees as they '
                'are; use variant="ng"'
            )
        tell_of_cut(work, cut, regular.tau)
        return cut, regular

    def _starting_labels(self, y: Any, work: Any) -> tuple[Ints | None, int]:
        """Labels (n,) of the nodes that k-means starts from, and their classes; InputError."""
        if self.init != "labels":
            return None, 0
        if self.variant == "shi-malik":
            raise InputError('init: "shi-malik" cuts one vector and starts nowhere; leave init out')
        graph: Graph = work.graph
        labels = as_labels(on_both_sides(class_labels(y)[0], graph), graph.n_rows, "y")
        n_classes = np.unique(labels[labels >= 0]).size
        if graph.rows is None:
            return labels, n_classes
        of_nodes = np.full(graph.n_nodes, -1, dtype=np.int64)
        known = np.flatnonzero(labels >= 0)[::-1]  # of equal rows with labels the first counts
        of_nodes[graph.rows[known]] = labels[known]
        return of_nodes, n_classes

    def _from_labels(
        self, work: MemoryWork, cut: Cut, labels: Ints, k: int, seed: int
    ) -> tuple[Cut, str]:
        """The clusters that k-means finds from the classes, and where it looked for them."""
        laplacian, given = work.laplacian, labels[work.laplacian.nodes]
        if np.unique(given[given >= 0]).size < 2:
            raise InputError("init: labelled nodes with an edge are of less than two classes")
        where = "labels"
        spaces: list[NDArray[np.floating]] = [cut.embedding]
        points = None if self._points is None or is_rows(self._points) else as_points(self._points)
        if points is not None and (self._budget is None or _POINTS * points.nbytes < self._budget):
            spaces.append(points[work.graph.first_rows[laplacian.nodes]])
        with work.recorder.stage("clusters"):
            if len(spaces) > 1:
                right = held_out_right(tuple(spaces), given, k, seed, laplacian.weights)
                best = int(right[1] > right[0])
                where += f", in the {('embedding', 'points')[best]}: {right[best]} held-out labels "
                where += f"right, in the {('points', 'embedding')[best]} {right[1 - best]}"
                spaces = [spaces[best]]
            found = seeded_kmeans(spaces[0], given, k, seed, laplacian.weights)
            return replace(cut, clusters=found), where
