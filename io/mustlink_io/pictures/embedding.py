"""Two columns of an embedding as a scatter of clusters, with constraints drawn between nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink_io.pictures.canvas import (
    BROKEN,
    INK,
    SOFT,
    Figure,
    Labels,
    colours,
    new_figure,
    style,
)

MAX_POINTS = 50_000
_MAX_LINES = 100  # pairs drawn that are kept, and as many that are broken
_SAMPLE = 20_000  # nodes that columns are compared on
_COMPARED = 48  # columns of which all pairs are compared
_DISTINCT = 0.03  # of the width: what the eye tells apart
_CONSTANT = 1e-3  # spread, as a share of the size, below which a column says nothing
_TAIL = 0.002  # of the nodes on either side that may lie outside of the picture
_MAX_RINGS = 1000  # labelled nodes drawn
_MAX_NAMES = 40  # clusters whose numbers are written

Points = NDArray[np.floating[Any]]


def embedding(
    points: Points,
    labels: Labels,
    pairs: NDArray[np.integer[Any]] | None = None,
    belief: NDArray[np.floating[Any]] | None = None,
    given: Labels | None = None,
    seed: int = 0,
) -> Figure:
    """Scatter of the two columns of (n, k) that show most, coloured by cluster (WD14 Fig. 1).

    Must-links are solid lines and cannot-links dashed, broken ones red; nodes with a `given` label
    (n,), -1 unknown, have a ring in the colour of the cluster of most of their class. Of more than
    50,000 nodes, 1,000 rings, 100 kept and 100 broken pairs a random part is shown. One column is
    spread over random heights.
    """
    rng = np.random.default_rng(seed)
    n = labels.size
    columns = informative_columns(points, labels)
    shown = np.arange(n)
    if n > MAX_POINTS:
        shown = np.sort(rng.choice(n, MAX_POINTS, replace=False))
    flat = len(columns) < 2
    xy = np.empty((n, 2))
    xy[:, 0] = points[:, columns[0]]
    xy[:, 1] = rng.random(n) if flat else points[:, columns[1]]
    figure = new_figure(5.0, 4.3)
    with style():
        axes = figure.add_subplot()
        order = rng.permutation(shown)  # no cluster lies wholly above another
        dots = float(np.clip(900 / np.sqrt(max(n, 1)), 2.5, 24))
        axes.scatter(*xy[order].T, s=dots, c=colours(labels[order]), linewidths=0, alpha=0.8,
                     rasterized=True)  # fmt: skip
        words = [f"{n:,} nodes" if n == shown.size else f"{shown.size:,} of {n:,} nodes"]
        if given is not None:
            words += _draw_given(axes, xy, labels, given, rng)
        if pairs is not None and belief is not None and len(pairs):
            words += _draw_pairs(axes, xy, labels, pairs, np.asarray(belief), rng)
        _write_names(axes, xy, labels)
        _frame(axes, xy, shown, flat)
        axes.set_title("; ".join(words), fontsize=10)
        axes.set_xlabel(f"coordinate {columns[0] + 1} of {points.shape[1]}")
        axes.set_ylabel("random height" if flat else f"coordinate {columns[1] + 1}")
    figure.wanted_dpi = 170
    return figure


def informative_columns(points: Points, labels: Labels) -> tuple[int, ...]:
    """The two columns in which clusters overlap least, or one where only one is not constant.

    A pair of columns scores the mean over pairs of clusters of 1 − exp(−d²/8), d the distance
    of their centres in standard deviations within clusters, and no less than the eye can tell
    apart: 1 − the Bhattacharyya coefficient of two normal distributions. Values beyond the
    outermost percents, the spikes of constrained problems, are pulled in first. On a sample of
    20,000 nodes.
    """
    step = max(1, -(-labels.size // _SAMPLE))
    X, found = np.asarray(points[::step], dtype=np.float64), labels[::step]
    X, found = X[found >= 0], found[found >= 0]
    if not X.size:
        return (0,)
    size = np.abs(X).max(axis=0)
    low, high = np.quantile(X, [0.01, 0.99], axis=0)
    X = np.clip(X, low, high)
    spread = X.std(axis=0)
    telling = np.flatnonzero((size > 0) & (spread > _CONSTANT * size))
    if telling.size == 0:  # all constant between the outermost percents: look at the tails
        telling = np.argsort(-np.ptp(np.asarray(points[::step], dtype=np.float64), axis=0))[:2]
        return tuple(int(c) for c in np.sort(telling))
    if telling.size <= 2:
        return tuple(int(c) for c in telling)
    apart = _separation(X[:, telling], found)  # (columns, pairs of clusters), d² / 8
    if telling.size > _COMPARED:
        best = np.sort(np.argsort(-(1 - np.exp(-apart)).mean(axis=1), kind="stable")[:_COMPARED])
        telling, apart = telling[best], apart[best]
    first, second = np.triu_indices(telling.size, 1)
    score = [
        float((1 - np.exp(-(apart[i] + apart[j]))).mean())
        for i, j in zip(first, second, strict=True)
    ]
    at = int(np.argmax(score))
    return int(telling[first[at]]), int(telling[second[at]])


def _separation(X: NDArray[np.float64], labels: Labels) -> NDArray[np.float64]:
    """d²/8 for every column and pair of clusters (the largest 60)."""
    names, place, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    place = np.asarray(place).ravel()
    centres = np.stack(
        [
            np.bincount(place, weights=X[:, c], minlength=names.size) / sizes
            for c in range(X.shape[1])
        ]
    )
    within = np.mean((X.T - centres[:, place]) ** 2, axis=1)
    within = np.maximum(within + (_DISTINCT * np.ptp(X, axis=0)) ** 2, 1e-300)
    a, b = np.triu_indices(min(names.size, 60), 1)
    largest = np.argsort(-sizes, kind="stable")
    gaps = centres[:, largest[a]] - centres[:, largest[b]]
    if not a.size:  # one cluster: the widest columns
        return X.var(axis=0)[:, None]
    found: NDArray[np.float64] = gaps**2 / within[:, None] / 8
    return found


def _draw_given(
    axes: Any, xy: NDArray[np.float64], labels: Labels, given: Labels, rng: np.random.Generator
) -> list[str]:
    """Draw rings in the colour of a class's own cluster: where most of its labelled nodes are."""
    known = np.flatnonzero(given >= 0)
    if not known.size:
        return []
    _, row = np.unique(given[known], return_inverse=True)
    clusters, column = np.unique(labels[known], return_inverse=True)
    votes = np.bincount(row * clusters.size + column).astype(np.int64)
    votes = np.append(votes, np.zeros(-votes.size % clusters.size, dtype=np.int64))
    home = clusters[votes.reshape(-1, clusters.size).argmax(axis=1)]
    place = np.arange(known.size)
    if known.size > _MAX_RINGS:
        place = rng.choice(known.size, _MAX_RINGS, replace=False)
    drawn = known[place]
    axes.scatter(*xy[drawn].T, s=34, facecolor=colours(home[row[place]]), edgecolor=INK,
                 linewidths=1.1, zorder=4, rasterized=drawn.size > 200)  # fmt: skip
    return [f"rings: {known.size:,} labels given"]


def _draw_pairs(
    axes: Any,
    xy: NDArray[np.float64],
    labels: Labels,
    pairs: NDArray[np.integer[Any]],
    belief: NDArray[np.floating[Any]],
    rng: np.random.Generator,
) -> list[str]:
    from matplotlib.collections import LineCollection

    same = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    must = belief > 0
    kept = np.where(must, same & (labels[pairs[:, 0]] >= 0), ~same)
    order = rng.permutation(len(pairs))
    chosen = [order[kept[order] == held][:_MAX_LINES] for held in (True, False)]
    drawn = np.zeros(len(pairs), dtype=bool)
    drawn[np.concatenate(chosen)] = True
    many = drawn.sum() > 60
    for links, dash in ((must, "solid"), (~must, (0, (4, 3)))):
        for held, colour in ((True, "#30363d"), (False, BROKEN)):
            some = np.flatnonzero(drawn & links & (kept == held))
            if not some.size:
                continue
            name = ("must-link" if dash == "solid" else "cannot-link") + (
                "" if held else ", broken"
            )
            faint = 0.3 if many and held else 0.9
            axes.add_collection(
                LineCollection(
                    list(xy[pairs[some]]), linestyles=dash, colors=colour, alpha=faint,
                    linewidths=0.8 if held else 1.1, zorder=3, label=name,
                )
            )  # fmt: skip
            ends = xy[pairs[some]].reshape(-1, 2)
            axes.scatter(*ends.T, s=7, color=colour, linewidths=0, alpha=faint, zorder=3)
    legend = axes.figure.legend(loc="outside lower center", ncols=2, fontsize=8.5,
                                handlelength=2.2, columnspacing=1.2)  # fmt: skip
    for line in legend.get_lines():
        line.set_alpha(1.0)
    more = "" if drawn.all() else f"{drawn.sum():,} of "
    return [f"{more}{len(pairs):,} constraints"]


def _write_names(axes: Any, xy: NDArray[np.float64], labels: Labels) -> None:
    """Write cluster numbers at the clusters' middles, unless there are too many."""
    from matplotlib.patheffects import withStroke

    names = np.unique(labels[labels >= 0])
    if names.size > _MAX_NAMES:
        return
    for name in names:
        x, y = np.median(xy[labels == name], axis=0)
        axes.annotate(
            str(name),
            (x, y),
            xytext=(6, 6),  # a tight cluster stays visible beside its number
            textcoords="offset points",
            fontsize=10,
            fontweight="bold",
            color=INK,
            zorder=6,
            horizontalalignment="center",
            verticalalignment="center",
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
            annotation_clip=True,
        )


def _frame(axes: Any, xy: NDArray[np.float64], shown: NDArray[np.int64], flat: bool) -> None:
    """Leave out far spikes, and say how many nodes these are."""
    low, high = np.quantile(xy[shown], [_TAIL, 1 - _TAIL], axis=0)
    width = np.maximum(high - low, 1e-12 + 1e-9 * np.abs(high))
    reach = np.stack([low - 0.6 * width, high + 0.6 * width])
    low = np.maximum(xy[shown].min(axis=0), reach[0]) - 0.04 * width
    high = np.minimum(xy[shown].max(axis=0), reach[1]) + 0.04 * width
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    outside = int(((xy < low) | (xy > high)).any(axis=1).sum())
    if outside:
        axes.annotate(
            f"{outside:,} nodes lie outside", (1, 0), xycoords="axes fraction", fontsize=8,
            color=SOFT, xytext=(-4, 4), textcoords="offset points", horizontalalignment="right",
        )  # fmt: skip
    axes.locator_params(nbins=6)
    axes.ticklabel_format(style="sci", scilimits=(-2, 4))
    if flat:
        axes.set_yticks([])
