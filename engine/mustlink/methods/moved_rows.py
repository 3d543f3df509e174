"""Some rows of W*: what `adjusted_graph` makes at home, of a graph whose rows are not all there."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.similarity_adjustment import adjust
from mustlink.lyapunov.fields import NewEdges, none
from mustlink.methods.adjusted_graph import KEPT, ROUNDING, Adjustment
from mustlink.observe import Recorder


@dataclass(frozen=True, eq=False)
class Moves:
    """How F moves weights: as it is, or |F| as (|F|/largest)^power, up to `floor` as zero.

    `scale` is what weights are divided by first: the largest of them, if above 1.
    """

    scale: float
    largest: float
    floor: float
    power: float
    normalize: bool

    @classmethod
    def of(
        cls, heaviest: float, largest: float, floor: float, normalize: bool, recorder: Recorder
    ) -> Moves:
        """With power 1; `heaviest` is the largest weight. Tells where weights are divided."""
        scale = 1.0
        if heaviest > 1.0 + ROUNDING:
            scale = heaviest
            recorder.note(
                f"the graph's weights were divided by {heaviest:.4g}, the largest of them"
            )
        return cls(scale, largest, floor, 1.0, normalize and largest > 0)

    def shaped(self, beliefs: sp.csr_matrix) -> sp.csr_matrix:
        """F as it moves the weights."""
        if not self.normalize:
            return beliefs
        change = Adjustment(beliefs.data, none()).shaped(self.largest, self.power, self.floor)
        return sp.csr_matrix((change.beliefs, beliefs.indices, beliefs.indptr), beliefs.shape)

    def new(self, new: NewEdges) -> NewEdges:
        """New edges with their weights for F."""
        if self.normalize:
            new = Adjustment(np.empty(0), new).shaped(self.largest, self.power, self.floor).new
        return replace(new, beliefs=adjust(np.zeros(new.count), new.beliefs))

    def rows(
        self, W: sp.csr_matrix, F: sp.csr_matrix, added: sp.csr_matrix, kept: bool = False
    ) -> sp.csr_matrix:
        """Rows of W* (FLI11 eq. 9) from those of W, F on their entries and new ones, (r, n) each.

        Where F is not 0 W has an entry. Zeros are not stored; with `kept`, a millionth of W is
        left. W is not changed.
        """
        W = sp.csr_matrix((W.data.astype(np.float64), W.indices, W.indptr), shape=W.shape)
        W.sum_duplicates()
        W.data /= self.scale
        np.minimum(W.data, 1.0, out=W.data)
        beliefs = np.zeros(W.nnz)
        if F.nnz:
            beliefs[_places(W, F)] = self.shaped(F).data
        moved = sp.csr_matrix((adjust(W.data, beliefs), W.indices, W.indptr), shape=W.shape)
        if added.nnz:
            moved = sp.csr_matrix(moved + added)
        if kept:
            moved = sp.csr_matrix(moved + KEPT * W)
        moved.eliminate_zeros()
        moved.sort_indices()
        return moved


def _places(W: sp.csr_matrix, F: sp.csr_matrix) -> NDArray[np.int64]:
    """Where the entries of F are among those of W, columns rising in both."""
    ours, theirs = (
        np.repeat(np.arange(M.shape[0]) * int(M.shape[1]), np.diff(M.indptr)) + M.indices
        for M in (W, F)
    )
    return np.searchsorted(ours, theirs)
