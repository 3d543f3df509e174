"""How many threads work: as many of our own as allowed, one inside BLAS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from mustlink.check import check_n_jobs


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
        with _blas().limit(limits=1):
            yield
    finally:
        numba.set_num_threads(before)


@cache
def _blas() -> Any:
    """The BLAS libraries that NumPy and SciPy bring: looking for them takes some milliseconds."""
    import scipy.linalg  # noqa: F401  its BLAS is loaded with it, and may be one of its own
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
