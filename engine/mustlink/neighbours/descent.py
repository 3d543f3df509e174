"""Approximate neighbour lists by nearest-neighbour descent (pynndescent), same for any threads.

`pynndescent.NNDescent` draws its random candidates per thread, so that its graph depends on the
number of threads. Its building blocks take that number as an argument: here it is a fixed number
of shares, which any number of threads works off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.deadline import NEVER, Deadline

_SHARES = 16  # parts of the work with a random stream each; more than this many threads idle
_BLOCK = 16384  # nodes whose candidates are compared between two updates
_DELTA = 0.001  # stop when fewer than this share of the lists change

_compiled: set[bool] = set()


def is_compiled() -> bool:
    """Whether this process has the kernels: loaded in 2 s, at first compiled in a minute."""
    return bool(_compiled)


def compile_kernels() -> None:
    """Import pynndescent and run it once on a handful of points."""
    tiny = np.random.default_rng(0).standard_normal((512, 8)).astype(np.float32)
    neighbour_lists(tiny, 4, seed=0)
    _compiled.add(True)


def neighbour_lists(
    points: NDArray[np.float32],
    k: int,
    seed: int,
    n_jobs: int | None = None,
    advance: Callable[[float], None] | None = None,
    deadline: Deadline = NEVER,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Find about the k nearest of each point, mostly itself included: indices, lengths (n, k).

    Euclidean, ascending; -1 and Inf where a list is not full. Same seed, same lists; after the
    `deadline` no round is begun.
    """
    import numba

    before = numba.get_num_threads()
    limit = int(getattr(numba.config, "NUMBA_NUM_THREADS", before))
    numba.set_num_threads(limit if n_jobs is None else min(n_jobs, limit))
    try:
        return _descend(points, k, seed, advance or (lambda _: None), deadline)
    finally:
        numba.set_num_threads(before)


def _descend(
    points: NDArray[np.float32],
    k: int,
    seed: int,
    advance: Callable[[float], None],
    deadline: Deadline,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """NN-descent from a forest of random projection trees, with pynndescent's own settings."""
    from pynndescent import hybrid_forest, utils

    from mustlink.neighbours.descent_kernels import LOOPS

    n = points.shape[0]
    rng = np.random.default_rng(seed)
    state = rng.integers(-(2**31) + 1, 2**31 - 1, size=3)
    trees = max(3, min(12, round(2.0 * np.log10(n))))
    leaves = hybrid_forest.make_hybrid_leaf_array(
        points, trees, max(60, min(256, 5 * k)), int(rng.integers(2**62)), angular=False
    )
    heap = utils.make_heap(n, k)
    advance(0.1)
    LOOPS.compare_leaves(points, heap, leaves, _SHARES)
    LOOPS.fill_randomly(k, points, heap, state)
    del leaves
    candidates = min(60, k)
    work = _workspace(n, k, candidates)
    rounds = max(5, round(np.log2(n)))
    for done in range(rounds):
        if deadline.is_over:
            break
        advance(0.25 + 0.75 * done / rounds)
        new, old = LOOPS.candidates(heap, candidates, state, _SHARES, work["lists"])
        changed = LOOPS.compare(
            points, heap, new, old, n // _BLOCK, _BLOCK, _SHARES, work["updates"]
        )
        if changed <= _DELTA * k * n:
            break
    indices, squared = LOOPS.sort(heap[0], heap[1])
    advance(1.0)
    return indices, np.sqrt(squared)


def _workspace(n: int, k: int, candidates: int) -> dict[str, tuple[Any, ...]]:
    """Arrays that the rounds share, in the order of the functions' arguments."""
    most = int((candidates**2 + candidates * (candidates - 1) / 2) * _BLOCK / _SHARES) + 1024
    lists = []
    for _ in range(2):
        lists.append(np.full((n, candidates), -1, dtype=np.int32))
        lists.append(np.full((n, candidates), np.inf, dtype=np.float32))
    return {
        "lists": (
            *lists,
            np.ones(n, dtype=np.uint8),
            np.empty(n * k, dtype=np.int32),
            np.empty(n * k, dtype=np.int32),
            np.zeros((_SHARES, _SHARES + 1), dtype=np.int64),
        ),
        "updates": (
            np.empty((_SHARES, most, 3), dtype=np.float32),
            np.zeros(_SHARES, dtype=np.int32),
            np.empty((_SHARES, 2 * most, 3), dtype=np.float32),
            np.zeros((_SHARES, _SHARES + 1), dtype=np.int64),
        ),
    }
