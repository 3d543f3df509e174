"""Points of a file with their columns prepared, in memory or by blocks of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.preparation.fitted import Fitted, PreparedRows, prepared
from mustlink.preparation.request import Preparation
from mustlink_io.formats import stream
from mustlink_io.hdf5 import size_checks


@dataclass(frozen=True)
class Apart:
    """A column, by its name in small letters, that is none of the points: `option` reads it."""

    option: str
    name: str


@dataclass(frozen=True)
class Asked:
    """What is to be done to points, and from how many bytes on they are left on disk.

    `apart` are columns of a table that are none of the points; `gaps` are kept as NaN where no step
    fills them.
    """

    steps: Preparation
    lazy_above: int | None = None
    apart: tuple[Apart, ...] = ()
    gaps: bool = False


@dataclass(frozen=True)
class Made:
    """Points (m, d') as array or rows, how they were prepared, rows of the file that are kept."""

    value: Any
    fitted: Fitted | None = None
    kept: NDArray[np.int64] | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What was decided."""
        return () if self.fitted is None else self.fitted.notes


Reopen = Callable[[bool], Any]  # whether rows are to be as the file has them


def points(
    source: Any,
    asked: Asked,
    columns: Sequence[str],
    where: str,
    advance: stream.Advance,
    reopen: Reopen | None = None,
) -> Made:
    """Read points, prepared as asked; raises InputError.

    `reopen` gives rows that stay readable, where points may be left on disk.
    """
    stream.check_points_shape(source, where)
    steps = asked.steps
    if steps.is_nothing:
        if _stays(source.shape, asked) and reopen is not None:
            stream.check_points(source, where, advance, columns)
            return Made(reopen(False))
        size_checks.check_fits(4 * math.prod(source.shape), where)
        return Made(stream.read_points(source, where, advance, columns, gaps=asked.gaps))
    lazy = reopen is not None and _may_stay(source.shape, asked)
    rows = prepared(
        reopen(True) if reopen is not None and lazy else source,
        steps,
        columns,
        where=where,
        advance=lambda share: advance(share / 2),
    )
    if lazy and _stays(rows.shape, asked):
        return Made(rows, rows.fitted, rows.kept)
    size_checks.check_fits(4 * math.prod(rows.shape), where)
    return Made(_read(rows, advance), rows.fitted, rows.kept)


def _read(rows: PreparedRows, advance: stream.Advance) -> NDArray[np.float32]:
    """All rows, block by block."""
    found = np.empty(rows.shape, dtype=np.float32)
    n, d = rows.shape
    step = max(1, stream.BLOCK_BYTES // (32 * max(d, int(rows.source.shape[1]))))
    for a in range(0, n, step):
        found[a : a + step] = rows[a : a + step]
        advance(0.5 + 0.5 * min(1.0, (a + step) / n))
    return found


def _stays(shape: Sequence[int], asked: Asked) -> bool:
    return asked.lazy_above is not None and 4 * math.prod(shape) > asked.lazy_above


def _may_stay(shape: Sequence[int], asked: Asked) -> bool:
    """Columns of categories become many: the shape tells only afterwards."""
    return asked.lazy_above is not None and (bool(asked.steps.one_hot) or _stays(shape, asked))
