"""What is taken of an .npz: an array by name, a sparse matrix, or the only array there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import arrays, matrices
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.file_names import Place


def pick(place: Place) -> Any:
    """Return the named array, the sparse matrix, `points` or `X`, or the only array."""
    with arrays.open_npz(place.path) as archive:
        if place.part:
            return member(archive, place.part, str(place))
        if matrices.is_sparse_npz(archive):
            return matrices.sparse_from_npz(archive, str(place))
        names = [name for name in ("points", "X") if name in archive] or list(archive)
        if len(names) == 1 or names[:1] in (["points"], ["X"]):
            return member(archive, names[0], str(place))
        raise InputError(
            f"{place}: neither a sparse matrix nor points or X; name one of its arrays as "
            f"{place.path.name}:NAME (it has {_names(archive)})"
        )


def member(archive: Mapping[str, NDArray[Any]], name: str, where: str) -> NDArray[Any]:
    """Return one array; raises InputError that lists those there are."""
    name = name.lstrip("/")
    if name not in archive:
        raise InputError(f"{where}: no such array; the file has {_names(archive)}")
    return np.asarray(archive[name])


def _names(archive: Mapping[str, NDArray[Any]]) -> str:
    return ", ".join(store.text(name)[:40] for name in list(archive)[:12]) or "none"
