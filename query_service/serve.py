"""Run the service in this process."""

import contextlib
import errno
import logging
import socket

import uvicorn
from fastapi import FastAPI

from schemas.errors import UserError

HOST = "127.0.0.1"
PORT = 8750


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
        config = uvicorn.Config(app, server_header=False, timeout_graceful_shutdown=10)
        address = f"[{host}]" if ":" in host else host
        logging.getLogger("uvicorn.error").info(
            "Inset is at http://%s:%d/ (Ctrl-C ends it)", address, bound.getsockname()[1]
        )
        with contextlib.suppress(KeyboardInterrupt):  # the usual way to end
            uvicorn.Server(config).run(sockets=[bound])


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
