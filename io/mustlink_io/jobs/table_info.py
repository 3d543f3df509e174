"""What is in a table of points: its columns, what is missing in them, how many rows are equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mustlink.neighbours.points_by_rows import count_distinct
from mustlink_io import formats
from mustlink_io.formats import arrays, coordinates, edges, frames, tables


@dataclass(frozen=True)
class TableLook:
    """Shape (n, d) of the coordinates, what is told of every column, and of all rows.

    `columns` have name, type, missing and, of numbers, low and high, of text how many different
    words; `equal` rows have another one that is the same.
    """

    shape: tuple[int, int]
    columns: list[dict[str, Any]]
    missing_rows: int
    equal: int
    names: formats.NodeNames | None


def look_at_table(place: formats.Place) -> TableLook | None:
    """Look at the columns of a file; None where it is no table of points. Raises InputError."""
    table = _table(place)
    if table is None or edges.is_edge_table(table.header):
        return None
    texts, rest = tables.split_names(table)
    titles = coordinates.titles(table) or tuple(map(str, range(len(rest))))
    found = [_column(table, at, title) for at, title in zip(rest, titles, strict=True)]
    values = np.column_stack([numbers for _, numbers in found])
    gap = np.isnan(values)
    with np.errstate(over="ignore"):
        rows = np.hstack([np.where(gap, 0, values), gap]).astype(np.float32)
    return TableLook(
        (len(values), len(rest)),
        [told for told, _ in found],
        int(gap.any(axis=1).sum()),
        len(values) - count_distinct(rows),
        None if texts is None else formats.names_or_none(texts, str(place)),
    )


def _table(place: formats.Place) -> tables.Table | None:
    if place.part:
        return None
    if place.suffix == ".parquet":
        return frames.read_parquet(place.path)
    if place.suffix == ".csv":
        return tables.read_columns(place.path)
    if place.suffix == ".npy":
        array = arrays.load_npy(place.path)
        if array.ndim == 2 and array.size and array.dtype.kind in "biuf":
            return tables.Table((), tuple(array.T))
    return None


def _column(table: tables.Table, at: int, title: str) -> tuple[dict[str, Any], Any]:
    """What is told of a column, and its numbers or those of its words."""
    cells = table.text(at)
    numbers = coordinates.numbers_of(cells)
    kind = "number" if numbers is not None else "text"
    values = coordinates.numbers_of(cells, as_codes=True) if numbers is None else numbers
    assert values is not None
    known = values[~np.isnan(values)]
    told: dict[str, Any] = {"name": title, "type": kind, "missing": int(values.size - known.size)}
    if kind == "text":
        return told | {"different": int(np.unique(known).size)}, values
    ends = (float(known.min()), float(known.max())) if known.size else (None, None)
    return told | {"low": ends[0], "high": ends[1]}, values
