"""The page on the local machine: who has its address sees it, nobody else does."""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import Callable
from typing import Any

from mustlink.errors import InputError

_HOST = "127.0.0.1"
_MESSAGE = 32 << 20  # bytes of a message of the browser
_BODY = 1 << 20  # of a request: the page takes no files
_TOKEN = 24  # random bytes


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
    """Lets in who knows the key: 403 for all others, whatever they ask for."""
    from bokeh.server.auth_provider import AuthProvider
    from tornado.web import HTTPError

    class Provider(AuthProvider):
        def _user(self, handler: Any) -> str:
            given = handler.get_query_argument("token", None)
            if given is not None and hmac.compare_digest(given.encode(), key.encode()):
                handler.set_cookie(cookie, key, path=path, httponly=True, samesite="Strict")
                handler.set_header("Referrer-Policy", "no-referrer")
                return "here"
            kept = handler.get_cookie(cookie)
            if given is None and kept and hmac.compare_digest(kept.encode(), key.encode()):
                return "here"
            raise HTTPError(403, reason="the address needs the token that the command told")

        @property
        def get_user(self) -> Any:
            return self._user

        @property
        def get_user_async(self) -> None:
            return None

        @property
        def login_url(self) -> str:
            return "/"

        @property
        def get_login_url(self) -> None:
            return None

        @property
        def login_handler(self) -> None:
            return None

        @property
        def logout_url(self) -> None:
            return None

        @property
        def logout_handler(self) -> None:
            return None

    return Provider()
