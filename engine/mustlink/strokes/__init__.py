"""Pictures cut along a few strokes."""

from __future__ import annotations

from mustlink.strokes.stroke_cut import StrokeCut

__all__ = ["StrokeCut"]
