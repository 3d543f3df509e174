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
class _Pool:
    """What is to be had, and whether what comes back is wanted."""

    memory: list[NDArray[np.uint8]] = field(default_factory=list)
    is_open: bool = True


class _Buffer:
    """The base of an array: when the last view of it goes, its memory is spare again."""

    def __init__(self, memory: NDArray[np.uint8], pool: _Pool) -> None:
        self.memory, self.pool = memory, pool
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        if self.pool.is_open:
            self.pool.memory.append(self.memory)


_now: ContextVar[_Pool | None] = ContextVar("spare memory", default=None)


@contextmanager
def reused() -> Iterator[None]:
    """Let `empty` make large arrays of the memory of those that are done with."""
    if _now.get() is not None:
        yield
        return
    pool = _Pool()
    token = _now.set(pool)
    try:
        yield
    finally:
        _now.reset(token)
        pool.is_open = False
        pool.memory.clear()


def empty(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """As `np.empty`, by rows."""
    pool, size = _now.get(), int(np.prod(shape)) * np.dtype(dtype).itemsize
    if pool is None or size < _LEAST:
        return np.empty(shape, dtype=dtype)
    fitting = [k for k, memory in enumerate(pool.memory) if memory.size >= size]
    if fitting:
        memory = pool.memory.pop(min(fitting, key=lambda k: pool.memory[k].size))
    else:
        pool.memory.clear()  # too small: would be held beside what is in use
        memory = np.empty(size, dtype=np.uint8)
    return np.asarray(_Buffer(memory, pool))[:size].view(dtype).reshape(shape)
