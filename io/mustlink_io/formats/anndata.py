"""AnnData's `.h5ad` as it is on disk: what is read of it, and results put into a copy of it.

Encodings are those of https://anndata.readthedocs.io (on-disk format, versions 0.1.0 and 0.2.0 of
its elements), reached through `store`; nothing is loaded but what is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats.names import NodeNames, names_or_none
from mustlink_io.formats.tables import Words
from mustlink_io.hdf5 import store

ENDING = ".h5ad"
PCA = "/obsm/X_pca"
NEAR = "/obsp/connectivities"
KEY = "mustlink"  # of a result, if no other is given
AUTHOR = "written_by"
_PER_NODE = ("X", "obsm", "obsp", "layers", "obs")
_LISTED = 12


@dataclass(frozen=True)
class Choice:
    """What is taken of a file that named nothing, and why."""

    name: str
    note: str


def default_part(file: h5py.File) -> Choice:
    """Principal components if there are some, else X, else the graph.

    Raises InputError where there is none of them.
    """
    where = file.filename
    if store.find(file, PCA) is not None:
        return Choice(PCA, f"{where}: {PCA} is taken, the principal components that are there")
    item = store.find(file, "/X")
    if item is None or (isinstance(item, h5py.Dataset) and item.shape in (None, ())):
        if store.find(file, NEAR) is not None:
            return Choice(NEAR, f"{where}: {NEAR} is taken as graph; there are no points in it")
        raise InputError(
            f"{where}: neither {PCA} nor X nor {NEAR} in it; name what to cluster as "
            f"{where}:/obsm/NAME or {where}:/obsp/connectivities (it has {store.listed(file)})"
        )
    return Choice(
        "/X",
        f"{where}: /X is taken as there is no {PCA}; principal components (scanpy.pp.pca) or the "
        f"graph of cells ({where}:/obsp/connectivities) often cluster better",
    )


def is_ours(file: h5py.File, key: str) -> bool:
    """Whether mustlink wrote what is there under a key."""
    item = store.find(file, f"/uns/{key}/{AUTHOR}")
    return (
        isinstance(item, h5py.Dataset) and item.shape == () and store.text(item[()]) == "mustlink"
    )


def refuse_distances(file: h5py.File, name: str) -> None:
    """Raise InputError for a matrix of distances, where weights say how near nodes are."""
    last = name.rstrip("/").rpartition("/")[2]
    if "obsp" in name.split("/") and last.endswith("distances"):
        other = name.rstrip("/").removesuffix("distances") + "connectivities"
        raise InputError(
            f"{file.filename}:{name}: holds distances, where the weights of a graph are larger the "
            f"nearer two nodes are; take {other}"
        )


def n_obs(file: h5py.File) -> int | None:
    """Number of observations, None if the file has no table of them."""
    name = _index_name(file)
    return None if name is None else int(store.dataset(file, name, values=False).shape[0])


def _index_name(file: h5py.File) -> str | None:
    """Path of the names of observations."""
    obs = store.find(file, "/obs")
    if obs is None:
        return None
    if not isinstance(obs, h5py.Group):
        raise InputError(
            f"{file.filename}: obs is stored as before anndata 0.7; read and write the file once "
            "with anndata"
        )
    key = store.decoded(obs.attrs.get("_index", "_index"))
    for name in (f"/obs/{key}", "/obs/index", "/obs/_index"):
        item = store.find(file, name)
        if isinstance(item, h5py.Dataset):
            return name
        if isinstance(item, h5py.Group) and "values" in item:  # nullable-string-array
            return f"{name}/values"
    return None


def is_per_node(name: str) -> bool:
    """Whether a part of a file has a row for every observation."""
    return name.strip("/").split("/")[0] in _PER_NODE


def check_rows(file: h5py.File, name: str, n_rows: int) -> None:
    """Raise InputError unless a part has a row for every observation."""
    there = n_obs(file) if is_per_node(name) else None
    if there is not None and there != n_rows:
        raise InputError(
            f"{file.filename}:{name}: {n_rows} rows, but obs has {there}; the file is damaged"
        )


def node_names(file: h5py.File) -> NodeNames | None:
    """Names of observations, None if there are none or they are 0, 1, 2 …."""
    name = _index_name(file)
    if name is None:
        return None
    data = store.dataset(file, name, values=False)
    if data.dtype.kind not in "OSU":
        numbers = np.asarray(store.dataset(file, name)[()])
        return names_or_none(np.array([str(n) for n in numbers], dtype=object), file.filename)
    return names_or_none(store.texts(file, name), file.filename)


def columns(file: h5py.File) -> str:
    """Names of the columns of obs for a message."""
    obs = store.find(file, "/obs")
    if not isinstance(obs, h5py.Group):
        return "none"
    index = store.decoded(obs.attrs.get("_index", "_index"))
    found = [store.text(key) for key in obs if key not in (index, "__categories")]
    return (", ".join(found[:_LISTED]) + (" …" if len(found) > _LISTED else "")) or "none"


def is_column(file: h5py.File, name: str) -> bool:
    """Whether a path is that of a column of obs, as far as its name says."""
    parts = name.strip("/").split("/")
    return (
        parts[0] == "obs" and len(parts) == 2 and isinstance(store.find(file, "/obs"), h5py.Group)
    )


def column(file: h5py.File, name: str) -> NDArray[Any] | Words:
    """Read a column of obs: numbers (NaN where missing) or Words; raises InputError.

    Categorical of versions 0.2.0 and 0.1.0 (categories in `__categories`), text, numbers, and
    nullable numbers and text.
    """
    name = "/" + name.strip("/")
    where = f"{file.filename}:{name}"
    item = store.find(file, name)
    if item is None:
        raise InputError(f"{where}: no such column; obs has {columns(file)}")
    if isinstance(item, h5py.Group):
        keys = set(item.keys())
        if {"codes", "categories"} <= keys:
            return _categorical(file, f"{name}/codes", f"{name}/categories")
        if {"values", "mask"} <= keys:
            return _nullable(file, name)
        raise InputError(f"{where}: a column in an encoding that is not read")
    if not isinstance(item, h5py.Dataset):
        raise InputError(f"{where}: no column of a table")
    key = name.rpartition("/")[2]
    old = f"/obs/__categories/{key}"
    if "categories" in item.attrs and store.find(file, old) is not None:
        return _categorical(file, name, old)
    data = store.dataset(file, name, values=item.dtype.kind not in "OSU")
    if data.dtype.kind in "OSU":
        return store.texts(file, name)
    if data.ndim != 1:
        raise InputError(f"{where}: shape {data.shape}, where a column has one value a row")
    return np.asarray(data[()])


def _categorical(file: h5py.File, codes_name: str, categories_name: str) -> NDArray[Any] | Words:
    data = store.dataset(file, codes_name)
    where = f"{file.filename}:{codes_name}"
    if data.ndim != 1 or data.dtype.kind not in "iu":
        raise InputError(
            f"{where}: shape {data.shape} of type {data.dtype}, where codes are wanted"
        )
    codes = np.asarray(data[()])
    item = store.find(file, categories_name)
    if isinstance(item, h5py.Group) and "values" in item:  # nullable-string-array
        categories_name += "/values"
    known = store.dataset(file, categories_name, values=False)
    if known.ndim != 1:
        raise InputError(f"{file.filename}:{categories_name}: shape {known.shape}")
    if codes.size and not -1 <= codes.min() <= codes.max() < known.shape[0]:
        raise InputError(
            f"{where}: codes from {codes.min()} to {codes.max()} of {known.shape[0]} categories"
        )
    codes = codes.astype(np.int64)
    if known.dtype.kind in "OSU":
        return Words(codes, tuple(store.texts(file, categories_name)))
    values = np.asarray(store.dataset(file, categories_name)[()])
    return np.append(values.astype(np.float64), np.nan)[codes]


def _nullable(file: h5py.File, name: str) -> NDArray[Any]:
    mask = np.asarray(store.dataset(file, f"{name}/mask")[()])
    values = store.dataset(file, f"{name}/values", values=False)
    if mask.shape != values.shape or mask.ndim != 1:
        raise InputError(f"{file.filename}:{name}: {mask.shape} of mask, {values.shape} of values")
    if values.dtype.kind in "OSU":
        words = store.texts(file, f"{name}/values")
        words[mask.astype(bool)] = ""
        return words
    numbers = np.asarray(store.dataset(file, f"{name}/values")[()]).astype(np.float64)
    numbers[mask.astype(bool)] = np.nan
    return numbers
