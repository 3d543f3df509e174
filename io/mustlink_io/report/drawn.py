"""The pictures of a result: which of them it has, and words for readers who cannot see them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink import LaplacianEigenmaps
from mustlink.core.observe import Unheard
from mustlink.errors import InputError
from mustlink_io import pictures
from mustlink_io.hdf5.writing import check_output, make_folder
from mustlink_io.pictures.charts import is_shares, spread_in_plane
from mustlink_io.report.facts import ReadResult

_FEWEST, _MAPS, _MAPPED = 6, 20, 200_000  # coordinates of a map made here, at most of so many rows
_BY_COORDINATES = 4  # clusters that are looked at by two coordinates as they are
_ZERO = 1e-12  # eigenvalues of components, up to rounding


@dataclass(frozen=True)
class ReportFigure:
    """A figure with its caption, and words that stand for it where it cannot be seen."""

    figure: Any
    caption: str
    alt: str


def draw(result: ReadResult, image: NDArray[Any] | None = None) -> dict[str, ReportFigure]:
    """All pictures that a result has, by name; raises InputError for an image of another size."""
    found = {
        "embedding": _embedding(result),
        "hierarchy": _hierarchy(result),
        "spectrum": _spectrum(result),
        "neighbours": _neighbours(result),
        "constraints": _constraints(result),
        "cuts": _cuts(result),
        "confidence": _confidence(result),
    }
    shown = {name: picture for name, picture in found.items() if picture is not None}
    return {**_segmented(result, image), **shown}


def save(drawn: dict[str, ReportFigure], folder: str) -> list[str]:
    """Write every picture as PNG and as SVG into a folder; returns the paths.

    Raises InputError where one is there that mustlink did not draw, and then none is written.
    """
    into = Path(folder)
    make_folder(into)
    targets = {
        into / f"{name}{kind}": one for name, one in drawn.items() for kind in pictures.MARKS
    }
    for path in targets:
        check_output(path, mark=pictures.MARKS[path.suffix])
    for path, picture in targets.items():
        pictures.save(picture.figure, path)
    return [str(path) for path in targets]


def _segmented(result: ReadResult, image: NDArray[Any] | None) -> dict[str, ReportFigure]:
    """The image and its segments, where the file or the command has an image."""
    shown = result.arrays.image if image is None else image
    if shown is None:
        return {}
    labels, (height, width) = result.arrays.labels, shown.shape[:2]
    if labels.size != height * width:
        raise InputError(
            f"--image: {width} x {height} pixels, but the result has {labels.size} nodes; give the "
            "image that was clustered"
        )
    kind = result.facts["kind"]
    size = f"{width:,} by {height:,} pixels"
    tinted = pictures.overlay(shown, labels.reshape(height, width))
    return {
        "image": ReportFigure(
            pictures.side_by_side((shown,), ("",)),
            f"The image, {size}.",
            f"An image of {size} whose pixels were the nodes.",
        ),
        "segmentation": ReportFigure(
            pictures.side_by_side((tinted,), ("",)),
            f"The {kind} of its pixels, over it.",
            f"The same image, tinted by the {len(result.facts[kind])} {kind} of its pixels, with "
            "white borders between them.",
        ),
    }


def _embedding(result: ReadResult) -> ReportFigure | None:
    held, kind = result.arrays, result.facts["kind"]
    rows, count = held.embedding, len(result.facts[kind])
    shares = rows is None or is_shares(rows)
    if shares and result.graph is not None and 4 <= held.labels.size <= _MAPPED:
        wanted = min(max(_FEWEST, min(count, _MAPS)), result.graph.n_nodes - 2)
        made = LaplacianEigenmaps(wanted, affinity="precomputed", random_state=0)
        rows = np.asarray(made.fit(result.graph, observer=Unheard()).embedding_)
    if rows is None or rows.shape[1] == 0:
        return None
    where = "by the two coordinates of the embedding in which {} overlap least"
    if rows.shape[1] > 2 and count > _BY_COORDINATES:
        rows = spread_in_plane(rows, held.labels)
        where = "in the plane of the embedding in which {} lie farthest apart"
    drawn = pictures.embedding(
        rows, held.labels, held.pairs, held.belief, held.known, dict(held.names)
    )
    noun, lines = "class" if kind == "classes" else "cluster", ""
    if held.pairs is not None:
        lines = (
            " Solid lines are must-links, dashed ones cannot-links; what is broken is red. "
            "Where there are many, a hundred kept and a hundred broken ones are drawn."
        )
    if held.known is not None:
        lines += (
            f" Rings are nodes with a known label, in the colour of the {noun} where most of "
            "their class are."
        )
    return ReportFigure(
        drawn,
        f"The nodes {where.format(kind)}, coloured and numbered by {noun}.{lines}",
        f"Scatter plot of {held.labels.size:,} nodes in {count} coloured {kind}.{lines}",
    )


def _hierarchy(result: ReadResult) -> ReportFigure | None:
    tree, parts = result.arrays.linkage, result.arrays.parts
    if tree is None or parts is None:
        return None
    count = np.unique(parts).size
    return ReportFigure(
        pictures.dendrogram(tree, parts),
        "Parts of the clusters, merged two by two: the higher, the fewer of their edges lead from "
        "one to the other, 1 is none. What is in one cluster has its colour; to cut the tree at "
        "another height makes fewer or more clusters.",
        f"Tree of {parts.size} parts of {count} clusters; the last merge is at {tree[-1, 2]:.3g}.",
    )


def _spectrum(result: ReadResult) -> ReportFigure | None:
    found = result.facts["spectrum"]
    if found is None:
        return None
    values, k = np.array(found["values"]), found["n_clusters"]
    of_graph = found["of"] == "graph"
    name = "the normalised Laplacian" if of_graph else "the method's own problem"
    caption = f"The smallest eigenvalues of {name}, those of the clusters filled."
    gap = "The gap after them is not known: no further one was computed."
    if not of_graph:
        caption = f"Eigenvalues of {name}, in the order in which it takes them."
        gap = "The graph's own were not computed."
    elif k is not None and values.size > k and values[k] <= _ZERO:
        gap = f"There is no gap after number {k}: the graph has more than {k} components."
    elif k is not None and values.size > k:
        gap = (
            f"The gap after number {k} goes from {values[k - 1]:.4g} to {values[k]:.4g}; the wider "
            f"it is, the more clearly the graph has {k} clusters."
        )
    title = f"eigenvalues of {name}"
    return ReportFigure(
        pictures.spectrum(values, k, title),
        f"{caption} {gap}",
        f"Plot of eigenvalues of {name}, beginning {', '.join(f'{v:.3g}' for v in values[:5])}. "
        + gap,
    )


def _neighbours(result: ReadResult) -> ReportFigure | None:
    graph = result.facts["graph"]
    if graph is None or graph["histogram"] is None:
        return None
    bins, spread = graph["histogram"], graph["neighbours"]
    return ReportFigure(
        pictures.histogram(
            bins["edges"],
            bins["counts"],
            "neighbours of a node",
            "number of neighbours",
            ("median", spread["median"]),
        ),
        "How many nodes have how many neighbours.",
        f"Histogram of the number of neighbours of a node: from {spread['least']:,.0f} to "
        f"{spread['most']:,.0f}, half of the nodes have at most {spread['median']:,.0f}.",
    )


def _constraints(result: ReadResult) -> ReportFigure | None:
    found = result.facts["constraints"]
    kinds = {kind: found[kind] for kind in ("must", "cannot") if found and found.get(kind)}
    if not any(row["n"] for row in kinds.values()):
        return None
    words = [f"{row['kept']:,} of {row['n']:,} {kind}-links kept" for kind, row in kinds.items()]
    return ReportFigure(
        pictures.constraints_kept(kinds),
        "Shares of the constraints that are kept and broken, by kind.",
        f"Bars: {', '.join(words)}.",
    )


def _cuts(result: ReadResult) -> ReportFigure | None:
    found = result.facts["cuts"]
    if found is None:
        return None
    known, used, volume = len(found["used"]), sum(found["used"]), found["volume"]
    least = min(a for a, mine in zip(found["alpha"], found["used"], strict=True) if mine)
    return ReportFigure(
        pictures.joint_range(found),
        "Feasible cuts by cost and by how far they keep the constraints, for unit vectors: to the "
        "left is cheaper, above is kept better. Hollow squares are cuts that know no constraints.",
        f"Plot of {known:,} feasible cuts, of which the {used} cheapest were used: constraints "
        f"kept {least / volume:.3g} or more, demanded were {found['beta'] / volume:.3g}.",
    )


def _confidence(result: ReadResult) -> ReportFigure | None:
    found = result.facts.get("confidence")
    if found is None or found["mean"] is None or not (found["reliability"] or found["held_out"]):
        return None  # what was never compared with anything says little
    bins, mean, how = found["histogram"], found["mean"], found["calibrated"]
    of_classes = result.facts["kind"] == "classes"
    return ReportFigure(
        pictures.histogram(
            bins["edges"],
            bins["counts"],
            "confidence",
            f"share of the own {'class' if of_classes else 'cluster'}",
            ("mean", mean),
        ),
        f"How sure the answers are, 1 is certainty, over the nodes without a known label; {how}.",
        f"Histogram of the confidence of the answers; the mean is {mean:.2f}, "
        f"{found['below_half']:,} are below 0.5.",
    )
