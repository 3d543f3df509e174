"""Jobs on a graph that stays on disk: which, what they take, how they are read, what they tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mustlink.cost.method_cost import StoredCost
from mustlink.cost.process_memory import size_text
from mustlink.errors import AtHomeOnlyError, InputError
from mustlink_io import formats
from mustlink_io.formats import matrices
from mustlink_io.formats.names import NodeNames
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.file_names import EDGES
from mustlink_io.hdf5.stored_names import StoredNames, stored_names
from mustlink_io.jobs.methods import (
    AT_SCALE,
    BY_ROWS,
    METHODS,
    PROPAGATORS,
    check_where,
    flag,
    made,
)

_TOLD = {"labels", "constraints"}  # files that say something of nodes
_NAME = 250  # bytes of a name that is looked up
_NAMES = 4  # at most such a part of the memory is for names
_OF_POINTS = {"n_neighbors", "metric", "weights"}


def is_by_rows(job: Any) -> bool:
    """Whether the data are a graph in CSR form whose rows can be read one after the other."""
    return _has_rows(formats.parse(job.data))


def home_alone(job: Any, *, is_points: bool) -> str | None:
    """What a job asks for that does not run on disk, as it is typed; None where all of it does.

    Raises InputError for parameters that make no sense anywhere.
    """
    of_labels = job.methods is PROPAGATORS
    runs = BY_ROWS if of_labels else AT_SCALE
    if job.method not in runs:
        return f"-m {job.method}"
    takes = _TOLD & METHODS[job.method].takes if not of_labels else {"labels"}
    asked = [f"--{role.split()[0]}" for role in job.inputs if role not in takes | {"data"}]
    more = ("confidence", "membership", "hierarchy")
    asked += [f"--{name}" for name in more if getattr(job, name, False)]
    asked += ["--drop-missing"] if is_points and job.steps.drop_missing else []
    asked += ["AnnData as output"] if job.target is not None else []
    asked += [f"--as {job.read_as}"] if job.read_as not in (None, "points") else []
    asked += [] if of_labels or job.n_clusters not in (None, "auto") else [f"-k {job.n_clusters}"]
    asked += _options_alone(job, is_points=is_points)
    return asked[0] if asked else None


def _options_alone(job: Any, *, is_points: bool) -> Iterator[str]:
    """Options of the method that do not run on disk, or not with their values."""
    of_labels, params = job.methods is PROPAGATORS, job.params
    if of_labels:
        able = (job.methods[job.method].options | {"random_state"}) - {"refine"}
    else:
        able = AT_SCALE[job.method]
    able = able | {"affinity"} | (_OF_POINTS if is_points else set())
    values = {"affinity": ["rbf"] if is_points else [], "variant": ["shi-malik"]}
    values |= {"solver": ["dense"]} if of_labels else {}
    for name, value in params.items():
        if of_labels and name == "refine" and value is not True:
            continue
        if name not in able or value in values.get(name, ()):
            yield _typed(name, value)
    if not of_labels and METHODS[job.method].takes:
        try:
            check_where(job, "disk")
        except AtHomeOnlyError as error:
            if error.name not in params:
                raise
            yield _typed(error.name, params[error.name])


def _typed(name: str, value: Any) -> str:
    return flag(name) if value is True else f"{flag(name)} {value}"


def cost_on_disk(job: Any, n: int, nnz: int) -> StoredCost:
    """What it takes of a graph of n nodes and nnz weights."""
    if job.methods is PROPAGATORS:
        return StoredCost.of_labels(n, nnz, job.stated_cost().columns)
    from mustlink.methods.homes import cost_on_disk as of_clusters

    return of_clusters(made(job), job.n_clusters, n, nnz)


def refuse_large_text(job: Any) -> None:
    """Raise InputError for edges in a text file of more bytes than the memory has."""
    place = formats.parse(job.data)
    if job.memory is None or place.suffix not in (*EDGES, ".mtx") or not place.path.exists():
        return
    size = place.path.stat().st_size
    if size > job.memory:
        raise InputError(
            f"{place}: {size_text(size)} of text are read whole, which needs more than "
            f"{size_text(job.memory)}; first: mustlink convert {place.path.name} graph.h5 --memory "
            f"{size_text(job.memory).replace(' ', '')}, whose graph may stay on disk"
        )


def _has_rows(place: formats.Place) -> bool:
    """Whether a file has a graph in CSR form whose nodes each stand for one row."""
    if place.suffix not in formats.HDF5 or not place.path.exists():
        return False
    with store.open_h5(place.path) as file:
        name, _ = formats.default_part(file, place, "graph")
        if not matrices.is_sparse_group(store.find(file, name)):
            return False
        return matrices.is_by_rows(file, name)


def load(job: Any) -> formats.Data:
    """The graph of a job, to be read by rows; raises InputError."""
    from mustlink_io.hdf5 import graph_rows

    place = formats.parse(job.data)
    with store.open_h5(place.path) as file:
        name, note = formats.default_part(file, place, "graph")
        shape = matrices.sparse_shape(file, name)
        names = stored_names(file, place.path) if name.strip("/") == "graph" else None
    graph = graph_rows.stored_graph(place.path, name, Path(job.output).resolve().parent, shape)
    notes = [] if note is None else [note]
    if names is not None and len(names) != graph.n_rows:
        raise InputError(f"{place.path}:/names: {len(names)} names of {graph.n_rows} nodes")
    looked_up = None if names is None else _looked_up(job, names, place)
    found = formats.Data("graph", graph, place, names=looked_up, notes=tuple(notes))
    return replace(found, stored_names=names)


def _looked_up(job: Any, names: StoredNames, place: formats.Place) -> NodeNames | None:
    """The names in memory, where labels or constraints may be of nodes by name; InputError."""
    told = [text for role, text in job.inputs.items() if role in _TOLD]
    if all(formats.parse(text).suffix == ".npy" for text in told):
        return None
    needed = _NAME * len(names)
    if job.memory is not None and needed > job.memory // _NAMES:
        raise InputError(
            f"{place.path}:/names: {len(names)} names to be looked up take "
            f"{size_text(needed, up=True)}; give labels of all nodes as .npy, or more memory"
        )
    return NodeNames(names[:], f"{place.path}:/names")


def is_on_disk(estimator: Any) -> bool:
    """Whether a fitted estimator left its graph on disk."""
    from mustlink.graph import StoredGraph

    return isinstance(estimator.graph_, StoredGraph)


def clusters_of(estimator: Any) -> dict[str, list[Any]]:
    """A row a cluster, as `diagnostics.clusters` has them."""
    from mustlink.scores.cuts import scores_of_links

    labels = np.asarray(estimator.labels_)
    names, conductance, share = scores_of_links(estimator._cut_on_disk.links)[1]
    sizes = np.bincount(labels[labels >= 0], minlength=int(names.max(initial=-1)) + 1)
    return {
        "names": names.tolist(),
        "sizes": sizes[names].tolist(),
        "conductance": conductance.tolist(),
        "volume_share": share.tolist(),
    }
