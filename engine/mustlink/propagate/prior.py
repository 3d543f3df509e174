"""Prior knowledge of every node with a degree of belief: what something else says of its class.

Outputs of a classifier, scores of cell types, colours of a photograph. To what a method minimises
it adds Σ_i u_i ‖f_i − p_i‖² over the nodes without a label, as if each of them had an edge of
weight u_i to a node of its own that is held at p_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.check import numeric_array
from mustlink.errors import InputError
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.workspace import Workspace

_SUM = 1e-6  # by which a distribution may miss 1
Floats = NDArray[np.float64]


def check_prior(method: str, minimises: bool, prior: Any, belief: Any) -> None:
    """Raise InputError for a prior that a method has no use for, and a belief in nothing."""
    if prior is None and belief is not None:
        raise InputError("belief: no prior that it is a belief in; give prior (n, K) as well")
    if prior is not None and not minimises:
        raise InputError(
            f"prior: {method} minimises nothing that it could be added to; use GFHF or LLGC"
        )


@dataclass(frozen=True, eq=False)
class GivenPrior:
    """What `fit` was given: distributions (n, K) over `classes` (K,), and beliefs (n,)."""

    values: Block
    belief: Floats
    classes: NDArray[Any]

    @classmethod
    def of(cls, prior: Any, belief: Any, classes: NDArray[Any]) -> GivenPrior | None:
        """What was found sound by a fit, None for nothing."""
        if prior is None:
            return None
        values = np.asarray(prior, dtype=np.float64)
        u = np.asarray(1.0 if belief is None else belief, dtype=np.float64)
        return cls(values, np.broadcast_to(u, len(values)), classes)

    def over(self, classes: NDArray[Any], n: int) -> tuple[Block, Floats]:
        """The same of n rows, of which the last may be new, over other classes (c,).

        A class that is new has no share; the share of one that is gone is taken from the belief,
        and the others' are scaled to sum 1.
        """
        at = {one: column for column, one in enumerate(self.classes.tolist())}
        values, belief = np.zeros((n, classes.size)), np.zeros(n)
        m = len(self.values)
        for column, one in enumerate(classes.tolist()):
            if one in at:
                values[:m, column] = self.values[:, at[one]]
        belief[:m] = self.belief
        if set(at) <= set(classes.tolist()):
            return values, belief
        left = values.sum(axis=1)
        return np.divide(values, left[:, None], out=values, where=left[:, None] > 0), belief * left


def bytes_of(*given: Any) -> int:
    """Bytes of arrays that a caller holds; of numbers and of nothing 0."""
    return sum(one.nbytes for one in given if isinstance(one, np.ndarray))


@dataclass(frozen=True, eq=False)
class Prior:
    """Distributions (m, K) over the classes, and how much each is believed, (m,) >= 0."""

    values: Block
    belief: Floats

    @classmethod
    def of(cls, prior: Any, belief: Any, n_classes: int, work: Workspace) -> Prior:
        """What is given of rows, (n, K) and (n,) or a number, as of nodes; raises InputError.

        Of rows that are one node the beliefs add up, and the node has their mean.
        """
        graph = work.graph
        n = graph.n_rows
        found = cls.of_rows(prior, belief, n, n_classes)
        if graph.rows is None and graph.weights is None:
            return found
        rows = np.arange(n) if graph.rows is None else graph.rows
        u = found.belief * work.weight_of_rows
        total: Floats = np.bincount(rows, u, graph.n_nodes).astype(np.float64)
        sums = [np.bincount(rows, u * p, graph.n_nodes) for p in found.values.T]
        return cls(np.column_stack(sums) / np.where(total > 0, total, 1.0)[:, None], total)

    @classmethod
    def of_rows(cls, prior: Any, belief: Any, n: int, n_classes: int) -> Prior:
        """What is given, (n, K) and (n,) or a number, 1 if left out; raises InputError."""
        P = np.asarray(numeric_array(prior, "prior"), dtype=np.float64)
        if P.shape != (n, n_classes):
            raise InputError(
                f"prior: shape {P.shape} for {n} nodes whose labels have {n_classes} classes; give "
                "a row for each node, a column for each class in the order of their numbers"
            )
        u = np.asarray(numeric_array(1.0 if belief is None else belief, "belief"), dtype=np.float64)
        u = np.full(n, float(u)) if u.ndim == 0 else u
        if u.shape != (n,):
            raise InputError(f"belief: shape {u.shape} for {n} nodes; give a number, or one a node")
        if not (np.isfinite(u) & (u >= 0)).all():
            raise InputError("belief: it must be finite and 0 or more; 0 where nothing is known")
        wrong = (u > 0) & ~((P >= 0).all(axis=1) & (np.abs(P.sum(axis=1) - 1.0) <= _SUM))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                f"prior: row {row} is no distribution over the classes; let its entries be 0 or "
                "more with sum 1, or its belief 0"
            )
        return cls(np.where(u[:, None] > 0, P, 0.0), u)

    def without(self, known: NDArray[np.bool_]) -> Prior:
        """What is said of the other nodes: of those that are known (n,) their label says all."""
        return Prior(self.values, np.where(known, 0.0, self.belief))

    def within(self, part: NormalizedLaplacian, unlabelled: NDArray[np.bool_]) -> Prior:
        """In the working order of a part of the graph; labels say all of nodes that have one."""
        return Prior(part.enter(self.values), np.where(unlabelled, part.enter(self.belief), 0.0))

    def joined(self, Y: Block, weight: Floats | None, scale: Floats | None) -> tuple[Block, Floats]:
        """Targets and weights of w(g − y)² + u(g/s − p)² as one square, `scale` s of g = sf."""
        w = np.zeros(self.belief.size) if weight is None else weight
        s = np.ones(self.belief.size) if scale is None else scale
        u = self.belief / s**2
        total = w + u
        share = np.divide(u, total, out=np.zeros_like(u), where=u > 0)[:, None]
        return (1.0 - share) * Y + share * (s[:, None] * self.values), total
