"""What is inside an HDF5 file: found, checked and read with suspicion."""

from __future__ import annotations

import math
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.hdf5 import conforming, schema, size_checks
from mustlink_io.hdf5.opening import (
    MAX_WORDS,
    check_file,
    check_readable,
    decoded,
    look,
    open_h5,
    text,
    try_first,
)
from mustlink_io.hdf5.sandbox import allow
from mustlink_io.hdf5.writing import atomic, check_output, create_h5, write

__all__ = [
    "atomic",
    "below",
    "check_file",
    "check_output",
    "check_readable",
    "contents",
    "create_h5",
    "dataset",
    "decoded",
    "find",
    "listed",
    "look_at_texts",
    "open_h5",
    "read",
    "text",
    "text_rows",
    "texts",
    "try_first",
    "write",
]

_MAX_SOFT_LINKS = 16
_TEXT_BYTES = 64  # of a short text in memory
_TEXTS = 1 << 16  # read in one go
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
    conforming.bind(schema.ITEMS[item], data.shape, dims, where)
    conforming.check_dtype(schema.ITEMS[item], data.dtype, where)
    size_checks.check_fits(data.size * data.dtype.itemsize, where)
    if schema.ITEMS[item].is_text and data.size > MAX_WORDS:
        raise InputError(f"{where}: {data.size} texts, where a few are wanted")
    return np.asarray(data[()])


def texts(file: h5py.File, name: str) -> NDArray[np.object_]:
    """Read a dataset (n,) of text, such as names of nodes, as Python strings.

    A child process reads all of it first: the HDF5 library may never come back from text of
    variable length in a damaged file. Raises InputError.
    """
    try_first(file, name, _look_at_texts, name)
    return _texts(file, name)


def _look_at_texts(file: h5py.File, name: str) -> None:
    allow(_dataset(file, name).size * _TEXT_BYTES)
    _look_at_values(file, name)
    _texts(file, name)


def look_at_texts(file: h5py.File, name: str) -> int:
    """How many texts a dataset has, after a child process has read them by blocks; InputError."""
    try_first(file, name, _look_by_blocks, name)
    return int(_of_texts(file, name).size)


def _look_by_blocks(file: h5py.File, name: str) -> None:
    data = _of_texts(file, name)
    look(data)
    for first in range(0, data.size, _TEXTS):
        text_rows(file, name, slice(first, first + _TEXTS))


def text_rows(file: h5py.File, name: str, rows: slice) -> NDArray[np.object_]:
    """Some rows of a dataset of text that was looked at; raises InputError."""
    return np.array([decoded(value) for value in _of_texts(file, name)[rows]], dtype=object)


def _texts(file: h5py.File, name: str) -> NDArray[np.object_]:
    data = _of_texts(file, name)
    where = f"{file.filename}:{name}"
    size_checks.check_fits(data.size * max(_TEXT_BYTES, data.dtype.itemsize), where)
    return text_rows(file, name, slice(None))


def _of_texts(file: h5py.File, name: str) -> h5py.Dataset:
    data = _dataset(file, name)
    if data.ndim != 1 or data.dtype.kind not in "OSU":
        raise InputError(
            f"{file.filename}:{name}: shape {data.shape} of type {data.dtype}, where texts are "
            "wanted, one a row"
        )
    return data
