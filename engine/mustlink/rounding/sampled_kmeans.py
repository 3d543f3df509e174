"""k-means of rows on disk: on a sample to its end, all other rows are looked at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.nearest_centre import nearest_centre
from mustlink.rounding.assign import kmeans
from mustlink.space import Block, LocalSpace, Small, Space, Vector
from mustlink.space.disk import DiskSpace

_SAMPLE = 200_000  # rows of it
_NUMBERS = 1 << 22  # in them at most, but for 50 rows a cluster


def clusters_of(
    space: Space, rows: Block, k: int, seed: int, *, centers: Small | None = None, **how: int
) -> Vector:
    """Clusters of rows (n, r) wherever they are, see `kmeans`, which takes `how`."""
    if isinstance(space, DiskSpace):
        return sampled_kmeans(space, rows, k, seed, centers=centers, **how)
    return kmeans(rows, k, seed, centers=centers, space=space, **how).labels


def sampled_kmeans(
    space: DiskSpace,
    rows: Block,
    k: int,
    seed: int,
    *,
    centers: Small | None = None,
    sample: int = _SAMPLE,
    **how: int,
) -> NDArray[np.int64]:
    """Clusters (n,) of rows (n, r), -1 for those that the space's weights do not count.

    From `centers` (k, r), or ten starts. Memory: clusters, and the sample.
    """
    chosen, weights = np.arange(space.size), None
    most = min(sample, max(_NUMBERS // k, 50 * k))
    if space.size > most:
        chosen = np.sort(np.random.default_rng(seed).choice(space.size, most, replace=False))
    if space.weights is not None:
        weights = space.take(space.column(space.weights), chosen)[:, 0]
        chosen, weights = chosen[weights > 0], weights[weights > 0]
    here = LocalSpace(chosen.size, weights)
    found = kmeans(space.take(rows, chosen), k, seed, centers=centers, space=here, **how).centers
    clusters = np.empty(space.size, dtype=np.int64)
    for part in space.ranges(3 * rows.row_bytes + 16):
        clusters[part] = nearest_centre(rows[part], found)
        if space.weights is not None:
            clusters[part][space.weights[part] == 0] = -1
    return clusters
