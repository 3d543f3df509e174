"""What was loaded: points, maybe prepared, or a graph, and all that its file says of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mustlink.core.observe import Recorder
from mustlink.preprocessing.fitted import Fitted, PreparedRows, prepared
from mustlink.preprocessing.request import Preparation
from mustlink_io.formats import stream
from mustlink_io.formats.names import NodeNames
from mustlink_io.hdf5 import size_checks
from mustlink_io.hdf5.file_names import Place
from mustlink_io.hdf5.store import FileNames


@dataclass(frozen=True)
class Apart:
    """A column, by its name in small letters, that is none of the points: `option` reads it."""

    option: str
    name: str


@dataclass(frozen=True)
class PointsSpec:
    """What is to be done to points, and from how many bytes on they are left on disk.

    `apart` are columns of a table that are none of the points; `gaps` are kept as NaN where no step
    fills them.
    """

    steps: Preparation
    lazy_above: int | None = None
    apart: tuple[Apart, ...] = ()
    gaps: bool = False


# Points (m, d') as array or rows, how they were prepared, rows of the file that are kept.
Made = tuple[Any, Fitted | None, NDArray[np.int64] | None]
Reopen = Callable[[bool], Any]  # whether rows are to be as the file has them


def points(
    source: Any,
    asked: PointsSpec,
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
            return reopen(False), None, None
        size_checks.check_fits(4 * math.prod(source.shape), where)
        found = stream.read_points(source, where, advance, columns, gaps=asked.gaps)
        return found, None, None
    lazy = reopen is not None and _may_stay(source.shape, asked)
    rows = prepared(
        reopen(True) if reopen is not None and lazy else source,
        steps,
        columns,
        where=where,
        advance=lambda share: advance(share / 2),
    )
    if lazy and _stays(rows.shape, asked):
        return rows, rows.fitted, rows.kept
    size_checks.check_fits(4 * math.prod(rows.shape), where)
    return _read(rows, advance), rows.fitted, rows.kept


def _read(rows: PreparedRows, advance: stream.Advance) -> NDArray[np.float32]:
    found = np.empty(rows.shape, dtype=np.float32)
    n, d = rows.shape
    step = max(1, stream.BLOCK_BYTES // (32 * max(d, int(rows.source.shape[1]))))
    for a in range(0, n, step):
        found[a : a + step] = rows[a : a + step]
        advance(0.5 + 0.5 * min(1.0, (a + step) / n))
    return found


def _stays(shape: Sequence[int], asked: PointsSpec) -> bool:
    return asked.lazy_above is not None and 4 * math.prod(shape) > asked.lazy_above


def _may_stay(shape: Sequence[int], asked: PointsSpec) -> bool:
    """Columns of categories become many: the shape tells only afterwards."""
    return asked.lazy_above is not None and (bool(asked.steps.one_hot) or _stays(shape, asked))


Kind = Literal["points", "graph"]
Want = Literal["points", "graph", "bipartite", "directed"]


@dataclass(frozen=True)
class Read:
    """A matrix, dense or sparse, and what came with it.

    `arcs` are those of a graph whose edges are in the directions that the file gives them in.
    """

    value: Any
    names: NodeNames | None = None
    note: str | None = None
    is_graph: bool = False
    arcs: bool = False
    doubts: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Data:
    """What was loaded: points (n, d) float32, or an affinity (n, n) CSR.

    `names` are those that the file gives to its nodes, `stored_names` where they stay in it,
    `columns` to its columns, if any; `notes` say what was decided, `doubts` what is hardly meant.
    `image` (h, w, 3) is the picture whose pixels, row by row, are the nodes of a graph. Of points
    that were prepared `fitted` says how, and `kept` which of the `n_rows` rows are left where rows
    with missing values are left out; names are of all rows. The nodes of a graph may stand for
    several, `weights` (g,), and be several of the `rows` (n,), as `mustlink.graph.Graph` has them;
    `sides` are the rows and columns of a matrix that are its nodes.
    """

    kind: Kind
    value: Any
    place: Place
    names: NodeNames | None = None
    stored_names: FileNames | None = None
    notes: tuple[str, ...] = ()
    image: NDArray[Any] | None = None
    doubts: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    fitted: Fitted | None = None
    kept: NDArray[np.int64] | None = None
    left_out: int = 0
    weights: NDArray[np.float64] | None = None
    rows: NDArray[Any] | None = None
    sides: tuple[int, int] | None = None

    @property
    def n_fitted(self) -> int:
        """Rows that are fitted: of a graph whose nodes stand for several all of them."""
        return int(self.value.shape[0] if self.rows is None else self.rows.size)

    @property
    def n_rows(self) -> int:
        """Rows of the file, those among them that were left out."""
        return self.n_fitted + self.left_out

    def tell(self, recorder: Recorder) -> None:
        """Say what was decided, and doubted."""
        for note in self.notes:
            recorder.note(note)
        for doubt in self.doubts:
            recorder.warn(doubt)

    def to_fit(self, source: str) -> Any:
        """The value, or the engine's graph where nodes stand for several; `source` names it."""
        if self.weights is None and self.sides is None:
            return self.value
        from mustlink.graph import Graph

        kind = None if self.sides is None else {"kind": "bipartite", "sides": self.sides}
        made = Graph.from_affinity(self.value, kind)
        graph = replace(made, weights=self.weights, rows=self.rows)
        graph.derived.origin = source
        return graph
