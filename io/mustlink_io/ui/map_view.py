"""The map in the browser: coordinates of millions of rows, drawn by pixels, a lasso, clicks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.clusterers.embedding import LaplacianEigenmaps
from mustlink.core.state import chosen
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink_io.pictures.charts import (
    is_shares,
    middle_row,
    names_apart,
    plane,
    spread_in_plane,
)
from mustlink_io.ui.classes import is_known
from mustlink_io.ui.node_session import NodeSession
from mustlink_io.ui.parts import FIGURE, FLEXIBLE, Status, of_groups, packed, panel

_OUTER = 0.001  # share of rows on either side that do not decide what is shown at first
_MARGIN = 0.04
_MAPS = 6  # vectors of a graph, among which its map is found


def flat(estimator: Any, coordinates: Any = None) -> NDArray[np.float32]:
    """Coordinates (n, 2) of a fitted estimator's rows; they stay when it is refitted.

    `coordinates` (n, 2) are taken as they are, and so are points of two columns. Else it is the
    plane in which the clusters lie farthest apart for how wide they are (Fisher's discriminant), of
    points, or of a graph's embedding; found from a sample. A fit without an embedding of two
    columns, or one of shares has Laplacian eigenmaps made of
    its graph, which take an eigenproblem. Rows of an embedding are spread, see
    `pictures.charts.plane`. Raises InputError.
    """
    estimator = chosen(estimator)
    n = estimator.labels_.size
    if coordinates is not None:
        return checked_coordinates(coordinates, n)
    points = getattr(estimator, "_points", None)
    if isinstance(points, np.ndarray) and points.ndim == 2 and len(points) == n:
        if points.shape[1] == 2:
            return _finite(points)
        return _finite(points @ plane(points, estimator.labels_))
    rows: Any = getattr(estimator, "embedding_", None)
    usable = isinstance(rows, np.ndarray) and rows.ndim == 2 and len(rows) == n
    if not usable or (is_shares(rows) and isinstance(estimator.graph_, Graph)):
        rows = _eigenmaps(estimator)
    elif rows.shape[1] < 2:
        rows = np.column_stack([rows, _eigenmaps(estimator)])
    return _finite(spread_in_plane(rows, estimator.labels_))


def checked_coordinates(coordinates: Any, n: int) -> NDArray[np.float32]:
    """Coordinates (n, 2) in single precision; raises InputError for other shapes, NaN and Inf."""
    found = np.asarray(coordinates)
    if found.shape != (n, 2) or found.dtype.kind not in "fiu":
        raise InputError(f"map: shape {found.shape}; give two coordinates for each of {n} rows")
    return _finite(found)


def inside(where: NDArray[np.float32], xs: Any, ys: Any) -> NDArray[np.int64]:
    """Numbers of the points (n, 2) inside a closed line through corners (m,), by even and odd.

    Every edge looks only at the points beside it: these are in order of their second coordinate.
    Cost: O(n log n) of those in the line's bounding box.
    """
    x, y = np.asarray(xs, dtype=np.float64), np.asarray(ys, dtype=np.float64)
    if x.size < 3 or x.shape != y.shape or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return np.empty(0, dtype=np.int64)
    box = (where[:, 0] >= x.min()) & (where[:, 0] <= x.max())
    box &= (where[:, 1] >= y.min()) & (where[:, 1] <= y.max())
    near = np.flatnonzero(box)
    near = near[np.argsort(where[near, 1], kind="stable")]
    px, py = where[near, 0].astype(np.float64), where[near, 1].astype(np.float64)
    odd = np.zeros(near.size, dtype=bool)
    for x0, y0, x1, y1 in zip(x, y, np.roll(x, -1), np.roll(y, -1), strict=True):
        if y0 == y1:
            continue
        first, last = np.searchsorted(py, [min(y0, y1), max(y0, y1)])  # lower end in, upper out
        part = slice(first, last)
        odd[part] ^= px[part] < x0 + (py[part] - y0) * (x1 - x0) / (y1 - y0)
    return np.sort(near[odd])


def nearest(where: NDArray[np.float32], x: float, y: float, ranges: Any) -> int:
    """The row nearest to a place, as far as one sees: axes count by their `ranges`."""
    (x0, x1), (y0, y1) = ranges
    across = (where[:, 0] - np.float32(x)) / np.float32(abs(x1 - x0) or 1.0)
    along = (where[:, 1] - np.float32(y)) / np.float32(abs(y1 - y0) or 1.0)
    return int(np.argmin(across**2 + along**2))


def window(where: NDArray[np.float32]) -> tuple[tuple[float, float], tuple[float, float]]:
    """What to show at first: all but a few outliers, with a margin."""
    low, high = np.quantile(where, [_OUTER, 1 - _OUTER], axis=0)
    room = np.where(high > low, _MARGIN * (high - low), 1.0)
    (x0, y0), (x1, y1) = low - room, high + room
    return (float(x0), float(x1)), (float(y0), float(y1))


def _eigenmaps(estimator: Any) -> NDArray[np.float64]:
    graph = getattr(estimator, "graph_", None)
    if not isinstance(graph, Graph):
        raise InputError("map: the fit has no graph here; give coordinates (n, 2) as map")
    d = min(_MAPS, graph.n_nodes - 2)
    made = LaplacianEigenmaps(d, affinity="precomputed", random_state=0).fit(graph)
    found: NDArray[np.float64] = np.asarray(made.embedding_)
    return found


def _finite(found: NDArray[Any]) -> NDArray[np.float32]:
    flat = np.ascontiguousarray(found, dtype=np.float32)
    if not np.isfinite(flat).all():
        raise InputError("map: NaN or Inf among the coordinates; give numbers")
    return flat


Ranges = tuple[tuple[float, float], tuple[float, float]]
COLOURINGS = ("cluster", "confidence")
_FAINT = 120  # of 255: how opaque a pixel of a single row is
_FEW = (100_000, 20_000, 2_000)  # rows that are seen, below which each is drawn larger by a pixel
_NONE = "#b8bec4"


class MapPicture:
    """Rows at coordinates (n, 2), ready to be drawn; holds 8 bytes a row, and 4 for colours."""

    def __init__(self, where: NDArray[np.float32]) -> None:
        import pandas as pd

        self._frame = pd.DataFrame({"x": where[:, 0], "y": where[:, 1]})

    def by_group(self, codes: NDArray[np.integer[Any]], colours: Sequence[str]) -> None:
        """Colour rows (n,) by their group, a place among `colours`, or -1."""
        import pandas as pd

        # The last is for rows in no group.
        count = len(colours)
        filled = np.where(codes < 0, count, codes)
        self._frame["c"] = pd.Categorical.from_codes(filled, categories=range(count + 1))
        self._key = [*colours, _NONE]
        self._of_groups = True

    def by_value(self, values: NDArray[Any], colours: Sequence[str]) -> None:
        """Colour rows (n,) by values from 0 to 1, between colours at equal distances."""
        self._frame["c"] = np.asarray(values, dtype=np.float32)
        self._key = list(colours)
        self._of_groups = False

    def drawn(self, ranges: Ranges, width: int, height: int) -> NDArray[np.uint8]:
        """The picture (height, width, 4), its lowest row first; of groups the one of most rows.

        A pixel has the mean colour of its rows.
        """
        import datashader as ds
        import datashader.transfer_functions as tf

        canvas = ds.Canvas(width, height, *ranges)
        if self._of_groups:
            found = canvas.points(self._frame, "x", "y", ds.count_cat("c"))
            counts = found.sum(dim=found.dims[-1])
            picture = tf.shade(found, color_key=self._key, how="eq_hist", min_alpha=_FAINT)
        else:
            counts = canvas.points(self._frame, "x", "y", ds.count())
            found = canvas.points(self._frame, "x", "y", ds.mean("c"))
            picture = tf.shade(found, cmap=self._key, how="linear", span=(0.0, 1.0))
        seen = int(np.asarray(counts).sum())
        larger = sum(seen < few for few in _FEW)
        if larger:
            picture = tf.spread(picture, px=larger)
        return np.asarray(picture.to_numpy(), dtype=np.uint32).view(np.uint8).reshape(
            height, width, 4
        )  # fmt: skip


_WIDE, _HIGH, _WIDEST = 760, 620, 1536  # pixels: at first, and at most
# As high as what the buttons and the legend leave of the window.
_HEIGHT = ":host { height: max(420px, calc(100vh - 172px)) !important; }"
_LEAST = 60  # pixels of a figure below which the browser has not laid it out yet
_MARKED = 2_000  # known rows that are marked at most
_LARGE, _SMALL, _MANY = 8, 2, 200  # pixels of a mark, where there are many, and how many these are
_NAMED, _BY = 60, 20_000  # clusters whose names are on the map, and rows that say where
_LETTER, _ROUND, _LINE = 9, 8, 26  # pixels of a name: of a letter, round it, and high
_NEAR = 0.02  # of the map's width: how far from the mouse a row is still below it
_WAIT = 150  # milliseconds after which a zoom is drawn


class MapView:
    """The map of one tab; `chosen` are the rows that a lasso took, or those that were clicked.

    `values` are a row's, in a line, for the mouse above it.
    """

    values: Callable[[int], str] | None = None

    def __init__(
        self,
        session: NodeSession,
        where: NDArray[np.float32],
        status: Status,
        changed: Callable[[], None],
        changed_names: Callable[[], Any] = str,
    ) -> None:
        self.session, self.where, self._changed = session, where, changed
        self.chosen: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._home = window(where)
        self._picture = MapPicture(where)
        names = COLOURINGS if session.tells_confidence else COLOURINGS[:1]
        self.colouring = panel().widgets.RadioButtonGroup(options=list(names), value=names[0])
        self.colouring.param.watch(lambda _: status.during("colouring …", self._coloured), "value")
        self._waiting, self._pixels = False, {"inner_width": _WIDE, "inner_height": _HIGH}
        self._drawn: tuple[Any, ...] = (None, None)  # labels, and how
        self.legend = Legend(session, status, changed_names, self._fade)
        self.hovered = panel().pane.HTML(
            "", height=18, css_classes=["hovered"], sizing_mode="stretch_width", margin=(0, 10)
        )
        self._over: Any = None  # where the mouse is, if that is still to be told
        self._figure()
        self.refresh()

    def layout(self) -> Any:
        """The map, as wide and as high as there is room."""
        return panel().pane.Bokeh(self.figure, sizing_mode="stretch_width")

    def refresh(self) -> None:
        """Colour and draw what is so now; marks alone where nothing else is another."""
        session, way = self.session, self.colouring.value
        self._mark(self._known, np.flatnonzero(is_known(session.known_labels))[:_MARKED])
        labels, how = session.labels, (way, session.names, session.colours)
        if labels is self._drawn[0] and how == self._drawn[1]:
            return
        self._drawn = labels, how
        if way == "cluster":
            groups = np.array(session.groups)
            codes = np.searchsorted(groups, session.labels)
            codes = np.minimum(codes, groups.size - 1)
            codes[groups[codes] != session.labels] = -1
            self._picture.by_group(codes, colours_of(session))
        else:
            self._picture.by_value(session.confidence, SCALE)
        self.legend.refresh(way)
        self._name(way)
        self._draw()

    def _name(self, way: str) -> None:
        """Say where names of clusters belong: in their middle, the largest cluster first."""
        step = max(1, len(self.where) // _BY)
        where, labels = self.where[::step], np.asarray(self.session.labels[::step])
        shown = self.session.groups[:_NAMED] if way == "cluster" else []
        rows = [(where[labels == one], str(self.session.names[one])[:24]) for one in shown]
        rows = sorted((one for one in rows if len(one[0])), key=lambda one: -len(one[0]))
        self._middles = np.array([middle_row(one) for one, _ in rows]).reshape(-1, 2)
        self._texts = [name for _, name in rows]

    def _write_names(self, ranges: Ranges) -> None:
        """Write the names that are seen, so that none covers another."""
        low, high = np.array(ranges).T
        scale = np.array([*self._pixels.values()]) / (high - low)
        pixels = (self._middles - low) * scale
        widths = np.array([_LETTER * len(one) + _ROUND for one in self._texts])
        seen = ((self._middles >= low) & (self._middles <= high)).all(axis=1)
        place = np.full(pixels.shape, np.nan)
        place[seen] = names_apart(pixels[seen], widths[seen], _LINE)
        free = np.flatnonzero(~np.isnan(place[:, 0]))
        x, y = (place[free] / scale + low).T
        self._names.data = {"x": x, "y": y, "text": [self._texts[at] for at in free]}

    def _fade(self, share: float) -> None:
        self._image.glyph.global_alpha = share

    def _coloured(self) -> str:
        self.refresh()
        return f"coloured by {self.colouring.value}"

    def choose(self, nodes: Any) -> None:
        """Take these rows as chosen, and mark them."""
        self.chosen = np.asarray(nodes, dtype=np.int64)
        self._mark(self._picked, self.chosen[:_MARKED])

    def mark_question(self, nodes: Any) -> None:
        """Mark the rows that a question is about."""
        self._mark(self.question, np.asarray(nodes, dtype=np.int64))

    def _figure(self) -> None:
        from bokeh.events import (
            DoubleTap,
            LODEnd,
            MouseMove,
            RangesUpdate,
            Reset,
            SelectionGeometry,
            Tap,
        )
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
            width=_WIDE, height=_HIGH, sizing_mode="stretch_both", x_range=(x0, x1),
            y_range=(y0, y1), tools=[], toolbar_location="above", min_border=4,
            output_backend="canvas", name="map",
            stylesheets=[FIGURE, FLEXIBLE.format(_WIDEST), _HEIGHT],
        )  # fmt: skip
        self.figure.axis.visible = False
        self.figure.grid.visible = False
        self.figure.toolbar.logo = None
        self.figure.outline_line_color = "#d9dfe4"
        self.pixels = ColumnDataSource({"image": [], "x": [], "y": [], "dw": [], "dh": []})
        self._image = self.figure.image_rgba(
            "image", source=self.pixels, x="x", y="y", dw="dw", dh="dh"
        )
        self._known, self._picked, self.question = (
            ColumnDataSource({"x": [], "y": [], "size": []}) for _ in range(3)
        )
        draw = self.figure.scatter
        draw("x", "y", source=self._known, size="size", fill_color="white", line_color="#1f2933")
        draw("x", "y", source=self._picked, size="size", fill_color=None, line_color="#000000",
             line_width=1)  # fmt: skip
        self._names = ColumnDataSource({"x": [], "y": [], "text": []})
        self.figure.text(
            "x", "y", "text", source=self._names, text_font_size="14px", text_align="center",
            text_font_style="bold", text_color="#1f2933", text_baseline="middle",
            background_fill_color="white", background_fill_alpha=0.75, padding=3, border_radius=3,
        )  # fmt: skip
        draw("x", "y", source=self.question, marker="star", size=26, fill_color="#f0e442",
             line_color="#1f2933", line_width=1.5)  # fmt: skip
        # The browser selects nothing by itself: what is not selected would fade, names too.
        lasso, zoom = LassoSelectTool(continuous=False, renderers=[]), WheelZoomTool()
        self.figure.add_tools(lasso, TapTool(renderers=[]), PanTool(), zoom, ResetTool())
        self.figure.toolbar.active_drag = lasso
        self.figure.toolbar.active_scroll = zoom
        self.figure.on_event(SelectionGeometry, self._lassoed)
        for event in (Tap, DoubleTap):  # a quick second click comes as one, wherever it is
            self.figure.on_event(event, self._tapped)
        self.figure.on_event(MouseMove, self._moves)
        for event in (RangesUpdate, Reset, LODEnd):
            self.figure.on_event(event, self._moved)
        for side in self._pixels:
            self.figure.on_change(side, self._resized)

    def _ranges(self) -> Any:
        x, y = self.figure.x_range, self.figure.y_range
        return (float(x.start), float(x.end)), (float(y.start), float(y.end))

    def _draw(self) -> None:
        self._waiting = False
        ranges = (x0, x1), (y0, y1) = self._ranges()
        if not (x1 > x0 and y1 > y0):
            return
        image = packed(self._picture.drawn(ranges, *self._pixels.values()))
        self.pixels.data = {
            "image": [image],
            "x": [x0],
            "y": [y0],
            "dw": [x1 - x0],
            "dh": [y1 - y0],
        }
        self._write_names(ranges)

    def _moved(self, _: Any) -> None:
        """Draw anew after a zoom: once for many steps of a wheel."""
        document = panel().state.curdoc
        if document is None:
            self._draw()
        elif not self._waiting:
            self._waiting = True
            document.add_timeout_callback(self._draw, _WAIT)

    def _resized(self, which: str, _: Any, pixels: Any) -> None:
        """Draw as many pixels as the browser has room for."""
        if pixels >= _LEAST:
            self._pixels[which] = min(int(pixels), _WIDEST)
            self._moved(None)

    def _lassoed(self, event: Any) -> None:
        shape = event.geometry
        if event.final and shape.get("type") == "poly":
            self.choose(inside(self.where, shape["x"], shape["y"]))
            self._changed()

    def _tapped(self, event: Any) -> None:
        """The row that was clicked, beside the one before: at most two."""
        node = nearest(self.where, event.x, event.y, self._ranges())
        before = self.chosen.tolist() if self.chosen.size == 1 else []
        self.choose([*before, node] if node not in before else [node])
        self._changed()

    def _moves(self, event: Any) -> None:
        """Tell what is below the mouse: once for many of its steps."""
        document, told = panel().state.curdoc, self._over is None
        self._over = event.x, event.y
        if document is None:
            self._tell_over()
        elif told:
            document.add_timeout_callback(self._tell_over, _WAIT)

    def _tell_over(self) -> None:
        """The name of the row that is nearest to the mouse, and the cluster that it is in."""
        (x, y), self._over = self._over, None
        session, ranges = self.session, self._ranges()
        node = nearest(self.where, x, y, ranges)
        away = np.abs(self.where[node] - np.array([x, y])) / np.abs(np.diff(ranges, axis=1)).ravel()
        if away.max() > _NEAR:
            self.hovered.object = ""
            return
        group = session.names.get(session.labels[node], "in none")
        row = "" if self.values is None else f": {self.values(node)}"
        name = escape(session.called(node))
        self.hovered.object = f"<small><b>{name}</b>, {escape(group)}{escape(row)}</small>"

    def _mark(self, source: Any, nodes: NDArray[np.int64]) -> None:
        size = np.full(nodes.size, _SMALL if nodes.size > _MANY else _LARGE)
        source.data = {"x": self.where[nodes, 0], "y": self.where[nodes, 1], "size": size}


# --- The key of colours of a map: sorted, its classes called otherwise and coloured otherwise

SCALE = ("#f4d03f", "#21918c", "#2b1055")  # of confidence from 0 to 1, by lightness too
_LISTED = 60  # clusters in the key
_ORDERS = ("number", "size", "name")
_KEY = """
span { display: inline-block; margin-right: 14px; font-variant-numeric: tabular-nums; }
i { display: inline-block; width: 160px; height: 10px; margin: 0 6px; border-radius: 2px; }
"""


def colours_of(session: NodeSession) -> list[str]:
    """Colours of the groups of a session, in their order."""
    usual = of_groups(session.groups)
    return [session.colours.get(one, is_) for one, is_ in zip(session.groups, usual, strict=True)]


class Legend:
    """What colours mean in one tab, and how opaque they are; `changed` draws the map anew.

    Names and colours are those of the session: all tabs have them.
    """

    def __init__(
        self,
        session: NodeSession,
        status: Status,
        changed: Callable[[], Any],
        faded: Callable[[float], None],
    ) -> None:
        widgets = panel().widgets
        self.session, self._changed, self._way = session, changed, "cluster"
        self.key = panel().pane.HTML(
            "", stylesheets=[_KEY], css_classes=["key"], sizing_mode="stretch_width"
        )
        self.order = widgets.Select(options=list(_ORDERS), width=85, name="sorted by")
        self.opacity = widgets.FloatSlider(
            name="opacity", start=0.1, end=1.0, step=0.1, value=1.0, width=110
        )
        self.group = widgets.Select(name="class", options=[], width=130)
        self.called = widgets.TextInput(name="is called", width=120, visible=session.takes_names)
        self.rename = widgets.Button(
            name="rename", margin=(22, 5, 5, 5), visible=session.takes_names
        )
        self.colour = widgets.ColorPicker(name="colour", width=60)
        self._fresh = False  # the colour is set by the page, not by the person
        self.order.param.watch(lambda _: self.refresh(self._way), "value")
        self.opacity.param.watch(lambda event: faded(event.new), "value")
        self.group.param.watch(lambda _: self._picked(), "value")
        self.colour.param.watch(lambda _: self._recolour(), "value")
        self.rename.on_click(lambda _: status.during("…", self._rename))

    def layout(self) -> Any:
        """The controls, to be folded away."""
        return panel().Card(
            panel().FlexBox(
                self.order, self.opacity, self.group, self.colour, self.called, self.rename
            ),
            title="legend", collapsed=True, sizing_mode="stretch_width", margin=(0, 10),
        )  # fmt: skip

    def refresh(self, way: str) -> None:
        """Tell what the colours mean when rows are coloured by `way`."""
        self._way, session = way, self.session
        names = session.names
        options = {str(names[one]): one for one in session.groups[:_LISTED]}
        if self.group.options != options:
            self.group.options = options
            if self.group.value not in session.groups:
                self.group.value = session.groups[0]
        self._picked()
        if way == "confidence":
            self.key.object = (
                f"not sure<i style='background:linear-gradient(90deg,{','.join(SCALE)})'></i>"
                f"sure; {session.confidence_means}"
            )
            return
        rows = list(
            zip(session.groups, colours_of(session), session.history[-1].sizes, strict=False)
        )
        if self.order.value == "size":
            rows.sort(key=lambda row: -row[2])
        elif self.order.value == "name":
            rows.sort(key=lambda row: str(names[row[0]]).casefold())
        more = len(rows) - _LISTED
        self.key.object = "".join(
            f"<span><b style='color:{escape(colour, quote=True)}'>■</b> {escape(names[one])} "
            f"<small>{size:,}</small></span>"
            for one, colour, size in rows[:_LISTED]
        ) + (f"and {more:,} more" if more > 0 else "")

    def _picked(self) -> None:
        """Show the colour of the class that is chosen."""
        if self.group.value in self.session.groups:
            at = self.session.groups.index(self.group.value)
            self._fresh = True
            self.colour.value = colours_of(self.session)[at]
            self._fresh = False

    def _recolour(self) -> None:
        if self._fresh or self.group.value is None:
            return
        self.session.recolour(self.group.value, self.colour.value)
        self._changed()

    def _rename(self) -> str:
        some = self.session.some_of(self.group.value)
        self.session.name(some, (self.called.value_input or "").strip())
        self.called.value = self.called.value_input = ""
        return str(self._changed())
