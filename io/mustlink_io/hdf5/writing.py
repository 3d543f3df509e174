"""Files written whole or not at all, also when the disk fills up half-way; JSON."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mustlink.errors import InputError
from mustlink_io.hdf5 import schema
from mustlink_io.system import user


def to_json(value: Any) -> str:
    """JSON of plain and numpy values; NaN and Inf, which JSON lacks, become null."""
    return json.dumps(_plain(value), ensure_ascii=False, default=str)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


ANNDATA = ".h5ad"  # which others read and write, too
HDF5_BEGINS = b"\x89HDF"
_BEGINNING = 4096  # bytes, among which a file says whose it is
_MAX_LINKS = 40
_ROWS = 1 << 16  # of an answer on disk that are written in one go


def _create_beside(path: Path) -> Path:
    """Create an empty temporary file in the folder of `path`, with the umask's permissions."""
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    return temporary


def _target(path: str | Path) -> Path:
    """Return the file that a rename may replace: never a folder, and never /dev/null.

    A link is followed, so that it stays and its target is replaced, unless somebody else put it
    there: in a folder that others write to, a planted link would choose what is overwritten.
    """
    here = Path(path)
    for _ in range(_MAX_LINKS):
        if not here.is_symlink():
            break
        owner, folder = here.lstat().st_uid, here.parent.stat().st_uid
        if user() is not None and owner not in (user(), folder):
            raise InputError(
                f"{path}: is a link that another user made; remove it or give another name"
            )
        here = here.parent / os.readlink(here)
    else:
        raise InputError(f"{path}: is a link that leads round in a circle; give another name")
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise InputError(f"{path}: is a directory; give the name of a file to write")
    if target.exists() and not target.is_file():
        raise InputError(f"{path}: is a device or pipe; give the name of a file to write")
    return target


def check_output(
    path: str | Path, inputs: Iterable[str | Path] = (), mark: bytes | None = HDF5_BEGINS
) -> Path:
    """Make sure now that `path` can be written later; returns the path with links resolved.

    `mark` is what the beginning of a file of that kind has if mustlink wrote it; HDF5 says that
    itself, too; None: the caller looks whose it is. Raises InputError when it is a
    directory, one of the inputs, a file that somebody else wrote, or in a folder that is missing or
    not writable.
    """
    try:
        target = _target(path)
        for source in inputs:
            if target.exists() and Path(source).exists() and target.samefile(source):
                raise InputError(f"{path}: is the input itself; give another name to write to")
        if target.exists() and target.suffix != ANNDATA and _is_foreign(target, mark):
            what = "an HDF5 file" if h5py.is_hdf5(target) else "there, a file"
            raise InputError(
                f"{path}: is {what} that mustlink did not write; give another name to write "
                "to, or remove it"
            )
        if not target.parent.exists():
            raise InputError(f"{path}: cannot be written: no folder {target.parent}; make it first")
        _create_beside(target).unlink()
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {_reason(error)}") from error
    return target


def _is_foreign(path: Path, mark: bytes | None) -> bool:
    """Whether it holds something without the mark, or is HDF5 and no result, graph or model."""
    if mark is not None and path.stat().st_size > 0:
        with path.open("rb") as file:
            if mark not in file.read(_BEGINNING):
                return True
    try:
        with h5py.File(path, "r") as file:
            return len(file) > 0 and "mustlink-format" not in file.attrs
    except OSError:  # no HDF5 file, or one that nobody can read
        return False


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, unless it is there; raises InputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made a folder ({error.strerror})") from error


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary file in the folder of `path`; on success it becomes `path`.

    Synced before the rename, removed after any error, KeyboardInterrupt included. Raises
    InputError when the folder cannot be written.
    """
    try:
        target = _target(path)
        temporary = _create_beside(target)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {_reason(error)}") from error
    try:
        yield temporary
        _sync(temporary, os.O_RDWR)
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o777)
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise InputError(f"{path}: was not written: {_reason(error)}") from error
        raise
    with contextlib.suppress(OSError):  # some file systems cannot sync a folder
        _sync(target.parent)


@contextlib.contextmanager
def create_h5(path: str | Path) -> Iterator[h5py.File]:
    """Yield a new HDF5 file that becomes `path` when the block ends, as `atomic` does.

    Raises InputError when it cannot be written to the end.
    """
    with atomic(path) as temporary, Sink(temporary) as sink:
        try:
            with h5py.File(sink, "w") as file:
                yield file
        except Exception:
            sink.check()
            raise
        sink.check()


def write(
    path: str | Path,
    content: Mapping[str, Any],
    then: Callable[[h5py.File, Mapping[int, str]], None] | None = None,
) -> None:
    """Write a file of the format: paths of `schema.ITEMS` mapped to values.

    Every value is checked and cast by the table; the root attributes are added. `then` writes what
    else belongs into it; it gets the paths of the arrays that were written as they are, by id.
    Raises InputError for a value that does not fit, or when the file cannot be written.
    """
    import mustlink

    version = getattr(mustlink, "__version__", "unknown")
    full = {"/@mustlink-format": schema.FORMAT, "/@mustlink-version": version, **content}
    dims: dict[str, int] = {}
    ready = {name: schema.to_writable(schema.ITEMS[name], v, dims) for name, v in full.items()}
    with create_h5(path) as file:
        for name, value in ready.items():
            place, _, attribute = name.partition("@")
            if attribute:
                file.require_group(place).attrs[attribute] = value
            elif schema.is_on_disk(value):
                dtype = h5py.string_dtype() if schema.ITEMS[name].is_text else value.dtype
                data = file.create_dataset(place, value.shape, dtype)
                for first in range(0, len(value), _ROWS):
                    data[first : first + _ROWS] = value[first : first + _ROWS]
            elif schema.ITEMS[name].is_text:
                file.create_dataset(place, data=value, dtype=h5py.string_dtype())
            else:
                file.create_dataset(place, data=value)
        if then is not None:
            as_they_are = [name for name, value in ready.items() if value is full[name]]
            then(file, {id(full[name]): name for name in as_they_are if "@" not in name})


def _sync(path: Path, mode: int = os.O_RDONLY) -> None:
    descriptor = os.open(path, mode)  # Windows writes back only what may be written
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reason(error: OSError) -> str:
    """Return the system's words without the path, which the message names already."""
    return error.strerror or (str(error).splitlines() or [type(error).__name__])[0]


class Sink:
    """A file for the HDF5 library to write to, which never learns that the disk is full.

    The library does not get over a failed write: it tries again when the file is closed and when
    the program ends, with messages of its own. So what comes after the first error is
    kept in memory, from where the library reads it back (what is not there makes it crash), and
    `check` raises the error when it is done.
    """

    def __init__(self, path: Path) -> None:
        self._file = open(path, "r+b", buffering=0)  # noqa: SIM115
        self._at = 0
        self._unwritten: list[tuple[int, bytes]] = []  # places and blocks
        self.error: OSError | None = None

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # a file that matters was synced, and checked, before
            self._file.close()

    def check(self) -> None:
        """Raise the error that was met, if any; else make sure of what was written (fsync)."""
        if self.error is None:
            os.fsync(self._file.fileno())
        else:
            raise self.error

    def write(self, block: Any) -> int:
        """Write all of a block, to memory once there was an error."""
        view = memoryview(block).cast("B")
        done = 0
        try:
            while done < len(view) and self.error is None:
                self._file.seek(self._at + done)
                done += self._file.write(view[done:])
        except OSError as error:
            self.error = error
        if self.error is not None:
            self._unwritten.append((self._at, bytes(view)))
        self._at += len(view)
        return len(view)

    def read(self, size: int = -1) -> bytes:
        """Read some bytes; h5py knows a file by this."""
        self._file.seek(self._at)
        found = self._file.read(size)
        self._at += len(found)
        return found

    def readinto(self, block: Any) -> int:
        """Read what the library wants back of what it wrote."""
        view = memoryview(block).cast("B")
        self._file.seek(self._at)
        found = self._file.readinto(view) or 0
        if self._unwritten:
            view[found:] = bytes(len(view) - found)
        for start, lost in self._unwritten:
            low, high = max(start, self._at), min(start + len(lost), self._at + len(view))
            if low < high:
                view[low - self._at : high - self._at] = lost[low - start : high - start]
                found = max(found, high - self._at)
        self._at += found
        return found

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a place, as files do."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        self._at = offset + (os.fstat(self._file.fileno()).st_size if start is None else start)
        return self._at

    def tell(self) -> int:
        """Place in the file."""
        return self._at

    def truncate(self, size: int | None = None) -> int:
        """Cut or extend the file."""
        size = self._at if size is None else size
        try:
            if self.error is None:
                self._file.truncate(size)
        except OSError as error:
            self.error = error
        return size

    def flush(self) -> None:
        """Nothing is held back."""
