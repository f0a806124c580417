"""Serve by one process or by several, which share nothing but the store, the folder of metrics and, where named, a Redis.

uvicorn's supervisor starts each worker as an interpreter of its own, and another in place of one that dies. All of them accept
connections of one socket. A worker makes its service from ``ServiceOptions``, which it reads from the environment.

A process ends idle connections, late headers, late request bodies (``query_service.guard``) and connections beyond
``CONNECTIONS``. Clients that never read a response are left to a reverse proxy.
"""

import asyncio
import contextlib
import copy
import errno
import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.config import LOGGING_CONFIG
from uvicorn.logging import DefaultFormatter
from uvicorn.protocols.http.h11_impl import H11Protocol

from pipeline.published.corpus import every_published, open_published
from query_service.access import CallerOptions, network_of, origins_of
from query_service.admission import DEADLINE_S
from query_service.app import create_app
from query_service.guard import trusted
from query_service.telemetry import FOLDER
from query_service.webhooks import SECRET, Webhooks
from schemas.errors import UserError
from schemas.printing import lines
from workers.child_processes import prepare
from workers.draw_pages import PageDrawer

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

OPTIONS = "INSET_SERVE_OPTIONS"
"""The variable by which workers receive ``ServiceOptions``."""

HEALTH_CHECK_S = 30
"""Time in which a worker answers its supervisor; then it is ended, and another started."""

_STARTUP_FAILURE = 3  # uvicorn's: the supervisor ends too, in place of starting workers for ever
_logger = logging.getLogger("inset.query_service")


def serve(app: FastAPI, host: str = HOST, port: int = PORT) -> None:
    """Serve what ``create_app`` returned until it is interrupted; port 0 takes a free one, which the log names."""
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
        "access_log": False,  # query_service.telemetry has its own, without queries
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
    logs["loggers"]["inset.access"] = {"handlers": ["json"], "level": "INFO", "propagate": False}
    return logs


def listen(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address, listening; ``UserError`` if the address isn't one of this machine, or free."""
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


class ServiceOptions(CallerOptions):
    """The options of ``inset serve`` that make the service; see ``create_app``."""

    corpora: list[str] = []
    allow_hosts: list[str] = []
    deadline_s: float = DEADLINE_S
    origins: list[str] = []
    log_questions: bool = False
    webhooks_to: list[str] = []

    def open(self) -> FastAPI:
        """Return the service of the corpora; if none is named, of all in the corpora folder but those with a wrong file.

        Raises:
            UserError: An option is wrong, a named corpus file is missing or wrong, or there is no corpus.
        """
        access = self.access()
        drawer = PageDrawer()  # shared, so that its processes don't multiply with the corpora
        opened = [open_published(name, drawer) for name in self.corpora] or list(every_published(drawer))
        if not opened:
            raise UserError("there is no corpus to serve; make one with: inset init")
        prepare(parses=False)
        corpora = {corpus.name: corpus for corpus in sorted(opened, key=lambda corpus: corpus.name)}
        return create_app(
            corpora,
            webhooks=Webhooks(corpora, access, os.environ.get(SECRET), [*map(network_of, self.webhooks_to)]),
            hosts=trusted(self.host, self.allow_hosts),
            deadline_s=self.deadline_s,
            access=access,
            logs_questions=self.log_questions,
            origins=origins_of(self.origins),
            close=drawer.close,
        )


def serve_workers(workers: int, options: ServiceOptions, port: int = PORT) -> None:
    """Serve by several processes until interrupted.

    ``options`` were opened once: a mistake would be one of each worker.

    Raises:
        UserError: The address can't be bound; nothing has started then.
    """
    # A trial, so that a mistake is reported before workers start; the supervisor binds the address itself.
    listen(options.host, port).close()
    limits_scope = "in all workers together (Redis)" if options.redis else "in each worker, since no --redis is named"
    app, configured = f"{__name__}:worker", settings()
    with tempfile.TemporaryDirectory(prefix="inset-metrics-") as folder:
        # Workers inherit the environment, and have the folder before they import what reads it.
        os.environ |= {OPTIONS: options.model_dump_json(), FOLDER: folder}
        uvicorn.Config(app, log_config=configured["log_config"])  # configures the log
        _logger.info("%d workers; requests a minute of a key are counted %s", workers, limits_scope)
        uvicorn.run(
            app,
            factory=True,
            workers=workers,
            host=options.host,
            port=port,
            timeout_worker_healthcheck=HEALTH_CHECK_S,
            **configured,
        )


def worker() -> FastAPI:
    """Return the service of a worker, which ends with its supervisor."""
    supervisor = multiprocessing.parent_process()

    def exit_with_supervisor() -> None:
        if supervisor is not None:
            supervisor.join()
            os.kill(os.getpid(), signal.SIGTERM)

    # A supervisor that is killed can't end its workers.
    threading.Thread(target=exit_with_supervisor, daemon=True).start()
    try:
        return ServiceOptions.model_validate_json(os.environ[OPTIONS]).open()
    except UserError as error:
        _logger.error(error.message)
        sys.exit(_STARTUP_FAILURE)
