"""Columns of the data's own table that hold its labels or its weights: none are coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mustlink.errors import InputError
from mustlink.preparation.request import Preparation
from mustlink_io.formats import frames, tables
from mustlink_io.formats.preparing import Apart
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.file_names import Place, parse

WEIGHT = ("weight", "weights", "count", "counts", "sample_weight")
_TABLES = (".csv", ".tsv", ".parquet")


def columns_apart(
    data: str, labels: str | None = None, weights: str | None = None
) -> tuple[Apart, ...]:
    """Columns of the table `data` that labels or weights are read from."""
    found = []
    for option, text, usual in (("--labels", labels, tables.LABEL), ("--weights", weights, WEIGHT)):
        if text is None or not is_own(text, data):
            continue
        place = parse(text)
        if place.part is not None:
            found.append(Apart(option, place.part.strip("/").lower()))
        elif place.path.exists():
            header = [word.lower() for word in _header(place)]
            found += [Apart(option, name) for name in usual if name in header][:1]
    return tuple(found)


def _header(place: Place) -> Sequence[str]:
    if place.suffix == ".parquet":
        return frames.column_names(place.path)
    return tables.words_of(tables.first_line(place.path)[1])


def is_own(text: str, data: str) -> bool:
    """Whether a file is the table of the data itself."""
    place = parse(text)
    return place.suffix in _TABLES and place.path == parse(data).path


def still_to_drop(steps: Preparation, apart: Sequence[Apart]) -> Preparation:
    """Steps without dropping what is left out anyway."""
    gone = {one.name for one in apart}
    drop = tuple(word for word in steps.drop if str(word).strip().lower() not in gone)
    return steps if len(drop) == len(steps.drop) else replace(steps, drop=drop)


def without(
    table: tables.Table, apart: Sequence[Apart], where: str
) -> tuple[tables.Table, tuple[str, ...]]:
    """The table without these columns, and a note for each; raises InputError."""
    gone: dict[int, str] = {}
    for one in apart:
        at = tables.find_column(table.header, (one.name,))
        if at is None:
            listed = ", ".join(store.text(name) for name in table.header[:12]) or "no header"
            shown = store.text(one.name)[:40]
            raise InputError(f"{where}:{shown}: no such column; the table has {listed}")
        gone[at] = one.option
    rest = [at for at in range(len(table.columns)) if at not in gone]
    if not rest:
        raise InputError(f"{where}: no columns beside that of {' and '.join(gone.values())}")
    notes = tuple(
        f"{where}: its column {store.text(table.header[at])[:40]!r} is that of {option} and no "
        "coordinate"
        for at, option in gone.items()
    )
    header = tuple(table.header[at] for at in rest) if table.header else ()
    return tables.Table(header, tuple(table.columns[at] for at in rest)), notes
