"""Numpy's own files, .npy and .npz: mapped or read on demand, never unpickled."""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError


@contextlib.contextmanager
def _numpy_errors(path: Path) -> Iterator[None]:
    """Tell what numpy and zipfile say of a bad file as one InputError."""
    try:
        yield
    except InputError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        words = " ".join(str(error).split())
        if "pickle" in words:
            words = "holds Python objects, which are never loaded"
        raise InputError(f"{path}: cannot be read: {words[:200]}") from error


def load_npy(path: Path) -> NDArray[Any]:
    """Map .npy into memory; never unpickles."""
    with _numpy_errors(path):
        found = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(found, np.ndarray):
            raise InputError(f"{path}: not a .npy file")
        return found


@contextlib.contextmanager
def open_npz(path: Path) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Open .npz as a mapping whose arrays are read when asked for; never unpickles."""
    with _numpy_errors(path):
        opened = np.load(path, allow_pickle=False)
        if isinstance(opened, np.ndarray):
            raise InputError(f"{path}: not an .npz archive")
        with opened:
            yield opened
