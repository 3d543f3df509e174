"""What pair propagation asks of a graph whose rows are not all in one memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.operators.edges import Edges
from mustlink.operators.grounded_laplacian import GroundedLaplacian
from mustlink.space import Block

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Region:
    """Some nodes (u,), rising, and L̄ between them: sources that stay there know no other."""

    nodes: Ints
    laplacian: GroundedLaplacian

    @classmethod
    def of(cls, nodes: Ints, rows: sp.csr_matrix, root: Floats) -> Region:
        """From the weights (u, u) between the nodes, used up, and D^½ of the whole graph there."""
        rows.sum_duplicates()
        scale = 1.0 / root
        rows.data *= np.repeat(scale, np.diff(rows.indptr))
        rows.data *= scale[rows.indices]
        return cls(nodes, GroundedLaplacian(rows, root))


@dataclass(frozen=True)
class Told:
    """Largest |F| of all edges, how many have F > floor, F < −floor, and how many there are."""

    largest: float
    up: int
    down: int
    every: int


class SpreadRows(Protocol):
    """Rows of W on disk or on ranks, as `lyapunov.pairs_by_regions` sees them.

    Parts of the constraints are spread each in its region, by one process each; several processes
    go through the same rounds at the same time.
    """

    @property
    def laplacian(self) -> Any:
        """L̄ of all nodes."""
        ...

    @property
    def n_entries(self) -> int:
        """Stored weights of W, of all processes."""
        ...

    @property
    def room(self) -> int | None:
        """Bytes for a region and what is found there; None for no limit."""
        ...

    @property
    def at_once(self) -> int:
        """How many regions are looked for together."""
        ...

    def rounds(self, reached: Block) -> Iterator[tuple[int, Region | None]]:
        """The column of `reached` (m, p) and its region that this process works on, by rounds."""
        ...

    def deliver(self, region: Region | None, F: Floats | None) -> None:
        """F on the entries of a region, added to what is known of the edges; once a round."""
        ...

    def kept(self, field: Any, pattern: Edges) -> Callable[[], tuple[Any, Edges]]:
        """A field and the edges of its region out of the way, until they are asked for again."""
        ...

    def added(self, values: NDArray[Any]) -> NDArray[Any]:
        """Σ over processes, entry by entry."""
        ...

    def joined(self, found: NDArray[Any]) -> NDArray[Any]:
        """What all processes found, one after the other."""
        ...

    def told(self, floor: float) -> Told:
        """What all edges come to, after the last round."""
        ...
