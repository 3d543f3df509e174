"""What a hostile file can do to the library that reads it is done to a child process first.

The HDF5 library crashes on some damaged files and never comes back from others (text of variable
length whose heap is damaged); scipy's Matrix Market reader crashes too. Nothing inside a process
can contain that, so whatever will be asked of a file is asked by a fork of this process before: it
holds the same open file and does the same steps under limits of its own, and only if it comes back
unharmed are they repeated here. A fork costs 4 ms, 6 ms with 1.5 GB resident.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from h5py._objects import phil

from mustlink.errors import InputError

CPU_SECONDS = 4  # for looking at structures; values are read at RATE besides
RATE = 20e6  # bytes a second that reading and inflating reaches on any machine
_SPARE = 2**30  # bytes that looking may take beside what this process has
_LONGEST = 2000  # bytes of a message
_TOO_LARGE, _UNKNOWN = 71, 72

_children: list[int] = []  # the process itself, where it is one of these children


def examine(where: str, look: Callable[[], object], n_bytes: int = 0) -> None:
    """Run `look` in a child process; returns when it came back unharmed.

    `n_bytes` are those of values that it may read and hold. Its computing time is limited, not its
    waiting: a slow disk is no damage. Raises the InputError that `look` raises, and InputError when
    it crashes, does not end, wants more memory than there is reason for, or cannot be started. Any
    other exception is left to be met again here.
    """
    if not hasattr(os, "fork") or os.getpid() in _children:
        look()
        return
    here, there = os.pipe()
    try:
        with _quiet_fork(), phil:  # nobody else is inside the HDF5 library at this moment
            child = os.fork()
    except OSError as error:
        os.close(here)
        os.close(there)
        raise InputError(
            f"{where}: no process can be started to look at it first: {error.strerror}"
        ) from error
    if child == 0:
        _run(look, there, n_bytes)
    os.close(there)
    try:
        with os.fdopen(here, "rb") as pipe:
            said = pipe.read(_LONGEST)
        status = os.waitpid(child, 0)[1]
    except BaseException:  # Ctrl-C
        with contextlib.suppress(OSError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        raise
    if said:
        raise InputError(said.decode("utf-8", "replace"))
    if os.WIFSIGNALED(status):
        raise InputError(_verdict(where, os.WTERMSIG(status)))
    if os.WEXITSTATUS(status) == _TOO_LARGE:
        raise InputError(
            f"{where}: damaged: reading it asks for more memory than it can need; make it again"
        )


def allow(n_bytes: float) -> None:
    """Grant a child in `examine` the computing time to read and inflate so many bytes more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if soft != resource.RLIM_INFINITY:
        most = soft + int(n_bytes / RATE)
        resource.setrlimit(
            resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
        )


@contextlib.contextmanager
def _quiet_fork() -> Iterator[None]:
    """Without Python's warning that other threads are not copied: the child needs none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _verdict(where: str, number: int) -> str:
    name = signal.Signals(number).name
    what = f"crashes the library that reads it ({name})"
    if number == signal.SIGXCPU:
        what = "does not end"
    elif number == signal.SIGKILL:
        what = "was ended by the system, which may be out of memory"
    return f"{where}: damaged: reading it {what}; make it again, or copy what can be read of it"


def _run(look: Callable[[], object], there: int, n_bytes: int) -> None:
    """The child's life: never returns."""
    code = _UNKNOWN
    try:
        _children.append(os.getpid())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        faulthandler.disable()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_CPU, CPU_SECONDS + int(n_bytes / RATE))
        _limit(resource.RLIMIT_AS, _address_space() + _SPARE + n_bytes)
        look()
        code = 0
    except InputError as error:
        os.write(there, str(error).encode("utf-8", "replace")[:_LONGEST])
    except MemoryError:
        code = _TOO_LARGE
    except Exception as error:  # met again by the caller, who knows what to say
        code = _TOO_LARGE if "allocation failed" in str(error) else 0
    finally:
        os._exit(code)


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
