"""JSON of plain and numpy values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np


def to_json(value: Any) -> str:
    """JSON of plain and numpy values; NaN and Inf, which JSON lacks, become null."""
    return json.dumps(_plain(value), ensure_ascii=False, default=str)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
