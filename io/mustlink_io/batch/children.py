"""Child processes of a batch: one a job, in a group of its own, none outlives the batch unseen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from mustlink.cost.process_memory import memory_of
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

    def resident_bytes(self) -> int | None:
        """Memory it holds now, None where that is not known."""
        return None

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

    def resident_bytes(self) -> int | None:
        """Memory it holds now, None where the system does not say."""
        return memory_of(self._process.pid)


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
