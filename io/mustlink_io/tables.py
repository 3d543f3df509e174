"""Text files: numeric CSV, edge lists, labels, must-link and cannot-link pairs."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io import store

_COMMENT = "#%"


class WordError(InputError):
    """A cell of a table is a word, where a number is wanted."""

    def __init__(self, message: str, word: str) -> None:
        super().__init__(message)
        self.word = word


def text_labels(where: str, example: Any) -> InputError:
    """Return the error for labels that are words."""
    return InputError(
        f"{where}: labels are text ({store.text(example)[:40]!r}); number the classes 0, 1, 2 …, "
        "and -1 for unknown"
    )


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _first_line(path: Path) -> tuple[int, str]:
    """Return number (from 0) and text of the first line that is neither blank nor a comment."""
    store.check_readable(path)
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file):
                if line.strip() and line.strip()[0] not in _COMMENT:
                    return number, line.strip()
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file in UTF-8") from None
    raise InputError(f"{path}: empty, no values in it")


def _delimiter(line: str) -> str | None:
    """Return the separator that a line uses; None stands for white space."""
    return next((mark for mark in (",", ";", "\t") if mark in line), None)


def read_csv(path: Path) -> tuple[list[str], NDArray[np.float64]]:
    """Return the column names ([] without a header line) and the numbers, (rows, columns).

    Lines beginning with # or % are comments. Raises InputError naming the place of the first
    cell that is not a number.
    """
    number, line = _first_line(path)
    mark = _delimiter(line)
    words = [word.strip().strip('"') for word in line.split(mark)]
    header = [] if all(_is_number(word) for word in words) else words
    skip = number + 1 if header else number
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns of a table without rows; we raise
            table = np.loadtxt(
                path,
                delimiter=mark,
                skiprows=skip,
                comments=list(_COMMENT),
                ndmin=2,
                encoding="utf-8-sig",
            )
    except (ValueError, UnicodeDecodeError) as error:
        words_ = re.sub(r"; use `usecols`.*", "", " ".join(str(error).split()))
        after = f", counted from 0 after line {skip}" if skip else ", counted from 0"
        message = f"{path}: {store.text(words_.rstrip('.'))[:200]}{after}"
        found = re.search(r"could not convert string '(.*)' to float", words_)
        raise (WordError(message, found[1]) if found else InputError(message)) from error
    if table.size == 0:
        raise InputError(f"{path}: a header, but no values below it")
    if header and len(header) != table.shape[1]:
        raise InputError(
            f"{path}: {len(header)} names in the header, but {table.shape[1]} columns below it"
        )
    return header, table


def to_integers(values: NDArray[Any], where: str, what: str) -> NDArray[np.int64]:
    """Cast whole numbers to int64; raises InputError naming the first value that is not one."""
    if values.dtype.kind in "iub":
        if values.dtype.kind == "u" and values.size and values.max() > np.iinfo(np.int64).max:
            at = np.argwhere(values > np.iinfo(np.int64).max)[0]
            raise InputError(f"{where}: {what} {int(at[0])} is {values[tuple(at)]}, too large")
        return values.astype(np.int64)
    with np.errstate(invalid="ignore"):
        whole = np.isfinite(values) & (values == np.rint(values)) & (np.abs(values) < 2.0**53)
    if not whole.all():
        at = np.argwhere(~whole)[0]
        raise InputError(f"{where}: {what} {int(at[0])} is {values[tuple(at)]}, not a whole number")
    return values.astype(np.int64)


def read_edges(path: Path) -> sp.csr_matrix:
    """Read lines `i j [weight]`, nodes numbered from 0, as a symmetric affinity.

    An edge may be given in one direction or in both; of weights given several times for one edge
    the largest counts (nothing is summed). The graph has as many nodes as the largest number
    plus one.
    """
    _, table = read_csv(path)
    if table.shape[1] not in (2, 3):
        raise InputError(
            f"{path}: {table.shape[1]} columns; an edge list has i, j and optionally a weight"
        )
    ends = to_integers(table[:, :2], str(path), "edge")
    weights = table[:, 2] if table.shape[1] == 3 else np.ones(len(table))
    wrong = np.flatnonzero((ends < 0).any(axis=1) | ~np.isfinite(weights) | (weights < 0))
    if wrong.size:
        i, j = ends[wrong[0]]
        raise InputError(
            f"{path}: edge {wrong[0]} is ({i}, {j}) with weight {weights[wrong[0]]:g}; nodes are "
            "numbered from 0, weights are finite and not negative"
        )
    n = int(ends.max()) + 1
    if n > 100 * len(ends) + 1000:  # numbers are names here: n rows would be mostly empty
        raise InputError(
            f"{path}: {len(ends)} edges, but node numbers up to {n - 1}; number the nodes 0, 1, 2 …"
        )
    low, high = ends.min(axis=1), ends.max(axis=1)
    order = np.lexsort((-weights, high, low))
    low, high, weights = low[order], high[order], weights[order]
    first = np.ones(len(low), dtype=bool)
    first[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    low, high, weights = low[first], high[first], weights[first]
    off = low != high
    return sp.csr_matrix(
        (
            np.concatenate([weights, weights[off]]),
            (np.concatenate([low, high[off]]), np.concatenate([high, low[off]])),
        ),
        shape=(n, n),
    )


def read_labels(path: Path, n_nodes: int | None) -> NDArray[np.int64]:
    """Read one label a line (-1 = unknown), or a table with the header `node,label`.

    The table names only the nodes whose label is known and needs `n_nodes`. Raises InputError.
    """
    try:
        header, table = read_csv(path)
    except WordError as error:
        raise text_labels(str(path), error.word) from error
    names = [name.lower() for name in header]
    if {"node", "label"} <= set(names):
        if n_nodes is None:
            raise InputError(f"{path}: a table node,label needs to know the number of nodes")
        node = to_integers(table[:, names.index("node")], str(path), "row")
        label = to_integers(table[:, names.index("label")], str(path), "row")
        wrong = np.flatnonzero((node < 0) | (node >= n_nodes))
        if wrong.size:
            raise InputError(
                f"{path}: row {wrong[0]} names node {node[wrong[0]]}, but there are {n_nodes} "
                "nodes, numbered from 0"
            )
        labels = np.full(n_nodes, -1, dtype=np.int64)
        labels[node] = label
        twice = np.flatnonzero(labels[node] != label)
        if twice.size:
            at = int(node[twice[0]])
            raise InputError(
                f"{path}: node {at} is labelled {label[twice[0]]} and {labels[at]}; keep one"
            )
        return labels
    if table.shape[1] != 1:
        raise InputError(
            f"{path}: {table.shape[1]} columns; wanted is one label a line, or the header "
            "`node,label`"
        )
    return to_integers(table[:, 0], str(path), "label")


def read_pairs(path: Path) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Read a CSV with the header `i,j,belief` as pairs (m, 2) and beliefs (m,).

    The belief says whether a pair is a must-link (> 0) or a cannot-link (< 0) and is therefore
    required. Raises InputError.
    """
    header, table = read_csv(path)
    names = [name.lower() for name in header]
    if not {"i", "j"} <= set(names):
        raise InputError(f"{path}: the first line must be the header `i,j,belief`")
    if "belief" not in names:
        raise InputError(
            f"{path}: no column `belief`; write 1 for a must-link and -1 for a cannot-link"
        )
    ends = table[:, [names.index("i"), names.index("j")]]
    return to_integers(ends, str(path), "pair"), table[:, names.index("belief")].copy()
