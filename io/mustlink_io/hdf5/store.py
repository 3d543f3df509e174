"""What is inside an HDF5 file: opened, found, checked and read with suspicion."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError, spelt_alike
from mustlink_io.hdf5 import schema, size_checks
from mustlink_io.hdf5.sandbox import Forerunner, allow, examine, is_child

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

    Errors of the HDF5 library inside the `with` block are, too. Whatever is reached by
    `find`, `dataset`, `read` and `contents` is looked at by a child process first (`sandbox`),
    the same one while the file is open.
    """
    path = Path(path)
    check_file(path)
    try:
        there = path.stat()
        with contextlib.ExitStack() as closing:
            forerunner = None
            if not is_child():
                forerunner = Forerunner(str(path), lambda: _looked_at(path))
                closing.callback(forerunner.close)
            file = closing.enter_context(_File(path, forerunner))
            if forerunner is not None:
                if not os.path.samestat(there, os.fstat(file.id.get_vfd_handle())):
                    raise InputError(f"{path}: was replaced while it was opened; try again")
                forerunner.first = lambda: file  # from now on a new child shares this one
            _check_version(file)
            yield file
    except (OSError, RuntimeError, LookupError, TypeError, ValueError, OverflowError) as error:
        # h5py has no exception of its own for damaged files
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        of_h5py = isinstance(error, OSError | RuntimeError) or "h5py" in frame.f_code.co_filename
        if isinstance(error, InputError) or not of_h5py:
            raise
        words = " ".join(str(error).split())[:200]
        if "lock file" in words or "already open for write" in words:
            raise InputError(
                f"{path}: is being written by another program, or was never closed by it; wait, "
                "or if it has ended: h5clear -s FILE"
            ) from error
        raise InputError(f"{path}: not an HDF5 file, truncated or damaged ({words})") from error


def _check_version(file: h5py.File) -> None:
    written = np.asarray(file.attrs.get("mustlink-format", 0))
    if written.size != 1 or written.dtype.kind not in "iu" or int(written.flat[0]) > schema.FORMAT:
        raise InputError(
            f"{file.filename}: format {text(written)[:40]} is newer than this program's "
            f"({schema.FORMAT}); update mustlink"
        )


@contextlib.contextmanager
def refusing(what: str) -> Iterator[None]:
    """Whatever a library raises at a bad file becomes one InputError, that says `what` it is."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:  # libraries raise whatever they like at damaged files
        words = " ".join(text(str(error)).split())[:200] or type(error).__name__
        raise InputError(f"{what} ({words})") from error


def check_readable(path: Path, *, folder: bool = False) -> None:
    """Raise InputError unless `path` is there, no `folder` but where it may be, and readable."""
    try:
        if not path.exists():
            near = spelt_alike(path.name, _names_beside(path))
            raise InputError(f"{path}: no such file" + (f"; did you mean {near}?" if near else ""))
    except OSError as error:  # a name too long, a link that leads to itself
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if path.is_dir() and not folder:
        raise InputError(f"{path}: is a directory, not a file")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: no permission to read it")


_BESIDE = 1_000  # files of a folder whose names are compared


def _names_beside(path: Path) -> list[str]:
    """Names of files in the same folder, unless there are very many."""
    try:
        with os.scandir(path.parent) as found:
            return [one.name for one in itertools.islice(found, _BESIDE)]
    except OSError:
        return []


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
    """Read of a dataset or group what will be read of it, values apart."""
    if isinstance(item, h5py.Group):
        for name in item.attrs:
            with contextlib.suppress(OSError, RuntimeError, LookupError, TypeError, ValueError):
                _ = item.attrs[name]
        list(item)
    elif isinstance(item, h5py.Dataset) and item.dtype.kind in "OSU" and item.shape is not None:
        size_checks.check_fits(math.prod(item.shape) * item.dtype.itemsize, str(item.name))
        _ = item[()] if item.size <= MAX_WORDS else item[(0,) * item.ndim]


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


_MAX_SOFT_LINKS = 16
_TEXT_BYTES = 64  # of a short text in memory
_ROWS = 1 << 16  # texts read in one go
_LISTED = 12  # datasets that a message names


def find(file: h5py.File, name: str) -> h5py.Dataset | h5py.Group | None:
    """Return the dataset or group `name`, or None; never leaves the file.

    Raises InputError at an external link. Soft links are followed up to a limit.
    """
    try_first(file, name, _look_at, name)
    return _follow(file, name)


def _look_at(file: h5py.File, name: str) -> None:
    look(_follow(file, name))


def _follow(file: h5py.File, name: str) -> h5py.Dataset | h5py.Group | None:
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
    """Every dataset and group by path, reached by hard links only, each once."""
    try_first(file, "", _contents)
    return _contents(file)


def _contents(file: h5py.File) -> dict[str, h5py.Dataset | h5py.Group]:
    found: dict[str, h5py.Dataset | h5py.Group] = {}
    file.visititems(lambda name, item: found.__setitem__("/" + text(name), item))
    return found


def listed(file: h5py.File) -> str:
    """Names of the datasets in a file for a message, the first of them."""
    found = contents(file).items()
    datasets = [" ".join(path.split()) for path, item in found if isinstance(item, h5py.Dataset)]
    return (", ".join(datasets[:_LISTED]) + (" …" if len(datasets) > _LISTED else "")) or "none"


def below(file: h5py.File, name: str) -> h5py.Group | None:
    """Return a group whose datasets were all looked at as by `dataset`, in one go; None if absent.

    Raises InputError where a link leads elsewhere: what is below may be taken as it is.
    """
    try_first(file, name, _look_below, name)
    found = _follow(file, name)
    if found is not None and not isinstance(found, h5py.Group):
        raise InputError(f"{file.filename}:{name}: a dataset, where a group is wanted")
    return found


def _look_below(file: h5py.File, name: str) -> None:
    group = _follow(file, name)
    if isinstance(group, h5py.Group):
        _look_inside(file, name, group)  # which `visititems` leaves out
        group.visititems(lambda path, item: _look_inside(file, f"{name}/{path}", item))


def _look_inside(file: h5py.File, path: str, item: Any) -> None:
    if isinstance(item, h5py.Group):
        look(item)
        for step in item:
            if not isinstance(item.get(step, getlink=True), h5py.HardLink):
                raise InputError(f"{file.filename}:{text(path)}: has a link to elsewhere")
    else:
        _look_at_values(file, path)


def dataset(file: h5py.File, name: str, *, values: bool = True) -> h5py.Dataset:
    """Return a dataset that holds its own values inside this file; raises InputError.

    Refuses virtual datasets, external storage, and declared values that were never stored: a
    file of a kilobyte must not make us allocate a terabyte. Compressed values are inflated once to
    count them (`declared`), unless the caller will not read `values`.
    """
    if values:
        try_first(file, name, _look_at_values, name)
    else:
        try_first(file, name, _dataset, name)
    return _dataset(file, name)


def _look_at_values(file: h5py.File, name: str) -> None:
    data = _dataset(file, name)
    look(data)
    if data.chunks is not None:
        where = f"{data.file.filename}:{name}"
        allow(math.prod(data.shape) * data.dtype.itemsize + size_checks.file_size(data))
        size_checks.check_chunks(data, where)


def _dataset(file: h5py.File, name: str) -> h5py.Dataset:
    where = f"{file.filename}:{name}"
    found = _follow(file, name)
    if found is None:
        raise InputError(f"{where}: no such dataset; the file has {listed(file)}")
    if not isinstance(found, h5py.Dataset):
        what = "a group" if isinstance(found, h5py.Group) else "a named type"
        raise InputError(f"{where}: {what}, where a dataset is wanted")
    if found.is_virtual:
        raise InputError(f"{where}: a virtual dataset; copy its values into one file")
    if found.external:
        raise InputError(f"{where}: stored in another file; copy its values into this one")
    try:
        _ = found.dtype
    except TypeError as error:
        words = " ".join(str(error).split())
        raise InputError(f"{where}: values of a type that is not read ({words})") from error
    size_checks.check_stored(found, where)
    return found


def read(file: h5py.File, name: str, dims: dict[str, int], item: str) -> NDArray[Any]:
    """Read dataset `name` whole after checking it against row `item` of the schema."""
    data = dataset(file, name)
    where = f"{file.filename}:{name}"
    schema.bind(schema.ITEMS[item], data.shape, dims, where)
    schema.check_dtype(schema.ITEMS[item], data.dtype, where)
    size_checks.check_fits(data.size * data.dtype.itemsize, where)
    if schema.ITEMS[item].is_text and data.size > MAX_WORDS:
        raise InputError(f"{where}: {data.size} texts, where a few are wanted")
    return np.asarray(data[()])


def image(file: h5py.File, n_nodes: int) -> NDArray[Any] | None:
    """The picture (h, w, 3) whose pixels are the nodes, None for none; raises InputError."""
    if find(file, "/image") is None:
        return None
    found = read(file, "/image", {}, "/image")
    if found.shape[0] * found.shape[1] != n_nodes or found.dtype != np.uint8:
        raise InputError(
            f"{file.filename}:/image: shape {found.shape} of type {found.dtype}; wanted are red, "
            f"green and blue as uint8 of the {n_nodes} nodes"
        )
    return found


def texts(file: h5py.File, name: str) -> NDArray[np.object_]:
    """Read a dataset (n,) of text, such as names of nodes, as Python strings; raises InputError."""
    n = look_at_texts(file, name)
    each = max(_TEXT_BYTES, _of_texts(file, name).dtype.itemsize)
    size_checks.check_fits(n * each, f"{file.filename}:{name}")
    return text_rows(file, name, slice(None))


def look_at_texts(file: h5py.File, name: str) -> int:
    """How many texts a dataset has, after a child process has read them by blocks; InputError.

    The HDF5 library may never come back from text of variable length in a damaged file.
    """
    try_first(file, name, _look_at_texts, name)
    return int(_of_texts(file, name).size)


def _look_at_texts(file: h5py.File, name: str) -> None:
    size = _of_texts(file, name).size
    allow(size * _TEXT_BYTES)
    _look_at_values(file, name)
    for first in range(0, size, _ROWS):
        text_rows(file, name, slice(first, first + _ROWS))


def text_rows(file: h5py.File, name: str, rows: slice) -> NDArray[np.object_]:
    """Some rows of a dataset of text that was looked at; raises InputError."""
    return np.array([decoded(value) for value in _of_texts(file, name)[rows]], dtype=object)


def _of_texts(file: h5py.File, name: str) -> h5py.Dataset:
    data = _dataset(file, name)
    if data.ndim != 1 or data.dtype.kind not in "OSU":
        raise InputError(
            f"{file.filename}:{name}: shape {data.shape} of type {data.dtype}, where texts are "
            "wanted, one a row"
        )
    return data


class FileNames:
    """The texts (n,) in `/names` of a file; slices of them are read, and none is held."""

    row_bytes = 64  # or so

    def __init__(self, path: Path, n: int) -> None:
        self.path, self.shape = path, (n,)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[np.object_]:
        """Some of them; raises InputError."""
        with open_h5(self.path) as file:
            return text_rows(file, "/names", rows)

    def of_rows(self, rows: NDArray[np.int64]) -> dict[int, str]:
        """Those of a few rows (b,), by their numbers; raises InputError."""
        with open_h5(self.path) as file:
            return {
                row: text_rows(file, "/names", slice(row, row + 1))[0]
                for row in np.unique(rows).tolist()
            }

    @property
    def texts(self) -> FileNames:
        """Itself, where names in memory have an array."""
        return self


def stored_names(file: h5py.File, path: Path) -> FileNames | None:
    """Names that a file gives to its nodes, None for none, or 0, 1, 2 …; raises InputError."""
    if find(file, "/names") is None:
        return None
    n = look_at_texts(file, "/names")
    for first in range(0, n, _ROWS):
        some = text_rows(file, "/names", slice(first, first + _ROWS))
        if any(text != str(first + row) for row, text in enumerate(some)):
            return FileNames(path, n)
    return None
