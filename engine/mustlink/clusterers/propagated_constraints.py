"""FLI11 Algorithm 1 for two ways of spreading constraints: SRCP, its eq. 5, and E2CP.

    1  W, a symmetric graph of neighbours, w_ij in [0, 1]
    2  L̄ = I − D^-½WD^-½
    3  F: the constraints Y spread over the graph (SRCP: eq. 5)
    4  W*: W moved by F (eq. 9)
    5  K clusters of W* by spectral clustering (von Luxburg 2007)

`PropagatedConstraints._run` takes these steps in this order, with their numbers beside them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.clusterers.informed_clusterer import InformedClusterer
from mustlink.clusterers.ncut import (
    VARIANTS,
    NormalizedCut,
    NormalizedCuts,
    network_of,
    tell_of_cut,
)
from mustlink.constraints import Constraints
from mustlink.context.method_cost import BUFFERS, RESERVE, Cost, adjusted_cut
from mustlink.context.stage_cache import Workspace
from mustlink.core.check import (
    as_integer,
    check_choice,
    check_flag,
    check_positive,
    check_tolerance,
)
from mustlink.core.observe import Recorder
from mustlink.core.resources import give_back
from mustlink.core.result import Convergence
from mustlink.core.state import check_is_fitted
from mustlink.discretize.cuts import ClusterSums, mncut_of, note_components, warn_of_gap
from mustlink.discretize.satisfaction import (
    note_contradictions,
    satisfaction,
    warn_if_broken,
    warn_of_lost,
)
from mustlink.eigen.memory_work import MemoryWork
from mustlink.eigen.plain_solve import PLAIN_SOLVERS as EIGEN_SOLVERS
from mustlink.eigen.work import DISK, MEMORY, RANKS, Work
from mustlink.errors import InputError
from mustlink.graph.disk_graph import DiskGraph
from mustlink.graph.graph import fold
from mustlink.kernels.diffused_columns import adjust
from mustlink.lyapunov.all_pairs import AllPairs, all_pairs
from mustlink.lyapunov.fields import NewEdges, Problem
from mustlink.lyapunov.pair_propagation import SOLVERS, PropagatedPairs, solve_pairs
from mustlink.lyapunov.regions import DiskRows, MemoryRows, RankRows
from mustlink.lyapunov.sources import Sources, sources_at
from mustlink.operators.laplacian import NormalizedLaplacian

Ints = NDArray[np.int64]
POWERS = (1.0, 0.5, 0.25)
ALL = "all"
FACTORS = 2 * 10**9  # bytes for one part of the constraints where there is no memory limit
_SHARE = 4  # of the memory named: beside it there are graph, multigrid and vectors
_PLACES = 4  # bytes a node while a region is gathered, beside what is there all the time
_TOLD = ("power", "variant", "kept", "mncut")  # of a candidate in the report
_DIGITS = 10  # of MNCut: the same clusters under other numbers differ by rounding


@dataclass(frozen=True, eq=False)
class CutCandidate:
    """Clusters of W* for one power of F and one variant of the cut.

    `cut` has clusters and rows of nodes of the graph as given, in working order, -1 and 0 where a
    node lost its edges, and sums of weights in W; `lost` nodes are so many. `kept` is the share of
    the constraints that the clusters keep, `mncut` their MNCut in the graph as given.
    """

    power: float
    variant: str
    kept: float
    mncut: float
    cut: NormalizedCut
    lost: int

    @property
    def rank(self) -> tuple[float, float]:
        """More is better: most constraints kept, then least MNCut but for rounding."""
        return self.kept, -round(self.mncut, _DIGITS)


def _kept(labels: Ints, known: Constraints) -> float:
    """Share kept by weight, where to lose nodes of pairs breaks these: adjusted graphs may."""
    if known.is_empty:
        return 1.0
    shares = satisfaction(labels, known.as_given)
    counted = shares["n_must"] + shares["n_cannot"]
    return shares["kept_weighted"] * counted / max(counted + shares["n_unclustered"], 1.0)


def _why(tried: list[dict[str, Any]], known: Constraints) -> str:
    """Why the best of the candidates was taken."""
    if known.is_empty:
        return "no constraints"
    if len(tried) == 1:
        return "given"
    shares = [one["kept"] for one in tried]
    equal = shares.count(max(shares))
    if equal == 1:
        return f"keeps most constraints of {len(tried)} candidates"
    return f"least normalised cut of {equal} candidates that keep most constraints"


@dataclass(eq=False, repr=False)
class PropagatedConstraints(InformedClusterer):
    """Base of methods that spread pairwise constraints F over the graph and adjust it by them.

    W* is W moved by F (FLI11 eq. 9), and cut by its K smoothest eigenvectors as by `NCut`.

    * `new_edges`: the most edges that a node gets where F > 0 and the graph has none, those of the
      largest F. 0 keeps the graph's pattern, "all" takes every F > 0, as the paper does, up to
      5,000 nodes. On small sets 20 are as good as all of them.
    * `normalize`: divides F by its largest magnitude, which is far below 1 when pairs are few, and
      raises |F| to `power`. False takes F as it is.
    * `power`: the power of |F|: 1, 1/2 or 1/4; the smaller, the more counts what is far from the
      pairs.
    * `solver`: of the propagation: "dense", "diffusion", "krylov" or "auto"
      (`lyapunov.pair_propagation`); `tol`: the largest error of an F_ij; usually it is 15 times
      smaller. F > tol/10 makes new edges. `memory`: bytes for the factors of F, beside the
      graph; constraints are taken in parts where need be.
    * `variant`: which normalised cut: "luxburg" or "ng" of `NCut`;
      `eigen_solver`: of the cut's eigenproblem; `eigen_tol`: the residual to reach in it;
      `max_iter`: the most steps of the cut's eigensolver.

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
    def _problem(self, laplacian: Any, Y: Sources) -> Problem:
        """What F solves."""

    # --- Algorithm 1, wherever the graph is

    def _run(self, work: Any, known: Constraints, seed: int) -> None:
        """Steps 2 to 5 for several powers of F and variants of the cut; sets what a fit sets.

        One adjusted graph with its multigrid and the best cut so far are held at a time.
        """
        recorder = work.recorder
        k = self._clusters(work, known.as_given.classes.size, seed, known)
        rows, F, name = self._spread(work, known, seed)  # 2, 3
        if F.counts["weakened"] and not F.counts["strengthened"] and not F.counts["added"]:
            recorder.warn("F < 0 wherever it changes the graph: few must-links, or it is too far")
        as_it_is = Moves.of(rows, F.new, recorder)
        powers = POWERS if self.power == "auto" else (float(self.power),)
        variants = ("luxburg", "ng") if self.variant == "auto" else (self.variant,)
        if F.largest == 0 or not self.normalize:
            powers = (1.0,)
        if known.is_empty or F.largest == 0:
            variants = variants[:1]
        best: Any = None
        tried: list[dict[str, Any]] = []
        for power in powers:
            if tried and recorder.deadline.is_over:
                left = len(powers) * len(variants) - len(tried)
                recorder.skip_for_time(f"{left} of the graph's cuts were not tried")
                break
            moves = self._of_power(as_it_is, F, power)
            adjusted = adjusted_graph(work, moves, k, (name, power))  # 4
            for one in self._cuts(work, adjusted, known, k, power, variants, seed):  # 5
                tried.append({name: getattr(one, name) for name in _TOLD})
                if best is None or one.rank > best.rank:
                    best = one
            del adjusted, one  # before the next is made
        clusters, sizes = self._pulled(work, best.cut.clusters, known, k), best.cut.sums.sizes
        if clusters is not best.cut.clusters:
            sizes = work.cluster_sizes(np.where(clusters < 0, k, clusters), k + 1)[:k]
        self.labels_ = self._labels(work, clusters, k, sizes, best.lost)
        warn_of_gap(best.cut, recorder, informed=True)
        cut, network = network_of(work, best.cut, k)
        kept = warn_if_broken(self.labels_, known, recorder)
        self.graph_, self.embedding_ = work.graph, work.from_working_order(cut.embedding)
        self.eigenvalues_ = cut.values
        if work.home == MEMORY:
            moves = self._of_power(Moves(rows, F.new), F, best.power)
            self._moved = moves.change(rows.beliefs)
        else:
            self._cut_on_disk = cut
        choices = {
            self._parameter: getattr(self, self._parameter),
            **F.about,
            "largest_F": F.largest,
            "power": best.power,
            "variant": best.variant,
            "why": _why(tried, known),
            "solver": cut.convergence.solver,
        }
        self._report(
            work,
            k,
            choices,
            cut.convergence,
            kept,
            next_eigenvalue=cut.beyond,
            adjustment=F.counts,
            pairs_with_the_sign_of_F=F.agreement,
            propagation=F.summary,
            propagation_quality=F.quality,
            candidates=tried,
            **network,
        )

    def _spread(
        self, work: Work, known: Constraints, seed: int
    ) -> tuple[MemoryRows, PropagatedPairs, Any]:
        """Step 3: F with the rows that it is of, and what it follows from."""
        laplacian: Any = work.laplacian
        at_home = work.home == MEMORY
        Y, places = placed_sources(work, known)
        rows = self._rows(work)

        def solved() -> PropagatedPairs:
            return solve_pairs(
                self._problem(laplacian, Y),
                work.recorder,
                rows=rows,
                places=places,
                new_edges=None if self.new_edges == ALL else int(self.new_edges),
                solver=self.solver,
                tol=float(self.tol),
            )

        if not at_home:
            return rows, solved(), None
        self._sources = Y.at(places, laplacian.size), float(getattr(self, self._parameter))
        self._F: AllPairs | None = None
        depends = type(self).__name__, self._depends(), seed, known, rows.room
        types = (PropagatedPairs, NewEdges, Convergence)
        F = work.cached("constraint propagation", depends, solved, types)
        rows.beliefs = F.beliefs
        return rows, F, depends

    def _rows(self, work: Any) -> MemoryRows:
        """The rows of W, with room for factors of F."""
        laplacian = work.laplacian
        if work.home == MEMORY:
            return MemoryRows(laplacian, _room_for_factors(work.view), laplacian.weights)
        if work.home != DISK:
            return RankRows(laplacian)
        give_back()
        planned = work.recorder.budget.planned
        beside = (_PLACES + work.at_rest) * work.n_nodes + RESERVE + BUFFERS
        room = FACTORS if planned is None else max(0, planned - beside)
        return DiskRows(laplacian, room, work.folder)

    def _of_power(self, moves: Moves, F: PropagatedPairs, power: float) -> Moves:
        """F as it is, or normalised and raised to a power."""
        if F.largest == 0 or not self.normalize:
            return moves
        return replace(moves, shape=(F.largest, power, F.floor))

    def _cuts(
        self,
        work: Work,
        adjusted: Any,
        known: Constraints,
        k: int,
        power: float,
        variants: tuple[str, ...],
        seed: int,
    ) -> Iterator[CutCandidate]:
        """Step 5: cuts of W* by each variant, as clusters of the graph as given."""
        how: dict[str, Any] = {"tol": self.eigen_tol, "max_iter": int(self.max_iter), "seed": seed}
        how["solver"] = self.eigen_solver
        found = None
        if work.home != MEMORY:  # where nothing is kept of one variant for the next
            components = adjusted.laplacian.null.n_components
            note_components(components, k, work.recorder)
            found = adjusted.smallest_pairs(max(0, k - components), **how)
        for variant in variants:
            cut = NormalizedCuts(adjusted, k, variant, **how).sharp(0.0, found)
            if work.home == MEMORY:
                tell_of_cut(adjusted, cut)
            yield self._candidate(work, adjusted, known, k, (power, variant), cut)
            del cut  # before the next is made

    def _candidate(
        self,
        work: Work,
        adjusted: Any,
        known: Constraints,
        k: int,
        way: tuple[float, str],
        cut: NormalizedCut,
    ) -> CutCandidate:
        """A cut of W*, by a power and a variant, as clusters of the graph as given."""
        clusters = work.from_mapped(adjusted, cut.clusters, -1)
        # Nodes in no cluster are one more.
        links, edges, sizes = work.cluster_sums(np.where(clusters < 0, k, clusters), k + 1)
        sums = ClusterSums(links[:k, :k], edges[:k, :k], sizes[:k])
        rows = work.from_mapped(adjusted, cut.embedding)
        cut = replace(cut, clusters=clusters, embedding=rows, sums=sums)
        kept = _kept(work.labels_of_rows(clusters), known)
        return CutCandidate(*way, kept, mncut_of(links, 1), cut, round(sizes[k]))

    def _in_memory_only(self) -> dict[str, bool]:
        return {
            **super()._in_memory_only(),
            "solver": self.solver == "dense",
            "eigen_solver": self.eigen_solver not in ("auto", "lobpcg"),
            "new_edges": isinstance(self.new_edges, str),
        }

    # --- made on demand

    @property
    def affinity_matrix_(self) -> sp.csr_matrix:
        """W* (n, n) CSR in the caller's order, made on demand; weights in [0, 1].

        Where equal rows are one node: between one copy of every node of `graph_` and another.
        """
        self._refuse_on_disk("affinity_matrix_")
        work = MemoryWork(self._view(self.graph_, Recorder()))
        return adjusted_affinity(work, self._moved, self.report_.n_clusters)

    @property
    def propagated_constraints_(self) -> AllPairs:
        """F of the last fit, for every pair: `F[i, j]`, `F.row(i)`, `F.top(10)`; FLI11 eq. 5.

        As it solves the equation, neither normalised nor raised to a power. Made at the first
        access, by the estimator's `solver`, `tol` and `memory`: a propagation as in the fit.
        """
        check_is_fitted(self)
        self._refuse_on_disk("propagated_constraints_")
        if self._F is None:
            view = self._view(self.graph_, Recorder(), row_weights=self._row_weights)
            laplacian = MemoryWork(view).laplacian
            Y, parameter = self._sources
            problem: Any = self._problem(laplacian, Y)
            problem = replace(problem, **{self._parameter: parameter})
            nodes, rows = laplacian.positions, self.graph_.first_rows[laplacian.nodes]
            room, tol = _room_for_factors(view), float(self.tol)
            self._F = all_pairs(problem, self.solver, tol, room, self.graph_.spread(nodes), rows)
        return self._F

    def _refuse_on_disk(self, name: str) -> None:
        """Raise InputError where the graph stayed on disk."""
        if isinstance(self.graph_, DiskGraph):
            raise InputError(
                f"{name}: the graph stayed on disk, where it is not made; fit with more memory"
            )

    def _check(self) -> None:
        self._check_parameter()
        check_choice(self.variant, VARIANTS, "variant")
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


def placed_sources(work: Work, known: Constraints) -> tuple[Sources, Ints]:
    """Y of the constrained nodes, and their places, rising; warns of doubts.

    In memory `known` is of nodes already, elsewhere of the caller's rows.
    """
    at_home, laplacian = work.home == MEMORY, work.laplacian
    places = np.asarray((work.positions if at_home else work.places)(known.nodes), np.int64)
    lost = int(np.count_nonzero(places < 0))
    note_contradictions(known, work.recorder)
    warn_of_lost(lost, work.recorder)
    order = np.argsort(places)[lost:]
    places = places[order]
    copies = laplacian.weights if isinstance(laplacian, NormalizedLaplacian) else None
    often = None if copies is None else copies[places]
    return sources_at(known, known.nodes[order], often), places


def _room_for_factors(work: Workspace) -> int:
    """Bytes for the factors of F in memory."""
    return FACTORS if work.memory is None else work.memory // _SHARE


# --- Step 4 of FLI11 Algorithm 1: W*, the graph adjusted by what constraints say of its edges
#
# Eq. 9 is a map of rows of W, wherever they are: all of them in memory, blocks of them on disk, own
# ones on ranks (`Work.map_rows`).


ROUNDING = 1e-6  # weights in single precision may exceed 1 by as much
KEPT = 1e-6  # of the weights of W where W* has too few edges


@dataclass(frozen=True, eq=False)
class Adjustment:
    """F where W* needs it: on the edges of W, or of some of its rows, (nnz,), and on new ones."""

    beliefs: NDArray[np.float64]
    new: NewEdges

    def shaped(self, largest: float, power: float, floor: float) -> Adjustment:
        """F with every magnitude |F| replaced by (|F|/largest)^power, at most 1.

        Powers below 1 raise what is far from the given pairs towards what is near; magnitudes up
        to `floor` are then taken for zero, or errors of the propagation would be raised as well.
        """
        new = replace(self.new, beliefs=_shaped(self.new.beliefs, largest, power, 0.0))
        return Adjustment(_shaped(self.beliefs, largest, power, floor if power < 1.0 else 0.0), new)

    def apply(self, W: sp.csr_matrix, first: int = 0) -> sp.csr_matrix:
        """W* for rows W (r, m) in [0, 1] from `first` on (FLI11 eq. 9); zeros are not stored."""
        moved = sp.csr_matrix((adjust(W.data, self.beliefs), W.indices, W.indptr), shape=W.shape)
        if self.new.count:
            added = self.new.rows(first, W.shape)
            added.data = adjust(np.zeros(added.nnz), added.data)
            moved = sp.csr_matrix(moved + added)
        if (moved.data == 0.0).any():
            moved = moved.copy()  # the pattern may still be that of W
            moved.eliminate_zeros()
        return moved


def _shaped(
    F: NDArray[np.float64], largest: float, power: float, floor: float
) -> NDArray[np.float64]:
    found = np.zeros_like(F)
    there = np.flatnonzero(np.abs(F) > floor)  # most edges are far from every pair
    size = np.minimum(np.abs(F[there]) / largest, 1.0)
    found[there] = np.copysign(size if power == 1.0 else size**power, F[there])
    return found


@dataclass(frozen=True, eq=False)
class Moves:
    """How F moves weights: as it is, or |F| as (|F|/largest)^power, up to `floor` as zero.

    F on edges is with `rows`. `scale` is what weights are divided by first: the largest of them,
    if above 1; see `of`.
    """

    rows: MemoryRows
    new: NewEdges
    scale: float = 1.0
    shape: tuple[float, float, float] | None = None  # largest, power, floor

    @classmethod
    def of(cls, rows: MemoryRows, new: NewEdges, recorder: Recorder) -> Moves:
        """F as it is. Tells where weights are divided."""
        heaviest = rows.heaviest()
        if heaviest <= 1.0 + ROUNDING:
            return cls(rows, new)
        recorder.note(f"the graph's weights were divided by {heaviest:.4g}, the largest of them")
        return cls(rows, new, heaviest)

    def change(self, beliefs: NDArray[np.float64]) -> Adjustment:
        """F on some edges, and on new ones, as it moves the weights."""
        found = Adjustment(beliefs, self.new)
        return found if self.shape is None else found.shaped(*self.shape)

    def moved(self, W: sp.csr_matrix, first: int, *, kept: bool = False) -> sp.csr_matrix:
        """Rows of W* from those of W from `first` on, used up; with `kept` W adds a millionth."""
        if self.scale != 1.0:
            W.data /= self.scale
        np.minimum(W.data, 1.0, out=W.data)
        found = self.change(self.rows.of_block(first, W)).apply(W, first)
        return sp.csr_matrix(found + KEPT * W) if kept else found


def adjusted_graph(work: Work, moves: Moves, least: int, depends: Any = None) -> Any:
    """The home of W*, of which `depends` tells what it follows from.

    Nodes may lose every edge; where fewer than `least` keep one, all keep a millionth of W.
    Where nodes stand for several, weights between copies are moved, and summed again.
    """
    for kept in (False, True):
        filled = np.zeros(1, dtype=np.int64)

        def rows(W: sp.csr_matrix, first: int, kept: bool = kept) -> sp.csr_matrix:
            moved = moves.moved(W, first, kept=kept)
            filled[0] += np.count_nonzero(np.diff(moved.indptr))  # noqa: B023
            return moved

        with work.recorder.stage("adjusted graph"):
            made = work.map_rows(rows, depends)
            enough = moves.rows.added(filled)[0] >= least
        if enough:
            break
    return made


def adjusted_affinity(work: Any, change: Adjustment, least: int) -> sp.csr_matrix:
    """W* (n, n) CSR in the graph's order; between copies, where nodes stand for several."""
    laplacian = work.laplacian
    rows = MemoryRows(laplacian, None, laplacian.weights)
    rows.beliefs = change.beliefs
    W = adjusted_graph(work, Moves.of(rows, change.new, work.recorder), least).graph.affinity
    if laplacian.weights is not None:
        W = fold(W, 1.0 / laplacian.weights)
    n, m = laplacian.n_nodes, laplacian.size
    place = sp.csr_matrix((np.ones(m), (laplacian.nodes, np.arange(m))), shape=(n, m))
    return sp.csr_matrix(place @ W @ place.T)
