"""Trees of dataclasses, sequences, mappings, arrays and CSR matrices, in HDF5 without pickle.

Arrays are datasets, everything that holds one is a group, and what holds none is JSON in a dataset
of its group, as bytes.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp

from mustlink.space.disk_block import DiskBlock

_ROWS = 1 << 16  # of a block on disk, copied in one go
_KIND, _VALUE, _TYPE, _NAMES = "kind", "value", "type", "names"
_TAGS = {"tuple": "()", "mapping": "{}"}


def write_tree(parent: h5py.Group, name: str, value: Any) -> None:
    """Write `value` as `parent[name]`; raises TypeError for what is no such tree."""
    if isinstance(value, np.ndarray):
        parent.create_dataset(name, data=value)
        return
    group = parent.create_group(name)
    if isinstance(value, DiskBlock):
        _put(group, _KIND, "rows")
        rows = group.create_dataset("rows", value.shape, value.dtype)
        for first in range(0, len(value), _ROWS):
            rows[first : first + _ROWS] = value[first : first + _ROWS]
        return
    if isinstance(value, sp.csr_matrix):
        _put(group, _KIND, "csr")
        group.attrs["shape"] = np.array(value.shape, dtype=np.int64)
        for part in ("data", "indices", "indptr"):
            group.create_dataset(part, data=getattr(value, part))
        return
    plain = _to_json(value)
    if plain is not _NOT_PLAIN:
        _put(group, _KIND, "json")
        _put(group, _VALUE, json.dumps(plain))
        return
    if _is_record(value):
        names = _record_names(type(value))
        _put(group, _KIND, "record")
        _put(group, _TYPE, type(value).__name__)
        children = [getattr(value, field) for field in names]
    elif isinstance(value, Mapping):
        names, children = list(value), list(value.values())
        _put(group, _KIND, "mapping")
        _put(group, _NAMES, json.dumps(names))
    elif isinstance(value, list | tuple):
        names, children = [str(i) for i in range(len(value))], list(value)
        _put(group, _KIND, "list" if isinstance(value, list) else "tuple")
    else:
        raise TypeError(f"{name}: a {type(value).__name__} cannot be kept")
    group.attrs["count"] = len(children)
    for i, child in enumerate(children):
        write_tree(group, str(i), child)


def read_tree(parent: h5py.Group, name: str, types: Iterable[type], folder: Any = None) -> Any:
    """Read what `write_tree` wrote; of dataclasses and named tuples only those in `types`.

    Blocks that were on disk are again, in temporary files in `folder`. Raises LookupError,
    TypeError or ValueError for anything else.
    """
    item = parent[name]
    if isinstance(item, h5py.Dataset):
        return np.asarray(item[()])
    kind = _get(item, _KIND)
    if kind == "json":
        return _from_json(json.loads(_get(item, _VALUE)))
    if kind == "rows":
        data = item["rows"]
        block = DiskBlock(folder, data.shape, data.dtype)
        for first in range(0, len(data), _ROWS):
            block[first : first + _ROWS] = data[first : first + _ROWS]
        return block
    if kind == "csr":
        rows, columns = (int(size) for size in item.attrs["shape"])
        found = sp.csr_matrix((rows, columns), dtype=item["data"].dtype)
        for part in ("data", "indices", "indptr"):  # as they were: scipy would narrow indices
            setattr(found, part, item[part][()])
        return found
    allowed = list(types)
    children = [read_tree(item, str(i), allowed, folder) for i in range(int(item.attrs["count"]))]
    if kind == "record":
        cls = {one.__name__: one for one in allowed}[_get(item, _TYPE)]
        return cls(**dict(zip(_record_names(cls), children, strict=True)))
    if kind == "mapping":
        return dict(zip(json.loads(_get(item, _NAMES)), children, strict=True))
    return tuple(children) if kind == "tuple" else children


def _put(group: h5py.Group, name: str, text: str) -> None:
    """Write text as bytes: damaged text of variable length can hang the HDF5 library."""
    group.create_dataset(name, data=np.frombuffer(text.encode(), dtype=np.uint8))


def _get(group: h5py.Group, name: str) -> str:
    return bytes(group[name][()]).decode()


def _is_record(value: Any) -> bool:
    """Whether it is an instance of a dataclass or a named tuple."""
    named = isinstance(value, tuple) and hasattr(value, "_fields")
    return named or (dataclasses.is_dataclass(value) and not isinstance(value, type))


def _record_names(cls: Any) -> list[str]:
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls) if field.init]
    return list(cls._fields)


_NOT_PLAIN = object()


def _to_json(value: Any) -> Any:
    """JSON that tells tuples from lists, or _NOT_PLAIN where an array or a record is inside."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if _is_record(value) or not isinstance(value, list | tuple | Mapping):
        return _NOT_PLAIN
    if isinstance(value, Mapping):
        parts = [[str(name), _to_json(part)] for name, part in value.items()]
        found: Any = {_TAGS["mapping"]: parts}
        inside = [part for _, part in parts]
    else:
        inside = [_to_json(part) for part in value]
        found = inside if isinstance(value, list) else {_TAGS["tuple"]: inside}
    return _NOT_PLAIN if any(part is _NOT_PLAIN for part in inside) else found


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(part) for part in value]
    if not isinstance(value, dict):
        return value
    if _TAGS["tuple"] in value:
        return tuple(_from_json(part) for part in value[_TAGS["tuple"]])
    return {name: _from_json(part) for name, part in value[_TAGS["mapping"]]}
