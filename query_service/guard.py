"""Middleware of every request: limits on the body, security headers, HEAD, and JSON for unexpected errors."""

import asyncio
import json
import logging
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_LIMIT = 256 * 1024
"""Maximum bytes of a request body without a picture."""

PICTURE_LIMIT = 8 * 1024 * 1024
"""Maximum bytes of a picture in a request, before base64: enough for a photograph of a telephone."""

BODY_TIMEOUT_S = 20.0
"""Longest time to receive a request body."""

HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; object-src 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-cache",
}
"""Defaults of response headers."""

_logger = logging.getLogger("inset.query_service")


class Guard:
    """ASGI middleware around the whole service."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = is_complete = False
        received = 0
        limit = _limit(scope)
        deadline = asyncio.get_running_loop().time() + BODY_TIMEOUT_S
        is_head = scope["method"] == "HEAD"
        if is_head:
            scope = {**scope, "method": "GET"}

        async def limited() -> Message:
            nonlocal received, is_complete
            try:
                async with asyncio.timeout_at(None if is_complete else deadline):
                    message = await receive()
            except TimeoutError:
                line = f"the request body took longer than {BODY_TIMEOUT_S:g} s"
                raise HTTPException(408, line, {"connection": "close"}) from None
            is_complete = not message.get("more_body", False)
            received += len(message.get("body", b""))
            if received > limit or _announced(scope) > limit:
                raise HTTPException(413, f"the request body is larger than {limit // 1024} KiB")
            return message

        async def with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            elif is_head:
                message = {**message, "body": b""}
            await send(message)

        try:
            await self._app(scope, limited, with_headers)
        except Exception:
            reference = secrets.token_hex(4)
            _logger.exception("%s %r failed (reference %s)", scope["method"], scope["path"], reference)
            if started:
                raise
            line = f"something went wrong here; the service's log has it under {reference}"
            body = json.dumps({"error": {"code": "internal", "message": line}}).encode()
            start_headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
            await with_headers({"type": "http.response.start", "status": 500, "headers": start_headers})
            await with_headers({"type": "http.response.body", "body": body})


def _limit(scope: Scope) -> int:
    has_picture = scope["method"] == "POST" and scope["path"].endswith(("/search", "/answer"))
    return BODY_LIMIT + (PICTURE_LIMIT // 3 + 1) * 4 if has_picture else BODY_LIMIT


def _announced(scope: Scope) -> int:
    length = Headers(scope=scope).get("content-length", "0")
    return int(length) if length.isdecimal() else 0
