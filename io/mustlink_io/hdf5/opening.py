"""HDF5 files are opened with suspicion: a child process goes ahead, errors are one line."""

from __future__ import annotations

import contextlib
import math
import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mustlink.errors import InputError
from mustlink_io.hdf5 import schema, size_checks
from mustlink_io.hdf5.sandbox import Forerunner, examine, is_child

MAX_WORDS = 100_000  # values of a text dataset


class _File(h5py.File):
    """An open file, the child process that goes ahead, and what that has done without harm."""

    def __init__(self, path: Path, forerunner: Forerunner | None = None) -> None:
        super().__init__(path, "r")
        self.forerunner = forerunner
        self.safe: set[tuple[Any, ...]] = set()


@contextlib.contextmanager
def open_h5(path: str | Path) -> Iterator[h5py.File]:
    """Open for reading; a missing, damaged or truncated file is one InputError.

    Errors of the HDF5 library inside the `with` block are told the same way. Whatever is reached by
    `find`, `dataset`, `read` and `contents` is looked at by a child process first (`sandbox`),
    the same one while the file is open.
    """
    path = Path(path)
    check_file(path)
    try:
        there = path.stat()
        with _forerunner(path) as forerunner, _File(path, forerunner) as file:
            if forerunner is not None:
                if not os.path.samestat(there, os.fstat(file.id.get_vfd_handle())):
                    raise InputError(f"{path}: was replaced while it was opened; try again")
                forerunner.first = lambda: file  # from now on a new child shares this one
            _check_version(file)
            yield file
    except (OSError, RuntimeError, LookupError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InputError) or not _from_h5py(error):
            raise
        words = " ".join(str(error).split())[:200]
        if "lock file" in words or "already open for write" in words:
            raise InputError(
                f"{path}: is being written by another program, or was never closed by it; wait, "
                "or if it has ended: h5clear -s FILE"
            ) from error
        raise InputError(f"{path}: not an HDF5 file, truncated or damaged ({words})") from error


@contextlib.contextmanager
def _forerunner(path: Path) -> Iterator[Forerunner | None]:
    """A child process that has opened the file; in such a child itself none."""
    if is_child():
        yield None
        return
    forerunner = Forerunner(str(path), lambda: _looked_at(path))
    try:
        yield forerunner
    finally:
        forerunner.close()


def _from_h5py(error: Exception) -> bool:
    """Whether h5py raised this, which has no exception of its own for damaged files."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return isinstance(error, OSError | RuntimeError) or "h5py" in frames[-1].f_code.co_filename


def _check_version(file: h5py.File) -> None:
    written = np.asarray(file.attrs.get("mustlink-format", 0))
    if written.size != 1 or written.dtype.kind not in "iu" or int(written.flat[0]) > schema.FORMAT:
        raise InputError(
            f"{file.filename}: format {text(written)[:40]} is newer than this program's "
            f"({schema.FORMAT}); update mustlink"
        )


def check_readable(path: Path) -> None:
    """Raise InputError unless `path` is there, no folder, and this process may read it."""
    try:
        if not path.exists():
            raise InputError(f"{path}: no such file")
    except OSError as error:  # a name too long, a link that leads to itself
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if path.is_dir():
        raise InputError(f"{path}: is a directory, not a file")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: no permission to read it")


def check_file(path: Path) -> None:
    """Raise InputError unless `path` can be read at any place of it, which a pipe cannot."""
    check_readable(path)
    if not path.is_file():
        raise InputError(f"{path}: is a device or pipe, not a file")


def _looked_at(path: Path) -> _File:
    file = _File(path)
    _check_version(file)
    look(file)
    return file


def look(item: Any) -> None:
    """Ask of a dataset or group what will be asked of it, values apart."""
    if isinstance(item, h5py.Group):
        _look_at_attributes(item)
        list(item)
    elif isinstance(item, h5py.Dataset) and item.dtype.kind in "OSU" and item.shape is not None:
        size_checks.check_fits(math.prod(item.shape) * item.dtype.itemsize, str(item.name))
        _ = item[()] if item.size <= MAX_WORDS else item[(0,) * item.ndim]


def _look_at_attributes(item: h5py.Group) -> None:
    for name in item.attrs:
        with contextlib.suppress(OSError, RuntimeError, LookupError, TypeError, ValueError):
            _ = item.attrs[name]


def try_first(file: h5py.File, name: str, step: Callable[..., object], *arguments: Any) -> None:
    """Have a child process do `step(file, *arguments)`, about `name`, before, unless one did."""
    where = f"{file.filename}:{name}" if name else str(file.filename)
    forerunner: Forerunner | None = getattr(file, "forerunner", None)
    if forerunner is None:  # in a child, or not opened here
        examine(where, lambda: step(file, *arguments))
    elif (step, *arguments) not in file.safe:
        forerunner.go_ahead(where, step, *arguments)
        file.safe.add((step, *arguments))


def decoded(value: Any) -> str:
    """Return an attribute or scalar dataset as text, whatever string type it was stored as."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def text(value: Any) -> str:
    """Return `decoded` for people to read: what cannot be printed is escaped.

    A name in a file must not steer a terminal.
    """
    found = decoded(value)
    if found.isprintable():
        return found
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in found
    )
