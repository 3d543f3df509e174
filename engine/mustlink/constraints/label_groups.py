"""Labels of some nodes as constraints, in factored form: cliques are never written out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core.check import as_labels, encoded, in_order_of_rows, numeric_array
from mustlink.errors import InputError

Ints = NDArray[np.int64]
Core = NDArray[np.float64] | sp.csr_matrix

# Above this many classes the (K, K) core is replaced by a diagonal one with one more column.
DENSE_CORE = 512


def check_labels(y: Any) -> Ints:
    """Labels as a fresh (n,) int64 array, -1 where unknown; names of classes become numbers.

    Class numbers may have gaps. Raises InputError, for NaN among numbers as well.
    """
    array = np.asarray(encoded(y, "constraints")[0])
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"constraints: labels have shape {array.shape}; give one label per node, -1 if unknown"
        )
    labels = as_labels(array, array.size, "constraints")
    if array.dtype.kind == "f" and np.isnan(array).any():
        first = int(np.flatnonzero(np.isnan(array))[0])
        raise InputError(f"constraints: label nan of node {first}; -1 means unknown")
    return labels


def labels_factor(
    labels: Ints, within: float = 1.0, between: float = 1.0
) -> tuple[sp.csr_matrix, Core, Ints]:
    """Factor Y, core C and classes with Q = Y C Yᵀ: a in a class, -b between classes.

    Y is (n, K), the indicator of labelled nodes, and C = (a + b)I - b11ᵀ, `within` a and `between`
    b, so that Q_ii = a on labelled nodes. For more than 512 classes Y has one more column, the
    indicator of all labelled nodes, and C = diag(a + b, …, a + b, -b): the same Q from O(K)
    numbers. Cost O(n + ℓ log ℓ), ℓ labels.
    """
    nodes = np.flatnonzero(labels >= 0)
    classes, column = np.unique(labels[nodes], return_inverse=True)
    column = np.asarray(column).ravel()
    count = classes.size
    core: Core
    if count > DENSE_CORE:  # without a border column where nothing is between the classes
        border = [-between] if between else []
        core = sp.diags(np.append(np.full(count, within + between), border), format="csr")
    else:  # `within` to the last digit, which a + b − b is not
        core = np.where(np.eye(count, dtype=bool), within, -between)
    if core.shape[0] > count:
        nodes = np.concatenate([nodes, nodes])
        column = np.concatenate([column, np.full(column.size, count)])
    factor = sp.coo_matrix(
        (np.ones(nodes.size), (nodes, column)), shape=(labels.size, core.shape[0])
    ).tocsr()
    factor.sort_indices()
    return factor, core, classes.astype(np.int64)


def split_labels(labels: Ints, fraction: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mask (n,) of the labelled nodes held out; every class keeps at least one label.

    Class sizes are rounded at random, so the expected share is `fraction` even for a few labels
    per class; a class with one label loses none.
    """
    nodes = rng.permutation(np.flatnonzero(labels >= 0))
    column = in_order_of_rows(labels)[nodes]
    sizes = np.bincount(column)
    take = np.floor(fraction * sizes + rng.random(sizes.size)).astype(np.int64)
    take = np.clip(take, 0, np.maximum(sizes - 1, 0))
    large = np.flatnonzero(sizes > 1)
    if not take.any() and large.size:
        take[rng.choice(large)] = 1
    by_class = np.argsort(column, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]) if sizes.size else np.empty(0, np.int64)
    rank = np.arange(nodes.size) - starts[column[by_class]]
    out = np.zeros(labels.size, dtype=bool)
    out[nodes[by_class[rank < take[column[by_class]]]]] = True
    return out


def merge_labels(first: Ints, second: Ints) -> Ints:
    """One labelling from two; raises InputError for a node given two classes."""
    clash = np.flatnonzero((first >= 0) & (second >= 0) & (first != second))
    if clash.size:
        node = int(clash[0])
        raise InputError(
            f"constraints: node {node} is labelled {first[node]} in one set and {second[node]} in "
            f"the other ({clash.size} such nodes); settle them before adding"
        )
    return np.where(first >= 0, first, second)


# --- Distributions over classes with degrees of belief, as constraints of low rank
#
# With y_i the shares of the classes in node i and u_i its belief, the chance that two nodes are of
# one class is ⟨y_i, y_j⟩, and the constraint on the pair is
#
#     Q_ij = u_i u_j (2⟨y_i, y_j⟩ − 1) = P⁺_ij − P⁻_ij,   P⁺_ij = u_i u_j ⟨y_i, y_j⟩:
#
# expected must-links less expected cannot-links: F diag(2, …, 2, −1) Fᵀ with F = [UY, u].


_SUM = 1e-6  # by which a distribution may miss 1
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SoftLabels:
    """Shares `values` (n, K) of the `classes` (K,) and beliefs (n,); both 0 on other nodes.

    Beliefs lie between 0 and 1; those of the rows of a node add up.
    """

    values: Floats
    belief: Floats
    classes: Ints

    @classmethod
    def of(cls, values: Any, belief: Any, classes: Any = None) -> SoftLabels:
        """Checked copies; rows of NaN and of belief 0 do not count. Raises InputError.

        Without `belief` it is (K max_c y_ic − 1)/(K − 1): 1 for one class, 0 for equal shares.
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
    def known(self) -> NDArray[np.bool_]:
        """Which nodes have a soft label, (n,)."""
        return self.belief > 0

    @property
    def certain(self) -> SoftLabels:
        """The same distributions with belief 1."""
        return replace(self, belief=self.known.astype(np.float64))

    def only(self, mask: NDArray[np.bool_]) -> SoftLabels:
        """Those of the nodes of a mask (n,)."""
        belief = np.where(mask, self.belief, 0.0)
        return replace(self, values=np.where(mask[:, None], self.values, 0.0), belief=belief)

    def at(self, nodes: Ints) -> SoftLabels:
        """Those of some nodes (m,), numbered anew."""
        return replace(self, values=self.values[nodes], belief=self.belief[nodes])

    def summed(self, membership: sp.csr_matrix) -> SoftLabels:
        """Those of the rows' nodes, `membership` (n, m): beliefs add up, shares are means."""
        belief = np.asarray(membership.T @ self.belief)
        values = np.asarray(membership.T @ (self.belief[:, None] * self.values))
        values = values / np.where(belief > 0, belief, 1.0)[:, None]
        return replace(self, values=values, belief=belief)

    def apart(self) -> tuple[Ints, SoftLabels]:
        """Labels (n,) where one class is certain, else -1, and the other soft labels."""
        sure = (self.belief == 1.0) & (self.values.max(axis=1) == 1.0)
        labels = np.where(sure, self.classes[self.values.argmax(axis=1)], -1)
        return labels.astype(np.int64), self.only(~sure)

    def with_labels(self, labels: Ints | None) -> SoftLabels:
        """Together with labels (n,), -1 for none, as one certain class. Raises InputError."""
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
        """Both together; raises InputError for other classes, or nodes that are in both."""
        if not np.array_equal(self.classes, other.classes):
            raise InputError(
                f"constraints: soft labels of {self.classes.size} and {other.classes.size} "
                "classes; give a column for each class in both"
            )
        both = self.known & other.known
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
        if between:  # P⁻ alone needs the column of beliefs
            columns.append(self.belief[:, None])
            core = np.append(core, -between)
        return sp.csr_matrix(np.hstack(columns)), sp.diags(core, format="csr")

    def pairs_expected(self) -> tuple[float, float]:
        """Expected numbers of must-links and cannot-links among the m nodes with a soft label."""
        Y = self.values[self.known]
        m = Y.shape[0]
        same = (float(np.square(Y.sum(axis=0)).sum()) - float(np.square(Y).sum())) / 2
        return same, m * (m - 1) / 2 - same
