"""One number a row, or a distribution over the classes, from a file: weights, beliefs, priors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import anndata, matrices, tables
from mustlink_io.formats.points import WEIGHT, is_own
from mustlink_io.formats.tables import NodeNames, names_in_file, node_column, node_rows, rows_of
from mustlink_io.hdf5 import size_checks, store
from mustlink_io.hdf5.file_names import HDF5, Place, parse

BELIEF = ("belief", "beliefs")

Floats = NDArray[np.float64]


def load_weights(text: str, n_rows: int, names: NodeNames | None = None, data: str = "") -> Floats:
    """Load weights (n_rows,): HDF5 (`/weights` if nothing is named), a column of obs in AnnData,
    .npy, .npz, or a table: one number a line, FILE.csv:COLUMN, or a column `node` and one of
    weights. A column of the table `data` itself is read row by row. Raises InputError.
    """
    return _numbers(text, n_rows, names, data, WEIGHT)


def load_beliefs(text: str, n_rows: int, names: NodeNames | None = None, data: str = "") -> Floats:
    """Load beliefs (n_rows,) in the same way; called `/beliefs` or `belief` if nothing is named."""
    return _numbers(text, n_rows, names, data, BELIEF)


def _numbers(
    text: str, n_rows: int, names: NodeNames | None, data: str, usual: Sequence[str]
) -> Floats:
    """Numbers (n_rows,); the first two of the `usual` names are one and several in messages."""
    place = parse(text)
    store.check_readable(place.path)
    one, several = usual[:2]
    values: Any
    if place.suffix in HDF5:
        with store.open_h5(place.path) as file:
            name = place.part or f"/{several}"
            column = anndata.is_column(file, name)
            values = (
                anndata.column(file, name) if column else store.read(file, name, {}, "/weights")
            )
    elif (values := matrices.of_numpy(place, several)) is None:
        values = _column(place, n_rows, names, usual, own=is_own(text, data))
    values = np.asarray(values)
    if values.dtype.kind not in "fiub" or values.shape != (n_rows,):
        raise InputError(
            f"{place}: shape {values.shape} of type {values.dtype}; {several} are numbers, one for "
            f"each of the {n_rows} rows"
        )
    found = values.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if bad.size:
        raise InputError(
            f"{place}: row {bad[0]} has {one} {found[bad[0]]:g}; {several} are finite and not "
            "negative"
        )
    return found


def _column(
    place: Place, n_rows: int, names: NodeNames | None, usual: Sequence[str], *, own: bool
) -> NDArray[Any]:
    table = tables.read_table(place.path)
    node = tables.find_column(table.header[:1], tables.NODE) if len(table.columns) > 1 else None
    at = tables.value_column(table, place.part, usual, node)
    if at is None:
        raise InputError(
            f"{place}: which column has the {usual[1]}? write {place.path.name}:COLUMN (it has "
            f"{tables.listed(table)})"
        )
    values = table.text(at)
    if own or node is None or table.is_text(at):
        return values
    rows = node_rows(table.text(node), names, str(place))
    if not np.array_equal(np.sort(rows), np.arange(n_rows)):
        raise InputError(f"{place}: give every node from 0 to {n_rows - 1} once")
    return values[np.argsort(rows)]


_PARTS = ("/prior", "/label_distributions")
_ROUNDED = 1e-3  # by which a row may miss 1, as digits that were written may
Named = tuple[Any, NDArray[Any] | None, Sequence[str]]  # values, nodes and columns, where named


def load_prior(
    text: str, n_rows: int, classes: Sequence[str] | None, names: NodeNames | None = None
) -> Floats:
    """Load distributions (n_rows, K) over `classes`, in their order; NaN where a row is empty.

    Without `classes` they are the columns in the order of the file.

    From HDF5 (`/prior` or `/label_distributions` if nothing is named), .npy, .npz, or a table with
    the classes as header, where a column `node` may name the rows. Columns with names are put in
    the order of the classes; rows with names, if the data has names, in the order of the data,
    where rows may be missing. A row of NaN, of empty cells or of 0 is empty. Raises InputError.
    """
    place = parse(text)
    store.check_readable(place.path)
    values, nodes, columns = _read(place, n_rows, names, classes)
    found = np.asarray(values)
    if found.dtype.kind not in "fiub" or found.ndim != 2:
        raise InputError(
            f"{place}: shape {found.shape} of type {found.dtype}; a prior is numbers, a row for "
            "each node, a column for each class"
        )
    if classes is None:
        classes = [str(at) for at in range(found.shape[1])]
    elif columns:
        found = found[:, _order(columns, classes, place)]
    wide = found.shape[1]
    if wide != len(classes) or (nodes is None and found.shape[0] != n_rows):
        raise InputError(
            f"{place}: {found.shape[0]} rows and {wide} columns, but there are {n_rows} nodes and "
            f"{len(classes)} classes ({_listed(classes)}); give a row for each node, a column for "
            "each class"
        )
    size_checks.check_fits(8 * n_rows * wide, str(place))
    P: Floats = np.asarray(found, dtype=np.float64)
    total = P.sum(axis=1)
    empty = np.isnan(P).all(axis=1) | ~P.any(axis=1)
    wrong = ~(empty | (P >= 0).all(axis=1) & (np.abs(total - 1.0) <= _ROUNDED))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"{place}: row {row} is no distribution over the classes; let its entries be 0 or more "
            "with sum 1, or all of them 0 or empty (NaN) where nothing is known"
        )
    P = P / np.where(empty, np.nan, total)[:, None]
    if nodes is None or (names is not None and np.array_equal(names.texts, nodes)):
        return P
    rows = rows_of(nodes, names, str(place), n_rows)
    if np.unique(rows).size < rows.size:
        twice = int(np.argmax(np.bincount(rows) > 1))
        raise InputError(f"{place}: node {twice} is named twice; keep one of its rows")
    ordered = np.full((n_rows, wide), np.nan)
    ordered[rows] = P
    return ordered


def _read(
    place: Place, n_rows: int, names: NodeNames | None, classes: Sequence[str] | None
) -> Named:
    if place.suffix in HDF5:
        with store.open_h5(place.path) as file:
            return _from_h5(file, place, names)
    array = matrices.of_numpy(place, "prior")
    if array is not None:
        return array, None, ()
    if place.part is not None:
        raise InputError(f"{place}: all columns of a table are the prior; give {place.path}")
    return _from_table(place, n_rows, names, classes)


def _from_h5(file: h5py.File, place: Place, names: NodeNames | None) -> Named:
    there = next((name for name in _PARTS if store.find(file, name) is not None), _PARTS[0])
    name = place.part or there
    data = store.dataset(file, name)
    size_checks.check_fits(data.size * data.dtype.itemsize, f"{place.path}:{name}")
    values, nodes = np.asarray(data[()]), None
    if place.suffix == anndata.ENDING:
        anndata.check_rows(file, name, values.shape[0] if values.ndim else 0)
        nodes = anndata.node_names(file) if anndata.is_per_node(name) else None
    else:
        nodes = names_in_file(file)
    columns: Sequence[str] = ()
    if name.strip("/") == "label_distributions":  # of an earlier result
        if store.find(file, "/class_names") is not None:
            columns = store.texts(file, "/class_names").tolist()
        elif store.find(file, "/classes") is not None:
            columns = [str(number) for number in store.dataset(file, "/classes")[()].tolist()]
    return values, None if nodes is None or names is None else nodes.texts, columns


def _from_table(
    place: Place, n_rows: int, names: NodeNames | None, classes: Sequence[str] | None
) -> Named:
    table = tables.read_table(place.path)
    header = table.header
    node = node_column(table, names, header[:1])
    wanted = classes or ()
    named = [i for i, name in enumerate(header) if name in wanted or name.lower() not in BELIEF]
    rest = [i for i in (named if header else range(len(table.columns))) if i != node]
    text = next((i for i in rest if table.is_text(i)), None)
    if text is not None:
        shown = store.text(header[text] if header else str(text))[:40]
        raise InputError(f"{place}: column {shown!r} is text, where probabilities are numbers")
    cells = [table.text(i) for i in rest]
    values = np.column_stack(cells) if cells else np.empty((table.n_rows, 0))
    columns: Sequence[str] = [header[i] for i in rest] if header else ()
    if not header and len(values) == n_rows + 1:  # classes that are numbers, as a header
        top = tables.as_text(values[0]).tolist()
        if sorted(top) == sorted(classes or map(str, range(len(top)))):
            values, columns = values[1:], top
    return values, None if node is None else table.text(node), columns


def _order(columns: Sequence[str], classes: Sequence[str], place: Place) -> list[int]:
    strange = next((name for name in columns if name not in classes), None)
    absent = next((name for name in classes if name not in columns), None)
    if strange is None and absent is None and len(set(columns)) == len(columns):
        return [list(columns).index(name) for name in classes]
    what = "two columns have the same name"
    if strange is not None:
        what = f"column {store.text(strange)[:40]!r} is no class that the labels have"
    elif absent is not None:
        what = f"no column of class {store.text(absent)[:40]!r}"
    raise InputError(
        f"{place}: {what}; call the columns as the classes are called: {_listed(classes)}"
    )


def _listed(classes: Sequence[str]) -> str:
    return ", ".join(store.text(one)[:40] for one in classes[:10]) + " …" * (len(classes) > 10)
