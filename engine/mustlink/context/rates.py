"""Seconds of stages: work that is counted, times a rate of one table.

What a fit decides by counted work (`method_cost.step_seconds`) is the same on every machine
and run; nominal seconds are those of two free cores at 3 GHz.
"""

from __future__ import annotations

import math
import time

import numpy as np

START = 2.8  # seconds until the program has loaded, and its kernels
# Seconds for a million of what is named, in memory and on disk, measured: see bench/plans.py.
RATES: dict[str, tuple[float, float]] = {
    "reading": (0.0025, 0.0025),  # bytes read and checked
    "checksums": (0.001, 0.001),  # bytes
    "equal rows": (0.002, 0.002),  # coordinates
    "brute": (4e-3, 4e-3),  # pairs of points, times coordinates over 130
    "tree": (1.6, 1.6),  # microseconds of one core: two share the work
    "cells": (1.6, 1.7),  # likewise; cells of two blocks on disk are compared twice
    "columns": (1.2e-3, 1.2e-3),  # products of sparse rows
    "sums": (7e-5, 7e-5),  # pairs of sparse rows, looked at many at once
    "lists": (40.0, 40.0),  # sparse rows
    "descent": (1.0, 1.0),  # points, times columns and 50 more
    "weights": (0.07, 0.2),  # stored weights
    "components": (0.045, 0.015),  # the same
    "checking the graph": (0.045, 0.045),
    "weights of the graphs": (1.0, 1.0),
    "shares of representatives": (3.5e-5, 3.5e-5),  # points, times representatives, times columns
    "order of the nodes": (0.025, 0.0),
    "Laplacian": (0.04, 0.0),
    "looking at the graph": (0.0, 0.012),
    "multigrid set-up": (0.09, 0.16),
    "looking at the result": (0.025, 0.0),
    "candidate regularisations": (0.075, 0.1),  # stored weights times clusters, times columns
    "eigenvectors": (0.0085, 0.011),  # products and Gram matrices, `method_cost.step_work`
    "propagating": (0.019, 0.028),  # stored weights times columns and what loading them costs
    "labels held out, by way": (0.08, 0.0),  # stored weights times columns, ways and folds
    "steps": (0.01, 0.02),  # of an ill-conditioned system: stored weights times columns times steps
    "spread": (8.0, 10.0),  # nodes, beside what small graphs take, too
    "dense spread": (8.5e-4, 8.5e-4),  # cubes of nodes
    "fit of a sample": (100.0, 100.0),  # points
    "prior": (20.0, 20.0),  # points: a classifier on their columns
    "k-means": (0.06, 0.06),  # rows of the sample times clusters squared
    "clusters": (0.065, 0.1),  # numbers in the embedding
    "writing": (0.025, 0.025),  # bytes
}
MET = 30_000.0  # products for a sparse row, beyond which common columns are left out
MORE = 32.0  # times as many at most, where a sample asks for them
ENOUGH = 30.0  # seconds of comparing all pairs beside which NN-descent does not pay
_STANDARD, _ROUNDS = 0.0025, 120  # seconds of a round of `measured_speed`'s work, and rounds
_BURST, _PAUSE = 6, 0.025  # rounds between pauses, and their seconds: a shared machine varies
_SEARCH = 2.8e-6  # of a point, times log₁₀ points and neighbours over 15
_SPREAD_BEGINS = 2.5  # seconds of a graph too small to count
SPREAD_DENSE_BELOW = 2000  # nodes: below, LAPACK spreads constraints in a few seconds, exactly
_TRIALS_OF_LABELS, _TRIALS_OF_PAIRS = (1.5, 0.05), (5.0, 0.15)  # seconds, and more a cluster


def duration(stage: str, amount: float, *, on_disk: bool = False) -> float:
    """Seconds of a stage for so much of what its rate is for."""
    return RATES[stage][on_disk] * amount / 1e6


# Microseconds of a product, more for each of its coordinates, and of a list; comparisons at most.
_OF_VISIT, _OF_COORDINATE, _LISTED, _MOST = 1e-3, 1.5e-5, 6.0, 40_000
_SAMPLED = 500  # nodes whose neighbours are known
_FILLED = 22.0  # dimensions of points at most, as a rule: more coordinates repeat each other
_CELLS_BEGIN, _TREE_BEGINS = 1.85, 0.154  # seconds until their kernels are loaded


def neighbour_seconds(method: str, n: int, d: int, k: int, dimension: float | None = None) -> float:
    """A search for k neighbours of n points of d coordinates, by the method of its plan.

    `dimension` is that of the neighbourhoods, where a sample shows it.
    """
    if method == "brute":
        return duration("brute", n * n * (d + 130.0) / 130.0)
    if method == "tree":
        return duration("tree", _tree_work(n, d, k))
    return duration("cells", cells_work(n, d, k, dimension), on_disk=method != "cells")


def other_seconds(n: int, d: int, entries: int) -> float:
    """Of a search among sparse rows of so many entries, or by another distance of d columns.

    Columns of texts that are looked through are five times as long, where they are met, as all on
    the average.
    """
    if entries:
        products = min(MORE * MET * n, 5.0 * entries * entries / max(d, 1))
        return duration("columns", products) + duration("sums", n * n) + duration("lists", n)
    pairs = 1e-9 * (10 + d) * float(n) ** 2
    return pairs if pairs <= ENOUGH else descent_seconds(n, d)


def descent_seconds(n: int, d: int) -> float:
    """Of NN-descent among n rows of d columns."""
    return duration("descent", n * (d + 50.0))


def compares_all(n: int, d: int, k: int, *, tree: bool) -> bool:
    """Whether all pairs are compared: while that takes no longer than loading another search does.

    A fixed rule: same seed, same graph. `tree`: the other search is a k-d tree. Up to about 19,000
    points of 32 coordinates, 6,000 of 3.
    """
    late = _TREE_BEGINS if tree else _CELLS_BEGIN
    return neighbour_seconds("brute", n, d, k) <= late or k >= n // 4


def cells_work(n: int, d: int, k: int, dimension: float | None = None) -> float:
    """Microseconds of one core at 3 GHz that the search by cells takes, good to a factor of 2.

    Its cell costs next to nothing, being found by groups of centres.
    """
    product = _OF_VISIT + _OF_COORDINATE / 2 * d
    return n * (product * (2 * _SAMPLED + visited(n, d, dimension)) + _LISTED * k / 15)


def visited(n: int, d: int, dimension: float | None = None) -> float:
    """Members of other cells that a point visits, by the `dimension` e of neighbourhoods.

    7/10 of the coordinates where it is not known. Of 10⁵ points 220 were visited at e = 4, 1,500 at
    11, 5,800 at 38. 10 times as many points made that 1.2 and 2.6 times as many, at 38 by the time
    taken about 4.8 times. Of fewer than 1,000 more dimensions would seem to make it fewer.
    """
    e = min(0.7 * d, _FILLED) if dimension is None else dimension
    return min(_MOST, 60.0 * e**1.25 * (max(n, 1000) / 1e5) ** (e / (e + 17.0)), n)


def _tree_work(n: int, d: int, k: int) -> float:
    """Microseconds of one core at 3 GHz that the search by a k-d tree takes, for d <= 5.

    Measured on 10⁵ points that fill their coordinates; those in narrow towns take half of it.
    """
    return n * (0.5 + 0.04 * d**3) * (0.4 + 0.6 * k / 15) * float(np.log2(n)) / 17


def search_seconds(n: int, k: int) -> float:
    """The search for k neighbours of each of n points, whatever their dimension."""
    return _SEARCH * n * math.log10(max(n, 10)) * k / 15


def spreading_seconds(n: int) -> float:
    """Constraints that spread over a graph of n nodes."""
    if n <= SPREAD_DENSE_BELOW:
        return duration("dense spread", n**3)
    return _SPREAD_BEGINS + duration("spread", n)


def trial_seconds(k: int, *, pairs: bool) -> float:
    """Fits of `Auto` to a sample, or to a small graph, without a part of what is known."""
    begins, each = _TRIALS_OF_PAIRS if pairs else _TRIALS_OF_LABELS
    return begins + each * k


def measured_speed() -> float:
    """How many times slower a core of this machine is than one of the rates, whoever works on it.

    By the median CPU time of rounds of one thread within a second: by the clock a machine with
    other work would make plans of free cores ten times too long, threads of BLAS that wait count as
    work, and so does new memory, of which a round takes none. The round after a pause does not
    count: a core that rested is half as fast.
    """
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    X, P = np.ones((40_000, 12)), rng.standard_normal((1000, 64)).astype(np.float32)
    rows = rng.integers(0, 40_000, 80_000)
    gathered, products = np.empty((80_000, 12)), np.empty((1000, 1000), dtype=np.float32)
    taken = []
    with threadpool_limits(1, user_api="blas"):
        for turn in range(_ROUNDS):
            if turn % _BURST == 0:
                time.sleep(_PAUSE)
            started = time.process_time()
            np.take(X, rows, axis=0, out=gathered, mode="clip")
            np.matmul(P, P.T, out=products)
            if turn % _BURST:
                taken.append(time.process_time() - started)
    return float(np.median(taken)) / _STANDARD
