"""Side information from files: labels, pairs, a second graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.labels import check_two_classes
from mustlink_io import formats
from mustlink_io.formats.names import NodeNames
from mustlink_io.methods import EQUAL


def load_constraints(
    labels: NDArray[np.int64] | None,
    constraints: str | None,
    n_nodes: int,
    names: NodeNames | None = None,
) -> Any | None:
    """Side information of labels and a file of pairs together; None when there is none.

    Pairs may name nodes by their `names`. A sparse matrix as constraint file is a second graph on
    the same nodes (soft must-links, negative entries being cannot-links). Raises InputError.
    """
    from mustlink.constraints import Constraints

    found = None
    if labels is not None:
        found = Constraints.from_labels(labels)
    if constraints is None:
        return found
    matrix = formats.load_matrix(constraints)
    if matrix is None:
        pairs, belief = formats.load_pairs(constraints, names)
        more = Constraints.from_pairs(pairs, belief=belief, n_nodes=n_nodes)
    else:
        signed = bool(matrix.nnz and matrix.data.min() < 0)
        more = Constraints.from_matrix(matrix) if signed else Constraints.from_graph(matrix)
        more.require_nodes(n_nodes)
    return more if found is None else found + more


def class_labels(labels: formats.Labels | None, where: str | None) -> NDArray[np.int64]:
    """Labels (n,) of at least two classes, -1 unknown; raises InputError that names the file."""
    if labels is None:
        raise InputError("no labels of any node; give --labels FILE")
    check_two_classes(labels.codes, str(where))
    return labels.codes


def class_shares(given: list[float] | str, labels: NDArray[np.int64]) -> list[float]:
    """One share a class; raises InputError."""
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
