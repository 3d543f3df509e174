"""Pictures cut by every method and its peers: along strokes, along clicks, and without either.

    python bench/pictures.py --grabcut     12 GrabCut photographs, two sets of people's scribbles
    python bench/pictures.py --classes     BSDS photographs, three classes, strokes by a rule
    python bench/pictures.py --regions     BSDS photographs without strokes: covering and ARI
    python bench/pictures.py --flower      a million pixels and a few clicks, by CSP
    python bench/pictures.py --grabcut --only 24077 --methods StrokeCut GFHF

Seconds are of the processor; a graph that methods share is not in them. Peaks are of processes that
run one method. Pixels of unsure truth do not count. The two clusters of a method that knows no
classes are named by the strokes in them. What was cut is drawn into the output folder. Peers take
part where scikit-image and OpenCV are installed. Needs the data folder.

Constants of `StrokeCut` were chosen on ten other photographs with people's scribbles and on forty
of BSDS500 with strokes made by a rule; the twelve of --grabcut were scored four times while it was
developed. Those of `RegionCut` were fitted to 90 pictures of BSDS500, none of which is among the
12, the peers' to 40 of these 90 or not at all.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import data
import fits
import peers
import render
import runner

ON_GRAPH = (
    "NCut", "CSP", "CSP exact", "SSSC", "SL exact", "AP exact", "FastGE", "FastGE exact", "SSKK",
    "GFHF", "LLGC", "Poisson",
)  # fmt: skip
OF_CLASSES = ("StrokeCut", "colours", "random_walker", "watershed")  # that take three classes
_REACH, _WIDTH = 40, 2  # pixels: to either side of a stroke's point, and of its middle line


def cut(image: Any, strokes: Any, method: str, graph: Any = None) -> Any:
    """Labels (h, w) by a method; of two classes 1 is the foreground."""
    import mustlink as ml

    if method == "StrokeCut":
        return ml.StrokeCut(random_state=0).fit(image, strokes).labels_
    if method in peers.OF_STROKES:
        return peers.OF_STROKES[method](image, strokes)
    est = fits.make(method, 2)
    fits.fit(est, graph, data.Known(labels=strokes.ravel()))
    return fits.front(est.labels_, strokes) * 1


def summary(title: str, every: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Means over pictures, by method, in a table."""
    found = {}
    for method, runs in every.items():
        means = {
            key: statistics.mean(one[key] for one in runs)
            for key, value in runs[0].items()
            if isinstance(value, (int, float)) and key not in ("wall_seconds", "rss_bytes")
        }
        if "iou" in means:
            means["median"] = statistics.median(one["iou"] for one in runs)
        found[method] = {**means, "rss_bytes": max(one["rss_bytes"] for one in runs)}
    render.records(title, found)
    return found


def each(args: argparse.Namespace, function: str, source: Path, names: Any, methods: Any,
         **more: Any) -> dict[str, list[Any]]:  # fmt: skip
    """Every method on every picture, each in a process of its own."""
    chosen = [m for m in peers.installed(methods) if not args.methods or m in args.methods]
    found: dict[str, list[Any]] = {m: [] for m in chosen}
    for name in args.only or names:
        for method, runs in found.items():
            runner.say(f"{name}, {method}")
            drawn = args.out / f"{name}-{method}.png".replace(" ", "-")
            task = {"source": source, "name": name, "method": method, "drawn": drawn, **more}
            runs.append(runner.call(f"pictures:{function}", **task))
    return found


def _draw(path: str, image: Any, strokes: Any, labels: Any) -> None:
    """The strokes, and beside them the picture in the colours of the labels."""
    import numpy as np
    from PIL import Image

    colours = np.random.default_rng(1).integers(40, 250, (max(3, int(labels.max()) + 1), 3))
    left = np.where((strokes >= 0)[..., None], colours[strokes], image)
    right = (image + colours[labels]) // 2
    Image.fromarray(np.hstack([left, right]).astype(np.uint8)).save(path)


# ---------------------------------------------------------------- scribbles of people


def scribbled(source: str, name: str, method: str, drawn: str, scribbles: str) -> dict[str, Any]:
    """One method on one photograph and one set of scribbles."""
    import numpy as np

    import mustlink as ml

    image, strokes, truth = data.grabcut(source, name, scribbles)
    graph = None
    if method in ON_GRAPH:
        graph = ml.image_graph(image, 2, n_similar=8)
    labels, _, seconds = runner.cpu_timed(cut, image, strokes, method, graph)
    _draw(drawn, image, strokes, labels)
    wrong = ((labels == 1) != (truth > 128))[truth != 128]
    found = {"iou": fits.iou(labels == 1, truth), "error": float(np.mean(wrong))}
    return {**found, "seconds": seconds, "pixels": strokes.size}


def grabcut(args: argparse.Namespace) -> None:
    source = runner.data_file("images/grabcut_a.h5")
    if source is None:
        return
    methods = [*ON_GRAPH, "StrokeCut", *peers.OF_STROKES]
    sets = []
    for number in (1, 2):
        task = {"scribbles": f"scribbles{number}"}
        runs = each(args, "scribbled", source, data.names(source)["names"], methods, **task)
        sets.append(summary(f"IoU of the foreground, scribbles {number}", runs))
    pixels = max(one["pixels"] for one in sets[0].values())
    runner.record("grabcut", {**sets[0], "second": sets[1], "pixels": pixels})


# ---------------------------------------------------------------- three classes, strokes by a rule


def regions_of(annotations: Any) -> Any:
    """Masks (h, w) of three classes; none where no annotation has so many regions.

    Of the annotations with three regions or more, that with the fewest; its three largest regions.
    """
    import numpy as np

    counted = [np.unique(one, return_counts=True) for one in annotations]
    enough = [at for at, (values, _) in enumerate(counted) if values.size >= 3]
    if not enough:
        return []
    best = min(enough, key=lambda at: counted[at][0].size)
    values, sizes = counted[best]
    largest = values[np.argsort(-sizes, kind="stable")[:3]]
    return [annotations[best] == value for value in largest]


def painted(regions: Any) -> tuple[Any, Any]:
    """Truth and strokes (h, w) of regions, -1 where a pixel does not count or is unknown.

    Pixels within 2 of a border do not count. A region gets two strokes, through its deepest pixel
    and through that of the half as deep ones that is farthest from it.
    """
    import numpy as np
    from scipy import ndimage

    truth = np.full(regions[0].shape, -1)
    strokes = np.full(regions[0].shape, -1)
    for code, region in enumerate(regions):
        inside = ndimage.binary_erosion(region, iterations=2, border_value=1)
        truth[inside] = code
        depth = ndimage.distance_transform_edt(np.pad(region, 1))[1:-1, 1:-1]
        first = np.unravel_index(depth.argmax(), depth.shape)
        deep = np.argwhere(depth >= depth.max() / 2)
        second = deep[np.square(deep - np.array(first)).sum(axis=1).argmax()]
        for point in (first, second):
            strokes[_stroke(region, np.array(point))] = code
    return truth, strokes


def _stroke(region: Any, point: Any) -> Any:
    """Pixels (h, w) of the straight line through a point that stays in a region longest.

    Of eight directions, at most 40 pixels to either side, shortened by a tenth, 5 broad.
    """
    import numpy as np
    from scipy import ndimage

    def side(direction: Any) -> Any:
        line = np.rint(point + np.arange(_REACH + 1)[:, None] * direction).astype(int)
        line = line[((line >= 0) & (line < region.shape)).all(axis=1)]
        return line[np.logical_and.accumulate(region[tuple(line.T)])]

    angles = np.arange(8) * np.pi / 8
    lines = [
        np.concatenate([side(way)[::-1], side(-way)[1:]])
        for way in np.column_stack([np.sin(angles), np.cos(angles)])
    ]
    line = max(lines, key=len)
    short = len(line) // 20
    found = np.zeros(region.shape, dtype=bool)
    found[tuple(line[short : len(line) - short].T)] = True
    y, x = np.mgrid[-_WIDTH : _WIDTH + 1, -_WIDTH : _WIDTH + 1]
    return ndimage.binary_dilation(found, y * y + x * x <= _WIDTH**2) & region


def classed(source: str, name: str, method: str, drawn: str) -> dict[str, Any]:
    """One method on one picture: mean IoU of its classes."""
    import numpy as np

    image, annotations = data.bsds(source, name)
    truth, strokes = painted(regions_of(annotations))
    labels, _, seconds = runner.cpu_timed(cut, image, strokes, method)
    _draw(drawn, image, strokes, labels)
    seen, true = labels[truth >= 0], truth[truth >= 0]
    shares = [
        ((seen == c) & (true == c)).sum() / ((seen == c) | (true == c)).sum() for c in range(3)
    ]
    error = float((seen != true).mean())
    return {"iou": float(np.mean(shares)), "error": error, "seconds": seconds}


def classes(args: argparse.Namespace) -> None:
    source = runner.data_file("images/bsds_12.h5")
    if source is None:
        return
    names = [n for n in data.names(source)["names"] if len(regions_of(data.bsds(source, n)[1]))]
    runs = each(args, "classed", source, names, OF_CLASSES)
    found = summary("IoU, mean of three classes", runs)
    runner.record("stroke_classes", {"pictures": len(names), **found})


# ---------------------------------------------------------------- no strokes


def covering(truth: Any, found: Any) -> float:
    """Σ_R |R| max_S |R ∩ S| / |R ∪ S| / n over true parts R and found ones S (Arbeláez 2011)."""
    import numpy as np

    table = overlaps(truth, found)
    true, own = table.sum(axis=1), table.sum(axis=0)
    shares = table / (true[:, None] + own - table)
    return float((true * shares.max(axis=1)).sum() / np.sum(true))


def overlaps(truth: Any, found: Any) -> Any:
    """Pixels that parts of two segmentations have in common, (K, L)."""
    import numpy as np

    a, b = (np.unique(one, return_inverse=True)[1].ravel() for one in (truth, found))
    shape = a.max() + 1, b.max() + 1
    return np.bincount(a * shape[1] + b, minlength=shape[0] * shape[1]).reshape(shape)


def parted(source: str, name: str, method: str, drawn: str) -> dict[str, Any]:
    """One method on one picture: scores are means over the people who segmented it."""
    import numpy as np

    import mustlink as ml

    warnings.simplefilter("ignore")
    image, truths = data.bsds(source, name)
    run = peers.OF_PICTURES.get(method)
    if method.startswith("RegionCut"):
        run = ml.RegionCut(8 if "8" in method else "auto", random_state=0).fit_predict
        run(image[::5, ::5])  # loads what is compiled
    elif run is None:
        graph = ml.image_graph(image)
        run = lambda _: fits.make("NCut", 8).fit(graph).labels_.reshape(image.shape[:2])  # noqa: E731
    labels, _, seconds = runner.cpu_timed(run, image)
    _draw(drawn, image, np.full(labels.shape, -1), labels)
    return {
        "covering": statistics.mean(covering(truth, labels) for truth in truths),
        "ari": statistics.mean(fits.ari(truth.ravel(), labels.ravel()) for truth in truths),
        "parts": int(np.unique(labels).size),
        "seconds": seconds,
        "pixels": labels.size,
    }


def regions(args: argparse.Namespace) -> None:
    source = runner.data_file("images/bsds_12.h5")
    if source is None:
        return
    methods = ("RegionCut", "RegionCut, K = 8", "NCut, K = 8", *peers.OF_PICTURES)
    runs = each(args, "parted", source, data.names(source)["names"], methods)
    found = summary("Pictures without strokes", runs)
    pixels = max(one["pixels"] for one in found.values())
    runner.record("regions", {**found, "pixels": pixels})


# ---------------------------------------------------------------- clicks


def clicked(name: str) -> dict[str, Any]:
    """Image to graph to CSP along click points."""
    import mustlink as ml

    loaded = data.clicks(name)
    if loaded is None:
        return {}
    image, labels, k = loaded
    graph, graph_seconds = runner.timed(partial(ml.image_graph, image, 2, n_similar=8))
    known = data.Known(labels=labels.ravel())
    est, seconds = runner.timed(fits.fit, fits.make("CSP", k), graph, known)
    found = {"pixels": labels.size, "clicks": int((labels >= 0).sum()), "seconds": seconds}
    kept = est.report_.to_dict()["satisfaction"]["kept"]
    return {**found, "graph_seconds": graph_seconds, "kept": kept}


def flower(args: argparse.Namespace) -> None:
    found = runner.call("pictures:clicked", name="daisy")
    if "pixels" in found:
        render.records("Click points", {"daisy": found})
        runner.record("images", found)


def main() -> None:
    parts = {"grabcut": grabcut, "classes": classes, "regions": regions, "flower": flower}
    flags = dict.fromkeys(parts, False)
    args = runner.options(__doc__, only=[], methods=[], **flags)
    for name, part in parts.items():
        if vars(args)[name]:
            part(args)


if __name__ == "__main__":
    main()
