"""A graph in an HDF5 file of which rows are read, by disk or by ranks, or written by blocks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.graph.disk_graph import DiskGraph, FileNumbers
from mustlink.space.disk import ScratchFile
from mustlink_io.hdf5 import schema, store, writing

_NUMBERS = 1 << 20  # copied at a time


def stored_graph(
    path: Path,
    name: str,
    folder: Any = None,
    shape: tuple[int, int] | None = None,
    info: Mapping[str, Any] | None = None,
) -> DiskGraph:
    """The CSR group `name` of a file, checked as far as its header goes; raises InputError.

    `shape` is that in the file's header, `info` how the graph was made. Compressed datasets are
    unpacked into temporary files in `folder`.
    """
    base = name.rstrip("/")
    with store.open_h5(path) as file:
        parts = _csr(path, file, base)
        ends, columns, weights = (_numbers(path, file, part, folder) for part in parts)
        if shape is not None and shape != (ends.size - 1, ends.size - 1):
            raise InputError(
                f"{path}:{base}: shape {shape}, but ends of {ends.size - 1} rows; a graph has as "
                "many rows as columns"
            )
        copies, rows = _copies(path, file, base, ends.size - 1, folder)
    graph = DiskGraph.of(ends, columns, weights, info)
    return replace(graph, copies=copies, rows=rows)


PARTS = {"indptr": "iu", "indices": "iu", "data": "fiub"}  # kinds of numbers


def check_part(name: str, part: Any, where: str) -> None:
    """Raise InputError unless an array or dataset has the form that CSR wants of it."""
    if part.ndim != 1 or part.dtype.kind not in PARTS[name]:
        raise InputError(
            f"{where}: {name} has shape {part.shape} and type {part.dtype}; wanted is one "
            "dimension of " + ("numbers" if name == "data" else "integers")
        )


def _csr(path: Path, file: h5py.File, base: str, values: bool = True) -> list[h5py.Dataset]:
    found = [store.dataset(file, f"{base}/{name}", values=values) for name in PARTS]
    for name, part in zip(PARTS, found, strict=True):
        check_part(name, part, f"{path}:{base}")
    return found


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
        with store.refusing(f"{where}: cannot be read"):
            values = np.asarray(data[first : first + step], dtype=native)
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


_CHUNK = 1 << 18  # numbers that lie together in the file
_NAMES = 1 << 16  # written in one go


def write_rows(
    path: str,
    n_nodes: int,
    blocks: Iterable[Any],
    info: Mapping[str, Any],
    names: NDArray[Any] | None = None,
    rows: NDArray[np.int32] | None = None,
    about: Callable[[], Mapping[str, Any]] = dict,
) -> int:
    """Write blocks of rows in order, with `indptr`, `indices` and `data`; returns the entries.

    `names` (n,) are numbers that nodes are called by, `rows` the nodes of the caller's rows;
    `about` returns attributes of the file when all is written. Entries of 0 are left out. Raises
    InputError where the file cannot be written; then there is none.
    """
    import mustlink

    done = 0
    with writing.create_h5(path) as file:
        file.attrs["mustlink-format"] = schema.FORMAT
        file.attrs["mustlink-version"] = getattr(mustlink, "__version__", "unknown")
        group = file.create_group("graph")
        group.attrs["encoding-type"], group.attrs["encoding-version"] = (
            schema.CSR_TYPE,
            schema.CSR_VERSION,
        )
        group.attrs["shape"] = np.array([n_nodes, n_nodes], dtype=np.int64)
        group.attrs["info"] = json.dumps(dict(info))
        growing: dict[str, Any] = {"maxshape": (None,), "chunks": (_CHUNK,)}
        columns = group.create_dataset("indices", (0,), np.int32, **growing)
        weights = group.create_dataset("data", (0,), np.float32, **growing)
        ends = group.create_dataset("indptr", (n_nodes + 1,), np.int64)
        for block in blocks:
            positive = block.data > 0
            before = np.concatenate([[0], np.cumsum(positive)])[block.indptr]
            here = block.rows
            ends[here.start + 1 : here.stop + 1] = done + before[1:]
            size = int(before[-1])
            for data, values in ((columns, block.indices), (weights, block.data)):
                data.resize((done + size,))
                data[done:] = values[positive]
            done += size
        if rows is not None:
            group["rows"] = rows
        file.attrs.update(about())
        if names is not None:
            called = file.create_dataset("names", (n_nodes,), h5py.string_dtype())
            for first in range(0, n_nodes, _NAMES):
                some = names[first : first + _NAMES].tolist()
                called[first : first + len(some)] = np.array(list(map(str, some)), dtype=object)
    return done


_COPIES = ("weights", "rows")  # of a graph in which equal points are one node


@dataclass(frozen=True)
class RowSlices:
    """The CSR group `name` of a file, with `n_nodes` rows and `n_entries` weights."""

    path: Path
    name: str
    n_nodes: int
    n_entries: int
    info: Mapping[str, Any]

    def read(self, first: int, end: int) -> sp.csr_matrix:
        """Rows `first` to `end` of W, (end − first, n); raises InputError for what is no row."""
        rows = f"{self._where}: rows {first} to {end - 1} cannot be read"
        with store.refusing(rows), h5py.File(self.path) as file:
            return self._rows(file[self.name], first, end)

    def _rows(self, group: h5py.Group, first: int, end: int) -> sp.csr_matrix:
        ends = np.asarray(group["indptr"][first : end + 1], dtype=np.int64)
        low, high = int(ends[0]), int(ends[-1])
        if (np.diff(ends) < 0).any() or low < 0 or high > self.n_entries:
            raise InputError(f"{self._where}: damaged: indptr falls, or leads out of the weights")
        columns: NDArray[Any] = group["indices"][low:high]
        if columns.size and (columns.min() < 0 or columns.max() >= self.n_nodes):
            raise InputError(
                f"{self._where}: damaged: rows {first} to {end - 1} have columns outside 0 to "
                f"{self.n_nodes - 1}"
            )
        data = np.asarray(group["data"][low:high])
        kind = np.float32 if data.dtype == np.float32 else np.float64
        found = (data.astype(kind, copy=False), columns.astype(np.int32, copy=False), ends - low)
        return sp.csr_matrix(found, shape=(end - first, self.n_nodes))

    @property
    def _where(self) -> str:
        return f"{self.path}:{self.name}"


def row_slices(path: Path, name: str | None) -> RowSlices:
    """Find a graph in a file, by its header alone; raises InputError."""
    name = "/graph" if name is None else name
    where = f"{path}:{name}"
    with store.open_h5(path) as file:
        group = store.find(file, name)
        parts = ("indptr", "indices", "data")
        if not isinstance(group, h5py.Group) or not set(parts) <= set(group.keys()):
            raise InputError(
                f"{where}: no graph by rows, which --ranks takes; make one by: mustlink graph"
            )
        encoding = store.text(group.attrs.get("encoding-type", schema.CSR_TYPE))
        if encoding not in (schema.CSR_TYPE, "csr"):
            raise InputError(f"{where}: encoding {encoding[:40]!r}; --ranks takes csr_matrix only")
        if any(part in group.keys() for part in _COPIES):  # noqa: SIM118
            raise InputError(
                f"{where}: counts equal points as one node, which does not run on ranks; leave "
                "out --ranks"
            )
        ends, columns, data = _csr(path, file, name.rstrip("/"), values=False)
        if ends.size < 3 or columns.size != data.size or not data.size:
            raise InputError(
                f"{where}: {max(ends.size - 1, 0)} nodes, {columns.size} columns and {data.size} "
                "weights; that is no graph with edges"
            )
        info = json.loads(store.text(group.attrs.get("info", "{}")))
        return RowSlices(path, name, ends.size - 1, data.size, info)
