"""Nasty data, one maker a kind: tables and graphs as people have them, with labels of a few rows.

Every maker takes a random generator and a number of rows and returns a `Kind`. Nothing here is
taken from a public set; the shapes are: 70 to 90 % equal rows, columns of three scales, integer
codes, one column that is all of the variance, weights over many orders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Rng = np.random.Generator
FEW = 5  # labels a class


@dataclass(frozen=True)
class Kind:
    """Points (n, d) or a sparse symmetric graph, classes (n,), few labels (n,), K."""

    data: Any
    truth: NDArray[np.int64]
    labels: NDArray[np.int64]

    @property
    def k(self) -> int:
        """Clusters to ask for: at least two."""
        return max(2, int(self.truth.max()) + 1)

    @property
    def is_graph(self) -> bool:
        """Whether the data are edges."""
        return sp.issparse(self.data)


def few(truth: NDArray[np.int64], rng: Rng, each: int = FEW) -> NDArray[np.int64]:
    """Labels (n,) of at most `each` random rows of every class, -1 elsewhere."""
    given = np.full(truth.size, -1)
    for c in np.unique(truth):
        rows = np.flatnonzero(truth == c)
        given[rng.choice(rows, min(each, rows.size), replace=False)] = c
    return given


def kind(data: Any, truth: Any, rng: Rng) -> Kind:
    truth = np.asarray(truth, dtype=np.int64)
    return Kind(data, truth, few(truth, rng))


def blobs(rng: Rng, n: int, k: int = 6, d: int = 5, apart: float = 6.0) -> tuple[Any, Any]:
    """Points of k round clusters, in random order."""
    truth = rng.integers(k, size=n)
    return rng.normal(size=(k, d))[truth] * apart + rng.normal(size=(n, d)), truth


# ---------------------------------------------------------------- tables


def repeated(times: int) -> Callable[[Rng, int], Kind]:
    """Every row about `times` times: counts are geometric."""

    def make(rng: Rng, n: int) -> Kind:
        X, truth = blobs(rng, max(30, n // times), apart=3.0)
        which = rng.choice(len(X), size=n, p=rng.dirichlet(np.ones(len(X))))
        return kind(X[which], truth[which], rng)

    return make


def one_row_nine_tenths(rng: Rng, n: int) -> Kind:
    X, truth = blobs(rng, n)
    X[rng.random(n) < 0.9] = X[0]
    return kind(X, np.where((X[0] == X).all(axis=1), truth[0], truth), rng)


def all_equal(rng: Rng, n: int) -> Kind:
    return kind(np.full((n, 4), 3.25), rng.integers(2, size=n), rng)


def two_rows(rng: Rng, n: int) -> Kind:
    truth = rng.integers(2, size=n)
    return kind(np.array([[0.0, 1.0], [5.0, 2.0]])[truth], truth, rng)


def pixels(rng: Rng, n: int) -> Kind:
    """Colours of two kinds of surface as bytes: four of five rows are equal to another."""
    truth = (rng.random(n) < 0.2).astype(int)
    centre = np.array([[90.0, 110.0, 130.0], [110.0, 150.0, 210.0]])[truth]
    spread = np.array([60.0, 12.0])[truth, None]
    light = rng.normal(size=(n, 1)) * spread
    X = np.clip(np.rint(centre + light + 3 * rng.normal(size=(n, 3))), 0, 255)
    return kind(X, truth, rng)


def connections(rng: Rng, n: int) -> Kind:
    """A log of connections: codes, rates and bytes over nine orders, floods of equal rows."""
    k = 8
    truth = rng.choice(k, size=n, p=[0.55, 0.2, 0.18, 0.03, 0.02, 0.01, 0.006, 0.004])
    codes = rng.integers(60, size=(k, 4))[truth]
    wobble = rng.random((n, 4)) < 0.05
    codes = np.where(wobble, rng.integers(60, size=(n, 4)), codes)
    flood = np.isin(truth, (0, 1))
    bytes_ = np.where(flood, 1032.0, np.rint(np.exp(rng.normal(6, 3, n))))
    rates = np.round(
        np.clip(rng.beta(0.3, 0.3, (k, 6))[truth] + 0.1 * rng.normal(size=(n, 6)), 0, 1), 2
    )
    rates[flood] = np.round(rates[flood], 0)
    counts = np.where(flood, 511, rng.integers(512, size=n))
    return kind(np.column_stack([codes, bytes_, rates, counts, np.zeros(n)]), truth, rng)


def moved(scale: Any, shift: float = 0.0, *columns: float) -> Callable[[Rng, int], Kind]:
    """Round clusters times a scale, plus a shift, beside three constant columns of each value."""

    def make(rng: Rng, n: int) -> Kind:
        X, truth = blobs(rng, n)
        constant = [np.full((n, 3), value) for value in columns]
        return kind(np.column_stack([X * np.array(scale) + shift, *constant]), truth, rng)

    return make


def dominating_column(rng: Rng, n: int) -> Kind:
    X, truth = blobs(rng, n)
    return kind(np.column_stack([X, 1e7 * rng.exponential(size=n) ** 3]), truth, rng)


def integer_codes(rng: Rng, n: int) -> Kind:
    truth = rng.integers(5, size=n)
    codes = rng.integers(100, size=(5, 6))[truth]
    noise = rng.random((n, 6)) < 0.15
    return kind(np.where(noise, rng.integers(100, size=(n, 6)), codes).astype(float), truth, rng)


def heavy_tails(rng: Rng, n: int) -> Kind:
    X, truth = blobs(rng, n)
    return kind(X + rng.standard_cauchy(size=X.shape) ** 3, truth, rng)


def binary_columns(rng: Rng, n: int) -> Kind:
    truth = rng.integers(4, size=n)
    return kind((rng.random((n, 12)) < rng.random((4, 12))[truth]).astype(float), truth, rng)


def one_distance(rng: Rng, n: int) -> Kind:
    """Rows of the identity: every pair is as far apart."""
    m = min(n, 1500)
    return kind(np.eye(m), rng.integers(2, size=m), rng)


def lattice(rng: Rng, n: int) -> Kind:
    side = int(np.sqrt(n))
    X = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
    return kind(X.astype(float), (X[:, 0] > side / 2).astype(int), rng)


def line(rng: Rng, n: int) -> Kind:
    x = np.sort(rng.random(n))[:, None]
    return kind(x, (x[:, 0] > 0.5).astype(int), rng)


def cube(rng: Rng, n: int) -> Kind:
    X = rng.random((n, 20))
    return kind(X, (X[:, 0] > 0.5).astype(int), rng)


def broad_clusters(rng: Rng, n: int) -> Kind:
    truth = rng.integers(12, size=n)
    X = rng.normal(scale=1.3, size=(12, 20))[truth] + 1.1 * rng.normal(size=(n, 20))
    return kind(X, truth, rng)


def hundred_round(rng: Rng, n: int) -> Kind:
    truth = rng.integers(100, size=n)
    centre = 5.6 * np.stack(np.divmod(truth, 10), axis=1)
    return kind(centre + rng.normal(size=(n, 2)), truth, rng)


def giant_and_crumbs(rng: Rng, n: int) -> Kind:
    truth = np.where(rng.random(n) < 0.005, rng.integers(1, 8, size=n), 0)
    centre = np.concatenate([np.zeros((1, 3)), 8 * rng.normal(size=(7, 3))])
    return kind(centre[truth] + rng.normal(size=(n, 3)), truth, rng)


def contradicting_copies(rng: Rng, n: int) -> Kind:
    """Equal rows with different labels."""
    X, truth = blobs(rng, n // 20)
    X, truth = np.repeat(X, 20, axis=0), np.repeat(truth, 20)
    made = kind(X, truth, rng)
    wrong = rng.choice(truth.size, 30, replace=False)
    given = made.labels.copy()
    given[wrong] = rng.integers(truth.max() + 1, size=30)
    return Kind(X, truth, given)


def missing_cells(rng: Rng, n: int) -> Kind:
    X, truth = blobs(rng, n)
    X[rng.random(X.shape) < 0.02] = np.nan
    return kind(X, truth, rng)


def one_label(rng: Rng, n: int) -> Kind:
    X, truth = blobs(rng, n)
    given = np.full(len(X), -1)
    given[0] = 0
    return Kind(X, truth, given)


# ---------------------------------------------------------------- graphs


def graph(rows: Any, cols: Any, weights: Any, n: int) -> sp.csr_matrix:
    W = sp.coo_matrix((weights, (rows, cols)), shape=(n, n)).tocsr()
    return (W + W.T).tocsr()


def ring(rng: Rng, n: int, near: int = 6) -> tuple[Any, Any]:
    """Ends of edges that join every node with its next ones, blocks of n/4 apart."""
    i = np.repeat(np.arange(n), near)
    j = i + np.tile(np.arange(1, near + 1), n)
    inside = (j < n) & (i * 4 // n == np.minimum(j, n - 1) * 4 // n)
    return i[inside], j[inside]


def many_components(rng: Rng, n: int) -> Kind:
    i = np.arange(0, n - 3, 3)
    W = graph(np.r_[i, i + 1], np.r_[i + 1, i + 2], np.ones(2 * i.size), n)
    return kind(W, np.arange(n) % 3, rng)


def star(rng: Rng, n: int) -> Kind:
    i = np.arange(1, n)
    return kind(graph(np.zeros(n - 1, int), i, np.ones(n - 1), n), np.arange(n) % 2, rng)


def wide_weights(rng: Rng, n: int) -> Kind:
    i, j = ring(rng, n)
    W = graph(i, j, 10 ** rng.uniform(-8.3, 0, i.size), n)
    return kind(W + joined(n, 1e-6), np.arange(n) * 4 // n, rng)


def geometric_chain(rng: Rng, n: int) -> Kind:
    i = np.arange(n - 1)
    return kind(
        graph(i, i + 1, 10.0 ** (-20.0 * i / n), n), (i.size * 0 + np.arange(n) * 2 // n), rng
    )


def joined(n: int, weight: float) -> sp.csr_matrix:
    """One edge between each of four blocks and the next."""
    ends = n * np.arange(1, 4) // 4
    return graph(ends - 1, ends, np.full(3, weight), n)


def nearly_apart(rng: Rng, n: int) -> Kind:
    i, j = ring(rng, n)
    return kind(graph(i, j, np.ones(i.size), n) + joined(n, 1e-12), np.arange(n) * 4 // n, rng)


def half_isolated(rng: Rng, n: int) -> Kind:
    i, j = ring(rng, n)
    keep = (i % 2 == 0) & (j % 2 == 0)
    return kind(graph(i[keep], j[keep], np.ones(keep.sum()), n), np.arange(n) * 4 // n, rng)


def vanishing_degrees(rng: Rng, n: int) -> Kind:
    i, j = ring(rng, n)
    weights = np.where(i % 10 == 0, 1e-300, 1.0)
    return kind(graph(i, j, weights, n), np.arange(n) * 4 // n, rng)


def overflowing(rng: Rng, n: int) -> Kind:
    i, j = ring(rng, n)
    weights = np.where(rng.random(i.size) < 0.01, 1e200, 1.0)
    return kind(graph(i, j, weights, n) + joined(n, 1.0), np.arange(n) * 4 // n, rng)


def power_law(rng: Rng, n: int) -> Kind:
    """A network of four communities with heavy-tailed degrees, hung with small trees."""
    truth = rng.integers(4, size=n)
    pull = rng.pareto(1.5, n) + 1
    m = 4 * n
    i = rng.choice(n, m, p=pull / pull.sum())
    shift = np.argsort(truth, kind="stable")
    place = np.searchsorted(np.sort(truth), truth[i])
    size = np.bincount(truth, minlength=4)[truth[i]]
    j = np.where(rng.random(m) < 0.8, shift[place + rng.integers(size)], rng.integers(n, size=m))
    keep = i != j
    return kind(graph(i[keep], j[keep], np.ones(keep.sum()), n), truth, rng)


KINDS: dict[str, Callable[[Rng, int], Kind]] = {
    "rows repeated 10 times": repeated(10),
    "rows repeated 1,000 times": repeated(1000),
    "one row is nine tenths": one_row_nine_tenths,
    "all rows equal": all_equal,
    "two distinct rows": two_rows,
    "pixels": pixels,
    "connections": connections,
    "three scales": moved([1.0, 1e4, 1e-6, 1.0, 1e2]),
    "one dominating column": dominating_column,
    "integer codes": integer_codes,
    "heavy tails": heavy_tails,
    "values of 1e30": moved(1e30),
    "values of 1e-30": moved(1e-30),
    "far from zero": moved(1.0, 1e8),
    "constant columns": moved(1.0, 0.0, 0.0, 1e9),
    "binary columns": binary_columns,
    "all at one distance": one_distance,
    "lattice": lattice,
    "line": line,
    "cube of 20 dimensions": cube,
    "broad clusters": broad_clusters,
    "100 round clusters": hundred_round,
    "a giant and crumbs": giant_and_crumbs,
    "copies with other labels": contradicting_copies,
    "missing cells": missing_cells,
    "one label only": one_label,
    "graph: many components": many_components,
    "graph: star": star,
    "graph: weights over 8 orders": wide_weights,
    "graph: geometric chain": geometric_chain,
    "graph: blocks joined by 1e-12": nearly_apart,
    "graph: half isolated": half_isolated,
    "graph: degrees of 1e-300": vanishing_degrees,
    "graph: weights of 1e200": overflowing,
    "graph: power law": power_law,
}
