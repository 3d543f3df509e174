"""The normalised cut of a graph on disk: as `normalized_cut`, with vectors on disk as well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.stored_solver import StoredWork
from mustlink.graph.even_degrees import has_even_degrees
from mustlink.graph.stored import StoredGraph
from mustlink.kernels.cluster_links import cluster_links
from mustlink.result import Convergence, EigenResult
from mustlink.rounding.assign import transform
from mustlink.rounding.sampled_kmeans import sampled_kmeans, sizes_of
from mustlink.space import Small
from mustlink.space.disk_block import DiskBlock

Ints = NDArray[np.int64]
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
    found: EigenResult | None = None,
) -> StoredCut:
    """Cut a graph on disk into k clusters, see `NCut`; with τ times the mean degree added to all.

    `found` are the pairs beyond the null space where they are known. Memory: clusters, a sample
    of rows, and what the eigenvectors take.
    """
    laplacian = work.regularized(tau)
    null, space = laplacian.null, laplacian.space
    count = min(k, null.n_components)
    if found is None:
        how: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "seed": seed, "tau": tau}
        found = work.smallest_pairs(max(0, k - count), **how)
    values = np.concatenate([np.zeros(count), found.values])[:k]
    parts = [] if count == 0 else [space.copy(null.columns(np.arange(count)), np.float32)]
    with work.recorder.stage("clusters") as advance:
        scale = _rows_of(values, variant, tau)
        rows = space.rowwise(scale, space.stack([*parts, found.vectors]), laplacian.root_degree)
        advance(0.2)
        clusters = sampled_kmeans(space, rows, k, seed)
        advance(0.8)
        links, sizes = links_between(work.graph, clusters, k), sizes_of(space, clusters, k)
    return StoredCut(clusters, rows, values, found.convergence, found.beyond, links, sizes)


def links_between(graph: StoredGraph, clusters: Ints, k: int) -> Small:
    """Weights between clusters (n,), (k, k), by a pass over the graph."""
    links = np.zeros((k, k))
    for block in graph.blocks():
        cluster_links(block, clusters, links)
    return links


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


def has_even_rows(work: StoredWork) -> bool:
    """Whether linked nodes have about as many edges each, by rows evenly spread over the graph."""
    n = work.graph.n_nodes
    step = max(1, n // _LENGTHS)
    found = [work.graph.lengths(rows)[::step] for rows in work.space.ranges(64)]
    lengths = np.concatenate(found)
    return has_even_degrees(lengths[lengths > 0])
