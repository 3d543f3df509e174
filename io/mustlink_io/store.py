"""HDF5 files: opened with suspicion, written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io import schema

_MAX_SOFT_LINKS = 16


def _create_beside(path: Path) -> Path:
    """Create an empty temporary file in the folder of `path`, with the umask's permissions."""
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    return temporary


def _target(path: str | Path) -> Path:
    """Return the file that a rename may replace: never a folder, and never /dev/null."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise InputError(f"{path}: is a directory; give the name of a file to write")
    if target.exists() and not target.is_file():
        raise InputError(f"{path}: is a device or pipe; give the name of a file to write")
    return target


def check_output(path: str | Path, inputs: Iterable[str | Path] = ()) -> Path:
    """Make sure now that `path` can be written later; returns the path with links resolved.

    Raises InputError when it is a directory, one of the inputs, or in a folder that is missing or
    not writable.
    """
    target = _target(path)
    for source in inputs:
        if target.exists() and Path(source).exists() and target.samefile(source):
            raise InputError(f"{path}: is the input itself; give another name to write to")
    try:
        _create_beside(target).unlink()
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {_reason(error)}") from error
    return target


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary file in the folder of `path`; on success it becomes `path`.

    Synced before the rename, removed after any error, KeyboardInterrupt included. Raises
    InputError when the folder cannot be written.
    """
    target = _target(path)
    try:
        temporary = _create_beside(target)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {_reason(error)}") from error
    try:
        yield temporary
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o777)
        _sync(temporary)
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise InputError(f"{path}: was not written: {_reason(error)}") from error
        raise
    with contextlib.suppress(OSError):  # some file systems cannot sync a folder
        _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reason(error: OSError) -> str:
    """Return the system's words without the path, which the message names already."""
    return error.strerror or (str(error).splitlines() or [type(error).__name__])[0]


@contextlib.contextmanager
def open_h5(path: str | Path) -> Iterator[h5py.File]:
    """Open for reading; a missing, damaged or truncated file is one InputError.

    Errors of the HDF5 library inside the `with` block are told the same way.
    """
    path = Path(path)
    check_readable(path)
    try:
        with h5py.File(path, "r") as file:
            _check_version(file)
            yield file
    except (OSError, RuntimeError, LookupError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InputError) or not _from_h5py(error):
            raise
        words = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: not an HDF5 file, truncated or damaged ({words})") from error


def _from_h5py(error: Exception) -> bool:
    """Whether h5py raised this, which has no exception of its own for damaged files."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return isinstance(error, OSError | RuntimeError) or "h5py" in frames[-1].f_code.co_filename


def _check_version(file: h5py.File) -> None:
    written = np.asarray(file.attrs.get("mustlink-format", 0))
    if written.size != 1 or written.dtype.kind not in "iu" or int(written.flat[0]) > schema.FORMAT:
        raise InputError(
            f"{file.filename}: format {written} is newer than this program's "
            f"({schema.FORMAT}); update mustlink"
        )


def check_readable(path: Path) -> None:
    """Raise InputError unless `path` is a file this process may read."""
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if path.is_dir():
        raise InputError(f"{path}: is a directory, not a file")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: no permission to read it")


def find(file: h5py.File, name: str) -> h5py.Dataset | h5py.Group | None:
    """Return the dataset or group `name`, or None; never leaves the file.

    Raises InputError at an external link. Soft links are followed up to a limit.
    """
    parts = [p for p in name.split("/") if p not in ("", ".")]
    here: h5py.Group = file
    links, done = 0, ""
    while parts:
        step = parts.pop(0)
        if not isinstance(here, h5py.Group) or step not in here.keys():  # noqa: SIM118  (no link followed)
            return None
        link = here.get(step, getlink=True)
        if isinstance(link, h5py.SoftLink):
            links += 1
            if links > _MAX_SOFT_LINKS:
                raise InputError(f"{file.filename}:{name}: soft links go round in a circle")
            into = [p for p in link.path.split("/") if p not in ("", ".")]
            parts = into + parts
            if link.path.startswith("/"):
                here, done = file, ""
            continue
        if not isinstance(link, h5py.HardLink):
            raise InputError(
                f"{file.filename}:{done}/{step}: an external link; mustlink reads one file only, "
                "copy the data into it"
            )
        here, done = here[step], f"{done}/{step}"
    return here


def contents(file: h5py.File) -> dict[str, h5py.Dataset | h5py.Group]:
    """Every dataset and group by path, reached by hard links only."""
    found: dict[str, h5py.Dataset | h5py.Group] = {}
    file.visititems(lambda name, item: found.__setitem__("/" + text(name), item))
    return found


def dataset(file: h5py.File, name: str) -> h5py.Dataset:
    """Return a dataset that holds its own values inside this file; raises InputError.

    Refuses virtual datasets, external storage, and declared values that were never stored: a
    file of a kilobyte must not make us allocate a terabyte.
    """
    found = find(file, name)
    where = f"{file.filename}:{name}"
    if found is None:
        datasets = [p for p, o in contents(file).items() if isinstance(o, h5py.Dataset)]
        has = ", ".join(datasets[:12]) + (" …" if len(datasets) > 12 else "")
        raise InputError(f"{where}: no such dataset; the file has {has or 'none'}")
    if not isinstance(found, h5py.Dataset):
        what = "a group" if isinstance(found, h5py.Group) else "a named type"
        raise InputError(f"{where}: {what}, where a dataset is wanted")
    if found.is_virtual:
        raise InputError(f"{where}: a virtual dataset; copy its values into one file")
    if found.external:
        raise InputError(f"{where}: stored in another file; copy its values into this one")
    _check_stored(found, where)
    return found


def _check_stored(data: h5py.Dataset, where: str) -> None:
    if data.shape is None:
        raise InputError(f"{where}: an empty (null) dataset")
    stored = data.id.get_storage_size()
    if stored > Path(data.file.filename).stat().st_size:
        raise InputError(f"{where}: declares more stored bytes than the file has")
    if data.chunks is not None:
        wanted = int(np.prod([-(-s // c) for s, c in zip(data.shape, data.chunks, strict=True)]))
        if data.id.get_num_chunks() < wanted:
            raise InputError(
                f"{where}: {data.id.get_num_chunks()} of {wanted} chunks were written; the file "
                "is incomplete"
            )
    elif stored < data.size * data.dtype.itemsize:
        raise InputError(f"{where}: shape {data.shape} was declared but the values never written")


def read(file: h5py.File, name: str, dims: dict[str, int], item: str) -> NDArray[Any]:
    """Read dataset `name` whole after checking it against row `item` of the schema."""
    data = dataset(file, name)
    where = f"{file.filename}:{name}"
    schema.bind(schema.ITEMS[item], data.shape, dims, where)
    schema.check_dtype(schema.ITEMS[item], data.dtype, where)
    return np.asarray(data[()])


def text(value: Any) -> str:
    """Return an attribute or scalar dataset as text, whatever string type it was stored as."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def write(path: str | Path, content: Mapping[str, Any]) -> None:
    """Write a file of the format: paths of `schema.ITEMS` mapped to values.

    Every value is checked and cast by the table; the root attributes are added. Raises
    InputError for a value that does not fit, or when the file cannot be written.
    """
    import mustlink

    version = getattr(mustlink, "__version__", "unknown")
    full = {"/@mustlink-format": schema.FORMAT, "/@mustlink-version": version, **content}
    dims: dict[str, int] = {}
    ready = {name: schema.to_writable(schema.ITEMS[name], v, dims) for name, v in full.items()}
    with atomic(path) as temporary, h5py.File(temporary, "w") as file:
        for name, value in ready.items():
            place, _, attribute = name.partition("@")
            if attribute:
                file.require_group(place).attrs[attribute] = value
            elif schema.ITEMS[name].is_text:
                file.create_dataset(place, data=value, dtype=h5py.string_dtype())
            else:
                file.create_dataset(place, data=value)
