"""Representatives of points: p centres, every point joined to the nearest few; a graph of p nodes.

    1  p centres: Lloyd's k-means on a sample of 10 p rows (U-SPEC's hybrid selection)
    2  shares of every row in its r nearest centres, one pass: z_ij ∝ exp(−d_ij²/s_i²)
    3  W = ZᵀZ of the centres, which count their masses Zᵀ1 (`graph.shares`)
    4  groups of rows far from all centres get centres of their own, then 2 and 3 again

Huang, Wang, Wu, Lai & Kwoh, Ultra-scalable spectral clustering and ensemble clustering (TKDE 2020,
§3.1); Liu, He & Chang, Large graph construction for scalable semi-supervised learning (ICML 2010).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from mustlink.context.fit_plan import HELD_BELOW, NEAREST
from mustlink.core.check import as_integer, as_points, check_choice
from mustlink.core.observe import Recorder
from mustlink.errors import InputError
from mustlink.graph.graph import Graph, fold
from mustlink.graph.shares import BLOCK, Near, Shares, each_part, gram_of, mixed, symmetric, voted
from mustlink.neighbors.bridges import bridging_edges
from mustlink.neighbors.knn import knn_graph
from mustlink.neighbors.points_by_rows import Prepared, is_rows, prepare

_SAMPLE = 10  # rows of the sample to a representative
_FAR = 4.0  # times as far from all centres as rows of the sample: unlike them
_USUAL = 0.99  # of the rows of the sample: how far the others are is looked at
_GROUP = 16  # rows that are far from others and are a cluster: no node has so many neighbours
_LOOKED = 1 << 12  # far rows looked at
_ROUNDS = 3  # of centres for them
_STEPS = 10  # of Lloyd's: representatives need not be the best centres
_TOGETHER = 1 << 8  # rows compared at once: always the same, as products are rounded by shape
_TAKEN = 1 << 12  # rows that a thread takes


@dataclass(frozen=True, eq=False)
class Representatives:
    """Centres (p, d) float32 as points are compared, and how those are prepared for that.

    `metric`, `shift` and `unit` are as in `Prepared`; `nearest` is r, at most p. `limits` (p,) are
    the most that s_i² is of rows that are nearest to a centre, None: no limits.
    """

    centres: NDArray[np.float32]
    metric: str
    shift: NDArray[np.float64] | None
    unit: float
    nearest: int
    limits: NDArray[np.float64] | None = None

    def prepared(self, points: Any) -> Prepared:
        """Points (m, d), in memory or not, as these are compared."""
        return Prepared(points, self.metric, self.shift, 1.0, self.unit)

    def of_rows(self, points: Any, rows: Any) -> Near:
        """Nodes and shares (m, r) of some rows, a slice or numbers, of the points."""
        source = self.prepared(points)
        X = source[rows] if isinstance(rows, slice) else source.gather(rows)
        return self.shares(X)

    def shares(self, X: NDArray[np.float32]) -> Near:
        """Nodes and shares (m, r) of prepared points (m, d), by falling share.

        s_i² is the mean of d_ij² over the r, or its limit. Cost O(m p d).
        """
        near, lengths = nearest_centres(X, self.centres, self.nearest)
        d = lengths.astype(np.float64)
        scale = np.mean(d**2, axis=1, keepdims=True)
        if self.limits is not None:
            scale = np.minimum(scale, self.limits[near[:, :1]])
        scale[scale == 0] = 1.0
        Z = np.exp(-(d**2 - d[:, :1] ** 2) / scale)
        Z /= Z.sum(axis=1, keepdims=True)
        return near, Z.astype(np.float32)


def nearest_centres(X: NDArray[np.float32], centres: NDArray[np.float32], r: int) -> Near:
    """The r nearest of centres (p, d) to points (m, d): numbers (m, r), rising lengths (m, r)."""
    from mustlink.kernels.nearest_lists import keep_smallest, measure_again
    from mustlink.kernels.threads import in_threads

    m = X.shape[0]
    places = np.full((m, r), -1, dtype=np.int32)
    lengths = np.empty((m, r), dtype=np.float32)
    norms = np.einsum("ij,ij->i", centres, centres)

    def find(start: int) -> None:
        part = slice(start, min(start + _TAKEN, m))
        squares = np.full((part.stop - start, r), np.inf, dtype=np.float32)
        room = np.empty((_TOGETHER, centres.shape[0]), dtype=np.float32)
        for a in range(start, part.stop, _TOGETHER):
            some = slice(a, min(a + _TOGETHER, part.stop))
            products = np.matmul(X[some], centres.T, out=room[: some.stop - a])
            keep_smallest(products, norms, 0, squares[a - start : some.stop - start], places[some])
        measure_again(X[part], centres, squares, places[part])
        lengths[part] = np.sqrt(squares)

    in_threads(find, range(0, m, _TAKEN))
    return places, lengths


def check_representatives(p: Any, n: int, k: int | None = None) -> int:
    """The number of representatives of n points, for k clusters; raises InputError."""
    p = as_integer(p, "representatives", 2)
    if p > n:
        raise InputError(
            f"representatives: {p} for {n} points; give fewer than there are points, or leave it "
            "out, and every point is a node"
        )
    if k is not None and p < k:
        raise InputError(f"representatives: {p} for {k} clusters; give at least {10 * k}")
    return p


def chosen_centres(
    rows: Prepared, p: int, rng: np.random.Generator, recorder: Recorder
) -> tuple[NDArray[np.float32], float]:
    """At most p centres (p, d) by Lloyd's k-means on a sample of 10 p rows; equal rows count one.

    And the largest usual distance of a row of the sample from the nearest: up to four times what 99
    of 100 do not exceed. Fewer, with a note, where the sample has fewer distinct rows.
    """
    n = rows.shape[0]
    size = min(n, _SAMPLE * p)
    ids = np.arange(n) if size == n else np.sort(rng.choice(n, size, replace=False, shuffle=False))
    sample = rows.gather(ids)
    distinct, counts = np.unique(sample, axis=0, return_counts=True)
    if distinct.shape[0] == 1:
        raise InputError(
            f"representatives: all {size} rows of a sample of {n} points are equal; check that the "
            "right columns were read"
        )
    if distinct.shape[0] <= p:
        if distinct.shape[0] < p:
            recorder.note(
                f"representatives: {distinct.shape[0]:,} instead of {p:,}, as the rows of a sample "
                "of ten times as many have no more distinct values"
            )
        return distinct, 0.0
    centres = distinct[np.sort(rng.choice(distinct.shape[0], p, replace=False))]
    before = None
    for _ in range(_STEPS):
        own = nearest_centres(distinct, centres, 1)[0][:, 0]
        if before is not None and np.array_equal(own, before):
            break
        before = own
        members = sp.csr_matrix((counts.astype(np.float64), own, np.arange(own.size + 1)),
                                shape=(own.size, p))  # fmt: skip
        size_of = np.asarray(members.sum(axis=0)).ravel()
        sums = np.asarray(members.T @ distinct.astype(np.float64))
        filled = size_of > 0
        centres = centres.copy()
        centres[filled] = (sums[filled] / size_of[filled, None]).astype(np.float32)
    found: NDArray[np.float32] = np.unique(centres, axis=0)
    gaps = nearest_centres(distinct, found, 1)[1]
    usual = gaps[gaps <= _FAR * np.quantile(gaps, _USUAL)]
    return found, float(usual.max(initial=0.0))


def representative_graph(
    points: Any,
    p: int,
    *,
    nearest: int = NEAREST,
    metric: str = "euclidean",
    random_state: int = 0,
    recorder: Recorder | None = None,
    held: int = HELD_BELOW,
) -> Graph:
    """The graph of p representatives of points (n, d), whose rows are mixtures of its nodes.

    Points are an array, or have a shape and blocks of rows [a:b] such as an HDF5 dataset, of which
    then no more than blocks is in memory; their shares are held up to so many bytes as `held` says,
    and of more points found again in every pass. With `nearest` = 1 every row is its nearest
    representative, as equal rows are one node, and edges join each to its neighbours
    (`knn_graph`). Components are joined by their shortest bridging edges, with a note. Cost
    O(n p d) + O(p² d) for the centres, and two passes over the points.
    Raises InputError.
    """
    recorder = Recorder() if recorder is None else recorder
    check_choice(metric, ("euclidean", "cosine"), "metric")
    source = points if is_rows(points) else as_points(points)
    n = int(source.shape[0])
    p = check_representatives(p, n)
    rng = np.random.default_rng(random_state)
    with recorder.stage("checking points") as advance:
        rows = prepare(source, metric, advance)
    with recorder.stage("representatives"):
        centres, reach = chosen_centres(rows, p, rng, recorder)
    r = min(nearest, centres.shape[0])
    finder = Representatives(centres, metric, rows.shift, rows.unit, r)
    is_held = not is_rows(source) or 8 * r * n <= held
    far = _FAR * reach if reach else np.inf
    for _ in range(_ROUNDS):
        with recorder.stage("shares of representatives") as advance:
            found = shares_of(rows, finder, source, advance, far, held=is_held)
        wider = kept_apart(found, far, nearest)
        if wider is None:
            break
        finder = wider
    shares, nodes, W, mass = found.shares, found.nodes, found.affinity, found.mass
    small = max(2, n // mass.size)
    if shares.finder.limits is not None:
        alone = np.isfinite(shares.finder.limits)[nodes]
        recorder.note(
            f"representatives: {np.count_nonzero(np.isfinite(shares.finder.limits))} are kept for "
            f"{np.count_nonzero(alone):,} points far from all others"
        )
    if found.n_far:
        recorder.warn(
            f"representatives: {found.n_far:,} of {n:,} points are more than {_FAR:g} times as far "
            f"from all as any usual point of the sample: a cluster of less than {small:,} points "
            "or so may be among them, and is not found; give more representatives, or none"
        )
    elif n > 2 * mass.size:
        recorder.note(
            f"representatives: a cluster of less than {small:,} points or so is found only where "
            "it is far from all others"
        )
    else:
        recorder.note(
            f"representatives: {mass.size:,} for {n:,} points: a graph of all points takes little "
            "more; leave them out"
        )
    info: dict[str, Any] = {"kind": "representatives", "representatives": int(mass.size)}
    info |= {"nearest": r, "metric": metric} | ({"far": far} if np.isfinite(far) else {})
    own = shares.finder.centres
    if nearest == 1:
        graph = knn_graph(own, random_state=random_state, observer=recorder).weighing(mass)
        return replace(graph, info={**graph.info, **info}, rows=nodes, shares=shares)
    graph = Graph(W, info, mass, nodes, shares)
    if graph.n_components > 1:
        pairs, _ = bridging_edges(own, graph.components, rng)
        both = np.concatenate([pairs, pairs[:, ::-1]]).T
        least = np.full(both.shape[1], float(W.data.min()))
        W = symmetric(sp.csr_matrix(W + sp.csr_matrix((least, tuple(both)), shape=W.shape)))
        recorder.note(
            f"representatives: {graph.n_components} components joined by {len(pairs)} shortest "
            "bridging edges"
        )
        graph = replace(graph, affinity=W, info={**info, "n_bridges": len(pairs)})
    return graph


@dataclass(frozen=True, eq=False)
class Pass:
    """What a pass over all rows found: shares, nearest nodes (n,), W = ZᵀZ (p, p), masses (p,).

    And how many rows are far from all centres, and some of these (f, d).
    """

    shares: Shares
    nodes: NDArray[Any]
    affinity: sp.csr_matrix
    mass: NDArray[np.float64]
    n_far: int
    far_rows: NDArray[np.float32]


def kept_apart(
    found: Pass, far: float, nearest: int, seen: NDArray[np.float64] | None = None
) -> Representatives | None:
    """The centres with those of groups of rows that are farther than `far` from all others.

    Such a group has 16 rows at least, and may have had too few centres: its rows are mixtures of
    its own centres alone, by limits of s_i². `seen` (p,) are masses of earlier rows. None where
    nothing is to be changed.
    """
    finder = found.shares.finder
    if nearest == 1 or not np.isfinite(far):
        return None
    more, sizes = _far_groups(found.far_rows, far)
    centres = np.concatenate([finder.centres, more])
    p = len(centres)
    own = np.bincount(found.nodes, minlength=p - len(more)) + (0.0 if seen is None else seen)
    count = np.append(own, sizes)
    near, lengths = nearest_centres(centres, centres, min(nearest, p))
    i, c = np.nonzero(lengths <= far)
    links = sp.csr_matrix((np.ones(i.size), (i, near[i, c])), shape=(p, p))
    number, part = connected_components(links, directed=False)
    few = np.bincount(part, minlength=number) < nearest
    alone = (few & (np.bincount(part, count, number) >= _GROUP))[part] & (number > 1)
    before = np.zeros(p, dtype=bool)
    if finder.limits is not None:
        before[: p - len(more)] = np.isfinite(finder.limits)
    if not len(more) and not (alone & ~before).any():
        return None
    limits = np.where(alone | before, (far / _FAR) ** 2, np.inf) if (alone | before).any() else None
    grown: Representatives = replace(finder, centres=centres, limits=limits)
    return replace(grown, nearest=min(nearest, p))


def _far_groups(X: NDArray[np.float32], far: float) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Means (g, d) and sizes of groups of rows within `far`/2 of their first; the large ones."""
    means, sizes = np.empty((0, X.shape[1]), dtype=np.float32), np.empty(0, dtype=np.int64)
    left = X
    while len(left) >= _GROUP:
        gap = left - left[0]
        own = np.einsum("ij,ij->i", gap, gap) <= (far / 2) ** 2
        if np.count_nonzero(own) >= _GROUP:
            means = np.concatenate([means, left[own].mean(axis=0, keepdims=True)])
            sizes = np.append(sizes, np.count_nonzero(own))
        left = left[~own]
    return means, sizes


def shares_of(
    rows: Prepared,
    finder: Representatives,
    source: Any,
    advance: Any,
    far: float,
    *,
    held: bool,
    whole: bool = False,
) -> Pass:
    """Shares of all rows, their nodes, affinity and masses: one pass.

    Centres that are among the nearest of no row are left out, unless the `whole` graph is wanted.
    """
    (n, _), (p, _), r = rows.shape, finder.centres.shape, finder.nearest
    narrow: Any = np.uint16 if p < 1 << 16 and not held else np.int32
    near = np.empty((n, r), dtype=np.int32) if held else None
    shares = np.empty((n, r), dtype=np.float32) if held else None
    nodes = np.empty(n, dtype=narrow)
    best, first = np.zeros(p, dtype=np.float32), np.full(p, -1, dtype=np.int64)
    W, mass, n_far = sp.csr_matrix((p, p)), np.zeros(p), 0
    some: list[NDArray[np.float32]] = []
    task = partial(_shares_of_part, replace(rows, source=None), finder, far, held)
    parts = (slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK))
    for part, one in each_part(rows.source, task, parts):
        some.append(one.far_rows[: max(0, _LOOKED - n_far)])
        n_far += one.n_far
        W, mass = sp.csr_matrix(W + one.affinity), mass + one.mass
        nodes[part] = one.nodes
        more = one.best > best
        best[more], first[more] = one.best[more], part.start + one.first[more]
        if near is not None and shares is not None:
            near[part], shares[part] = one.found
        advance(part.stop / n)
    used = mass > 0
    if not (whole or used.all()):
        number = np.cumsum(used) - 1
        W, mass, first = W[used][:, used], mass[used], first[used]
        nodes = number[nodes].astype(narrow)
        limits = None if finder.limits is None else finder.limits[used]
        finder = replace(finder, centres=finder.centres[used], limits=limits)
        near = None if near is None else number[near].astype(np.int32)
    made = Shares(n, first, finder, near, shares, None if held else source)
    return Pass(made, nodes, symmetric(W), mass, n_far, np.concatenate(some))


@dataclass(frozen=True, eq=False)
class _Part:
    """What a pass finds of some rows (m,); of each node the largest share, and its first row."""

    nodes: NDArray[np.int32]
    affinity: sp.csr_matrix
    mass: NDArray[np.float64]
    best: NDArray[np.float32]
    first: NDArray[np.int64]
    n_far: int
    far_rows: NDArray[np.float32]
    found: Near | None


def _shares_of_part(
    rows: Prepared, finder: Representatives, far: float, held: bool, source: Any, part: slice
) -> _Part:
    """Shares of some rows of a source, `found` where they are to be held; see `shares_of`."""
    p = finder.centres.shape[0]
    X = replace(rows, source=source)[part]
    near, shares = found = finder.shares(X)
    gap = X - finder.centres[near[:, 0]]
    beyond = np.flatnonzero(np.einsum("ij,ij->i", gap, gap) > far**2)
    product, count = gram_of(found, p)
    best, first = np.zeros(p, dtype=np.float32), np.full(p, -1, dtype=np.int64)
    np.maximum.at(best, near.ravel(), shares.ravel())
    at, place = np.nonzero((shares >= best[near]) & (best > 0)[near])
    first[near[at[::-1], place[::-1]]] = at[::-1]  # of equals the first row
    looked = X[beyond[:_LOOKED]]
    own = near[:, 0].astype(np.int32)
    return _Part(own, product, count, best, first, beyond.size, looked, found if held else None)


def joined_rows(graph: Graph, new: NDArray[np.floating]) -> Graph:
    """The graph of representatives with more rows (m, d) at its end, which move no representative.

    W gets Z_newᵀZ_new, the masses what the new rows count. Cost O(m p d).
    """
    own = graph.shares
    assert own is not None
    assert graph.weights is not None
    assert graph.rows is not None
    if own.near is None or own.shares is None:
        raise InputError("add: the rows of this fit stay in their file; fit all of them again")
    near, shares = own.finder.of_rows(new, slice(0, len(new)))
    W, mass = gram_of((near, shares), graph.n_nodes, None)
    n = own.n_rows + len(new)
    counted = None if own.counted is None else np.append(own.counted, np.ones(len(new), bool))
    more = replace(
        own,
        n_rows=n,
        near=np.concatenate([own.near, near]),
        shares=np.concatenate([own.shares, shares]),
        counted=counted,
    )
    if graph.is_mixed:
        W = symmetric(sp.csr_matrix(graph.affinity + W))
    else:
        W = fold(graph.affinity, (graph.weights + mass) / graph.weights)
    return replace(
        graph,
        affinity=W,
        info={**graph.info, "added": int(graph.info.get("added", 0)) + len(new)},
        weights=graph.weights + mass,
        rows=np.concatenate([graph.rows, near[:, 0]]),
        shares=more,
    )


@dataclass(frozen=True, eq=False)
class NewShares:
    """New points (q, d) by their shares of representatives, as `NewPoints` of other graphs."""

    new: NDArray[np.floating]
    own: Shares

    def mean(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        """Zv (q, K) of values (n, K) of all rows, of which a representative has its row's."""
        found = np.empty((self.new.shape[0], values.shape[1]))
        for part, block in self.means(values):
            found[part] = block
        return found

    def means(self, values: NDArray[np.floating]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """The rows of `mean` by blocks: which, and their values (b, K)."""
        of_nodes = np.asarray(values[self.own.first], dtype=np.float64)
        for part, near in self._blocks():
            yield part, mixed(near, of_nodes)

    def vote(self, labels: NDArray[np.integer]) -> NDArray[np.int64]:
        """The label (q,) with the largest share, of labels (n,) of all rows."""
        of_nodes = self.own.votes_of_nodes(np.asarray(labels))
        found = np.empty(self.new.shape[0], dtype=np.int64)
        for part, near in self._blocks():
            found[part] = voted(near, of_nodes)
        return found

    def _blocks(self) -> Iterator[tuple[slice, Near]]:
        for start in range(0, self.new.shape[0], BLOCK):
            part = slice(start, min(start + BLOCK, self.new.shape[0]))
            yield part, self.own.finder.of_rows(self.new, part)
