"""Sparse matrices in files: AnnData's sparse groups in HDF5, scipy's .npz, Matrix Market."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.hdf5 import schema, size_checks, store
from mustlink_io.hdf5.sandbox import examine

_MTX_BYTES = 16  # in memory for a byte in the file: `1 1` is two indices and a value, twice


def as_csr(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    shape: tuple[int, ...],
    where: str,
) -> sp.csr_matrix:
    """Build a CSR matrix from arrays that nobody vouches for; raises InputError.

    Checks lengths, types, that indptr begins with 0, never falls and ends with nnz, and that
    every index is a column. O(nnz).
    """
    if len(shape) != 2 or min(shape) < 0:
        raise InputError(f"{where}: shape {shape} is not that of a matrix")
    rows, columns = (int(s) for s in shape)
    for name, array in (("data", data), ("indices", indices), ("indptr", indptr)):
        _check_part(name, array, where)
    if len(indptr) != rows + 1:
        raise InputError(
            f"{where}: indptr has {len(indptr)} entries, but {rows} rows need one more"
        )
    if len(data) != len(indices):
        raise InputError(f"{where}: {len(data)} values in data, but {len(indices)} in indices")
    if indptr[0] != 0 or indptr[-1] != len(data) or np.any(indptr[1:] < indptr[:-1]):
        raise InputError(f"{where}: indptr must begin with 0, never fall and end with {len(data)}")
    if len(indices) and (indices.min() < 0 or indices.max() >= columns):
        at = int(np.flatnonzero((indices < 0) | (indices >= columns))[0])
        raise InputError(f"{where}: entry {at} is in column {indices[at]} of {columns}")
    if data.dtype not in (np.float32, np.float64):
        with np.errstate(over="ignore", invalid="ignore"):  # the engine refuses Inf
            data = data.astype(np.float64)
    small = max(rows, columns, len(data)) < 2**31
    index = np.int32 if small else np.int64
    return sp.csr_matrix(
        (data, indices.astype(index, copy=False), indptr.astype(index, copy=False)),
        shape=(rows, columns),
    )


PARTS = {"data": "fiub", "indices": "iu", "indptr": "iu"}


def _check_part(name: str, part: Any, where: str) -> None:
    """Raise InputError unless an array or dataset has the form that CSR wants of it."""
    if part.ndim != 1 or part.dtype.kind not in PARTS[name]:
        raise InputError(
            f"{where}: {name} has shape {part.shape} and type {part.dtype}; wanted is one "
            "dimension of " + ("numbers" if name == "data" else "integers")
        )


def is_sparse_group(group: Any) -> bool:
    """Whether an HDF5 object looks like an encoded sparse matrix."""
    return isinstance(group, h5py.Group) and {"data", "indices", "indptr"} <= set(group.keys())


def sparse_shape(file: h5py.File, name: str) -> tuple[int, int]:
    """Shape a sparse group declares; raises InputError when it is not such a group."""
    return _declared_form(file, name)[1]


def is_by_rows(file: h5py.File, name: str) -> bool:
    """Whether a sparse group is stored by rows; raises InputError when it is not such a group."""
    return not _declared_form(file, name)[0]


def _declared_form(file: h5py.File, name: str) -> tuple[bool, tuple[int, int]]:
    """Whether a sparse group is stored by columns (CSC), and its shape; raises InputError."""
    group = store.find(file, name)
    where = f"{file.filename}:{name}"
    if group is None or not is_sparse_group(group):
        raise InputError(f"{where}: not a sparse matrix; needs data, indices and indptr")
    attrs = group.attrs
    encoding = store.text(attrs.get("encoding-type", attrs.get("h5sparse_format", schema.CSR_TYPE)))
    if encoding not in (schema.CSR_TYPE, "csr", "csc_matrix", "csc"):
        raise InputError(
            f"{where}: encoding {encoding[:40]!r}; only {schema.CSR_TYPE!r} and 'csc_matrix' are "
            "read"
        )
    shape = np.asarray(attrs.get("shape", attrs.get("h5sparse_shape", ())))
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise InputError(f"{where}: needs an attribute `shape` of two integers")
    return encoding.startswith("csc"), (int(shape[0]), int(shape[1]))


def read_sparse(file: h5py.File, name: str) -> sp.csr_matrix:
    """Read a group in AnnData's CSR or CSC encoding, checked, as CSR; raises InputError."""
    by_columns, shape = _declared_form(file, name)
    base = name.rstrip("/")
    where = f"{file.filename}:{base}"
    parts = {part: store.dataset(file, f"{base}/{part}") for part in PARTS}
    for part, values in parts.items():
        _check_part(part, values, where)
    size = sum(p.size * p.dtype.itemsize for p in parts.values())
    size_checks.check_fits(2 * size if by_columns else size, where)
    data, indices, indptr = (np.asarray(values[()]) for values in parts.values())
    if by_columns:
        return as_csr(data, indices, indptr, shape[::-1], where).T.tocsr()
    return as_csr(data, indices, indptr, shape, where)


def read_copies(
    file: h5py.File, name: str, n_nodes: int
) -> tuple[NDArray[np.float64] | None, NDArray[Any] | None]:
    """How many every node of a graph stands for, and the node of every row, where a file says.

    Of rows alone, nodes in another order, each stands for one. Raises InputError.
    """
    base = name.rstrip("/")
    told = [store.find(file, f"{base}/{part}") is not None for part in ("weights", "rows")]
    if base.strip("/") != "graph" or not any(told):
        return None, None
    dims, where = {"g": n_nodes}, f"{file.filename}:{base}"
    weights = np.ones(n_nodes)
    if told[0]:
        weights = store.read(file, f"{base}/weights", dims, "/graph/weights").astype(np.float64)
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise InputError(f"{where}/weights: numbers that are finite and not negative are wanted")
    if not told[1]:
        return weights, None
    rows = store.read(file, f"{base}/rows", dims, "/graph/rows")
    known = rows.size and rows.min() >= 0 and rows.max() < n_nodes
    if not known or np.bincount(rows, minlength=n_nodes).min() == 0:
        raise InputError(f"{where}/rows: wanted are nodes from 0 to {n_nodes - 1}, each of them")
    return weights, rows


def graph_content(
    affinity: sp.csr_matrix,
    info: Mapping[str, Any] | None = None,
    weights: NDArray[np.float64] | None = None,
    rows: NDArray[Any] | None = None,
) -> dict[str, Any]:
    """Return the entries of `schema.ITEMS` that hold a graph, for `writing.write`."""
    copies = {"/graph/weights": weights, "/graph/rows": rows}
    return {
        **{name: values for name, values in copies.items() if values is not None},
        "/graph@encoding-type": schema.CSR_TYPE,
        "/graph@encoding-version": schema.CSR_VERSION,
        "/graph@shape": np.asarray(affinity.shape, dtype=np.int64),
        "/graph@info": json.dumps(dict(info or {}), default=str),
        "/graph/data": affinity.data,
        "/graph/indices": affinity.indices,
        "/graph/indptr": affinity.indptr,
    }


class DenseRows:
    """A sparse matrix seen as rows of a dense array, a block at a time."""

    def __init__(self, matrix: sp.csr_matrix) -> None:
        self._matrix = matrix
        self.shape, self.dtype, self.ndim = matrix.shape, matrix.dtype, 2

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        return np.asarray(self._matrix[rows].toarray())


def is_sparse_npz(arrays: Mapping[str, Any]) -> bool:
    """Whether the names in an .npz are those of scipy.sparse.save_npz or of a plain CSR."""
    names = set(arrays)
    return {"data", "shape"} <= names and (
        {"indices", "indptr"} <= names or {"row", "col"} <= names
    )


def sparse_from_npz(arrays: Mapping[str, NDArray[Any]], where: str) -> sp.csr_matrix:
    """Build CSR from the arrays of scipy's .npz (csr, csc or coo), checked; raises InputError."""
    kind = store.text(arrays["format"]) if "format" in arrays else "csr"
    sizes = np.atleast_1d(arrays["shape"])
    if sizes.shape != (2,) or sizes.dtype.kind not in "iu":
        raise InputError(f"{where}: `shape` must be two integers")
    shape = tuple(int(s) for s in sizes)
    if kind in ("csr", "csc") and "indptr" in arrays:
        order = 1 if kind == "csr" else -1
        built = as_csr(arrays["data"], arrays["indices"], arrays["indptr"], shape[::order], where)
        return built if kind == "csr" else built.T.tocsr()
    if kind == "coo" and "row" in arrays:
        return from_triplets(arrays["row"], arrays["col"], arrays["data"], shape, where)
    raise InputError(f"{where}: sparse format {kind[:40]!r}; csr, csc and coo are read")


def from_triplets(
    i: NDArray[Any], j: NDArray[Any], w: NDArray[Any], shape: tuple[int, ...], where: str
) -> sp.csr_matrix:
    """Build CSR from rows, columns and values, repeated entries summed; raises InputError."""
    if len(shape) != 2 or not i.shape == j.shape == w.shape or i.ndim != 1:
        raise InputError(f"{where}: rows, columns and values must be of one length")
    if i.dtype.kind not in "iu" or j.dtype.kind not in "iu" or w.dtype.kind not in "fiub":
        raise InputError(f"{where}: rows and columns must be integers, values numbers")
    check_not_empty(shape[0], w.size, where)
    for name, index, size in (("row", i, shape[0]), ("column", j, shape[1])):
        if index.size and (index.min() < 0 or index.max() >= size):
            raise InputError(f"{where}: a {name} outside 0 to {size - 1}")
    with np.errstate(over="ignore", invalid="ignore"):
        values = w.astype(np.float64)
    return sp.csr_matrix((values, (i.astype(np.int64), j.astype(np.int64))), shape=shape)


def check_not_empty(n_rows: int, n_entries: int, where: str) -> None:
    """Raise InputError for far more rows than entries, each of which would take memory.

    Formats that store entries alone can declare any number of rows in a few bytes.
    """
    if n_rows > 100 * n_entries + 1000:
        raise InputError(
            f"{where}: {n_entries} entries, but {n_rows} rows; number the nodes 0, 1, 2 …"
        )


def _check_mtx_header(path: Path) -> None:
    """Raise InputError when a Matrix Market file declares more than its bytes can say."""
    try:
        with path.open(encoding="latin-1") as file:
            symmetric = "general" not in file.readline(200).lower()
            line = "%"
            while line and (line.startswith("%") or not line.strip()):
                line = file.readline(10_000)
        sizes = [int(word) for word in line.split()]
    except ValueError:
        return  # scipy says what is wrong
    if len(sizes) == 3:  # a line of two numbers, "1 1", for an entry
        least = 4 * sizes[2]
        check_not_empty(max(sizes[0], 0), max(sizes[2], 0), str(path))
    elif len(sizes) == 2:  # a line of one number, or of one for two symmetric ones
        least = 2 * sizes[0] * sizes[1] // (4 if symmetric else 1)
    else:
        return
    if min(sizes) < 0 or least > path.stat().st_size + 1:
        raise InputError(
            f"{path}: declares sizes {' x '.join(map(str, sizes))}, more than its "
            f"{path.stat().st_size} bytes can hold"
        )


def read_mtx(path: Path) -> sp.csr_matrix | NDArray[np.float64]:
    """Read a Matrix Market file: CSR if sparse, an array if dense; raises InputError."""
    import scipy.io

    store.check_file(path)
    _check_mtx_header(path)
    most = _MTX_BYTES * path.stat().st_size
    try:
        examine(str(path), lambda: scipy.io.mmread(path), most)  # it crashes on some files
        found = scipy.io.mmread(path)
    except InputError:
        raise
    except Exception as error:  # its reader in C++ raises whatever it likes
        words = " ".join(store.text(str(error)).split())[:200]
        raise InputError(f"{path}: not a Matrix Market file ({words})") from error
    if np.iscomplexobj(found):
        raise InputError(f"{path}: complex values; a graph has real weights")
    if not sp.issparse(found):
        return np.asarray(found, dtype=np.float64)
    coo = sp.coo_matrix(found)
    return from_triplets(coo.row, coo.col, coo.data, coo.shape, str(path))
