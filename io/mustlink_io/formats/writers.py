"""Points, graphs, labels and tables written in the formats that others read."""

from __future__ import annotations

import contextlib
import csv
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TextIO

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import adjacency, anndata, edges, frames, matrices, metis, networks
from mustlink_io.formats.names import NodeNames
from mustlink_io.formats.stream import row_blocks
from mustlink_io.hdf5 import store, writing

Notes = list[str]
WITH_LABELS = ("h5", "npz")  # forms of points, the first of graphs too, that hold labels beside
Ints = NDArray[np.int64]
Points = Callable[[str, Any, NodeNames | None], Notes]
Graph = Callable[[str, sp.csr_matrix, NodeNames | None], Notes]

_ROWS = 2**14  # of a table written at once


def _without_names(path: str, names: NodeNames | None) -> Notes:
    """The note on names that a format cannot hold."""
    return [] if names is None else [f"{path}: the format has no place for the names of nodes"]


def points_h5(path: str, points: Any, names: NodeNames | None, labels: Ints | None = None) -> Notes:
    """The format of mustlink, with the names and labels."""
    writing.write(path, {"/points": points, **_beside(names, labels)})
    return []


def _beside(names: NodeNames | None, labels: Ints | None) -> dict[str, Any]:
    """Names and labels of nodes as entries of a file."""
    found: dict[str, Any] = {} if names is None else {"/names": names.texts}
    return found if labels is None else {**found, "/labels": labels}


def points_h5ad(path: str, points: Any, names: NodeNames | None) -> Notes:
    """AnnData with X."""
    _write_h5ad(path, points.shape[0], names, X=np.asarray(points))
    return []


def graph_h5ad(path: str, affinity: sp.csr_matrix, names: NodeNames | None) -> Notes:
    """AnnData without X, with obsp/connectivities."""
    _write_h5ad(path, affinity.shape[0], names, obsp={"connectivities": affinity})
    return []


def _write_h5ad(path: str, n: int, names: NodeNames | None, **parts: Any) -> None:
    """Write what AnnData is given besides the names of nodes, which else are their numbers."""
    library = anndata.library(path)
    import pandas as pd
    from anndata import AnnData

    texts = [str(i) for i in range(n)] if names is None else names.texts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that repeat
        found = AnnData(obs=pd.DataFrame(index=pd.Index(texts, dtype=object)), **parts)
        with writing.create_h5(path) as file:
            library.write_elem(file, "/", found)


def points_npy(path: str, points: Any, names: NodeNames | None) -> Notes:
    """One array."""
    with writing.atomic(path) as temporary, temporary.open("wb") as file:
        np.save(file, points, allow_pickle=False)
    return _without_names(path, names)


def points_npz(
    path: str, points: Any, names: NodeNames | None, labels: Ints | None = None
) -> Notes:
    """The array X, and labels as y."""
    more: dict[str, Any] = {} if labels is None else {"y": labels}
    with writing.atomic(path) as temporary, temporary.open("wb") as file:
        np.savez(file, X=points, **more)
    return _without_names(path, names)


def points_mtx(path: str, points: Any, names: NodeNames | None) -> Notes:
    """A dense Matrix Market file."""
    import scipy.io

    with writing.atomic(path) as temporary, temporary.open("wb") as file:
        scipy.io.mmwrite(file, points)
    return _without_names(path, names)


def points_csv(path: str, points: Any, names: NodeNames | None) -> Notes:
    """A header x0, x1, …, before it `node` if nodes have names."""
    header = [f"x{i}" for i in range(points.shape[1])]
    with _text_file(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header if names is None else ["node", *header])
        for start, block in row_blocks(points, block_bytes=2**22):
            rows = block.astype(str).tolist()  # as short as the type allows
            if names is not None:
                known = names.texts[start : start + len(rows)]
                rows = [[name, *row] for name, row in zip(known, rows, strict=True)]
            writer.writerows(rows)
    return []


def points_parquet(path: str, points: Any, names: NodeNames | None) -> Notes:
    """Columns x0, x1, …, before them `node` if nodes have names."""
    columns = {} if names is None else {"node": names.texts}
    frames.write_parquet(path, columns | {f"x{i}": c for i, c in enumerate(np.asarray(points).T)})
    return []


def graph_h5(
    path: str,
    affinity: sp.csr_matrix,
    names: NodeNames | None,
    labels: Ints | None = None,
    weights: NDArray[np.float64] | None = None,
    rows: NDArray[Any] | None = None,
) -> Notes:
    """The format of mustlink, with the names and labels, and what nodes stand for."""
    content = matrices.graph_content(affinity, None, weights, rows)
    writing.write(path, {**content, **_beside(names, labels)})
    return []


def graph_npz(path: str, affinity: sp.csr_matrix, names: NodeNames | None) -> Notes:
    """As `scipy.sparse.save_npz`, uncompressed."""
    with writing.atomic(path) as temporary, temporary.open("wb") as file:
        sp.save_npz(file, affinity, compressed=False)
    return _without_names(path, names)


def graph_mtx(path: str, affinity: sp.csr_matrix, names: NodeNames | None) -> Notes:
    """A sparse, symmetric Matrix Market file."""
    import scipy.io

    with writing.atomic(path) as temporary, temporary.open("wb") as file:
        scipy.io.mmwrite(file, affinity.tocoo(), symmetry="symmetric")
    return _without_names(path, names)


def graph_metis(path: str, affinity: sp.csr_matrix, names: NodeNames | None) -> Notes:
    """METIS."""
    return [*metis.write_metis(path, affinity), *_without_names(path, names)]


def graph_edges(path: str, affinity: sp.csr_matrix, names: NodeNames | None) -> Notes:
    """An edge list."""
    edges.write_edges(path, affinity, names)
    return []


def graph_graphml(path: str, affinity: sp.csr_matrix, names: NodeNames | None) -> Notes:
    """GraphML."""
    networks.write_graphml(path, affinity, names)
    return []


def _edge_table(affinity: sp.csr_matrix, names: NodeNames | None) -> dict[str, NDArray[Any]]:
    i, j, w = adjacency.edge_columns(affinity)
    if names is not None:
        i, j = names.texts[i], names.texts[j]
    return {"source": i, "target": j, "weight": w}


def graph_csv(path: str, affinity: sp.csr_matrix, names: NodeNames | None) -> Notes:
    """A table source,target,weight."""
    table_csv(path, _edge_table(affinity, names))
    return []


def graph_parquet(path: str, affinity: sp.csr_matrix, names: NodeNames | None) -> Notes:
    """A table source,target,weight."""
    frames.write_parquet(path, _edge_table(affinity, names))
    return []


def table_csv(path: str, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns of equal length below their names."""
    n_rows = len(next(iter(columns.values())))
    with _text_file(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for start in range(0, n_rows, _ROWS):
            part = [column[start : start + _ROWS].tolist() for column in columns.values()]
            writer.writerows(zip(*part, strict=True))


@contextlib.contextmanager
def _text_file(path: str) -> Iterator[TextIO]:
    """A text file written whole or not at all."""
    with (
        writing.atomic(path) as temporary,
        temporary.open("w", newline="", encoding="utf-8") as file,
    ):
        yield file


def labels_file(path: str, labels: Ints, form: str) -> None:
    """Write labels alone: .h5, .npy, .npz, or one a line of text; raises InputError."""
    if form == "h5":
        writing.write(path, {"/labels": labels})
    elif form == "edges":
        with _text_file(path) as file:
            file.writelines(f"{label}\n" for label in labels.ravel().tolist())
    elif form in ("npy", "npz"):
        array_file(path, "labels", labels, form)
    else:
        raise InputError(f"{store.text(path)}: cannot hold labels")


def array_file(path: str, name: str, values: NDArray[Any], form: str) -> None:
    """Write one array as .npy, or as .npz under its name."""
    named: dict[str, Any] = {name: values}
    with writing.atomic(path) as temporary, temporary.open("wb") as file:
        if form == "npy":
            np.save(file, values, allow_pickle=False)
        else:
            np.savez(file, **named)


POINTS: dict[str, Points] = {
    "h5": points_h5,
    "h5ad": points_h5ad,
    "npy": points_npy,
    "npz": points_npz,
    "mtx": points_mtx,
    "csv": points_csv,
    "parquet": points_parquet,
}
GRAPH: dict[str, Graph] = {
    "h5": graph_h5,
    "h5ad": graph_h5ad,
    "npz": graph_npz,
    "mtx": graph_mtx,
    "metis": graph_metis,
    "edges": graph_edges,
    "graphml": graph_graphml,
    "csv": graph_csv,
    "parquet": graph_parquet,
}
LABELS = ("h5", "npy", "npz", "csv", "parquet", "edges")
