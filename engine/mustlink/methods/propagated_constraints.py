"""FLI11 Algorithm 1 for every way of spreading constraints; SRCP and E2CP say which.

    1  W, a symmetric graph of neighbours, w_ij in [0, 1]
    2  L̄ = I − D^-½WD^-½
    3  F: the constraints Y spread over the graph (SRCP: eq. 5)
    4  W*: W moved by F (eq. 9)
    5  K clusters of W* by spectral clustering (von Luxburg 2007)

`PropagatedConstraints._run` takes these steps in this order, with their numbers beside them.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from mustlink.check import as_integer, check_choice, check_flag, check_positive, check_tolerance
from mustlink.constraints import Constraints
from mustlink.cost.method_cost import Cost, adjusted_cut
from mustlink.eigen.memory_work import MemoryWork
from mustlink.eigen.plain_solve import PLAIN_SOLVERS as EIGEN_SOLVERS
from mustlink.eigen.solver import laplacian_of
from mustlink.eigen.work import DISK, MEMORY, RANKS
from mustlink.errors import InputError
from mustlink.lyapunov.equation import Problem
from mustlink.lyapunov.new_edges import NewEdges
from mustlink.lyapunov.pair_propagation import PropagatedPairs, solve_pairs
from mustlink.lyapunov.solver_choice import SOLVERS
from mustlink.lyapunov.sources import Sources, sources_of
from mustlink.methods.adjusted_answers import AdjustedAnswers, room_for_factors
from mustlink.methods.adjusted_graph import Adjustment, adjusted_graph
from mustlink.methods.candidate_cuts import Candidate, CandidateCuts, place_of
from mustlink.methods.doubts import note_doubts, warn_if_broken, warn_of_gap
from mustlink.methods.ncut import VARIANTS
from mustlink.methods.normalized_cut import cut_of, tell_of_cut
from mustlink.methods.spread_report import Chosen, spread_report, warn_of_few
from mustlink.observe import Recorder
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.result import Convergence, Report
from mustlink.workspace import Workspace

POWERS = (1.0, 0.5, 0.25)
ALL = "all"


@dataclass(frozen=True, eq=False)
class _Placed(MemoryWork):
    """A graph of which an adjusted one has fewer linked nodes, `place`."""

    place: NormalizedLaplacian

    @property
    def laplacian(self) -> NormalizedLaplacian:
        """Nodes of the adjusted graph among those of the graph."""
        return self.place


@dataclass(eq=False, repr=False)
class PropagatedConstraints(AdjustedAnswers):
    """Base of methods that spread pairwise constraints F over the graph and adjust it by them.

    W* is W moved by F (FLI11 eq. 9), and cut by its K smoothest eigenvectors as by `NCut`.

    * `new_edges`: F > 0 makes edges between nodes that have none; each node gets as many as this
      of the largest. 0 keeps the graph's pattern, "all" takes every F > 0, as the paper does, up to
      5,000 nodes. On small sets 20 are as good as all of them.
    * `normalize`: divide F by its largest magnitude, which is far below 1 when pairs are few, and
      raise |F| to `power`, 1, 1/2 or 1/4, which makes what is far from the given pairs count
      more. False takes F as it is.
    * `solver`: of the propagation, "dense", "diffusion", "krylov" or "auto", see
      `lyapunov.pair_propagation`; `tol`, a bound on the error of every F_ij, which usually is 15
      times smaller; F > tol/10 makes new edges. `memory`: bytes for the factors of F, beside the
      graph; constraints are taken in parts where need be.
    * `variant`: "luxburg" or "ng" as in `NCut`; `eigen_solver`, `eigen_tol`, `max_iter` of the cut.

    The paper as printed is `normalize=False, variant="luxburg", new_edges="all"`; without the last
    it leaves out all new edges but the 20 strongest of a node.

    `power="auto"` and `variant="auto"` try what there is and take the clusters that keep most
    constraints: mean ARI over five small sets .72 → .85, against .86 for the best of all.
    """

    _: KW_ONLY
    n_neighbors: int = 20
    new_edges: int | str = 20
    normalize: bool = True
    power: float | str = "auto"
    solver: str = "auto"
    tol: float = 1e-3
    variant: str = "auto"
    eigen_solver: str = "auto"
    eigen_tol: float | None = None
    max_iter: int = 200

    homes: ClassVar[frozenset[str]] = frozenset({MEMORY, DISK, RANKS})
    _parameter: ClassVar[str]

    def cost(self, n_classes: int | None = None) -> Cost:
        """The adjusted graph's K − 1 eigenvectors, beside the graph as given."""
        return adjusted_cut(max(1, self._k_or(n_classes) - 1))

    @abstractmethod
    def _check_parameter(self) -> None:
        """Raise InputError for a parameter of the method that makes no sense."""

    @abstractmethod
    def _problem(self, laplacian: NormalizedLaplacian, Y: Sources) -> Problem:
        """What F solves."""

    def _run(self, work: Any, known: Constraints, seed: int) -> None:
        """Algorithm 1 from step 2 on: the best cut of several powers of F and variants of step 5.

        One adjusted graph and its multigrid are held at a time.
        """
        k = self._clusters(work, known.as_given.classes.size, seed, known)
        if not isinstance(work, Workspace):
            from mustlink.methods.ranked_pairs import spread_on_ranks
            from mustlink.methods.stored_pairs import spread_on_disk

            spread: Any = spread_on_disk if work.home == DISK else spread_on_ranks
            spread(self, work, known, k, seed)
            return
        graph, recorder = work.graph, work.recorder  # 1
        laplacian = laplacian_of(work)  # 2
        note_doubts(known, laplacian, recorder)
        F, name = self._spread(work, laplacian, known, seed)  # 3
        edges = Adjustment(F.beliefs, F.new).summary(F.floor)
        warn_of_few(edges, recorder)
        cuts = CandidateCuts(known, graph=graph)
        powers, variants = self._ways(known, F.largest)
        for power in powers:
            if cuts.tried and recorder.deadline.is_over:
                left = len(powers) * len(variants) - len(cuts.tried)
                recorder.leave_out(f"{left} of the graph's cuts were not tried")
                break
            adjusted = self._adjusted(work, laplacian, F, power, name, k)  # 4
            place = place_of(adjusted, laplacian)
            for variant in variants:
                cut = cut_of(  # 5
                    MemoryWork(adjusted),
                    k,
                    variant=variant,
                    solver=self.eigen_solver,
                    tol=self.eigen_tol,
                    max_iter=int(self.max_iter),
                    seed=seed,
                )
                tell_of_cut(MemoryWork(adjusted), cut)
                cuts.add(Candidate(place, cut, power, variant))
                del cut
            del adjusted  # before the next is made
        place, cut = cuts.best.place, cuts.best.cut
        labels = self._labels_knowing(_Placed(work, place), cut.clusters, k, known, seed)
        warn_of_gap(cut, recorder)
        kept = warn_if_broken(labels, known, recorder)
        self.graph_, self.labels_ = graph, labels
        self.embedding_ = graph.spread(place.leave(cut.embedding))
        self.eigenvalues_ = cut.values
        self._moved = self._change(F, cuts.best.power)
        self.report_ = self._report(k, F, edges, cuts, kept, recorder)

    def _in_memory_only(self) -> dict[str, bool]:
        return {
            **super()._in_memory_only(),
            "solver": self.solver == "dense",
            "eigen_solver": self.eigen_solver not in ("auto", "lobpcg"),
            "new_edges": isinstance(self.new_edges, str),
        }

    def _spread(
        self, work: Workspace, laplacian: NormalizedLaplacian, known: Constraints, seed: int
    ) -> tuple[PropagatedPairs, str | None]:
        """Step 3: F on edges and new edges, and the name that it is kept by."""
        asked = work.name("propagated", type(self).__name__, self._depends(), seed, known)
        allowed = room_for_factors(work)
        Y = sources_of(known, laplacian)
        self._spread_from(Y)

        def solved() -> PropagatedPairs:
            return solve_pairs(
                self._problem(laplacian, Y),
                work.recorder,
                new_edges=None if self.new_edges == ALL else int(self.new_edges),
                solver=self.solver,
                tol=float(self.tol),
                memory=allowed,
                copies=laplacian.weights,
            )

        name = work.shelf.name_of("spread", asked, allowed)
        types = (PropagatedPairs, NewEdges, Convergence)
        return work.kept("constraint propagation", name, solved, types), name

    def _ways(self, known: Constraints, largest: float) -> tuple[tuple[Any, ...], ...]:
        """Powers of F and variants of the cut to try; nothing to choose without constraints."""
        powers = POWERS if self.power == "auto" else (float(self.power),)
        variants = ("luxburg", "ng") if self.variant == "auto" else (self.variant,)
        if largest == 0 or not self.normalize:
            powers = (1.0,)
        if known.is_empty or largest == 0:
            variants = variants[:1]
        return powers, variants

    def _change(self, F: PropagatedPairs, power: float) -> Adjustment:
        """F as it moves the weights: as it is, or normalised and raised to a power."""
        change = Adjustment(F.beliefs, F.new)
        if F.largest == 0 or not self.normalize:
            return change
        return change.shaped(F.largest, power, F.floor)

    def _adjusted(
        self,
        work: Workspace,
        laplacian: NormalizedLaplacian,
        F: PropagatedPairs,
        power: float,
        name: str | None,
        k: int,
    ) -> Workspace:
        """Step 4: W* for one power of F."""
        with work.recorder.stage("adjusted graph"):
            adjusted = adjusted_graph(laplacian, self._change(F, power), work.recorder, k)
        adjusted.derived.origin = work.shelf.name_of("adjusted graph", name, power)
        return work.on(adjusted)

    def _check(self) -> None:
        self._check_parameter()
        check_choice(self.variant, ("auto", *VARIANTS), "variant")
        check_choice(self.solver, SOLVERS, "solver")
        check_choice(self.eigen_solver, EIGEN_SOLVERS, "eigen_solver")
        if self.new_edges != ALL:
            as_integer(self.new_edges, "new_edges", 0)
        as_integer(self.max_iter, "max_iter", 1)
        if check_positive(self.tol, "tol") >= 1.0:
            raise InputError(f"tol: {self.tol:g} is no accuracy; give one below 1, such as 1e-3")
        check_flag(self.normalize, "normalize")
        if isinstance(self.power, str):
            check_choice(self.power, ("auto",), "power")
        elif check_positive(self.power, "power") > 1.0:
            raise InputError(f"power: {self.power:g} given; it must be at most 1, or auto")
        elif self.power != 1.0 and not self.normalize:
            raise InputError(f"power: {self.power} shapes a normalised F; set normalize=True")
        check_tolerance(self.eigen_tol, "eigen_tol")

    def _report(
        self,
        k: int,
        F: PropagatedPairs,
        edges: dict[str, object],
        cuts: CandidateCuts,
        kept: dict[str, float] | None,
        recorder: Recorder,
    ) -> Report:
        graph, best = self.graph_, cuts.best
        return spread_report(
            {self._parameter: getattr(self, self._parameter)},
            type(self).__name__,
            (graph.n_rows, k, graph.n_components),
            F,
            edges,
            Chosen(best.cut, best.power, best.variant, cuts),
            kept,
            recorder,
            graph.info,
            {},
        )
