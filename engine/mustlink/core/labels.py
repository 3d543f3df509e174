"""Labels of some of the nodes: numbers or names of classes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.core.check import numeric_array
from mustlink.errors import InputError

EQUAL_ROWS = "kind of equal rows, kinds of equal rows"
REPRESENTATIVES = "representative, representatives"
_NUMBERED = 20  # labelled rows from which as many classes are no chance
_UNKNOWN = frozenset({"", "-1", "-1.0", "None", "nan", "NaN", "<NA>"})  # of Python, numpy, pandas


def as_labels(labels: Any, n_nodes: int, where: str = "labels") -> NDArray[np.int64]:
    """Return labels (n,) as int64, -1 for unknown. Raises InputError.

    Whole floats are accepted; NaN among them is unknown, too.
    """
    y = numeric_array(labels, where)
    if y.ndim == 2 and (y.shape[1] == 1 or y.size == n_nodes):  # those of a picture, row by row
        y = y.ravel()
    if y.ndim != 1:
        raise InputError(f"{where}: shape {y.shape}; give one label per node, ({n_nodes},)")
    if y.shape[0] != n_nodes:
        raise InputError(
            f"{where}: {y.shape[0]} labels for {n_nodes} nodes; give one per node, -1 for unknown"
        )
    if y.dtype.kind == "f":
        y = np.where(np.isnan(y), -1, y)
        bad = np.flatnonzero(~np.isfinite(y) | (y != np.round(y)))
        if bad.size:
            i = int(bad[0])
            raise InputError(
                f"{where}: label {y[i]:g} of node {i} is no whole number; number the "
                "classes from 0, -1 for unknown"
            )
    y = y.astype(np.int64)
    low = np.flatnonzero(y < -1)
    if low.size:
        i = int(low[0])
        raise InputError(f"{where}: label {y[i]} of node {i} is below -1; -1 means unknown")
    return y


def labels_of_nodes(
    labels: NDArray[np.int64],
    rows: NDArray[np.integer[Any]],
    weights: NDArray[np.float64],
    n_nodes: int,
    kind: str = EQUAL_ROWS,
) -> tuple[NDArray[np.int64], str]:
    """Labels (n_nodes,) of nodes from those (n,) of their rows, and a warning of contradictions.

    `rows` (n,) are the nodes of the rows, `weights` (n,) those of the rows. Of different labels in
    one node that of most weight counts, -1 for a tie; rows of weight 0 do not count. `kind` is what
    a node is, with its plural. Cost O(n + l log l), l labels.
    """
    given = np.flatnonzero((labels >= 0) & (weights > 0))
    classes, code = np.unique(labels[given], return_inverse=True)
    cells, cell = np.unique(
        rows[given] * np.int64(max(classes.size, 1)) + code, return_inverse=True
    )
    weight = np.bincount(cell, weights=weights[given], minlength=cells.size)
    node, own = np.divmod(cells, max(classes.size, 1))
    order = np.lexsort((weight, node))  # of every node the heaviest class last
    node, own, weight = node[order], own[order], weight[order]
    last = np.append(node[1:] != node[:-1], True)[: node.size]
    tied = np.append(False, (node[1:] == node[:-1]) & (weight[1:] == weight[:-1]))[: node.size]
    found = np.full(n_nodes, -1, dtype=np.int64)
    found[node[last]] = np.where(tied[last], -1, classes[own[last]])
    several = np.bincount(node, minlength=n_nodes) > 1
    count = int(np.count_nonzero(several))
    if not count:
        return found, ""
    example = given[rows[given] == np.argmax(several)]
    other = example[np.argmax(labels[example] != labels[example[0]])]
    one, many = kind.split(", ")
    noun = f"{one} has" if count == 1 else f"{many} have"
    return found, (
        f"{count} {noun} different labels, such as row {example[0]} ({labels[example[0]]}) and row "
        f"{other} ({labels[other]}): the label of most of them counts, none where they tie"
    )


def encoded(labels: Any, where: str) -> tuple[Any, NDArray[Any] | None]:
    """Labels as they are and None; names of classes as numbers (n,), and the names in order.

    Class names are text, or a column of Python objects. Unknown are "", "-1", -1, None and NaN.
    """
    array = np.asarray(labels)
    if array.dtype.kind not in "OUS":
        return labels, None
    if array.ndim not in (1, 2):
        raise InputError(f"{where}: shape {array.shape}; give one label per node")
    array = array.ravel()  # a picture's row by row
    unknown = np.array([text_of(label) in _UNKNOWN for label in array.tolist()], dtype=bool)
    try:
        names, codes = np.unique(array[~unknown], return_inverse=True)
    except TypeError:
        raise InputError(
            f"{where}: labels are a mixture of text and numbers; give all of one kind, -1 for "
            "unknown"
        ) from None
    found = np.full(array.shape[0], -1, dtype=np.int64)
    found[~unknown] = codes
    return found, names


def text_of(label: Any) -> str:
    """A label as text."""
    return str(label.decode() if isinstance(label, bytes) else label)


def class_texts(y: Any) -> tuple[str, ...] | None:
    """Names of the classes in the order of their numbers; None where labels (n,) are numbers."""
    names = None if y is None else encoded(y, "y")[1]
    return None if names is None else tuple(map(text_of, names.tolist()))


def numbered_after(y: Any, known: tuple[str, ...] | None) -> tuple[Any, tuple[str, ...] | None]:
    """Labels (m,) of new rows, numbered as the classes that are `known`; classes that are new last.

    Returns the numbers and the names of all. Raises InputError where one has names and the other
    numbers; without `known` names labels are numbered by themselves.
    """
    own = class_texts(y)
    if y is None or (own is None and known is None):
        return y, known
    if own is None or known is None:
        one, other = ("numbers", "names") if own is None else ("names", "numbers")
        raise InputError(f"y: labels are {one} here, {other} in the fit; give all of one kind")
    every = tuple(dict.fromkeys((*known, *own)))
    place = np.array([every.index(name) for name in own] + [-1], dtype=np.int64)
    return place[encoded(y, "y")[0]], every


def class_of_most(
    found: NDArray[np.int64], known_labels: NDArray[np.int64], n_clusters: int
) -> NDArray[np.int64]:
    """The class that most labelled rows of every cluster have (K,), -1 where none has a label.

    Clusters `found` (n,), of which `n_clusters` at least, and labels (n,), -1 for none. Cost
    O(n + K · classes).
    """
    known = (known_labels >= 0) & (found >= 0)
    size = int(known_labels.max(initial=-1)) + 2
    n_clusters = max(n_clusters, int(found.max(initial=-1)) + 1)  # numbers may have gaps
    votes = np.bincount(found[known] * size + known_labels[known], minlength=n_clusters * size)
    votes = votes.reshape(n_clusters, size)
    return np.where(votes.any(axis=1), votes.argmax(axis=1), -1)


def called_by_most(
    found: NDArray[np.int64],
    known_labels: NDArray[np.int64],
    names: Mapping[int, str],
    n_clusters: int = 0,
) -> list[str]:
    """Names of clusters (K,): that of `class_of_most`, "" without one; no two are alike.

    Of several of one class that with most of its labels is called "oak", the next "oak (2)".
    """
    most = class_of_most(found, known_labels, n_clusters)
    called, taken = [""] * most.size, set(names.values())
    for code, name in names.items():
        own = np.flatnonzero(most == code)
        votes = np.bincount(found[(known_labels == code) & (found >= 0)], minlength=most.size)
        free = chain([name], (one for i in count(2) if (one := f"{name} ({i})") not in taken))
        for at in own[np.argsort(-votes[own], kind="stable")].tolist() if name else ():
            called[at] = next(free)
    return called


def in_order_of_rows(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Classes (n,) numbered from 0 in the order of their first rows, -1 unknown.

    What is drawn class by class is then the same whatever the classes are called.
    """
    known = np.flatnonzero(labels >= 0)
    _, first, codes = np.unique(labels[known], return_index=True, return_inverse=True)
    place = np.empty(first.size, dtype=np.int64)
    place[np.argsort(first)] = np.arange(first.size)
    found = np.full(labels.size, -1, dtype=np.int64)
    found[known] = place[np.ravel(codes)]
    return found


def check_two_classes(labels: NDArray[np.int64], where: str) -> None:
    """Raise InputError unless labels (n,), -1 unknown, are of two classes or more."""
    classes = np.unique(labels[labels >= 0])
    if classes.size == 0:
        raise InputError(f"{where}: all {labels.size} labels are -1; give some nodes their class")
    if classes.size == 1:
        raise InputError(
            f"{where}: labels of 1 class only ({classes[0]}); give labels of at least two classes"
        )
    refuse_row_numbers(labels, where)


def refuse_row_numbers(labels: NDArray[np.int64], where: str) -> None:
    """Raise InputError where most rows have a label (n,), and every one is a class of its own."""
    known = labels[labels >= 0]
    if known.size < _NUMBERED or 2 * known.size <= labels.size:
        return
    if np.unique(known).size == known.size:
        raise InputError(
            f"{where}: labels of {known.size} rows name {known.size} classes, every row another: "
            "is it a column of row numbers? name the one that has the classes"
        )


def class_labels(y: Any, where: str = "y") -> tuple[NDArray[np.int64], NDArray[Any] | None]:
    """Labels of at least two classes, checked before any work, and names of classes.

    Raises InputError, in scikit-learn's words where it has the same error.
    """
    if y is None:
        raise InputError(
            "y: requires y to be passed, but the target y is None; give one label per node, -1 for "
            "unknown"
        )
    codes, names = encoded(y, where)
    raw = np.asarray(codes)
    if raw.ndim == 2 and raw.shape[1] == 1:
        from sklearn.utils.validation import column_or_1d

        raw = column_or_1d(raw, warn=True)
    if raw.dtype.kind == "f":
        between = np.isfinite(raw) & (raw != np.round(raw))
        if between.any():
            raise InputError(
                f"{where}: Unknown label type: continuous, {raw[between][0]:g} is no class; number "
                "the classes from 0, -1 for unknown"
            )
    labels = as_labels(raw, raw.size, where)  # a picture's row by row
    check_two_classes(labels, where)
    return labels, names


def n_classes_in(y: Any) -> int | None:
    """The number of classes among labels, None without any; labels are checked later."""
    if y is None:
        return None
    codes = np.asarray(encoded(y, "y")[0])
    return np.unique(codes[codes >= 0]).size or None


def named(names: NDArray[Any], codes: NDArray[np.int64]) -> NDArray[Any]:
    """Return names[codes]; code -1 becomes the unknown label: -1, or "" among text."""
    unknown: Any = "" if isinstance(names[0], str | bytes) else -1
    return np.where(codes >= 0, names[codes], np.array(unknown).astype(names.dtype))


def best_matches(worth: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of a table (a, b), each taken once, whose entries have the largest sum.

    At once where the largest entries of the rows are in columns of their own, and no row has two:
    then there is no other result. Else by the Hungarian method, O(max(a, b)³), for which
    scipy.optimize is imported, which takes longer than small tables do.
    """
    if worth.size:
        rows, columns = np.nonzero(worth == worth.max(axis=1, keepdims=True))
        if rows.size == len(worth) == np.unique(columns).size:
            return rows, columns
    from scipy.optimize import linear_sum_assignment

    found: tuple[NDArray[np.intp], NDArray[np.intp]] = linear_sum_assignment(worth, maximize=True)
    return found
