"""Numpy's own files, .npy and .npz: mapped or read on demand, never unpickled."""

from __future__ import annotations

import contextlib
import math
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import matrices
from mustlink_io.hdf5 import size_checks, store
from mustlink_io.hdf5.file_names import Place

_DEFLATE_MOST = 1032  # bytes that one byte of a deflate stream can stand for
_HEADER = 10_000  # characters of a header, which is read as a Python literal


@contextlib.contextmanager
def _numpy_errors(where: str) -> Iterator[None]:
    """Tell what numpy and zipfile say of a bad file as one InputError, whatever they raise.

    The header of an array is evaluated as Python text, which can fail in every way that text can.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except InputError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())
        if "pickle" in words or "Object arrays" in words:
            words = "holds Python objects, which are never loaded"
        printable = "".join(c if c.isprintable() else "?" for c in words[:200])
        raise InputError(f"{where}: cannot be read: {printable or type(error).__name__}") from error


def load_npy(path: Path) -> NDArray[Any]:
    """Map .npy into memory; never unpickles. Raises InputError."""
    store.check_file(path)
    with _numpy_errors(str(path)):
        with path.open("rb") as file:
            if file.read(len(npy.MAGIC_PREFIX)) != npy.MAGIC_PREFIX:
                raise InputError(f"{path}: cannot be read: not a .npy file")
            file.seek(0)
            shape, dtype = _header(file)
            size = path.stat().st_size - file.tell()
        if dtype.hasobject:
            raise InputError(f"{path}: holds Python objects, which are never loaded")
        wanted = math.prod(shape) * dtype.itemsize
        if wanted > size:
            raise InputError(
                f"{path}: cannot be read: {wanted} bytes of values are declared, {size} are there"
            )
        if not wanted:
            return np.zeros(shape, dtype)
        return np.asanyarray(np.load(path, mmap_mode="r", allow_pickle=False))


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type that the next array in a file declares."""
    version = npy.read_magic(file)
    if version[0] == 1:
        shape, _, dtype = npy.read_array_header_1_0(file, max_header_size=_HEADER)
    else:
        shape, _, dtype = npy.read_array_header_2_0(file, max_header_size=_HEADER)
    if min(shape, default=0) < 0:
        raise ValueError(f"shape {shape}")
    return shape, dtype


class Archive(Mapping[str, NDArray[Any]]):
    """The arrays of an .npz, read when asked for; what they declare is checked before."""

    def __init__(self, path: Path, opened: zipfile.ZipFile) -> None:
        self._path, self._zip = path, opened
        self._members = {
            info.filename.removesuffix(".npy"): info
            for info in opened.infolist()
            if info.filename.endswith(".npy")
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def declares(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and type of an array, held against its size; raises InputError."""
        info, where = self._members[name], f"{self._path}:{name}"
        with _numpy_errors(where):
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise InputError(f"{where}: compressed in a way that numpy does not write")
            with self._zip.open(info) as file:
                shape, dtype = _header(file)
                begin = file.tell()
        if dtype.hasobject:
            raise InputError(f"{where}: holds Python objects, which are never loaded")
        wanted = math.prod(shape) * dtype.itemsize
        if begin + wanted != info.file_size or wanted > _DEFLATE_MOST * info.compress_size:
            raise InputError(
                f"{where}: cannot be read: declares {wanted} bytes of values, which are not there"
            )
        return shape, dtype

    def parts(self, name: str, size: int) -> Iterator[NDArray[Any]]:
        """An array of one dimension, at most `size` numbers at a time; raises InputError."""
        shape, dtype = self.declares(name)
        if len(shape) != 1:
            raise InputError(f"{self._path}:{name}: shape {shape}; wanted is one dimension")
        left = shape[0]
        with _numpy_errors(f"{self._path}:{name}"), self._zip.open(self._members[name]) as file:
            _header(file)
            while left:
                some = min(size, left)
                yield np.frombuffer(file.read(some * dtype.itemsize), dtype=dtype)
                left -= some

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._members:
            raise KeyError(name)
        shape, dtype = self.declares(name)
        where = f"{self._path}:{name}"
        size_checks.check_fits(math.prod(shape) * dtype.itemsize, where)
        with _numpy_errors(where), self._zip.open(self._members[name]) as file:
            return np.asarray(npy.read_array(file, allow_pickle=False, max_header_size=_HEADER))


@contextlib.contextmanager
def open_npz(path: Path) -> Iterator[Archive]:
    """Open .npz as a mapping whose arrays are read when asked for; never unpickles."""
    store.check_file(path)
    with _numpy_errors(str(path)):
        opened = zipfile.ZipFile(path)
    with opened:
        yield Archive(path, opened)


def pick(place: Place) -> Any:
    """Return the named array, the sparse matrix, `points` or `X`, or the only array."""
    with open_npz(place.path) as archive:
        if place.part:
            return member(archive, place.part, str(place))
        if matrices.is_sparse_npz(archive):
            return matrices.sparse_from_npz(archive, str(place))
        names = [name for name in ("points", "X") if name in archive] or list(archive)
        if len(names) == 1 or names[:1] in (["points"], ["X"]):
            return member(archive, names[0], str(place))
        raise InputError(
            f"{place}: neither a sparse matrix nor points or X; name one of its arrays as "
            f"{place.path.name}:NAME (it has {_names(archive)})"
        )


def of_numpy(place: Place, *usual: str) -> NDArray[Any] | None:
    """The array in .npy, or in .npz by its name, a usual one or as the only; None of other files.

    Raises InputError.
    """
    if place.suffix == ".npy":
        return np.asarray(load_npy(place.path))
    if place.suffix != ".npz":
        return None
    with open_npz(place.path) as archive:
        there = [name for name in usual if name in archive] or list(archive)
        name = there[0] if there and (len(there) == 1 or there[0] in usual) else usual[0]
        return member(archive, place.part or name, str(place))


def member(archive: Mapping[str, NDArray[Any]], name: str, where: str) -> NDArray[Any]:
    """Return one array; raises InputError that lists those there are."""
    name = name.lstrip("/")
    if name not in archive:
        raise InputError(f"{where}: no such array; the file has {_names(archive)}")
    return np.asarray(archive[name])


def _names(archive: Mapping[str, NDArray[Any]]) -> str:
    return ", ".join(store.text(name)[:40] for name in list(archive)[:12]) or "none"
