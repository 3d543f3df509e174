"""One loop compiled twice: for one thread and for all of them.

Waking threads costs 20 µs on an idle machine and was measured to cost 1 to 5 ms on a busy one: more
than a small product takes, and iterations on small or coarse graphs consist of small products.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numba as nb

SMALL = 1 << 22  # multiplications below which one thread is used: about a millisecond


@dataclass(frozen=True)
class Loop:
    """A loop over `nb.prange`, serial and parallel; rows are summed in the same order by both."""

    serial: Any
    parallel: Any

    def __call__(self, work: int, *arguments: Any) -> None:
        """Run on arrays; `work` decides which of the two, never the number of threads."""
        (self.serial if work < SMALL else self.parallel)(*arguments)


def loop(**options: Any) -> Callable[[Any], Loop]:
    """Decorate a loop: compile it twice, cached on disk under two names."""

    def build(body: Any) -> Loop:
        twin = FunctionType(body.__code__, body.__globals__, f"{body.__name__}_serial")
        twin.__module__, twin.__qualname__ = body.__module__, f"{body.__qualname__}_serial"
        # Nobody calls a kernel from C: without that way in it compiles a tenth faster.
        common = {"cache": True, "nogil": True, "no_cfunc_wrapper": True} | options
        return Loop(nb.njit(**common)(twin), nb.njit(parallel=True, **common)(body))

    return build


# --- Where compiled kernels are kept: beside the sources, else in the user's folder of caches
#
# Numba looks for the two by itself, and does not load a kernel where it can write to neither: in a
# container whose user owns nothing, say.


def ensure_cache_folder() -> None:
    """Keep kernels in a folder of this process alone, with a warning, where there is no other."""
    try:
        nb.njit(cache=True)(_nothing)
    except RuntimeError:
        config: Any = nb.config
        config.CACHE_DIR = tempfile.mkdtemp(prefix="mustlink-")
        atexit.register(shutil.rmtree, config.CACHE_DIR, ignore_errors=True)
        warnings.warn(
            "compiled kernels cannot be kept, as neither the installation nor the user's folder of "
            "caches can be written: every process compiles them again; set NUMBA_CACHE_DIR to a "
            "folder that can",
            RuntimeWarning,
            stacklevel=2,
        )


def _nothing() -> None:
    """Never compiled: decorating it is what fails."""
