"""Normalised cut: spectral clustering without side information (WHC11 §2.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.check import as_points, check_choice, check_tolerance
from mustlink.constraints import Constraints
from mustlink.cost.method_cost import Cost, eigenvectors
from mustlink.eigen.sharpness import warn_unconverged
from mustlink.eigen.solver import SOLVERS, laplacian_of, smallest_pairs
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.labels import as_labels, class_labels
from mustlink.methods.clusterer import GraphClusterer, Ints
from mustlink.neighbours.points_by_rows import is_rows
from mustlink.observe import Observer, Recorder, recorded
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.result import Convergence, EigenResult, Report
from mustlink.rounding.assign import kmeans, transform
from mustlink.rounding.seeded import held_out_right, seeded_kmeans
from mustlink.rounding.split import best_split
from mustlink.scores import satisfaction
from mustlink.workspace import Workspace

VARIANTS = ("luxburg", "ng", "shi-malik")
INITS = ("k-means++", "labels")
_POINTS = 8  # times the bytes of the points that must be free for k-means on them
# Share of λ_{K+1}: a single cloud in 20 dimensions has gaps of 0.003 to 0.024, the digits 0.13 at
# K = 10 and 0.03 at 15, separate blobs 0.8 and more at the right K.
_TINY_GAP = 0.025


@dataclass(eq=False, repr=False)
class NCut(GraphClusterer):
    """K clusters of a graph that minimise the (multiple) normalised cut, relaxed.

    min Σ_k z_kᵀL̄z_k, z_kᵀz_k = 1 (WHC11 eq. 7): the K smoothest eigenvectors of
    L̄ = I − D^-½WD^-½, exact null vectors of the components included, then

    * variant="luxburg": k-means on the rows of U = D^-½Z (von Luxburg 2007)
    * variant="ng": k-means on the rows of Z scaled to length 1 (Ng, Jordan & Weiss 2001)
    * variant="shi-malik": K = 2, the second vector cut at the value of least NCut

    `init` is where k-means starts: "k-means++" in ten ways at random, "labels" at the means of the
    classes of `y`, one cluster a class in their order, more by k-means++ (Basu, Banerjee & Mooney
    2002): in the embedding, or in the points themselves, where that answers more of the labels held
    out, as round clusters want. `tol` bounds ‖L̄z − λz‖; None takes 1e-8, and 1e-4 / 1e-3 from
    20,000 / 200,000 nodes on.
    `solver` is auto, dense, lobpcg, shift-invert or lanczos. After `fit`: `labels_` (n,),
    `embedding_` (n, K), `eigenvalues_` (K,), `graph_`, `report_`. Cost: a few tens of products
    with a block of K + 3 columns; about 5 s for 10⁶ nodes and K = 10 once the graph is there.
    """

    variant: str = "luxburg"
    init: str = "k-means++"
    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 200

    def cost(self, n_classes: int | None = None) -> Cost:
        """K − 1 eigenvectors: the constant one is known."""
        return eigenvectors(max(1, self._k_or(n_classes) - 1))

    def fit(
        self,
        X: Any,
        y: Any = None,
        constraints: Constraints | None = None,
        observer: Observer | Recorder | None = None,
        sample_weight: Any = None,
    ) -> NCut:
        """Cluster points (n, d), an affinity (n, n) or a Graph.

        `sample_weight` (n,) >= 0 tells how often every row counts; those of 0 are in no cluster.
        `y` is ignored (scikit-learn's convention) but for init="labels", -1 for unknown;
        `constraints` are not used, only how many of them the result happens to keep is reported.
        """
        check_choice(self.variant, VARIANTS, "variant")
        check_choice(self.init, INITS, "init")
        check_choice(self.solver, SOLVERS, "solver")
        check_tolerance(self.tol)
        recorder = recorded(observer)
        with self._running(recorder):
            seed = self._seed()
            work = self._work(X, recorder, seed, sample_weight)
            graph = work.graph
            k = self._check_clusters(graph)
            labels = self._starting_labels(y, graph, k)
            cut = normalized_cut(
                work,
                k,
                variant=self.variant,
                solver=self.solver,
                tol=self.tol,
                max_iter=self.max_iter,
                seed=seed,
            )
            laplacian = laplacian_of(work)
            start = {}
            if labels is not None:
                cut, start["init"] = self._from_labels(work, cut, labels, k, seed)
            self.labels_ = graph.spread(self._labels(laplacian, cut.clusters, recorder))
        warn_of_gap(cut, recorder)
        self.graph_ = graph
        self.embedding_, self.eigenvalues_ = (
            graph.spread(laplacian.leave(cut.embedding)),
            cut.values,
        )
        kept = None if constraints is None else satisfaction(self.labels_, constraints)
        self.report_ = Report(
            method=f"NCut ({self.variant})",
            n_nodes=graph.n_rows,
            n_clusters=k,
            choices={**start, "solver": cut.convergence.solver, "graph": dict(graph.info)},
            convergence=cut.convergence,
            satisfaction=kept,
            **recorder.told(),
            extra={"n_components": graph.n_components, "next_eigenvalue": cut.beyond},
        )
        return self

    def _starting_labels(self, y: Any, graph: Graph, k: int) -> Ints | None:
        """Labels (n,) of the nodes that k-means starts from; raises InputError."""
        if self.init != "labels":
            return None
        if self.variant == "shi-malik":
            raise InputError('init: "shi-malik" cuts one vector and starts nowhere; leave init out')
        labels = as_labels(class_labels(y)[0], graph.n_rows, "y")
        classes = np.unique(labels[labels >= 0])
        if classes.size > k:
            raise InputError(
                f"init: labels of {classes.size} classes for {k} clusters; ask for as many"
            )
        if graph.rows is None:
            return labels
        of_nodes = np.full(graph.n_nodes, -1, dtype=np.int64)
        known = np.flatnonzero(labels >= 0)[::-1]  # of equal rows with labels the first counts
        of_nodes[graph.rows[known]] = labels[known]
        return of_nodes

    def _from_labels(
        self, work: Workspace, cut: Cut, labels: Ints, k: int, seed: int
    ) -> tuple[Cut, str]:
        """The clusters that k-means finds from the classes, and where it looked for them."""
        laplacian, given = laplacian_of(work), labels[laplacian_of(work).nodes]
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


@dataclass(frozen=True)
class Cut:
    """Clusters (m,), rows (m, K) they were made of, eigenvalues (K,), in working order.

    `beyond` is the eigenvalue after them, as in `EigenResult`.
    """

    clusters: Ints
    embedding: Block
    values: Block
    convergence: Convergence
    beyond: float | None


def warn_of_gap(cut: Cut, recorder: Recorder) -> None:
    """Warn where λ_{K+1} is so near to λ_K that the K vectors might be others as well.

    A change E of L̄ turns their span by an angle of up to ‖E‖ / (λ_{K+1} − λ_K) (Davis & Kahan).
    """
    k, last = cut.values.size, float(cut.values[-1])
    if cut.beyond is not None and cut.beyond - last < _TINY_GAP * cut.beyond:
        recorder.warn(
            f"the gap after eigenvalue {k} is tiny ({last:.4g}, then {cut.beyond:.4g}): the graph "
            f"hardly tells {k} clusters from {k + 1}; try other numbers, or say more about nodes"
        )


def normalized_cut(
    work: Workspace,
    k: int,
    *,
    variant: str = "luxburg",
    solver: str = "auto",
    tol: float | None = None,
    max_iter: int = 200,
    seed: int = 0,
) -> Cut:
    """Cut a graph into k clusters, see `NCut`; raises InputError for shi-malik with k ≠ 2."""
    if variant == "shi-malik" and k != 2:
        raise InputError(f'variant: "shi-malik" makes 2 clusters, not {k}; use "luxburg"')
    graph, recorder, laplacian = work.graph, work.recorder, laplacian_of(work)
    wanted = max(0, k - laplacian.null.n_components)
    found = smallest_pairs(work, wanted, solver=solver, tol=tol, max_iter=max_iter, seed=seed)
    warn_unconverged(work, found.convergence)
    Z, values = _with_null(laplacian, found, k)
    _note_components(laplacian, k, recorder)
    if variant == "ng":
        embedding = transform(Z, "sphere")
    else:
        embedding = Z / laplacian.root_degree[:, None].astype(Z.dtype, copy=False)

    def clustered() -> Ints:
        with recorder.stage("clusters"):
            if variant != "shi-malik":
                return kmeans(embedding, k, seed, space=laplacian.space).labels
            split, ncut = best_split(graph.affinity, laplacian.leave(embedding[:, 1]))
            recorder.note(f"cut at {split:.4g}, NCut {ncut:.4g}")
            return (embedding[:, 1] > split).astype(np.int64)

    name = work.name("clusters", k, variant, solver, tol, max_iter, seed, work.memory)
    clusters = work.kept("clusters", name, clustered)
    return Cut(clusters, embedding, values, found.convergence, found.beyond)


def _with_null(laplacian: NormalizedLaplacian, found: EigenResult, k: int) -> tuple[Block, Block]:
    """The k smoothest vectors (m, k) and values: null vectors of the largest components first."""
    count = min(k, laplacian.null.n_components)
    null = laplacian.null.columns(np.arange(count)).astype(found.vectors.dtype, copy=False)
    Z = np.column_stack([null, found.vectors])
    return Z[:, :k], np.concatenate([np.zeros(count), found.values])[:k]


def _note_components(laplacian: NormalizedLaplacian, k: int, recorder: Recorder) -> None:
    count = laplacian.null.n_components
    if count > 1:
        recorder.note(
            f"the graph has {count} connected components beside isolated nodes; their exact "
            "null vectors are "
            + (
                f"part of the {k} eigenvectors"
                if count <= k
                else f"more than the {k} clusters, so the {k} largest components decide alone"
            )
        )
