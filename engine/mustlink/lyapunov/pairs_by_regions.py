"""F of a graph on disk or on ranks: part by part, in the regions that sources reach.

In a region everything is as at home, see `diffusion` and `fields`; what is outside of it does not
matter to its sources, by the bounds of `diffusion`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.cost.method_cost import region_bytes
from mustlink.linear.by_columns import Advance
from mustlink.lyapunov.diffusion import Diffusion
from mustlink.lyapunov.equation import Problem
from mustlink.lyapunov.fields import FLOOR, LocalField
from mustlink.lyapunov.new_edges import NewEdges, best_of_pairs, none
from mustlink.lyapunov.reach import reached, starts_of
from mustlink.lyapunov.regions import Region, SpreadRows, Told
from mustlink.lyapunov.source_batches import source_parts
from mustlink.lyapunov.sources import Sources, given_pairs
from mustlink.observe import Recorder
from mustlink.operators.edges import Edges
from mustlink.result import Convergence

_SAMPLE = 8  # sources that tell how far they reach
_PARTS, _FEW = 24, 16  # of the constraints where nothing limits them, of so many sources at least
_WHOLE = 1 << 28  # bytes up to which they are not divided at all

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SpreadPairs:
    """F where it is needed: on edges, where the rows are, and as `new` ones; see `PropagatedPairs`.

    `counts` are edges strengthened, weakened, added and untouched.
    """

    new: NewEdges
    convergence: Convergence
    largest: float
    agreement: float
    floor: float
    counts: dict[str, int]
    told: str
    about: dict[str, Any]


def spread_pairs(
    rows: SpreadRows,
    problem: Problem,
    places: Ints,
    recorder: Recorder,
    *,
    new_edges: int = 20,
    tol: float = 1e-3,
) -> SpreadPairs:
    """F on all edges, on the given pairs and on at most `new_edges` new edges of a node.

    `places` (t,), rising, are the nodes that the rows of the sources' B (t, c) are. As by
    `solve_pairs` with solver="diffusion", to the same bound. Raises InputError.
    """
    Y = problem.sources
    if Y.count == 0:
        recorder.note("constraints: nothing to spread, the graph stays as it is")
        done = Convergence("none", "nothing to solve", 0, np.zeros(1), tol)
        edges = counts_of(rows.told(0.0), 0)
        return SpreadPairs(none(), done, 0.0, 1.0, 0.0, edges, "nothing to spread", {})
    with recorder.stage("constraint propagation") as advance:
        diffusion = Diffusion.prepare(problem, tol, places)
        work = _Spreading(rows, diffusion, places, new_edges, advance)
        work.spread(work.parts())
        floor = FLOOR * tol * Y.largest
        ends, beliefs = _upper(*given_pairs(Y))
        pairs = work.keys(places[ends[0]], places[ends[1]])
        queries, found = work.asked(pairs, floor)
        new = work.best(queries, found, floor)
        told = rows.told(floor)
    F = found[np.searchsorted(queries, pairs)]
    agreement = float(np.mean(F * beliefs > 0)) if beliefs.size else 1.0
    largest = max(told.largest, *(float(np.abs(f).max(initial=0.0)) for f in (F, new.beliefs)))
    accuracy = np.array([diffusion.plan.bound / Y.largest])
    done = Convergence("diffusion", "tolerance", diffusion.filter.degree, accuracy, tol)
    said = f"diffusion: every F within {accuracy[0]:.2g} of the largest belief, "
    said += f"{diffusion.filter.degree} steps"
    about = {"propagation": "diffusion", "sources": Y.count, "parts": work.done}
    edges = counts_of(told, new.count)
    return SpreadPairs(new, done, largest, agreement, floor, edges, said, about)


def counts_of(told: Told, added: int) -> dict[str, int]:
    """Edges by what F does to them."""
    named = {"strengthened": told.up, "weakened": told.down, "added": added}
    return {**named, "untouched": told.every - told.up - told.down}


def _upper(pattern: Edges, values: Floats) -> tuple[tuple[Ints, Ints], Floats]:
    """Every pair of a symmetric pattern once."""
    first, second = pattern.rows.astype(np.int64), pattern.indices.astype(np.int64)
    once = first < second
    return (first[once], second[once]), values[once]


@dataclass(eq=False)
class _Spreading:
    """Parts of the constraints, one after the other."""

    rows: SpreadRows
    diffusion: Diffusion
    places: Ints
    new_edges: int
    advance: Advance
    done: int = 0

    def __post_init__(self) -> None:
        laplacian = self.rows.laplacian
        space = laplacian.space
        self.size = int(laplacian.size)
        self.root = space.take(space.column(laplacian.root_degree), self.places)[:, 0]
        self.fields: list[tuple[int, Ints, Callable[[], tuple[LocalField, Edges]]]] = []
        self.candidates: list[Ints] = []
        self.parts_of = np.zeros(self.size, dtype=np.int16)  # parts that reach a node

    # --- parts

    def parts(self) -> list[Sources]:
        """The constraints, in as few parts as there is room for."""
        Y, room = self.diffusion.problem.sources, self.rows.room
        if room is None and self.bytes(self.size, float(self.size) * Y.count) <= _WHOLE:
            return [Y]
        if room is None:
            return list(source_parts(Y, max(_FEW, -(-Y.count // _PARTS))))
        chosen = np.unique(np.linspace(0, Y.count - 1, min(_SAMPLE, Y.count)).astype(np.int64))
        alone = [Sources(sp.csc_matrix(Y.B[:, [a]]), sp.csr_matrix((1, 1))) for a in chosen]
        reach = float(self._sizes(self._reached(alone)).mean())
        count = Y.count
        while count > 2 and self.bytes(min(self.size, count * reach), count * reach) > room:
            count = max(2, count * 3 // 4)
        return [Y] if count == Y.count else list(source_parts(Y, count))

    def bytes(self, nodes: float, entries: float) -> float:
        """About what a region of so many nodes takes, and factors of so many entries."""
        width = self.diffusion.filter.weights.size
        entry = 3 * width * np.dtype(self.diffusion.dtype).itemsize + 24
        edges = nodes / self.size * self.rows.n_entries
        return region_bytes(nodes, edges) + entries * entry

    def _reached(self, parts: list[Sources]) -> Any:
        return reached(self.diffusion, self.places, starts_of(parts, self.root))

    def _sizes(self, seen: Any) -> Floats:
        found: Floats = self.rows.laplacian.space.dots(seen, seen)
        return found

    # --- F

    def spread(self, parts: list[Sources]) -> None:
        """F of every part on the edges of its region, and where new edges may be."""
        left = list(parts)
        while left:
            some = left[: self.rows.at_once]
            seen = self._reached(some)
            smaller = self._cut(some, seen)
            if len(smaller) > len(some):
                left[: len(some)] = smaller
                continue
            for column, region in self.rows.rounds(seen):
                found = None
                if region is not None:
                    found = self._in(region, some[column], self.done + column)
                self.rows.deliver(region, found)
            self.done += len(some)
            left = left[len(some) :]
            self.advance(self.done / (self.done + len(left)))

    def _cut(self, parts: list[Sources], seen: Any) -> list[Sources]:
        """The same with parts in two whose region is larger than there is room for."""
        room = self.rows.room
        if room is None:
            return parts
        found: list[Sources] = []
        for size, Y in zip(self._sizes(seen), parts, strict=True):
            wide = self.bytes(size, 0.0) > room
            found += source_parts(Y, max(2, Y.count // 2)) if wide else [Y]
        return found

    def _in(self, region: Region, Y: Sources, number: int) -> Floats:
        place = np.searchsorted(region.nodes, self.places)
        held = np.flatnonzero(np.diff(sp.csr_matrix(Y.B).indptr))
        at = np.zeros(self.places.size, dtype=np.int32)
        at[held] = place[held]
        shape = (region.nodes.size, Y.count)
        B = sp.csc_matrix((Y.B.data, at[Y.B.indices], Y.B.indptr), shape=shape)
        problem: Any = self.diffusion.problem
        here = replace(problem, laplacian=region.laplacian, sources=Sources(B, Y.C))
        field = replace(self.diffusion, problem=here).spread(here.sources)
        pattern = region.laplacian.pattern
        near = field.candidates(pattern, self.new_edges)
        (first, second), _ = _upper(near, np.empty(near.nnz))
        self.candidates.append(self.keys(region.nodes[first], region.nodes[second]))
        found = field.on_pattern(pattern)
        self.parts_of[region.nodes[np.unique(field.rows)]] += 1
        self.fields.append((number, region.nodes, self.rows.kept(field, pattern)))
        return found

    # --- new edges, and the given pairs

    def keys(self, first: Ints, second: Ints) -> Ints:
        """Pairs of nodes as numbers."""
        low, high = np.minimum(first, second), np.maximum(first, second)
        return np.asarray(low.astype(np.int64) * self.size + high)

    def asked(self, given: Ints, floor: float) -> tuple[Ints, Floats]:
        """F of all candidates and of the given pairs, which are told by their keys, rising.

        First those that are among the largest of one part; then whatever can be as large in the sum
        as the last of a node's: that is above its share in some part, as in TPUT.
        Source: Cao & Wang 2004.
        """
        near = self._of_all(self.candidates)
        F = self._sums(near)
        missed = np.setdiff1d(self._of_all(self._missed(near, F, floor)), near)
        self.near = np.union1d(near, missed)
        rest = np.setdiff1d(np.union1d(missed, given), near)
        queries, found = np.append(near, rest), np.append(F, self._sums(rest))
        self.fields.clear()
        order = np.argsort(queries)
        return queries[order], found[order]

    def _of_all(self, keys: list[Ints]) -> Ints:
        """What all processes found, each once, rising."""
        own = np.unique(np.concatenate([np.empty(0, np.int64), *keys]))
        keys.clear()
        return np.unique(self.rows.joined(own))

    def _sums(self, queries: Ints) -> Floats:
        """F of pairs, the sum of what the parts say."""
        first, second = np.divmod(queries, self.size)
        told = [np.empty(0, dtype=_TOLD)]
        for number, nodes, kept in self.fields:
            told.append(_answers(kept()[0], nodes, first, second, number))
        every = self.rows.joined(np.concatenate(told))
        every = every[np.lexsort((every["part"], every["query"]))]  # one order of the sums
        F = np.zeros(queries.size)
        np.add.at(F, every["query"], every["F"])
        return F

    def _missed(self, near: Ints, F: Floats, floor: float) -> list[Ints]:
        """Pairs that may be among the largest of a node, by what the parts here say."""
        ends, values = np.concatenate(np.divmod(near, self.size)), np.append(F, F)
        order = np.lexsort((-values, ends))
        told, first, counts = np.unique(ends[order], return_index=True, return_counts=True)
        full = counts >= self.new_edges
        told, last = told[full], values[order][first[full] + self.new_edges - 1]
        parts_of, found = self.rows.added(self.parts_of), []
        for _, nodes, kept in self.fields if self.new_edges else ():
            least = np.full(nodes.size, floor)
            _, here, there = np.intersect1d(nodes, told, True, return_indices=True)
            least[here] = np.maximum(last[there], floor)
            field, pattern = kept()
            pairs = field.may_be_above(pattern, least, parts_of[nodes])
            found.append(self.keys(*(nodes[ends] for ends in pairs)))
        return found

    def best(self, queries: Ints, found: Floats, floor: float) -> NewEdges:
        """Of the candidates, the largest of every node."""
        values = found[np.searchsorted(queries, self.near)]
        near = NewEdges(*np.divmod(self.near, self.size), values)
        return best_of_pairs(near, self.new_edges, floor)


_TOLD = np.dtype([("query", np.int64), ("part", np.int64), ("F", np.float64)])


def _answers(
    field: LocalField, nodes: Ints, first: Ints, second: Ints, number: int
) -> NDArray[Any]:
    """What a part says of pairs whose ends are both in its region."""
    at = [np.minimum(np.searchsorted(nodes, ends), nodes.size - 1) for ends in (first, second)]
    inside = np.flatnonzero((nodes[at[0]] == first) & (nodes[at[1]] == second))
    pairs = NewEdges(at[0][inside], at[1][inside], np.zeros(inside.size))
    pattern = pairs.pattern(nodes.size)
    _, values = _upper(pattern, field.on_pattern(pattern))
    told = np.flatnonzero(values)
    found = np.empty(told.size, dtype=_TOLD)
    found["query"], found["part"], found["F"] = inside[told], number, values[told]
    return found
