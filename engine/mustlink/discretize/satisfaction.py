"""Constraints that a clustering keeps: counted, weighted, one by one; doubts; moves for more."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.constraints.label_groups import SoftLabels
from mustlink.constraints.pairs import upper_entries
from mustlink.core.observe import Recorder
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.kernels.block_moves import moved_by_links

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def satisfaction(
    labels: Any, constraints: Constraints, *, given: Constraints | None = None
) -> dict[str, float]:
    """Shares of the constraints that the clustering `labels` (n,) keeps.

    A must-link is kept if both nodes are in the same cluster, a cannot-link if they are not. Of
    nodes in no cluster (-1), as those without an edge, nothing can be kept or broken: pairs with
    such an end are counted apart, as `n_unclustered`, and shares are of the others.

    Returns `must_kept`, `cannot_kept` and `kept` in [0, 1], 1 where there is nothing to keep, but
    `balanced`, `kept` and `kept_weighted` 0 where all constraints are on nodes in no cluster;
    `balanced` = (must_kept + cannot_kept)/2, or the one kind that there is;
    `kept_weighted`, weighted by |belief| (1 for labels, or what they weigh); `n_must` and
    `n_cannot`. Of both kinds `balanced` is 1/2 for one cluster of all nodes, for clusters of one
    node each, and on average at random, whatever the numbers of pairs: labels of K classes are
    (K−1)/K cannot-links, which `kept` of a poor answer is mostly made of. Distinct pairs count once
    with the sign of their mean belief; ℓ labels are scored as ℓ(ℓ-1)/2 pairs through the
    contingency table, in O(ℓ log ℓ), soft labels as the pairs of either kind that are expected;
    graphs and matrices by their entries above the diagonal. A closure is scored on the pairs it was
    made from.

    `given` is for validation, `kept, held = c.split(…)`: `satisfaction(labels, held, given=kept)`
    scores all that `held` adds to `given`. For labels that includes the pairs of a held-out
    and a kept node; one held-out label per class would have no must-link of its own.
    Raises InputError for another n.
    """
    if given is not None:
        return satisfaction_added(labels, constraints + given, given)
    found = as_clusters(labels)
    constraints.require_nodes(found.size)
    return _shares(_tally(found, constraints))


def satisfaction_added(labels: Any, both: Constraints, given: Constraints) -> dict[str, float]:
    """As `satisfaction`, of what `both` hold beyond `given`; raises InputError for another n."""
    found = as_clusters(labels)
    both.require_nodes(found.size)
    return _shares(_tally(found, both) - _tally(found, given))


def _shares(tally: Floats) -> dict[str, float]:
    must, must_kept, cannot, cannot_kept, *weights, left = tally.tolist()
    nothing = 0.0 if left > 0 else 1.0  # to leave all nodes out is no merit
    weight, weight_kept = weights[0] + weights[2], weights[1] + weights[3]
    shares = _share(must_kept, must), _share(cannot_kept, cannot)
    there = [share for share, n in zip(shares, (must, cannot), strict=True) if n > 0]
    return {
        "must_kept": shares[0],
        "cannot_kept": shares[1],
        "balanced": sum(there) / len(there) if there else nothing,
        "kept": _share(must_kept + cannot_kept, must + cannot, nothing),
        # Differences of sums leave 1e-17 where nothing is left to score.
        "kept_weighted": _share(weight_kept, weight if must + cannot else 0.0, nothing),
        "n_must": int(must),
        "n_cannot": int(cannot),
        "n_unclustered": int(left),
    }


def kept_by_kind(labels: Any, constraints: Constraints) -> dict[str, dict[str, float]]:
    """Must-links and cannot-links apart: `n`, `kept`, `weight` Σ|belief|, `weight_kept`.

    Counted as in `satisfaction`; raises InputError for another n.
    """
    found = as_clusters(labels)
    constraints.require_nodes(found.size)
    must, must_kept, cannot, cannot_kept, *weights, _ = _tally(found, constraints).tolist()
    return {
        "must": _kind(must, must_kept, *weights[:2]),
        "cannot": _kind(cannot, cannot_kept, *weights[2:]),
    }


def _kind(n: float, kept: float, weight: float, weight_kept: float) -> dict[str, float]:
    return {"n": int(n), "kept": int(kept), "weight": weight, "weight_kept": weight_kept}


def broken_pairs(labels: Any, constraints: Constraints, most: int = 10) -> tuple[Ints, Floats]:
    """The broken pairs of largest |belief|, (q, 2) with q <= `most`, and their beliefs (q,).

    Distinct pairs with their mean beliefs and entries of a graph or matrix, of equal beliefs the
    first; pairs of nodes in no cluster are not among them, and those that only follow from labels
    are left to `stray_labels`. `satisfaction` defines what is broken. Raises InputError for
    another n.
    """
    found = as_clusters(labels)
    constraints.require_nodes(found.size)
    pairs, belief = constraints.merged
    if constraints.soft is not None:
        i, j, more = upper_entries(constraints.soft)
        pairs = np.concatenate([pairs, np.column_stack([i, j])])
        belief = np.concatenate([belief, more])
    first, second = found[pairs].T
    there = (first >= 0) & (second >= 0) & (belief != 0)
    broken = np.flatnonzero(there & ((first == second) != (belief > 0)))
    worst = broken[np.argsort(-np.abs(belief[broken]), kind="stable")[:most]]
    return pairs[worst], belief[worst]


def stray_labels(labels: Any, given: Ints) -> tuple[Ints, Ints]:
    """Labelled nodes that are not in the cluster of most of their class, and that cluster.

    `given` (n,) are class numbers, -1 unknown. Returns (q,) nodes in rising order and (q,) the
    clusters where the rest of their class is; of equally large parts the lowest cluster. A class
    of which most is unassigned has cluster -1 and no strays but the assigned ones. O(n log n).
    """
    found = as_clusters(labels)
    known = np.flatnonzero(given >= 0)
    if known.size == 0:
        return known.astype(np.int64), np.empty(0, dtype=np.int64)
    _, row = np.unique(given[known], return_inverse=True)
    clusters, column = np.unique(found[known], return_inverse=True)
    row, column = np.asarray(row).ravel(), np.asarray(column).ravel()
    cells, size = np.unique(row * np.int64(clusters.size) + column, return_counts=True)
    order = np.lexsort((cells, -size))
    home = np.empty(int(row.max()) + 1, dtype=np.int64)
    home[cells[order[::-1]] // clusters.size] = cells[order[::-1]] % clusters.size  # largest last
    stray = home[row] != column
    return known[stray], clusters[home[row[stray]]]


def as_clusters(labels: Any) -> Ints:
    """Cluster numbers as (n,) int64, everything negative as -1."""
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iub":
        raise InputError(
            f"scores: labels have shape {array.shape} and type {array.dtype}; give one integer per "
            "node, -1 if unassigned"
        )
    return np.maximum(array.astype(np.int64), -1)


def _tally(found: Ints, constraints: Constraints) -> Floats:
    """Must-links, kept; cannot-links, kept; their weights in the same order; pairs left out."""
    pairs, belief = constraints.merged
    tally = _pair_tally(found, pairs[:, 0], pairs[:, 1], belief)
    if constraints.shares is not None:
        tally += soft_tally(found, constraints.shares, constraints.label_weights)
    elif constraints.labels is not None:
        tally += _label_tally(found, constraints.labels, constraints.label_weights)
    if constraints.soft is not None:
        tally += _pair_tally(found, *upper_entries(constraints.soft))
    return tally


def _pair_tally(found: Ints, i: Ints, j: Ints, belief: Floats) -> Floats:
    """Return the nine numbers for explicit pairs."""
    same, there = found[i] == found[j], (found[i] >= 0) & (found[j] >= 0)
    must, cannot = there & (belief > 0), there & (belief < 0)
    kinds = (must, must & same, cannot, cannot & ~same)
    weight = np.abs(belief)
    counts = [int(mask.sum()) for mask in kinds]
    left = int(np.count_nonzero(belief[~there]))
    return np.array([*counts, *(weight[mask].sum() for mask in kinds), left], dtype=np.float64)


def _label_tally(found: Ints, given: Ints, beliefs: tuple[float, float]) -> Floats:
    """Return the nine numbers for all pairs of labelled nodes, from the contingency table."""
    every = _pairs_in(np.array([np.count_nonzero(given >= 0)]))
    known = (given >= 0) & (found >= 0)
    if not known.any():
        return np.array([0] * 8 + [every], dtype=np.float64)
    found, given = found[known], given[known]
    _, column = np.unique(found, return_inverse=True)
    _, row = np.unique(given, return_inverse=True)
    column, row = np.asarray(column, dtype=np.int64).ravel(), np.asarray(row).ravel()
    _, cell_size = np.unique(row * np.int64(column.max() + 1) + column, return_counts=True)
    must_kept = _pairs_in(cell_size)
    must, together = _pairs_in(np.bincount(row)), _pairs_in(np.bincount(column))
    there = _pairs_in(np.array([found.size]))
    cannot = there - must
    cannot_kept = cannot - (together - must_kept)
    counts = np.array([must, must_kept, cannot, cannot_kept], dtype=np.float64)
    weights = counts * np.repeat(beliefs, 2)
    return np.array([*np.where(weights > 0, counts, 0), *weights, every - there])


def _pairs_in(sizes: NDArray[np.integer[Any]]) -> int:
    """Σ s(s-1)/2, in integers: counts of pairs outgrow int32."""
    sizes = sizes.astype(np.int64)
    return int((sizes * (sizes - 1) // 2).sum())


def _share(part: float, whole: float, nothing: float = 1.0) -> float:
    """Part of a whole; `nothing` where there was nothing to keep."""
    return float(part / whole) if whole > 0 else nothing


# --- What clusters keep of soft labels: expected must-links and cannot-links, through sums


def soft_tally(found: NDArray[np.int64], soft: SoftLabels, beliefs: tuple[float, float]) -> Floats:
    """Return the nine numbers of `kept`: pairs count by what is expected, weights by belief.

    `found` (n,) are clusters, -1 none. A pair is a must-link with chance ⟨y_i, y_j⟩, else a
    cannot-link. Cost O(nK).
    """
    left = soft.known & (found < 0)
    there = soft.only(found >= 0)
    m, out = int(there.known.sum()), int(left.sum())
    unclustered = out * m + out * (out - 1) // 2
    clusters = np.maximum(found, 0)
    counts = _kept(clusters, there.certain) * (np.repeat(beliefs, 2) > 0)
    weights = _kept(clusters, there) * np.repeat(beliefs, 2)
    return np.array([*counts, *weights, unclustered])


def _kept(clusters: NDArray[np.int64], soft: SoftLabels) -> Floats:
    """Σ_{i<j} of must-links, of those kept, of cannot-links, of those kept."""
    u = soft.belief
    shares = u[:, None] * soft.values
    must, must_kept = _pairs(shares, clusters)
    both, together = _pairs(u[:, None], clusters)
    cannot = both - must
    return np.maximum([must, must_kept, cannot, cannot - (together - must_kept)], 0.0)


def _pairs(A: Floats, clusters: NDArray[np.int64]) -> tuple[float, float]:
    """Σ_{i<j} ⟨a_i, a_j⟩ over all pairs of rows of A (n, K), and over those in one cluster."""
    own = float(np.square(A).sum())
    inside = np.column_stack([np.bincount(clusters, a) for a in A.T])
    whole = float(np.square(A.sum(axis=0)).sum())
    return (whole - own) / 2, (float(np.square(inside).sum()) - own) / 2


# --- Single moves by which more is kept


_SWEEPS = 30  # after which hardly a node moves


def moved_by_pairs(
    graph: Graph, clusters: Ints, constraints: Constraints, pull: float, k: int
) -> tuple[Ints, int]:
    """Clusters (n,) of a graph's nodes after moves of single nodes, and how many nodes moved.

    A node goes where most of its weight is, as a share a_ic of it, and where its pairs are kept:

        c_i = argmax_c  a_ic + pull Σ_j q_ij [c_j = c]

    (iterated conditional modes, Besag 1986), one node after another in an order drawn once, until
    none moves. q_ij are beliefs of pairs. Nodes with a label stay. Where clusters would run
    together, as neighbours alone decide for most nodes (Σ_c p_c² over four times what it was, p_c
    shares of the nodes), only nodes with a pair move; where a cluster would still lose all of its
    nodes, none. Cost: some passes over edges and pairs.
    """
    pairs, belief = constraints.merged
    if not len(pairs) or pull <= 0:
        return clusters, 0
    ends, n = np.concatenate([pairs, pairs[:, ::-1]]), clusters.size
    beliefs = np.concatenate([belief, belief]) * pull
    links = sp.csr_matrix((beliefs, (ends[:, 0], ends[:, 1])), (n, n))
    free = clusters >= 0
    if constraints.labels is not None:
        free &= constraints.labels < 0
    order = np.random.default_rng(0).permutation(np.flatnonzero(free))
    before = np.bincount(clusters[clusters >= 0], minlength=k).astype(np.float64)
    for some in (order, order[np.isin(order, pairs)]):
        found = moved_by_links(graph.affinity, links, clusters, some, k, _SWEEPS)
        after = np.bincount(found[found >= 0], minlength=k).astype(np.float64)
        if after @ after <= 4 * (before @ before):
            break
    if (after[before > 0] == 0).any():
        return clusters, 0
    return found, int(np.count_nonzero(found != clusters))


def rows_moved_by_pairs(
    graph: Graph, answers: Ints, constraints: Constraints, pull: float, k: int
) -> tuple[Ints, int]:
    """`moved_by_pairs` for answers (n,) of rows, of which equal ones are one node."""
    if graph.rows is None:
        return moved_by_pairs(graph, answers, constraints, pull, k)
    of_nodes = np.full(graph.n_nodes, -1, dtype=np.int64)
    of_nodes[graph.rows] = answers
    found, moved = moved_by_pairs(graph, of_nodes, constraints, pull, k)
    return np.where((found != of_nodes)[graph.rows], found[graph.rows], answers), moved


# --- Doubts: constraints that cannot be kept, and those that were not


# Shares of constraints kept below which a warning is due: on average, and of one kind.
_LOW, _BROKEN = 0.7, 0.5
_CHANCE = 0.55  # on average, where 0.5 is what trivial answers keep


def note_contradictions(known: Constraints, recorder: Recorder) -> None:
    """Tell of constraints that contradict each other."""
    against = known.as_given.contradictions()
    if against:
        noun = "contradictions" if len(against) > 1 else "contradiction"
        more = f" and {len(against) - 3} more" if len(against) > 3 else ""
        named = "; ".join(str(one) for one in against[:3])
        cancel = any(one.reason == "both signs" for one in against)
        opposite = "; opposite beliefs in one pair cancel" if cancel else ""
        recorder.warn(
            f"{len(against)} {noun} in the constraints, kept as soft{opposite}: {named}{more}"
        )


def warn_of_lost(lost: int, recorder: Recorder) -> None:
    """Tell of so many constrained nodes without an edge."""
    if lost:
        nodes = "node has" if lost == 1 else "nodes have"
        recorder.warn(f"{lost} constrained {nodes} no edge: their constraints cannot act")


def warn_if_broken(
    labels: Ints, known: Constraints, recorder: Recorder, instead: str = "another method"
) -> dict[str, float] | None:
    """Shares of the constraints that are kept, None without any; a warning where they are few.

    `labels` are of the rows that the constraints were given of.
    """
    if known.is_empty:
        return None
    given = known.as_given
    doubt = broken_constraints(labels, given)
    if doubt is not None:
        recorder.warn(
            f"only {doubt}: the graph says otherwise, or they contradict each other; try {instead}"
        )
    return satisfaction(labels, given)


def broken_constraints(labels: Ints, known: Constraints) -> str | None:
    """Which shares of the constraints, weighted by belief, are kept, where that says little.

    One of the kinds is mostly broken, both on average are below 70 %, or a trivial answer keeps
    about as much: of both kinds half on average, of one kind what clusters of these sizes keep at
    random.
    """
    kinds = kept_by_kind(labels, known)
    kept = {
        f"{kind}-links": row["weight_kept"] / row["weight"]
        for kind, row in kinds.items()
        if row["weight"] > 0
    }
    if not kept:
        return None
    balanced, least = sum(kept.values()) / len(kept), min(kept.values())
    first, *rest = (
        f"{kept[name]:.0%} of the {name}" for name in sorted(kept, key=kept.__getitem__)
    )
    text = f"{first} are kept" + "".join(f", and {other}" for other in rest)
    if len(kept) == 2 and balanced < _CHANCE:
        return f"{text}; one cluster of all nodes, or random ones, keep as much on average"
    if len(kept) == 1:
        clustered = labels[labels >= 0]
        sizes = np.bincount(clustered) / max(clustered.size, 1)
        together = float(sizes @ sizes)
        by_chance = together if "must-links" in kept else 1.0 - together
        if balanced < 1 and balanced <= by_chance:
            return f"{text}; random clusters of these sizes keep {by_chance:.0%}"
    return text if balanced < _LOW or least < _BROKEN else None
