"""Answers of a propagation refined by the degree-corrected block model, the labels held."""

from __future__ import annotations

import numpy as np

from mustlink.operators.laplacian import Block
from mustlink.propagate.task import Task
from mustlink.rounding.block_model import BlockModel, refine


def refined(task: Task, P: Block) -> Block:
    """Distributions (m, K) of the classes that the block model finds from those of P.

    Its probabilities of a node are given the classes of its neighbours, and surer than what was
    spread. Nodes without an answer stay so; labelled ones have their label.
    """
    blocks = np.where(P.any(axis=1), P.argmax(axis=1), -1)
    blocks[task.labelled] = task.codes
    possible, held = task.possible_classes, task.is_labelled > 0
    start = BlockModel.of(task.laplacian, blocks, task.n_classes)
    with task.recorder.stage("block model"):
        found = refine(start, held, task.seed, possible=possible, recorder=task.recorder)
        Q = found.distributions(possible)
    Q[task.labelled] = task.Y[task.labelled]
    Q[blocks < 0] = 0.0
    return Q
