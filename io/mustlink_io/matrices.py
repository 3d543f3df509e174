"""Sparse matrices in files: AnnData's CSR groups in HDF5, scipy's .npz, Matrix Market."""

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
from mustlink_io import schema, store


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
    for name, array, kinds in (
        ("data", data, "fiub"),
        ("indices", indices, "iu"),
        ("indptr", indptr, "iu"),
    ):
        if array.ndim != 1 or array.dtype.kind not in kinds:
            raise InputError(
                f"{where}: {name} has shape {array.shape} and type {array.dtype}; wanted is one "
                "dimension of " + ("numbers" if name == "data" else "integers")
            )
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
        data = data.astype(np.float64)
    small = max(rows, columns, len(data)) < 2**31
    index = np.int32 if small else np.int64
    return sp.csr_matrix(
        (data, indices.astype(index, copy=False), indptr.astype(index, copy=False)),
        shape=(rows, columns),
    )


def is_csr_group(group: Any) -> bool:
    """Whether an HDF5 object looks like an encoded sparse matrix."""
    return isinstance(group, h5py.Group) and {"data", "indices", "indptr"} <= set(group.keys())


def csr_shape(file: h5py.File, name: str) -> tuple[int, int]:
    """Shape a CSR group declares; raises InputError when it is not such a group."""
    group = store.find(file, name)
    where = f"{file.filename}:{name}"
    if group is None or not is_csr_group(group):
        raise InputError(f"{where}: not a sparse matrix; needs data, indices and indptr")
    attrs = group.attrs
    encoding = store.text(attrs.get("encoding-type", attrs.get("h5sparse_format", schema.CSR_TYPE)))
    if encoding not in (schema.CSR_TYPE, "csr"):
        raise InputError(f"{where}: encoding {encoding!r}; only {schema.CSR_TYPE!r} is read")
    shape = np.asarray(attrs.get("shape", attrs.get("h5sparse_shape", ())))
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise InputError(f"{where}: needs an attribute `shape` of two integers")
    return int(shape[0]), int(shape[1])


def read_csr(file: h5py.File, name: str) -> sp.csr_matrix:
    """Read a group in AnnData's CSR encoding, checked; raises InputError."""
    shape = csr_shape(file, name)
    base = name.rstrip("/")
    where = f"{file.filename}:{base}"
    parts = {}
    for part in ("data", "indices", "indptr"):
        values = store.dataset(file, f"{base}/{part}")
        if values.ndim != 1:
            raise InputError(f"{where}/{part}: shape {values.shape}, but one dimension is wanted")
        parts[part] = np.asarray(values[()])
    return as_csr(parts["data"], parts["indices"], parts["indptr"], shape, where)


def graph_content(affinity: sp.csr_matrix, info: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the entries of `schema.ITEMS` that hold a graph, for `store.write`."""
    return {
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
    shape = tuple(int(s) for s in np.atleast_1d(arrays["shape"]))
    if kind in ("csr", "csc") and "indptr" in arrays:
        order = 1 if kind == "csr" else -1
        built = as_csr(arrays["data"], arrays["indices"], arrays["indptr"], shape[::order], where)
        return built if kind == "csr" else built.T.tocsr()
    if kind == "coo" and "row" in arrays:
        return from_triplets(arrays["row"], arrays["col"], arrays["data"], shape, where)
    raise InputError(f"{where}: sparse format {kind!r}; csr, csc and coo are read")


def from_triplets(
    i: NDArray[Any], j: NDArray[Any], w: NDArray[Any], shape: tuple[int, ...], where: str
) -> sp.csr_matrix:
    """Build CSR from rows, columns and values, repeated entries summed; raises InputError."""
    if len(shape) != 2 or not i.shape == j.shape == w.shape or i.ndim != 1:
        raise InputError(f"{where}: rows, columns and values must be of one length")
    for name, index, size in (("row", i, shape[0]), ("column", j, shape[1])):
        if index.size and (index.min() < 0 or index.max() >= size):
            raise InputError(f"{where}: a {name} outside 0 to {size - 1}")
    return sp.csr_matrix((w.astype(np.float64), (i, j)), shape=shape)


def read_mtx(path: Path) -> sp.csr_matrix | NDArray[np.float64]:
    """Read a Matrix Market file: CSR if sparse, an array if dense; raises InputError."""
    import scipy.io

    store.check_readable(path)
    try:
        found = scipy.io.mmread(path)
    except (ValueError, OverflowError, OSError, EOFError) as error:
        raise InputError(
            f"{path}: not a Matrix Market file ({' '.join(str(error).split())})"
        ) from (error)
    if np.iscomplexobj(found):
        raise InputError(f"{path}: complex values; a graph has real weights")
    if not sp.issparse(found):
        return np.asarray(found, dtype=np.float64)
    coo = sp.coo_matrix(found)
    return from_triplets(coo.row, coo.col, coo.data, coo.shape, str(path))
