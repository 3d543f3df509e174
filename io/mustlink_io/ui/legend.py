"""The key of colours of a map: sorted, its classes called otherwise and coloured otherwise."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from mustlink_io.ui.node_session import NodeSession
from mustlink_io.ui.parts import Status, of_groups, panel

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
