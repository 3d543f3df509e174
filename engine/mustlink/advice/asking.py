"""The next questions to a person about a fitted estimator, and when more stop to matter."""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.advice.pair_questions import pairs_to_ask
from mustlink.advice.situation import Situation, Walks, given_of
from mustlink.core.check import as_integer, as_random_state, check_choice, check_share
from mustlink.core.observe import Unheard
from mustlink.core.state import chosen
from mustlink.discretize.satisfaction import satisfaction
from mustlink.errors import InputError
from mustlink.kernels.threads import threads

Ints = NDArray[np.int64]
STRATEGIES = {
    "labels": ("auto", "walks", "random"),
    "pairs": ("auto", "neighbourhoods", "random"),
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
    from what is known (but for second opinions of "neighbourhoods"), nor what is in `avoid`, rows
    (a,) or pairs (a, 2): questions that were answered by "don't know". Equal rows are asked about
    once. Rows without an edge, whose label says nothing about others, come last.

    `strategy` for labels: "walks", which "auto" is, asks the label that reaches most uncertain
    nodes (`advice.situation.Walks`); for pairs: "neighbourhoods" (Xiong, Azimi & Fern 2014), which
    "auto" is; "random". A batch asks nothing twice: after every question the node counts as
    answered. Then `est.refit(...)` with the answers.

    Cost: 8 products with W, and little more for each question. `random_state` is of "random" alone.
    Raises InputError.
    """
    n = as_integer(n, "n", 1)
    check_choice(kind, tuple(STRATEGIES), "kind")
    check_choice(strategy, STRATEGIES[kind], "strategy")
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
    open_ = ~situation.labelled
    left_out = situation.at(avoid)
    open_[left_out[left_out >= 0]] = False
    count = min(n, int(np.count_nonzero(open_)))
    if strategy == "random":
        found = rng.choice(np.flatnonzero(open_), count, replace=False).tolist()
    else:
        found, worth = [], Walks.of(situation)
        while len(found) < count:  # of equals the first
            node = int(np.argmax(np.where(open_, worth.values, -np.inf)))
            found.append(node)
            open_[node] = False
            if len(found) < count:
                worth.answered(node)
    asked: Ints = situation.rows[np.array(found, dtype=np.int64)]
    return np.concatenate([asked, situation.alone(avoid)[: n - count]])


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


# --- When more answers stop to matter: the fit without a part of them


# Asked pairs build on each other: half of them say far less than half. CSP on usps and optdigits
# was never settled by halves, by tenths from 120 to 180 pairs on, where its ARI ceased to rise.
_HELD, _OF_PAIRS = 0.5, 0.1


@dataclass(frozen=True)
class Settled:
    """A fit compared with fits without a share of the answers, `left_out`.

    `moved` is the share of the rows with another result, `agreed` that of the answers left out
    which the fit to the others predicts (of clusterers: of their pairs), both means over `draws`.
    `enough`: no more rows moved than was allowed, see `settled`.
    """

    moved: float
    agreed: float
    enough: bool
    draws: int
    left_out: float = _HELD

    def __str__(self) -> str:
        """One sentence."""
        if not self.draws:
            return "too few answers to leave some of them out; go on"
        word = "more answers hardly matter" if self.enough else "more answers matter"
        part = "half" if self.left_out == _HELD else "a tenth"
        return (
            f"{word}: without {part} of the answers {self.moved:.1%} of the rows get another "
            f"result, which agrees with {self.agreed:.0%} of the answers left out"
        )


def settled(est: Any, moved: float = 0.02, draws: int = 3, random_state: Any = 0) -> Settled:
    """Whether more answers would change a fitted estimator by more than a share `moved` of rows.

    A share of as many as would change if all results were shuffled, 1 − Σp_c² of the rows by the
    shares p_c of the results, less one row, which is chance: where most rows are of one class few
    others decide.

    It is refitted to a random half of its side information, of pairs alone to nine tenths, `draws`
    times; the estimator itself stays as it is. If doubling the answers has changed few rows,
    doubling them again will change fewer, as what helps most was asked first. Wrong answers show as
    `agreed` well below 1 while little moves. Cost: `draws` refits. Raises InputError.
    """
    check_share(moved, "moved")
    draws = as_integer(draws, "draws", 1)
    rng = as_random_state(random_state)
    est = chosen(est)
    given = given_of(est)
    if given.is_empty:
        return Settled(1.0, 0.0, enough=False, draws=0)
    share = _OF_PAIRS if given.kind == "pairs" else _HELD
    found: list[tuple[float, float]] = []
    for _ in range(draws):
        kept, held = given.split(share, rng)
        with suppress(InputError):  # the rest may be too little
            if not held.is_empty:  # as with one label a class
                found.append(_without(est, kept, held))
    if not found:
        return Settled(1.0, 0.0, enough=False, draws=0)
    changed, agreed = (float(np.mean(column)) for column in zip(*found, strict=True))
    shares = np.unique(est.labels_, return_counts=True)[1] / est.labels_.size
    limit = moved * (1.0 - float(shares @ shares))
    limit = max(limit - 1.0 / est.labels_.size, 0.0)
    return Settled(changed, agreed, changed <= limit, len(found), share)


def _without(est: Any, kept: Any, held: Any) -> tuple[float, float]:
    """Share of the rows with another result without `held`, and of `held` that is predicted."""
    twin = copy(est)
    if hasattr(est, "given_labels_"):
        out = held.labels >= 0
        given = np.asarray(est.given_labels_)
        nothing = "" if given.dtype.kind in "OU" else -1
        twin.refit(np.where(out, nothing, given), observer=Unheard())
        right = float(np.mean(twin.labels_[out] == given[out]))
    else:
        twin.refit(constraints=kept, observer=Unheard())
        right = satisfaction(twin.labels_, held, given=kept)["kept_weighted"]
    return float(np.mean(twin.labels_ != est.labels_)), right
