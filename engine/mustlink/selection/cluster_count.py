"""How many clusters a graph has.

By pairs, where some are known; else of networks by three counts, and of points by the gap among the
smallest eigenvalues, or by the step where all of them are small: clusters that are long.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.context.method_cost import MOST_COUNTED, Size, eigenvectors
from mustlink.context.stage_cache import Workspace
from mustlink.core.result import TIME_LIMIT
from mustlink.discretize.assign import kmeans, transform
from mustlink.discretize.cuts import network_scores
from mustlink.eigen.memory_work import laplacian_of, smallest_pairs
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.graph.graph import Key, has_even_degrees
from mustlink.operators.laplacian import Block
from mustlink.selection.held_out import sampled_rows
from mustlink.space import LocalSpace

_PART = 0.01  # share of the nodes from which a component is no crumb
# Gaps, and steps. Of one piece (intervals, rings, rolls, squares, cubes, spheres, clouds; 80 to
# 3,000 points, eight draws) gaps are at most .67, .45 from 200 points on; steps .8 behind 2 and 3
# but for few draws, where they are .9, and behind larger numbers .67.
_UNCLEAR, _LIKELY, _CLEAR = 0.45, 0.6, 0.68
_FEW = 3  # an interval's eigenvalues 0, 1, 4, 9 … and a ring's 0, 1, 1, 4, 4 … have .75 so early
_STEP, _CLEAR_STEP = (0.8, 0.7), (0.91, 0.75)  # up to so few, and beyond; several strands: .75 anew
_SHARP = 1e-4  # residual of eigenvalues of which some are small
_NONE = 1e-5  # eigenvalues below this are as good as 0 beside other small ones
_TOLD, _RIVAL = 3, 0.4  # other numbers that a reason names, of at least so much of the widest gap
_WIDE = 2  # numbers that keep pairs as well, beyond which K is not clear


@dataclass(frozen=True)
class ClusterCount:
    """K, how it was counted, and why it may be another; None where it is clear.

    `gap` is the widest among the eigenvalues, at most 1, see `eigengaps`.
    """

    k: int
    reason: str
    doubt: str | None
    gap: float


@dataclass(frozen=True)
class CountKey(Key[ClusterCount]):
    """K of a graph."""

    seed: int
    budget: int | None
    limit: float
    types: ClassVar[tuple[type, ...]] = (ClusterCount,)


def count_clusters(work: Workspace, seed: int, known: Constraints | None = None) -> ClusterCount:
    """K of a graph, from 2; raises InputError where there is nothing to count.

    Networks are counted in three ways, see `count_of_network`; graphs of points, and those with
    weights in which all nodes have about as many edges, by the gap, see `count_by_gap`. Where
    `known` are 30 pairs or more of both kinds, they decide, see `count_by_pairs`.
    """

    def counted() -> ClusterCount:
        if is_counted_as_network(work.graph):
            return _of_network(count_of_network(work, seed))
        return count_by_gap(work, seed)

    key = CountKey(work.single, seed, work.memory, work.recorder.deadline.limit)
    found = work.derive("number of clusters", key, counted)
    if known is None or not can_count_by_pairs(known):
        return found
    network = is_counted_as_network(work.graph)
    most = min(MOST, max(MOST_COUNTED, 2 * found.k)) if network else MOST_COUNTED
    view = counting_view(work)[0] if network else work
    pairs = count_by_pairs(view, known, most, seed)
    if pairs is None:
        return found
    doubt = None
    if pairs.high - pairs.low > _WIDE:
        doubt = (
            f"{pairs.in_words}: give more pairs, or name the number if you know it ({found.reason})"
        )
    return ClusterCount(pairs.k, f"{pairs.in_words}; {found.reason}", doubt, found.gap)


def is_counted_as_network(graph: Graph) -> bool:
    """Whether edges were given, and are equal or far more at some nodes than at others."""
    edges = np.diff(graph.affinity.indptr)
    edges = edges[edges > 0]
    if not graph.is_network or edges.size < 4:
        return False
    weights = graph.affinity.data
    return not has_even_degrees(edges) or float(weights.min()) == float(weights.max())


def _of_network(counts: NetworkCounts) -> ClusterCount:
    doubt = None
    if counts.in_time and counts.is_one:
        doubt = (
            f"perhaps there are no clusters at all: {counts.in_words}; edges of a network without "
            "clusters would look like that: do not rely on these"
        )
    elif not counts.is_clear:
        differ = "counts differ" if counts.in_time else "counts are guesses"
        doubt = (
            f"{differ}: {counts.in_words}; networks have structure at every scale, and "
            f"{counts.k} is one answer of several: name the number if you know it"
        )
    return ClusterCount(counts.k, counts.in_words, doubt, counts.gap)


def count_by_gap(work: Workspace, seed: int) -> ClusterCount:
    """K by the widest gap among the smoothest eigenvalues of the graph's larger components.

    The gap behind λ_K is (λ_{K+1} − λ_K)/(λ_{K+1} + 0.02), K from 2 to 20, or as many as there are
    components (von Luxburg 2007 §8.3 compares plain differences, which prefer large K). Within long
    clusters eigenvalues are below 0.02, too: where no gap is wide, K is before the last step
    (λ_{K+1} − λ_K)/λ_{K+1} of at least 0.8, which one piece does not have. Raises InputError for
    graphs without gaps.
    """
    graph = work.graph
    sizes = np.bincount(graph.components)
    large = sizes >= max(2, _PART * graph.n_nodes)
    nodes = np.flatnonzero(large[graph.components])
    zeros = int(np.count_nonzero(large))
    most = max(MOST_COUNTED, zeros)
    if nodes.size < graph.n_nodes:
        work = work.on(Graph(sp.csr_matrix(graph.affinity[nodes][:, nodes])))
    wanted = min(most + 1, nodes.size - 1)
    values, in_time = _values(work, zeros, wanted, ROUGH, seed)
    gaps = eigengaps(values[: most + 1])
    if nodes.size < 4 or gaps.size == 0:
        raise InputError(
            f'n_clusters: "auto" has nothing to count in {nodes.size} nodes with edges; give a '
            "number"
        )
    k, gap, steps = int(np.argmax(gaps)) + 2, float(gaps.max()), np.zeros(0)
    if gap < _LIKELY and values[1] < FLOOR and in_time:
        values, in_time = _values(work, zeros, wanted, _SHARP, seed)
        steps = eigengaps(values[: most + 1], _NONE)
    stepped = last_step(steps)
    by_step = stepped is not None
    if stepped is not None:
        k = stepped
        reason = (
            f"the last step among the smallest eigenvalues is behind number {k}, from "
            f"{values[k - 1]:.2g} to {values[k]:.2g}"
        )
    else:
        reason = (
            f"the widest gap among the smallest eigenvalues is behind number {k} ({gap:.2f} of at "
            "most 1)"
        )
    reason += _others(gaps, k)
    # the second eigenvalue of a random graph in which all nodes have as many edges (Friedman)
    degree = float(np.diff(graph.affinity.indptr)[nodes].mean())
    of_random = 1.0 - 2.0 * np.sqrt(degree - 1.0) / degree if degree > 2.0 else 2.0
    doubt = None
    if not in_time:
        doubt = f"there was no time for eigenvalues to converge: {k} is a guess, name the number"
    elif values[1] > of_random:
        doubt = (
            f"perhaps there are no clusters at all: the second eigenvalue, {values[1]:.2f}, is as "
            "large as in random graphs of as many edges: do not rely on these"
        )
    elif by_step and steps[k - 2] < _CLEAR_STEP[k > _FEW]:
        doubt = f"{reason}: only a moderate step; name the number if you know it"
    elif not by_step and gap < _UNCLEAR:
        doubt = (
            f"no clear number of clusters: {reason}, and data of one piece have such gaps; name "
            "the number if you know it"
        )
    elif not by_step and gap < _CLEAR:
        doubt = f"{reason}: only a moderate gap; name the number if you know it"
    return ClusterCount(k, reason, doubt, gap)


def _values(
    work: Workspace, zeros: int, wanted: int, tol: float, seed: int
) -> tuple[NDArray[np.float64], bool]:
    """The smallest `wanted` eigenvalues, of which `zeros` are 0, and if there was time."""
    if wanted <= zeros:
        return np.zeros(zeros), True
    found = smallest_pairs(work, wanted - zeros, tol=tol, seed=seed)
    values = np.concatenate([np.zeros(zeros), np.maximum(found.values, 0.0)])
    return values, found.convergence.reason != TIME_LIMIT


def last_step(steps: NDArray[np.float64]) -> int | None:
    """K before the last high step, or where there is none before the last of more than three."""
    high = np.flatnonzero(steps >= _STEP[0])
    if not high.size:
        high = np.flatnonzero(steps >= _STEP[1])
        high = high[high + 2 > _FEW]
    return int(high[-1]) + 2 if high.size else None


def _others(gaps: NDArray[np.float64], k: int) -> str:
    """The candidates beside K, by their gaps."""
    wide = [int(at) + 2 for at in np.argsort(-gaps, kind="stable") if at + 2 != k]
    others = [one for one in wide[:_TOLD] if gaps[one - 2] >= _RIVAL * gaps.max()]
    named = ", ".join(f"{other} ({gaps[other - 2]:.2f})" for other in others)
    return f"; others: {named}" if named else ""


# --- How many clusters pairs ask for: those of the graph alone, for every K, that agree with them
#
# A pair takes no part in any of these clusterings, so all of them are held out. They are scored by
# the F measure of pairs that are together, in clusters and by their beliefs,
#
#     F(K) = 2 Σ b⁺s / (Σ b⁺ + Σ |b| s),   s = 1 where clusters have both ends in one
#
# which counts neither what is apart in both nor rewards one giant cluster; K is the smallest whose
# F is within a standard error of the largest.


Floats = NDArray[np.float64]
_LEAST, _LEAST_MUST = 30, 5  # pairs, and must-links among them, that can tell one K from another
_DRAWS = 200  # of the pairs, for the standard error
_RESTARTS = 3


@dataclass(frozen=True)
class PairCount:
    """K by pairs, the K of largest F, from `low` to `high` of about the same; F and pairs."""

    k: int
    best: int
    low: int
    high: int
    score: float
    n_pairs: int

    @property
    def in_words(self) -> str:
        """What was found."""
        text = f"of {self.n_pairs:,} pairs clusters of the graph keep most at {self.best} "
        text += f"(F measure {self.score:.2f})"
        if self.low < self.high:
            text += f", about as many from {self.low} to {self.high}"
        return text


def can_count_by_pairs(known: Constraints) -> bool:
    """Whether there are pairs enough, of both kinds."""
    belief = known.merged[1]
    return enough_pairs(int((belief > 0).sum()), int((belief < 0).sum()))


def enough_pairs(must: int, cannot: int) -> bool:
    """Whether so many pairs can tell one K from another."""
    return bool(must + cannot >= _LEAST and must >= _LEAST_MUST and cannot > 0)


def count_by_pairs(work: Workspace, known: Constraints, most: int, seed: int) -> PairCount | None:
    """K from 2 to `most` by the pairs that clusters of the graph keep; None where too few count.

    Cost: `most` eigenvectors, and k-means of a sample for every K.
    """
    laplacian = laplacian_of(work)
    found = smallest_pairs(work, most, tol=ROUGH, seed=seed)
    parts = min(most, laplacian.null.n_components)
    Z = np.column_stack([laplacian.null.columns(np.arange(parts)), found.vectors])[:, :most]
    if parts == 0:  # regularised degrees: as NCut sees their vectors
        Z = Z * (1.0 - found.values[:most])
    pairs, belief = known.merged
    sample = sampled_rows(laplacian, np.unique(pairs), seed)
    place = np.full(known.n_nodes, -1, dtype=np.int64)
    place[sample.nodes] = np.arange(sample.rows.size - sample.nodes.size, sample.rows.size)
    ends = place[pairs]
    good = (ends >= 0).all(axis=1) & (ends[:, 0] != ends[:, 1]) & (belief != 0)
    ends, belief = ends[good], belief[good]
    if ends.shape[0] < _LEAST or not (belief > 0).any() or (belief > 0).all():
        return None
    rows = laplacian.space.take(Z, sample.rows)
    numbers = range(2, min(Z.shape[1], most) + 1)
    space = LocalSpace(len(rows), sample.counts)
    same = np.empty((len(numbers), len(ends)))
    with work.recorder.stage("numbers of clusters by pairs"):
        for at, k in enumerate(numbers):
            directions = transform(np.ascontiguousarray(rows[:, :k], dtype=np.float64), "sphere")
            labels = kmeans(directions, k, seed, restarts=_RESTARTS, space=space).labels
            same[at] = labels[ends[:, 0]] == labels[ends[:, 1]]
    return chosen_count(np.array(numbers), same, belief, seed)


def chosen_count(numbers: NDArray[np.int64], same: Floats, belief: Floats, seed: int) -> PairCount:
    """The smallest of `numbers` (q,) within a standard error of the largest F.

    `same` (q, m) is 1 where clusters have the ends of a pair, of `belief` (m,), together. The error
    is that of the difference, over draws of the pairs with replacement.
    """
    score = f_measure(same, belief, np.ones((belief.size, 1)))[:, 0]
    best = int(score.argmax())
    often = np.random.default_rng(seed).poisson(1.0, (belief.size, _DRAWS)).astype(np.float64)
    drawn = f_measure(same, belief, often)
    error = (drawn[best] - drawn).std(axis=1)
    alike = numbers[score[best] - score <= error]
    low, high = int(alike.min()), int(alike.max())
    return PairCount(low, int(numbers[best]), low, high, float(score[best]), belief.size)


def f_measure(same: Floats, belief: Floats, often: Floats) -> Floats:
    """F (q, d) of q clusterings; `often` (m, d) is how often a draw has each pair."""
    must, size = np.maximum(belief, 0.0), np.abs(belief)
    together = same @ (must[:, None] * often)
    either = must @ often + same @ (size[:, None] * often)
    return np.asarray(2.0 * together / np.maximum(either, np.finfo(np.float64).tiny))


# --- How many clusters a network has: three counts from one set of eigenpairs, and if they agree
#
# The eigenvalues come from L̄_τ with τd̄ = r² − 1, of which the Bethe-Hessian (r² − 1)I − rA + D is
# r·T^½(L̄_τ − (1 − 1/r)I)T^½: by Sylvester's law of inertia it has as many negative eigenvalues as
# L̄_τ has below 1 − 1/r. In block models these are the blocks, right down to the limit of what can
# be told at all. Real networks have structure at every scale: the count then goes on and on, and
# only what another one confirms is clear. On networks set aside: of planted ones with up to 64
# clusters 8 of 9 were right, and those clear; of 11 real ones 2 were right, 2 within one, and 9
# were reported as not clear.


MOST = 64  # clusters that are looked for
ROUGH = 1e-2  # residual of eigenvalues that are but counted
_FEW_NODES = 16  # looked for first: twice as many each time, while the count does not end
_WORK = 2_000_000  # numbers in what k-means sees: of more nodes fewer clusters are tried, from 16
_TRIED = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 26, 32, 40, 50, 64)
_STARTS = 2
FLOOR = 0.02  # eigenvalues below this are as good as 0
_FLAT = 0.98  # of the largest modularity
_WHOLE = 0.9  # of the nodes with an edge, in the largest component
_LITTLE = 1e-9  # modularity of clusters that have no more edges inside than chance gives them
_LEAST_NETWORK = 1.5  # r² of graphs that are hardly more than paths


@dataclass(frozen=True)
class NetworkCounts:
    """Three counts of at most `most` clusters; None where one cannot be had or was not needed.

    `bethe_hessian` counts negative eigenvalues, None where edges weigh differently, `most` + 1
    where there are more; `by_gap` is K before the widest gap (λ_{K+1} − λ_K)/(λ_{K+1} + 0.02), of
    width `gap`; `by_modularity` that of the clusters of largest `modularity`, of at most `tried`,
    which is hardly larger than others from `flat[0]` to `flat[1]`. All are of degrees with `tau`
    times their mean added. `whole`: whether hardly any node is outside of the largest
    component, else there are clusters whatever the counts. `in_time`: whether the time limit
    left the eigenvalues alone, which are mere guesses otherwise.
    """

    most: int
    bethe_hessian: int | None
    by_gap: int
    gap: float
    tau: float
    whole: bool
    by_modularity: int | None = None
    flat: tuple[int, int] = (0, 0)
    modularity: float = 0.0
    tried: int = 0
    in_time: bool = True

    @property
    def k(self) -> int:
        """K: where the first two agree it is theirs, else that of the largest modularity."""
        return self.by_gap if self.by_modularity is None else self.by_modularity

    @property
    def is_clear(self) -> bool:
        """Whether two of the three agree, of eigenvalues that there was time for."""
        counts = [self.bethe_hessian, self.by_gap, self.by_modularity]
        return self.in_time and not self.is_one and counts.count(self.k) > 1

    @property
    def is_one(self) -> bool:
        """Whether there may be no clusters at all: none that stand out, or none worth a cut."""
        worthless = self.by_modularity is not None and self.modularity <= _LITTLE
        return self.whole and (self.bethe_hessian == 1 or worthless)

    @property
    def in_words(self) -> str:
        """All of them."""
        parts = [] if self.in_time else ["there was no time for eigenvalues to converge"]
        if self.bethe_hessian is not None:
            many = f"more than {self.most}" if self.bethe_hessian > self.most else None
            parts.append(f"the Bethe-Hessian counts {many or self.bethe_hessian}")
        parts.append(f"the widest gap is behind eigenvalue {self.by_gap}")
        if self.by_modularity is not None:
            low, high = self.flat
            others = f", within 2 % of it from {low} to {high}" if low < high else ""
            short = self.tried < min(self.most, MOST)
            why = " (to save time with so many nodes)" if short else ""
            value = round(self.modularity, 3) + 0.0  # no -0.000
            parts.append(
                f"modularity is largest at {self.by_modularity} of up to {self.tried} tried{why}, "
                f"with {self.tau:.1f} times the mean degree added: {value:.3f}{others}"
            )
        return ", ".join(parts)


def count_of_network(work: Workspace, seed: int) -> NetworkCounts:
    """How many clusters the network of a view has, K from 2 to 64; at least 4 nodes with an edge.

    Cost: as many eigenvectors as there are clusters, or 64, roughly; and some 18 k-means unless the
    first two counts agree, then of up to 2 million by the number of nodes, at least 16. As many
    vectors as fit the memory of the view.

    Source: Saade, Krzakala & Zdeborova 2014; Le & Levina 2022; Dall'Amico, Couillet & Tremblay
    2021, for r² = Σd²/Σd − 1 where degrees differ.
    """
    W, linked = work.graph.affinity, laplacian_of(work.regularized(0.0)).nodes
    view, squared = counting_view(work)
    tau = view.tau
    threshold = 1.0 - 1.0 / np.sqrt(squared)
    most, looked = _most(work, linked.size), _FEW_NODES
    values, rows, in_time = _pairs(view, min(looked, most), seed)
    while looked < most and values[-1] < threshold:
        looked *= 2
        values, rows, in_time = _pairs(view, min(looked, most), seed)
    whole = int(np.bincount(work.graph.components).max()) >= _WHOLE * linked.size
    alike = bool(W.data.size) and float(W.data.min()) == float(W.data.max())
    bethe = max(int(np.count_nonzero(values < threshold)), 1) if alike else None
    gaps = eigengaps(values)
    by_gap = int(np.argmax(gaps)) + 2
    found = most, bethe, by_gap, float(gaps[by_gap - 2]), tau, whole
    if bethe == by_gap:
        return NetworkCounts(*found, in_time=in_time)
    tried = min(most, max(_FEW_NODES, _WORK // linked.size))
    if values.size <= tried:
        values, rows, in_time = _pairs(view, tried, seed)
    return NetworkCounts(*found, *_most_modular(view, rows, tried, seed), tried, in_time)


def counting_view(work: Workspace) -> tuple[Workspace, float]:
    """The view with degrees that clusters are counted with, and r² = Σd²/Σd − 1, 1.5 at least."""
    edges = np.diff(work.graph.affinity.indptr).astype(np.float64)
    edges = edges[edges > 0]
    squared = max(float((edges**2).sum() / edges.sum()) - 1.0, _LEAST_NETWORK)
    return work.regularized((squared - 1.0) / float(edges.mean())), squared


def eigengaps(values: NDArray[np.float64], floor: float = FLOOR) -> NDArray[np.float64]:
    """Gaps behind λ_2, λ_3 …, from ascending eigenvalues λ_1 …, each in [0, 1].

    Eigenvalues below `floor` are as good as 0.
    """
    return np.asarray((values[2:] - values[1:-1]) / (values[2:] + floor))


def _most(work: Workspace, nodes: int) -> int:
    """Clusters to look for: of few nodes, or with little memory, not all 64."""
    most = min(MOST, nodes - 2)
    if work.room is not None:
        size = Size(work.graph.n_nodes, work.graph.affinity.nnz)
        most = min(most, eigenvectors(most).most_columns(size, work.room, single=work.single))
    return max(2, most)


def _pairs(view: Workspace, most: int, seed: int) -> tuple[NDArray[np.float64], Block, bool]:
    """The smallest `most` + 1 eigenvalues, rows of which k-means sees K columns, if in time."""
    found = smallest_pairs(view, most + 1, tol=ROUGH, seed=seed)
    rows = found.vectors * (1.0 - found.values).astype(found.vectors.dtype)
    return found.values, rows, found.convergence.reason != TIME_LIMIT


def _most_modular(
    view: Workspace, rows: Block, most: int, seed: int
) -> tuple[int, tuple[int, int], float]:
    """K of largest modularity, least and largest K with about as much, and how much that is.

    On a coarse grid, then between the neighbours of the best.
    """
    laplacian, graph, recorder = laplacian_of(view), view.graph, view.recorder
    reached: dict[int, float] = {}

    def reach(numbers: Iterable[int]) -> None:
        for k in numbers:
            if k in reached:
                continue
            if reached and recorder.deadline.is_over:
                recorder.skip_for_time(f"{k} clusters and others were not tried")
                return
            directions = transform(rows[:, :k], "sphere")
            found = kmeans(directions, k, seed, restarts=_STARTS, space=laplacian.space).labels
            labels = np.full(graph.n_nodes, -1, dtype=np.int64)
            labels[laplacian.nodes] = found
            reached[k] = network_scores(graph, labels)["modularity"]

    def best() -> int:
        return max(reached, key=lambda k: (reached[k], -k))

    with recorder.stage("candidate numbers of clusters"):
        grid = [k for k in _TRIED if k < most] + [most]
        reach(grid)
        at = grid.index(best())
        low, high = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
        reach(range(low, high + 1, max(1, (high - low) // 6)))
    largest = reached[best()]
    alike = [k for k in reached if reached[k] >= largest - (1.0 - _FLAT) * abs(largest)]
    return best(), (min(alike), max(alike)), largest
