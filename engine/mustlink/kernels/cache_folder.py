"""Where compiled kernels are kept: beside the sources, else in the user's folder of caches.

Numba looks for the two by itself, and does not load a kernel where it can write to neither: in a
container whose user owns nothing, say.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from typing import Any

import numba as nb


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
