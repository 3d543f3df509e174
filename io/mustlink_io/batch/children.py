"""Jobs of a batch that run: as child processes, or as tasks of a Dask cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mustlink_io import system
from mustlink_io.batch.state import now

PROGRAM = (
    "-P",
    "-m",
    "mustlink_io.commands.batch_child",
)  # -P: modules in the user's folder stay out of it
_TAIL = 4096  # bytes of a log


class Running(ABC):
    """A job that runs, here or elsewhere; its stderr is added to `log`, from `start` on."""

    def __init__(self, log: Path, start: int) -> None:
        self.began = time.perf_counter()
        self.log = log
        self.peak_bytes: int | None = None
        self.code: int | None = None
        self._from = start

    @property
    def seconds(self) -> float:
        """Wall time since it began."""
        return time.perf_counter() - self.began

    @abstractmethod
    def poll(self) -> bool:
        """Whether it has ended; then `code` and `peak_bytes` are known."""

    @abstractmethod
    def send(self, number: int) -> None:
        """Send a signal to it and whatever it started."""

    def last_line(self) -> str:
        """Last line of this attempt in the log, notes apart: its progress, or its error."""
        with open(self.log, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(self._from, end - _TAIL))
            text = file.read().decode("utf-8", "replace")
        lines = [" ".join(line.split()) for line in text.split("\n")]
        told = [line for line in lines if line and not line.startswith("note:")]
        return "".join(c if c.isprintable() else "?" for c in told[-1]) if told else ""

    def complaint(self) -> str:
        """Why it failed, in one line."""
        if self.code is not None and self.code < 0:
            guess = "; was the memory of the machine used up?" if self.code == -system.KILL else ""
            return f"killed by signal {-self.code} ({signal.strsignal(-self.code)}){guess}"
        line = self.last_line().removeprefix("mustlink: ")
        return line if line and self.code == 2 else f"exit code {self.code}: {line or 'no words'}"


class Child(Running):
    """A job that is a child of this process. Its stdout goes to `result`.

    It inherits `lock`, so that the state stays locked for as long as it lives, and is told the
    batch's process number, so that on Linux it dies with the batch (`batch_child`). Relative paths
    start at `folder`, else where this process is.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        log: Path,
        result: Path,
        lock: int | None,
        program: Sequence[str] | None = None,
        folder: str | None = None,
    ) -> None:
        with open(log, "ab") as err, open(result, "wb") as out:
            title = " ".join(["mustlink", *arguments])
            err.write(f"{now()} {title}\n".encode("utf-8", "replace"))
            err.flush()
            super().__init__(log, err.tell())
            self._process = subprocess.Popen(
                [sys.executable, *(program or PROGRAM), str(os.getpid()), *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                process_group=0,  # Ctrl-C reaches the batch only, which tells its children
                pass_fds=() if lock is None else (lock,),
            )

    def poll(self) -> bool:
        """Whether it has ended; then `code` and `peak_bytes` are known."""
        if self.code is not None:
            return True
        end = system.end_of(self._process)
        if end is not None:
            self.code, self.peak_bytes = end
        return end is not None

    def send(self, number: int) -> None:
        """Send a signal to it and whatever it started."""
        if self.code is None:
            system.send(self._process, number)


def stop(children: Sequence[Running], grace: float, hurry: list[int]) -> None:
    """End children: SIGTERM, then SIGKILL after `grace` seconds or when a signal is in `hurry`."""
    for child in children:
        child.send(signal.SIGTERM)
    deadline = time.monotonic() + grace
    while not all([child.poll() for child in children]):
        if time.monotonic() > deadline or hurry:
            for child in children:
                child.send(system.KILL)
            deadline = float("inf")
            hurry.clear()
        time.sleep(0.02)


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
        how = (tuple(PROGRAM), os.getcwd())
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
