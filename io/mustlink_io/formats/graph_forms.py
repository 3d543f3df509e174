"""What a matrix or a list of edges is a graph of: of its nodes, or of its rows and columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats.data import Data, Read, Want
from mustlink_io.formats.names import NodeNames
from mustlink_io.hdf5 import size_checks
from mustlink_io.hdf5.file_names import Place


def graph_of(found: Read, want: Want | None, place: Place) -> Data:
    """The graph in a matrix; raises InputError."""
    value, sparse = found.value, sp.issparse(found.value)
    if want != "bipartite" and value.shape[0] != value.shape[1]:
        other = "; make a graph of points by mustlink graph"
        if sparse:
            other = "; --as bipartite takes rows and columns as nodes"
        raise InputError(f"{place}: shape {value.shape}, but an affinity matrix is square{other}")
    if not sparse and (value.ndim != 2 or value.dtype.kind not in "fiub"):
        raise InputError(f"{place}: values of type {value.dtype}; weights are real numbers")
    if not sparse:
        size_checks.check_fits(8 * math.prod(value.shape), str(place))
    # an HDF5 dataset or a memory map is read here
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = value if sparse else sp.csr_matrix(np.asarray(value[...], dtype=np.float64))
    if want == "bipartite":
        return _bipartite(sp.csr_matrix(matrix), found, place)
    if want == "directed" or not found.arcs:
        return Data("graph", matrix, place, found.names)
    affinity, notes, doubts = undirected(matrix, str(place))
    return Data("graph", affinity, place, found.names, notes=notes, doubts=doubts)


def _bipartite(matrix: sp.csr_matrix, found: Read, place: Place) -> Data:
    """Rows and columns, or both columns of a list of edges, as nodes."""
    from mustlink.graph import bipartite_graph

    n = None if found.arcs else _rows_first(matrix)
    if n is not None:
        m = matrix.shape[0] - n
        note = f"{place}: joins {n:,} nodes with the {m:,} after them: the rows, and the columns"
        return Data("graph", matrix, place, found.names, notes=(note,), sides=(n, m))
    if found.is_graph and not found.arcs:
        raise InputError(
            f"{place}: is a graph, its nodes of both kinds, if there are two; leave out --as "
            "bipartite, which is for matrices and lists of edges"
        )
    texts: list[NDArray[np.object_]] = []
    if found.arcs:
        matrix, texts = _two_columns(matrix, found.names)
    elif found.names is not None and len(found.columns) == matrix.shape[1]:
        texts = [found.names.texts, np.array(found.columns, dtype=object)]
    try:
        graph = bipartite_graph(matrix)
    except InputError as error:
        raise InputError(f"{place}: {str(error).removeprefix('M: ')}") from None
    n, m = matrix.shape
    sides = "first and {m:,} second ends of edges" if found.arcs else "rows and {m:,} columns"
    note = f"{place}: {n:,} {sides.format(m=m)} are nodes, {matrix.nnz:,} entries their edges"
    names = NodeNames(np.concatenate(texts), str(place)) if texts else None
    if names is not None and names.repeated is not None:
        note += f"; names are on both sides, so number nodes from 0, the second ones from {n}"
    return Data("graph", graph.affinity, place, names, notes=(note,), sides=(n, m))


def _rows_first(W: sp.csr_matrix) -> int | None:
    """N where W is [[0, M], [Mᵀ, 0]] with M (n, m) already, else None. O(nnz)."""
    if W.shape[0] != W.shape[1] or W.nnz == 0:
        return None
    coo = W.tocoo()
    above = coo.row < coo.col
    if not above.any() or coo.row[above].max() >= coo.col[above].min():
        return None
    n = int(coo.row[above].max()) + 1  # nodes between without an edge may be on either side
    mixed = (coo.row < n) == (coo.col < n)
    return None if mixed.any() or abs(W - W.T).nnz else n


def _two_columns(
    arcs: sp.csr_matrix, names: NodeNames | None
) -> tuple[sp.csr_matrix, list[NDArray[np.object_]]]:
    """M of the first ends of edges by the second ones, each numbered apart, and their names."""
    arcs.eliminate_zeros()
    there = np.diff(arcs.indptr) > 0, np.bincount(arcs.indices, minlength=arcs.shape[1]) > 0
    first, second = (np.flatnonzero(one) for one in there)
    if not first.size:
        return arcs, []
    if names is None:
        return arcs[: first[-1] + 1, : second[-1] + 1], []
    return arcs[first][:, second], [names.texts[first], names.texts[second]]


def undirected(
    arcs: sp.csr_matrix, where: str
) -> tuple[sp.csr_matrix, tuple[str, ...], tuple[str, ...]]:
    """The larger weight of both directions, and what to note and to doubt about that."""
    back = arcs.T.tocsr()
    found = arcs.maximum(back)
    found.eliminate_zeros()
    given = arcs.copy()
    given.eliminate_zeros()
    loops = int(np.count_nonzero(given.diagonal()))
    one = int(found.nnz - given.nnz)
    both = (int(given.nnz) - loops - one) // 2
    if not both:
        return found, (), ()
    differ: Any = arcs != back  # those in one direction twice
    unequal = (int(differ.nnz) - 2 * one) // 2
    cure = "where directions matter: mustlink cluster -m disim"
    if unequal:
        doubt = (
            f"{where}: {unequal:,} of {both:,} edges that are given in both directions weigh "
            f"differently, and the larger weight counts; {cure}"
        )
        return found, (), (doubt,)
    if not one:
        return found, (), ()
    note = (
        f"{where}: {both:,} edges are given in both directions, {one:,} in one only, which is "
        f"not told apart; {cure}"
    )
    return found, (note,), ()


def doubt_points(shape: tuple[int, ...], place: Place) -> str:
    """What to say of a rectangular sparse matrix that is read as points without being asked to."""
    return (
        f"{place}: a sparse matrix of {shape[0]:,} x {shape[1]:,} is read as {shape[0]:,} points "
        "with a graph of their neighbours; where its entries join rows with columns: mustlink "
        "cluster --as bipartite (--as points: they are points)"
    )
