"""The names that the service answers to: without such a list any web page can read it through a name of its own.

A page of evil.example may have its name resolve to 127.0.0.1 (DNS rebinding); the browser then takes the service for evil.example
and lets the page read it. Its requests still say ``Host: evil.example``.
"""

import re
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from query_service.errors import error_response, one_line
from schemas.errors import UserError

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class TrustedHosts:
    """ASGI middleware that lets through what asks for a trusted name; the others get one line that says what to do."""

    def __init__(self, app: ASGIApp, names: Sequence[str]) -> None:
        self._app = app
        self._check = TrustedHostMiddleware(_trust, list(names), www_redirect=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        looked_at = dict(scope)
        await self._check(looked_at, receive, _nowhere)
        if looked_at.get(_TRUSTED):
            await self._app(scope, receive, send)
            return
        named = one_line(Headers(scope=scope).get("host", ""))[:100]
        message = f"this service doesn't go by the name {named!r}; if it should: inset serve --allow-host NAME"
        await error_response(400, "bad_request", message)(scope, receive, send)


_TRUSTED = "inset.trusted"


async def _trust(scope: Scope, _receive: Receive, _send: Send) -> None:
    scope[_TRUSTED] = True


async def _nowhere(_message: Message) -> None:
    """Take the library's own refusal, which doesn't say what to do."""


def trusted(listens_on: str, names: Sequence[str]) -> list[str]:
    """Return the names that a service may be asked for by, as patterns: the address that it listens on, and further ones.

    Args:
        listens_on: An address or name; one that stands for every address of the machine names none.
        names: Such as ``search.example.org``, ``*.example.org`` for all names below that, or ``*`` for any name.

    Raises:
        UserError: A name isn't one.
    """
    own = [] if listens_on in _EVERY_ADDRESS else [listens_on]
    return [_pattern(name) for name in [*own, *names]]


_EVERY_ADDRESS = {"", "0.0.0.0", "::"}  # noqa: S104  what is listened on is decided elsewhere
_NAME = re.compile(r"\*|(\*\.)?[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")


def _pattern(name: str) -> str:
    pattern = f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name
    if not _NAME.fullmatch(pattern):
        raise UserError(f"{name!r} is no host name; write a name without scheme and port, such as search.example.org")
    return pattern
