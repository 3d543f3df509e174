"""NN-descent (Dong, Moses & Li 2011; McInnes's pynndescent), and the time that a search has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.core.observe import Deadline, Recorder
from mustlink.neighbors.exact import drop_own

_SHARE = 0.4  # of the time that is left when the search begins, after which it ends


def descent_lists(
    X: NDArray[np.float32], k: int, seed: int, recorder: Recorder, **metric: Any
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Lists of NN-descent, on one thread: on several they depend on their number.

    `metric` and `metric_kwds` are pynndescent's. It cannot be stopped: where time is short it goes
    through the points fewer times.
    """
    from pynndescent import NNDescent

    how: dict[str, Any] = {"random_state": seed, "n_jobs": 1, **metric}
    with recorder.stage("compiling kNN kernels"):
        tiny = np.abs(np.random.default_rng(0).standard_normal((512, X.shape[1])))
        NNDescent(tiny.astype(np.float32), n_neighbors=4, **how)
    with in_time(recorder):
        nodes, lengths = NNDescent(X, n_neighbors=k + 1, **how).neighbor_graph
        return drop_own(nodes, lengths, np.arange(len(X)))


@contextmanager
def in_time(recorder: Recorder) -> Iterator[tuple[Deadline, Callable[[float], None]]]:
    """The stage of a search, with its share of the time; a note says when it ended early."""
    until = recorder.deadline.share(_SHARE)
    with recorder.stage("kNN graph") as advance:
        yield until, advance
    if until.is_over:  # what was kept from such a search is less
        recorder.skip_for_time("neighbours are searched less far than usual")
