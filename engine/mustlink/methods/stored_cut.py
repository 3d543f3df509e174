"""The normalised cut of a graph on disk: as `normalized_cut`, with vectors on disk as well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.stored_solver import StoredWork
from mustlink.graph.even_degrees import has_even_degrees
from mustlink.kernels.cluster_links import cluster_links
from mustlink.kernels.nearest_centre import nearest_centre
from mustlink.result import Convergence
from mustlink.rounding.assign import kmeans, transform
from mustlink.space import LocalSpace, Small
from mustlink.space.disk_block import DiskBlock

Ints = NDArray[np.int64]
_SAMPLE = 200_000  # rows on which k-means is run to its end; all others are looked at once
_NUMBERS = 1 << 22  # in them at most, but for 50 rows a cluster
_LENGTHS = 1 << 20  # rows that tell whether nodes have about as many edges each


@dataclass(frozen=True, eq=False)
class StoredCut:
    """Clusters (n,), -1 for isolated nodes, rows (n, K) on disk they were made of, values (K,).

    `links` (K, K) are the weights between clusters, `sizes` (K,) the nodes in each, counted as
    often as they stand for rows, `beyond` is the eigenvalue after the last.
    """

    clusters: Ints
    embedding: DiskBlock
    values: Small
    convergence: Convergence
    beyond: float | None
    links: Small
    sizes: Small

    @property
    def largest(self) -> float:
        """Share of the nodes in the largest cluster."""
        return float(self.sizes.max() / self.sizes.sum())


def stored_cut(
    work: StoredWork,
    k: int,
    *,
    variant: str = "luxburg",
    tau: float = 0.0,
    tol: float | None = None,
    max_iter: int = 200,
    seed: int = 0,
) -> StoredCut:
    """Cut a graph on disk into k clusters, see `NCut`; with τ times the mean degree added to all.

    Memory: clusters, a sample of rows, and what the eigenvectors take.
    """
    laplacian = work.regularized(tau)
    null, space = laplacian.null, laplacian.space
    count = min(k, null.n_components)
    found = work.smallest_pairs(max(0, k - count), tol=tol, max_iter=max_iter, seed=seed, tau=tau)
    values = np.concatenate([np.zeros(count), found.values])[:k]
    parts = [] if count == 0 else [space.copy(null.columns(np.arange(count)), np.float32)]
    with work.recorder.stage("clusters") as advance:
        scale = _rows_of(values, variant, tau)
        rows = space.rowwise(scale, space.stack([*parts, found.vectors]), laplacian.root_degree)
        advance(0.2)
        centers = _centres(work, rows, k, seed)
        advance(0.5)
        clusters, sizes, often = np.empty(space.size, dtype=np.int64), np.zeros(k), space.weights
        for part in space.ranges(3 * rows.row_bytes + 16):
            near = nearest_centre(rows[part], centers)
            sizes += np.bincount(near, None if often is None else often[part], k)
            clusters[part] = np.where(laplacian.root_degree[part] > 0, near, -1)
        advance(0.8)
        links = np.zeros((k, k))
        for block in work.graph.blocks():
            cluster_links(block, clusters, links)
    return StoredCut(clusters, rows, values, found.convergence, found.beyond, links, sizes)


def _rows_of(values: Small, variant: str, tau: float) -> Callable[..., Any]:
    """What k-means sees of rows of vectors, as `normalized_cut.rows_of` has it."""

    def rows(Z: NDArray[Any], root: NDArray[np.float64]) -> NDArray[np.float32]:
        if tau:
            found = transform(Z * (1.0 - values), "sphere")
        elif variant == "ng":
            found = transform(Z.astype(np.float64), "sphere")  # rows of isolated nodes are 0
        else:
            scale = root[:, None]
            found = np.divide(Z, scale, out=np.zeros(Z.shape), where=scale > 0)
        return found.astype(np.float32)

    return rows


def _centres(work: StoredWork, rows: DiskBlock, k: int, seed: int) -> Small:
    """Centres of k-means on a sample of nodes that have an edge."""
    n = work.graph.n_nodes
    chosen = np.arange(n)
    most = min(_SAMPLE, max(_NUMBERS // k, 50 * k))
    if n > most:
        chosen = np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
    linked = work.space.take(work.seen.degrees, chosen) > 0
    seen = rows.picked(chosen[linked])
    often = None if work.space.weights is None else work.space.weights.picked(chosen[linked])
    found: Small = kmeans(seen, k, seed, space=LocalSpace(len(seen), often)).centers
    return found


def has_even_rows(work: StoredWork) -> bool:
    """Whether linked nodes have about as many edges each, by rows evenly spread over the graph."""
    n = work.graph.n_nodes
    step = max(1, n // _LENGTHS)
    found = [work.graph.lengths(rows)[::step] for rows in work.space.ranges(64)]
    lengths = np.concatenate(found)
    return has_even_degrees(lengths[lengths > 0])
