"""Memory and cores: what the process takes, its budget in a fit, and what it is allowed.

Operating systems differ here and in `space.disk`, in the engine nowhere else: without /proc
the figures are psutil's.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # their numbers in malloc.h
_LARGE = 1 << 21  # bytes
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
    """Return every freed block above 2 MB to the system, for programs, with glibc.

    It keeps blocks of up to 32 MB in its heap, where they leave holes. Told from where on a block
    is large, it gives back the end of its heap from 128 KB on, and rows that are read or computed
    in turn are pages taken anew each time: as long as the end is twice a large block it stays, too.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, _LARGE)
        libc.mallopt(_TRIM_THRESHOLD, 2 * _LARGE)


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

    @property
    def planned(self) -> int | None:
        """Bytes that the limit leaves beside the program; None without one.

        The same in every run, whatever was compiled or read before: what changes numbers asks this,
        and not what is `left`.
        """
        return None if self.limit is None else self._most - PROGRAM

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


# --- What a process is allowed where it is put: by cgroups, schedulers, the system
#
# Nothing is kept: every call looks again. Files are those below a `root`, "/" outside of tests;
# what is missing, unreadable or no number sets no limit.


try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

AUTO = "auto"
MEMORY, THREADS = "MUSTLINK_MEMORY", "MUSTLINK_THREADS"  # of the environment
_WITHOUT = "none"  # a limit, in the shell and the environment
_SYSTEM = Path("/")
_MIB = 1024**2
_ENDLESS = 2**62  # bytes: version 1 writes 2**63 less a page where there is no limit
_SHARE = 0.8  # of the memory that the machine has available
_STEPS = 5  # bits of a limit that are left beside the first: it changes little from run to run
_CPU_PERIOD = 100_000  # microseconds, where none is written


@dataclass(frozen=True)
class Room:
    """A `limit` in bytes, what it leaves beside what is held now, and whose it is, in words.

    What goes beyond an `enforced` limit ends the process, or is refused by the system. The share of
    the machine's memory is not: it only chooses where a fit runs.
    """

    limit: int
    left: int
    source: str
    enforced: bool = True


@dataclass(frozen=True)
class Allowed:
    """The most that a fit may take, in bytes; None sets no limit. Else see `Room`."""

    limit: int | None = None
    source: str = ""
    enforced: bool = True

    @property
    def words(self) -> str:
        """The limit with its source, for a message."""
        assert self.limit is not None
        size = size_text(self.limit)
        return f"{size}, {self.source}" if self.source else f"{size} given"


# ------------------------------------------------------------------------- what is asked


def named_memory(memory: int | float | str | None) -> Allowed | None:
    """What a size allows, or None or "none", no limit; None for "auto". Raises InputError."""
    if isinstance(memory, str) and memory == AUTO:
        return None
    return Allowed() if memory in (None, _WITHOUT) else Allowed(parse_size(memory))


def allowed_memory(
    memory: int | float | str | None,
    unlimited: Callable[[bool], int],
    least: Callable[[int], int],
    held: int = 0,
    found: Allowed | None = None,
) -> Allowed:
    """What `memory` allows a fit; of "auto" what is left here, where the fit may need more.

    `unlimited(at_most)` are the bytes of the process that a fit takes where none are named, at most
    or as a rule, `least(limit)` the fewest with which it runs in any way: called where they decide.
    As a rule is enough where the limit is not enforced. A fit that does not fit anywhere is refused
    with an InputError, but where the limit is not enforced: there it runs as without one. `held`
    are bytes of the data in memory, `found` is what is left if that is known.
    """
    named = named_memory(memory)
    if named is not None:
        return named
    found = automatic_memory(held) if found is None else found
    if found.limit is None or unlimited(found.enforced) <= found.limit:
        return Allowed()
    fewest = least(found.limit)
    if fewest <= found.limit:
        return found
    if not found.enforced:
        return Allowed()
    raise InputError(
        f"memory: {found.words}, but at least {size_text(fewest, up=True)} are needed; allow as "
        'much, or try memory="none"'
    )


def automatic_memory(held: int = 0, root: Path = _SYSTEM) -> Allowed:
    """What "auto" means now: MUSTLINK_MEMORY, else the least that is left; raises InputError.

    A fit counts the program and the `held` bytes of the data, which are in memory by now.
    """
    try:
        named = named_memory(os.environ.get(MEMORY) or AUTO)
    except InputError as error:
        raise InputError(f"{MEMORY}: {str(error).removeprefix('memory: ')}") from None
    if named is not None:
        return named if named.limit is None else replace(named, source=f"named by {MEMORY}")
    least = min(rooms(root), key=lambda one: one.left, default=None)
    if least is None:
        return Allowed()
    counted = least.left + min(resident_bytes(), PROGRAM + held)
    if least.enforced:  # pages of libraries may be another group's
        counted = min(counted, least.limit)
    step = 1 << max(counted.bit_length() - 1 - _STEPS, 0)
    return Allowed(counted // step * step, least.source, least.enforced)


def rooms(root: Path = _SYSTEM) -> Iterator[Room]:
    """Every limit that is set on memory, with what it leaves."""
    yield from _of_cgroups(root)
    yield from _of_schedulers()
    yield from _of_system()
    available = _available(root)
    if available is not None:
        share = int(_SHARE * available)
        yield Room(share, share, "as four fifths of what the machine has available", False)


def most_memory(root: Path = _SYSTEM) -> int:
    """Bytes that this process may ever take: the machine's memory, and no more than any limit."""
    try:
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        import psutil

        whole = int(psutil.virtual_memory().total)
    return min([whole, *(one.limit for one in rooms(root) if one.enforced)])


# ------------------------------------------------------------------------- cgroups


def cgroups(controller: str, root: Path = _SYSTEM) -> Iterator[tuple[int, Path]]:
    """Version and folder of the own group of a controller, and of all above it that are seen.

    Where the own one is not below what is mounted, as in a container, that which is mounted counts:
    it is the container's own as a rule.
    """
    own = {}
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2) if line.count(":") > 1 else ("", "", "")
        if number == "0" and not controllers:
            own[2] = path
        elif controller in controllers.split(","):
            own[1] = path
    for line in _text(root / "proc/self/mountinfo").splitlines():
        place, _, kind = line.partition(" - ")
        fields, kinds = place.split(), kind.split()
        if len(fields) < 5 or len(kinds) < 3:
            continue
        version = {"cgroup": 1, "cgroup2": 2}.get(kinds[0], 0)
        if version not in own or (version == 1 and controller not in kinds[2].split(",")):
            continue
        mounted, there = (Path(one.replace("\\040", " ")) for one in (fields[3], fields[4]))
        top = root / there.relative_to("/")
        below: Path = Path(own[version])
        inside = below.is_relative_to(mounted) and ".." not in below.parts
        folder = top / below.relative_to(mounted) if inside else top
        for one in (folder, *folder.parents):
            yield version, one
            if one == top:
                break


_FILES = {
    2: (("memory.max", "memory.high"), "memory.current", ""),
    1: (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_"),
}


def _of_cgroups(root: Path) -> Iterator[Room]:
    """Of every group: its limit less what it holds, without pages of files that nobody maps.

    The kernel takes those back before it ends a process. Of version 1, limits of groups above,
    which a container may not see, are in its statistics.
    """
    for version, folder in cgroups("memory", root):
        limits, usage, prefix = _FILES[version]
        rows = (line.split() for line in _text(folder / "memory.stat").splitlines())
        stat = {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
        found = [_number(folder / name) for name in limits]
        found.append(stat.get("hierarchical_memory_limit"))
        set_ones = [limit for limit in found if limit is not None and limit < _ENDLESS]
        if not set_ones:
            continue
        mapped = stat.get(f"{prefix}file_mapped", stat.get(f"{prefix}mapped_file", 0))
        active, inactive = (stat.get(f"{prefix}{one}_file", 0) for one in ("active", "inactive"))
        holds = (_number(folder / usage) or 0) - max(inactive, active + inactive - mapped)
        limit = min(set_ones)
        left = max(0, limit - max(0, holds))
        yield Room(limit, left, f"left by a cgroup's limit of {size_text(limit)}")


# ------------------------------------------------------------------------- schedulers, system


def _of_schedulers() -> Iterator[Room]:
    """What a job has on this node: Slurm's MB are of 1024² bytes, LSF writes bytes in base 16."""
    node, each = (_whole(f"SLURM_MEM_PER_{one}") for one in ("NODE", "CPU"))
    cpus = _whole("SLURM_CPUS_ON_NODE") or _whole("SLURM_CPUS_PER_TASK") or 1
    slurm = node or (each or 0) * cpus
    lsf = _whole("LSB_CG_MEMLIMIT", 16) or 0
    for limit, whose in ((slurm * _MIB, "Slurm's"), (lsf, "LSF's")):
        if 0 < limit < _ENDLESS:
            left = max(0, limit - resident_bytes())
            yield Room(limit, left, f"left by {whose} limit of {size_text(limit)}")


def _of_system() -> Iterator[Room]:
    """Limits of the process itself: what is claimed counts, be it used or not."""
    for name, which in (("RLIMIT_AS", "VmSize"), ("RLIMIT_DATA", "VmData")):
        if resource is None:
            return
        limit, claimed = resource.getrlimit(getattr(resource, name))[0], status_bytes(which)
        if limit != resource.RLIM_INFINITY and claimed is not None:
            yield Room(limit, max(0, limit - claimed), f"left by {name} of {size_text(limit)}")


def _available(root: Path) -> int | None:
    """Bytes that the machine could give without swapping."""
    found = re.search(r"MemAvailable:\s+(\d+) kB", _text(root / "proc/meminfo"))
    if found:
        return int(found.group(1)) * 1024
    if root == _SYSTEM:
        try:
            import psutil
        except ImportError:
            return None
        return int(psutil.virtual_memory().available)
    return None


# ------------------------------------------------------------------------- cores


def cores(root: Path = _SYSTEM) -> int:
    """Threads that are worth having: MUSTLINK_THREADS, else cores this process may use, at least 1.

    Those it may run on, and no more than the quotas of its groups: of 2.5 cores the half would
    wait. joblib counts likewise, but rounds up and sees the group that is mounted alone.
    """
    named = os.environ.get(THREADS)
    if named:
        if not named.isdecimal() or int(named) < 1:
            raise InputError(f"{THREADS}: {named!r} is no number of threads; give 1, 2, …")
        return int(named)
    found = float(os.cpu_count() or 1)
    if hasattr(os, "sched_getaffinity"):
        found = len(os.sched_getaffinity(0))
    return max(1, int(min([found, *_quotas(root)])))


def _quotas(root: Path) -> Iterator[float]:
    """Cores of every group that has a quota."""
    for version, folder in cgroups("cpu", root):
        if version == 2:
            words = _text(folder / "cpu.max").split() or ["max"]
            quota = int(words[0]) if words[0].isdigit() else None
            period = int(words[1]) if len(words) > 1 and words[1].isdigit() else _CPU_PERIOD
        else:
            quota = _number(folder / "cpu.cfs_quota_us")
            period = _number(folder / "cpu.cfs_period_us") or _CPU_PERIOD
        if quota and period:
            yield quota / period


# ------------------------------------------------------------------------- files, variables


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    """The number in a file; None of "max", of -1 and where there is none."""
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _whole(name: str, base: int = 10) -> int | None:
    """The whole number of a variable of the environment."""
    try:
        return int(os.environ.get(name, ""), base)
    except ValueError:
        return None
