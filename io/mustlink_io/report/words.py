"""Values as a page shows them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from mustlink_io.pictures import as_svg, colours
from mustlink_io.terminal.console import clock, size

_LONG = 400  # characters of a value, above which the rest is left out


def value(found: Any) -> str:
    """Any recorded value: numbers to 4 digits, lists and mappings by their parts."""
    if isinstance(found, bool) or found is None:
        return {True: "yes", False: "no", None: "none"}[found]
    if isinstance(found, float):
        return f"{found:.4g}"
    if isinstance(found, int):
        return f"{found:,}"
    if isinstance(found, Mapping):
        return _cut(", ".join(f"{key} {value(part)}" for key, part in found.items()))
    if isinstance(found, list | tuple):
        numbers = all(isinstance(part, float) for part in found)  # else a value and its reason
        return _cut((", " if numbers else ": ").join(value(part) for part in found))
    return _cut(str(found))


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]} …"


def count(number: float) -> str:
    """A whole number with commas."""
    return f"{number:,.0f}"


def percent(share: float) -> str:
    """A share: 12.3 %, 99.96 % where it is nearly all, and never 100 % of less than all."""
    if 0.999 <= share < 1 or 0 < share < 0.001:
        return f"{min(max(100 * share, 0.01), 99.99):.2f} %"
    return f"{100 * share:.1f} %" if 0 < share < 1 else f"{100 * share:.0f} %"


def small(number: float) -> str:
    """A number between 0 and 1, to three digits."""
    return "0" if number == 0 else f"{number:.3g}" if number >= 1e-4 else f"{number:.1e}"


def colour(label: int) -> str:
    """The colour that pictures give a cluster, as CSS writes it."""
    red, green, blue = (np.round(255 * colours(np.array([label]))[0])).astype(int).tolist()
    return f"#{red:02x}{green:02x}{blue:02x}"


def node(number: int, name: str | None) -> str:
    """A node by its number, and its name if it has one."""
    return f"{number}" if name is None else f"{number} ({_cut(name)})"


def group(number: int, name: str | None) -> str:
    """A cluster or class by its number, and its name if it has one; -1 is none."""
    return "none" if number < 0 else node(number, name)


def label(number: int, name: str | None) -> str:
    """A class by its name, else by its number; -1 is none."""
    return group(number, None) if name is None else _cut(name)


def source(figure: Any) -> str:
    """A figure as the data URI of an SVG."""
    return "data:image/svg+xml;base64," + base64.b64encode(as_svg(figure)).decode("ascii")


FILTERS = {
    "clock": clock,
    "colour": colour,
    "count": count,
    "percent": percent,
    "size": size,
    "small": small,
    "value": value,
}
