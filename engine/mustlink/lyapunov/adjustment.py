"""The adjusted graph W*: old weights moved by F, new edges where F believes in them (eq. 9)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.similarity_adjustment import adjust
from mustlink.lyapunov.new_edges import NewEdges

_QUANTILES = (0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0)


@dataclass(frozen=True, eq=False)
class Adjustment:
    """F where clustering needs it: on the pattern of W, (nnz,), and on new edges."""

    beliefs: NDArray[np.float64]
    new: NewEdges

    def shaped(self, largest: float, power: float, floor: float) -> Adjustment:
        """F with every magnitude |F| replaced by (|F|/largest)^power, at most 1.

        Powers below 1 raise what is far from the given pairs towards what is near; magnitudes up
        to `floor` are then taken for zero, or errors of the propagation would be raised as well.
        """
        if power < 1.0:
            known = np.where(np.abs(self.beliefs) > floor, self.beliefs, 0.0)
        else:
            known = self.beliefs
        new = replace(self.new, beliefs=_shaped(self.new.beliefs, largest, power))
        return Adjustment(_shaped(known, largest, power), new)

    def apply(self, W: sp.csr_matrix) -> sp.csr_matrix:
        """W* (m, m), symmetric, in [0, 1], for W in [0, 1] (FLI11 eq. 9); zeros are not stored."""
        moved = sp.csr_matrix((adjust(W.data, self.beliefs), W.indices, W.indptr), shape=W.shape)
        if self.new.count:
            added = self.new.matrix(W.shape[0])
            added.data = adjust(np.zeros(added.nnz), added.data)
            moved = sp.csr_matrix(moved + added)
        if (moved.data == 0.0).any():
            moved = moved.copy()  # the pattern may still be that of W
            moved.eliminate_zeros()
        return moved

    def summary(self, threshold: float) -> dict[str, object]:
        """What a person wants to know: edges strengthened, weakened (|F| > threshold), added."""
        F = self.beliefs
        told = F[np.abs(F) > threshold]
        spread = np.quantile(told, _QUANTILES) if told.size else np.zeros(len(_QUANTILES))
        return {
            "strengthened": int((told > 0).sum()) // 2,
            "weakened": int((told < 0).sum()) // 2,
            "added": self.new.count,
            "untouched": int(F.size - told.size) // 2,
            "F": {f"{q:g}": float(v) for q, v in zip(_QUANTILES, spread, strict=True)},
        }


def _shaped(F: NDArray[np.float64], largest: float, power: float) -> NDArray[np.float64]:
    size = np.minimum(np.abs(F) / largest, 1.0)
    return np.asarray(np.copysign(size if power == 1.0 else size**power, F))
