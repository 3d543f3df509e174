"""What was loaded: points or a graph, and all that its file says of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mustlink.observe import Recorder
from mustlink.preparation.fitted import Fitted
from mustlink_io.formats.names import NodeNames
from mustlink_io.hdf5.file_names import Place
from mustlink_io.hdf5.stored_names import StoredNames

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
    stored_names: StoredNames | None = None
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
