"""Points or a graph in the browser: the map, labels and pairs, questions, undo, history."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink_io.ui.map_view import MapView
from mustlink_io.ui.node_session import NodeSession
from mustlink_io.ui.parts import TABLES, Status, panel
from mustlink_io.ui.questions_view import QuestionsView
from mustlink_io.ui.shown_rows import Show

_SHOWN = 8  # last rows of the history
_SMALL = "img { width: 155px; height: auto; margin-right: 6px; }"  # two of them beside each other


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
            placeholder="their class, or a name", width=170, margin=(5, 5, 5, 10)
        )
        self.label = pn.widgets.Button(name="label", button_type="primary", disabled=True, margin=5)
        self.name = pn.widgets.Button(
            name="name", disabled=True, margin=5, visible=session.takes_names
        )
        self.together = pn.widgets.Button(
            name="together", disabled=True, visible=session.takes_pairs
        )
        self.apart = pn.widgets.Button(name="apart", disabled=True, visible=session.takes_pairs)
        self.undo = pn.widgets.Button(name="undo")
        self.save = pn.widgets.Button(name="save", visible=output is not None)
        self.picked = pn.pane.HTML(
            "", width=330, stylesheets=[TABLES, _SMALL], css_classes=["picked"]
        )
        self.history = pn.pane.HTML("", width=330, stylesheets=[TABLES], css_classes=["history"])
        work = self.status.during
        self.label.on_click(lambda _: work("clustering …", self._label))
        self.name.on_click(lambda _: work("…", self._name))
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
        side = pn.Column(
            self.picked, pn.Row(self.value, self.label, self.name),
            pn.Row(self.together, self.apart), self.questions.layout(), self.history, width=360,
        )  # fmt: skip
        self.status.hold(bar, side)
        both = pn.FlexBox(
            self.map.layout(), side, align_items="flex-start", sizing_mode="stretch_width"
        )
        return pn.Column(bar, self.status.pane, self.map.key, both, sizing_mode="stretch_width")

    def refresh(self) -> str:
        """Show what is so after an answer, and say it."""
        self.map.refresh()
        self.map.choose([])
        self._chosen()
        self._tell()
        last = self.session.history[-1]
        if not last.seconds:
            return last.said
        doubts = "".join(f"\n{one}" for one in last.doubts)
        return f"{last.said}; {last.moved:.2%} of the nodes moved; {last.seconds:.2f} s{doubts}"

    def _tell(self) -> None:
        steps = "".join(
            f"<tr><td>{escape(step.said)}</td><td>{_share(step.satisfaction)}</td>"
            f"<td style='text-align:right'>{step.moved:.1%}</td></tr>"
            for step in self.session.history[: -_SHOWN - 1 : -1]
        )
        self.history.object = (
            "<table class='steps'><tr><th>answer</th><th>kept</th><th>moved</th></tr>"
            f"{steps}</table>"
        )

    def _chosen(self) -> None:
        nodes = self.map.chosen
        if not nodes.size:
            told = "<b>no node chosen</b>: draw round some, or click one or two"
        elif nodes.size > 2:
            told = f"<b>{nodes.size:,} nodes chosen</b>"
        else:
            called = self.session.names
            shown = "".join(self.show(int(one)) for one in nodes) if self.show else ""
            named = " and ".join(
                f"{one:,} ({escape(called.get(self.session.labels[one], 'in none'))})"
                for one in nodes
            )
            told = f"<b>node {named}</b>{shown}"
        self.picked.object = told
        self.label.disabled = self.name.disabled = not nodes.size
        self.together.disabled = self.apart.disabled = nodes.size != 2

    def _label(self) -> str:
        self.session.label(self.map.chosen, (self.value.value_input or "").strip())
        return self.refresh()

    def _name(self) -> str:
        self.session.name(self.map.chosen, (self.value.value_input or "").strip())
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
