"""Results of finished stages, kept for a later run: what a keeper is, and how results are named.

The engine keeps the result of a stage under a digest of everything it depends on; where and how
it is kept is a keeper's affair (`mustlink_io.hdf5.work_folder`: files).
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.graph.stored import RowBlock, StoredGraph

VERSION = 8  # raised when a stage computes something else from the same parameters
_ROWS = 1 << 16  # of a block on disk, looked at in one go

Notes = tuple[tuple[str, bool], ...]  # what a stage said, and whether it was a warning
Write = Callable[[int, Iterator[RowBlock], Mapping[str, Any], NDArray[np.int32]], StoredGraph]


class Keeper(Protocol):
    """Whoever keeps results of stages between runs; only a `Shelf` asks it to.

    A result is a tree of dataclasses, tuples, mappings with text as keys, arrays, blocks on disk,
    CSR matrices and plain scalars. `source` names the data that everything began with, `scratch` is
    a folder for temporary files as large as the points.
    """

    source: str
    scratch: Path

    def recall(self, stage: str, key: str, types: Iterable[type]) -> Any | None:
        """Return what was kept under the key, None if nothing; `types` are its dataclasses."""

    def keep(self, stage: str, key: str, value: Any, seconds: float) -> None:
        """Keep a result that took so many seconds; it is not changed before `settle`."""

    def recall_graph(self, stage: str, key: str) -> tuple[StoredGraph, Notes] | None:
        """A graph that was kept under the key, its rows on disk; None if there is none."""

    def keep_graph(
        self,
        stage: str,
        key: str,
        n: int,
        blocks: Iterable[RowBlock],
        info: Mapping[str, Any],
        rows: NDArray[np.int32],
        about: Callable[[], tuple[float, Notes] | None],
    ) -> StoredGraph:
        """Write rows of a graph as they come, and the node of every row of the caller; InputError.

        `about()` is asked when all are written: the seconds that it took and what was said, or
        None where the graph is not to be recalled.
        """

    def settle(self) -> None:
        """Return when all that is kept would survive a power cut."""


def digest(value: Any) -> str:
    """SHA-256, as hexadecimal, of a tree as a `Keeper` keeps; equal trees have equal digests.

    Cost: about a second for 1 GB of arrays. Raises TypeError for anything else in the tree.
    """
    found = hashlib.sha256()
    _feed(found, value)
    return found.hexdigest()


def _feed(found: Any, value: Any) -> None:
    """Every part with its kind and size before it, so that no two trees read alike."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        text = f"{type(value).__name__} {value!r}".encode()
        found.update(f"{len(text)}:".encode() + text)
    elif isinstance(value, np.ndarray):
        found.update(f"array {value.dtype.str} {value.shape}:".encode())
        found.update(np.ascontiguousarray(value).data if value.size else b"")
    elif isinstance(value, sp.csr_matrix):
        _feed(found, ("csr", value.shape, value.indptr, value.indices, value.data))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        found.update(f"{type(value).__name__} of ".encode())
        _feed(
            found, {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        )
    elif isinstance(value, Mapping):
        found.update(f"mapping of {len(value)}:".encode())
        for name in sorted(value, key=str):
            _feed(found, str(name))
            _feed(found, value[name])
    elif isinstance(value, list | tuple):
        found.update(f"sequence of {len(value)}:".encode())
        for part in value:
            _feed(found, part)
    else:
        from mustlink.space.disk import DiskBlock  # its package loads the compiler

        if not isinstance(value, DiskBlock):
            raise TypeError(f"a {type(value).__name__} has no digest")
        found.update(f"rows {value.dtype.str} {value.shape}:".encode())
        for first in range(0, len(value), _ROWS):
            found.update(np.ascontiguousarray(value[first : first + _ROWS]).data)


def in_c_order(value: Any) -> Any:
    """The same tree with every array in C order, as it will be when recalled.

    Sums over other orders round differently: a run that goes on must see the same bits.
    """
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value) if value.ndim else value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        old = {name: getattr(value, name) for name in fields}
        new = {name: in_c_order(part) for name, part in old.items()}
        same = all(new[name] is old[name] for name in fields)
        return value if same else dataclasses.replace(value, **new)
    if isinstance(value, tuple):
        parts = [in_c_order(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [in_c_order(part) for part in value]
    return value
