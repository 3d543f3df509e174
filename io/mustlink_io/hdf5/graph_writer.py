"""A graph written by blocks of rows as they come: `/graph` of the format, never whole in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink_io.hdf5 import schema, writing

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
    `about` tells attributes of the file when all is written. What is not to be there, entries of
    0, is left out. Raises InputError where the file cannot be written; then there is none.
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
            kept = block.data > 0
            before = np.concatenate([[0], np.cumsum(kept)])[block.indptr]
            here = block.rows
            ends[here.start + 1 : here.stop + 1] = done + before[1:]
            size = int(before[-1])
            for data, values in ((columns, block.indices), (weights, block.data)):
                data.resize((done + size,))
                data[done:] = values[kept]
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
