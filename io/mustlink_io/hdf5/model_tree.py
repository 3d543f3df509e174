"""Trees of records, arrays and sparse matrices in HDF5 without pickle; models are such trees."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp

from mustlink.errors import InputError
from mustlink.space.disk import DiskBlock
from mustlink_io.hdf5 import size_checks, store

_ROWS = 1 << 16  # of a block on disk, copied in one go
_KIND, _VALUE, _TYPE, _NAMES = "kind", "value", "type", "names"
_TAGS = {"tuple": "()", "mapping": "{}", "record": "<>"}
_SPARSE = {"csr": sp.csr_matrix, "csc": sp.csc_matrix}
_DEEPEST = 30  # groups in each other
_MOST = 20_000  # groups and datasets: a fit has some hundred


def write_tree(
    parent: h5py.Group, name: str, value: Any, places: Mapping[int, str] | None = None
) -> None:
    """Write `value` as `parent[name]`; raises TypeError for what is no such tree.

    Arrays that are in the file, by id in `places`, are linked to.
    """
    if isinstance(value, np.ndarray):
        _write_array(parent, name, value, None if places is None else places.get(id(value)))
        return
    group = parent.create_group(name)
    if _write_matrix(group, value):
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
        raise TypeError(f"{name}: a {type(value).__name__} cannot be written")
    group.attrs["count"] = len(children)
    for place, child in zip(_places(names), children, strict=True):
        write_tree(group, place, child, places)


def _write_array(parent: h5py.Group, name: str, value: Any, place: str | None) -> None:
    if place is None:
        parent.create_dataset(name, data=value)
    else:
        parent[name] = parent.file[place]
    if value.flags.f_contiguous and not value.flags.c_contiguous:
        parent[name].attrs["order"] = 1  # sums in another order round differently


def _write_matrix(group: h5py.Group, value: Any) -> bool:
    if isinstance(value, DiskBlock):
        _put(group, _KIND, "rows")
        rows = group.create_dataset("rows", value.shape, value.dtype)
        for first in range(0, len(value), _ROWS):
            rows[first : first + _ROWS] = value[first : first + _ROWS]
        return True
    for kind, cls in _SPARSE.items():
        if isinstance(value, cls):
            _put(group, _KIND, kind)
            group.attrs["shape"] = np.array(value.shape, dtype=np.int64)
            for part in ("data", "indices", "indptr"):
                group.create_dataset(part, data=getattr(value, part))
            return True
    return False


def read_tree(
    parent: h5py.Group,
    name: str,
    types: Mapping[str, type],
    folder: Any = None,
    *,
    checked: bool = False,
) -> Any:
    """Read what `write_tree` wrote; of dataclasses and named tuples only those in `types`, by name.

    `checked` is for files from anywhere: fields of records must be of their types. Blocks that were
    on disk are again, in temporary files in `folder`. Raises LookupError, TypeError or ValueError
    for anything else.
    """
    return _Reader(types, folder, checked).read(parent, name, 0)


class _Reader:
    def __init__(self, types: Mapping[str, type], folder: Any, checked: bool) -> None:
        self.types, self.folder, self.checked = types, folder, checked
        self._count = 0

    def at(self, parent: h5py.Group, name: str) -> Any:
        """A dataset of numbers, or a group; groups may be in each other, and so be without end."""
        self._count += 1
        if self._count > _MOST:
            raise ValueError(f"more than {_MOST} parts")
        item, path = parent[name], f"{parent.name}/{name}"
        if not isinstance(item, h5py.Dataset):
            return item
        if item.dtype.kind not in "fiub":
            raise TypeError(f"{path} has values of type {item.dtype}")
        size_checks.check_fits(item.size * item.dtype.itemsize, path)
        return item

    def read(self, parent: h5py.Group, name: str, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError("groups are too deep in each other")
        item = self.at(parent, name)
        if isinstance(item, h5py.Dataset):
            found = np.asarray(item[()])
            return np.asfortranarray(found) if "order" in item.attrs else found
        kind = self._text(item, _KIND)
        if kind == "json":
            return self._from_json(json.loads(self._text(item, _VALUE)))
        if kind in _SPARSE:
            return self._sparse(item, kind)
        if kind == "rows" and self.folder is not None:
            return self._on_disk(item)
        if kind == "record":
            name = self._text(item, _TYPE)
            return self._record(name, self._below(item, _record_names(self.types[name]), depth))
        if kind == "mapping":
            names = json.loads(self._text(item, _NAMES))
            return dict(zip(names, self._below(item, names, depth), strict=True))
        count = int(item.attrs["count"])
        children = [self.read(item, str(i), depth + 1) for i in range(count)]
        return tuple(children) if kind == "tuple" else children

    def _below(self, item: h5py.Group, names: list[Any], depth: int) -> list[Any]:
        return [self.read(item, place, depth + 1) for place in _places(names)]

    def _on_disk(self, item: h5py.Group) -> DiskBlock:
        data = self.at(item, "rows")
        block = DiskBlock(self.folder, data.shape, data.dtype)
        for first in range(0, len(data), _ROWS):
            block[first : first + _ROWS] = data[first : first + _ROWS]
        return block

    def _record(self, name: str, children: list[Any]) -> Any:
        cls = self.types[name]
        fields = dict(zip(_record_names(cls), children, strict=True))
        hints = _hints(cls) if self.checked else {}
        for field, hint in hints.items():
            if field in fields and not _fits(fields[field], hint):
                raise TypeError(f"{cls.__name__}.{field} is a {type(fields[field]).__name__}")
        return cls(**fields)

    def _sparse(self, item: h5py.Group, kind: str) -> Any:
        rows, columns = (int(size) for size in item.attrs["shape"])
        parts = {part: self.at(item, part)[()] for part in ("data", "indices", "indptr")}
        if parts["indptr"].shape != ((rows if kind == "csr" else columns) + 1,):
            raise ValueError("a sparse matrix of another shape than its rows")
        found: Any = _SPARSE[kind]((0, 0), dtype=parts["data"].dtype)
        found._shape = (rows, columns)
        for part, values in parts.items():  # as they were: scipy would narrow indices
            setattr(found, part, values)
        return found

    def _text(self, group: Any, name: str) -> str:
        return bytes(self.at(group, name)[()]).decode()

    def _from_json(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._from_json(part) for part in value]
        if not isinstance(value, dict):
            return value
        if _TAGS["tuple"] in value:
            return tuple(self._from_json(part) for part in value[_TAGS["tuple"]])
        if _TAGS["record"] in value:
            name, parts = value[_TAGS["record"]]
            return self._record(name, [self._from_json(part) for part in parts])
        return {name: self._from_json(part) for name, part in value[_TAGS["mapping"]]}


def _put(group: h5py.Group, name: str, text: str) -> None:
    """Write text as bytes: damaged text of variable length can hang the HDF5 library."""
    group.create_dataset(name, data=np.frombuffer(text.encode(), dtype=np.uint8))


def _places(names: Iterable[Any]) -> list[str]:
    """Where parts are in their group: by name, where that is one word and not taken; or number."""
    taken = (_KIND, _VALUE, _TYPE, _NAMES)
    return [
        name if isinstance(name, str) and name.isidentifier() and name not in taken else str(i)
        for i, name in enumerate(names)
    ]


def _is_record(value: Any) -> bool:
    named = isinstance(value, tuple) and hasattr(value, "_fields")
    return named or (dataclasses.is_dataclass(value) and not isinstance(value, type))


def _record_names(cls: Any) -> list[str]:
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls) if field.init]
    return list(cls._fields)


_NOT_PLAIN = object()


def _to_json(value: Any) -> Any:
    """JSON in which tuples, lists and records differ, or _NOT_PLAIN where an array is inside."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if not _is_record(value) and not isinstance(value, list | tuple | Mapping):
        return _NOT_PLAIN
    if _is_record(value):
        parts = [_to_json(getattr(value, name)) for name in _record_names(type(value))]
        found: Any = {_TAGS["record"]: [type(value).__name__, parts]}
        inside = parts
    elif isinstance(value, Mapping):
        named = [[str(name), _to_json(part)] for name, part in value.items()]
        found = {_TAGS["mapping"]: named}
        inside = [part for _, part in named]
    else:
        inside = [_to_json(part) for part in value]
        found = inside if isinstance(value, list) else {_TAGS["tuple"]: inside}
    return _NOT_PLAIN if any(part is _NOT_PLAIN for part in inside) else found


PLACE = "model"


def writer(tree: Any) -> Callable[[h5py.File, Mapping[int, str]], None]:
    """What `writing.write` does at the end, to have the model in the file."""

    def write(file: h5py.File, places: Mapping[int, str]) -> None:
        try:
            write_tree(file, PLACE, tree, places)
        except TypeError as error:
            raise InputError(f"model: {error}; set it to a plain value first") from error

    return write


def read(file: h5py.File, records: Mapping[str, type]) -> Any:
    """The tree in an open file, None if there is none; raises InputError."""
    if store.below(file, f"/{PLACE}") is None:
        return None
    with store.refusing(f"{file.filename}:/{PLACE}: damaged; save it anew"):
        return read_tree(file, PLACE, records, checked=True)


def n_bytes(group: h5py.Group) -> int:
    """Bytes of the values below a group, those that other parts of the file share not counted."""
    found = 0

    def add(_: str, item: Any) -> None:
        nonlocal found
        if isinstance(item, h5py.Dataset) and h5py.h5o.get_info(item.id).rc == 1:
            found += int(item.id.get_storage_size())

    group.visititems(add)
    return found


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, as far as records of a model name types."""
    if hint is Any:
        return True
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in inner)
    if hint in (int, float):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _holds(value.dtype, inner)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(inner) == 2 and inner[1] is Ellipsis:
            return all(_fits(part, inner[0]) for part in value)
        same = len(value) == len(inner)
        return same and all(_fits(a, b) for a, b in zip(value, inner, strict=True))
    kind = origin or hint
    return isinstance(kind, type) and isinstance(value, kind)


def _holds(dtype: np.dtype[Any], inner: tuple[Any, ...]) -> bool:
    """Whether an array's numbers are of the kind that an annotation names."""
    named = typing.get_args(inner[1]) if len(inner) == 2 else ()
    if not named or not isinstance(named[0], type):
        return True
    wanted = named[0]
    return issubclass(dtype.type, np.floating if issubclass(wanted, np.floating) else wanted)
