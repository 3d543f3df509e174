"""The report of a propagation."""

from __future__ import annotations

from typing import Any

import numpy as np

from mustlink.propagate.glp import Ints
from mustlink.propagate.task import Solution, Task
from mustlink.result import Report


def report_of(
    method: str, task: Task, solution: Solution, choices: dict[str, Any], given: Ints, answers: Ints
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
            "graph": dict(task.graph.info),
        },
        convergence=convergence,
        satisfaction=None,
        **task.recorder.told(),
        extra={
            "n_components": task.graph.n_components,
            "n_labels": int(np.count_nonzero(known)),
            "labels_kept": float(np.mean(answers[known] == given[known])),
            "unanswered": int(np.count_nonzero(answers < 0)),
        },
    )
