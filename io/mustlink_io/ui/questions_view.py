"""The next questions, one after another, each with what it needs to be answered."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np

from mustlink_io.ui.map_view import MapView
from mustlink_io.ui.node_session import NodeSession
from mustlink_io.ui.parts import TABLES, Status, panel
from mustlink_io.ui.shown_rows import Show

_BATCH = 10
_KEYS = 9  # classes that have a button


class QuestionsView:
    """Asks about nodes: a button for each cluster, and one for "don't know"."""

    def __init__(
        self,
        session: NodeSession,
        where: MapView,
        show: Show | None,
        status: Status,
        refresh: Callable[[], str],
    ) -> None:
        pn = panel()
        self.session, self.map, self.show = session, where, show
        self._status, self._refresh = status, refresh
        self.waiting: list[int] = []
        self.ask = pn.widgets.Button(name="ask me", button_type="primary", visible=session.asks)
        self.text = pn.pane.HTML("", width=330, stylesheets=[TABLES], css_classes=["question"])
        self.buttons = pn.FlexBox(sizing_mode=None, width=330)
        self.ask.on_click(lambda _: status.during("choosing questions …", self._begin))

    def layout(self) -> Any:
        """The button to begin with, the question, and its answers."""
        return panel().Column(self.ask, self.text, self.buttons)

    def _begin(self) -> str:
        self.waiting = np.asarray(self.session.questions(_BATCH)).tolist()
        self._next()
        return f"{len(self.waiting)} questions" if self.waiting else "no question is left"

    def _next(self) -> None:
        """The question that is first in the row."""
        pn = panel()
        self.map.asked(self.waiting[:1])
        if not self.waiting:
            self.text.object, self.buttons.objects = "", []
            return
        node, names = self.waiting[0], self.session.names
        now = escape(names.get(self.session.labels[node], "in none"))
        shown = self.show(node) if self.show is not None else ""
        self.text.object = (
            f"<b>node {node:,}</b>, {len(self.waiting)} to go: is now {now}. What is it?{shown}"
        )
        made = [self._button(names[one], one) for one in self.session.groups[:_KEYS]]
        unknown = pn.widgets.Button(name="don't know", css_classes=["unknown"])
        unknown.on_click(lambda _: self._status.during("…", lambda: self._answered(None)))
        self.buttons.objects = [*made, unknown]

    def _button(self, name: str, value: Any) -> Any:
        made = panel().widgets.Button(name=name, css_classes=["answer"])
        work = lambda: self._answered(value)  # noqa: E731
        made.on_click(lambda _: self._status.during("clustering …", work))
        return made

    def _answered(self, value: Any) -> str:
        node = self.waiting[0]
        if value is None:
            self.session.unknown([node])
            told = f"node {node:,} is not asked again"
        else:
            self.session.label([node], value)
            told = self._refresh()
        self.waiting = self.waiting[1:]
        self._next()
        return told if self.waiting else f"{told}; no question is left, ask for more"
