"""What a fit asks of a graph whose rows are not all in the memory of one process."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from mustlink.eigen.nested_iteration import Grids
from mustlink.graph.even_degrees import GraphLook
from mustlink.observe import Recorder
from mustlink.operators.protocol import Laplacian, Preconditioner
from mustlink.result import EigenResult
from mustlink.space import Block, Small, Space, Vector
from mustlink.space.verbs import Ints


class Work(Protocol):
    """A graph with its rows on disk or on ranks, and one fit's view of it: each thing made once.

    Blocks are in working order, which is the home's own: on disk that of the graph, isolated nodes
    being rows of zeros, on ranks one of the nodes with an edge alone. Methods that are written by
    this and by the verbs of its space run on both.
    """

    @property
    def recorder(self) -> Recorder:
        """Who hears of stages, and keeps the budget."""
        ...

    @property
    def n_nodes(self) -> int:
        """Nodes of the graph."""
        ...

    @property
    def isolated(self) -> int:
        """Those of them that have no edge."""
        ...

    @property
    def n_entries(self) -> int:
        """Stored weights, two an edge."""
        ...

    @property
    def space(self) -> Space:
        """Where blocks live; its weights are 0 for isolated nodes that have rows."""
        ...

    @property
    def laplacian(self) -> Laplacian:
        """L̄."""
        ...

    @property
    def grids(self) -> Grids | None:
        """Multigrid of L̄, None where grids would hardly be smaller; InputError where it must be."""
        ...

    def grounded(self, ground: Vector, kept: Vector) -> Laplacian:
        """I − T^-½WT^-½, T = D + diag(ground), on nodes `kept`, see `operators.grounding`."""
        ...

    def with_cycle(self, laplacian: Any) -> tuple[Laplacian, Preconditioner | None]:
        """L̄, or a grounded one, as it is to be applied, and a multigrid cycle if grids pay."""
        ...

    def enter(self, values: NDArray[Any]) -> Vector:
        """Values (n, …) of the graph's nodes that everyone has, in working order."""
        ...

    def smallest_pairs(
        self,
        k: int,
        *,
        tol: float | None = None,
        max_iter: int = 200,
        seed: int = 0,
        tau: float = 0.0,
    ) -> EigenResult:
        """The k smallest pairs of L̄_τ beyond its null space; raises InputError."""
        ...

    @property
    def look(self) -> GraphLook:
        """What decides whether anything is added to the degrees."""
        ...

    def regularized(self, tau: float) -> Laplacian:
        """L̄_τ: τ times the mean degree is added to every degree."""
        ...

    def cluster_sums(self, clusters: Vector, k: int) -> tuple[Small, Small, Small]:
        """Weights between clusters, entries that have them, (k, k), and nodes in each, (k,)."""
        ...

    def positions(self, nodes: Ints) -> Ints:
        """Working numbers of nodes of the graph, -1 for those that have none."""
        ...

    def places(self, nodes: Ints) -> Ints:
        """Working numbers of rows of the caller, -1 for those without an edge."""
        ...

    def by_root(self, X: Block) -> Block:
        """D^-½X, 0 for isolated nodes."""
        ...

    def leave(self, X: Block) -> Any:
        """Rows in the caller's order, (n, …), 0 for isolated nodes.

        On disk a block there, on ranks an array on rank 0 and None on the others.
        """
        ...
