"""Preconditioners written out on the whole spectrum."""

from __future__ import annotations

import numpy as np


def smoother_alone(L, degree):
    """(I − q(L)²)L⁺: a cycle's Chebyshev smoothing of L̄ before and after, nothing in between.

    q(λ) = T((c − λ)/h)/T(c/h) on [c − h, c + h] = [0.475, 1.9], T of the degree; L has diagonal 1.
    """
    values, V = np.linalg.eigh(L)
    centre, half = (1.9 + 0.475) / 2, (1.9 - 0.475) / 2
    T = np.polynomial.Chebyshev([0] * degree + [1])
    left = T((centre - values) / half) / T(centre / half)
    there = values > 1e-10
    taken = np.divide(1 - left**2, values, out=np.zeros_like(values), where=there)
    return (V * taken) @ V.T
