"""The time limit of a fit, in wall-clock time; the recorder has it.

Results depend on the clock only where a limit cuts a step short. Without a limit no step of a fit
reads the clock, except for a rival that takes far longer than planned.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Self

from mustlink.errors import InputError

_UNITS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "": 1.0}
_LONGEST = 1e12  # seconds: 30,000 years


@dataclass(frozen=True)
class Deadline:
    """The moment `limit` seconds after `began`; never, where the limit is infinite.

    `clock` returns the time in seconds; tests replace it.
    """

    limit: float = math.inf
    began: float = 0.0
    clock: Callable[[], float] = time.perf_counter

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = time.perf_counter) -> Self:
        """So many seconds from now."""
        return cls(seconds, clock(), clock)

    @classmethod
    def of(cls, limit: float | None, began: float | None = None) -> Deadline:
        """So many seconds after a program `began`, or from now; never if `limit` is None."""
        if limit is None:
            return NEVER
        return cls.after(limit) if began is None else cls(limit, began)

    @property
    def is_set(self) -> bool:
        """Whether there is a limit at all."""
        return self.limit < math.inf

    def remaining(self) -> float:
        """Seconds left, negative when it is over, infinite where there is no limit."""
        return self.began + self.limit - self.clock() if self.is_set else math.inf

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.remaining() <= 0

    def share(self, part: float) -> Deadline:
        """A deadline for a step of the work: a part, in [0, 1], of the time that is left."""
        return Deadline.after(part * self.remaining(), self.clock) if self.is_set else self

    def sooner(self, seconds: float) -> Deadline:
        """The sooner of this one and so many seconds from now."""
        return Deadline.after(seconds, self.clock) if seconds < self.remaining() else self


NEVER = Deadline()


def parse_duration(given: float | str) -> float:
    """Seconds of a duration such as 20, "20s", "5min" or "1h"; raises InputError."""
    if isinstance(given, Real) and not isinstance(given, bool) and 0 < given <= _LONGEST:
        return float(given)
    found = None
    if isinstance(given, str):
        found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([a-z]*)\s*", given.lower())
    if found is None or found[2] not in _UNITS or not 0 < float(found[1]) <= _LONGEST:
        raise InputError(f"time_limit: {given!r} is no duration; write it as 20s, 5min or 1h")
    return float(found[1]) * _UNITS[found[2]]


def duration_text(seconds: float) -> str:
    """A duration for a message: 0.4 s, 20 s, 5 min, 1.5 h."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
