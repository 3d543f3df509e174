"""What the page's script and the program tell each other: keys, and answers until they are on disk.

The script (page.js) keeps every answer in the browser until the program has said that it is in the
journal, and sends it again when the connection is there again, or to the next program on this port.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from mustlink_io.ui.parts import panel

_ALIKE = "abcdefghijklmopqrstuvwxz"  # but y and n, which are answers themselves


def keys_of(names: list[str]) -> list[str]:
    """A key for each name: the digit that it is, its first letter, a digit or letter that is free.

    "" where there are no more.
    """
    found = [name if len(name) == 1 and name.isdigit() else "" for name in names]
    for at, name in enumerate(names):
        first = name[:1].lower()
        if not found[at] and first in _ALIKE and first not in found:
            found[at] = first
    free = iter([one for one in "123456789" + _ALIKE + "0" if one not in found])
    return [one or next(free, "") for one in found]


class Channel:
    """The two models that the script knows; `answered` and `commanded` are called by it.

    `answered` takes an entry {id, node, kind, value}, `commanded` a word. `place` says on what the
    answers are.
    """

    def __init__(
        self,
        place: str,
        answered: Callable[[list[dict[str, Any]]], None],
        commanded: Callable[[str], None],
    ) -> None:
        from bokeh.models import CustomJS, TextInput

        self._answered, self._commanded = answered, commanded
        self._outbox = TextInput(name=place, visible=False)
        self._question = TextInput(visible=False)
        self._outbox.on_change("value", self._came)
        self._seen: set[str] = set()
        document = panel().state.curdoc
        if document is not None:
            models = {"outbox": self._outbox, "question": self._question}
            script = CustomJS(args=models, code=_script())
            document.js_on_event("document_ready", script)

    def layout(self) -> list[Any]:
        """The models, which are not seen, but have to be on the page."""
        pane = panel().pane.Bokeh
        return [pane(self._outbox, height=0, margin=0), pane(self._question, height=0, margin=0)]

    def ask(self, question: Mapping[str, Any]) -> None:
        """Say what is asked now, nothing by an empty one."""
        self._question.value = json.dumps(question)

    def written(self, ids: list[str]) -> None:
        """Say that these answers are on disk, or are none."""
        self._outbox.tags = ids

    def _came(self, _: str, __: Any, text: Any) -> None:
        try:
            found = json.loads(text)
            entries = [one for one in found["answers"] if isinstance(one["id"], str)]
            command = str(found["command"])
        except (ValueError, TypeError, KeyError):  # no page of ours
            return
        new = [one for one in entries if one["id"] not in self._seen]
        self._seen.update(one["id"] for one in new)
        if new:
            self._answered(new)
        if command:
            self._commanded(command)


@cache
def _script() -> str:
    return resources.files("mustlink_io.ui").joinpath("page.js").read_text(encoding="utf-8")
