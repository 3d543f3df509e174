"""Memory of this process, and the memory budget of a fit while it runs.

Operating systems differ here and in `space.disk`, in the engine nowhere else: without /proc
the figures are psutil's.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import re
import sys
from numbers import Real
from pathlib import Path
from typing import Any

from mustlink.errors import InputError, OutOfMemoryError

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

PROGRAM = 340 * 10**6  # bytes of Python with all libraries and compiled kernels, no data
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_NO_SIZE = 2**63  # bytes, of no memory
_FEW = 10**6  # bytes: nobody allows a process less
_PROC = Path("/proc")  # of Linux
_MMAP_THRESHOLD = -3  # its number in malloc.h
_MORE = 1.3  # times what was taken when a fit had to stop: what to try next


def peak_bytes() -> int:
    """Largest resident size of this process in bytes, since it began.

    The high-water mark is never reset, so that it agrees with what the system reports at exit.
    """
    found = status_bytes("VmHWM")
    if found is not None:
        return found
    if resource is not None:
        return peak_of(resource.getrusage(resource.RUSAGE_SELF))
    memory = _of_psutil()
    return 0 if memory is None else int(getattr(memory, "peak_wset", memory.rss))


def peak_of(usage: Any) -> int:
    """The largest resident size in bytes of `getrusage` or `wait4`."""
    return int(usage.ru_maxrss) * (1 if sys.platform == "darwin" else 1024)


def resident_bytes() -> int:
    """Resident size of this process now; if it is unknown, its high-water mark."""
    found = status_bytes("VmRSS")
    if found is None and not _PROC.exists():
        found = getattr(_of_psutil(), "rss", None)
    return peak_bytes() if found is None else found


def left_by_system() -> int | None:
    """Bytes that a limit on the data of this process (RLIMIT_DATA) leaves; None without one.

    It counts what was claimed and never touched, too: stacks of threads, holes in the heap.
    """
    if resource is None:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    claimed = status_bytes("VmData")
    return None if limit == resource.RLIM_INFINITY or claimed is None else limit - claimed


def give_back() -> None:
    """Return freed memory to the system, with glibc.

    It keeps up to 64 MB of freed blocks: as much as a small graph.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def return_large_blocks() -> None:
    """Return every freed block above 1 MB to the system, for programs, with glibc.

    It keeps blocks of up to 32 MB in its heap, where they leave holes: 100,000 nodes and 40 vectors
    took 762 MB, with this 649.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 20)


def status_bytes(name: str) -> int | None:
    """Bytes of one entry of /proc/self/status, such as VmSize; None where there is no such file."""
    try:
        found = re.search(rf"{name}:\s+(\d+) kB", (_PROC / "self" / "status").read_text())
    except OSError:
        return None
    return int(found.group(1)) * 1024 if found else None


def _of_psutil() -> Any:
    """Memory of this process by psutil, None without psutil."""
    with contextlib.suppress(ImportError):
        import psutil

        return psutil.Process().memory_info()
    return None


def size_text(n_bytes: float, *, up: bool = False) -> str:
    """A size for a message, such as 319 MB or 8.05 GB; `up` rounds up, for what must suffice."""
    for unit, size, digits in (("GB", 1e9, 2), ("MB", 1e6, 0), ("kB", 1e3, 0)):
        if n_bytes >= size:
            value = n_bytes / size * 10**digits
            return f"{(math.ceil(value) if up else round(value)) / 10**digits:.{digits}f} {unit}"
    return f"{n_bytes:.0f} bytes"


def parse_size(text: str | float) -> int:
    """Bytes of a size such as `4GB`, `512MiB` or `4e9`; raises InputError.

    Of text without a unit, so few that only the unit can be missing are an error, too.
    """
    if isinstance(text, Real) and not isinstance(text, bool) and 1 <= text < _NO_SIZE:
        return int(text)
    number = r"\s*(\d+\.?\d*(?:e\d+)?)\s*([KMGT]?)(i?)B?\s*"
    found = re.fullmatch(number, text, re.IGNORECASE) if isinstance(text, str) else None
    value, unit, binary = found.groups() if found else ("0", "", "")
    power = "KMGT".find(unit.upper()) + 1 if unit else 0
    exact = float(value) * (1024**power if binary else _UNITS[unit.upper()])
    if not found or exact >= _NO_SIZE:
        raise InputError(f"memory: {text!r} is not a size; write it as 4GB or 512MiB")
    size = int(exact)
    if size < _FEW and value == found[0].strip():
        raise InputError(f"memory: {text!r} has no unit; write it as {value}GB, or {value}B")
    return size


class Budget:
    """The most that the process may take while a fit runs, in bytes; None sets no limit.

    `held` are the bytes of the points. Other memory of the process when the fit begins, beside the
    program, does not count. A limit that is not `enforced` is planned with, and no error.
    """

    def __init__(self, limit: int | None, held: int = 0, *, enforced: bool = True) -> None:
        self.limit, self._enforced = limit, enforced
        # Less than the program is refused by what a method states, which names the least.
        self._most = max(limit or 0, PROGRAM)
        self._others = max(0, resident_bytes() - held - PROGRAM)
        self._seen = peak_bytes()

    def taken(self) -> int:
        """The most that was taken since the last error of too much.

        It includes peaks between two checks: the system has a high-water mark, which a fit may
        raise.
        """
        peak = peak_bytes()
        return (peak if peak > self._seen else resident_bytes()) - self._others

    def left(self) -> int | None:
        """Bytes that may be taken beside what there is now; None without a limit."""
        if self.limit is None:
            return None
        left, given = self._most - (resident_bytes() - self._others), left_by_system()
        return left if given is None else min(left, given)

    def check(self, stage: str) -> None:
        """Raise OutOfMemoryError where more than the limit was taken."""
        if self.limit is None or not self._enforced:
            return
        taken = self.taken()
        if taken > self._most:
            raise self.exceeded(stage, taken)

    def ask(self, n_bytes: float, what: str) -> None:
        """Raise OutOfMemoryError unless so much more may be taken now."""
        if self.limit is None or not self._enforced:
            return
        wanted = resident_bytes() - self._others + n_bytes
        if wanted > self._most:
            raise OutOfMemoryError(
                f"memory: {size_text(self.limit)} given, but {what} would take it to "
                f"{size_text(wanted, up=True)}; give as much"
            )

    def exceeded(self, stage: str, taken: int | None = None) -> OutOfMemoryError:
        """The error of a stage that took too much; later checks do not count it."""
        taken = self.taken() if taken is None else taken
        self._seen = peak_bytes()
        if self.limit is None:
            return OutOfMemoryError(
                f"memory: the system gave no more than {size_text(taken)} for {stage}; free some, "
                "or name what may be taken as memory"
            )
        more = size_text(_MORE * max(taken, self.limit), up=True)
        return OutOfMemoryError(
            f"memory: {size_text(self.limit)} given, but {stage} needs more; give {more}"
        )
