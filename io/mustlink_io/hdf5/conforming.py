"""What a value must be to stand at its place in the format: type, shape, and no NaN in answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from mustlink.errors import InputError
from mustlink_io.hdf5.schema import Item

_ANSWERS = ("/embedding", "/eigenvalues", "/label_distributions", "/membership", "/confidence")


def bind(item: Item, shape: tuple[int, ...], dims: dict[str, int], where: str) -> None:
    """Check a shape against the table and record what its symbols stand for in `dims`.

    Raises InputError for a wrong number of dimensions, or when a symbol had another value before.
    """
    wanted = "(" + ", ".join(item.shape) + ("," if len(item.shape) == 1 else "") + ")"
    if len(shape) != len(item.shape):
        raise InputError(f"{where}: shape {shape}, but {wanted} is wanted")
    for symbol, size in zip(item.shape, shape, strict=True):
        name, add = (symbol[:-2], 1) if symbol.endswith("+1") else (symbol, 0)
        known = int(name) if name.isdigit() else dims.setdefault(name, size - add)
        if known + add != size:
            raise InputError(
                f"{where}: shape {shape}, but {wanted} is wanted with {name} = {known}"
            )


def check_dtype(item: Item, dtype: np.dtype[Any], where: str) -> None:
    """Raise InputError unless a reader may take this dtype for the item."""
    if dtype.kind not in item.kinds:
        raise InputError(f"{where}: values of type {dtype}, but {item.dtypes[0]} is wanted")


def is_on_disk(value: Any) -> bool:
    """Whether rows of an answer are read from a file (`mustlink.space.disk.DiskBlock`)."""
    return hasattr(value, "row_bytes")


def to_writable(item: Item, value: Any, dims: dict[str, int]) -> Any:
    """Cast a value to what the format allows, checking its shape; raises InputError."""
    if item.is_text and not item.shape:
        return str(value)
    if is_on_disk(value):  # looked at when it was made
        bind(item, value.shape, dims, item.path)
        return value
    array = np.asarray(value)
    bind(item, array.shape, dims, item.path)
    if item.is_text:
        return np.asarray([str(v) for v in array], dtype=object)
    check_dtype(item, array.dtype, item.path)
    if item.path in _ANSWERS and not np.isfinite(array).all():
        raise InputError(f"{item.path}: NaN or Inf in the answer; nothing is written")
    return array if array.dtype.name in item.dtypes else array.astype(item.dtypes[0])
