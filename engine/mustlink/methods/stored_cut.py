"""The normalised cut where rows are on disk or on ranks: the steps of `normalized_cut` by verbs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.work import Work
from mustlink.graph.even_degrees import GraphLook
from mustlink.observe import Recorder
from mustlink.result import Convergence, EigenResult
from mustlink.rounding.assign import transform
from mustlink.rounding.sampled_kmeans import clusters_of
from mustlink.scores.cuts import ClusterSums
from mustlink.selection.regularization import (
    RESTARTS,
    SAMPLE,
    STAGE,
    RoughPairs,
    within_range,
)
from mustlink.space import Block, Small, Vector


@dataclass(frozen=True, eq=False)
class RowCut:
    """Clusters, -1 for isolated nodes that have rows, rows (n, K) they were made of, values (K,).

    `sums` are weights between clusters and their sizes, where somebody asked, `beyond` is the
    eigenvalue after the last.
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


def row_cut(
    work: Work,
    k: int,
    *,
    variant: str = "luxburg",
    tau: float = 0.0,
    tol: float | None = None,
    max_iter: int = 200,
    seed: int = 0,
    found: EigenResult | None = None,
) -> RowCut:
    """Cut a graph into k clusters, see `NCut`; with τ times the mean degree added to all.

    `found` are the pairs beyond the null space where they are known. On ranks it is the same on
    any number of them, bit by bit. Memory: clusters, a sample of rows, and what the eigenvectors
    take.
    """
    if found is None:
        wanted = max(0, k - work.regularized(tau).null.n_components)
        found = work.smallest_pairs(wanted, tol=tol, max_iter=max_iter, seed=seed, tau=tau)
    with work.recorder.stage("clusters") as advance:
        rows, values = _rows(work, found, k, variant, tau)
        advance(0.2)
        clusters = clusters_of(work.space, rows, k, seed)
    return RowCut(clusters, rows, values, found.convergence, found.beyond)


@dataclass(frozen=True, eq=False)
class CutsByRows:
    """Cuts of a graph on disk or on ranks, see `selection.regularization.Cuts`."""

    work: Work
    k: int
    variant: str
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
        return self.work.look

    def trial(
        self, tau: float, k: int, start: Block | None
    ) -> tuple[ClusterSums | None, Block | None]:
        """Rough clusters, see `Cuts`."""
        work, space, seed = self.work, self.work.space, self.seed

        def sharply(wanted: int, tol: float) -> EigenResult:
            return work.smallest_pairs(wanted, tol=tol, seed=seed, tau=tau)

        laplacian: Any = work.regularized(tau)
        laplacian = getattr(laplacian, "in_single", laplacian)
        rough = RoughPairs(self.look.n_linked, seed, self.recorder, False, sharply)
        found, start = rough.of(laplacian, k, tau, start)
        with self.recorder.stage(STAGE):
            rows, _ = _rows(work, found, k, self.variant, tau)
            if not within_range(space, rows):
                return None, start
            clusters = clusters_of(space, rows, k, seed, restarts=RESTARTS, sample=SAMPLE)
            return ClusterSums(*work.cluster_sums(clusters, k)), start

    def sharp(self, tau: float) -> RowCut:
        """The cut as it was asked for, with its sums."""
        how: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter, "seed": self.seed}
        cut = row_cut(self.work, self.k, variant=self.variant, tau=tau, **how)
        return summed(self.work, cut, self.k)

    def sums(self, cut: RowCut) -> ClusterSums:
        """What it is judged by."""
        assert cut.sums is not None
        return cut.sums


def summed(work: Work, cut: RowCut, k: int) -> RowCut:
    """The cut with weights between its clusters; a pass over the graph."""
    with work.recorder.stage("weights between clusters"):
        return replace(cut, sums=ClusterSums(*work.cluster_sums(cut.clusters, k)))


def _rows(work: Work, found: EigenResult, k: int, variant: str, tau: float) -> tuple[Block, Small]:
    """What k-means sees of the k smoothest vectors, and their values (k,)."""
    laplacian, space = work.regularized(tau), work.space
    count = min(k, laplacian.null.n_components)
    values = np.concatenate([np.zeros(count), found.values])[:k]
    parts = [laplacian.null.columns(np.arange(count))] if count else []
    parts = [space.copy(part, found.vectors.dtype) for part in parts]
    scale = _scaled(values, variant, tau)
    return space.rowwise(scale, space.stack([*parts, found.vectors]), laplacian.root_degree), values


def _scaled(values: Small, variant: str, tau: float) -> Callable[..., Any]:
    """Rows of vectors to what k-means sees of them, as `normalized_cut.rows_of` has it."""

    def rows(Z: NDArray[Any], root: NDArray[np.float64]) -> NDArray[Any]:
        if tau:
            found = transform(Z * (1.0 - values), "sphere")
        elif variant == "ng":
            found = transform(Z.astype(np.float64), "sphere")  # rows of isolated nodes are 0
        else:
            scale = root[:, None]
            found = np.divide(Z, scale, out=np.zeros(Z.shape), where=scale > 0)
        with np.errstate(over="ignore"):  # whoever takes the rows looks whether they are finite
            return found.astype(Z.dtype)

    return rows
