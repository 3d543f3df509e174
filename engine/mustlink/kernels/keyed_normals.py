"""Standard normal numbers by counting: one for every seed, node and column, in any order.

x = (−2 ln u)^½ cos 2πv (Box & Muller 1958), u and v from a hash of (seed, node, column) by the
finaliser of splitmix64 (Steele, Lea & Flood 2014). Whoever holds a node makes its numbers alone.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.loops import loop

_STEP = np.uint64(0x9E3779B97F4A7C15)
_COLUMN = np.uint64(0xD1B54A32D192ED03)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_UNIT = 2.0**-53


@nb.njit(cache=True, inline="always")
def mixed_bits(z: Any) -> Any:
    """64 bits of a hash of 64 bits."""
    z = (z ^ (z >> nb.uint64(30))) * _FIRST
    z = (z ^ (z >> nb.uint64(27))) * _SECOND
    return z ^ (z >> nb.uint64(31))


@loop()
def _normals(nodes: Any, seed: Any, out: Any) -> None:
    origin = mixed_bits(nb.uint64(seed) + _STEP)
    for i in nb.prange(out.shape[0]):
        row = mixed_bits(origin + nb.uint64(nodes[i]) * _STEP)
        for c in range(out.shape[1]):
            first = mixed_bits(row + nb.uint64(c + 1) * _COLUMN)
            second = mixed_bits(first + _STEP)
            u = (nb.float64(first >> nb.uint64(11)) + 0.5) * _UNIT
            v = nb.float64(second >> nb.uint64(11)) * _UNIT
            out[i, c] = np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * v)


def normals(nodes: NDArray[np.int64], width: int, seed: int) -> NDArray[np.float64]:
    """Block (n, width): row i belongs to node number `nodes[i]`, column c to c whatever `width`.

    `seed` is any integer, taken modulo 2⁶⁴. Cost: some twenty operations a number.
    """
    out = np.empty((nodes.size, width))
    _normals(16 * out.size, nodes, np.uint64(seed % (1 << 64)), out)
    return out
