"""Run the service in this process."""

import contextlib
import copy
import errno
import logging
import socket
from time import monotonic
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.config import LOGGING_CONFIG
from uvicorn.logging import DefaultFormatter
from uvicorn.protocols.http.h11_impl import H11Protocol

from schemas.errors import UserError
from schemas.printing import lines

HOST = "127.0.0.1"
PORT = 8750


STALLED_S = 20.0
"""How long a client may take to send a request, or to read a part of its response, before its connection is dropped."""


def serve(app: FastAPI, host: str = HOST, port: int = PORT) -> None:
    """Serve ``app`` until it is interrupted.

    The address is bound before anything starts, so that a mistake in it is one line and not a half-started server.

    Args:
        app: What ``create_app`` returned.
        host: Name or address to listen on. The default is this machine only: the service asks nobody who they are, so put
            it behind something that does before it listens elsewhere.
        port: 0 takes a free one; the log names it.

    Raises:
        UserError: The address can't be listened on.
    """
    with listen(host, port) as bound:
        server = server_of(app)
        address = f"[{host}]" if ":" in host else host
        logging.getLogger("uvicorn.error").info(
            "Inset is at http://%s:%d/ (Ctrl-C ends it)", address, bound.getsockname()[1]
        )
        with contextlib.suppress(KeyboardInterrupt):  # the usual way to end
            server.run(sockets=[bound])


def server_of(app: FastAPI) -> uvicorn.Server:
    """Return the server that ``serve`` runs."""
    stalled = _Stalled()
    stalled.server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=_logs(),
            server_header=False,
            http="h11",
            ws="none",
            timeout_graceful_shutdown=10,
            timeout_notify=1,
            callback_notify=stalled.drop,
        )
    )
    return stalled.server


class _Formatter(DefaultFormatter):
    """Shows what a traceback says of a PDF as it is: messages are one line already."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        return lines(super().formatException(ei))


def _logs() -> dict[str, Any]:
    """Return uvicorn's settings for logs, with the service's own among them."""
    logs = copy.deepcopy(LOGGING_CONFIG)
    logs["formatters"]["default"]["()"] = _Formatter
    logs["loggers"]["inset"] = {"handlers": ["default"], "level": "INFO"}
    return logs


class _Stalled:
    """Drops connections whose client does nothing; uvicorn itself bounds only the pause between two requests.

    A request must be there within ``STALLED_S``, however slowly it trickles in; a response must be read from at least once in
    that time. What the service itself is busy with counts for nothing.
    """

    def __init__(self) -> None:
        self.server: uvicorn.Server | None = None
        self._since: dict[object, tuple[object, float]] = {}

    async def drop(self) -> None:
        """Look at every connection, and end those that have been in one state for too long. Call it every second or so."""
        now = monotonic()
        seen: dict[object, tuple[object, float]] = {}
        for connection in list(self.server.server_state.connections) if self.server else ():
            if not isinstance(connection, H11Protocol) or (state := _waits_for(connection)) is None:
                continue
            before, since = self._since.get(connection, (None, now))
            seen[connection] = (state, since if before == state else now)
            if now - seen[connection][1] >= STALLED_S:
                connection.transport.abort()
        self._since = seen


def _waits_for(connection: H11Protocol) -> object:
    """Say what a connection waits for its client to do; None where it waits for the service."""
    cycle = connection.cycle
    unread = connection.transport.get_write_buffer_size()
    if unread:
        return "read", cycle, unread
    if cycle is None or cycle.response_complete:
        return "ask", cycle
    return ("send", cycle) if cycle.more_body else None


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
    known = {
        errno.EADDRINUSE: "something else listens there; choose another port",
        errno.EACCES: "ports below 1024 need more rights; choose a higher one",
        errno.EADDRNOTAVAIL: "that is not an address of this machine",
    }
    return known.get(error.errno or 0, str(error))
