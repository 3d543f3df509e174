"""Semi-supervised kernel k-means, SSKK (Kulis, Basu, Dhillon & Mooney, ICML 2005; ML 74, 2009).

Their SS-Kernel-KMeans with the normalised cut for objective:

    1  A' ← W + P, the graph and what constraints reward and punish; K ← σM⁻¹ + M⁻¹A'M⁻¹
    2  initial clusters from the constraints (§4.3)
    3  weighted kernel k-means on K from there: batch steps, then moves of single nodes

`SSKK._run` takes these steps in this order, with their numbers beside them; the third is in
`kernel_descent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.clusterers.clusterer import Ints
from mustlink.clusterers.informed_clusterer import InformedClusterer
from mustlink.clusterers.ncut import NormalizedCuts
from mustlink.constraints import Constraints
from mustlink.constraints.closure import gather
from mustlink.context.method_cost import Cost, eigenvectors
from mustlink.core import dense_algebra
from mustlink.core.check import as_integer, as_labels, check_choice, check_positive
from mustlink.core.observe import NEVER, Deadline
from mustlink.core.result import tell_unconverged
from mustlink.discretize.assign import kmeans
from mustlink.discretize.satisfaction import note_contradictions, warn_if_broken, warn_of_lost
from mustlink.eigen.memory_work import MemoryWork, smoothest
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.kernels.kernel_kmeans import (
    KernelClusters,
    Penalized,
    cluster_links,
    clusters_of,
    fill_empty,
    grow,
    lloyd_step,
    sweep,
)
from mustlink.operators.constraint_operator import PenalizedGraph, penalized
from mustlink.operators.laplacian import NormalizedLaplacian

STARTS = ("auto", "relaxed", "spectral", "neighborhoods")
VOLUMES = ("links", "graph")
_CUT_SHORT = "single moves that lower the objective were not all made"


@dataclass(eq=False, repr=False)
class SSKK(InformedClusterer):
    """K clusters of least normalised cut plus penalties, by weighted kernel k-means.

    min J = K − Σ_c Σ_{i,j∈c} A'_ij / s_c over clusterings, A' = W + P, where P_ij is +w for a
    must-link, −w for a cannot-link, times its belief (Kulis et al. 2005). With weights M and
    s_c = Σ_{i∈c} M_ii this is kernel k-means on K = σM⁻¹ + M⁻¹A'M⁻¹ for every σ. K is as sparse as
    the graph, labels stay low rank.

    * `volume`: the weights M of nodes: "graph" is the paper's M = D, degrees of W; J then rewards
      kept must-links without bound, and two outliers with a must-link make a cluster. "links"
      counts must-links in the degrees: J = Σ_c [cut + w·(broken must-links) + 2w·(broken
      cannot-links)]_c / s_c >= 0.
    * `penalty`: what a broken constraint costs, w. "auto" is vol/(K·|C|), that is n/(K·|C|) mean
      degrees, with |C| = Σ_{i<j} |Q_ij|, the number of constraints if all are certain.
    * `sigma`: shift σ of the kernel: "auto" takes batch steps with σ = 0 while J falls, then with a
      bound on −λ_min(M^-½A'M^-½), with which every step descends but which freezes nodes (Dhillon,
      Guan & Kulis 2007); a number takes steps with that σ while J falls.
    * `init`: the clusters to start from: "neighborhoods" (must-linked groups and classes, farthest
      first, spread along edges), "relaxed" (J relaxed in the span of smooth eigenvectors),
      "spectral" (these alone), clusters (n,) with -1 where unknown, or "auto": the first two, and
      the lower J.
    * `max_iter`: the most batch steps, and the most sweeps of single moves.

    Batch steps are followed by moves of single nodes to where J falls most, until no move helps.
    No cluster is ever empty: its last node stays. After `fit`: `labels_` (n,), `embedding_`
    (n, K), the share of a node's edge weight that leads to each cluster, `graph_`, `report_`; no
    eigenvalues. Cost O(nnz + nK) a step or sweep: 2 s from a good start for 10⁶ nodes, 10 s from a
    poor one, beside the eigenvectors of the start.
    """

    init: Any = "auto"
    penalty: float | str = "auto"
    volume: str = "links"
    sigma: float | str = "auto"
    max_iter: int = 300

    def _run(self, work: MemoryWork, known: Constraints, seed: int) -> None:
        recorder = work.recorder
        k = self._clusters(work, known.as_given.classes.size, seed, known)
        if k == 1:
            self._in_one(work, known)
            return
        laplacian = work.laplacian
        with recorder.stage("penalties"):
            problem = penalized(laplacian, known, k, self.penalty, self.volume)  # 1
        sigmas = (0.0, problem.bound) if self.sigma == "auto" else (float(self.sigma),)
        tried: dict[str, Descent] = {}
        for name in self._starts(known, laplacian):
            if tried and recorder.deadline.is_over:
                recorder.skip_for_time(f'the start "{name}" was not tried')
                break
            depends = type(self).__name__, self._depends(), seed, known, name
            begin = partial(self._start, name, problem, work, known, k)
            starts = work.cached(f"start ({name})", depends, begin)  # 2
            stage = f"kernel k-means ({name})"

            def descended(stage: str = stage, starts: list[Ints] = starts) -> Descent:
                with recorder.stage(stage):
                    until = recorder.deadline
                    ends = [
                        descend(problem.A, one, k, sigmas, self.max_iter, until) for one in starts
                    ]
                best = min(ends, key=lambda end: end.objective)
                if not best.settled and until.is_over:  # before it is stored
                    recorder.skip_for_time(_CUT_SHORT)
                return best

            tried[name] = work.cached(stage, depends, descended, (Descent, KernelClusters))  # 3
        used = min(tried, key=lambda name: tried[name].objective)
        best = tried[used]
        clusters = self._pulled(work, best.state.labels, known, k)
        self.labels_ = self._labels(work, clusters, k)
        with recorder.stage("clusters"):
            self.embedding_ = work.graph.spread(_edge_shares(problem, laplacian, best))
        self.graph_ = work.graph
        note_contradictions(known, recorder)
        warn_of_lost(int(np.count_nonzero(laplacian.positions[known.nodes] < 0)), recorder)
        kept = warn_if_broken(self.labels_, known, recorder, "a larger penalty or another method")
        if not best.settled and _CUT_SHORT not in recorder.left_out:
            recorder.warn(
                f"single moves still lowered the objective after {best.sweeps} sweeps; "
                "raise max_iter"
            )
        choices = {
            "init": used,
            "why": "lowest objective" if len(tried) > 1 else "the only start",
            "penalty": problem.penalty,
            "volume": self.volume,
            "sigma": problem.bound if self.sigma == "auto" else float(self.sigma),
        }
        self._report(
            work,
            k,
            choices,
            None,
            kept,
            objective_start=best.start,
            objective=best.objective,
            iterations=best.steps,
            moves=best.moves,
            sweeps=best.sweeps,
            starts={name: [one.start, one.objective] for name, one in tried.items()},
        )

    def _reorder(self, labels: Ints) -> None:
        """A column of the embedding is a cluster's: they follow the numbers."""
        there = self.labels_ >= 0
        number = dict(zip(self.labels_[there].tolist(), labels[there].tolist(), strict=True))
        k = self.embedding_.shape[1]
        empty = [c for c in range(k) if c not in number]
        columns = [*sorted(number, key=number.__getitem__), *empty]
        self.embedding_ = np.ascontiguousarray(self.embedding_[:, columns])

    def cost(self, n_classes: int | None = None) -> Cost:
        """The smooth vectors of its start: 4K for the relaxed one, K for the spectral one."""
        k = self._k_or(n_classes)
        if isinstance(self.init, str):
            return eigenvectors(WIDEST * k if self.init in ("auto", "relaxed") else k)
        return eigenvectors(1)

    def _check(self) -> None:
        if isinstance(self.init, str):
            check_choice(self.init, STARTS, "init")
        check_choice(self.volume, VOLUMES, "volume")
        if self.penalty != "auto":
            check_positive(self.penalty, "penalty")
        if isinstance(self.sigma, str):
            check_choice(self.sigma, ("auto",), "sigma")
        elif not 0 <= self.sigma < np.inf:
            raise InputError(f'sigma: {self.sigma} is no shift; give a number >= 0 or "auto"')
        as_integer(self.max_iter, "max_iter", low=1)

    def _starts(self, known: Constraints, laplacian: NormalizedLaplacian) -> tuple[str, ...]:
        if not isinstance(self.init, str):
            return ("given",)
        if self.init != "auto":
            return (self.init,)
        if known.is_empty:
            return ("spectral",)
        grouped = neighbourhoods(known, laplacian)[0].size > 0
        return ("relaxed", "neighborhoods") if grouped else ("relaxed",)

    def _start(
        self, name: str, problem: PenalizedGraph, work: MemoryWork, known: Constraints, k: int
    ) -> list[Ints]:
        A, laplacian, seed = problem.A, work.laplacian, self._used_seed
        if name == "spectral":
            cut = NormalizedCuts(work, k, seed=seed).sharp()
            tell_unconverged(work.recorder, cut.convergence, single=work.view.single)
            return [cut.clusters]
        if name == "relaxed":
            return relaxed_starts(problem, work, k, seed)
        with work.recorder.stage(f"start: {name}"):
            if name == "given":
                return [start_from_labels(A, laplacian, work.graph, self.init, k)]
            return [neighbourhood_start(A, laplacian, known, k)]


def _edge_shares(
    problem: PenalizedGraph, laplacian: NormalizedLaplacian, best: Descent
) -> NDArray[np.float64]:
    """Σ_{j∈c} W_ij / d_i, (n, K): rows sum to 1, and to 0 on isolated nodes."""
    W = problem.unconstrained
    shares = cluster_links(W, clusters_of(W, best.state.labels, best.state.weight.size))
    shares /= (laplacian.root_degree**2)[:, None]
    return laplacian.from_working_order(shares)


# --- Where kernel k-means begins: must-link neighbourhoods, smooth eigenvectors, given labels


WIDEST = 4  # smooth vectors for the relaxation, times k
_SMOOTHING = 20  # products after which a node without affinity to the centres counts as far


def relaxed_starts(problem: PenalizedGraph, work: MemoryWork, k: int, seed: int) -> list[Ints]:
    """k-means on the relaxed minimiser of J among smooth vectors: k, 2k and 4k of them.

    f = D^-½Uc for the smoothest eigenvectors U of L̄: the k largest pairs of
    (UᵀSU + wFᵀQF)c = μFᵀMFc with F = D^-½U, a small dense problem; k of them are the unconstrained
    start. Over all vectors the relaxation would have spikes on the constrained nodes.
    """
    basis, laplacian = smoothest(work.view, WIDEST * k, seed=seed), work.laplacian
    Q, w, weight = problem.Q, problem.penalty, problem.A.weight
    found = []
    with work.recorder.stage("start: relaxation"):
        held = Q.support
        F = basis.vectors[held] / laplacian.root_degree[held, None]
        links = np.diag(1.0 - np.concatenate([[0.0], basis.values])) + w * F.T @ Q.inner(F)
        extra = weight[held] - laplacian.root_degree[held] ** 2
        mass = np.eye(basis.p + 1) + F.T @ (extra[:, None] * F)
        for p in sorted({min(p, basis.p) for p in (k - 1, 2 * k, WIDEST * k)}):
            part = slice(0, p + 1)
            C = dense_algebra.eigh(
                (links + links.T)[part, part] / 2, (mass + mass.T)[part, part] / 2
            )[1]
            rows = basis.vectors[:, part] @ C[:, ::-1][:, :k] / laplacian.root_degree[:, None]
            found.append(kmeans(rows, k, seed, space=laplacian.space).labels)
    return found


def neighbourhoods(known: Constraints, laplacian: NormalizedLaplacian) -> tuple[Ints, Ints]:
    """Working nodes and their neighbourhood: must-linked groups and labelled classes, from 0.

    The transitive closure of positive pairs and labels (Kulis et al. 2005). O(n + m log m).
    """
    pairs, mean = known.merged
    closed = gather(pairs[mean > 0], np.empty((0, 2), dtype=np.int64), known.labels)
    nodes = laplacian.positions[closed.nodes]
    linked = nodes >= 0
    groups = np.unique(closed.grouped[0][linked], return_inverse=True)[1]
    return nodes[linked], np.asarray(groups, dtype=np.int64).ravel()


def neighbourhood_start(
    A: Penalized, laplacian: NormalizedLaplacian, known: Constraints, k: int
) -> Ints:
    """Choose k neighbourhoods by farthest-first, then everything else ring by ring.

    The first is the heaviest; each next has the least kernel value Σ_{i∈a,j∈b} A'_ij / √(s_a s_b)
    to its nearest predecessor (the cosine in the limit of a large shift), so that cannot-linked
    ones come first, and among equals the heaviest: most values of a sparse kernel are zero. Fewer
    than k neighbourhoods are completed by single nodes that a diffusion does not reach. Kernel
    distance to a centre tells nothing beyond its neighbours, hence `spread`. Cost O(k nnz).
    """
    nodes, group = neighbourhoods(known, laplacian)
    labels = np.full(laplacian.size, -1, dtype=np.int64)
    weight = np.bincount(group, weights=A.weight[nodes])
    nearest = np.full(weight.size, -np.inf)
    for c in range(min(k, weight.size)):
        chosen = int(np.lexsort((-weight, nearest))[0])
        members = nodes[group == chosen]
        labels[members] = c
        side = np.zeros(laplacian.size, dtype=np.int64)
        side[members] = 1
        links = cluster_links(A, clusters_of(A, side, 2))[nodes, 1]
        value = np.bincount(group, weights=links) / np.sqrt(weight * weight[chosen])
        nearest = np.maximum(nearest, value)
        nearest[chosen] = np.inf
    for c in range(weight.size, k):
        labels[_out_of_reach(laplacian, labels >= 0)] = c
    return spread(A, laplacian, labels, k)


def _out_of_reach(laplacian: NormalizedLaplacian, taken: NDArray[np.bool_]) -> int:
    """The node that a diffusion from the taken ones reaches least; of several the best linked."""
    heat = laplacian.smooth((laplacian.root_degree * taken)[:, None], _SMOOTHING)[:, 0]
    heat = np.where(taken, np.inf, np.abs(heat) / laplacian.root_degree)
    return int(np.lexsort((-laplacian.root_degree, heat))[0])


def start_from_labels(
    A: Penalized, laplacian: NormalizedLaplacian, graph: Graph, init: object, k: int
) -> Ints:
    """The caller's clusters (rows,) in working order; where they say -1, from the neighbours."""
    labels = as_labels(init, graph.n_rows, "init")[graph.first_rows]
    if labels.max() >= k:
        raise InputError(f"init: cluster {labels.max()} given, but n_clusters is {k}; use 0 … K-1")
    return spread(A, laplacian, laplacian.to_working_order(labels), k)


def spread(A: Penalized, laplacian: NormalizedLaplacian, labels: Ints, k: int) -> Ints:
    """Labels for all nodes; a component that nothing reaches joins the lightest cluster."""
    found = grow(laplacian.edges, laplacian.root_degree, labels, k)
    lost = found < 0
    if lost.any():
        degrees = A.weight
        weight = np.bincount(found[~lost], weights=degrees[~lost], minlength=k)
        component = laplacian.null.component
        size = np.bincount(component[lost], weights=degrees[lost])
        place = np.full(size.size, -1)
        for part in np.argsort(-size, kind="stable")[: np.count_nonzero(size)]:
            place[part] = int(weight.argmin())
            weight[place[part]] += size[part]
        found[lost] = place[component[lost]]
    return found


# --- Step 3 of SSKK: down from a start, by batch steps and by moves of single nodes


@dataclass(frozen=True, eq=False)
class Descent:
    """A clustering and how it was reached: objective at the start, work done, whether at rest."""

    state: KernelClusters
    start: float
    steps: int = 0
    moves: int = 0
    sweeps: int = 0
    settled: bool = False

    @property
    def objective(self) -> float:
        """J of the clustering."""
        return objective(self.state)


def objective(state: KernelClusters) -> float:
    """J = K − Σ_c a_c/s_c with a_c = Σ_{i,j∈c} A'_ij: the penalised normalised cut."""
    return float(state.weight.size - (state.inside / state.weight).sum())


def descend(
    A: Penalized,
    labels: Ints,
    k: int,
    sigmas: Sequence[float],
    max_iter: int,
    deadline: Deadline = NEVER,
) -> Descent:
    """From a start (m,) down to a clustering that no batch step and no single move improves.

    A cluster that is empty in the start first gets the one node that J gains most by. J falls in
    every step, so that what is there at the `deadline` is the best.
    """
    state = clusters_of(A, labels, k)
    if fill_empty(A, state):
        state = clusters_of(A, state.labels, k)
    found = Descent(state, objective(state))
    for sigma in sigmas:
        found = lloyd(A, found, sigma, max_iter, deadline)
    return local_search(A, found, max_iter, deadline)


def lloyd(A: Penalized, found: Descent, sigma: float, max_iter: int, deadline: Deadline) -> Descent:
    """Batch steps with one shift (Kulis et al. 2005, SS-Kernel-KMeans) while J falls.

    With a shift that makes the kernel positive semidefinite no step can raise J.
    """
    while found.steps < max_iter and not deadline.is_over:
        nearest = lloyd_step(A, found.state, sigma)
        if np.array_equal(nearest, found.state.labels):
            break
        state = clusters_of(A, nearest, found.state.weight.size)
        if not objective(state) < found.objective:
            break
        found = replace(found, state=state, steps=found.steps + 1)
    return found


def local_search(A: Penalized, found: Descent, max_iter: int, deadline: Deadline) -> Descent:
    """Single moves until none helps (Dhillon, Guan & Kulis 2007, local search, chains of one).

    Nodes are looked at again when a neighbour has moved; all of them, with totals computed anew,
    before the end is declared.
    """
    k = found.state.weight.size
    moves, sweeps, settled = 0, 0, False
    state = clusters_of(A, found.state.labels, k)
    awake = np.zeros(state.labels.size, dtype=np.uint8)
    while sweeps < max_iter and not settled and not deadline.is_over:
        moved = sweep(A, state, awake, every=True)
        moves, sweeps, settled = moves + moved, sweeps + 1, moved == 0
        while moved and sweeps < max_iter and not deadline.is_over:
            moved = sweep(A, state, awake, every=False)
            moves, sweeps = moves + moved, sweeps + 1
        state = clusters_of(A, state.labels, k)
    return replace(found, state=state, moves=moves, sweeps=sweeps, settled=settled)
