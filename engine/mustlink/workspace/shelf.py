"""Results of finished stages on disk, named by a digest of all that they depend on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from mustlink.observe import Recorder
from mustlink.workspace.keeper import VERSION, Keeper, digest, in_c_order

Result = TypeVar("Result")


@dataclass(frozen=True)
class Shelf:
    """A keeper, and the recorder that tells of its stages; without a keeper nothing is kept."""

    recorder: Recorder
    keeper: Keeper | None = None

    @property
    def source(self) -> str | None:
        """What the data are known by; None where results are not kept."""
        return None if self.keeper is None else self.keeper.source

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

        What a time limit made less of, and all that follows, is neither kept nor recalled.
        `types` are the dataclasses in it. `compute` opens stages of its own; remarks made inside it
        are kept with the result and made again.
        """
        recorder = self.recorder
        if self.keeper is None or name is None or recorder.left_out:
            return compute()
        started = time.perf_counter()
        found = self.keeper.recall(stage, name, types)
        if found is not None and serves(found[0]):
            value, notes = found
            with recorder.stage(f"{stage}: kept from before", started):
                for message, is_warning in notes:
                    (recorder.warn if is_warning else recorder.note)(message)
            result: Result = value
            return result
        first = len(recorder.notes)
        result = in_c_order(compute())
        if recorder.left_out:
            return result
        seconds = time.perf_counter() - started
        with recorder.stage(f"keeping: {stage}"):
            said = recorder.notes[first:]
            notes = tuple((message, message in recorder.warnings) for message in said)
            self.keeper.keep(stage, name, (result, notes), seconds)
        return result
