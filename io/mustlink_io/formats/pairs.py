"""Must-link and cannot-link pairs, or a second graph, from files."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io import store
from mustlink_io.formats import anndata, frames, matrices, npz, tables
from mustlink_io.formats.names import NodeNames, node_rows
from mustlink_io.places import HDF5, Place, parse


def load_pairs(
    text: str, names: NodeNames | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Load pairs (m, 2) and beliefs (m,) from CSV, Parquet or an HDF5 group; raises InputError.

    Tables have the header `i,j,belief`, with nodes by number from 0 or by their `names`. Whether
    nodes exist and pairs make sense is the engine's to check.
    """
    place = parse(text)
    store.check_readable(place.path)
    if place.suffix not in HDF5:
        return _from_table(_read(place), str(place), names)
    with store.open_h5(place.path) as file:
        group = (place.part or "/constraints").rstrip("/")
        group = group.removesuffix("/pairs")
        dims: dict[str, int] = {}
        pairs = store.read(file, f"{group}/pairs", dims, "/constraints/pairs")
        belief = store.read(file, f"{group}/belief", dims, "/constraints/belief")
    where = f"{place.path}:{group}"
    with np.errstate(over="ignore", invalid="ignore"):  # of long doubles; the engine refuses Inf
        return tables.to_integers(pairs, f"{where}/pairs", "pair"), belief.astype(np.float64)


def _read(place: Place) -> tables.Table:
    if place.suffix == ".parquet":
        return frames.read_parquet(place.path)
    try:
        header, numbers = tables.read_csv(place.path)
    except tables.WordError as error:
        found = tables.read_table(place.path)
        ends = [tables.find_column(found.header, (name,)) for name in ("i", "j")]
        if all(at is None or not _is_text(found, at) for at in ends) and None not in ends:
            raise error  # it is the belief that is no number
        return found
    return tables.Table(tuple(header), tuple(numbers.T))


def _is_text(table: tables.Table, at: int) -> bool:
    return table.text(at).dtype.kind == "O"


def _from_table(
    table: tables.Table, where: str, names: NodeNames | None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Pairs of a table.

    The belief says whether a pair is a must-link (> 0) or a cannot-link (< 0) and is therefore
    required.
    """
    i, j, belief = (tables.find_column(table.header, (name,)) for name in ("i", "j", "belief"))
    if i is None or j is None:
        raise InputError(f"{where}: the first line must be the header `i,j,belief`")
    if belief is None:
        raise InputError(
            f"{where}: no column `belief`; write 1 for a must-link and -1 for a cannot-link"
        )
    if _is_text(table, belief):
        raise InputError(f"{where}: a belief is not a number; write 1 or -1, or a part of it")
    ends = [table.text(i), table.text(j)]
    if names is None and not _is_text(table, i) and not _is_text(table, j):
        found = tables.to_integers(np.column_stack(ends), where, "pair")
    else:
        words = np.concatenate([tables.column_text(one) for one in ends])
        found = node_rows(words, names, where).reshape(2, -1).T
    return np.ascontiguousarray(found), table.text(belief).astype(np.float64)


def load_matrix(text: str) -> sp.csr_matrix | None:
    """Return the sparse matrix that a constraint file holds, None if it holds pairs."""
    place = parse(text)
    store.check_readable(place.path)
    if place.suffix in HDF5:
        with store.open_h5(place.path) as file:
            if place.part is None or not matrices.is_sparse_group(store.find(file, place.part)):
                return None
            anndata.refuse_distances(file, place.part)
            return matrices.read_sparse(file, place.part)
    if place.suffix not in (".npz", ".mtx"):
        return None
    value: Any = matrices.read_mtx(place.path) if place.suffix == ".mtx" else npz.pick(place)
    return sp.csr_matrix(value)
