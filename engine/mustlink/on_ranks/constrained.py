"""CSP, SSSC, FastGE and constrained AP on ranks: own rows of what `methods` finds at home."""

from __future__ import annotations

from typing import Any

from mustlink.constraints import Constraints
from mustlink.errors import InputError
from mustlink.methods.constrained_at_scale import RANKS, check_at_scale, fitted, vectors_of
from mustlink.methods.cuts_in_words import told_choices
from mustlink.methods.stored_cut import RowCut, summed
from mustlink.on_ranks.work import RankWork


def constrained_cut(
    work: RankWork, estimator: Any, known: Constraints, k: int
) -> tuple[RowCut, dict[str, Any]]:
    """Own rows of the k clusters that an estimator makes, and its choices; raises InputError.

    The same on any number of ranks, bit by bit.
    """
    check_at_scale(estimator, RANKS)
    linked = work.n_nodes - work.isolated
    if not 2 <= k < linked:
        raise InputError(f"n_clusters: {k} asked of {linked} nodes with an edge; ask for 2 or more")
    seed = estimator._seed()
    found = fitted(estimator, known, k, vectors_of(estimator, work, seed), seed, RANKS)
    solution = found.solution
    cut = RowCut(found.clusters, found.embedding, solution.values, solution.convergence, None)
    cut = summed(work, cut, k)
    choices = told_choices(estimator._parameter, found.choice, solution)
    return cut, choices | {"candidates": [list(row) for row in found.choice.scores]}
