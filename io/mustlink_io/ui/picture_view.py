"""A picture, the strokes that a person paints on it, the cut that follows; in the browser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mustlink as ml
from mustlink.errors import InputError
from mustlink_io.formats.photographs import OF_CUT, PAINTED_ON, load_strokes, save_image
from mustlink_io.pictures.images import outlined
from mustlink_io.ui.parts import (
    FIGURE,
    FLEXIBLE,
    PALETTE,
    TABLES,
    Status,
    asked_first,
    packed,
    panel,
)

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
    `estimator` is the `StrokeCut`, fitted as soon as two classes are painted, whose numbers are the
    places in `classes`, as in that command.
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
        self._undone: list[Stroke] = []
        self.may_replace: set[Path] = set()  # files that may be written anew
        self.estimator = ml.StrokeCut(random_state=random_state, n_jobs=n_jobs)
        self.cut_seconds: float | None = None
        self.history: list[dict[str, Any]] = []
        self._cut()

    @property
    def labels(self) -> NDArray[Any] | None:
        """Class of every pixel (h, w); None until two classes are painted."""
        if self.cut_seconds is None:
            return None
        return np.array(self.classes)[self.estimator.labels_]

    @property
    def classes(self) -> list[int]:
        """Classes that are painted, in the order of their colours."""
        painted = np.unique(self.painted[self.painted >= 0]).tolist()
        return sorted(painted, key=lambda code: self.colours[code])

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
        self._undone.clear()
        self._keep()

    def redo(self) -> bool:
        """Paint the stroke again that was taken away last; False where there is none."""
        if not self._undone:
            return False
        again = self._undone[:]
        stroke = again.pop()
        self.paint(stroke.code, stroke.points, stroke.width)
        self._undone = again
        return True

    def undo(self) -> bool:
        """Take the last stroke away; False where there is none."""
        if not self.strokes:
            return False
        self._undone.append(self.strokes.pop())
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
            found = outlined(image, labels[::step, ::step], self._ground, colours)
        elif labels is not None and view == "parts":
            found = (image // 2 + colours[labels[::step, ::step]] // 2).astype(np.uint8)
        found[painted >= 0] = colours[painted[painted >= 0]]
        return found

    def save(self, path: str | Path) -> list[str]:
        """Write labels and outline as `mustlink cut` does; the names of the files. InputError."""
        if self.labels is None:
            raise InputError("cut: there is none yet; paint with two colours at least")
        target, outline = self.files(path)
        save_image(self.estimator.labels_.astype(np.uint8), target, OF_CUT)
        colours = np.array(self.colours, dtype=np.uint8)
        save_image(outlined(self.image, self.labels, self._ground, colours), outline, OF_CUT)
        return [str(target), str(outline)]

    @staticmethod
    def files(path: str | Path) -> tuple[Path, Path]:
        """What `save` writes."""
        target = Path(path)
        return target, target.with_name(f"{target.stem}-outline.png")

    @property
    def _ground(self) -> int:
        return self.classes[int(self.estimator.ground_)]

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
        began, place = perf_counter(), np.full(len(self.colours) + 1, ERASE)
        place[classes] = np.arange(len(classes))
        strokes = place[self.painted]  # its last entry is for what is not painted
        if hasattr(self.estimator, "labels_"):
            self.estimator.refit(strokes)
        else:
            self.estimator.fit(self.image, strokes)
        self.cut_seconds = perf_counter() - began
        counts = np.bincount(self.estimator.labels_.ravel(), minlength=len(classes))
        shares = dict(zip(classes, (counts / counts.sum()).tolist(), strict=True))
        painted = int((self.painted >= 0).sum())
        self.history.append({"painted": painted, "shares": shares, "seconds": self.cut_seconds})

    def _keep(self) -> None:
        if self.path is None or len(self.classes) < 2:  # which no command would read
            return
        pixels = np.zeros((*self.painted.shape, 4), dtype=np.uint8)
        inside = self.painted >= 0
        pixels[inside, :3] = np.array(self.colours, dtype=np.uint8)[self.painted[inside]]
        pixels[inside, 3] = 255
        save_image(pixels, self.path)


_WIDE, _HIGH = 900, 640  # pixels of the figure at most
_BAR = 32  # of the toolbar
_BRUSH = 90  # part of the picture's width that a brush is at first
_HISTORY = 6  # last rows of the history


class PictureView:
    """What one tab shows of a `PictureSession`; tabs of one session show the same."""

    def __init__(self, session: PictureSession, output: str | Path | None = None) -> None:
        self.session, self.output = session, output
        pn = panel()
        self.status = Status()
        h, w = session.image.shape[:2]
        self._shown = max(2, *(code + 1 for code in session.classes), 2)
        self.chosen = pn.widgets.RadioButtonGroup(options={}, name="class")
        self.brush = pn.widgets.IntSlider(
            name="brush", start=1, end=max(8, w // 12), value=max(2, w // _BRUSH), width=200
        )
        self.view = pn.widgets.RadioButtonGroup(options=list(VIEWS), value=VIEWS[0])
        self.more = pn.widgets.Button(name="+ class")
        self.undo = pn.widgets.Button(name="undo")
        self.redo = pn.widgets.Button(name="redo")
        self.save = pn.widgets.Button(
            name="save", button_type="primary", visible=output is not None
        )
        self.history = pn.pane.HTML("", width=280, stylesheets=[TABLES])
        self._cut_along: list[tuple[list[float], list[float]]] = []
        self._is_cleared = False
        self._figure(h, w)
        self._offer_classes(0)
        self.chosen.param.watch(self._colour, "value")
        self.brush.param.watch(self._colour, "value")
        self.view.param.watch(lambda _: self.refresh(), "value")
        self.more.on_click(lambda _: self._offer_classes(self._shown))
        self.undo.on_click(lambda _: self._step(session.undo, "nothing to undo"))
        self.redo.on_click(lambda _: self._step(session.redo, "nothing to do again"))
        self.save.on_click(lambda _: self.status.during("saving …", self._save))
        self.refresh()
        self.status.say(self._told())

    def layout(self) -> Any:
        """All of it, for a server or a notebook."""
        pn = panel()
        bar = pn.FlexBox(
            self.chosen, self.more, self.brush, self.undo, self.redo, self.save,
            align_items="center",
        )  # fmt: skip
        side = pn.Column(pn.pane.HTML("<b>shown</b>"), self.view, self.history, width=300)
        self.status.hold(bar, side)
        both = pn.FlexBox(
            pn.pane.Bokeh(self.figure, sizing_mode="scale_width"), side,
            align_items="flex-start", sizing_mode="stretch_width",
        )  # fmt: skip
        return pn.Column(bar, self.status.pane, both, sizing_mode="stretch_width")

    def refresh(self) -> None:
        """Show the picture and the history as they are now."""
        self.pixels.data = {"image": [packed(self.session.shown(self.view.value))]}
        shares = self.session.history[-1]["shares"] if self.session.labels is not None else {}
        rows = []
        for code in self.session.classes:
            share = f"{shares[code]:.1%}" if code in shares else "not cut yet"
            name = f"<b style='color:{self._hex(code)}'>■ {self._name(code)}</b>"
            rows.append(f"<tr><td>{name}</td><td>{share}</td></tr>")
        last = [
            f"<tr><td>{one['painted']:,} pixels painted</td><td>{one['seconds']:.1f} s</td></tr>"
            for one in self.session.history[-_HISTORY:]
        ]
        self.history.object = (
            f"<table class='sizes'>{''.join(rows)}</table><p><b>history</b></p>"
            f"<table>{''.join(last)}</table>"
        )

    def _figure(self, h: int, w: int) -> None:
        from bokeh.events import RangesUpdate
        from bokeh.models import (
            ColumnDataSource,
            FreehandDrawTool,
            PanTool,
            ResetTool,
            WheelZoomTool,
        )
        from bokeh.plotting import figure

        scale = min(_WIDE / w, _HIGH / h)
        wide, high = round(w * scale), round(h * scale) + _BAR
        self.figure = figure(
            width=wide, height=high, x_range=(0, w), y_range=(h, 0), tools=[],
            toolbar_location="above", min_border=0, output_backend="canvas", name="picture",
            sizing_mode="scale_width", aspect_ratio=wide / high,
            stylesheets=[FIGURE, FLEXIBLE.format(wide)],
        )  # fmt: skip
        self.figure.axis.visible = False
        self.figure.grid.visible = False
        self.figure.toolbar.logo = None
        self._wide = wide
        self.pixels = ColumnDataSource({"image": []})
        self.figure.image_rgba("image", source=self.pixels, x=0, y=0, dw=w, dh=h)
        self.drawn = ColumnDataSource({"xs": [], "ys": []}, name="drawn")
        self.lines = self.figure.multi_line(
            "xs", "ys", source=self.drawn, line_cap="round", line_join="round"
        )
        tool = FreehandDrawTool(renderers=[self.lines])
        zoom = WheelZoomTool()
        self.figure.add_tools(tool, PanTool(), zoom, ResetTool())
        self.figure.toolbar.active_drag = tool
        self.figure.toolbar.active_scroll = zoom
        self.drawn.on_change("data", self._painted)
        self.figure.on_change("inner_width", self._resized)
        self.figure.on_event(RangesUpdate, self._colour)

    def _offer_classes(self, chosen: int) -> None:
        """A button for every class, and for taking paint away."""
        most = len(self.session.colours)
        self._shown = min(most, max(self._shown, chosen + 1))
        self.more.disabled = self._shown == most
        options = {self._name(code): code for code in range(self._shown)}
        self.chosen.options = {**options, "erase": ERASE}
        self.chosen.stylesheets = [
            f".bk-btn:nth-child({code + 1}) "
            f"{{ box-shadow: inset 0 -5px 0 {self._hex(code)} !important; }}"
            for code in range(self._shown)
        ] + [".bk-btn.bk-active { font-weight: 700; background: white; }"]
        self.chosen.value = min(chosen, self._shown - 1)
        self._colour()

    def _name(self, code: int) -> str:
        return f"class {code + 1}"

    def _hex(self, code: int) -> str:
        return "#" + bytes(self.session.colours[code]).hex()

    def _colour(self, *_: Any) -> None:
        """Draw in the colour of the class, as wide as the brush."""
        code, glyph = self.chosen.value, self.lines.glyph
        glyph.line_color = "#ffffff" if code == ERASE else self._hex(code)
        seen = abs(float(self.figure.x_range.end) - float(self.figure.x_range.start))
        glyph.line_width = max(2.0, self.brush.value * self._wide / max(seen, 1e-9))

    def _resized(self, _: str, __: Any, wide: Any) -> None:
        self._wide = max(int(wide), 1)
        self._colour()

    def _painted(self, _: str, __: Any, new: Any) -> None:
        there = [(list(xs), list(ys)) for xs, ys in zip(new["xs"], new["ys"], strict=True)]
        there = [one for one in there if one[0]]
        # What is drawn while a cut is made comes with the lines of that cut; what comes alone
        # after it is drawn anew, even on the very same pixels.
        anew = self._is_cleared and len(there) == 1
        lines = [one for one in there if anew or one not in self._cut_along]
        if not lines:
            return
        self._cut_along, self._is_cleared = there, False
        code, width = self.chosen.value, self.brush.value

        def work() -> str:
            try:
                for xs, ys in lines:
                    self.session.paint(code, list(zip(xs, ys, strict=True)), width)
            finally:
                self.drawn.data = {"xs": [], "ys": []}
                self._is_cleared = True
            self.refresh()
            return self._told()

        self.status.during("cutting …", work)

    def _step(self, step: Callable[[], bool], otherwise: str) -> None:
        def work() -> str:
            there = step()
            self.refresh()
            return self._told() if there else otherwise

        self.status.during("cutting …", work)

    def _save(self) -> str:
        assert self.output is not None
        if self.session.labels is not None:
            files = self.session.files(self.output)
            first = asked_first(files, self.session.may_replace, "save")
            if first:
                return first
        values = ", ".join(f"{self._name(code)}: {at}" for at, code in
                           enumerate(self.session.classes))  # fmt: skip
        return f"written: {', '.join(self.session.save(self.output))} (values: {values})"

    def _told(self) -> str:
        seconds = self.session.cut_seconds
        if seconds is not None:
            return f"cut in {seconds:.1f} s; where it is wrong, add a stroke"
        return "paint a stroke on what you want, and one of another class on what is round it"
