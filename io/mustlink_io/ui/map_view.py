"""The map in the browser: millions of rows, a lasso to choose some, clicks to choose two."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink_io.ui import coordinates
from mustlink_io.ui.colours import of_groups
from mustlink_io.ui.map_picture import COLOURINGS, MapPicture
from mustlink_io.ui.node_session import NodeSession
from mustlink_io.ui.parts import FIGURE, FLEXIBLE, Status, packed, panel
from mustlink_io.ui.said_of_clusters import is_known

_WIDE, _HIGH, _WIDEST = 760, 620, 1400  # pixels: at first, and at most
_MARKED = 2_000  # known rows that are marked at most
_LARGE, _SMALL, _MANY = 8, 2, 200  # pixels of a mark, where there are many, and how many these are
# From 0 to 1, told apart by lightness too.
_SCALES = {"confidence": ("#f4d03f", "#21918c", "#2b1055"), "doubt": ("#d9dfe4", "#c8102e")}
_ENDS = {"confidence": ("not sure", "sure"), "doubt": ("sure", "in doubt")}
_LISTED = 60  # clusters in the key of colours
_WAIT = 150  # milliseconds after which a zoom is drawn
_KEY = """
span { display: inline-block; margin-right: 14px; font-variant-numeric: tabular-nums; }
i { display: inline-block; width: 160px; height: 10px; margin: 0 6px; border-radius: 2px; }
"""


class MapView:
    """The map of one tab; `chosen` are the rows that a lasso took, or those that were clicked."""

    def __init__(
        self,
        session: NodeSession,
        where: NDArray[np.float32],
        status: Status,
        changed: Callable[[], None],
    ) -> None:
        self.session, self.where, self._changed = session, where, changed
        self.chosen: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._home = coordinates.window(where)
        self._picture = MapPicture(where)
        names = COLOURINGS if session.tells_confidence else COLOURINGS[:1]
        self.colouring = panel().widgets.RadioButtonGroup(options=list(names), value=names[0])
        self.colouring.param.watch(lambda _: status.during("colouring …", self._coloured), "value")
        self._waiting, self._wide = False, _WIDE
        self.key = panel().pane.HTML(
            "", stylesheets=[_KEY], css_classes=["key"], sizing_mode="stretch_width"
        )
        self._figure()
        self.refresh()

    def layout(self) -> Any:
        """The map, as wide as there is room."""
        return panel().pane.Bokeh(self.figure, sizing_mode="stretch_width")

    def refresh(self) -> None:
        """Colour and draw what is so now."""
        session, way = self.session, self.colouring.value
        if way == "cluster":
            groups = np.array(session.groups)
            codes = np.searchsorted(groups, session.labels)
            codes = np.minimum(codes, groups.size - 1)
            codes[groups[codes] != session.labels] = -1
            self._picture.by_group(codes, of_groups(session.groups))
        else:
            sure = session.confidence
            self._picture.by_value(sure if way == "confidence" else 1.0 - sure, _SCALES[way])
        self._tell_key(way)
        self._draw()
        self._mark(self._known, np.flatnonzero(is_known(session.told))[:_MARKED])

    def _tell_key(self, way: str) -> None:
        """What the colours mean."""
        session = self.session
        if way in _SCALES:
            low, high = _ENDS[way]
            self.key.object = (
                f"{low}<i style='background:linear-gradient(90deg,{','.join(_SCALES[way])})'></i>"
                f"{high}; {session.confidence_means}"
            )
            return
        groups, sizes = session.groups, session.history[-1].sizes
        colours, more = of_groups(groups), len(groups) - _LISTED
        self.key.object = "".join(
            f"<span><b style='color:{colour}'>■</b> {escape(session.names[one])} "
            f"<small>{size:,}</small></span>"
            for one, colour, size in zip(groups[:_LISTED], colours, sizes, strict=False)
        ) + (f"and {more:,} more" if more > 0 else "")

    def _coloured(self) -> str:
        self.refresh()
        return f"coloured by {self.colouring.value}"

    def choose(self, nodes: Any) -> None:
        """Take these rows as chosen, and mark them."""
        self.chosen = np.asarray(nodes, dtype=np.int64)
        self._mark(self._picked, self.chosen[:_MARKED])

    def asked(self, nodes: Any) -> None:
        """Mark the rows that a question is about."""
        self._mark(self._asked, np.asarray(nodes, dtype=np.int64))

    def _figure(self) -> None:
        from bokeh.events import DoubleTap, LODEnd, RangesUpdate, Reset, SelectionGeometry, Tap
        from bokeh.models import (
            ColumnDataSource,
            LassoSelectTool,
            PanTool,
            ResetTool,
            TapTool,
            WheelZoomTool,
        )  # fmt: skip
        from bokeh.plotting import figure

        (x0, x1), (y0, y1) = self._home
        self.figure = figure(
            width=_WIDE, height=_HIGH, sizing_mode="stretch_width", x_range=(x0, x1),
            y_range=(y0, y1), tools=[], toolbar_location="above", min_border=4,
            output_backend="canvas", name="map", stylesheets=[FIGURE, FLEXIBLE.format(_WIDEST)],
        )  # fmt: skip
        self.figure.axis.visible = False
        self.figure.grid.visible = False
        self.figure.toolbar.logo = None
        self.figure.outline_line_color = "#d9dfe4"
        self.pixels = ColumnDataSource({"image": [], "x": [], "y": [], "dw": [], "dh": []})
        self.figure.image_rgba("image", source=self.pixels, x="x", y="y", dw="dw", dh="dh")
        self._known, self._picked, self._asked = (
            ColumnDataSource({"x": [], "y": [], "size": []}) for _ in range(3)
        )
        draw = self.figure.scatter
        plain = {"nonselection_fill_alpha": 1.0, "nonselection_line_alpha": 1.0}
        draw(
            "x",
            "y",
            source=self._known,
            size="size",
            fill_color="white",
            line_color="#1f2933",
            **plain,
        )
        draw("x", "y", source=self._picked, size="size", fill_color=None, line_color="#000000",
             line_width=1, nonselection_line_alpha=1.0)  # fmt: skip
        draw("x", "y", source=self._asked, marker="star", size=26, fill_color="#f0e442",
             line_color="#1f2933", line_width=1.5, **plain)  # fmt: skip
        lasso, zoom = LassoSelectTool(continuous=False), WheelZoomTool()
        self.figure.add_tools(lasso, TapTool(), PanTool(), zoom, ResetTool())
        self.figure.toolbar.active_drag = lasso
        self.figure.toolbar.active_scroll = zoom
        self.figure.on_event(SelectionGeometry, self._lassoed)
        for event in (Tap, DoubleTap):  # a quick second click comes as one, wherever it is
            self.figure.on_event(event, self._tapped)
        for event in (RangesUpdate, Reset, LODEnd):
            self.figure.on_event(event, self._moved)
        self.figure.on_change("inner_width", self._resized)

    def _ranges(self) -> Any:
        x, y = self.figure.x_range, self.figure.y_range
        return (float(x.start), float(x.end)), (float(y.start), float(y.end))

    def _draw(self) -> None:
        self._waiting = False
        ranges = (x0, x1), (y0, y1) = self._ranges()
        if not (x1 > x0 and y1 > y0):
            return
        image = packed(self._picture.drawn(ranges, self._wide, _HIGH))
        self.pixels.data = {
            "image": [image],
            "x": [x0],
            "y": [y0],
            "dw": [x1 - x0],
            "dh": [y1 - y0],
        }

    def _moved(self, _: Any) -> None:
        """Draw anew after a zoom: once for many steps of a wheel."""
        document = panel().state.curdoc
        if document is None:
            self._draw()
        elif not self._waiting:
            self._waiting = True
            document.add_timeout_callback(self._draw, _WAIT)

    def _resized(self, _: str, __: Any, wide: Any) -> None:
        """Draw as many pixels as the browser has room for."""
        self._wide = min(max(int(wide), 1), _WIDEST)
        self._moved(None)

    def _lassoed(self, event: Any) -> None:
        shape = event.geometry
        if event.final and shape.get("type") == "poly":
            self.choose(coordinates.inside(self.where, shape["x"], shape["y"]))
            self._changed()

    def _tapped(self, event: Any) -> None:
        """The row that was clicked, beside the one before: at most two."""
        node = coordinates.nearest(self.where, event.x, event.y, self._ranges())
        before = self.chosen.tolist() if self.chosen.size == 1 else []
        self.choose([*before, node] if node not in before else [node])
        self._changed()

    def _mark(self, source: Any, nodes: NDArray[np.int64]) -> None:
        size = np.full(nodes.size, _SMALL if nodes.size > _MANY else _LARGE)
        source.data = {"x": self.where[nodes, 0], "y": self.where[nodes, 1], "size": size}
