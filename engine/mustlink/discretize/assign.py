"""From an embedding to clusters: discretisation of relaxed indicator vectors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.constraints.pairs import upper_entries
from mustlink.core.check import check_answer, in_order_of_rows
from mustlink.errors import InputError
from mustlink.kernels.blocks import group_sums, nearest_centre
from mustlink.space import Block, Gram, GroupSums, LocalSpace, Small, Space, Vector

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Ints = NDArray[np.int64]

ASSIGNMENTS = ("auto", "sign", "split", "kmeans", "sign-kmeans", "cost-weighted", "sphere")
_SAMPLE = 50_000  # rows on which k-means looks for its centres before it sees all of them
_RESTARTS = 10
_LEAST_SAMPLE = 20  # rows a cluster
_WORK = 4 * 10**8  # multiplications of a step on a sample, unless clusters have too few rows then
_LONG = 10**7  # multiplications of a step from which only the best start is followed to its end
_SHORT = 10  # steps of the others: their order hardly changes any more
_WIDE = 100  # columns from which starts are compared in a random projection on so many
_FEW = 3  # starts then: with hundreds of clusters they end alike
_DUST = 1e-6  # of a vector's largest entry: what an eigensolver leaves of the other sign


def transform(
    embedding: NDArray[np.float64],
    how: str,
    cost: NDArray[np.float64] | None = None,
    *,
    noise: float = 0.0,
) -> NDArray[np.float64]:
    """Rows that k-means will see, (m, r).

    * kmeans: D^-½V as it is (WD14 Alg. 2 line 11)
    * sign, split: the sign of one vector, and the vector itself, see `cut_vector`
    * sign-kmeans: sign(D^-½V) (WD14 eq. 15)
    * cost-weighted: sign(D^-½V)(VᵀL̄V)⁻¹ (WD14 eq. 16; the weights are put outside the sign, which
      would swallow them as printed, VᵀL̄V being diagonal for the pencil's vectors)
    * sphere: rows scaled to length 1 (Ng et al. 2001; the FCSC-SP of WHC11); rows no longer than
      `noise` have no direction, and are 0
    """
    if how == "kmeans":
        return embedding
    if how == "split":
        return cut_vector(embedding)
    if how == "sign":
        return np.sign(cut_vector(embedding))
    if how == "sphere":
        size = np.linalg.norm(embedding, axis=1, keepdims=True)
        least = max(noise, float(np.finfo(size.dtype).tiny))
        return np.divide(embedding, size, out=np.zeros(embedding.shape), where=size > least)
    if how == "sign-kmeans":
        return np.sign(embedding)
    if how == "cost-weighted":
        if cost is None:
            raise InputError("assign: cost-weighted needs the costs of the vectors; use kmeans")
        return np.sign(embedding) * (cost.min(initial=np.inf) / np.maximum(cost, 1e-300))
    raise InputError(f"assign: {how!r} is unknown; choose one of {', '.join(ASSIGNMENTS)}")


def cut_vector(embedding: Block, space: Space | None = None) -> Block:
    """The vector (m, 1) that two clusters are cut from: the first column (m, r) with both signs.

    One of a single sign has all nodes on one side, and is rejected (WHC11 §3.4). The last column
    where no other is left. Cost O(mr).
    """
    space = LocalSpace(embedding.shape[0]) if space is None else space
    high, low = (
        np.abs(space.peaks(space.rowwise(side, embedding)))
        for side in (lambda E: np.maximum(E, 0.0), lambda E: np.minimum(E, 0.0))
    )
    dust = _DUST * np.maximum(high, low)
    both = np.append((high > dust) & (low > dust), True)
    first = min(int(both.argmax()), max(embedding.shape[1] - 1, 0))
    return space.columns(embedding, slice(first, first + 1))


def assign(
    embedding: Block,
    k: int,
    how: str,
    seed: int,
    *,
    cost: NDArray[np.float64] | None = None,
    centers: Small | None = None,
    space: Space | None = None,
) -> Assignment:
    """K clusters from the rows of an embedding (m, r).

    `sign` cuts one vector at 0 (k = 2, WD14 §6.1); every other way is k-means on transformed
    rows, from 10 starts on at most 50,000 rows, then on all rows from the best of them (or
    from the given `centers` only). Every cluster is kept non-empty by k-means itself.
    """
    space = LocalSpace(embedding.shape[0]) if space is None else space
    if how == "sign":
        if k != 2 or embedding.shape[1] != 1:
            raise InputError(f"assign: sign makes 2 clusters from 1 vector, not {k}; use kmeans")
        labels = space.rowwise(lambda E: (E[:, 0] > 0).astype(np.int64), embedding)
        return Assignment(labels, np.array([[-1.0], [1.0]]), 0.0)
    rows = space.rowwise(lambda E: transform(E, how, cost), embedding)
    return kmeans(rows, k, seed, centers=centers, space=space)


def kmeans(
    rows: Block,
    k: int,
    seed: int,
    *,
    centers: Small | None = None,
    restarts: int = _RESTARTS,
    sample: int = _SAMPLE,
    space: Space | None = None,
) -> Assignment:
    """k-means: scikit-learn's `restarts` starts on a sample, then Lloyd's steps on all rows.

    A `sample` of all rows is all there is to do. It has less rows for hundreds of clusters, 20 for
    each at least. Where nodes stand for several, `space.weights`, every row counts as often. No
    cluster is empty where there are k distinct rows; where there are fewer, each is a cluster.
    """
    space = LocalSpace(rows.shape[0]) if space is None else space
    check_answer(space.dots(rows, rows), "embedding")
    if centers is None:
        n = space.size
        sample = min(sample, max(_LEAST_SAMPLE * k, _WORK // (k * rows.shape[1])))
        if n <= sample:
            few = _distinct(space, rows, k) if 2 * k > n else None
            if few is not None:
                return lloyd(space, rows, few)
            found = _on_sample(space, rows, np.arange(n), k, (seed, restarts))
            if np.bincount(found.labels_, minlength=k).all():
                labels = space.place(found.labels_.astype(np.int64))
                return Assignment(labels, found.cluster_centers_, found.inertia_)
            # Its distances lose the digits that tell rows apart: by differences from here on.
            return lloyd(space, rows, found.cluster_centers_)
        chosen = np.sort(np.random.default_rng(seed).choice(n, sample, replace=False))
        centers = _on_sample(space, rows, chosen, k, (seed, restarts)).cluster_centers_
    return lloyd(space, rows, centers)


def _distinct(space: Space, rows: Block, k: int) -> Small | None:
    """The distinct rows as k centres, the last one repeated; None where there are more than k."""
    found = np.unique(space.take(rows, np.arange(space.size)), axis=0)
    if len(found) > k:
        return None
    return np.concatenate([found, np.repeat(found[-1:], k - len(found), axis=0)])


def _on_sample(space: Space, rows: Block, nodes: Ints, k: int, how: tuple[int, int]) -> Any:
    """scikit-learn's k-means of a few rows, each counted as often as its node; seed, restarts."""
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning as FewerClusters

    # One thread: the sums come out the same on every machine, and on a busy one the barriers of
    # several threads were measured to cost 75 times what they save.
    with _thread_pools().limit(limits=1), warnings.catch_warnings():
        # Fewer distinct rows than k: the caller warns of it by the labels.
        warnings.simplefilter("ignore", FewerClusters)
        seed, restarts = how
        weights, seen = None, space.take(rows, nodes)
        if space.weights is not None:
            weights = space.take(space.column(space.weights), nodes)[:, 0]
        if restarts == 1 or seen.size * k < _LONG:
            model = KMeans(k, n_init=restarts, random_state=seed)
            return model.fit(seen, sample_weight=weights)
        narrow = _narrow(seen, seed)
        tried = restarts if narrow is seen else min(restarts, _FEW)
        short = KMeans(k, n_init=tried, random_state=seed, max_iter=_SHORT)
        begun = short.fit(narrow, sample_weight=weights).cluster_centers_
        if narrow is not seen:
            often = np.ones(len(seen)) if weights is None else weights
            ones = np.ones((len(seen), 1))
            total, count = (group_sums(X, short.labels_, k, often) for X in (seen, ones))
            begun = total / np.where(count > 0, count, 1.0)
        return KMeans(k, init=begun, n_init=1).fit(seen, sample_weight=weights)


def _narrow(rows: Block, seed: int) -> Block:
    """Rows in at most 100 columns at random, in which distances are the same by some per cent.

    Source: Johnson & Lindenstrauss 1984; for k-means Makarychev, Makarychev & Razenshteyn 2019.
    """
    width = rows.shape[1]
    if width <= _WIDE:
        return rows
    onto = np.random.default_rng(seed).standard_normal((width, _WIDE)) / np.sqrt(_WIDE)
    return np.asarray(rows @ onto.astype(rows.dtype))


@cache
def _thread_pools() -> ThreadpoolController:
    """The libraries that k-means runs in; looking for them takes longer than a small k-means."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


# --- Lloyd's steps of k-means on rows, wherever they are


_STEPS = 20
_NOTHING = 1e-12  # of the largest weight of a cluster: rounding left by a difference
_TOL = 1e-4  # of the mean variance of the columns: a smaller move of all centres ends it


@dataclass(frozen=True, eq=False)
class Assignment:
    """Clusters (m,) from 0, the centres (k, r) in the transformed embedding, and the inertia."""

    labels: Vector
    centers: Small
    inertia: float


def lloyd(space: Space, rows: Block, centers: Small) -> Assignment:
    """At most 20 of Lloyd's steps from these centres, fewer where they stop moving.

    A cluster that loses all its rows takes over the row farthest from its own centre. A node
    counts as often as its weight says. Cost: n·k·r a step, one reduction.
    Source: Lloyd 1982; empty clusters as scikit-learn does.
    """
    k, ones = len(centers), space.weighted(space.rowwise(_ones, rows))
    weighed = space.weighted(rows)
    tol = _TOL * _variance(space, rows, ones)
    labels = space.rowwise(lambda X: nearest_centre(X, centers), rows)
    for _ in range(_STEPS):
        total, count = space.sums(GroupSums(weighed, labels, k), GroupSums(ones, labels, k))
        filled = not count.all() and _fill(
            space, (rows, ones), _squares(space, rows, labels, centers), labels, total, count
        )
        # A cluster whose only row was taken over stays where it is: nothing has no mean.
        there = count > _NOTHING * count.max()
        before, centers = centers, np.where(there, total / np.where(there, count, 1.0), centers)
        labels = space.rowwise(lambda X, C=centers: nearest_centre(X, C), rows)
        if not filled and float(((centers - before) ** 2).sum()) <= tol:
            break
    inertia = space.gram(ones, _squares(space, rows, labels, centers))
    return Assignment(labels, centers, float(inertia[0, 0]))


def _fill(
    space: Space,
    data: tuple[Block, Block],
    squares: Block,
    labels: Vector,
    total: Small,
    count: Small,
) -> bool:
    """Give every empty cluster the farthest row that is left, by changing sums and counts.

    Returns whether there were such rows.
    """
    rows, ones = data
    empty = np.flatnonzero(count[:, 0] == 0)
    far = space.largest(squares, empty.size)
    taken, weight = space.take(rows, far), space.take(ones, far)
    if not space.take(squares, far).any():  # fewer distinct rows than clusters
        return False
    before = space.take(space.column(labels), far)[:, 0].astype(np.int64)
    for new, old, row, w in zip(empty, before, taken, weight, strict=True):
        total[old] -= w * row
        count[old] -= w
        total[new], count[new] = w * row, w
    return True


def _squares(space: Space, rows: Block, labels: Vector, centers: Small) -> Block:
    """Squared distance of every row from its centre, (n, 1)."""
    return space.rowwise(
        lambda X, own: ((X - centers[own]) ** 2).sum(axis=1, keepdims=True), rows, labels
    )


def _variance(space: Space, rows: Block, ones: Block) -> float:
    """Mean variance of the columns, by differences from the mean."""
    plain = space.rowwise(_ones, rows)
    total, count = space.sums(Gram(ones, rows), Gram(ones, plain))
    mean = total / count
    squares = space.rowwise(lambda X: ((X - mean) ** 2).sum(axis=1, keepdims=True), rows)
    return float(space.gram(ones, squares)[0, 0] / count[0, 0] / rows.shape[1])


def _ones(X: NDArray[Any]) -> NDArray[np.float64]:
    return np.ones((len(X), 1))


# --- k-means of all nodes of a graph, the same in every home


_SEEN = 200_000  # nodes that it sees to its end; all others are looked at once
_NUMBERS = 1 << 22  # times clusters at most, but for 50 nodes a cluster


def clusters_of(
    space: Space,
    rows: Block,
    k: int,
    seed: int,
    *,
    centers: Small | None = None,
    sample: int = _SEEN,
    **how: int,
) -> NDArray[np.int64]:
    """Clusters (n,) in memory of rows (n, r), -1 for those that the space's weights do not count.

    k-means, see `kmeans`, which takes `how`, of a sample of nodes; others go to the nearest centre.
    Clusters are numbered in the order of their first nodes in the sample, as signs and rotations of
    vectors differ by home; from given `centers` they have the numbers of these. Memory: clusters,
    and the sample.
    """
    chosen = space.sample(min(sample, max(_NUMBERS // k, 50 * k)), seed)
    weights = None
    if space.weights is not None:
        weights = space.take(space.column(space.weights), chosen)[:, 0]
    here, seen = LocalSpace(chosen.size, weights), space.take(rows, chosen)
    of_sample = kmeans(seen, k, seed, centers=centers, space=here, **how)
    found = of_sample.centers
    if centers is None:
        first = np.full(k, chosen.size)
        np.minimum.at(first, of_sample.labels, np.arange(chosen.size))
        found = found[np.argsort(first, kind="stable")]
    clusters = space.rowwise(lambda X: nearest_centre(X, found), rows)
    if space.weights is not None:
        there = space.weights
        clusters = space.rowwise(lambda own, w: np.where(w > 0, own, -1), clusters, there)
    result: NDArray[np.int64] = clusters[:]
    return result


# --- k-means that starts from labels: one cluster a class, at the mean of its labelled rows
#
# Source: Basu, Banerjee & Mooney 2002, Seeded-KMeans.


Floats = NDArray[np.float64]
Rows = NDArray[np.floating]

_SEEDED_ROWS = 20_000  # rows on which starts are compared
_PARTS = 3  # of the labels, held out one after the other


def label_centers(
    rows: Rows, labels: Ints, k: int, seed: int, weights: Floats | None = None
) -> Floats:
    """Centres (k, r): the mean of every class's rows (m, r), in order of the classes.

    `labels` (m,) have -1 for unknown and at most k classes; `weights` (m,) tell how often a row
    counts. Centres beyond the classes are rows drawn with a chance in proportion to the squared
    distance from the nearest centre so far (k-means++, Arthur & Vassilvitskii 2007).
    """
    often = np.ones(len(rows)) if weights is None else weights
    classes = np.unique(labels[labels >= 0])
    own = [labels == c for c in classes]
    centers = [np.average(rows[at], axis=0, weights=often[at]) for at in own]
    if len(centers) == k:
        return np.stack(centers).astype(np.float64)
    rng, far = np.random.default_rng(seed), np.full(len(rows), np.inf)
    for at in range(k - 1):
        far = np.minimum(far, ((rows - centers[at]) ** 2).sum(axis=1))
        if at + 1 == len(centers):
            chance = np.cumsum(far * often)
            drawn = int(np.searchsorted(chance, rng.random() * chance[-1], side="right"))
            centers.append(rows[min(drawn, len(rows) - 1)])
    return np.stack(centers).astype(np.float64)


def seeded_kmeans(
    rows: Rows, labels: Ints, k: int, seed: int, weights: Floats | None = None
) -> Ints:
    """Clusters (m,) by Lloyd's steps from `label_centers`; cluster c is that of the cth class."""
    centers = label_centers(rows, labels, k, seed, weights)
    space = LocalSpace(len(rows), weights)
    found: Ints = kmeans(rows, k, seed, centers=centers, space=space).labels
    return found


def dealt(codes: Ints, rng: np.random.Generator, parts: int = _PARTS) -> Ints:
    """Part (l,) in which a label is held out, classes dealt evenly; -1 for a class's only one."""
    part = np.full(codes.size, -1, dtype=np.int64)
    first = 0
    for c in np.unique(codes):
        own = rng.permutation(np.flatnonzero(codes == c))
        if own.size > 1:
            part[own] = (first + np.arange(own.size)) % parts
            first += own.size
    return part


def held_out_right(
    spaces: tuple[Rows, ...], labels: Ints, k: int, seed: int, weights: Floats | None = None
) -> tuple[int, ...]:
    """How many labels held out seeded k-means answers rightly, on a sample of each space's rows.

    Spaces (m, r) are of the same m nodes, whose `labels` are held out in three parts.
    """
    rng = np.random.default_rng(seed)
    known = np.flatnonzero(labels >= 0)
    rows = np.arange(labels.size)
    if rows.size > _SEEDED_ROWS:
        rows = np.union1d(rng.choice(rows.size, _SEEDED_ROWS, replace=False), known)
    own = in_order_of_rows(labels)[known]
    codes, part = np.full(rows.size, -1, dtype=np.int64), np.full(rows.size, -1, dtype=np.int64)
    codes[np.searchsorted(rows, known)] = own
    part[np.searchsorted(rows, known)] = dealt(own, rng)
    right = []
    for space in spaces:
        some, often, count = space[rows], None if weights is None else weights[rows], 0
        for held in range(_PARTS):
            found = seeded_kmeans(some, np.where(part == held, -1, codes), k, seed, often)
            count += int(np.count_nonzero(found[part == held] == codes[part == held]))
        right.append(count)
    return tuple(right)


# --- Two clusters from one vector: where to cut it
#
# The papers cut at 0 (WD14 §6.1) or where the normalised cut is least (Shi & Malik 2000). With
# constraints a vector often tells the two sides apart, but not at 0: the value that keeps most
# constraints is taken, and among such values the one of least NCut.


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
    return (((values[1:] + values[:-1]) / 2)[distinct], cut[distinct] * (1.0 / left + 1.0 / right))


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
