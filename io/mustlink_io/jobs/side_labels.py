"""Labels of the rows and columns of a matrix: of all or of one side; and answers for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink_io import formats

_APART = ("row_labels", "column_labels", "sending_labels", "receiving_labels")


def labels_of(
    text: str, data: formats.Data, pixels: tuple[int, ...] | None = None, source: str = ""
) -> formats.Labels:
    """Labels of the nodes in a file; as many as there are rows, or columns, are of these.

    The other side's are unknown. Where there are as many rows as columns they are of the rows.
    Raises InputError.
    """
    try:
        return formats.load_classes(text, data.n_rows, data.names, pixels, source)
    except formats.LabelCountError as error:
        return _of_one_side(text, data.sides, error)


def labels_beside(
    text: str,
    n: int,
    names: formats.NodeNames | None,
    sides: tuple[int, int] | None,
    pixels: tuple[int, ...] | None = None,
) -> formats.Labels:
    """The same of the n nodes of a result, of rows and columns where it has `sides`."""
    try:
        return formats.load_classes(text, n, names, pixels)
    except formats.LabelCountError as error:
        return _of_one_side(text, sides, error)


def _of_one_side(
    text: str, sides: tuple[int, int] | None, error: formats.LabelCountError
) -> formats.Labels:
    """Labels of as many rows or columns as there are; else the error is raised."""
    if sides is None:
        raise error
    n, m = sides
    for count, first, noun in ((n, 0, "rows"), (m, n, "columns")):
        try:
            found = formats.load_classes(text, count)
        except formats.LabelCountError:
            continue
        codes = np.full(n + m, -1, dtype=np.int64)
        codes[first : first + count] = found.codes
        note = f"{text}: {count:,} labels, taken as those of the {noun}"
        return replace(found, codes=codes, notes=(*found.notes, note))
    cure = f"labels of its {n} rows, or of its {m} columns, are enough"
    raise formats.LabelCountError(f"{error}; {cure}") from None


def answers_apart(estimator: Any) -> Mapping[str, NDArray[Any]]:
    """Labels of rows and columns, or of who sends and who receives, as entries of a result file."""
    names = (name for name in _APART if hasattr(estimator, f"{name}_"))
    return {f"/{name}": np.asarray(getattr(estimator, f"{name}_")) for name in names}
