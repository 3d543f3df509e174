"""Points or a graph in the browser: the map, labels and pairs, questions, undo, history."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink_io.ui.colours import of_groups
from mustlink_io.ui.map_view import MapView
from mustlink_io.ui.node_session import NodeSession
from mustlink_io.ui.parts import TABLES, Status, panel
from mustlink_io.ui.questions_view import QuestionsView
from mustlink_io.ui.shown_rows import Show

_SHOWN = 8  # last rows of the history
_GROUPS = 30  # that the table of sizes lists


class NodeView:
    """What one tab shows of a `NodeSession`; tabs of one session show the same when reloaded."""

    def __init__(
        self,
        session: NodeSession,
        where: NDArray[np.float32],
        show: Show | None = None,
        output: str | Path | None = None,
    ) -> None:
        pn = panel()
        self.session, self.show, self.output = session, show, output
        self.status = Status()
        self.map = MapView(session, where, self.status, self._chosen)
        self.questions = QuestionsView(session, self.map, show, self.status, self.refresh)
        self.value = pn.widgets.TextInput(
            name="their class", placeholder="a cluster, or a new one", width=170
        )
        self.label = pn.widgets.Button(name="label", button_type="primary", disabled=True)
        self.together = pn.widgets.Button(name="together", disabled=True)
        self.apart = pn.widgets.Button(name="apart", disabled=True)
        self.undo = pn.widgets.Button(name="undo")
        self.save = pn.widgets.Button(name="save", visible=output is not None)
        self.picked = pn.pane.HTML("", width=330, stylesheets=[TABLES], css_classes=["picked"])
        self.history = pn.pane.HTML("", width=330, stylesheets=[TABLES], css_classes=["history"])
        work = self.status.during
        self.label.on_click(lambda _: work("clustering …", self._label))
        self.together.on_click(lambda _: work("clustering …", lambda: self._pair(True)))
        self.apart.on_click(lambda _: work("clustering …", lambda: self._pair(False)))
        self.undo.on_click(lambda _: work("clustering …", self._undo))
        self.save.on_click(lambda _: work("saving …", self._save))
        self._tell()
        self._chosen()
        self.status.say("draw round some nodes to label them, or click two to say what they are")

    def layout(self) -> Any:
        """All of it, for a server or a notebook."""
        pn = panel()
        bar = pn.Row(self.map.colouring, self.undo, self.save)
        choice = pn.Row(self.value, pn.Column(pn.Spacer(height=18), self.label))
        side = pn.Column(
            self.picked, choice, pn.Row(self.together, self.apart), self.questions.layout(),
            self.history, width=360,
        )  # fmt: skip
        return pn.Column(bar, pn.Row(pn.pane.Bokeh(self.map.figure), side), self.status.pane)

    def refresh(self) -> str:
        """Show what is so after an answer, and say it."""
        self.map.refresh()
        self.map.choose([])
        self._chosen()
        self._tell()
        last = self.session.history[-1]
        doubts = "".join(f"\n{one}" for one in last.doubts)
        return f"{last.said}; {last.moved:.2%} of the nodes moved; {last.seconds:.2f} s{doubts}"

    def _tell(self) -> None:
        session, names = self.session, self.session.names
        last, colours = session.history[-1], of_groups(session.groups)
        rows = "".join(
            f"<tr><td><b style='color:{colours[at]}'>■</b> {escape(names[one])}</td>"
            f"<td style='text-align:right'>{last.sizes[at]:,}</td></tr>"
            for at, one in enumerate(session.groups[:_GROUPS])
        )
        steps = "".join(
            f"<tr><td>{escape(step.said)}</td><td>{_share(step.satisfaction)}</td>"
            f"<td style='text-align:right'>{step.moved:.1%}</td></tr>"
            for step in session.history[: -_SHOWN - 1 : -1]
        )
        self.history.object = (
            f"<table class='sizes'><tr><th>cluster</th><th>size</th></tr>{rows}</table><br>"
            "<table class='steps'><tr><th>answer</th><th>kept</th><th>moved</th></tr>"
            f"{steps}</table>"
        )

    def _chosen(self) -> None:
        nodes = self.map.chosen
        if not nodes.size:
            told = "<b>no node chosen</b>"
        elif nodes.size > 2:
            told = f"<b>{nodes.size:,} nodes chosen</b>"
        else:
            shown = "".join(self.show(int(one)) for one in nodes) if self.show else ""
            named = " and ".join(
                f"{one:,} ({escape(str(self.session.labels[one]))})" for one in nodes
            )
            told = f"<b>node {named}</b>{shown}"
        self.picked.object = told
        self.label.disabled = not nodes.size
        self.together.disabled = self.apart.disabled = nodes.size != 2

    def _label(self) -> str:
        self.session.label(self.map.chosen, (self.value.value_input or "").strip())
        return self.refresh()

    def _pair(self, together: bool) -> str:
        first, second = self.map.chosen.tolist()
        self.session.pair(first, second, together)
        return self.refresh()

    def _undo(self) -> str:
        return self.refresh() if self.session.undo() else "nothing to undo"

    def _save(self) -> str:
        assert self.output is not None
        self.session.save(self.output)
        return f"written: {self.output}; mustlink ui {self.output} goes on from it"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
