"""The arrays of a result file that pictures and tables are made of, checked against each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import is_valid_linkage

from mustlink.errors import InputError
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.result_parts import LARGEST

_MOST_PARTS, _MOST_NUMBERS = 1_000, 100_000  # of a hierarchy that is drawn
_ITEMS = {
    "labels": "/labels",
    "embedding": "/embedding",
    "eigenvalues": "/eigenvalues",
    "pairs": "/constraints/pairs",
    "belief": "/constraints/belief",
    "given": "/constraints/labels",
    "confidence": "/confidence",
    "classes": "/classes",
    "image": "/image",
    "linkage": "/hierarchy/linkage",
    "parts": "/hierarchy/clusters",
}


@dataclass(frozen=True)
class Arrays:
    """What a result holds of labels (n,), embedding (n, k), pairs (m, 2), …; None is absent.

    `names` are those of clusters or classes, by number.
    """

    labels: NDArray[np.int64]
    embedding: NDArray[Any] | None = None
    eigenvalues: NDArray[Any] | None = None
    pairs: NDArray[Any] | None = None
    belief: NDArray[Any] | None = None
    given: NDArray[Any] | None = None
    confidence: NDArray[Any] | None = None
    classes: NDArray[Any] | None = None
    image: NDArray[Any] | None = None
    linkage: NDArray[Any] | None = None
    parts: NDArray[Any] | None = None
    names: Mapping[int, str] = field(default_factory=dict)


def load(file: h5py.File) -> Arrays:
    """Read all there is; raises InputError for what does not fit together."""
    dims: dict[str, int] = {}
    found = {
        name: store.read(file, path, dims, path)
        for name, path in _ITEMS.items()
        if store.find(file, path) is not None
    }
    if not found["labels"].size or found["labels"].dtype.kind == "f":
        raise InputError(f"{file.filename}:/labels: damaged: not one whole number a node")
    labels = found["labels"].astype(np.int64)
    n, pairs = labels.size, found.get("pairs")
    for name in ("embedding", "eigenvalues", "belief", "confidence"):
        if name in found and not (np.abs(found[name], dtype=np.float64) < LARGEST).all():
            raise InputError(f"{file.filename}:{_ITEMS[name]}: damaged: values that are no numbers")
    if (pairs is None) != ("belief" not in found):
        raise InputError(f"{file.filename}:/constraints: damaged: pairs without belief")
    if pairs is not None and pairs.size and (pairs.min() < 0 or pairs.max() >= n):
        raise InputError(f"{file.filename}:/constraints/pairs: damaged: nodes that do not exist")
    if "image" in found and found["image"].shape[0] * found["image"].shape[1] != n:
        raise InputError(f"{file.filename}:/image: damaged: its pixels are not the {n} nodes")
    _check_tree(file, found)
    if "given" in found:
        found["given"] = found["given"].astype(np.int64)
    return Arrays(**{**found, "labels": labels}, names=_group_names(file))


def _check_tree(file: h5py.File, found: dict[str, Any]) -> None:
    """Raise InputError where there is half a hierarchy, or one that is none."""
    tree, parts = found.get("linkage"), found.get("parts")
    if tree is None and parts is None:
        return
    where = f"{file.filename}:/hierarchy"
    if tree is None or parts is None or not 0 < len(tree) < _MOST_PARTS:
        raise InputError(f"{where}: damaged: no linkage with the clusters of its parts")
    small = np.abs(tree, dtype=np.float64) < LARGEST
    if not small.all() or not is_valid_linkage(tree.astype(np.float64)):
        raise InputError(f"{where}/linkage: damaged: no linkage")
    if parts.min() < 0 or parts.max() >= _MOST_NUMBERS:
        raise InputError(f"{where}/clusters: damaged: clusters that do not exist")
    found["linkage"] = tree.astype(np.float64)


def _group_names(file: h5py.File) -> dict[int, str]:
    """Names of classes by their number, or of the class that most labelled nodes of a cluster have.

    Clusters without a labelled node have none.
    """
    if store.find(file, "/class_names") is None:
        return {}
    texts = [store.text(name) for name in store.texts(file, "/class_names")]
    numbers = range(len(texts))
    if store.find(file, "/classes") is not None:
        numbers = store.read(file, "/classes", {}, "/classes").tolist()
    if len(numbers) != len(texts):
        raise InputError(f"{file.filename}:/class_names: damaged: not one name a class")
    return {number: name for number, name in zip(numbers, texts, strict=True) if name}


def node_names(file: h5py.File, nodes: Iterable[int], n: int) -> dict[int, str]:
    """Names of some nodes, where the file has /names; the others are not read."""
    wanted = tuple(sorted({node for node in nodes if 0 <= node < n}))
    if not wanted or store.find(file, "/names") is None:
        return {}
    store.try_first(file, "/names", _names, wanted, n)
    return dict(zip(wanted, _names(file, wanted, n), strict=True))


def _names(file: h5py.File, wanted: tuple[int, ...], n: int) -> list[str]:
    data = store.dataset(file, "/names", values=False)
    if data.shape != (n,) or data.dtype.kind not in "OSU":
        raise InputError(f"{file.filename}:/names: damaged: not one text for each of {n} nodes")
    return [store.text(data[node]) for node in wanted]
