"""Side information from files: labels, pairs, a second graph, priors, graphs of the same nodes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints, Contradiction
from mustlink.core.check import check_two_classes, refuse_row_numbers
from mustlink.core.observe import Recorder
from mustlink.errors import InputError
from mustlink.preprocessing.mixed import WORDS, FittedTable
from mustlink_io import formats
from mustlink_io.formats.tables import NodeNames, parquet_files
from mustlink_io.formats.texts import is_of_texts
from mustlink_io.hdf5 import store
from mustlink_io.hdf5.file_names import named_view
from mustlink_io.jobs.methods import EQUAL, SMOOTHED

_NAMED = 5  # contradictions that are put in words


class FileConstraints(Constraints):
    """Constraints from a file, whose contradictions name its lines and its nodes."""

    _file: formats.PairFile

    @classmethod
    def of(cls, known: Constraints, file: formats.PairFile) -> FileConstraints:
        """The same constraints, and where their pairs are from."""
        made = cls(**{one.name: getattr(known, one.name) for one in fields(Constraints)})
        object.__setattr__(made, "_file", file)
        return made

    def contradictions(self) -> tuple[Contradiction, ...]:
        """Statements that cannot all hold; the first ones in words of the file."""
        found = super().contradictions()
        if not hasattr(self, "_file"):  # a copy that the engine made
            return found
        worded = (FileContradiction(**vars(one), file=self._file) for one in found[:_NAMED])
        return (*worded, *found[_NAMED:])


@dataclass(frozen=True, kw_only=True)
class FileContradiction(Contradiction):
    """A contradiction in words of the file."""

    file: formats.PairFile

    def __str__(self) -> str:
        return self.text(self.file.row, self.file.node)


def load_constraints(
    labels: NDArray[np.int64] | None,
    constraints: str | None,
    n_nodes: int,
    names: NodeNames | None = None,
    where: str | None = None,
    beliefs: Mapping[str, float] = MappingProxyType({}),
    *,
    soft: bool = False,
) -> Constraints | None:
    """Side information of labels and a file of pairs together; None when there is none.

    Pairs may name nodes by their `names`. A sparse matrix or a graph as constraint file is a second
    graph on the same nodes (soft must-links, negative entries being cannot-links). `where` is the
    file of the labels; `beliefs` weigh the kinds, see `Constraints.weighted`, of which there may be
    `soft` labels besides. Raises InputError.
    """
    found = None
    if labels is not None:
        refuse_row_numbers(labels, str(where))
        found = Constraints.from_labels(labels).weighted(**beliefs)
    matrix = None if constraints is None else formats.load_matrix(constraints, n_nodes, names)
    _refuse_unused(beliefs, soft or labels is not None, matrix is not None)
    if constraints is None:
        return found
    if matrix is None:
        pairs, belief = formats.load_pairs(constraints, names)
        file = formats.PairFile(formats.parse(constraints), names)
        file.check(pairs, belief, n_nodes)
        more = Constraints.from_pairs(pairs, belief=belief, n_nodes=n_nodes).weighted(**beliefs)
        both = more if found is None else found + more
        if not all(beliefs.values()):  # pairs that are left out shift the lines of the others
            return both
        return FileConstraints.of(both, file)
    signed = bool(matrix.nnz and matrix.data.min() < 0)
    more = Constraints.from_matrix(matrix) if signed else Constraints.from_graph(matrix)
    more.require_nodes(n_nodes)
    more = more.weighted(**beliefs)
    return more if found is None else found + more


def _refuse_unused(beliefs: Mapping[str, float], labels: bool, graph: bool) -> None:
    """Raise InputError for weights of what there is none of."""
    if "labels" in beliefs and not labels:
        raise InputError("--beliefs labels: there are no labels; give --labels, or leave it out")
    if "graph" in beliefs and not graph:
        raise InputError(
            "--beliefs graph: weighs a second graph or matrix given as --constraints, and there is "
            "none; leave it out (graphs of --view have --view-weights)"
        )


def refuse_contradictions(known: Constraints, where: str | None) -> None:
    """Raise InputError for constraints of which some cannot hold, naming up to five."""
    found = known.contradictions()
    if found:
        named = "; ".join(str(one) for one in found[:_NAMED])
        more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        noun = "contradiction" if len(found) == 1 else "contradictions"
        raise InputError(
            f"{where}: {len(found)} {noun}: {named}{more}; correct the pairs, or leave out "
            "--strict to keep them as soft"
        )


def class_labels(labels: formats.Labels | None, where: str | None) -> NDArray[np.int64]:
    """Labels (n,) of at least two classes, -1 unknown; raises InputError that names the file."""
    if labels is None:
        raise InputError("no labels of any node; give --labels FILE")
    known = np.unique(labels.codes[labels.codes >= 0])
    if known.size == 1 and labels.classes is not None:
        name = store.text(labels.classes[known[0]])[:40]
        raise InputError(
            f"{where}: labels of 1 class only ({name}); give labels of at least two classes"
        )
    check_two_classes(labels.codes, str(where))
    return labels.codes


def class_shares(shares: list[float] | str, labels: NDArray[np.int64]) -> list[float] | str:
    """One share a class, or the word smoothed; raises InputError."""
    if shares == SMOOTHED:
        return shares
    classes = np.unique(labels[labels >= 0])
    if shares == EQUAL:
        return [1.0 / classes.size] * classes.size
    if len(shares) != classes.size:
        named = ", ".join(str(c) for c in classes[:10]) + (" …" if classes.size > 10 else "")
        raise InputError(
            f"--class-shares: {len(shares)} given for {classes.size} classes ({named}); give one a "
            "class, in this order"
        )
    return list(shares)  # type: ignore[arg-type]


def labels_of(
    text: str,
    data: formats.InputData,
    pixels: tuple[int, ...] | None = None,
    source: str = "",
    *,
    strict: bool = False,
) -> formats.Labels:
    """Labels of the nodes of the data, whose file is `source`, as `labels_beside` reads them.

    With a note for each column of the data that says the same.
    """
    where = pixels, source
    found = labels_beside(text, data.n_rows, data.names, data.sides, *where, strict=strict)
    return replace(found, notes=(*found.notes, *_classes_in(data, found)))


def _classes_in(data: formats.InputData, labels: formats.Labels) -> list[str]:
    """A note for each column of a table whose values are the classes, as known rows have them."""
    X, codes = data.value, labels.codes if data.kept is None else labels.codes[data.kept]
    rows = np.flatnonzero(codes >= 0)
    known = np.unique(codes[rows])
    if not isinstance(X, np.ndarray) or not data.columns or known.size < 2:
        return []
    table = data.fitted if isinstance(data.fitted, FittedTable) else None
    if data.fitted is not table:  # prepared by hand, column by column
        return []
    called, numbers = _called(labels)[1], codes[rows].astype(np.float64)
    sources = np.arange(X.shape[1]) if table is None else table.sources
    found = []
    for number, name in enumerate(data.columns):
        at = np.flatnonzero(sources == number)
        column = None if table is None else table.columns[number]
        if column is not None and column.kind == WORDS:
            if set(called) <= set(column.words):
                code = np.array([column.words.index(one) for one in called])
                same = X[np.ix_(rows, at)].argmax(axis=1) == code[np.searchsorted(known, numbers)]
                found += [name] if same.mean() > 0.5 else []
        elif labels.classes is None and at.size == 1:
            values = numbers if column is None else column.transform(numbers, "")[:, 0]
            found += [name] if np.allclose(X[rows, at[0]], values, atol=1e-6) else []
    return [
        f"{data.place}: its column {store.text(name)[:40]!r} has the classes of the labels, and is "
        f"taken as data; to leave it out: --drop {shlex.quote(name)}"
        for name in found
        if not any(f"its column {store.text(name)[:40]!r} is" in one for one in data.warnings)
    ]


def labels_beside(
    text: str,
    n: int,
    names: formats.NodeNames | None,
    sides: tuple[int, int] | None,
    pixels: tuple[int, ...] | None,
    source: str = "",
    *,
    strict: bool = False,
) -> formats.Labels:
    """Labels of n nodes in a file; as many as there are rows, or columns, are of these.

    The other side's are unknown. Where there are as many rows as columns they are of the rows.
    Raises InputError, if `strict` for each name of a row that is unknown, else if all are.
    """
    try:
        return formats.load_classes(text, n, names, pixels, source, strict=strict)
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


def load_graph(text: str, data: formats.InputData) -> Any:
    """The engine's graph of the rows that are kept, in the data's order; raises InputError."""
    return _graph_in(formats.load(text, "graph"), data)


def _graph_in(loaded: formats.InputData, data: formats.InputData) -> Any:
    """`load_graph` of what was read."""
    from mustlink.graph import Graph

    if loaded.n_rows != data.n_rows:
        what = "points" if data.kind == "points" else "nodes"
        raise InputError(
            f"{loaded.place}: {loaded.n_rows} nodes, but the data has {data.n_rows} {what}"
        )
    order = _order(loaded, data)
    if loaded.weights is not None:
        if data.kept is not None or order is not None:
            why = "some are left out here" if order is None else "the data are in another order"
            raise InputError(
                f"{loaded.place}: its nodes are equal rows, and {why}; make the graph anew of the "
                "same rows with the same preparation"
            )
        return loaded.to_fit("")
    chosen = order if data.kept is None else data.kept if order is None else order[data.kept]
    whole = loaded.value if chosen is None else loaded.value[chosen][:, chosen]
    return Graph.from_affinity(whole)


def views_of(
    views: tuple[str, ...], data: formats.InputData, recorder: Recorder, *, sparse: bool
) -> dict[str, Any]:
    """`graphs` of a fit, or its `views` where some have a name (`NAME=FILE`); raises InputError.

    Files of a view with a name may hold rows: as many as the data, in its order or with its names.
    """
    named = [named_view(text) for text in views]
    if all(name is None for name, _ in named):
        return {"graphs": [load_graph(text, data) for text in views]}
    found: dict[str, Any] = {}
    for number, (name, text) in enumerate(named, 1):
        called = name or f"view {number}"
        if called in found:
            raise InputError(f"--view {called}: two have this name; call one of them otherwise")
        found[called] = load_graph(text, data) if name is None else None
        if name is not None:
            found[called] = _rows_or_graph(name, text, data, recorder, sparse)
    return {"views": found}


def wanted_of_view(text: str) -> formats.Want | None:
    """What a view with a name is read as: a column of a table, a key, or a folder holds texts."""
    place = formats.parse(text)
    if place.path.is_dir() and not parquet_files(place.path):
        return formats.TextColumn("text")
    return formats.TextColumn(place.part) if place.part and is_of_texts(place) else None


def _rows_or_graph(
    name: str, text: str, data: formats.InputData, recorder: Recorder, sparse: bool
) -> Any:
    """The rows of a view that are kept, in the data's order, or its graph; raises InputError."""
    want, place = wanted_of_view(text), formats.parse(text)
    file = text if want is None else str(place.path)
    loaded = formats.load(file, want, sparse=sparse)
    if loaded.kind == "graph":
        return _graph_in(loaded, data)
    for note in (*loaded.notes, *loaded.warnings):
        recorder.note(f"view {name}: {note}")
    if loaded.n_rows != data.n_rows:
        raise InputError(
            f"{loaded.place}: {loaded.n_rows} rows, but the data has {data.n_rows}; give columns "
            "of the same rows"
        )
    rows = loaded.value
    if loaded.kept is not None:  # texts without a word are rows without an entry
        shape = loaded.n_rows, rows.shape[0]
        at = np.ones(rows.shape[0], rows.dtype), (loaded.kept, np.arange(rows.shape[0]))
        rows = sp.csr_matrix(sp.csr_matrix(at, shape=shape) @ rows)
    order = _order(loaded, data)
    rows = rows if order is None else rows[order]
    return rows if data.kept is None else rows[data.kept]


def _order(loaded: formats.InputData, data: formats.InputData) -> NDArray[np.int64] | None:
    """Node of every row of the data, by name; None where the order is the same, or not named."""
    if loaded.names is None or data.names is None:
        return None
    ours, theirs = data.names.texts, loaded.names.texts
    if np.array_equal(ours, theirs):
        return None
    place = {name: node for node, name in enumerate(theirs)}
    strange = next((name for name in ours if name not in place), None)
    if strange is not None:
        raise InputError(
            f"{loaded.place}: has no node {str(strange)[:40]!r}, which the data has; give a graph "
            "of the same nodes"
        )
    return np.array([place[name] for name in ours], dtype=np.int64)


Floats = NDArray[np.float64]


def load_believed(
    prior: str,
    belief: float | str | None,
    data: formats.InputData,
    labels: formats.Labels,
    source: str,
    recorder: Recorder,
) -> tuple[Floats, Floats]:
    """Distributions (n, K) over the classes of `labels`, and beliefs (n,).

    A node without a distribution has belief 0. `source` is the file of the data. Raises
    InputError.
    """
    P = formats.load_prior(prior, data.n_rows, _called(labels)[1], data.names)
    u = _beliefs(1.0 if belief is None else belief, data, source)
    if data.kept is not None:
        P, u = P[data.kept], u[data.kept]
    silent = _silent(P, prior, recorder)
    return np.where(silent[:, None], 0.0, P), np.where(silent, 0.0, u)


def load_soft_labels(
    text: str,
    belief: float | str | None,
    data: formats.InputData,
    labels: formats.Labels | None,
    source: str,
    recorder: Recorder,
) -> Constraints:
    """Distributions over the classes of the labels, or over as many as there are columns.

    As constraints on all rows of the data, see `Constraints.from_soft_labels`. Raises InputError.
    """
    classes, called = (None, None) if labels is None else _called(labels)
    P = formats.load_prior(text, data.n_rows, called, data.names)
    _silent(P, text, recorder)
    u = None if belief is None else _beliefs(belief, data, source)
    return Constraints.from_soft_labels(P, u, classes=classes)


def _called(labels: formats.Labels) -> tuple[list[int], list[str]]:
    """Numbers of the classes that labels have, and how they are called."""
    classes = np.unique(labels.codes[labels.codes >= 0]).tolist()
    words = labels.classes
    return classes, [str(one) if words is None else words[one] for one in classes]


def _beliefs(belief: float | str, data: formats.InputData, source: str) -> Floats:
    if isinstance(belief, str):
        return formats.load_beliefs(belief, data.n_rows, data.names, source)
    return np.full(data.n_rows, belief)


def _silent(P: Floats, where: str, recorder: Recorder) -> NDArray[np.bool_]:
    """Rows without a distribution, (n,); notes how many."""
    silent = np.isnan(P[:, 0])
    if silent.any():
        recorder.note(f"{where}: says nothing of {int(silent.sum()):,} of {silent.size:,} nodes")
    return silent


def prior_findings(
    P: Floats, belief: Floats, labels: NDArray[np.int64], estimator: Any
) -> dict[str, Any]:
    """Of how many nodes without a label something was believed, and how many are as it says."""
    believed = (belief > 0) & (labels < 0)
    likeliest = np.asarray(estimator.classes_)[P[believed].argmax(axis=1)]
    kept = int((np.asarray(estimator.labels_)[believed] == likeliest).sum())
    mean = float(belief[believed].mean()) if believed.any() else 0.0
    return {"n_believed": int(believed.sum()), "mean_belief": mean, "n_as_believed": kept}
