"""Graphs from files beside the data: of the same nodes, those that are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io import formats


def load_graph(text: str, data: formats.Data) -> Any:
    """The engine's graph of the rows that are kept, in the data's order; raises InputError."""
    from mustlink.graph import Graph

    loaded = formats.load(text, "graph")
    if loaded.n_rows != data.n_rows:
        what = "points" if data.kind == "points" else "nodes"
        raise InputError(
            f"{loaded.place}: {loaded.n_rows} nodes, but the data has {data.n_rows} {what}"
        )
    order = _order(loaded, data)
    if loaded.weights is not None:
        if data.kept is not None or order is not None:
            why = "some are left out here" if order is None else "the data are in another order"
            raise InputError(
                f"{loaded.place}: its nodes are equal rows, and {why}; make the graph anew of the "
                "same rows with the same preparation"
            )
        return loaded.to_fit("")
    chosen = order if data.kept is None else data.kept if order is None else order[data.kept]
    whole = loaded.value if chosen is None else loaded.value[chosen][:, chosen]
    return Graph.from_affinity(whole)


def _order(loaded: formats.Data, data: formats.Data) -> NDArray[np.int64] | None:
    """Node of every row of the data, by name; None where the order is the same, or not named."""
    if loaded.names is None or data.names is None:
        return None
    ours, theirs = data.names.texts, loaded.names.texts
    if np.array_equal(ours, theirs):
        return None
    place = {name: node for node, name in enumerate(theirs)}
    strange = next((name for name in ours if name not in place), None)
    if strange is not None:
        raise InputError(
            f"{loaded.place}: has no node {str(strange)[:40]!r}, which the data has; give a graph "
            "of the same nodes"
        )
    return np.array([place[name] for name in ours], dtype=np.int64)
