"""AnnData's `.h5ad`: what is read of it, and results put into a copy, by anndata.

What is read is plain HDF5, read through `store` and without anndata, which takes two seconds to
import and reads matrices whole. For a result the file is copied byte by byte
and the copy added to, so that whatever else is in it stays as it was; the copy then takes its name,
or that of the original. As the HDF5 library may crash on a damaged file, a child process adds the
result (`sandbox`).
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats.tables import NodeNames, Table, names_or_none, to_integers
from mustlink_io.formats.text import Words
from mustlink_io.hdf5 import size_checks, store, writing
from mustlink_io.hdf5.sandbox import examine
from mustlink_io.system import needed

ENDING = ".h5ad"
PCA = "/obsm/X_pca"
NEAR = "/obsp/connectivities"
KEY = "mustlink"  # of a result by default
AUTHOR = "written_by"
_PER_NODE = ("X", "obsm", "obsp", "layers", "obs")
_LISTED = 12


def default_part(file: h5py.File) -> tuple[str, str]:
    """Principal components if there are some, else X, else the graph; and a note which and why.

    Raises InputError where there is none of them.
    """
    where = file.filename
    if store.find(file, PCA) is not None:
        return PCA, f"{where}: {PCA} is taken, the principal components that are there"
    item = store.find(file, "/X")
    if item is None or (isinstance(item, h5py.Dataset) and item.shape in (None, ())):
        if store.find(file, NEAR) is not None:
            return NEAR, f"{where}: {NEAR} is taken as graph; there are no points in it"
        raise InputError(
            f"{where}: neither {PCA} nor X nor {NEAR} in it; name what to cluster as "
            f"{where}:/obsm/NAME or {where}:/obsp/connectivities (it has {store.listed(file)})"
        )
    return "/X", (
        f"{where}: /X is taken as there is no {PCA}; principal components (scanpy.pp.pca) or the "
        f"graph of cells ({where}:{NEAR}) often cluster better"
    )


def is_ours(file: h5py.File, key: str) -> bool:
    """Whether mustlink wrote what is there under a key."""
    item = store.find(file, f"/uns/{key}/{AUTHOR}")
    return (
        isinstance(item, h5py.Dataset) and item.shape == () and store.text(item[()]) == "mustlink"
    )


def is_distances(name: str | None) -> bool:
    """Whether a part is, by its name, scanpy's matrix of distances to neighbours."""
    parts = (name or "").rstrip("/").split("/")
    return "obsp" in parts and parts[-1].endswith("distances")


def refuse_distances(file: h5py.File, name: str) -> None:
    """Raise InputError for a matrix of distances, where weights say how near nodes are."""
    if is_distances(name):
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


def table(file: h5py.File) -> Table:
    """The columns of obs in their order; raises InputError."""
    obs = store.find(file, "/obs")
    index = (_index_name(file) or "").split("/")[2:3]
    if not isinstance(obs, h5py.Group):
        raise InputError(f"{file.filename}:/obs: no such table")
    order = [store.decoded(name) for name in np.asarray(obs.attrs.get("column-order", ()))]
    order = order or [key for key in obs if key not in (*index, "__categories")]
    if not order:
        raise InputError(f"{file.filename}:/obs: has no columns; name another part of it")
    return Table(tuple(order), tuple(column(file, f"/obs/{name}") for name in order))


def is_column(file: h5py.File, name: str) -> bool:
    """Whether a path is that of a column of obs, as far as its name says."""
    parts = name.strip("/").split("/")
    return (
        parts[0] == "obs" and len(parts) == 2 and isinstance(store.find(file, "/obs"), h5py.Group)
    )


def column(file: h5py.File, name: str) -> NDArray[Any] | Words:
    """Read a column of obs: numbers (NaN where missing), text or Words; raises InputError.

    Categories of a column are beside its codes or, before anndata 0.8, in `obs/__categories`.
    """
    name = "/" + name.strip("/")
    where = f"{file.filename}:{name}"
    item = store.find(file, name)
    if item is None:
        raise InputError(f"{where}: no such column; obs has {columns(file)}")
    codes, known = name, f"/obs/__categories/{name.rpartition('/')[2]}"
    if isinstance(item, h5py.Group) and "codes" in item:
        codes, known = f"{name}/codes", f"{name}/categories"
    elif store.find(file, known) is None:
        return _values(file, name)
    places = to_integers(_values(file, codes), where, "code")
    categories = _values(file, known)
    if places.size and not -1 <= places.min() <= places.max() < categories.size:
        raise InputError(f"{where}: codes outside of its {categories.size} categories; damaged")
    if categories.dtype.kind == "O":
        return Words(places, tuple(categories))
    return np.append(categories.astype(np.float64), np.nan)[places]


def _values(file: h5py.File, name: str) -> NDArray[Any]:
    """Numbers or text (n,) of a dataset, or of a group that says by a mask which are missing."""
    where = f"{file.filename}:{name}"
    item = store.find(file, name)
    if isinstance(item, h5py.Group) and {"values", "mask"} <= set(item):
        found, mask = _values(file, f"{name}/values"), _values(file, f"{name}/mask").astype(bool)
        if found.shape != mask.shape:
            raise InputError(f"{where}: {found.size} values, but {mask.size} in its mask; damaged")
        text = found.dtype.kind == "O"
        return np.where(mask, "" if text else np.nan, found if text else found.astype(np.float64))
    if not isinstance(item, h5py.Dataset) or len(item.shape or ()) != 1:
        raise InputError(f"{where}: is no column, which has one value a row")
    if item.dtype.kind in "OSU":
        return store.texts(file, name)
    data = store.dataset(file, name)
    size_checks.check_fits(data.size * data.dtype.itemsize, where)
    return np.asarray(data[()])


@dataclass(frozen=True)
class Target:
    """Where a result goes: the AnnData file to copy, the file to write, and the key in it."""

    source: Path
    output: str
    key: str = KEY
    overwrite: bool = False


def check(target: Target) -> None:
    """Raise InputError unless the file can take results under the key."""
    key, where = target.key, str(target.source)
    if not key or "/" in key or key[0] in "._" or not key.isprintable():
        raise InputError(f"--key {key!r}: give a name without / that begins with a letter")
    with store.open_h5(target.source) as file:
        if n_obs(file) is None:
            raise InputError(f"{where}: no table obs in it, so not an AnnData file")
        obs = store.find(file, "/obs")
        if isinstance(obs, h5py.Group) and key == store.decoded(obs.attrs.get("_index", "")):
            raise InputError(f"--key {key}: is the name of the index of obs; give another")
        there = [path for path in _places(key) if store.find(file, path) is not None]
        if there and not target.overwrite and not is_ours(file, key):
            raise InputError(
                f"{where}: has {', '.join(there)} which mustlink did not write; give --overwrite, "
                "or another name as --key"
            )


def _places(key: str) -> tuple[str, ...]:
    return (
        f"/obs/{key}",
        f"/obs/{key}_confidence",
        f"/obsm/X_{key}",
        f"/obsm/{key}_distributions",
        f"/obsm/{key}_membership",
        f"/uns/{key}",
    )


def annotate(target: Target, content: Mapping[str, Any]) -> list[str]:
    """Write a copy of an AnnData file with a result, entries of `schema.ITEMS`, added.

    Returns notes. Raises InputError, also when numbers of nodes differ or nodes are not the same;
    then nothing is written.
    """
    check(target)
    content, notes = _in_order(target, content)
    needed("anndata.io", target.output, "anndata")  # before there is a child process
    parts = _parts(content)
    size = sum(value.nbytes for value in content.values() if isinstance(value, np.ndarray))
    with writing.atomic(target.output) as temporary:
        shutil.copyfile(target.source, temporary)
        examine(str(target.source), lambda: _add(temporary, target, parts), 4 * size + 10**8)
    return notes


def _in_order(target: Target, content: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """The result in the order of the file's observations, matched by name where both have names."""
    n_nodes = len(content["/labels"])
    with store.open_h5(target.source) as file:
        n_there = n_obs(file)
        names = node_names(file) if "/names" in content else None
    if names is not None:
        mine = NodeNames(np.asarray(content["/names"], dtype=object), "the result")
        if not np.array_equal(mine.texts, names.texts):
            rows = mine.matched(names)
            per_node = ("/labels", "/embedding", "/confidence", "/label_distributions",
                        "/membership")  # fmt: skip
            ordered = {key: np.asarray(content[key])[rows] for key in per_node if key in content}
            note = f"nodes matched by name, {len(names)} of the result's {n_nodes}"
            return {**content, **ordered}, [f"{target.source}: {note}"]
    if n_there != n_nodes:
        raise InputError(
            f"{target.source}: {n_there} observations, but the result has {n_nodes} nodes"
        )
    return content, []


def categories(content: Mapping[str, Any]) -> tuple[NDArray[np.int64], list[str]]:
    """Codes (n,) and text categories of a result: names of classes, else their numbers.

    Clusters without a node are no category, as with scanpy's `leiden`.
    """
    labels = np.asarray(content["/labels"])
    if "/classes" in content:
        known = np.asarray(content["/classes"])
        words = [str(name) for name in content.get("/class_names", known)]
        if len(set(words)) < len(words):
            words = [str(number) for number in known]
    else:
        known = np.unique(labels[labels >= 0])
        words = [str(number) for number in known]
    codes = np.searchsorted(known, labels)
    codes[labels < 0] = -1
    return codes, words


def _parts(content: Mapping[str, Any]) -> dict[str, Any]:
    """What is written, by group and a pattern of the name."""
    codes, words = categories(content)
    about: dict[str, Any] = {AUTHOR: "mustlink"}
    if "/@mustlink-version" in content:
        about["version"] = str(content["/@mustlink-version"])
    about["params"] = _storable(json.loads(str(content.get("/@parameters", "{}"))))
    for name in ("eigenvalues", "class_names"):
        if f"/{name}" in content and len(content[f"/{name}"]):
            about[name] = np.asarray(content[f"/{name}"])
    found: dict[str, Any] = {"obs/{}": (codes, words), "uns/{}": about}
    if "/confidence" in content:
        found["obs/{}_confidence"] = np.asarray(content["/confidence"])
    embedding = np.asarray(content.get("/embedding", np.empty((0, 0))))
    if embedding.ndim == 2 and embedding.shape[1] and len(embedding) == len(codes):
        found["obsm/X_{}"] = embedding
    for name, place in (("label_distributions", "distributions"), ("membership", "membership")):
        if f"/{name}" in content:
            found[f"obsm/{{}}_{place}"] = np.asarray(content[f"/{name}"])
    return found


def _storable(value: Any) -> Any:
    """A value of JSON as anndata stores it: without None, and lists of one kind as arrays."""
    if isinstance(value, dict):
        known = {str(key).replace("/", "_"): one for key, one in value.items() if one is not None}
        return {key: _storable(one) for key, one in known.items()}
    if not isinstance(value, list):
        return value
    kinds = {float if isinstance(one, int | float) else type(one) for one in value}
    return np.array(value) if kinds in ({float}, {str}) else json.dumps(value, default=str)


def _add(path: Path, target: Target, parts: Mapping[str, Any]) -> None:
    """Add the parts to the copy; every failure is an InputError, as a child process runs this."""
    failed = f"{target.output}: was not written"
    with store.refusing(f"{failed}, {target.source} may be damaged"):
        try:
            with writing.Sink(path) as sink:
                with contextlib.suppress(OSError), h5py.File(sink, "r+") as file:
                    _add_all(file, target.key, parts)
                sink.check()
            with h5py.File(path, "r") as file:  # what could not be written is not there
                wanting = [name for name in parts if name.format(target.key) not in file]
        except OSError as error:
            raise InputError(f"{failed}: {error.strerror or error}") from error
        if wanting:
            raise InputError(f"{failed}; {target.source} may be damaged")


def _add_all(file: h5py.File, key: str, parts: Mapping[str, Any]) -> None:
    for path in _places(key):
        if path.strip("/") in file:
            del file[path]
    write = needed("anndata.io", file.filename, "anndata").write_elem
    for pattern, value in parts.items():
        group_name, name = pattern.format(key).split("/")
        if group_name not in file:
            write(file, group_name, {})
        write(file[group_name], name, _categorical(*value) if isinstance(value, tuple) else value)
    columns = [name.format(key).removeprefix("obs/") for name in parts if name.startswith("obs/")]
    gone = {path.removeprefix("/obs/") for path in _places(key)} - set(columns)
    _set_columns(file["obs"], columns, gone)


def _categorical(codes: NDArray[np.int64], words: list[str]) -> Any:
    import pandas as pd

    return pd.Categorical.from_codes(codes, pd.Index(words, dtype=object))


def _set_columns(group: h5py.Group, more: Collection[str], gone: Collection[str]) -> None:
    """Add columns to the order that a table keeps of them, and take some out.

    By hand, as anndata writes a table only as a whole.
    """
    before = [store.decoded(name) for name in np.asarray(group.attrs.get("column-order", ()))]
    order = [name for name in before if name not in gone]
    order += [name for name in more if name not in order]
    group.attrs["column-order"] = np.array(order, dtype=h5py.string_dtype())
