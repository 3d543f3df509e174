"""A graph in an HDF5 file of which rows are read: where its numbers lie in the file.

Datasets that are stored as they are, in one piece or in chunks, are read from the file itself, past
the HDF5 library: by a thread, into buffers that are used again. Others are copied first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.graph.stored import FileNumbers, StoredGraph
from mustlink.space.scratch_file import ScratchFile
from mustlink_io.hdf5 import store

_NUMBERS = 1 << 20  # copied at a time


def stored_graph(
    path: Path,
    name: str,
    folder: Any = None,
    shape: tuple[int, int] | None = None,
    info: Mapping[str, Any] | None = None,
) -> StoredGraph:
    """The CSR group `name` of a file, checked as far as its header goes; raises InputError.

    `shape` is what the file says of it, `info` how the graph was made. Compressed datasets are
    unpacked into temporary files in `folder`.
    """
    base = name.rstrip("/")
    with store.open_h5(path) as file:
        parts = [store.dataset(file, f"{base}/{part}") for part in ("indptr", "indices", "data")]
        for part, kinds in zip(parts, ("iu", "iu", "fiub"), strict=True):
            if part.ndim != 1 or part.dtype.kind not in kinds:
                raise InputError(
                    f"{path}:{part.name}: has shape {part.shape} and type {part.dtype}; wanted is "
                    f"one dimension of {'numbers' if 'f' in kinds else 'integers'}"
                )
        ends, columns, weights = (_numbers(path, file, part, folder) for part in parts)
        if shape is not None and shape != (ends.size - 1, ends.size - 1):
            raise InputError(
                f"{path}:{base}: shape {shape}, but ends of {ends.size - 1} rows; a graph has as "
                "many rows as columns"
            )
        copies, rows = _copies(path, file, base, ends.size - 1, folder)
    graph = StoredGraph.of(ends, columns, weights, info)
    return replace(graph, copies=copies, rows=rows)


def _copies(
    path: Path, file: h5py.File, base: str, n: int, folder: Any
) -> tuple[FileNumbers | None, FileNumbers | None]:
    """How many every node stands for, and the node of every row, as `matrices.read_copies`."""
    found: dict[str, FileNumbers] = {}
    for part, kinds in (("weights", "fiu"), ("rows", "iu")):
        name = f"{base}/{part}"
        if base.strip("/") != "graph" or store.find(file, name) is None:
            continue
        data = store.dataset(file, name)
        if data.ndim != 1 or data.dtype.kind not in kinds or (part == "weights" and data.size != n):
            raise InputError(f"{path}:{name}: shape {data.shape} and type {data.dtype} do not fit")
        found[part] = _numbers(path, file, data, folder)
    copies, rows = found.get("weights"), found.get("rows")
    for some in _parts(copies):
        if not (np.isfinite(some) & (some >= 0)).all():
            raise InputError(
                f"{path}:{base}/weights: numbers that are finite and not negative are wanted"
            )
    there = np.zeros(n if rows is not None else 0, dtype=bool)
    for some in _parts(rows):
        if some.min() < 0 or some.max() >= n:
            there[:] = False
            break
        there[some] = True
    if not there.all():
        raise InputError(f"{path}:{base}/rows: wanted are nodes from 0 to {n - 1}, each of them")
    return copies, rows


def _parts(numbers: FileNumbers | None) -> Iterator[NDArray[Any]]:
    for first in range(0, 0 if numbers is None else len(numbers), _NUMBERS):
        assert numbers is not None
        yield numbers[first : first + _NUMBERS]


def _numbers(path: Path, file: h5py.File, data: h5py.Dataset, folder: Any) -> FileNumbers:
    """Where the numbers of a dataset are."""
    where = f"{path}:{data.name}"
    starts, piece = _places(file, data)
    if starts is not None:
        handle = path.open("rb", buffering=0)
        return FileNumbers(handle, where, data.dtype, data.size, piece, starts)
    copied = ScratchFile(folder, data.size * data.dtype.itemsize)
    chunk = data.chunks[0] if data.chunks else 1
    step = -(-_NUMBERS // chunk) * chunk
    native = data.dtype.newbyteorder("=")
    for first in range(0, data.size, step):
        try:
            values = np.asarray(data[first : first + step], dtype=native)
        except OSError as error:
            words = " ".join(str(error).split())[:200]
            raise InputError(f"{where}: cannot be read ({words})") from None
        copied.write(first * native.itemsize, values)
    return FileNumbers.in_one(copied, where, native, data.size)


def _places(file: h5py.File, data: h5py.Dataset) -> tuple[np.ndarray | None, int]:
    """First bytes of pieces, and numbers in each; None where they are not stored as they are."""
    plain = data.dtype.isnative and data.id.get_create_plist().get_nfilters() == 0
    if not plain or file.userblock_size or data.external or data.is_virtual:
        return None, 0
    if data.chunks is None:
        start = data.id.get_offset()
        return (None, 0) if start is None else (np.array([start], dtype=np.int64), data.size)
    found = np.full(-(-data.size // data.chunks[0]), -1, dtype=np.int64)
    for number in range(data.id.get_num_chunks()):
        chunk = data.id.get_chunk_info(number)
        if chunk.chunk_offset[0] < data.size:
            found[chunk.chunk_offset[0] // data.chunks[0]] = chunk.byte_offset
    return (None, 0) if (found < 0).any() else (found, data.chunks[0])
