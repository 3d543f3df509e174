"""Must-link and cannot-link pairs, or a second graph, from files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import anndata, edges, matrices, networks, tables
from mustlink_io.formats.tables import NodeNames, node_rows
from mustlink_io.formats.text import is_number, open_text
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.file_names import EDGES, HDF5, METIS, Place, parse


@dataclass(frozen=True)
class PairFile:
    """A file of pairs, for messages: what it calls a row and the nodes of a pair."""

    place: Place
    names: NodeNames | None = None

    def row(self, row: int) -> str:
        """A row by its line where the file has lines, else by its number from 0."""
        if self.place.suffix in HDF5 or self.place.suffix == ".parquet":
            return f"row {row}"
        try:
            return open_text(self.place.path).below().line_of(row).partition(",")[0]
        except (InputError, OSError):  # gone since it was read
            return f"row {row}"

    def node(self, node: int) -> str:
        """A node by its name, else by its number."""
        return str(node) if self.names is None else self.names.shown(node)

    def pair(self, pair: Any) -> str:
        """Two nodes, as: (Ada, Bob)."""
        return f"({self.node(int(pair[0]))}, {self.node(int(pair[1]))})"

    def check(self, pairs: NDArray[np.int64], belief: NDArray[np.float64], n_nodes: int) -> None:
        """Raise InputError for the first pair that says nothing, or of a node that is not there."""
        outside = (pairs.min(axis=1) < 0) | (pairs.max(axis=1) >= n_nodes)
        own = np.diff(pairs, axis=1)[:, 0] == 0
        silent = ~np.isfinite(belief) | (belief == 0)
        wrong = np.flatnonzero(outside | own | silent)
        if not wrong.size:
            return
        row, pair = int(wrong[0]), pairs[wrong[0]]
        if outside[row]:
            i, j = pair.tolist()
            why = f"pair ({i}, {j}), but the data has {n_nodes} nodes, numbered from 0"
        elif own[row]:
            why = f"pair {self.pair(pair)} is of a node with itself; remove it"
        else:
            why = (
                f"pair {self.pair(pair)} has belief {belief[row]:g}; give a number above 0 for a "
                "must-link, below 0 for a cannot-link"
            )
        raise InputError(f"{self.place}: {self.row(row)}: {why}")


def load_pairs(
    text: str, names: NodeNames | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Load pairs (m, 2) and beliefs (m,) from CSV, Parquet or an HDF5 group; raises InputError.

    Tables have the header `i,j,belief`, with nodes by number from 0 or by their `names`. Whether
    nodes exist and pairs say something is for `PairFile.check`.
    """
    place = parse(text)
    store.check_readable(place.path)
    if place.suffix not in HDF5:
        return _from_table(tables.read_table(place.path), PairFile(place, names))
    with store.open_h5(place.path) as file:
        group = (place.part or "/constraints").rstrip("/")
        group = group.removesuffix("/pairs")
        dims: dict[str, int] = {}
        pairs = store.read(file, f"{group}/pairs", dims, "/constraints/pairs")
        belief = store.read(file, f"{group}/belief", dims, "/constraints/belief")
    where = f"{place.path}:{group}"
    with np.errstate(over="ignore", invalid="ignore"):  # of long doubles; Inf is refused
        return tables.to_integers(pairs, f"{where}/pairs", "pair"), belief.astype(np.float64)


def _from_table(
    table: tables.Table, file: PairFile
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Pairs of a table.

    The belief says whether a pair is a must-link (> 0) or a cannot-link (< 0) and is therefore
    required.
    """
    where = str(file.place)
    i, j, belief = (tables.find_column(table.header, (name,)) for name in ("i", "j", "belief"))
    if i is None or j is None:
        raise InputError(f"{where}: the first line must be the header `i,j,belief`")
    if belief is None:
        raise InputError(
            f"{where}: no column `belief`; write 1 for a must-link and -1 for a cannot-link"
        )
    if table.is_text(belief):
        cells = table.text(belief).tolist()
        row = next(at for at, cell in enumerate(cells) if not is_number(cell))
        raise InputError(
            f"{where}: {file.row(row)}: the belief {store.text(cells[row])[:40]!r} is not a "
            "number; write 1 for a must-link, -1 for a cannot-link, or a part of it"
        )
    ends = [table.text(i), table.text(j)]
    if file.names is None and not table.is_text(i) and not table.is_text(j):
        found = np.column_stack([tables.to_integers(one, where, "pair") for one in ends])
    else:
        words = np.concatenate([tables.as_text(one) for one in ends])
        found = node_rows(words, file.names, where).reshape(2, -1).T
    return np.ascontiguousarray(found), table.text(belief).astype(np.float64)


def load_matrix(
    text: str, n_nodes: int | None = None, names: NodeNames | None = None
) -> sp.csr_matrix | None:
    """Return the sparse matrix that a constraint file holds, None if it holds pairs.

    Edges between nodes that have names are put in the order of the data's `names`. Raises
    InputError, also for an edge of a node that is none of the data's `n_nodes`.
    """
    place = parse(text)
    store.check_readable(place.path)
    if place.suffix in HDF5:
        with store.open_h5(place.path) as file:
            if place.part is None or not matrices.is_sparse_group(store.find(file, place.part)):
                return None
            anndata.refuse_distances(file, place.part)
            return matrices.read_sparse(file, place.part)
    if place.suffix == ".npz":
        return sp.csr_matrix(matrices.pick(place))
    if place.suffix == ".mtx":
        return sp.csr_matrix(matrices.read_mtx(place.path))
    if place.suffix in METIS:
        return networks.read_metis(place.path)[0]
    found = _edges(place)
    if found is None:
        return None
    return found[0] if n_nodes is None else _in_order(found, str(place), n_nodes, names)


def _edges(place: Place) -> edges.NamedGraph | None:
    if place.suffix == ".graphml":
        return networks.read_graphml(place.path)
    if place.suffix in EDGES and not _has_pairs(place):
        try:
            return edges.read_edges(place.path)
        except InputError as error:
            raise InputError(f"{error}; pairs begin with the header `i,j,belief`") from error
    if place.suffix == ".csv" and edges.is_edge_table(_header(place)) and not _has_pairs(place):
        return edges.read_edges(place.path)
    return None


def _header(place: Place) -> list[str]:
    return [word.lower() for word in tables.column_names(place.path)]


def _has_pairs(place: Place) -> bool:
    """Whether the first line is that of pairs, even if the column of beliefs is forgotten."""
    words = _header(place)
    return words == ["i", "j"] or "belief" in words


def _in_order(
    found: edges.NamedGraph, where: str, n_nodes: int, names: NodeNames | None
) -> sp.csr_matrix:
    """The affinity (n, n) with nodes as the data has them: by name, else by number from 0."""
    affinity, own, _ = found
    coo = affinity.tocoo()
    rows = np.arange(affinity.shape[0])
    if own is not None or (names is not None and names.are_numbers):
        used = np.unique(coo.row)  # and of the columns, as it is symmetric
        rows[used] = node_rows(used if own is None else own.texts[used], names, where)
    ends = np.column_stack([rows[coo.row], rows[coo.col]])
    if ends.size and not 0 <= ends.min() <= ends.max() < n_nodes:
        wrong = int(ends.max() if ends.max() >= n_nodes else ends.min())
        raise InputError(
            f"{where}: an edge of node {wrong}, but the data has {n_nodes} nodes, numbered from 0"
        )
    shape = (n_nodes, n_nodes)
    return sp.csr_matrix((coo.data, (ends[:, 0], ends[:, 1])), shape=shape)
