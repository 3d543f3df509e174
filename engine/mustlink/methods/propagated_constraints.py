"""The estimator behind SRCP and E2CP: constraints spread, similarities adjusted, graph cut."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from mustlink.check import as_integer, check_choice, check_positive
from mustlink.constraints import Constraints
from mustlink.cost.vectors import Needs, spread_bytes
from mustlink.eigen.solver import SOLVERS as EIGEN_SOLVERS
from mustlink.eigen.solver import laplacian_of
from mustlink.errors import InputError
from mustlink.estimator import check_tolerance, threads
from mustlink.lyapunov.adjustment import Adjustment
from mustlink.lyapunov.equation import Problem
from mustlink.lyapunov.new_edges import NewEdges
from mustlink.lyapunov.pair_propagation import SOLVERS, Solved, solve_pairs
from mustlink.lyapunov.sources import Sources, sources_of
from mustlink.methods.adjusted_cut import Candidate, Ways, adjusted_graph, best_cut
from mustlink.methods.clusterer import Ints
from mustlink.methods.informed_clusterer import (
    InformedClusterer,
    note_doubts,
    side_information,
    warn_if_broken,
)
from mustlink.methods.ncut import VARIANTS, warn_of_gap
from mustlink.observe import Observer, Recorder, recorded
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.result import Convergence, Report
from mustlink.rounding.renumber import aligned
from mustlink.workspace import Workspace

POWERS = (1.0, 0.5, 0.25)
_FACTORS = 2 * 10**9  # bytes for one part of the constraints where no memory was named
_SHARE = 4  # of the memory named: beside it there are graph, multigrid and vectors


@dataclass(eq=False, repr=False)
class PropagatedConstraints(InformedClusterer):
    """Base of methods that spread pairwise constraints F over the graph and adjust it by them.

    W* is W moved by F (FLI11 eq. 9), and cut by its K smoothest eigenvectors as by `NCut`.

    * `new_edges`: F > 0 makes edges between nodes that have none; each node gets as many as this
      of the largest. 0 keeps the graph's pattern. On small sets 20 are as good as all of them.
    * `normalize`: divide F by its largest magnitude, which is far below 1 when pairs are few, and
      raise |F| to `power`, 1, 1/2 or 1/4, which makes what is far from the given pairs count
      more. False is the paper as printed.
    * `solver`: of the propagation, "dense", "diffusion", "krylov" or "auto", see
      `lyapunov.solve`; `tol`, a bound on the error of every F_ij, which
      usually is 15 times smaller; F > tol/10 makes new edges. `memory`: bytes for the
      factors of F, beside the graph; constraints are taken in parts where need be.
    * `variant`: "luxburg" or "ng" as in `NCut`; `eigen_solver`, `eigen_tol`, `max_iter` of the cut.

    `power="auto"` and `variant="auto"` try what there is and take the clusters that keep most
    constraints: mean ARI over five small sets .72 → .85, against .86 for the best of all.
    """

    _: KW_ONLY
    n_neighbors: int = 20
    new_edges: int = 20
    normalize: bool = True
    power: float | str = "auto"
    solver: str = "auto"
    tol: float = 1e-3
    variant: str = "auto"
    eigen_solver: str = "auto"
    eigen_tol: float | None = None
    max_iter: int = 200

    _parameter: ClassVar[str]
    _needs: ClassVar[Needs] = staticmethod(spread_bytes)

    @abstractmethod
    def _check_parameter(self) -> None:
        """Raise InputError for a parameter of the method that makes no sense."""

    @abstractmethod
    def _problem(self, laplacian: NormalizedLaplacian, Y: Sources) -> Problem:
        """What F solves."""

    def refit(
        self,
        constraints: Constraints | None = None,
        y: Any = None,
        observer: Observer | Recorder | None = None,
    ) -> Self:
        """Cluster the same graph again with other constraints (all of them, not only new ones).

        Clusters keep their numbers as far as they can, and the report's `changed` is the share of
        nodes that moved. Propagation and cut are done anew, the graph is not.
        """
        check_is_fitted(self)
        self._check()
        recorder = recorded(observer)
        with threads(self.n_jobs):
            known = side_information(self.graph_.n_nodes, y, constraints)
            before = self.labels_ if self._k == self.n_clusters else None
            self._run(self._view(self.graph_, recorder), known, self._used_seed, before)
        return self

    @property
    def affinity_matrix_(self) -> sp.csr_matrix:
        """W* (n, n) CSR in the caller's order, made on demand; weights in [0, 1]."""
        work = self._view(self.graph_, Recorder())
        laplacian = laplacian_of(work)
        adjusted = adjusted_graph(laplacian, self._change, work.recorder)
        n, m = laplacian.n_nodes, laplacian.size
        place = sp.csr_matrix((np.ones(m), (laplacian.nodes, np.arange(m))), shape=(n, m))
        return sp.csr_matrix(place @ adjusted.affinity @ place.T)

    def _check(self) -> None:
        self._check_parameter()
        check_choice(self.variant, ("auto", *VARIANTS), "variant")
        check_choice(self.solver, SOLVERS, "solver")
        check_choice(self.eigen_solver, EIGEN_SOLVERS, "eigen_solver")
        as_integer(self.new_edges, "new_edges", 0)
        as_integer(self.max_iter, "max_iter", 1)
        if check_positive(self.tol, "tol") >= 1.0:
            raise InputError(f"tol: {self.tol:g} is no accuracy; give one below 1, such as 1e-3")
        if not isinstance(self.normalize, bool | np.bool_):
            raise InputError(f"normalize: {self.normalize!r} is neither True nor False")
        if isinstance(self.power, str):
            check_choice(self.power, ("auto",), "power")
        elif check_positive(self.power, "power") > 1.0:
            raise InputError(f"power: {self.power:g} given; it must be at most 1, or auto")
        elif self.power != 1.0 and not self.normalize:
            raise InputError(f"power: {self.power} shapes a normalised F; set normalize=True")
        check_tolerance(self.eigen_tol, "eigen_tol")

    def _run(
        self,
        work: Workspace,
        known: Constraints,
        seed: int,
        before: Ints | None = None,
    ) -> None:
        graph, recorder = work.graph, work.recorder
        k = self._check_clusters(graph)
        laplacian = laplacian_of(work)
        note_doubts(known, laplacian, recorder)
        asked = work.name("propagated", type(self).__name__, self._depends(), seed, known)
        allowed = _FACTORS if work.memory is None else work.memory // _SHARE

        def spread() -> Solved:
            return solve_pairs(
                self._problem(laplacian, sources_of(known, laplacian)),
                recorder,
                new_edges=int(self.new_edges),
                solver=self.solver,
                tol=float(self.tol),
                memory=allowed,
            )

        parts = (Solved, Adjustment, NewEdges, Convergence)
        name = work.shelf.name_of("spread", asked, allowed)
        solved = work.kept("constraint propagation", name, spread, parts)
        edges = solved.adjustment.summary(solved.floor)
        if edges["weakened"] and not edges["strengthened"] and not edges["added"]:
            recorder.warn("F < 0 wherever it changes the graph: few must-links, or it is too far")
        ways = self._ways(known, solved, k, seed)
        best = best_cut(work, known, ways, name)
        place = best.place
        labels, changed = self._labels(place, best.cut.clusters, recorder), None
        if before is not None:
            labels, changed = aligned(before, labels, k)
            recorder.note(f"refit: {changed:.2%} of the nodes changed their cluster")
        warn_of_gap(best.cut, recorder)
        kept = warn_if_broken(labels, known, recorder)
        self.graph_, self.labels_ = graph, labels
        self.embedding_, self.eigenvalues_ = place.leave(best.cut.embedding), best.cut.values
        self._change = ways.shaped(best.power)
        self._used_seed, self._k = seed, k
        self.report_ = self._report(solved, edges, best, kept, recorder, changed)

    def _ways(self, known: Constraints, solved: Solved, k: int, seed: int) -> Ways:
        """Shapes of F and variants to try; nothing to choose without constraints."""
        variants = (self.variant,) if self.variant != "auto" else ("luxburg", "ng")
        powers = POWERS if self.power == "auto" else (float(self.power),)
        change, largest = solved.adjustment, solved.largest
        plain = largest == 0 or not self.normalize

        def shaped(power: float) -> Adjustment:
            return change if plain else change.shaped(largest, power, solved.floor)

        if known.is_empty or largest == 0:
            variants = variants[:1]
        cutting = {
            "solver": self.eigen_solver,
            "tol": self.eigen_tol,
            "max_iter": int(self.max_iter),
            "seed": seed,
        }
        return Ways((1.0,) if plain else powers, shaped, variants, k, cutting)

    def _report(
        self,
        solved: Solved,
        edges: dict[str, object],
        best: Candidate,
        kept: dict[str, float] | None,
        recorder: Recorder,
        changed: float | None,
    ) -> Report:
        parameter: str = self._parameter
        return Report(
            method=type(self).__name__,
            n_nodes=self.graph_.n_nodes,
            n_clusters=self.n_clusters,
            choices={
                parameter: getattr(self, parameter),
                **solved.about,
                "largest_F": solved.largest,
                "power": best.power,
                "variant": best.variant,
                "why": _why(best, kept),
                "solver": best.cut.convergence.solver,
                "graph": dict(self.graph_.info),
            },
            convergence=best.cut.convergence,
            satisfaction=kept,
            **recorder.told(),
            extra={
                "n_components": self.graph_.n_components,
                "next_eigenvalue": best.cut.beyond,
                "adjustment": edges,
                "pairs_with_the_sign_of_F": solved.agreement,
                "propagation": solved.told,
                "candidates": [one._asdict() for one in best.tried],
                **({} if changed is None else {"changed": changed}),
            },
        )


def _why(best: Candidate, kept: dict[str, float] | None) -> str:
    if kept is None:
        return "no constraints"
    if len(best.tried) == 1:
        return "given"
    equal = sum(one.kept == best.worth[0] for one in best.tried)
    if equal == 1:
        return f"keeps most constraints of {len(best.tried)} candidates"
    return f"least normalised cut of {equal} candidates that keep most constraints"
