"""Semi-supervised kernel k-means, SSKK (Kulis, Basu, Dhillon & Mooney, ICML 2005; ML 74, 2009).

Their SS-Kernel-KMeans with the normalised cut for objective:

    1  A' ← W + P, the graph and what constraints reward and punish; K ← σM⁻¹ + M⁻¹A'M⁻¹
    2  initial clusters from the constraints (§4.3)
    3  weighted kernel k-means on K from there: batch steps, then moves of single nodes

`SSKK._run` takes these steps in this order, with their numbers beside them; the third is in
`kernel_descent`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.check import as_integer, check_choice, check_positive
from mustlink.constraints import Constraints
from mustlink.cost.method_cost import Cost, eigenvectors
from mustlink.eigen.memory_work import MemoryWork
from mustlink.eigen.solver import laplacian_of
from mustlink.errors import InputError
from mustlink.kernels.kernel_kmeans import Clusters, cluster_links, clusters_of
from mustlink.methods.clusterer import Ints
from mustlink.methods.doubts import note_doubts, warn_if_broken
from mustlink.methods.informed_clusterer import InformedClusterer
from mustlink.methods.kernel_descent import Descent, descend
from mustlink.methods.kernel_starts import (
    WIDEST,
    given_start,
    neighbourhood_start,
    neighbourhoods,
    relaxed_starts,
    spectral_start,
)
from mustlink.observe import Recorder
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.operators.penalized_graph import PenalizedGraph, penalized
from mustlink.result import Report
from mustlink.workspace import Workspace

STARTS = ("auto", "relaxed", "spectral", "neighborhoods")
VOLUMES = ("links", "graph")


@dataclass(eq=False, repr=False)
class SSKK(InformedClusterer):
    """K clusters of least normalised cut plus penalties, by weighted kernel k-means.

    min J = K − Σ_c Σ_{i,j∈c} A'_ij / s_c over clusterings, A' = W + P, where P_ij is +w for a
    must-link, −w for a cannot-link, times its belief (Kulis et al. 2005). With weights M and
    s_c = Σ_{i∈c} M_ii this is kernel k-means on K = σM⁻¹ + M⁻¹A'M⁻¹ for every σ. K is as sparse as
    the graph, labels stay low rank.

    * `volume`: "graph" is the paper's M = D, degrees of W; J then rewards kept must-links without
      bound, and two outliers with a must-link make a cluster. "links" counts must-links in the
      degrees: J = Σ_c [cut + w·(broken must-links) + 2w·(broken cannot-links)]_c / s_c >= 0.
    * `penalty`: w. "auto" is vol/(K·|C|), that is n/(K·|C|) mean degrees, with
      |C| = Σ_{i<j} |Q_ij|, the number of constraints if all are certain.
    * `sigma`: "auto" takes batch steps with σ = 0 while J falls, then with a bound on
      −λ_min(M^-½A'M^-½), with which every step descends but which freezes nodes (Dhillon, Guan &
      Kulis 2007); a number takes steps with that σ while J falls.
    * `init`: "neighborhoods" (must-linked groups and classes, farthest first, spread along
      edges), "relaxed" (J relaxed in the span of smooth eigenvectors), "spectral" (these alone),
      clusters (n,) with -1 where unknown, or "auto": the first two, and the lower J.
    * `max_iter` bounds the batch steps, and the sweeps of single moves.

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

    def _run(self, work: Workspace, known: Constraints, seed: int) -> None:
        graph, recorder = work.graph, work.recorder
        k = self._clusters(work, known.as_given.classes.size, seed, known)
        if k == 1:
            self._in_one(work, known)
            return
        laplacian = laplacian_of(work)
        with recorder.stage("penalties"):
            problem = penalized(laplacian, known, k, self.penalty, self.volume)  # 1
        sigmas = (0.0, problem.bound) if self.sigma == "auto" else (float(self.sigma),)
        tried: dict[str, Descent] = {}
        for name in self._starts(known, laplacian):
            if tried and recorder.deadline.is_over:
                recorder.leave_out(f'the start "{name}" was not tried')
                break
            asked = work.name("sskk", self._depends(), seed, work.memory, known, name)
            starts = work.kept(  # 2
                f"start ({name})",
                asked,
                partial(self._start, name, problem, work, laplacian, known, k, seed),
            )

            def descended(name: str = name, starts: list[Ints] = starts) -> Descent:
                with recorder.stage(f"kernel k-means ({name})"):
                    until = recorder.deadline
                    ends = [
                        descend(problem.A, one, k, sigmas, self.max_iter, until) for one in starts
                    ]
                best = min(ends, key=lambda end: end.objective)
                if not best.settled and until.is_over:  # told before it could be kept
                    recorder.leave_out(_unsettled(best))
                return best

            stage = f"kernel k-means ({name})"
            tried[name] = work.kept(stage, asked, descended, (Descent, Clusters))  # 3
        used = min(tried, key=lambda name: tried[name].objective)
        with recorder.stage("clusters"):
            found = tried[used].state.labels
            self.labels_ = self._labels_knowing(MemoryWork(work), found, k, known, seed)
            self.embedding_ = graph.spread(_edge_shares(problem, laplacian, tried[used]))
        self.graph_ = graph
        note_doubts(known, laplacian, recorder)
        kept = warn_if_broken(self.labels_, known, recorder, "a larger penalty or another method")
        if not tried[used].settled and _unsettled(tried[used]) not in recorder.left_out:
            recorder.warn(
                f"single moves still lowered the objective after {tried[used].sweeps} sweeps; "
                "raise max_iter"
            )
        self.report_ = self._report(k, kept, problem, tried, used, recorder)

    def _report(
        self,
        k: int,
        kept: dict[str, float] | None,
        problem: PenalizedGraph,
        tried: dict[str, Descent],
        used: str,
        recorder: Recorder,
    ) -> Report:
        best = tried[used]
        return Report(
            method="SSKK",
            n_nodes=self.graph_.n_rows,
            n_clusters=k,
            choices={
                "init": used,
                "why": "lowest objective" if len(tried) > 1 else "the only start",
                "penalty": problem.penalty,
                "volume": self.volume,
                "sigma": problem.bound if self.sigma == "auto" else float(self.sigma),
                "graph": dict(self.graph_.info),
            },
            convergence=None,
            satisfaction=kept,
            **recorder.told(),
            extra={
                "objective_start": best.start,
                "objective": best.objective,
                "iterations": best.steps,
                "moves": best.moves,
                "sweeps": best.sweeps,
                "starts": {name: [one.start, one.objective] for name, one in tried.items()},
                "n_components": self.graph_.n_components,
            },
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
        self,
        name: str,
        problem: PenalizedGraph,
        work: Workspace,
        laplacian: NormalizedLaplacian,
        known: Constraints,
        k: int,
        seed: int,
    ) -> list[Ints]:
        if name == "spectral":
            return [spectral_start(work, laplacian, k, seed)]
        if name == "relaxed":
            return relaxed_starts(problem, work, laplacian, k, seed)
        with work.recorder.stage(f"start: {name}"):
            if name == "given":
                return [given_start(problem.A, laplacian, work.graph, self.init, k)]
            return [neighbourhood_start(problem.A, laplacian, known, k)]


def _unsettled(found: Descent) -> str:
    return f"single moves still lowered the objective after {found.sweeps} sweeps"


def _edge_shares(
    problem: PenalizedGraph, laplacian: NormalizedLaplacian, best: Descent
) -> NDArray[np.float64]:
    """Σ_{j∈c} W_ij / d_i, (n, K): rows sum to 1, and to 0 on isolated nodes."""
    W = problem.unconstrained
    shares = cluster_links(W, clusters_of(W, best.state.labels, best.state.weight.size))
    shares /= (laplacian.root_degree**2)[:, None]
    return laplacian.leave(shares)
