"""The memory of one fit while it runs: what may be taken, what is left, and the end of it."""

from __future__ import annotations

from mustlink.cost.process_memory import (
    PROGRAM,
    left_by_system,
    peak_bytes,
    resident_bytes,
    size_text,
)
from mustlink.errors import OutOfMemoryError

_MORE = 1.3  # times what was taken when a fit had to stop: what to try next


class Budget:
    """The most that the process may take while a fit runs, in bytes; None sets no limit.

    `held` are the bytes of the points. What a process holds beside them and the program when the
    fit begins is the caller's, and not counted.
    """

    def __init__(self, limit: int | None, held: int = 0) -> None:
        self.limit = limit
        # Less than the program is refused by what a method states, which names the least.
        self._most = max(limit or 0, PROGRAM)
        self._others = max(0, resident_bytes() - held - PROGRAM)
        self._seen = peak_bytes()

    def taken(self) -> int:
        """The most that was taken since the last time somebody was told of too much.

        Between two looks, too: the system keeps a high-water mark, which a fit may raise.
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
        if self.limit is None:
            return
        taken = self.taken()
        if taken > self._most:
            raise self.exceeded(stage, taken)

    def ask(self, n_bytes: float, what: str) -> None:
        """Raise OutOfMemoryError unless so much more may be taken now."""
        if self.limit is None:
            return
        wanted = resident_bytes() - self._others + n_bytes
        if wanted > self._most:
            raise OutOfMemoryError(
                f"memory: {size_text(self.limit)} given, but {what} would take it to "
                f"{size_text(wanted, up=True)}; give as much"
            )

    def exceeded(self, stage: str, taken: int | None = None) -> OutOfMemoryError:
        """What to raise where a stage took more than there is; later looks forget it."""
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
