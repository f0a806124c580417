"""Whether the service is up, and which corpora can be searched: ``/healthz`` and ``/readyz``."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from pipeline.published.corpus import PublishedCorpus
from query_service.errors import one_line
from query_service.routes import corpora_of, example
from schemas.errors import InsetError

_logger = logging.getLogger("inset.query_service")

Reply = TypeVar("Reply")


def reply_or_problem(corpus: PublishedCorpus, call: Callable[[PublishedCorpus], Reply]) -> Reply | str:
    """Return a corpus's reply, or the reason why there is none: a broken corpus must not hide the others."""
    try:
        return call(corpus)
    except InsetError as error:
        return one_line(error.message)
    except Exception:
        _logger.exception("corpus %s can't be opened", corpus.name)
        return "it can't be opened; the service's log says why"


READY_S = 5.0
"""Time for which the result of a readiness check is used again."""


class ReadinessCheck:
    """The latest readiness check of every corpus; one runs at a time."""

    def __init__(self, corpora: Mapping[str, PublishedCorpus]) -> None:
        self._corpora = corpora
        self._lock = threading.Lock()
        self._problems: dict[str, str] | None = None
        self._valid_until = 0.0

    def problems(self) -> dict[str, str]:
        """Search each corpus once, unless that was done just now or is being done; return why some can't be searched."""
        if time.monotonic() >= self._valid_until and self._lock.acquire(blocking=False):
            try:
                problem_by_name = {
                    name: reply_or_problem(corpus, lambda published: published.ready())
                    for name, corpus in self._corpora.items()
                }
                self._problems = {name: problem for name, problem in problem_by_name.items() if problem is not None}
                self._valid_until = time.monotonic() + READY_S
            finally:
                self._lock.release()
        return (
            dict.fromkeys(self._corpora, "models and index are being loaded") if self._problems is None else self._problems
        )


class Health(BaseModel):
    """The process is up."""

    status: str = "up"


class Readiness(BaseModel):
    """Whether a corpus can be searched, and why others can't."""

    ready: bool = Field(description="Whether at least one corpus can be searched.")
    reasons: dict[str, str] = Field(description="One line for each corpus that can't be searched yet.")


router = APIRouter()


@router.get("/healthz", tags=["operations"], responses=example({"status": "up"}))
async def healthz() -> Health:
    """The process is up; index and store are not checked."""
    return Health()


@router.get(
    "/readyz",
    tags=["operations"],
    responses={
        **example({"ready": True, "reasons": {}}),
        503: {"model": Readiness, "description": "No corpus can be searched."},
    },
)
def readyz(request: Request, response: Response) -> Readiness:
    """Whether a corpus has a live version that can be searched; each is searched every few seconds at most."""
    corpora = corpora_of(request)
    problems = request.app.state.check.problems()
    reasons = {name: problem for name, problem in problems.items() if name in corpora}
    if len(reasons) < len(problems):
        reasons["*"] = "a corpus that this request may not see can't be searched"
    elif not request.app.state.corpora:
        reasons["*"] = "no corpus is configured"
    is_ready = len(problems) < len(request.app.state.corpora)
    if not is_ready:
        response.status_code = 503
    response.headers["cache-control"] = "no-store"
    return Readiness(ready=is_ready, reasons=reasons)
