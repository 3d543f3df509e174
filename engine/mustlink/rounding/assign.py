"""From an embedding to clusters: discretisation of relaxed indicator vectors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Ints = NDArray[np.int64]
Block = NDArray[np.float64]

ASSIGNMENTS = ("auto", "sign", "split", "kmeans", "sign-kmeans", "cost-weighted", "sphere")
_SAMPLE = 50_000  # rows on which k-means looks for its centres before it sees all of them
_RESTARTS = 10


@dataclass(frozen=True, eq=False)
class Assignment:
    """Clusters (m,) from 0, the centres (k, r) in the transformed embedding, and the inertia."""

    labels: Ints
    centers: Block
    inertia: float


def transform(embedding: Block, how: str, cost: NDArray[np.float64] | None = None) -> Block:
    """Rows that k-means will see, (m, r).

    * kmeans: D^-½V as it is (WD14 Alg. 2 line 11); so for split, which cuts one vector
    * sign-kmeans: sign(D^-½V) (WD14 eq. 15)
    * cost-weighted: sign(D^-½V)(VᵀL̄V)⁻¹ (WD14 eq. 16; the weights are put outside the sign, which
      would swallow them as printed, VᵀL̄V being diagonal for the pencil's vectors)
    * sphere: rows scaled to length 1 (Ng et al. 2001; the FCSC-SP of WHC11)
    """
    if how in ("kmeans", "split"):
        return embedding
    if how == "sphere":
        size = np.linalg.norm(embedding, axis=1, keepdims=True)
        return embedding / np.maximum(size, 1e-300)
    if how in ("sign", "sign-kmeans"):
        return np.sign(embedding)
    if how == "cost-weighted":
        if cost is None:
            raise InputError("assign: cost-weighted needs the costs of the vectors; use kmeans")
        return np.sign(embedding) * (cost.min(initial=np.inf) / np.maximum(cost, 1e-300))
    raise InputError(f"assign: {how!r} is unknown; choose one of {', '.join(ASSIGNMENTS)}")


def assign(
    embedding: Block,
    k: int,
    how: str,
    seed: int,
    *,
    cost: NDArray[np.float64] | None = None,
    centers: Block | None = None,
) -> Assignment:
    """K clusters from the rows of an embedding (m, r).

    `sign` cuts one vector at 0 (k = 2, WD14 §6.1); every other way is k-means on transformed
    rows, from 10 starts on at most 50,000 rows, then on all rows from the best of them (or
    from the given `centers` only). Every cluster is kept non-empty by k-means itself.
    """
    if how == "sign":
        if k != 2 or embedding.shape[1] != 1:
            raise InputError(f"assign: sign makes 2 clusters from 1 vector, not {k}; use kmeans")
        labels = (embedding[:, 0] > 0).astype(np.int64)
        return Assignment(labels, np.array([[-1.0], [1.0]]), 0.0)
    return kmeans(transform(embedding, how, cost), k, seed, centers=centers)


def kmeans(
    rows: Block,
    k: int,
    seed: int,
    *,
    centers: Block | None = None,
    restarts: int = _RESTARTS,
) -> Assignment:
    """k-means by scikit-learn: `restarts` starts on a sample, then Lloyd's steps on all rows."""
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning as FewerClusters

    rng = np.random.default_rng(seed)
    # One thread: the sums come out the same on every machine, and on a busy one the barriers of
    # several threads were measured to cost 75 times what they save.
    with _thread_pools().limit(limits=1), warnings.catch_warnings():
        # Fewer distinct rows than k: the caller sees it in the labels and tells it in our words.
        warnings.simplefilter("ignore", FewerClusters)
        found = None
        if centers is None:
            n = rows.shape[0]
            few = n <= _SAMPLE
            sample = rows if few else rows[np.sort(rng.choice(n, _SAMPLE, replace=False))]
            found = KMeans(k, n_init=restarts, random_state=seed).fit(sample)
            centers = found.cluster_centers_
        if rows.shape[0] > _SAMPLE or found is None:
            found = KMeans(k, init=centers, n_init=1, max_iter=20, random_state=seed).fit(rows)
    return Assignment(found.labels_.astype(np.int64), found.cluster_centers_, found.inertia_)


@cache
def _thread_pools() -> ThreadpoolController:
    """The libraries that k-means runs in; looking for them takes longer than a small k-means."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def nearest(rows: Block, centers: Block) -> Ints:
    """Nearest centre of every row."""
    distance = (centers**2).sum(axis=1) - 2.0 * rows @ centers.T
    return distance.argmin(axis=1).astype(np.int64)
