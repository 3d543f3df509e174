"""What a propagation sets and tells once its distributions are known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.blocks import by_rows
from mustlink.propagate.distribution import confidence
from mustlink.propagate.doubts import doubt_answers, doubt_held_out, note_shares, warn_unreached
from mustlink.propagate.glp import Ints
from mustlink.propagate.held_out_labels import Best
from mustlink.propagate.solution import AnyTask, Solution
from mustlink.propagate.told import Told
from mustlink.result import Report
from mustlink.stopping import TIME_LIMIT

_ROWS = 1 << 16  # of distributions that are looked at together
Array = NDArray[Any]


def conclude(
    estimator: Any,
    task: AnyTask,
    solution: Solution,
    best: Best[Any],
    P: Any,
    told: Told,
    name: str,
    n_components: int,
    *,
    advice: str = "",
    last: bool = True,
) -> None:
    """Set labels, distributions `P` (n, K) and report of an estimator; `P` may be on disk.

    `name` is that of the method in the report, `advice` on nodes that are not reached. Unless it is
    the `last` step nothing is said about answers.
    """
    way, recorder, classes, given = best.way, task.recorder, estimator.classes_, told.rows
    codes, sure = np.empty(len(P), dtype=np.int64), np.empty(len(P))
    at_once = max(len(P), 1) if isinstance(P, np.ndarray) else _ROWS
    for first in range(0, len(P), at_once):
        rows = slice(first, first + at_once)
        part = P[rows]
        codes[rows], sure[rows] = answers(part), confidence(part)
    convergence, answered = solution.convergence, codes >= 0
    missed = convergence is not None and not convergence.converged.all()
    if convergence is not None and missed and convergence.reason != TIME_LIMIT:
        recorder.warn(convergence.status)
    shares = way._shares(task)
    if way._scales_classes() and (shares is None or way.class_mass is True):
        note_shares(task.class_counts, recorder, always=way._counts_labels)
    labels = np.where(answered, classes[codes], -1)
    estimator.labels_, estimator.label_distributions_, estimator.confidence_ = labels, P, sure
    warn_unreached(int(np.count_nonzero(~answered)), advice, recorder)
    if last:  # as a step of another method, classes are not the answer
        doubt_answers(classes, given, labels, way._remedy(), recorder)
        mean = float(sure[answered].mean()) if answered.any() else 0.0
        doubt_held_out(best.right, told.nodes, mean, recorder)
    choices = {"class_mass": way._told_masses(shares), "refine": way.refine}
    choices |= {"why": best.why} if best.why else {}
    estimator.report_ = _report(name, task, solution, choices, given, labels, n_components)


def answers(P: Array) -> Array:
    """Class of every row (m, K), (m,); −1 for a zero row."""
    return by_rows(lambda P: np.where(P.any(axis=1), P.argmax(axis=1), -1), P)


def _report(
    method: str,
    task: AnyTask,
    solution: Solution,
    choices: dict[str, Any],
    given: Ints,
    answers: Ints,
    n_components: int,
) -> Report:
    """What is told of a fit: `given` (n,) labels of rows, -1 unknown, and `answers` (n,)."""
    known, convergence = given >= 0, solution.convergence
    return Report(
        method=method,
        n_nodes=given.size,
        n_clusters=task.n_classes,
        choices={
            **solution.choices,
            **choices,
            "solver": "none" if convergence is None else convergence.solver,
            "graph": dict(task.info),
        },
        convergence=convergence,
        satisfaction=None,
        **task.recorder.told(),
        extra={
            "n_components": n_components,
            "n_labels": int(np.count_nonzero(known)),
            "labels_kept": float(np.mean(answers[known] == given[known])),
            "unanswered": int(np.count_nonzero(answers < 0)),
        },
    )
