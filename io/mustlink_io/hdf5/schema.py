"""The mustlink HDF5 format: one table that the writer, the reader and docs/format.md obey."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mustlink.errors import InputError

FORMAT = 1
CSR_TYPE, CSR_VERSION = "csr_matrix", "0.1.0"
_TEXT = "text"


@dataclass(frozen=True)
class Item:
    """One dataset (`/points`) or attribute (`/graph@shape`) of the format.

    `dtypes` are what a writer may write, the first being what anything else is cast to; a reader
    takes every numpy kind in `kinds`. Symbols in `shape` mean the same number all over a file.
    """

    path: str
    dtypes: tuple[str, ...]
    shape: tuple[str, ...]
    kinds: str
    meaning: str

    @property
    def is_text(self) -> bool:
        """Whether the values are UTF-8 strings."""
        return self.dtypes[0] == _TEXT


_FLOAT, _INT = "fiub", "iu"


def _text(path: str, meaning: str, *shape: str) -> Item:
    return Item(path, (_TEXT,), shape, "OSU", meaning)


def _whole(path: str, shape: str, meaning: str, *narrower: str) -> Item:
    return Item(path, ("int64", *narrower), tuple(shape.split()), _INT, meaning)


def _real(path: str, shape: str, meaning: str, *narrower: str) -> Item:
    return Item(path, ("float64", *narrower), tuple(shape.split()), _FLOAT, meaning)


PARTS: dict[str, tuple[str, tuple[Item, ...]]] = {
    "file": (
        "On the root group of every file.",
        (
            Item("/@mustlink-format", ("int64",), (), _INT, f"version of this format: {FORMAT}"),
            _text("/@mustlink-version", "version of the program that wrote the file"),
        ),
    ),
    "points": (
        "Points to be clustered. Read in blocks of rows, as float32.",
        (Item("/points", ("float32", "float64"), ("n", "d"), _FLOAT, "one row a point"),),
    ),
    "graph": (
        "An undirected weighted graph, as a symmetric non-negative affinity matrix in the encoding "
        "that AnnData uses on disk for compressed sparse rows.",
        (
            _text("/graph@encoding-type", f"`{CSR_TYPE}`"),
            _text("/graph@encoding-version", f"`{CSR_VERSION}`"),
            Item("/graph@shape", ("int64",), ("2",), _INT, "(g, g)"),
            _real("/graph/data", "nnz", "weights of the entries", "float32"),
            _whole("/graph/indices", "nnz", "column of every entry, from 0, below g", "int32"),
            _whole(
                "/graph/indptr",
                "g+1",
                "row i holds the entries indptr[i] to indptr[i+1]-1; begins with 0, never falls, "
                "ends with nnz",
                "int32",
            ),
            _real(
                "/graph/weights",
                "g",
                "optional: how many a node stands for; the weights of entries are then those "
                "between all copies of one node and all copies of another",
            ),
            _whole(
                "/graph/rows",
                "n",
                "optional: node of every row of the points, where equal rows are one node, or "
                "nodes are numbered by where they lie",
                "int32",
            ),
            _text("/graph@info", "optional: how the graph was made, JSON object"),
        ),
    ),
    "image": (
        "An image whose pixels are the nodes, row by row.",
        (Item("/image", ("uint8",), ("h", "w", "3"), "u", "red, green, blue; h w = n"),),
    ),
    "labels": (
        "Side information, or the answer.",
        (
            Item(
                "/labels",
                ("int64",),
                ("n",),
                "iuf",
                "cluster or class of every node, from 0; -1 = unknown or not assigned",
            ),
        ),
    ),
    "kept": (
        "In a result where rows were left out: those with missing values, texts without words.",
        (_whole("/kept", "r", "rows that the model has, rising; the others have label -1"),),
    ),
    "weights": (
        "How often every node counts; a file of points, a graph or of weights alone may have it.",
        (_real("/weights", "n", "finite and not negative"),),
    ),
    "names": (
        "What nodes and classes are called, where they have names.",
        (
            _text("/names", "name of every node", "n"),
            _text(
                "/class_names",
                "name of every class in `/classes`; of clusters, the class that most labelled "
                "nodes of each have",
                "c",
            ),
        ),
    ),
    "constraints": (
        "Must-link and cannot-link pairs. A result has those of its run, up to two million, and "
        "its labels.",
        (
            Item("/constraints/pairs", ("int64",), ("m", "2"), _INT, "two nodes a row, from 0"),
            _real(
                "/constraints/belief",
                "m",
                "above 0: must-link, below 0: cannot-link; the size is the degree of belief",
            ),
            _whole("/constraints/labels", "n", "labels of the run, -1 = unknown"),
            _text(
                "/constraints/class_names",
                "name of every class in `/constraints/labels`, beside clusters; empty for none",
                "u",
            ),
        ),
    ),
    "clusters": (
        "What `mustlink cluster` adds to `/labels`.",
        (
            _real("/embedding", "n k", "one row a node", "float32"),
            _real("/eigenvalues", "q", "in the order the method reports"),
        ),
    ),
    "membership": (
        "What `--membership` adds, with `/confidence`: of clusters, or of classes.",
        (
            _real(
                "/membership",
                "n K",
                "share of every cluster in a node, or chance of every class: rows sum to 1, the "
                "largest entry is that of `/labels`; all 0 without one",
                "float32",
            ),
        ),
    ),
    "hierarchy": (
        "What `mustlink cluster --hierarchy` adds: parts of the clusters, merged one by one.",
        (
            _real("/hierarchy/linkage", "l 4", "merges, as scipy has"),
            _whole("/hierarchy/clusters", "l+1", "cluster of every part, as in `/labels`"),
            _whole("/hierarchy/leaves", "n", "part of every node, -1 = none"),
        ),
    ),
    "sides": (
        "`/labels` again, of each side where rows and columns of a matrix are the nodes; and what "
        "`-m disim` finds by edges of one direction alone, numbered apart.",
        (
            _whole("/row_labels", "a", "of the rows, which are the first nodes"),
            _whole("/column_labels", "b", "of the columns; a + b = n"),
            _whole("/sending_labels", "n", "nodes that send alike; -1 = sends nothing"),
            _whole("/receiving_labels", "n", "nodes that receive alike; -1 = receives nothing"),
        ),
    ),
    "classes": (
        "What `mustlink propagate` adds to `/labels`.",
        (
            _real(
                "/label_distributions",
                "n K",
                "one row a node, one column a class: shares that sum to 1, or all 0 without answer",
                "float32",
            ),
            _real(
                "/confidence",
                "n",
                "largest share minus second largest: 0 is a tie, 1 certainty; of "
                "clusters, and with `--membership`, the share of the own one",
                "float32",
            ),
            _whole("/classes", "K", "class that a column stands for, as in `/labels`; rising"),
        ),
    ),
    "run": (
        "How a result was made.",
        (
            _text("/stages/name", "stages of the run, in order", "s"),
            _real("/stages/seconds", "s", "wall seconds"),
            _whole(
                "/stages/peak_bytes",
                "s",
                "largest resident size of the process until the stage ended",
            ),
            _text(
                "/report",
                "choices and their reasons, convergence, warnings and notes, the health of the "
                "graph, clusters, constraints kept and broken, for how many nodes there "
                "was a prior and how many answers agree with it, the calibration of the confidence "
                "with its reliability table, what held-out labels or constraints say, stability, "
                "feasible cuts of `csp`, the command line: JSON",
            ),
            _text("/@parameters", "method and parameters, JSON object"),
            _text("/@versions", "of mustlink, numpy, scipy, h5py and python, JSON object"),
            _text("/@inputs", "name, part, bytes and SHA-256 of every file read, JSON list"),
        ),
    ),
    "model": (
        "The group `/model`, without `--no-model`: what `mustlink.load` makes the fitted estimator "
        "of again, as a tree of groups of a `kind` each; texts are bytes. "
        "`/model/class` and `/model/parameters` name the estimator, `/model/graph` is the graph "
        "that was fitted, `/model/derived` its order and smooth vectors, `/model/points` the "
        "points, or the file that they are in with its SHA-256, `/model/state` the inputs "
        "and results of the fit. Answers are the datasets above, linked to.",
        (),
    ),
    "preparation": (
        "Of points whose columns were prepared: what does the same to new ones.",
        (
            _text(
                "/@preparation",
                "what fills cells, categories, centre and scale (`mustlink.preprocessing.Fitted`), "
                "or of every column of a `table` its kind, words and gaps (`FittedTable`): JSON "
                "object",
            ),
        ),
    ),
}


def items() -> Iterator[Item]:
    """All rows of the table."""
    for _, part in PARTS.values():
        yield from part


ITEMS: dict[str, Item] = {item.path: item for item in items()}


_ANSWERS = ("/embedding", "/eigenvalues", "/label_distributions", "/membership", "/confidence")


def bind(item: Item, shape: tuple[int, ...], dims: dict[str, int], where: str) -> None:
    """Check a shape against the table and record what its symbols stand for in `dims`.

    Raises InputError for a wrong number of dimensions, or when a symbol had another value before.
    """
    wanted = "(" + ", ".join(item.shape) + ("," if len(item.shape) == 1 else "") + ")"
    if len(shape) != len(item.shape):
        raise InputError(f"{where}: shape {shape}, but {wanted} is wanted")
    for symbol, size in zip(item.shape, shape, strict=True):
        name, add = (symbol[:-2], 1) if symbol.endswith("+1") else (symbol, 0)
        known = int(name) if name.isdigit() else dims.setdefault(name, size - add)
        if known + add != size:
            raise InputError(
                f"{where}: shape {shape}, but {wanted} is wanted with {name} = {known}"
            )


def check_dtype(item: Item, dtype: np.dtype[Any], where: str) -> None:
    """Raise InputError unless a reader may take this dtype for the item."""
    if dtype.kind not in item.kinds:
        raise InputError(f"{where}: values of type {dtype}, but {item.dtypes[0]} is wanted")


def is_on_disk(value: Any) -> bool:
    """Whether rows of an answer are read from a file (`mustlink.space.disk.DiskBlock`)."""
    return hasattr(value, "row_bytes")


def to_writable(item: Item, value: Any, dims: dict[str, int]) -> Any:
    """Cast a value to what the format allows, checking its shape; raises InputError."""
    if item.is_text and not item.shape:
        return str(value)
    if is_on_disk(value):  # looked at when it was made
        bind(item, value.shape, dims, item.path)
        return value
    array = np.asarray(value)
    bind(item, array.shape, dims, item.path)
    if item.is_text:
        return np.asarray([str(v) for v in array], dtype=object)
    check_dtype(item, array.dtype, item.path)
    if item.path in _ANSWERS and not np.isfinite(array).all():
        raise InputError(f"{item.path}: NaN or Inf in the answer; nothing is written")
    return array if array.dtype.name in item.dtypes else array.astype(item.dtypes[0])
