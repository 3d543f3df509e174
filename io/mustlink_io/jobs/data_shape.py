"""How large a data set is, from its header where it has one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.graph.structure import has_even_degrees
from mustlink.preparation.request import Preparation
from mustlink_io import formats
from mustlink_io.formats import metis
from mustlink_io.formats.preparing import Apart
from mustlink_io.hdf5 import store

_NOTHING = Preparation()


@dataclass(frozen=True)
class Shape:
    """Size of the data: n points of d coordinates, or n nodes with `nnz` stored weights (d = 0).

    `even` tells whether the nodes of a graph in HDF5 are known to have about as many edges each.
    """

    n: int
    d: int
    nnz: int
    file_bytes: int
    even: bool = False


def shape_of(
    text: str,
    steps: Preparation = _NOTHING,
    want: formats.Want | None = None,
    apart: tuple[Apart, ...] = (),
) -> Shape:
    """Sizes of a data set as `want` reads it, from its header if that tells; raises InputError.

    Where `steps` leave out rows or columns, or make columns of categories, all rows are read once.
    """
    place = formats.parse(text)
    store.check_readable(place.path)
    size = place.path.stat().st_size
    counted = replace(steps, standardize=None)
    if steps.one_hot or steps.drop_missing or steps.drop:
        found = formats.load(text, lazy_above=0, steps=counted, apart=apart).value.shape
        return Shape(int(found[0]), int(found[1]), 0, size)
    if want in ("bipartite", "directed"):
        return _loaded(text, want, counted, size, apart)
    if place.suffix in formats.METIS and want is None:
        nodes, edges = metis.declared_size(place.path)
        return Shape(nodes, 0, 2 * edges, size)
    declared = formats.declared_shape(text)
    if declared is None or len(declared) != 2:
        return _loaded(text, None if want == "graph" else want, counted, size, apart)
    n, d = (int(part) for part in declared)
    if n == d and want != "points" and place.suffix in formats.HDF5:
        stored = _stored(place)
        if stored is not None:
            there = stored[stored > 0]
            even = there.size > 0 and has_even_degrees(there)
            return Shape(n, 0, int(stored.sum()), size, even)
    return Shape(n, d, 0, size)


def _loaded(
    text: str,
    want: formats.Want | None,
    steps: Preparation,
    file_bytes: int,
    apart: tuple[Apart, ...],
) -> Shape:
    """Sizes of what is read whole."""
    loaded = formats.load(text, want, steps=steps, apart=apart)
    n, d = (int(part) for part in loaded.value.shape)
    is_graph = loaded.kind == "graph"
    return Shape(n, 0 if is_graph else d, int(loaded.value.nnz) if is_graph else 0, file_bytes)


def _stored(place: formats.Place) -> NDArray[np.int64] | None:
    """Stored weights in every row of a sparse matrix in HDF5; None for anything else."""
    with store.open_h5(place.path) as file:
        item = store.find(file, formats.default_part(file, place, None)[0])
        return np.diff(item["indptr"][()]) if isinstance(item, h5py.Group) else None


def shape_named(text: str) -> Shape | None:
    """The size that a text such as `10000000x16` names, for data that are not there yet.

    Raises InputError for what is like one, but neither a size nor a file.
    """
    found = re.fullmatch(r"([1-9]\d{0,11})x([1-9]\d{0,6})", text)
    if found is None:
        if re.fullmatch(r"[\d.,_]+(x[\d.,_]*)?", text) and not Path(text).exists():
            raise InputError(f"{text}: no size and no such file; write points x coordinates as in "
                             "10000000x16")  # fmt: skip
        return None
    n, d = int(found.group(1)), int(found.group(2))
    return Shape(n, d, 0, 4 * n * d)
