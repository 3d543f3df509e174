"""The least boundary that agrees with what is believed of every node: total variation on a graph.

The quadratic energy of harmonic values spreads a boundary over many pixels, and where it is cut is
chance. Absolute differences cost the same however they are spread, and lie where edges are weak.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.edge_weights import over_lengths
from mustlink.kernels.vector_cg import vector_cg

Floats = NDArray[np.float64]
_WIDTHS = np.geomspace(0.3, 0.02, 6)  # differences that count as none, one step each
_TOL = 5e-3
_STEPS = 400


def sharpened(
    W: sp.csr_matrix,
    odds: Floats,
    given: Floats,
    free: NDArray[np.bool_],
    start: Floats,
    smoothness: float = 1.0,
) -> tuple[Floats, int]:
    """Minimise γ Σ_{i<j} w_ij |f_i − f_j| − Σ_i l_i f_i, f in [0, 1], `given` where not `free`.

    By reweighted least squares: |d| is d²/√(d² + ε²) of the step before, ε from 0.3 to 0.02, and
    −lf is |l|·|f − [l > 0]| up to a constant, for which the same holds. Every step is a propagation
    with prior [l > 0] and a belief, from where the last one ended. Returns f (n,) and the steps of
    conjugate gradients taken. Cost: some hundred products. Source: Daubechies et al. 2010.
    """
    target = (odds > 0) * 1.0
    f, taken = np.where(free, start, given), 0
    for width in _WIDTHS:
        weights = over_lengths(W, f, smoothness, width)
        step = sp.csr_matrix((weights, W.indices, W.indptr), shape=W.shape)
        belief = np.abs(odds) / np.sqrt((f - target) ** 2 + width**2)
        diagonal = np.asarray(step.sum(axis=1)).ravel() + belief
        f, steps = _solved(step, diagonal, belief * target, free, f)
        f = np.clip(f, 0.0, 1.0)
        taken += steps
    return f, taken


def harmonic(W: sp.csr_matrix, given: Floats, free: NDArray[np.bool_]) -> Floats:
    """Values (n,) that are the mean of their neighbours' where free, else `given`; to 5e-3."""
    diagonal: Floats = np.asarray(W.sum(axis=1), dtype=np.float64).ravel()
    start = np.where(free, given[~free].mean(), given)
    f, _ = _solved(W, diagonal, np.zeros_like(given), free, start)
    return np.clip(f, 0.0, 1.0)


def _solved(
    W: sp.csr_matrix, diagonal: Floats, right: Floats, free: NDArray[np.bool_], start: Floats
) -> tuple[Floats, int]:
    """(diag − W)f = right on the free nodes, the others as they are, from `start`."""
    held = np.where(free, 0.0, start)
    whole = np.where(free, right + W @ held, 0.0)
    rest = np.where(free, right + W @ start - diagonal * start, 0.0)
    scale = np.sqrt(np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0))
    size, left = np.linalg.norm(scale * whole), np.linalg.norm(scale * rest)
    if left <= _TOL * size:
        return start, 0
    tol = float(_TOL * size / left)
    Z, steps = vector_cg(W, diagonal, free, rest, tol=tol, max_iter=_STEPS)
    return start + Z, steps
