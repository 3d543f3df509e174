"""What a model file says is believed only where the engine could have written it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mustlink.errors import InputError

_MOST_NUMBERS = 1_000_000  # beyond the rows: clusters have numbers, of which new ones are made


def damaged(what: str) -> InputError:
    """The error where a model cannot be as mustlink writes it."""
    return InputError(f"model: damaged: {what} cannot be as mustlink writes it; save it anew")


def refuse(is_wrong: bool, what: str) -> None:
    """Raise InputError where something is wrong."""
    if is_wrong:
        raise damaged(what)


def check_rows(name: str, value: Any, n: int) -> None:
    """Raise InputError unless an attribute with a row for each of n is one: finite, in range."""
    refuse(not isinstance(value, np.ndarray) or value.ndim < 1, name)
    refuse(value.shape[0] != n, name)
    if value.dtype.kind == "f":
        refuse(not np.isfinite(value).all(), name)


def check_numbers(name: str, value: Any, n: int) -> None:
    """Raise InputError unless integers (n,) can be numbers of clusters: -1, or not far beyond n."""
    check_rows(name, value, n)
    refuse(value.dtype != np.int64 or value.ndim != 1, name)
    refuse(bool(value.size) and not -1 <= value.min() <= value.max() < n + _MOST_NUMBERS, name)
