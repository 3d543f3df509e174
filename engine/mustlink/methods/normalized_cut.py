"""One cut of a graph, wherever its rows are (WHC11 §2.1).

The K smoothest vectors become rows, and k-means makes clusters of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.memory_work import MemoryWork
from mustlink.eigen.plain_solve import tell_unconverged
from mustlink.eigen.work import DISK, MEMORY, Work
from mustlink.errors import InputError
from mustlink.graph.structure import GraphLook
from mustlink.methods.doubts import note_components, warn_of_components
from mustlink.observe import Recorder
from mustlink.operators.protocol import Laplacian
from mustlink.result import Convergence, EigenResult
from mustlink.rounding.assign import clusters_of, transform
from mustlink.rounding.block_model import refined_clusters
from mustlink.rounding.split import best_split
from mustlink.scores.cuts import ClusterSums, scores_of_links
from mustlink.selection.regularization import (
    RESTARTS,
    SAMPLE,
    STAGE,
    RoughPairs,
    within_range,
)
from mustlink.space import Block, Small, Space, Vector


@dataclass(frozen=True, eq=False)
class Cut:
    """Clusters (m,), rows (m, K) they were made of, eigenvalues (K,), in working order.

    Isolated nodes that have rows are in cluster -1. `beyond` is the eigenvalue after the last, as
    in `EigenResult`; `sums` are weights between clusters and sizes, where they were computed.
    """

    clusters: Vector
    embedding: Block
    values: Small
    convergence: Convergence
    beyond: float | None
    sums: ClusterSums | None = None

    @property
    def links(self) -> Small:
        """Weights between clusters, (K, K)."""
        assert self.sums is not None
        return self.sums.weights


def cut_of(
    work: Work,
    k: int,
    *,
    variant: str = "luxburg",
    tau: float = 0.0,
    solver: str = "auto",
    tol: float | None = None,
    max_iter: int = 200,
    seed: int = 0,
    found: EigenResult | None = None,
) -> Cut:
    """Cut a graph into k clusters, see `NCut`; with τ times the mean degree added to all.

    `found` are the pairs beyond the null space where they are known. On ranks it is the same on
    any number of them, bit by bit. Raises InputError. Memory: clusters, rows (on disk a sample of
    them), and what the eigenvectors take.
    """
    if variant == "shi-malik" and k != 2:
        raise InputError(f'variant: "shi-malik" makes 2 clusters, not {k}; use "luxburg"')
    how: dict[str, Any] = {"solver": solver, "tol": tol, "max_iter": max_iter, "seed": seed}
    key: Any = k, variant, tau, *how.values()
    if found is None:
        wanted = max(0, k - work.regularized(tau).null.n_components)
        found = work.smallest_pairs(wanted, tau=tau, **how)
    else:
        key = None
    rows, values = rows_of(work, found, k, variant, tau)

    def clustered() -> Vector:
        with work.recorder.stage("clusters"):
            if variant == "shi-malik":
                return _split(work, rows)
            return clusters_of(work.space, rows, k, seed)

    clusters = clustered() if key is None else work.kept("clusters", key, clustered)
    return Cut(clusters, rows, values, found.convergence, found.beyond)


def _split(work: Any, rows: Block) -> Vector:
    """Two sides of the second vector, cut at the least NCut (Shi & Malik 2000); in memory."""
    vector = work.laplacian.leave(rows[:, 1])
    split, ncut = best_split(work.graph.affinity, vector)
    work.recorder.note(f"cut at {split:.4g}, NCut {ncut:.4g}")
    return (rows[:, 1] > split).astype(np.int64)


def summed(work: Work, cut: Cut, k: int) -> Cut:
    """The cut with weights between its clusters in the graph of a work; a pass over the graph."""
    if cut.sums is not None:
        return cut
    with work.recorder.stage("weights between clusters"):
        return replace(cut, sums=ClusterSums(*work.cluster_sums(cut.clusters, k)))


@dataclass(frozen=True, eq=False)
class Cuts:
    """Cuts of a graph into k clusters, see `selection.regularization.decided_cut`."""

    work: Work
    k: int
    variant: str = "luxburg"
    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 200
    seed: int = 0

    @property
    def recorder(self) -> Recorder:
        """Who hears of it."""
        return self.work.recorder

    @property
    def look(self) -> GraphLook:
        """What is seen of the graph before any eigenvector."""
        return self.work.look

    def trial(
        self, tau: float, k: int, start: Block | None
    ) -> tuple[ClusterSums | None, Block | None]:
        """K rough clusters with τ added, None where rows overflow; and a start for the next τ."""
        work, space, seed = self.work, self.work.space, self.seed

        def sharply(wanted: int, tol: float) -> EigenResult:
            return work.smallest_pairs(wanted, tol=tol, seed=seed, tau=tau)

        laplacian: Any = work.regularized(tau)
        laplacian = getattr(laplacian, "in_single", laplacian)
        dense = work.home == MEMORY and work.is_small
        rough = RoughPairs(self.look.n_linked, seed, self.recorder, dense, sharply)
        found, start = rough.of(laplacian, k, tau, start)
        with self.recorder.stage(STAGE):
            rows, _ = rows_of(work, found, k, self.variant, tau)
            if not within_range(space, rows):
                return None, start
            clusters = clusters_of(space, rows, k, seed, restarts=RESTARTS, sample=SAMPLE)
            return ClusterSums(*work.cluster_sums(clusters, k)), start

    def sharp(self, tau: float) -> Cut:
        """The cut as it was asked for, with τ added."""
        how: dict[str, Any] = {"solver": self.solver, "tol": self.tol, "max_iter": self.max_iter}
        return cut_of(self.work, self.k, variant=self.variant, tau=tau, seed=self.seed, **how)

    def judged(self, tau: float) -> Cut:
        """The same with its sums."""
        return summed(self.work, self.sharp(tau), self.k)


def refined_cut(work: MemoryWork, cut: Cut, k: int, seed: int) -> tuple[Cut, str]:
    """The clusters that a degree-corrected block model finds likelier, and how many nodes moved."""
    nobody = np.empty(0, dtype=np.int64)
    with work.recorder.stage("block model"):
        found = refined_clusters(work.view, work.laplacian, cut.clusters, k, nobody, seed)
    told = f"{np.mean(found != cut.clusters):.1%} of the nodes moved to likelier clusters"
    work.recorder.note(f"refine: {told}")
    return replace(cut, clusters=found), told


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
    scale = _scaled(values, variant, tau)
    return work.space.rowwise(scale, Z, laplacian.root_degree), values


def _scaled(values: Small, variant: str, tau: float) -> Callable[..., Any]:
    """Rows of vectors to what k-means sees of them; rows of isolated nodes are 0."""

    def rows(Z: NDArray[Any], root: NDArray[np.float64]) -> NDArray[Any]:
        if tau:
            found = transform(Z * (1.0 - values), "sphere")
        elif variant == "ng":
            found = transform(Z.astype(np.float64, copy=False), "sphere")
        else:
            scale = root[:, None]
            found = np.divide(Z, scale, out=np.zeros(Z.shape), where=scale > 0)
        with np.errstate(over="ignore"):  # whoever takes the rows looks whether they are finite
            return found.astype(Z.dtype, copy=False)

    return rows


def with_null(
    space: Space, laplacian: Laplacian, found: EigenResult, k: int
) -> tuple[Block, Small]:
    """The k smoothest vectors (m, k) and values: null vectors of the largest components first."""
    count = min(k, laplacian.null.n_components)
    values = np.concatenate([np.zeros(count), found.values])[:k]
    parts = [laplacian.null.columns(np.arange(count))] if count else []
    parts = [space.copy(part, found.vectors.dtype) for part in parts]
    return space.stack([*parts, found.vectors]), values


# ---------------------------------------------------------------- what is said of a cut


def tell_of_cut(work: Work, cut: Cut, tau: float = 0.0) -> None:
    """Say what was missed, and what becomes of components."""
    tell_unconverged(work.recorder, cut.convergence, single=work.laplacian.dtype.itemsize < 8)
    if not tau:
        note_components(work.laplacian.null.n_components, cut.values.size, work.recorder)


def network_of(work: Work, cut: Cut, k: int) -> tuple[Cut, dict[str, Any]]:
    """How a network on disk or on ranks is cut, with a doubt where it is not.

    The cut comes back with its sums. Nothing is told of a graph made from points, nor of one in
    memory, whose clusters `GraphClusterer._scored` looks at.
    """
    if work.home == MEMORY:
        return cut, {}
    cut = summed(work, cut, k)
    if not work.look.is_network:
        return cut, {}
    if not (cut.links - np.diag(cut.links.diagonal())).any():
        component, clusters = (
            _everywhere(work, v) for v in (work.laplacian.null.component, cut.clusters)
        )
        warn_of_components(component, clusters, work.recorder)
    return cut, {"network": scores_of_links(cut.links)[0]}


def _everywhere(work: Any, own: Vector) -> NDArray[np.int64]:
    """A vector of working nodes that everyone has."""
    found = own if work.home == DISK else work.ranks.joined(np.ascontiguousarray(own))
    return np.asarray(found[:], dtype=np.int64)
