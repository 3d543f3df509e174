"""Step 4 of FLI11 Algorithm 1: W*, the graph adjusted by what constraints say of its edges.

Eq. 9 is a map of rows of W, wherever they are: all of them in memory, blocks of them on disk, own
ones on ranks (`Work.map_rows`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core.observe import Recorder
from mustlink.eigen.work import Work
from mustlink.graph.structure import fold
from mustlink.kernels.diffused_columns import adjust
from mustlink.lyapunov.fields import NewEdges
from mustlink.lyapunov.regions import MemoryRows

ROUNDING = 1e-6  # weights in single precision may exceed 1 by as much
KEPT = 1e-6  # of the weights of W where W* has too few edges


@dataclass(frozen=True, eq=False)
class Adjustment:
    """F where W* needs it: on the edges of W, or of some of its rows, (nnz,), and on new ones."""

    beliefs: NDArray[np.float64]
    new: NewEdges

    def shaped(self, largest: float, power: float, floor: float) -> Adjustment:
        """F with every magnitude |F| replaced by (|F|/largest)^power, at most 1.

        Powers below 1 raise what is far from the given pairs towards what is near; magnitudes up
        to `floor` are then taken for zero, or errors of the propagation would be raised as well.
        """
        new = replace(self.new, beliefs=_shaped(self.new.beliefs, largest, power, 0.0))
        return Adjustment(_shaped(self.beliefs, largest, power, floor if power < 1.0 else 0.0), new)

    def apply(self, W: sp.csr_matrix, first: int = 0) -> sp.csr_matrix:
        """W* for rows W (r, m) in [0, 1] from `first` on (FLI11 eq. 9); zeros are not stored."""
        moved = sp.csr_matrix((adjust(W.data, self.beliefs), W.indices, W.indptr), shape=W.shape)
        if self.new.count:
            added = self.new.rows(first, W.shape)
            added.data = adjust(np.zeros(added.nnz), added.data)
            moved = sp.csr_matrix(moved + added)
        if (moved.data == 0.0).any():
            moved = moved.copy()  # the pattern may still be that of W
            moved.eliminate_zeros()
        return moved


def _shaped(
    F: NDArray[np.float64], largest: float, power: float, floor: float
) -> NDArray[np.float64]:
    found = np.zeros_like(F)
    there = np.flatnonzero(np.abs(F) > floor)  # most edges are far from every pair
    size = np.minimum(np.abs(F[there]) / largest, 1.0)
    found[there] = np.copysign(size if power == 1.0 else size**power, F[there])
    return found


@dataclass(frozen=True, eq=False)
class Moves:
    """How F moves weights: as it is, or |F| as (|F|/largest)^power, up to `floor` as zero.

    F on edges is with `rows`. `scale` is what weights are divided by first: the largest of them,
    if above 1; see `of`.
    """

    rows: MemoryRows
    new: NewEdges
    scale: float = 1.0
    shape: tuple[float, float, float] | None = None  # largest, power, floor

    @classmethod
    def of(cls, rows: MemoryRows, new: NewEdges, recorder: Recorder) -> Moves:
        """F as it is. Tells where weights are divided."""
        heaviest = rows.heaviest()
        if heaviest <= 1.0 + ROUNDING:
            return cls(rows, new)
        recorder.note(f"the graph's weights were divided by {heaviest:.4g}, the largest of them")
        return cls(rows, new, heaviest)

    def change(self, beliefs: NDArray[np.float64]) -> Adjustment:
        """F on some edges, and on new ones, as it moves the weights."""
        found = Adjustment(beliefs, self.new)
        return found if self.shape is None else found.shaped(*self.shape)

    def moved(self, W: sp.csr_matrix, first: int, *, kept: bool = False) -> sp.csr_matrix:
        """Rows of W* from those of W from `first` on, used up; with `kept` W adds a millionth."""
        if self.scale != 1.0:
            W.data /= self.scale
        np.minimum(W.data, 1.0, out=W.data)
        found = self.change(self.rows.of_block(first, W)).apply(W, first)
        return sp.csr_matrix(found + KEPT * W) if kept else found


def adjusted_graph(work: Work, moves: Moves, least: int, depends: Any = None) -> Any:
    """The home of W*, of which `depends` tells what it follows from.

    Nodes may lose every edge; where fewer than `least` keep one, all keep a millionth of W.
    Where nodes stand for several, weights between copies are moved, and summed again.
    """
    for kept in (False, True):
        filled = np.zeros(1, dtype=np.int64)

        def rows(W: sp.csr_matrix, first: int, kept: bool = kept) -> sp.csr_matrix:
            moved = moves.moved(W, first, kept=kept)
            filled[0] += np.count_nonzero(np.diff(moved.indptr))  # noqa: B023
            return moved

        with work.recorder.stage("adjusted graph"):
            made = work.map_rows(rows, depends)
            enough = moves.rows.added(filled)[0] >= least
        if enough:
            break
    return made


def adjusted_affinity(work: Any, change: Adjustment, least: int) -> sp.csr_matrix:
    """W* (n, n) CSR in the graph's order; between copies, where nodes stand for several."""
    laplacian = work.laplacian
    rows = MemoryRows(laplacian, None, laplacian.weights)
    rows.beliefs = change.beliefs
    W = adjusted_graph(work, Moves.of(rows, change.new, work.recorder), least).graph.affinity
    if laplacian.weights is not None:
        W = fold(W, 1.0 / laplacian.weights)
    n, m = laplacian.n_nodes, laplacian.size
    place = sp.csr_matrix((np.ones(m), (laplacian.nodes, np.arange(m))), shape=(n, m))
    return sp.csr_matrix(place @ W @ place.T)
