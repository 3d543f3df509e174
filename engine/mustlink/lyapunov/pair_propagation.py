"""F on pairs that are needed: one program for memory, disk and ranks, one rule for the solver.

By diffusion F is found part by part of the constraints, in the regions that their sources reach:
what is outside of a region does not matter to its sources, by the bounds of `filters`. In memory
there is one region, of all nodes, and one part where that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.method_cost import region_bytes
from mustlink.context.rates import SPREAD_DENSE_BELOW
from mustlink.core.observe import Recorder
from mustlink.core.result import TIME_LIMIT, Convergence
from mustlink.errors import InputError
from mustlink.linear.cg import Advance, silent, towards
from mustlink.lyapunov.fields import (
    FLOOR,
    LocalField,
    LowRankField,
    LyapunovProblem,
    NewEdges,
    Problem,
    best_of_pairs,
    none,
    residual,
    solve_dense,
    strongest,
)
from mustlink.lyapunov.filters import Diffusion, reached, starts_of
from mustlink.lyapunov.krylov import KrylovBatch, convergence, solve_batches
from mustlink.lyapunov.regions import MemoryRows, PartialSums, Region
from mustlink.lyapunov.sources import Sources, source_pairs, source_parts
from mustlink.operators.protocol import Edges

SOLVERS = ("auto", "dense", "diffusion", "krylov")
MEMORY = 2 << 30  # bytes for one batch of constraints, unless the caller says otherwise
SEARCH_MU, SEARCH_TOL = 0.2, 1e-3  # where new edges are looked for when F is nowhere small
_NODE = 2_048  # bytes a node for a batch, if `MEMORY` is less, where blocks are not in one memory
_LOCAL_MU = 0.02  # for smaller μ sources reach most nodes of most graphs
_ALL_BELOW = 5_000  # nodes up to which every pair may become an edge
_ROWS_BELOW = 20_000  # nodes: below, all of a low-rank F is looked through for new edges
_SMALL = 10.0  # times the largest |F|: below it, F counts and not the beliefs
_PAIR = 100  # bytes that such a pair takes, on the way
_AT_ONCE = 1 << 18  # pairs of which F is found in one go
_PROBES, _MANY = (16, 2), 1_000  # for up to so many sources, and beyond: ‖Rz‖ hardly varies then
_SAMPLE = 8  # sources that are spread to see how far they reach
_PARTS, _FEW = 24, 16  # of the constraints where nothing limits them, of so many sources at least
_WHOLE = 1 << 28  # bytes up to which they are not divided at all
_SPREADING = 0.7  # share of the time until the sources are spread

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PropagatedPairs:
    """F where it is needed, on edges `beliefs` (nnz,) and as `new` ones, and how it was found.

    On disk and on ranks F on edges is with the rows, and `beliefs` is None. `largest` is the
    largest |F_ij| of all that were computed, `agreement` the share of the constraints whose F has
    their sign; |F| up to `floor` is taken for zero; `counts` are edges strengthened, weakened,
    added and untouched; `summary` is a line for the report, `about` how the constraints were
    divided. `quality`: the relative `residual`, and the mean number of nodes that a source reaches
    as `reach`, where all of F was in memory at a time.
    """

    beliefs: Floats | None
    new: NewEdges
    convergence: Convergence
    largest: float
    agreement: float
    floor: float
    counts: dict[str, Any]
    summary: str
    about: dict[str, Any]
    quality: dict[str, float]


def choose(problem: Problem, solver: str, *, everywhere: bool = False, at_home: bool = True) -> str:
    """The solver that "auto" stands for, LAPACK where F is wanted everywhere; raises InputError."""
    if everywhere:
        if solver not in ("auto", "dense"):
            raise InputError(
                f'new_edges: "all" takes every F, which is for "dense", not "{solver}"'
            )
        if problem.size > _ALL_BELOW:
            raise InputError(
                f'new_edges: "all" makes a graph of all pairs of {problem.size:,} nodes; at most '
                f"{_ALL_BELOW:,} will do, give a number such as 20"
            )
        return "dense"
    if solver == "krylov" and not isinstance(problem, LyapunovProblem):
        raise InputError('solver: "krylov" is for SRCP; use "diffusion" or "dense" for E2CP')
    if solver != "auto":
        return solver
    if at_home and problem.size <= SPREAD_DENSE_BELOW:
        return "dense"
    far = isinstance(problem, LyapunovProblem) and problem.mu < _LOCAL_MU
    return "krylov" if far else "diffusion"


def solve_pairs(
    problem: Problem,
    recorder: Recorder,
    *,
    rows: MemoryRows | None = None,
    places: Ints | None = None,
    new_edges: int | None = 20,
    solver: str = "auto",
    tol: float = 1e-3,
    memory: int = MEMORY,
) -> PropagatedPairs:
    """F on the graph's edges, on constrained pairs and on at most `new_edges` new edges per node.

    `rows` of W are where they are, with room for factors; None: in memory, with `memory` bytes.
    `places` (t,), rising, are the nodes that the rows of the sources' B (t, c) are, None: all.
    None makes every F_ij > 0 an edge, by LAPACK, up to 5,000 nodes.

    * "dense": every entry by LAPACK, O(m³); "auto" takes it up to 2,000 nodes in memory.
    * "diffusion": every entry to tol·max|Y|; "auto" takes it for larger graphs.
    * "krylov": residual tol in the Frobenius norm for any μ; "auto" takes it for μ < 0.02. Above
      20,000 nodes, and elsewhere than in memory, it looks for new edges where diffusion with
      μ = 0.2 finds F > 0, and says so. Raises InputError for E2CP, which needs no such solver.

    Of nodes that stand for several copies the problem's solution is C^½FC^½, see `sources_at`, and
    F of one copy and another is returned, as sharp as `tol` says.

    Neither of the last two holds much more than its room for its factors: the constraints are taken
    in parts where need be. On ranks the same bits on any number of them.
    """
    everywhere = new_edges is None
    if rows is None:
        copies = getattr(problem.laplacian, "weights", None)
        rows = MemoryRows(problem.laplacian, memory, copies)
    chosen = choose(problem, solver, everywhere=everywhere, at_home=rows.in_memory)
    most = problem.size if new_edges is None else new_edges
    spec = PropagationSpec(problem, rows, most, tol, recorder, places, everywhere)
    if problem.sources.count == 0:
        recorder.note("constraints: nothing to spread, the graph stays as it is")
        done = Convergence("none", "nothing to solve", 0, np.zeros(1), tol)
        return spec.answer(np.empty(0), none(), 0.0, done, "nothing to spread")
    with recorder.stage("constraint propagation") as advance:
        return _SOLVERS[chosen](replace(spec, advance=advance))


@dataclass(frozen=True, eq=False)
class PropagationSpec:
    """What F is wanted for, and by what means."""

    problem: Problem
    rows: MemoryRows
    new_edges: int
    tol: float
    recorder: Recorder
    places: Ints | None = None
    everywhere: bool = False
    advance: Advance = silent

    @cached_property
    def known(self) -> tuple[Ints, Floats]:
        """The constrained pairs as numbers, rising, where F is always wanted, and their beliefs."""
        pattern, beliefs = source_pairs(self.problem.sources)
        first, second, once = upper(pattern)
        if self.places is not None:
            first, second = self.places[first], self.places[second]
        return first * self.problem.size + second, beliefs[once]

    @cached_property
    def of_all_nodes(self) -> Problem:
        """The problem with its sources among all nodes."""
        if self.places is None:
            return self.problem
        Y = self.problem.sources.at(self.places, self.problem.size)
        return replace(self.problem, sources=Y)

    @cached_property
    def largest(self) -> float:
        """Largest |Y_ij| of two copies."""
        Y, copies = self.problem.sources, self.rows.copies
        if copies is None:
            return Y.largest
        often = copies if self.places is None else copies[self.places]
        return Y.scaled(1.0 / np.sqrt(often)).largest

    @cached_property
    def sharp(self) -> float:
        """The bound on errors of the problem's solution, as a share of its largest source."""
        copies = self.rows.copies
        if copies is None:
            return self.tol
        gain = self.problem.sources.largest / (float(copies.min()) * self.largest)
        return self.tol / max(1.0, gain)

    def krylov_tol(self, problem: LyapunovProblem) -> float:
        """The bound on the relative residual: F is as small as μ."""
        return self.sharp * min(1.0, problem.mu / SEARCH_MU)

    @property
    def floor(self) -> float:
        """|F| that is taken for zero, by the size of the beliefs."""
        return FLOOR * self.tol * self.largest

    def exact_floor(self, F: Floats) -> float:
        """The same where F is not cut off: less where all of it is far below the beliefs."""
        largest = max(self.rows.largest(), float(np.abs(F).max(initial=0.0)))
        return FLOOR * self.tol * min(self.largest, _SMALL * largest)

    def answer(
        self,
        F: Floats,
        new: NewEdges,
        floor: float,
        done: Convergence,
        summary: str,
        quality: dict[str, float] | None = None,
        **about: Any,
    ) -> PropagatedPairs:
        """The result from F of the constrained pairs and on new edges; the rows have the others."""
        ends = [self.rows.largest(), *(np.abs(f).max(initial=0.0) for f in (F, new.beliefs))]
        agreement = float(np.mean(F * self.known[1] > 0)) if F.size else 1.0
        if count := self.problem.sources.count:
            about = {"propagation": done.solver, "sources": count, **about}
        counts, largest = self.rows.counts(floor, new.count), float(max(ends))
        beliefs = self.rows.beliefs if self.rows.in_memory else None
        return PropagatedPairs(
            beliefs, new, done, largest, agreement, floor, counts, summary, about, quality or {}
        )


def _by_lapack(spec: PropagationSpec) -> PropagatedPairs:
    """All of F at once."""
    problem, rows, m = spec.of_all_nodes, spec.rows, spec.problem.size
    if spec.everywhere:
        spec.recorder.budget.ask(_PAIR * m * m, f"all pairs of {m:,} nodes as edges")
    field = solve_dense(problem)
    left = residual(problem, field)
    field = rows.of_copies(field)
    rows.add(field)
    F = rows.of_pairs(field, *np.divmod(spec.known[0], m))
    floor = 0.0 if spec.everywhere else spec.exact_floor(F)
    new = strongest(field, problem.laplacian.pattern, spec.new_edges, floor)
    done = Convergence("dense", "direct", 1, np.array([left]), spec.tol)
    summary = f"dense: all of F, relative residual {left:.1e}"
    return spec.answer(F, new, floor, done, summary, {"residual": left})


def _by_diffusion(spec: PropagationSpec) -> PropagatedPairs:
    """All constraints at once, or in parts within the room there is."""
    spreading = Spreading(spec, Diffusion.prepare(spec.problem, spec.sharp, spec.places))
    F, new = spreading.run()
    diffusion = spreading.diffusion
    accuracy = np.array([diffusion.plan.bound / spec.problem.sources.largest])
    steps = diffusion.filter.degree
    done = Convergence("diffusion", "tolerance", steps, accuracy, spec.tol)
    summary = f"diffusion: every F within {accuracy[0]:.2g} of the largest belief, {steps} steps"
    return spec.answer(F, new, spec.floor, done, summary, spreading.quality, **spreading.about)


def _by_krylov(spec: PropagationSpec) -> PropagatedPairs:
    """One batch of constraints after the other, of which only entries stay in memory.

    Of small graphs in memory factors stay, and all rows of F are searched for new edges.
    """
    problem, rows, m = spec.of_all_nodes, spec.rows, spec.problem.size
    assert isinstance(problem, LyapunovProblem)
    whole = rows.in_memory and m <= _ROWS_BELOW
    near = none() if whole or not spec.new_edges else _where_near(spec)
    known, searched = spec.known[0], near.first * m + near.second
    keys = np.union1d(known, searched)
    sharp, F = spec.krylov_tol(problem), np.zeros(1)
    in_memory = rows.in_memory and rows.room is not None
    room = rows.room if in_memory else max(MEMORY, _NODE * m)
    how: dict[str, Any] = {"on_step": towards(sharp, spec.advance)}
    batches: list[KrylovBatch] = []
    fields: list[LowRankField] = []
    until = spec.recorder.deadline
    for batch in solve_batches(problem, tol=sharp, memory=room, deadline=until, **how):
        field = rows.of_copies(batch.field)
        rows.add(field)
        F = F + rows.of_pairs(field, *np.divmod(keys, m))
        batches.append(replace(batch, field=LowRankField((), m)))
        fields += [field] if whole else []
    F = rows.joined(F)
    done = convergence(problem, batches, sharp)
    if not done.converged.all():
        cut = done.reason == TIME_LIMIT
        (spec.recorder.skip_for_time if cut else spec.recorder.warn)(done.status)
    on_known = F[np.searchsorted(keys, known)]
    floor = spec.exact_floor(on_known)
    if whole:
        field = LowRankField(tuple(t for f in fields for t in f.terms), m)
        new = strongest(field, problem.laplacian.pattern, spec.new_edges, floor)
    else:
        near = replace(near, beliefs=F[np.searchsorted(keys, searched)])
        new = best_of_pairs(near, spec.new_edges, floor)
    left = float(done.residuals.max())
    summary = f"krylov: relative residual {left:.1e} in {done.iterations} steps"
    quality = {"residual": left}
    return spec.answer(on_known, new, floor, done, summary, quality, batches=len(batches))


def _where_near(spec: PropagationSpec) -> NewEdges:
    """Where diffusion with a larger μ finds new edges: nearly every F_ij > 0 for a small one."""
    problem: Any = spec.problem
    spec.recorder.note(
        f"new edges are looked for where diffusion with mu = {SEARCH_MU} finds F > 0: with "
        f"mu = {problem.mu:g} nearly every node reaches every other"
    )
    near = replace(problem, mu=SEARCH_MU)
    search = replace(spec, problem=near, new_edges=2 * spec.new_edges, tol=SEARCH_TOL)
    diffusion = Diffusion.prepare(near, SEARCH_TOL, spec.places)
    return Spreading(replace(search, advance=silent), diffusion, on_edges=False).run()[1]


_SOLVERS = {"dense": _by_lapack, "diffusion": _by_diffusion, "krylov": _by_krylov}


@dataclass(eq=False)
class Spreading:
    """F by diffusion: parts of the constraints, one after the other, each in its region.

    New edges are first those that are among the largest of one part; then whatever can be as large
    in the sum as the last of a node's: that is above its share in some part, as in TPUT. Where
    fields are spread again, in memory, the first are enough.
    Source: Cao & Wang 2004.
    """

    spec: PropagationSpec
    diffusion: Diffusion
    on_edges: bool = True  # whether F on edges is wanted
    done: int = 0
    about: dict[str, Any] = field(default_factory=dict)
    quality: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows, self.size = self.spec.rows, self.spec.problem.size
        self.fields: list[tuple[int, Ints, Callable[[], tuple[LocalField, Edges]]]] = []
        self.candidates: list[Ints] = []
        self.parts_of = np.zeros(self.size, dtype=np.int16)  # parts that reach a node
        self.of_all = 1  # parts, as far as is known

    def run(self) -> tuple[Floats, NewEdges]:
        """F of the pairs of the constraints, and new edges; F on edges is delivered to the rows."""
        parts = self._parts()
        self.about["terms"] = int(self.diffusion.filter.weights.size)
        if self.rows.in_memory and len(parts) > 1:
            count = self.spec.problem.sources.count
            self.spec.recorder.note(
                f"{count:,} sources are spread in {len(parts)} parts, twice, to save memory"
            )
        self._spread(parts)
        self.about["parts"] = self.done
        known, near, floor = self.spec.known[0], self._of_all(self.candidates), self.spec.floor
        queries = np.union1d(near, known)
        F = self._sums(queries)
        on_known, F = F[np.searchsorted(queries, known)], F[np.searchsorted(queries, near)]
        del queries
        if not self.rows.in_memory:
            missed = np.setdiff1d(self._of_all(self._missed(near, F)), near, assume_unique=True)
            on_missed = self._sums(missed)
            large, some = floor < F, floor < on_missed
            near = np.append(near[large], missed[some])
            F = np.append(F[large], on_missed[some])
        self.fields.clear()
        wanted = NewEdges(*np.divmod(near, self.size), F)
        return on_known, best_of_pairs(wanted, self.spec.new_edges, floor)

    # --- parts

    def _parts(self) -> list[Sources]:
        """The constraints, in as few parts as there is room for."""
        Y, room = self.spec.problem.sources, self.rows.room
        if self.rows.in_memory:
            each = max(1.0, self.diffusion.bytes_per_source())
            count = Y.count if room is None else max(2, int(room / each))
            return [Y] if Y.count <= count else list(source_parts(Y, count))
        if room is None and self._bytes(self.size, float(self.size) * Y.count) <= _WHOLE:
            return [Y]
        if room is None:
            return list(source_parts(Y, max(_FEW, -(-Y.count // _PARTS))))
        chosen = np.unique(np.linspace(0, Y.count - 1, min(_SAMPLE, Y.count)).astype(np.int64))
        alone = [Sources(sp.csc_matrix(Y.B[:, [a]]), sp.csr_matrix((1, 1))) for a in chosen]
        reach = float(self._sizes(self._reached(alone)).mean())
        count = Y.count
        while count > 2 and self._bytes(min(self.size, count * reach), count * reach) > room:
            count = max(2, count * 3 // 4)
        return [Y] if count == Y.count else list(source_parts(Y, count))

    def _bytes(self, nodes: float, entries: float) -> float:
        """About what a region of so many nodes takes, and factors of so many entries."""
        width = self.diffusion.filter.weights.size
        entry = 3 * width * np.dtype(self.diffusion.dtype).itemsize + 24
        edges = nodes / self.size * self.rows.n_entries
        return region_bytes(nodes, edges) + entries * entry

    def _reached(self, parts: list[Sources]) -> Any:
        laplacian, places = self.rows.laplacian, self.spec.places
        assert places is not None
        root = laplacian.space.take(laplacian.space.column(laplacian.root_degree), places)[:, 0]
        return reached(self.diffusion, places, starts_of(parts, root))

    def _sizes(self, seen: Any) -> Floats:
        result: Floats = self.rows.laplacian.space.dots(seen, seen)
        return result

    # --- F

    def _spread(self, parts: list[Sources]) -> None:
        """F of every part on the edges of its region, and where new edges may be."""
        left = list(parts)
        while left:
            some, seen = left[: self.rows.at_once], None
            if not self.rows.in_memory:
                seen = self._reached(some)
                smaller = self._cut(some, seen)
                if len(smaller) > len(some):
                    left[: len(some)] = smaller
                    continue
            self.of_all = self.done + len(left)
            for column, region in self.rows.rounds(seen):
                result = None
                if region is not None:
                    result = self._in(region, some[column], self.done + column)
                if self.on_edges:
                    self.rows.deliver(region, result)
            self.done += len(some)
            left = left[len(some) :]

    def _cut(self, parts: list[Sources], seen: Any) -> list[Sources]:
        """The same with parts in two whose region is larger than there is room for."""
        room = self.rows.room
        if room is None:
            return parts
        result: list[Sources] = []
        for size, Y in zip(self._sizes(seen), parts, strict=True):
            wide = self._bytes(size, 0.0) > room
            result += source_parts(Y, max(2, Y.count // 2)) if wide else [Y]
        return result

    def _in(self, region: Region, Y: Sources, number: int) -> Floats:
        """F of a part on the edges of its region; and what is needed of it later."""
        places, laplacian = self.spec.places, region.laplacian
        if places is not None:
            Y = Y.at(np.searchsorted(region.nodes, places), region.nodes.size)
        problem: Any = replace(self.spec.problem, laplacian=laplacian, sources=Y)
        diffusion = replace(self.diffusion, problem=problem)
        advance = self.spec.advance

        def spread() -> LocalField:
            return self.rows.of_copies(diffusion.spread(Y))

        field = diffusion.spread(
            Y, lambda part: advance(_SPREADING * (number + part) / self.of_all)
        )
        in_memory, in_parts = self.rows.in_memory, self.of_all > 1
        if in_memory and self.on_edges and not in_parts:
            probes = _PROBES[Y.count > _MANY]
            left = residual(problem, field, probes=probes)
            self.quality = {"residual": left, "reach": field.source_support}
        field, pattern = self.rows.of_copies(field), laplacian.pattern
        near = upper(field.candidates(pattern, self.spec.new_edges))
        self.candidates.append(self._keys(region.nodes[near[0]], region.nodes[near[1]]))
        result = field.on_pattern(pattern) if self.on_edges else np.empty(0)
        if not in_memory:
            self.parts_of[region.nodes[np.unique(field.rows)]] += 1
        load = self.rows.stored(field, pattern, spread if in_memory and in_parts else None)
        self.fields.append((number, region.nodes, load))
        return result

    # --- new edges, and the pairs of the constraints

    def _keys(self, first: Ints, second: Ints) -> Ints:
        """Pairs of nodes as numbers."""
        low, high = np.minimum(first, second), np.maximum(first, second)
        return np.asarray(low.astype(np.int64) * self.size + high)

    def _of_all(self, keys: list[Ints]) -> Ints:
        """What all processes found, each once, rising."""
        own = np.unique(np.concatenate([np.empty(0, np.int64), *keys]))
        keys.clear()
        return np.unique(self.rows.joined(own))

    def _sums(self, queries: Ints) -> Floats:
        """F of pairs, the sum over parts."""

        def parts() -> Iterator[PartialSums]:
            for number, nodes, load in self.fields:
                local = load()[0]
                for first in range(0, queries.size, _AT_ONCE):
                    ends = np.divmod(queries[first : first + _AT_ONCE], self.size)
                    at, values = _of_ends(local, nodes, ends)
                    yield number, at + first, values

        return self.rows.summed(parts(), queries.size)

    def _missed(self, near: Ints, F: Floats) -> list[Ints]:
        """Pairs that may be among the largest of a node, by what the parts here say."""
        floor, most = self.spec.floor, self.spec.new_edges
        ends, values = np.concatenate(np.divmod(near, self.size)), np.append(F, F)
        order = np.lexsort((-values, ends))
        full_nodes, first, counts = np.unique(ends[order], return_index=True, return_counts=True)
        full = counts >= most
        full_nodes, last = full_nodes[full], values[order][first[full] + most - 1]
        parts_of, result = self.rows.added(self.parts_of), []
        for _, nodes, load in self.fields if most else ():
            least = np.full(nodes.size, floor)
            _, here, there = np.intersect1d(nodes, full_nodes, True, return_indices=True)
            least[here] = np.maximum(last[there], floor)
            field, pattern = load()
            pairs = field.may_be_above(pattern, least, parts_of[nodes])
            result.append(self._keys(*(nodes[ends] for ends in pairs)))
        return result


def upper(pattern: Edges) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Every pair i < j of a symmetric pattern, and which of its entries they are."""
    first, second = pattern.rows.astype(np.int64), pattern.indices.astype(np.int64)
    once = first < second
    return first[once], second[once], once


def _of_ends(field: LocalField, nodes: Ints, ends: tuple[Ints, Ints]) -> tuple[Ints, Floats]:
    """F of a part for pairs whose ends are both in its region: which, and F, where it is not 0."""
    first, second = (np.minimum(np.searchsorted(nodes, at), nodes.size - 1) for at in ends)
    inside = np.flatnonzero((nodes[first] == ends[0]) & (nodes[second] == ends[1]))
    pairs = NewEdges(first[inside], second[inside], np.zeros(inside.size))
    pattern = pairs.pattern(nodes.size)
    values = field.on_pattern(pattern)[upper(pattern)[2]]
    nonzero = np.flatnonzero(values)
    return inside[nonzero], values[nonzero]
