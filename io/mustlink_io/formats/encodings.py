"""Elements of AnnData files as anndata 0.8 and later write them, put into an open HDF5 group.

https://anndata.readthedocs.io/en/latest/fileformat-prose.html: every element says what it is in
its attributes `encoding-type` and `encoding-version`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink_io.hdf5 import store

_TEXT = h5py.string_dtype()


def mark(item: h5py.Group | h5py.Dataset, kind: str, version: str = "0.2.0") -> None:
    """Say what an element is."""
    item.attrs["encoding-type"] = kind
    item.attrs["encoding-version"] = version


def mapping(parent: h5py.Group, name: str) -> h5py.Group:
    """Begin a mapping."""
    group = parent.create_group(name)
    mark(group, "dict", "0.1.0")
    return group


def array(parent: h5py.Group, name: str, values: Any) -> None:
    """Write an array of numbers, or of text."""
    found = np.asarray(values)
    if found.dtype.kind in "OSU":
        words = np.array([store.decoded(word) for word in found], dtype=object)
        mark(parent.create_dataset(name, data=words, dtype=_TEXT), "string-array")
    else:
        mark(parent.create_dataset(name, data=found), "array")


def categorical(
    parent: h5py.Group, name: str, codes: NDArray[np.int64], categories: Sequence[str]
) -> None:
    """Write codes (n,), -1 where missing, and the categories that they count, without an order."""
    group = parent.create_group(name)
    mark(group, "categorical")
    group.attrs["ordered"] = False
    small = next(t for t in (np.int8, np.int16, np.int32) if len(categories) <= np.iinfo(t).max)
    array(group, "codes", codes.astype(small))
    array(group, "categories", np.array(list(categories), dtype=object))


def tree(parent: h5py.Group, name: str, value: Any) -> None:
    """Write a mapping of plain values; None, for which the format has nothing, is left out.

    Lists are arrays if their values are all numbers or all text, else JSON.
    """
    if isinstance(value, Mapping):
        group = mapping(parent, name)
        for key, one in value.items():
            if one is not None:
                tree(group, str(key).replace("/", "_"), one)
    elif isinstance(value, str):
        mark(parent.create_dataset(name, data=value, dtype=_TEXT), "string")
    elif isinstance(value, bool | int | float | np.generic):
        mark(parent.create_dataset(name, data=value), "numeric-scalar")
    elif isinstance(value, np.ndarray) or _is_uniform(value):
        array(parent, name, value)
    else:
        tree(parent, name, json.dumps(value, default=str))


def _is_uniform(value: Any) -> bool:
    if not isinstance(value, list | tuple) or not value:
        return False
    numbers = all(isinstance(one, int | float) for one in value)
    return numbers or all(isinstance(one, str) for one in value)


def sparse(parent: h5py.Group, name: str, matrix: sp.csr_matrix) -> None:
    """Write compressed sparse rows."""
    group = parent.create_group(name)
    mark(group, "csr_matrix", "0.1.0")
    group.attrs["shape"] = np.asarray(matrix.shape, dtype=np.int64)
    for part in ("data", "indices", "indptr"):
        group.create_dataset(part, data=getattr(matrix, part))


def frame(parent: h5py.Group, name: str, index: NDArray[np.object_]) -> None:
    """Write a table without columns."""
    group = parent.create_group(name)
    mark(group, "dataframe")
    group.attrs["_index"] = "_index"
    set_columns(group, (), ())
    array(group, "_index", index)


def set_columns(group: h5py.Group, more: Collection[str], gone: Collection[str]) -> None:
    """Add columns to the order that a table keeps of them, and take some out."""
    before = [store.decoded(name) for name in np.asarray(group.attrs.get("column-order", ()))]
    kept = [name for name in before if name not in gone]
    order = kept + [name for name in more if name not in kept]
    group.attrs["column-order"] = np.array(order, dtype=_TEXT)
