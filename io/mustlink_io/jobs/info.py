"""`mustlink info`: what a file holds, without its values; of a table what is in its columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np

from mustlink.errors import InputError
from mustlink.neighbors.points_by_rows import count_distinct
from mustlink.preprocessing.cells import read_cells
from mustlink.preprocessing.request import Preparation
from mustlink_io import formats
from mustlink_io.formats import edges, matrices, points, tables
from mustlink_io.hdf5 import model_tree, result, schema, store
from mustlink_io.hdf5.graphs import PARTS
from mustlink_io.hdf5.result import Result


def _table(place: formats.Place) -> tables.Table | None:
    if place.part:
        return None
    if place.suffix in (".parquet", ".csv"):
        return tables.read_table(place.path)
    if place.suffix == ".npy":
        array = matrices.load_npy(place.path)
        if array.ndim == 2 and array.size and array.dtype.kind in "biuf":
            return tables.Table((), tuple(array.T))
    return None


def _column(table: tables.Table, at: int, title: str) -> tuple[dict[str, Any], Any]:
    """Facts about a column, and its numbers or those of its words."""
    cells = table.text(at)
    read = read_cells(cells, title, "table", slips=True)
    kind, values = "text" if read.is_words else read.kind, read.values
    if read.is_words:
        words: Any = points.numbers_of(cells, title, "table", as_codes=True)
        values = words
    known = values[~read.empty]
    info: dict[str, Any] = {"name": title, "type": kind, "missing": int(values.size - known.size)}
    if kind == "text":
        return info | {"different": int(np.unique(known).size)}, values
    ends: list[Any] = [float(known.min()), float(known.max())] if known.size else [None, None]
    if known.size and kind == "date":
        ends = [str(np.datetime64(int(day), "D")) for day in ends]
    return info | {"low": ends[0], "high": ends[1]}, values


@dataclass(frozen=True)
class Contents:
    """Entries (path, shape, type, bytes, meaning) of a file and, of results, how they were made."""

    file: str
    bytes: int
    entries: list[dict[str, Any]]
    versions: dict[str, str] = field(default_factory=dict)  # of the format, and who wrote it
    result: Result | None = None
    columns: list[dict[str, Any]] | None = None  # of a table

    def plain(self) -> dict[str, Any]:
        """What `--json` prints."""
        info = {} if self.result is None else self.result.plain()
        shown = {"file": self.file, "bytes": self.bytes, "entries": self.entries}
        columns = {} if self.columns is None else {"columns": self.columns}
        return {**shown, **columns, **self.versions, **info}


def describe(text: str) -> Contents:
    """What is in a file; raises InputError."""
    place = formats.parse(text)
    store.check_readable(place.path)
    about = (store.text(place.path), place.path.stat().st_size)
    if place.suffix in formats.HDF5:
        return _describe_h5(place, *about)
    if place.suffix == ".npz":
        with matrices.open_npz(place.path) as archive:
            if matrices.is_sparse_npz(archive) and not place.part:
                return Contents(*about, [_sparse_entry(archive, place)])
            return Contents(*about, [_entry(name, *archive.declares(name)) for name in archive])
    of_table = _describe_table(place, *about)
    if of_table is not None:
        return of_table
    loaded = formats.load(text)
    size = int(loaded.value.nnz) if loaded.kind == "graph" else None
    entries = [_entry(loaded.kind, loaded.value.shape, loaded.value.dtype) | {"nnz": size}]
    return Contents(*about, entries + _names_entry(loaded.names))


def _describe_table(place: formats.Place, name: str, size: int) -> Contents | None:
    """Points, and their columns: also what is to be prepared before they are clustered."""
    table = _table(place)
    if table is None or edges.is_edge_table(table.header):
        return None
    table = points.PointsSpec(Preparation()).named(table, str(place))
    texts, rest = tables.split_names(table)
    titles = points.titles(table) or tuple(map(str, range(len(rest))))
    columns = [_column(table, at, title) for at, title in zip(rest, titles, strict=True)]
    values = np.column_stack([numbers for _, numbers in columns])
    gap = np.isnan(values)
    with np.errstate(over="ignore"):
        rows = np.hstack([np.where(gap, 0, values), gap]).astype(np.float32)
    missing, equal = int(gap.any(axis=1).sum()), len(rows) - count_distinct(rows)
    counts = ((missing, "with missing values"), (equal, "equal to one before"))
    words = [f"{n:,} {'row' if n == 1 else 'rows'} {what}" for n, what in counts if n]
    entry = _entry("points", values.shape, "float32") | {"nnz": None, "meaning": ", ".join(words)}
    names = None if texts is None else formats.names_or_none(texts, str(place))
    return Contents(name, size, [entry, *_names_entry(names)], columns=[one for one, _ in columns])


def _names_entry(names: formats.NodeNames | None) -> list[dict[str, Any]]:
    if names is None:
        return []
    info = {"meaning": f"of the nodes; the first is {names.shown(0)}"}
    return [_entry("names", (len(names),), "text") | info]


def _entry(name: str, shape: tuple[int, ...], dtype: Any) -> dict[str, Any]:
    return {"path": store.text(name), "shape": list(shape), "type": str(dtype), "meaning": ""}


def _sparse_entry(archive: matrices.Archive, place: formats.Place) -> dict[str, Any]:
    found = matrices.sparse_from_npz(archive, str(place))
    meaning = "graph" if found.shape[0] == found.shape[1] else "sparse points"
    entry = _entry("matrix", found.shape, f"sparse {found.dtype}")
    return entry | {"nnz": int(found.nnz), "meaning": meaning}


def _describe_h5(place: formats.Place, name: str, size: int) -> Contents:
    with store.open_h5(place.path) as file:
        store.try_first(file, "", _entries, place)
        entries = _entries(file, place)
        if place.part and not entries:
            raise InputError(f"{place}: no such dataset in the file")
        written = ("mustlink-format", "mustlink-version")
        versions = {key: store.text(file.attrs[key]) for key in written if key in file.attrs}
        return Contents(name, size, entries, versions, result.read(file, str(place)))


def _entries(file: h5py.File, place: formats.Place) -> list[dict[str, Any]]:
    below = "/" + place.part.strip("/") if place.part else ""
    return [_h5_entry(file, path, item) for path, item in _walk(file) if path.startswith(below)]


def _walk(file: h5py.File) -> list[tuple[str, Any]]:
    """Return datasets, sparse groups as one entry each, and links that lead elsewhere.

    A group that is reached twice, maybe from inside itself, is entered once.
    """
    found: list[tuple[str, Any]] = []
    waiting: list[tuple[h5py.Group, str]] = [(file, "")]
    seen = {_address(file)}
    while waiting:
        group, prefix = waiting.pop()
        below: list[tuple[h5py.Group, str]] = []
        info = PARTS if matrices.is_sparse_group(group) else ()
        for name in group:
            if name in info:
                continue
            if isinstance(name, bytes):  # h5py finds nothing by such a name
                found.append((f"{prefix}/{store.text(name)}", None))
                continue
            link, path = group.get(name, getlink=True), f"{prefix}/{store.text(name)}"
            if not isinstance(link, h5py.HardLink):
                found.append((path, link))
                continue
            item = group[name]
            is_group = isinstance(item, h5py.Group)
            if path == f"/{model_tree.PLACE}" and is_group:
                found.append((path, item))
                continue
            if not is_group or matrices.is_sparse_group(item):
                found.append((path, item))
            if is_group and _address(item) not in seen:
                seen.add(_address(item))
                below.append((item, path))
        waiting.extend(reversed(below))
    return found


def _address(item: h5py.Group) -> int:
    """Place of an object in its file, which tells it from all others."""
    return int(h5py.h5o.get_info(item.id).addr)


def _h5_entry(file: h5py.File, path: str, item: Any) -> dict[str, Any]:
    entry = {"path": path, "shape": [], "type": "", "bytes": 0, "meaning": ""}
    if path == f"/{model_tree.PLACE}" and isinstance(item, h5py.Group):
        size = model_tree.n_bytes(item)
        meaning = "graph, smooth vectors and parameters: for mustlink.load, refit and predict"
        return entry | {"type": f"model, {size / 1e6:.3g} MB", "bytes": size, "meaning": meaning}
    if isinstance(item, h5py.Group):
        name = item.name
        parts = [store.dataset(file, f"{name}/{key}", values=False) for key in PARTS]
        shape = list(matrices.sparse_shape(file, name))
        return entry | {
            "shape": shape,
            "type": f"sparse {parts[-1].dtype}",
            "nnz": int(parts[-1].size),
            "bytes": int(sum(part.id.get_storage_size() for part in parts)),
            "meaning": "graph" if shape[0] == shape[1] else "sparse points",
        }
    if isinstance(item, h5py.Dataset):
        row = schema.ITEMS.get(path)
        return entry | {
            "shape": list(item.shape or ()),
            "type": "text" if item.dtype.kind in "OSU" else str(item.dtype),
            "bytes": int(item.id.get_storage_size()),
            "meaning": row.meaning if row else "",
        }
    if item is None or isinstance(item, h5py.Datatype):
        kind = "unknown: its name is not UTF-8" if item is None else "named type"
        return entry | {"type": kind}
    kind = "link to another file" if isinstance(item, h5py.ExternalLink) else "link"
    return entry | {"type": kind, "meaning": "not followed"}
