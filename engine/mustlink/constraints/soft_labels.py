"""Distributions over classes with degrees of belief, as constraints of low rank.

With y_i the shares of the classes in node i and u_i how much that is believed, the chance that two
nodes are of one class is ⟨y_i, y_j⟩, and what is said of the pair is

    Q_ij = u_i u_j (2⟨y_i, y_j⟩ − 1) = P⁺_ij − P⁻_ij,   P⁺_ij = u_i u_j ⟨y_i, y_j⟩:

as many must-links and cannot-links as are expected. With F = [UY, u] it is F diag(2, …, 2, −1) Fᵀ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.check import numeric_array
from mustlink.errors import InputError

_SUM = 1e-6  # by which a distribution may miss 1
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SoftLabels:
    """Shares `values` (n, K) of the `classes` (K,) and beliefs (n,); both 0 where nothing is said.

    Beliefs lie between 0 and 1, but of nodes that stand for several rows, which add up.
    """

    values: Floats
    belief: Floats
    classes: Ints

    @classmethod
    def of(cls, values: Any, belief: Any, classes: Any = None) -> SoftLabels:
        """Checked copies; rows of NaN and of belief 0 say nothing. Raises InputError.

        Without `belief` it is (K max_c y_ic − 1)/(K − 1): 1 for one class alone, 0 for all alike.
        """
        Y = np.array(numeric_array(values, "soft labels"), dtype=np.float64)
        if Y.ndim != 2 or Y.shape[0] == 0 or Y.shape[1] < 2:
            raise InputError(
                f"soft labels: shape {Y.shape}; give a row for each node, a column for each of two "
                "classes or more"
            )
        n, k = Y.shape
        silent = np.isnan(Y).all(axis=1)
        Y[silent] = 0.0
        if belief is None:
            u = np.clip((k * Y.max(axis=1) - 1.0) / (k - 1.0), 0.0, 1.0)
        else:
            u = np.array(numeric_array(belief, "belief"), dtype=np.float64)
        u = np.full(n, float(u)) if u.ndim == 0 else u
        if u.shape != (n,):
            raise InputError(f"belief: shape {u.shape} for {n} nodes; give a number, or one a node")
        u[silent] = 0.0
        if not ((u >= 0) & (u <= 1)).all():
            raise InputError(
                "belief: it must lie between 0 (nothing is known) and 1 (as sure as a label)"
            )
        wrong = (~silent if belief is None else u > 0) & ~(
            (Y >= 0).all(axis=1) & (np.abs(Y.sum(axis=1) - 1.0) <= _SUM)
        )
        if wrong.any():
            raise InputError(
                f"soft labels: row {int(np.argmax(wrong))} is no distribution over the classes; "
                "let its entries be 0 or more with sum 1, or all NaN, or its belief 0"
            )
        Y[u == 0] = 0.0
        named = np.arange(k) if classes is None else np.asarray(classes, dtype=np.int64)
        if named.shape != (k,) or (named[0] < 0) or not (np.diff(named) > 0).all():
            raise InputError(f"classes: give the numbers of the {k} columns' classes, rising")
        return cls(Y, u, named)

    @property
    def told(self) -> NDArray[np.bool_]:
        """Of which nodes something is said, (n,)."""
        return self.belief > 0

    @property
    def certain(self) -> SoftLabels:
        """The same distributions, every one believed in full."""
        return replace(self, belief=self.told.astype(np.float64))

    def only(self, mask: NDArray[np.bool_]) -> SoftLabels:
        """What is said of the nodes of a mask (n,)."""
        belief = np.where(mask, self.belief, 0.0)
        return replace(self, values=np.where(mask[:, None], self.values, 0.0), belief=belief)

    def at(self, nodes: Ints) -> SoftLabels:
        """What is said of some nodes (m,), numbered anew."""
        return replace(self, values=self.values[nodes], belief=self.belief[nodes])

    def summed(self, membership: sp.csr_matrix) -> SoftLabels:
        """Of the nodes that rows are, `membership` (n, m): beliefs add up, shares are means."""
        belief = np.asarray(membership.T @ self.belief)
        values = np.asarray(membership.T @ (self.belief[:, None] * self.values))
        values = values / np.where(belief > 0, belief, 1.0)[:, None]
        return replace(self, values=values, belief=belief)

    def apart(self) -> tuple[Ints, SoftLabels]:
        """Labels (n,), -1 where there is none, for what is one class for certain, and the rest."""
        sure = (self.belief == 1.0) & (self.values.max(axis=1) == 1.0)
        labels = np.where(sure, self.classes[self.values.argmax(axis=1)], -1)
        return labels.astype(np.int64), self.only(~sure)

    def with_labels(self, labels: Ints | None) -> SoftLabels:
        """Of all nodes; a label (n,) is one class for certain, -1 none. Raises InputError."""
        if labels is None:
            return self
        known = np.flatnonzero(labels >= 0)
        column = np.minimum(np.searchsorted(self.classes, labels[known]), self.classes.size - 1)
        strange = np.flatnonzero(self.classes[column] != labels[known])
        if strange.size:
            at = known[strange[0]]
            raise InputError(
                f"constraints: node {at} is labelled {labels[at]}, for which soft labels have no "
                f"column; their {self.classes.size} columns are classes {self.classes[0]} to "
                f"{self.classes[-1]}"
            )
        values, belief = self.values.copy(), self.belief.copy()
        values[known], belief[known] = 0.0, 1.0
        values[known, column] = 1.0
        return replace(self, values=values, belief=belief)

    def joined(self, other: SoftLabels) -> SoftLabels:
        """Both together; raises InputError for other classes, or nodes that both speak of."""
        if not np.array_equal(self.classes, other.classes):
            raise InputError(
                f"constraints: soft labels of {self.classes.size} and {other.classes.size} "
                "classes; give a column for each class in both"
            )
        both = self.told & other.told
        if both.any():
            raise InputError(
                f"constraints: node {int(np.argmax(both))} has two soft labels ({both.sum()} such "
                "nodes); settle them before adding"
            )
        return replace(self, values=self.values + other.values, belief=self.belief + other.belief)

    def factor(
        self, within: float = 1.0, between: float = 1.0
    ) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """Factor F (n, K + 1) and core C of Q = within·P⁺ − between·P⁻ = FCFᵀ, C diagonal."""
        k = self.classes.size
        columns = [self.belief[:, None] * self.values]
        core = np.full(k, within + between)
        if between:  # P⁻ alone needs what a node is believed at all
            columns.append(self.belief[:, None])
            core = np.append(core, -between)
        return sp.csr_matrix(np.hstack(columns)), sp.diags(core, format="csr")

    def pairs_expected(self) -> tuple[float, float]:
        """Expected numbers of must-links and cannot-links among the m nodes that are told of."""
        Y = self.values[self.told]
        m = Y.shape[0]
        same = (float(np.square(Y.sum(axis=0)).sum()) - float(np.square(Y).sum())) / 2
        return same, m * (m - 1) / 2 - same
