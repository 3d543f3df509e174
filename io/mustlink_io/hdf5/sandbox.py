"""What a hostile file can do to the library that reads it is done to a child process first.

The HDF5 library crashes on some damaged files and never comes back from others (text of variable
length whose heap is damaged); scipy's Matrix Market reader crashes too. Nothing inside a process
can contain that, so a fork of this process goes ahead: it opens the same file and does the same
steps under limits of its own, and only a step that left it unharmed is repeated here. A fork costs
4 ms, 6 ms with 1.5 GB resident and 20 ms on a virtual machine, so that one child goes ahead for as
long as a file is open.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from h5py._objects import phil

from mustlink.errors import InputError
from mustlink_io.system import can_fork, resource

CPU_SECONDS = 4  # for looking at structures; values are read at RATE besides
RATE = 20e6  # bytes a second that reading and inflating reaches on any machine
IDLE = 60.0  # seconds in which a child neither computes nor waits for a disk: it never will
_LOOK = 0.5  # seconds
_SPARE = 2**30  # bytes that looking may take beside what this process has
_LONGEST = 2000  # bytes of a message
_UNHARMED, _REFUSED, _TOO_LARGE = b"0", b"1", b"2"

_children: list[int] = []  # the process itself, where it is one of these children


def is_child() -> bool:
    """Whether this process goes ahead of another, or where nothing can, as there are no forks."""
    return not can_fork() or os.getpid() in _children


def examine(where: str, look: Callable[[], object], n_bytes: int = 0) -> None:
    """Run `look` in a child process; returns when it came back unharmed.

    `n_bytes` are those of values that it may read and hold. Its computing time is limited, not its
    waiting: a slow disk is no damage. Raises the InputError that `look` raises, and InputError when
    it crashes, does not end, wants more memory than there is reason for, or cannot be started. Any
    other exception is left to be met again here.
    """
    if is_child():
        look()
        return
    Forerunner(where, look, n_bytes).close()


class Forerunner:
    """A fork of this process that does every step with a file before this process does.

    It begins with `first`, and what that returns is handed to every step after; it may be exchanged
    for another later. A child that was harmed is replaced before the next step, and so is one that
    does not know the modules loaded here since. One that stands still is, too, and the step tried
    again: a lock that another thread held at the fork is held in the copy for ever. Errors and
    limits are those of `examine`, the computing time for each step anew (to half a second), the
    memory for all together.
    """

    def __init__(self, where: str, first: Callable[[], object], n_bytes: int = 0) -> None:
        self.first = first
        self._where, self._n_bytes = where, n_bytes
        self._owner, self._lock = os.getpid(), threading.Lock()
        self._child, self._n_modules = 0, 0
        self._pipe: Connection
        self._begin()

    def go_ahead(self, where: str, step: Callable[..., object], *arguments: Any) -> None:
        """Have the child do `step(what first returned, *arguments)`; a function of a module."""
        if os.getpid() != self._owner:  # a fork of the owner; the child answers to one only
            examine(where, lambda: step(self.first(), *arguments))
            return
        with self._lock:
            if self._child and self._n_modules != len(sys.modules):
                self.close()
            if not self._child:
                self._begin()
            try:
                self._ask(where, (step, arguments))
            except _StuckError:
                self._start()
                self._ask(where, (step, arguments))

    def close(self) -> None:
        """End the child, if there is one."""
        if self._child and os.getpid() == self._owner:
            os.kill(self._child, signal.SIGKILL)
            self._bury()

    def _bury(self) -> int:
        child, self._child = self._child, 0
        self._pipe.close()
        return os.waitpid(child, 0)[1]

    def _begin(self) -> None:
        try:
            self._start()
        except _StuckError:
            self._start()

    def _start(self) -> None:
        self._n_modules = len(sys.modules)
        self._pipe, there = Pipe()
        try:
            with warnings.catch_warnings(), phil:  # nobody else is inside the HDF5 library now
                warnings.simplefilter("ignore", DeprecationWarning)  # the child needs no threads
                child = os.fork()
        except OSError as error:
            self._pipe.close()
            there.close()
            raise InputError(
                f"{self._where}: no process can be started to look at it first: {error.strerror}"
            ) from error
        if child == 0:
            self._pipe.close()
            _run(self.first, there, self._n_bytes)
        self._child = child
        there.close()
        try:
            self._ask(self._where)
        except BaseException:
            self.close()
            raise

    def _ask(self, where: str, *question: object) -> None:
        """Put a question, if any, and hear how that step ended; raises InputError if badly."""
        try:
            for one in question:
                self._pipe.send(one)
            self._wait(where)
            answer = self._pipe.recv_bytes()
        except (EOFError, ConnectionError) as error:
            raise InputError(_verdict(where, self._bury())) from error
        except BaseException:  # Ctrl-C
            self.close()
            raise
        if answer[:1] == _TOO_LARGE:
            self.close()
            raise InputError(
                f"{where}: damaged: reading it asks for more memory than it can need; make it again"
            )
        if answer[:1] == _REFUSED:
            raise InputError(answer[1:].decode("utf-8", "replace"))

    def _wait(self, where: str) -> None:
        """Return when the child answers or has ended; _StuckError where it does nothing."""
        before, since = _doing(self._child), time.monotonic()
        while not self._pipe.poll(_LOOK):
            now = _doing(self._child)
            if now != before or now[0] != "S":
                before, since = now, time.monotonic()
            elif time.monotonic() - since > IDLE:
                raise _StuckError(f"{where}: reading it stands still; is its disk there? try again")


class _StuckError(InputError):
    """A child waits, and not for a disk."""


def _doing(process: int) -> tuple[str, float]:
    """State of a process and its computing time: S waits, D waits for a disk, as Linux has it."""
    try:
        found = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", 0.0  # not known: as if it went on
    return found[0], float(found[11]) + float(found[12])


def allow(n_bytes: float) -> None:
    """Grant a child in `examine` the computing time to read and inflate so many bytes more."""
    if os.getpid() not in _children:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if soft != resource.RLIM_INFINITY:
        most = soft + int(n_bytes / RATE)
        resource.setrlimit(
            resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
        )


def _verdict(where: str, status: int) -> str:
    what = "ends the process that reads it"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        what = f"crashes the library that reads it ({signal.Signals(number).name})"
        if number == signal.SIGXCPU:
            what = "does not end"
        elif number == signal.SIGKILL:
            what = "was ended by the system, which may be out of memory"
    return f"{where}: damaged: reading it {what}; make it again, or copy what can be read of it"


def _run(first: Callable[[], object], there: Connection, n_bytes: int) -> None:
    """The child's life: never returns."""
    try:
        _children.append(os.getpid())
        gc.disable()  # a collection would touch, and so copy, most of what the two share
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and ends this
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        faulthandler.disable()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_AS, _address_space() + _SPARE + n_bytes)
        found: list[object] = []
        there.send_bytes(_tried(n_bytes, lambda: found.append(first())))
        file = found[0]
        while True:
            step, arguments = there.recv()
            there.send_bytes(_tried(0, partial(step, file, *arguments)))
    finally:
        os._exit(0)


def _tried(n_bytes: int, step: Callable[[], object]) -> bytes:
    """Do a step in the child; how it ended."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    most = round(sum(os.times()[:2])) + CPU_SECONDS + int(n_bytes / RATE)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (most, hard))
    try:
        step()
    except InputError as error:
        return _REFUSED + str(error).encode("utf-8", "replace")[:_LONGEST]
    except MemoryError:
        return _TOO_LARGE
    except Exception as error:  # the caller meets it again and reports it
        return _TOO_LARGE if "allocation failed" in str(error) else _UNHARMED
    return _UNHARMED


def _limit(which: int, most: int) -> None:
    """Lower a limit of this process; one that is lower already stays."""
    soft, hard = resource.getrlimit(which)
    known = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(which, (min([most, *known]), hard))


def _address_space() -> int:
    """Bytes of address space in use; where the system does not say, more than any limit."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return sys.maxsize // 2
    return pages * resource.getpagesize()
