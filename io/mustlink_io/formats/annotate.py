"""Results put into a copy of an AnnData file: clusters as a column of obs, embedding into obsm.

The file is copied byte by byte and the copy added to, so that whatever else is in it stays as it
was and no file is too large; the copy then takes its name, or that of the original. As the HDF5
library may crash on what it is given, a child process does the adding (`sandbox`).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import anndata
from mustlink_io.formats.names import NodeNames
from mustlink_io.hdf5 import store, writing
from mustlink_io.hdf5.sandbox import examine

KEY = anndata.KEY
ENDING = anndata.ENDING
_ROOM = 2**20  # bytes for attributes, names and what the library wastes


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
        if anndata.n_obs(file) is None:
            raise InputError(f"{where}: no table obs in it, so not an AnnData file")
        obs = store.find(file, "/obs")
        if isinstance(obs, h5py.Group) and key == store.decoded(obs.attrs.get("_index", "")):
            raise InputError(f"--key {key}: is the name of the index of obs; give another")
        there = [path for path in _places(key) if store.find(file, path) is not None]
        if there and not target.overwrite and not anndata.is_ours(file, key):
            raise InputError(
                f"{where}: has {', '.join(there)} which mustlink did not write; give --overwrite, "
                "or another name as --key"
            )


def _places(key: str) -> tuple[str, ...]:
    """Everything that may be written under a key."""
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
    anndata.library(target.output)  # before there is a child process
    parts = _parts(content)
    size = sum(value.nbytes for value in content.values() if isinstance(value, np.ndarray))
    with writing.atomic(target.output) as temporary:
        shutil.copyfile(target.source, temporary)
        _reserve(temporary, parts)
        examine(str(target.source), lambda: _add(temporary, target, parts), 4 * size + 10**8)
    return notes


def _in_order(target: Target, content: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """The result in the order of the file's observations, matched by name where both have names."""
    n_nodes = len(content["/labels"])
    with store.open_h5(target.source) as file:
        there = anndata.n_obs(file)
        names = anndata.node_names(file) if "/names" in content else None
    if names is not None:
        mine = NodeNames(np.asarray(content["/names"], dtype=object), "the result")
        if not np.array_equal(mine.texts, names.texts):
            return _matched(target, content, mine, names)
    if there != n_nodes:
        raise InputError(
            f"{target.source}: {there} observations, but the result has {n_nodes} nodes"
        )
    return content, []


def _matched(
    target: Target, content: Mapping[str, Any], mine: NodeNames, names: NodeNames
) -> tuple[Mapping[str, Any], list[str]]:
    for one in (mine, names):
        if one.repeated is not None:
            raise InputError(
                f"{target.source}: names differ from those of the result, and cannot be matched as "
                f"{store.text(one.repeated)[:40]!r} is there twice"
            )
    missing = mine.missing(list(names.texts))
    if missing is not None:
        raise InputError(
            f"{target.source}: observation {store.text(missing)[:40]!r} is none of the result's "
            f"{len(mine)} nodes"
        )
    rows = mine.rows(list(names.texts))
    per_node = ("/labels", "/embedding", "/confidence", "/label_distributions", "/membership")
    ordered = {key: np.asarray(content[key])[rows] for key in per_node if key in content}
    note = f"{target.source}: nodes matched by name, {len(names)} of the result's {len(mine)}"
    return {**content, **ordered}, [note]


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
    about: dict[str, Any] = {anndata.AUTHOR: "mustlink"}
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


def _reserve(path: Path, parts: Mapping[str, Any]) -> None:
    """Take the room on the disk that the parts need at most; raises OSError where there is none.

    The library may crash when a disk fills up while it changes a file. What is too much goes when
    it closes the file.
    """
    if not hasattr(os, "posix_fallocate"):
        return
    arrays = [part for value in parts.values() for part in _leaves(value)]
    words = sum(len(word) + 64 for word in parts["obs/{}"][1])
    room = _ROOM + words + sum(2 * part.nbytes for part in arrays)
    with path.open("r+b") as file:
        try:
            os.posix_fallocate(file.fileno(), path.stat().st_size, room)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # of the file system
                raise


def _leaves(value: Any) -> list[NDArray[Any]]:
    """The arrays of a part."""
    inside = (
        value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    )
    return [np.asarray(one) for one in (value, *inside) if isinstance(one, np.ndarray)]


def _add(path: Path, target: Target, parts: Mapping[str, Any]) -> None:
    """Add the parts to the copy; every failure is an InputError, as a child process runs this."""
    try:
        with writing.Sink(path) as sink:
            with contextlib.suppress(OSError), h5py.File(sink, "r+") as file:
                _add_all(file, target.key, parts)
            sink.check()
        with h5py.File(path, "r") as file:  # what could not be written is not there
            wanting = [name for name in parts if name.format(target.key) not in file]
        if wanting:
            raise InputError(f"{target.output}: was not written; {target.source} may be damaged")
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{target.output}: was not written: {error.strerror or error}") from error
    except Exception as error:
        words = " ".join(store.text(str(error)).split())[:200]
        raise InputError(
            f"{target.output}: was not written, {target.source} may be damaged ({words})"
        ) from error


def _add_all(file: h5py.File, key: str, parts: Mapping[str, Any]) -> None:
    for path in _places(key):
        if path.strip("/") in file:
            del file[path]
    write = anndata.library(file.filename).write_elem
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
    kept = [name for name in before if name not in gone]
    order = kept + [name for name in more if name not in kept]
    group.attrs["column-order"] = np.array(order, dtype=h5py.string_dtype())
