"""How much to add to the degrees of a network: decided by what the clusters say about its edges.

The normalised cut of a sparse network is least for sets that hang on it by one edge. With enough
added to every degree they are dear, with too much clusters that are there are missed; what is
enough depends on the network. Candidates are cut at moderate sharpness, and the one is taken whose
clusters, as the vectors give them, tell most about the edges (`edge_information`). Measured on 27
networks with known classes: mean ARI .38 and .72 (real, generated), where modularity takes .36 and
.72, conductance .31 and .49, the best candidate of each .42 and .72; edges held out do as well at
twice the cost, and clusters refined to the likeliest ones tell less about which vectors were good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.chebyshev import chebyshev
from mustlink.eigen.nested_iteration import guard
from mustlink.eigen.plain_solve import is_small
from mustlink.eigen.solver import laplacian_of, smallest_pairs
from mustlink.errors import InputError
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.result import EigenResult
from mustlink.rounding.assign import kmeans
from mustlink.scores.edge_information import edge_information
from mustlink.workspace import Workspace

CANDIDATES = (1.0, 0.3, 0.1, 0.0)
SMOOTH = 0.1  # of a smooth subspace for constraints, beside 0; 0.3 as well was no better
_GIANT = 0.9  # share of the nodes in one cluster
FEWEST = 200  # nodes: below (karate, polbooks, football) the cut as it is was as good
_PROMISED = 0.95  # of what a candidate's clusters told, by the clusters that come of it
_CLEARLY = 1.05  # times what the cut as it is tells of the edges
_MOST = 60  # clusters to compare candidates by: with 100 to 200 blocks ARI was no lower for it
_LARGE = 50_000  # nodes from which candidates are cut at a tenth of the sharpness
_SHARP, _ROUGH = 1e-3, 1e-2
_FILTERS, _RESTARTS, _SAMPLE = 12, 3, 20_000

_EVEN_TOLD = "no node has far fewer edges than most"
_OF_POINTS = ("knn", "kneighbors", "rbf", "image", "adjusted")
_STAGE = "candidate regularisations"

Rows = Callable[[NormalizedLaplacian, EigenResult], Block]
Sharp = Callable[[], EigenResult]


@dataclass(frozen=True)
class RegularizationTried:
    """A candidate: τ, nats that its clusters tell about an edge, share of its largest cluster."""

    tau: float
    information: float
    largest: float


@dataclass(frozen=True)
class Regularization:
    """τ in units of the mean degree, why, and the candidates that were compared."""

    tau: float
    reason: str
    tried: tuple[RegularizationTried, ...] = ()

    @property
    def table(self) -> list[dict[str, float]]:
        """The candidates for a report."""
        return [asdict(one) for one in self.tried]

    def instead(self, told: float) -> Regularization | None:
        """The best other candidate, where the final clusters tell less than theirs promised.

        Single runs of k-means may be lucky in a view that others disappoint in.
        """
        promised = [one.information for one in self.tried if one.tau == self.tau]
        others = [one for one in self.tried if one.tau != self.tau and one.information > told]
        if not promised or told >= _PROMISED * promised[0] or not others:
            return None
        best = max(others, key=lambda one: one.information).tau
        reason = f"{self.reason}; with {self.tau:g} the final ones tell only {told:.3f}"
        return replace(self, tau=best, reason=reason)


def choose_regularization(
    work: Workspace, k: int, rows: Rows, sharp: Sharp, seed: int
) -> Regularization:
    """τ of K clusters of a graph that was given; 0 unless another tells clearly more.

    `rows(laplacian, pairs)` are what k-means sees, (m, r). Every candidate starts from the vectors
    of the one before. Where all nodes have about as many edges, as in graphs of neighbours, the cut
    as it is, of the pairs that `sharp()` finds, need only be no giant with crumbs.
    """
    plain, recorder = laplacian_of(work), work.recorder
    why = "one cluster" if k == 1 else _if_small(work)
    if why:
        return Regularization(0.0, why)
    if work.graph.has_even_degrees:
        with_sharp = rows(plain, sharp())
        with recorder.stage(_STAGE):
            if _largest(work, _clusters(work, with_sharp, k, seed)) <= _GIANT:
                return Regularization(0.0, f"no giant cluster, and {_EVEN_TOLD}")
    k = min(k, _MOST)
    tried: list[RegularizationTried] = []
    start: Block | None = None
    for number, tau in enumerate(CANDIDATES):
        if tried and recorder.deadline.is_over:
            left = len(CANDIDATES) - number
            recorder.leave_out(f"{left} of {len(CANDIDATES)} regularisations were not tried")
            break
        view = work.regularized(tau)
        found, start = _pairs(view, k, start, seed)
        with recorder.stage(_STAGE):
            tried.append(_judged(view, rows(laplacian_of(view), found), k, seed))
    best = max(tried, key=lambda one: one.information * (1.0 if one.tau else _CLEARLY))
    table = ", ".join(f"{one.information:.3f} at {one.tau:g}" for one in tried)
    reason = f"what the clusters tell about an edge, in nats: {table}"
    recorder.note(f"regularization: {best.tau:g} of the mean degree; {reason}")
    return Regularization(best.tau, reason, tuple(tried))


def check_regularization(value: float | str) -> None:
    """Raise InputError unless it is "auto" or a number from 0."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if value != "auto" and not (number and 0 <= float(value) < np.inf):
        raise InputError(
            f"regularization: {value!r} cannot be added to degrees; give auto, or a share of the "
            "mean degree such as 0.3 (0 adds nothing)"
        )


def regularization_of(
    work: Workspace, asked: float | str, k: int, rows: Rows, sharp: Sharp, seed: int
) -> Regularization:
    """What was asked for; "auto": decided by evidence on graphs that were given, else 0.

    Graphs that are made from points have no nodes that hang on by one edge.
    """
    if asked != "auto":
        return Regularization(float(asked), "given")
    why = if_of_points(work.graph.info)
    if why:
        return Regularization(0.0, why)
    return choose_regularization(work, k, rows, sharp, seed)


def reason_for_none(work: Workspace) -> str:
    """Why nothing but 0 is tried on a graph, before any eigenvector; empty for networks."""
    return (
        if_of_points(work.graph.info)
        or _if_small(work)
        or (_EVEN_TOLD if work.graph.has_even_degrees else "")
    )


def if_of_points(info: Mapping[str, Any]) -> str:
    """Why nothing is tried where a graph was made from points, as its `info` tells."""
    return "a graph made from points" if info.get("kind") in _OF_POINTS else ""


def _if_small(work: Workspace) -> str:
    return f"less than {FEWEST} nodes" if laplacian_of(work).size < FEWEST else ""


def _pairs(
    view: Workspace, k: int, start: Block | None, seed: int
) -> tuple[EigenResult, Block | None]:
    """The k smoothest pairs beside the null space, roughly; and a start for the next τ."""
    laplacian = laplacian_of(view).in_single
    space, room = laplacian.space, laplacian.size - laplacian.null.n_components
    wanted = max(0, k - laplacian.null.n_components)
    tol = _SHARP if laplacian.size <= _LARGE else _ROUGH
    width = k + guard(k)
    if wanted == 0 or is_small(laplacian) or 5 * width >= room:
        return smallest_pairs(view, wanted, tol=tol, seed=seed), start

    def noise(columns: int) -> Block:
        return space.normals(columns, seed).astype(laplacian.dtype, copy=False)

    begun = noise(width) if start is None else start
    deadline = view.recorder.deadline
    with view.recorder.stage(_STAGE):
        found = chebyshev(laplacian, begun, wanted, tol=tol, max_iter=_FILTERS, deadline=deadline)
    if not found.convergence.converged.all() and laplacian.size <= _LARGE and not view.tau:
        return smallest_pairs(view, wanted, tol=tol, seed=seed), start
    return found, space.stack([found.vectors, noise(width - wanted)])


def _judged(view: Workspace, rows: Block, k: int, seed: int) -> RegularizationTried:
    """A candidate's clusters, by what they tell about the edges; nothing where rows overflow."""
    found = _clusters(view, rows, k, seed)
    if found is None:
        return RegularizationTried(view.tau, -np.inf, 1.0)
    return RegularizationTried(view.tau, told_by(view, found), _largest(view, found))


def _clusters(view: Workspace, rows: Block, k: int, seed: int) -> NDArray[np.int64] | None:
    """Clusters of the nodes with an edge, (m,); None where rows overflow."""
    if not np.isfinite(rows).all():
        return None
    space = laplacian_of(view).space
    return kmeans(rows, k, seed, restarts=_RESTARTS, sample=_SAMPLE, space=space).labels


def _largest(view: Workspace, clusters: NDArray[np.int64] | None) -> float:
    """Share of the nodes in the largest cluster; all where there are none."""
    if clusters is None:
        return 1.0
    sizes = np.bincount(clusters, laplacian_of(view).weights)
    return float(sizes.max() / sizes.sum())


def told_by(view: Workspace, clusters: NDArray[np.int64]) -> float:
    """What clusters of the nodes with an edge tell of the edges, in nats."""
    labels = np.zeros(view.graph.n_nodes, dtype=np.int64)  # nodes without an edge tell nothing
    labels[laplacian_of(view).nodes] = clusters
    return edge_information(view.graph.affinity, labels)
