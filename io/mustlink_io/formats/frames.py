"""Parquet tables, read and written through pyarrow (which pandas uses, too)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import tables
from mustlink_io.formats.tables import Table, Words
from mustlink_io.hdf5 import size_checks, store, writing
from mustlink_io.hdf5.sandbox import examine

_SPARE = 2**31  # bytes that pyarrow may reserve beside the values


def _pyarrow(path: str | Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet  # loaded before a child process is started
    except ImportError as error:
        raise InputError(
            f"{path}: Parquet goes through pyarrow; install it by: pip install 'mustlink[frames]'"
        ) from error
    return pyarrow


def read_parquet(path: Path) -> Table:
    """Read a table; text and categories stay text. Raises InputError.

    A child process reads it first, as a damaged file may crash the library.
    """
    pyarrow = _pyarrow(path)
    store.check_file(path)
    try:
        held = _declared_bytes(pyarrow, path)
        size_checks.check_fits(held, str(path))
        examine(str(path), lambda: _read(pyarrow, path), held + _SPARE)
        return _read(pyarrow, path)
    except InputError:
        raise
    except Exception as error:  # pyarrow's, which are of many kinds
        raise _damaged(path, error) from error


def read_table(path: Path) -> Table:
    """Read a table in Parquet or in text; raises InputError."""
    return read_parquet(path) if path.suffix.lower() == ".parquet" else tables.read_columns(path)


def declared_shape(path: Path) -> tuple[int, int]:
    """Rows and columns; raises InputError."""
    pyarrow = _pyarrow(path)
    store.check_file(path)
    try:
        about = pyarrow.parquet.read_metadata(path)
    except Exception as error:
        raise _damaged(path, error) from error
    return int(about.num_rows), int(about.num_columns)


def column_names(path: Path) -> list[str]:
    """Names of the columns; raises InputError."""
    pyarrow = _pyarrow(path)
    store.check_file(path)
    try:
        return [str(name) for name in pyarrow.parquet.read_schema(path).names]
    except Exception as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> InputError:
    words = " ".join(store.text(str(error)).split())[:200]
    return InputError(f"{path}: not a Parquet file, or damaged ({words})")


def _declared_bytes(pyarrow: Any, path: Path) -> int:
    about = pyarrow.parquet.read_metadata(path)
    return max(0, int(about.num_rows)) * max(1, int(about.num_columns)) * 8


def _read(pyarrow: Any, path: Path) -> Table:
    table = pyarrow.parquet.ParquetFile(path).read(use_threads=False)
    if not table.num_rows or not table.num_columns:
        raise InputError(f"{path}: a table without values")
    order = list(table.column_names)
    index = [name for name in _index(table.schema) if name in order]
    header = list(order)
    if len(index) == 1 and "node" not in order:  # pandas puts it last, under a name of its own
        order = index + [name for name in order if name != index[0]]
        header = ["node", *order[1:]]
    columns = [_column(pyarrow, table.column(name), name, path) for name in order]
    return Table(tuple(header), tuple(columns))


def _index(schema: Any) -> list[str]:
    """Columns that pandas says are the names of rows."""
    about = schema.pandas_metadata or {}
    return [name for name in about.get("index_columns", ()) if isinstance(name, str)]


def _column(pyarrow: Any, column: Any, name: str, path: Path) -> NDArray[Any] | Words:
    kind, types = column.type, pyarrow.types
    if types.is_dictionary(kind):
        return _words(column, kind, types, f"{path}:{store.text(name)}")
    if types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind):
        return np.array([word or "" for word in column.to_pylist()], dtype=object)
    if types.is_temporal(kind):
        words = column.cast("string").to_pylist()
        return np.array([word or "" for word in words], dtype=object)
    if types.is_boolean(kind) or types.is_integer(kind):
        if column.null_count:
            return np.asarray(column.cast("float64", safe=False).to_numpy())
        return np.asarray(column.to_numpy())
    if types.is_floating(kind) or types.is_decimal(kind):
        return np.asarray(column.cast("float64", safe=False).to_numpy())
    raise InputError(
        f"{path}: column {store.text(name)[:40]!r} is of type {str(kind)[:40]}; read are numbers "
        "and text"
    )


def _words(column: Any, kind: Any, types: Any, where: str) -> NDArray[Any] | Words:
    """Categories of text with their codes; of numbers, the numbers."""
    whole = column.unify_dictionaries().combine_chunks()
    if hasattr(whole, "chunks"):
        whole = whole.chunk(0)
    known = whole.dictionary.to_pylist()
    codes = np.asarray(whole.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False))
    if types.is_string(kind.value_type) or types.is_large_string(kind.value_type):
        return Words(codes, tuple(str(word) for word in known))
    if not (types.is_integer(kind.value_type) or types.is_floating(kind.value_type)):
        raise InputError(f"{where}: categories of type {str(kind.value_type)[:40]}")
    return np.array([*known, np.nan], dtype=np.float64)[codes]


def write_parquet(path: str, columns: Mapping[str, Any]) -> None:
    """Write columns: arrays of numbers, object arrays of text."""
    pyarrow = _pyarrow(path)
    table = pyarrow.table({name: pyarrow.array(values) for name, values in columns.items()})
    with writing.atomic(path) as temporary:
        pyarrow.parquet.write_table(table, temporary)
