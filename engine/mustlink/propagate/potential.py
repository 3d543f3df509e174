"""Solves with the singular L̄: the pseudo-inverse that the Green's function and Poisson share."""

from __future__ import annotations

import numpy as np

from mustlink.linear.cg import block_cg
from mustlink.linear.multigrid.smoothed_aggregation import build_grids
from mustlink.linear.pseudo_inverse import dense_inverse
from mustlink.operators.laplacian import Block
from mustlink.propagate.glp import done
from mustlink.propagate.task import Task
from mustlink.result import Convergence


def potential(task: Task, B: Block) -> tuple[Block, Convergence]:
    """L̄⁺B for a block (m, b): LAPACK for small graphs, else conjugate gradients and multigrid."""
    laplacian, recorder = task.laplacian, task.recorder
    null, tol = laplacian.null, task.solving.tolerance(task.size)
    if task.solving.is_dense(task.size):
        with recorder.stage("propagating"):
            X = dense_inverse(laplacian)(B)
        return X, Convergence("LAPACK", "direct", 0, np.zeros(B.shape[1]), tol)
    with recorder.stage("multigrid set-up"):
        cycle = build_grids(laplacian).cycle()
    with recorder.stage("propagating") as advance:
        return block_cg(
            laplacian.apply,
            B,
            tol=tol,
            max_iter=task.solving.max_iter,
            precondition=cycle,
            project=null.project,
            on_step=lambda worst: advance(done(worst, tol)),
        )
