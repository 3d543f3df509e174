"""Labels from files: numbers, or classes with names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import anndata, matrices, photographs, tables
from mustlink_io.formats.points import is_own
from mustlink_io.formats.tables import NodeNames, Table, node_column, rows_of, to_integers
from mustlink_io.formats.text import Words
from mustlink_io.hdf5 import size_checks, store
from mustlink_io.hdf5.file_names import HDF5, Place, parse

LABEL_NAMES = ("/labels", "/y")
UNKNOWN = frozenset({"", "-1", "?", "nan", "NaN", "NA", "<NA>"})  # words where none is known
_MOST_CLASSES = 100_000


@dataclass(frozen=True)
class Labels:
    """Labels (n,) from 0, -1 unknown; `classes` names class 0, 1, … where classes have names.

    `notes` say what was decided; `pixels` is (h, w) where they are those of a picture.
    """

    codes: NDArray[np.int64]
    classes: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    pixels: tuple[int, ...] | None = None


class LabelCountError(InputError):
    """There are more or fewer labels than nodes."""


def load_labels(text: str, n_nodes: int | None = None) -> NDArray[np.int64]:
    """Load labels (n,), -1 unknown; see `load_classes`."""
    return load_classes(text, n_nodes).codes


def load_classes(
    text: str,
    n_nodes: int | None = None,
    names: NodeNames | None = None,
    pixels: tuple[int, ...] | None = None,
    data: str = "",
) -> Labels:
    """Load labels and the names of their classes; raises InputError.

    From HDF5, a column of obs in AnnData, .npy, .npz, or a table: one label a line, or a column
    `node` of numbers or of `names` and a column of labels. Text becomes codes by the order of its
    categories, else by the alphabet; text that is whole numbers is these numbers. With `n_nodes`
    the length is checked, and an array (h, w) of so many is taken row by row, as `pixels` (h, w) of
    a picture are. So is a picture, see `load_label_picture`. A column of the table `data` itself
    has its rows, whatever may name rows in it.
    """
    place = parse(text)
    store.check_readable(place.path)
    if place.suffix in photographs.ENDINGS:
        painted, colours = photographs.load_label_picture(place.path)
        photographs.check_pixels(painted.shape, n_nodes, pixels, str(place))
        return Labels(painted.ravel(), colours, pixels=painted.shape)
    values: NDArray[Any] | Words
    if place.suffix in HDF5:
        values = _from_h5(place, n_nodes)
    elif (array := matrices.of_numpy(place, "labels", "y")) is not None:
        values = array
    else:
        values = _from_table(_read(place, n_nodes), place, n_nodes, names, own=is_own(text, data))
    if isinstance(values, Words) or values.ndim != 2 or n_nodes not in (None, values.size):
        return _labels(values, place, n_nodes)
    shape, (values, note) = values.shape, _row_by_row(values, place, pixels)
    return replace(_labels(values, place, n_nodes), notes=(note,), pixels=shape)


def _row_by_row(
    values: NDArray[Any], place: Place, pixels: tuple[int, ...] | None
) -> tuple[NDArray[Any], str]:
    """Labels (h, w) of pixels as (n,), and a note; raises InputError for another shape."""
    if pixels is not None and values.shape != tuple(pixels):
        raise InputError(
            f"{place}: shape {values.shape}, but the picture has {pixels[0]} rows of {pixels[1]} "
            "pixels"
        )
    return values.ravel(), f"{place}: shape {values.shape}, taken row by row as labels of pixels"


def _from_h5(place: Place, n_nodes: int | None) -> NDArray[Any] | Words:
    with store.open_h5(place.path) as file:
        name = place.part or _default(file, place)
        if anndata.is_column(file, name):
            return _without_nan(anndata.column(file, name))
        _refuse_text(store.dataset(file, name), f"{place.path}:{name}")
        _check_count(store.dataset(file, name).shape, n_nodes, place)
        return store.read(file, name, {}, "/labels")


def _default(file: Any, place: Place) -> str:
    for name in LABEL_NAMES:
        if store.find(file, name) is not None:
            return name
    if place.suffix == anndata.ENDING:
        if store.find(file, "/obs/mustlink") is not None:
            return "/obs/mustlink"
        raise InputError(
            f"{place.path}: name a column as {place.path.name}:/obs/COLUMN (obs has "
            f"{anndata.columns(file)})"
        )
    return LABEL_NAMES[0]


def _without_nan(values: NDArray[Any] | Words) -> NDArray[Any] | Words:
    if isinstance(values, Words) or values.dtype.kind != "f":
        return values
    return np.where(np.isnan(values), -1.0, values)


def _labels(values: NDArray[Any] | Words, place: Place, n_nodes: int | None) -> Labels:
    if not isinstance(values, Words) and values.dtype.kind in "OSU" and values.ndim == 1:
        _check_count(values.shape, n_nodes, place)
        values = _categories(values, place)
    if isinstance(values, Words):
        _check_count(values.codes.shape, n_nodes, place)
        return _of_words(values)
    _refuse_text(values, str(place))
    if values.ndim != 1 or values.dtype.kind not in "fiub":
        raise InputError(
            f"{place}: shape {values.shape} of type {values.dtype}; labels are whole numbers, "
            "one a node"
        )
    _check_count(values.shape, n_nodes, place)
    size_checks.check_fits(8 * values.size, str(place))
    labels = to_integers(values, str(place), "label")
    if labels.size and labels.min() < -1:
        at = int(np.flatnonzero(labels < -1)[0])
        raise InputError(f"{place}: label {at} is {labels[at]}; -1 is unknown, classes are from 0")
    return Labels(labels)


def _categories(values: NDArray[np.object_], place: Place) -> Words:
    """Words with their categories by the alphabet."""
    if values.dtype.kind != "O":
        values = np.array([store.decoded(value) for value in values], dtype=object)
    known = sorted({str(value) for value in values} - UNKNOWN)
    if len(known) > _MOST_CLASSES:
        raise InputError(f"{place}: {len(known)} different texts, too many for classes")
    code = {word: at for at, word in enumerate(known)}
    return Words(
        np.fromiter((code.get(v, -1) for v in values), np.int64, len(values)), tuple(known)
    )


def _of_words(words: Words) -> Labels:
    """Codes without those of unknown words; categories that are whole numbers as numbers."""
    known = [word for word in words.categories if word not in UNKNOWN]
    if known and all(word.isascii() and word.isdigit() and len(word) < 16 for word in known):
        numbers = [-1 if word in UNKNOWN else int(word) for word in words.categories]
        return Labels(np.array([*numbers, -1], dtype=np.int64)[words.codes])
    place = {word: at for at, word in enumerate(known)}
    table = np.array([*(place.get(word, -1) for word in words.categories), -1], dtype=np.int64)
    return Labels(table[words.codes], tuple(known))


def _check_count(shape: tuple[int, ...], n_nodes: int | None, place: Place) -> None:
    """Raise InputError for another number of labels than nodes, if need be before reading them."""
    if n_nodes is not None and len(shape) == 1 and shape[0] != n_nodes:
        raise LabelCountError(f"{place}: {shape[0]} labels, but the data has {n_nodes} nodes")


def _refuse_text(values: Any, where: str) -> None:
    """Raise InputError for labels, an array or HDF5 dataset, that are words."""
    if values.dtype.kind in "OSU":
        first = values[(0,) * values.ndim] if values.size else ""
        raise InputError(
            f"{where}: labels are text ({store.text(first)[:40]!r}); number the classes 0, 1, 2 …, "
            "and -1 for unknown, or give them as .csv or as a column of obs in .h5ad"
        )


def _read(place: Place, n_nodes: int | None) -> Table:
    """The table of labels; a first line that is a label stays one."""
    found = tables.read_table(place.path)
    words = found.text(0)
    one = len(found.columns) == 1 and not found.header and words.dtype.kind == "O"
    if one and found.n_rows - 1 == n_nodes:
        return Table((str(words[0]),), (words[1:],))
    return found


def _from_table(
    table: Table, place: Place, n_nodes: int | None, names: NodeNames | None, *, own: bool
) -> NDArray[Any] | Words:
    """The column of labels, put in the order of the nodes where another names these."""
    where = str(place)
    at = node_column(table, names)
    label = _label_column(table, place, at)
    column = table.columns[label]
    if at is None or (own and table.n_rows == n_nodes):
        return column if isinstance(column, Words) else _without_nan(column)
    if n_nodes is None:
        raise InputError(f"{where}: a table node,label needs to know the number of nodes")
    node = rows_of(table.text(at), names, where, n_nodes)
    if isinstance(column, Words):
        return Words(_placed(column.codes, node, n_nodes, where, column), column.categories)
    if column.dtype.kind == "O":
        words = _categories(column, place)
        return Words(_placed(words.codes, node, n_nodes, where, words), words.categories)
    return _placed(to_integers(_without_nan(column), where, "row"), node, n_nodes, where)  # type: ignore[arg-type]


def _label_column(table: Table, place: Place, node: int | None) -> int:
    """Place of the column that is named, is called as labels are, or is the only one."""
    found = tables.value_column(table, place.part, tables.LABEL, node)
    if found is None and place.part:
        raise InputError(f"{place}: no such column; the table has {tables.listed(table)}")
    if found is None:
        raise InputError(
            f"{place}: {len(table.columns)} columns; wanted is one label a line, or the header "
            f"`node,label`; name another column of labels as {place.path.name}:COLUMN"
        )
    return found


def _placed(
    label: NDArray[np.int64],
    node: NDArray[np.int64],
    n_nodes: int,
    where: str,
    words: Words | None = None,
) -> NDArray[np.int64]:
    """Labels of all nodes, -1 where none is given; raises InputError for two of one node."""
    labels = np.full(n_nodes, -1, dtype=np.int64)
    labels[node] = label
    twice = np.flatnonzero(labels[node] != label)
    if twice.size:
        at = int(node[twice[0]])
        both: Sequence[Any] = (int(label[twice[0]]), int(labels[at]))
        if words is not None:
            both = [repr(store.text(words.categories[c])) if c >= 0 else "unknown" for c in both]
        raise InputError(f"{where}: node {at} is labelled {both[0]} and {both[1]}; keep one")
    return labels
