"""Points, graphs, labels and tables written in the formats that others read."""

from __future__ import annotations

import contextlib
import csv
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import edges, matrices, networks, tables
from mustlink_io.formats.points import row_blocks
from mustlink_io.formats.tables import NodeNames
from mustlink_io.hdf5 import store, writing
from mustlink_io.system import needed

Notes = list[str]
Ints = NDArray[np.int64]

POINTS = ("h5", "h5ad", "npy", "npz", "mtx", "csv", "parquet")
GRAPH = ("h5", "h5ad", "npz", "mtx", "metis", "edges", "graphml", "csv", "parquet")
LABELS = ("h5", "npy", "npz", "csv", "parquet", "edges")
WITH_LABELS = ("h5", "npz")  # forms of points, the first of graphs too, that hold labels beside
_WITHOUT_NAMES = ("npy", "npz", "mtx", "metis")
_ROWS = 2**14  # of a table written at once


def write_points(
    path: str, form: str, points: Any, names: NodeNames | None, labels: Ints | None = None
) -> Notes:
    """Write points (n, d), names of their rows and labels in one of `POINTS`; returns notes.

    In .npz they are X and y, in tables the columns x0, x1, … behind `node`.
    """
    if form == "h5":
        writing.write(path, {"/points": points, **_beside(names, labels)})
    elif form == "h5ad":
        _write_h5ad(path, points.shape[0], names, X=np.asarray(points))
    elif form in ("npy", "npz"):
        arrays_file(path, form, X=points, **({} if labels is None else {"y": labels}))
    elif form == "mtx":
        _write_mtx(path, points)
    elif form == "csv":
        _points_csv(path, points, names)
    else:
        columns = {} if names is None else {"node": names.texts}
        columns |= {f"x{i}": column for i, column in enumerate(np.asarray(points).T)}
        tables.write_parquet(path, columns)
    return _what_names_lose(path, form, names)


def write_graph(
    path: str,
    form: str,
    affinity: sp.csr_matrix,
    names: NodeNames | None,
    labels: Ints | None = None,
    weights: NDArray[np.float64] | None = None,
    rows: NDArray[Any] | None = None,
) -> Notes:
    """Write an affinity (n, n) and names of its nodes in one of `GRAPH`; returns notes.

    Only HDF5 holds labels, and what nodes stand for: their `weights`, the node of each of `rows`.
    """
    notes: Notes = []
    if form == "h5":
        content = matrices.graph_content(affinity, None, weights, rows)
        writing.write(path, {**content, **_beside(names, labels)})
    elif form == "h5ad":
        _write_h5ad(path, affinity.shape[0], names, obsp={"connectivities": affinity})
    elif form == "npz":
        with _opened(path, "wb") as file:
            sp.save_npz(file, affinity, compressed=False)
    elif form == "mtx":
        _write_mtx(path, affinity.tocoo(), symmetry="symmetric")
    elif form == "metis":
        notes = networks.write_metis(path, affinity)
    elif form == "edges":
        edges.write_edges(path, affinity, names)
    elif form == "graphml":
        networks.write_graphml(path, affinity, names)
    else:
        i, j, w = edges.edge_columns(affinity)
        if names is not None:
            i, j = names.texts[i], names.texts[j]
        table_file(path, form, {"source": i, "target": j, "weight": w})
    return [*notes, *_what_names_lose(path, form, names)]


def _what_names_lose(path: str, form: str, names: NodeNames | None) -> Notes:
    lost = names is not None and form in _WITHOUT_NAMES
    return [f"{path}: the format has no place for the names of nodes"] if lost else []


def _beside(names: NodeNames | None, labels: Ints | None) -> dict[str, Any]:
    found: dict[str, Any] = {} if names is None else {"/names": names.texts}
    return found if labels is None else {**found, "/labels": labels}


def _write_h5ad(path: str, n: int, names: NodeNames | None, **parts: Any) -> None:
    library = needed("anndata.io", path, "anndata")
    import pandas as pd
    from anndata import AnnData

    texts = [str(i) for i in range(n)] if names is None else names.texts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that repeat
        found = AnnData(obs=pd.DataFrame(index=pd.Index(texts, dtype=object)), **parts)
        with writing.create_h5(path) as file:
            library.write_elem(file, "/", found)


def _write_mtx(path: str, matrix: Any, **how: Any) -> None:
    import scipy.io

    with _opened(path, "wb") as file:
        scipy.io.mmwrite(file, matrix, **how)


def _points_csv(path: str, points: Any, names: NodeNames | None) -> None:
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


def table_file(path: str, form: str, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns of equal length below their names, as .csv or .parquet."""
    if form == "parquet":
        tables.write_parquet(path, columns)
        return
    n_rows = len(next(iter(columns.values())))
    with _text_file(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for start in range(0, n_rows, _ROWS):
            part = [column[start : start + _ROWS].tolist() for column in columns.values()]
            writer.writerows(zip(*part, strict=True))


@contextlib.contextmanager
def _opened(path: str, mode: str, **how: Any) -> Iterator[Any]:
    with writing.atomic(path) as temporary, temporary.open(mode, **how) as file:
        yield file


def _text_file(path: str) -> contextlib.AbstractContextManager[Any]:
    return _opened(path, "w", newline="", encoding="utf-8")


def labels_file(path: str, labels: Ints, form: str) -> None:
    """Write labels alone: .h5, .npy, .npz, or one a line of text; raises InputError."""
    if form == "h5":
        writing.write(path, {"/labels": labels})
    elif form == "edges":
        with _text_file(path) as file:
            file.writelines(f"{label}\n" for label in labels.ravel().tolist())
    elif form in ("npy", "npz"):
        arrays_file(path, form, labels=labels)
    else:
        raise InputError(f"{store.text(path)}: cannot hold labels")


def arrays_file(path: str, form: str, **arrays: NDArray[Any]) -> None:
    """Write arrays as .npz under their names, or the first of them as .npy."""
    with _opened(path, "wb") as file:
        if form == "npy":
            np.save(file, next(iter(arrays.values())), allow_pickle=False)
        else:
            named: Any = arrays
            np.savez(file, **named)
