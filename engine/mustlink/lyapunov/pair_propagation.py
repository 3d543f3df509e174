"""Which solver for F: one entry point, one rule, F only where it is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mustlink.errors import InputError
from mustlink.lyapunov.adjustment import Adjustment
from mustlink.lyapunov.dense import solve_dense
from mustlink.lyapunov.diffusion import Diffusion, largest_entry, solve_diffusion
from mustlink.lyapunov.equation import Field, LyapunovProblem, Problem, residual
from mustlink.lyapunov.krylov import Batch, convergence, solve_batches
from mustlink.lyapunov.low_rank_field import LowRankField
from mustlink.lyapunov.new_edges import NewEdges, best_of, none, strongest
from mustlink.lyapunov.source_batches import source_parts
from mustlink.lyapunov.sources import given_pairs
from mustlink.lyapunov.sparse_field import FLOOR
from mustlink.lyapunov.work_pieces import Advance
from mustlink.observe import Recorder
from mustlink.operators.laplacian import Block
from mustlink.result import Convergence

SOLVERS = ("auto", "dense", "diffusion", "krylov")
DENSE_BELOW = 2000  # nodes: below, LAPACK takes a few seconds and gives every entry
_LOCAL_MU = 0.02  # for smaller μ sources reach most nodes of most graphs
_SEARCH_MU, _SEARCH_TOL = 0.2, 1e-3  # where new edges are looked for when F is nowhere small
_ROWS_BELOW = 20_000  # nodes: below, all of a low-rank F is looked through for new edges
_SMALL = 10.0  # times the largest |F|: below it, F counts and not the beliefs
_PROBES = 16
_SPREADING = 0.7  # share of the time until the sources are spread
MEMORY = 2 << 30  # bytes for one batch of constraints, unless the caller says otherwise


@dataclass(frozen=True, eq=False)
class Solved:
    """F where it is needed, and how it was found.

    `largest` is the largest |F_ij| of all that were computed, `agreement` the share of the given
    pairs whose F has their sign; |F| up to `floor` is taken for zero; `told` says it in a line.
    """

    adjustment: Adjustment
    convergence: Convergence
    largest: float
    agreement: float
    floor: float
    told: str
    about: dict[str, Any]


def solve_pairs(
    problem: Problem,
    recorder: Recorder,
    *,
    new_edges: int = 20,
    solver: str = "auto",
    tol: float = 1e-3,
    memory: int = MEMORY,
) -> Solved:
    """F on the graph's edges, on the given pairs and on at most `new_edges` new edges per node.

    * "dense": every entry by LAPACK, O(m³); "auto" takes it up to 2,000 nodes.
    * "diffusion": every entry to tol·max|Y|; "auto" takes it for larger graphs.
    * "krylov": residual tol in the Frobenius norm for any μ; "auto" takes it for μ < 0.02. Above
      20,000 nodes it looks for new edges where diffusion with μ = 0.2 finds F > 0, and says so.
      Raises InputError for E2CP, which needs no such solver.

    Neither of the last two holds much more than `memory` bytes for its factors: the constraints
    are taken in parts where need be.
    """
    S = problem.laplacian.S
    chosen = _choose(problem, solver)
    if problem.sources.count == 0:
        recorder.note("constraints: nothing to spread, the graph stays as it is")
        done = Convergence("none", "nothing to solve", 0, np.zeros(1), tol)
        empty = Adjustment(np.zeros(S.nnz), none())
        return Solved(empty, done, 0.0, 1.0, 0.0, "nothing to spread", {})
    with recorder.stage("constraint propagation") as advance:
        if chosen == "krylov":
            return _by_krylov(problem, new_edges, tol, memory, recorder, advance)
        if chosen == "diffusion":
            return _by_diffusion(problem, new_edges, tol, memory, recorder, advance)
        dense = solve_dense(problem)
        left = residual(problem, dense).relative
        done = Convergence("dense", "direct", 1, np.array([left]), tol)
        patterns = _patterns(problem)
        found = _on([dense], patterns)
        floor = _exact_floor(problem, tol, found)
        edges = strongest(dense, S, new_edges, floor)
        told = f"dense: all of F, relative residual {left:.1e}"
        return _solved(problem, patterns[1], found, edges, done, floor, told, {"residual": left})


def _floor(problem: Problem, tol: float) -> float:
    """|F| that is taken for zero, by the size of the beliefs."""
    return FLOOR * tol * largest_entry(problem.sources)


def _exact_floor(problem: Problem, tol: float, found: list[Block]) -> float:
    """The same where F is not cut off: less where all of F is far below the beliefs (small μ)."""
    largest = max(float(np.abs(values).max(initial=0.0)) for values in found)
    return FLOOR * tol * min(largest_entry(problem.sources), _SMALL * largest)


def _choose(problem: Problem, solver: str) -> str:
    if solver == "krylov" and not isinstance(problem, LyapunovProblem):
        raise InputError('solver: "krylov" is for SRCP; use "diffusion" or "dense" for E2CP')
    if solver != "auto":
        return solver
    if problem.size <= DENSE_BELOW:
        return "dense"
    far = isinstance(problem, LyapunovProblem) and problem.mu < _LOCAL_MU
    return "krylov" if far else "diffusion"


def _by_diffusion(
    problem: Problem,
    new_edges: int,
    tol: float,
    memory: int,
    recorder: Recorder,
    advance: Advance,
) -> Solved:
    """All constraints at once, or in parts within the memory: once for F, once for new edges."""
    S, Y = problem.laplacian.S, problem.sources
    diffusion = Diffusion.prepare(problem, tol)
    room = max(2, int(memory / max(1.0, diffusion.bytes_per_source())))
    patterns = _patterns(problem)
    about: dict[str, Any] = {"terms": int(diffusion.filter.weights.size)}
    if Y.count <= room:
        field = diffusion.spread(Y, lambda fraction: advance(_SPREADING * fraction))
        edges = field.strongest(S, new_edges)
        found = _on([field], patterns)
        about["reach"] = field.reach
        about["residual"] = residual(problem, field, probes=_PROBES).relative
    else:
        cut = list(source_parts(Y, room))
        recorder.note(f"{Y.count:,} sources are spread in {len(cut)} parts, twice, to save memory")
        found = [np.zeros(pattern.nnz) for pattern in patterns]
        candidates = sp.csr_matrix(S.shape)
        for done, part in enumerate(cut):
            field = diffusion.spread(part, _piece(advance, done, 2 * len(cut)))
            found = [a + b for a, b in zip(found, _on([field], patterns), strict=True)]
            candidates = candidates + field.candidates(S, new_edges)
        candidates.sort_indices()
        fields = (
            diffusion.spread(part, _piece(advance, done, 2 * len(cut)))
            for done, part in enumerate(cut, len(cut))
        )
        beliefs = _on(fields, [candidates])[0]
        edges = best_of(candidates, beliefs, new_edges, _floor(problem, tol))
        about["parts"] = len(cut)
    accuracy = np.array([diffusion.plan.bound / largest_entry(Y)])
    steps = diffusion.filter.degree
    reached = Convergence("diffusion", "tolerance", steps, accuracy, tol)
    told = f"diffusion: every F within {accuracy[0]:.2g} of the largest belief, {steps} steps"
    return _solved(problem, patterns[1], found, edges, reached, _floor(problem, tol), told, about)


def _by_krylov(
    problem: Problem,
    new_edges: int,
    tol: float,
    memory: int,
    recorder: Recorder,
    advance: Advance,
) -> Solved:
    """One batch of constraints after the other; above 20,000 nodes only entries are kept of it."""
    assert isinstance(problem, LyapunovProblem)
    patterns = _patterns(problem)
    whole = problem.size <= _ROWS_BELOW
    if not whole:
        recorder.note(
            f"new edges are looked for where diffusion with mu = {_SEARCH_MU} finds F > 0: with "
            f"mu = {problem.mu:g} nearly every node reaches every other"
        )
        near = solve_diffusion(replace(problem, mu=_SEARCH_MU), tol=_SEARCH_TOL)
        candidates = near.strongest(problem.laplacian.S, 2 * new_edges).pattern(problem.size)
        del near
        patterns.append(candidates)
    sharp = tol * min(1.0, problem.mu / _SEARCH_MU)  # F is as small as μ
    batches: list[Batch] = []
    fields: list[LowRankField] = []

    def each() -> Iterator[Field]:
        on_step = _towards(sharp, advance)
        for batch in solve_batches(problem, tol=sharp, memory=memory, on_step=on_step):
            batches.append(replace(batch, field=LowRankField((), problem.size)))
            if whole:
                fields.append(batch.field)
            yield batch.field

    found = _on(each(), patterns)
    done = convergence(problem, batches, sharp)
    if not done.converged.all():
        recorder.warn(done.status)
    if whole:
        joined = LowRankField(tuple(t for f in fields for t in f.terms), problem.size)
        floor = _exact_floor(problem, tol, found)
        edges = strongest(joined, problem.laplacian.S, new_edges, floor)
    else:
        floor = _exact_floor(problem, tol, found[:2])
        edges = best_of(patterns[2], found[2], new_edges, floor)
    left = float(done.residuals.max())
    about = {"residual": left, "batches": len(batches)}
    told = f"krylov: relative residual {left:.1e} in {done.iterations} steps"
    return _solved(problem, patterns[1], found, edges, done, floor, told, about)


def _piece(advance: Advance, done: int, count: int) -> Advance:
    """Progress of one piece of work of several."""
    return lambda fraction: advance((done + fraction) / count)


def _towards(tol: float, advance: Advance) -> Any:
    """A listener to residuals, which fall geometrically."""
    first: list[float] = []

    def on_step(left: float) -> None:
        first.append(left)
        if 0 < left < first[0] and first[0] > tol:
            advance(min(1.0, float(np.log(first[0] / left) / np.log(first[0] / tol))))

    return on_step


def _patterns(problem: Problem) -> list[sp.csr_matrix]:
    """Where F is always wanted: the graph's edges, the given pairs."""
    return [problem.laplacian.S, given_pairs(problem.sources)]


def _on(fields: Iterable[Field], patterns: Sequence[sp.csr_matrix]) -> list[Block]:
    """The sum of the fields on each of the patterns."""
    found = [np.zeros(pattern.nnz) for pattern in patterns]
    for field in fields:
        for at, pattern in enumerate(patterns):
            found[at] += field.on_pattern(pattern)
    return found


def _solved(
    problem: Problem,
    given: sp.csr_matrix,
    found: list[Block],
    edges: NewEdges,
    done: Convergence,
    floor: float,
    told: str,
    about: dict[str, Any],
) -> Solved:
    largest = max(float(np.abs(values).max(initial=0.0)) for values in (*found, edges.beliefs))
    agree = float(np.mean(found[1] * given.data > 0)) if given.nnz else 1.0
    about = {"propagation": done.solver, "sources": problem.sources.count, **about}
    return Solved(Adjustment(found[0], edges), done, largest, agree, floor, told, about)
