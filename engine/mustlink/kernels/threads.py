"""How functions are compiled, once, and how loops over rows run, by one thread or by several.

Compiling takes a tenth of a second for a function and a set of types, however short. So kernels
get one type for each argument, and what is called within one is written into it where it is short.
What takes a line of NumPy is done so on small data, which need no compiler then.

A loop is a serial function f(lo, hi, …) of the rows lo:hi, without the interpreter's lock. Threads
take blocks of rows until none is left: one that wakes late, on a busy machine, does less.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from pathlib import Path
from threading import Lock
from typing import Any

import numba as nb

from mustlink.core.check import check_n_jobs
from mustlink.core.resources import cores

FEW = 1 << 18  # numbers up to which NumPy takes less time than a kernel takes to be loaded


def kernel(*, makes_arrays: bool = False, **options: Any) -> Callable[[Any], Any]:
    """Decorate what Python calls.

    Numba counts references to arrays only where some are made: a quarter of the time that compiling
    takes. The caller holds all others, so a function that makes none must return none.
    """
    njit: Any = nb.njit  # its types do not know all options
    options = {"_nrt": makes_arrays, "error_model": "numpy", **options}

    def build(body: Any) -> Any:
        found = njit(cache=True, nogil=True, no_cfunc_wrapper=True, **options)(body)
        found.compile = _undisturbed(found.compile)
        found.get_call_template = _for_all_numbers(found.get_call_template)
        return found

    return build


def _undisturbed(compile_one: Callable[..., Any]) -> Callable[..., Any]:
    """Compile without Python's search for circles of garbage, which takes a quarter of the time."""

    def compiled(*arguments: Any) -> Any:
        searched = gc.isenabled()
        gc.disable()
        try:
            return compile_one(*arguments)
        finally:
            if searched:
                gc.enable()

    return compiled


def _for_all_numbers(template: Callable[..., Any]) -> Callable[..., Any]:
    """Types of a call without the numbers that stand in it, for each of which Numba compiles."""
    plain: Any = nb.types.unliteral
    return lambda types, names: template([plain(one) for one in types], names)


def helper(**options: Any) -> Callable[[Any], Any]:
    """Decorate what only kernels call: it cannot be called from Python, which saves a quarter."""
    return kernel(no_cpython_wrapper=True, **options)


def inlined(**options: Any) -> Callable[[Any], Any]:
    """Decorate what is written into the kernels that call it, as if it stood there."""
    return kernel(inline="always", **options)


# --- Loops over rows, on threads


SMALL = 1 << 22  # multiplications below which one thread is used: about a millisecond
_BLOCK = 1 << 20  # multiplications of a block at least
_BLOCKS = 4  # for each thread


_cores = cache(cores)


def workers() -> int:
    """Threads that a fit may use: those that the process is allowed when it first asks."""
    return min(int(nb.get_num_threads()), _cores())


@dataclass(frozen=True)
class Loop:
    """A compiled loop; a row's numbers are the same whatever block it is in."""

    body: Any

    def __call__(self, count: int, work: int, *arguments: Any) -> None:
        """Run on `count` rows; `work`, in multiplications, decides whether threads share them."""
        threads = 1 if work < SMALL else min(workers(), count)
        if threads < 2:
            self.body(0, count, *arguments)
            return
        blocks = max(threads, min(_BLOCKS * threads, work // _BLOCK))
        step = -(-count // blocks)
        in_threads(
            lambda lo: self.body(lo, min(lo + step, count), *arguments), range(0, count, step)
        )


def loop(**options: Any) -> Callable[[Any], Loop]:
    """Decorate a function f(lo, hi, ...): compile it, cached on disk."""
    return lambda body: Loop(kernel(**options)(body))


def in_threads(task: Callable[[Any], object], pieces: Sequence[Any]) -> None:
    """Run task(piece) for all: every thread takes the next piece until none is left."""
    waiting = iter(pieces)  # shared by the threads, and each piece is taken once

    def take() -> None:
        for piece in waiting:
            task(piece)

    others = [_pool().submit(take) for _ in range(min(workers(), len(pieces)) - 1)]
    try:
        take()
    finally:
        for one in others:
            if not one.cancel():  # it has begun; tasks that begin tasks wait for no others
                one.result()


@cache
def _pool() -> ThreadPoolExecutor:
    """Threads of this process."""
    config: Any = nb.config
    return ThreadPoolExecutor(int(config.NUMBA_NUM_THREADS), "mustlink")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not live on in a fork


# --- How many threads work: as many of our own as allowed, one inside BLAS


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Run with at most n_jobs threads of our own (None: all), and one inside BLAS.

    Our kernels and row-block products split the work; see `kernels.blocks` for why BLAS does not.
    """
    wanted = check_n_jobs(n_jobs)
    before = nb.get_num_threads()
    nb.set_num_threads(workers() if wanted is None else min(wanted, workers()))
    try:
        with _ONE_IN_BLAS:
            yield
    finally:
        nb.set_num_threads(before)


class _OneInBlas:
    """One thread inside BLAS from the first entry to the last exit.

    The number belongs to the process: of two fits in threads, each of which restores what it found,
    the later would restore the one of the earlier.
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


# --- Where compiled kernels are kept: beside the sources, else in the user's folder of caches
#
# Numba takes the first of the two that it can write to, and does not load a kernel where that is
# neither: in a container whose user owns nothing, say. What somebody else compiled beside the
# sources, when an image was made, or in NUMBA_CACHE_DIR, is linked into the folder that it takes.


def ensure_cache_folder() -> None:
    """Keep kernels in a folder of this process alone, with a warning, where there is no other."""
    config: Any = nb.config
    given = config.CACHE_DIR
    try:
        folder = _folder_of_numba()
    except RuntimeError:
        config.CACHE_DIR = tempfile.mkdtemp(prefix=_OWN)
        atexit.register(shutil.rmtree, config.CACHE_DIR, ignore_errors=True)
        folder = _folder_of_numba()
    found = sum(_link(other, folder) for other in _others(given) if other != folder)
    if given != config.CACHE_DIR and not found:
        warnings.warn(
            "compiled kernels cannot be kept, as neither the installation nor the user's folder of "
            "caches can be written: every process compiles them again; set NUMBA_CACHE_DIR to a "
            "folder that can",
            RuntimeWarning,
            stacklevel=2,
        )


def cache_folder() -> str | None:
    """Where kernels are kept; None where they are lost with this process."""
    folder = _folder_of_numba()
    return None if folder.parent.name.startswith(_OWN) else str(folder)


_OWN = "mustlink-kernels-"


def _folder_of_numba() -> Path:
    """The folder that numba chooses; RuntimeError where there is none."""
    made: Any = nb.njit(cache=True)(_nothing)
    return Path(made.stats.cache_path)


def _others(given: str) -> list[Path]:
    """Folders that may hold kernels, whether they can be written or not."""
    sources = Path(os.path.abspath(__file__)).parent  # as numba does, links are not followed
    named = f"{sources.name}_{sha1(str(sources).encode()).hexdigest()}"  # as numba names it
    return [*([Path(given) / named] if given else []), sources / "__pycache__"]


def _link(source: Path, folder: Path) -> int:
    """Link what another folder has; returns how many kernels that are."""
    found = list(source.glob("*.nb[ic]"))
    for one in found:
        with suppress(OSError):  # there already; or the system does without links
            (folder / one.name).symlink_to(one)
    return len(found)


def _nothing() -> None:
    """Never compiled: decorating it tells where numba would keep it."""
