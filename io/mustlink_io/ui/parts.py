"""What views share: the extra, work that shows it is going on, words of what went wrong."""

from __future__ import annotations

from collections.abc import Callable
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
        self.pane = panel().pane.Str(
            "", styles={"min-height": "1.5em", "color": "#1f2933"}, css_classes=["status"]
        )

    def say(self, words: str) -> None:
        """Show the words."""
        self.pane.object = words

    def during(self, words: str, work: Callable[[], str]) -> None:
        """Show the words, then do the work, and show what it returns or why it could not."""
        self.say(words)

        def run() -> None:
            try:
                self.say(work())
            except (InputError, MustlinkError, MemoryError) as error:
                self.say(" ".join(str(error).split()) or "out of memory")

        document = panel().state.curdoc
        if document is None:  # a notebook, or no browser at all
            run()
        else:
            document.add_next_tick_callback(run)
