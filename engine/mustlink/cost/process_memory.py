"""Resident memory of this process, and the budget a caller names."""

from __future__ import annotations

import contextlib
import ctypes
import math
import re
import resource
import sys
from numbers import Real
from pathlib import Path

from mustlink.errors import InputError

PROGRAM = 340 * 10**6  # bytes of Python with all libraries and compiled kernels, no data
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_NO_SIZE = 2**63  # bytes, of no memory
_FEW = 10**6  # bytes: nobody allows a process less
_MMAP_THRESHOLD = -3  # its number in malloc.h
_STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """Largest resident size of this process in bytes, since it began.

    The high-water mark is never reset, so that it agrees with what the system reports at exit.
    """
    found = _status("VmHWM")
    if found is not None:
        return found
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def resident_bytes() -> int:
    """Resident size of this process now; where the system does not say, its high-water mark."""
    found = _status("VmRSS")
    return peak_bytes() if found is None else found


def left_by_system() -> int | None:
    """Bytes that a limit on the data of this process (RLIMIT_DATA) leaves; None without one.

    It counts what was claimed and never touched, too: stacks of threads, holes in the heap.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    claimed = _status("VmData")
    return None if limit == resource.RLIM_INFINITY or claimed is None else limit - claimed


def give_back() -> None:
    """Return freed memory to the system where the C library can be asked to.

    glibc keeps up to 64 MB of freed blocks: as much as a small graph.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def return_large_blocks() -> None:
    """Have every freed block above 1 MB go back to the system, for a program of its own.

    glibc keeps blocks of up to 32 MB in its heap, where they leave holes: 100,000 nodes and 40
    vectors took 762 MB, with this 649. Has no effect where there is another C library.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 20)


def _status(name: str) -> int | None:
    """Bytes of one entry of /proc/self/status."""
    try:
        found = re.search(rf"{name}:\s+(\d+) kB", _STATUS.read_text())
    except OSError:
        return None
    return int(found.group(1)) * 1024 if found else None


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
