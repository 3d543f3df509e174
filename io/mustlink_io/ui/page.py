"""A page: a session, and a view of it for every tab or notebook that asks."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
import webbrowser
from collections.abc import Callable
from typing import Any

from mustlink.errors import InputError
from mustlink_io.ui import server
from mustlink_io.ui.parts import panel


class Page:
    """What `ml.ui` returns: shows itself in a notebook, and `serve` makes it a local page.

    `session` has the estimator, the answers and the history.
    """

    def __init__(self, session: Any, view: Callable[[], Any], title: str) -> None:
        panel()
        self.session, self.title, self._view = session, title, view

    def view(self) -> Any:
        """Controls and pictures of one tab."""
        return self._view()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """In a notebook: all of it, its code from the packages here."""
        pn = panel()
        pn.extension(inline=True)
        return self.view().layout()._repr_mimebundle_(include, exclude)

    def serve(
        self, port: int = 0, *, opened: bool = True, tell: Callable[[str], None] | None = None
    ) -> None:
        """Serve it on 127.0.0.1 until interrupted; `opened` opens a browser, `tell` the address.

        Raises InputError where the port is taken or no browser can be opened.
        """
        if opened:
            check_display()
        key = server.token()
        made = server.served(self._document, port, key, self.title)
        place = server.address(made, key)
        if tell is not None:
            tell(place)
        made.start()
        if opened:
            made.io_loop.add_callback(lambda: webbrowser.open(place))
        with contextlib.suppress(RuntimeError), warnings.catch_warnings():
            # Of buttons that came later a browser sends all of it with the first click.
            warnings.filterwarnings("ignore", message="reference already known")
            made.io_loop.start()

    def _document(self) -> Any:
        return self.view().layout()


def check_display() -> None:
    """Raise InputError where no browser can be opened."""
    shown = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    if sys.platform.startswith("linux") and not shown:
        raise InputError("ui: no display here to open a browser on; give --no-open and open the "
                         "address that is told")  # fmt: skip
