"""Photographs cut into three classes by strokes: `StrokeCut`, colours alone, scikit-image.

    python bench/stroke_classes.py                 the twelve BSDS500 pictures of the data folder
    python bench/stroke_classes.py --only 100075 --out FOLDER

Strokes are made by a rule. Of a picture's annotations, that with the fewest regions of those with
three or more; its three largest regions are the classes, other regions do not count, nor do pixels
within 2 of a border. A class gets two strokes: the straight line through a point that stays in the
region longest of eight directions, at most 40 pixels to either side and 5 broad, shortened by a
tenth. The first point is the region's deepest (farthest from its border); the second, of those at
least half as deep, the one farthest from the first.

IoU is the mean of the three classes, error the share of wrong pixels, seconds are of the processor,
memory is the peak of a process that does nothing else. Constants of `StrokeCut` were not chosen by
these strokes; three of the pictures, 100075, 100098 and 108073, were among those by which they were
chosen with other strokes of two classes. Needs the data folder; peers take part where scikit-image
is installed.
"""

from __future__ import annotations

import io
import statistics
import sys
from functools import partial
from typing import Any

import common
import grabcut_peers

_CLASSES = 3
_REACH, _WIDTH = 40, 2  # pixels: to either side of a stroke's point, and of its middle line
_ANY = ("StrokeCut", "colours", "random_walker", "watershed")  # those that take three classes


def names(source: str) -> dict[str, Any]:
    """Pictures of the file in which an annotator saw three regions."""
    import h5py

    with h5py.File(source) as file:
        return {"names": [name for name in sorted(file) if _regions(file[name]["seg"][()])]}


def _regions(annotations: Any) -> Any:
    """Masks (h, w) of the classes; none where no annotation has so many regions."""
    import numpy as np

    counted = [np.unique(one, return_counts=True) for one in annotations]
    enough = [at for at, (values, _) in enumerate(counted) if values.size >= _CLASSES]
    if not enough:
        return []
    best = min(enough, key=lambda at: counted[at][0].size)
    values, sizes = counted[best]
    largest = values[np.argsort(-sizes, kind="stable")[:_CLASSES]]
    return [annotations[best] == value for value in largest]


def painted(regions: Any) -> tuple[Any, Any]:
    """Truth and strokes (h, w) of the regions, -1 where a pixel does not count or is unknown."""
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
    """The pixels (h, w) of a stroke through a point."""
    import numpy as np
    from scipy import ndimage

    def side(direction: Any) -> Any:
        """Pixels from the point on, as long as they are in the region."""
        line = np.rint(point + np.arange(_REACH + 1)[:, None] * direction).astype(int)
        line = line[((line >= 0) & (line < region.shape)).all(axis=1)]
        stays = np.logical_and.accumulate(region[tuple(line.T)])
        return line[stays]

    angles = np.arange(8) * np.pi / 8
    lines = [
        np.concatenate([side(way)[::-1], side(-way)[1:]])
        for way in np.column_stack([np.sin(angles), np.cos(angles)])
    ]
    line = max(lines, key=len)
    short = len(line) // 20
    line = line[short : len(line) - short]
    found = np.zeros(region.shape, dtype=bool)
    found[tuple(line.T)] = True
    y, x = np.mgrid[-_WIDTH : _WIDTH + 1, -_WIDTH : _WIDTH + 1]
    return ndimage.binary_dilation(found, y * y + x * x <= _WIDTH**2) & region


def cut(source: str, name: str, method: str, picture: str) -> dict[str, Any]:
    """One method on one picture."""
    import h5py
    import numpy as np
    from PIL import Image

    with h5py.File(source) as file:
        image = np.array(Image.open(io.BytesIO(file[name]["jpeg"][()].tobytes())).convert("RGB"))
        regions = _regions(file[name]["seg"][()])
    truth, strokes = painted(regions)
    run = partial(grabcut_peers.METHODS[method], image)
    labels, _, seconds = common.cpu_timed(run, strokes)
    seen, true = labels[truth >= 0], truth[truth >= 0]
    shares = [
        ((seen == c) & (true == c)).sum() / ((seen == c) | (true == c)).sum()
        for c in range(len(regions))
    ]
    _draw(picture, image, strokes, labels)
    return {
        "iou": float(np.mean(shares)),
        "error": float((seen != true).mean()),
        "seconds": seconds,
    }


def _draw(picture: str, image: Any, strokes: Any, labels: Any) -> None:
    """The strokes, and beside them the picture in the colours of the labels."""
    import numpy as np
    from PIL import Image

    colours = np.array([(230, 80, 60), (70, 120, 230), (240, 200, 60)])
    left = np.where((strokes >= 0)[..., None], colours[strokes], image)
    right = (image + colours[labels]) // 2
    Image.fromarray(np.hstack([left, right]).astype(np.uint8)).save(picture)


def main() -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--only", nargs="+")
    methods = [name for name in grabcut_peers.installed() if name in _ANY]
    args = parser.parse_args()
    source = common.data_file("images/bsds_12.h5")
    if source is None:
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    for name in args.only or common.call("stroke_classes:names", source=source)["names"]:
        common.say(name)
        results[name] = {
            method: common.call(
                "stroke_classes:cut",
                source=source,
                name=name,
                method=method,
                picture=args.out / f"classes-{name}-{method}.png",
            )
            for method in methods
        }
        common.write_json(args.out, "stroke_classes", results)
    common.record("stroke_classes", _told(results, methods))
    return 0


def _told(results: dict[str, Any], methods: list[str]) -> dict[str, Any]:
    """Print a table; means and the like of every method."""
    rows = [
        (name, *(f"{one[method]['iou']:.3f}" for method in methods))
        for name, one in results.items()
    ]
    found: dict[str, Any] = {"pictures": len(results)}
    for method in methods:
        every = [one[method] for one in results.values()]
        found[method] = {
            "iou": statistics.mean(one["iou"] for one in every),
            "median": statistics.median(one["iou"] for one in every),
            "error": statistics.mean(one["error"] for one in every),
            "seconds": statistics.mean(one["seconds"] for one in every),
            "rss_bytes": max(one["rss_bytes"] for one in every),
        }
    for key, form in (("iou", ".3f"), ("median", ".3f"), ("error", ".3f"), ("seconds", ".1f")):
        rows.append((key, *(format(found[method][key], form) for method in methods)))
    rows.append(("memory", *(common.gigabytes(found[m]["rss_bytes"]) for m in methods)))
    common.table("IoU, mean of three classes", ("picture", *methods), rows)
    return found


if __name__ == "__main__":
    sys.exit(main())
