"""Numbers of a result as charts: histograms, curves, cuts, trees, and an embedding's scatter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.pictures.images import (
    BROKEN,
    COLOURS,
    INK,
    SOFT,
    Figure,
    Labels,
    colours,
    new_figure,
    style,
)

_KINDS = {"must": "must-links", "cannot": "cannot-links"}
_BOX = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}  # behind words
_LONG_TAIL = 8.0  # times as wide as the first: a last bin that asks for a log scale


def histogram(
    edges: Sequence[float] | NDArray[Any],
    counts: Sequence[float] | NDArray[Any],
    title: str,
    xlabel: str,
    mark: tuple[str, float] | None = None,
) -> Figure:
    """Draw counts (b,) between edges (b + 1,); `mark` is a name and a value to point at.

    Bins that grow are drawn on a log scale, where 0 is put beside 1.
    """
    left, right = np.asarray(edges[:-1], dtype=float), np.asarray(edges[1:], dtype=float)
    height = np.asarray(counts, dtype=float)
    long_tail = right.size > 2 and right[-1] - left[-1] > _LONG_TAIL * (right[0] - left[0])
    figure = new_figure(5.0, 2.8)
    with style():
        axes = figure.add_subplot()
        if long_tail:
            left = np.maximum(left, 0.5)
            axes.set_xscale("log")
        axes.bar(left, height, right - left, align="edge", color=COLOURS[5], edgecolor="white",
                 linewidth=0.6)  # fmt: skip
        if mark is not None:
            name, value = mark
            axes.axvline(value, color=INK, linewidth=1.0)
            low, high = axes.get_xlim()
            near_right = value - low > 0.6 * (high - low)
            _beside_line(axes, value, f"{name} {value:,.3g}", to_the_left=near_right)
        axes.set(title=title, xlabel=xlabel, ylabel="nodes")
        axes.grid(axis="y")
        axes.yaxis.set_major_formatter("{x:,.0f}")
    return figure


def _beside_line(axes: Any, x: float, words: str, *, to_the_left: bool) -> None:
    """Write words at the top of a vertical line."""
    axes.annotate(
        words, (x, 1.0), xycoords=axes.get_xaxis_transform(), textcoords="offset points",
        xytext=(-5 if to_the_left else 5, -4), fontsize=9, color=INK, bbox=_BOX,
        verticalalignment="top", horizontalalignment="right" if to_the_left else "left",
    )  # fmt: skip


def constraints_kept(kinds: Mapping[str, Mapping[str, float]]) -> Figure:
    """Draw which shares of `must` and `cannot` are kept and broken.

    Each has `n`, `kept`, `weight` and `weight_kept` (`mustlink.discretize.kept_by_kind`). Where
    beliefs differ, a second bar shows the shares of Σ|belief|.
    """
    rows: list[tuple[str, float, float, str]] = []
    for kind, name in _KINDS.items():
        row = kinds.get(kind)
        if not row or not row["n"]:
            continue
        n, kept = row["n"], row["kept"]
        rows.append((name, kept, n, f"{kept:,.0f} of {n:,.0f} kept"))
        if row["weight"] and abs(row["weight"] - n) > 1e-9 * n:
            share = row["weight_kept"] / row["weight"]
            rows.append(("by belief", row["weight_kept"], row["weight"], f"{share:.1%} kept"))
    figure = new_figure(5.0, 0.62 + 0.5 * max(len(rows), 1))
    with style():
        axes = figure.add_subplot()
        for at, (_, kept, n, words) in enumerate(rows):
            share = kept / n
            axes.barh(at, share, color=COLOURS[2], height=0.62)
            axes.barh(at, 1 - share, left=share, color=BROKEN, height=0.62)
            axes.text(0.012, at, words, verticalalignment="center", color="white", fontsize=9.5,
                      fontweight="bold")  # fmt: skip
        axes.set_yticks(range(len(rows)), [name for name, *_ in rows])
        axes.tick_params(axis="y", colors=INK, length=0)
        axes.set(xlim=(0, 1), title="kept (green) and broken (red)")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.invert_yaxis()
        axes.spines[["left", "bottom"]].set_visible(False)
    return figure


_WIDTH = (5.0, 0.16)  # inches at least, and for a leaf
_TALLER = 0.03  # of the range of heights, above the last merge


def dendrogram(linkage: NDArray[Any], clusters: NDArray[Any]) -> Figure:
    """Draw a linkage (L − 1, 4) of leaves that belong to clusters (L,).

    What is below a cluster has its colour, what joins clusters is grey; each cluster is numbered
    under its leaves.
    """
    count = clusters.size
    figure = new_figure(max(_WIDTH[0], _WIDTH[1] * count), 3.2)
    from matplotlib.colors import to_hex
    from scipy.cluster.hierarchy import dendrogram as drawn

    below = {leaf: {int(cluster)} for leaf, cluster in enumerate(clusters)}
    for step, (a, b) in enumerate(linkage[:, :2].astype(int)):
        below[count + step] = below[a] | below[b]
    tint = [to_hex(colour) for colour in colours(np.arange(int(clusters.max()) + 1))]

    def colour(node: int) -> str:
        return SOFT if len(below[node]) > 1 else tint[min(below[node])]

    low, high = float(linkage[:, 2].min()), float(linkage[:, 2].max())
    floor = max(0.0, low - 0.25 * (high - low))
    with style():
        axes = figure.add_subplot()
        tree = drawn(linkage, ax=axes, no_labels=True, link_color_func=colour)
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


_COLUMNS = ("cost", "alpha", "used", "beta", "volume", "unconstrained")


def joint_range(cuts: Mapping[str, Any]) -> Figure:
    """Draw feasible cuts, those of the graph alone, as WD14 Fig. 4.

    `cuts` is what a report of CSP tells under that name, for ‖v‖² = vol; drawn are unit vectors, so
    that the cost lies between 0 and 2. The line is β/vol: feasible cuts lie above (Lemma 1). Raises
    InputError.
    """
    absent = [name for name in _COLUMNS if name not in cuts]
    if absent:
        raise InputError(
            f'cuts: no {", ".join(absent)} in it; give est.report_.extra["cuts"] of a fitted CSP'
        )
    volume = cuts["volume"]
    feasible, used = _places(cuts, volume), np.asarray(cuts["used"], dtype=bool)
    plain = _places(cuts["unconstrained"], volume)
    least = cuts["beta"] / volume
    figure = new_figure(5.4, 4.0)
    with style():
        axes = figure.add_subplot()
        marks = {"linewidths": 1.0, "s": 22, "zorder": 3}
        if len(plain):
            axes.scatter(*plain.T, facecolor="white", edgecolor=SOFT, marker="s",
                         label="cuts of the graph alone", **marks)  # fmt: skip
        if not used.all():
            axes.scatter(*feasible[~used].T, facecolor=COLOURS[5], edgecolor=INK,
                         label="feasible cuts", **marks)  # fmt: skip
        axes.scatter(*feasible[used].T, facecolor=COLOURS[3], edgecolor=INK, marker="D",
                     label="the cheapest, used", **(marks | {"s": 34, "zorder": 4}))  # fmt: skip
        axes.axhline(least, color=COLOURS[0], linewidth=1.2, linestyle=(0, (5, 3)), zorder=2)
        axes.annotate("β/vol: feasible cuts lie above", (1.0, least), color=COLOURS[0], fontsize=9,
                      xycoords=axes.get_yaxis_transform(), xytext=(-3, 3), ha="right",
                      textcoords="offset points", zorder=5, bbox=_BOX)  # fmt: skip
        axes.set(xlabel="cost of the cut, vᵀL̄v", ylabel="constraints kept, vᵀQ̄v")
        axes.grid(zorder=-1)
        figure.legend(loc="outside lower center", ncols=3, fontsize=8.5, handletextpad=0.2)
    return figure


def _places(columns: Mapping[str, Any], volume: float) -> NDArray[np.float64]:
    """Pairs (cost, α) of unit vectors, (r, 2)."""
    both = [np.asarray(columns[name], dtype=np.float64) for name in ("cost", "alpha")]
    return np.column_stack(both) / volume


_BEYOND = 10  # values drawn beyond the K-th, or as many again


def spectrum(
    values: NDArray[np.floating[Any]], n_clusters: int | None = None, title: str = "eigenvalues"
) -> Figure:
    """Draw eigenvalues (q,) in their order, the first `n_clusters` filled, and mark the gap.

    The gap after the K-th is what tells K clusters from K + 1; without a value beyond, or without
    `n_clusters`, none is marked. Drawn are those, and as many again, at least ten.
    """
    k = n_clusters or 0
    shown = np.asarray(values, dtype=np.float64)[: (k + max(_BEYOND, k)) or 60]
    place = np.arange(1, shown.size + 1)
    used = place <= k if k else np.ones(shown.size, dtype=bool)
    figure = new_figure(5.0, 3.1)
    size = float(np.clip(220 / max(shown.size, 1), 5, 30))
    with style():
        axes = figure.add_subplot()
        axes.vlines(place, min(0.0, shown.min(initial=0.0)), shown, color="#e6eaed", linewidth=1.2)
        axes.scatter(place[used], shown[used], s=size, color=COLOURS[0], zorder=3)
        rest = {"facecolor": "white", "edgecolor": SOFT, "linewidth": 1.0, "zorder": 3}
        axes.scatter(place[~used], shown[~used], s=size, **rest)
        if k and shown.size > k:
            _mark_gap(axes, float(shown[k - 1]), float(shown[k]), k, 2 * k > shown.size)
        axes.set(title=title, xlabel="number of the eigenvalue", ylabel="eigenvalue λ")
        axes.grid(axis="y")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.margins(x=0.03)
        low, high = axes.get_ylim()
        if shown.max(initial=0.0) <= 0:
            high = 1.0
        axes.set_ylim(low if shown.min(initial=0.0) < 0 else -0.03 * high, 1.1 * high)
    return figure


def _mark_gap(axes: Any, last: float, beyond: float, k: int, to_the_left: bool) -> None:
    share = (beyond - last) / beyond if beyond > 0 else 0.0
    axes.axhspan(last, beyond, color=COLOURS[1], alpha=0.22, linewidth=0, zorder=0)
    axes.axvline(k + 0.5, color=COLOURS[1], linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
    words = f"gap after {k}: {beyond - last:.3g}, {share:.0%} of λ$_{{{k + 1}}}$"
    _beside_line(axes, k + 0.5, words, to_the_left=to_the_left)


MAX_POINTS = 50_000
_MAX_LINES = 100  # pairs drawn that are kept, and as many that are broken
_SAMPLE = 20_000  # nodes that columns are compared on, and rows from which directions are found
_CONSTANT = 1e-3  # spread, as a share of the size, below which a column says nothing
_TAIL = 0.002  # of the nodes on either side that may lie outside of the picture
_MAX_RINGS = 1000  # labelled nodes drawn
_LETTERS = 18  # of a name beside a cluster
_MAX_NAMES = 40  # clusters whose numbers are written

Points = NDArray[np.floating[Any]]


def embedding(
    points: Points,
    labels: Labels,
    pairs: NDArray[np.integer[Any]] | None = None,
    belief: NDArray[np.floating[Any]] | None = None,
    known_labels: Labels | None = None,
    names: Mapping[int, str] | None = None,
) -> Figure:
    """Scatter of the two `informative_columns` of (n, k), coloured by cluster (WD14 Fig. 1).

    Must-links are solid lines and cannot-links dashed, broken ones red; nodes with a label in
    `known_labels` (n,), -1 unknown, have a ring in the colour of the cluster of most of their
    class; `names` are those of clusters, by number. Of more than 50,000 nodes, 1,000 rings, 100
    kept and 100 broken pairs a random part is shown. One column is spread over random heights.
    """
    rng = np.random.default_rng(0)
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
        if known_labels is not None:
            words += _draw_known(axes, xy, labels, known_labels, rng)
        if pairs is not None and belief is not None and len(pairs):
            words += _draw_pairs(axes, xy, labels, pairs, np.asarray(belief), rng)
        _frame(axes, xy, shown, flat)
        _write_names(axes, xy, labels, names or {})
        axes.set_title("; ".join(words), fontsize=10)
        axes.set_xlabel(f"coordinate {columns[0] + 1} of {points.shape[1]}")
        axes.set_ylabel("random height" if flat else f"coordinate {columns[1] + 1}")
    figure.wanted_dpi = 170
    return figure


def point_panels(xy: Points, panels: Sequence[tuple[Labels, str]]) -> Figure:
    """Draw points (n, 2) once for each labels (n,) and title, two panels a row.

    A node without a label (-1) is grey and below the others. Of more than 20,000 a random part is
    shown, and every labelled node where few are.
    """
    rng = np.random.default_rng(0)
    sample = rng.permutation(len(xy))[:_DRAWN]
    rows = -(-len(panels) // 2)
    figure = new_figure(10.0, 2.5 * rows)
    with style():
        for at, (labels, title) in enumerate(panels, start=1):
            axes = figure.add_subplot(rows, 2, at)
            labelled = np.flatnonzero(labels >= 0)
            few = labelled.size <= _FEW
            axes.scatter(
                *xy[sample].T,
                s=0.8,
                linewidths=0,
                c=colours(np.full(sample.size, -1) if few else labels[sample]),
            )
            if few:
                axes.scatter(*xy[labelled].T, s=22, c=colours(labels[labelled]),
                             edgecolors=INK, linewidths=0.5)  # fmt: skip
            axes.set_title(title)
            axes.set_aspect("equal")
            axes.set_axis_off()
    figure.wanted_dpi = 130
    return figure


_FEW = 1_000  # labelled nodes that are drawn large
_DRAWN = 20_000  # points of a panel, which is small


def informative_columns(points: Points, labels: Labels) -> tuple[int, ...]:
    """The two columns in which clusters differ most, or one where only one is not constant.

    By the F statistic of one-way ANOVA, on a sample of 20,000 nodes; values beyond the outermost
    percents, the spikes of constrained problems, are pulled in first.
    """
    from sklearn.feature_selection import f_classif

    step = max(1, -(-labels.size // _SAMPLE))
    X, found = np.asarray(points[::step], dtype=np.float64), labels[::step]
    X, found = X[found >= 0], found[found >= 0]
    if not X.size:
        return (0,)
    size, width = np.abs(X).max(axis=0), np.ptp(X, axis=0)
    X = np.clip(X, *np.quantile(X, [0.01, 0.99], axis=0))
    spread = X.std(axis=0)
    varied = np.flatnonzero((size > 0) & (spread > _CONSTANT * size))
    if varied.size == 0:  # all constant between the outermost percents: look at the tails
        return tuple(np.sort(np.argsort(-width)[:2]).tolist())
    score = spread[varied]
    if np.unique(found).size > 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.nan_to_num(f_classif(X[:, varied], found)[0])
    return tuple(np.sort(varied[np.argsort(-score, kind="stable")[:2]]).tolist())


def _draw_known(
    axes: Any,
    xy: NDArray[np.float64],
    labels: Labels,
    known_labels: Labels,
    rng: np.random.Generator,
) -> list[str]:
    """Draw rings in the colour of a class's own cluster: where most of its labelled nodes are."""
    from mustlink.discretize.satisfaction import stray_labels

    known = np.flatnonzero(known_labels >= 0)
    if not known.size:
        return []
    strays, home = stray_labels(labels, known_labels.astype(np.int64))
    rings = labels.copy()
    rings[strays] = home
    place = np.arange(known.size)
    if known.size > _MAX_RINGS:
        place = rng.choice(known.size, _MAX_RINGS, replace=False)
    drawn = known[place]
    axes.scatter(*xy[drawn].T, s=34, facecolor=colours(rings[drawn]), edgecolor=INK,
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


def _write_names(
    axes: Any, xy: NDArray[np.float64], labels: Labels, called: Mapping[int, str]
) -> None:
    from matplotlib.patheffects import withStroke

    names, counts = np.unique(labels[labels >= 0], return_counts=True)
    if not 0 < names.size <= _MAX_NAMES:
        return
    names = names[np.argsort(-counts, kind="stable")]
    texts = [called.get(name, str(name))[:_LETTERS] for name in names.tolist()]
    middles = np.array([middle_row(xy[labels == name]) for name in names])
    axes.figure.draw_without_rendering()  # as large as it becomes
    points = axes.transData.transform(middles) * 72 / axes.figure.dpi
    free = names_apart(points, 7.0 * np.array([len(one) for one in texts]), 13.0)
    for text, middle, shift in zip(texts, middles, free - points, strict=True):
        if np.isnan(shift).any():
            continue
        axes.annotate(
            text.replace("$", r"\$"),
            middle,
            xytext=(6, 6 + shift[1]),  # a tight cluster stays visible beside its number
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


def middle_row(xy: NDArray[Any]) -> NDArray[Any]:
    """The row (2,) of some (m, 2) that is nearest to their median, as wide as they are."""
    away = (xy - np.median(xy, axis=0)) / np.maximum(np.ptp(xy, axis=0), 1e-30)
    found: NDArray[Any] = xy[(away**2).sum(axis=1).argmin()]
    return found


def names_apart(
    places: NDArray[Any], widths: NDArray[np.float64], height: float
) -> NDArray[np.float64]:
    """Places (m, 2) of names of these widths (m,), one after another, moved until each is free.

    By up to three lines up or down; where a name would cover one before it even then it is left
    out: NaN. In pixels; O(m²).
    """
    found = np.full(places.shape, np.nan)
    for at, place in enumerate(places):
        for lines in (0, 1, -1, 2, -2, 3, -3):
            here = place + np.array([0.0, lines * height])
            gap = np.abs(found[:at] - here)
            near = gap[:, 0] < (widths[:at] + widths[at]) / 2
            if not (near & (gap[:, 1] < 0.999 * height)).any():
                found[at] = here
                break
    return found


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


# --- The plane in which clusters lie farthest apart: coordinates of a map

_RIDGE = 1e-6  # of the mean variance: columns may depend on each other
_ROUNDING = 1e-9  # share of a column's size by which it may vary and is constant


def plane(rows: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float32]:
    """Two directions (p, 2) of rows (n, p), by scatter between clusters (n,) and within them.

    They are those of Fisher's discriminant: an eigenproblem of p × p, on a sample of the rows.
    """
    from scipy.linalg import eigh

    n, p = rows.shape
    some = np.random.default_rng(0).permutation(n)[:_SAMPLE]
    X = rows[some].astype(np.float64)
    scale, size = X.std(axis=0), np.abs(X).max(axis=0)
    rounding = max(_ROUNDING, 100 * float(np.finfo(np.result_type(rows, np.float32)).eps))
    scale[scale <= rounding * size] = 1.0
    X = (X - X.mean(axis=0)) / scale
    if p < 2:
        return np.column_stack([1 / scale, np.zeros(p)]).astype(np.float32)
    groups, codes = np.unique(labels[some], return_inverse=True)
    counts = np.bincount(codes)
    sums = np.zeros((groups.size, p))
    np.add.at(sums, codes, X)
    means = sums / counts[:, None]
    within = (X - means[codes]).T @ (X - means[codes]) / len(X)
    between = X.T @ X / len(X) - within
    if groups.size < 3:  # these have one direction, the widest is put beside it
        between += 1e-3 * within @ within
    within += _RIDGE * np.trace(within + between) / p * np.eye(p)
    found = eigh(between, within)[1][:, ::-1][:, :2]
    found *= np.sign(found[np.abs(found).argmax(axis=0), [0, 1]])
    return np.asarray(found / scale[:, None], dtype=np.float32)


def is_shares(rows: NDArray[Any]) -> bool:
    """Whether rows (n, K) are shares of classes, or 0: whole classes are one point then."""
    total = rows.sum(axis=1)
    return bool((rows >= 0).all() and (np.isclose(total, 1, atol=1e-6) | (total == 0)).all())


def spread_in_plane(rows: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Places (n, 2) of the rows of an embedding (n, p) in the plane of their clusters (n,).

    Such rows crowd together, so axes are x ↦ asinh(x / median |x|) about the median.
    """
    found = rows @ plane(rows, labels)
    found -= np.median(found, axis=0)
    scale = np.maximum(np.median(np.abs(found), axis=0), 1e-30)
    return np.asarray(np.arcsinh(found / scale), dtype=np.float64)
