"""How often every row counts, or is believed, from a file: one number a row, not negative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import anndata, arrays, frames, npz, tables
from mustlink_io.formats.names import NodeNames, node_rows
from mustlink_io.formats.own_columns import WEIGHT, is_own
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.file_names import HDF5, Place, parse

BELIEF = ("belief", "beliefs")
KERNELS = ("local", "gaussian", "connectivity")  # that the option was of before


def refuse_kernel(text: str) -> None:
    """Raise InputError for the name of a kernel of graph edges."""
    name = parse(text).path.name
    if name in KERNELS and not parse(text).path.exists():
        raise InputError(
            f"--weights {name}: is a kernel of the graph's edges, --edge-weights {name}; --weights "
            "is a file with one weight a row"
        )


def load_weights(
    text: str, n_rows: int, names: NodeNames | None = None, data: str = ""
) -> NDArray[np.float64]:
    """Load weights (n_rows,): HDF5 (`/weights` if nothing is named), a column of obs in AnnData,
    .npy, .npz, or a table: one number a line, FILE.csv:COLUMN, or a column `node` and one of
    weights. A column of the table `data` itself is read row by row. Raises InputError.
    """
    refuse_kernel(text)
    return _numbers(text, n_rows, names, data, WEIGHT)


def load_beliefs(
    text: str, n_rows: int, names: NodeNames | None = None, data: str = ""
) -> NDArray[np.float64]:
    """Load beliefs (n_rows,) in the same way; called `/beliefs` or `belief` if nothing is named."""
    return _numbers(text, n_rows, names, data, BELIEF)


def _numbers(
    text: str, n_rows: int, names: NodeNames | None, data: str, usual: Sequence[str]
) -> NDArray[np.float64]:
    """Numbers (n_rows,), called as the first of the `usual` names in words."""
    place = parse(text)
    store.check_readable(place.path)
    values = np.asarray(_read(place, n_rows, names, usual, own=is_own(text, data)))
    one, several = usual[:2]
    if values.dtype.kind not in "fiub" or values.shape != (n_rows,):
        raise InputError(
            f"{place}: shape {values.shape} of type {values.dtype}; {several} are numbers, one for "
            f"each of the {n_rows} rows"
        )
    found = values.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if bad.size:
        raise InputError(
            f"{place}: row {bad[0]} has {one} {found[bad[0]]:g}; {several} are finite and not "
            "negative"
        )
    return found


def _read(
    place: Place, n_rows: int, names: NodeNames | None, usual: Sequence[str], *, own: bool
) -> Any:
    if place.suffix in HDF5:
        with store.open_h5(place.path) as file:
            name = place.part or f"/{usual[1]}"
            if anndata.is_column(file, name):
                return anndata.column(file, name)
            return store.read(file, name, {}, "/weights")
    if place.suffix == ".npy":
        return arrays.load_npy(place.path)
    if place.suffix == ".npz":
        with arrays.open_npz(place.path) as archive:
            return npz.member(archive, place.part or usual[1], str(place))
    if place.suffix == ".parquet":
        return _column(frames.read_parquet(place.path), place, n_rows, names, usual, own)
    return _column(tables.read_columns(place.path), place, n_rows, names, usual, own)


def _column(
    table: tables.Table,
    place: Place,
    n_rows: int,
    names: NodeNames | None,
    usual: Sequence[str],
    own: bool,
) -> NDArray[Any]:
    """The column that is named, called as usual, or the only one beside `node`."""
    node = tables.find_column(table.header[:1], tables.NODE) if len(table.columns) > 1 else None
    wanted = usual if place.part is None else (place.part.lower(),)
    at = tables.find_column(table.header, wanted)
    rest = [i for i in range(len(table.columns)) if i != node]
    if at is None and place.part is None and len(rest) == 1:
        at = rest[0]
    if at is None:
        listed = ", ".join(store.text(name) for name in table.header[:12]) or "no header"
        raise InputError(
            f"{place}: which column has the {usual[1]}? write {place.path.name}:COLUMN (it has "
            f"{listed})"
        )
    values = table.text(at)
    if own or node is None or values.dtype.kind == "O":
        return values
    rows = node_rows(table.text(node), names, str(place))
    if not np.array_equal(np.sort(rows), np.arange(n_rows)):
        raise InputError(f"{place}: wanted is every node once, of 0 to {n_rows - 1}")
    found = np.empty(n_rows)
    found[rows] = values
    return found
