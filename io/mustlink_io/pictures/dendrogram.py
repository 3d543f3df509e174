"""A hierarchy of clusters as a tree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink_io.pictures.canvas import SOFT, Figure, colours, new_figure, style

_WIDTH = (5.0, 0.16)  # inches at least, and for a leaf
_TALLER = 0.03  # of the range of heights, above the last merge


def dendrogram(linkage: NDArray[Any], clusters: NDArray[Any]) -> Figure:
    """Draw a linkage (L − 1, 4) of leaves that belong to clusters (L,).

    What is below a cluster has its colour, what joins clusters is grey; each cluster is numbered
    under its leaves.
    """
    from scipy.cluster.hierarchy import dendrogram as laid_out

    count = clusters.size
    figure = new_figure(max(_WIDTH[0], _WIDTH[1] * count), 3.2)
    below = {leaf: {int(cluster)} for leaf, cluster in enumerate(clusters)}
    for step, (a, b) in enumerate(linkage[:, :2].astype(int)):
        below[count + step] = below[a] | below[b]
    tint = colours(np.arange(int(clusters.max()) + 1))

    def colour(node: int) -> str:
        own = below[node]
        return "" if len(own) > 1 else f"C{next(iter(own))}"

    tree = laid_out(linkage, no_plot=True, link_color_func=colour)
    low, high = float(linkage[:, 2].min()), float(linkage[:, 2].max())
    floor = max(0.0, low - 0.25 * (high - low))
    with style():
        axes = figure.add_subplot()
        rows = zip(tree["icoord"], tree["dcoord"], tree["color_list"], strict=True)
        for x, heights, name in rows:
            shade = tint[int(name[1:])] if name else SOFT
            axes.plot(x, np.maximum(heights, floor), color=shade, linewidth=1.3)
        leaves = clusters[np.array(tree["leaves"], dtype=int)]
        starts = np.flatnonzero(np.append(True, leaves[1:] != leaves[:-1]))
        stops = np.append(starts[1:], count)
        middles = 5.0 + 10.0 * (starts + stops - 1) / 2
        axes.set_xticks(middles, [str(leaves[at]) for at in starts])
        axes.set_xlim(0, 10.0 * count)
        axes.set_ylim(floor, high + _TALLER * max(high - floor, 1e-3))
        axes.set(title="clusters, merged", xlabel="cluster", ylabel="apart")
        axes.tick_params(axis="x", length=0)
        axes.grid(axis="y")
    return figure
