"""A picture, the strokes that a person paints on it, and the cut that follows them."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mustlink as ml
from mustlink.errors import InputError
from mustlink_io.formats.photographs import PAINTED_ON, load_strokes, save_image
from mustlink_io.pictures.cut_out import outlined
from mustlink_io.ui.colours import PALETTE

Bytes = NDArray[np.uint8]
ERASE = -1
_WIDEST = 500  # pixels of a brush
_POINTS = 100_000  # of a stroke
_SHOWN = 1_500_000  # pixels that a browser is sent
VIEWS = ("cut", "strokes alone", "parts")


@dataclass(frozen=True, eq=False)
class Stroke:
    """Points (m, 2) in pixels, x to the right and y down, painted `width` pixels wide."""

    code: int
    points: NDArray[np.float64]
    width: float


class PictureSession:
    """Strokes on an image (h, w, 3) of uint8, and its cut along them.

    `strokes` is a PNG as `mustlink cut --strokes` takes: what is painted there is taken up, and
    after every stroke it is written anew, whole or not at all. Without it nothing is written.
    `estimator` is the `StrokeCut`, fitted as soon as two classes are painted.
    """

    def __init__(
        self,
        image: Bytes,
        strokes: str | Path | None = None,
        *,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.image, self.path = image, None if strokes is None else Path(strokes)
        self.colours = [tuple(colour) for colour in PALETTE]
        self._first = np.full(image.shape[:2], ERASE, dtype=np.int16)
        if self.path is not None and self.path.exists():
            self._take_up(self.path)
        self.painted = self._first.copy()
        self.strokes: list[Stroke] = []
        self.estimator = ml.StrokeCut(random_state=random_state, n_jobs=n_jobs)
        self.cut_seconds: float | None = None
        self.history: list[dict[str, Any]] = []
        self._cut()

    @property
    def labels(self) -> NDArray[Any] | None:
        """Class of every pixel (h, w); None until two classes are painted."""
        return getattr(self.estimator, "labels_", None) if self.cut_seconds is not None else None

    @property
    def classes(self) -> list[int]:
        """Classes that are painted."""
        return list(np.unique(self.painted[self.painted >= 0]).tolist())

    def paint(self, code: int, points: Any, width: float) -> None:
        """Paint a stroke of a class, or with `ERASE` take paint away, and cut again.

        Raises InputError, after which the picture is as before.
        """
        where = np.asarray(points, dtype=np.float64)
        if not (where.ndim == 2 and 0 < len(where) <= _POINTS and where.shape[1] == 2):
            raise InputError(f"stroke: shape {where.shape}; give points (m, 2), at most {_POINTS}")
        if not np.isfinite(where).all() or not 0 < width <= _WIDEST:
            raise InputError(f"stroke: no numbers, or a brush not of 1 to {_WIDEST} pixels")
        if not ERASE <= code < len(self.colours):
            raise InputError(f"stroke: class {code}; there are {len(self.colours)} colours")
        stroke, before = Stroke(int(code), where, float(width)), self.painted
        self.painted = before.copy()
        self.painted[self._mask(stroke)] = code
        try:
            self._cut()
        except InputError:
            self.painted = before
            raise
        self.strokes.append(stroke)
        self._keep()

    def undo(self) -> bool:
        """Take the last stroke away; False where there is none."""
        if not self.strokes:
            return False
        self.strokes.pop()
        self.painted = self._first.copy()
        for stroke in self.strokes:
            self.painted[self._mask(stroke)] = stroke.code
        self._cut()
        self._keep()
        return True

    def shown(self, view: str = "cut") -> Bytes:
        """The picture (h', w', 3) as it is to be looked at, of at most 1.5 million pixels."""
        step = int(np.ceil(sqrt(self.painted.size / _SHOWN)))
        image, painted = self.image[::step, ::step], self.painted[::step, ::step]
        colours, labels = np.array(self.colours, dtype=np.uint8), self.labels
        found = image.copy()
        if labels is not None and view == "cut":
            found = outlined(image, labels[::step, ::step], self.estimator.ground_, colours)
        elif labels is not None and view == "parts":
            found = (image // 2 + colours[labels[::step, ::step]] // 2).astype(np.uint8)
        found[painted >= 0] = colours[painted[painted >= 0]]
        return found

    def save(self, path: str | Path) -> list[str]:
        """Write labels and outline as `mustlink cut` does; the names of the files. InputError."""
        if self.labels is None:
            raise InputError("cut: there is none yet; paint with two colours at least")
        target = Path(path)
        outline = target.with_name(f"{target.stem}-outline.png")
        save_image(np.searchsorted(self.classes, self.labels).astype(np.uint8), target)
        colours = np.array(self.colours, dtype=np.uint8)
        save_image(outlined(self.image, self.labels, self.estimator.ground_, colours), outline)
        return [str(target), str(outline)]

    def _take_up(self, path: Path) -> None:
        """Strokes of a file; colours that are not among ours are put behind them."""
        codes, colours = load_strokes(path, "strokes")
        if codes.shape != self.image.shape[:2]:
            size = f"{codes.shape[1]} x {codes.shape[0]}"
            own = f"{self.image.shape[1]} x {self.image.shape[0]}"
            raise InputError(f"strokes: {path} has {size} pixels, the picture {own}; {PAINTED_ON}")
        found = [tuple(int(part) for part in colour) for colour in colours]
        self.colours += [colour for colour in found if colour not in self.colours]
        places = np.array([self.colours.index(colour) for colour in found], dtype=np.int16)
        self._first[codes >= 0] = places[codes[codes >= 0]]

    def _mask(self, stroke: Stroke) -> NDArray[np.bool_]:
        """Pixels (h, w) of a stroke: a line with round ends."""
        from PIL import Image, ImageDraw

        h, w = self.image.shape[:2]
        canvas = Image.new("1", (w, h))
        draw, r = ImageDraw.Draw(canvas), max(0.0, (stroke.width - 1) / 2)
        # Far outside pillow's coordinates overflow.
        points = np.clip(stroke.points, -w - h, 2 * (w + h)) - 0.5
        if len(points) > 1:
            draw.line([*map(tuple, points)], fill=1, width=max(1, round(stroke.width)))
        for x, y in points:
            draw.ellipse([x - r, y - r, x + r, y + r], fill=1)
        return np.asarray(canvas, dtype=bool)

    def _cut(self) -> None:
        classes = self.classes
        if len(classes) < 2:
            self.cut_seconds = None
            return
        began = perf_counter()
        if hasattr(self.estimator, "labels_"):
            self.estimator.refit(self.painted.astype(np.int64))
        else:
            self.estimator.fit(self.image, self.painted.astype(np.int64))
        self.cut_seconds = perf_counter() - began
        shares = {code: float(np.mean(self.estimator.labels_ == code)) for code in classes}
        painted = int((self.painted >= 0).sum())
        self.history.append({"painted": painted, "shares": shares, "seconds": self.cut_seconds})

    def _keep(self) -> None:
        """Write the strokes where they are kept."""
        if self.path is None or len(self.classes) < 2:  # which no command would read
            return
        pixels = np.zeros((*self.painted.shape, 4), dtype=np.uint8)
        inside = self.painted >= 0
        pixels[inside, :3] = np.array(self.colours, dtype=np.uint8)[self.painted[inside]]
        pixels[inside, 3] = 255
        save_image(pixels, self.path)
