"""Serve by one process or by several, which share nothing but the store, the folder of metrics and, where named, a Redis.

uvicorn's supervisor starts each worker as an interpreter of its own, and another in place of one that dies. All of them accept
connections of one socket. A worker makes its service from ``ServiceOptions``, which it reads from the environment.
"""

import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from pipeline.published.corpus import every_published, open_published
from query_service.access import access_of, origins_of
from query_service.access_log import SLOW_S, LogOptions
from query_service.admission import DEADLINE_S
from query_service.app import create_app
from query_service.guard import trusted
from query_service.metrics import FOLDER
from query_service.serve import HOST, PORT, listen, settings
from schemas.errors import UserError
from workers.child_processes import prepare
from workers.draw_pages import PageDrawer
from workers.picture_files import MOST_BYTES, PictureFiles

OPTIONS = "INSET_SERVE_OPTIONS"
"""The variable by which workers receive ``ServiceOptions``."""

HEALTH_CHECK_S = 30
"""Time in which a worker answers its supervisor; then it is ended, and another started."""

_STARTUP_FAILURE = 3  # uvicorn's: the supervisor ends too, in place of starting workers for ever
_logger = logging.getLogger("inset.query_service")


class ServiceOptions(BaseModel):
    """The options of ``inset serve`` that make the service; see ``create_app`` and ``access_of``."""

    corpora: list[str] = []
    host: str = HOST
    allow_hosts: list[str] = []
    deadline_s: float = DEADLINE_S
    keys: Path | None = None
    trusted_header: str | None = None
    trusted_proxies: list[str] = []
    is_open: bool = False
    redis: str | None = None
    origins: list[str] = []
    slow_s: float = SLOW_S
    log_questions: bool = False
    page_cache: Path | None = None
    page_cache_mb: int = MOST_BYTES >> 20

    def open(self) -> FastAPI:
        """Return the service of the corpora; where none is named, of all in the corpora folder but those with a wrong file.

        Raises:
            UserError: An option is wrong, a named corpus file is missing or wrong, or there is no corpus.
        """
        access = access_of(
            self.host,
            keys=self.keys,
            header=self.trusted_header,
            proxies=self.trusted_proxies,
            is_open=self.is_open,
            redis=self.redis,
        )
        files = PictureFiles(self.page_cache, self.page_cache_mb << 20) if self.page_cache and self.page_cache_mb else None
        drawer = PageDrawer(files=files)  # shared, so that its processes don't multiply with the corpora
        opened = [open_published(name, drawer) for name in self.corpora] or list(every_published(drawer))
        if not opened:
            raise UserError("there is no corpus to serve; make one with: inset init")
        prepare()
        return create_app(
            {corpus.name: corpus for corpus in sorted(opened, key=lambda corpus: corpus.name)},
            hosts=trusted(self.host, self.allow_hosts),
            deadline_s=self.deadline_s,
            access=access,
            logs=LogOptions(self.slow_s, self.log_questions),
            origins=origins_of(self.origins),
            close=drawer.close,
        )


def serve_workers(workers: int, options: ServiceOptions, port: int = PORT) -> None:
    """Serve by several processes until interrupted.

    ``options`` were opened once: a mistake would be one of each worker.

    Raises:
        UserError: The address can't be bound; nothing has started then.
    """
    listen(options.host, port).close()
    limits_scope = "in all workers together (Redis)" if options.redis else "in each worker, since no --redis is named"
    app, configured = f"{__name__}:worker", settings()
    with tempfile.TemporaryDirectory(prefix="inset-metrics-") as folder:
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
    if supervisor is not None:
        threading.Thread(target=_exit_with_supervisor, args=[supervisor], daemon=True).start()
    try:
        return ServiceOptions.model_validate_json(os.environ[OPTIONS]).open()
    except UserError as error:
        _logger.error(error.message)
        sys.exit(_STARTUP_FAILURE)


def _exit_with_supervisor(supervisor: "multiprocessing.process.BaseProcess") -> None:
    supervisor.join()
    os.kill(os.getpid(), signal.SIGTERM)
