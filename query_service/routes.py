"""What routes of corpora share: the corpus that a path names, errors, caching, and files with ranges."""

import hashlib
import re
from collections.abc import Mapping
from typing import Annotated, Any, cast

from fastapi import Depends, Request, Response
from starlette.exceptions import HTTPException

from pipeline.published.corpus import PublishedCorpus
from query_service.access import visible
from query_service.access_log import note_corpus
from query_service.admission import Admission
from query_service.errors import Problem
from query_service.requests import CorpusName
from schemas.errors import NotFoundError

_DAY_S = 24 * 3600

CLIENT_GONE = 499  # as nginx logs it; no client receives it

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


def example(value: Any, media_type: str = "application/json") -> dict[int | str, dict[str, Any]]:
    """Return the responses of an operation with an example of its success; those with parameters have examples of these."""
    return {200: {"content": {media_type: {"example": value}}}}


def corpora_of(request: Request) -> Mapping[str, PublishedCorpus]:
    """Return the corpora that the caller may see, by name."""
    return visible(request, cast(Mapping[str, PublishedCorpus], request.app.state.corpora))


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


def _corpus(request: Request, corpus: CorpusName) -> PublishedCorpus:
    corpora = corpora_of(request)
    if corpus not in corpora:
        served = f"served here: {', '.join(corpora)}" if corpora else "none is served here"
        raise NotFoundError(f"there is no corpus '{corpus[:100]}'; {served}")
    note_corpus(request, corpus)
    return corpora[corpus]


Corpus = Annotated[PublishedCorpus, Depends(_corpus)]
