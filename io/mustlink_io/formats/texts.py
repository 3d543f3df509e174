"""Texts become sparse points: of a table, of lines of JSON, of a folder of files; by tf-idf."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.formats import tables
from mustlink_io.formats.tables import NODE, NodeNames, names_or_none
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.file_names import Place

TABLES = (".csv", ".parquet")
LINES = (".jsonl", ".ndjson")
MANY = 1000  # texts, from which a word of one text alone is left out: it joins it with no other


@dataclass(frozen=True)
class TextColumn:
    """What data are read as where `column` of them holds texts; of a folder any word will do."""

    column: str


@dataclass(frozen=True)
class Texts:
    """Rows (m, d) of tf-idf, float32 CSR of length 1, of those of n texts that have words.

    `kept` (m,) are their places among all texts, None where no text is left out; `names` are of
    all texts.
    """

    value: sp.csr_matrix
    names: NodeNames | None
    kept: NDArray[np.int64] | None
    left_out: int
    notes: tuple[str, ...]


def load(place: Place, column: str, ids: str | None = None) -> Texts:
    """Read texts and weigh their words: (1 + ln count) · idf, rows to length 1; raises InputError.

    Words are those of two letters or digits and more, in small letters and without accents. A text
    without a word that others have, too, has no direction, and is left out. `ids` is the column or
    key that names them. Cost O(letters).
    """
    check_kind(place)
    where = str(place) if place.path.is_dir() else f"{place}:{store.text(column)[:40]}"
    texts, names = read(place, column, ids)
    rows, notes = _weighed(texts, where)
    known = None if names is None else names_or_none(names, str(place))
    full = np.flatnonzero(np.diff(rows.indptr))
    left_out = len(texts) - full.size
    if full.size < 2:
        raise InputError(f"{where}: fewer than two texts have words; give more, or longer ones")
    if not left_out:
        return Texts(rows, known, None, 0, notes)
    first = int((np.diff(rows.indptr) == 0).argmax())
    which = f"row {first}" if known is None else known.shown(first)
    noun = "text has" if left_out == 1 else "texts have"
    more = f"{where}: {left_out:,} {noun} no word that counts: label -1, such as {which}"
    return Texts(rows[full], known, full.astype(np.int64), left_out, (*notes, more))


def read(
    place: Place, column: str, ids: str | None = None
) -> tuple[list[str], NDArray[np.object_] | None]:
    """The texts of a file or folder, and their names; raises InputError."""
    if place.path.is_dir():
        return _of_folder(place.path)
    where = f"{place}:{store.text(column)[:40]}"
    return (_of_lines if place.suffix in LINES else _of_table)(place.path, column, where, ids)


def is_of_texts(place: Place) -> bool:
    """Whether a column or a key of this file may hold texts."""
    return place.suffix in (*TABLES, *LINES)


def check_kind(place: Place) -> None:
    """Raise InputError unless a file may hold texts, or is a folder."""
    if place.path.is_dir() or (not place.part and is_of_texts(place)):
        return
    if place.part and place.suffix in TABLES:
        raise InputError(f"{place}: --text names the column; give {place.path}")
    raise InputError(
        f"{place}: --text reads a column of {', '.join(TABLES)}, a key of .jsonl, or a folder of "
        "text files; leave it out for points and graphs"
    )


def files_of(path: Path) -> list[Path]:
    """A file, or those of a folder and below, in order of names, hidden ones left out."""
    if not path.is_dir():
        return [path]
    found = []
    for at, below, names in os.walk(path):
        below[:] = [name for name in below if not name.startswith(".")]
        found += [Path(at) / name for name in names if not name.startswith(".")]
    return sorted(file for file in found if file.is_file())


def _weighed(texts: list[str], where: str) -> tuple[sp.csr_matrix, tuple[str, ...]]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    least = 2 if len(texts) >= MANY else 1
    vectorizer = TfidfVectorizer(
        sublinear_tf=True, min_df=least, strip_accents="unicode", dtype=np.float32
    )
    try:
        rows = sp.csr_matrix(vectorizer.fit_transform(texts))
    except ValueError:  # an empty vocabulary
        raise InputError(
            f"{where}: no words in {len(texts):,} texts; a word has two letters or more"
        ) from None
    rows.sort_indices()
    few = " of two texts or more" if least == 2 else ""
    note = f"{where}: {len(texts):,} texts are rows of tf-idf of {rows.shape[1]:,} words{few}"
    return rows, (note,)


def _of_folder(folder: Path) -> tuple[list[str], NDArray[np.object_]]:
    files = files_of(folder)
    if not files:
        raise InputError(f"{folder}: no files in this folder; --text reads every file as one text")
    names = [file.relative_to(folder).as_posix() for file in files]
    return [_decoded(file) for file in files], np.array(names, dtype=object)


def _decoded(path: Path) -> str:
    store.check_readable(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: no text in UTF-8 (byte {error.start}); save it as UTF-8, or take it away"
        ) from None


def _of_lines(
    path: Path, column: str, where: str, ids: str | None
) -> tuple[list[str], NDArray[np.object_] | None]:
    """The texts under a key of lines of JSON, and their names: `ids`, or a usual first key."""
    texts: list[str] = []
    names: list[str] = []
    called: str | None = None
    for number, line in enumerate(_decoded(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            raise InputError(f"{path}: line {number} is no object of JSON; write one a line")
        value = entry.get(column, "" if texts else None)
        if column not in entry and not texts:
            listed = ", ".join(map(store.text, list(entry)[:12])) or "no keys"
            raise InputError(f"{where}: no such key; the first line has {listed}")
        if not isinstance(value, str | None):
            raise InputError(f"{where}: line {number} has {str(value)[:40]}, where text is wanted")
        if not texts:
            first = next(iter(entry))
            called = first if first.lower() in NODE and first != column else None
            if ids is not None and ids not in entry:
                raise InputError(f"--id {ids}: no such key; {path} has {', '.join(entry)}")
            called = ids or called
        texts.append(value or "")
        if called is not None:
            names.append(str(entry.get(called, "")))
    if not texts:
        raise InputError(f"{path}: empty, no texts in it")
    return texts, np.array(names, dtype=object) if names else None


def _of_table(
    path: Path, column: str, where: str, ids: str | None
) -> tuple[list[str], NDArray[np.object_] | None]:
    table = tables.read_table(path)
    if not table.header and len(table.columns) == 1 and table.is_text(0):
        words = table.text(0)  # a single column of text has its title in the first line
        table = tables.Table((str(words[0]),), (words[1:],))
    title = column.strip().lower()
    table = tables.with_ids(table, ids, str(path), (title, *tables.LABEL))
    at = tables.find_column(table.header, (title,))
    if at is None:
        raise InputError(f"{where}: no such column; the table has {tables.listed(table)}")
    if not table.is_text(at):
        raise InputError(f"{where}: a column of numbers, no texts; leave out --text")
    names, rest = tables.split_names(table)
    return [str(cell) for cell in table.text(at)], names if at in rest else None
