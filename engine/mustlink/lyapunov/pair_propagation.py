"""F on pairs that are needed: which solver, one rule for all, one answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from mustlink.linear.by_columns import Advance, towards
from mustlink.lyapunov.diffusion import Diffusion, solve_diffusion
from mustlink.lyapunov.equation import LyapunovProblem, Problem, residual, solve_dense
from mustlink.lyapunov.fields import (
    FLOOR,
    Field,
    Floats,
    LowRankField,
    NewEdges,
    best_of,
    joined,
    none,
    piece,
    strongest,
)
from mustlink.lyapunov.krylov import Batch, convergence, solve_batches
from mustlink.lyapunov.solver_choice import choose
from mustlink.lyapunov.sources import given_pairs, source_parts
from mustlink.observe import Recorder
from mustlink.operators.edges import Edges
from mustlink.operators.laplacian import Block
from mustlink.result import Convergence
from mustlink.stopping import TIME_LIMIT

FieldOf = TypeVar("FieldOf", bound=Field)
SEARCH_MU, SEARCH_TOL = 0.2, 1e-3  # where new edges are looked for when F is nowhere small
_ROWS_BELOW = 20_000  # nodes: below, all of a low-rank F is looked through for new edges
_SMALL = 10.0  # times the largest |F|: below it, F counts and not the beliefs
_PAIR = 100  # bytes that such a pair takes, on the way
_PROBES, _MANY = (16, 2), 1_000  # for up to so many sources, and beyond: ‖Rz‖ hardly varies then
_SPREADING = 0.7  # share of the time until the sources are spread
MEMORY = 2 << 30  # bytes for one batch of constraints, unless the caller says otherwise


@dataclass(frozen=True, eq=False)
class PropagatedPairs:
    """F where it is needed, on edges `beliefs` (nnz,) and as `new` ones, and how it was found.

    `largest` is the largest |F_ij| of all that were computed, `agreement` the share of the given
    pairs whose F has their sign; |F| up to `floor` is taken for zero; `told` says it in a line.
    """

    beliefs: Block
    new: NewEdges
    convergence: Convergence
    largest: float
    agreement: float
    floor: float
    told: str
    about: dict[str, Any]

    def knowing(self, **more: Any) -> PropagatedPairs:
        """The same with more said about it."""
        return replace(self, about=self.about | more)


def solve_pairs(
    problem: Problem,
    recorder: Recorder,
    *,
    new_edges: int | None = 20,
    solver: str = "auto",
    tol: float = 1e-3,
    memory: int = MEMORY,
    copies: Floats | None = None,
) -> PropagatedPairs:
    """F on the graph's edges, on the given pairs and on at most `new_edges` new edges per node.

    None makes every F_ij > 0 an edge, by LAPACK, up to 5,000 nodes.

    * "dense": every entry by LAPACK, O(m³); "auto" takes it up to 2,000 nodes.
    * "diffusion": every entry to tol·max|Y|; "auto" takes it for larger graphs.
    * "krylov": residual tol in the Frobenius norm for any μ; "auto" takes it for μ < 0.02. Above
      20,000 nodes it looks for new edges where diffusion with μ = 0.2 finds F > 0, and says so.
      Raises InputError for E2CP, which needs no such solver.

    Of nodes that stand for `copies` (m,) the problem's solution is C^½FC^½, see `sources_of`, and F
    of one copy and another is given, as sharp as `tol` says.

    Neither of the last two holds much more than `memory` bytes for its factors: the constraints
    are taken in parts where need be.
    """
    chosen = choose(problem, solver, everywhere=new_edges is None)
    edges = problem.laplacian.pattern
    if problem.sources.count == 0:
        recorder.note("constraints: nothing to spread, the graph stays as it is")
        done = Convergence("none", "nothing to solve", 0, np.zeros(1), tol)
        said = "nothing to spread"
        return PropagatedPairs(np.zeros(edges.nnz), none(), done, 0.0, 1.0, 0.0, said, {})
    with recorder.stage("constraint propagation") as advance:
        everywhere = new_edges is None
        most = problem.size if new_edges is None else new_edges
        asked = Asked(problem, most, tol, memory, recorder, advance, copies, everywhere)
        return _SOLVERS[chosen](asked)


@dataclass(frozen=True, eq=False)
class Asked:
    """What F is wanted for, and by what means."""

    problem: Problem
    new_edges: int
    tol: float
    memory: int
    recorder: Recorder
    advance: Advance
    copies: Floats | None = None
    everywhere: bool = False

    @property
    def edges(self) -> Edges:
        """The graph's edges, where F is always wanted."""
        return self.problem.laplacian.pattern

    @cached_property
    def given(self) -> tuple[Edges, Block]:
        """The given pairs, where F is always wanted, and their beliefs."""
        return given_pairs(self.problem.sources)

    def of_copies(self, field: FieldOf) -> FieldOf:
        """F between copies, of the problem's solution."""
        return field if self.copies is None else field.scaled(1.0 / np.sqrt(self.copies))

    @cached_property
    def largest(self) -> float:
        """Largest |Y_ij| of two copies."""
        Y = self.problem.sources
        return Y.largest if self.copies is None else Y.scaled(1.0 / np.sqrt(self.copies)).largest

    @cached_property
    def sharp(self) -> float:
        """The bound on errors of the problem's solution, as a share of its largest source."""
        if self.copies is None:
            return self.tol
        gain = self.problem.sources.largest / (float(self.copies.min()) * self.largest)
        return self.tol / max(1.0, gain)

    def krylov_tol(self, problem: LyapunovProblem) -> float:
        """The bound on the relative residual: F is as small as μ."""
        return self.sharp * min(1.0, problem.mu / SEARCH_MU)

    @property
    def floor(self) -> float:
        """|F| that is taken for zero, by the size of the beliefs."""
        return FLOOR * self.tol * self.largest

    def exact_floor(self, found: list[Block]) -> float:
        """The same where F is not cut off."""
        largest = max(float(np.abs(values).max(initial=0.0)) for values in found)
        return exact_floor(self.tol, self.largest, largest)

    def on(self, fields: Iterable[Field], more: Sequence[Edges] = ()) -> list[Block]:
        """The sum of the fields on the edges, the given pairs and more patterns."""
        patterns = [self.edges, self.given[0], *more]
        found = [np.zeros(pattern.nnz) for pattern in patterns]
        for one in fields:
            field = self.of_copies(one)
            for at, pattern in enumerate(patterns):
                found[at] += field.on_pattern(pattern)
        return found

    def answer(
        self, found: list[Block], new: NewEdges, floor: float, done: Convergence, told: str
    ) -> PropagatedPairs:
        """F on edges and given pairs, `found`, and on new edges."""
        largest = max(float(np.abs(values).max(initial=0.0)) for values in (*found, new.beliefs))
        beliefs = self.given[1]
        agreement = float(np.mean(found[1] * beliefs > 0)) if beliefs.size else 1.0
        about = {"propagation": done.solver, "sources": self.problem.sources.count}
        return PropagatedPairs(found[0], new, done, largest, agreement, floor, told, about)


def exact_floor(tol: float, largest_belief: float, largest: float) -> float:
    """|F| that is taken for zero: less where all F is far below the beliefs (small μ)."""
    return FLOOR * tol * min(largest_belief, _SMALL * largest)


def _by_lapack(asked: Asked) -> PropagatedPairs:
    """All of F at once."""
    m = asked.problem.size
    if asked.everywhere:
        asked.recorder.budget.ask(_PAIR * m * m, f"all pairs of {m:,} nodes as edges")
    field = solve_dense(asked.problem)
    left = residual(asked.problem, field).relative
    found = asked.on([field])
    floor = 0.0 if asked.everywhere else asked.exact_floor(found)
    new = strongest(asked.of_copies(field), asked.edges, asked.new_edges, floor)
    done = Convergence("dense", "direct", 1, np.array([left]), asked.tol)
    told = f"dense: all of F, relative residual {left:.1e}"
    return asked.answer(found, new, floor, done, told).knowing(residual=left)


def _by_diffusion(asked: Asked) -> PropagatedPairs:
    """All constraints at once, or in parts within the memory: once for F, once for new edges."""
    problem, Y, advance = asked.problem, asked.problem.sources, asked.advance
    diffusion = Diffusion.prepare(problem, asked.sharp)
    room = max(2, int(asked.memory / max(1.0, diffusion.bytes_per_source())))
    about: dict[str, Any] = {"terms": int(diffusion.filter.weights.size)}
    if Y.count <= room:
        field = diffusion.spread(Y, lambda fraction: advance(_SPREADING * fraction))
        new = asked.of_copies(field).strongest(asked.edges, asked.new_edges)
        found = asked.on([field])
        about["reach"] = field.reach
        probes = _PROBES[Y.count > _MANY]
        about["residual"] = residual(problem, field, probes=probes).relative
    else:
        cut = list(source_parts(Y, room))
        asked.recorder.note(
            f"{Y.count:,} sources are spread in {len(cut)} parts, twice, to save memory"
        )
        candidates = none().pattern(problem.size)

        def first() -> Iterator[Field]:
            nonlocal candidates
            for done, part in enumerate(cut):
                field = diffusion.spread(part, piece(advance, done, 2 * len(cut)))
                near = asked.of_copies(field)
                candidates = joined(candidates, near.candidates(asked.edges, asked.new_edges))
                yield field

        found = asked.on(first())
        beliefs = np.zeros(candidates.nnz)
        for done, part in enumerate(cut, len(cut)):
            field = diffusion.spread(part, piece(advance, done, 2 * len(cut)))
            beliefs += asked.of_copies(field).on_pattern(candidates)
        new = best_of(candidates, beliefs, asked.new_edges, asked.floor)
        about["parts"] = len(cut)
    accuracy = np.array([diffusion.plan.bound / Y.largest])
    steps = diffusion.filter.degree
    reached = Convergence("diffusion", "tolerance", steps, accuracy, asked.tol)
    told = f"diffusion: every F within {accuracy[0]:.2g} of the largest belief, {steps} steps"
    return asked.answer(found, new, asked.floor, reached, told).knowing(**about)


def _by_krylov(asked: Asked) -> PropagatedPairs:
    """One batch of constraints after the other; above 20,000 nodes only entries are kept of it."""
    problem = asked.problem
    assert isinstance(problem, LyapunovProblem)
    whole = problem.size <= _ROWS_BELOW
    outside = [] if whole else [_where_near(asked, problem)]
    sharp = asked.krylov_tol(problem)
    batches: list[Batch] = []
    fields: list[LowRankField] = []

    def each() -> Iterator[Field]:
        until, on_step = asked.recorder.deadline, towards(sharp, asked.advance)
        for batch in solve_batches(
            problem, tol=sharp, memory=asked.memory, on_step=on_step, deadline=until
        ):
            batches.append(replace(batch, field=LowRankField((), problem.size)))
            if whole:
                fields.append(batch.field)
            yield batch.field

    found = asked.on(each(), outside)
    done = convergence(problem, batches, sharp)
    if not done.converged.all():
        cut = done.reason == TIME_LIMIT
        (asked.recorder.leave_out if cut else asked.recorder.warn)(done.status)
    floor = asked.exact_floor(found[:2])
    if whole:
        field = LowRankField(tuple(t for f in fields for t in f.terms), problem.size)
        new = strongest(asked.of_copies(field), asked.edges, asked.new_edges, floor)
    else:
        new = best_of(outside[0], found[2], asked.new_edges, floor)
    left = float(done.residuals.max())
    told = f"krylov: relative residual {left:.1e} in {done.iterations} steps"
    answer = asked.answer(found, new, floor, done, told)
    return answer.knowing(residual=left, batches=len(batches))


def note_search(mu: float, recorder: Recorder) -> None:
    """Say where new edges can be."""
    recorder.note(
        f"new edges are looked for where diffusion with mu = {SEARCH_MU} finds F > 0: with "
        f"mu = {mu:g} nearly every node reaches every other"
    )


def _where_near(asked: Asked, problem: LyapunovProblem) -> Edges:
    """Where diffusion with a larger μ finds new edges: nearly every F_ij > 0 for a small one."""
    note_search(problem.mu, asked.recorder)
    near = solve_diffusion(replace(problem, mu=SEARCH_MU), tol=SEARCH_TOL)
    return asked.of_copies(near).strongest(asked.edges, 2 * asked.new_edges).pattern(problem.size)


_SOLVERS = {"dense": _by_lapack, "diffusion": _by_diffusion, "krylov": _by_krylov}
