"""`next_queries`: the next questions to a person about the nodes of a fitted estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mustlink.check import as_integer, as_random_state, check_choice
from mustlink.errors import InputError
from mustlink.kernels.threads import threads
from mustlink.queries.pair_questions import PAIR_STRATEGIES, pairs_to_ask
from mustlink.queries.situation import Situation
from mustlink.queries.strategies import (
    Coverage,
    Doubt,
    ExpectedError,
    ModelChange,
    SigmaOptimality,
    VarianceInDoubt,
    VOptimality,
    Walks,
)

Ints = NDArray[np.int64]
KINDS = ("labels", "pairs")
RANDOM = "random"


class Strategy(Protocol):
    """What asking is worth, node by node; what is asked counts as answered from then on."""

    def scores(self) -> NDArray[np.float64]:
        """Worth of every node (m,)."""

    def answered(self, node: int) -> None:
        """A node is asked."""


STRATEGIES: dict[str, Callable[[Situation], Strategy]] = {
    "auto": Walks.of,
    "walks": Walks.of,
    "variance-in-doubt": VarianceInDoubt.of,
    "v-optimal": VOptimality.of,
    "sigma-optimal": SigmaOptimality.of,
    "model-change": ModelChange.of,
    "expected-error": ExpectedError.of,
    "coverage": Coverage.of,
    "margin": Doubt.margin,
    "entropy": Doubt.entropy,
}


def next_queries(
    est: Any,
    n: int = 10,
    kind: str = "labels",
    strategy: str = "auto",
    avoid: Any = None,
    random_state: Any = 0,
) -> Ints:
    """Rows (q,) whose labels would help a fitted estimator most, or pairs (q, 2), best first.

    q = n, or as many as there are. Rows that have a label are never asked, pairs never that follow
    from what is known (by "neighbourhoods" but for a "yes" on which much hangs), nor what is in
    `avoid`, rows (a,) or pairs (a, 2): questions that were answered by "don't know". Equal rows are
    asked about once. Rows without an edge, whose label tells nothing of others, come last.

    `strategy` for labels: "walks", which "auto" is, asks what most doubtful nodes would hear of
    (`queries.walks`); "v-optimal" (Ji & Han 2012), "sigma-optimal" (Ma et al. 2013),
    "variance-in-doubt" and "model-change" (Miller & Bertozzi), "expected-error" (Zhu et al. 2003),
    "coverage" (farthest first), "margin", "entropy", "random". For pairs: "neighbourhoods" (Xiong,
    Azimi & Fern 2014), which "auto" is, "expected-error" and "expected-change" (Wang & Davidson
    2010), "random". A batch asks nothing twice: after every question the node counts as answered.
    Then `est.refit(...)` with the answers.

    Cost of "auto": 8 products with W, and little more for each question. Others O(mp²) for m nodes
    and p smooth vectors, those of the fit; label propagation has none, and 60 are made at the first
    call (24 of more than 200,000 nodes). `random_state` is of "random" alone. Raises InputError.
    """
    n = as_integer(n, "n", 1)
    check_choice(kind, KINDS, "kind")
    known = (*STRATEGIES, RANDOM) if kind == "labels" else PAIR_STRATEGIES
    check_choice(strategy, known, "strategy")
    rng = as_random_state(random_state)
    with threads(getattr(est, "n_jobs", None)):
        situation = Situation.of(est)
        left_out = _avoided(situation, avoid, 1 if kind == "labels" else 2)
        if kind == "pairs":
            return pairs_to_ask(situation, n, strategy, left_out, rng)
        return _labels(situation, n, strategy, left_out, rng)


def _labels(
    situation: Situation, n: int, strategy: str, avoid: Ints, rng: np.random.Generator
) -> Ints:
    open_ = ~situation.told
    left_out = situation.at(avoid)
    open_[left_out[left_out >= 0]] = False
    count = min(n, int(np.count_nonzero(open_)))
    if strategy == RANDOM:
        found = rng.choice(np.flatnonzero(open_), count, replace=False).tolist()
    else:
        found = greedy(STRATEGIES[strategy](situation), open_, count)
    asked: Ints = situation.rows[np.array(found, dtype=np.int64)]
    return np.concatenate([asked, situation.alone(avoid)[: n - count]])


def greedy(strategy: Strategy, open_: NDArray[np.bool_], count: int) -> list[int]:
    """The best open node, and again with that one answered; ties go to the first."""
    found: list[int] = []
    open_ = open_.copy()
    while len(found) < count:
        node = int(np.argmax(np.where(open_, strategy.scores(), -np.inf)))
        found.append(node)
        open_[node] = False
        if len(found) < count:
            strategy.answered(node)
    return found


def _avoided(situation: Situation, avoid: Any, width: int) -> Ints:
    """Rows (a,) or pairs (a, 2), checked; raises InputError."""
    empty = np.empty(0 if width == 1 else (0, 2), np.int64)
    found = empty if avoid is None else np.asarray(avoid)
    if not found.size:
        return empty
    shape = "(a,) rows" if width == 1 else "(a, 2) pairs of rows"
    n = situation.estimator.graph_.n_rows
    sound = found.dtype.kind in "iu" and found.ndim == width and (width == 1 or found.shape[1] == 2)
    if not sound:
        raise InputError(f"avoid: shape {found.shape}; give {shape}, as whole numbers")
    if found.min() < 0 or found.max() >= n:
        raise InputError(f"avoid: rows from {found.min()} to {found.max()}; there are {n} rows")
    return found.astype(np.int64)
