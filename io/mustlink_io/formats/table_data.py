"""What a table is: points, or edges where its header says so."""

from __future__ import annotations

from mustlink.errors import InputError
from mustlink_io.formats import (
    adjacency,
    coordinates,
    edge_lines,
    edges,
    own_columns,
    preparing,
    tables,
)
from mustlink_io.formats.data import Read
from mustlink_io.formats.names import names_or_none
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.file_names import Place


def arcs(found: adjacency.Found) -> Read:
    """Edges as a file lists them, each in its direction."""
    return Read(*found, is_graph=True, arcs=True)


def of_csv(place: Place, asked: preparing.Asked) -> Read:
    """Edges or points of a table in text; raises InputError."""
    words = tables.words_of(tables.first_line(place.path)[1])
    if edges.is_edge_table(words):
        return arcs(edges.read_edges(place.path, directed=True))
    try:
        names, numbers = tables.read_csv(place.path)
        table = tables.exact(place.path, names, numbers)
        if tables.find_column(names[:1], tables.NODE) is None and not asked.apart:
            doubts = coordinates.doubtful(table, str(place), asked.steps.drop)
            return Read(numbers, doubts=doubts, columns=table.header)
    except tables.WordError as error:
        table = tables.read_table(place.path)
        try:
            return of_table(table, str(place), asked)
        except coordinates.TextColumnsError as found:
            if tables.find_column(words[:1], tables.NODE) is None:
                raise _hinted(error, found, place, words) from error
            raise
    return of_table(table, str(place), asked)


def _hinted(error: InputError, found: InputError, place: Place, header: list[str]) -> InputError:
    """The error of a table whose words may be the ends of edges: with what to do."""
    if all(map(tables.is_number, header)):
        return error  # no header: the place of the word says more
    number, line = tables.first_line(place.path)
    below = edge_lines.second_line(place.path, number, line)[1].split(tables.delimiter(line))
    text = [bool(word.strip()) and not tables.is_number(word.strip(' "')) for word in below]
    if len(header) not in (2, 3) or len(below) != len(header) or not all(text[:2]):
        return found
    columns = ",".join(("source", "target", "weight")[: len(header)])
    return InputError(
        f"{place}: has words where coordinates of points are numbers; if it is a list of edges, "
        f"begin it with the header `{columns}` ({str(error).removeprefix(f'{place}: ')})"
    )


def of_table(table: tables.Table, where: str, asked: preparing.Asked) -> Read:
    """Edges or points of a table, as its header says; raises InputError."""
    if edges.is_edge_table(table.header):
        return arcs(edges.of_table(table, where, directed=True))
    table, notes = own_columns.without(table, asked.apart, where)
    values, texts = coordinates.points_of(table, where, asked.steps.one_hot, asked.steps.drop)
    doubts = coordinates.doubtful(table, where, asked.steps.drop)
    columns = coordinates.titles(table)
    if texts is None:
        return Read(values, doubts=doubts, columns=columns, notes=notes)
    names = names_or_none(texts, where)
    note = f"{where}: its column {store.text(table.header[0])[:40]!r} is taken as names of points"
    return Read(values, names, note, doubts=doubts, columns=columns, notes=notes)
