"""Names of nodes that stay in their file, and go from there into another by blocks."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink_io.hdf5 import store

_ROWS = 1 << 16


class StoredNames:
    """The texts (n,) in `/names` of a file; slices of them are read, and none is held."""

    row_bytes = 64  # or so

    def __init__(self, path: Path, n: int) -> None:
        self.path, self.shape = path, (n,)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[np.object_]:
        """Some of them; raises InputError."""
        with store.open_h5(self.path) as file:
            return store.text_rows(file, "/names", rows)

    @property
    def texts(self) -> StoredNames:
        """Itself, where names in memory have an array."""
        return self


def stored_names(file: h5py.File, path: Path) -> StoredNames | None:
    """Names that a file gives to its nodes, None for none, or 0, 1, 2 …; raises InputError."""
    if store.find(file, "/names") is None:
        return None
    n = store.look_at_texts(file, "/names")
    for first in range(0, n, _ROWS):
        some = store.text_rows(file, "/names", slice(first, first + _ROWS))
        if any(text != str(first + row) for row, text in enumerate(some)):
            return StoredNames(path, n)
    return None
