"""Pictures (extra `plot`): arrays in, a matplotlib figure out, which `save` writes.

Figures are of their own, without pyplot, so that no global state changes.
"""

from mustlink_io.pictures.bars import constraints_kept, histogram
from mustlink_io.pictures.canvas import COLOURS, as_svg, colours, require_matplotlib, save
from mustlink_io.pictures.cut_out import painted
from mustlink_io.pictures.dendrogram import dendrogram
from mustlink_io.pictures.embedding import embedding, informative_columns
from mustlink_io.pictures.joint_range import joint_range
from mustlink_io.pictures.scaling import scaling
from mustlink_io.pictures.segmentation import (
    label_map,
    overlay,
    photograph,
    segmentation,
    side_by_side,
)
from mustlink_io.pictures.spectrum import spectrum

__all__ = [
    "COLOURS",
    "as_svg",
    "colours",
    "constraints_kept",
    "dendrogram",
    "embedding",
    "histogram",
    "informative_columns",
    "joint_range",
    "label_map",
    "overlay",
    "painted",
    "photograph",
    "require_matplotlib",
    "save",
    "scaling",
    "segmentation",
    "side_by_side",
    "spectrum",
]
