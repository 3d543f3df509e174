"""When more answers stop to matter: what the fit would say without a part of them."""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from mustlink.check import as_integer, as_random_state, check_share
from mustlink.errors import InputError
from mustlink.observe import Unheard
from mustlink.queries.situation import given_of
from mustlink.selection.held_out import Fold

# Asked pairs build on each other: half of them say far less than half. CSP on usps and optdigits
# was never settled by halves, by tenths from 120 to 180 pairs on, where its ARI ceased to rise.
_HELD, _OF_PAIRS = 0.5, 0.1


@dataclass(frozen=True)
class Settled:
    """What the fit is without a part of the answers, `left_out`: whether more would change much.

    `moved` is the share of the rows that were answered otherwise, `agreed` that of the answers
    left out which the fit to the others foresaw (of clusterers: of what they say of pairs), both
    means over `draws`. `enough`: no more rows moved than was allowed.
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
        part, of = ("half", "half") if self.left_out == _HELD else ("a tenth", "tenth")
        return (
            f"{word}: without {part} of them {self.moved:.1%} of the rows are answered otherwise, "
            f"and {self.agreed:.0%} of that {of} is foreseen"
        )


def settled(est: Any, moved: float = 0.02, draws: int = 3, random_state: Any = 0) -> Settled:
    """Whether more answers would change a fitted estimator by more than a share `moved` of rows.

    It is refitted to a random half of what it was told, of pairs alone to nine tenths, `draws`
    times; the estimator itself stays as it is. If doubling the answers has changed few rows,
    doubling them again will change fewer, for what helped most was asked first. Wrong answers show
    as `agreed` well below 1 while little moves. Cost: `draws` refits. Raises InputError.
    """
    check_share(moved, "moved")
    draws = as_integer(draws, "draws", 1)
    rng = as_random_state(random_state)
    given = given_of(est)
    if given.is_empty:
        return Settled(1.0, 0.0, enough=False, draws=0)
    share = _OF_PAIRS if given.kind == "pairs" else _HELD
    found: list[tuple[float, float]] = []
    for _ in range(draws):
        kept, held = given.split(share, rng)
        if held.is_empty:  # one label a class: none is spared
            continue
        with suppress(InputError):  # what is left may be too little
            found.append(_without(est, kept, held))
    if not found:
        return Settled(1.0, 0.0, enough=False, draws=0)
    changed, agreed = (float(np.mean(column)) for column in zip(*found, strict=True))
    return Settled(changed, agreed, changed <= moved, len(found), share)


def _without(est: Any, kept: Any, held: Any) -> tuple[float, float]:
    """Share of the rows that are answered otherwise without `held`, and of it that is foreseen."""
    twin = copy(est)
    if hasattr(est, "given_labels_"):
        out = held.labels >= 0
        given = np.asarray(est.given_labels_)
        nothing = "" if given.dtype.kind in "OU" else -1
        twin.refit(np.where(out, nothing, given), observer=Unheard())
        right = float(np.mean(twin.labels_[out] == given[out]))
    else:
        twin.refit(constraints=kept, observer=Unheard())
        fold = Fold.of(kept, held)
        right = fold.share_kept(twin.labels_[fold.nodes])
    return float(np.mean(twin.labels_ != est.labels_)), right
