"""A job as a child process, started by a thread of the batch or by a worker of Dask."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mustlink_io import system

LOG, RESULT = "log.txt", "result.json"
STOP = "stop"  # a job ends when this file appears beside its log
# -P: modules in the user's folder stay out of it
PROGRAM = ("-P", "-m", "mustlink_io.commands.batch_child")
GRACE = 10.0  # seconds from SIGTERM to SIGKILL
_TAIL = 4096  # bytes of a log
_POLL = 0.05  # seconds


@dataclass(frozen=True)
class Ended:
    """Exit code of a child, most resident bytes if known, wall seconds, last line of its log."""

    code: int
    peak_bytes: int | None = None
    seconds: float | None = None
    words: str = ""

    def complaint(self) -> str:
        """Why it failed, in one line."""
        if self.code < 0:
            guess = "; was the memory of the machine used up?" if self.code == -system.KILL else ""
            return f"killed by signal {-self.code} ({signal.strsignal(-self.code)}){guess}"
        words = self.words.removeprefix("mustlink: ")
        return (
            words if words and self.code == 2 else f"exit code {self.code}: {words or 'no words'}"
        )


def now() -> str:
    """Return the time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def run_job(
    arguments: Sequence[str],
    place: str,
    program: Sequence[str],
    folder: str,
    lock: int | None = None,
) -> Ended:
    """Run `mustlink ARGUMENTS` in `folder` as a child of this process and wait for its end.

    In the folder `place` of the job, stderr is added to LOG. What it prints becomes RESULT when it
    ends, so that a lost worker leaves no half of it. Where the file STOP appears, the child gets
    SIGTERM, and after GRACE seconds SIGKILL. It inherits `lock`, so that the state stays locked for
    as long as it lives, and the number of this process, so that on Linux it dies with it
    (`batch_child`).
    """
    log, stop = Path(place, LOG), Path(place, STOP)
    own, began = Path(place, f"{RESULT}.{uuid.uuid4().hex[:12]}"), time.perf_counter()
    with open(log, "ab") as err, open(own, "wb") as out:
        title = " ".join(["mustlink", *arguments])
        err.write(f"{now()} {title}\n".encode("utf-8", "replace"))
        err.flush()
        start = err.tell()
        child = subprocess.Popen(
            [sys.executable, *program, str(os.getpid()), *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            process_group=0,  # Ctrl-C reaches the batch only, which passes it on
            pass_fds=() if lock is None else (lock,),
        )
    deadline = None
    while (end := system.end_of(child)) is None:
        if deadline is None and os.path.exists(stop):
            system.send(child, signal.SIGTERM)
            deadline = time.perf_counter() + GRACE
        elif deadline is not None and time.perf_counter() > deadline:
            system.send(child, system.KILL)
        time.sleep(_POLL)
    os.replace(own, Path(place, RESULT))
    return Ended(*end, time.perf_counter() - began, _last_line(log, start))


def _last_line(log: Path, start: int) -> str:
    """Last line of a log behind a place, notes apart: progress, or an error."""
    with open(log, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(start, end - _TAIL))
        text = file.read().decode("utf-8", "replace")
    lines = [" ".join(line.split()) for line in text.split("\n")]
    last = next((line for line in reversed(lines) if line and not line.startswith("note:")), "")
    return "".join(c if c.isprintable() else "?" for c in last)
