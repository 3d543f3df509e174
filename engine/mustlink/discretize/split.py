"""Two clusters from one vector: where to cut it.

The papers cut at 0 (WD14 §6.1) or where the normalised cut is least (Shi & Malik 2000). With
constraints a vector often tells the two sides apart, but not at 0: the value that keeps most
constraints is taken, and among such values the one of least NCut.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.constraints.pairs import upper_entries

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def cut_profile(affinity: sp.csr_matrix, vector: Floats) -> tuple[Floats, Floats]:
    """Values between neighbouring entries of a vector (n,), and the NCut of cutting there.

    An edge between ranks r < s is cut by thresholds r+1 … s. Cost O(nnz + n log n).
    """
    n = vector.size
    order = np.argsort(vector, kind="stable")
    rank = np.empty(n, dtype=np.int64)
    rank[order] = np.arange(n)
    rows = np.repeat(rank, np.diff(affinity.indptr))
    columns = rank[affinity.indices]
    upper = rows < columns
    jump = np.bincount(rows[upper] + 1, weights=affinity.data[upper], minlength=n + 1)
    jump -= np.bincount(columns[upper] + 1, weights=affinity.data[upper], minlength=n + 1)
    cut = np.maximum(np.cumsum(jump)[1:n], 0.0)  # cut[t-1]: the first t nodes against the rest
    volume = np.cumsum(np.asarray(affinity.sum(axis=1)).ravel()[order])
    inside, total = volume[:-1], volume[-1] if n else 0.0
    values = vector[order]
    distinct = (values[1:] > values[:-1]) & (inside > 0) & (inside < total)
    left, right = inside[distinct], total - inside[distinct]
    return (
        ((values[1:] + values[:-1]) / 2)[distinct],
        cut[distinct] * (1.0 / left + 1.0 / right),
    )


def best_split(affinity: sp.csr_matrix, vector: Floats) -> tuple[float, float]:
    """Splitting value of one vector with the least NCut, and that NCut (Shi & Malik 2000)."""
    values, ncut = cut_profile(affinity, vector)
    if values.size == 0:
        return 0.0, 1.0
    best = int(np.argmin(ncut))
    return float(values[best]), float(ncut[best])


def kept_profile(vector: Floats, nodes: Ints, known: Constraints) -> tuple[Floats, Floats]:
    """Sorted values u (s,) of the constrained `nodes`, and the weight kept (s − 1,) between them.

    `vector` (s,) are their entries. Cutting between u_t and u_t+1 separates a pair that has one
    end among the first t + 1. Constants are left out: only differences matter. Cost O(m log m).
    """
    order = np.argsort(vector, kind="stable")
    rank = np.full(known.n_nodes, -1, dtype=np.int64)
    rank[nodes[order]] = np.arange(nodes.size)
    gain = np.zeros(nodes.size + 1)
    pairs, belief = known.merged
    ends = [(pairs[:, 0], pairs[:, 1], belief)]
    if known.soft is not None:
        ends.append(upper_entries(known.soft))
    for i, j, weight in ends:
        low, high = np.minimum(rank[i], rank[j]), np.maximum(rank[i], rank[j])
        seen = low >= 0
        np.subtract.at(gain, low[seen], weight[seen])  # a separated must-link loses its weight
        np.add.at(gain, high[seen], weight[seen])
    kept = np.cumsum(gain)[: nodes.size - 1]
    if known.shares is not None:
        soft = known.shares.at(nodes[order])
        shares = (soft.belief[:, None] * soft.values).T
        kept = kept + _shares_kept(shares, soft.belief, *known.label_weights)
    elif known.labels is not None:
        labels = known.labels[nodes[order]]
        one_hot = ((labels == c).astype(np.float64) for c in known.classes)
        kept = kept + _shares_kept(one_hot, (labels >= 0).astype(np.float64), *known.label_weights)
    return vector[order], kept


def _shares_kept(shares: Iterable[Floats], belief: Floats, within: float, between: float) -> Floats:
    """Cannot-links minus must-links separated by each cut of nodes in order, (s − 1,).

    Of labels as `shares`, (s,) for each class, of what they are believed, (s,).
    """
    before, total = np.cumsum(belief)[:-1], belief.sum()
    kept = between * before * (total - before)
    for own in shares:
        first = np.cumsum(own)[:-1]
        kept -= (within + between) * first * (own.sum() - first)
    return np.asarray(kept, dtype=np.float64)


def splitting_value(
    vector: Floats, nodes: Ints, known: Constraints, profile: tuple[Floats, Floats] | None = None
) -> float:
    """The value to cut at: most constraints kept, then least NCut by the `profile` of all nodes.

    `vector` (s,) are the entries of the constrained `nodes`. Without a profile the middle of the
    widest interval; 0 where no cut keeps more than none.
    """
    if nodes.size < 2:
        return 0.0
    values, kept = kept_profile(vector, nodes, known)
    open_ = values[1:] > values[:-1]
    if not open_.any() or kept[open_].max() <= 0:
        return 0.0
    best = np.flatnonzero(open_ & (kept >= kept[open_].max() - 1e-9))
    low, high = values[best], values[best + 1]
    if profile is not None:
        thresholds, ncut = profile
        place = np.searchsorted(low, thresholds, side="right") - 1
        inside = (place >= 0) & (thresholds <= high[np.maximum(place, 0)])
        if inside.any():
            return float(thresholds[inside][np.argmin(ncut[inside])])
    widest = int(np.argmax(high - low))
    return float((low[widest] + high[widest]) / 2)
