"""Step 4 of FLI11 Algorithm 1: W*, the graph adjusted by what constraints say of its edges."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.eigen.solver import LaplacianKey
from mustlink.graph import Graph
from mustlink.graph.multiplicity import fold
from mustlink.kernels.disjoint_sum import disjoint_sum
from mustlink.kernels.similarity_adjustment import adjust
from mustlink.lyapunov.fields import NewEdges
from mustlink.observe import Recorder
from mustlink.operators.laplacian import NormalizedLaplacian

ROUNDING = 1e-6  # weights in single precision may exceed 1 by as much
KEPT = 1e-6  # of the weights of W where W* has too few edges
_QUANTILES = (0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0)


@dataclass(frozen=True, eq=False)
class Adjustment:
    """F where W* needs it: on the edges of W, (nnz,), and on new ones."""

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
            moved = disjoint_sum(moved, added)
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
    found = np.zeros_like(F)
    told = np.flatnonzero(F)  # most edges are far from every pair
    size = np.minimum(np.abs(F[told]) / largest, 1.0)
    found[told] = np.copysign(size if power == 1.0 else size**power, F[told])
    return found


def _with_enough_nodes(moved: sp.csr_matrix, W: sp.csr_matrix, least: int) -> sp.csr_matrix:
    """W*, or with a millionth of W where W* leaves less than `least` nodes to be cut."""
    if np.count_nonzero(np.diff(moved.indptr)) >= least:
        return moved
    return sp.csr_matrix(moved + KEPT * W)


def adjusted_graph(
    laplacian: NormalizedLaplacian, change: Adjustment, recorder: Recorder, least: int = 0
) -> Graph:
    """W* (m, m) of a graph in working order; its own Laplacian needs no other order.

    Nodes may lose every edge; where fewer than `least` keep one, all keep a millionth of W.
    Where nodes stand for several, weights between copies are moved, and summed again.
    """
    W, counts = laplacian.graph_weights, laplacian.weights
    if counts is not None:
        W = fold(W, 1.0 / counts)  # between two copies, which F speaks about
    largest = float(W.data.max(initial=0.0))
    if largest > 1.0 + ROUNDING:
        recorder.note(f"the graph's weights were divided by {largest:.4g}, the largest of them")
        W.data /= largest
    np.minimum(W.data, 1.0, out=W.data)
    moved = _with_enough_nodes(change.apply(W), W, least)
    if counts is not None:
        moved = fold(moved, counts)
    adjusted = Graph(moved, {"kind": "adjusted"}, counts)
    if np.diff(adjusted.affinity.indptr).all():
        own = NormalizedLaplacian.of_weights(adjusted.affinity, counts)
        adjusted.derived.put(LaplacianKey(own.dtype == np.float32), own)
    return adjusted


def adjusted_affinity(
    laplacian: NormalizedLaplacian, change: Adjustment, recorder: Recorder, least: int = 0
) -> sp.csr_matrix:
    """W* (n, n) CSR in the graph's order; between copies, where nodes stand for several."""
    n, m = laplacian.n_nodes, laplacian.size
    W = adjusted_graph(laplacian, change, recorder, least).affinity
    if laplacian.weights is not None:
        W = fold(W, 1.0 / laplacian.weights)
    place = sp.csr_matrix((np.ones(m), (laplacian.nodes, np.arange(m))), shape=(n, m))
    return sp.csr_matrix(place @ W @ place.T)
