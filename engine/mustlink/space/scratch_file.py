"""Bytes in a temporary file that has no name: nothing is left of it, ever.

They are read and written explicitly. A memory map would be shorter, but its pages count as
resident memory of the process.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.core.process_memory import size_text
from mustlink.errors import InputError

# Windows, and older macOS, have one place in an open file, which threads share.
_MOVING = threading.Lock()
_PIECE = 1 << 24  # bytes that are moved at once there


class ScratchFile:
    """A file of `size` bytes, zero at first, that goes when it is closed, let go of or killed.

    `folder` is where it is, None: where temporary files are. Raises InputError where it does
    not fit.
    """

    def __init__(self, folder: Any, size: int) -> None:
        where = folder if folder is not None else tempfile.gettempdir()
        try:
            self._take(tempfile.TemporaryFile(dir=where, buffering=0))  # noqa: SIM115
        except OSError as error:
            raise InputError(
                f"scratch: no temporary file in {where} ({error.strerror}); name another folder"
            ) from None
        self._reserve(size, where)

    def _take(self, file: Any) -> None:
        self._file, self._fd = file, file.fileno()
        weakref.finalize(self, file.close)  # let go of: no warning of a file left open

    def _reserve(self, size: int, where: Any) -> None:
        try:
            if size and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._fd, 0, size)
            elif size > shutil.disk_usage(where).free:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            else:
                self._file.truncate(size)
        except OSError as error:
            self._file.close()
            raise InputError(
                f"scratch: {size_text(size, up=True)} do not fit in {where} ({error.strerror}); "
                "make room or name another folder"
            ) from None

    def fileno(self) -> int:
        """Its descriptor."""
        return self._fd

    def close(self) -> None:
        """Give the room back."""
        self._file.close()

    def write(self, at: int, values: NDArray[Any]) -> None:
        """Write a contiguous array from byte `at` on."""
        left = values.reshape(-1).view(np.uint8).data
        while left:
            done = _write_at(self._fd, left, at)
            left, at = left[done:], at + done

    def read(self, at: int, out: NDArray[Any]) -> None:
        """Fill a contiguous array from byte `at` on."""
        if not read_into(self._fd, at, out):
            raise InputError("scratch: the temporary file ended early; run again")


class NamedFile(ScratchFile):
    """A file that other processes open by its path: of `size` bytes it is made, else read.

    Raises InputError where it does not fit.
    """

    def __init__(self, path: Path, size: int | None = None) -> None:
        self._path = path
        self._take(open(path, "rb" if size is None else "x+b", buffering=0))  # noqa: SIM115
        if size is not None:
            self._reserve(size, path.parent)

    def settle(self) -> None:
        """Let other machines see what was written, as they do once it is closed; now it is read."""
        self._file.close()
        self._take(open(self._path, "rb", buffering=0))  # noqa: SIM115


def read_into(fd: int, at: int, out: NDArray[Any]) -> bool:
    """Fill a contiguous array with bytes of an open file from `at` on; whether it has as many."""
    left = out.reshape(-1).view(np.uint8).data
    while left:
        done = _read_at(fd, left, at)
        if done == 0:
            return False
        left, at = left[done:], at + done
    return True


def _read_at(fd: int, block: memoryview, at: int) -> int:
    if hasattr(os, "preadv"):
        return os.preadv(fd, [block], at)
    with _MOVING:
        os.lseek(fd, at, os.SEEK_SET)
        found = os.read(fd, min(len(block), _PIECE))
    block[: len(found)] = found
    return len(found)


def _write_at(fd: int, block: memoryview, at: int) -> int:
    if hasattr(os, "pwrite"):
        return os.pwrite(fd, block, at)
    with _MOVING:
        os.lseek(fd, at, os.SEEK_SET)
        return os.write(fd, block[:_PIECE])
