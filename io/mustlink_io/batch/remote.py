"""Jobs of a batch as tasks of a Dask cluster, which does a job again whose worker was lost."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mustlink_io import system
from mustlink_io.batch import children
from mustlink_io.batch.children import Child, Running

STOP = "stop"  # a file that holds the signal for a job that runs elsewhere
_LOOK = 0.1  # seconds between two looks at a job and that file


class Task(Running):
    """A job as a task of a `distributed.Client`; its worker sees the files at the same path."""

    def __init__(self, client: Any, arguments: Sequence[str], log: Path, result: Path) -> None:
        log, self._result = log.absolute(), result.absolute()
        with open(log, "ab") as file:
            super().__init__(log, file.tell())
        self._stop = log.with_name(STOP)
        self._stop.unlink(missing_ok=True)
        self._lost: str | None = None
        self._seconds: float | None = None
        words = (list(arguments), str(log), str(self._result), str(self._stop))
        how = (tuple(children.PROGRAM), os.getcwd())
        self._future = client.submit(run_job, *words, *how, pure=False)

    @property
    def seconds(self) -> float:
        """Wall time since it was handed over, or that of the job where it has ended."""
        return super().seconds if self._seconds is None else self._seconds

    def poll(self) -> bool:
        """Whether it has ended."""
        if self.code is None and self._future.done():
            try:
                self.code, self.peak_bytes, self._seconds = self._future.result()
            except Exception as error:  # workers lost again and again, a scheduler gone
                self._lost = f"{type(error).__name__}: {' '.join(str(error).split())}"
                self.code = 1
            for left in self._result.parent.glob(f"{self._result.name}.*"):
                left.unlink(missing_ok=True)  # of workers that were lost
            self._stop.unlink(missing_ok=True)
        return self.code is not None

    def send(self, number: int) -> None:
        """Leave the signal where the task looks for it."""
        if self.code is None:
            self._stop.write_text(str(int(number)))

    def complaint(self) -> str:
        """Why it failed, in one line."""
        return super().complaint() if self._lost is None else f"no worker did it: {self._lost}"


def run_job(
    arguments: Sequence[str], log: str, result: str, stop: str, program: Sequence[str], folder: str
) -> tuple[int, int | None, float]:
    """Run a job as a child of this worker: exit code, peak bytes, and seconds.

    What it prints becomes the `result` when it ends: nothing of a worker that was lost does.
    """
    own, sent = Path(f"{result}.{uuid.uuid4().hex[:12]}"), 0
    child = Child(arguments, Path(log), own, None, program, folder)
    while not child.poll():
        with contextlib.suppress(FileNotFoundError, ValueError):
            number = int(Path(stop).read_text())
            if number != sent:
                child.send(number)
                sent = number
        time.sleep(_LOOK)
    seconds = child.seconds
    os.replace(own, result)
    return child.code if child.code is not None else -system.KILL, child.peak_bytes, seconds
