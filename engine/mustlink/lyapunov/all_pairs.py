"""F of all pairs on request: how surely two nodes belong together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.core.check import as_integer, check_choice
from mustlink.core.observe import Recorder
from mustlink.errors import InputError, OutOfMemoryError
from mustlink.lyapunov.fields import (
    DenseField,
    Field,
    Floats,
    LocalField,
    LowRankField,
    LyapunovProblem,
    Problem,
    none,
    solve_dense,
)
from mustlink.lyapunov.filters import Diffusion
from mustlink.lyapunov.krylov import solve_batches
from mustlink.lyapunov.pair_propagation import PropagationSpec, choose
from mustlink.lyapunov.regions import MemoryRows

Ints = NDArray[np.int64]
_COLUMNS = 256  # of F written out at once
_WHOLE = 20_000  # nodes up to which all of F is looked through
KINDS = ("must", "cannot", "both")


@dataclass(frozen=True, eq=False, repr=False)
class AllPairs:
    """What constraints say of every pair of n rows: F (n, n), symmetric, never written out.

    F_ij is FLI11's confidence in a pair, above 0 for must-links, below for cannot-links; 0 where a
    row has no edge. `F[i, j]` is a number, or an array where i or j are arrays of the same shape.
    Entries are as exact as the solver's tolerance says. Cost: a column of F for every distinct j.
    """

    field: Field  # between copies of m nodes
    nodes: Ints  # (n,) the node that every row is, -1 where it has no edge
    rows: Ints  # (m,) the first row of every node

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return self.nodes.size, self.nodes.size

    def __repr__(self) -> str:
        n = self.nodes.size
        return f"AllPairs({n:,} x {n:,}: F[i, j], .row(i), .top(count, kind))"

    def __getitem__(self, pair: tuple[Any, Any]) -> Any:
        """F_ij of rows i and j, numbers or arrays."""
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputError("F: give two rows, F[i, j], or F.row(i)")
        first, second = np.broadcast_arrays(*(self._nodes_of(side) for side in pair))
        result = np.zeros(first.shape)
        known = (first >= 0) & (second >= 0)
        i, j = first[known], second[known]
        columns, column = np.unique(j, return_inverse=True)
        values = np.zeros(i.size)
        for start in range(0, columns.size, _COLUMNS):
            part = (column >= start) & (column < start + _COLUMNS)
            F = self._columns(columns[start : start + _COLUMNS])
            values[part] = F[i[part], column[part] - start]
        result[known] = values
        return float(result) if result.ndim == 0 else result

    def row(self, i: int) -> Floats:
        """F_i, (n,): F of row i and every other."""
        at = self._nodes_of(as_integer(i, "row"))
        if at < 0:
            return np.zeros(self.nodes.size)
        F = self._columns(np.array([at]))[:, 0]
        return np.asarray(np.where(self.nodes >= 0, F[self.nodes], 0.0))

    def top(self, count: int = 10, kind: str = "both") -> tuple[Ints, Floats]:
        """The `count` pairs (c, 2) of largest |F| and their F (c,), largest first; i < j.

        `kind` "must" takes F > 0 only, "cannot" F < 0. Of equal rows that were merged it names the
        first of them. Cost: all of F by columns up to 20,000 nodes, above it what is near the
        constraints; raises InputError there where mu is so small that nothing is.
        """
        count = as_integer(count, "count", 1)
        check_choice(kind, KINDS, "kind")
        signs = {"must": (1.0,), "cannot": (-1.0,), "both": (1.0, -1.0)}[kind]
        look = self._near if self.rows.size > _WHOLE else self._looked
        ends, values = look(count, signs)
        pairs = np.sort(self.rows[ends], axis=1)
        order = np.lexsort((pairs[:, 1], pairs[:, 0], -np.abs(values)))[:count]
        return pairs[order], values[order]

    def _nodes_of(self, rows: Any) -> Ints:
        result = np.asarray(rows)
        if result.dtype.kind not in "iu":
            raise InputError("F: rows are numbers from 0; give whole numbers, or arrays of them")
        n = self.nodes.size
        if result.size and not (result.min() >= 0 and result.max() < n):
            raise InputError(
                f"F: there are rows 0 to {n - 1}; {result.min()} to {result.max()} given"
            )
        return np.asarray(self.nodes[result])

    def _columns(self, nodes: Ints) -> Floats:
        """Columns (m, b) of F."""
        unit = np.zeros((self.rows.size, nodes.size))
        unit[nodes, np.arange(nodes.size)] = 1.0
        return self.field.dot(unit)

    def _looked(self, count: int, signs: tuple[float, ...]) -> tuple[Ints, Floats]:
        """Candidates (c, 2) and their F by looking at every column."""
        m = self.rows.size
        ends, values = np.empty((0, 2), np.int64), np.empty(0)
        for start in range(0, m, _COLUMNS):
            nodes = np.arange(start, min(start + _COLUMNS, m))
            F = self._columns(nodes)
            F[np.arange(m)[:, None] <= nodes] = 0.0  # every pair once, none with itself
            size = np.abs(F) if len(signs) == 2 else np.maximum(signs[0] * F, 0.0)
            best = np.argsort(-size, axis=None, kind="stable")[:count]
            i, j = np.unravel_index(best[size.flat[best] > 0], F.shape)
            ends = np.concatenate([ends, np.column_stack([i, nodes[j]])])
            values = np.concatenate([values, F[i, j]])
            best = np.argsort(-np.abs(values), kind="stable")[:count]
            ends, values = ends[best], values[best]
        return ends, values

    def _near(self, count: int, signs: tuple[float, ...]) -> tuple[Ints, Floats]:
        """The same from the strongest of every node near a constraint."""
        if not isinstance(self.field, LocalField):
            raise InputError(
                f"top: every one of {self.rows.size:,} nodes says something of every other; ask "
                "F.row(i), or take a larger mu"
            )
        result = []
        for sign in signs:
            turned = replace(self.field, C=sign * self.field.C)
            near = turned.strongest(none().pattern(self.rows.size), count)
            result.append((near.first, near.second, sign * near.beliefs))
        first, second, values = (np.concatenate(part) for part in zip(*result, strict=True))
        return np.column_stack([first, second]), values


def all_pairs(
    problem: Problem, solver: str, tol: float, memory: int, nodes: Ints, rows: Ints
) -> AllPairs:
    """F of a problem in memory, as `solve_pairs` computes it, but all of it; raises InputError."""
    laplacian: Any = problem.laplacian
    spec = PropagationSpec(
        problem, MemoryRows(laplacian, memory, laplacian.weights), 0, tol, Recorder()
    )
    field = _field(spec, choose(problem, solver), memory)
    return AllPairs(spec.rows.of_copies(field), nodes, rows)


def _field(
    spec: PropagationSpec, solver: str, memory: int
) -> DenseField | LocalField | LowRankField:
    problem = spec.problem
    if problem.sources.count == 0:
        return LowRankField((), problem.size)
    if solver == "dense":
        return solve_dense(problem)
    if solver == "diffusion":
        diffusion = Diffusion.prepare(problem, spec.sharp)
        _check_room(diffusion.bytes_per_source() * problem.sources.count, memory)
        return diffusion.spread(problem.sources)
    assert isinstance(problem, LyapunovProblem)
    terms: list[Any] = []
    for batch in solve_batches(problem, tol=spec.krylov_tol(problem), memory=memory):
        terms += batch.field.terms
        _check_room(sum(Z.nbytes for Z, _ in terms), memory)
    return LowRankField(tuple(terms), problem.size)


def _check_room(wanted: float, memory: int) -> None:
    if wanted > memory:
        raise OutOfMemoryError(
            f"memory: F of all pairs takes {wanted / 1e9:.1f} GB, and {memory / 1e9:.1f} are for "
            "it; give more, or fewer constraints"
        )
