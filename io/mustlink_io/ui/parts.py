"""What views share: colours, work that shows it is going on, the page on the local machine."""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import socket
import sys
import warnings
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from time import perf_counter
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError, MustlinkError
from mustlink_io.system import needed

HEX = (
    "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#7f3b08",
    "#003c63", "#00543e", "#7a4564", "#8a5f00",
)  # fmt: skip
# Of strokes: `mustlink cut` numbers classes by the order of their colours.
PALETTE = tuple(
    tuple(int(one[at : at + 2], 16) for at in (1, 3, 5)) for one in (*sorted(HEX[:7]), *HEX[7:])
)


def of_groups(groups: Sequence[Any]) -> list[str]:
    """Colours of clusters by their numbers, which stay; of names by their places among all."""
    numbered = all(isinstance(one, int) for one in groups)
    return [HEX[(one if numbered else at) % len(HEX)] for at, one in enumerate(groups)]


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
        border-left: 4px solid #d9dfe4; position: sticky; top: 0; z-index: 9; background: white; }
:host(.working) { border-left-color: #0072b2; animation: working 1s infinite alternate; }
:host(.wrong) { border-left-color: #d55e00; background: #fdf1ea; }
pre { font-family: inherit; margin: 0; white-space: pre-wrap; }
@keyframes working { from { background: #ffffff; } to { background: #d6e8f5; } }
"""
_WAITS = """
:host(.waits)::after { content: ""; position: absolute; inset: 0; z-index: 9; cursor: progress;
                       background: rgba(255, 255, 255, 0.5); }
"""
_LONG = 2.0  # seconds of work from which the time of the last one is shown
_SOON = 20  # milliseconds after which work begins


def panel() -> Any:
    """The library of the pages; raises InputError where it is not installed."""
    needed("datashader", "ui", "ui")
    return needed("panel", "ui", "ui")


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
        self.busy: Callable[[], bool] = lambda: False  # whether work goes on in a thread
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
        shown = kind or ("working" if self.busy() else "")
        self.pane.css_classes = ["status", *([shown] if shown else [])]
        for one in self._waiting:
            one.css_classes = ["waits"] if kind == "working" else []

    def during(self, words: str, work: Callable[[], str]) -> None:
        """Show the words, then do the work, and show what it returns or why it could not.

        What the work changes goes to the browser in one message: a question that is seen is one
        that keys answer.
        """
        took = self._took.get(words, 0.0)
        last = f" (the last time it took {took:.0f} s)" if took >= _LONG else ""
        self.say(words + last, "working")

        document = panel().state.curdoc

        def run() -> None:
            began = perf_counter()
            with panel().io.hold(document):
                try:
                    self.say(work())
                except (InputError, MustlinkError, MemoryError) as error:
                    self.say(" ".join(str(error).split()) or "out of memory", "wrong")
                except Exception as error:
                    self.say(f"not done: {type(error).__name__}; the terminal tells more", "wrong")
                    raise
            self._took[words] = perf_counter() - began

        later(run)


def later(work: Callable[[], None]) -> None:
    """Do something when all that the browser has sent by then is read; in the order of calls."""
    document = panel().state.curdoc
    if document is None:  # a notebook, or no browser at all
        work()
    else:
        document.add_timeout_callback(work, _SOON)


def asked_first(files: Sequence[Path], may_replace: set[Path], button: str) -> str:
    """What to ask before files are replaced that are there and were not written from here.

    "" where there are none, or they may be replaced: from the second time on.
    """
    there = [one for one in files if one.exists() and one not in may_replace]
    may_replace.update(files)
    if not there:
        return ""
    named = " and ".join(map(str, there))
    verb, pronoun = ("is", "it") if len(there) == 1 else ("are", "them")
    return f"{named} {verb} there already: press {button} again to replace {pronoun}"


_HOST = "127.0.0.1"
_MESSAGE = 32 << 20  # bytes of a message of the browser
_BODY = 1 << 20  # of a request: the page takes no files
_TOKEN = 24  # random bytes
_PORTS = (49_152, 65_535)  # which nobody is assigned


def token() -> str:
    """A new one, which nobody guesses."""
    return secrets.token_urlsafe(_TOKEN)


def served(page: Callable[[], Any], port: int, key: str, title: str) -> Any:
    """A server, not yet started, that makes a `page` for every tab; port 0 takes a free one.

    It listens on 127.0.0.1 alone and answers requests that know the `key`, from the address or
    the cookie that came with it; others are refused, and so are pages of other sites that try to
    talk to it. A browser sends cookies to all ports of a host: this one belongs to a path that
    nobody guesses, so that no other server is sent it. Raises InputError where the port is taken.
    """
    from panel.io.server import get_server

    port, path = _free(port), token()
    return get_server(
        {"/": page},
        port=port,
        prefix=path,
        address=_HOST,
        websocket_origin=[f"{_HOST}:{port}", f"localhost:{port}"],
        title=title,
        auth_provider=_provider(key, f"mustlink-{port}", f"/{path}/"),
        secret_key=token(),
        sign_sessions=True,
        generate_session_ids=True,
        websocket_max_message_size=_MESSAGE,
        http_server_kwargs={"max_body_size": _BODY},
    )


def address(server: Any, key: str) -> str:
    """Where a browser finds it."""
    return f"http://{_HOST}:{server.port}{server.prefix}/?token={key}"


def _free(port: int) -> int:
    """The port, or a free one for 0; raises InputError."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((_HOST, port))
        except OverflowError:
            raise InputError(f"port: {port}; give one from 1 to 65535") from None
        except OSError as error:
            raise InputError(
                f"port: {port} cannot be had ({error.strerror}); give another, or leave --port out"
            ) from error
        return int(trial.getsockname()[1])


def _provider(key: str, cookie: str, path: str) -> Any:
    """Lets in requests with the key: 403 for all others."""
    from bokeh.server.auth_provider import NullAuth
    from tornado.web import HTTPError

    class Provider(NullAuth):
        def _user(self, handler: Any) -> str:
            token = handler.get_query_argument("token", None)
            if token is not None and hmac.compare_digest(token.encode(), key.encode()):
                handler.set_cookie(cookie, key, path=path, httponly=True, samesite="Strict")
                handler.set_header("Referrer-Policy", "no-referrer")
                return "here"
            stored = handler.get_cookie(cookie)
            if token is None and stored and hmac.compare_digest(stored.encode(), key.encode()):
                return "here"
            raise HTTPError(403, reason="the address needs the token that the command printed")

        @property
        def get_user(self) -> Any:
            return self._user

        @property
        def login_url(self) -> str:
            return "/"

    return Provider()


class Page:
    """What `ml.ui` returns: shows itself in a notebook, and `serve` makes it a local page.

    `session` has the estimator, the answers and the history.
    """

    def __init__(self, session: Any, view: Callable[[], Any], title: str, place: str = "") -> None:
        panel()
        self.session, self.title, self._view, self._place = session, title, view, place

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

        Port 0 is one for what the page is of, if it is free: a browser keeps what it could not
        send by host and port. Raises InputError where the port is taken or no browser can be
        opened.
        """
        if opened:
            check_display()
        key = token()
        made = served(self._document, port or self._usual(), key, self.title)
        place = address(made, key)
        if tell is not None:
            tell(place)
        made.start()
        if opened:
            made.io_loop.add_callback(lambda: webbrowser.open(place))
        with contextlib.suppress(RuntimeError), warnings.catch_warnings():
            # Of buttons that came later a browser sends all of it with the first click.
            warnings.filterwarnings("ignore", message="reference already known")
            made.io_loop.start()

    def _usual(self) -> int:
        """The same port for the same answers, or 0, any, where it is taken."""
        if not self._place:
            return 0
        port = _PORTS[0] + crc32(self._place.encode()) % (_PORTS[1] - _PORTS[0])
        with contextlib.suppress(InputError):
            return _free(port)
        return 0

    def _document(self) -> Any:
        return self.view().layout()


def check_display() -> None:
    """Raise InputError where no browser can be opened."""
    shown = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    if sys.platform.startswith("linux") and not shown:
        raise InputError("ui: no display here to open a browser on; give --no-open and open the "
                         "address that is printed")  # fmt: skip


# --- What the page's script and the program tell each other
#
# The script (page.js) keeps every answer in the browser until the program has said that it is in
# the journal, and sends it again when the connection is there again, or to the next program on this
# port.

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
    """The models that the script knows; `answered` and `commanded` are called by it.

    `answered` takes entries {id, node, kind, value}, `commanded` a word. `place` says on what the
    answers are, `text` shows the question, `star` where its row is on the map: of answers that are
    on their way the script shows the next one by itself.
    """

    def __init__(
        self,
        place: str,
        answered: Callable[[list[dict[str, Any]]], None],
        commanded: Callable[[str], None],
        text: Any,
        star: Any,
    ) -> None:
        from bokeh.models import CustomJS, TextInput

        self._answered, self._commanded = answered, commanded
        self._outbox = TextInput(name=place, visible=False)
        self._question = TextInput(visible=False)
        self._outbox.on_change("value", self._came)
        self._seen: set[str] = set()
        document = panel().state.curdoc
        if document is not None:
            models = {"outbox": self._outbox, "question": self._question,
                      "text": text, "star": star}  # fmt: skip
            script = CustomJS(args=models, code=_script())
            document.js_on_event("document_ready", script)

    def layout(self) -> list[Any]:
        """The models, which are not seen, but have to be on the page."""
        pane = panel().pane.Bokeh
        return [pane(self._outbox, height=0, margin=0), pane(self._question, height=0, margin=0)]

    def ask(self, question: Mapping[str, Any]) -> None:
        """Say what is asked, see page.js; nothing by an empty one."""
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
