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
_KEYS = 30  # classes that have a button


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
        self.buttons = pn.FlexBox(sizing_mode=None, width=340, gap="4px")
        self.other = pn.widgets.TextInput(
            placeholder="another class, Enter", width=170, visible=False, margin=(2, 10)
        )
        self.other.param.watch(self._typed, "value")
        self.ask.on_click(lambda _: status.during("choosing questions …", self._begin))

    def layout(self) -> Any:
        """The button to begin with, the question, and its answers."""
        return panel().Column(self.ask, self.text, self.buttons, self.other)

    def _begin(self) -> str:
        self.waiting = np.asarray(self.session.questions(_BATCH)).tolist()
        self._next()
        return f"{len(self.waiting)} questions" if self.waiting else "no question is left"

    def _next(self) -> None:
        """The question that is first in the row."""
        pn = panel()
        self.map.asked(self.waiting[:1])
        self.other.visible = bool(self.waiting)
        self.ask.visible = self.session.asks and not self.waiting
        if not self.waiting:
            self.text.object, self.buttons.objects = "", []
            return
        node = self.waiting[0]
        now = escape(self.session.names.get(self.session.labels[node], "in none"))
        shown = self.show(node) if self.show is not None else ""
        self.text.object = (
            f"<b>node {node:,}</b>, {len(self.waiting)} to go: is now {now}. What is it?{shown}"
        )
        choices = list(self.session.choices.items())[:_KEYS]
        unknown = pn.widgets.Button(name="don't know", css_classes=["unknown"], margin=2)
        unknown.on_click(lambda _: self._begun("…", node, None))
        self.buttons.objects = [*(self._button(name, node, one) for one, name in choices), unknown]

    def _button(self, name: str, node: int, value: Any) -> Any:
        made = panel().widgets.Button(name=name, css_classes=["answer"], margin=2)
        made.on_click(
            lambda _: self._begun("clustering …", node, lambda: self.session.choose([node], value))
        )
        return made

    def _typed(self, event: Any) -> None:
        """A class that has no button, or one that is new."""
        words = event.new.strip()
        if words and self.waiting:
            node = self.waiting[0]
            self._begun("clustering …", node, lambda: self.session.label([node], words))
            self.other.value = ""

    def _begun(self, words: str, node: int, answer: Callable[[], None] | None) -> None:
        """Take an answer; a second click on the same button is none to the next question."""
        if self.waiting[:1] == [node]:
            self._status.during(words, lambda: self._answered(node, answer))

    def _answered(self, node: int, answer: Callable[[], None] | None) -> str:
        if self.waiting[:1] != [node]:
            return ""
        if answer is None:
            self.session.unknown([node])
            told = f"node {node:,} is not asked again"
        else:
            answer()
            told = self._refresh()
        self.waiting = self.waiting[1:]
        self._next()
        return told if self.waiting else f"{told}; no question is left, ask for more"
