"""GraphML, read and written through networkx."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import adjacency
from mustlink_io.formats.names import NodeNames
from mustlink_io.hdf5 import store, writing

MOST = 1_000_000  # edges; networkx takes about 2.5 kB and 30 microseconds for each


def _networkx(path: str | Path) -> ModuleType:
    try:
        import networkx
    except ImportError as error:
        raise InputError(
            f"{path}: GraphML goes through networkx: pip install 'mustlink[networks]'"
        ) from error
    return networkx


def _read(path: Path) -> Any:
    """The graph as networkx has it; raises InputError."""
    networkx = _networkx(path)
    store.check_file(path)
    try:
        return networkx.read_graphml(path)
    except Exception as error:  # whatever the parser and networkx raise at a damaged file
        words = " ".join(store.text(str(error)).split())[:200] or type(error).__name__
        raise InputError(f"{path}: not a GraphML file ({words})") from error


def read_graphml(path: Path, *, directed: bool = False) -> adjacency.Found:
    """Read a simple graph and the names of its nodes; raises InputError.

    One whose edges have directions is refused unless they are wanted, `directed`.

    The edge attribute `weight` counts, or every edge as 1 if none has it.
    """
    graph = _read(path)
    if graph.is_directed() and not directed:
        raise InputError(
            f"{path}: a directed graph; cluster it by -m disim, or decide what two directions of "
            'one edge mean and write it with edgedefault="undirected"'
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
    return adjacency.of_names(ends, values, texts, str(path), directed=graph.is_directed())


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
    i, j, w = adjacency.edge_columns(affinity)
    real = w != 0
    triples = zip(i[real].tolist(), j[real].tolist(), w[real].tolist(), strict=True)
    graph.add_weighted_edges_from((known[a], known[b], weight) for a, b, weight in triples)
    _write(path, graph)


def _write(path: str, graph: Any) -> None:
    """Write a graph of networkx whole or not at all; raises InputError."""
    networkx = _networkx(path)
    with writing.atomic(path) as temporary:
        try:
            networkx.write_graphml(graph, temporary)
        except (ValueError, TypeError, networkx.NetworkXException) as error:  # of text in it
            words = " ".join(store.text(str(error)).split())[:200]
            raise InputError(f"{path}: cannot be written as GraphML ({words})") from error


def annotate_graphml(
    source: Path,
    output: str,
    columns: Mapping[str, NDArray[Any]],
    names: NodeNames | None,
    *,
    overwrite: bool = False,
) -> list[str]:
    """Write a copy of a graph, of any kind, with attributes of nodes added; returns notes.

    `columns` (n,) are in the order of `names`, by which nodes are matched, or without them in the
    order of the file. What nodes have under a name already is replaced only with `overwrite`.
    Raises InputError.
    """
    graph = _read(source)
    networkx = _networkx(source)
    nodes = list(graph)
    taken = {name for _, about in graph.nodes(data=True) for name in about} & set(columns)
    if taken and not overwrite:
        raise InputError(
            f"{source}: its nodes have an attribute {min(taken)!r} already; give --overwrite, or "
            "another name as --key"
        )
    n_result = len(next(iter(columns.values())))
    rows: NDArray[np.int64] = np.arange(len(nodes))
    notes = []
    if names is not None:
        texts = [str(node) for node in nodes]
        if names.repeated is not None or names.missing(texts) is not None:
            why = names.unknown(texts) or f"two nodes are named {names.repeated!r}"
            raise InputError(f"{source}: cannot be matched by name: {why}")
        rows = names.rows(texts)
        if len(nodes) != n_result:
            notes.append(f"{source}: has {len(nodes)} of the result's {n_result} nodes")
    elif len(nodes) != n_result:
        raise InputError(f"{source}: {len(nodes)} nodes, but the result has {n_result}")
    for key, column in columns.items():
        values = column[rows].tolist()
        networkx.set_node_attributes(graph, dict(zip(nodes, values, strict=True)), key)
    _write(output, graph)
    return notes
