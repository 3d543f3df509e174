"""Pictures (extra `plot`): arrays in, a matplotlib figure out, which `save` writes.

Figures are of their own, without pyplot, so that no global state changes.
"""

from mustlink_io.pictures.charts import (
    constraints_kept,
    dendrogram,
    embedding,
    histogram,
    informative_columns,
    joint_range,
    point_panels,
    spectrum,
)
from mustlink_io.pictures.images import (
    COLOURS,
    MARKS,
    as_svg,
    colours,
    overlay,
    painted,
    require_matplotlib,
    save,
    side_by_side,
)

__all__ = [
    "COLOURS",
    "MARKS",
    "as_svg",
    "colours",
    "constraints_kept",
    "dendrogram",
    "embedding",
    "histogram",
    "informative_columns",
    "joint_range",
    "overlay",
    "painted",
    "point_panels",
    "require_matplotlib",
    "save",
    "side_by_side",
    "spectrum",
]
