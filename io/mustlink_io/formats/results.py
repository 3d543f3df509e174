"""Results that are read back from the files of `mustlink cluster` and `mustlink propagate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import anndata
from mustlink_io.formats.tables import NodeNames, names_in_file
from mustlink_io.hdf5 import result, store
from mustlink_io.hdf5.file_names import HDF5, Place, parse
from mustlink_io.hdf5.result import Network

_ARRAYS = (
    "/labels",
    "/embedding",
    "/eigenvalues",
    "/label_distributions",
    "/membership",
    "/confidence",
    "/classes",
    "/row_labels",
    "/column_labels",
    "/sending_labels",
    "/receiving_labels",
)
_TEXTS = ("/names", "/class_names")
_DATA = ("/points", "/X", "/graph")


def is_result(place: Place) -> bool:
    """Whether a file holds labels and no data; raises InputError if it cannot be read."""
    if place.suffix not in HDF5 or place.part is not None:
        return False
    with store.open_h5(place.path) as file:
        if any(store.find(file, name) is not None for name in _DATA):
            return False
        return store.find(file, "/labels") is not None


def in_anndata(place: Place) -> bool:
    """Whether an AnnData file has a result under the usual key that mustlink wrote."""
    if place.suffix != anndata.ENDING or place.part is not None:
        return False
    with store.open_h5(place.path) as file:
        column = store.find(file, f"/obs/{anndata.KEY}")
        return column is not None and anndata.is_ours(file, anndata.KEY)


def classes_in_anndata(place: Place) -> NDArray[Any] | None:
    """Class of every cluster of such a result, by its number; None where there were no labels."""
    name = f"/uns/{anndata.KEY}/class_names"
    with store.open_h5(place.path) as file:
        return None if store.find(file, name) is None else store.texts(file, name)


def read(place: Place) -> dict[str, Any]:
    """Return the entries of `schema.ITEMS` that a result holds, checked; raises InputError."""
    found: dict[str, Any] = {}
    dims: dict[str, int] = {}
    with store.open_h5(place.path) as file:
        for name in _ARRAYS:
            if store.find(file, name) is not None:
                found[name] = store.read(file, name, dims, name)
        for name in _TEXTS:
            if store.find(file, name) is not None:
                found[name] = store.texts(file, name)
        for name in ("parameters", "mustlink-version"):
            if name in file.attrs:
                found[f"/@{name}"] = store.decoded(file.attrs[name])
    if "/labels" not in found:
        raise InputError(f"{place}: no /labels in it; give the output of mustlink cluster")
    found["/labels"] = found["/labels"].astype(np.int64)
    n_nodes = len(found["/labels"])
    if "/names" in found and len(found["/names"]) != n_nodes:
        raise InputError(f"{place}: {len(found['/names'])} names of {n_nodes} nodes; damaged")
    return found


def columns(content: dict[str, Any], where: str) -> dict[str, NDArray[Any]]:
    """A result as a table, a row a node: node, side, name, sending, receiving, cluster and so on.

    `cluster` is the number of the cluster, -1 for none, `sending` and `receiving` are the clusters
    of nodes that send alike and that receive alike, numbered apart. `class` is what was propagated,
    or for a cluster the class that most of its labelled nodes have; text if classes have names,
    empty for none, else a number.
    """
    labels = content["/labels"]
    found: dict[str, NDArray[Any]] = {"node": np.arange(len(labels))}
    if "/row_labels" in content:
        found["side"] = np.full(len(labels), "column", dtype=object)
        found["side"][: len(content["/row_labels"])] = "row"
    if "/names" in content:
        found["name"] = content["/names"]
    classes = content.get("/classes")
    words = content.get("/class_names")
    for name in ("sending", "receiving"):
        if f"/{name}_labels" in content:
            found[name] = content[f"/{name}_labels"]
    if classes is None:
        found["cluster"] = labels
        known = np.arange(0 if words is None else len(words))
    else:
        known = classes
        if words is None:
            found["class"] = labels
    if words is not None:
        if len(words) != len(known) or not np.isin(labels, [*known, -1]).all():
            raise InputError(f"{where}: labels and names of classes do not fit; damaged")
        at = np.searchsorted(known, labels)
        at[labels < 0] = len(known)
        found["class"] = np.array([*words, ""], dtype=object)[at]
    if "/confidence" in content:
        found["confidence"] = content["/confidence"]
    return found


@dataclass(frozen=True)
class About:
    """What a file has beside its labels; `classes`: they are those that `propagate` writes.

    `class_names` are those of classes or clusters by number, `pixels` height and width of a picture
    whose pixels are the nodes, `sides` the rows and columns that are nodes; `directed`: nodes have
    a label as sender and one as receiver.
    """

    classes: bool = False
    class_names: dict[int, str] | None = None
    pixels: tuple[int, ...] | None = None
    sides: tuple[int, int] | None = None
    directed: bool = False


def about(text: str) -> About:
    """What a result has beside its labels, and a graph beside its nodes; raises InputError."""
    place = parse(text)
    if not _may_be_result(place):
        return About()
    with store.open_h5(place.path) as file:
        has = {name for name in ("classes", "class_names", "image", "row_labels", "sending_labels")
               if store.find(file, f"/{name}") is not None}  # fmt: skip
        named = "class_names" in has
        names = names_in(file, "/class_names", "/classes") if named else None
        sides: tuple[int, int] | None = None
        if "row_labels" in has:
            rows, columns = (store.dataset(file, f"/{one}_labels") for one in ("row", "column"))
            sides = len(rows), len(columns)
        pixels = tuple(store.dataset(file, "/image").shape[:2]) if "image" in has else None
        return About("classes" in has, names, pixels, sides, "sending_labels" in has)


def _may_be_result(place: Place) -> bool:
    """Whether labels are those that a result has, if their file is one."""
    return place.suffix in HDF5 and (place.part or "/labels").strip("/") == "labels"


def network_scores(text: str) -> dict[str, Any] | None:
    """What a run on a network recorded of its clusters' edges; None where it recorded nothing."""
    place = parse(text)
    if not _may_be_result(place):
        return None
    with store.open_h5(place.path) as file:
        read = result.read(file, text)
    found = None if read is None else read.report.network
    return None if found is None else found.model_dump(include=set(Network.model_fields))


def node_names(text: str) -> NodeNames | None:
    """Names of the nodes that a file of labels is of, in HDF5 or AnnData; None if it has none."""
    place = parse(text)
    if place.suffix not in HDF5:
        return None
    store.check_readable(place.path)
    with store.open_h5(place.path) as file:
        if place.suffix == anndata.ENDING:
            return anndata.node_names(file)
        return names_in_file(file)


def names_in(file: h5py.File, name: str, numbers: str = "") -> dict[int, str]:
    """Texts by their numbers, those that are none left out; numbers may be those of an entry."""
    if store.find(file, name) is None:
        return {}
    texts = [str(one) for one in store.texts(file, name)]
    known = range(len(texts))
    if numbers and store.find(file, numbers) is not None:
        known = store.read(file, numbers, {}, numbers).tolist()
    if len(known) != len(texts):
        raise InputError(f"{file.filename}:{name}: damaged: not one name a class")
    return {number: one for number, one in zip(known, texts, strict=True) if one}
