"""Jobs on a graph that stays on disk: which, what they take, how they are read, what they tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mustlink.cost.process_memory import size_text
from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.formats import matrices
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.file_names import EDGES
from mustlink_io.hdf5.stored_names import stored_names

_METHODS = ("ncut",)
_OPTIONS = {"variant", "solver", "tol", "max_iter", "regularization", "random_state", "affinity"}


def runs_on_disk(job: Any, *, is_points: bool) -> bool:
    """Whether what a job asks of its graph can be done on disk, and the file be read by rows."""
    asked = [name for name in job.inputs if name != "data"]
    more = [getattr(job, name, False) for name in ("confidence", "membership", "target")]
    if is_points or job.method not in _METHODS or asked or any(more) or job.read_as is not None:
        return False
    if not isinstance(job.n_clusters, int) or set(job.params) - _OPTIONS:
        return False
    return job.params.get("variant") != "shi-malik" and _has_rows(formats.parse(job.data))


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
    return formats.Data("graph", graph, place, stored_names=names, notes=tuple(notes))


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
