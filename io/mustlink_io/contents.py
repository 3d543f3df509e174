"""`mustlink info`: what a file holds, without reading the values."""

from __future__ import annotations

import json
from typing import Any

import h5py

from mustlink.errors import InputError
from mustlink_io import arrays, formats, matrices, schema, store


def describe(text: str) -> dict[str, Any]:
    """Return entries (path, shape, type, bytes, meaning) and, of results, how they were made.

    Raises InputError.
    """
    place = formats.parse(text)
    store.check_readable(place.path)
    result: dict[str, Any] = {"file": str(place.path), "bytes": place.path.stat().st_size}
    if place.suffix in formats.HDF5:
        return result | _describe_h5(place)
    if place.suffix == ".npz":
        with arrays.open_npz(place.path) as archive:
            result["entries"] = [_entry(name, archive[name]) for name in archive]
        return result
    loaded = formats.load(text)
    size = int(loaded.value.nnz) if loaded.kind == "graph" else None
    entry = _entry(loaded.kind, loaded.value) | {"nnz": size}
    return result | {"entries": [entry]}


def _entry(name: str, value: Any) -> dict[str, Any]:
    return {
        "path": name,
        "shape": list(value.shape),
        "type": str(value.dtype),
        "meaning": "",
    }


def _describe_h5(place: formats.Place) -> dict[str, Any]:
    with store.open_h5(place.path) as file:
        entries = []
        for path, item in _walk(file):
            if place.part and not path.startswith("/" + place.part.strip("/")):
                continue
            entries.append(_h5_entry(file, path, item))
        if place.part and not entries:
            raise InputError(f"{place}: no such dataset in the file")
        result: dict[str, Any] = {"entries": entries}
        for name in ("mustlink-format", "mustlink-version"):
            if name in file.attrs:
                result[name] = store.text(file.attrs[name])
        for name in ("parameters", "versions", "inputs"):
            if name in file.attrs:
                result[name] = _json(store.text(file.attrs[name]), place)
        if store.find(file, "/report") is not None:
            result["report"] = _json(store.text(store.dataset(file, "/report")[()]), place)
        if store.find(file, "/stages/name") is not None:
            result["stages"] = _stages(file)
    return result


def _json(text: str, place: formats.Place) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{place}: damaged JSON in it ({error})") from error


def _stages(file: h5py.File) -> list[dict[str, Any]]:
    dims: dict[str, int] = {}
    columns = {
        name: store.read(file, f"/stages/{name}", dims, f"/stages/{name}")
        for name in ("name", "seconds", "peak_bytes")
    }
    return [
        {"name": store.text(a), "seconds": float(b), "peak_bytes": int(c)}
        for a, b, c in zip(columns["name"], columns["seconds"], columns["peak_bytes"], strict=True)
    ]


def _walk(file: h5py.File) -> list[tuple[str, Any]]:
    """Return datasets, sparse groups as one entry, and links that lead elsewhere."""
    found: list[tuple[str, Any]] = []

    def visit(group: h5py.Group, prefix: str) -> None:
        for name in group:
            link, path = group.get(name, getlink=True), f"{prefix}/{store.text(name)}"
            if not isinstance(link, h5py.HardLink):
                found.append((path, link))
                continue
            item = group[name]
            if isinstance(item, h5py.Group) and not matrices.is_csr_group(item):
                if path.count("/") < 16:  # a group may contain itself
                    visit(item, path)
            else:
                found.append((path, item))

    visit(file, "")
    return found


def _h5_entry(file: h5py.File, path: str, item: Any) -> dict[str, Any]:
    if isinstance(item, h5py.Group):
        parts = [store.dataset(file, f"{path}/{key}") for key in ("data", "indices", "indptr")]
        shape = list(matrices.csr_shape(file, path))
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
    kind = "link to another file" if isinstance(item, h5py.ExternalLink) else "link"
    return {"path": path, "shape": [], "type": kind, "bytes": 0, "meaning": "not followed"}
