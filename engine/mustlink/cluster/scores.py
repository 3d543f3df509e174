"""How good a clustering is: constraints kept, multiple normalised cut, and WHC11's criterion E."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.constraints.graphs import upper_entries
from mustlink.errors import InputError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Stored entries of the affinity looked at together: temporary arrays of a few megabytes.
BLOCK = 1 << 19


def satisfaction(
    labels: Any, constraints: Constraints, *, given: Constraints | None = None
) -> dict[str, float]:
    """Shares of the constraints that the clustering `labels` (n,) keeps.

    A must-link is kept if both nodes are in the same cluster, a cannot-link if they are not. An
    unassigned node (-1) is in no cluster: its must-links are broken, and a cannot-link is kept
    if one end is assigned but not if both are unassigned, which would reward leaving nodes out.

    Returns `must_kept`, `cannot_kept` and `kept` in [0, 1], 1 where there is nothing to keep;
    `kept_weighted`, weighted by |belief| (1 for labels); `n_must` and `n_cannot`. Distinct pairs
    count once with the sign of their mean belief; ℓ labels are scored as ℓ(ℓ-1)/2 pairs through
    the contingency table, in O(ℓ log ℓ); graphs and matrices by their entries above the diagonal.
    A closure is scored on the pairs it was made from.

    `given` is for validation, `kept, held = c.split(…)`: `satisfaction(labels, held, given=kept)`
    scores all that `held` adds to `given`. For labels that includes the pairs of a held-out
    and a kept node; one held-out label per class would have no must-link of its own.
    Raises InputError for another n.
    """
    found = _as_clusters(labels)
    constraints.require_nodes(found.size)
    if given is None:
        tally = _tally(found, constraints)
    else:
        tally = _tally(found, constraints + given) - _tally(found, given)
    must, must_kept, cannot, cannot_kept, weight, weight_kept = tally.tolist()
    return {
        "must_kept": _share(must_kept, must),
        "cannot_kept": _share(cannot_kept, cannot),
        "kept": _share(must_kept + cannot_kept, must + cannot),
        # Differences of sums leave 1e-17 where nothing is left to score.
        "kept_weighted": _share(weight_kept, weight if must + cannot else 0.0),
        "n_must": int(must),
        "n_cannot": int(cannot),
    }


def cluster_cuts(affinity: Any, labels: Any) -> tuple[Ints, Floats, Floats]:
    """Clusters (K,), Cut(C_k, rest) (K,) and Vol(C_k) (K,) of a clustering (WHC11 §2.1.1).

    `affinity` is W (n, n), dense, sparse or a Graph. Unassigned nodes (-1) form no cluster, but
    edges to them are cut. Cost O(nnz) in blocks; raises InputError for another n.
    """
    found = _as_clusters(labels)
    given = getattr(affinity, "affinity", affinity)
    csr = given if isinstance(given, sp.csr_matrix | sp.csr_array) else sp.csr_matrix(given)
    if csr.shape != (found.size, found.size):
        raise InputError(
            f"scores: {found.size} labels for an affinity of shape {csr.shape}; give one per node"
        )
    clusters, place = np.unique(found, return_inverse=True)
    place, count = np.asarray(place).ravel(), clusters.size
    volume, inside = np.zeros(count), np.zeros(count)
    starts = csr.indptr.astype(np.int64)
    first = 0
    while first < found.size:
        last = int(np.searchsorted(starts, starts[first] + BLOCK, side="right")) - 1
        last = max(last, first + 1)
        entries = slice(starts[first], starts[last])
        own = np.repeat(place[first:last], np.diff(starts[first : last + 1]))
        same = own == place[csr.indices[entries]]
        volume += np.bincount(own, weights=csr.data[entries], minlength=count)
        inside += np.bincount(own[same], weights=csr.data[entries][same], minlength=count)
        first = last
    # Summation in two orders may leave a cut of -1e-17.
    cut = np.maximum(volume - inside, 0.0)
    assigned = clusters >= 0
    return clusters[assigned], cut[assigned], volume[assigned]


def mncut(affinity: Any, labels: Any) -> float:
    """MNCut = Σ_k Cut(C_k, rest) / Vol(C_k), in [0, K] (WHC11 eq. 2).

    A cluster without any edge (volume 0) adds 0: nothing was cut. Cost O(nnz).
    """
    _, cut, volume = cluster_cuts(affinity, labels)
    return float((cut[volume > 0] / volume[volume > 0]).sum())


def criterion_e(
    affinity: Any, labels: Any, constraints: Constraints, *, average: bool = True
) -> float:
    """E = (1 - MNCut) + rate of must-links kept + rate of cannot-links kept (WHC11 eq. 17).

    By default MNCut is the mean over clusters, MNCut / K, as WHC11 §2.1 describes it in words,
    so that all three terms are in [0, 1] and weigh the same for every K; `average=False` takes the
    sum of eq. 2. A kind of constraint that was not given has rate 1. Larger is better. Cost O(nnz).
    """
    clusters, cut, volume = cluster_cuts(affinity, labels)
    ratio = float((cut[volume > 0] / volume[volume > 0]).sum())
    kept = satisfaction(labels, constraints)
    if average:
        ratio /= max(clusters.size, 1)
    return 1.0 - ratio + kept["must_kept"] + kept["cannot_kept"]


def _as_clusters(labels: Any) -> Ints:
    """Cluster numbers as (n,) int64, everything negative as -1."""
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iub":
        raise InputError(
            f"scores: labels have shape {array.shape} and type {array.dtype}; give one integer per "
            "node, -1 if unassigned"
        )
    return np.maximum(array.astype(np.int64), -1)


def _tally(found: Ints, constraints: Constraints) -> Floats:
    """Must-links, kept; cannot-links, kept; weight, kept: six numbers for all kinds together."""
    pairs, belief = constraints.merged
    tally = _pair_tally(found, pairs[:, 0], pairs[:, 1], belief)
    if constraints.labels is not None:
        tally += _label_tally(found, constraints.labels)
    if constraints.soft is not None:
        tally += _pair_tally(found, *upper_entries(constraints.soft))
    return tally


def _pair_tally(found: Ints, i: Ints, j: Ints, belief: Floats) -> Floats:
    """Return the six numbers for explicit pairs."""
    same = found[i] == found[j]
    must, cannot = belief > 0, belief < 0
    must_kept, cannot_kept = must & same & (found[i] >= 0), cannot & ~same
    weight = np.abs(belief)
    kept = weight[must_kept | cannot_kept].sum()
    counts = [int(mask.sum()) for mask in (must, must_kept, cannot, cannot_kept)]
    return np.array([*counts, weight.sum(), kept], dtype=np.float64)


def _label_tally(found: Ints, given: Ints) -> Floats:
    """Return the six numbers for all pairs of labelled nodes, from the contingency table."""
    known = given >= 0
    found, given = found[known], given[known]
    _, column = np.unique(found, return_inverse=True)
    _, row = np.unique(given, return_inverse=True)
    column, row = np.asarray(column, dtype=np.int64).ravel(), np.asarray(row).ravel()
    cells, cell_size = np.unique(row * np.int64(column.max() + 1) + column, return_counts=True)
    missing = found.size and found.min() < 0
    unassigned = (cells % (column.max() + 1) == 0) & missing
    same_both = _pairs_in(cell_size)
    must, together = _pairs_in(np.bincount(row)), _pairs_in(np.bincount(column))
    must_kept = same_both - _pairs_in(cell_size[unassigned])
    cannot = _pairs_in(np.array([found.size])) - must
    cannot_kept = cannot - (together - same_both)
    total, kept = must + cannot, must_kept + cannot_kept
    return np.array([must, must_kept, cannot, cannot_kept, total, kept], dtype=np.float64)


def _pairs_in(sizes: NDArray[np.integer[Any]]) -> int:
    """Σ s(s-1)/2, in integers: counts of pairs outgrow int32."""
    sizes = sizes.astype(np.int64)
    return int((sizes * (sizes - 1) // 2).sum())


def _share(part: float, whole: float) -> float:
    """Part of a whole; 1 where there was nothing to keep."""
    return float(part / whole) if whole > 0 else 1.0
