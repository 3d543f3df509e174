"""Side information from files: labels, pairs, a second graph."""

from __future__ import annotations

from typing import Any

from mustlink.observe import Recorder
from mustlink_io import formats


def load_constraints(labels: str | None, constraints: str | None, n_nodes: int) -> Any | None:
    """Side information of label and pair files together; None when there is none.

    A sparse matrix as constraint file is a second graph on the same nodes (soft must-links,
    negative entries being cannot-links). Raises InputError.
    """
    from mustlink.constraints import Constraints

    found = None
    if labels is not None:
        found = Constraints.from_labels(formats.load_labels(labels, n_nodes))
    if constraints is None:
        return found
    matrix = formats.load_matrix(constraints)
    if matrix is None:
        pairs, belief = formats.load_pairs(constraints)
        more = Constraints.from_pairs(pairs, belief=belief, n_nodes=n_nodes)
    else:
        signed = bool(matrix.nnz and matrix.data.min() < 0)
        more = Constraints.from_matrix(matrix) if signed else Constraints.from_graph(matrix)
        more.require_nodes(n_nodes)
    return more if found is None else found + more


def tell_contradictions(constraints: Any, recorder: Recorder, strict: bool) -> None:
    """Note the first contradictions; with `strict` raise InputError naming them."""
    found = constraints.check(strict=strict)
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        recorder.note(
            f"{len(found)} contradictions in the constraints, kept as soft: "
            + "; ".join(str(one) for one in found[:3])
            + more
        )
