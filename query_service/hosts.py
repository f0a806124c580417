"""Trusted host names, against DNS rebinding.

A page of evil.example may let its name resolve to 127.0.0.1; the browser then lets the page read the service. Its requests still
have ``Host: evil.example``.
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
    """ASGI middleware that refuses untrusted hosts with a message that gives the remedy."""

    def __init__(self, app: ASGIApp, names: Sequence[str]) -> None:
        self._app = app
        self._check = TrustedHostMiddleware(_trust, list(names), www_redirect=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        checked = dict(scope)
        await self._check(checked, receive, _discard)
        if checked.get(_TRUSTED):
            await self._app(scope, receive, send)
            return
        host = one_line(Headers(scope=scope).get("host", ""))[:100]
        message = f"this service doesn't go by the name {host!r}; if it should: inset serve --allow-host NAME"
        await error_response(400, message)(scope, receive, send)


_TRUSTED = "inset.trusted"


async def _trust(scope: Scope, _receive: Receive, _send: Send) -> None:
    scope[_TRUSTED] = True


async def _discard(_message: Message) -> None:
    """Drop the library's own refusal, which gives no remedy."""


def trusted(listens_on: str, names: Sequence[str]) -> list[str]:
    """Return the trusted host patterns of a service.

    Args:
        listens_on: Its address, which is trusted unless it is a wildcard.
        names: Further ones: ``search.example.org``, ``*.example.org`` for all names below, or ``*`` for any.

    Raises:
        UserError: A name isn't a host name.
    """
    listening_host = [] if listens_on in _EVERY_ADDRESS else [listens_on]
    return [_pattern(name) for name in [*listening_host, *names]]


_EVERY_ADDRESS = {"", "0.0.0.0", "::"}  # noqa: S104 - compared, not bound
_NAME = re.compile(r"\*|(\*\.)?[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")


def _pattern(name: str) -> str:
    pattern = f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name
    if not _NAME.fullmatch(pattern):
        raise UserError(f"{name!r} isn't a host name; write a name without scheme and port, such as search.example.org")
    return pattern
