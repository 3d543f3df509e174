"""The graph: a symmetric non-negative affinity in CSR form, and what is read off it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from mustlink.core.check import as_affinity, as_csr, numeric_array, positive
from mustlink.errors import InputError
from mustlink.graph.shares import Shares, symmetric

Value = TypeVar("Value")
AnyKey = TypeVar("AnyKey", bound="Key[Any]")
_KERNEL = 0.5  # share of the pairs that are edges in a kernel
_MANY = 1 << 20  # entries from which on a transpose takes longer than the compiler's import
_FAR = 1e30  # largest weights beyond this, or below its inverse, are scaled
_LOST = 2.0**-900  # share of the heaviest edge: 1/d² of such an edge is still finite
_UNLIKE = 1e-12  # weights of rows that differ by more than this share


@dataclass(frozen=True)
class Key(Generic[Value]):
    """What a result depends on beside the graph; a subclass is one kind of result.

    `single` is the precision it is held in, None where there is none. `types` are the dataclasses
    in a value, for a keeper that reads it back.
    """

    single: bool | None
    types: ClassVar[tuple[type, ...]] = ()

    def serves(self, wanted: Self, value: Value) -> bool:
        """Whether a value kept under this key is what a fresh computation of `wanted` would be."""
        return self == wanted

    def identity(self) -> Self:
        """The part of the key that names a kept value; `serves` looks at the rest."""
        return self


class Derived:
    """Results by key, of every kind the latest only: two of a kind would double the memory.

    Only results of one precision are held: those of another are let go when one comes.
    `origin` names the graph where results are kept on disk, None where they are not.
    """

    def __init__(self) -> None:
        self.origin: str | None = None
        self._kept: dict[type[Key[Any]], tuple[Key[Any], Any]] = {}
        self._left_out: dict[type[Key[Any]], tuple[str, ...]] = {}

    def find(self, wanted: Key[Value]) -> Value | None:
        """What was kept, if it is what a fresh computation would give."""
        key, value = self._kept.get(type(wanted), (None, None))
        if key is None or not key.serves(wanted, value):
            return None
        found: Value | None = value
        return found

    def left_out(self, kind: type[Key[Any]]) -> tuple[str, ...]:
        """What a time limit left out of the value of a kind."""
        return self._left_out.get(kind, ())

    def put(self, key: Key[Value], value: Value, left_out: Sequence[str] = ()) -> None:
        """Keep a value in place of the one of its kind, and what a time limit left out of it."""
        if key.single is not None:
            others = [k for k, _ in self._kept.values() if k.single not in (None, key.single)]
            for other in others:
                self.drop(type(other))
        self._kept[type(key)], self._left_out[type(key)] = (key, value), tuple(left_out)

    def drop(self, kind: type[Key[Any]]) -> None:
        """Let the value of one kind go, before another is computed."""
        self._kept.pop(kind, None)

    def of(self, kind: type[AnyKey]) -> Iterator[tuple[AnyKey, Any]]:
        """The key and value of a kind, if one is kept."""
        for key, value in self._kept.values():
            if isinstance(key, kind):
                yield key, value


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected weighted graph of n nodes, numbered from 0.

    `affinity` is W, (n, n) CSR, symmetric, W_ij >= 0. `info` tells how it was made (neighbours,
    recall, bridging edges …). A graph never changes; `derived` keeps what was computed from it
    alone (its order, multigrid grids, smoothest eigenvectors), so that a second fit on the same
    graph need not repeat it.

    `weights` (n,) tell how many a node stands for, None: 1 each. `affinity` then is W folded, W_ij
    the sum of the weights between all copies of i and all copies of j: degrees, volume and cuts
    are those of the graph in which every copy is a node. `rows` (rows of the caller,) are the
    nodes that its rows are, where equal rows are one node; None: row i is node i.
    Where nodes are representatives, `shares` has the mixture of nodes that a row is, and `rows` the
    node with the largest share in it.
    """

    affinity: sp.csr_matrix
    info: Mapping[str, Any] = field(default_factory=dict)
    weights: NDArray[np.float64] | None = None
    rows: NDArray[np.integer[Any]] | None = None
    shares: Shares | None = None

    @classmethod
    def from_affinity(cls, affinity: Any, info: Mapping[str, Any] | None = None) -> Graph:
        """Check a square symmetric non-negative matrix and wrap it; raises InputError.

        Weights far from 1 are scaled and those lost beside the heaviest left out, see
        `within_range`; `info` tells.
        """
        W, changes = within_range(as_affinity(affinity, surely_symmetric=_surely_symmetric))
        return cls(W, {**(info or {"kind": "precomputed"}), **changes})

    @property
    def is_network(self) -> bool:
        """Whether the edges are input, and not made of points."""
        return is_network(self.info, self.n_nodes, self.affinity.nnz)

    @property
    def n_nodes(self) -> int:
        """Number of nodes n."""
        return int(self.affinity.shape[0])

    @property
    def n_rows(self) -> int:
        """Number of rows of the caller: of nodes, unless equal rows are one node."""
        return self.n_nodes if self.rows is None else int(self.rows.size)

    @property
    def count(self) -> float:
        """Number of nodes, each counted as often as its weight says."""
        return float(self.n_nodes if self.weights is None else self.weights.sum())

    @cached_property
    def degree_range(self) -> tuple[float, float]:
        """The least degree > 0 of one copy of a node, and the largest; 1 and 1 without edges."""
        own, linked = self.degrees, self.degrees > 0
        if not linked.any():
            return 1.0, 1.0
        own = own[linked] if self.weights is None else own[linked] / self.weights[linked]
        return float(own.min()), float(own.max())

    @cached_property
    def first_rows(self) -> NDArray[np.int64]:
        """First row of the caller that is this node, or has the largest share of it, (n,)."""
        if self.shares is not None:
            return self.shares.first
        if self.rows is None:
            return np.arange(self.n_nodes)
        found = np.empty(self.n_nodes, dtype=np.int64)
        found[self.rows[::-1]] = np.arange(self.rows.size)[::-1]  # the last written is the first
        return found

    def spread(self, X: NDArray[Any]) -> Any:
        """Values of nodes (n, …) for every row of the caller; see `Shares.mean`."""
        if self.shares is not None:
            return self.shares.mean(X)
        return X if self.rows is None else X[self.rows]

    def row_weights(self) -> NDArray[np.float64] | None:
        """What every row of the caller counts: its share of its node's weight; None: 1 each."""
        if self.shares is not None:
            return None
        if self.weights is None or self.rows is None:
            return self.weights
        return (self.weights / np.bincount(self.rows, minlength=self.n_nodes))[self.rows]

    @property
    def is_mixed(self) -> bool:
        """Whether rows are mixtures of nodes, W = ZᵀZ; else each is a node or has a nearest one."""
        return int(self.info.get("nearest", 1)) > 1

    def weighing(self, of_rows: NDArray[np.float64]) -> Graph:
        """The graph in which the rows of the caller count so much, (rows,), instead."""
        new = of_rows
        if self.shares is not None and self.is_mixed:
            W, mass = self.shares.gram(of_rows)
            bridges = self.affinity - self.affinity.multiply(W.astype(bool))
            W, shares = symmetric(sp.csr_matrix(W + bridges)), self.shares.counting(of_rows)
            return replace(self, affinity=W, weights=mass, shares=shares)
        if self.rows is not None:
            new = np.bincount(self.rows, of_rows, self.n_nodes).astype(np.float64)
        now = np.ones(self.n_nodes) if self.weights is None else self.weights
        ratio = np.divide(new, now, out=np.zeros_like(now), where=now > 0)
        W, counted = self.affinity, ratio[ratio > 0]
        if counted.size and counted.min() < _UNLIKE * counted.max():
            W = W.astype(np.float64)  # products of two would be 0 in single precision
        W, changes = within_range(fold(W, ratio))
        found = {key: changes.get(key, 0) + self.info.get(key, 0) for key in changes}
        return replace(self, affinity=W, info={**self.info, **found}, weights=new)

    def beside(self, rows: NDArray[np.int64], n_rows: int) -> Graph:
        """The graph of these rows, ascending, of `n_rows`: the others are one node without edge."""
        W, n = self.affinity, self.n_nodes
        indptr = np.append(W.indptr, W.indptr[-1]).astype(W.indptr.dtype)
        place = np.full(n_rows, n, dtype=np.int64)
        place[rows] = np.arange(n) if self.rows is None else self.rows
        return replace(
            self,
            affinity=sp.csr_matrix((W.data, W.indices, indptr), shape=(n + 1, n + 1)),
            weights=np.append(np.ones(n) if self.weights is None else self.weights, 0.0),
            rows=place,
        )

    @property
    def n_edges(self) -> int:
        """Number of undirected edges, loops counted once."""
        loops = int(np.count_nonzero(self.affinity.diagonal()))
        return (int(self.affinity.nnz) - loops) // 2 + loops

    @cached_property
    def degrees(self) -> NDArray[np.float64]:
        """Row sums d = W1, (n,), in double precision whatever W is stored in."""
        W, found = self.affinity, np.zeros(self.n_nodes)
        filled = np.diff(W.indptr) > 0
        # Sums in single precision are off by 1e-7, and D^½1 would be no null vector of L̄.
        found[filled] = np.add.reduceat(W.data, W.indptr[:-1][filled], dtype=np.float64)
        return found

    def cluster_weights(self, clusters: NDArray[np.int64], k: int) -> NDArray[np.float64]:
        """Weights between clusters (n,), -1 for none, and how many entries have them, (2, k, k)."""
        from mustlink.kernels.block_moves import cluster_links

        found = np.zeros((2, k, k))
        cluster_links(self.affinity, clusters, found)
        return found

    @cached_property
    def look(self) -> GraphLook:
        """What decides whether anything is added to the degrees."""
        linked = int(np.count_nonzero(self.degrees))
        # Of the arrays, not of the graph: one that held itself would stay until the garbage
        # collector runs, with all that is derived from it.
        seen = partial(_edges_and_degrees, self.affinity.indptr, self.degrees, self.weights)
        return GraphLook(self.info, linked, self.is_network, seen)

    @cached_property
    def volume(self) -> float:
        """Sum of all degrees."""
        return float(self.degrees.sum())

    @cached_property
    def components(self) -> NDArray[np.int32]:
        """Component of every node, (n,), numbered by falling size."""
        return component_labels(self.affinity)

    @cached_property
    def n_components(self) -> int:
        """Number of connected components; an isolated node is one."""
        return int(self.components.max()) + 1 if self.n_nodes else 0

    @cached_property
    def derived(self) -> Derived:
        """What was computed from this graph, by typed keys; see `context.stage_cache`."""
        return Derived()


def _surely_symmetric(W: sp.csr_matrix) -> bool:
    """Whether W is known to be symmetric; of small matrices nothing is known."""
    if W.nnz < _MANY:
        return False
    from mustlink.kernels.symmetric_lists import is_symmetric

    return is_symmetric(W)


def is_network(info: Mapping[str, Any], n_nodes: int, n_entries: int) -> bool:
    """Whether the edges of a graph are input, and not made of points.

    Where more than half of the pairs are edges they are values of a kernel.
    """
    given = info.get("kind") in ("precomputed", "bipartite")
    return given and n_entries <= _KERNEL * float(n_nodes) ** 2


def within_range(W: sp.csr_matrix) -> tuple[sp.csr_matrix, dict[str, Any]]:
    """W with its heaviest edge near 1 and without lost edges, and what was done.

    Clusters do not depend on the unit of weights, so that all are multiplied by one power of two,
    which rounds nothing, where the heaviest is beyond 10³⁰ or below 10⁻³⁰. Edges below
    2⁻⁹⁰⁰ (10⁻²⁷¹) of the heaviest are left out: products with them are 0 in double precision, as
    are, in single precision, those that the scaling makes 0. W itself is returned where nothing is
    to do. Cost: one pass. Told are `scaled` (the exponent) and `lost_edges`.
    """
    changes: dict[str, Any] = {}
    largest = float(W.data.max(initial=0.0))
    if not 1 / _FAR <= largest <= _FAR:
        exponent = -int(np.floor(np.log2(largest)))
        W = W.copy()
        W.data = np.ldexp(W.data, exponent)
        changes["scaled"], largest = exponent, float(W.data.max())
    is_lost = W.data < _LOST * largest
    if is_lost.any():
        W = W.copy() if "scaled" not in changes else W
        W.data[is_lost] = 0.0
        changes["lost_edges"] = int(np.count_nonzero(is_lost)) // 2
        W.eliminate_zeros()
    return W, changes


def range_notes(info: Mapping[str, Any]) -> list[str]:
    """What a person should know of it, one line each."""
    notes = []
    if "scaled" in info:
        notes.append(
            f"graph: weights multiplied by 2^{info['scaled']}, as the largest is far from 1; "
            "clusters do not depend on it"
        )
    if "lost_edges" in info:
        notes.append(
            f"graph: {info['lost_edges']} edges below 1e-271 of the heaviest are 0 in double "
            "precision and left out"
        )
    return notes


def joined_nodes(graph: Graph, rows: Any) -> Graph:
    """The graph of n nodes with m more, of which `rows` (m, n + m) are the edges; InputError.

    Columns from n on are the new nodes, whose edges stand at both ends. Weights are in the
    units of the graph as it was fitted. Cost: one pass over the edges.
    """
    kind = graph.info.get("kind")
    if kind != "precomputed" or graph.rows is not None:
        raise InputError(f"add: nodes cannot be joined to a graph of kind {kind!r}; fit again")
    n = graph.n_nodes
    B = positive(as_csr(rows, "add"), "add")
    m = B.shape[0]
    if m == 0 or B.shape[1] != n + m:
        raise InputError(
            f"add: shape {B.shape} for {m} new nodes beside {n}; give a row of edges for each new "
            f"node, ({m}, {n + m}), the new nodes last"
        )
    if np.diff(B.indptr).min(initial=1) == 0:
        empty = int(np.argmin(np.diff(B.indptr)))
        raise InputError(f"add: new node {empty} has no edge; leave it out")
    if "scaled" in graph.info:  # as `within_range` did with the others
        B = B.copy()
        B.data = np.ldexp(B.data, graph.info["scaled"])
    C = B[:, n:]
    if C.nnz:
        C = as_affinity(C, "add: edges between new nodes")
    B = B[:, :n].astype(graph.affinity.dtype)
    W: Any = sp.bmat([[graph.affinity, B.T], [B, C.astype(B.dtype)]], format="csr")
    W.sort_indices()
    weights = None
    if graph.weights is not None:
        weights = np.append(graph.weights, np.ones(m))
        ends = np.append(np.ones(n), np.zeros(m))  # edges among old nodes are folded already
        outer: Any = sp.csr_matrix(W - sp.diags_array(ends) @ W @ sp.diags_array(ends))
        W = sp.csr_matrix(W - outer + fold(outer, weights))
    added = int(graph.info.get("added", 0)) + m
    return Graph(sp.csr_matrix(W), {**graph.info, "added": added}, weights)


def _edges_and_degrees(
    indptr: NDArray[Any], degrees: NDArray[np.float64], weights: NDArray[np.float64] | None
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Edges and degrees of linked nodes, (m,) each, of one of the rows that a node counts."""
    linked = degrees > 0
    often = np.ones(degrees.size) if weights is None else weights
    return np.diff(indptr)[linked], degrees[linked] / often[linked]


# --- What is read off an affinity alone: components, a node order, even degrees; nodes folded
#
# A node that stands for several: let P (n, m) say which node every one of n copies is, and C = PᵀP
# count them. The repeated graph PWPᵀ, restricted to vectors Pg that are equal on copies of one
# node, is the graph
#
#     W' = CWC,   w'_ij the sum of the weights between all copies of i and all copies of j.
#
# Its degrees, volume, cuts and normalised cut are those of the repeated graph; with v = PC^-½u the
# form vᵀL̄v is uᵀL̄'u, and the rows D^-½V are D'^-½U. Counts need not be whole numbers.

Floats = NDArray[np.float64]
_FEW_ENTRIES = 1 << 18  # entries up to which scipy, a fifteenth as fast, need not load a compiler


def component_labels(affinity: sp.csr_matrix) -> NDArray[np.int32]:
    """Component of every node, (n,) int32: 0 is the largest, ties go by the smallest node.

    An isolated node is a component of its own. Cost O(n + nnz), for a few large components O(n).
    """
    if affinity.nnz < _FEW_ENTRIES:
        # On a symmetric matrix strong components are the components, found without a transpose.
        # Its entries are not looked at: a single 1 stands for all, or scipy would copy float32.
        ones = np.broadcast_to(np.float64(1.0), affinity.indices.shape)
        pattern = sp.csr_matrix((ones, affinity.indices, affinity.indptr), shape=affinity.shape)
        _, raw = connected_components(pattern, directed=True, connection="strong")
        return renumber_by_size(raw)
    from mustlink.kernels.graph_walk import smallest_members

    return renumber_by_size(smallest_members(affinity.indptr, affinity.indices))


def renumber_by_size(labels: NDArray[np.integer]) -> NDArray[np.int32]:
    """Labels from 0 renumbered by falling size, ties by first occurrence."""
    sizes, n = np.bincount(labels), labels.size
    first = np.empty(sizes.size, dtype=np.int64)
    first[labels[::-1]] = np.arange(n - 1, -1, -1)  # of several nodes the last written stays
    found = np.flatnonzero(sizes)
    rank = np.empty(sizes.size, dtype=np.int32)
    rank[found[np.lexsort((first[found], -sizes[found]))]] = np.arange(found.size, dtype=np.int32)
    return rank[labels]


_FEW_ORDERED = 1 << 22  # entries up to which scipy is done before a kernel is loaded


def cuthill_mckee(affinity: sp.csr_matrix) -> NDArray[np.int64]:
    """Return the reverse Cuthill-McKee order, (n,): node `order[i]` comes i-th.

    `W[order][:, order]` has its entries near the diagonal, which makes block products 3 to 4
    times faster. Cost O(nnz), about 0.4 s for 25 M entries.
    """
    if affinity.nnz < _FEW_ORDERED:
        order = reverse_cuthill_mckee(affinity, symmetric_mode=True)
    else:
        from mustlink.kernels.graph_walk import level_order

        order = level_order(affinity.indptr, affinity.indices)[::-1]
    return np.ascontiguousarray(order, dtype=np.int64)


# --- Whether all nodes have about as many edges, as where every node chose as many neighbours


SEEN = 1 << 20  # rows, at least, that tell of a graph that is not in memory
_EVEN = 0.6  # of the median number of edges
_EVEN_WEIGHT = 0.1  # of the median degree: neighbours in a Gaussian without a floor weigh 1e-60


EVEN = "no node has far fewer edges than most, or edges of far less weight"
_OF_POINTS = ("knn", "kneighbors", "rbf", "representatives", "image", "adjusted")
_FEWEST = 200  # nodes: below (karate, polbooks, football) the cut as it is was as good


@dataclass(frozen=True, eq=False)
class GraphLook:
    """What of a graph decides whether anything is added to its degrees, wherever it is.

    How it was made, the nodes with an edge, whether edges were given (`graph.is_network`), and
    `seen()`, numbers of edges and degrees of all of these, or of as many as suffice.
    """

    info: Mapping[str, Any]
    n_linked: int
    is_network: bool
    seen: Callable[[], tuple[NDArray[Any], NDArray[np.float64]]]

    @cached_property
    def even(self) -> tuple[bool, bool]:
        """Whether nodes have about as many edges, and whether about the same degree."""
        edges, degrees = self.seen()
        return has_even_degrees(edges), has_even_weights(degrees)

    @property
    def plain_of_points(self) -> str:
        """Why nothing is added where a graph was made from points, else empty."""
        return "a graph made from points" if self.info.get("kind") in _OF_POINTS else ""

    @property
    def plain_if_small(self) -> str:
        """Why nothing is added to a small graph, else empty."""
        return f"less than {_FEWEST} nodes" if self.n_linked < _FEWEST else ""

    @property
    def plain(self) -> str:
        """Why nothing but 0 is tried, before any eigenvector; empty for networks."""
        return self.plain_of_points or self.plain_if_small or (EVEN if all(self.even) else "")


def has_even_degrees(edges: NDArray[Any]) -> bool:
    """Whether all but 1 % have 0.6 of the median or more; numbers of edges, (nodes with any,)."""
    return bool(np.quantile(edges, 0.01) >= _EVEN * np.median(edges))


def has_even_weights(degrees: NDArray[np.float64]) -> bool:
    """Whether all but 1 % have a tenth of the median or more; degrees, (nodes with an edge,)."""
    return bool(np.quantile(degrees, 0.01) >= _EVEN_WEIGHT * np.median(degrees))


# --- Nodes that stand for several


_BEYOND = 2.0**20


def fold(affinity: sp.csr_matrix, by: Floats) -> sp.csr_matrix:
    """CWC with C = diag(by), in W's precision; nodes that count nothing lose their edges.

    A matrix of its own: `affinity` is not changed. Cost O(nnz).
    """
    from mustlink.kernels.spmm import scaled

    W = affinity
    found = sp.csr_matrix((scaled(W, by), W.indices, W.indptr), shape=W.shape)
    if not by.all():
        found = found.copy()  # the pattern is W's
        found.eliminate_zeros()
    return found


def as_sample_weight(sample_weight: Any, n: int) -> Floats | None:
    """Weights (n,) of rows, finite and >= 0; None where they are all 1. Raises InputError.

    Clusters do not depend on their unit: where the largest is beyond 2²⁰ or below 2⁻²⁰ all are
    multiplied by a power of two, so that no product of two leaves the range of a graph's weights.
    """
    if sample_weight is None:
        return None
    where = "sample_weight"
    found = np.asarray(numeric_array(sample_weight, where), dtype=np.float64)
    if found.ndim == 0:
        found = np.full(n, float(found))
    if found.shape != (n,):
        raise InputError(f"{where}: shape {found.shape} for {n} rows; give one weight per row")
    bad = np.flatnonzero(~np.isfinite(found) | (found < 0))
    if bad.size:
        row = int(bad[0])
        raise InputError(
            f"{where}: row {row} has weight {found[row]:g}; weights are finite and not negative"
        )
    if not found.any():
        raise InputError(f"{where}: all {n} weights are zero; nothing to cluster")
    largest = float(found.max())
    if not 1 / _BEYOND <= largest <= _BEYOND:
        scaled = np.ldexp(found, -int(np.floor(np.log2(largest))))
        # One that becomes 0 would be no node; so its edges are lost, with a note.
        found = np.where(found > 0, np.maximum(scaled, np.finfo(np.float64).tiny), 0.0)
    return None if (found == 1.0).all() else found
