"""SRCP and E2CP of a graph on disk: F by regions, W* in temporary files, cut as `NCut` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.cost.method_cost import RESERVE
from mustlink.cost.process_memory import give_back
from mustlink.eigen.disk_work import StoredWork
from mustlink.errors import AtHomeOnlyError
from mustlink.graph.row_buckets import scratch_graph
from mustlink.graph.stored import RowBlock, StoredGraph
from mustlink.lyapunov.new_edges import NewEdges
from mustlink.lyapunov.pairs_by_regions import SpreadPairs
from mustlink.lyapunov.stored_regions import StoredRows
from mustlink.methods.adjusted_answers import FACTORS
from mustlink.methods.doubts import (
    note_alone,
    note_components,
    warn_if_broken,
    warn_of_gap,
    warn_of_sizes,
)
from mustlink.methods.moved_rows import Moves
from mustlink.methods.normalized_cut import Cut, cut_of, network_of
from mustlink.methods.spread_cuts import (
    best_of_cuts,
    spread_on,
)
from mustlink.methods.spread_report import Chosen, spread_report, warn_of_few
from mustlink.scores.cuts import ClusterSums, mncut_of

Ints = NDArray[np.int64]
_PLACES = 4  # bytes a node while a region is gathered
_BUFFERS = 80 * 10**6  # for blocks of rows that are read and joined


@dataclass(frozen=True, eq=False)
class StoredAdjusted:
    """W* of a graph on disk and its cuts into k clusters; see `spread_cuts.Adjusted`."""

    work: StoredWork
    rows: StoredRows
    F: SpreadPairs
    k: int
    how: dict[str, Any]

    def cuts(self, moves: Moves, variants: Sequence[str]) -> Iterator[tuple[Cut, Ints, float]]:
        """See `Adjusted`; the cut's weights between clusters are those of W."""
        given, k = self.work, self.k
        with given.recorder.stage("adjusted graph"):
            graph = self._moved(moves)
        work = StoredWork(graph, given.columns, given.recorder, given.folder)
        components = work.laplacian.null.n_components
        note_components(components, k, given.recorder)
        vectors = max(0, k - min(k, components))
        found = work.smallest_pairs(vectors, **self.how)
        for variant in variants:
            cut = cut_of(work, k, variant=variant, found=found, seed=self.how["seed"])
            places = np.where(cut.clusters < 0, k, cut.clusters)  # nodes in none are the last
            links, edges, sizes = given.cluster_sums(places, k + 1)
            sums = ClusterSums(links[:k, :k], edges[:k, :k], sizes[:k])
            labels = given.graph.labels_of_rows(cut.clusters)
            yield replace(cut, sums=sums), labels, mncut_of(links, 1)

    def _moved(self, moves: Moves) -> StoredGraph:
        """W*, or with a millionth of W where less than K nodes would keep an edge."""
        for kept in (False, True):
            filled = 0

            def blocks(kept: bool = kept) -> Iterator[RowBlock]:
                nonlocal filled
                for block in self._blocks(moves, kept):
                    filled += int(np.count_nonzero(np.diff(block.indptr)))
                    yield block

            info = {"kind": "adjusted"}
            made = scratch_graph(self.work.n_nodes, blocks(), info, self.work.folder)
            if filled >= self.k:
                break
        return made

    def _blocks(self, moves: Moves, kept: bool) -> Iterator[RowBlock]:
        new = _by_rows(moves.new(self.F.new))
        for number, block in enumerate(self.work.graph.blocks()):
            W = sp.csr_matrix((block.data, block.indices, block.indptr), shape=block.shape)
            first, stop = np.searchsorted(new[0], [block.rows.start, block.rows.stop])
            row, column, weight = (part[first:stop] for part in new)
            ends = row - block.first, column
            added: Any = sp.csr_matrix((weight, ends), shape=block.shape)
            moved = moves.rows(W, self.rows.beliefs.block(number), added, kept)
            parts = moved.indptr, moved.indices, moved.data.astype(np.float32)
            yield RowBlock(block.first, *parts, block.n_nodes)


def _by_rows(new: NewEdges) -> tuple[NDArray[Any], ...]:
    """New edges in both directions, by rising rows."""
    rows, columns = np.append(new.first, new.second), np.append(new.second, new.first)
    order = np.argsort(rows, kind="stable")
    return rows[order], columns[order], np.append(new.beliefs, new.beliefs)[order]


def spread_on_disk(estimator: Any, work: StoredWork, known: Constraints, k: int, seed: int) -> None:
    """Set what `PropagatedConstraints.fit` sets, of a graph read by blocks of rows; InputError.

    `embedding_` has its rows on disk.
    """
    if estimator.solver == "krylov":
        raise AtHomeOnlyError("solver: 'krylov' does not run on disk; leave it out", "solver")
    graph, recorder, folder = work.graph, work.recorder, work.folder
    rows = StoredRows(work.laplacian, _room(work), folder)
    options = int(estimator.new_edges), float(estimator.tol)
    F = spread_on(work, rows, known, estimator._problem, *options)
    warn_of_few(F.counts, recorder)
    how = {"tol": estimator.eigen_tol, "max_iter": int(estimator.max_iter), "seed": seed}
    adjusted = StoredAdjusted(work, rows, F, k, how)
    moves = Moves.of(_heaviest(graph), F.largest, F.floor, estimator.normalize, recorder)
    powers, variants = estimator._ways(known, F.largest)
    cuts = best_of_cuts(adjusted, moves, known, powers, variants, recorder)
    cut, power, variant = cuts.best
    labels = graph.labels_of_rows(cut.clusters)
    warn_of_sizes(np.bincount(labels[labels >= 0]), k, recorder)
    alone = int(np.count_nonzero(cut.clusters < 0))
    if alone:
        note_alone(alone, "labelled -1", recorder)
    warn_of_gap(cut, recorder)
    kept = warn_if_broken(labels, known, recorder)
    estimator.labels_, estimator.embedding_ = labels, work.leave(cut.embedding)
    estimator.eigenvalues_, estimator.graph_ = cut.values, graph
    estimator._cut_on_disk = cut
    name = estimator._parameter
    estimator.report_ = spread_report(
        {name: getattr(estimator, name)},
        f"{type(estimator).__name__}, on disk",
        (graph.n_rows, k, work.seen.n_components + work.isolated),
        F,
        F.counts,
        Chosen(cut, power, variant, cuts),
        kept,
        recorder,
        graph.info,
        network_of(work, cut, k)[1],
    )


def _room(work: StoredWork) -> int:
    """Bytes for a region and what is found there."""
    give_back()
    left = work.recorder.budget.left()
    if left is None:
        return FACTORS
    return max(0, left - RESERVE - _PLACES * work.n_nodes - _BUFFERS)


def _heaviest(graph: StoredGraph) -> float:
    return max(float(block.data.max(initial=0.0)) for block in graph.blocks())
