"""Colours of classes: told apart by colour-blind readers (Okabe and Ito), then by lightness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

HEX = (
    "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#7f3b08",
    "#003c63", "#00543e", "#7a4564", "#8a5f00",
)  # fmt: skip
PALETTE = tuple(tuple(int(one[at : at + 2], 16) for at in (1, 3, 5)) for one in HEX)


def of_groups(groups: Sequence[Any]) -> list[str]:
    """Colours of clusters by their numbers, which stay; of names by their places among all."""
    numbered = all(isinstance(one, int) for one in groups)
    return [HEX[(one if numbered else at) % len(HEX)] for at, one in enumerate(groups)]
