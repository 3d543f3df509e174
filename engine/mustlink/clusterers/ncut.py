"""Normalised cut: spectral clustering without side information (WHC11 §2.1), wherever the graph is.

The K smoothest vectors become rows, and k-means makes clusters of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.clusterers.clusterer import AUTO, GraphClusterer, Ints
from mustlink.constraints import Constraints
from mustlink.context.method_cost import Cost, eigenvectors, n_guard_vectors
from mustlink.core.check import (
    as_integer,
    as_labels,
    as_points,
    check_choice,
    check_regularization,
    check_tolerance,
    class_labels,
)
from mustlink.core.observe import Observer, Recorder, recorded
from mustlink.core.result import Convergence, EigenResult, tell_unconverged
from mustlink.core.state import before, fits, fits_again
from mustlink.discretize.assign import (
    best_split,
    clusters_of,
    held_out_right,
    seeded_kmeans,
    transform,
)
from mustlink.discretize.cuts import (
    ClusterSums,
    least_cut,
    note_components,
    scores_of_links,
    warn_of_components,
    warn_of_gap,
)
from mustlink.discretize.satisfaction import satisfaction
from mustlink.eigen.memory_work import MemoryWork
from mustlink.eigen.plain_solve import PLAIN_SOLVERS, chebyshev, first_pairs
from mustlink.eigen.work import DISK, MEMORY, RANKS, Work
from mustlink.errors import InputError, NumericalError
from mustlink.estimators.fit_input import graphs_of_views, side_information
from mustlink.graph import Graph
from mustlink.graph.disk_graph import DiskGraph
from mustlink.graph.forms import on_both_sides
from mustlink.neighbors.points_by_rows import is_rows
from mustlink.operators.protocol import Laplacian
from mustlink.selection.regularization import (
    RESTARTS,
    SAMPLE,
    STAGE,
    Regularization,
    decided_cut,
    within_range,
)
from mustlink.space import Block, Small, Space, Vector

VARIANTS = (AUTO, "luxburg", "ng", "heat", "shi-malik")
BY_EVIDENCE = ("heat", "luxburg", "ng")  # the first, unless another says clearly more
_CLEARLY = 1.01  # times what clusters of "heat" tell of the edges
INITS = ("k-means++", "labels")
_LARGE = 50_000  # nodes from which candidates are cut at a tenth of the sharpness
_SHARP, _ROUGH = 1e-3, 1e-2
_FEW = 20_000  # nodes up to which vectors beyond the K-th are as sharp as the others
_FILTERS = 12
_ROOM = 4  # times the vectors computed: smaller graphs are for the K vectors alone
_ZERO = 1e-12  # an eigenvalue that is rounding
_NOISE = 2.0  # times the residuals, which errors of a row may reach
_POINTS = 8  # times the bytes of the points that must be free for k-means on them


@dataclass(eq=False, repr=False)
class NCut(GraphClusterer):
    """K clusters of a graph that minimise the (multiple) normalised cut, relaxed.

    min Σ_k z_kᵀL̄z_k, z_kᵀz_k = 1 (WHC11 eq. 7): the K smoothest eigenvectors of
    L̄ = I − D^-½WD^-½, exact null vectors of the components included, then

    * variant="luxburg": k-means on the rows of U = D^-½Z (von Luxburg 2007)
    * variant="ng": k-means on the rows of Z scaled to length 1 (Ng, Jordan & Weiss 2001)
    * variant="heat": k-means on the rows of exp(−L̄/λ_{K+1})Z scaled to length 1, with max(3, K/5)
      more vectors, less sharp on large graphs: what comes after the K-th counts less instead of
      not at all (heat kernel of the graph, as in diffusion maps, Coifman & Lafon 2006)
    * variant="shi-malik": K = 2, the second vector cut at the value of least NCut

    `variant`: how vectors become clusters: one of these, or "auto": "heat", unless "luxburg" or
    "ng" tell 1 % more about the edges (mutual information of the clusters at both ends). All are of
    the same vectors; `embedding_` is D^-½Z with "auto" and "heat". Chosen on eight data sets,
    where other τ beside them gained nothing. `regularization` t > 0 adds t times the
    mean degree to every degree: T = D + t·d̄·I in the place of D. On sparse networks the cut is
    least for sets that hang on the rest by one edge, and this makes them expensive (Qin & Rohe
    2013). There is no null space then, and rows of Z(I − Λ) are scaled to length 1, whatever the
    variant. "auto" tries 0, 0.1, 0.3 and 1 on graphs that are given and takes the one whose
    clusters tell most about the edges, in graphs made from points 0, and the report says why.

    `init` is where k-means starts: "k-means++" in ten ways at random, "labels" at the means of the
    classes of `y`, one cluster a class in their order, more by k-means++ (Basu, Banerjee & Mooney
    2002): in the embedding, or in the points themselves, where that answers more of the labels held
    out, as round clusters want. `tol`: the residual ‖L̄z − λz‖ to reach; None takes 1e-8, and 1e-4 /
    1e-3 from 20,000 / 200,000 nodes on. `max_iter`: the most steps of the eigensolver. `solver`: of
    the eigenproblem: auto, dense, lobpcg, chebyshev or shift-invert.

    After `fit`: `labels_` (n,), `embedding_` (n, K), `eigenvalues_` (K,), `graph_`, `report_`.
    Cost: a few tens of products with a block of K + 3 columns; about 5 s for 10⁶ nodes and K = 10
    once the graph is there.
    """

    variant: str = AUTO
    init: str = "k-means++"
    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 200
    regularization: float | str = "auto"

    homes: ClassVar[frozenset[str]] = frozenset({MEMORY, DISK, RANKS})
    _informed: ClassVar[bool] = False

    def cost(self, n_classes: int | None = None) -> Cost:
        """K − 1 eigenvectors: the constant one is known."""
        return eigenvectors(max(1, self._k_or(n_classes) - 1))

    def _way(self) -> str:
        """The variant, by evidence where nothing else says how: labels know their own place."""
        return "luxburg" if self.variant == AUTO and self.init == "labels" else self.variant

    @fits
    def fit(
        self,
        X: Any,
        y: Any = None,
        constraints: Constraints | None = None,
        observer: Observer | Recorder | None = None,
        sample_weight: Any = None,
        graphs: Any = None,
        views: Any = None,
    ) -> NCut:
        """Cluster points (n, d), an affinity (n, n), a Graph or a DiskGraph.

        The last is read into memory where it fits into `memory`, and else stays on disk, its
        vectors, too: `embedding_` then has its rows there, and slices of it are arrays. So does the
        graph of points for which `memory` is too little.

        `sample_weight` (n,) >= 0 tells how often every row counts; those of 0 are in no cluster.
        `graphs` are other graphs of the same nodes, weighed by `graph_weights`, with constraints as
        these tell, `views` other columns of the same rows (`CSP.fit`); X may then be None.
        `y` is ignored (scikit-learn's convention) but for init="labels", -1 for unknown, where its
        classes are as many as the clusters if `n_clusters` says nothing; `constraints` are not
        used, only how many of them the result happens to keep is reported.
        """
        self._check()
        recorder = recorded(observer)
        others = {"y": y if self.init == "labels" else None, "constraints": constraints}
        others["sample_weight"] = sample_weight
        with self._running(recorder):
            X = self._prepared(X, recorder)
            others["graphs"] = graphs_of_views(self, X, graphs, views, recorder, sample_weight)
            work = self._home_of(
                X, recorder, lambda graph: side_information(graph, None, constraints), others
            )
            self._run(work, y, constraints)
        return self._scored(recorder)

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
        if isinstance(self.graph_, DiskGraph):
            raise InputError("refit: the graph is on disk, where nothing is kept; fit again")
        with self._running(recorder):
            self._run(self._home_again(recorder), y, constraints)
        return self._numbered_as(labels, recorder)._scored(recorder)

    @fits_again
    def add(self, X: Any, observer: Observer | Recorder | None = None) -> NCut:
        """Join new points (m, d) to the fitted ones, or nodes by their edges (m, n + m), sparse.

        See `CSP.add`; with init="labels" fit again.
        """
        self._check()
        recorder, labels = recorded(observer), before(self).labels_
        with self._running(recorder):
            self._run(MemoryWork(self._grown(X, recorder)))
            return self._numbered_as(labels, recorder, "add")._scored(recorder)

    def _run(self, work: Work, y: Any = None, constraints: Constraints | None = None) -> None:
        """Cluster a graph and set the results; the same steps in every home."""
        recorder, seed = work.recorder, self._used_seed
        if constraints is not None:  # looked at before anything runs
            side_information(work.graph, None, constraints)
        labels, n_classes = self._starting_labels(y, work)
        k = self._clusters(work, n_classes, seed)
        if n_classes > k:
            raise InputError(
                f"init: labels of {n_classes} classes for {k} clusters; ask for as many"
            )
        cuts = NormalizedCuts(work, k, self._way(), self.solver, self.tol, self.max_iter, seed)
        if self.variant != "shi-malik":
            cut, regular = decided_cut(cuts, self.regularization, k)
        else:
            cut, regular = cuts.sharp(), Regularization(0.0, "shi-malik")
        tell_of_cut(work, cut, regular.tau)
        start = {}
        if labels is not None:
            assert isinstance(work, MemoryWork)
            cut, start["init"] = self._from_labels(work, cut, labels, k, seed)
        self.labels_ = self._labels(work, cut.clusters, k)
        warn_of_gap(cut, recorder)
        cut = summed(work, cut, k)
        _, network = network_of(work, cut, k)
        self.graph_ = work.graph
        if work.home != MEMORY:
            self._cut_on_disk = cut
        self.embedding_, self.eigenvalues_ = work.from_working_order(cut.embedding), cut.values
        kept = None if constraints is None else satisfaction(self.labels_, constraints)
        choices = {
            **start,
            **({"variant": [cut.variant, reason_for_variant(cut.tried)]} if cut.tried else {}),
            "regularization": [regular.tau, regular.reason],
            "solver": cut.convergence.solver,
        }
        self._report(
            work,
            k,
            choices,
            cut.convergence,
            kept,
            f"NCut ({cut.variant if cut.tried else self._way()})",
            next_eigenvalue=cut.beyond,
            regularizations_tried=regular.table,
            variants_tried=dict(cut.tried),
            ncut=beside_least(work, cut, regular.tau),
            **network,
        )

    def _in_memory_only(self) -> dict[str, bool]:
        return {
            **super()._in_memory_only(),
            "variant": self.variant == "shi-malik",
            "init": self.init != "k-means++",
            "solver": self.solver not in ("auto", "lobpcg"),
        }

    def _check(self) -> None:
        check_choice(self.variant, VARIANTS, "variant")
        check_choice(self.init, INITS, "init")
        check_choice(self.solver, PLAIN_SOLVERS, "solver")
        check_tolerance(self.tol)
        as_integer(self.max_iter, "max_iter", 1)
        check_regularization(self.regularization)
        if self.variant == "shi-malik" and self.regularization not in ("auto", 0):
            raise InputError(
                'regularization: "shi-malik" cuts at the least NCut of the degrees as they '
                'are; use variant="ng"'
            )
        if self.variant == "shi-malik" and self.init == "labels":
            raise InputError('init: "shi-malik" cuts one vector and starts nowhere; leave init out')

    def _starting_labels(self, y: Any, work: Any) -> tuple[Ints | None, int]:
        """Labels (n,) of the nodes that k-means starts from, and their classes; InputError."""
        if self.init != "labels":
            return None, 0
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
        self, work: MemoryWork, cut: NormalizedCut, labels: Ints, k: int, seed: int
    ) -> tuple[NormalizedCut, str]:
        """The clusters that k-means finds from the classes, and where it looked for them."""
        laplacian, given = work.laplacian, labels[work.laplacian.nodes]
        if np.unique(given[given >= 0]).size < 2:
            raise InputError("init: labelled nodes with an edge are of less than two classes")
        where = "labels"
        spaces: list[NDArray[np.floating]] = [cut.embedding]
        other = self._points is None or is_rows(self._points) or sp.issparse(self._points)
        points = None if other else as_points(self._points)
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


# --- One cut of a graph


@dataclass(frozen=True, eq=False)
class NormalizedCut:
    """Clusters (m,), an embedding (m, K), eigenvalues (K,), in working order.

    Isolated nodes that have rows are in cluster -1. `beyond` is the eigenvalue after the last, as
    in `EigenResult`; `sums` are weights between clusters and sizes, where they were computed.
    `variant` made the clusters; `tried` has what the clusters of each tell about an edge, in nats,
    where several were.
    """

    clusters: Vector
    embedding: Block
    values: Small
    convergence: Convergence
    beyond: float | None
    sums: ClusterSums | None = None
    variant: str = ""
    tried: Mapping[str, float] = field(default_factory=dict)

    @property
    def links(self) -> Small:
        """Weights between clusters, (K, K)."""
        assert self.sums is not None
        return self.sums.weights


def summed(work: Work, cut: NormalizedCut, k: int) -> NormalizedCut:
    """The cut with weights between its clusters in the graph of a work; a pass over the graph."""
    if cut.sums is not None:
        return cut
    with work.recorder.stage("clusters"):
        return replace(cut, sums=ClusterSums(*work.cluster_sums(cut.clusters, k)))


@dataclass(frozen=True, eq=False)
class NormalizedCuts:
    """Cuts of a graph into k clusters, with τ times the mean degree added to all; see `NCut`.

    `selection.regularization.decided_cut` says with which τ. On ranks they are the same on any
    number of them, bit by bit. Memory: clusters, rows (on disk a sample of them), and what the
    eigenvectors take.
    """

    work: Work
    k: int
    variant: str = "luxburg"
    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 200
    seed: int = 0

    def trial(
        self, tau: float, k: int, start: Block | None
    ) -> tuple[ClusterSums | None, Block | None]:
        """K rough clusters with τ added, None where rows overflow; and a start for the next τ."""
        work, space, seed = self.work, self.work.space, self.seed
        found, start = self._rough(tau, k, start)
        with work.recorder.stage(STAGE):
            rows, _ = rows_of(work, found, k, self.variant, tau)
            if not within_range(space, rows):
                return None, start
            clusters = clusters_of(space, rows, k, seed, restarts=RESTARTS, sample=SAMPLE)
            return ClusterSums(*work.cluster_sums(clusters, k)), start

    def _rough(self, tau: float, k: int, start: Block | None) -> tuple[EigenResult, Block | None]:
        """The k smoothest pairs beside the null space, roughly; and a start for the next τ."""
        work, space, seed = self.work, self.work.space, self.seed
        laplacian: Any = work.regularized(tau)
        laplacian = getattr(laplacian, "in_single", laplacian)
        n_linked, parts = work.look.n_linked, laplacian.null.n_components
        wanted, few = max(0, k - parts), n_linked <= _LARGE
        tol, width = _SHARP if few else _ROUGH, k + n_guard_vectors(k)
        dense = work.home == MEMORY and work.is_small
        if wanted == 0 or dense or 5 * width >= n_linked - parts:
            return work.smallest_pairs(wanted, tol=tol, seed=seed, tau=tau), start

        def noise(columns: int) -> Block:
            return space.copy(space.normals(columns, seed), laplacian.dtype)

        begun = noise(width) if start is None else start
        how: Any = {"tol": tol, "max_iter": _FILTERS, "deadline": work.recorder.deadline}
        with work.recorder.stage(STAGE):
            found = chebyshev(laplacian, begun, wanted, **how)
        if few and not tau and not found.convergence.converged.all():
            return work.smallest_pairs(wanted, tol=tol, seed=seed, tau=tau), start
        return found, space.stack([found.vectors, noise(width - wanted)])

    def sharp(self, tau: float = 0.0, found: EigenResult | None = None) -> NormalizedCut:
        """The cut, sharp; `found` are the pairs beyond the null space, if known.

        Raises InputError.
        """
        work, k, variant = self.work, self.k, self.variant
        if variant == "shi-malik" and k != 2:
            raise InputError(f'variant: "shi-malik" makes 2 clusters, not {k}; use "luxburg"')
        how: dict[str, Any] = {"solver": self.solver, "tol": self.tol}
        how |= {"max_iter": self.max_iter, "seed": self.seed}
        if found is not None:
            whole = found
        else:
            wanted = max(0, k - work.regularized(tau).null.n_components)
            more = self._beyond(tau)
            sharp = more if work.look.n_linked <= _FEW else 0
            whole = work.smallest_pairs(wanted + sharp, tau=tau, extra=more - sharp, **how)
            found = first_pairs(work.space, whole, wanted)
        ways = self._ways(tau, whole)
        embedding, values = rows_of(work, found, k, variant, tau)

        def cut(way: str) -> NormalizedCut:
            def clustered() -> Vector:
                rows = heat_rows(work, whole, k) if way == "heat" and not tau else embedding
                if way == "ng" != variant:
                    rows, _ = rows_of(work, found, k, way, tau)
                with work.recorder.stage("clusters"):
                    if way != "shi-malik":
                        return clusters_of(work.space, rows, k, self.seed)
                    vector = cast(MemoryWork, work).laplacian.from_working_order(rows[:, 1])
                    split, ncut = best_split(work.graph.affinity, vector)
                    work.recorder.note(f"cut at {split:.4g}, NCut {ncut:.4g}")
                    return (rows[:, 1] > split).astype(np.int64)

            clusters = work.cached("clusters", (k, way, tau, *how.values()), clustered)
            convergence, beyond = found.convergence, found.beyond
            return NormalizedCut(clusters, embedding, values, convergence, beyond, variant=way)

        if len(ways) == 1:
            return cut(ways[0])
        return self._telling(cut, ways)

    def _beyond(self, tau: float) -> int:
        """Vectors to find beyond the K: none of few nodes, or where components are clusters."""
        work, k, parts = self.work, self.k, self.work.laplacian.null.n_components
        if tau or k == 1 or parts >= k or self.variant not in (AUTO, "heat"):
            return 0
        guards = n_guard_vectors(k - parts)
        return guards if work.look.n_linked - parts >= _ROOM * (k - parts + guards) else 0

    def _ways(self, tau: float, found: EigenResult) -> tuple[str, ...]:
        """The variants to try, with the pairs `found` beyond the null space."""
        if self.variant != AUTO:
            return (self.variant,)
        there = heat_time(found, self.k, self.work.regularized(tau).null.n_components)
        if tau or self.k == 1 or there is None:
            return ("luxburg",)
        return BY_EVIDENCE

    def _telling(self, cut: Callable[[str], NormalizedCut], ways: tuple[str, ...]) -> NormalizedCut:
        """The first of several cuts, or the one that tells clearly more about the edges."""
        work, recorder = self.work, self.work.recorder
        best: NormalizedCut | None = None
        tried: dict[str, float] = {}
        for number, way in enumerate(ways):
            if tried and recorder.deadline.is_over:
                left = ", ".join(ways[number:])
                recorder.skip_for_time(f"variant: {left} not tried")
                break
            try:
                found = summed(work, cut(way), self.k)
            except NumericalError:  # degrees that differ by more than numbers hold
                continue
            assert found.sums is not None
            tried[way] = found.sums.nats
            least = tried[way] / (1.0 if best is None or best.variant != ways[0] else _CLEARLY)
            if best is None or least > tried[best.variant]:
                best = found
        if best is None:  # none was cut: as it ends without a choice
            return cut(ways[-1])
        return replace(best, tried=tried)

    def judged(self, tau: float) -> NormalizedCut:
        """The same with its sums."""
        return summed(self.work, self.sharp(tau), self.k)


def rows_of(
    work: Work, found: EigenResult, k: int, variant: str, tau: float = 0.0
) -> tuple[Block, Small]:
    """What k-means sees (m, k), and the eigenvalues (k,); `found` lacks the null space.

    With regularised degrees rows of Z(I − Λ) at length 1: products with S^½ would be inner products
    of the rows then, and directions that hardly hold together count less (ARI .64 -> .65 on 16
    networks).
    """
    laplacian = work.regularized(tau)
    Z, values = with_null(work.space, laplacian, found, k)
    noise = _noise(found, work.look.n_linked)

    def rows(Z: NDArray[Any], root: NDArray[np.float64]) -> NDArray[Any]:
        """What k-means sees of rows of vectors; 0 of isolated nodes."""
        if tau:
            found = transform(Z * (1.0 - values), "sphere", noise=noise)
        elif variant == "ng":
            found = transform(Z.astype(np.float64, copy=False), "sphere", noise=noise)
        else:
            scale = root[:, None]
            found = np.divide(Z, scale, out=np.zeros(Z.shape), where=scale > 0)
        with np.errstate(over="ignore"):  # whoever takes the rows looks whether they are finite
            return found.astype(Z.dtype, copy=False)

    return work.space.rowwise(rows, Z, laplacian.root_degree), values


def _noise(found: EigenResult, n: int) -> float:
    """Length below which a row of vectors (n, k) is what the solver left of a 0.

    As of a pair of nodes apart from all others, whose own vectors come after the K-th: at length 1
    it would have a direction by chance, another one in every home.
    """
    residual = float(np.max(found.convergence.residuals, initial=0.0))
    usual = 1.0 / float(np.sqrt(n))
    return min(max(_NOISE * residual, 1e-5 * usual), 1e-2 * usual)


def heat_time(found: EigenResult, k: int, n_components: int) -> float | None:
    """1/λ_{K+1}; None where there is no such eigenvalue, or it is 0."""
    after = k - n_components
    if not 0 <= after < found.values.size or found.values[after] <= _ZERO:
        return None
    return 1.0 / float(found.values[after])


def heat_rows(work: Work, found: EigenResult, k: int) -> Block:
    """Rows of exp(−L̄/λ_{K+1})Z (m, k + more) of length 1; of Z (m, K) where that is 0."""
    laplacian, space = work.laplacian, work.space
    parts = laplacian.null.n_components
    time = heat_time(found, k, parts)
    count = parts + found.values.size
    if time is None:
        found, count = first_pairs(space, found, max(0, k - parts)), k
    Z, values = with_null(space, laplacian, found, count)
    weights = np.exp(-values * (time or 0.0))
    noise = _noise(found, work.look.n_linked)

    def rows(Z: NDArray[Any]) -> NDArray[Any]:
        return transform(Z * weights, "sphere", noise=noise).astype(Z.dtype, copy=False)

    return space.rowwise(rows, Z)


def with_null(
    space: Space, laplacian: Laplacian, found: EigenResult, k: int
) -> tuple[Block, Small]:
    """The k smoothest vectors (m, k) and values: null vectors of the largest components first."""
    count = min(k, laplacian.null.n_components)
    values = np.concatenate([np.zeros(count), found.values])[:k]
    parts = [laplacian.null.columns(np.arange(count))] if count else []
    parts = [space.copy(part, found.vectors.dtype) for part in parts]
    return space.stack([*parts, found.vectors]), values


# ---------------------------------------------------------------- notes and warnings of a cut


def reason_for_variant(tried: Mapping[str, float]) -> str:
    """Why a variant was taken, by what the clusters of each tell."""
    table = ", ".join(f"{nats:.3f} by {way}" for way, nats in tried.items())
    return f"what the clusters tell about an edge, in nats: {table}"


def tell_of_cut(work: Work, cut: NormalizedCut, tau: float = 0.0) -> None:
    """Say what did not converge, and what becomes of components."""
    tell_unconverged(work.recorder, cut.convergence, single=work.laplacian.dtype.itemsize < 8)
    if not tau:
        note_components(work.laplacian.null.n_components, cut.values.size, work.recorder)


def beside_least(work: Work, cut: NormalizedCut, tau: float = 0.0) -> dict[str, Any]:
    """The cut found, and the least that any cut into as many clusters can have; see `least_cut`.

    Both are of the degrees with τ `added`. `least` is None where the eigenvectors are not as sharp
    as was asked for: that none is missed is not to be relied on then.
    """
    assert cut.sums is not None
    count, least = int(np.count_nonzero(cut.sums.sizes)), None
    if cut.convergence.converged.all():
        known = cut.values.size - cut.convergence.residuals.size  # null vectors, which are exact
        residuals = cut.convergence.residuals[: max(0, count - known)]
        rounding = float(np.finfo(work.laplacian.dtype).eps)
        least = least_cut(cut.values[:count], residuals, rounding)
    return {"found": cut.sums.cut(tau), "least": least, "clusters": count, "added": tau}


def network_of(work: Work, cut: NormalizedCut, k: int) -> tuple[NormalizedCut, dict[str, Any]]:
    """How a network on disk or on ranks is cut, with a doubt where it is not.

    Returns the cut with its sums. There are no scores of a graph made from points, nor of one in
    memory, whose clusters `GraphClusterer._scored` looks at.
    """
    if work.home == MEMORY:
        return cut, {}
    cut = summed(work, cut, k)
    if not work.look.is_network:
        return cut, {}
    if not (cut.links - np.diag(cut.links.diagonal())).any():
        own: tuple[Any, ...] = work.laplacian.null.component, cut.clusters
        if work.home == RANKS:
            ranks = cast(Any, work).ranks
            own = tuple(ranks.joined(np.ascontiguousarray(v)) for v in own)
        component, clusters = (np.asarray(v[:], dtype=np.int64) for v in own)
        warn_of_components(component, clusters, work.recorder)
    return cut, {"network": scores_of_links(cut.links)[0]}
