"""Pictures (extra `plot`): arrays in, a matplotlib figure out, which `save` writes.

Figures are of their own, without pyplot, so that no global state changes.
"""

from mustlink_io.pictures.canvas import COLOURS, as_svg, colours, require_matplotlib, save
from mustlink_io.pictures.charts import (
    constraints_kept,
    dendrogram,
    embedding,
    histogram,
    informative_columns,
    joint_range,
    scaling,
    spectrum,
)
from mustlink_io.pictures.images import (
    label_map,
    overlay,
    painted,
    photograph,
    segmentation,
    side_by_side,
)

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
