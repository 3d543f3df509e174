"""Results of finished stages on disk, named by a digest of all that they depend on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from mustlink.graph.stored import StoredGraph
from mustlink.observe import Recorder
from mustlink.workspace.keeper import VERSION, Keeper, Notes, Write, digest, in_c_order

Result = TypeVar("Result")


@dataclass(frozen=True)
class Shelf:
    """A keeper, and the recorder that tells of its stages; without a keeper nothing is kept.

    What a time limit made less of, and all that follows, is neither kept nor recalled: nobody else
    asks a keeper for anything.
    """

    recorder: Recorder
    keeper: Keeper | None = None

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
        something in `depends` cannot be told apart from others (a classifier, say).
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

    def kept(
        self,
        stage: str,
        name: str | None,
        compute: Callable[[], Result],
        types: tuple[type, ...] = (),
        serves: Callable[[Result], bool] = lambda _: True,
    ) -> Result:
        """The result of `compute`, or what an earlier run kept of it under this name if it serves.

        `types` are the dataclasses in it. `compute` opens stages of its own; remarks made inside it
        are kept with the result and made again.
        """
        keeper, recorder = self.keeper, self.recorder
        if keeper is None or name is None or recorder.left_out:
            return compute()
        started = time.perf_counter()
        found = keeper.recall(stage, name, types)
        if found is not None and serves(found[0]):
            return self._told_again(stage, found, started)
        said = self._saying()
        result = in_c_order(compute())
        if recorder.left_out:
            return result
        seconds = time.perf_counter() - started
        with recorder.stage(f"keeping: {stage}"):
            keeper.keep(stage, name, (result, said()), seconds)
        return result

    def kept_graph(
        self, stage: str, name: str | None, make: Callable[[Write], StoredGraph]
    ) -> StoredGraph:
        """As `kept`, of a graph that `make(write)` writes by blocks of rows while it is made.

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
            return self._told_again(stage, found, started)
        said = self._saying()

        def about() -> tuple[float, Notes] | None:
            return None if recorder.left_out else (time.perf_counter() - started, said())

        def write_and_keep(n: int, blocks: Any, info: Any, rows: Any) -> StoredGraph:
            if recorder.left_out:
                return write(n, blocks, info, rows)
            return keeper.keep_graph(stage, name, n, blocks, info, rows, about)

        return make(write_and_keep)

    def _saying(self) -> Callable[[], Notes]:
        """What will be said from now on, asked later."""
        recorder, first = self.recorder, len(self.recorder.notes)
        return lambda: tuple((told, told in recorder.warnings) for told in recorder.notes[first:])

    def _told_again(self, stage: str, found: tuple[Result, Notes], started: float) -> Result:
        """A result that was kept, in a stage in which its remarks are made again."""
        result, notes = found
        with self.recorder.stage(f"{stage}: kept from before", started):
            for message, is_warning in notes:
                (self.recorder.warn if is_warning else self.recorder.note)(message)
        return result
