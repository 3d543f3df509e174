"""Weights brought into the range in which no product of a solver can overflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

_FAR = 1e30  # largest weights beyond this, or below its inverse, are scaled
_LOST = 2.0**-900  # share of the heaviest edge: 1/d² of such an edge is still finite


def within_range(W: sp.csr_matrix) -> tuple[sp.csr_matrix, dict[str, Any]]:
    """W with its heaviest edge near 1 and without lost edges, and what was done.

    Clusters do not depend on the unit of weights, so that all are multiplied by one power of two,
    which rounds nothing, where the heaviest is beyond 10³⁰ or below 10⁻³⁰. Edges below
    2⁻⁹⁰⁰ (10⁻²⁷¹) of the heaviest are left out: products with them are 0 in double precision, as
    are, in single precision, those that the scaling makes 0. W itself is returned where nothing is
    to do. Cost: one pass. Told are `scaled` (the exponent) and `lost_edges`.
    """
    told: dict[str, Any] = {}
    largest = float(W.data.max(initial=0.0))
    if not 1 / _FAR <= largest <= _FAR:
        exponent = -int(np.floor(np.log2(largest)))
        W = W.copy()
        W.data = np.ldexp(W.data, exponent)
        told["scaled"], largest = exponent, float(W.data.max())
    is_lost = W.data < _LOST * largest
    if is_lost.any():
        W = W.copy() if "scaled" not in told else W
        W.data[is_lost] = 0.0
        told["lost_edges"] = int(np.count_nonzero(is_lost)) // 2
        W.eliminate_zeros()
    return W, told


def range_notes(info: Mapping[str, Any]) -> list[str]:
    """What a person should know of it, one line each."""
    said = []
    if "scaled" in info:
        said.append(
            f"graph: weights multiplied by 2^{info['scaled']}, as the largest is far from 1; "
            "clusters do not depend on it"
        )
    if "lost_edges" in info:
        said.append(
            f"graph: {info['lost_edges']} edges below 1e-271 of the heaviest are 0 in double "
            "precision and left out"
        )
    return said
