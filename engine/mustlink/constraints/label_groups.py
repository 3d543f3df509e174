"""Labels of some nodes as constraints, in factored form: cliques are never written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.labels import encoded

Ints = NDArray[np.int64]
Core = NDArray[np.float64] | sp.csr_matrix

# Above this many classes the (K, K) core is replaced by a diagonal one with one more column.
DENSE_CORE = 512


def check_labels(y: Any) -> Ints:
    """Labels as a fresh (n,) int64 array, -1 where unknown; raises InputError.

    Class numbers may have gaps; whole-number floats are accepted. Names of classes become numbers
    in their order. NaN, fractions and numbers below -1 are refused, naming the first one.
    """
    array = np.asarray(encoded(y, "constraints")[0])
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"constraints: labels have shape {array.shape}; give one label per node, -1 if unknown"
        )
    if array.dtype.kind not in "iufb":
        raise InputError(
            f"constraints: labels have type {array.dtype}; encode the classes as integers from 0, "
            "with -1 for unknown"
        )
    if array.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            broken = np.flatnonzero(~(np.mod(array, 1) == 0))
        if broken.size:
            first = int(broken[0])
            raise InputError(
                f"constraints: the label of node {first} is {array[first]}; labels are integers, "
                "-1 for unknown"
            )
    labels = np.array(array, dtype=np.int64)
    below = np.flatnonzero(labels < -1)
    if below.size:
        first = int(below[0])
        raise InputError(
            f"constraints: the label of node {first} is {labels[first]}; classes are numbered "
            "from 0, and -1 means unknown"
        )
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
    count, core = classes.size, _core(classes.size, within, between)
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
    _, column = np.unique(labels[nodes], return_inverse=True)
    column = np.asarray(column).ravel()
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


def _core(count: int, a: float, b: float) -> Core:
    """(a + b)I - b11ᵀ, or its diagonal form for many classes."""
    if count > DENSE_CORE:
        border = [-b] if b else []  # a group for each class does where nothing is between them
        return sp.diags(np.append(np.full(count, a + b), border), format="csr")
    core = np.full((count, count), -b)
    np.fill_diagonal(core, a)  # to the last digit, which a + b − b is not
    return core
