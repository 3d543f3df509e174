"""A picture in the browser: paint on it, and the cut follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mustlink_io.ui.parts import FIGURE, FLEXIBLE, TABLES, Status, packed, panel
from mustlink_io.ui.picture_session import ERASE, VIEWS, PictureSession

_WIDE, _HIGH = 900, 640  # pixels of the figure at most
_BAR = 32  # of the toolbar
_BRUSH = 90  # part of the picture's width that a brush is at first
_SHOWN = 6  # last rows of the history


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
        self.undo.on_click(lambda _: self.status.during("cutting …", self._undo))
        self.save.on_click(lambda _: self.status.during("saving …", self._save))
        self.refresh()
        self.status.say(self._told())

    def layout(self) -> Any:
        """All of it, for a server or a notebook."""
        pn = panel()
        bar = pn.FlexBox(
            self.chosen, self.more, self.brush, self.undo, self.save, align_items="center"
        )
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
            told = f"{shares[code]:.1%}" if code in shares else "not cut yet"
            name = f"<b style='color:{self._hex(code)}'>■ {self._name(code)}</b>"
            rows.append(f"<tr><td>{name}</td><td>{told}</td></tr>")
        last = [
            f"<tr><td>{one['painted']:,} pixels painted</td><td>{one['seconds']:.1f} s</td></tr>"
            for one in self.session.history[-_SHOWN:]
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
        """A line was drawn: it becomes a stroke, and the cut follows."""
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

    def _undo(self) -> str:
        there = self.session.undo()
        self.refresh()
        return self._told() if there else "nothing to undo"

    def _save(self) -> str:
        assert self.output is not None
        return "written: " + ", ".join(self.session.save(self.output))

    def _told(self) -> str:
        seconds = self.session.cut_seconds
        if seconds is not None:
            return f"cut in {seconds:.1f} s; where it is wrong, add a stroke"
        return "paint a stroke on what you want, and one of another class on what is round it"
