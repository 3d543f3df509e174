"""What machines differ in: extras, copies of a process, its limits, locks of files, signals.

Linux has all of it. macOS forks, but its libraries may not be used in a copy; Windows has neither
forks, limits, locks of this kind nor groups of processes. What is missing there is told in
`docs/index.md`; the rest of the package asks here and nowhere else.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import signal
import subprocess
import sys
import warnings
from typing import Any

from mustlink.core.resources import peak_of
from mustlink.errors import InputError

__all__ = [
    "ENDING", "KILL", "OWN_FILE", "can_fork", "end_of", "has_locks", "lock", "needed", "resource",
    "send", "user",
]  # fmt: skip

try:
    import fcntl
    import resource
except ImportError:  # Windows
    fcntl = resource = None  # type: ignore[assignment]

KILL = int(getattr(signal, "SIGKILL", signal.SIGTERM))
_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
ENDING = tuple(int(getattr(signal, name)) for name in _ENDING if hasattr(signal, name))
# Not inherited, and no link is followed; Windows does neither unless it is asked to.
OWN_FILE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


def needed(module: str, where: object, extra: str) -> Any:
    """The module; raises InputError that begins with `where` where its extra is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(module.partition(".")[0])
            return importlib.import_module(module)
    except ImportError as error:
        name = error.name or module
        raise InputError(f"{where}: needs {name}; pip install 'mustlink[{extra}]'") from error


def can_fork() -> bool:
    """Whether a copy of this process can do something for it, under limits of its own."""
    return hasattr(os, "fork") and resource is not None and sys.platform != "darwin"


def has_locks() -> bool:
    """Whether files can be locked at all."""
    return fcntl is not None


def lock(descriptor: int, *, shared: bool = False) -> None:
    """Lock an open file, or raise OSError at once."""
    if fcntl is None:
        raise OSError(errno.ENOSYS, "no locks on this system")
    fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def user() -> int | None:
    """Number of the user for whom this process acts, None where users have none."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def end_of(child: subprocess.Popen[bytes]) -> tuple[int, int | None] | None:
    """Exit code of a child and the most bytes that it held, if known; None while it runs."""
    if not hasattr(os, "wait4"):
        code = child.poll()
        return None if code is None else (code, None)
    found, status, usage = os.wait4(child.pid, os.WNOHANG)
    if not found:
        return None
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, peak_of(usage)


def send(child: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a child in a group of its own, and to all of them; or end it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(child.pid, number)
        else:
            child.terminate()
