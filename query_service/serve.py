"""Run the service in this process; ``query_service.workers`` runs it in several.

The service ends idle connections, late headers, late request bodies (``query_service.guard``) and connections beyond
``CONNECTIONS``. Clients that never read a response are left to a reverse proxy.
"""

import asyncio
import contextlib
import copy
import errno
import logging
import socket
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.config import LOGGING_CONFIG
from uvicorn.logging import DefaultFormatter
from uvicorn.protocols.http.h11_impl import H11Protocol

from schemas.errors import UserError
from schemas.printing import lines

HOST = "127.0.0.1"
PORT = 8750
CONNECTIONS = 500
"""Open connections of a process; further requests get 503."""
GRACE_S = 5
"""Time for open requests when the service ends, in seconds; then they are cut off."""
HEADERS_TIMEOUT_S = 10.0
"""Longest time to receive a request's line and headers, from the connection or the first byte; then the connection ends."""
HEADER_BYTES = 64 * 1024
"""Bytes of a request's line and headers that are received; beyond them the connection ends with 400.

Twice those that ``query_service.guard`` allows, whose 431 says why.
"""


def serve(app: FastAPI, host: str = HOST, port: int = PORT) -> None:
    """Serve what ``create_app`` returned until it is interrupted; port 0 takes a free one, which the log names.

    Raises:
        UserError: The address can't be bound; nothing has started then.
    """
    with listen(host, port) as bound:
        address = f"[{host}]" if ":" in host else host
        server = server_of(app)  # configures the log
        logging.getLogger("uvicorn.error").info(
            "Inset is at http://%s:%d/ (Ctrl-C ends it)", address, bound.getsockname()[1]
        )
        with contextlib.suppress(KeyboardInterrupt):  # the usual way to end
            server.run(sockets=[bound])


def server_of(app: FastAPI) -> uvicorn.Server:
    """Return the server that ``serve`` runs."""
    return uvicorn.Server(uvicorn.Config(app, **settings()))


def settings() -> dict[str, Any]:
    """Return uvicorn's settings, which every worker has."""
    return {
        "log_config": _logs(),
        "server_header": False,
        "access_log": False,  # query_service.access_log has its own, without queries
        "proxy_headers": False,  # query_service.access believes the peer's own address alone
        "ws": "none",
        "http": TimedProtocol,  # of h11: the other parser has no limit on headers
        "h11_max_incomplete_event_size": HEADER_BYTES,
        "limit_concurrency": CONNECTIONS,
        "timeout_graceful_shutdown": GRACE_S,
    }


class TimedProtocol(H11Protocol):
    """Ends a connection whose headers don't arrive in ``HEADERS_TIMEOUT_S``."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first headers."""
        super().connection_made(transport)
        self._late = self.loop.call_later(HEADERS_TIMEOUT_S, transport.close)

    def data_received(self, data: bytes) -> None:
        """Wait no longer once headers are whole; wait for the next ones from their first byte."""
        super().data_received(data)
        if self._late is not None and self.conn.their_state is not h11.IDLE:
            self._late.cancel()
            self._late = None
        elif self._late is None and self.conn.their_state is h11.IDLE:
            self._late = self.loop.call_later(HEADERS_TIMEOUT_S, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        super().connection_lost(exc)
        if self._late is not None:
            self._late.cancel()


class _Formatter(DefaultFormatter):
    """Escapes control characters in tracebacks, which may quote a PDF."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        return lines(super().formatException(ei))


def _logs() -> dict[str, Any]:
    logs = copy.deepcopy(LOGGING_CONFIG)
    logs["formatters"]["default"]["()"] = _Formatter
    logs["root"] = {"handlers": ["default"], "level": "WARNING"}  # without one, packages add handlers of their own
    logs["loggers"]["inset"] = {"level": "INFO"}
    logs["formatters"]["json"] = {"format": "%(message)s"}
    logs["handlers"]["json"] = {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stdout"}
    for name in ("inset.access", "inset.slow"):
        logs["loggers"][name] = {"handlers": ["json"], "level": "INFO", "propagate": False}
    return logs


def listen(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address, listening.

    Raises:
        UserError: The port is taken or not allowed, or the host is not an address of this machine.
    """
    if not 0 <= port <= 65535:
        raise UserError(f"can't listen on port {port}: a port is a number from 0 to 65535")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise UserError(f"can't listen on {host} port {port}: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "there is no such host"
    reasons = {
        errno.EADDRINUSE: "something else listens there; choose another port",
        errno.EACCES: "ports below 1024 need more rights; choose a higher one",
        errno.EADDRNOTAVAIL: "that is not an address of this machine",
    }
    return reasons.get(error.errno or 0, str(error))
