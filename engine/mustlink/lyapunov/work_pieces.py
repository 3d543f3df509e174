"""Work in pieces, in as many threads as a fit may use; results never depend on their number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.blocks import workers
from mustlink.linear.by_columns import Advance, silent

PIECES = 64

Span = tuple[int, int]


def spans_of(count: int, work: NDArray[Any], pieces: int = PIECES) -> list[Span]:
    """Consecutive ranges of 0 … count−1 with about equal shares of `work` (count+1,), cumulated."""
    if count == 0:
        return []
    even = np.linspace(0, float(work[-1]) + count, pieces + 1)[1:-1]
    cuts = np.searchsorted(np.asarray(work[1:]) + np.arange(1, count + 1), even)
    edges = np.unique(np.concatenate([[0], cuts, [count]]))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def each_of(
    task: Callable[[Span], Any],
    spans: list[Span],
    advance: Advance = silent,
) -> list[Any]:
    """The results of all spans, in order, in as many threads as the fit may use."""
    with ThreadPoolExecutor(workers()) as pool:
        found = []
        for done, result in enumerate(_ordered(pool, task, spans), 1):
            found.append(result)
            advance(done / len(spans))
        return found


def _ordered(pool: ThreadPoolExecutor, task: Any, spans: list[Span]) -> Iterator[Any]:
    jobs = [pool.submit(task, span) for span in spans]
    try:
        for job in jobs:
            yield job.result()
    finally:  # on Ctrl-C the pieces not yet begun are given up
        for job in jobs:
            job.cancel()


def piece(advance: Advance, done: int, count: int) -> Advance:
    """Progress of one piece of work of several."""
    return lambda fraction: advance((done + fraction) / count)
