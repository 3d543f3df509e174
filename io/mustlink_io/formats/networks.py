"""GraphML, read and written through networkx."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp

from mustlink.errors import InputError
from mustlink_io import outputs, store
from mustlink_io.formats import edges
from mustlink_io.formats.names import NodeNames

MOST = 1_000_000  # edges; networkx takes about 2.5 kB and 30 microseconds for each


def _networkx(path: str | Path) -> ModuleType:
    try:
        import networkx
    except ImportError as error:
        raise InputError(
            f"{path}: GraphML goes through networkx: pip install 'mustlink[networks]'"
        ) from error
    return networkx


def read_graphml(path: Path) -> edges.Found:
    """Read an undirected simple graph and the names of its nodes; raises InputError.

    The edge attribute `weight` counts, or every edge as 1 if none has it.
    """
    networkx = _networkx(path)
    store.check_file(path)
    try:
        graph = networkx.read_graphml(path)
    except Exception as error:  # whatever the parser and networkx raise at a damaged file
        words = " ".join(store.text(str(error)).split())[:200] or type(error).__name__
        raise InputError(f"{path}: not a GraphML file ({words})") from error
    if graph.is_directed():
        raise InputError(
            f"{path}: a directed graph; mustlink clusters undirected ones, so decide what two "
            'directions of one edge mean and write it with edgedefault="undirected"'
        )
    if graph.is_multigraph():
        raise InputError(f"{path}: several edges between two nodes; join them into one first")
    if not graph.number_of_nodes():
        raise InputError(f"{path}: a graph without nodes")
    row = {name: at for at, name in enumerate(graph)}
    weights = [weight for _, _, weight in graph.edges(data="weight")]
    given = [weight for weight in weights if weight is not None]
    if given and len(given) < len(weights):
        raise InputError(
            f"{path}: {len(weights) - len(given)} of {len(weights)} edges have no weight; give it "
            "to all or to none"
        )
    ends = np.array([(row[a], row[b]) for a, b in graph.edges()], dtype=np.int64).reshape(-1, 2)
    if not all(isinstance(weight, int | float) for weight in given):
        raise InputError(f"{path}: the edge attribute `weight` is not a number")
    values = np.array(given, dtype=np.float64) if given else np.ones(len(ends))
    texts = np.array([str(name) for name in row], dtype=object)
    return edges.of_names(ends, values, texts, str(path))


def write_graphml(path: str, affinity: sp.csr_matrix, names: NodeNames | None) -> None:
    """Write every edge with its weight; nodes are named, or numbered from 0."""
    networkx = _networkx(path)
    if affinity.nnz > 2 * MOST:
        raise InputError(
            f"{path}: {affinity.nnz // 2:,} edges; GraphML is written up to {MOST:,}, take .metis, "
            ".mtx or .h5"
        )
    if names is not None and names.repeated is not None:
        raise InputError(
            f"{path}: two nodes are named {store.text(names.repeated)[:40]!r}, which GraphML does "
            "not allow"
        )
    graph: Any = networkx.Graph()
    known = range(affinity.shape[0]) if names is None else names.texts.tolist()
    graph.add_nodes_from(known)
    i, j, w = edges.edge_columns(affinity, all_nodes=False)
    real = w != 0
    triples = zip(i[real].tolist(), j[real].tolist(), w[real].tolist(), strict=True)
    graph.add_weighted_edges_from((known[a], known[b], weight) for a, b, weight in triples)
    with outputs.atomic(path) as temporary:
        networkx.write_graphml(graph, temporary)
