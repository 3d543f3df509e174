"""What every kind of cut answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def answer(est: Any, output: Path, outline: Path, **more: Any) -> dict[str, Any]:
    """Plain values of a fitted cut: the files, what is its own, seconds, notes and warnings."""
    return {
        "output": str(output),
        "outline": str(outline),
        "pixels": int(est.labels_.size),
        **more,
        "seconds": est.report_.seconds,
        "notes": list(est.report_.notes),
        "warnings": list(est.report_.warnings),
    }
