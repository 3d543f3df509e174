"""How hard a data set is for a search of neighbours, seen on a sample of its rows before it runs.

The rates of `rates` were measured on points whose neighbours are few and mutual. Of overlapping
clusters in many dimensions, hubs and many equal rows a count says little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.check import as_points
from mustlink.cost.neighbour_graph import MOST_SYMMETRIC, SYMMETRIC
from mustlink.neighbours.points_by_rows import count_distinct
from mustlink.preparation.request import Preparation
from mustlink_io import formats

_PLACES, _ROWS = 100, 20  # places in the file, rows at each of them
_NEIGHBOURS = 15
_STEEP = 8.0  # dimension of the neighbourhoods from which a search is harder than it was measured
_ONE_SIDED = 1.4  # weights for a neighbour from which the same is true: hubs
_EQUAL = 0.05  # share of rows that are equal to another one of the sample


@dataclass(frozen=True)
class Probe:
    """What a sample says: weights stored for a neighbour asked for, and what is hard, in words.

    `sooner`: the time counted is not reached, `later`: it may be exceeded. `distinct` are the rows
    that differ, counted among all where the sample has equal ones.
    """

    symmetric: float = SYMMETRIC
    later: str = ""
    sooner: str = ""
    distinct: int | None = None

    @property
    def promise(self) -> str:
        """What to say before the seconds: "at least", "at most", "about", or nothing."""
        if self.later:
            return "about" if self.sooner else "at least"
        return "at most" if self.sooner else ""


def probe_of(text: str, steps: Preparation) -> Probe:
    """Look at 2,000 rows of points in a file that has rows to be read alone; 0.1 s or so.

    All rows are read once where many of these are equal: only that tells how many differ. Whatever
    else it is, and less than four times as many rows, is taken to be ordinary.
    """
    place = formats.parse(text)
    if place.suffix not in (*formats.HDF5, ".npy") or not place.path.exists():
        return Probe()
    whole = Preparation(impute=steps.impute, drop_missing=steps.drop_missing, drop=steps.drop)
    loaded = formats.load(text, None, lambda _: None, 0, whole)
    n = int(loaded.value.shape[0])
    if loaded.kind != "points" or n < 4 * _PLACES * _ROWS:
        return Probe()
    starts = np.linspace(0, n - _ROWS, _PLACES).astype(np.int64)
    rows = [np.asarray(loaded.value[int(a) : int(a) + _ROWS], np.float32) for a in starts]
    found = probe(np.concatenate(rows))
    return replace(found, distinct=count_distinct(loaded.value)) if found.sooner else found


def probe(sample: NDArray[Any]) -> Probe:
    """Judge a sample of points (s, d) by all their distances. Cost O(s²d)."""
    X = as_points(sample[np.isfinite(sample).all(axis=1)]).astype(np.float64)
    distinct = np.unique(X, axis=0)
    equal = 1.0 - len(distinct) / max(len(X), 1)
    sooner = f"{equal:.0%} of a sample are equal rows, which become one" if equal > _EQUAL else ""
    if len(distinct) <= 4 * _NEIGHBOURS:
        return Probe(sooner=sooner)
    distances, lists = _nearest(distinct)
    ratio = np.log(distances[:, -1:] / np.maximum(distances[:, :-1], 1e-12 * distances[:, -1:]))
    dimension = 1.0 / max(float(ratio.mean()), 1e-3)  # Levina & Bickel 2004
    symmetric = _symmetric(lists)
    if dimension < _STEEP and symmetric < _ONE_SIDED:
        return Probe(sooner=sooner)
    later = (
        f"neighbourhoods of about {dimension:.0f} dimensions, {symmetric:.2f} weights for a "
        "neighbour: a search may take several times as long as was counted"
    )
    return Probe(min(max(symmetric, SYMMETRIC), MOST_SYMMETRIC), later, sooner)


def _nearest(X: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Distances and numbers of the 15 nearest others, (s, 15) each, nearest first."""
    X = X - X.mean(axis=0)
    squares = (X**2).sum(axis=1)
    found = np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0.0)
    np.fill_diagonal(found, np.inf)
    lists = np.argpartition(found, _NEIGHBOURS, axis=1)[:, :_NEIGHBOURS]
    lengths = np.take_along_axis(found, lists, axis=1)
    order = np.argsort(lengths, axis=1)
    return np.sqrt(np.take_along_axis(lengths, order, 1)), np.take_along_axis(lists, order, 1)


def _symmetric(lists: NDArray[np.int64]) -> float:
    """Entries of A + Aᵀ for each of A."""
    s, k = lists.shape
    i, j = np.repeat(np.arange(s), k), lists.ravel()
    pairs = np.unique(np.minimum(i, j) * s + np.maximum(i, j)).size
    return 2.0 * pairs / (s * k)
