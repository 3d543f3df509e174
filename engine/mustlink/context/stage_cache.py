"""What is derived from a graph: kept with it while it lives, and on disk from run to run."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core.observe import Recorder
from mustlink.core.result import TIME_LIMIT
from mustlink.graph.disk_graph import DiskGraph, RowBlock
from mustlink.graph.graph import Derived, Graph, Key

Result = TypeVar("Result")


@dataclass(frozen=True)
class StageCache:
    """A store and the recorder of a fit; without a store nothing is kept.

    What a time limit made less of, and all that follows, is neither kept nor recalled.
    Nothing else calls a store.
    """

    recorder: Recorder
    keeper: CheckpointStore | None = None

    @property
    def source(self) -> str | None:
        """What the data are known by; None where results are not kept."""
        return None if self.keeper is None else self.keeper.source

    @property
    def scratch(self) -> Path | None:
        """A folder for large temporary files; None for the usual one."""
        return None if self.keeper is None else self.keeper.scratch

    def name_of(self, stage: str, origin: str | None, *depends: Any) -> str | None:
        """Name of a stage's result: a digest of all that it depends on.

        `origin` names what it is made from; None, where that has no name, results are not kept, or
        something in `depends` has no digest (a classifier, say).
        """
        if self.keeper is None or origin is None or self.recorder.left_out:
            return None
        try:
            return digest((VERSION, stage, origin, depends))
        except TypeError:
            return None

    def settle(self) -> None:
        """Return when what is kept is written: from here on it may be changed."""
        if self.keeper is not None:
            self.keeper.settle()

    def cached(
        self,
        stage: str,
        name: str | None,
        compute: Callable[[], Result],
        types: tuple[type, ...] = (),
        serves: Callable[[Result], bool] = lambda _: True,
    ) -> Result:
        """The result of `compute`, or what an earlier run stored under this name if it serves.

        `types` are the dataclasses in it. `compute` opens stages of its own; remarks made inside it
        are stored with the result and made again.
        """
        keeper, recorder = self.keeper, self.recorder
        if keeper is None or name is None or recorder.left_out:
            return compute()
        started = time.perf_counter()
        found = keeper.recall(stage, name, types)
        if found is not None and serves(found[0]):
            return self._recalled(stage, found, started)
        remarks = self._remarks()
        result = in_c_order(compute())
        if recorder.left_out:
            return result
        seconds = time.perf_counter() - started
        with recorder.stage(f"keeping: {stage}"):
            keeper.keep(stage, name, (result, remarks()), seconds)
        return result

    def cached_graph(
        self, stage: str, name: str | None, make: Callable[[Write], DiskGraph]
    ) -> DiskGraph:
        """As `cached`, of a graph that `make(write)` writes by blocks of rows while it is made.

        Where it is not kept, it is written to temporary files.
        """
        from mustlink.graph.row_buckets import scratch_graph  # loads the compiler

        keeper, recorder = self.keeper, self.recorder
        write: Write = partial(scratch_graph, folder=self.scratch)
        if keeper is None or name is None or recorder.left_out:
            return make(write)
        started = time.perf_counter()
        found = keeper.recall_graph(stage, name)
        if found is not None:
            return self._recalled(stage, found, started)
        remarks = self._remarks()

        def about() -> tuple[float, Notes] | None:
            return None if recorder.left_out else (time.perf_counter() - started, remarks())

        def write_and_keep(n: int, blocks: Any, info: Any, rows: Any) -> DiskGraph:
            if recorder.left_out:
                return write(n, blocks, info, rows)
            return keeper.keep_graph(stage, name, n, blocks, info, rows, about)

        return make(write_and_keep)

    def _remarks(self) -> Callable[[], Notes]:
        """Returns the notes and warnings from now on."""
        recorder, first = self.recorder, len(self.recorder.notes)
        return lambda: tuple((one, one in recorder.warnings) for one in recorder.notes[first:])

    def _recalled(self, stage: str, found: tuple[Result, Notes], started: float) -> Result:
        """A result that was kept, in a stage in which its remarks are made again."""
        result, notes = found
        with self.recorder.stage(f"{stage}: kept from before", started):
            for message, is_warning in notes:
                (self.recorder.warn if is_warning else self.recorder.note)(message)
        return result


# --- Results of finished stages, kept for a later run: what a keeper is, and how results are
# named
#
# The engine keeps the result of a stage under a digest of everything it depends on; where and how
# it is kept is a keeper's affair (`mustlink_io.hdf5.work_folder`: files).


VERSION = 8  # raised when a stage computes something else from the same parameters
_ROWS = 1 << 16  # of a block on disk, looked at in one go

Notes = tuple[tuple[str, bool], ...]  # remarks of a stage, and whether they are warnings
Write = Callable[[int, Iterator[RowBlock], Mapping[str, Any], NDArray[np.int32]], DiskGraph]


class CheckpointStore(Protocol):
    """Keeps results of stages between runs; only a `StageCache` calls it.

    A result is a tree of dataclasses, tuples, mappings with text as keys, arrays, blocks on disk,
    CSR matrices and plain scalars. `source` names the data that everything began with, `scratch` is
    a folder for temporary files as large as the points.
    """

    source: str
    scratch: Path

    def recall(self, stage: str, key: str, types: Iterable[type]) -> Any | None:
        """Return what was kept under the key, None if nothing; `types` are its dataclasses."""

    def keep(self, stage: str, key: str, value: Any, seconds: float) -> None:
        """Keep a result that took so many seconds; it is not changed before `settle`."""

    def recall_graph(self, stage: str, key: str) -> tuple[DiskGraph, Notes] | None:
        """A graph that was kept under the key, its rows on disk; None if there is none."""

    def keep_graph(
        self,
        stage: str,
        key: str,
        n: int,
        blocks: Iterable[RowBlock],
        info: Mapping[str, Any],
        rows: NDArray[np.int32],
        about: Callable[[], tuple[float, Notes] | None],
    ) -> DiskGraph:
        """Write rows of a graph as they come, and the node of every row of the caller; InputError.

        `about()` is called when all are written: the seconds that it took and the remarks, or
        None where the graph is not to be recalled.
        """

    def settle(self) -> None:
        """Return when all that is kept would survive a power cut."""


def digest(value: Any) -> str:
    """SHA-256, as hexadecimal, of a tree as in a `CheckpointStore`; equal trees have equal digests.

    Cost: about a second for 1 GB of arrays. Raises TypeError for anything else in the tree.
    """
    found = hashlib.sha256()
    _feed(found, value)
    return found.hexdigest()


def _feed(found: Any, value: Any) -> None:
    """Every part with its kind and size before it, so that no two trees read alike."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        text = f"{type(value).__name__} {value!r}".encode()
        found.update(f"{len(text)}:".encode() + text)
    elif isinstance(value, np.ndarray):
        found.update(f"array {value.dtype.str} {value.shape}:".encode())
        found.update(np.ascontiguousarray(value).data if value.size else b"")
    elif isinstance(value, sp.csr_matrix):
        _feed(found, ("csr", value.shape, value.indptr, value.indices, value.data))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        found.update(f"{type(value).__name__} of ".encode())
        _feed(
            found, {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        )
    elif isinstance(value, Mapping):
        found.update(f"mapping of {len(value)}:".encode())
        for name in sorted(value, key=str):
            _feed(found, str(name))
            _feed(found, value[name])
    elif isinstance(value, list | tuple):
        found.update(f"sequence of {len(value)}:".encode())
        for part in value:
            _feed(found, part)
    else:
        from mustlink.space.disk import DiskBlock  # its package loads the compiler

        if not isinstance(value, DiskBlock):
            raise TypeError(f"a {type(value).__name__} has no digest")
        found.update(f"rows {value.dtype.str} {value.shape}:".encode())
        for first in range(0, len(value), _ROWS):
            found.update(np.ascontiguousarray(value[first : first + _ROWS]).data)


def in_c_order(value: Any) -> Any:
    """The same tree with every array in C order, as it will be when recalled.

    Sums over other orders round differently: a run that goes on must see the same bits.
    """
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value) if value.ndim else value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        old = {name: getattr(value, name) for name in fields}
        new = {name: in_c_order(part) for name, part in old.items()}
        same = all(new[name] is old[name] for name in fields)
        return value if same else dataclasses.replace(value, **new)
    if isinstance(value, tuple):
        parts = [in_c_order(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [in_c_order(part) for part in value]
    return value


# --- One fit's view of a graph: what is derived from it, its recorder and memory


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
        origin = self.cache.name_of("regularized degrees", plain.origin, self.tau)
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
    def cache(self) -> StageCache:
        """Where results of stages are kept for a later run."""
        return StageCache(self.recorder, self.keeper)

    def derive(self, stage: str, key: Key[Value], compute: Callable[[], Value]) -> Value:
        """What the key asks for: from memory, from disk, or computed now and kept in both.

        What memory held of the kind goes before another is computed.
        """
        return self.remember(key, lambda: self.store(stage, key, compute))

    def store(self, stage: str, key: Key[Value], compute: Callable[[], Value]) -> Value:
        """As `derive`, on disk only: for what is kept in memory in another form."""
        pair = self.cache.cached(
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
        return self.cache.name_of(stage, self.derived.origin, *depends)

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
