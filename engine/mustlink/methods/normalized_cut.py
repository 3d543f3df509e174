"""One cut of a graph: the smoothest vectors to rows, the rows to clusters (WHC11 §2.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.plain_solve import is_small
from mustlink.eigen.sharpness import warn_unconverged
from mustlink.eigen.solver import laplacian_of, smallest_pairs
from mustlink.errors import InputError
from mustlink.graph.even_degrees import GraphLook
from mustlink.methods.refined_clusters import refined_clusters
from mustlink.observe import Recorder
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.result import Convergence, EigenResult
from mustlink.rounding.assign import kmeans, transform
from mustlink.rounding.split import best_split
from mustlink.scores.cuts import ClusterSums
from mustlink.selection.regularization import (
    RESTARTS,
    SAMPLE,
    STAGE,
    RoughPairs,
    within_range,
)
from mustlink.workspace import Workspace

Ints = NDArray[np.int64]
# Share of λ_{K+1} − λ_1: a single cloud in 20 dimensions has gaps of 0.003 to 0.024, the digits
# 0.13 at K = 10 and 0.03 at 15, separate blobs 0.8 and more at the right K. With τ of 0.3 and 1
# random graphs have 0.011 at most, 14 block models 0.15 to 0.7 at the right K, 0.02 at most beyond.
_TINY_GAP = 0.025


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


class Values(Protocol):
    """A cut's eigenvalues (K,), and the one after them."""

    @property
    def values(self) -> NDArray[np.float64]:
        """λ_1 to λ_K."""
        ...

    @property
    def beyond(self) -> float | None:
        """λ_{K+1}, where it is known."""
        ...


def warn_of_gap(cut: Values, recorder: Recorder) -> None:
    """Warn where λ_{K+1} is so near to λ_K that the K vectors might be others as well.

    A change E of L̄ turns their span by an angle of up to ‖E‖ / (λ_{K+1} − λ_K) (Davis & Kahan).
    The share is of λ_{K+1} − λ_1, as λ_1 = 0 only where nothing is added to the degrees.
    """
    k, first, last = cut.values.size, float(cut.values[0]), float(cut.values[-1])
    if cut.beyond is not None and cut.beyond - last < _TINY_GAP * (cut.beyond - first):
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
    """Cut a graph into k clusters, see `NCut`, and tell of it; raises InputError.

    With the degrees of the view, `Workspace.tau`.
    """
    how: dict[str, Any] = {"variant": variant, "solver": solver, "tol": tol, "max_iter": max_iter}
    cut = CutsAtHome(work, k, seed=seed, **how).of(work)
    tell_of_cut(work, cut)
    return cut


def tell_of_cut(work: Workspace, cut: Cut) -> None:
    """Say what was missed, and what becomes of components."""
    warn_unconverged(work, cut.convergence)
    note_components(laplacian_of(work).null.n_components, cut.values.size, work.recorder)


@dataclass(frozen=True, eq=False)
class CutsAtHome:
    """Cuts of a graph in memory into k clusters, see `selection.regularization.Cuts`."""

    work: Workspace
    k: int
    variant: str
    solver: str
    tol: float | None
    max_iter: int
    seed: int

    @property
    def recorder(self) -> Recorder:
        """Who hears of it."""
        return self.work.recorder

    @property
    def look(self) -> GraphLook:
        """What is seen of the graph."""
        return self.work.graph.look

    def trial(
        self, tau: float, k: int, start: Block | None
    ) -> tuple[ClusterSums | None, Block | None]:
        """Rough clusters, see `Cuts`."""
        view = self.work.regularized(tau)
        laplacian, recorder, seed = laplacian_of(view).in_single, self.recorder, self.seed

        def sharply(wanted: int, tol: float) -> EigenResult:
            return smallest_pairs(view, wanted, tol=tol, seed=seed)

        rough = RoughPairs(laplacian.size, seed, recorder, is_small(laplacian), sharply)
        found, start = rough.of(laplacian, k, tau, start)
        with recorder.stage(STAGE):
            rows, space = rows_of(laplacian_of(view), found, k, self.variant)[0], laplacian.space
            if not within_range(space, rows):
                return None, start
            how: dict[str, Any] = {"restarts": RESTARTS, "sample": SAMPLE, "space": space}
            return self._sums(kmeans(rows, k, seed, **how).labels, k), start

    def sharp(self, tau: float) -> tuple[Workspace, Cut]:
        """The cut, and the view of the graph that it is of."""
        view = self.work.regularized(tau)
        return view, self.of(view)

    def sums(self, cut: tuple[Workspace, Cut]) -> ClusterSums:
        """What it is judged by."""
        return self._sums(cut[1].clusters, self.k)

    def _sums(self, clusters: Ints, k: int) -> ClusterSums:
        laplacian = laplacian_of(self.work)
        labels = np.full(laplacian.n_nodes, -1, dtype=np.int64)
        labels[laplacian.nodes] = clusters
        sizes = np.bincount(clusters, laplacian.weights, k).astype(np.float64)
        weights, edges = self.work.graph.cluster_weights(labels, k)
        return ClusterSums(weights, edges, sizes)

    def of(self, view: Workspace) -> Cut:
        """The cut of a view of the graph."""
        k, how = self.k, {"solver": self.solver, "tol": self.tol, "max_iter": self.max_iter}
        return _cut(view, k, self.variant, self.seed, how)


def _cut(work: Workspace, k: int, variant: str, seed: int, how: dict[str, Any]) -> Cut:
    """The k smoothest vectors, found as `how` says, to rows, the rows to clusters."""
    if variant == "shi-malik" and k != 2:
        raise InputError(f'variant: "shi-malik" makes 2 clusters, not {k}; use "luxburg"')
    graph, recorder, laplacian = work.graph, work.recorder, laplacian_of(work)
    wanted = max(0, k - laplacian.null.n_components)
    found = smallest_pairs(work, wanted, seed=seed, **how)
    embedding, values = rows_of(laplacian, found, k, variant)

    def clustered() -> Ints:
        with recorder.stage("clusters"):
            if variant != "shi-malik":
                return kmeans(embedding, k, seed, space=laplacian.space).labels
            split, ncut = best_split(graph.affinity, laplacian.leave(embedding[:, 1]))
            recorder.note(f"cut at {split:.4g}, NCut {ncut:.4g}")
            return (embedding[:, 1] > split).astype(np.int64)

    name = work.name("clusters", k, variant, *how.values(), seed, work.memory)
    clusters = work.kept("clusters", name, clustered)
    return Cut(clusters, embedding, values, found.convergence, found.beyond)


def refined_cut(work: Workspace, cut: Cut, k: int, seed: int) -> tuple[Cut, str]:
    """The clusters that a degree-corrected block model finds likelier, and how many nodes moved."""
    nobody = np.empty(0, dtype=np.int64)
    with work.recorder.stage("block model"):
        found = refined_clusters(work, laplacian_of(work), cut.clusters, k, nobody, seed)
    told = f"{np.mean(found != cut.clusters):.1%} of the nodes moved to likelier clusters"
    work.recorder.note(f"refine: {told}")
    return replace(cut, clusters=found), told


def rows_of(
    laplacian: NormalizedLaplacian, found: EigenResult, k: int, variant: str
) -> tuple[Block, Block]:
    """What k-means sees (m, k), and the eigenvalues (k,); `found` lacks the null space.

    With regularised degrees rows of Z(I − Λ) at length 1: products with S^½ would be inner products
    of the rows then, and directions that hardly hold together count less (ARI .64 -> .65 on 16
    networks).
    """
    Z, values = with_null(laplacian, found, k)
    if laplacian.null.n_components == 0:
        return transform(Z * (1.0 - values).astype(Z.dtype), "sphere"), values
    if variant == "ng":
        return transform(Z, "sphere"), values
    rows = np.empty_like(Z)
    root = laplacian.root_degree[:, None]  # in single precision the smallest might be 0
    with np.errstate(over="ignore"):  # whoever takes the rows looks whether they are finite
        np.divide(Z, root, out=rows, dtype=np.float64, casting="same_kind")
    return rows, values


def with_null(laplacian: NormalizedLaplacian, found: EigenResult, k: int) -> tuple[Block, Block]:
    """The k smoothest vectors (m, k) and values: null vectors of the largest components first."""
    count = min(k, laplacian.null.n_components)
    null = laplacian.null.columns(np.arange(count)).astype(found.vectors.dtype, copy=False)
    Z = np.column_stack([null, found.vectors])
    return Z[:, :k], np.concatenate([np.zeros(count), found.values])[:k]


def note_components(count: int, k: int, recorder: Recorder) -> None:
    """Say what becomes of `count` components in k clusters, where there are several."""
    if count > 1:
        recorder.note(
            f"the graph has {count} connected components beside isolated nodes; their exact "
            "null vectors are "
            + (
                f"part of the {k} eigenvectors"
                if count <= k
                else f"more than the {k} clusters: those beyond the largest are put together"
            )
        )
