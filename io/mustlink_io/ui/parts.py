"""What views share: the extra, work that shows it is going on, words of what went wrong."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError, MustlinkError

# Of every table, and of the two figures, which browsers would rim when they are clicked.
TABLES = """
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { text-align: left; color: #6b7680; font-weight: 600; border-bottom: 1px solid #d9dfe4; }
th, td { padding: 2px 10px 2px 0; vertical-align: top; }
"""
FIGURE = ":host, :host *:focus { outline: none !important; border: none; }"
# Of a figure that has things beside it where there is room, and else above them.
FLEXIBLE = (
    ":host {{ flex: 1 1 420px !important; width: auto !important; max-width: {}px !important; }}"
)
# While work goes on: a stripe that the browser moves, and what cannot be pressed until it is done.
_STATUS = """
:host { min-height: 1.6em; color: #1f2933; white-space: pre-wrap; padding-left: 8px;
        border-left: 4px solid #d9dfe4; }
:host(.working) { border-left-color: #0072b2; animation: working 1s infinite alternate; }
:host(.wrong) { border-left-color: #d55e00; background: #fdf1ea; }
pre { font-family: inherit; margin: 0; white-space: pre-wrap; }
@keyframes working { from { background: #ffffff; } to { background: #d6e8f5; } }
"""
_WAITS = """
:host(.waits)::after { content: ""; position: absolute; inset: 0; z-index: 9; cursor: progress;
                       background: rgba(255, 255, 255, 0.5); }
"""
_LONG = 2.0  # seconds of work from which it is told how long it took the last time


def panel() -> Any:
    """The library of the pages; raises InputError where it is not installed."""
    try:
        import datashader  # noqa: F401
        import panel
    except ImportError as error:
        raise InputError(
            f"ui: {error.name} is not installed; pip install 'mustlink[ui]'"
        ) from error
    return panel


def packed(pixels: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Pixels (h, w, 3 or 4) as Bokeh's images want them: RGBA in 32 bits."""
    h, w, channels = pixels.shape
    found = np.full((h, w, 4), 255, dtype=np.uint8)
    found[..., :channels] = pixels
    return found.view(np.uint32).reshape(h, w)


class Status:
    """A line that says what is being done, what was done, and what is wrong."""

    def __init__(self) -> None:
        self.pane = panel().pane.Str("", stylesheets=[_STATUS], sizing_mode="stretch_width")
        self._waiting: list[Any] = []
        self._took: dict[str, float] = {}

    def hold(self, *controls: Any) -> None:
        """Let these columns or rows wait while work goes on: nothing in them can be pressed."""
        for one in controls:
            one.stylesheets = [*one.stylesheets, _WAITS]
        self._waiting += controls

    def say(self, words: str, kind: str = "") -> None:
        """Show the words; `kind` is "working", "wrong" or nothing."""
        self.pane.object = words
        self.pane.css_classes = ["status", *([kind] if kind else [])]
        for one in self._waiting:
            one.css_classes = ["waits"] if kind == "working" else []

    def during(self, words: str, work: Callable[[], str]) -> None:
        """Show the words, then do the work, and show what it returns or why it could not."""
        took = self._took.get(words, 0.0)
        last = f" (the last time it took {took:.0f} s)" if took >= _LONG else ""
        self.say(words + last, "working")

        def run() -> None:
            began = perf_counter()
            try:
                self.say(work())
            except (InputError, MustlinkError, MemoryError) as error:
                self.say(" ".join(str(error).split()) or "out of memory", "wrong")
            except Exception as error:
                self.say(f"not done: {type(error).__name__}; the terminal tells more", "wrong")
                raise
            self._took[words] = perf_counter() - began

        document = panel().state.curdoc
        if document is None:  # a notebook, or no browser at all
            run()
        else:
            document.add_next_tick_callback(run)
