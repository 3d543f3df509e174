"""Colours of classes: told apart by colour-blind readers (Okabe and Ito), then by lightness."""

from __future__ import annotations

HEX = (
    "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#7f3b08",
    "#003c63", "#00543e", "#7a4564", "#8a5f00",
)  # fmt: skip
PALETTE = tuple(tuple(int(one[at : at + 2], 16) for at in (1, 3, 5)) for one in HEX)


def of_group(place: int) -> str:
    """Colour of the cluster or class at a place among all; they come again after twelve."""
    return HEX[place % len(HEX)]
