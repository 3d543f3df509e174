"""How many threads work: as many of our own as allowed, one inside BLAS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from mustlink.core.check import check_n_jobs


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Run with at most n_jobs threads of our own (None: all), and one inside BLAS.

    Our kernels and row-block products split the work; see `kernels.blocks` for why BLAS does not.
    """
    wanted = check_n_jobs(n_jobs)
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(before if wanted is None else min(wanted, before))
    try:
        with _ONE_IN_BLAS:
            yield
    finally:
        numba.set_num_threads(before)


class _OneInBlas:
    """One thread inside BLAS from the first who enters to the last who leaves.

    The number is the process's: of two fits in threads that each put back what they had found the
    later would put back the one of the earlier.
    """

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._before: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = [one.num_threads for one in _blas()]
                _set([1] * len(self._before))
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _set(self._before)


_ONE_IN_BLAS = _OneInBlas()


def _set(numbers: list[int]) -> None:
    """Set the threads of every BLAS, whichever thread did so before."""
    for one, number in zip(_blas(), numbers, strict=True):
        # threadpoolctl may let one thread alone set it for OpenBLAS: others do nothing, silently
        free = getattr(one, "clear_controlling_thread", lambda force: None)
        free(force=True)
        one.set_num_threads(number)
        free(force=True)


@cache
def _blas() -> Any:
    """The BLAS libraries that NumPy and SciPy bring: looking for them takes some milliseconds."""
    import scipy.linalg  # noqa: F401  its BLAS is loaded with it, and may be one of its own
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers
