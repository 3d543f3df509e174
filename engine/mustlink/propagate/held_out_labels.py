"""Which of a few ways to spread labels over a network: the one that predicts labels held out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mustlink.observe import Recorder
from mustlink.propagate.glp import Ints

Way = TypeVar("Way")
_FOLDS = 5
_FEW, _LEAST = 3, 15  # labels of a class in the mean, and in all, that can spare some
_ERRORS = 2.0  # standard errors by which another way must be better than the usual one


class Best(NamedTuple, Generic[Way]):
    """The way taken, why, and which of the labels held out it answers right; None: not tried."""

    way: Way
    why: str
    right: NDArray[np.bool_] | None = None


def is_auto(value: Any) -> bool:
    """Whether a parameter, which may be an array, is left to be decided."""
    return isinstance(value, str) and value == "auto"


def best_way(
    ways: Sequence[Way],
    right: Callable[[Ints], Sequence[NDArray[np.bool_]]],
    nodes: Ints,
    seed: int,
    recorder: Recorder,
) -> Best[Way]:
    """The way that answers most held-out labels right, and why; the first is the usual one.

    `nodes` (n,) have classes or -1. `right(fold)` tells for every way which labelled nodes of the
    fold are answered right without their labels. Another way than the usual one must be better by
    two standard errors of the difference: a handful of labels says little.
    """
    folds = folds_of_labels(nodes, seed)
    if len(ways) == 1:
        return Best(ways[0], "")
    if not folds:
        return Best(ways[0], "by rule: no class has two labels")
    found = []
    with recorder.stage("choosing by held-out labels") as advance:
        for number, fold in enumerate(folds):
            if recorder.deadline.is_over:
                recorder.leave_out("other ways to spread the labels were not tried")
                return Best(ways[0], "by rule: no time to try others")
            found.append(np.array(right(fold), dtype=np.float64))
            advance((number + 1) / len(folds))
    scores = np.concatenate(found, axis=1)  # (ways, labels)
    gains = scores - scores[0]
    error = gains.std(axis=1) / np.sqrt(scores.shape[1])
    mean = np.where(gains.mean(axis=1) > _ERRORS * error, scores.mean(axis=1), -1.0)
    mean[0] = scores[0].mean()
    best = int(mean.argmax())
    usual = "" if best == 0 else f", the usual way {mean[0]:.1%}"
    why = f"{mean[best]:.1%} of {scores.shape[1]} held-out labels are right{usual}"
    return Best(ways[best], why, scores[best] > 0)


def enough_labels(nodes: Ints) -> bool:
    """Whether labels (n,), -1 unknown, can spare a fold to judge what the others answer."""
    known = nodes[nodes >= 0]
    return bool(known.size >= max(_FEW * np.unique(known).size, _LEAST))


def folds_of_labels(nodes: Ints, seed: int) -> list[Ints]:
    """Labelled nodes in five parts, each class spread over them; one label alone is kept."""
    rng = np.random.default_rng(seed)
    part = np.full(nodes.size, -1)
    for c in np.unique(nodes[nodes >= 0]):
        own = rng.permutation(np.flatnonzero(nodes == c))
        if own.size > 1:
            part[own] = (np.arange(own.size) + rng.integers(_FOLDS)) % _FOLDS
    folds = [np.flatnonzero(part == number) for number in range(_FOLDS)]
    return [fold for fold in folds if fold.size]
