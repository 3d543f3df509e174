"""Memory of blocks that are done with, for blocks to come.

The system hands out pages one by one and clears them first, which takes a third as long as a
product that writes them. Inside `reused` an array that nobody holds any more leaves its memory to
the next one that fits; at the end all is given back. No more is held than was in use before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LEAST = 1 << 22  # bytes: less comes from memory that the process has already


@dataclass
class _Spare:
    """What is to be had, and whether what comes back is wanted."""

    memory: list[NDArray[np.uint8]] = field(default_factory=list)
    is_open: bool = True


class _Lent:
    """The base of an array: when the last view of it goes, its memory is spare again."""

    def __init__(self, memory: NDArray[np.uint8], spare: _Spare) -> None:
        self.memory, self.spare = memory, spare
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        if self.spare.is_open:
            self.spare.memory.append(self.memory)


_now: ContextVar[_Spare | None] = ContextVar("spare memory", default=None)


@contextmanager
def reused() -> Iterator[None]:
    """Let `empty` make large arrays of the memory of those that are done with."""
    if _now.get() is not None:
        yield
        return
    spare = _Spare()
    token = _now.set(spare)
    try:
        yield
    finally:
        _now.reset(token)
        spare.is_open = False
        spare.memory.clear()


def empty(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """As `np.empty`, by rows."""
    spare, size = _now.get(), int(np.prod(shape)) * np.dtype(dtype).itemsize
    if spare is None or size < _LEAST:
        return np.empty(shape, dtype=dtype)
    fitting = [k for k, memory in enumerate(spare.memory) if memory.size >= size]
    if fitting:
        memory = spare.memory.pop(min(fitting, key=lambda k: spare.memory[k].size))
    else:
        spare.memory.clear()  # too small: would be held beside what is in use
        memory = np.empty(size, dtype=np.uint8)
    return np.asarray(_Lent(memory, spare))[:size].view(dtype).reshape(shape)
