"""Neighbourhoods of points, which LNP, LLELP and LTSALP fit locally, and what the latter share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from mustlink.eigen.plain_solve import default_tolerance
from mustlink.errors import NumericalError
from mustlink.kernels.local_fits import nearest_listed
from mustlink.linear.cg import Map
from mustlink.linear.multigrid.galerkin import Product, galerkin_cycle
from mustlink.observe import Recorder
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.propagate.balanced import projected
from mustlink.propagate.energies import Energy, Floats, System
from mustlink.propagate.glp import Solving, propagate
from mustlink.propagate.solution import Solution
from mustlink.propagate.task import Task
from mustlink.result import Convergence

Lists = NDArray[np.int32]
_LARGE = 20_000  # nodes from which a looser residual is asked for
_FAR = 1e15  # sizes of coordinates whose sums of squares fit single precision, and their inverse


def located(points: NDArray[np.floating[Any]], metric: str) -> NDArray[np.floating[Any]]:
    """The points (m, d) as neighbours are near: of unit length for the cosine metric.

    Fits do not depend on their unit: a power of two is taken out where squares would not fit.
    """
    size = float(np.abs(points).max(initial=0.0))
    if size and not 1 / _FAR <= size <= _FAR:
        points = np.ldexp(points, -int(np.frexp(size)[1]))
    if metric != "cosine":
        return points
    length = np.linalg.norm(points.astype(np.float64), axis=1, keepdims=True)
    found: NDArray[np.floating[Any]] = (points / length).astype(points.dtype)
    return found


def neighbourhoods(
    points: NDArray[np.floating[Any]], laplacian: NormalizedLaplacian, k: int, recorder: Recorder
) -> Lists:
    """The k nearest graph neighbours of every node (m, k), -1 where it has fewer.

    Edges that bridge a graph are long, and among the k nearest of nobody. Where the lists fall into
    more parts than the graph, the nearest neighbour in another part is one more column.
    """
    edges, parts, size = laplacian.pattern, laplacian.null.n_components, laplacian.size
    lists = nearest_listed(points, edges.indptr, edges.indices, k)
    while (part := _parts(lists)).max() + 1 > parts:
        ends = edges.rows
        crossing = part[ends] != part[edges.indices]
        counts = np.bincount(ends[crossing], minlength=size)
        indptr = np.append(0, np.cumsum(counts)).astype(edges.indptr.dtype)
        nearest = nearest_listed(points, indptr, edges.indices[crossing], 1)
        recorder.note(
            f"the {k} nearest neighbours leave {int(part.max()) + 1} parts where the graph has "
            f"{parts}; {int((counts > 0).sum())} nodes take their shortest edge across as well"
        )
        lists = np.hstack([lists, nearest])
    return lists


def _parts(lists: Lists) -> NDArray[np.int32]:
    """Part of every node, taking the lists for undirected edges."""
    joined = as_matrix(np.ones(lists.shape), lists)
    return np.asarray(connected_components(joined, directed=False)[1], dtype=np.int32)


def as_matrix(weights: NDArray[np.float64], lists: Lists) -> sp.csr_matrix:
    """Weights (m, k) of the listed neighbours as a CSR matrix (m, m), sorted, without zeros."""
    there = (lists >= 0) & (weights != 0)
    indptr = np.append(0, np.cumsum(there.sum(axis=1))).astype(np.int32)
    m = lists.shape[0]
    found = sp.csr_matrix((weights[there], lists[there], indptr), shape=(m, m))
    found.sort_indices()
    return found


@dataclass(frozen=True, eq=False)
class Fit:
    """A form M on some of the nodes: products in double and single precision, PᵀMP, diag(M)."""

    apply: Map
    single: Product
    galerkin: Callable[[sp.csr_matrix], sp.csr_matrix]
    diagonal: Floats

    def system(self, pattern: sp.csr_matrix, weight: Floats) -> System:
        """M + diag(weight) with a multigrid of its own, aggregated along `pattern`."""
        rows = np.flatnonzero(weight)
        extra = weight[rows, None]
        extra32 = extra.astype(np.float32)

        def apply(X: Block) -> Block:
            Y = self.apply(X)
            Y[rows] += extra * X[rows]
            return Y

        def single(X: NDArray[np.float32]) -> NDArray[np.float32]:
            Y = self.single(X)
            Y[rows] += extra32 * X[rows]
            return Y

        def coarse(P: sp.csr_matrix) -> sp.csr_matrix:
            inner = P[rows]
            return sp.csr_matrix(self.galerkin(P) + inner.T @ sp.diags_array(weight[rows]) @ inner)

        cycle = galerkin_cycle(single, self.diagonal + weight, coarse, pattern)
        return System(apply, np.ones(weight.size), cycle)


def embed(task: Task, energy: Energy, orthogonal: bool, alpha: float) -> Solution:
    """Semi-supervised embedding (AB09 §5.2): labels clamped, or weighted by α and f ⟂ 1.

    Unless the caller says how, graphs of more than 20,000 nodes are solved to 1e-4, and of more
    than 200,000 to 1e-3: less than one label in a thousand was measured to change below.
    """
    wanted = task.solving
    if wanted.tol is None and task.size > _LARGE:
        wanted = replace(wanted, tol=default_tolerance(task.size))
    Y, weight = task.believed(task.Y, alpha * task.labels_held if orthogonal else None)
    weight = np.zeros(task.size) if weight is None else weight
    chosen = {"orthogonal": orthogonal} | ({"alpha": alpha} if orthogonal else {})

    def solved(solving: Solving) -> Solution:
        if not orthogonal:
            # M1 = 0: measured from their mean, labels need no steps for what is constant, and
            # rows sum to 1 even where the solution is not unique.
            mean = 1.0 / task.n_classes
            F, convergence = propagate(
                energy, Y - mean, task.recorder, solving, clamped=task.labelled, weight=weight
            )
            F += mean
        elif solving.is_dense(task.size):
            F, convergence = propagate(
                energy,
                Y,
                task.recorder,
                solving,
                weight=weight,
                balance=task.copies,
            )
        else:
            F, convergence = _balanced(task, energy, Y, weight, solving)
        return Solution(F, convergence, dict(chosen))

    try:
        return solved(wanted)
    except NumericalError:
        # Points on a plane with fewer labels than coordinates, for example. The system has a
        # solution even so, and conjugate gradients find one.
        task.recorder.warn(
            "the labels do not determine all values (M is singular on the unlabelled nodes); "
            "those of the conjugate gradients are given"
        )
        return solved(replace(wanted, solver="cg"))


def _balanced(
    task: Task, energy: Energy, Y: Block, weight: Floats, solving: Solving
) -> tuple[Block, Convergence]:
    """(M + diag(w))f = wy + μc, f ⟂ c, by conjugate gradients that never leave c^⟂.

    c are the copies of every node, 1 where it is alone.

    The response to c, from which μ could be had, would take several times as many steps: it lies
    along all that M hardly sees.
    """
    tol = solving.tolerance(task.size)
    copies = task.laplacian.weights
    project = _centred if copies is None else partial(_orthogonal, copies)
    with task.recorder.stage("multigrid set-up"):
        system = energy.system(np.arange(task.size), weight)
    return projected(system, project, weight[:, None] * Y, tol, task.recorder, solving)


def _orthogonal(c: Floats, X: Block) -> Block:
    return np.asarray(X - np.outer(c, (c @ X) / (c @ c)), dtype=np.float64)


def _centred(X: Block) -> Block:
    return np.asarray(X - X.mean(axis=0), dtype=np.float64)
