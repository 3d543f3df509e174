"""The pictures of WD14 Figs. 5 and 6: pixels, labelled blocks, and what lies where.

The elephants are the paper's picture (Berkeley 296059), with points that people clicked for another
paper (74, on elephants or beside); the face is not in the data folder, and a bear that sits between
two halves of a meadow (Berkeley 100080) stands in, with the outline that one annotator drew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.runner import data_file

Block = tuple[int, int, int, int, int]  # class, top, left, height, width in small pixels

NAMES = ("elephants", "bear")
# As in the paper: 5 x 5 blocks, and 5 x 3 ones beside the face; in pixels of the small picture.
SETS: dict[str, dict[int, tuple[Block, ...]]] = {
    "elephants": {
        0: (),
        1: ((0, 0, 43, 5, 5), (0, 27, 43, 5, 5), (1, 8, 8, 5, 5), (1, 7, 33, 5, 5)),
        2: ((0, 8, 8, 5, 5), (1, 8, 23, 5, 5)),
    },
    "bear": {
        0: (),
        1: ((0, 20, 1, 5, 3), (0, 20, 28, 5, 3)),
        2: ((0, 22, 14, 5, 5), (1, 36, 14, 5, 5)),
    },
}
# what each set is to tell apart, by names of regions
APART = {
    "elephants": {
        0: ("sky", "elephants and ground"),
        1: ("elephants", "sky and ground"),
        2: ("left elephant", "right elephant"),
    },
    "bear": {0: ("bear", "meadow beside"), 1: ("bear", "meadow beside"), 2: ("head", "all else")},
}
SHRINK = {"elephants": 5, "bear": 10}  # to 48 x 32 and 32 x 48
_HORIZON, _BETWEEN = 80, 92  # of 160 rows and 240 columns: clicks above are sky, left is left
_NECK = 290  # of 480 rows: the bear above it is head
_BESIDE = (190, 400)  # rows where there is meadow on both sides
_ANNOTATOR = 2  # who drew three parts


@dataclass(frozen=True, eq=False)
class Picture:
    """Grey values (h, w) from 0 to 1 and regions as (rows, columns) of the same size."""

    gray: Any
    regions: dict[str, tuple[Any, Any]]

    def shrunk(self, by: int) -> Picture:
        """Means over squares of pixels, and where the regions are then."""
        h, w = (side // by for side in self.gray.shape)
        gray = self.gray[: h * by, : w * by].reshape(h, by, w, by).mean(axis=(1, 3))
        regions = {name: (y // by, x // by) for name, (y, x) in self.regions.items()}
        return Picture(gray, regions)


def picture(name: str) -> Picture | None:
    """A picture at full size, None without its data."""
    return elephants() if name == "elephants" else bear()


def elephants() -> Picture | None:
    """160 x 240 pixels; regions are clicked points."""
    import numpy as np
    from PIL import Image

    path = data_file("images/elephant.npz")
    if path is None:
        return None
    with np.load(path, allow_pickle=False) as archive:
        gray = np.asarray(Image.fromarray(archive["image"]).convert("L")) / 255.0
        x, y = (np.rint(archive["pts0"]).astype(int) - 1).T
        other_x, other_y = (np.rint(archive["pts1"]).astype(int) - 1).T
    left, above = x < _BETWEEN, other_y < _HORIZON
    both = {
        "elephants": (y, x),
        "left elephant": (y[left], x[left]),
        "right elephant": (y[~left], x[~left]),
        "sky": (other_y[above], other_x[above]),
        "sky and ground": (other_y, other_x),
        "elephants and ground": (np.append(y, other_y[~above]), np.append(x, other_x[~above])),
    }
    return Picture(gray, both)


def bear() -> Picture | None:
    """480 x 320 pixels; regions are all pixels in and around the outline."""
    import io

    import h5py
    import numpy as np
    from PIL import Image

    path = data_file("images/bsds_12.h5")
    if path is None:
        return None
    with h5py.File(path) as file:
        image = Image.open(io.BytesIO(file["100080/jpeg"][()].tobytes()))
        drawn = file["100080/seg"][_ANNOTATOR][:480, :320]
    inside = drawn == drawn[380, 160]
    head = inside & (np.arange(480) < _NECK)[:, None]
    rows = np.arange(480)[:, None]
    beside = ~inside & (rows >= _BESIDE[0]) & (rows < _BESIDE[1])
    masks = {"bear": inside, "meadow beside": beside, "head": head, "all else": ~head}
    gray = np.asarray(image.convert("L"))[:480, :320] / 255.0
    return Picture(gray, {name: np.nonzero(mask) for name, mask in masks.items()})


def labelled(shape: tuple[int, int], blocks: tuple[Block, ...], scale: int) -> Any:
    """Labels (h, w) of blocks, -1 elsewhere; a small pixel is `scale` ones high and wide."""
    import numpy as np

    known = np.full(shape, -1, dtype=np.int64)
    for group, top, left, height, width in blocks:
        rows, columns = (
            slice(a * scale, (a + b) * scale) for a, b in ((top, height), (left, width))
        )
        known[rows, columns] = group
    return known


def drawing(maps: list[Any]) -> str:
    """Maps (h, w) of two clusters side by side in characters, two pixels each."""
    halves = {(0, 0): "·", (1, 0): "▀", (0, 1): "▄", (1, 1): "█"}
    height = len(maps[0])
    lines = [
        "   ".join(
            "".join(halves[pair] for pair in zip(one[row], one[row + 1], strict=True))
            for one in maps
        )
        for row in range(0, height, 2)
    ]
    return "\n".join(["```text", *lines, "```"])
