"""The HTTP API over ``PublishedCorpus`` (docs/reference/http-api.md): paths, limits and headers.

Artifacts take a ``version``, by default the live one. HEAD is answered like GET.

Endpoints are plain functions in the thread pool, since index engines block; those that wait for a drawn page, or must always
answer, are coroutines. FastAPI's own documentation pages load scripts from elsewhere and are switched off.
"""

import asyncio
import contextlib
import json
import logging
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware

from pipeline.published.corpus import PublishedCorpus
from query_service import across, agents, browse, errors, feedback, questions, sign_in, telemetry
from query_service.access import CORS, Access, AccessControl
from query_service.admission import DEADLINE_S, Admission, Cost
from query_service.asked import AskedCounts, note_opened
from query_service.errors import one_line
from query_service.guard import LOOPBACK, REFERENCE_POLICY, Guard, TrustedHosts
from query_service.requests import (
    A_VERSION,
    ERRORS,
    BoxText,
    Corpus,
    DocumentId,
    FigureId,
    PageNumber,
    VersionParameter,
    admission_of,
    cache_control,
    corpora_of,
    example,
    file_response,
    only_declared,
    parse_box,
)
from query_service.stream import EVENT_MODELS, as_json
from query_service.telemetry import Metrics, Observed
from query_service.webhooks import Webhooks
from query_service.webhooks import router as webhook_routes
from schemas.answers import AnswerPresetInfo
from schemas.errors import InsetError
from schemas.filters import inputs
from schemas.reports import CorpusOverview, VersionList
from schemas.retrieval import PresetInfo

_logger = logging.getLogger("inset.query_service")

API_VERSION = "2.1.0"
WEB = Path(__file__).parent / "web"

_YEAR_S = 365 * 24 * 3600


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


def _overview(corpus: PublishedCorpus) -> CorpusOverview:
    overview = reply_or_problem(corpus, lambda published: published.overview())
    return CorpusOverview(name=corpus.name, problem=overview) if isinstance(overview, str) else overview


def _binary(media_type: str, description: str) -> dict[str, Any]:
    """Return how a route of an artifact is documented."""
    content = {"content": {media_type: {"schema": {"type": "string", "format": "binary"}}}}
    responses: dict[int | str, dict[str, Any]] = {
        200: {"description": description, **content},
        304: {"description": "The client has it already, as if-none-match says."},
    }
    if media_type == "application/pdf":
        responses[206] = {"description": "The part that the range header names.", **content}
        responses[416] = {"description": "The range is beyond the end."}
    return {"tags": ["artifacts"], "response_class": Response, "responses": responses}


_A_TIME = datetime(2026, 3, 1, 6, 20, tzinfo=UTC)
_A_CORPUS = CorpusOverview(name="handbooks", version=A_VERSION, since=_A_TIME, documents=120, pages=8400, rows=31000)

_listing = APIRouter(responses={code: ERRORS[code] for code in (401, 403, 429)})
_v1 = APIRouter(prefix="/v1/corpora", responses=ERRORS)


@_listing.get("/v1/corpora", tags=["corpora"], responses=example([_A_CORPUS.model_dump(mode="json")]))
def corpora(request: Request) -> list[CorpusOverview]:
    """A summary of every corpus; ``problem`` says why one can't be searched now."""
    return [_overview(corpus) for corpus in corpora_of(request).values()]


@_v1.get("/{corpus}", tags=["corpora"])
def overview(corpus: Corpus) -> CorpusOverview:
    """A summary of the live version of a corpus."""
    return corpus.overview()


@_v1.get("/{corpus}/presets", tags=["corpora"])
def presets(corpus: Corpus, version: VersionParameter = None) -> list[PresetInfo]:
    """The retrieval presets of a corpus, its default first; ``missing`` is what the version lacks for one."""
    return corpus.presets(version)


@_v1.get("/{corpus}/versions", tags=["corpora"], response_model=VersionList)
def versions(request: Request, corpus: Corpus) -> Response:
    """A corpus's versions, newest first. Requests can name any that is live or ready."""
    return file_response(request, as_json(corpus.versions()).encode(), "application/json", {})


@_v1.get("/{corpus}/answers", tags=["corpora"])
def answers(corpus: Corpus, version: VersionParameter = None) -> list[AnswerPresetInfo]:
    """The answer presets of a corpus, its default first; ``missing`` is what the corpus file or the version lacks for one."""
    return corpus.answer_presets(version)


@_v1.get(
    "/{corpus}/figures/{figure_id}",
    **_binary("image/png", "The figure's pixels."),
)
def figure(request: Request, corpus: Corpus, figure_id: FigureId, version: VersionParameter = None) -> Response:
    """A figure. Its id is a digest of its pixels, so with a version it never changes and may be cached for good."""
    with corpus.opened(version) as opened:
        body = opened.figure(figure_id)
    headers = {
        "cache-control": cache_control(version, f"public, max-age={_YEAR_S}, immutable"),
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'",
    }
    return file_response(request, body, "image/png", headers)


@_v1.get(
    "/{corpus}/documents/{doc_id}/pages/{page}.png",
    **_binary("image/png", "The page."),
)
async def page_image(
    request: Request,
    corpus: Corpus,
    doc_id: DocumentId,
    page: PageNumber,
    box: Annotated[
        list[BoxText] | None,
        Query(
            max_length=50, description="A box to highlight: x0,y0,x1,y1 in PDF points from the top left. May be repeated."
        ),
    ] = None,
    dpi: Annotated[int, Query(ge=36, le=200)] = 110,
    version: VersionParameter = None,
) -> Response:
    """A page of a document as an image with highlighted boxes.

    422: the page is too large or takes too long to draw. 503: too many pages are waiting.
    """

    def draw(stopped: Callable[[], bool]) -> bytes:
        with corpus.opened(version) as opened:
            if box:
                note_opened(request, corpus.name, opened.version, doc_id)
            drawing = opened.drawing(doc_id, page, [parse_box(text) for text in box or []], dpi)
        return corpus.drawer.draw(drawing, stopped)

    body = await admission_of(request).reply(request, Cost.DRAWING, draw)
    return file_response(request, body, "image/png", {"cache-control": cache_control(version)})


@_v1.get(
    "/{corpus}/documents/{doc_id}.pdf",
    **_binary("application/pdf", "The PDF."),
)
def document(request: Request, corpus: Corpus, doc_id: DocumentId, version: VersionParameter = None) -> Response:
    """A document's PDF: the original, or what a document in another format was converted into.

    A browser opens it at page 12 with ``#page=12``.
    """
    with corpus.opened(version) as opened:
        pdf = opened.document(doc_id)
        note_opened(request, corpus.name, opened.version, doc_id)
        return _pdf(request, *pdf, version)


@_v1.get(
    "/{corpus}/documents/{doc_id}/original",
    **_binary("application/octet-stream", "The original, byte for byte."),
)
def original(request: Request, corpus: Corpus, doc_id: DocumentId, version: VersionParameter = None) -> Response:
    """A document's own bytes, in its own format, as a download."""
    with corpus.opened(version) as opened:
        body, file_name = opened.original(doc_id)
    headers = {
        "content-disposition": _disposition("attachment", file_name),
        "cache-control": cache_control(version),
    }
    return file_response(request, body, "application/octet-stream", headers, ranges=True)


@_v1.get(
    "/{corpus}/documents/{doc_id}/tagged.pdf",
    **_binary("application/pdf", "The copy with its tags."),
)
def tagged_document(request: Request, corpus: Corpus, doc_id: DocumentId, version: VersionParameter = None) -> Response:
    """A copy of the PDF with a tag at each figure, where ``tagged_pdf`` of a hit or citation is true.

    Its pages are those of the original, so ``#page=12`` works here too.
    """
    with corpus.opened(version) as opened:
        return _pdf(request, *opened.tagged_document(doc_id), version)


def _pdf(request: Request, body: bytes, file_name: str, version: str | None) -> Response:
    headers = {
        "content-disposition": _disposition("inline", file_name),
        # With default-src, the PDF viewer of some browsers shows nothing.
        "content-security-policy": "frame-ancestors 'none'",
        "cache-control": cache_control(version),
    }
    return file_response(request, body, "application/pdf", headers, ranges=True)


_operations = APIRouter()


@_operations.get("/healthz", tags=["operations"], responses=example({"status": "up"}))
async def healthz() -> Health:
    """The process is up; index and store are not checked."""
    return Health()


@_operations.get(
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


_pages = APIRouter(include_in_schema=False)


@_pages.get("/")
def index_page() -> FileResponse:
    """The web page."""
    return FileResponse(WEB / "index.html")


@_pages.get("/static/filters.js")
def filters_module() -> Response:
    """The table of filters, as a module of the web page."""
    return Response(f"export default {json.dumps(inputs())};\n", media_type="text/javascript")


@_pages.get("/api")
def api_page() -> FileResponse:
    """The reference of this API, drawn from /openapi.json."""
    return FileResponse(WEB / "api.html", headers={"content-security-policy": REFERENCE_POLICY})


class _Service(FastAPI):
    contract: ClassVar[dict[str, Any]] = {}
    """The OpenAPI document of every service of this process: their routes are the same. It takes 0.2 s."""

    def openapi(self) -> dict[str, Any]:
        if self.contract:
            return self.contract
        contract = errors.describe_problems(super().openapi())
        contract["components"]["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer", "description": "A key or a token, where the service needs one."},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "A key."},
        }
        contract["security"] = [{"bearer": []}, {"header": []}, {}]
        schemas = contract["components"]["schemas"]
        schemas.update((name, schema) for name, schema in EVENT_MODELS.items() if name not in schemas)
        self.contract.update(contract)
        return self.contract


def create_app(
    corpora: Mapping[str, PublishedCorpus],
    *,
    hosts: Sequence[str] = (),
    deadline_s: float = DEADLINE_S,
    access: Access | None = None,
    logs_questions: bool = False,
    origins: Sequence[str] = (),
    webhooks: Webhooks | None = None,
    close: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Return the service.

    Args:
        corpora: The corpora to serve, by name.
        hosts: Host names of the service besides those of loopback: ``example.org``, ``*.example.org``, or ``*`` for any.
        deadline_s: Time for a search; an answer may take ``ANSWER_DEADLINES`` times as long.
        access: Who may ask; everyone where None.
        logs_questions: Whether the text of questions is logged.
        origins: Origins whose pages may call the service, such as ``https://example.org``.
        webhooks: What sends them; None for none.
        close: Called when the service ends.
    """
    check, admission, access = ReadinessCheck(corpora), Admission(deadline_s), access or Access()
    app = _Service(
        title="Inset",
        version=API_VERSION,
        summary="Search and answers over published corpora of technical PDFs, every figure in its place.",
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
        lifespan=partial(_lifespan, close=close),
        redirect_slashes=False,  # behind TLS the redirect leads to http://, and takes the key along in clear
        dependencies=[Depends(only_declared)],
    )
    measured = app.state.metrics = Metrics()
    measured.watch(corpora, lambda: admission.waiting)
    app.state.corpora, app.state.check, app.state.admission, app.state.access = corpora, check, admission, access
    app.state.asked, app.state.webhooks = AskedCounts(corpora), webhooks or Webhooks(corpora, access, None)
    errors.install(app)
    # The last one added is outermost. CORS stands before access, since a browser's preflight has no key.
    app.add_middleware(AccessControl, access=access)
    if access.provider is not None:
        app.add_middleware(sign_in.Sessions, is_https=access.is_https)
    app.add_middleware(
        GZipMiddleware,
        minimum_size=1024,
        compresslevel=5,
        exclude_content_types=(*DEFAULT_EXCLUDED_CONTENT_TYPES, "application/pdf"),
    )
    app.add_middleware(CORSMiddleware, allow_origins=origins, **CORS)
    app.add_middleware(TrustedHosts, names=[*LOOPBACK, *hosts])
    app.add_middleware(Guard)
    app.add_middleware(Observed, metrics=measured, logs_questions=logs_questions, client_of=access.client)
    questioning = (questions.router, across.router, browse.router, feedback.router, webhook_routes)
    for router in (_listing, _v1, *questioning, _operations, telemetry.router, _pages):
        app.include_router(router)
    app.router.routes += [agents.ROUTE, *sign_in.ROUTES]
    app.mount("/static", StaticFiles(directory=WEB), name="static")
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI, close: Callable[[], None]) -> AsyncIterator[None]:
    async def warm_up() -> None:
        """Load models and indexes before the first request, then what agents need."""
        await run_in_threadpool(app.state.check.problems)
        await agents.run(app)

    state = app.state
    tasks = [asyncio.create_task(task) for task in (warm_up(), state.asked.keep_on(), state.webhooks.send_on())]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.to_thread(state.asked.keep)
    state.admission.close()
    await state.access.limits.close()
    await asyncio.to_thread(close)  # the other threads may all be at work


_DIRECTING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Controls of the direction of text: a file's name could show another extension than it has."""


def _disposition(kind: str, file_name: str) -> str:
    file_name = _DIRECTING.sub("_", file_name)
    plain = "".join(
        character if character.isascii() and character.isprintable() and character not in '"\\%' else "_"
        for character in file_name
    )
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(file_name, safe='')}"
