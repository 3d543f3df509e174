"""The model in a file, `/model`: a tree by which an estimator answers as the one that was fitted.

It may come from anywhere: every dataset is looked at before it is read (`store.dataset`), and a
record is made only of fields that are of its types. What the numbers mean is checked by the engine
(`mustlink.persistence`).
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import h5py
import numpy as np

from mustlink.errors import InputError
from mustlink_io.hdf5 import serialization, size_checks, store

PLACE = "model"
_MOST = 20_000  # groups and datasets: a fit has some hundred


def writer(tree: Any) -> Callable[[h5py.File, Mapping[int, str]], None]:
    """What `store.write` does at the end, to have the model in the file."""

    def write(file: h5py.File, places: Mapping[int, str]) -> None:
        try:
            serialization.write_tree(file, PLACE, tree, places)
        except TypeError as error:
            raise InputError(f"model: {error}; set it to a plain value first") from error

    return write


def read(file: h5py.File, records: Iterable[type]) -> Any:
    """The tree in an open file, None if there is none; raises InputError."""
    if store.below(file, f"/{PLACE}") is None:
        return None
    try:
        return serialization.read_tree(file, PLACE, records, at=_Found(), make=_make)
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, OverflowError, RecursionError) as error:
        words = " ".join(str(error).split())[:100]
        raise InputError(f"{file.filename}:/{PLACE}: damaged ({words}); save it anew") from error


def n_bytes(group: h5py.Group) -> int:
    """Bytes of the values below a group, those that other parts of the file share not counted."""
    found = 0

    def add(_: str, item: Any) -> None:
        nonlocal found
        if isinstance(item, h5py.Dataset) and h5py.h5o.get_info(item.id).rc == 1:
            found += int(item.id.get_storage_size())

    group.visititems(add)
    return found


class _Found:
    """What is below the model, counted: groups may be in each other, and so be without end."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, parent: h5py.Group, name: str) -> Any:
        """A dataset of numbers, or a group."""
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


def _make(cls: type, fields: dict[str, Any]) -> Any:
    hints = _hints(cls)
    for name, value in fields.items():
        if not _fits(value, hints[name]):
            raise TypeError(f"{cls.__name__}.{name} is a {type(value).__name__}")
    return cls(**fields)


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
