"""The graph: a symmetric non-negative affinity in CSR form, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core.check import as_affinity, as_csr, positive
from mustlink.errors import InputError
from mustlink.graph.shares import Shares, symmetric
from mustlink.graph.structure import GraphLook, component_labels, fold

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

    def serves(self, asked: Self, value: Value) -> bool:
        """Whether a value kept under this key is what a fresh computation of `asked` would be."""
        return self == asked

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

    def find(self, asked: Key[Value]) -> Value | None:
        """What was kept, if it is what a fresh computation would give."""
        key, value = self._kept.get(type(asked), (None, None))
        if key is None or not key.serves(asked, value):
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
