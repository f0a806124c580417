"""Parameters and bodies of requests, and what routes share: the corpus that a path names, errors, caching, files with ranges."""

import base64
import hashlib
import math
import re
import unicodedata
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, cast

from fastapi import Depends, Request, Response
from fastapi import Path as PathParameter
from fastapi import Query as QueryParameter
from fastapi.routing import APIRoute
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from starlette.exceptions import HTTPException

from pipeline.published.corpus import PublishedCorpus
from query_service.access import caller_of, note_rights, visible
from query_service.admission import Admission
from query_service.errors import Problem
from query_service.guard import BODY_LIMIT, PICTURE_LIMIT
from query_service.telemetry import note_corpus
from schemas.answers import AnswerSettings
from schemas.errors import NotFoundError
from schemas.filters import Filters
from schemas.geometry import Box
from schemas.retrieval import AnswerQuery, ChangedSteps, GroupBy, Query, Turn

QUERY_LIMIT = 2000
"""Maximum characters of a query or question."""

_UNSEEN = "\u115f\u1160\u2800\u3164\uffa0"
"""Fillers and the blank Braille pattern: Unicode has them as letters and symbols, and nobody sees them."""


def _visible(text: str) -> str:
    """Strip a text whose length is checked, since the length in a schema is that of what is sent."""
    text = text.strip()
    if text and not any(unicodedata.category(character)[0] in "LNPS" and character not in _UNSEEN for character in text):
        raise ValueError("write words: there are only characters that can't be seen")
    return text


DIGEST = r"^[0-9a-f]{64}$"
_A_DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
A_VERSION = "20260301T061502Z-1a2b3c4d"
VERSION = r"^[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}$"


def _is_box(text: str) -> str:
    parse_box(text)
    return text


def parse_box(text: str) -> Box:
    """Return the box ``x0,y0,x1,y1``; raise ``ValueError`` if it is none."""
    try:
        x0, y0, x1, y1 = (float(number) for number in text.split(","))
    except ValueError:
        raise ValueError("a box is four numbers, x0,y0,x1,y1 in PDF points") from None
    if not all(math.isfinite(number) and abs(number) <= 1e6 for number in (x0, y0, x1, y1)) or x1 < x0 or y1 < y0:
        raise ValueError("a box is x0,y0,x1,y1 in PDF points, x0 ≤ x1 and y0 ≤ y1")
    return x0, y0, x1, y1


CorpusName = Annotated[str, PathParameter(examples=["handbooks"])]
DocumentId = Annotated[str, PathParameter(pattern=DIGEST, description="SHA-256 of the PDF, in hex.", examples=[_A_DIGEST])]
FigureId = Annotated[
    str, PathParameter(pattern=DIGEST, description="SHA-256 of the figure's pixels, in hex.", examples=[_A_DIGEST])
]
PageNumber = Annotated[int, PathParameter(ge=1, le=100_000, description="From 1.", examples=[12])]
VersionName = Annotated[str, StringConstraints(pattern=VERSION)]
VersionParameter = Annotated[
    str | None,
    QueryParameter(pattern=VERSION, description="A version; the live one by default.", examples=[A_VERSION]),
]
EvidenceIdParameter = Annotated[
    str,
    PathParameter(
        pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        description="The id of a row.",
        examples=["1b4db7eb-4057-5ddf-91e0-36dec72071f5"],
    ),
]
Question = Annotated[
    str, StringConstraints(min_length=1, max_length=QUERY_LIMIT), AfterValidator(_visible), Field(min_length=1)
]
BoxText = Annotated[str, StringConstraints(max_length=120), AfterValidator(_is_box)]


PresetName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,59}$")]
Changes = Annotated[ChangedSteps, Field(description='Steps of the preset to override: {"select": {"diversity": 0.5}}.')]


_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


def _decoded(text: str) -> bytes:
    try:
        picture = base64.b64decode(text, validate=True)
    except ValueError:
        raise ValueError("a picture is base64 of a file, without a media type before it") from None
    if not 0 < len(picture) <= PICTURE_LIMIT:
        raise ValueError(f"a picture has {PICTURE_LIMIT // 1024**2} MiB at most, and isn't empty")
    return picture


Picture = Annotated[
    bytes,
    BeforeValidator(lambda text: _decoded(text) if isinstance(text, str) else text),
    WithJsonSchema({"type": "string", "contentEncoding": "base64", "minLength": 4, "pattern": _BASE64}),
]


_PICTURE_FIELD = re.compile(rb'"picture"\s*:\s*"[A-Za-z0-9+/=\\]*"')


class QuestionRoute(APIRoute):
    """A route that refuses a body which is large without its picture, before it is parsed."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of the route's requests."""
        handle = super().get_route_handler()

        async def checked(request: Request) -> Response:
            body = await request.body()
            if len(body) > BODY_LIMIT and len(_PICTURE_FIELD.sub(b"", body, 1)) > BODY_LIMIT:
                raise HTTPException(413, f"the request body without its picture is larger than {BODY_LIMIT // 1024} KiB")
            return await handle(request)

        return checked


_DEPTH = 8
"""Levels of a request's body."""


def _floats_to_integers(body: Any, depth: int = _DEPTH) -> Any:
    """Return JSON with integers in place of numbers such as 5.0, which JSON Schema has as integers too."""
    match body:
        case float() if body.is_integer():
            return int(body)
        case dict() if depth:
            return {name: _floats_to_integers(value, depth - 1) for name, value in body.items()}
        case list() if depth:
            return [_floats_to_integers(value, depth - 1) for value in body]
        case _:
            return body


class _Body(BaseModel):
    @model_validator(mode="before")
    @classmethod
    def _with_integers(cls, body: Any) -> Any:
        return _floats_to_integers(body)


class SearchRequest(_Body):
    """What to search for.

    To read page after page, send the ``version`` of the first reply and an ``offset`` that grows by ``k``: no hit is repeated or
    skipped, even if another version is published meanwhile.
    """

    # That one of query and picture is required stays prose: of an anyOf, generators of clients keep the alternatives alone.
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"query": "oil filter", "k": 10, "filters": {"sources": ["pumps/**"]}}]},
    )

    query: Annotated[str, StringConstraints(max_length=QUERY_LIMIT), AfterValidator(_visible)] = Field(
        "", description="In plain words; optional where there is a picture."
    )
    picture: Picture | None = Field(
        None,
        description="A PNG, JPEG, WebP, GIF or BMP in base64, of at most 8 MiB and 25 million pixels, alone or with a query. "
        "Without a preset, the default is used if it takes pictures, or else the first that does.",
    )
    preset: PresetName | None = Field(
        None, description="A retrieval preset of /v1/corpora/{corpus}/presets; null for the corpus's default."
    )
    steps: Changes = ChangedSteps()
    k: int | None = Field(
        None, strict=True, ge=1, le=100, description="Maximum hits; null for the preset's number, or else 10."
    )
    offset: int = Field(0, strict=True, ge=0, le=100, description="Hits to skip.")
    filters: Filters = Filters()
    version: VersionName | None = None
    group: GroupBy | None = Field(
        None,
        description="Return the best hit of each page or document; k and offset count groups, and more counts the other hits.",
    )
    highlight: bool | None = Field(
        None,
        strict=True,
        description="null: mark the words of the query in each hit; true: its sentence nearest to the query in meaning too, "
        "which takes time for each hit; false: nothing, which is fastest.",
    )
    trace: bool = Field(False, strict=True, description="Report what each step did.")

    @model_validator(mode="after")
    def _has_query(self) -> "SearchRequest":
        if not self.query and self.picture is None:
            raise ValueError("give a query, a picture, or both")
        return self

    def as_query(self) -> Query:
        """Return the request as the corpus takes it."""
        fields = {name: value for name, value in self if name in Query.__dataclass_fields__}
        return Query(**{**fields, "steps": self.steps.given})


MOST_TURNS = 10
"""Maximum turns of a conversation that a request may send."""


class AnswerRequest(_Body):
    """What to answer."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"question": "How is the oil filter replaced?"}]}
    )

    question: Question
    answer: PresetName | None = Field(
        None, description="An answer preset of /v1/corpora/{corpus}/answers; null for the corpus's default."
    )
    settings: Annotated[
        AnswerSettings, Field(description='Settings of the answer preset to override: {"max_images": 4}.')
    ] = AnswerSettings()
    preset: PresetName | None = Field(
        None, description="A retrieval preset; null for that of the answer preset, or else the corpus's default."
    )
    steps: Changes = ChangedSteps()
    picture: Picture | None = Field(
        None,
        description="A picture in base64 that goes with the question; the retrieval preset must take pictures.",
    )
    filters: Filters = Filters()
    version: VersionName | None = None
    history: Annotated[list[Turn], Field(max_length=MOST_TURNS)] = Field(
        [],
        description="The turns before a follow-up question, oldest first. What it refers to is carried over: words, and the "
        "document that the last answer cites first; follow_up of the answer says how it was understood.",
    )
    stream: bool = Field(False, strict=True, description="Send the answer as server-sent events while it is written.")
    trace: bool = Field(False, strict=True, description="Report what each step did.")

    def as_query(self) -> AnswerQuery:
        """Return the request as the corpus takes it."""
        fields = {name: value for name, value in self if name in AnswerQuery.__dataclass_fields__}
        settings = self.settings.model_dump(exclude_unset=True)
        return AnswerQuery(**{**fields, "settings": settings, "steps": self.steps.given})


_DAY_S = 24 * 3600

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)
"""One range; longer numbers are ignored, since int() takes no thousands of digits."""

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "A mistake that only the corpus can see, such as a filter it doesn't know."},
    401: {"model": Problem, "description": "A key is needed, or the one that is sent is unknown or has expired."},
    403: {"model": Problem, "description": "The key may not ask for this."},
    404: {"model": Problem, "description": "No such corpus, version, document, page or figure."},
    422: {"model": Problem, "description": "The request is not well-formed."},
    429: {"model": Problem, "description": "The key sends too many requests; Retry-After says when to go on."},
    503: {"model": Problem, "description": "The index or the store does not answer now; try again."},
}

QUESTION_ERRORS = ERRORS | {
    413: {"model": Problem, "description": "The body is too large, with its picture or without it."},
}


def example(value: Any) -> dict[int | str, dict[str, Any]]:
    """Return the responses of an operation with an example of its success; those with parameters have examples of these."""
    return {200: {"content": {"application/json": {"example": value}}}}


def corpora_of(request: Request) -> Mapping[str, PublishedCorpus]:
    """Return the corpora that the caller may see, by name, each as the caller sees it: the only way from a route to one."""
    corpora, principals = visible(request, request.app.state.corpora), caller_of(request.scope).principals
    return {name: corpus.for_reader(principals) for name, corpus in corpora.items()}


def admission_of(request: Request) -> Admission:
    """Return what admits requests."""
    return cast(Admission, request.app.state.admission)


def cache_control(version: str | None, pinned: str = f"public, max-age={_DAY_S}") -> str:
    """Return the caching of an artifact: without a version it is revalidated, since another may be live by then."""
    return pinned if version is not None else "no-cache"


def file_response(
    request: Request, body: bytes, media_type: str, headers: Mapping[str, str], *, ranges: bool = False
) -> Response:
    """Return a file with an ETag: 304 where the client has it already, 206 for a part of it (RFC 9110, sections 13 and 14).

    With ``ranges`` the client may ask for a part; several parts at once get the whole file.
    """
    etag = f'"{hashlib.sha256(body).hexdigest()}"'
    response_headers = {**headers, "etag": etag, **({"accept-ranges": "bytes"} if ranges else {})}
    cached_tags = request.headers.get("if-none-match")
    if cached_tags is not None and any(tag.strip().removeprefix("W/") in {etag, "*"} for tag in cached_tags.split(",")):
        return Response(status_code=304, headers=response_headers)
    part = _RANGE.fullmatch(request.headers.get("range", "").strip()) if ranges else None
    # With If-Range of another state of the file, a part of this one would not fit what the client has.
    if part is None or part[0] == "bytes=-" or request.headers.get("if-range", etag) != etag:
        return Response(body, media_type=media_type, headers=response_headers)
    size = len(body)
    if part[1]:
        first, last = int(part[1]), min(int(part[2] or size), size - 1)
        if part[2] and int(part[2]) < first:  # no range at all
            return Response(body, media_type=media_type, headers=response_headers)
    else:
        first, last = max(size - int(part[2]), 0), size - 1
    if first > last:
        return Response(status_code=416, headers={**response_headers, "content-range": f"bytes */{size}"})
    response_headers["content-range"] = f"bytes {first}-{last}/{size}"
    return Response(body[first : last + 1], 206, media_type=media_type, headers=response_headers)


def only_declared(request: Request) -> None:
    """Refuse (422) query parameters that a route doesn't have: a mistyped ``version`` would give the live one."""
    if not request.query_params:
        return
    path = request.app.openapi()["paths"].get(request.scope["route"].path)
    if path is None:  # a page, whose address may hold what it shows
        return
    parameters = path[request.method.lower()].get("parameters", [])
    declared = [parameter["name"] for parameter in parameters if parameter["in"] == "query"]
    if unknown := [name for name in request.query_params if name not in declared]:
        declared_names = f"there are {', '.join(declared)}" if declared else "there is none here"
        raise HTTPException(422, f"there is no parameter {unknown[0][:100]!r}; {declared_names}")


def corpus_of(request: Request, corpus: CorpusName) -> PublishedCorpus:
    """Return a corpus as the caller sees it; raise ``NotFoundError`` if it isn't there for the caller."""
    corpora = corpora_of(request)
    if corpus not in corpora:
        served = f"served here: {', '.join(corpora)}" if corpora else "none is served here"
        raise NotFoundError(f"there is no corpus '{corpus[:100]}'; {served}")
    note_corpus(request, corpus)
    if corpora[corpus].has_rights:
        note_rights(request)
    return corpora[corpus]


Corpus = Annotated[PublishedCorpus, Depends(corpus_of)]
