"""Labels from files, numbers or classes with names, and answers that a person filled in."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.core.observe import Recorder
from mustlink.errors import InputError, spelt_alike
from mustlink_io.formats import anndata, matrices, photographs, tables
from mustlink_io.formats.points import is_own
from mustlink_io.formats.tables import (
    NodeNames,
    Table,
    as_text,
    known_names,
    node_column,
    rows_of,
    to_integers,
)
from mustlink_io.formats.text import Column, Words
from mustlink_io.hdf5 import size_checks, store
from mustlink_io.hdf5.file_names import HDF5, Place, parse

LABEL_NAMES = ("/labels", "/y")
UNKNOWN = frozenset({"", "-1", "?", "nan", "NaN", "NA", "<NA>"})  # words where none is known
_MOST_CLASSES = 100_000


@dataclass(frozen=True)
class Labels:
    """Labels (n,) from 0, -1 unknown; `classes` names class 0, 1, … where classes have names.

    `notes` say what was decided, `warnings` doubts; `pixels` is (h, w) where they are those of
    a picture; `strange` are names of rows that the data do not have.
    """

    codes: NDArray[np.int64]
    classes: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    pixels: tuple[int, ...] | None = None
    strange: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def report(self, recorder: Recorder) -> None:
        """Record notes and warnings."""
        for note in self.notes:
            recorder.note(note)
        for warning in self.warnings:
            recorder.warn(warning)


class LabelCountError(InputError):
    """There are more or fewer labels than nodes."""


def load_classes(
    text: str,
    n_nodes: int | None = None,
    names: NodeNames | None = None,
    pixels: tuple[int, ...] | None = None,
    data: str = "",
    *,
    strict: bool = False,
) -> Labels:
    """Load labels and the names of their classes; raises InputError.

    From HDF5, a column of obs in AnnData, .npy, .npz, or a table: one label a line, or a column
    `node` of numbers or of `names` and a column of labels. Text becomes codes by the order of its
    categories, else by the alphabet; text that is whole numbers is these numbers. With `n_nodes`
    the length is checked, and an array (h, w) of so many is taken row by row, as `pixels` (h, w) of
    a picture are. So is a picture, see `load_label_picture`. A column of the table `data` itself
    has its rows, whatever may name rows in it. If names of some rows are known, the others are left
    out, which is a warning; if `strict` they are an error.
    """
    place = parse(text)
    store.check_readable(place.path)
    if place.suffix in photographs.ENDINGS:
        painted, colours = photographs.load_label_picture(place.path)
        photographs.check_pixels(painted.shape, n_nodes, pixels, str(place))
        return Labels(painted.ravel(), colours, pixels=painted.shape)
    values: Column | None
    strange: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    if place.suffix in HDF5:
        values = _from_h5(place, n_nodes)
    elif (values := matrices.of_numpy(place, "labels", "y")) is None:
        own = is_own(text, data)
        values, strange = _from_table(place, n_nodes, names, own=own, strict=strict)
    if strange and names is not None:
        noun = "row is" if len(strange) == 1 else "rows are"
        warnings = (f"{place}: {len(strange):,} {noun} left out: {names.unknown(strange)}",)
    if isinstance(values, Words) or values.ndim != 2 or n_nodes not in (None, values.size):
        found = _labels(values, place, n_nodes)
        return replace(found, strange=strange, warnings=warnings + _slips(found, place))
    shape = values.shape
    if pixels is not None and shape != tuple(pixels):
        raise InputError(
            f"{place}: shape {shape}, but the picture has {pixels[0]} rows of {pixels[1]} pixels"
        )
    note = f"{place}: shape {shape}, taken row by row as labels of pixels"
    return replace(_labels(values.ravel(), place, n_nodes), notes=(note,), pixels=shape)


def _slips(found: Labels, place: Place) -> tuple[str, ...]:
    """A warning for every class of one label that is spelt nearly like one of more."""
    classes = [] if found.classes is None else list(found.classes)
    if not 0 < len(classes) <= _COMPARED:
        return ()
    sizes = np.bincount(found.codes[found.codes >= 0], minlength=len(classes)).tolist()
    counts = {one: size for one, size in zip(classes, sizes, strict=False) if one.isalpha()}
    common = [one for one, size in counts.items() if size > 1]
    alike = {one: spelt_alike(one, common, _ALIKE) for one, size in counts.items() if size == 1}
    return tuple(
        f"{place}: class {one!r} has one label, and {near!r} {counts[near]}: correct it, if it is "
        "a slip"
        for one, near in alike.items()
        if near is not None
    )


_COMPARED, _ALIKE = 200, 0.85  # classes that are compared, and share of the letters of both


def _from_h5(place: Place, n_nodes: int | None) -> Column:
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
    if place.suffix != anndata.ENDING:
        return LABEL_NAMES[0]
    if store.find(file, "/obs/mustlink") is not None:
        return "/obs/mustlink"
    raise InputError(
        f"{place.path}: name a column as {place.path.name}:/obs/COLUMN (obs has "
        f"{anndata.columns(file)})"
    )


def _without_nan(values: Column) -> Column:
    if isinstance(values, Words) or values.dtype.kind != "f":
        return values
    return np.where(np.isnan(values), -1.0, values)


def _labels(values: Column, place: Place, n_nodes: int | None) -> Labels:
    """Labels of a column of words or whole numbers; raises InputError."""
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
    as_text = values.dtype.kind == "O"
    texts = values.tolist() if as_text else [store.decoded(value) for value in values]
    known = sorted(set(texts) - UNKNOWN)
    if len(known) > _MOST_CLASSES:
        raise InputError(f"{place}: {len(known)} different texts, too many for classes")
    code = {word: at for at, word in enumerate(known)}
    codes = np.fromiter((code.get(text, -1) for text in texts), np.int64, len(texts))
    return Words(codes, tuple(known))


def _of_words(words: Words) -> Labels:
    """Codes without those of unknown words; categories that are whole numbers as numbers."""
    known = [word for word in words.categories if word not in UNKNOWN]
    numeric = known and all(w.isascii() and w.isdigit() and len(w) < 16 for w in known)
    code = {word: int(word) if numeric else at for at, word in enumerate(known)}
    table = np.array([*(code.get(word, -1) for word in words.categories), -1], dtype=np.int64)
    return Labels(table[words.codes], None if numeric else tuple(known))


def _check_count(shape: tuple[int, ...], n_nodes: int | None, place: Place) -> None:
    """Raise InputError for another number of labels than nodes, if need be before reading them."""
    if n_nodes is not None and len(shape) == 1 and shape[0] != n_nodes:
        raise LabelCountError(f"{place}: {shape[0]} labels, but the data has {n_nodes} nodes")


def _refuse_text(values: Any, where: str) -> None:
    if values.dtype.kind in "OSU":
        first = values[(0,) * values.ndim] if values.size else ""
        raise InputError(
            f"{where}: labels are text ({store.text(first)[:40]!r}); number the classes 0, 1, 2 …, "
            "and -1 for unknown, or write them to .csv or to a column of obs in .h5ad"
        )


def _from_table(
    place: Place, n_nodes: int | None, names: NodeNames | None, *, own: bool, strict: bool
) -> tuple[Column, tuple[str, ...]]:
    """The column of labels, in the order of the nodes where another column names these.

    And names that are left out.
    """
    where = str(place)
    table = tables.read_table(place.path)
    if len(table.columns) == 1 and not table.header and table.is_text(0):
        words = table.text(0)
        if table.n_rows - 1 == n_nodes:  # else the first line is a label, too
            table = Table((str(words[0]),), (words[1:],))
    at = node_column(table, names)
    label = tables.value_column(table, place.part, tables.LABEL, at)
    if label is None and place.part:
        raise InputError(f"{place}: no such column; the table has {tables.listed(table)}")
    if label is None:
        raise InputError(
            f"{place}: {len(table.columns)} columns; wanted is one label a line, or the header "
            f"`node,label`; name another column of labels as {place.path.name}:COLUMN"
        )
    column = _without_nan(table.columns[label])
    if at is None or (own and table.n_rows == n_nodes):
        return column, ()
    if n_nodes is None:
        raise InputError(f"{where}: a table node,label needs to know the number of nodes")
    cells = table.text(at)
    there = known_names(cells, names) if not strict and names is not None else slice(None)
    node = rows_of(cells[there], names, where, n_nodes)
    strange = (
        () if isinstance(there, slice) else tuple(dict.fromkeys(as_text(cells[~there]).tolist()))
    )
    if not isinstance(column, Words):
        if column.dtype.kind != "O":
            codes = to_integers(column[there], where, "row")
            return _placed(codes, node, n_nodes, where, cells[there]), strange
        column = _categories(column, place)
    codes = _placed(column.codes[there], node, n_nodes, where, cells[there], column.categories)
    return Words(codes, column.categories), strange


def _placed(
    label: NDArray[np.int64],
    node: NDArray[np.int64],
    n_nodes: int,
    where: str,
    cells: NDArray[Any],
    classes: Sequence[str] | None = None,
) -> NDArray[np.int64]:
    """Labels of all nodes, -1 where there is none; raises InputError for two of one node.

    `cells` are what the file calls the nodes.
    """
    labels = np.full(n_nodes, -1, dtype=np.int64)
    labels[node] = label
    twice = np.flatnonzero(labels[node] != label)
    if twice.size:
        at = node[twice[0]]
        called = at if cells.dtype.kind in "iuf" else store.text(str(cells[twice[0]]))
        both: Sequence[Any] = (int(label[twice[0]]), int(labels[at]))
        if classes is not None:
            both = [repr(store.text(classes[c])) if c >= 0 else "unknown" for c in both]
        raise InputError(f"{where}: node {called} is labelled {both[0]} and {both[1]}; keep one")
    return labels


ANSWER, ROW, PAIR = "answer", "row", ("first", "second")
TOGETHER = frozenset({"1", "yes", "y", "same", "together", "must"})
APART = frozenset({"-1", "no", "n", "different", "apart", "cannot"})
_NO_ANSWER = frozenset({"", "?", "don't know", "don’t know"})
_LARGEST = 1 << 26  # bytes of a table that a person fills in


@dataclass(frozen=True)
class Answered:
    """Rows (1,) or (2,) of one question, the answer, "" for "don't know", and the line."""

    nodes: tuple[int, ...]
    answer: str
    line: int


def check_replaceable(path: Path) -> None:
    """Raise InputError where questions would replace a file that is none, or has answers."""
    if not path.exists():
        return
    try:
        answers = load_answers(path, 2**62)
    except InputError:
        raise InputError(
            f"{path}: is there, and no table of questions; give another name to write to"
        ) from None
    if any(one.answer for one in answers):
        raise InputError(
            f"{path}: is there, and has answers; give them by mustlink answer, or another name to "
            "write to"
        )


def questions_text(header: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """Questions as CSV, with an empty column `answer` behind the others."""
    return table_text([*header, ANSWER], [[*line, ""] for line in lines])


def table_text(header: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """A table as CSV."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(header)
    table.writerows(lines)
    return out.getvalue()


def load_answers(path: Path, n: int) -> list[Answered]:
    """Answers on n rows by the columns `row`, or `first` and `second`, and `answer`; InputError.

    Other columns, empty lines and how titles are written do not matter: spreadsheets change these.
    Two equal answers count once, two different ones to one question are an error.
    """
    store.check_readable(path)
    if path.stat().st_size > _LARGEST:
        raise InputError(f"{path}: more than 64 MB, no table that a person filled in")
    lines = list(io.StringIO(_decoded(path)))
    mark = _mark((lines or [""])[0])
    table = csv.DictReader(lines, delimiter=mark, strict=True)
    try:
        titles = table.fieldnames = [title.strip().lower() for title in table.fieldnames or ()]
        names = PAIR if PAIR[0] in titles else (ROW,)
        missing = [name for name in (*names, ANSWER) if name not in titles]
        if missing and titles:
            there = ", ".join(titles[:8]) + (" …" if len(titles) > 8 else "")
            raise InputError(
                f"{path}: has no column {missing[0]}, but {there}; give "
                f"{', '.join(names)} and {ANSWER}, as mustlink ask writes them"
            )
        found: dict[tuple[int, ...], Answered] = {}
        for cells in table:
            line, answer = table.line_num, (cells[ANSWER] or "").strip()
            rows = [(cells[name] or "").strip() for name in names]
            if not any(rows) and not answer:
                continue
            nodes = tuple(_row(word, n, path, line) for word in rows)
            if len(set(nodes)) < len(nodes):
                raise InputError(f"{path}: line {line} asks about row {nodes[0]} twice; give two")
            one = Answered(nodes, "" if answer.lower() in _NO_ANSWER else answer, line)
            before = found.setdefault(tuple(sorted(nodes)), one)
            if before.answer != one.answer:
                raise InputError(
                    f"{path}: lines {before.line} and {line} answer row "
                    f"{' and '.join(map(str, nodes))} as {before.answer or '?'!r} and "
                    f"{one.answer or '?'!r}; leave one of them"
                )
    except csv.Error as error:
        raise InputError(f"{path}: is no table of text: {error}") from None
    if not found:
        raise InputError(f"{path}: has no line with an answer; mustlink ask writes questions")
    return list(found.values())


def _mark(header: str) -> str:
    """What separates cells: spreadsheets write semicolons, too, and headings may have commas."""

    def is_found(mark: str) -> tuple[bool, int]:
        titles = {one.strip().strip('"').lower() for one in header.split(mark)}
        return ANSWER in titles, header.count(mark)

    return max(",;\t", key=is_found)


def together(answer: str, path: Path, line: int) -> bool:
    """Whether two rows are together, from a word; raises InputError."""
    word = answer.lower()
    if word not in TOGETHER | APART:
        raise InputError(
            f"{path}: line {line} is answered {answer!r}; give yes or no, ? for don't know"
        )
    return word in TOGETHER


def _decoded(path: Path) -> str:
    raw = path.read_bytes()
    coding = "utf-16" if raw[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    try:
        return raw.decode(coding)
    except UnicodeDecodeError:
        kind = "a workbook" if raw[:2] == b"PK" else "no text in UTF-8"
        raise InputError(f"{path}: is {kind}; save it as CSV in UTF-8") from None


def _row(word: str, n: int, path: Path, line: int) -> int:
    word = word.removesuffix(".0")  # where a table of numbers has gaps
    if not (word.isascii() and word.isdigit() and len(word) < 16 and int(word) < n):
        raise InputError(f"{path}: line {line} has row {word[:40]!r}; rows are 0 to {n - 1}")
    return int(word)
