"""Preconditioners of systems with L̄, cached with the graph: grids, or its smoothest vectors.

Vectors take longer than one solve by grids. Where coarse grids resolve clear clusters badly they
pay from the first solve on, and every later one takes a third: they do not depend on labels.
"""

from __future__ import annotations

from dataclasses import dataclass

from mustlink.context.workspace import Workspace
from mustlink.eigen.smooth_subspace import SmoothBasis
from mustlink.eigen.solver import grids_of, laplacian_of, smoothest
from mustlink.errors import NumericalError
from mustlink.graph.graph import Key
from mustlink.linear.laplacian_solve import FEW, DeflatedPolynomial, usual_preconditioner
from mustlink.operators.protocol import Preconditioner

_MANY = 200_000  # nodes from which vectors are worth their time
_VECTORS = 24  # as many as questions are chosen by
_CLOSE = 0.9  # of the largest of their values: vectors that are not sharp leave something below
_CLEAR = 0.0125  # which must be above: with less, the polynomial takes as many products as grids


@dataclass(frozen=True)
class DeflationKey(Key[DeflatedPolynomial]):
    """The inverse with the smoothest vectors, by the seed that they are found with."""

    seed: int


def kept_inverse(work: Workspace, seed: int) -> Preconditioner:
    """≈L̄⁻¹ on all nodes that have an edge; project where there is a null space.

    Where memory or time is limited, what takes the least of both.
    """
    laplacian = laplacian_of(work)
    if laplacian.size in FEW or work.memory is not None:
        return usual_preconditioner(laplacian)
    basis = smooth_vectors(work, seed)
    if basis is not None:
        try:
            key = DeflationKey(work.single, seed)
            Z = basis.vectors[:, 1 + basis.n_ties :]
            return work.remember(key, lambda: DeflatedPolynomial(laplacian, Z, next_value(basis)))
        except NumericalError:
            pass
    return grids_of(work).cycle()


def smooth_vectors(work: Workspace, seed: int) -> SmoothBasis | None:
    """The smoothest vectors of L̄, those of its null space among them, where they pay.

    None where grids do better: small coarse ones, or nothing but networks' large ones.
    """
    small = laplacian_of(work).size < _MANY
    if small or work.memory is not None or work.recorder.deadline.is_set:
        return None
    grids = grids_of(work)
    if grids.is_cheap() or grids.is_wide:
        return None
    basis = smoothest(work, _VECTORS, seed=seed).first(_VECTORS)
    return basis if next_value(basis) >= _CLEAR else None


def next_value(basis: SmoothBasis) -> float:
    """From which eigenvalue on there are others."""
    return _CLOSE * float(basis.values[-1])
