"""AnnData's `.h5ad`: what is taken of it, its tables read by anndata.

Matrices and names of nodes are plain HDF5, read through `store` in blocks and without anndata,
which takes two seconds to import and reads them whole.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats.names import NodeNames, names_or_none
from mustlink_io.formats.tables import Words
from mustlink_io.hdf5 import size_checks, store
from mustlink_io.hdf5.sandbox import allow

ENDING = ".h5ad"
PCA = "/obsm/X_pca"
NEAR = "/obsp/connectivities"
KEY = "mustlink"  # of a result, if no other is given
AUTHOR = "written_by"
_PER_NODE = ("X", "obsm", "obsp", "layers", "obs")
_LISTED = 12
_DEEPEST = 4  # groups in groups of a table
_TEXT_BYTES = 64  # of a short text in memory


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


def library(where: str) -> Any:
    """The reader and writer of elements, `anndata.io`; raises InputError where it is not there."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from anndata import io
    except ImportError as error:
        raise InputError(
            f"{where}: tables of AnnData go through anndata; install it by: pip install "
            "'mustlink[anndata]'"
        ) from error
    return io


def column(file: h5py.File, name: str) -> NDArray[Any] | Words:
    """Read a column of obs: numbers (NaN where missing) or Words; raises InputError."""
    name = "/" + name.strip("/")
    where = f"{file.filename}:{name}"
    if store.find(file, name) is None:
        raise InputError(f"{where}: no such column; obs has {columns(file)}")
    if store.find(file, "/obs/__categories") is not None:  # of a table as before anndata 0.8
        key = name.rpartition("/")[2]
        table = _element(file, "/obs")
        if key not in table:
            raise InputError(f"{where}: no column of a table; obs has {columns(file)}")
        return _plain(table[key].array, where)
    return _plain(_element(file, name), where)


def _element(file: h5py.File, name: str) -> Any:
    """An element as anndata reads it, after a child process did; raises InputError."""
    library(f"{file.filename}:{name}")  # before there is a child process
    store.try_first(file, name, _read_in_time, name, _look(file, name))
    return _read(file, name)


def _read_in_time(file: h5py.File, name: str, n_bytes: int) -> None:
    allow(n_bytes)
    _read(file, name)


def _read(file: h5py.File, name: str) -> Any:
    read = library(f"{file.filename}:{name}").read_elem
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of encodings that are old
            return read(store.find(file, name))
    except InputError:
        raise
    except Exception as error:  # anndata, pandas and h5py raise of every kind at a damaged file
        words = " ".join(store.text(str(error)).split())[:200] or type(error).__name__
        raise InputError(f"{file.filename}:{name}: cannot be read by anndata ({words})") from error


def _look(file: h5py.File, name: str, depth: int = 0) -> int:
    """Look at all that is below a name, so that none of it leads out of the file; its bytes."""
    item = store.find(file, name)
    if isinstance(item, h5py.Group):
        if depth == _DEEPEST:
            raise InputError(f"{file.filename}:{name}: groups in groups, which no table has")
        return sum(_look(file, f"{name}/{store.text(key)}", depth + 1) for key in item)
    if isinstance(item, h5py.Dataset) and item.shape is not None:
        data = store.dataset(file, name)
        size = data.size * max(data.dtype.itemsize, _TEXT_BYTES)
        size_checks.check_fits(size, f"{file.filename}:{name}")
        return int(size)
    return 0


def _plain(values: Any, where: str) -> NDArray[Any] | Words:
    """Values of a column as numbers, text or Words; raises InputError for what is no column."""
    import pandas as pd

    if getattr(values, "ndim", 0) != 1:
        raise InputError(f"{where}: is no column, which has one value a row")
    if isinstance(values, pd.Categorical):
        known = values.categories.to_numpy()
        codes = values.codes.astype(np.int64)
        if known.dtype.kind in "OSU":
            return Words(codes, tuple(map(str, known)))
        return np.append(known.astype(np.float64), np.nan)[codes]
    if isinstance(values, pd.api.extensions.ExtensionArray):
        text = pd.api.types.is_string_dtype(values.dtype)
        missing = "" if text else np.nan
        return np.asarray(values.to_numpy(object if text else np.float64, na_value=missing))
    found = np.asarray(values)
    if found.dtype.kind in "OSU":
        return np.array([store.decoded(value) for value in found], dtype=object)
    return found
