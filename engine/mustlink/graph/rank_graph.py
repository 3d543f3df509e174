"""Rows of a stored graph on ranks: each reads its share, the rows then go where the order wants.

A solver needs few rows of other ranks only where neighbours have near numbers. Therefore nodes are
renumbered by reverse Cuthill-McKee, as in one process: by one rank, from the pattern alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.graph.structure import cuthill_mckee
from mustlink.space.division import Division
from mustlink.space.ranks import Ranks

_FAR = 1e30  # and its inverse: weights beyond are scaled in one process only
_SAME = 1e-6  # share by which sums over a symmetric W may differ: it may be in single precision
Rows = Callable[[int, int], sp.csr_matrix]  # first, end -> these rows (end − first, n) of W


@dataclass(eq=False)
class RankGraph:
    """Own rows of W among the m nodes with edges, in working order, and what they are called.

    `nodes` (m,) are their numbers in the graph, of `n_nodes`; the same on all ranks. The rows are
    handed over once, by `take`, so that scaling them needs no second copy.
    """

    ranks: Ranks
    division: Division
    nodes: NDArray[np.int64]
    n_nodes: int
    rows: sp.csr_matrix | None

    def take(self) -> sp.csr_matrix:
        """The rows (n_local, m); they are not held here any more."""
        found, self.rows = self.rows, None
        assert found is not None
        return found


def divided_rows(read: Rows, n_nodes: int, ranks: Ranks) -> RankGraph:
    """Read, check and deal out the rows of a symmetric non-negative W (n, n); InputError.

    Cost: one reading of the file by all together, one of its pattern by one of them, which holds
    4 bytes an entry meanwhile, and one exchange of rows.
    """
    share = Division(n_nodes, ranks.count)
    first, end = share.bounds[ranks.own : ranks.own + 2]
    W = read(int(first), int(end))
    W.sum_duplicates()
    W.eliminate_zeros()
    _check(W, int(first), ranks)
    order = _order(W, n_nodes, ranks)
    filled = ranks.joined(np.diff(W.indptr) > 0)
    nodes = order[filled[order]]
    if nodes.size < 2:
        raise InputError("graph: no edges; there is nothing to cluster")
    place = np.full(n_nodes, -1, dtype=np.int32)
    place[nodes] = np.arange(nodes.size, dtype=np.int32)
    division = Division(int(nodes.size), ranks.count)
    held = [W]
    del W  # it goes as soon as its rows are on their way
    rows = _dealt(held.pop(), place[first:end], place, division, ranks)
    return RankGraph(ranks, division, nodes, n_nodes, rows)


def redivided(W: sp.csr_matrix, filled: NDArray[np.bool_], had: RankGraph) -> RankGraph:
    """Other weights W (n_local, m) of the nodes of `had`: those that are `filled` (m,), dealt anew.

    The others have no entry.
    """
    ranks, kept = had.ranks, np.flatnonzero(filled)
    place = np.full(filled.size, -1, dtype=np.int32)
    place[kept] = np.arange(kept.size, dtype=np.int32)
    division = Division(int(kept.size), ranks.count)
    first, end = had.division.bounds[ranks.own : ranks.own + 2]
    rows = _dealt(W, place[first:end], place, division, ranks)
    return RankGraph(ranks, division, had.nodes[kept], had.n_nodes, rows)


def _check(W: sp.csr_matrix, first: int, ranks: Ranks) -> None:
    """Raise InputError on all ranks where one has weights that are none, or W is not symmetric."""
    least, most = float(W.data.min(initial=1.0)), float(W.data.max(initial=1.0))
    bad = not (np.isfinite(least) and np.isfinite(most)) or least < 0
    far = not bad and (least < 1 / _FAR or most > _FAR)
    # ⟨x, Wy⟩ = ⟨y, Wx⟩ for two vectors of whole numbers: an asymmetric W fails nearly always.
    x, y = (((np.arange(W.shape[1]) * odd) >> 7) % 1009 / 1009.0 for odd in (2654435761, 40503))
    with np.errstate(all="ignore"):
        products = [float(a[first : first + W.shape[0]] @ (W @ b)) for a, b in ((x, y), (y, x))]
    total = ranks.added(np.array([bad, far, *products], dtype=np.float64))
    if total[0]:
        raise InputError("graph: has weights that are negative, NaN or infinite; remove them")
    if total[1]:
        raise InputError("graph: has weights beyond 1e-30 and 1e30; scale them, or leave out ranks")
    if abs(total[2] - total[3]) > _SAME * abs(total[2]):
        raise InputError("graph: is not symmetric; give W + Wᵀ")


def _order(W: sp.csr_matrix, n_nodes: int, ranks: Ranks) -> NDArray[np.int64]:
    """Reverse Cuthill-McKee, of the pattern that rank 0 is sent."""
    lengths = ranks.gathered(np.diff(W.indptr).astype(np.int32))
    indices = ranks.gathered(W.indices.astype(np.int32, copy=False))
    order = None
    if ranks.own == 0:
        assert lengths is not None
        assert indices is not None
        ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        ones = np.broadcast_to(np.int8(1), indices.shape)
        pattern = sp.csr_matrix((ones, indices, ends), shape=(n_nodes, n_nodes))
        order = cuthill_mckee(pattern).astype(np.int32)
    return np.asarray(ranks.broadcast_array(order, n_nodes), dtype=np.int64)


def _dealt(
    W: sp.csr_matrix,
    own: NDArray[np.int32],
    place: NDArray[np.int32],
    division: Division,
    ranks: Ranks,
) -> sp.csr_matrix:
    """Rows with their new numbers at the ranks that have them, columns rising."""
    going = np.flatnonzero(own >= 0)
    going = going[np.argsort(own[going], kind="stable")]
    moved = W[going]
    counts = np.bincount(division.owner(own[going]), minlength=ranks.count)
    lengths = np.diff(moved.indptr).astype(np.int64)
    bounds = np.concatenate([[0], np.cumsum(counts)])
    entries = np.diff(moved.indptr[bounds].astype(np.int64))
    columns, weights = moved.indices, moved.data
    del W, moved
    numbers = ranks.sent(own[going], counts)
    lengths = ranks.sent(lengths, counts)
    columns = ranks.sent(place[columns], entries)
    weights = ranks.sent(weights, entries)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    came = sp.csr_matrix((weights, columns, starts), shape=(numbers.size, division.size))
    del columns, weights
    found = came[np.argsort(numbers)]
    found.sort_indices()
    return found
