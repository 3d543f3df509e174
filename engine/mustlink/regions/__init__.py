"""Pictures cut without strokes: edges, small regions, and neighbours joined."""

from __future__ import annotations

from mustlink.regions.region_cut import RegionCut

__all__ = ["RegionCut"]
