"""How functions that are no loops over rows are compiled: cached on disk, without the interpreter.

Compiling takes a tenth of a second for a function and a set of types, however short. So kernels
get one type for each argument, and what is called within one is written into it where it is short.
What takes a line of NumPy is done so on small data, which need no compiler then.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numba as nb

FEW = 1 << 18  # numbers up to which NumPy takes less time than a kernel takes to be loaded


def kernel(**options: Any) -> Callable[[Any], Any]:
    """Decorate what Python calls."""
    njit: Any = nb.njit  # its types do not know all options

    def build(body: Any) -> Any:
        found = njit(cache=True, nogil=True, no_cfunc_wrapper=True, **options)(body)
        found.compile = _undisturbed(found.compile)
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


def helper(**options: Any) -> Callable[[Any], Any]:
    """Decorate what only kernels call: it cannot be called from Python, which saves a quarter."""
    return kernel(no_cpython_wrapper=True, **options)


def inlined(**options: Any) -> Callable[[Any], Any]:
    """Decorate what is written into the kernels that call it, as if it stood there."""
    return kernel(inline="always", **options)
