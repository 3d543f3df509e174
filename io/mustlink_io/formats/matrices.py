"""Arrays and sparse matrices: .npy and .npz, never unpickled, groups in HDF5, Matrix Market."""

from __future__ import annotations

import contextlib
import json
import math
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.hdf5 import schema, size_checks, store
from mustlink_io.hdf5.file_names import Place
from mustlink_io.hdf5.graphs import PARTS, check_part
from mustlink_io.hdf5.sandbox import examine

_DEFLATE_MOST = 1032  # bytes that one byte of a deflate stream can stand for
_HEADER = 10_000  # characters of a header, which is read as a Python literal
_MTX_BYTES = 16  # in memory for a byte in the file: `1 1` is two indices and a value, twice


@contextlib.contextmanager
def _numpy_errors(where: str) -> Iterator[None]:
    """Turn whatever numpy and zipfile raise at a bad file into one InputError.

    The header of an array is evaluated as Python text, which can fail in every way that text can.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except InputError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())
        if any(hint in words for hint in ("pickle", "Object arrays", "Python objects")):
            words = "holds Python objects, which are never loaded"
        printable = "".join(c if c.isprintable() else "?" for c in words[:200])
        raise InputError(f"{where}: cannot be read: {printable or type(error).__name__}") from error


def load_npy(path: Path) -> NDArray[Any]:
    """Map .npy into memory; never unpickles. Raises InputError."""
    store.check_file(path)
    with _numpy_errors(str(path)):
        found = np.load(path, mmap_mode="r", allow_pickle=False, max_header_size=_HEADER)
        if not isinstance(found, np.ndarray):
            raise InputError(f"{path}: cannot be read: not a .npy file")
        return found


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = npy.read_magic(file)
    if version[0] == 1:
        shape, _, dtype = npy.read_array_header_1_0(file, max_header_size=_HEADER)
    else:
        shape, _, dtype = npy.read_array_header_2_0(file, max_header_size=_HEADER)
    if min(shape, default=0) < 0:
        raise ValueError(f"shape {shape}")
    return shape, dtype


class Archive(Mapping[str, NDArray[Any]]):
    """The arrays of an .npz, read on access; what they declare is checked before."""

    def __init__(self, path: Path, opened: zipfile.ZipFile) -> None:
        self._path, self._zip = path, opened
        self._members = {
            info.filename.removesuffix(".npy"): info
            for info in opened.infolist()
            if info.filename.endswith(".npy")
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def declares(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and type of an array, held against its size; raises InputError."""
        info, where = self._members[name], f"{self._path}:{name}"
        with _numpy_errors(where):
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise InputError(f"{where}: compressed in a way that numpy does not write")
            with self._zip.open(info) as file:
                shape, dtype = _header(file)
                begin = file.tell()
        if dtype.hasobject:
            raise InputError(f"{where}: holds Python objects, which are never loaded")
        size = math.prod(shape) * dtype.itemsize
        if begin + size != info.file_size or size > _DEFLATE_MOST * info.compress_size:
            raise InputError(
                f"{where}: cannot be read: declares {size} bytes of values, which are not there"
            )
        return shape, dtype

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._members:
            raise KeyError(name)
        shape, dtype = self.declares(name)
        where = f"{self._path}:{name}"
        size_checks.check_fits(math.prod(shape) * dtype.itemsize, where)
        with _numpy_errors(where), self._zip.open(self._members[name]) as file:
            return np.asarray(npy.read_array(file, allow_pickle=False, max_header_size=_HEADER))


@contextlib.contextmanager
def open_npz(path: Path) -> Iterator[Archive]:
    """Open .npz as a mapping whose arrays are read on access; never unpickles."""
    store.check_file(path)
    with _numpy_errors(str(path)):
        opened = zipfile.ZipFile(path)
    with opened:
        yield Archive(path, opened)


def pick(place: Place) -> Any:
    """The named array of an .npz, else the sparse matrix, `points` or `X`, or the only array."""
    with open_npz(place.path) as archive:
        if not place.part and is_sparse_npz(archive):
            return sparse_from_npz(archive, str(place))
        return _member(archive, place, ("points", "X"))


def of_numpy(place: Place, *usual: str) -> NDArray[Any] | None:
    """The array in .npy, or in .npz by its name, a usual one or as the only; None of other files.

    Raises InputError.
    """
    if place.suffix == ".npy":
        return np.asarray(load_npy(place.path))
    if place.suffix != ".npz":
        return None
    with open_npz(place.path) as archive:
        return _member(archive, place, usual)


def _member(archive: Archive, place: Place, usual: tuple[str, ...]) -> NDArray[Any]:
    """The named array, a usual one or the only one; raises InputError that lists all."""
    there = [name for name in usual if name in archive] or list(archive)
    names = ", ".join(store.text(name)[:40] for name in list(archive)[:12]) or "none"
    if place.part:
        name = place.part.lstrip("/")
    elif len(there) == 1 or there[:1] == [usual[0]]:
        name = there[0]
    else:
        raise InputError(
            f"{place}: no {' or '.join(usual)} in it; name one of its arrays as "
            f"{place.path.name}:NAME (it has {names})"
        )
    if name not in archive:
        raise InputError(f"{place}: no such array; the file has {names}")
    return archive[name]


def as_csr(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    shape: tuple[int, int],
    where: str,
) -> sp.csr_matrix:
    """Build a CSR matrix from arrays that are not checked yet; raises InputError. O(nnz)."""
    for name, array in (("data", data), ("indices", indices), ("indptr", indptr)):
        check_part(name, array, where)
    if data.dtype not in (np.float32, np.float64):
        with np.errstate(over="ignore", invalid="ignore"):  # the engine refuses Inf
            data = data.astype(np.float64)
    with store.refusing(f"{where}: is no matrix of shape {shape}"):
        found = sp.csr_matrix((data, indices, indptr), shape=shape)
        found.check_format(full_check=True)
    if found.nnz != len(data):
        raise InputError(f"{where}: indptr ends with {found.nnz}, but data has {len(data)} values")
    return found


def is_sparse_group(group: Any) -> bool:
    """Whether an HDF5 object looks like an encoded sparse matrix."""
    return isinstance(group, h5py.Group) and {"data", "indices", "indptr"} <= set(group.keys())


LISTS = ("indices", "distances")  # (n, k) each, of neighbours


def is_lists(group: Any) -> bool:
    """Whether an HDF5 object has lists of neighbours."""
    if not isinstance(group, h5py.Group) or not set(LISTS) <= set(group.keys()):
        return False
    return all(len(getattr(group.get(name), "shape", ())) == 2 for name in LISTS)


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
        check_part(part, values, where)
    size = sum(p.size * p.dtype.itemsize for p in parts.values())
    size_checks.check_fits(2 * size if by_columns else size, where)
    indptr, indices, data = (np.asarray(values[()]) for values in parts.values())
    if by_columns:
        return as_csr(data, indices, indptr, shape[::-1], where).T.tocsr()
    return as_csr(data, indices, indptr, shape, where)


def read_copies(
    file: h5py.File, name: str, n_nodes: int
) -> tuple[NDArray[np.float64] | None, NDArray[Any] | None]:
    """Weights (n,) of a graph's nodes and the node of every row, None where a file has neither.

    Rows without weights are nodes in another order, of weight 1. Raises InputError.
    """
    base = name.rstrip("/")
    stored = [store.find(file, f"{base}/{part}") is not None for part in ("weights", "rows")]
    if base.strip("/") != "graph" or not any(stored):
        return None, None
    dims, where = {"g": n_nodes}, f"{file.filename}:{base}"
    weights = np.ones(n_nodes)
    if stored[0]:
        weights = store.read(file, f"{base}/weights", dims, "/graph/weights").astype(np.float64)
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise InputError(f"{where}/weights: weights must be finite and not negative")
    if not stored[1]:
        return weights, None
    rows = store.read(file, f"{base}/rows", dims, "/graph/rows")
    known = rows.size and rows.min() >= 0 and rows.max() < n_nodes
    if not known or np.bincount(rows, minlength=n_nodes).min() == 0:
        raise InputError(f"{where}/rows: nodes must be 0 to {n_nodes - 1}, each at least once")
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
    rows, columns = (int(size) for size in sizes)
    if kind in ("csr", "csc") and "indptr" in arrays:
        shape = (rows, columns) if kind == "csr" else (columns, rows)
        built = as_csr(arrays["data"], arrays["indices"], arrays["indptr"], shape, where)
        return built if kind == "csr" else built.T.tocsr()
    if kind == "coo" and "row" in arrays:
        i, j, data = (arrays[name] for name in ("row", "col", "data"))
        return from_triplets(i, j, data, (rows, columns), where)
    raise InputError(f"{where}: sparse format {kind[:40]!r}; csr, csc and coo are read")


def from_triplets(
    i: NDArray[Any], j: NDArray[Any], w: NDArray[Any], shape: tuple[int, int], where: str
) -> sp.csr_matrix:
    """Build CSR from rows, columns and values, repeated entries summed; raises InputError."""
    if i.dtype.kind not in "iu" or j.dtype.kind not in "iu" or w.dtype.kind not in "fiub":
        raise InputError(f"{where}: rows and columns must be integers, values numbers")
    check_not_empty(shape[0], w.size, where)
    refusing = store.refusing(f"{where}: is no matrix of shape {shape}")
    with refusing, np.errstate(over="ignore", invalid="ignore"):
        return sp.csr_matrix((w.astype(np.float64), (i, j)), shape=shape)


def check_not_empty(n_rows: int, n_entries: int, where: str) -> None:
    """Raise InputError for far more rows than entries, each of which would take memory.

    Formats that store entries alone can declare any number of rows in a few bytes.
    """
    if n_rows > 100 * n_entries + 1000:
        raise InputError(
            f"{where}: {n_entries} entries, but {n_rows} rows; number the nodes 0, 1, 2 …"
        )


class MtxHeader(NamedTuple):
    """What a Matrix Market file declares, in the words of its format."""

    rows: int
    columns: int
    entries: int
    form: str
    field: str
    symmetry: str


def mtx_header(path: Path) -> MtxHeader:
    """The header of a Matrix Market file; raises InputError where its bytes cannot hold so much."""
    import scipy.io

    store.check_file(path)
    with store.refusing(f"{path}: not a Matrix Market file"):
        head = MtxHeader(*scipy.io.mminfo(path))
    if head.form == "coordinate":  # a line of two numbers, "1 1", for an entry
        check_not_empty(head.rows, head.entries, str(path))
        least = 4 * head.entries
    else:  # a line of one number, or of one for two symmetric ones
        least = 2 * head.rows * head.columns // (1 if head.symmetry == "general" else 4)
    if least > path.stat().st_size + 1:
        raise InputError(
            f"{path}: declares {head.rows} x {head.columns} with {head.entries} entries, more than "
            f"its {path.stat().st_size} bytes can hold"
        )
    return head


def read_svmlight(path: Path) -> tuple[sp.csr_matrix, None, str]:
    """Rows of a file of lines `target column:value …`, no names, a note; raises InputError."""
    from sklearn.datasets import load_svmlight_file

    store.check_file(path)
    with store.refusing(f"{path}: not lines of `target column:value ...`"):
        X, _ = load_svmlight_file(str(path), dtype=np.float32)
    return (sp.csr_matrix(X), None, f"{path}: the first number of each line is left out")


def read_mtx(path: Path) -> sp.csr_matrix | NDArray[np.float64]:
    """Read a Matrix Market file: CSR if sparse, an array if dense; raises InputError."""
    import scipy.io

    if mtx_header(path).field == "complex":
        raise InputError(f"{path}: complex values; a graph has real weights")
    with store.refusing(f"{path}: not a Matrix Market file"):
        most = _MTX_BYTES * path.stat().st_size
        examine(str(path), lambda: scipy.io.mmread(path), most)  # it crashes on some files
        found = scipy.io.mmread(path)
    if not sp.issparse(found):
        return np.asarray(found, dtype=np.float64)
    coo = sp.coo_matrix(found)
    return from_triplets(coo.row, coo.col, coo.data, coo.shape, str(path))
