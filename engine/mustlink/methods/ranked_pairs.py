"""SRCP and E2CP on ranks: F by regions, own rows of W*, cut as `NCut` does there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.eigen.rank_work import RankWork
from mustlink.graph.divided_rows import DividedRows, redivided
from mustlink.lyapunov.divided_krylov import spread_pairs_far
from mustlink.lyapunov.divided_regions import DividedRegions
from mustlink.lyapunov.pairs_by_regions import SpreadPairs, spread_pairs
from mustlink.lyapunov.solver_choice import choose_large
from mustlink.methods.doubts import note_components, warn_if_broken, warn_of_gap
from mustlink.methods.moved_rows import Moves
from mustlink.methods.normalized_cut import Cut, cut_of, network_of
from mustlink.methods.spread_cuts import best_of_cuts, spread_on
from mustlink.methods.spread_report import Chosen, spread_report, warn_of_few
from mustlink.scores.cuts import ClusterSums, mncut_of

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RankAdjusted:
    """W* of a graph on ranks and its cuts into k clusters; see `spread_cuts.Adjusted`."""

    work: RankWork
    rows: DividedRegions
    F: SpreadPairs
    k: int
    how: dict[str, Any]

    def cuts(
        self, moves: Moves, variants: Sequence[str]
    ) -> Iterator[tuple[tuple[RankWork, Cut], Ints, float]]:
        """See `Adjusted`; a cut comes with the work that it is of."""
        with self.work.recorder.stage("adjusted graph"):
            work = RankWork(self._moved(moves), self.work.recorder, {"kind": "adjusted"})
        components = work.laplacian.null.n_components
        note_components(components, self.k, self.work.recorder)
        count = min(self.k, components)
        found = work.smallest_pairs(self.k - count, **self.how)
        for variant in variants:
            seed = self.how["seed"]
            cut = cut_of(work, self.k, variant=variant, found=found, seed=seed)
            labels = np.full(work.n_nodes, -1, dtype=np.int64)
            labels[work.rows.nodes] = work.ranks.joined(cut.clusters)
            # Nodes in no cluster are one more.
            places, given, k = np.where(labels < 0, self.k, labels), self.work, self.k
            links, edges, sizes = given.cluster_sums(given.enter(places), k + 1)
            sums = ClusterSums(links[:k, :k], edges[:k, :k], sizes[:k])
            yield (work, replace(cut, sums=sums)), labels, mncut_of(links, 1)

    def _moved(self, moves: Moves) -> DividedRows:
        """Own rows of W*, or with a millionth of W where less than K nodes would keep an edge."""
        space, new = self.work.space, moves.new(self.F.new)
        rows, columns = np.append(new.first, new.second), np.append(new.second, new.first)
        own = (rows >= space.first) & (rows < space.end)
        ends = rows[own] - space.first, columns[own]
        weights = np.append(new.beliefs, new.beliefs)[own]
        added: Any = sp.csr_matrix((weights, ends), shape=self.rows.weights.shape)
        for kept in (False, True):
            moved = moves.rows(self.rows.weights, self.rows.beliefs, added, kept)
            filled = self.work.ranks.joined(np.diff(moved.indptr) > 0)
            if np.count_nonzero(filled) >= self.k:
                break
        return redivided(moved, filled, self.work.rows)


def _spread_by(solver: str) -> Callable[..., SpreadPairs]:
    """What finds F."""

    def spread(rows: DividedRegions, problem: Any, *given: Any, **options: Any) -> SpreadPairs:
        far = choose_large(problem, solver) == "krylov"
        return (spread_pairs_far if far else spread_pairs)(rows, problem, *given, **options)

    return spread


def spread_on_ranks(estimator: Any, work: RankWork, known: Constraints, k: int, seed: int) -> None:
    """Set what `PropagatedConstraints.fit` sets, of a graph on ranks; raises InputError.

    The same on any number of ranks, bit by bit. `embedding_` is on rank 0 alone.
    """
    recorder = work.recorder
    rows = DividedRegions(work.laplacian)
    options = int(estimator.new_edges), float(estimator.tol)
    spread = _spread_by(estimator.solver)
    F = spread_on(work, rows, known, estimator._problem, *options, spread)
    warn_of_few(F.counts, recorder)
    how = {"tol": estimator.eigen_tol, "max_iter": int(estimator.max_iter), "seed": seed}
    heaviest = work.ranks.joined(np.array([rows.weights.data.max()])).max()
    moves = Moves.of(float(heaviest), F.largest, F.floor, estimator.normalize, recorder)
    powers, variants = estimator._ways(known, F.largest)
    adjusted = RankAdjusted(work, rows, F, k, how)
    cuts = best_of_cuts(adjusted, moves, known, powers, variants, recorder)
    (there, cut), power, variant = cuts.best
    estimator.labels_ = estimator._labels(there, cut.clusters, k)
    warn_of_gap(cut, recorder)
    kept = warn_if_broken(estimator.labels_, known, recorder)
    estimator.graph_, estimator._cut_on_disk = work.graph, cut
    estimator.embedding_, estimator.eigenvalues_ = there.leave(cut.embedding), cut.values
    name = estimator._parameter
    estimator.report_ = spread_report(
        {name: getattr(estimator, name)},
        f"{type(estimator).__name__}, on ranks",
        (work.n_nodes, k, work.n_components),
        F,
        F.counts,
        Chosen(cut, power, variant, cuts),
        kept,
        recorder,
        work.info,
        network_of(work, cut, k)[1],
    )
