"""Tables in text and Parquet: their columns, and which rows of the data their cells name."""

from __future__ import annotations

import difflib
import os
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError, spelt_alike
from mustlink.preprocessing.cells import MISSING, numbers_with_comma, read_cells
from mustlink_io.formats.text import CellError, Column, Kind, TextFile, Words, is_number, open_text
from mustlink_io.hdf5 import size_checks, store, writing
from mustlink_io.hdf5.sandbox import examine
from mustlink_io.system import needed

NODE = ("node", "name", "index", "", "__index_level_0__")  # headers of a column that names nodes
_LONGEST_ID = 40  # letters of a text that names a row
LABEL = ("label", "labels", "class", "cluster")


@dataclass(frozen=True)
class Table:
    """Columns by position: numbers, text (object arrays of str), or Words.

    `header` is empty where the file has none; `notes` are how it was read; `named`: the first
    column names the rows, whatever its title is.
    """

    header: tuple[str, ...]
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()
    named: bool = False

    @property
    def n_rows(self) -> int:
        """Rows below the header."""
        first = self.columns[0]
        return len(first.codes if isinstance(first, Words) else first)

    def text(self, at: int) -> NDArray[Any]:
        """A column, with text in place of codes."""
        column = self.columns[at]
        return column.texts() if isinstance(column, Words) else column

    def is_text(self, at: int) -> bool:
        """Whether a column has words."""
        column = self.columns[at]
        return isinstance(column, Words) or column.dtype.kind == "O"


def read_table(path: Path) -> Table:
    """Read a table in Parquet or in text; raises InputError.

    In text a column is of numbers if all its cells are numbers or empty (NaN). The first line is a
    header if there is a word on it; of a single column only if that is a usual name of labels, or
    there are only numbers below.
    """
    if path.suffix.lower() == ".parquet":
        return _read_parquet(path)
    text = open_text(path)
    names = tuple(text.cells)
    if all(map(is_number, names)) or (
        text.mark == ";" and numbers_with_comma(list(names), surely=True) is not None
    ):
        return _with_decimals(Table((), _columns(text, len(names))), text)
    below = text.below()
    columns = _columns(below, len(names))
    table = Table(names, columns)
    if len(names) == 1 and names[0].lower() not in LABEL and table.is_text(0):
        return Table((), _columns(text, 1))
    return _with_decimals(table, below)


def _with_decimals(table: Table, text: TextFile) -> Table:
    """The table with decimal commas as numbers, where `;` separates cells and some have such.

    Then 1.234 in a column that only has such is a thousand, too.
    """
    if text.mark != ";":
        return table
    columns: list[Column] = list(table.columns)
    found = _with_comma({at: table.text(at) for at in range(len(columns)) if table.is_text(at)})
    if not found:
        return table
    points = [
        at
        for at, column in enumerate(columns)
        if not isinstance(column, Words)
        and column.dtype.kind == "f"
        and (np.mod(column, 1) > 0).any()
    ]
    if points:
        written = text.read([str] * len(columns))
        found |= _with_comma({at: written[at] for at in points}, surely=True)
    for at, numbers in found.items():
        columns[at] = numbers
    note = f"{text.path}: ; separates cells, and , is the decimal sign"
    return Table(table.header, tuple(columns), (note,))


def _with_comma(
    columns: Mapping[int, NDArray[Any]], *, surely: bool = False
) -> dict[int, NDArray[np.float64]]:
    """Those of some columns of text that are numbers with decimal commas; NaN for empty cells."""
    found = {}
    for at, cells in columns.items():
        known = [cell for cell in dict.fromkeys(cells.tolist()) if cell not in MISSING]
        if surely or any("," in cell for cell in known):
            numbers = numbers_with_comma(known, surely=True)
            if numbers is not None:
                places = dict(zip(known, numbers, strict=True))
                found[at] = np.array([places.get(cell, np.nan) for cell in cells.tolist()])
    return found


def _columns(text: TextFile, width: int) -> tuple[NDArray[Any], ...]:
    """Columns of numbers, of text where a cell is no number.

    Numbers are integers where in double precision not all of them exist, as of 64-bit identifiers.
    """
    kinds: list[Kind] = [float] * width
    while True:
        try:
            columns = text.read(kinds)
            break
        except CellError as error:
            for at in error.columns:
                kinds[at] = str
    rounded = [
        kind is float and _may_be_rounded(of) for kind, of in zip(kinds, columns, strict=True)
    ]
    if any(rounded):
        written = text.read(
            [str if odd else kind for odd, kind in zip(rounded, kinds, strict=True)]
        )
        for at in np.flatnonzero(rounded).tolist():
            columns[at] = _exact(written[at], columns[at])
    return tuple(columns)


def _may_be_rounded(column: NDArray[np.float64]) -> bool:
    """Whether numbers are whole, none is missing, and some are so large that whole ones lack."""
    size = float(np.abs(column).max(initial=0.0))
    return 2.0**53 <= size <= 2.0**64 and bool((column == np.rint(column)).all())


def _exact(cells: NDArray[np.object_], rounded: NDArray[np.float64]) -> NDArray[Any]:
    try:
        whole = np.array([int(cell) for cell in cells])
    except ValueError:  # as 1e17
        return rounded
    return whole if whole.dtype.kind in "iu" else rounded


def to_integers(values: NDArray[Any], where: str, what: str) -> NDArray[np.int64]:
    """Cast whole numbers to int64; raises InputError naming the first value that is not one."""
    if values.dtype.kind in "iub":
        if values.dtype.kind == "u" and values.size and values.max() > np.iinfo(np.int64).max:
            at = np.argwhere(values > np.iinfo(np.int64).max)[0]
            raise InputError(f"{where}: {what} {int(at[0])} is {values[tuple(at)]}, too large")
        return values.astype(np.int64)
    with np.errstate(invalid="ignore"):
        whole = np.isfinite(values) & (values == np.rint(values)) & (np.abs(values) < 2.0**53)
    if not whole.all():
        at = np.argwhere(~whole)[0]
        raise InputError(f"{where}: {what} {int(at[0])} is {values[tuple(at)]}, not a whole number")
    return values.astype(np.int64)


def find_column(header: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Place of the first of some names in a header, None if it has none of them."""
    names = [name.strip().lower() for name in header]
    return next((names.index(name) for name in wanted if name in names), None)


def value_column(
    table: Table, part: str | None, usual: Sequence[str], node: int | None
) -> int | None:
    """Place of the column `part`, else of a usual one, else of the only one beside `node`."""
    if part is not None:
        return find_column(table.header, (part.strip("/").lower(),))
    found = find_column(table.header, usual)
    rest = [at for at in range(len(table.columns)) if at != node]
    return rest[0] if found is None and len(rest) == 1 else found


def listed(table: Table) -> str:
    """Names of columns for a message."""
    return ", ".join(store.text(name) for name in table.header[:12]) or "no header"


def split_names(table: Table) -> tuple[NDArray[np.object_] | None, list[int]]:
    """Return the column of node names as text, if the header has one, and the other columns."""
    at = 0 if table.named else find_column(table.header[:1], NODE)
    rest = [column for column in range(len(table.columns)) if column != at]
    if at is None or not rest:
        return None, list(range(len(table.columns)))
    return as_text(table.text(at)), rest


def with_ids(table: Table, wanted: str | None, where: str, others: Collection[str] = ()) -> Table:
    """The table with the column that names its rows first; raises InputError.

    `wanted` is its title. None: the first column, where it is words, none twice or empty, and its
    title is none of `others`; a column that `split_names` finds names rows anyway.
    """
    if wanted is None:
        return replace(table, named=True) if _is_of_ids(table, others) else table
    at = find_column(table.header, (wanted.strip().lower(),))
    shown = store.text(wanted)[:40]
    if at is None:
        near = spelt_alike(wanted, table.header)
        there = f"{where} has {listed(table)}" if near is None else f"did you mean {near}?"
        raise InputError(f"--id {shown}: no such column; {there}")
    cells = as_text(table.text(at)).tolist()
    twice = [cell for cell, times in Counter(cells).items() if times > 1 or cell in MISSING]
    if twice:
        rows = [str(row) for row, cell in enumerate(cells) if cell == twice[0]][:2]
        what = f"{store.text(twice[0])[:40]!r} is in rows {' and '.join(rows)}"
        if twice[0] in MISSING:
            what = f"row {rows[0]} has none"
        raise InputError(f"--id {shown}: {what} of {where}; name a column with an id a row")
    order = [at, *(other for other in range(len(table.columns)) if other != at)]
    return replace(
        table,
        header=tuple(table.header[one] for one in order),
        columns=tuple(table.columns[one] for one in order),
        named=True,
    )


def _is_of_ids(table: Table, others: Collection[str]) -> bool:
    """Whether the first column is short words, all different, and neither dates nor yes/no."""
    if len(table.columns) < 2 or table.n_rows < 2 or not table.header or not table.is_text(0):
        return False
    title = table.header[0].strip().lower()
    cells = table.text(0)
    if title in (*NODE, *others) or len(set(cells)) < len(cells) or not MISSING.isdisjoint(cells):
        return False
    if max(map(len, cells)) > _LONGEST_ID:
        return False
    return read_cells(cells, title, "", slips=True).is_words


def as_text(cells: NDArray[Any]) -> NDArray[np.object_]:
    """Cells as text, whole numbers without a point."""
    if cells.dtype.kind == "O":
        return cells
    return np.array(
        [str(int(cell)) if float(cell).is_integer() else str(cell) for cell in cells.tolist()],
        dtype=object,
    )


_WHOLE = re.compile(r"[+-]?\d+")
_LISTED = 5  # unknown names in a message
_COMPARED = 20_000  # names that an unknown one is compared with, at most


class NodeNames:
    """The names (n,) that a data file has for its nodes, as text; `where` is that file.

    `title` is that of their column, in small letters.
    """

    def __init__(self, texts: NDArray[np.object_], where: str, title: str = "") -> None:
        self.texts, self.where, self.title = texts, where, title

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def _row(self) -> Mapping[str, int]:
        return {text: row for row, text in enumerate(self.texts)}

    @property
    def repeated(self) -> str | None:
        """A name that two nodes have, None if every node has its own."""
        if len(self._row) == len(self.texts):
            return None
        return next(t for row, t in enumerate(self.texts) if self._row[t] != row)

    @cached_property
    def are_numbers(self) -> bool:
        """Whether all names are whole numbers: numbers in side files are then names, not rows."""
        return all(map(_WHOLE.fullmatch, self.texts))

    def shown(self, row: int) -> str:
        """The name of a row as a message shows it."""
        return store.text(self.texts[row])[:40]

    def unknown(self, cells: Sequence[str]) -> str | None:
        """A message on cells that are no name, with names that are like them; None if all are."""
        row = self._row
        found = [cell for cell in dict.fromkeys(cells) if cell not in row]
        if not found:
            return None
        named = []
        for cell in found[:_LISTED]:
            near = [] if len(row) > _COMPARED else difflib.get_close_matches(cell, row, 2)
            like = " or ".join(repr(store.text(one)[:40]) for one in near)
            named.append(repr(store.text(cell)[:40]) + (f" (did you mean {like}?)" if near else ""))
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        return (
            f"no node of {self.where} is named {', '.join(named)}{more} (names are as "
            f"{self.shown(0)!r}); correct them, or leave them out"
        )

    def share(self, cells: NDArray[Any]) -> float:
        """The share of some cells that are names."""
        return float(self.known(cells).sum()) / max(len(cells), 1)

    def known(self, cells: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of some cells are names."""
        row = self._row
        return np.fromiter((cell in row for cell in cells), np.bool_, len(cells))

    def missing(self, cells: Sequence[str]) -> str | None:
        """The first of some cells that is no name, None if all are."""
        row = self._row
        return next((cell for cell in cells if cell not in row), None)

    def rows(self, cells: Sequence[str]) -> NDArray[np.int64]:
        """Rows of names that are all known."""
        return np.fromiter(map(self._row.__getitem__, cells), np.int64, len(cells))

    def matched(self, other: NodeNames) -> NDArray[np.int64]:
        """Rows that have the names of another file's nodes; raises InputError."""
        for one in (self, other):
            if one.repeated is not None:
                why = f"two nodes of {one.where} are named {store.text(one.repeated)[:40]!r}"
                raise InputError(f"{other.where}: cannot be matched by name: {why}")
        unknown = self.unknown(list(other.texts))
        if unknown is not None:
            raise InputError(f"{other.where}: cannot be matched by name: {unknown}")
        return self.rows(list(other.texts))


def names_in_file(file: h5py.File) -> NodeNames | None:
    """Names of the nodes in `/names` of an HDF5 file, None for none, or 0, 1, 2 …; InputError."""
    if store.find(file, "/names") is None:
        return None
    return names_or_none(store.texts(file, "/names"), str(file.filename))


def names_or_none(texts: NDArray[np.object_], where: str, title: str = "") -> NodeNames | None:
    """Names, unless they are 0, 1, 2 …: the rows themselves."""
    if all(text == str(row) for row, text in enumerate(texts)):
        return None
    return NodeNames(texts, where, title.strip().lower())


def node_column(
    table: Table, names: NodeNames | None, header: Sequence[str] | None = None
) -> int | None:
    """Place of the column that names nodes: called as in the data or as usual, or all are names."""
    if len(table.columns) < 2:
        return None
    usual = NODE if names is None or not names.title else (names.title, *NODE)
    at = find_column(table.header if header is None else header, usual)
    if at is not None or names is None:
        return at
    # under any title: the names of the data say what it is, also where a few are unknown
    words = {one: names.share(table.text(one)) for one in range(len(table.columns))
             if table.is_text(one)}  # fmt: skip
    best = max(words, key=words.__getitem__, default=None)
    return best if best is not None and words[best] > 0.5 else None


def rows_of(
    cells: NDArray[Any], names: NodeNames | None, where: str, n_nodes: int
) -> NDArray[np.int64]:
    """The rows of `node_rows`, all of them among so many nodes; raises InputError."""
    rows = node_rows(cells, names, where)
    wrong = np.flatnonzero((rows < 0) | (rows >= n_nodes))
    if wrong.size:
        raise InputError(
            f"{where}: row {wrong[0]} names node {rows[wrong[0]]}, but there are {n_nodes} nodes, "
            "numbered from 0"
        )
    return rows


def known_names(cells: NDArray[Any], names: NodeNames) -> NDArray[np.bool_]:
    """Which cells of a side file are names of rows; all where none is, or they may be numbers."""
    texts = as_text(cells)
    numeric = not names.are_numbers and all(map(_WHOLE.fullmatch, texts))
    found = names.known(texts)
    return found if found.any() and not numeric else np.ones(len(texts), dtype=bool)


def node_rows(cells: NDArray[Any], names: NodeNames | None, where: str) -> NDArray[np.int64]:
    """Rows that cells of a side file mean: names where all are known as such, else numbers from 0.

    Where all names are numbers, or names repeat, only the one or only the other. Raises
    InputError naming the cells that mean no node.
    """
    if names is None:
        if cells.dtype.kind != "O":
            return to_integers(cells, where, "node")
        wrong = next((cell for cell in cells if not _WHOLE.fullmatch(cell)), None)
        if wrong is not None:
            raise InputError(
                f"{where}: names a node {store.text(wrong)[:40]!r}, but the data has no names; "
                "number the nodes from 0"
            )
        return _numbers(cells, where)
    texts = as_text(cells)
    unknown = names.missing(list(texts))
    if unknown is None and names.repeated is None:
        return names.rows(list(texts))
    numeric = all(map(_WHOLE.fullmatch, texts))
    if numeric and (names.repeated is not None or not names.are_numbers):
        return _numbers(texts, where)
    if names.repeated is not None:
        raise InputError(
            f"{where}: nodes have names here, but {names.where} has several nodes named "
            f"{store.text(names.repeated)[:40]!r}; number them from 0, in the order of the data"
        )
    raise InputError(f"{where}: {names.unknown(list(texts))}")


def _numbers(cells: NDArray[np.object_], where: str) -> NDArray[np.int64]:
    try:
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    except (OverflowError, ValueError) as error:
        raise InputError(f"{where}: a node number is too large") from error


_DAMAGED = "not a Parquet file, or damaged"
_SPARE = 2**31  # bytes that pyarrow may reserve beside the values


def _pyarrow(path: str | Path) -> Any:
    needed("pyarrow.parquet", path, "frames")  # loaded before a child process is started
    return needed("pyarrow", path, "frames")


def _read_parquet(path: Path) -> Table:
    """Read a table; text and categories stay text. Raises InputError.

    A child process reads it first, as a damaged file may crash the library.
    """
    pyarrow = _pyarrow(path)
    store.check_file(path)
    with store.refusing(f"{path}: {_DAMAGED}"):
        about = pyarrow.parquet.read_metadata(path)
        size = max(0, int(about.num_rows)) * max(1, int(about.num_columns)) * 8
        size_checks.check_fits(size, str(path))
        examine(str(path), lambda: _of_parquet(pyarrow, path), size + _SPARE)
        return _of_parquet(pyarrow, path)


def column_names(path: Path) -> list[str]:
    """Names of the columns of a table, of text its first line; raises InputError."""
    if path.suffix.lower() != ".parquet":
        return open_text(path).cells
    pyarrow = _pyarrow(path)
    store.check_file(path)
    with store.refusing(f"{path}: {_DAMAGED}"):
        return [str(name) for name in pyarrow.parquet.read_schema(path).names]


def _of_parquet(pyarrow: Any, path: Path) -> Table:
    table = pyarrow.parquet.ParquetFile(path).read(use_threads=False)
    if not table.num_rows or not table.num_columns:
        raise InputError(f"{path}: a table without values")
    order = list(table.column_names)
    about = table.schema.pandas_metadata or {}
    index = [name for name in about.get("index_columns", ()) if name in order]
    header = list(order)
    if len(index) == 1 and "node" not in order:  # pandas puts it last, under a name of its own
        order = index + [name for name in order if name != index[0]]
        header = ["node", *order[1:]]
    columns = [_parquet_column(pyarrow, table.column(name), name, path) for name in order]
    return Table(tuple(header), tuple(columns))


def _parquet_column(pyarrow: Any, column: Any, name: str, path: Path) -> Column:
    kind, types = column.type, pyarrow.types
    if types.is_dictionary(kind):
        return _categories(column, kind, types, f"{path}:{store.text(name)}")
    if types.is_temporal(kind):
        column, kind = column.cast("string"), pyarrow.string()
    if types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind):
        return np.array([word or "" for word in column.to_pylist()], dtype=object)
    if types.is_boolean(kind) or types.is_integer(kind):
        whole = column.cast("float64", safe=False) if column.null_count else column
        return np.asarray(whole.to_numpy())
    if types.is_floating(kind) or types.is_decimal(kind):
        return np.asarray(column.cast("float64", safe=False).to_numpy())
    raise InputError(
        f"{path}: column {store.text(name)[:40]!r} is of type {str(kind)[:40]}; read are numbers "
        "and text"
    )


def _categories(column: Any, kind: Any, types: Any, where: str) -> Column:
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


class ParquetRows:
    """Points (n, d) of a folder of Parquet files, in order of their names, read by row groups.

    All columns are numbers, and the same in every file. `rows[a:b]` is float64 (b - a, d), an empty
    cell NaN; a row group is in memory. Raises InputError.
    """

    dtype = np.dtype(np.float64)
    ndim = 2

    def __init__(self, folder: Path) -> None:
        pyarrow = _pyarrow(folder)
        self.header: tuple[str, ...] = ()
        starts, self._groups = [0], []
        for path in parquet_files(folder):
            store.check_file(path)
            with store.refusing(f"{path}: {_DAMAGED}"):
                examine(str(path), partial(pyarrow.parquet.read_metadata, path), _SPARE)
                about = pyarrow.parquet.read_metadata(path)
                schema = about.schema.to_arrow_schema()
            names = tuple(str(name) for name in schema.names)
            if self.header and names != self.header:
                raise InputError(f"{path}: its columns are not those of the files before it")
            for column in schema:
                kind, is_a = column.type, pyarrow.types
                if not (is_a.is_integer(kind) or is_a.is_floating(kind) or is_a.is_boolean(kind)):
                    raise InputError(
                        f"{path}: column {store.text(column.name)[:40]!r} is of type "
                        f"{str(kind)[:40]}; columns of a folder are numbers"
                    )
            self.header = names
            for number in range(about.num_row_groups):
                self._groups.append((path, number))
                starts.append(starts[-1] + about.row_group(number).num_rows)
        self._starts = np.array(starts)
        self.shape = starts[-1], len(self.header)
        self.chunks = (max(1, int(np.diff(self._starts).max(initial=1))),)
        self._read: tuple[int, NDArray[np.float64]] | None = None

    def _group(self, at: int) -> NDArray[np.float64]:
        if self._read is None or self._read[0] != at:
            path, number = self._groups[at]
            with store.refusing(f"{path}: {_DAMAGED}"):
                opened = needed("pyarrow.parquet", path, "frames").ParquetFile(path)
                table = opened.read_row_group(number, use_threads=False)
            found = [column.to_numpy().astype(np.float64) for column in table.columns]
            self._read = at, np.column_stack(found)
        return self._read[1]

    def __getitem__(self, rows: slice) -> NDArray[np.float64]:
        start, stop, _ = rows.indices(self.shape[0])
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        last = int(np.searchsorted(self._starts, stop, side="left"))
        parts = [
            self._group(at)[max(start - begin, 0) : stop - begin]
            for at, begin in zip(range(first, last), self._starts[first:last], strict=True)
        ]
        return np.concatenate(parts) if parts else np.empty((0, self.shape[1]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(dtype or self.dtype, copy=False)


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files of a folder, in order of their names; none where it is no folder."""
    return sorted(folder.glob("[!.]*.parquet")) if os.path.isdir(folder) else []


def write_parquet(path: str, columns: Mapping[str, Any]) -> None:
    """Write columns: arrays of numbers, object arrays of text."""
    pyarrow = _pyarrow(path)
    table = pyarrow.table({name: pyarrow.array(values) for name, values in columns.items()})
    with writing.atomic(path) as temporary:
        pyarrow.parquet.write_table(table, temporary)
