"""One fit's view of a graph: what is derived from it, its recorder and memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mustlink.context.stage_cache import CheckpointStore, StageCache
from mustlink.core.observe import Recorder
from mustlink.core.result import TIME_LIMIT
from mustlink.graph.graph import Derived, Graph, Key

Value = TypeVar("Value")


@dataclass(frozen=True)
class RegularizedKey(Key[Derived]):
    """What is derived from a graph with regularised degrees."""

    tau: float


@dataclass(frozen=True, eq=False)
class Workspace:
    """A graph with the recorder, keeper and budget of one fit.

    `single`: vectors and S are held in single precision. `memory` is the most that the process may
    take, in bytes, None without a limit, `held` of it the caller's points. What is derived stays
    with the graph (`Graph.derived`) for the next fit, and with a keeper on disk for the next run;
    both under the same keys. `row_weights` (rows,) are what the caller's rows count, None: what the
    graph says. `tau` is added to every degree, in units of the mean one: a graph has a Laplacian,
    grids and vectors for each.
    """

    graph: Graph
    recorder: Recorder = field(default_factory=Recorder)
    keeper: CheckpointStore | None = None
    memory: int | None = None
    single: bool = False
    held: int = 0
    row_weights: NDArray[np.float64] | None = None
    tau: float = 0.0

    def regularized(self, tau: float) -> Workspace:
        """The view in which every degree has τ times the mean one added."""
        return replace(self, tau=tau)

    @property
    def derived(self) -> Derived:
        """What memory keeps: for the degrees as they are, and for the latest τ beside them."""
        plain = self.graph.derived
        if self.tau == 0.0:
            return plain
        origin = self.shelf.name_of("regularized degrees", plain.origin, self.tau)
        return of_regularized(plain, self.tau, origin)

    def let_go_of_regularized(self) -> None:
        """Forget what memory keeps for the latest τ: its vectors are as many as those to come."""
        self.graph.derived.drop(RegularizedKey)

    @property
    def room(self) -> int | None:
        """Memory beside the points."""
        return None if self.memory is None else self.memory - self.held

    @property
    def weight_of_rows(self) -> NDArray[np.float64]:
        """What every row of the caller counts, (rows,)."""
        found = self.graph.row_weights() if self.row_weights is None else self.row_weights
        return np.ones(self.graph.n_rows) if found is None else found

    @property
    def shelf(self) -> StageCache:
        """Where results of stages are kept for a later run."""
        return StageCache(self.recorder, self.keeper)

    def derive(self, stage: str, key: Key[Value], compute: Callable[[], Value]) -> Value:
        """What the key asks for: from memory, from disk, or computed now and kept in both.

        What memory held of the kind goes before another is computed.
        """
        return self.remember(key, lambda: self.store(stage, key, compute))

    def store(self, stage: str, key: Key[Value], compute: Callable[[], Value]) -> Value:
        """As `derive`, on disk only: for what is kept in memory in another form."""
        pair = self.shelf.kept(
            stage,
            self.name(stage, key.identity()),
            lambda: (key, compute()),
            (*key.types, type(key)),
            lambda found: found[0].serves(key, found[1]),
        )
        return pair[1]

    def remember(self, key: Key[Value], compute: Callable[[], Value]) -> Value:
        """As `derive`, in memory only: what is quicker made than read."""
        return remember(self.derived, self.recorder, key, compute)

    def name(self, stage: str, *depends: Any) -> str | None:
        """Name of a result made from this graph; None where it cannot be kept."""
        return self.shelf.name_of(stage, self.derived.origin, *depends)

    def on(self, graph: Graph) -> Workspace:
        """The same fit's view of another graph."""
        return replace(self, graph=graph, row_weights=None)


def remember(
    derived: Derived, recorder: Recorder, key: Key[Value], compute: Callable[[], Value]
) -> Value:
    """What is kept in memory under the key, or what `compute` gives, which is kept then."""
    found, missing = derived.find(key), derived.left_out(type(key))
    if found is None or (missing and not recorder.deadline.is_set):
        derived.drop(type(key))
        before = len(recorder.left_out)
        found = compute()
        derived.put(key, found, recorder.left_out[before:])
    else:
        for what in missing:  # nor is what follows that of a fit without a limit
            recorder.skip_for_time(what)
    return found


def of_regularized(plain: Derived, tau: float, origin: str | None = None) -> Derived:
    """What memory keeps for the latest τ beside the degrees as they are."""
    key = RegularizedKey(None, tau)
    found = plain.find(key)
    if found is None:
        found = Derived()
        found.origin = origin
        plain.put(key, found)
    return found


# --- Keys of what iterations find: when a kept solution is what a fresh one would be


@dataclass(frozen=True)
class SolutionKey(Key[Value]):
    """Key of `count` vectors found by an iteration, or of what is made of them.

    A kept solution serves where a fresh one would be the same: for the same solver with the
    same tolerance, seed and budget, and either allowed as many steps or converged in fewer than
    are allowed now. A longer one serves by its beginning, which is at least as sharp.
    One that a time `limit`, in seconds, cut short serves where no more time is given. `extra`
    vectors more need not be sharp: they are what the iteration for just so many makes of them.
    """

    solver: str
    tol: float
    max_iter: int
    seed: int
    budget: int | None
    count: int
    limit: float = field(default=math.inf, kw_only=True)
    extra: int = field(default=0, kw_only=True)

    def serves(self, wanted: Self, value: Value) -> bool:
        """Whether a kept solution is what a fresh one would be."""
        free = {name: getattr(wanted, name) for name in ("max_iter", "count", "limit", "extra")}
        enough = self.count >= wanted.count
        if wanted.extra:
            enough = (self.count, self.extra) == (wanted.count, wanted.extra)
        return enough and replace(self, **free) == wanted and self._steps_suit(wanted, value)

    def identity(self) -> Self:
        """All but the steps and the time allowed: those that were needed are in the value."""
        return replace(self, max_iter=0, limit=math.inf)

    def _steps_suit(self, wanted: Self, value: Any) -> bool:
        reached = value.convergence
        if reached.reason == TIME_LIMIT:
            return wanted.limit <= self.limit
        counted = reached.iterations > 0 or reached.reason == "direct"  # ARPACK counts no steps
        if counted and reached.converged.all():
            return bool(reached.iterations <= wanted.max_iter)
        return self.max_iter == wanted.max_iter
