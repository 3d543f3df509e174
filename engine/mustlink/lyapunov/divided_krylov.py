"""F of SRCP on ranks for any μ: the Lanczos solver's factors, of which only entries are kept.

F = ZΘZᵀ is taken at own edges from own rows of Z and those of neighbours; at other pairs the rank
of the lower end takes it. New edges are looked for as at home, see `pair_propagation.solve_pairs`:
where diffusion with a larger μ finds them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.sampled_product import sampled_product
from mustlink.linear.by_columns import towards
from mustlink.lyapunov.divided_regions import DividedRegions
from mustlink.lyapunov.equation import LyapunovProblem
from mustlink.lyapunov.fields import LowRankField
from mustlink.lyapunov.krylov import Batch, convergence, solve_batches
from mustlink.lyapunov.new_edges import best_of_pairs, none
from mustlink.lyapunov.pair_propagation import (
    MEMORY,
    SEARCH_MU,
    SEARCH_TOL,
    exact_floor,
    note_search,
)
from mustlink.lyapunov.pairs_by_regions import SpreadPairs, counts_of, spread_pairs
from mustlink.lyapunov.sources import Sources, given_pairs
from mustlink.observe import Recorder
from mustlink.operators.sparse_operator import DividedMatrix

_NODE = 2_048  # bytes a node for a batch where `MEMORY` is less: the same for any number of ranks

Ints = NDArray[np.int64]


def spread_pairs_far(
    rows: DividedRegions,
    problem: LyapunovProblem,
    places: Ints,
    recorder: Recorder,
    *,
    new_edges: int = 20,
    tol: float = 1e-3,
) -> SpreadPairs:
    """As `spread_pairs`, to the relative residual that "krylov" reaches at home.

    The same on any number of ranks, bit by bit. Cost as `solve_batches`; a batch takes the larger
    of 2 GB and 2 kB a node, of all ranks together.
    """
    Y, size = problem.sources, problem.size
    if Y.count == 0:
        return spread_pairs(rows, problem, places, recorder)
    near = none()
    if new_edges:
        note_search(problem.mu, recorder)
        seen, most = replace(problem, mu=SEARCH_MU), 2 * new_edges
        near = spread_pairs(rows, seen, places, recorder, new_edges=most, tol=SEARCH_TOL).new
    B = sp.csc_matrix((Y.B.data, places[Y.B.indices], Y.B.indptr), shape=(size, Y.count))
    whole = replace(problem, sources=Sources(B, Y.C))
    sharp = tol * min(1.0, problem.mu / SEARCH_MU)
    given, beliefs = given_pairs(whole.sources)
    upper = given.rows < given.indices
    asked = given.rows[upper].astype(np.int64) * size + given.indices[upper]
    searched = near.first * size + near.second
    keys = np.union1d(asked, searched)
    outside = _Entries.of(_pattern(rows, keys))
    edges = _Entries.of(rows.laplacian.matrix)
    batches: list[Batch] = []
    with recorder.stage("constraint propagation") as advance:
        memory = max(MEMORY, _NODE * size)
        for batch in solve_batches(
            whole, tol=sharp, memory=memory, on_step=towards(sharp, advance)
        ):
            edges.add(batch.field)
            outside.add(batch.field)
            batches.append(replace(batch, field=LowRankField((), size)))
    done = convergence(whole, batches, sharp)
    if not done.converged.all():
        recorder.warn(done.status)
    rows.believe(edges.F)
    F = rows.joined(outside.F)
    on_given, on_near = (F[np.searchsorted(keys, which)] for which in (asked, searched))
    largest = max(rows.told(0.0).largest, float(np.abs(on_given).max(initial=0.0)))
    floor = exact_floor(tol, Y.largest, largest)
    new = best_of_pairs(replace(near, beliefs=on_near), new_edges, floor)
    largest = max(largest, float(np.abs(new.beliefs).max(initial=0.0)))
    agreement = float(np.mean(on_given * beliefs[upper] > 0)) if asked.size else 1.0
    left = float(done.residuals.max())
    said = f"krylov: relative residual {left:.1e} in {done.iterations} steps"
    about = {"propagation": done.solver, "sources": Y.count, "residual": left}
    about["batches"] = len(batches)
    told = counts_of(rows.told(floor), new.count)
    return SpreadPairs(new, done, largest, agreement, floor, told, said, about)


def _pattern(rows: DividedRegions, keys: Ints) -> DividedMatrix:
    """Own ones of pairs i < j, in the order of their keys."""
    space = rows.laplacian.space
    first, second = np.divmod(keys, space.size)
    own = (first >= space.first) & (first < space.end)
    ends = first[own] - space.first, second[own]
    ones: Any = sp.csr_matrix((np.ones(ends[0].size), ends), shape=(space.held, space.size))
    return DividedMatrix.of_rows(space, ones)


@dataclass(eq=False)
class _Entries:
    """F (nnz,) on the entries of own rows of a matrix, summed over parts of the constraints."""

    matrix: DividedMatrix
    F: NDArray[np.float64]

    @classmethod
    def of(cls, matrix: DividedMatrix) -> _Entries:
        """Nothing yet."""
        return cls(matrix, np.zeros(matrix.local.nnz))

    def add(self, field: LowRankField) -> None:
        """F of one more part: F_ij and F_ji, perhaps of two ranks, are the same bits."""
        for Z, theta in field.terms:
            own = Z * np.sqrt(np.abs(theta))
            both = self.matrix.halo.beside(own)
            sampled_product(self.matrix.local, own, both, np.sign(theta), self.F)
