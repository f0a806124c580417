"""The read side over HTTP. Thin: every answer comes from a ``PublishedCorpus``; here are only paths, limits and headers.

::

    POST /v1/corpora/{corpus}/search      evidence, best first
    POST /v1/corpora/{corpus}/answer      an answer with figures in place and citations
    GET  /v1/corpora                      every corpus served here, at a glance
    GET  /v1/corpora/{corpus}             one of them
    GET  /v1/corpora/{corpus}/versions
    GET  /v1/corpora/{corpus}/presets     every way to search it, and what its version lacks for some
    GET  /v1/corpora/{corpus}/answers     every way to answer from it, and what is lacking for some
    GET  /v1/presets                      those that Inset brings
    GET  /v1/corpora/{corpus}/figures/{figure_id}
    GET  /v1/corpora/{corpus}/figures/{figure_id}/similar?by=vector&k=10
    GET  /v1/corpora/{corpus}/documents/{doc_id}.pdf
    GET  /v1/corpora/{corpus}/documents/{doc_id}/tagged.pdf
    GET  /v1/corpora/{corpus}/documents/{doc_id}/pages/{page}.png?box=x0,y0,x1,y1&dpi=110
    GET  /healthz, /readyz, /openapi.json
    GET  /, /api                          the web page, and the reference of this API

Artifacts take a ``version`` too, and are found only where that version, or else the live one, holds them. HEAD is answered like
GET.

Most endpoints are plain functions, so they run in the thread pool: index engines block. Those that wait for a page to be drawn,
or must answer whatever else goes on, don't take a thread. FastAPI's own documentation pages load scripts from elsewhere and are
switched off.
"""

import asyncio
import base64
import contextlib
import hashlib
import logging
import math
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast
from urllib.parse import quote

from fastapi import APIRouter, Depends, FastAPI, Header, Request, Response
from fastapi import Path as PathParameter
from fastapi import Query as QueryParameter
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, StreamingResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from pipeline.published.corpus import PublishedCorpus
from pipeline.published.files import Box
from query_service import errors
from query_service.errors import ErrorBody, one_line
from query_service.guard import PICTURE_LIMIT, Guard
from query_service.hosts import LOOPBACK, TrustedHosts
from query_service.stream import as_server_sent, events_of, gone
from schemas.answer_presets import AnswerPresetInfo, AnswerSettings
from schemas.answers import AnswerFinished, AnswerResult
from schemas.errors import InsetError, NotFoundError
from schemas.evidence import Filters, Resemblance, SearchResult, SimilarFigures
from schemas.overview import CorpusOverview
from schemas.retrieval import AnswerQuery, ChangedSteps, GroupBy, PresetInfo, Query
from schemas.versions import VersionList
from tasks.answering.presets import packaged, preset_info

API_VERSION = "1.0.0"
QUERY_LIMIT = 2000
"""Characters a question may have."""

WEB = Path(__file__).parent / "web"

_logger = logging.getLogger("inset.query_service")

_DIGEST = r"^[0-9a-f]{64}$"
_VERSION = r"^[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}$"
_YEAR_S = 365 * 24 * 3600
_DAY_S = 24 * 3600


def _is_box(written: str) -> str:
    _box(written)
    return written


def _box(written: str) -> Box:
    try:
        x0, y0, x1, y1 = (float(number) for number in written.split(","))
    except ValueError:
        raise ValueError("a box is four numbers, x0,y0,x1,y1 in PDF points") from None
    if not all(math.isfinite(number) and abs(number) <= 1e6 for number in (x0, y0, x1, y1)) or x1 < x0 or y1 < y0:
        raise ValueError("a box is x0,y0,x1,y1 in PDF points, x0 ≤ x1 and y0 ≤ y1")
    return x0, y0, x1, y1


CorpusName = Annotated[str, PathParameter(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
DocumentId = Annotated[str, PathParameter(pattern=_DIGEST, description="SHA-256 of the PDF, in hex.")]
FigureId = Annotated[str, PathParameter(pattern=_DIGEST, description="SHA-256 of the figure's pixels, in hex.")]
PageNumber = Annotated[int, PathParameter(ge=1, le=100_000, description="From 1.")]
VersionName = Annotated[str, StringConstraints(pattern=_VERSION)]
VersionParameter = Annotated[
    str | None, QueryParameter(pattern=_VERSION, description="The version that it is found in; without it the live one.")
]
Question = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=QUERY_LIMIT)]
BoxText = Annotated[str, StringConstraints(max_length=120), AfterValidator(_is_box)]


PresetName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,59}$")]
Changes = Annotated[
    ChangedSteps, Field(description='Steps of the preset that are otherwise this time: {"select": {"diversity": 0.5}}.')
]


_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


def _decoded(written: str) -> bytes:
    try:
        picture = base64.b64decode(written, validate=True)
    except ValueError:
        raise ValueError("a picture is base64 of a file, without a media type before it") from None
    if not 0 < len(picture) <= PICTURE_LIMIT:
        raise ValueError(f"a picture has {PICTURE_LIMIT // 1024**2} MiB at most, and isn't empty")
    return picture


Picture = Annotated[
    bytes,
    BeforeValidator(lambda written: _decoded(written) if isinstance(written, str) else written),
    WithJsonSchema({"type": "string", "contentEncoding": "base64", "minLength": 4, "pattern": _BASE64}),
]


class SearchRequest(BaseModel):
    """What to look for. Without ``version`` the live one is searched.

    Page after page is the ``version`` of the first reply, and an ``offset`` that grows by ``k``: no hit comes twice or is left
    out, whatever is published meanwhile.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "anyOf": [
                {"required": ["query"], "properties": {"query": {"type": "string", "minLength": 1, "pattern": r"\S"}}},
                {"required": ["picture"], "properties": {"picture": {"type": "string"}}},
            ]
        },
    )

    query: Annotated[str, StringConstraints(strip_whitespace=True, max_length=QUERY_LIMIT)] = Field(
        "", description="In plain words; may be left out where there is a picture."
    )
    picture: Picture | None = Field(
        None,
        description="PNG, JPEG, WebP, GIF or BMP in base64, 8 MiB and 25 million pixels at most, to be searched by alone or with "
        "the words. Where no preset is named, the first that looks at pictures is taken, unless the default does.",
    )
    preset: PresetName | None = Field(
        None,
        validation_alias=AliasChoices("preset", "mode"),
        description="How to search, as /v1/corpora/{corpus}/presets lists it; null is the corpus's default. mode is its "
        "earlier name.",
    )
    steps: Changes = ChangedSteps()
    k: int | None = Field(None, ge=1, le=100, description="Hits at most; as the preset says, or 10, where none is given.")
    offset: int = Field(0, ge=0, le=100, description="Hits to leave out at the beginning.")
    filters: Filters = Filters()
    version: VersionName | None = None
    group: GroupBy | None = Field(
        None,
        description="Return the best hit of each page or document; k and offset count those, and more says how many follow.",
    )
    highlight: bool = Field(
        False, description="Say of each hit which sentence is nearest to the query in meaning, which takes time for each."
    )
    trace: bool = Field(False, description="Return what each step did, too.")

    @model_validator(mode="after")
    def _asks(self) -> "SearchRequest":
        if not self.query and self.picture is None:
            raise ValueError("give a query, a picture, or both")
        return self

    def as_query(self) -> Query:
        """Return the query that it stands for."""
        return Query(
            text=self.query,
            picture=self.picture,
            preset=self.preset,
            steps=self.steps.given,
            k=self.k,
            offset=self.offset,
            filters=self.filters,
            version=self.version,
            group_by=self.group,
            highlight=self.highlight,
            trace=self.trace,
        )


class AnswerRequest(BaseModel):
    """What to answer. Without ``version`` the live one is asked."""

    model_config = ConfigDict(extra="forbid")

    question: Question
    answer: PresetName | None = Field(
        None, description="How to answer, as /v1/corpora/{corpus}/answers lists it; null is the corpus's default."
    )
    settings: Annotated[
        AnswerSettings, Field(description='Settings of the answer preset that are overridden: {"max_images": 4}.')
    ] = AnswerSettings()
    preset: PresetName | None = Field(
        None, description="How passages are retrieved; null: as the answer preset says, or else the corpus's default."
    )
    steps: Changes = ChangedSteps()
    picture: Picture | None = Field(
        None,
        description="A picture in base64 that goes with the question, as for a search; the retrieval preset has to look at it.",
    )
    filters: Filters = Filters()
    version: VersionName | None = None
    stream: bool = Field(False, description="Send the answer as server-sent events while it is written.")
    trace: bool = Field(False, description="Return what each step did, too.")

    def as_query(self) -> AnswerQuery:
        """Return the query that it stands for."""
        return AnswerQuery(
            text=self.question,
            answer=self.answer,
            settings=self.settings.model_dump(exclude_unset=True),
            preset=self.preset,
            steps=self.steps.given,
            picture=self.picture,
            filters=self.filters,
            version=self.version,
            trace=self.trace,
        )


class Health(BaseModel):
    """The process is up."""

    status: str = "up"


class Readiness(BaseModel):
    """Whether every corpus can be searched, and why one can't."""

    ready: bool
    reasons: dict[str, str] = Field(description="One line for each corpus that can't be searched yet.")


Reply = TypeVar("Reply")


class _Served:
    """The corpora that an app was made for."""

    def __init__(self, open_corpus: Callable[[str], PublishedCorpus], corpora: Callable[[], list[str]]) -> None:
        self.open = open_corpus
        self.names = corpora

    def named(self, name: str) -> PublishedCorpus:
        names = self.names()
        if name not in names:
            known = f"served here: {', '.join(names)}" if names else "none is served here"
            raise NotFoundError(f"there is no corpus '{name}'; {known}")
        return self.open(name)

    def overview(self, name: str) -> CorpusOverview:
        found = self._asked(name, lambda corpus: corpus.overview())
        return CorpusOverview(name=name, problem=found) if isinstance(found, str) else found

    def obstacle(self, name: str) -> str | None:
        return self._asked(name, lambda corpus: corpus.ready())

    def _asked(self, name: str, ask: Callable[[PublishedCorpus], Reply]) -> Reply | str:
        """Return a corpus's reply, or why there is none, in one line: one corpus out of order must not hide the others."""
        try:
            return ask(self.open(name))
        except InsetError as error:
            return one_line(error.message)
        except Exception:
            _logger.exception("corpus %s can't be opened", name)
            return "it can't be opened; the service's log says why"


def _served(request: Request) -> _Served:
    return cast(_Served, request.app.state.served)


def _opened(request: Request, corpus: CorpusName) -> PublishedCorpus:
    return _served(request).named(corpus)


Opened = Annotated[PublishedCorpus, Depends(_opened)]

_SAID: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorBody, "description": "A mistake that only the corpus can see, such as a filter it doesn't know."},
    404: {"model": ErrorBody, "description": "No such corpus, version, document, page or figure."},
    422: {"model": ErrorBody, "description": "The request is not well-formed."},
    503: {"model": ErrorBody, "description": "The index or the store does not answer now; try again."},
}


def _binary(media_type: str, description: str) -> dict[int | str, dict[str, Any]]:
    schema = {"type": "string", "format": "binary"}
    return {200: {"description": description, "content": {media_type: {"schema": schema}}}}


_EVENTS = {  # before OpenAPI 3.2, the schema of an event stream describes one event
    "schema": {
        "type": "object",
        "required": ["event", "data"],
        "properties": {
            "event": {"enum": ["start", "text", "part", "result", "error"]},
            "data": {"type": "string", "contentMediaType": "application/json"},
        },
    }
}

_listing = APIRouter()
_operations = APIRouter()
_v1 = APIRouter(prefix="/v1/corpora", responses=_SAID)


@_listing.get("/v1/corpora", tags=["corpora"])
def corpora(request: Request) -> list[CorpusOverview]:
    """Every corpus served here, at a glance; one that can't be searched now says so in ``problem``."""
    served = _served(request)
    return [served.overview(name) for name in served.names()]


@_v1.get("/{corpus}", tags=["corpora"])
def overview(corpus: Opened) -> CorpusOverview:
    """What the live version of a corpus holds."""
    return corpus.overview()


@_listing.get("/v1/presets", tags=["corpora"])
def packaged_presets() -> list[PresetInfo]:
    """The ways to search that Inset brings, the default first; a corpus may have more, and may lack what some of them need."""
    return [preset_info(preset) for preset in packaged().values()]


@_v1.get("/{corpus}/presets", tags=["corpora"])
def presets(corpus: Opened, version: VersionParameter = None) -> list[PresetInfo]:
    """Every way to search a corpus, its default first; ``missing`` is what the version lacks for one."""
    return corpus.presets(version)


@_v1.get("/{corpus}/versions", tags=["corpora"])
def versions(corpus: Opened) -> VersionList:
    """A corpus's versions, newest first. Any that is live or ready can be named in a search, an answer or a document."""
    return corpus.versions()


@_v1.post("/{corpus}/search", tags=["questions"])
def search(corpus: Opened, asked: SearchRequest) -> SearchResult:
    """Evidence for a query, best first: chunks of text, tables and figures, each with its page and bbox."""
    return corpus.search(asked.as_query())


@_v1.post(
    "/{corpus}/answer",
    tags=["questions"],
    response_model=AnswerResult,
    responses={200: {"description": "The answer, or its events.", "content": {"text/event-stream": _EVENTS}}},
)
async def answer(request: Request, corpus: Opened, asked: AnswerRequest) -> Response:
    """An answer as an ordered list of parts, words, tables and figures, each with its citations.

    ``abstained`` is true, and ``parts`` is empty, where nothing in the version answers. With ``stream``, or where the request
    accepts ``text/event-stream``, the answer comes as server-sent events while it is written: ``start``, then ``text`` (more
    words of a part) and ``part`` (a whole part, in place of its words), and ``result`` at last, which is the whole answer and
    replaces what came before; or ``error``. A client that leaves ends the calls of models.
    """
    events = events_of(request, lambda stopped: corpus.answer_events(asked.as_query(), stopped))
    if asked.stream or "text/event-stream" in request.headers.get("accept", ""):
        first = await anext(events, None)  # what is wrong with a request is an error as anywhere
        if first is None:
            return Response()
        return StreamingResponse(
            as_server_sent(first, events), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )
    async for event in events:
        if isinstance(event, AnswerFinished):
            return Response(event.result.model_dump_json(), media_type="application/json")
    return Response()  # the client has left


@_v1.get("/{corpus}/answers", tags=["corpora"])
def answers(corpus: Opened, version: VersionParameter = None) -> list[AnswerPresetInfo]:
    """Every way to answer, a corpus's default first; ``missing`` is what the corpus file or the version lacks for one."""
    return corpus.answer_presets(version)


@_v1.get(
    "/{corpus}/figures/{figure_id}",
    tags=["artifacts"],
    response_class=Response,
    responses={**_binary("image/*", "The figure's pixels."), 304: {"description": "The caller has them already."}},
)
def figure(
    corpus: Opened,
    figure_id: FigureId,
    version: VersionParameter = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """A figure. Its id is a digest of its pixels, so what a version holds under it never changes and may be kept for good."""
    body, media_type = corpus.files.figure(figure_id, version=version)
    etag = f'"{hashlib.sha256(body).hexdigest()}"'
    headers = {
        "etag": etag,
        "cache-control": _kept(version, f"public, max-age={_YEAR_S}, immutable"),
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'",
    }
    if if_none_match is not None and _matches(if_none_match, etag):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=media_type, headers=headers)


@_v1.get("/{corpus}/figures/{figure_id}/similar", tags=["questions"])
def similar(
    corpus: Opened,
    figure_id: FigureId,
    by: Annotated[
        Resemblance,
        QueryParameter(
            description="vector: by what it shows, or by what is said of it where the version has no vectors of pictures; the "
            "reply says which. hash: by its look, as a perceptual hash sees it."
        ),
    ] = "vector",
    k: Annotated[int, QueryParameter(ge=1, le=100, description="Figures at most.")] = 10,
    version: VersionParameter = None,
) -> SimilarFigures:
    """Figures like one, best first, each once.

    The first time that a version's figures are compared by hash takes a while: 503 says how far that is.
    """
    return corpus.similar(figure_id, by=by, k=k, version=version)


def _kept(version: str | None, how_long: str = f"public, max-age={_DAY_S}") -> str:
    """Say how long an artifact may be kept: without a version it is asked for again, since another may be live by then."""
    return how_long if version is not None else "no-cache"


@_v1.get(
    "/{corpus}/documents/{doc_id}/pages/{page}.png",
    tags=["artifacts"],
    response_class=Response,
    responses=_binary("image/png", "The page."),
)
async def page_image(
    request: Request,
    corpus: Opened,
    doc_id: DocumentId,
    page: PageNumber,
    box: Annotated[
        list[BoxText] | None,
        QueryParameter(
            max_length=50, description="x0,y0,x1,y1 in PDF points from the top left: highlighted. May be repeated."
        ),
    ] = None,
    dpi: Annotated[int, QueryParameter(ge=36, le=200)] = 110,
    version: VersionParameter = None,
) -> Response:
    """A page of a document as an image, cited boxes highlighted.

    Drawing is bounded: 422 says that a page is too large or takes too long, 503 that too many are waiting.
    """
    boxes = [_box(written) for written in box or []]
    drawing = await run_in_threadpool(corpus.files.page_image, doc_id, page, highlight=boxes, dpi=dpi, version=version)
    body = await _unless_gone(request, drawing)
    if body is None:
        return Response(status_code=_CLIENT_GONE)
    return Response(body, media_type="image/png", headers={"cache-control": _kept(version)})


_CLIENT_GONE = 499  # nobody reads it; as nginx logs it


async def _unless_gone(request: Request, made: "Future[bytes]") -> bytes | None:
    """Wait for what is being made; None where the client goes first, and then it is cancelled."""
    result = asyncio.wrap_future(made)
    leaving = asyncio.ensure_future(gone(request))
    first: set[asyncio.Future[Any]] = {result, leaving}
    try:
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        return result.result() if result.done() else None
    finally:
        leaving.cancel()
        result.cancel()


@_v1.get(
    "/{corpus}/documents/{doc_id}.pdf",
    tags=["artifacts"],
    response_class=Response,
    responses=_binary("application/pdf", "The original, byte for byte."),
)
def document(corpus: Opened, doc_id: DocumentId, version: VersionParameter = None) -> Response:
    """The original PDF, to be shown in the browser; ``#page=12`` behind the address opens it there."""
    return _pdf(*corpus.files.document(doc_id, version=version), version)


@_v1.get(
    "/{corpus}/documents/{doc_id}/tagged.pdf",
    tags=["artifacts"],
    response_class=Response,
    responses=_binary("application/pdf", "The copy with its tags."),
)
def tagged_document(corpus: Opened, doc_id: DocumentId, version: VersionParameter = None) -> Response:
    """A copy of the PDF in which every figure's tag is written at its place, where ``tagged_pdf`` of a hit or citation is true.

    ``#page=12`` behind the address opens it there: its pages are the original's.
    """
    return _pdf(*corpus.files.tagged_document(doc_id, version=version), version)


def _pdf(body: bytes, file_name: str, version: str | None) -> Response:
    headers = {
        "content-disposition": _inline(file_name),
        # A policy with default-src would keep some browsers' own PDF viewer from drawing.
        "content-security-policy": "frame-ancestors 'none'",
        "cache-control": _kept(version),
    }
    return Response(body, media_type="application/pdf", headers=headers)


@_operations.get("/healthz", tags=["operations"])
async def healthz() -> Health:
    """The process is up. Asks nothing of the index or the store, nor for a thread."""
    return Health()


@_operations.get(
    "/readyz",
    tags=["operations"],
    responses={503: {"model": Readiness, "description": "Not every corpus can be searched."}},
)
def readyz(request: Request, response: Response) -> Readiness:
    """Whether every configured corpus has a live version that answers: each is asked one question."""
    served = _served(request)
    names = served.names()
    reasons = {name: reason for name in names if (reason := served.obstacle(name)) is not None}
    if not names:
        reasons["*"] = "no corpus is configured"
    if reasons:
        response.status_code = 503
    response.headers["cache-control"] = "no-store"
    return Readiness(ready=not reasons, reasons=reasons)


_pages = APIRouter(include_in_schema=False)


@_pages.get("/")
def index_page() -> FileResponse:
    """The web page."""
    return FileResponse(WEB / "index.html")


@_pages.get("/api")
def api_page() -> FileResponse:
    """The reference of this API, drawn from /openapi.json."""
    return FileResponse(WEB / "api.html")


def create_app(
    open_corpus: Callable[[str], PublishedCorpus],
    corpora: Callable[[], list[str]],
    *,
    hosts: Sequence[str] = (),
    close: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Return the service.

    Args:
        open_corpus: Opens a corpus by name. Called once a request, from several threads, so it should be cheap: what is
            heavy belongs in a cache of its own.
        corpora: Names of the corpora to serve; asked at each request, so the set may change while the service runs.
        hosts: Names that it goes by, beside those of this machine itself: ``example.org``, ``*.example.org``, or ``*`` for any.
        close: Called when the service ends.
    """
    served = _Served(open_corpus, corpora)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        # Models and indexes are loaded by the first question, so that none of a person's is the first.
        asked = asyncio.create_task(run_in_threadpool(lambda: [served.obstacle(name) for name in served.names()]))
        yield
        await asked
        await run_in_threadpool(close)

    app = FastAPI(
        title="Inset",
        version=API_VERSION,
        summary="Search and answers over published corpora of technical PDFs, every figure in its place.",
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=_operation_id,
        lifespan=lifespan,
    )
    app.state.served = served
    errors.install(app)
    app.add_middleware(TrustedHosts, names=[*LOOPBACK, *hosts])
    app.add_middleware(Guard)
    for router in (_listing, _v1, _operations, _pages):
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=WEB), name="static")
    return app


def _operation_id(route: APIRoute) -> str:
    return route.name


def _matches(if_none_match: str, etag: str) -> bool:
    return any(tag.strip().removeprefix("W/") in {etag, "*"} for tag in if_none_match.split(","))


def _inline(file_name: str) -> str:
    plain = "".join(
        character if character.isascii() and character.isprintable() and character not in '"\\%' else "_"
        for character in file_name
    )
    return f"inline; filename=\"{plain}\"; filename*=UTF-8''{quote(file_name, safe='')}"
