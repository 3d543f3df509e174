"""Resident memory of this process, and the budget a caller names."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

from mustlink.errors import InputError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """Largest resident size of this process in bytes, since it began.

    The high-water mark is never reset, so that it agrees with what the system reports at exit.
    """
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text())
    except OSError:
        found = None
    if found:
        return int(found.group(1)) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def parse_size(text: str | int) -> int:
    """Bytes of a size such as `4GB`, `512MiB` or `4e9`; raises InputError."""
    if isinstance(text, int) and not isinstance(text, bool) and text > 0:
        return text
    number = r"\s*(\d+\.?\d*(?:e\d+)?)\s*([KMGT]?)(i?)B?\s*"
    found = re.fullmatch(number, text, re.IGNORECASE) if isinstance(text, str) else None
    if not found:
        raise InputError(f"memory: {text!r} is not a size; write it as 4GB or 512MiB")
    value, unit, binary = found.groups()
    power = "KMGT".find(unit.upper()) + 1 if unit else 0
    factor = 1024**power if binary else _UNITS[unit.upper()]
    return int(float(value) * factor)
