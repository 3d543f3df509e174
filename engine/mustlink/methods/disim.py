"""Directed graphs: clusters of nodes that send alike and receive alike, DI-SIM (Rohe et al. 2016).

A_ij is the weight of the edge from i to j, D_out and D_in are the row and column sums of A.

    1  τ = mean out-degree, L = (D_out + τI)^-½ A (D_in + τI)^-½        `DISIM._view_of`
    2  U, V (n, K): left and right singular vectors of L's K largest σ  `DISIM._vectors`
    3  rows of U, of V, of [U V] scaled to length 1                     `Rows`
    4  k-means on each: who sends alike, who receives alike, both       `Rows`

Steps 1 and 2 are those of the bipartite graph in which every node is twice, as who sends and as who
receives: its L̄_τ has the eigenvalues 1 − σ with (u, v)/√2.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from mustlink.check import as_integer, check_choice, check_tolerance
from mustlink.constraints import Constraints
from mustlink.cost.method_cost import Cost, eigenvectors
from mustlink.eigen.plain_solve import PLAIN_SOLVERS
from mustlink.eigen.sharpness import tell_unconverged
from mustlink.eigen.solver import laplacian_of, smallest_pairs
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.graph.bipartite import bipartite_graph
from mustlink.graph.multiplicity import as_sample_weight
from mustlink.graph.network_objects import arcs_of
from mustlink.methods.clusterer import AUTO, GraphClusterer, Ints
from mustlink.methods.csp import CSP
from mustlink.methods.directed_rows import Floats, Rows
from mustlink.methods.directed_trials import DirectedTrials
from mustlink.methods.doubts import warn_if_broken, warn_of_sizes
from mustlink.methods.informed_clusterer import side_information
from mustlink.methods.normalized_cut import with_null
from mustlink.observe import Observer, Recorder, recorded
from mustlink.result import Report
from mustlink.selection.regularization import check_regularization
from mustlink.state import before, fits, fits_again
from mustlink.workspace import Workspace


@dataclass(eq=False, repr=False)
class DISIM(GraphClusterer):
    """K clusters of a directed graph by whom nodes send to and from whom they receive (DI-SIM).

    L = (D_out + τI)^-½ A (D_in + τI)^-½ = UΣVᵀ; k-means on the rows of [U V], scaled to length 1.
    Blocks that send to the next one in a circle are found, of which (A + Aᵀ)/2 knows nothing.

    `regularization` t: τ is t times the mean out-degree; "auto" is the source's 1. `solver` and
    `tol` as of `NCut`. After `fit`: `labels_` (n,), `sending_labels_` and `receiving_labels_` (n,)
    from U and from V alone (step 4 of the source; numbered apart, -1 without such an edge),
    `embedding_` [U V] (n, 2K), `singular_values_` σ (K,) falling, `eigenvalues_` 1 − σ, `graph_`,
    the undirected A + Aᵀ.

    With labels or constraints two other ways are tried: k-means started from the labels, and that
    on CSP's embedding of the graph in which every node is twice, τ in the degrees: of senders where
    what is known was said of them, of receivers where it was said of these, (n, 2(K − 1)) together.
    Nothing is said between a sender and a receiver, as a class need not send to itself. What keeps
    most of what was held out in three trials is taken, and the report says which. Cost: a few tens
    of products with A and Aᵀ of a block of K + 3 columns; with labels eight fits of CSP more.
    Source: Rohe, Qin & Yu 2016.
    """

    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 200
    regularization: float | str = "auto"
    _: KW_ONLY
    affinity: str = "precomputed"

    _trusts_edges: ClassVar[bool] = False  # a cluster may send to another one only

    def cost(self, n_classes: int | None = None) -> Cost:
        """K vectors of the graph in which every node is twice."""
        return eigenvectors(self._k_or(n_classes))

    @fits
    def fit(
        self,
        X: Any,
        y: Any = None,
        constraints: Constraints | None = None,
        observer: Observer | Recorder | None = None,
        sample_weight: Any = None,
    ) -> Self:
        """Cluster the nodes of a directed graph: A (n, n), sparse or dense, or a network object.

        `y` (n,) are labels of some nodes, -1 for unknown, `constraints` on pairs of them;
        `sample_weight` (n,) >= 0 tells how often every node counts. Raises InputError.
        """
        self._check()
        recorder = recorded(observer)
        with self._running(recorder):
            self._used_seed, A = self._seed(), arcs_of(X)
            n = A.shape[0]
            counts = None if sample_weight is None else as_sample_weight(sample_weight, n)
            self._run(A, counts, y, constraints, recorder)
        return self

    @fits_again
    def refit(
        self,
        y: Any = None,
        constraints: Constraints | None = None,
        observer: Observer | Recorder | None = None,
    ) -> Self:
        """Cluster the same nodes again with other labels `y` (n,) or constraints, all anew.

        They are all that is then known. `labels_` keep their numbers and names as far as they can,
        see `CSP.refit`; those of senders and receivers do not.
        """
        self._check()
        if isinstance(y, Constraints):
            y, constraints = constraints, y
        recorder, labels = recorded(observer), before(self).labels_
        with self._running(recorder):
            self._run(*self._arcs, y, constraints, recorder)
        return self._numbered_as(labels, recorder)

    def _run(
        self,
        A: sp.csr_matrix,
        counts: Floats | None,
        y: Any,
        constraints: Constraints | None,
        recorder: Recorder,
    ) -> None:
        """Cluster the nodes of A (n, n), which count `counts` (n,), and set the results."""
        self._arcs, seed, n = (A, counts), self._used_seed, A.shape[0]
        self.graph_ = Graph.from_affinity(A + A.T, {"kind": "directed"})
        known = side_information(self.graph_, y, constraints, recorder, needed=False)
        if self.n_clusters == AUTO and known.classes.size < 2:
            raise InputError(
                'n_clusters: "auto" counts in undirected graphs; give a number, or labels of '
                "every class"
            )
        k = self._clusters(Workspace(self.graph_, recorder), known.classes.size, seed)
        view = self._view_of(A, recorder, seed, counts)
        rows, reason = self._rows(view, known, k, seed)
        with recorder.stage("clusters"):
            self.sending_labels_ = rows.who_send(k, seed)
            self.receiving_labels_ = rows.who_receive(k, seed)
            self.labels_ = self._placed(rows.clusters(k, seed), k, recorder)
        self.embedding_ = rows.both
        kept = warn_if_broken(self.labels_, known, recorder)
        self.report_ = Report(
            method="DI-SIM",
            n_nodes=n,
            n_clusters=k,
            choices={
                "regularization": [self._share, "of the mean out-degree"],
                **reason,
                "solver": self._convergence.solver,
                "graph": dict(self.graph_.info),
            },
            convergence=self._convergence,
            satisfaction=kept,
            **recorder.told(),
            extra={"n_components": self.graph_.n_components},
        )

    def _check(self) -> None:
        check_choice(self.solver, PLAIN_SOLVERS, "solver")
        check_tolerance(self.tol)
        as_integer(self.max_iter, "max_iter", 1)
        check_regularization(self.regularization)
        if self.affinity != "precomputed":
            raise InputError(
                f"affinity: {self.affinity!r} makes edges without directions; DISIM takes a "
                "directed graph, for points use NCut"
            )

    @property
    def _share(self) -> float:
        return 1.0 if self.regularization == "auto" else float(self.regularization)

    def _view_of(
        self, A: sp.csr_matrix, recorder: Recorder, seed: int, counts: Floats | None
    ) -> Workspace:
        """Every node twice, and τ; the engine's mean leaves out copies without an edge."""
        twice = None if counts is None else np.tile(counts, 2)
        work = self._work(bipartite_graph(A), recorder, seed, twice)
        linked = float(laplacian_of(work).copies.sum())
        return work.regularized(self._share * linked / work.graph.count)

    def _rows(
        self, view: Workspace, known: Constraints, k: int, seed: int
    ) -> tuple[Rows, dict[str, str]]:
        """Singular vectors, or what CSP makes of what is known, and why."""
        plain = self._vectors(view, k, seed)
        if known.is_empty or k == 1:
            return plain, {}
        # τ is in the degrees of the view, which CSP shall not choose again
        csp = CSP(k, affinity="precomputed", regularization=0, tol=self.tol, memory=self.memory)
        return DirectedTrials(view, plain, csp, k, seed).best(known)

    def _vectors(self, view: Workspace, k: int, seed: int) -> Rows:
        """U and V of step 2."""
        laplacian = laplacian_of(view)
        wanted = max(0, k - laplacian.null.n_components)
        found = smallest_pairs(
            view, wanted, solver=self.solver, tol=self.tol, max_iter=self.max_iter, seed=seed
        )
        tell_unconverged(view.recorder, found.convergence, single=view.single)
        Z, values = with_null(laplacian.space, laplacian, found, k)
        self.eigenvalues_, self.singular_values_ = values, 1.0 - values
        self._convergence = found.convergence
        return self._halves(np.sqrt(2.0) * laplacian.leave(Z), view)

    def _halves(self, rows: Floats, view: Workspace) -> Rows:
        n = len(rows) // 2
        linked = view.graph.degrees > 0
        counts = None if view.row_weights is None else view.row_weights[:n]
        return Rows(rows[:n], rows[n:], linked[:n], linked[n:], counts)

    def _placed(self, found: Ints, k: int, recorder: Recorder) -> Ints:
        """Labels, with those of nodes without an edge as `isolated` says."""
        warn_of_sizes(np.bincount(found[found >= 0]), k, recorder)
        alone = found < 0
        if alone.any() and self.isolated == "assign":
            found = np.where(alone, np.bincount(found[~alone]).argmax(), found)
        done = "put in the largest cluster" if self.isolated == "assign" else "labelled -1"
        silent = (
            (self.sending_labels_ < 0, "sending to none, sending label -1"),
            (self.receiving_labels_ < 0, "receiving from none, receiving label -1"),
            (alone, f"doing neither, {done}"),
        )
        told = [f"{np.count_nonzero(who)} {words}" for who, words in silent if who.any()]
        if told:
            recorder.note(f"nodes without edges of a kind: {'; '.join(told)}")
        return found
