"""The map in the browser: millions of rows, a lasso to choose some, clicks to choose two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink_io.ui import coordinates
from mustlink_io.ui.colours import of_groups
from mustlink_io.ui.map_picture import COLOURINGS, MapPicture
from mustlink_io.ui.node_session import NodeSession
from mustlink_io.ui.parts import FIGURE, Status, packed, panel

_WIDE, _HIGH = 760, 620  # pixels
_MARKED = 2_000  # known rows that are marked at most
_LARGE, _SMALL, _MANY = 8, 2, 200  # pixels of a mark, where there are many, and how many these are
_SURE, _DOUBT, _PALE = "#1b6e5a", "#c8102e", "#e3e7ea"
_WAIT = 150  # milliseconds after which a zoom is drawn


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
        self._waiting = False
        self._figure()
        self.refresh()

    def refresh(self) -> None:
        """Colour and draw what is so now."""
        session, way = self.session, self.colouring.value
        if way == "cluster":
            groups = np.array(session.groups)
            codes = np.searchsorted(groups, session.labels)
            codes = np.minimum(codes, groups.size - 1)
            codes[groups[codes] != session.labels] = -1
            self._picture.by_group(codes, of_groups(session.groups))
        elif way == "confidence":
            self._picture.by_value(session.confidence, _PALE, _SURE)
        else:
            self._picture.by_value(1.0 - session.confidence, _PALE, _DOUBT)
        self._draw()
        told = session.told
        known = np.flatnonzero((told != "") if told.dtype.kind in "OU" else (told >= 0))[:_MARKED]
        self._mark(self._known, known)

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
            width=_WIDE, height=_HIGH, x_range=(x0, x1), y_range=(y0, y1), tools=[],
            toolbar_location="above", min_border=4, output_backend="canvas", name="map",
            stylesheets=[FIGURE],
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

    def _ranges(self) -> Any:
        x, y = self.figure.x_range, self.figure.y_range
        return (float(x.start), float(x.end)), (float(y.start), float(y.end))

    def _draw(self) -> None:
        self._waiting = False
        ranges = (x0, x1), (y0, y1) = self._ranges()
        if not (x1 > x0 and y1 > y0):
            return
        image = packed(self._picture.drawn(ranges, _WIDE, _HIGH))
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
