"""Seconds that stages take for a million of what they work on, and how fast this machine is.

The rates were measured on two cores at 3 GHz; a small piece of the same work, timed here, says how
much slower this machine is.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

# Seconds for a million of what is named, measured; see bench/memory.py.
_RATES = {
    "reading": 0.0025,  # bytes read and checked
    "checksums": 0.001,  # bytes
    "equal rows": 0.002,  # coordinates
    "brute": 4e-3,  # pairs of points, times coordinates over 130
    "tree": 0.6,  # microseconds of one core: two share the work
    "cells": 0.6,  # microseconds of one core: two share the work
    "partition": 0.6,  # microseconds of one core: two share the work
    "weights": 0.10,  # stored weights
    "components": 0.03,
    "checking the graph": 0.045,
    "comparing graphs": 1.0,  # stored weights
    "order of the nodes": 0.025,
    "Laplacian": 0.04,
    "multigrid set-up": 0.03,
    "candidate regularisations": 0.15,  # stored weights times clusters
    "eigenvectors": 0.015,  # stored weights times columns
    "propagating": 0.012,  # stored weights times columns and what loading them costs
    "steps": 0.01,  # of an ill-conditioned system: stored weights times columns times steps
    "wide blocks": 0.004,  # nodes times columns squared
    "k-means": 0.06,  # rows of the sample times clusters squared
    "spread": 3.0,  # nodes
    "dense spread": 4.5e-4,  # cubes of nodes
    "fit of a sample": 100.0,  # points
    "clusters": 0.045,  # numbers in the embedding
    "looking": 0.02,  # stored weights
    "writing": 0.004,  # bytes
}
START = 1.5  # seconds until the program has loaded
_STANDARD = 0.033  # seconds of `_sample_work` on the machine of the rates


def duration(name: str, amount: float) -> float:
    """Seconds of a stage for so much of what its rate is for."""
    return float(_RATES[name] * amount / 1e6)


def measured_speed() -> float:
    """How many times slower this machine is than that of the rates: a tenth of a second of work."""
    _sample_work()
    taken = []
    for _ in range(3):
        started = time.perf_counter()
        _sample_work()
        taken.append(time.perf_counter() - started)
    return min(taken) / _STANDARD


def _sample_work() -> None:
    """Products of a sparse matrix and of points, as in the stages that take longest."""
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    n, degree = 40_000, 15
    columns = rng.integers(0, n, n * degree)
    W = sp.csr_matrix((np.ones(n * degree), columns, np.arange(0, n * degree + 1, degree)), (n, n))
    X: Any = np.ones((n, 12))
    P = rng.standard_normal((1000, 64)).astype(np.float32)
    for _ in range(3):
        X = (W @ X) / degree
        P @ P.T
