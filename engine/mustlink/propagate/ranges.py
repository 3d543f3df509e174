"""Checks of the methods' parameters."""

from __future__ import annotations

from typing import Any

from mustlink.check import check_number
from mustlink.errors import InputError


def check_share(value: Any, where: str) -> float:
    """Return a number strictly between 0 and 1; raises InputError."""
    number = check_number(value, where, "a number between 0 and 1")
    if not 0 < number < 1:
        raise InputError(f"{where}: {value!r} given; it must lie between 0 and 1, both excluded")
    return number
