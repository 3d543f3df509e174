"""Side information from files: labels, pairs, a second graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints, Contradiction
from mustlink.errors import InputError
from mustlink.labels import check_two_classes, refuse_row_numbers
from mustlink_io import formats
from mustlink_io.formats.names import NodeNames
from mustlink_io.hdf5 import store
from mustlink_io.jobs.methods import EQUAL, SMOOTHED

_TOLD = 5  # contradictions that are told in words


class FileConstraints(Constraints):
    """Constraints from a file, whose contradictions are told by its lines and by names of nodes."""

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
        told = (_Told.of(one, self._file) for one in found[:_TOLD])
        return (*told, *found[_TOLD:])


@dataclass(frozen=True)
class _Told(Contradiction):
    """A contradiction in words of the file."""

    words: str = ""

    @classmethod
    def of(cls, one: Contradiction, file: formats.PairFile) -> _Told:
        pair, lines = file.pair(one.pair), [file.row(row) for row in one.rows]
        if one.reason == "both signs":
            words = f"pair {pair} is must-link on {lines[0]}, cannot-link on {lines[1]}"
        elif one.reason == "between classes":
            words = f"must-link {pair} of {lines[0]} joins two classes"
        else:
            chain = [file.node(node) for node in one.path]
            if len(chain) > 6:
                chain = [*chain[:3], "…", *chain[-2:]]
            by = f" by {' - '.join(chain)}" if chain else ""
            group = f"a group of {one.n_nodes} must-linked nodes"
            words = f"cannot-link {pair} of {lines[0]} lies in {group}{by}"
        return cls(one.reason, one.pair, one.rows, one.n_nodes, one.path, words)

    def __str__(self) -> str:
        """The words."""
        return self.words


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
    """Raise InputError for weights of what was not given."""
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
        named = "; ".join(str(one) for one in found[:_TOLD])
        more = f"; and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
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


def class_shares(given: list[float] | str, labels: NDArray[np.int64]) -> list[float] | str:
    """One share a class, or the word smoothed; raises InputError."""
    if given == SMOOTHED:
        return given
    classes = np.unique(labels[labels >= 0])
    if given == EQUAL:
        return [1.0 / classes.size] * classes.size
    if len(given) != classes.size:
        named = ", ".join(str(c) for c in classes[:10]) + (" …" if classes.size > 10 else "")
        raise InputError(
            f"--class-shares: {len(given)} given for {classes.size} classes ({named}); give one a "
            "class, in this order"
        )
    return list(given)  # type: ignore[arg-type]
