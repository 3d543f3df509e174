"""Advisory locks: two runs never write one file.

A lock is a hidden file `.NAME.lock` beside the file it guards, held with flock(2). The kernel drops
it when the last process that shares it ends, however it ends: there are no stale locks.

The lock file is removed at the end, while the lock is still held. A process that opened
it before it went would then hold a lock on a file that nobody else can find, so after locking the
name is looked up again: if it no longer leads to the locked inode, the attempt starts over. After
kill -9 the file stays behind, unlocked; the next run takes it over and removes it.

By hand, as filelock unlocks for every process that shares a lock, and leaves its files behind.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from mustlink.errors import InputError
from mustlink_io import system

_LONGEST = 200  # bytes of a name; file systems end at 255
_POLL = 0.05  # seconds
_BUSY = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}


def lock_file(path: str | Path) -> Path:
    """Return the lock file that guards `path`: beside it, symbolic links resolved."""
    target = Path(os.path.realpath(path))
    name = target.name
    if len(os.fsencode(name)) > _LONGEST:
        digest = hashlib.sha256(os.fsencode(target)).hexdigest()[:16]
        name = f"{name[:40]}.{digest}"
    return target.parent / f".{name}.lock"


def is_locked(path: str | Path) -> bool:
    """Whether a run holds the lock on `path`; nothing is made or changed."""
    try:
        descriptor = os.open(lock_file(path), os.O_RDONLY | system.OWN_FILE)
    except OSError:
        return False
    try:
        system.lock(descriptor, shared=True)
    except OSError as error:
        return error.errno in _BUSY
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def locked(path: str | Path, what: str = "output", *, wait: float = 0.0) -> Iterator[int | None]:
    """Hold the lock on `path` inside the `with` block; `what` names it in the error.

    Yields the descriptor that holds the lock. A child process that inherits it (`pass_fds`) shares
    the lock and keeps it should this process be killed. Where the file system has no locks (some
    network mounts) there is a warning, and None is yielded.

    Raises InputError in one line when another process, or another `with` block of this one, holds
    the lock for longer than `wait` seconds, or when the lock file cannot be made.
    """
    lock = lock_file(path)
    try:
        descriptor = _acquire(lock, time.monotonic() + wait)
    except BlockingIOError as error:
        holder = _holder(lock)
        raise InputError(
            f"{path}: this {what} is in use by another run{holder}; wait until it has ended, or "
            "give another name"
        ) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            words = error.strerror or type(error).__name__
            raise InputError(f"{path}: cannot be locked by {lock.name}: {words}") from error
        which = "the file system" if system.has_locks() else "this system"
        warnings.warn(
            f"{path}: {which} has no locks; see to it yourself that no other run writes this file",
            stacklevel=3,
        )
        yield None
        return
    try:
        yield descriptor
    finally:
        with contextlib.suppress(OSError):  # a folder that became read-only, or is gone
            if _leads_to(lock, descriptor):
                lock.unlink()
        os.close(descriptor)


def _acquire(lock: Path, deadline: float) -> int:
    """Descriptor of the locked file; BlockingIOError when it stays taken until the deadline."""
    while True:
        flags = os.O_RDWR | os.O_CREAT | system.OWN_FILE
        descriptor = os.open(lock, flags, 0o666)
        try:
            system.lock(descriptor)
            if _leads_to(lock, descriptor):
                with contextlib.suppress(OSError):  # a full disk: the lock holds without a name
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{os.getpid()}\n".encode())
                return descriptor
        except OSError as error:
            os.close(descriptor)
            if error.errno not in _BUSY:
                raise
            if time.monotonic() >= deadline:
                raise BlockingIOError(errno.EWOULDBLOCK, "is locked") from error
            time.sleep(_POLL)
        except BaseException:
            os.close(descriptor)
            raise
        else:
            os.close(descriptor)  # its holder removed the file between our open and our lock


def _leads_to(lock: Path, descriptor: int) -> bool:
    """Whether the name still belongs to the open file."""
    try:
        return os.path.samestat(lock.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _holder(lock: Path) -> str:
    """Return ` (process 123)` as the holder wrote it, or nothing."""
    try:
        with open(lock, "rb") as file:
            found = re.match(rb"\d{1,10}\n", file.read(16))
    except OSError:
        return ""
    return f" (process {int(found.group())})" if found else ""
