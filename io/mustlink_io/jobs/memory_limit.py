"""The system keeps a run to its memory: what would take it above fails, and is told in a line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mustlink.deadline import Deadline
from mustlink.observe import Observer, Recorder

_STATUS = Path("/proc/self/status")


class LimitedRecorder(Recorder):
    """A recorder that has the system hold every stage to `memory` bytes, where it can.

    The limit of Linux counts what is reserved, used or not, and no files that are mapped. So it
    is set anew before every stage, by how the process stands then.
    """

    def __init__(self, observer: Observer, memory: int, deadline: Deadline) -> None:
        super().__init__(observer, deadline)
        self._memory = memory

    @contextmanager
    def stage(self, name: str, since: float | None = None) -> Iterator[Callable[[float], None]]:
        """See `Recorder`."""
        set_limit(self._memory)
        with super().stage(name, since) as advance:
            yield advance


def recorder_within(memory: int | None, observer: Observer, deadline: Deadline) -> Recorder:
    """A recorder for a run with so much memory, None for all there is."""
    if memory is None:
        return Recorder(observer, deadline)
    return LimitedRecorder(observer, memory, deadline)


@contextmanager
def limits_kept() -> Iterator[None]:
    """Put the limit back that was there before."""
    if not sys.platform.startswith("linux"):
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def set_limit(memory: int) -> None:
    """Have allocations fail that would take the resident size of this process above `memory`.

    Of private memory, data D are reserved and A of them used; files take F: D may grow until
    A + F is `memory`. Nothing where the system is not Linux, or its own limit is lower.
    """
    if not sys.platform.startswith("linux"):
        return
    import resource

    status = dict(re.findall(r"(\w+):\s+(\d+) kB", _STATUS.read_text()))
    reserved, used, files = (1024 * int(status[name]) for name in ("VmData", "RssAnon", "RssFile"))
    wanted = max(memory - files, used) + max(reserved - used, 0)
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most == resource.RLIM_INFINITY or wanted < most:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, most))
