"""Middleware of every request: trusted hosts, limits on the body, security headers, HEAD, and JSON for unexpected errors."""

import asyncio
import logging
import re
import secrets
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from query_service.errors import error_response, one_line
from schemas.errors import UserError

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")

BODY_LIMIT = 128 * 1024
"""Maximum bytes of a request body without its picture: a thousand ids take 70 KB."""

PICTURE_LIMIT = 8 * 1024 * 1024
"""Maximum bytes of a picture in a request, before base64: enough for a photograph of a telephone."""

LARGE_BODIES = 8
"""Requests with a body beyond ``BODY_LIMIT`` at once: each takes up to 40 MB."""

HEADERS_LIMIT = 100
"""Maximum headers of a request."""

HEADERS_BYTES = 32 * 1024
"""Maximum bytes of a request's headers, names and values."""

BODY_TIMEOUT_S = 20.0
"""Longest time to receive a request body."""

HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' blob:; base-uri 'none'; form-action 'self'; "
    "object-src 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-cache",
}
"""Defaults of response headers."""

REFERENCE_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "
    "object-src 'none'; frame-ancestors 'none'"
)
"""Content security policy of the API's reference: Redoc writes style sheets and markup, of /openapi.json alone."""

_logger = logging.getLogger("inset.query_service")


class Guard:
    """ASGI middleware around the whole service."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._large_bodies = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = is_complete = is_large = False
        received = 0
        limit = _limit(scope)
        deadline = asyncio.get_running_loop().time() + BODY_TIMEOUT_S
        # HEAD is served as GET, and the body left out, so that both have the same headers.
        is_head = scope["method"] == "HEAD"
        if is_head:
            scope["method"] = "GET"

        async def limited() -> Message:
            nonlocal received, is_complete, is_large
            try:
                # After the body, the app waits here for the client to disconnect, as long as the response takes.
                async with asyncio.timeout_at(None if is_complete else deadline):
                    message = await receive()
            except TimeoutError:
                line = f"the request body took longer than {BODY_TIMEOUT_S:g} s"
                raise HTTPException(408, line, {"connection": "close"}) from None
            is_complete = not message.get("more_body", False)
            received += len(message.get("body", b""))
            if received > limit or _content_length(scope) > limit:
                raise HTTPException(413, f"the request body is larger than {limit // 1024} KiB")
            if received > BODY_LIMIT and not is_large:
                if self._large_bodies >= LARGE_BODIES:
                    line = "too many pictures are sent now; try again"
                    raise HTTPException(503, line, {"retry-after": "5", "connection": "close"})
                is_large = True
                self._large_bodies += 1
            return message

        async def with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                _add_headers(message)
                if is_head:  # the server expects no body then
                    scope["method"] = "HEAD"
            elif is_head:
                message = {**message, "body": b""}
            await send(message)

        try:
            size = sum(len(name) + len(value) for name, value in scope["headers"])
            if len(scope["headers"]) > HEADERS_LIMIT or size > HEADERS_BYTES:
                line = f"a request has {HEADERS_LIMIT} headers at most, of {HEADERS_BYTES // 1024} KiB together"
                await error_response(431, line)(scope, receive, with_headers)
                return
            await self._app(scope, limited, with_headers)
        except Exception:
            # The client gets only a reference, since a traceback may quote documents or paths.
            reference = secrets.token_hex(4)
            _logger.exception("%s %r failed (reference %s)", scope["method"], scope["path"], reference)
            # Once a response has begun, its status can't change: the server cuts the connection.
            if started:
                raise
            line = f"something went wrong here; the service's log has it under {reference}"
            await error_response(500, line)(scope, receive, with_headers)
        finally:
            self._large_bodies -= is_large


def _add_headers(message: Message) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in HEADERS.items():
        headers.setdefault(name, value)


def _limit(scope: Scope) -> int:
    has_picture = scope["method"] == "POST" and scope["path"].endswith(("/search", "/answer"))
    return BODY_LIMIT + (PICTURE_LIMIT // 3 + 1) * 4 if has_picture else BODY_LIMIT


def _content_length(scope: Scope) -> int:
    length = Headers(scope=scope).get("content-length", "0")
    return int(length) if length.isdecimal() else 0


class TrustedHosts:
    """ASGI middleware that refuses untrusted hosts with a message that gives the remedy, against DNS rebinding.

    A page of evil.example may let its name resolve to 127.0.0.1; the browser then lets the page read the service. Its requests
    still have ``Host: evil.example``.
    """

    def __init__(self, app: ASGIApp, names: Sequence[str]) -> None:
        self._app, self._names = app, [name.lower() for name in names]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        host = Headers(scope=scope).get("host", "") if scope["type"] == "http" else None
        if host is None or self._is_trusted(re.sub(r":\d*$", "", host).lower()):
            await self._app(scope, receive, send)
            return
        host = one_line(host)[:100]
        message = f"this service doesn't go by the name {host!r}; if it should: inset serve --allow-host NAME"
        await error_response(400, message)(scope, receive, send)

    def _is_trusted(self, name: str) -> bool:
        return any(
            pattern in ("*", name) or (pattern.startswith("*.") and name.endswith(pattern[1:])) for pattern in self._names
        )


def trusted(listens_on: str, names: Sequence[str]) -> list[str]:
    """Return the trusted host patterns of a service: what it listens on, unless that is a wildcard, and further names.

    A name is ``search.example.org``, ``*.example.org`` for all names below, or ``*`` for any; raises ``UserError`` for others.
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
