"""`mustlink info`: what a file holds, without reading the values."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np

from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.formats import arrays, matrices
from mustlink_io.hdf5 import recorded, schema, store


def describe(text: str) -> dict[str, Any]:
    """Return entries (path, shape, type, bytes, meaning) and, of results, how they were made.

    Raises InputError.
    """
    place = formats.parse(text)
    store.check_readable(place.path)
    result: dict[str, Any] = {"file": store.text(place.path), "bytes": place.path.stat().st_size}
    if place.suffix in formats.HDF5:
        return result | _describe_h5(place)
    if place.suffix == ".npz":
        with arrays.open_npz(place.path) as archive:
            if matrices.is_sparse_npz(archive) and not place.part:
                return result | {"entries": [_sparse_entry(archive, place)]}
            result["entries"] = [_entry(name, *archive.declares(name)) for name in archive]
        return result
    loaded = formats.load(text)
    size = int(loaded.value.nnz) if loaded.kind == "graph" else None
    entries = [_entry(loaded.kind, loaded.value.shape, loaded.value.dtype) | {"nnz": size}]
    if loaded.names is not None:
        names = _entry("names", (len(loaded.names),), "text")
        entries.append(names | {"meaning": f"of the nodes; the first is {loaded.names.told(0)}"})
    return result | {"entries": entries}


def _entry(name: str, shape: tuple[int, ...], dtype: Any) -> dict[str, Any]:
    return {"path": store.text(name), "shape": list(shape), "type": str(dtype), "meaning": ""}


def _sparse_entry(archive: arrays.Archive, place: formats.Place) -> dict[str, Any]:
    """The matrix that `scipy.sparse.save_npz` wrote."""
    found = matrices.sparse_from_npz(archive, str(place))
    meaning = "graph" if found.shape[0] == found.shape[1] else "sparse points"
    entry = _entry("matrix", found.shape, f"sparse {found.dtype}")
    return entry | {"nnz": int(found.nnz), "meaning": meaning}


def _describe_h5(place: formats.Place) -> dict[str, Any]:
    with store.open_h5(place.path) as file:
        store.try_first(file, "entries", "", lambda: _entries(file, place))
        entries = _entries(file, place)
        if place.part and not entries:
            raise InputError(f"{place}: no such dataset in the file")
        result: dict[str, Any] = {"entries": entries}
        for name in ("mustlink-format", "mustlink-version"):
            if name in file.attrs:
                result[name] = store.text(file.attrs[name])
        for name in ("parameters", "versions", "inputs"):
            if name in file.attrs:
                result[name] = recorded.checked(name, store.decoded(file.attrs[name]), str(place))
        if store.find(file, "/report") is not None:
            words = store.decoded(store.read(file, "/report", {}, "/report"))
            result["report"] = recorded.checked("report", words, str(place))
        if store.find(file, "/stages/name") is not None:
            result["stages"] = _stages(file)
    return result


def _entries(file: h5py.File, place: formats.Place) -> list[dict[str, Any]]:
    below = "/" + place.part.strip("/") if place.part else ""
    return [_h5_entry(file, path, item) for path, item in _walk(file) if path.startswith(below)]


def _stages(file: h5py.File) -> list[dict[str, Any]]:
    dims: dict[str, int] = {}
    columns = {
        name: store.read(file, f"/stages/{name}", dims, f"/stages/{name}")
        for name in ("name", "seconds", "peak_bytes")
    }
    seconds, peaks = columns["seconds"], columns["peak_bytes"]
    if not (np.isfinite(seconds).all() and (seconds >= 0).all() and (peaks >= 0).all()):
        raise InputError(f"{file.filename}:/stages: damaged: times and bytes are not negative")
    return [
        {"name": store.text(name), "seconds": float(time), "peak_bytes": int(peak)}
        for name, time, peak in zip(columns["name"], seconds, peaks, strict=True)
    ]


def _walk(file: h5py.File) -> list[tuple[str, Any]]:
    """Return datasets, sparse groups as one entry, and links that lead elsewhere.

    A group that is reached twice, maybe from inside itself, is entered once.
    """
    found: list[tuple[str, Any]] = []
    waiting: list[tuple[h5py.Group, str]] = [(file, "")]
    seen = {_address(file)}
    while waiting:
        group, prefix = waiting.pop()
        below: list[tuple[h5py.Group, str]] = []
        for name in group:
            if isinstance(name, bytes):  # h5py finds nothing by such a name
                found.append((f"{prefix}/{store.text(name)}", None))
                continue
            link, path = group.get(name, getlink=True), f"{prefix}/{store.text(name)}"
            if not isinstance(link, h5py.HardLink):
                found.append((path, link))
                continue
            item = group[name]
            if not isinstance(item, h5py.Group) or matrices.is_sparse_group(item):
                found.append((path, item))
            elif _address(item) not in seen:
                seen.add(_address(item))
                below.append((item, path))
        waiting.extend(reversed(below))
    return found


def _address(item: h5py.Group) -> int:
    """Place of an object in its file, which tells it from all others."""
    return int(h5py.h5o.get_info(item.id).addr)


def _h5_entry(file: h5py.File, path: str, item: Any) -> dict[str, Any]:
    if isinstance(item, h5py.Group):
        name = item.name
        parts = [store.dataset(file, f"{name}/{key}", values=False) for key in matrices.PARTS]
        shape = list(matrices.sparse_shape(file, name))
        square = shape[0] == shape[1]
        return {
            "path": path,
            "shape": shape,
            "type": f"sparse {parts[0].dtype}",
            "nnz": int(parts[0].size),
            "bytes": int(sum(part.id.get_storage_size() for part in parts)),
            "meaning": "graph" if square else "sparse points",
        }
    if isinstance(item, h5py.Dataset):
        row = schema.ITEMS.get(path)
        return {
            "path": path,
            "shape": list(item.shape or ()),
            "type": "text" if item.dtype.kind in "OSU" else str(item.dtype),
            "bytes": int(item.id.get_storage_size()),
            "meaning": row.meaning if row else "",
        }
    if item is None or isinstance(item, h5py.Datatype):
        kind = "unknown: its name is not UTF-8" if item is None else "named type"
        return {"path": path, "shape": [], "type": kind, "bytes": 0, "meaning": ""}
    kind = "link to another file" if isinstance(item, h5py.ExternalLink) else "link"
    return {"path": path, "shape": [], "type": kind, "bytes": 0, "meaning": "not followed"}
