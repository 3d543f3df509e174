"""Directed graphs: clusters of nodes that send alike and receive alike, DI-SIM (Rohe et al. 2016).

A_ij is the weight of the edge from i to j, D_out and D_in are the row and column sums of A.

    1  τ = mean out-degree, L = (D_out + τI)^-½ A (D_in + τI)^-½
    2  U, V (n, K): left and right singular vectors of L's K largest σ
    3  rows of U, of V, of [U V] scaled to length 1
    4  k-means on each: senders that are alike, receivers, both

`DISIM._run` takes these steps in this order, with their numbers beside them. Steps 1 and 2 are
those of the bipartite graph that has every node twice, as a sender and as a receiver: its L̄_τ has
the eigenvalues 1 − σ with (u, v)/√2.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.clusterers.clusterer import AUTO, GraphClusterer, Ints
from mustlink.clusterers.ncut import with_null
from mustlink.constraints import Constraints
from mustlink.context.stage_cache import Workspace
from mustlink.core.check import as_integer, check_choice, check_regularization, check_tolerance
from mustlink.core.observe import Observer, Recorder, recorded
from mustlink.core.result import Convergence, tell_unconverged
from mustlink.core.state import before, fits, fits_again
from mustlink.discretize.assign import kmeans, seeded_kmeans, transform
from mustlink.discretize.cuts import warn_of_sizes
from mustlink.discretize.satisfaction import warn_if_broken
from mustlink.eigen.memory_work import MemoryWork, laplacian_of, smallest_pairs
from mustlink.eigen.plain_solve import PLAIN_SOLVERS
from mustlink.errors import InputError
from mustlink.estimators.fit_input import side_information
from mustlink.graph import Graph
from mustlink.graph.forms import arcs_of, bipartite_graph
from mustlink.graph.graph import as_sample_weight
from mustlink.space import LocalSpace

Floats = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class DISIM(GraphClusterer):
    """K clusters of a directed graph by whom nodes send to and from whom they receive (DI-SIM).

    L = (D_out + τI)^-½ A (D_in + τI)^-½ = UΣVᵀ; k-means on the rows of [U V], scaled to length 1.
    Blocks that send to the next one in a circle are found, of which (A + Aᵀ)/2 knows nothing.

    `regularization` t adds t times the mean out-degree, which is τ, to every degree; "auto" is the
    source's 1. `solver`: of the eigenproblem; `tol`: the residual to reach; `max_iter`: the most
    steps of the eigensolver. After `fit`: `labels_` (n,), `sending_labels_` and `receiving_labels_`
    (n,) from U and from V alone (step 4 of the source; numbered apart, -1 without such an edge),
    `embedding_` [U V] (n, 2K), `singular_values_` σ (K,) falling, `eigenvalues_` 1 − σ, `graph_`,
    the undirected A + Aᵀ.

    With labels of two classes or more k-means starts at the means of the classes, see `NCut`. Cost:
    a few tens of products with A and Aᵀ of a block of K + 3 columns. Source: Rohe, Qin & Yu 2016.
    """

    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 200
    regularization: float | str = "auto"
    _: KW_ONLY
    affinity: str = "precomputed"

    _trusts_edges: ClassVar[bool] = False  # a cluster may send to another one only

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

        `y` (n,) are labels of some nodes, -1 for unknown, which `constraints` may have as well;
        pairs are not used, only how many of them the result happens to keep is reported.
        `sample_weight` (n,) >= 0 is how often every node counts. Raises InputError.
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
        """Cluster the same nodes again with other labels `y` (n,), all that is then known.

        `labels_` keep their numbers and names as far as they can, see `CSP.refit`; those of senders
        and receivers do not.
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
        self._arcs, seed = (A, counts), self._used_seed
        self.graph_ = Graph.from_affinity(A + A.T, {"kind": "directed"})
        known = side_information(self.graph_, y, constraints, recorder, needed=False)
        if self.n_clusters == AUTO and known.classes.size < 2:
            raise InputError(
                'n_clusters: "auto" counts in undirected graphs; give a number, or labels of '
                "every class"
            )
        work = MemoryWork(Workspace(self.graph_, recorder))
        k = self._clusters(work, known.classes.size, seed)
        # 1: every node twice, and τ; the engine's mean degree leaves out copies without an edge
        labels, twice = known.labels, None if counts is None else np.tile(counts, 2)
        view = self._work(bipartite_graph(A), recorder, seed, twice)
        linked = float(laplacian_of(view).copies.sum())
        share = 1.0 if self.regularization == "auto" else float(self.regularization)
        view = view.regularized(share * linked / view.graph.count)
        rows, convergence = self._vectors(view, k, seed)  # 2
        U, V = np.vsplit(rows, 2)
        sends, receives = np.split(view.graph.degrees > 0, 2)
        self.embedding_ = np.hstack([U, V])

        def clusters(rows: Floats, there: NDArray[np.bool_]) -> Ints:  # 3, 4
            found = np.full(len(rows), -1, dtype=np.int64)
            directions = transform(rows[there], "sphere")
            often = None if counts is None else counts[there]
            most, given = min(k, len(directions)), None if labels is None else labels[there]
            if given is not None and 2 <= np.unique(given[given >= 0]).size <= most:
                found[there] = seeded_kmeans(directions, given, most, seed, often)
            else:
                space = LocalSpace(len(directions), often)
                found[there] = kmeans(directions, most, seed, space=space).labels
            return found

        with recorder.stage("clusters"):
            self.sending_labels_ = clusters(U, sends)
            self.receiving_labels_ = clusters(V, receives)
            self.labels_ = self._placed(clusters(self.embedding_, sends | receives), k, recorder)
        kept = warn_if_broken(self.labels_, known, recorder)
        choices = {
            "regularization": [share, "of the mean out-degree"],
            "solver": convergence.solver,
        }
        self._report(work, k, choices, convergence, kept, "DI-SIM")

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

    def _vectors(self, view: Workspace, k: int, seed: int) -> tuple[Floats, Convergence]:
        """U over V, (2n, K)."""
        laplacian = laplacian_of(view)
        wanted = max(0, k - laplacian.null.n_components)
        found = smallest_pairs(
            view, wanted, solver=self.solver, tol=self.tol, max_iter=self.max_iter, seed=seed
        )
        tell_unconverged(view.recorder, found.convergence, single=view.single)
        Z, values = with_null(laplacian.space, laplacian, found, k)
        self.eigenvalues_, self.singular_values_ = values, 1.0 - values
        rows: Floats = np.sqrt(2.0) * laplacian.from_working_order(Z)
        return rows, found.convergence

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
        parts = [f"{np.count_nonzero(nodes)} {words}" for nodes, words in silent if nodes.any()]
        if parts:
            recorder.note(f"nodes without edges of a kind: {'; '.join(parts)}")
        return found
